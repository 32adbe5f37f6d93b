"""Metrics by name, and a session scored by the chosen ones: a failure of one does not reach the others.

There are goldspan's own, those of installed packages, and those that code registered. A package offers metrics in the
entry-point group `goldspan.metrics`. One is imported when its name is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from fractions import Fraction
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isawaitable, signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from goldspan.scoring.errors import FileError, MetricError
from goldspan.scoring.goldens.golden import Golden, MetricChoice
from goldspan.scoring.json_values import steps_of
from goldspan.scoring.metrics.answers import AnswerGrounding
from goldspan.scoring.metrics.call_scores import CallMetric, RunningScore
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.metrics.judge import ACCURACY
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.metrics.schema import ToolParameterSchema
from goldspan.scoring.metrics.trajectory import (
    TRAJECTORY_METRICS,
    ToolParameterMatch,
    TrajectoryMetric,
    TurnCalls,
    mean,
    update_calls_by_turn,
)
from goldspan.scoring.results import SessionResult, explain
from goldspan.scoring.sessions import IncrementalList, Session, Turn
from goldspan.scoring.verdict import (
    MAIN_METRIC,
    Label,
    MetricCall,
    MetricResult,
    MetricScore,
    MetricTurn,
    MetricVerdict,
    Range,
    Reason,
)

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

MetricAnswer = MetricScore | SessionResult | float | bool | None
"""What a metric may answer: a number, True for 1 and False for 0, None for not evaluated, or more in words."""

_MetricT = TypeVar("_MetricT", bound="Metric")
MetricFunction = (
    Callable[[Session, Golden], MetricAnswer | Awaitable[MetricAnswer]]
    | Callable[[Session], MetricAnswer | Awaitable[MetricAnswer]]
)
"""A function of a session and its golden, or of a session alone: it then scores sessions without golden, too."""

GOLDEN, CONTEXT, TOOL_DEFINITIONS = "golden", "context", "tool_definitions"
"""What a metric may need: a golden; the messages and results before a call; the definitions of the agent's tools."""


class Metric(Protocol):
    """Turns one run of a session and its golden into a score."""

    @property
    def name(self) -> str:
        """What its results are called in telemetry and reports, in snake_case."""
        ...

    @property
    def description(self) -> str:
        """One line about what a score means."""
        ...

    @property
    def range(self) -> Range:
        """The scores it can give."""
        ...

    def __call__(self, session: Session, golden: Golden, /) -> MetricAnswer | Awaitable[MetricAnswer]:
        """Judge a run of a session that is over. What it raises is the reason `evaluator_error`, and stops nothing.

        A metric may also have `needs`, some of `golden`, `context` and `tool_definitions` (without it: `golden`), and
        `threshold`, which applies where the user chose none. One that needs no golden is called with `None` for
        sessions without golden. With a true `by_turn` its scores of turns are given before the session is over.
        `with_tools(schemas)` returns the metric that judges by these schemas of tools, by name.
        """
        ...


def needs_of(one: Metric) -> frozenset[str]:
    """Return what a metric needs."""
    return frozenset(getattr(one, "needs", (GOLDEN,)))


_WAITS = "it waits for something, which needs an event loop: `goldspan score`, the exporter and the gateway have one"

MetricRunner = Callable[[Metric, Session, Golden | None], MetricAnswer]
"""Runs a metric that is not goldspan's own and returns its answer; raises what it raises."""


@dataclass(frozen=True, slots=True)
class FunctionMetric:
    """A function of session and golden, sync or async, as a metric."""

    name: str
    description: str
    range: Range
    function: MetricFunction
    needs: frozenset[str] = frozenset((GOLDEN,))

    def __call__(self, session: Session, golden: Golden | None, /) -> MetricAnswer | Awaitable[MetricAnswer]:
        """Call the function."""
        function: Callable[..., MetricAnswer | Awaitable[MetricAnswer]] = self.function
        return function(session, golden) if GOLDEN in self.needs else function(session)


def metric(
    *,
    name: str | None = None,
    description: str | None = None,
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002
) -> Callable[[MetricFunction], FunctionMetric]:
    """Make a metric of a function: `@metric(name="tools_known", range=(0, 10))`.

    Without `name` it has the function's, without `description` the first line of the function's docstring.

    Raises:
        MetricError: the name is none that telemetry can carry, or the range is empty.

    """

    def decorate(function: MetricFunction) -> FunctionMetric:
        own = cast("str", getattr(function, "__name__", type(function).__name__))
        about = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
        return checked_metric(
            FunctionMetric(
                name or own, about if description is None else description, Range(*range), function, _needs(function)
            )
        )

    return decorate


def _needs(function: MetricFunction) -> frozenset[str]:
    """Return what a function needs: one of a single parameter reads a session alone, and may read all of it."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have none
        return frozenset((GOLDEN,))
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    several = len(places) > 1 or any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return frozenset((GOLDEN,) if several else (CONTEXT, TOOL_DEFINITIONS))


def as_metric(given: Metric | MetricFunction) -> Metric:
    """Return a metric as it is, and make one of a plain function.

    Raises:
        MetricError: it is neither.

    """
    if all(hasattr(given, name) for name in ("name", "description", "range")):
        return checked_metric(cast("Metric", given))
    if not callable(given) or isinstance(given, type):
        raise MetricError(f"found {given!r}, expected a metric or a function of a session and its golden")
    return metric()(given)


def import_metric(path: str) -> Metric:
    """Import a user's own metric: `pkg.module:function`. This runs code: never pass a name from a golden file.

    `adk:pkg.module:function` is a function of another system, made a metric by what the entry-point group
    `goldspan.metric_adapters` has under that name.

    Raises:
        MetricError: there is no such module or name in it, or what is there is no metric.

    """
    module_name, _, attribute = path.partition(":")
    if ":" in attribute:
        return _adapted(module_name, attribute)
    if not module_name or not attribute:
        raise MetricError(f"{path!r} is no import path; expected one such as `pkg.module:function`")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        raise MetricError(f"{path}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            hint = f": did you mean `{near[0]}`?" if near else ""
            raise MetricError(f"{path}: there is no `{part}` in {module_name}{hint}")
        found = getattr(found, part)
    return as_metric(found)


def _adapted(system: str, path: str) -> Metric:
    adapters = {one.name: one for one in entry_points(group=ADAPTER_GROUP)}
    if system not in adapters:
        known = ", ".join(f"`{one}:`" for one in sorted(adapters)) or "none"
        raise MetricError(f"{system}:{path}: nothing adapts metrics of `{system}`; known are {known}")
    try:
        adapt: Callable[[str], Metric] = adapters[system].load()
    except ImportError as error:
        raise MetricError(f"{system}:{path}: {error}") from error
    return checked_metric(adapt(path))


def checked_metric(one: _MetricT) -> _MetricT:
    """Return a metric whose name and range can be emitted. Raises MetricError for another."""
    if not (one.name.isidentifier() and one.name.isascii()):
        raise MetricError(f"found the metric name {one.name!r}, expected letters, digits and _, as in `tools_known`")
    least, most = one.range
    if not least < most:
        raise MetricError(f"{one.name}: found the range {least} to {most}, expected the least score before the most")
    return one


def run_in_this_thread(metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
    """Run a metric in this thread. One that is async may not wait for anything: doors run those in a loop.

    Raises whatever the metric raises, and RuntimeError if it waits for something.
    """
    answer = metric(session, cast("Golden", golden))
    if not isawaitable(answer):
        return answer
    steps = cast("Generator[Any, None, MetricAnswer]", answer.__await__())
    try:
        next(steps)
    except StopIteration as end:
        return cast("MetricAnswer", end.value)
    except RuntimeError as error:
        if "event loop" in str(error):
            raise RuntimeError(_WAITS) from error
        raise
    steps.close()
    raise RuntimeError(_WAITS)


PROFILE_METRIC = "tool_parameter_profile"
ENTRY_POINT_GROUP = "goldspan.metrics"
ADAPTER_GROUP = "goldspan.metric_adapters"
"""Each takes an import path and returns a metric of goldspan's."""
WITHOUT_GOLDEN: tuple[Metric, ...] = (ToolParameterSchema(), ToolParameterGrounding(), ToolCallRepetition())
"""goldspan's own metrics that need no golden: what is scored where there are no goldens and nothing else is chosen."""

_BUILT_IN: tuple[Metric, ...] = (ToolParameterMatch(), *TRAJECTORY_METRICS, *WITHOUT_GOLDEN, AnswerGrounding())
BUILT_IN_METRICS: dict[str, Metric] = {one.name: one for one in _BUILT_IN}
"""goldspan's own metrics by name, except for the judge, which needs a model."""
OWN_NAMES = frozenset((*BUILT_IN_METRICS, ACCURACY))
"""The names of goldspan's own metrics, whose explanations hold no values of arguments."""

_METRICS: dict[str, Metric] = dict(BUILT_IN_METRICS)


def register_metric(metric: Metric | MetricFunction) -> Metric:
    """Make a metric known by its name, for goldens and `find_metric`; it is returned, so that this decorates functions.

    Raises:
        MetricError: another has that name, or it is no metric.

    """
    one = as_metric(metric)
    known = _METRICS.setdefault(one.name, one)
    if known is not one and known != one:
        raise MetricError(f"a metric called `{one.name}` is registered already: give yours another name")
    return known


def find_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        MetricError: there is none (the message has the nearest name), or its package cannot be imported.

    """
    if name in _METRICS:
        return _METRICS[name]
    offered = _offered()
    if name not in offered:
        raise MetricError(f"no metric is called `{name}`; {nearest_metric(name)}")
    try:
        found = as_metric(offered[name].load())
    except (Exception, SystemExit) as error:  # a package may raise anything
        raise MetricError(f"metric `{name}` of {offered[name].value} cannot be loaded: {error}") from error
    if found.name != name:
        raise MetricError(f"{offered[name].value} is called `{found.name}`, and its entry point `{name}`")
    return _METRICS.setdefault(name, found)


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics, sorted; none is imported for this."""
    return tuple(sorted({*_METRICS, *_offered()}))


def nearest_metric(name: str) -> str:
    """Ask whether the nearest metric was meant, or list those there are."""
    known = metric_names()
    near = get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{one}`' for one in known)}"


def _offered() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}


_LONGEST = 500  # characters of what a metric raised


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
        metric = _named(name)
        threshold = threshold_of(metric, written) if equals else None
    else:
        metric, threshold = as_metric(given), None
    if metric.name == MAIN_METRIC:
        raise MetricError(f"`{MAIN_METRIC}` is always scored: choose metrics beside it")
    return ChosenMetric(metric, threshold)


def _named(name: str) -> Metric:
    """Return the metric of a name, of an import path, or of a profile's file: `tool_parameter_profile:profile.yaml`."""
    if name.startswith(f"{PROFILE_METRIC}:"):
        # Imported when asked for: few sessions are judged by a profile.
        from goldspan.scoring.metrics.argument_profile import ToolParameterProfile  # noqa: PLC0415
        from goldspan.scoring.metrics.profile_file import load_profile  # noqa: PLC0415

        try:
            return ToolParameterProfile(profile=load_profile(name.partition(":")[2]))
        except FileError as error:
            raise MetricError(str(error)) from None
    return import_metric(name) if ":" in name else find_metric(name)


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
    return _by_profile(chosen)


def _by_profile(chosen: dict[str, ChosenMetric]) -> tuple[ChosenMetric, ...]:
    """Tell grounding which values an agent makes itself, and put what uses its origins after it."""
    profile = chosen.pop(PROFILE_METRIC, None)
    if profile is None:
        return tuple(chosen.values())
    generated: frozenset[str] = getattr(getattr(profile.metric, "profile", None), "generated", frozenset())
    others = [
        replace(one, metric=msgspec.structs.replace(one.metric, generated=generated))
        if isinstance(one.metric, ToolParameterGrounding)
        else one
        for one in chosen.values()
    ]
    return (*others, profile)


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


def informing(metric: Metric) -> Metric:
    """Return a metric of goldspan's that judges calls without its threshold: it fails nothing."""
    return msgspec.structs.replace(metric, threshold=None) if isinstance(metric, CallMetric) else metric


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
            beside = {name: other.running for name, other in kept.items() if isinstance(other.running, RunningScore)}
            results.append(_measured(chosen, session, golden, own, run, one, beside))
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
    beside: Mapping[str, RunningScore],
) -> MetricResult:
    metric, threshold = chosen.metric, chosen.least
    places = {turn.turn_index: turn.expected_index for turn in own.turns}

    def scored(index: int) -> MetricTurn:
        one, turn = _read(turns[index]), session.turns[index]
        verdict, calls = _verdict(one, metric, threshold), _calls(one, metric, threshold, turn)
        return MetricTurn(verdict, turn, index, places.get(index), calls)

    try:
        if isinstance(metric, CallMetric):
            kept.running = kept.running or metric.running(beside)
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
