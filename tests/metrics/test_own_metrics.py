"""A user's own metric: a function, sync or async, contained whatever it does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.scoring import Golden, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.errors import GoldenFileError, MetricError
from goldspan.scoring.metrics import (
    MetricResult,
    MetricScore,
    Range,
    as_metric,
    import_metric,
    metric,
    metric_names,
    register_metric,
)
from goldspan.scoring.metrics.session_metrics import _METRICS, ChosenMetric
from goldspan.scoring.run import ScoringResult, scorer_of
from goldspan.scoring.verdict import Reason

SESSION = Session("s", (Turn((ToolCall("f", {"x": 1}),), start=1), Turn((ToolCall("g"),), start=2)))
GOLDENS: dict[str, Any] = {
    "golden_set": "g",
    "goldens": [{"session": "s", "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}, {"calls": [{"name": "g"}]}]}],
}


def judge(*metrics: Any, **goldens: Any) -> ScoringResult:
    return score_sessions({**GOLDENS, **goldens}, SESSION, metrics=metrics)


def only(result: ScoringResult) -> MetricResult:
    (one,) = result.sessions[0].metrics
    return one


def half(session: Session, golden: Golden) -> float:
    """Always one half.

    Whatever the session.
    """
    return 0.5


async def half_later(session: Session, golden: Golden) -> float:
    return 0.5


@pytest.fixture
def registered() -> Iterator[None]:
    before = dict(_METRICS)
    yield
    _METRICS.clear()
    _METRICS.update(before)


def test_a_function_has_its_name_the_first_line_of_its_docstring_and_a_share_as_range() -> None:
    found = only(judge(half))
    assert (found.name, found.description, found.range) == ("half", "Always one half.", Range(0, 1))
    assert (found.verdict.score, found.verdict.label, found.turns) == (0.5, None, ())


@pytest.mark.parametrize(
    ("answer", "exact"),
    [
        (0.7, Fraction(7, 10)),
        (1, 1),
        (True, 1),
        (False, 0),
        (Fraction(1, 3), Fraction(1, 3)),
        (MetricScore(0.1), Fraction(1, 10)),
    ],
)
def test_what_it_may_answer(answer: Any, exact: Fraction) -> None:
    assert only(judge(metric(name="m")(lambda session, golden: answer))).verdict.exact == exact


def test_no_answer_is_not_evaluated() -> None:
    verdict = only(judge(metric(name="m")(lambda session, golden: None))).verdict
    assert (verdict.score, verdict.label, verdict.reason) == (None, "not_evaluated", "nothing_expected")
    said = MetricScore(None, "no answer was recorded", Reason.INPUT_MISSING)
    verdict = only(judge(metric(name="m")(lambda session, golden: said))).verdict
    assert (verdict.reason, verdict.explanation) == ("input_missing", "no answer was recorded")


def test_a_threshold_is_met_exactly_as_written() -> None:
    made = metric(name="m")(lambda session, golden: 0.7)
    for threshold, label in ((Fraction(7, 10), "pass"), (Fraction(71, 100), "fail")):
        result = judge(ChosenMetric(made, threshold))
        assert only(result).verdict.label == label
        assert result.passed is (label == "pass")


def test_turns_may_have_scores_of_their_own() -> None:
    def by_turn(session: Session, golden: Golden) -> MetricScore:
        return MetricScore(0.5, turns=[1, MetricScore(0.0, "nothing")])

    found = only(judge(by_turn))
    assert [(turn.turn_index, turn.expected_index, turn.verdict.score) for turn in found.turns] == [
        (0, 0, 1),
        (1, 1, 0),
    ]
    assert found.turns[1].verdict.explanation == "nothing"


def raises(session: Session, golden: Golden) -> float:
    raise KeyError("no such thing")


async def raises_later(session: Session, golden: Golden) -> float:
    await asyncio.sleep(0)
    raise KeyError("no such thing")


def exits(session: Session, golden: Golden) -> float:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (raises, "KeyError: 'no such thing'"),
        (lambda session, golden: float("nan"), "found the score nan, expected 0 to 1"),
        (lambda session, golden: 1.5, "found the score 1.5, expected 0 to 1"),
        (lambda session, golden: "good", "found a str, expected a number"),
        (lambda session, golden: MetricScore("good"), "found a str, expected a number"),  # type: ignore[arg-type]
        (lambda session, golden: MetricScore(1, turns=[1]), "1 turns were scored, and the session has 2"),
        (lambda session, golden: asyncio.sleep(1), "it waits for something"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_what_goes_wrong_in_one_is_its_own_failure(function: Callable[..., Any], says: str) -> None:
    broken = metric(name="broken")(function)
    result = judge(broken, half)
    first, second = result.sessions[0].metrics
    assert (first.verdict.label, first.verdict.reason) == ("not_evaluated", "evaluator_error")
    assert says in first.verdict.explanation
    assert second.verdict.score == 0.5
    assert result.sessions[0].verdict.score == 1
    assert result.passed, "it only informs"


def test_one_with_a_threshold_that_breaks_is_not_passed_over(registered: None) -> None:
    register_metric(raises)
    assert not judge(metrics={"raises": 0.5}).passed
    assert judge(metrics={"raises": 0.5}).passes("lenient")


class TestWorkers:
    """How doors run them."""

    def run(self, *functions: Any, timeout: float = 5.0) -> list[MetricResult]:
        scorer = scorer_of(metrics=functions, run=MetricWorkers(timeout))
        golden = judge().sessions[0].golden
        return list(scorer.score(golden, SESSION).metrics)

    def test_async_ones_may_wait(self) -> None:
        async def waits(session: Session, golden: Golden) -> float:
            await asyncio.sleep(0.01)
            return 0.25

        assert self.run(waits)[0].verdict.score == 0.25

    @pytest.mark.parametrize("function", [raises, raises_later, exits])
    def test_what_they_raise_stays_there(self, function: Any) -> None:
        first, second = self.run(function, half_later)
        assert first.verdict.reason == "evaluator_error"
        assert second.verdict.score == 0.5

    def test_one_that_hangs_is_waited_for_once_and_keeps_one_thread(self) -> None:
        free = threading.Event()

        def hangs(session: Session, golden: Golden) -> float:
            free.wait(30)
            return 1.0

        workers = MetricWorkers(0.2)
        scorer = scorer_of(metrics=[hangs, half], run=workers)
        golden = judge().sessions[0].golden
        before, started = threading.active_count(), time.monotonic()
        said = [scorer.score(golden, SESSION).metrics for _ in range(20)]
        assert time.monotonic() - started < 3, "twenty sessions wait for it only once"
        assert threading.active_count() == before + 1
        assert [one[0].verdict.reason for one in said] == ["evaluator_error"] * 20
        assert "more than 0.2 seconds" in said[0][0].verdict.explanation
        assert "still at an earlier session" in said[1][0].verdict.explanation
        assert {one[1].verdict.score for one in said} == {0.5}
        free.set()
        while threading.active_count() > before:
            time.sleep(0.01)
        assert scorer.score(golden, SESSION).metrics[0].verdict.score == 1.0

    def test_several_threads_may_share_them(self) -> None:
        inside: list[int] = []

        def slow(session: Session, golden: Golden) -> float:
            inside.append(1)
            time.sleep(0.02)
            assert len(inside) == 1, "it is asked by one at a time"
            inside.pop()
            return 1.0

        scorer = scorer_of(metrics=[slow], run=MetricWorkers(10))
        golden = judge().sessions[0].golden
        said: list[Any] = []
        threads = [
            threading.Thread(target=lambda: said.append(scorer.score(golden, SESSION).metrics[0].verdict.score))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == [1.0] * 8


class TestNames:
    def test_a_registered_one_may_be_named_in_goldens(self, registered: None) -> None:
        @register_metric
        @metric(name="tools_used", range=(0, 100), description="How many tools.")
        def tools(session: Session, golden: Golden) -> int:
            return len({call.name for turn in session.turns for call in turn.calls})

        assert "tools_used" in metric_names()
        assert as_metric(tools) is tools
        found = only(judge(metrics={"tools_used": {"threshold": 3}}))
        assert (found.verdict.score, found.verdict.label, found.range) == (2, "fail", Range(0, 100))

    def test_a_golden_s_threshold_replaces_that_of_its_set(self) -> None:
        golden = {**GOLDENS["goldens"][0], "metrics": {"trajectory_f1": 1}}
        result = judge(metrics=["trajectory_recall", "trajectory_f1"], goldens=[golden])
        assert [(one.name, one.threshold) for one in result.sessions[0].metrics] == [
            ("trajectory_recall", None),
            ("trajectory_f1", 1),
        ]

    @pytest.mark.parametrize(
        ("metrics", "says"),
        [
            (["trajectory_f2"], "metrics[0]: no metric is called trajectory_f2; did you mean `trajectory_f1`?"),
            (["os:getcwd"], "goldens are data and import nothing"),
            ({"os:getcwd": 1}, "goldens are data and import nothing"),
            ({"trajectory_f1": "high"}, 'metrics.trajectory_f1: found "high", expected a number'),
            ({"trajectory_f1": 2}, "found the threshold 2, expected 0 to 1"),
            ({"trajectory_f1": 10**400}, "found the threshold 1000"),
            ({"trajectory_f1": {"treshold": 1}}, "metrics.trajectory_f1.treshold: unknown field"),
            (["tool_parameter_match"], "is always scored"),
            ("trajectory_f1", "expected a list of metrics"),
            ([7], "found 7, expected the name of a metric"),
        ],
    )
    def test_mistakes_in_goldens_are_named(self, metrics: Any, says: str) -> None:
        with pytest.raises(GoldenFileError) as error:
            judge(metrics=metrics)
        assert says in str(error.value)

    def test_naming_code_in_a_golden_imports_nothing(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "trap_of_a_golden.py").write_text("raise SystemExit('it was imported')", "utf-8")
        for metrics in (["trap_of_a_golden:x"], {"trap_of_a_golden": 1}):
            with pytest.raises(GoldenFileError):
                judge(metrics=metrics)

    def test_a_script_that_exits_where_it_is_imported_is_no_metric(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "script_that_exits.py").write_text("raise SystemExit(3)", "utf-8")
        with pytest.raises(MetricError, match="script_that_exits cannot be imported: SystemExit: 3"):
            import_metric("script_that_exits:f")

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("nowhere_at_all:f", "nowhere_at_all cannot be imported: ModuleNotFoundError"),
            ("json:dump_s", "there is no `dump_s` in json: did you mean `dumps`?"),
            ("json:", "no import path"),
            ("json:__doc__", "expected a metric or a function"),
            ("json:JSONDecoder", "expected a metric or a function"),
        ],
    )
    def test_a_wrong_import_path_is_said(self, path: str, says: str) -> None:
        with pytest.raises(MetricError) as error:
            import_metric(path)
        assert says in str(error.value)

    @pytest.mark.parametrize("name", ["two words", "ünï", "a.b", "1st"])
    def test_a_name_that_telemetry_cannot_carry_is_refused(self, name: str) -> None:
        with pytest.raises(MetricError, match="expected letters, digits and _"):
            metric(name=name)(half)

    def test_an_empty_range_is_refused(self) -> None:
        with pytest.raises(MetricError, match="expected the least score before the most"):
            metric(name="m", range=(1, 1))(half)

    def test_two_of_one_name_are_refused(self) -> None:
        with pytest.raises(MetricError, match="two metrics are called `half`"):
            judge(half, metric(name="half")(raises))
