"""Reads the spans of Ferry, an agent framework invented for this example."""

from __future__ import annotations

from goldspan.mappers.dialects import Advice, DialectTable, Role, Rule, Source

FERRY = DialectTable(
    name="ferry",
    title="Ferry",
    docs="https://ferry.example.com/telemetry",
    advice=Advice(arguments="Start Ferry with FERRY_WRITE_INPUT=1.", session='Call ferry.sail(voyage="...").'),
    rules=(
        Rule(Role.TOOL, "ferry.step", frozenset({"tool"})),
        Rule(Role.MODEL, "ferry.step", frozenset({"thought"})),
        Rule(Role.AGENT, "ferry.step", frozenset({"crossing"})),
    ),
    tool_name=("ferry.tool",),
    arguments=(Source("ferry.input"),),
    call_id=(Source("ferry.call"),),
    result=(Source("ferry.output"),),
    error_flags=(("ferry.sank", True),),
    output=(Source("ferry.said"),),
    user_text=(Source("ferry.asked"),),
    session_keys=("ferry.voyage",),
)
