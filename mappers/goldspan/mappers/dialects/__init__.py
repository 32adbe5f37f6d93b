"""Dialects: how instrumentations write tool calls, one file each (R2).

    SpanView -> DialectRegistry.read -> SpanFacts

Most dialects are a `DialectTable`; any object with a name, markers and `read(span)` is one.
"""

from __future__ import annotations

from goldspan.mappers.dialects.dialect import Advice, Dialect, Reading
from goldspan.mappers.dialects.registry import DialectRegistry, default_dialects
from goldspan.mappers.dialects.rules import Rule
from goldspan.mappers.dialects.sources import Source
from goldspan.mappers.dialects.table import Affixes, DialectTable, Elision

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
