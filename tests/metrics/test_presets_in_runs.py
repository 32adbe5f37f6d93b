"""Presets as scorers of sessions: the same answer as `score_with_preset`, under the preset's name, never mixed."""

from __future__ import annotations

from typing import Any

import pytest

from goldspan.collector_processor.replay.summary_and_exit_code import totals
from goldspan.scoring import CriterionError, GoldenFileError, Session, ToolCall, Turn, explain, score_sessions
from goldspan.scoring.presets import PRESETS, score_with_preset
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Capture, Content

WANTED = [{"name": "f", "args": {"x": 1, "y": 2}}, {"name": "g", "args": {}}]
CALLED = [ToolCall("f", {"x": 1, "y": 3}), ToolCall("g", {}), ToolCall("h", {})]
OPTIONS: dict[str, dict[str, Any]] = {
    "langchain": {"trajectory_match_mode": "superset"},
    "bfcl": {
        "func_description": [
            {
                "name": name,
                "parameters": {
                    "type": "dict",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                    "required": [],
                },
            }
            for name in ("f", "g")
        ]
    },
}


def judged(session: Session, preset: Any, turns: list[Any] | None = None, **golden: Any) -> SessionResult:
    goldens = {
        "golden_set": "g",
        "goldens": [{"session": "s", "turns": [{"calls": WANTED}] if turns is None else turns, **golden}],
    }
    return score_sessions(goldens, session, preset=preset).sessions[0]


def one_turn(*calls: ToolCall, **turn: Any) -> Session:
    return Session("s", (Turn(calls, start=1, **turn),))


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_session_of_one_turn_scores_what_the_preset_scores(name: str) -> None:
    options = OPTIONS.get(name, {})
    direct = score_with_preset(name, WANTED, CALLED, **options)
    found = judged(one_turn(*CALLED), {"name": name, **options})
    assert direct.score is not None
    assert found.verdict.score == direct.score
    assert found.answer is not None
    assert (found.answer.name, found.answer.status) == (name, direct.status)
    assert found.preset == name
    assert found.criterion.startswith(name)
    assert direct.label in {None, found.verdict.label}
    assert len(found.turns) == 1


@pytest.mark.parametrize("name", ["bfcl", "langchain"])
def test_what_is_needed_and_not_there_is_missing(name: str) -> None:
    found = judged(one_turn(*CALLED), name)
    assert (found.verdict.score, found.verdict.label, found.verdict.reason) == (
        None,
        "not_evaluated",
        "input_missing",
    )
    assert found.answer is not None
    assert "needs" in found.answer.words


def test_tool_definitions_of_a_trace_are_the_schemas_a_preset_wants() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    definitions = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    expected = [{"calls": [{"name": "f", "args": {"x": 1}}]}]
    session = one_turn(ToolCall("f", {"x": 1}), tool_definitions=Content(definitions, Capture.CAPTURED))
    assert judged(session, "bfcl", expected).verdict.score == 1
    typed = one_turn(ToolCall("f", {"x": "1"}), tool_definitions=Content(definitions, Capture.CAPTURED))
    assert judged(typed, "bfcl", expected).verdict.score == 0


def test_expected_results_and_counts_of_a_golden_are_what_uipath_wants() -> None:
    returned = ToolCall("f", {"x": 1}, result=Content("sunny", Capture.CAPTURED))
    wanted = [{"calls": [{"name": "f", "args": {"x": 1}, "result": "sunny"}]}]
    by_output = {"name": "uipath", "evaluator": "output"}
    assert judged(one_turn(returned), by_output, wanted).verdict.score == 1
    assert judged(one_turn(returned), by_output).verdict.reason == "input_missing"
    by_count = {"name": "uipath", "evaluator": "count"}
    counts = {"f": ">=1", "g": 2}
    assert judged(one_turn(returned), by_count, wanted, call_counts=counts).verdict.score == 0.5


def test_turns_are_paired_for_the_systems_that_have_turns() -> None:
    turns = [{"calls": [WANTED[0]]}, {"calls": [WANTED[1]]}]
    session = Session("s", (Turn((CALLED[0],), start=1), Turn((CALLED[1],), start=2)))
    found = judged(session, "adk_parameter_match", turns)
    assert [turn.verdict.score for turn in found.turns] == [0.5, 1.0]
    assert [turn.answer.status for turn in found.turns if turn.answer] == ["FAILED", "PASSED"]
    assert found.verdict.score == 0.75
    # Systems without turns get one list.
    whole = judged(session, "axion", turns)
    assert whole.as_one
    assert [turn.verdict.score for turn in whole.turns] == [1.0]


def test_a_turn_that_never_came_has_no_calls_and_others_are_left_out() -> None:
    turns = [{"calls": [WANTED[1]]}, {"calls": [WANTED[1]]}]
    assert judged(one_turn(CALLED[1]), "adk_trajectory", turns).verdict.score == 0.5
    session = Session("s", (Turn((CALLED[1],), start=1), Turn((CALLED[2],), start=2)))
    found = judged(session, "adk_trajectory", turns[:1])
    assert found.verdict.score == 1
    assert found.turns[1].verdict.reason == "turn_not_expected"


@pytest.mark.parametrize("name", ["adk_parameter_match", "axion"])
def test_what_cannot_be_seen_is_not_judged(name: str) -> None:
    hidden = one_turn(calls_visible=False)
    assert judged(hidden, name).verdict.reason == "calls_not_visible"


def test_what_was_passed_and_is_not_known_is_not_judged() -> None:
    unknown = one_turn(ToolCall("f", None, Capture.NOT_CAPTURED))
    assert judged(unknown, {"name": "axion", "check_parameters": True}).verdict.reason == "arguments_not_captured"


def test_where_a_system_draws_no_line_the_golden_does() -> None:
    session = one_turn(CALLED[0])
    wanted = [{"calls": [WANTED[0]]}]
    assert judged(session, "ragas", wanted).verdict.score == 0.5
    assert judged(session, "ragas", wanted).verdict.label == "fail"
    assert judged(session, "ragas", wanted, criterion={"threshold": 0.5}).verdict.label == "pass"


def test_a_golden_set_may_say_it_and_a_golden_may_take_it_back() -> None:
    goldens = [
        {"session": "s", "turns": [{"calls": WANTED}]},
        {"session": "t", "turns": [{"calls": WANTED}], "preset": None},
        {"session": "u", "turns": [{"calls": WANTED}], "preset": {"name": "uipath", "strict": True}},
    ]
    sessions = [Session(name, (Turn(tuple(CALLED), start=1),)) for name in "stu"]
    result = score_sessions({"golden_set": "g", "preset": "axion", "goldens": goldens}, sessions)
    assert [one.preset for one in result.sessions] == ["axion", None, "uipath"]
    assert [one.verdict.score for one in result.sessions] == [1, 0.75, 0]


def test_scores_of_different_presets_are_never_averaged() -> None:
    goldens = [
        {"session": "s", "turns": [{"calls": WANTED}], "preset": "axion"},
        {"session": "t", "turns": [{"calls": WANTED}], "preset": "uipath"},
        {"session": "u", "turns": [{"calls": WANTED}], "preset": {"name": "uipath", "strict": True}},
    ]
    sessions = [Session(name, (Turn(tuple(CALLED), start=1),)) for name in "stu"]
    result = score_sessions({"golden_set": "g", "goldens": goldens}, sessions)
    assert len({one.criterion for one in result.sessions}) == 3
    assert totals(result).mean is None
    assert totals(ScoringResult(result.sessions[:1])).mean == 1


def test_values_are_for_people_on_this_machine_only() -> None:
    found = judged(one_turn(ToolCall("f", {"x": "secret"})), {"name": "axion", "check_parameters": True})
    assert explain(found) == explain(found.turns[0]) == "scored by preset axion"
    assert found.answer is not None
    assert "'x': 1" in found.answer.words


@pytest.mark.parametrize(
    ("preset", "says"),
    [
        ("axiom", "did you mean 'axion'?"),
        ({"name": "axion", "strict": True}, "has no option 'strict': did you mean 'strict_order'?"),
        ({"strict_order": True}, "there is no preset ''"),
    ],
)
def test_a_wrong_one_is_said(preset: Any, says: str) -> None:
    with pytest.raises(CriterionError) as error:
        judged(one_turn(), preset)
    assert says in str(error.value)


@pytest.mark.parametrize("preset", ["axiom", {"name": "axion", "strict": True}, ["axion"], {}])
def test_a_wrong_one_in_a_golden_is_a_mistake_with_its_place(preset: Any) -> None:
    with pytest.raises(GoldenFileError, match="preset"):
        score_sessions({"golden_set": "g", "preset": preset, "goldens": []}, one_turn())


def test_the_document_carries_the_answer() -> None:
    found = judged(one_turn(*CALLED), "adk_parameter_match")
    (session,) = ScoringResult((found,)).to_json()["sessions"]
    assert session["preset"] == "adk_parameter_match"
    assert session["answer"]["status"] == session["turns"][0]["answer"]["status"] == "FAILED"
    assert session["turns"][0]["calls"] == []
