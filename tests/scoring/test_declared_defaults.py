"""Arguments that were left out and have the declared default, as tool definitions in traces say it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers import read_sessions
from goldspan.scoring import (
    Capture,
    Content,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Session,
    ToolCall,
    Turn,
    score_session,
    score_turn,
)
from goldspan.scoring.tool_definitions import ToolsInForce
from rigs.repository import RECORDINGS

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}}
WRITTEN: dict[str, Any] = {
    "semantic conventions": [{"type": "function", "name": "get_weather", "parameters": SCHEMA}],
    "OpenAI": [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
    "Anthropic": [{"name": "get_weather", "input_schema": SCHEMA}],
    "MCP": {"tools": [{"name": "get_weather", "inputSchema": SCHEMA}]},
    "Google": [{"function_declarations": [{"name": "get_weather", "parameters_json_schema": SCHEMA}]}],
    "Bedrock": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": SCHEMA}}}],
    "pydantic-ai": {"function_tools": [{"name": "get_weather", "parameters_json_schema": SCHEMA}]},
    "Vercel": [json.dumps({"type": "function", "name": "get_weather", "inputSchema": SCHEMA})],
    "schema as text": [{"name": "get_weather", "parameters": json.dumps(SCHEMA)}],
}


def turn(definitions: Any, **args: Any) -> Turn:
    content = Content(json.dumps(definitions), Capture.CAPTURED)
    return Turn((ToolCall("get_weather", args),), tool_definitions=content)


def score(definitions: Any, expected: dict[str, Any], actual: dict[str, Any], **criterion: Any) -> float | None:
    return score_turn([{"name": "get_weather", "args": expected}], turn(definitions, **actual), criterion).verdict.score


@pytest.mark.parametrize("definitions", WRITTEN.values(), ids=WRITTEN)
def test_a_default_is_found_however_a_framework_writes_it(definitions: Any) -> None:
    assert score(definitions, {"city": "Paris", "days": 1}, {"city": "Paris"}) == 1
    assert score(definitions, {"city": "Paris", "days": 2}, {"city": "Paris"}, match_mode="name_only") == 0.5


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        (1, True),
        (1.0, True),
        (True, False),
        ("1", False),
        ({"$type": "integer"}, True),
        ({"$any_of": [1, 2]}, True),
        ({"$any_of": [2, 3]}, False),
        ({"$absent": True}, True),
        ({"$present": True}, False),
    ],
)
def test_the_default_is_compared_like_a_value_that_was_passed(expected: Any, right: bool) -> None:
    assert score(WRITTEN["OpenAI"], {"days": expected}, {}, match_mode="name_only") == right


@pytest.mark.parametrize("mode", ["name_only", "name_and_required_args", "name_and_args"])
def test_a_call_that_leaves_a_default_out_may_be_aligned(mode: str) -> None:
    [call] = score_turn(
        [{"name": "get_weather", "args": {"city": "Paris", "days": 1}}],
        turn(WRITTEN["OpenAI"], city="Paris"),
        {"match_mode": mode},
    ).calls
    assert call.aligned
    assert call.arguments[1].outcome == "matched"
    assert call.arguments[1].actual_value == 1


def test_a_wrong_value_is_wrong_whatever_the_default() -> None:
    assert score(WRITTEN["OpenAI"], {"days": 1}, {"days": 2}) == 0
    assert score(WRITTEN["OpenAI"], {"days": 1}, {"days": None}) == 0


def test_without_a_definition_nothing_is_assumed() -> None:
    for definitions in ([], [{"name": "other", "parameters": SCHEMA}], [{"name": "get_weather", "parameters": None}]):
        assert score(definitions, {"days": 1}, {}) == 0
    lost = Turn((ToolCall("get_weather"),), tool_definitions=Content("[...", Capture.TRUNCATED))
    assert score_turn([{"name": "get_weather", "args": {"days": 1}}], lost).verdict.score == 0


def test_a_session_judged_as_one_knows_the_definitions_of_its_turns() -> None:
    golden = Golden(calls=(ExpectedCall("get_weather", {"days": 1}),))
    session = Session("s", (turn(WRITTEN["OpenAI"]), Turn()))
    assert score_session(golden, session).verdict.score == 1
    by_turn = Golden(turns=(GoldenTurn(golden.calls or ()), GoldenTurn()))
    assert score_session(by_turn, session).verdict.score == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "parameters", "properties", "default", "function", "x"]), inner, max_size=4
        )
    ),
)


@given(json_values)
def test_no_definition_raises(value: Any) -> None:
    assert isinstance(
        dict(ToolsInForce(Turn(tool_definitions=Content(value, Capture.CAPTURED))).defaults_of(ToolCall("x"))), dict
    )


def test_neither_depth_nor_number_of_definitions_is_without_bounds() -> None:
    def found(definitions: Any) -> dict[str, Any]:
        return dict(
            ToolsInForce(Turn(tool_definitions=Content(definitions, Capture.CAPTURED))).defaults_of(
                ToolCall("get_weather")
            )
        )

    def within(lists: int) -> Any:
        inner: Any = WRITTEN["OpenAI"]
        for _ in range(lists):
            inner = [inner]
        return inner

    others: list[Any] = [{"a": 1}] * 1_000_000
    assert (found(within(3)), found(within(100)), found(within(10_000))) == ({"days": 1}, {}, {})
    assert (found([*WRITTEN["OpenAI"], *others]), found([*others, *WRITTEN["OpenAI"]])) == ({"days": 1}, {})


@pytest.mark.parametrize(
    "name",
    [
        "google-adk-v1",
        "google-adk-v2-span",
        "pydantic-ai-v5",
        "strands-latest",
        "haystack-native",
        "agent-framework-native",
    ],
)
def test_real_recordings_declare_the_default_of_days(name: str) -> None:
    turns = [one for session in read_sessions(RECORDINGS / f"{name}.otlp.json") for one in session.turns]
    found = [dict(ToolsInForce(one).defaults_of(ToolCall("get_weather"))) for one in turns]
    assert {"days": 1} in found
