# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "mcp==2.3.0",
#   "openinference-instrumentation-mcp==2.0.13",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""An MCP client and server, as the SDK itself writes them, under an agent's span and alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import scenario
from mcp import Client
from mcp.server import MCPServer
from openinference.instrumentation.mcp import MCPInstrumentor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Call, Turn


def server() -> MCPServer:
    one = MCPServer("ops")
    for tool in scenario.TOOLS:
        one.tool(name=tool.__name__)(tool)
    return one


def sdk(recorder: Recorder) -> trace.Tracer:
    recorder.trace()
    return trace.get_tracer("weather_app")


async def ask(client: Client, call: Call) -> None:
    """Call a tool; what comes of it is the server's to say."""
    await client.call_tool(call.name, call.arguments)


def converse(
    tracer: trace.Tracer,
    turns: Iterable[Turn],
    turn: dict[str, Any] | None,
    tool: Callable[[Call], dict[str, Any]] | None,
) -> None:
    """Play the turns under a span each, and the calls under one each, where attributes are given for them."""

    def spanned(name: str, attributes: dict[str, Any] | None) -> AbstractContextManager[Any]:
        return nullcontext() if attributes is None else tracer.start_as_current_span(name, attributes=attributes)

    async def run() -> None:
        async with Client(server()) as client:
            for one in turns:
                with spanned("invoke_agent weather_agent", turn):
                    for step in one.steps:
                        for call in () if isinstance(step, str) else step:
                            with spanned(f"execute_tool {call.name}", tool and tool(call)):
                                await ask(client, call)

    asyncio.run(run())


AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": scenario.AGENT,
    "gen_ai.conversation.id": scenario.SESSION,
}


def execution(call: Call) -> dict[str, Any]:
    """The client's own span, as OpenTelemetry's conventions have it."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.call.arguments": call.json,
    }


@recording("mcp-native-under-agent")
def under_agent(recorder: Recorder) -> None:
    """Each call has the agent's span of it, and the server's inside."""
    converse(sdk(recorder), scenario.STANDARD, AGENT, execution)


@recording("mcp-native-server-spans-only")
def server_spans(recorder: Recorder) -> None:
    """The agent writes no span for a tool: the server's is all there is, without arguments."""
    converse(sdk(recorder), scenario.STANDARD, AGENT, None)


@recording("mcp-openinference-under-agent")
def openinference(recorder: Recorder) -> None:
    MCPInstrumentor().instrument(tracer_provider=recorder.trace())
    converse(trace.get_tracer("weather_app"), scenario.STANDARD, AGENT, execution)


main(__file__)
