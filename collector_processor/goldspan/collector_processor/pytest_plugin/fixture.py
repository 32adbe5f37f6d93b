"""The fixture `goldspan`: what a test's agent called, compared with goldens or judged by metrics."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.golden_tools.writing import name_of
from goldspan.collector_processor.pytest_plugin.pytest_run import (
    PytestRun,
    RecordedSpans,
    Seen,
    golden_name,
    node_id,
    updated,
)
from goldspan.scoring.api import GivenGolden, golden_of
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import GoldspanError, MetricError, Problem
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.golden import Ambiguous, Golden, GoldenSet, Repeat
from goldspan.scoring.json_values import counted, is_mapping
from goldspan.scoring.metrics.session_metrics import (
    GOLDEN,
    PROFILE_METRIC,
    ChosenMetric,
    MetricSource,
    choose_metric,
    choose_metrics,
    needs_of,
    threshold_of,
)
from goldspan.scoring.pages import printable
from goldspan.scoring.result_lines import label_and_score
from goldspan.scoring.result_words import reason_words
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import Scorer, ScoringResult, scorer_of
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import REASON_TEXT, Label, MetricResult, Verdict

_T = TypeVar("_T")
_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_OF_SETS = {"golden_set", "goldens", "eval_cases"}
Expected = GivenGolden | GoldenSet | Mapping[str, Any] | str | Path | None
"""A golden, a golden set, their mappings, a list of expected calls or turns; a golden's name; a file; None: the marker
says it."""


class GoldenMark(NamedTuple):
    """What the markers `golden` of a test say; the nearest one counts."""

    file: str | None = None
    session: str | None = None
    repeat: Repeat | None = None


def golden_mark(node: pytest.Item) -> GoldenMark:
    """Read the markers of a test, its class and its module. Raises pytest.UsageError for a wrong one."""
    files: list[str] = []
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("golden"))):
        files += map(str, marker.args)
        options |= marker.kwargs
        if len(marker.args) > 1 or marker.kwargs.keys() - {"session", "runs", "passes"}:
            raise pytest.UsageError(f"{node.nodeid}: found {marker}, expected golden(FILE, session=, runs=, passes=)")
    runs: Any = options.get("runs")
    passes: Any = options.get("passes", runs)
    repeat = None
    if passes is not None:
        if not (type(runs) is int and type(passes) is int and 1 <= passes <= runs):
            found = f"runs={runs!r} and passes={passes!r}"
            raise pytest.UsageError(f"{node.nodeid}: found {found}, expected two whole numbers, 1 <= passes <= runs")
        repeat = Repeat(runs, passes)
    return GoldenMark(files[-1] if files else None, options.get("session"), repeat)


@dataclass(slots=True)
class _Attempt:
    """What one run of the agent wrote, and what it raised. Without `run` the test is the only one."""

    spans: RecordedSpans
    raised: Exception | None = None


class _Source(NamedTuple):
    """Where an assertion's golden is to be found."""

    goldens: GoldenIndex
    name: str  # the golden's name
    file: Path | None = None
    by_id: bool = True  # whether goldens of the session ids in the spans will do, if none has the name

    @property
    def golden(self) -> Golden | None:
        return next((golden for golden in self.goldens.goldens if golden.key == self.name), None)


class GoldspanFixture:
    """What the agent did in this test, and assertions about it.

    The spans that start during the test are one session, whatever session ids they have; a golden is found by its name.
    """

    def __init__(self, node: pytest.Item, run: PytestRun, spans: RecordedSpans) -> None:
        """Take the spans that are being recorded for this test."""
        self._node = node
        self._pytest_run = run
        self._mark = golden_mark(node)
        self._name = golden_name(node)
        self._attempts = [_Attempt(spans)]
        self._repeat: Repeat | None = None
        self.asked = False
        """Whether the test asserted something, or looked at what was recorded."""

    def collect(self, tracer_provider: object) -> None:
        """Record the spans of this tracer provider, too.

        Raises pytest.UsageError if it is no tracer provider of the SDK.
        """
        self._pytest_run.recorder.attach(tracer_provider)

    @property
    def sessions(self) -> list[Session]:
        """What was recorded until now. Spans without a session id are in a session with the test's name."""
        self.asked = True
        return [session for one in self._attempts for session in one.spans.sessions(self._name, (), [])]

    def run(self, agent: Callable[..., _T], *args: Any, **kwargs: Any) -> list[_T]:
        """Call `agent` as often as the marker's `runs`, or the golden's `repeat`, says; return what it returned.

        Each call is one run, and the assertions that follow judge each run. A run that raises has failed; what it
        raised is in the message of the assertion. Raises pytest.UsageError if neither the marker nor the golden says
        how often.
        """
        returned: list[_T] = []
        for attempt in self._runs():
            with self._recording(attempt):
                returned.append(agent(*args, **kwargs))
        return returned

    async def arun(self, agent: Callable[..., Awaitable[_T]], *args: Any, **kwargs: Any) -> list[_T]:
        """Await `agent` as often as `run` calls it, one run after the other."""
        returned: list[_T] = []
        for attempt in self._runs():
            with self._recording(attempt):
                returned.append(await agent(*args, **kwargs))
        return returned

    @contextmanager
    def _recording(self, attempt: _Attempt) -> Generator[None]:
        with self._pytest_run.recorder.recording() as attempt.spans:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - whatever the agent raises is a failed run
                attempt.raised = error

    def _runs(self) -> list[_Attempt]:
        self.asked = True
        golden = None if self._mark.repeat else self._source(None).golden
        self._repeat = self._mark.repeat if golden is None else golden.repeat
        if self._repeat is None:
            raise pytest.UsageError(
                f"{self._node.nodeid}: goldspan.run needs the number of runs: @pytest.mark.golden(runs=5, passes=4), "
                "or `repeat` of the golden"
            )
        self._attempts = [_Attempt(RecordedSpans()) for _ in range(self._repeat.runs)]
        return self._attempts

    def assert_matches(
        self,
        expected: Expected = None,
        *,
        criterion: Criterion | Mapping[str, Any] | None = None,
        threshold: float | Decimal | None = None,
        preset: str | Mapping[str, Any] | None = None,
        metrics: Iterable[MetricSource] = (),
    ) -> ScoringResult:
        """Compare the test's tool calls with a golden, and return the result.

        `expected` is a golden, a list of expected calls or of turns, or a golden set; the name of a golden in the
        marker's file; or a golden file. Without it the marker says which golden of which file, else the golden with
        the test's name in `__goldens__/MODULE.yaml` beside the test. In a file without such a golden, goldens are found
        by the session ids in the spans. `criterion`, `preset` and `metrics` are those of `score_sessions`; `threshold`
        takes the place of the golden's.

        Raises:
            AssertionError: the calls differ, or could not be evaluated, or there is no golden. The message is the
                difference.
            GoldenFileError, CriterionError, MetricError: a file or an option is wrong.

        """
        __tracebackhide__ = True
        self.asked = True
        scorer, least = _from_user(lambda: _scorer(criterion, threshold, preset, metrics))
        source = _from_user(lambda: self._source(expected))
        problems: list[Problem] = []
        runs = self._sessions(source.goldens.join_attributes, problems)
        result, notes = self._score(scorer, source, runs, least, problems), tuple[str, ...]()
        updates = self._pytest_run.update or self._pytest_run.review
        if updates and source.file is not None and any(runs) and not (result and result.passed):
            whole = result is None or source.golden is not None
            seen = [one for run in runs if run for one in ([_joined(run, source.name)] if whole else run)]
            change = Seen(source.file, self._set_name(source.file), tuple(seen), scorer.criterion)
            update = updated(source.file, [change])
            notes = update.notes
            if update.new or update.changed:
                self._pytest_run.see(self._node, source.name, change)
            if self._pytest_run.update:
                source = source._replace(goldens=update.goldens(source.file))
                result = self._score(scorer, source, runs, least, problems)
        if result is None:
            raise AssertionError("\n".join([*self._nothing(runs), self._no_golden(source), *notes]))
        self._pytest_run.judge(self._node, source.file, result)
        if not result.passed:
            raise AssertionError(self._failure(result, runs, source.file, notes)) from self._first_error()
        return result

    def assert_metric(
        self, metric: MetricSource, threshold: float | Fraction | None = None, *, _beside: Sequence[MetricSource] = ()
    ) -> ScoringResult:
        """Judge the test's tool calls by a metric, and return the result.

        `metric` is a name, an import path or a function, as in `score_sessions`. `threshold` is the least score that
        passes; without it the metric's own counts, else the most that it can score. A metric that compares with a
        golden takes the one of the marker.

        Raises:
            AssertionError: a score is too low, or there is none. The message says why.
            MetricError: there is no such metric, or it needs a threshold.

        """
        __tracebackhide__ = True
        self.asked = True
        chosen = _from_user(lambda: _with_threshold(choose_metric(metric), threshold))
        problems: list[Problem] = []
        source = _Source(GoldenIndex(), self._name)
        if GOLDEN in needs_of(chosen.metric):
            source = _from_user(lambda: self._source(None))
        runs = self._sessions(source.goldens.join_attributes, problems)
        scorer = Scorer(metrics=_from_user(lambda: choose_metrics([chosen, *_beside])))
        result = self._score(scorer, source, runs, None, problems, needs_golden=source.file is not None)
        if result is None:
            raise AssertionError(self._no_golden(source))
        self._pytest_run.judge(self._node, source.file, result)
        judged = [one for session in result.sessions for one in session.metrics if one.name == chosen.metric.name]
        passed = sum(one.passed for one in judged)
        if not judged or passed < (len(judged) if self._repeat is None else self._repeat.passes):
            lines = [*self._nothing(runs), *map(_metric_line, judged), *_finding_lines(result), *self._raised()]
            raise AssertionError("\n".join(lines)) from self._first_error()
        return result

    def assert_grounded(
        self, threshold: float | Fraction | None = None, *, profile: str | Path | None = None
    ) -> ScoringResult:
        """Assert that each argument comes from the conversation: `assert_metric("tool_parameter_grounding")`.

        `profile` is the file of `goldspan profile learn`, beside the test: values that it says the agent makes itself
        need no origin, and the message lists deviations from it too, the rarest and worst first.
        """
        __tracebackhide__ = True
        beside = () if profile is None else (f"{PROFILE_METRIC}:{self._node.path.parent / profile}",)
        return self.assert_metric("tool_parameter_grounding", threshold, _beside=beside)

    def _source(self, expected: Expected) -> _Source:
        name = self._mark.session or self._name
        if isinstance(expected, Path) or (isinstance(expected, str) and expected.endswith(_SUFFIXES)):
            return self._source_file(self._node.path.parent / expected, name)
        if expected is None or isinstance(expected, str):
            folder, file = self._node.path.parent, self._mark.file
            path = folder / file if file else folder / "__goldens__" / f"{self._node.path.stem}.yaml"
            return self._source_file(path, expected or name, by_id=expected is None and self._mark.session is None)
        if isinstance(expected, GoldenSet) or (is_mapping(expected) and expected.keys() & _OF_SETS):
            return _Source(load_goldens(expected), name)
        return self._source_value(expected, name)

    def _source_value(self, expected: GivenGolden | Mapping[str, Any], name: str) -> _Source:
        label = self._set_name(None)
        if is_mapping(expected):
            index = load_goldens({"golden_set": label, "goldens": [{"session": name, **expected}]})
            return _Source(index, index.goldens[0].key)
        golden = golden_of(cast("GivenGolden", expected))
        golden = dataclasses.replace(golden, golden_set=golden.golden_set or label)
        golden = golden if golden.key else dataclasses.replace(golden, session=name)
        return _Source(GoldenIndex([GoldenSet(label, goldens=(golden,))]), golden.key)

    def _source_file(self, path: Path, name: str, *, by_id: bool = True) -> _Source:
        return _Source(self._pytest_run.goldens(path), name, path, by_id)

    def _set_name(self, file: Path | None) -> str:
        """Return the name of a golden set: that of its file; for the test's own goldens that of the test's module."""
        if file is not None and file.parent.name != "__goldens__":
            return name_of(file.name)
        return self._node.nodeid.partition("::")[0].removesuffix(".py")

    def _sessions(self, join_attributes: Sequence[str], problems: list[Problem]) -> list[list[Session]]:
        return [one.spans.sessions(self._name, join_attributes, problems) for one in self._attempts]

    def _score(
        self,
        scorer: Scorer,
        source: _Source,
        runs: Sequence[Sequence[Session]],
        threshold: Decimal | None,
        problems: Sequence[Problem],
        *,
        needs_golden: bool = True,
    ) -> ScoringResult | None:
        """Score each run of the agent. None: there is no golden, and one is needed."""
        results: list[SessionResult] = []
        for attempt, sessions in zip(self._attempts, runs, strict=True):
            pairs = self._pairs(source, sessions)
            if pairs is None and needs_golden:
                return None
            for found, session in pairs or [(None, _joined(sessions, source.name))]:
                golden = found
                if isinstance(golden, Golden):
                    golden = golden if threshold is None else golden.with_threshold(threshold)
                    golden = dataclasses.replace(golden, repeat=self._mark.repeat or golden.repeat)
                result = scorer.score(golden, session)
                if attempt.raised is not None:
                    result = replace(result, verdict=Verdict(result.verdict.exact, Label.FAIL))
                results.append(result)
        sets = {one.label: one.digest for one in source.goldens.sets}
        return ScoringResult(tuple(results), problems=tuple(problems), golden_sets=sets)

    def _pairs(
        self, source: _Source, sessions: Sequence[Session]
    ) -> list[tuple[Golden | Ambiguous | None, Session]] | None:
        """Return which golden to compare with which session; None where there is no golden."""
        if source.golden is not None:
            return [(source.golden, _joined(sessions, source.name))]
        if not source.by_id:
            return None
        pairs = [(source.goldens.find(session), session) for session in sessions]
        return pairs if any(golden is not None for golden, _ in pairs) else None

    def _no_golden(self, source: _Source) -> str:
        if source.file is None:
            return f"no golden `{source.name}` in what was given, and none for the session ids in the spans"
        said = f"no golden `{source.name}` in {self._pytest_run.shown(source.file)}"
        return said if self._pytest_run.update else f"{said}; this writes it from what the agent did: {self._command()}"

    def _command(self) -> str:
        return f"pytest {shlex.quote(node_id(self._node))} --goldspan-update"

    def _nothing(self, runs: Sequence[Sequence[Session]]) -> list[str]:
        """Say that nothing was recognised, if so."""
        if any(runs):
            return []
        spans = sum(len(one.spans.spans) for one in self._attempts)
        if not spans:
            return [
                "no span was recorded in this test: instrument the agent, or pass its tracer provider: "
                "goldspan.collect(provider)"
            ]
        scopes = ", ".join(sorted({scope for one in self._attempts for scope in one.spans.scopes}))
        return [f"no agent, model or tool was recognised in {counted(spans, 'span')} of {scopes or 'no scope'}"]

    def _failure(
        self, result: ScoringResult, runs: Sequence[Sequence[Session]], file: Path | None, notes: Sequence[str]
    ) -> str:
        lines = self._nothing(runs)
        lines += [f"{label_and_score(one.verdict)} golden {one.golden.key}: {one}" for one in result.repeats]
        for one in result.sessions:
            if one.label is Label.PASS:
                lines += [_metric_line(metric) for metric in one.metrics if metric.label is Label.FAIL]
            elif not one.passed:
                # pytest names the test itself, and shows as much of the line as fits beside that.
                lines.append(str(one).replace(f"  {self._name}  ", "  ", 1))
        lines += [*map(str, result.problems), *self._raised(), *notes]
        if self._mark.repeat is not None and self._repeat is None:
            lines.append("the marker says `runs`: let goldspan.run(agent) or goldspan.arun(agent) call the agent")
        elif file is not None and not self._pytest_run.update and any(runs):
            lines.append(f"if the agent is right: {self._command()}")
        return "\n".join(lines)

    def _raised(self) -> list[str]:
        return [
            f"run {number} raised {type(one.raised).__name__}: {one.raised}"
            for number, one in enumerate(self._attempts, 1)
            if one.raised is not None
        ]

    def _first_error(self) -> Exception | None:
        return next((one.raised for one in self._attempts if one.raised is not None), None)


def _from_user(make: Callable[[], _T]) -> _T:
    """Return what is made of a user's values; of a mistake in them, pytest shows the line of the test alone."""
    __tracebackhide__ = True
    try:
        return make()
    except (GoldspanError, TypeError) as error:
        raise error.with_traceback(None) from None


def _scorer(
    criterion: Criterion | Mapping[str, Any] | None,
    threshold: float | Decimal | None,
    preset: str | Mapping[str, Any] | None,
    metrics: Iterable[MetricSource],
) -> tuple[Scorer, Decimal | None]:
    override = None if criterion is None else Criterion.parse(criterion)
    least = None if threshold is None else Criterion.parse({"threshold": threshold}).threshold
    if override is not None and least is not None:
        override = override.model_copy(update={"threshold": least})
    return scorer_of(override, preset, metrics), least


def _with_threshold(chosen: ChosenMetric, threshold: float | Fraction | None) -> ChosenMetric:
    """Return the metric with a threshold: an assertion fails or passes."""
    metric = chosen.metric
    if threshold is not None:
        return ChosenMetric(metric, threshold_of(metric, str(float(threshold))))
    if chosen.least is None and metric.range.most == float("inf"):
        raise MetricError(f"{metric.name}: has no highest score: pass `threshold`")
    return ChosenMetric(metric, Fraction(str(metric.range.most)) if chosen.least is None else chosen.least)


def _metric_line(result: MetricResult) -> str:
    verdict = result.verdict
    words = verdict.detailed or verdict.explanation
    if verdict.reason is not None and words in ("", REASON_TEXT.get(verdict.reason)):
        words = reason_words(result.name, verdict.reason)
    words = words or f"{float(result.threshold or 0):g} passes"
    return f"{label_and_score(verdict)} {result.name}: {words}"


def _finding_lines(result: ScoringResult) -> list[str]:
    """Return what several metrics found, the rarest and worst first."""
    found = result.findings.rare
    if len({one.metric for one in found}) < len(("grounding", "profile")):
        return []
    return [f"  {one.name}: {printable(one.places[0].finding.words(include_values=True))}" for one in found]


def _joined(sessions: Sequence[Session], name: str) -> Session:
    """Return all turns of a test as one session of this name, in the order of time."""
    if not sessions:
        return Session(name)
    turns = sorted((turn for session in sessions for turn in session.turns), key=lambda turn: turn.start)
    incomplete = any(session.incomplete for session in sessions)
    return replace(sessions[0], id=name, turns=tuple(turns), id_source="given", ambiguous=False, incomplete=incomplete)
