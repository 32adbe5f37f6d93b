"""The adapter for Google ADK, with the real google-adk: the same scores as goldspan's own, and what is made of them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goldspan.scoring import Criterion, load_goldens, score_session
from goldspan.scoring.errors import CriterionError
from rigs.adk_invocations import Call, eval_set, invocation, needs_adk, observed, write_json

pytestmark = needs_adk

A, B = ("f", {"x": 1, "y": 2}), ("g", {"q": "Paris"})


@pytest.fixture(scope="module")
def adk() -> ModuleType:
    import warnings  # noqa: PLC0415 - google-adk is not there in every environment

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ADK warns of its own experiments
        import goldspan.collector_processor.adapters.adk as module  # noqa: PLC0415

        return module


def invocations(*documents: dict[str, Any]) -> list[Any]:
    from google.adk.evaluation.eval_case import Invocation  # noqa: PLC0415

    return [Invocation.model_validate(document) for document in documents]


def metric(criterion: dict[str, Any] | None = None, threshold: float | None = None) -> Any:
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric  # noqa: PLC0415

    given = None if criterion is None else BaseCriterion.model_validate({"threshold": 0.8, **criterion})
    return EvalMetric(metric_name="tool_parameter_match", criterion=given, threshold=threshold)


def evaluate(adk: ModuleType, actual: list[Any], expected: list[Any] | None, **criterion: Any) -> Any:
    by_function = adk.tool_parameter_match(metric(criterion), actual, expected, None)
    by_class = adk.ToolParameterMatchEvaluator(eval_metric=metric(criterion)).evaluate_invocations(actual, expected)
    assert by_class == by_function
    return by_function


def statuses(result: Any) -> list[tuple[float | None, str]]:
    return [(one.score, one.eval_status.name) for one in result.per_invocation_results]


def rationales(result: Any, index: int = 0) -> dict[str, str]:
    return {one.rubric_id: one.rationale for one in result.per_invocation_results[index].rubric_scores}


def test_both_kinds_of_intermediate_data_are_read(adk: ModuleType) -> None:
    expected = invocations(invocation("hi", [A, B]))
    for actual in (invocation("hi", [A, B]), observed("hi", [[A], [B]]), observed("hi", [[A, B]])):
        assert statuses(evaluate(adk, invocations(actual), expected)) == [(1.0, "PASSED")]


def test_calls_of_one_event_are_a_parallel_batch(adk: ModuleType) -> None:
    expected = invocations(invocation("hi", [B, A]))
    together, one_by_one = invocations(observed("hi", [[A, B]])), invocations(observed("hi", [[A], [B]]))
    assert evaluate(adk, together, expected).overall_score == 1.0
    assert evaluate(adk, one_by_one, expected).overall_score == 0.5
    assert evaluate(adk, together, expected, parallelCalls="in_order").overall_score == 0.5


def test_arguments_that_are_null_are_no_arguments(adk: ModuleType) -> None:
    null, nothing = invocations(observed("hi", [[("f", None)]])), invocations(invocation("hi", [("f", {})]))
    assert evaluate(adk, null, nothing).overall_score == 1.0
    assert evaluate(adk, nothing, null).overall_score == 1.0
    assert evaluate(adk, null, invocations(invocation("hi", [A]))).overall_score == 0.0


def test_hand_offs_are_no_calls_on_either_side(adk: ModuleType) -> None:
    hand_off = ("transfer_to_agent", {"agent_name": "billing"})
    actual, expected = invocations(observed("hi", [[hand_off], [A]])), invocations(invocation("hi", [A]))
    assert evaluate(adk, actual, expected, extraCalls="penalize").overall_score == 1.0
    assert evaluate(adk, expected, invocations(invocation("hi", [hand_off, A]))).overall_score == 1.0


def test_invocations_and_case_have_verdicts_of_their_own(adk: ModuleType) -> None:
    said = [("one", [A]), ("two", []), ("three", [B])]
    expected = invocations(*(invocation(text, calls) for text, calls in said))
    actual = invocations(observed("one", [[A]]), observed("two", [[A]]), observed("three", [[("g", {"q": "Rome"})]]))
    result = evaluate(adk, actual, expected, threshold=0.5)
    assert statuses(result) == [(1.0, "PASSED"), (None, "NOT_EVALUATED"), (0.0, "FAILED")]
    assert (result.overall_score, result.overall_eval_status.name) == (0.5, "PASSED")
    assert [one.actual_invocation for one in result.per_invocation_results] == actual
    assert [one.expected_invocation for one in result.per_invocation_results] == expected


def test_the_rationale_says_what_was_wrong(adk: ModuleType) -> None:
    actual = invocations(observed("hi", [[("f", {"x": 1, "z": 3})], [B]]))
    result = evaluate(adk, actual, invocations(invocation("hi", [A])), matchMode="name_only")
    assert rationales(result) == {
        "turn": "f.y (not passed); 0 of 1 calls right; wrong: f; unexpected: g",
        "f": "1 of 2 arguments match; missing: y (expected 2); extra: z",
        "g": "not expected",
    }
    session = "turn 1: f.y (not passed); 1 of 1 turns evaluated; below the threshold: turn 1"
    assert result.overall_rubric_scores[0].rationale == session


def test_a_case_without_an_expected_conversation_is_not_evaluated(adk: ModuleType) -> None:
    result = evaluate(adk, invocations(observed("hi", [[A]])), None)
    assert (result.overall_score, result.overall_eval_status.name) == (None, "NOT_EVALUATED")
    assert statuses(result) == [(None, "NOT_EVALUATED")]
    assert rationales(result) == {"turn": "not evaluated: no golden for this session"}


def test_a_session_judged_as_one_gives_each_invocation_its_verdict(adk: ModuleType) -> None:
    actual = invocations(observed("one", [[A]]), observed("two", [[B]]))
    expected = invocations(invocation("one", [A, B]), invocation("two", [("h", {})]))
    result = evaluate(adk, actual, expected, scope="session", threshold=0.5)
    assert result.overall_score == pytest.approx(2 / 3)
    assert statuses(result) == [(result.overall_score, "PASSED")] * 2
    assert rationales(result, 0) == rationales(result, 1)
    assert rationales(result)["h"] == "h (not called)"


def test_an_invocation_that_never_came_counts(adk: ModuleType) -> None:
    result = evaluate(
        adk, invocations(observed("one", [[A]])), invocations(invocation("one", [A]), invocation("two", [B]))
    )
    assert (result.overall_score, statuses(result)) == (0.5, [(1.0, "PASSED")])


def test_turns_are_paired_by_position_unless_the_criterion_asks_for_keys(adk: ModuleType) -> None:
    actual = invocations(observed("b", [[A]]), observed("a", [[B]]))
    expected = invocations(invocation("a", [A]), invocation("b", [B]))
    assert evaluate(adk, actual, expected).overall_score == 1.0
    assert evaluate(adk, actual, expected, turnJoin="key").overall_score == 0.0


@pytest.mark.parametrize(
    "criterion",
    [
        {"matchMode": "name_only", "perArgStrategies": {"x": "numeric"}, "numericTolerance": 0.5, "threshold": 0.9},
        {"match_mode": "name_only", "per_arg_strategies": {"x": "numeric"}, "numeric_tolerance": 0.5, "threshold": 0.9},
    ],
    ids=["camelCase", "snake_case"],
)
def test_every_field_comes_through_in_both_spellings(adk: ModuleType, criterion: dict[str, Any]) -> None:
    own = {**criterion, "turn_join": "index"}
    assert adk.criterion_of(metric({**criterion, "includeIntermediateResponsesInFinal": True})) == Criterion.parse(own)


def test_the_threshold_is_the_criterions_else_the_metrics(adk: ModuleType) -> None:
    assert float(adk.criterion_of(metric({"threshold": 0.3}, threshold=0.6)).threshold) == 0.3
    assert float(adk.criterion_of(metric(threshold=0.6)).threshold) == 0.6
    assert float(adk.criterion_of(metric()).threshold) == 1


def test_every_mistake_of_a_criterion_is_named(adk: ModuleType) -> None:
    with pytest.raises(CriterionError) as caught:
        adk.ToolParameterMatchEvaluator(eval_metric=metric({"orderd": True, "matchMode": "loose"}))
    assert str(caught.value).splitlines() == [
        'criteria.tool_parameter_match.match_mode: found "loose", expected `name_only`, `name_and_required_args` or '
        "`name_and_args`",
        "criteria.tool_parameter_match.orderd: unknown field; did you mean `ordered`?",
    ]


def test_importing_makes_it_a_metric_of_the_registry(adk: ModuleType) -> None:
    registry = adk.DEFAULT_METRIC_EVALUATOR_REGISTRY
    assert isinstance(registry.get_evaluator(metric({})), adk.ToolParameterMatchEvaluator)
    assert "tool_parameter_match" in {info.metric_name for info in registry.get_registered_metrics()}


VALUES = st.one_of(st.integers(0, 2), st.sampled_from(["a", "A"]), st.none(), st.lists(st.integers(0, 1), max_size=2))
CALLS = st.lists(
    st.tuples(st.sampled_from(["f", "g"]), st.dictionaries(st.sampled_from(["x", "y"]), VALUES)), max_size=3
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.lists(st.tuples(CALLS, CALLS), min_size=1, max_size=3),
    mode=st.sampled_from(["name_only", "name_and_required_args", "name_and_args"]),
    ordered=st.booleans(),
)
def test_scores_are_those_of_score_session(
    adk: ModuleType, turns: list[tuple[list[Call], list[Call]]], mode: str, ordered: bool
) -> None:
    expected = invocations(*(invocation(str(index), wanted) for index, (wanted, _) in enumerate(turns)))
    actual = invocations(*(observed(str(index), [[call] for call in made]) for index, (_, made) in enumerate(turns)))

    def plain(calls: list[Call]) -> list[dict[str, Any]]:
        return [{"name": name, "args": args} for name, args in calls]

    criterion = {"match_mode": mode, "ordered": ordered}
    golden: Any = [{"calls": plain(wanted)} for wanted, _ in turns]
    own = score_session(golden, [plain(made) for _, made in turns], criterion)
    result = evaluate(adk, actual, expected, **criterion)
    word = {"pass": "PASSED", "fail": "FAILED", "not_evaluated": "NOT_EVALUATED"}
    assert (result.overall_score, result.overall_eval_status.name) == (own.verdict.score, word[own.verdict.label])
    assert statuses(result) == [(turn.verdict.score, word[turn.verdict.label]) for turn in own.turns]


def test_an_eval_set_is_the_same_golden_here_and_as_a_file(adk: ModuleType, tmp_path: Any) -> None:
    document = eval_set({"case": [("hi", [A, ("transfer_to_agent", {"agent_name": "b"}), ("h", None)]), ("bye", [])]})
    (from_file,) = load_goldens(write_json(tmp_path / "weather.evalset.json", document)).sets[0].goldens
    here = adk.golden_of(invocations(*document["eval_cases"][0]["conversation"]))
    assert here.turns == from_file.turns
