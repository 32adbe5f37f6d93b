"""Scores a session by the chosen metrics: a failure of one does not reach the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from goldspan.scoring.criterion import MAIN_METRIC, Criterion
from goldspan.scoring.errors import MetricError
from goldspan.scoring.goldens.golden import Golden, MetricChoice
from goldspan.scoring.json_values import steps_of
from goldspan.scoring.metric_results import (
    MetricCall,
    MetricResult,
    MetricScore,
    MetricTurn,
    MetricVerdict,
    Range,
)
from goldspan.scoring.metrics.call_scores import CallMetric
from goldspan.scoring.metrics.metric_registry import (
    BUILT_IN_METRICS,
    GOLDEN,
    Metric,
    MetricAnswer,
    MetricFunction,
    MetricRunner,
    as_metric,
    find_metric,
    import_metric,
    needs_of,
    run_in_this_thread,
)
from goldspan.scoring.metrics.trajectory import TrajectoryMetric, TurnCalls, mean, update_calls_by_turn
from goldspan.scoring.results import SessionResult, explain
from goldspan.scoring.sessions import IncrementalList, Session, Turn
from goldspan.scoring.verdict import Label, Reason

_LONGEST = 500
"""Characters of what a metric raised."""


@dataclass(frozen=True, slots=True)
class ChosenMetric:
    """A metric chosen by a user."""

    metric: Metric
    threshold: Fraction | None = None
    """The least score that passes; None: the metric's own, if it has one. Without any it only informs."""

    @property
    def least(self) -> Fraction | None:
        """The least score that passes; None: it only informs."""
        return getattr(self.metric, "threshold", None) if self.threshold is None else self.threshold


MetricSource = ChosenMetric | Metric | MetricFunction | str
"""A metric, a function of session and golden, or `NAME`, `pkg.module:function`, each with `=THRESHOLD` or without."""


def choose_metric(given: MetricSource) -> ChosenMetric:
    """Return the chosen metric. An import path runs code: never pass a name from a golden file.

    Raises MetricError if there is no such metric, or the threshold is no number in its range.
    """
    if isinstance(given, ChosenMetric):
        return given
    if isinstance(given, str):
        name, equals, written = given.partition("=")
        metric = import_metric(name) if ":" in name else find_metric(name)
        threshold = threshold_of(metric, written) if equals else None
    else:
        metric, threshold = as_metric(given), None
    if metric.name == MAIN_METRIC:
        raise MetricError(f"`{MAIN_METRIC}` is always scored: choose metrics beside it")
    return ChosenMetric(metric, threshold)


def choose_metrics(given: Iterable[MetricSource]) -> tuple[ChosenMetric, ...]:
    """Return what is asked for, each name once.

    Raises MetricError as `choose_metric`, or if two different metrics have one name.
    """
    chosen: dict[str, ChosenMetric] = {}
    for one in map(choose_metric, given):
        before = chosen.setdefault(one.metric.name, one)
        if before.metric is not one.metric and before.metric != one.metric:
            raise MetricError(f"two metrics are called `{one.metric.name}`: give one of them another name")
        if one.threshold is not None:
            chosen[one.metric.name] = one
    return tuple(chosen.values())


def threshold_of(metric: Metric, written: str) -> Fraction:
    """Read a threshold exactly as it is written. Raises MetricError if it is no number in the metric's range."""
    least, most = metric.range
    try:
        number = Fraction(Decimal(written.strip()))
    except (InvalidOperation, ValueError, OverflowError):
        raise MetricError(f"{metric.name}: found the threshold {written!r}, expected a number") from None
    if not least <= number <= most:
        raise MetricError(f"{metric.name}: found the threshold {written}, expected {least:g} to {most:g}")
    return number


def chosen_for(golden: Golden, everywhere: Sequence[ChosenMetric]) -> Iterator[ChosenMetric | MetricChoice]:
    """List the metrics for a session: those chosen for all, and those its golden names; its threshold wins."""
    named = {choice.name: choice for choice in golden.metrics}
    for one in everywhere:
        choice = named.pop(one.metric.name, None)
        yield one if choice is None or choice.threshold is None else ChosenMetric(one.metric, choice.threshold)
    for choice in named.values():
        try:
            yield ChosenMetric(find_metric(choice.name), choice.threshold)
        except MetricError:
            yield choice


class KeptMetric:
    """What a metric said of the turns of one run, for the next time that the run is scored."""

    def __init__(self) -> None:
        self.running: Callable[[Session], MetricScore] | None = None
        """Judges a growing run, if the metric can."""
        self.answered: tuple[Session, MetricAnswer] | None = None
        """What another metric was asked last, and its answer."""
        self.turns: IncrementalList[MetricTurn] = IncrementalList()
        self.calls: IncrementalList[TurnCalls] = IncrementalList()
        """Of a trajectory metric."""
        self.scores: IncrementalList[MetricScore] = IncrementalList()
        self.places: list[int | None] = []
        """Which golden turn each turn is."""


def score_metrics(
    own: SessionResult,
    everywhere: Sequence[ChosenMetric],
    *,
    override: Criterion | None = None,
    run: MetricRunner = run_in_this_thread,
    final: bool = True,
    kept: dict[str, KeptMetric] | None = None,
) -> tuple[MetricResult, ...]:
    """Score a session that `tool_parameter_match` has scored (`own`) by each metric chosen for it.

    `override` replaces the golden's criteria. `run` runs metrics that are not goldspan's own. `final=False`: more turns
    may come, so that only metrics of single turns are scored. What a metric raises, and an answer that is no score in
    its range, is the reason `evaluator_error` of that metric alone. `kept` has what is kept of each metric until more
    turns come.
    """
    kept = {} if kept is None else kept
    session, golden = own.session, own.golden
    if session is None:
        return ()
    results: list[MetricResult] = []
    calls: IncrementalList[TurnCalls] | None = None
    for chosen in everywhere if golden is None else chosen_for(golden, everywhere):
        if golden is None and not isinstance(chosen, MetricChoice) and GOLDEN in needs_of(chosen.metric):
            continue
        if isinstance(chosen, MetricChoice):
            failed = _failed(f"no metric is called {chosen.name}")
            results.append(MetricResult(chosen.name, "", _UNIT, failed, (), chosen.threshold))
        elif isinstance(chosen.metric, TrajectoryMetric):
            one = kept.setdefault(chosen.metric.name, KeptMetric())
            if calls is None:
                calls = kept.setdefault("", KeptMetric()).calls
                update_calls_by_turn(calls, own, override)
            results.append(_of_trajectory(chosen.metric, chosen.threshold, own, calls.made, one))
        elif final or getattr(chosen.metric, "by_turn", False):
            one = kept.setdefault(chosen.metric.name, KeptMetric())
            results.append(_measured(chosen, session, golden, own, run, one))
    return tuple(results)


def _of_trajectory(
    metric: TrajectoryMetric,
    threshold: Fraction | None,
    own: SessionResult,
    calls: Sequence[TurnCalls],
    kept: KeptMetric,
) -> MetricResult:
    first, _ = kept.scores.update(list(calls), lambda at: metric.of_turn(calls[at]))
    scores = kept.scores.made
    exact, evaluated = mean(scores), sum(score.score is not None for score in scores)
    reason = next((one.reason for one in scores if one.reason), own.verdict.reason or Reason.NOTHING_EXPECTED)
    several = f"mean of {evaluated} turn{'' if evaluated == 1 else 's'}"
    words = scores[0].explanation if len(scores) == 1 else several if evaluated else ""

    def scored(index: int) -> MetricTurn:
        turn = own.turns[index]
        return MetricTurn(_verdict(scores[index], metric, threshold), turn.turn, turn.turn_index, turn.expected_index)

    kept.turns.update(own.turns, scored, at_most=first)
    verdict = _verdict(MetricScore(exact, words, reason), metric, threshold)
    return _result(metric, threshold, verdict, kept.turns.made)


def _measured(
    chosen: ChosenMetric,
    session: Session,
    golden: Golden | None,
    own: SessionResult,
    run: MetricRunner,
    kept: KeptMetric,
) -> MetricResult:
    metric, threshold = chosen.metric, chosen.least
    places = {turn.turn_index: turn.expected_index for turn in own.turns}

    def scored(index: int) -> MetricTurn:
        one, turn = _read(turns[index]), session.turns[index]
        verdict, calls = _verdict(one, metric, threshold), _calls(one, metric, threshold, turn)
        return MetricTurn(verdict, turn, index, places.get(index), calls)

    try:
        if isinstance(metric, CallMetric):
            kept.running = kept.running or metric.running()
            answer: MetricAnswer = kept.running(session)
        elif getattr(metric, "by_turn", False) and kept.answered is not None and kept.answered[0] == session:
            answer = kept.answered[1]
        else:
            runner = run_in_this_thread if isinstance(metric, type(BUILT_IN_METRICS.get(metric.name))) else run
            answer = runner(metric, session, golden)
            kept.answered = (session, answer)
        score = _read(answer)
        turns = score.turns
        if turns and len(turns) != len(session.turns):
            raise ValueError(f"{len(turns)} turns were scored, and the session has {len(session.turns)}")
        verdict = _verdict(score, metric, threshold)
        expected: list[int | None] = [None] * len(turns)
        if places:
            expected = list(map(places.get, range(len(turns))))
        same = expected[: len(kept.places)] == kept.places and kept.running is not None
        kept.turns.update(turns, scored, at_most=None if same else 0)
        kept.places = expected
    except Exception as error:  # noqa: BLE001 - whatever a metric raises is its own failure
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _result(metric, threshold, _failed(text), [])
    return _result(metric, threshold, verdict, kept.turns.made)


def _calls(score: MetricScore, metric: Metric, threshold: Fraction | None, turn: Turn) -> tuple[MetricCall, ...]:
    """Return the results of the calls of a turn.

    Raises ValueError if their number differs from the turn's calls, or a finding has no JSON Pointer as its path.
    """
    if not score.calls:
        return ()
    if len(score.calls) != len(turn.calls):
        raise ValueError(f"{len(score.calls)} calls were scored, and the turn has {len(turn.calls)}")
    scores = list(map(_read, score.calls))
    if metric.name not in BUILT_IN_METRICS:
        for finding in (one for call in scores for one in call.findings):
            steps_of(finding.path)
    return tuple(
        MetricCall(_verdict(one, metric, threshold), call, index, one.findings)
        for index, (one, call) in enumerate(zip(scores, turn.calls, strict=True))
    )


def _read(answer: object) -> MetricScore:
    """Read what a metric returned. Raises TypeError for anything but a score."""
    if isinstance(answer, MetricScore):
        if answer.score is not None:
            _number(answer.score)
        return answer
    if isinstance(answer, SessionResult):
        verdict = answer.verdict
        return MetricScore(verdict.exact, explain(answer), verdict.reason)
    if answer is None:
        return MetricScore(None)
    return MetricScore(_number(answer))


def _number(answer: object) -> float | Fraction:
    if isinstance(answer, bool | int | float | Fraction):
        return answer
    raise TypeError(f"found a {type(answer).__name__}, expected a number, a MetricScore or None")


_UNIT = Range(0.0, 1.0)


def _verdict(score: MetricScore, metric: Metric, threshold: Fraction | None) -> MetricVerdict:
    """Label a score. Raises ValueError for one outside the metric's range."""
    words, detailed = str(score.explanation), str(score.detailed)
    if score.score is None:
        return MetricVerdict(None, Label.NOT_EVALUATED, score.reason or Reason.NOTHING_EXPECTED, words, detailed)
    if isinstance(score.score, Fraction) and metric.range == _UNIT:
        exact = score.score  # compared as integers: a comparison of a fraction with a float takes microseconds
        within = 0 <= exact.numerator <= exact.denominator
    else:
        within = math.isfinite(score.score) and metric.range.least <= score.score <= metric.range.most
        # A float is read as the decimal it prints as: 0.7 passes a threshold of 0.7.
        read = Decimal(repr(score.score)) if isinstance(score.score, float) and within else score.score
        exact = Fraction(read) if within else Fraction(0)
    if not within:
        least, most = metric.range
        raise ValueError(f"found the score {score.score}, expected {least:g} to {most:g}")
    label = None if threshold is None else Label.PASS if exact >= threshold else Label.FAIL
    return MetricVerdict(exact, label, None, words, detailed)


def _failed(text: str) -> MetricVerdict:
    return MetricVerdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR, text[:_LONGEST])


def _result(
    metric: Metric, threshold: Fraction | None, verdict: MetricVerdict, turns: Sequence[MetricTurn]
) -> MetricResult:
    return MetricResult(
        metric.name,
        metric.description,
        metric.range,
        verdict,
        tuple(turns),
        threshold,
        needs_golden=GOLDEN in needs_of(metric),
    )
