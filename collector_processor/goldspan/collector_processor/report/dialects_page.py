"""The dialects that are read: what is read from where, and what to switch on."""

from __future__ import annotations

from typing import Any

from goldspan.collector_processor.replay.hints import advice_of
from goldspan.collector_processor.report.layout import Page, counted
from goldspan.mappers.assembly import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Dialect, DialectTable, Source

_LABEL = 14


def dialects_page(page: Page, registry: DialectRegistry) -> None:
    """Add every dialect in the order of precedence."""
    for dialect in registry.dialects:
        known = describe(dialect)
        advice = known["advice"]
        page.blank()
        page.line((known["name"], "bold"), f"  {known['title']}")
        for label, key in (("tool name", "tool_name"), ("arguments", "arguments"), ("call id", "call_id")):
            if known[key]:
                page.paragraph(", ".join(known[key]), indent=2, label=f"{label:<{_LABEL}}")
        if known["session_keys"]:
            page.paragraph(", ".join(known["session_keys"]), indent=2, label=f"{'session id':<{_LABEL}}")
        for label, text in (("to have args", advice["arguments"]), ("to have ids", advice["session"])):
            if text:
                page.paragraph(text, indent=2, label=f"{label:<{_LABEL}}")
        if known["docs"]:
            page.line((f"{'':<{_LABEL}}{known['docs']}", "dim"), indent=2)
    page.blank()
    keys = ", ".join(DEFAULT_SESSION_KEYS)
    page.paragraph(f"In every dialect the session id is read from the first of these that is there: {keys}.")
    page.blank()
    page.paragraph(
        f"{counted(len(registry.dialects), 'dialect')}; a span may be read by several. "
        "Other packages add theirs in the entry-point group goldspan.dialects."
    )


def dialects_json(registry: DialectRegistry) -> dict[str, Any]:
    """Return the same as a document."""
    return {
        "dialects": [describe(dialect) for dialect in registry.dialects],
        "session_keys": list(DEFAULT_SESSION_KEYS),
    }


def describe(dialect: Dialect) -> dict[str, Any]:
    """Say what a dialect reads; one that is no table says only its name, its markers and its advice."""
    table = dialect if isinstance(dialect, DialectTable) else None
    advice = advice_of(dialect)
    return {
        "name": dialect.name,
        "title": table.title if table else "",
        "docs": table.docs if table else "",
        "markers": sorted(dialect.markers),
        "tool_name": [*table.tool_name, "the span's name"] if table else [],
        "arguments": _places(table.arguments) if table else [],
        "call_id": _places(table.call_id) if table else [],
        "session_keys": list(table.session_keys) if table else [],
        "advice": {"arguments": advice.arguments, "session": advice.session},
    }


def _places(sources: tuple[Source, ...]) -> list[str]:
    return [f"event {source.event}: {source.key}" if source.event else source.key for source in sources]
