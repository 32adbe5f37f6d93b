"""Genkit beyond its recordings: tools that ask a person, tools of several parts, turns without a flow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring.sessions import Session

PARIS = {"city": "Paris"}
ASKED = {"message": {"role": "model", "content": [{"toolRequest": {"name": "weather", "ref": "r1", "input": PARIS}}]}}


def span(
    name: str, parent: str, subtype: str, given: Any = None, output: Any = None, *, raised: str = "", **more: str
) -> dict[str, Any]:
    written = {"genkit:name": name.partition("#")[0], "genkit:metadata:subtype": subtype} | {
        f"genkit:{key}": value for key, value in more.items()
    }
    written |= {
        f"genkit:{key}": json.dumps(value) for key, value in (("input", given), ("output", output)) if value is not None
    }
    exception = {"name": "exception", "attributes": [{"key": "exception.type", "value": {"stringValue": raised}}]}
    return {
        "traceId": "a" * 32,
        "spanId": name.encode().hex().ljust(16, "0")[-16:],
        "parentSpanId": parent.encode().hex().ljust(16, "0")[-16:] if parent else "",
        "name": name,
        "status": {"code": 2} if raised else {},
        "events": [exception] if raised else [],
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in written.items()]
        + ([] if parent else [{"key": "genkit:isRoot", "value": {"boolValue": True}}]),
    }


def read(*spans: dict[str, Any]) -> Session:
    """Read the session of these spans, each of which begins after the one before."""
    for number, one in enumerate(spans, start=1):
        one |= {"startTimeUnixNano": str(number), "endTimeUnixNano": str(number + 1)}
    [session] = read_sessions(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "genkit-tracer"}, "spans": list(spans)}]}]}
    )
    return session


@pytest.mark.parametrize("raised", ["ToolInterruptError", "*ai.toolInterruptError"])
def test_a_tool_that_asks_a_person_is_requested_until_it_runs(raised: str) -> None:
    flow, model = span("f", "", "flow", {"sessionId": "s1"}), span("m", "f", "model", {}, ASKED)
    waiting = span("weather", "f", "tool", PARIS, raised=raised)
    [asked] = read(flow, model, waiting).turns[0].calls
    assert (asked.name, asked.arguments, asked.requested, asked.error) == ("weather", PARIS, True, None)
    [ran] = read(flow, model, waiting, span("weather#2", "f", "tool", PARIS, {"temp": 21})).turns[0].calls
    assert (ran.arguments, ran.requested) == (PARIS, False)


def test_the_result_of_a_tool_of_several_parts_is_its_output() -> None:
    tool = span("weather", "f", "tool.v2", PARIS, {"output": {"temp": 21}, "content": [{"text": "warm"}]})
    [call] = read(span("f", "", "flow", {"sessionId": "s1"}), tool).turns[0].calls
    assert (call.name, call.arguments, call.result.value) == ("weather", PARIS, {"temp": 21})


@pytest.mark.parametrize(
    ("given", "session"), [({"sessionId": "s1"}, "s1"), ({"thread_id": "t1"}, "t1"), ("Weather?", "a" * 32)]
)
def test_a_flow_names_its_session_in_its_input_or_not_at_all(given: Any, session: str) -> None:
    found = read(span("f", "", "flow", given), span("weather", "f", "tool", PARIS))
    assert (found.id, len(found.turns)) == (session, 1)


def test_a_generate_of_its_own_is_a_turn_however_deep_its_steps_nest() -> None:
    found = read(
        span("generate", "", "", {}, type="util"),
        span("m", "generate", "model", {}, ASKED),
        span("weather", "generate", "tool", PARIS),
        span("generate#2", "generate", "", {}, type="util"),
        span("zoo", "generate#2", "tool", {}),
    )
    assert [[call.name for call in turn.calls] for turn in found.turns] == [["weather", "zoo"]]
