"""What an evaluation writes on the span it judges, and on its event."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Evaluation, event_attributes, span_attributes
from goldspan.collector_processor.emit.names import TOOL_LIMIT
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.results import CallResult
from goldspan.scoring.verdict import Label, Reason, Verdict
from rigs import evaluation_examples as given


def test_a_call_s_span_says_which_arguments_were_wrong_missing_and_extra() -> None:
    assert span_attributes(given.evaluation(given.ALIGNED)) == {
        "tool_parameter_match.score": float(Fraction(1, 3)),
        "tool_parameter_match.label": "fail",
        "tool_parameter_match.golden": "sess-*",
        "tool_parameter_match.golden_set": "weather@3",
        "tool_parameter_match.revision": 1,
        "tool_parameter_match.expected_call": "0.1",
        "tool_parameter_match.mismatched_arguments": ("unit",),
        "tool_parameter_match.missing_arguments": ("days",),
        "tool_parameter_match.extra_arguments": ("lang",),
        "tool_parameter_match.unexpected": False,
    }


def test_what_was_not_evaluated_has_a_reason_and_no_score() -> None:
    found = span_attributes(given.evaluation(replace(given.ALIGNED, verdict=given.UNKNOWN)))
    assert "tool_parameter_match.score" not in found
    assert found["tool_parameter_match.label"] == "not_evaluated"
    assert found["tool_parameter_match.reason"] == "arguments_redacted"


def test_an_unexpected_call_says_so() -> None:
    found = span_attributes(given.evaluation(given.UNEXPECTED))
    assert found["tool_parameter_match.unexpected"] is True
    assert "tool_parameter_match.expected_call" not in found


def test_a_turn_s_root_carries_counts() -> None:
    assert span_attributes(given.evaluation(given.TURN)) == {
        "tool_parameter_match.turn.score": float(Fraction(1, 3)),
        "tool_parameter_match.turn.label": "fail",
        "tool_parameter_match.turn.golden": "sess-*",
        "tool_parameter_match.turn.golden_set": "weather@3",
        "tool_parameter_match.turn.revision": 1,
        "tool_parameter_match.turn.expected_calls": 2,
        "tool_parameter_match.turn.evaluated_calls": 2,
        "tool_parameter_match.turn.aligned_calls": 1,
        "tool_parameter_match.turn.right_calls": 0,
        "tool_parameter_match.turn.missing_calls": 1,
        "tool_parameter_match.turn.unexpected_calls": 1,
        "tool_parameter_match.turn.missing_tools": ("get_weather",),
        "tool_parameter_match.turn.wrong_tools": ("get_weather",),
        "tool_parameter_match.doubts": ("result_is_error",),
    }


def _named(call: CallResult, tool: str) -> CallResult:
    return replace(call, expected=ExpectedCall(tool, {"city": "x"}))


NEVER_CALLED = replace(given.MISSING, actual=None, arguments=())
RIGHT = replace(given.ALIGNED, verdict=given.PASS, arguments=given.ARGUMENTS[:1], extra_arguments=())


@pytest.mark.parametrize(
    ("calls", "missing", "wrong"),
    [
        ((RIGHT,), None, None),
        ((_named(NEVER_CALLED, "book"), RIGHT), ("book",), None),
        ((_named(given.ALIGNED, "book"), _named(given.ALIGNED, "book"), RIGHT), None, ("book",)),
        ((_named(given.ALIGNED, "b"), _named(NEVER_CALLED, "a"), _named(given.MISSING, "c")), ("a", "c"), ("b", "c")),
        ((replace(given.ALIGNED, verdict=given.UNKNOWN),), None, None),
        (
            tuple(_named(NEVER_CALLED, f"tool_{number}") for number in range(30)),
            tuple(f"tool_{number}" for number in range(TOOL_LIMIT)),
            None,
        ),
    ],
)
def test_a_turn_s_root_and_event_name_the_tools_that_are_missing_or_wrong(
    calls: tuple[CallResult, ...], missing: tuple[str, ...] | None, wrong: tuple[str, ...] | None
) -> None:
    turn = given.evaluation(replace(given.TURN, calls=calls))
    for found in (span_attributes(turn), event_attributes(turn)):
        assert found.get("tool_parameter_match.turn.missing_tools") == missing
        assert found.get("tool_parameter_match.turn.wrong_tools") == wrong


def test_a_tool_span_that_is_its_turn_s_root_carries_both_apart() -> None:
    call = span_attributes(given.evaluation(given.ALIGNED))
    turn = span_attributes(given.evaluation(given.TURN))
    assert call.keys() & turn.keys() == set()


NOT_ON_A_SPAN = {
    "a missing call, which must not mark its turn's root": given.evaluation(given.MISSING),
    "a turn that never came, which must not mark the last one": given.evaluation(replace(given.TURN, turn=None)),
    "a session": given.evaluation(given.SESSION),
    "a call known from a model's output only": given.evaluation(
        replace(given.ALIGNED, actual=replace(given.ACTUAL, span=None)), target=given.OTHER_SPAN
    ),
    "a correction": given.evaluation(given.ALIGNED, revision=2),
    "a withdrawal": given.evaluation(given.ALIGNED, withdrawn=True),
    "a result without a span": given.evaluation(given.ALIGNED, target=None),
}


@pytest.mark.parametrize("evaluation", NOT_ON_A_SPAN.values(), ids=NOT_ON_A_SPAN)
def test_what_is_not_a_span_s_own_is_on_no_span(evaluation: Evaluation) -> None:
    assert span_attributes(evaluation) == {}
    assert event_attributes(evaluation)["gen_ai.evaluation.name"] == "tool_parameter_match"


def test_an_event_follows_the_semantic_conventions() -> None:
    found = event_attributes(given.evaluation(given.ALIGNED))
    assert {key: value for key, value in found.items() if not key.startswith("tool_parameter_match")} == {
        "gen_ai.evaluation.name": "tool_parameter_match",
        "gen_ai.evaluation.score.value": float(Fraction(1, 3)),
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "1 of 3 arguments match",
        "gen_ai.conversation.id": "sess-1",
        "gen_ai.agent.name": "weather_agent",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.id": "call-1",
    }


def test_an_event_tells_results_apart() -> None:
    found = event_attributes(given.evaluation(given.ALIGNED, revision=2, incomplete=True, withdrawn=True))
    assert {key: value for key, value in found.items() if key.startswith("tool_parameter_match")} == {
        "tool_parameter_match.result_id": "00112233445566778899aabbccddeeff",
        "tool_parameter_match.level": "call",
        "tool_parameter_match.revision": 2,
        "tool_parameter_match.golden": "sess-*",
        "tool_parameter_match.golden_set": "weather@3",
        "tool_parameter_match.run": "run-1",
        "tool_parameter_match.criterion": "abc",
        "tool_parameter_match.turn_index": 0,
        "tool_parameter_match.incomplete": True,
        "tool_parameter_match.withdrawn": True,
        "tool_parameter_match.expected_call": "0.1",
        "tool_parameter_match.mismatched_arguments": ("unit",),
        "tool_parameter_match.missing_arguments": ("days",),
        "tool_parameter_match.extra_arguments": ("lang",),
        "tool_parameter_match.unexpected": False,
    }


def test_an_event_without_a_score_has_no_score_value() -> None:
    found = event_attributes(given.evaluation(replace(given.ALIGNED, verdict=given.UNKNOWN)))
    assert "gen_ai.evaluation.score.value" not in found
    assert found["gen_ai.evaluation.score.label"] == "not_evaluated"
    assert "error.type" not in found


def test_an_evaluation_that_failed_has_an_error_type() -> None:
    broken = Verdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR)
    assert event_attributes(given.evaluation(replace(given.TURN, verdict=broken)))["error.type"] == "evaluator_error"


def test_a_missing_call_s_event_names_the_tool_but_not_the_near_miss_s_call_id() -> None:
    found = event_attributes(given.evaluation(given.MISSING))
    assert found["gen_ai.tool.name"] == "get_weather"
    assert "gen_ai.tool.call.id" not in found


def test_a_session_s_event_counts_turns_and_calls() -> None:
    found = event_attributes(given.evaluation(given.SESSION))
    assert {key: value for key, value in found.items() if ".session." in key} == {
        "tool_parameter_match.session.expected_turns": 1,
        "tool_parameter_match.session.evaluated_turns": 1,
        "tool_parameter_match.session.expected_calls": 2,
        "tool_parameter_match.session.evaluated_calls": 2,
    }


def test_a_preset_s_name_travels_with_the_score() -> None:
    evaluation = given.evaluation(given.ALIGNED, preset="axion")
    assert span_attributes(evaluation)["tool_parameter_match.preset"] == "axion"
    assert event_attributes(evaluation)["tool_parameter_match.preset"] == "axion"


def test_another_metric_writes_under_its_own_name() -> None:
    found = span_attributes(given.evaluation(given.ALIGNED, metric="trajectory"))
    assert {key.partition(".")[0] for key in found} == {"trajectory"}
