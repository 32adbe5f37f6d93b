"""What can be seen of SDK spans from outside: the keys of their attributes, and what stands under some of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from goldspan.mappers.dialects import DialectRegistry
from goldspan.mappers.dialects.identifiers import identifier
from goldspan.mappers.readers.sdk import SdkReader, attributes_of, is_entry


class Glance(NamedTuple):
    """What is seen of some spans of a trace."""

    plain: Sequence[ReadableSpan]
    """Those that no dialect marks."""
    marked: Sequence[ReadableSpan]
    session_ids: Mapping[str, None]
    is_opaque: bool
    """A dialect that has ways of its own to tell session ids, or speaks of other traces, marks some of them."""


class Look:
    """Looks at spans by the keys that the dialects of a registry know."""

    def __init__(self, registry: DialectRegistry, views: SdkReader) -> None:
        """Resources are read by `registry`, through `views`."""
        self._registry = registry
        self._views = views

    def at(self, spans: Iterable[ReadableSpan]) -> Glance:
        """Look at spans of one trace; this is done to every span there is."""
        registry = self._registry
        (keys, bare_scopes), session_keys, opaque = registry.markers, registry.session_keys, registry.opaque_markers
        plain: list[ReadableSpan] = []
        marked: list[ReadableSpan] = []
        session_ids: dict[str, None] = {}
        resource: object = None
        is_opaque = False
        for span in spans:
            attributes = attributes_of(span)
            hits = keys.intersection(attributes)
            if not hits and (attributes or scope_of(span) not in bare_scopes):
                plain.append(span)
                continue
            marked.append(span)
            if not session_keys.isdisjoint(hits):
                session_ids.update(self._named(attributes))
            if span.resource is not resource:
                resource = span.resource
                told = registry.resource(self._views.resource(resource)).session_keys
                session_ids.update((session_id, None) for _, session_id in told)
            is_opaque = is_opaque or not opaque.isdisjoint(hits)
        return Glance(plain, marked, session_ids, is_opaque)

    def sessions_of(self, running: ReadableSpan) -> list[str]:
        """Return the sessions that a span names which has not ended: its attributes may change while one looks."""
        return [session_id for session_id, _ in self._named(dict(running.attributes or {}))]

    def _named(self, attributes: Mapping[str, Any]) -> Iterator[tuple[str, None]]:
        for key in self._registry.session_keys.intersection(attributes):
            if (session_id := identifier(attributes[key])) is not None:
                yield session_id, None

    def plain_below(self, spans: Iterable[ReadableSpan]) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
        """Tell plain spans below others, of which nothing but their places matters, from the rest."""
        keys, bare_scopes = self._registry.markers
        plain: list[ReadableSpan] = []
        others: list[ReadableSpan] = []
        for span in spans:
            attributes: Mapping[str, Any] = attributes_of(span)
            bare = keys.isdisjoint(attributes) and (attributes or scope_of(span) not in bare_scopes)
            (plain if bare and not is_root(span) else others).append(span)
        return plain, others


def is_root(span: ReadableSpan) -> bool:
    """Tell whether a span is the first one of its trace in this process."""
    return span.parent is None or span.parent.is_remote or is_entry(span.kind)


def scope_of(span: ReadableSpan) -> str:
    """Return the name of the scope a span was written in; empty where it has none."""
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name
