"""What single presets read and say beyond the recorded answers."""

from __future__ import annotations

from typing import Any

import pytest

from goldspan.scoring.api import score_sessions
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.presets import score_with_preset
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.verdict import Label, Reason

PARIS = {"city": "Paris"}


def test_adk_tells_one_empty_invocation_from_none() -> None:
    for one in ([[]], {"invocations": [[]]}):
        assert score_with_preset("adk_trajectory", one, one).score == 1.0
    for none in ([], {"invocations": []}):
        for preset in ("adk_trajectory", "adk_parameter_match"):
            result = score_with_preset(preset, none, none)
            assert (result.score, result.status, result.per_invocation) == (None, "NOT_EVALUATED", ())
            assert (result.label, result.reason) == (Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)


@pytest.mark.parametrize("expected", [{"calls": []}, {"turns": []}], ids=str)
def test_a_session_without_turns_is_no_invocation_and_never_passes(expected: Any) -> None:
    goldens = {"golden_set": "g", "preset": "adk_trajectory", "goldens": [{"session": "s", **expected}]}
    [result] = score_sessions(goldens, Session("s")).sessions
    assert (result.score, result.label) == (None, Label.NOT_EVALUATED)
    [quiet] = score_sessions(
        {**goldens, "goldens": [{"session": "s", "turns": [{}]}]}, Session("s", (Turn(),))
    ).sessions
    assert (quiet.score, quiet.label) == (1, Label.PASS), "one invocation in which nothing is expected or called"


CALL = {"name": "a", "args": {"x": 1}}


@pytest.mark.parametrize(
    ("expected", "actual", "lengths"),
    [
        ([], [[CALL], [CALL]], "2 and 0"),
        ([[CALL], [CALL]], [], "0 and 2"),
        ([CALL], [[CALL], None], "2 and 1"),
        ({"invocations": []}, [CALL], "1 and 0"),
    ],
)
@pytest.mark.parametrize("preset", ["adk_parameter_match", "adk_trajectory"])
def test_adk_wants_as_many_invocations_on_both_sides(preset: str, expected: Any, actual: Any, lengths: str) -> None:
    result = score_with_preset(preset, expected, actual)
    assert result.status == "EXCEPTION"
    assert f"must have the same length; got {lengths}." in str(result.error)


def test_adk_means_over_the_invocations_it_evaluated() -> None:
    call = {"name": "a", "args": {"x": 1}}
    result = score_with_preset("adk_parameter_match", [[call], [call], []], [[call], [], [call]], threshold=0.5)
    assert result.score == 0.5
    assert [one["status"] for one in result.per_invocation or ()] == ["PASSED", "FAILED", "NOT_EVALUATED"]


def test_a_model_side_call_id_is_not_uipaths_tool_id() -> None:
    calls = [ToolCall("weather", PARIS, call_id="call_1")]
    assert score_with_preset("uipath", [ExpectedCall("weather", PARIS)], calls).score == 1.0


def test_uipath_reads_the_results_of_goldspans_calls() -> None:
    wanted = [{"name": "t", "output": "21"}]
    said = [ToolCall("t", result=Content('{"content": 21}', Capture.CAPTURED))]
    assert score_with_preset("uipath", wanted, said, evaluator="output").score == 1.0
    assert score_with_preset("uipath", wanted, [ToolCall("t")], evaluator="output").score == 0.0


class Span:
    """A span as an SDK holds it."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = {key.replace("__", "."): value for key, value in attributes.items()}


def test_uipath_reads_spans() -> None:
    spans = [Span(tool__name="t", input__value="{'a': True}"), Span(gen_ai__tool__name="t"), Span()]
    assert score_with_preset("uipath", [{"name": "t", "args": {"a": True}}], spans).score == 1.0


@pytest.mark.parametrize(
    "counts", [{"s": [">=", 2]}, {"tool_calls_count": {"s": ["=", 2]}}, {"toolCallsCount": {"s": (">", 1)}}]
)
def test_uipath_counts_by_criteria(counts: Any) -> None:
    calls = [{"name": "s"}, {"name": "s"}]
    assert score_with_preset("uipath", counts, calls, evaluator="count").score == 1.0
    assert (
        score_with_preset("uipath", None, calls, evaluator="count", criteria={"toolCallsCount": {"s": ["<", 2]}}).score
        == 0
    )


USER: dict[str, Any] = {"role": "user"}
SAID: dict[str, Any] = {"role": "assistant", "tool_calls": [{"name": "a", "args": {}}]}


SAME: list[Any] = [
    {"messages": [SAID]},
    SAID,
    [{"type": "ai", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}],
    [{"role": "ai", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}],
    [{"role": "ai", "content": [{"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"}]}],
    [{**SAID, "content": [{"type": "text", "text": "I look it up"}]}],
]


@pytest.mark.parametrize("messages", SAME)
def test_langchain_reads_messages_in_many_forms(messages: Any) -> None:
    assert score_with_preset("langchain", [SAID], messages).score == 1.0
    assert score_with_preset("langchain", [USER, SAID], messages).score == 0.0


@pytest.mark.parametrize("messages", [{"calls": []}, [{"role": "robot"}], [USER, 5], [{"tool_calls": []}]])
def test_langchain_does_not_guess_what_is_no_message(messages: Any) -> None:
    assert score_with_preset("langchain", [USER], messages).reason is Reason.EVALUATOR_ERROR


def test_langchain_takes_a_function_for_one_tool() -> None:
    def same_length(output: dict[str, Any], reference: dict[str, Any]) -> bool:
        return len(output["q"]) == len(reference["q"])

    result = score_with_preset(
        "langchain",
        [{"name": "s", "args": {"q": "ab"}}],
        [{"name": "s", "args": {"q": "cd"}}],
        trajectory_match_mode="superset",
        tool_args_match_overrides={"s": same_length},
    )
    assert result.score == 1.0


@pytest.mark.parametrize("language", ["Java", "javascript"])
def test_bfcl_says_which_languages_it_does_not_reproduce(language: str) -> None:
    result = score_with_preset("bfcl", [{"name": "f", "any_of": {}, "types": {}}], [{"f": {}}], language=language)
    assert (result.score, result.reason) == (None, Reason.EVALUATOR_ERROR)
    assert language.lower() in str(result.explanation)


def test_bfcl_tells_the_category_by_the_number_of_calls() -> None:
    golden: list[Any] = [{"name": "f", "any_of": {}, "types": {}}]
    one = score_with_preset("bfcl", golden, []).explanation
    two = score_with_preset("bfcl", golden * 2, []).explanation
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert one["error_type"] == "simple_function_checker:wrong_count"
    assert two["error_type"] == "parallel_function_checker_no_order:wrong_count"


@pytest.mark.parametrize(
    ("passed", "errors", "error_type"),
    [
        ({"k": "V "}, [], None),
        ({"k": "v", "n": 1}, [], None),
        ({"z": 1, "y": 2, "k": "v"}, ["Unexpected dict key parameter: 'z'."], "value_error:dict_key"),
        (
            {"z": 1},
            ["Unexpected dict key parameter: 'z'.", "Missing dict key parameter: 'k'."],
            "value_error:dict_key",
        ),
        (
            {"n": 3, "z": 1, "k": "v"},
            ["Invalid value for parameter 'n': 3. Expected one of [1, '']."],
            "value_error:dict_value",
        ),
    ],
)
def test_bfcl_looks_one_level_into_objects(passed: Any, errors: list[str], error_type: str | None) -> None:
    golden = [{"name": "f", "any_of": {"o": ["", {"k": ["v"], "n": [1, ""]}]}, "types": {"o": "dict"}}]
    said = score_with_preset("bfcl", golden, [{"f": {"o": passed}}]).explanation
    assert isinstance(said, dict)
    assert (said["error"], said.get("error_type")) == (errors, error_type)


def test_bfcl_can_expect_names_without_dots() -> None:
    golden: list[Any] = [{"name": "math.hypot", "any_of": {}, "types": {}}]
    assert score_with_preset("bfcl", golden, [{"math_hypot": {}}], underscore_to_dot=True).score == 1.0
    assert score_with_preset("bfcl", golden, [{"math_hypot": {}}]).score == 0.0


LISTS: list[tuple[list[Any], Any, bool]] = [
    # alternatives, passed, valid
    ([[1.0, 3.0]], [1.0, 3.0], True),
    ([[1.0, 3.0]], [1, 3], False),
    ([[1, 2]], [1.0, 2.0], False),
    ([[1, 2]], [2, 1], False),
    ([[1, 2], [2, 1]], [2, 1], True),
    ([["A b", "c"]], ["a-B", "C"], True),
    (["", [1]], [1.0], True),
    ([[]], [], True),
    ([[]], [1], False),
    ([[{"k": ["v"]}, {"k": ["w", ""]}]], [{"k": "v"}, {}], True),
    ([[{"k": ["v"]}, {"k": ["w"]}]], [{"k": "v"}, {"k": "x"}], False),
    ([[{"k": ["v"]}, {"k": ["w"]}]], [{"k": "v"}], False),
]


@pytest.mark.parametrize(("alternatives", "passed", "valid"), LISTS)
def test_bfcl_tells_the_type_of_items_by_the_alternatives(alternatives: list[Any], passed: Any, valid: bool) -> None:
    golden = [{"name": "f", "any_of": {"x": alternatives}, "types": {"x": "array"}}]
    assert score_with_preset("bfcl", golden, [{"f": {"x": passed}}]).score == float(valid)


def test_bfcl_knows_no_argument_without_a_type() -> None:
    golden = [{"name": "f", "any_of": {"x": [1], "y": ["", 2]}, "types": {"x": "integer"}}]
    said = score_with_preset("bfcl", golden, [{"f": {"x": 1, "y": 2}}]).explanation
    assert said == {
        "valid": False,
        "error": ["Unexpected parameter: 'y'."],
        "error_type": "simple_function_checker:unexpected_param",
    }


@pytest.mark.parametrize(("threshold", "label"), [(0.5, Label.PASS), (0.51, Label.FAIL)])
def test_axion_passes_at_its_threshold(threshold: float, label: Label) -> None:
    assert score_with_preset("axion", [CALL, CALL], [CALL], threshold=threshold).label is label
