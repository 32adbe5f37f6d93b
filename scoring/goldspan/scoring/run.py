"""One scoring of many sessions: who scores them (`Scorer`), and everything it finds (`RunResult`).

Every way into goldspan scores through a `Scorer`, so all of them give the same results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.document import Document, golden_document, session_document, verdict_document
from goldspan.scoring.errors import CriterionError, Problem
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, Repeat
from goldspan.scoring.goldens.golden_index import Ambiguous
from goldspan.scoring.json_values import counted, is_mapping, is_sequence, plain, shown_name
from goldspan.scoring.metrics.registry import BUILT_IN_METRICS, MetricRunner, run_in_this_thread
from goldspan.scoring.metrics.session_metrics import ChosenMetric, MetricSource, choose_metrics, score_metrics
from goldspan.scoring.presets.registry import PRESETS
from goldspan.scoring.presets.session_preset import ChosenPreset, choose_preset, score_by_preset
from goldspan.scoring.results import (
    CALL_COLUMNS,
    SessionResult,
    html_table,
    is_interesting,
    session_difference,
    session_lines,
    session_rows,
    verdict_text,
)
from goldspan.scoring.session_score import score_run
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.verdict import HARMLESS_REASONS, Coverage, Label, Reason, Scored, Verdict, short_repr


class RepeatResult(Scored, frozen=True, gc=False):
    """A golden with `repeat` and every run of its session that was seen.

    The score is the share of the runs seen that passed. It fails once too many runs failed, whatever is still to come;
    it passes when enough passed of as many runs as were asked for, or of more the same share; else it is not
    evaluated: `input_missing` while there are too few runs.
    """

    golden: Golden
    repeat: Repeat
    runs: tuple[SessionResult, ...]
    """In the order of the result; each is judged on its own too."""

    @property
    def runs_passed(self) -> int:
        """How many runs passed."""
        return sum(run.passed for run in self.runs)

    def to_json(self) -> Document:
        """Return plain JSON values in a fixed order."""
        return {
            "golden": plain(self.golden.key),
            "golden_set": self.golden.golden_set,
            **verdict_document(self.verdict),
            "runs": len(self.runs),
            "passed": self.runs_passed,
            "needed_runs": self.repeat.runs,
            "needed_passes": self.repeat.passes,
            "explanation": str(self),
        }

    def __str__(self) -> str:
        runs = "run" if len(self.runs) == 1 else "runs"
        text = f"{self.runs_passed} of {len(self.runs)} {runs} passed, {self.repeat.passes} of {self.repeat.runs} must"
        few = len(self.runs) < self.repeat.runs and self.verdict.label is Label.NOT_EVALUATED
        return f"{text}: too few were seen" if few else text


def repeats_of(sessions: Iterable[SessionResult]) -> tuple[RepeatResult, ...]:
    """Judge every golden that has `repeat` over its runs, in the order in which they were first seen."""
    runs: dict[tuple[str, str], list[SessionResult]] = {}
    for session in sessions:
        if session.repeated and session.session is not None and session.golden is not None:
            runs.setdefault((session.golden.golden_set, session.golden.key), []).append(session)
    return tuple(
        RepeatResult(_verdict(some, golden.repeat), golden, golden.repeat, tuple(some))
        for some in runs.values()
        if (golden := some[0].golden) is not None and golden.repeat is not None
    )


def _verdict(runs: list[SessionResult], repeat: Repeat) -> Verdict:
    seen, passed = len(runs), sum(run.passed for run in runs)
    unknown = sum(run.verdict.label is Label.NOT_EVALUATED and not run.failed for run in runs)
    share = Fraction(passed, seen)
    at_most = Fraction(passed + unknown + max(repeat.runs - seen, 0), max(seen, repeat.runs))
    needed = Fraction(repeat.passes, repeat.runs)
    if at_most < needed:
        return Verdict(share, Label.FAIL)
    if seen < repeat.runs:
        return Verdict(share, Label.NOT_EVALUATED, Reason.INPUT_MISSING)
    if share >= needed:
        return Verdict(share, Label.PASS)
    reasons = (run.verdict.reason for run in runs)
    return Verdict(share, Label.NOT_EVALUATED, next((one for one in reasons if one is not None), Reason.INPUT_MISSING))


class RunResult(Struct, frozen=True, gc=False):
    """Everything one scoring of many sessions found. `assert result.passed, result` is a test.

    `str(result)` is the readable difference; `to_json()` the document whose schema is published.
    """

    sessions: tuple[SessionResult, ...] = ()
    """One for each run of a session that has a golden, then one for each session without."""
    never_seen: tuple[Golden, ...] = ()
    problems: tuple[Problem, ...] = ()
    golden_sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """`name@version` to digest of the golden sets that were used."""

    @property
    def passed(self) -> bool:
        """Whether all passed, under strict coverage: see `passes`."""
        return self.passes()

    @property
    def exact(self) -> Fraction | None:
        """The mean score of the sessions; none where none was evaluated, or where they have different criteria."""
        scored = [session for session in self.sessions if session.verdict.exact is not None]
        if len({session.criterion for session in scored}) != 1:
            return None
        return sum((session.verdict.exact or Fraction(0) for session in scored), Fraction(0)) / len(scored)

    @property
    def score(self) -> float | None:
        """The mean score of the sessions, as `exact` says."""
        return None if self.exact is None else float(self.exact)

    @property
    def label(self) -> Label:
        """`pass` where `passed`; `fail` where a session, a metric or a repeated golden failed."""
        if self.passed:
            return Label.PASS
        found = any(session.failed for session in self.sessions if not session.repeated)
        failed = found or any(repeat.label is Label.FAIL for repeat in self.repeats)
        return Label.FAIL if failed else Label.NOT_EVALUATED

    @property
    def reason(self) -> Reason | None:
        """The first reason why something was not evaluated; set exactly where `label` is `not_evaluated`."""
        if self.label is not Label.NOT_EVALUATED:
            return None
        repeats = (repeat.reason for repeat in self.repeats if repeat.reason is not None)
        missing = Reason.GOLDEN_NEVER_SEEN if self.never_seen else Reason.INPUT_MISSING
        return next((reason for reasons in (self._unevaluated(), repeats) for reason in reasons), missing)

    def assert_passed(self) -> None:
        """Raise AssertionError with the readable difference unless it passed."""
        __tracebackhide__ = True  # pytest shows the line of the test
        if not self.passed:
            raise AssertionError(str(self))

    def passes(self, coverage: Coverage = "strict") -> bool:
        """Return whether sessions were found and none failed; of goldens with `repeat`, whether enough runs passed.

        `strict` also asks that nothing went unevaluated, on any level, for another reason than that nothing was
        expected or no golden wanted the session, and that every golden was seen. `lenient` does not.
        """
        if not self.sessions or any(session.failed for session in self.sessions if not session.repeated):
            return False
        repeats = {repeat.verdict.label for repeat in self.repeats}
        if Label.FAIL in repeats or (coverage == "strict" and Label.NOT_EVALUATED in repeats):
            return False
        return coverage == "lenient" or not (self.never_seen or any(self._unevaluated()))

    @property
    def repeats(self) -> tuple[RepeatResult, ...]:
        """Goldens with `repeat`, each judged over its runs."""
        return repeats_of(self.sessions)

    def _unevaluated(self) -> Iterator[Reason]:
        """List why something was not evaluated that should have been."""
        for session in self.sessions:
            calls = (call.verdict.reason for turn in session.turns for call in turn.calls)
            turns = (turn.verdict.reason for turn in session.turns)
            metrics = (metric.verdict.reason for metric in session.metrics if metric.threshold is not None)
            for reason in (session.verdict.reason, *turns, *calls, *metrics):
                if reason is not None and reason not in HARMLESS_REASONS:
                    yield reason

    def to_json(self) -> dict[str, Any]:
        """Return the document that `--format json` prints: plain JSON values in a fixed order."""
        labels = [session.verdict.label for session in self.sessions]
        return {
            "passed": self.passed,
            "totals": {
                "sessions": len(self.sessions),
                "passed": labels.count(Label.PASS),
                "failed": labels.count(Label.FAIL),
                "not_evaluated": labels.count(Label.NOT_EVALUATED),
                "goldens_never_seen": len(self.never_seen),
            },
            "golden_sets": [{"golden_set": name, "digest": digest} for name, digest in self.golden_sets.items()],
            "sessions": [session_document(session) for session in self.sessions],
            "repeats": [repeat.to_json() for repeat in self.repeats],
            "never_seen": [golden_document(golden) for golden in self.never_seen],
            "problems": [
                {"code": problem.code, "message": plain(problem.message), "source": plain(problem.source)}
                for problem in self.problems
            ],
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        score = "" if self.score is None else f" {self.score:.3g}"
        wrong = next((one for one in self.sessions if one.label is not Label.PASS and is_interesting(one)), None)
        first = next(_lines(self)) if wrong is None else session_difference(wrong)
        return short_repr(self, f"{self.label}{score}, {counted(len(self.sessions), 'session')}; {first}")

    def _repr_html_(self) -> str:
        rows = [row for session in self.sessions for row in session_rows(session)]
        return html_table(next(_lines(self)), CALL_COLUMNS, rows)


_MOST_SESSIONS = 50


def _lines(run: RunResult) -> Iterator[str]:
    labels = [session.verdict.label for session in run.sessions]
    yield (
        f"{counted(len(labels), 'session')}: {labels.count(Label.PASS)} passed, {labels.count(Label.FAIL)} failed, "
        f"{labels.count(Label.NOT_EVALUATED)} not evaluated"
    )
    if not labels:
        yield "nothing was recognised: no session in what was read"
    interesting = [session for session in run.sessions if is_interesting(session)]
    for session in interesting[:_MOST_SESSIONS]:
        yield from session_lines(session)
    if len(interesting) > _MOST_SESSIONS:
        yield f"... and {counted(len(interesting) - _MOST_SESSIONS, 'session')} more"
    for repeat in run.repeats:
        yield f"{verdict_text(repeat.verdict)} golden {shown_name(repeat.golden.key)}: {repeat}"
    for golden in run.never_seen[:_MOST_SESSIONS]:
        yield f"never seen: golden {shown_name(golden.key)}{f' of {golden.golden_set}' if golden.golden_set else ''}"
    if len(run.never_seen) > _MOST_SESSIONS:
        yield f"... and {counted(len(run.never_seen) - _MOST_SESSIONS, 'golden')} more"
    for problem in run.problems[:_MOST_SESSIONS]:
        yield f"problem: {problem}"


@dataclass(frozen=True, slots=True)
class Scorer:
    """What is asked for of every session; a golden may ask for more of its own."""

    criterion: Criterion | None = None
    """Replaces every criterion of goldens; None: those hold."""
    preset: ChosenPreset | None = None
    """Scores in the place of `tool_parameter_match`; None: what the golden says, if anything."""
    metrics: tuple[ChosenMetric, ...] = ()
    """Judge beside it."""
    run: MetricRunner = run_in_this_thread
    """Runs metrics that are not goldspan's own."""

    def score(self, golden: Golden | Ambiguous | None, session: Session, *, final: bool = True) -> SessionResult:
        """Score one run of a session, as `score_run` does."""
        own = score_run(golden, session, self.criterion, final=final)
        if own.golden is None:
            return own if self.preset is None else replace(own, preset=self.preset.name)
        metrics = score_metrics(own, self.metrics, override=self.criterion, run=self.run, final=final)
        try:
            preset = self.preset or _preset_of(own.golden)
        except CriterionError:
            unknown = Verdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR)
            return replace(own, verdict=unknown, turns=(), metrics=metrics)
        result = own if preset is None else score_by_preset(preset, own, final=final)
        return replace(result, metrics=metrics) if metrics else result

    def reads_content(self, goldens: Sequence[Golden]) -> bool:
        """Whether what is asked for may read more of a session than its calls: messages, definitions, results."""
        presets = {golden.preset.name for golden in goldens if golden.preset is not None}
        names = {choice.name for golden in goldens for choice in golden.metrics}
        if self.preset is not None:
            presets = {self.preset.name}
        names.update(one.metric.name for one in self.metrics)
        if any(PRESETS[name].needs for name in presets & PRESETS.keys()) or not names <= BUILT_IN_METRICS.keys():
            return True
        return any(_asks_results(call) for golden in goldens for call in golden.all_calls())


def scorer_of(
    criterion: Criterion | None = None,
    preset: str | Mapping[str, Any] | ChosenPreset | None = None,
    metrics: Iterable[MetricSource] = (),
    run: MetricRunner = run_in_this_thread,
) -> Scorer:
    """Return the scorer for what is asked for; a preset is its name, or a mapping of `name` and its options.

    Raises CriterionError if there is no such preset, or it has no such option. Raises MetricError if there is no such
    metric.
    """
    if isinstance(preset, str):
        preset = choose_preset(preset)
    elif preset is not None and not isinstance(preset, ChosenPreset):
        options = dict(preset)
        preset = choose_preset(str(options.pop("name", "")), options)
    return Scorer(criterion, preset, choose_metrics(metrics), run)


def _asks_results(call: ExpectedCall) -> bool:
    """Whether what an earlier call returned is expected somewhere in the arguments."""
    if call.values is call.args:
        return False
    waiting: list[JsonValue] = list(call.args.values())
    while waiting:
        value = waiting.pop()
        if is_mapping(value):
            if "$from_result" in value:
                return True
            waiting += [] if "$literal" in value else value.values()
        elif is_sequence(value):
            waiting += value
    return False


def _preset_of(golden: Golden) -> ChosenPreset | None:
    return None if golden.preset is None else choose_preset(golden.preset.name, golden.preset.options)
