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
