"""Dialects: how instrumentations write tool calls, one file each (R2).

    SpanView -> DialectRegistry.read -> SpanFacts

Most dialects are a `DialectTable`; any object with a name, markers and `read(span)` is one.
"""

from __future__ import annotations

from goldspan.mappers.dialect_registry import DialectRegistry, default_dialects
from goldspan.mappers.dialects.reading.dialect_table import Affixes, DialectTable, Elision
from goldspan.mappers.dialects.reading.protocol import Advice, Dialect, Reading
from goldspan.mappers.dialects.reading.rules import Rule, Source

__all__ = [
    "Advice",
    "Affixes",
    "Dialect",
    "DialectRegistry",
    "DialectTable",
    "Elision",
    "Reading",
    "Rule",
    "Source",
    "default_dialects",
]
