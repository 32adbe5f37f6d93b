"""An agent that calls tools as it is told, traced by OpenTelemetry's GenAI conventions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.trace import SpanKind, Tracer

from goldspan.scoring.goldens import ExpectedCall, Golden, GoldenSet, GoldenTurn

Call = tuple[str, dict[str, Any]]

PARIS: Call = ("get_weather", {"city": "Paris", "unit": "celsius"})
ROME: Call = ("get_weather", {"city": "Rome", "unit": "celsius"})
CONVERT: Call = ("convert", {"value": 21.5})


def run_turn(
    tracer: Tracer,
    session: str | None,
    calls: Sequence[Call],
    name: str = "invoke_agent weather",
    attributes: Mapping[str, str] | None = None,
) -> None:
    """One turn: an agent span, with further `attributes`, over a chat span and one tool span for each call."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather", "gen_ai.provider.name": "test"}
    agent.update(attributes or {})
    if session is not None:
        agent["gen_ai.conversation.id"] = session
    with tracer.start_as_current_span(name, attributes=agent):
        with tracer.start_as_current_span(
            "chat test-model", kind=SpanKind.CLIENT, attributes={"gen_ai.operation.name": "chat"}
        ):
            pass
        for number, (tool, arguments) in enumerate(calls):
            of_tool = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": f"call-{number}",
                "gen_ai.tool.call.arguments": json.dumps(arguments),
            }
            with (
                tracer.start_as_current_span(f"execute_tool {tool} {number}", attributes=of_tool),
                tracer.start_as_current_span("GET", kind=SpanKind.CLIENT) as http,
            ):
                http.update_name(f"GET {number}")


def golden_set(*goldens: Golden) -> GoldenSet:
    """A named set of these goldens."""
    return GoldenSet("weather", "3", digest="0123456789abcdef", goldens=goldens, source="weather.yaml")


def golden(session: str, *turns: Sequence[Call]) -> Golden:
    """What a session should have called, turn by turn."""
    expected = tuple(GoldenTurn(tuple(ExpectedCall(*call) for call in calls)) for calls in turns)
    return Golden(session, expected, golden_set="weather@3", digest="0123456789abcdef", source="weather.yaml:1")
