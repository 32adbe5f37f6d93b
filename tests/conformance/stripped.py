"""A recording without the arguments on its tool spans, as if the instrumentation had not written them there.

What is taken away is whatever any dialect reads arguments from: attributes, attributes under a prefix, span events.
"""

from __future__ import annotations

from typing import Any

from conformance.single_records import Document, changed
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import DialectTable
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import Role
from goldspan.mappers.spans import LogView

_REGISTRY = DialectRegistry()
_TABLES = [dialect for dialect in _REGISTRY.dialects if isinstance(dialect, DialectTable)]
_SOURCES = [source for table in _TABLES for source in table.arguments]
_ATTRIBUTES = {source.key for source in _SOURCES if not source.event}
_EVENTS = {source.event for source in _SOURCES if source.event}
_PREFIXES = tuple(table.flattened_arguments for table in _TABLES if table.flattened_arguments)
_MARKERS = {key for table in _TABLES for rule in table.rules for key in (rule.key, *rule.also)}
"""Some dialects know a tool span by its arguments only. These are emptied, lest there be no tool span left."""


def is_tool_span(document: Document) -> bool:
    (view,) = views(document, lambda problem: None)
    return not isinstance(view, LogView) and _REGISTRY.read(view).role is Role.TOOL


def without_arguments(document: Document) -> Document:
    """The same tool span, with nothing left that a dialect reads arguments from."""
    return changed(document, _stripped)


def _stripped(span: dict[str, Any]) -> dict[str, Any]:
    attributes = [_emptied(one) if one["key"] in _MARKERS else one for one in span.get("attributes", ())]
    return {
        **span,
        "attributes": [one for one in attributes if one["key"] in _MARKERS or not _holds_arguments(one["key"])],
        "events": [event for event in span.get("events", ()) if event.get("name") not in _EVENTS],
    }


def _emptied(attribute: dict[str, Any]) -> dict[str, Any]:
    return {**attribute, "value": {"stringValue": ""}} if _holds_arguments(attribute["key"]) else attribute


def _holds_arguments(key: str) -> bool:
    return key in _ATTRIBUTES or key.startswith(_PREFIXES)
