"""Dialects: how instrumentations write tool calls, one file each (R2).

A dialect file imports its parts from here: a `DialectTable` with `Rule`s and `Source`s, or the protocol `Dialect` for a
class of its own. `goldspan.mappers.installed_dialects` lists the dialects in order of precedence.
How their parts are read is in `reading/`.
"""

from __future__ import annotations

from goldspan.mappers.dialects.reading.dialect_table import Affixes, DialectTable, Elision, Rule, Source
from goldspan.mappers.dialects.reading.protocol import (
    Advice,
    Dialect,
    LogDialect,
    LogReading,
    Reading,
    Stack,
    advice_for,
    stack_of,
)

__all__ = [
    "Advice",
    "Affixes",
    "Dialect",
    "DialectTable",
    "Elision",
    "LogDialect",
    "LogReading",
    "Reading",
    "Rule",
    "Source",
    "Stack",
    "advice_for",
    "stack_of",
]
