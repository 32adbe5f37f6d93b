"""The Model Context Protocol: clients and servers that write spans of their own.

https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/ . A server's span is a call's inner side; where its caller is
not traced it makes no turn.
"""

from __future__ import annotations

from goldspan.mappers.dialects import Affixes, DialectTable, Role, Rule

_METHOD = "mcp.method.name"
_SERVER = 2

MCP = DialectTable(
    name="mcp",
    title="Model Context Protocol",
    docs="https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/",
    rules=(
        Rule(Role.TOOL, _METHOD, frozenset({"tools/call"}), kind=_SERVER, no_turn=True),
        # FastMCP hands a call on to a server that is mounted in another.
        Rule(Role.TOOL, _METHOD, frozenset({"tools/call"}), name_prefix="delegate ", pseudo=True),
        Rule(Role.TOOL, _METHOD, frozenset({"tools/call"})),
    ),
    tool_name=("gen_ai.tool.name", "mcp.tool.name"),
    span_name_affixes=Affixes(prefixes=("tools/call ",)),
)
