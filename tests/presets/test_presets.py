"""The way presets are asked, and what they say where another system has no word for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.presets import PRESETS, score_with_preset
from goldspan.scoring.sessions import Capture, ToolCall
from goldspan.scoring.verdict import Label, Reason

PARIS = {"city": "Paris"}
EVERY = sorted(PRESETS)
BY_CALLS = {
    "langchain": {"trajectory_match_mode": "unordered"},
    "bfcl": {
        "func_description": {
            "name": "weather",
            "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]},
        }
    },
    "axion": {"check_parameters": True},
}


def score(preset: str, expected: Any, actual: Any, **more: Any) -> Any:
    return score_with_preset(preset, expected, actual, **BY_CALLS.get(preset, {}), **more)


@pytest.mark.parametrize("preset", EVERY)
def test_goldspans_own_calls_are_read_as_plain_ones_are(preset: str) -> None:
    plain = [{"name": "weather", "args": PARIS}]
    wrong = [{"name": "weather", "arguments": {"city": "Rome"}}]
    assert score(preset, [ExpectedCall("weather", PARIS)], [ToolCall("weather", PARIS)]).score == 1.0
    assert score(preset, plain, [ToolCall("weather", PARIS)]).score == 1.0
    assert score(preset, [ExpectedCall("weather", PARIS)], wrong).score == 0.0


def test_a_literal_value_is_what_it_stands_for() -> None:
    query = {"$regex": "^a", "$options": "i"}
    expected = [ExpectedCall("find", {"query": {"$literal": query}})]
    assert score_with_preset("tau2", expected, [ToolCall("find", {"query": query})]).score == 1.0
    assert score_with_preset("tau2", expected, [ToolCall("find", {"query": {"$literal": query}})]).score == 0.0


@pytest.mark.parametrize("preset", EVERY)
def test_calls_no_other_system_has_are_left_out(preset: str) -> None:
    golden = [
        ExpectedCall("weather", PARIS),
        ExpectedCall("map", PARIS, optional=True),
        ExpectedCall("pay", {}, forbidden=True),
    ]
    assert score(preset, golden, [ToolCall("weather", PARIS)]).score == 1.0


@pytest.mark.parametrize("preset", EVERY)
def test_an_unknown_option_is_refused_with_the_nearest_name(preset: str) -> None:
    options = PRESETS[preset].options.model_fields
    for option in options:
        with pytest.raises(CriterionError, match=rf"has no option '{option}s': did you mean '{option}'\?"):
            score_with_preset(preset, [], [], **{f"{option}s": 1})
    with pytest.raises(CriterionError, match=f"preset '{preset}' has no option 'qqqq'"):
        score_with_preset(preset, [], [], qqqq=1)


def test_every_unknown_option_is_named_at_once() -> None:
    with pytest.raises(CriterionError, match=r"'strict_oder'.*'fuzy_threshold'"):
        score_with_preset("axion", [], [], strict_oder=True, fuzy_threshold=1)


@pytest.mark.parametrize(
    ("preset", "option", "value"),
    [
        ("axion", "fuzzy_threshold", "high"),
        ("axion", "scoring", "accuracy"),
        ("adk_trajectory", "match_type", "NEARLY"),
        ("adk_trajectory", "match_type", 3),
        ("adk_parameter_match", "threshold", None),
        ("langchain", "trajectory_match_mode", "loose"),
        ("langchain", "tool_args_match_mode", "loose"),
        ("ragas", "metric", "ToolCallPrecision"),
        ("uipath", "evaluator", "tool-call-cost"),
        ("uipath", "strict", "perhaps"),
        ("bfcl", "language", "cobol"),
    ],
)
def test_a_wrong_value_is_refused(preset: str, option: str, value: object) -> None:
    with pytest.raises(CriterionError, match=f"preset '{preset}', option '{option}'.*found {re.escape(repr(value))}"):
        score_with_preset(preset, [], [], **{option: value})


def test_an_unknown_preset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(CriterionError, match=r"no preset 'axiom': did you mean 'axion'\?"):
        score_with_preset("axiom", [], [])


def test_options_may_be_in_camel_case() -> None:
    calls: list[Any] = [{"name": "a", "args": {}}, {"name": "b", "args": {}}]
    assert score_with_preset("axion", calls, calls[::-1], strictOrder=True).score == 0.0
    assert score_with_preset("adk_trajectory", calls, calls[::-1], matchType="any order").score == 1.0


UNKNOWN = [
    (Capture.NOT_CAPTURED, Reason.ARGUMENTS_NOT_CAPTURED),
    (Capture.REDACTED, Reason.ARGUMENTS_REDACTED),
    (Capture.TRUNCATED, Reason.ARGUMENTS_TRUNCATED),
    (Capture.UNPARSABLE, Reason.ARGUMENTS_UNPARSABLE),
]


@pytest.mark.parametrize("preset", [preset for preset in EVERY if preset != "uipath"])
@pytest.mark.parametrize(("capture", "reason"), UNKNOWN)
def test_unknown_arguments_are_not_wrong_ones(preset: str, capture: Capture, reason: Reason) -> None:
    known = ToolCall("weather", PARIS)
    for call in (
        ToolCall("weather", None, capture),
        ToolCall("weather", PARIS, argument_captures={"city": capture}),
    ):
        result = score(preset, [ExpectedCall("weather", PARIS)], [known, call])
        assert (result.score, result.label, result.reason) == (None, Label.NOT_EVALUATED, reason)


def test_unknown_arguments_are_found_in_invocations() -> None:
    hidden = [[ToolCall("weather", PARIS)], [ToolCall("weather", None, Capture.REDACTED)]]
    result = score_with_preset("adk_parameter_match", [[{"name": "weather"}]] * 2, hidden)
    assert result.reason is Reason.ARGUMENTS_REDACTED
    named = score_with_preset("adk_parameter_match", {"invocations": [[]] * 2}, {"invocations": hidden})
    assert named.reason is Reason.ARGUMENTS_REDACTED


@pytest.mark.parametrize(
    ("preset", "options"),
    [("axion", {}), ("adk_trajectory", {"ignore_args": True}), ("uipath", {"evaluator": "order"})],
)
def test_unknown_arguments_do_not_matter_where_none_are_read(preset: str, options: dict[str, Any]) -> None:
    hidden = [ToolCall("weather", None, Capture.REDACTED)]
    assert score_with_preset(preset, [{"name": "weather", "args": PARIS}], hidden, **options).score == 1.0


def test_uipath_takes_unknown_arguments_for_none() -> None:
    hidden = [ToolCall("weather", None, Capture.REDACTED)]
    assert score_with_preset("uipath", [ExpectedCall("weather", PARIS)], hidden).score == 0.0
    assert score_with_preset("uipath", [ExpectedCall("weather")], hidden).score == 1.0


INCOMPLETE: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("langchain", [{"name": "a", "args": {}}], {}, "messages"),
    ("bfcl", [{"name": "a", "args": {"x": 1}}], {}, "tool schemas"),
    ("bfcl", [{"b": {"x": [1]}}], {"func_description": []}, "tool schemas"),
    ("uipath", [ExpectedCall("a")], {"evaluator": "output"}, "expected outputs"),
]


@pytest.mark.parametrize(("preset", "expected", "options", "missing"), INCOMPLETE)
def test_it_says_what_it_was_not_given(preset: str, expected: Any, options: dict[str, Any], missing: str) -> None:
    assert any(missing in need for need in PRESETS[preset].needs)
    result = score_with_preset(preset, expected, [ToolCall("a", {"x": 1})], **options)
    assert (result.score, result.label, result.reason) == (None, Label.NOT_EVALUATED, Reason.INPUT_MISSING)
    assert missing in str(result.explanation)
    assert result.error is None


def test_which_presets_take_turns_apart() -> None:
    assert [name for name in EVERY if PRESETS[name].by_turn] == ["adk_parameter_match", "adk_trajectory"]


WRONG_CALLS: list[tuple[Any, str]] = [
    (5, "TypeError: calls come as a list, not int"),
    ("calls", "TypeError: calls come as a list, not str"),
    (
        [None],
        "TypeError: a call is a mapping with 'name' and 'args', an ExpectedCall or a ToolCall, not null",
    ),
    ([{"name": 5}], "TypeError: the name of a call is a string, not int"),
    ([{"args": {}}], "TypeError: the name of a call is a string, not null"),
    ([{"name": "a", "args": None}], "TypeError: the arguments of 'a' are an object, not null"),
    ([{"name": "a", "args": {1: 2}}], "TypeError: the arguments of 'a' have a key that is no string: 1"),
]


@pytest.mark.parametrize(("calls", "said"), WRONG_CALLS)
def test_an_error_says_what_was_found_and_expected(calls: Any, said: str) -> None:
    assert score_with_preset("axion", calls, []).error == said


@pytest.mark.parametrize("preset", EVERY)
@pytest.mark.parametrize("calls", [5, "calls", [5], [None, 5], [{"name": 5, "args": {}}], [{"name": "a", "args": "b"}]])
def test_what_is_no_call_is_an_error_as_data(preset: str, calls: Any) -> None:
    result = score(preset, calls, calls)
    assert result.score in (None, 0.0, 1.0)
    if result.score is None:
        assert result.label is Label.NOT_EVALUATED
        assert result.reason in (Reason.EVALUATOR_ERROR, Reason.INPUT_MISSING)


def test_an_exception_of_the_system_is_a_result() -> None:
    result = score_with_preset("adk_trajectory", None, [])
    assert result.status == "EXCEPTION"
    assert result.reason is Reason.EVALUATOR_ERROR
    assert result.error == result.explanation == "ValueError: expected_invocations is needed by this metric."


def test_nothing_expected_means_something_else_in_each() -> None:
    called: list[Any] = [{"name": "a", "args": {}}]
    scores = {
        preset: score_with_preset(preset, [], called, **options).score
        for preset, options in [
            ("adk_parameter_match", {}),
            ("adk_trajectory", {"match_type": "any_order"}),
            ("axion", {}),
            ("ragas", {}),
            ("tau2", {}),
            ("uipath", {}),
        ]
    }
    assert scores == {
        "adk_parameter_match": None,
        "adk_trajectory": 1.0,
        "axion": 0.0,
        "ragas": 0.0,
        "tau2": 1.0,
        "uipath": 0.0,
    }
