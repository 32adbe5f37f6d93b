"""ADK eval sets as golden sets: both generations of intermediate data, both spellings, the right sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import ExpectedCall, Golden, load_goldens

CALL = {"id": "adk-1", "name": "get_weather", "args": {"city": "Paris", "filter": {"$any_of": [1]}}}
TOOL_USES = {"tool_uses": [CALL, {"name": "ping", "args": None}, {"name": "pong"}], "intermediate_responses": []}
EVENTS = {
    "invocation_events": [
        {"author": "a", "content": {"role": "model", "parts": [{"text": "hm"}, {"function_call": CALL}]}},
        {"author": "a", "content": None},
        {"author": "a", "content": {"parts": [{"function_response": {"name": "get_weather", "response": {}}}]}},
        {"author": "a", "content": {"parts": [{"function_call": {"name": "ping", "args": None}}]}},
        {"author": "a", "content": {"parts": [{"function_call": {"name": "pong"}}]}},
    ]
}
EXPECTED = (
    ExpectedCall("get_weather", CALL["args"], literal=True),  # type: ignore[arg-type]
    ExpectedCall("ping", {}),
    ExpectedCall("pong", {}),
)


def eval_set(*cases: Any, **more: Any) -> dict[str, Any]:
    return {"eval_set_id": "weather", "name": "Weather", "eval_cases": list(cases), "creation_timestamp": 1.5, **more}


def case(intermediate_data: object, **more: Any) -> dict[str, Any]:
    invocation = {
        "invocation_id": "e-1",
        "user_content": {"role": "user", "parts": [{"text": "What's the"}, {"inline_data": {}}, {"text": "weather?"}]},
        "final_response": {"parts": [{"text": "Fine."}]},
        "intermediate_data": intermediate_data,
        "creation_timestamp": 0.0,
    }
    return {"eval_id": "case-1", "conversation": [invocation], "session_input": None, **more}


def in_camel_case(value: Any) -> Any:
    """The field names as ADK's models write them by alias; names and arguments of tools are the user's."""
    if isinstance(value, list):
        return [in_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    words = {key: key.split("_") for key in value}
    names = {key: first + "".join(map(str.title, rest)) for key, (first, *rest) in words.items()}
    return {names[key]: item if key == "args" else in_camel_case(item) for key, item in value.items()}


def golden_of(document: dict[str, Any], **given: Any) -> Golden:
    [golden] = load_goldens(document, **given).goldens
    return golden


@pytest.mark.parametrize("data", [TOOL_USES, EVENTS], ids=["tool uses", "events"])
@pytest.mark.parametrize("spelled", [dict, in_camel_case], ids=["snake_case", "camelCase"])
def test_both_shapes_give_the_same_golden(data: dict[str, Any], spelled: Any) -> None:
    golden = golden_of(spelled(eval_set(case(data))))
    [turn] = golden.turns
    assert turn.calls == EXPECTED
    assert turn.user == "What's the\nweather?"
    assert turn.turn_id is None
    assert (golden.session, golden.golden_set, golden.calls) == ("case-1", "weather", None)


def test_a_pinned_session_is_the_key() -> None:
    pinned = {"app_name": "app", "user_id": "u", "session_id": "s-7", "state": {}}
    assert golden_of(eval_set(case(None, session_input=pinned))).session == "s-7"
    assert golden_of(eval_set(case(None, session_input={**pinned, "session_id": None}))).session == "case-1"
    assert golden_of(eval_set(case(None, session_input={"app_name": "app"}))).session == "case-1"


@pytest.mark.parametrize(
    "more",
    [
        {"conversation": None, "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "..."}},
        {"conversation": []},
    ],
)
def test_a_case_without_a_conversation_expects_nothing(more: dict[str, Any]) -> None:
    golden = golden_of(eval_set(case(None, **more)))
    assert (golden.turns, golden.calls) == ((), None)


@pytest.mark.parametrize("data", [None, {}, {"tool_uses": []}, {"tool_uses": None}, {"invocation_events": []}])
def test_an_invocation_without_calls_is_a_turn_that_expects_nothing(data: object) -> None:
    [turn] = golden_of(eval_set(case(data))).turns
    assert turn.calls == ()


def test_hand_offs_are_no_calls() -> None:
    handed_over = {"tool_uses": [{"name": "transfer_to_agent", "args": {"agent_name": "x"}}, CALL]}
    assert golden_of(eval_set(case(handed_over))).turns[0].calls == EXPECTED[:1]


@pytest.mark.parametrize(
    "name", ["adk_request_credential", "adk_request_confirmation", "adk_request_input", "set_model_response"]
)
def test_what_adk_asks_of_its_client_is_no_call(name: str) -> None:
    assert golden_of(eval_set(case({"tool_uses": [{"name": name, "args": {}}, CALL]}))).turns[0].calls == EXPECTED[:1]


OLD_TURNS: list[dict[str, Any]] = [
    {"query": "Hi", "expected_tool_use": [], "expected_intermediate_agent_responses": [], "reference": "Hello."},
    {
        "query": "Weather?",
        "expected_tool_use": [
            {"tool_name": "get_weather", "tool_input": CALL["args"], "mock_tool_output": "sunny"},
            {"tool_name": "transfer_to_agent", "tool_input": {"agent_name": "x"}},
            {"tool_name": "ping", "tool_input": {}},
        ],
    },
]
OLD_CASES = [
    {"name": "roll", "data": OLD_TURNS, "initial_session": {"state": {}, "app_name": "a", "user_id": "u"}},
    {"name": "empty", "data": []},
]


def written(folder: Path, name: str, document: object) -> Path:
    (folder / name).write_text(json.dumps(document, indent=1), "utf-8")
    return folder / name


@pytest.mark.parametrize("name", ["weather.test.json", "weather.json"])
def test_a_test_file_from_before_eval_sets_is_one_golden(tmp_path: Path, name: str) -> None:
    [golden] = load_goldens(written(tmp_path, name, OLD_TURNS)).goldens
    assert (golden.session, golden.golden_set) == ("weather", "weather")
    assert [turn.user for turn in golden.turns] == ["Hi", "Weather?"]
    assert [turn.calls for turn in golden.turns] == [(), EXPECTED[:2]]


def test_an_eval_set_of_the_older_kind_has_a_golden_for_each_case(tmp_path: Path) -> None:
    path = written(tmp_path, "dice.evalset.json", OLD_CASES)
    first, second = load_goldens(path).goldens
    assert (first.session, first.golden_set, second.session) == ("roll", "dice", "empty")
    assert [turn.calls for turn in first.turns] == [(), EXPECTED[:2]]
    assert second.turns == ()
    assert first.source == f"{path}:2"


@pytest.mark.parametrize(
    ("document", "line", "field", "words"),
    [
        ([{"query": "Hi"}, 3], 5, "[1]", "found 3, expected an object"),
        ([{"query": 3}], 3, "[0].query", "expected text"),
        ([{"query": "Hi"}, {"reference": ""}], 5, "[1]", "`query` is missing"),
        ([{"query": "Hi", "expected_tool_use": [{}]}], 5, "[0].expected_tool_use[0]", "`tool_name` is missing"),
        ([{"data": []}], 2, "[0]", "`name` is missing"),
        ([{"name": "a", "data": {}}], 4, "[0].data", "found {}, expected a list"),
    ],
)
def test_mistakes_in_older_files_have_lines(
    tmp_path: Path, document: object, line: int, field: str, words: str
) -> None:
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(written(tmp_path, "old.test.json", document))
    [mistake] = caught.value.mistakes
    assert (mistake.line, mistake.path) == (line, field)
    assert words in mistake.message


def test_the_criterion_comes_from_the_caller() -> None:
    assert golden_of(eval_set(case(None)), criterion={"ordered": False}).criterion == Criterion(ordered=False)


def test_a_file_knows_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "weather.evalset.json"
    path.write_text(json.dumps(eval_set(case(TOOL_USES), case(None, eval_id="case-2")), indent=1), "utf-8")
    sources = [golden.source for golden in load_goldens(path).goldens]
    lines = path.read_text("utf-8").splitlines()
    assert [int(source.rpartition(":")[2]) for source in sources] == [
        number for number, line in enumerate(lines, 1) if line == "  {"
    ]


C, I, D = "eval_cases[0]", "eval_cases[0].conversation[0]", "eval_cases[0].conversation[0].intermediate_data"  # noqa: E741
MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "cases": ({"eval_set_id": "x", "eval_cases": {}}, "eval_cases", "found {}, expected a list"),
    "case": (eval_set(3), C, "found 3, expected an object"),
    "no set id": ({"eval_cases": []}, "", "`eval_set_id` is missing"),
    "no case id": (eval_set({"conversation": []}), C, "`eval_id` is missing"),
    "session": (
        eval_set(case(None, session_input={"session_id": 7})),
        f"{C}.session_input.session_id",
        "expected text",
    ),
    "conversation": (eval_set(case(None, conversation="x")), f"{C}.conversation", "expected a list"),
    "data": (eval_set(case([])), D, "found [], expected an object"),
    "call": (eval_set(case({"tool_uses": ["f"]})), f"{D}.tool_uses[0]", "expected an object"),
    "no name": (eval_set(case({"tool_uses": [{"args": {}}]})), f"{D}.tool_uses[0]", "`name` is missing"),
    "name": (eval_set(case({"toolUses": [{"name": 1}]})), f"{D}.toolUses[0].name", "found 1, expected text"),
    "args": (
        eval_set(case({"tool_uses": [{"name": "f", "args": [1]}]})),
        f"{D}.tool_uses[0].args",
        "expected an object",
    ),
    "NaN": (
        eval_set(case({"tool_uses": [{"name": "f", "args": {"x": float("nan")}}]})),
        f"{D}.tool_uses[0].args.x",
        "expected a JSON value",
    ),
    "text": (
        eval_set(case(None, conversation=[{"user_content": {"parts": [{"text": 1}]}}])),
        f"{I}.user_content.parts[0].text",
        "found 1, expected text",
    ),
    "twice": (eval_set(case(None), case(None)), "", "a second golden for the session case-1"),
}


@pytest.mark.parametrize(("document", "field", "words"), MISTAKES.values(), ids=MISTAKES)
def test_one_mistake_is_reported_once(document: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(document)
    [mistake] = caught.value.mistakes
    assert mistake.path == field
    assert words in mistake.message
