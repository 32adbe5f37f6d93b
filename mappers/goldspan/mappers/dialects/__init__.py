"""Dialects: how instrumentations write tool calls, one file each (R2).

A dialect file imports its parts from here: a `DialectTable` with `Rule`s and `Source`s, or the protocol `Dialect` for a
class of its own. `goldspan.mappers.installed_dialects` lists the dialects in order of precedence.
How their parts are read is in `reading/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goldspan.scoring.names_on_use import names_on_use

if TYPE_CHECKING:
    from goldspan.mappers.dialect_registry import DialectRegistry
    from goldspan.mappers.dialects.reading.dialect_table import Affixes, DialectTable, Elision, Rule, Source
    from goldspan.mappers.dialects.reading.protocol import Advice, Dialect, LogDialect, LogReading, Reading
    from goldspan.mappers.dialects.reading.value_parsing import at
    from goldspan.mappers.span_facts import Role, ToolFacts
    from goldspan.mappers.spans import Attributes, SpanView

__all__ = [
    "Advice",
    "Affixes",
    "Attributes",
    "Dialect",
    "DialectRegistry",
    "DialectTable",
    "Elision",
    "LogDialect",
    "LogReading",
    "Reading",
    "Role",
    "Rule",
    "Source",
    "SpanView",
    "ToolFacts",
    "at",
]

__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "goldspan.mappers.dialect_registry": "DialectRegistry",
        "goldspan.mappers.dialects.reading.dialect_table": "Affixes DialectTable Elision Rule Source",
        "goldspan.mappers.dialects.reading.protocol": "Advice Dialect LogDialect LogReading Reading",
        "goldspan.mappers.dialects.reading.value_parsing": "at",
        "goldspan.mappers.span_facts": "Role ToolFacts",
        "goldspan.mappers.spans": "Attributes SpanView",
    },
)
