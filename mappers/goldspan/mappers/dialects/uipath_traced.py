"""UiPath's `@traced` functions: OpenInference on tools, a type of their own on everything else.

https://uipath.github.io/uipath-python/core/traced/
"""

from __future__ import annotations

from goldspan.mappers.dialects import DialectTable, Role, Rule, Source
from goldspan.mappers.dialects.reading.value_parsing import only_text, plain_text

UIPATH = DialectTable(
    name="uipath",
    title="UiPath traced functions",
    docs="https://uipath.github.io/uipath-python/core/traced/",
    rules=(
        Rule(Role.TOOL, "span_type", frozenset({"tool", "TOOL"})),
        Rule(Role.AGENT, "span_type", frozenset({"agent", "AGENT"})),
    ),
    tool_name=("tool.name",),
    arguments=(Source("input.value"),),
    result=(Source("output.value"),),
    user_text=(Source("input.value", take=only_text),),
    answer=(Source("output.value", take=plain_text),),
)
