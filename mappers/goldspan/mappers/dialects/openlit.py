"""OpenLIT's `@openlit.trace`: functions with arguments as Python reprs, and no attribute that marks tools.

https://docs.openlit.io/latest/sdk/features/tracing . A traced function without a parent is taken for the turn, one
inside another for a tool. One that fails has no attribute at all.
"""

from __future__ import annotations

from typing import Any

from goldspan.mappers.dialects import Attributes, DialectTable, Role, Rule, Source, SpanView
from goldspan.mappers.dialects.reading.value_parsing import plain_text


def _arguments(_: SpanView, attributes: Attributes) -> Any:
    """Return the named arguments, or all of them as one text if some are positional."""
    positional, named = attributes.get("function.args"), attributes.get("function.kwargs")
    return named if positional in (None, "()", "[]") else f"{positional}{named}"


def _question(_: SpanView, attributes: Attributes) -> Any:
    """Return the only argument of the outermost function, if it is a text."""
    positional = attributes.get("function.args")
    if isinstance(positional, str) and positional[:2] in {"('", '("'} and positional.endswith(",)"):
        return positional[2:-3]
    return None


OPENLIT = DialectTable(
    name="openlit",
    title="OpenLIT",
    docs="https://docs.openlit.io/latest/sdk/features/tracing",
    rules=(
        Rule(Role.TOOL, "function.kwargs", parent=True),
        Rule(Role.AGENT, "function.kwargs", parent=False),
        Rule(Role.TOOL, scope="openlit", parent=True),
    ),
    arguments=(Source("function.kwargs", compute=_arguments),),
    result=(Source("gen_ai.output.messages"), Source("gen_ai.completion")),
    user_text=(Source("function.args", compute=_question),),
    answer=(Source("gen_ai.output.messages", take=plain_text), Source("gen_ai.completion", take=plain_text)),
)
