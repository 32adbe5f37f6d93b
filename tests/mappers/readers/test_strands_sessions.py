"""Sessions of Strands Evals: objects and JSON, with and without agents, ids, parents and times."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring import Session, score_sessions
from goldspan.scoring.errors import Problem

TOOLS = [
    {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
]


def info(span_id: str | None, start: int, parent: str | None = None) -> dict[str, Any]:
    return {
        "span_id": span_id,
        "parent_span_id": parent,
        "trace_id": "t",
        "session_id": "s",
        "start_time": f"2026-01-01T00:00:{start:02}.000000Z",
        "end_time": f"2026-01-01T00:00:{start + 1:02}.000000Z",
    }


def agent(span_id: str | None, start: int, prompt: str, parent: str | None = None) -> dict[str, Any]:
    return {
        "span_info": info(span_id, start, parent),
        "user_prompt": prompt,
        "agent_response": f"{prompt}: done",
        "available_tools": TOOLS,
        "system_prompt": "The default city is Oslo.",
    }


def tool(span_id: str | None, start: int, city: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "span_info": info(span_id, start, parent),
        "tool_call": {"name": "get_weather", "arguments": {"city": city}, "tool_call_id": f"c-{city}"},
        "tool_result": {"content": "sunny", "error": None, "tool_call_id": f"c-{city}"},
        **more,
    }


def model(span_id: str, start: int, prompt: str, city: str) -> dict[str, Any]:
    request = {"name": "get_weather", "arguments": {"city": city}, "tool_call_id": f"c-{city}"}
    return {
        "span_info": info(span_id, start, "gone"),
        "messages": [
            {"role": "user", "content": [{"content_type": "text", "text": prompt}]},
            {"role": "assistant", "content": [{"content_type": "tool_use", **request}]},
        ],
    }


def session(*traces: list[Any]) -> dict[str, Any]:
    written = [{"trace_id": f"t{number}", "session_id": "s", "spans": spans} for number, spans in enumerate(traces)]
    return {"session_id": "s", "traces": written}


class SessionObject:
    """What a session is to goldspan: it has the two fields, and writes itself."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.traces, self.session_id = document["traces"], document["session_id"]

    def __iter__(self) -> Any:
        return iter(vars(self).items())  # as pydantic's models do

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return vars(self)


def cities(found: Session) -> list[list[str]]:
    return [[call.arguments["city"] for call in turn.calls if call.arguments] for turn in found.turns]


TWO_TURNS = session(
    [agent("a", 0, "Paris?"), model("m", 1, "Paris?", "Paris"), tool("x", 2, "Paris", "gone")],
    [agent("b", 10, "And Rome?"), tool("y", 11, "Rome", "gone"), tool("z", 12, "Oslo", "gone")],
)


def test_a_trace_is_a_turn(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text(json.dumps(TWO_TURNS), "utf-8")
    for source in (TWO_TURNS, SessionObject(TWO_TURNS), [SessionObject(TWO_TURNS)], tmp_path / "session.json"):
        [found] = read_sessions(source)
        assert (found.id, cities(found)) == ("s", [["Paris"], ["Rome", "Oslo"]])
        assert [turn.user_text.value for turn in found.turns] == ["Paris?", "And Rome?"]
        assert [turn.answer.value for turn in found.turns] == ["Paris?: done", "And Rome?: done"]
        assert [call.call_id for turn in found.turns for call in turn.calls] == ["c-Paris", "c-Rome", "c-Oslo"]
        assert not any(call.requested for turn in found.turns for call in turn.calls)


def test_what_the_agent_was_told_and_its_tools_are_read() -> None:
    scored = {one.name: one.score for one in score_sessions(None, read_sessions(TWO_TURNS)).sessions[0].metrics}
    assert (scored["tool_parameter_grounding"], scored["tool_parameter_schema"]) == (1, 1)
    guessed = session([agent("a", 0, "Paris?"), tool("x", 1, "Lima", "gone")])
    scored = {one.name: one.score for one in score_sessions(None, read_sessions(guessed)).sessions[0].metrics}
    assert scored["tool_parameter_grounding"] == 0


def test_the_system_prompt_stands_before_every_model_call() -> None:
    told = session([agent("a", 0, "Weather?"), model("m", 1, "Weather?", "Oslo"), tool("x", 2, "Oslo", "gone")])
    scored = {one.name: one.score for one in score_sessions(None, read_sessions(told)).sessions[0].metrics}
    assert scored["tool_parameter_grounding"] == 1


def test_a_failed_call_says_why() -> None:
    failed = tool("x", 1, "Paris") | {"tool_result": {"content": "", "error": "no such city"}}
    [found] = read_sessions(session([agent("a", 0, "Paris?"), failed]))
    assert found.turns[0].calls[0].error == "no such city"


SHAPES = {
    "no agent": [tool("x", 1, "Paris"), tool("y", 2, "Rome")],
    "no ids": [agent(None, 0, "?"), tool(None, 1, "Paris"), tool(None, 2, "Rome")],
    "several agents": [
        agent("a", 0, "?"),
        agent("b", 1, "?", "x"),
        tool("x", 1, "Paris", "a"),
        tool("y", 2, "Rome", "b"),
    ],
    "two agents without parent": [agent("b", 2, "?"), agent("a", 0, "?"), tool("x", 1, "Paris"), tool("y", 3, "Rome")],
    "an agent beneath a call": [agent("a", 0, "?", "x"), tool("x", 1, "Paris", "a"), tool("y", 2, "Rome", "x")],
    "the agent that Strands Evals found": [
        agent("a", 0, "?"),
        tool("x", 1, "Paris", "gone", agent_span_id="a"),
        tool("y", 2, "Rome", "gone", agent_span_id="elsewhere"),
    ],
}


@pytest.mark.parametrize("spans", SHAPES.values(), ids=SHAPES)
def test_every_call_of_a_trace_is_in_its_turn_in_any_order(spans: list[dict[str, Any]]) -> None:
    for order in itertools.permutations(spans):
        if spans is SHAPES["no ids"] and order != tuple(spans):
            continue
        [found] = read_sessions(session(list(order)))
        assert (found.id, cities(found)) == ("s", [["Paris", "Rome"]])


def test_times_without_a_zone_are_utc() -> None:
    spans = [tool("x", 1, "Paris"), tool("y", 2, "Rome")]
    spans[0]["span_info"]["start_time"] = "2026-01-01T00:00:03"
    [found] = read_sessions(session(spans))
    assert cities(found) == [["Rome", "Paris"]]


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_read() -> None:
    problems: list[Problem] = []
    broken = session([agent("a", 0, "Paris?"), 5, tool("x", 1, "Paris"), {"span_info": None}], [])
    broken["traces"].append({"trace_id": "t9", "spans": None})
    found = read_sessions(broken, on_problem=problems.append)
    assert cities(found[0]) == [["Paris"]]
    assert problems
