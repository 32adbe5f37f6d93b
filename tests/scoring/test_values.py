"""Public values: they pickle, copy, survive a process pool, and say what is wrong where somebody prints them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring import (
    Criterion,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Label,
    Reason,
    ScoringResult,
    Session,
    ToolCall,
    Turn,
    load_goldens,
    score_session,
    score_sessions,
    score_turn,
)
from goldspan.scoring.presets.session_preset import choose_preset
from rigs.repository import RECORDINGS

RECORDING = RECORDINGS / "google-adk-v1.otlp.json"
GOLDENS = {
    "golden_set": "weather",
    "version": "1",
    "goldens": [
        {
            "session_pattern": "*",
            "criterion": {"tools": {"get_weather": {"args": {"days": {"strategy": "numeric", "tolerance": 0.5}}}}},
            "metrics": ["trajectory_f1", {"name": "tool_call_count", "threshold": 1}][:1],
            "turns": [
                {
                    "calls": [
                        {"name": "get_weather", "args": {"city": {"$any_of": ["Paris", "Rome"]}, "unit": "kelvin"}},
                        {"name": "delete_everything", "forbidden": True},
                        {"name": "never_made", "args": {"a": {"$type": "string"}, "b": {"$absent": True}, "c": [1]}},
                    ]
                }
            ],
        }
    ],
}


def scored() -> ScoringResult:
    return score_sessions(GOLDENS, read_sessions(RECORDING))


def public_values() -> dict[str, Any]:
    result = scored()
    session = next(one for one in result.sessions if one.turns)
    turn = next(one for one in session.turns if one.calls)
    call = next(one for one in turn.calls if one.arguments)
    assert session.session is not None
    assert turn.turn is not None
    index = load_goldens(GOLDENS)
    preset = score_sessions(GOLDENS, read_sessions(RECORDING), preset="axion")
    return {
        "run": result,
        "session result": session,
        "turn result": turn,
        "call result": call,
        "argument result": call.arguments[0],
        "chosen preset": choose_preset("axion", {"check_parameters": True}),
        "verdict": turn.verdict,
        "metric result": session.metrics[0],
        "preset": preset,
        "session": session.session,
        "turn": turn.turn,
        "tool call": turn.turn.calls[0],
        "content": turn.turn.user_text,
        "golden": session.golden,
        "golden set": index.sets[0],
        "index": index,
        "criterion": Criterion(per_arg_strategies={"unit": "casefold_exact"}, ordered=False),
        "expected call": ExpectedCall("f", {"a": {"$any_of": [1, 2]}}),
    }


VALUES = public_values()


@pytest.mark.parametrize("name", VALUES)
def test_a_public_value_pickles_and_copies(name: str) -> None:
    value = VALUES[name]
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(other) is type(value)
        if name == "index":
            assert other.sets == value.sets
            assert other.find(VALUES["session"]) == value.find(VALUES["session"])
        else:
            assert other == value


def rescored(golden: Golden, session: Session, criterion: Criterion) -> tuple[Criterion, Any]:
    return criterion, score_session(golden, session)


def test_values_go_through_a_process_pool_and_score_the_same_there() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        arguments = (VALUES["golden"], VALUES["session"], VALUES["criterion"])
        criterion, there = pool.submit(rescored, *arguments).result()
        run = pool.submit(scored).result()
    assert criterion == VALUES["criterion"]
    assert there == score_session(*arguments[:2])
    assert run == VALUES["run"]
    assert run.to_json() == VALUES["run"].to_json()


WRONG = score_turn(
    [{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}],
    [ToolCall("get_weather", {"city": "Paris", "unit": "kelvin"})],
)


def test_each_result_has_score_label_reason_and_passed() -> None:
    result = score_session([[{"name": "f", "args": {"a": 1}}]], [[ToolCall("f", {"a": 2})]])
    for one in (WRONG.calls[0], WRONG, result, result.turns[0], ScoringResult((result,))):
        assert one.score in {0.0, 0.5}
        assert (one.label, one.reason, one.passed) == (Label.FAIL, None, False)
        with pytest.raises(AssertionError) as caught:
            one.assert_passed()
        assert str(caught.value) == str(one)
    right = score_turn([{"name": "f"}], [ToolCall("f")])
    right.assert_passed()
    assert (right.score, right.label, right.reason, right.passed) == (1.0, Label.PASS, None, True)


def test_a_run_has_the_mean_of_its_sessions_and_the_first_reason() -> None:
    golden = Golden("s", (GoldenTurn((ExpectedCall("f", {"a": 1}),)),))
    good = score_session(golden, Session("s", (Turn((ToolCall("f", {"a": 1}),)),)))
    bad = score_session(golden, Session("s", (Turn((ToolCall("f", {"a": 2}),)),)))
    unknown = score_session(golden, Session("s", (Turn(calls_visible=False),)))
    assert ScoringResult((good, bad)).score == 0.5
    assert ScoringResult((good, bad)).label is Label.FAIL
    assert (ScoringResult((good,)).label, ScoringResult((good,)).reason) == (Label.PASS, None)
    assert ScoringResult((good, unknown)).reason is Reason.CALLS_NOT_VISIBLE
    assert ScoringResult((good,), never_seen=(golden,)).reason is Reason.GOLDEN_NEVER_SEEN
    assert (ScoringResult().label, ScoringResult().reason, ScoringResult().score) == (
        Label.NOT_EVALUATED,
        Reason.INPUT_MISSING,
        None,
    )
    other = score_session(golden, Session("s", (Turn((ToolCall("f", {"a": 1}),)),)), Criterion(ordered=False))
    assert ScoringResult((good, other)).score is None, "criteria differ"


def test_str_is_the_readable_difference_and_repr_is_short() -> None:
    unit = 'unit (expected "celsius", found "kelvin")'
    call = '✗ 0.50  get_weather  city="Paris"\n        unit  expected "celsius", found "kelvin"'
    assert str(WRONG.calls[0]) == call
    assert repr(WRONG.calls[0]) == f"<CallResult ✗ 0.50 get_weather: get_weather.{unit}>"
    assert str(WRONG) == "✗ 0.50  turn 1\n" + textwrap.indent(call, "  ")
    assert repr(WRONG) == f"<TurnResult ✗ 0.50 turn 1: get_weather.{unit}>"
    session = score_session(
        [[{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}]],
        [[ToolCall("get_weather", {"city": "Paris", "unit": "kelvin"})]],
    )
    assert unit in str(session)
    for one in (session, ScoringResult((session,))):
        assert unit in repr(one)
        assert "\n" not in repr(one)
        assert len(repr(one)) < 240, "pytest cuts longer ones in the middle"


def test_pytest_names_the_wrong_argument_of_a_failed_assertion(tmp_path: Path) -> None:
    test = tmp_path / "test_agent.py"
    test.write_text(
        "from goldspan.scoring import score_sessions, Session, Turn, ToolCall\n"
        "SESSION = Session('trip-to-paris', (Turn((ToolCall('get_weather', {'city': 'Paris', 'unit': 'kelvin'}),)),))\n"
        "GOLDENS = {'golden_set': 'a', 'goldens': [{'session': 'trip-to-paris', 'turns': [{'calls': [\n"
        "    {'name': 'get_weather', 'args': {'city': 'Paris', 'unit': 'celsius'}}]}]}]}\n"
        "def test_it():\n    result = score_sessions(GOLDENS, SESSION)\n    assert result.passed, result\n"
        "def test_method():\n    score_sessions(GOLDENS, SESSION).assert_passed()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in ran.stdout.splitlines() if line.startswith("E ")]
    assert ran.stdout.count("FAILED") == 2
    assert "AssertionError" in errors[0]
    assert 'unit (expected "celsius", found "kelvin")' in errors[0]
    assert any("unit" in line and "assert" not in line for line in errors[1:])


def test_a_notebook_gets_a_table_in_which_everything_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    result = score_sessions(
        {
            "golden_set": "a",
            "goldens": [{"session": evil, "turns": [{"calls": [{"name": evil, "args": {evil: evil}}]}]}],
        },
        Session(evil, (Turn((ToolCall(evil, {evil: 1}),)),)),
    )
    session = result.sessions[0]
    for one in (result, session, session.turns[0], session.turns[0].calls[0]):
        page = one._repr_html_()
        assert "<table>" in page
        assert "<script" not in page
        assert "&lt;script&gt;" in page


def test_a_notebook_shows_what_was_never_seen_and_no_empty_column() -> None:
    calls = [{"name": "f", "args": {"a": 1}}]
    goldens = {"golden_set": "g", "goldens": [{"session": s, "turns": [{"calls": calls}]} for s in ("fail", "unseen")]}
    result = score_sessions(goldens, Session("fail", (Turn((ToolCall("f", {"a": 1}),)),)))
    page, session = result._repr_html_(), result.sessions[0]._repr_html_()
    assert page.count("<tr>") == 3
    assert "unseen" in page
    assert "#d32f2f" not in page, "a session that is called fail did not fail"
    assert ">session</th>" in page
    assert ">session</th>" not in session


def test_args_and_arguments_are_the_same() -> None:
    assert ToolCall("f", args={"a": 1}) == ToolCall("f", arguments={"a": 1}) == ToolCall("f", {"a": 1})  # type: ignore[call-arg]
    assert ToolCall("f", {"a": 1}).args == {"a": 1}
    assert ExpectedCall("f", arguments={"a": 1}) == ExpectedCall("f", {"a": 1})  # type: ignore[call-arg]
    assert ExpectedCall("f", {"a": 1}).arguments == {"a": 1}
    for expected in ({"name": "f", "args": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}):
        for actual in ({"name": "f", "args": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}):
            assert score_turn([expected], [actual]).passed
            assert not score_turn([{**expected}], [{"name": "f", "arguments": {"a": 2}}]).passed
    with pytest.raises(TypeError, match="leave one"):
        ToolCall("f", {}, args={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="leave one"):
        score_turn([{"name": "f", "args": {}, "arguments": {}}], [])


@pytest.mark.parametrize("actual", ["traces/", Path("traces"), [{"a": 1}], 3])
def test_what_is_no_session_is_refused_with_what_to_pass(actual: Any) -> None:
    with pytest.raises(TypeError) as caught:
        score_sessions(GOLDENS, actual)
    assert "expected" in str(caught.value)
    if isinstance(actual, str):
        assert "read_sessions('traces/')" in str(caught.value)
