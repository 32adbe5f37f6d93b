"""Score many sessions: `Scorer` has the choice of criterion, preset and metrics, and `ScoringResult` has all results.

The API, the command line, the gateway and the span processor all score through a `Scorer`, so results are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from goldspan.scoring import results
from goldspan.scoring.errors import CriterionError, Problem
from goldspan.scoring.goldens.golden import Ambiguous, Golden, GoldenIndex, Repeat
from goldspan.scoring.json_values import plain
from goldspan.scoring.matchers.matcher import Asks, asked_by
from goldspan.scoring.metrics import session_metrics
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.metrics.schema import ToolParameterSchema
from goldspan.scoring.presets.session_preset import ChosenPreset, choose_preset, score_by_preset
from goldspan.scoring.ranked_findings import RankedFindings, rank_findings
from goldspan.scoring.result_words import doubt_document
from goldspan.scoring.session_score import IncrementalScore, score_run
from goldspan.scoring.sessions import Session, SpanRef, ToolCall
from goldspan.scoring.tool_definitions import Definitions, load_tools
from goldspan.scoring.verdict import (
    HARMLESS_REASONS,
    Coverage,
    Label,
    MetricCall,
    MetricResult,
    MetricVerdict,
    PresetResult,
    Reason,
    Scored,
    Verdict,
)

if TYPE_CHECKING:
    from goldspan.scoring.criterion import Criterion

# Results as JSON: sessions, turns, calls, arguments, each with score, label and reason.
#
# Every object has all of its keys, always in the same order; missing values are null or empty. Exact scores become
# floats only here.

Document = dict[str, Any]


def session_document(result: results.SessionResult) -> Document:
    """Return the document of a session result, with its turns, calls and arguments."""
    session, golden = result.session, result.golden
    return {
        "id": None if session is None else plain(session.id),
        "id_source": None if session is None else plain(session.id_source),
        "run": None if session is None else plain(session.run),
        "incomplete": session is not None and session.incomplete,
        "golden": None if golden is None else plain(golden.key),
        "golden_set": None if golden is None else golden.golden_set,
        "metric": result.metric,
        "criterion": result.criterion,
        "preset": result.preset,
        "attributes": {} if session is None else plain({**session.resource, **session.attributes}),
        **verdict_document(result.verdict),
        "expected_turns": result.turns_expected,
        "evaluated_turns": result.turns_evaluated,
        "explanation": results.explain(result),
        "answer": _answer(result.answer),
        "metrics": [_metric(metric) for metric in result.metrics],
        "turns": [_turn(turn) for turn in result.turns],
    }


def golden_document(golden: Golden) -> Document:
    """Return the name and the source of a golden."""
    return {"golden": plain(golden.key), "golden_set": golden.golden_set, "source": plain(golden.source)}


def _turn(result: results.TurnResult) -> Document:
    turn = result.turn
    return {
        "index": result.turn_index,
        "expected_index": result.expected_index,
        "seen": turn is not None,
        "trace_ids": [] if turn is None else list(turn.trace_ids),
        "root": None if turn is None else _span(turn.root),
        **verdict_document(result.verdict),
        "expected_calls": result.calls_expected,
        "evaluated_calls": result.calls_evaluated,
        "aligned_calls": result.calls_aligned,
        "right_calls": result.calls_right,
        "missing_calls": result.calls_missing,
        "unexpected_calls": len(result.unexpected_calls),
        "approximate": result.approximate,
        "alternative": result.alternative,
        "explanation": results.explain(result),
        "doubts": [doubt_document(doubt) for doubt in result.doubts],
        "answer": _answer(result.answer),
        "calls": [_call(call) for call in (*result.calls, *result.unexpected_calls)],
        "rejected": [_actual(call, None) for call in result.rejected],
    }


def _answer(answer: PresetResult | None) -> Document | None:
    return None if answer is None else cast("Document", plain(answer.to_json()))


def _metric(result: MetricResult) -> Document:
    return {
        "name": result.name,
        "description": plain(result.description),
        "range": [float(end) if isfinite(end) else None for end in result.range],  # JSON has no infinity
        "threshold": None if result.threshold is None else float(result.threshold),
        **_metric_verdict(result.verdict),
        "turns": [
            {
                "index": turn.turn_index,
                "expected_index": turn.expected_index,
                **_metric_verdict(turn.verdict),
                "calls": [_metric_call(call) for call in turn.calls],
            }
            for turn in result.turns
        ],
    }


def _metric_call(result: MetricCall) -> Document:
    return {
        "index": result.call_index,
        "tool": plain(result.call.name),
        "call_id": plain(result.call.call_id),
        "span": _span(result.call.span),
        **_metric_verdict(result.verdict),
        "findings": [
            {
                "path": plain(one.path),
                "kind": one.kind,
                "failed": one.failed,
                "message": plain(one.words(include_values=True)),
            }
            for one in result.findings
        ],
    }


def _metric_verdict(verdict: MetricVerdict) -> Document:
    return {**verdict_document(verdict), "explanation": plain(verdict.explanation)}


def _call(result: results.CallResult) -> Document:
    return {
        "tool": plain(result.tool),
        "status": "unexpected" if result.unexpected else "missing" if result.missing else "aligned",
        **verdict_document(result.verdict),
        "expected_index": result.expected_index,
        "expected_arguments": None if result.expected is None else plain(dict(result.expected.args)),
        "actual": None if result.actual is None else _actual(result.actual, result.actual_index),
        "near_miss": result.missing and result.actual is not None,
        "optional": result.optional,
        "forbidden": result.violates is not None,
        "arguments": [_argument(argument) for argument in result.arguments],
        "extra_arguments": [plain(name) for name in result.extra_arguments],
        "explanation": results.explain(result),
    }


def _actual(call: ToolCall, index: int | None) -> Document:
    return {
        "name": plain(call.name),
        "index": index,
        "arguments": plain(dict(call.arguments)) if isinstance(call.arguments, Mapping) else None,
        "capture": str(call.capture),
        "call_id": plain(call.call_id),
        "error": plain(call.error),
        "requested": call.requested,
        "rejected": call.rejected,
        "span": _span(call.span),
    }


def _argument(argument: results.ArgumentResult) -> Document:
    return {
        "name": plain(argument.name),
        "outcome": argument.outcome.value,
        "score": argument.score,
        "strategy": argument.strategy,
        "weight": float(argument.weight),
        "expected": plain(argument.expected_value),
        "actual": plain(argument.actual_value) if argument.outcome in _PASSED_ARGUMENTS else None,
        "differing": [plain(part) for part in argument.differing],
    }


_PASSED_ARGUMENTS = (results.ArgumentOutcome.MATCHED, results.ArgumentOutcome.MISMATCHED)


def verdict_document(verdict: Verdict | MetricVerdict) -> Document:
    """Return score, label and reason."""
    label, reason = verdict.label, verdict.reason
    return {
        "score": verdict.score,
        "label": None if label is None else label.value,
        "reason": None if reason is None else reason.value,
    }


def _span(span: SpanRef | None) -> Document | None:
    return None if span is None else {"trace_id": span.trace_id, "span_id": span.span_id}


class RepeatResult(Scored, frozen=True, gc=False):
    """The result for a golden with `repeat`, over all runs of its session.

    The score is the share of the runs that passed. The golden fails as soon as too many runs failed, whatever the
    remaining runs do. It passes if there are enough runs and the required share of them passed. Otherwise it is not
    evaluated; with too few runs, the reason is `input_missing`.
    """

    golden: Golden
    repeat: Repeat
    runs: tuple[results.SessionResult, ...]
    """The results of the single runs, in order."""

    @property
    def runs_passed(self) -> int:
        """Number of runs that passed."""
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


def _verdict(runs: list[results.SessionResult], repeat: Repeat) -> Verdict:
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
    reasons = (reason for run in runs if (reason := run.verdict.reason) is not None)
    return Verdict(share, Label.NOT_EVALUATED, next(reasons, Reason.INPUT_MISSING))


class ScoringResult(results.Readable, results.HasTable, Struct, frozen=True, gc=False):
    """The results of scoring many sessions. In a test: `assert result.passed, result`.

    `str(result)` is the readable difference. `to_json()` returns the document of the published schema.
    """

    sessions: tuple[results.SessionResult, ...] = ()
    """A result for each run of a session with a golden, then for each session without a golden."""
    never_seen: tuple[Golden, ...] = ()
    problems: tuple[Problem, ...] = ()
    golden_sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """The golden sets: `name@version` to digest."""
    ranked: RankedFindings | None = None
    """What `findings` says, if it was ranked already."""

    @property
    def passed(self) -> bool:
        """Whether the sessions passed with strict coverage: see `passes`."""
        return self.passes()

    @property
    def exact(self) -> Fraction | None:
        """The exact mean of the sessions' scores; None without scores, or if sessions have different criteria."""
        scored = [session for session in self.sessions if session.verdict.exact is not None]
        if len({session.criterion for session in scored}) != 1:
            return None
        return sum((session.verdict.exact or Fraction(0) for session in scored), Fraction(0)) / len(scored)

    @property
    def score(self) -> float | None:
        """The mean of the sessions' scores as a float, or None: see `exact`."""
        return None if self.exact is None else float(self.exact)

    @property
    def label(self) -> Label:
        """`pass` if `passed`, `fail` if a session, a metric or a golden with `repeat` failed, else `not_evaluated`."""
        if self.passed:
            return Label.PASS
        found = any(session.failed for session in self.sessions if not session.repeated)
        failed = found or any(repeat.label is Label.FAIL for repeat in self.repeats)
        return Label.FAIL if failed else Label.NOT_EVALUATED

    @property
    def reason(self) -> Reason | None:
        """The first reason why something was not evaluated; set only if `label` is `not_evaluated`."""
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
        """Return whether there are sessions, none failed, and enough runs passed of each golden with `repeat`.

        `strict` also requires that every golden was seen, and that sessions, turns, calls and metrics were evaluated,
        unless nothing was expected, the session has no golden, or the metric needs none, and that no reading is in
        doubt. `lenient` does not.
        """
        if not self.sessions or any(session.failed for session in self.sessions if not session.repeated):
            return False
        repeats = {repeat.verdict.label for repeat in self.repeats}
        if Label.FAIL in repeats or (coverage == "strict" and Label.NOT_EVALUATED in repeats):
            return False
        return coverage == "lenient" or not (self.never_seen or any(self._unevaluated()))

    @property
    def repeats(self) -> tuple[RepeatResult, ...]:
        """The results of goldens with `repeat`, in the order of their first runs."""
        runs: dict[tuple[str, str], list[results.SessionResult]] = {}
        for session in self.sessions:
            if session.repeated and session.session is not None and session.golden is not None:
                runs.setdefault((session.golden.golden_set, session.golden.key), []).append(session)
        return tuple(
            RepeatResult(_verdict(of_golden, golden.repeat), golden, golden.repeat, tuple(of_golden))
            for of_golden in runs.values()
            if (golden := of_golden[0].golden) is not None and golden.repeat is not None
        )

    @property
    def findings(self) -> RankedFindings:
        """What metrics found in sessions without golden, the rarest and worst first."""
        return rank_findings(self.sessions) if self.ranked is None else self.ranked

    def _unevaluated(self) -> Iterator[Reason]:
        """Yield why something was not evaluated, except for harmless reasons."""
        for session in self.sessions:
            calls = (call.verdict.reason for turn in session.turns for call in turn.calls)
            turns = (turn.verdict.reason for turn in session.turns)
            metrics = (one.verdict.reason for one in session.metrics if one.threshold is not None and one.needs_golden)
            for reason in (session.verdict.reason, *turns, *calls, *metrics):
                if reason is not None and reason not in HARMLESS_REASONS:
                    yield reason
            if any(turn.doubts for turn in session.turns):
                yield Reason.READING_DOUBTFUL

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
            "findings": self.findings.to_json(),
            "repeats": [repeat.to_json() for repeat in self.repeats],
            "never_seen": [golden_document(golden) for golden in self.never_seen],
            "problems": [
                {"code": problem.code, "message": plain(problem.message), "source": plain(problem.source)}
                for problem in self.problems
            ],
        }


class KeptRun:
    """What was made of one run, for the next time that it is scored by the same scorer: then with more turns."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self.own = IncrementalScore()
        self.metrics: dict[str, session_metrics.KeptMetric] = {}

    def begin(self, golden: Golden | Ambiguous | None, session: Session) -> None:
        """Keep nothing that was made by another golden, or of a session whose records are not all there."""
        of = (golden, session.incomplete)
        if not self._of or self._of[0] is not golden or self._of[1] != session.incomplete:
            self.own, self.metrics = IncrementalScore(), {}
        self._of = of


@dataclass(frozen=True, slots=True)
class Scorer:
    """The criterion, preset and metrics for every session; a golden may have its own as well."""

    criterion: Criterion | None = None
    """Replaces every criterion of the goldens; None: the goldens' own criteria apply."""
    preset: ChosenPreset | None = None
    """Replaces `tool_parameter_match`; None: the golden's own preset, if any."""
    metrics: tuple[session_metrics.ChosenMetric, ...] = ()
    """Additional metrics."""
    run: session_metrics.MetricRunner = session_metrics.run_in_this_thread
    """Runs metrics that are not built in."""
    later: tuple[session_metrics.ChosenMetric, ...] = ()
    """Metrics that a door scores when a session is over, apart from the others: here they only say what is read."""

    def score(
        self, golden: Golden | Ambiguous | None, session: Session, *, final: bool = True, kept: KeptRun | None = None
    ) -> results.SessionResult:
        """Score one run of a session, as `score_run` does. `kept` holds what is kept of it until more turns come."""
        if kept is None:
            own = score_run(golden, session, self.criterion, final=final)
        else:
            kept.begin(golden, session)
            own = kept.own.score(golden, session, self.criterion, final=final)
        metrics: tuple[MetricResult, ...] = ()
        if self.metrics or (own.golden is not None and own.golden.metrics):
            kept_metrics = None if kept is None else kept.metrics
            metrics = session_metrics.score_metrics(
                own, self.metrics, override=self.criterion, run=self.run, final=final, kept=kept_metrics
            )
        if own.golden is None:
            name = None if self.preset is None else self.preset.name
            return replace(own, preset=name, metrics=metrics) if name or metrics else own
        try:
            chosen = own.golden.preset
            preset = self.preset or (None if chosen is None else choose_preset(chosen.name, chosen.options))
        except CriterionError:
            unknown = Verdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR)
            return replace(own, verdict=unknown, turns=(), metrics=metrics)
        result = own if preset is None else score_by_preset(preset, own, final=final)
        return replace(result, metrics=metrics) if metrics else result

    def sampled(self, goldens: GoldenIndex, sample: float) -> GoldenIndex:
        """Let these goldens want this share of the sessions without golden too, where a metric needs none."""
        return goldens.with_sample(sample) if self.scores_every_session else goldens

    def with_tools(self, tools: Mapping[str, Mapping[str, Any]]) -> Scorer:
        """Return a scorer whose metrics judge by these schemas of tools, by name, and by no others."""

        def told(one: session_metrics.ChosenMetric) -> session_metrics.ChosenMetric:
            metric = one.metric
            if isinstance(metric, ToolParameterSchema | ToolParameterGrounding):
                return session_metrics.ChosenMetric(replace(metric, tools=tools), one.threshold)
            with_tools = getattr(metric, "with_tools", None)
            return one if with_tools is None else session_metrics.ChosenMetric(with_tools(tools), one.threshold)

        metrics, later = tuple(map(told, self.metrics)), tuple(map(told, self.later))
        return dataclasses.replace(self, metrics=metrics, later=later)

    @property
    def without_metrics(self) -> Scorer:
        """The same scorer without additional metrics."""
        return dataclasses.replace(self, metrics=())

    @property
    def scores_every_session(self) -> bool:
        """Whether a metric is chosen that needs no golden."""
        return any(
            session_metrics.GOLDEN not in session_metrics.needs_of(one.metric) for one in (*self.metrics, *self.later)
        )

    def reads_definitions(self, goldens: Sequence[Golden]) -> bool:
        """Whether scoring may read the definitions of tools: for a metric, or since a golden expects arguments.

        An expected argument that was left out has the default that its tool declares.
        """
        if any(call.args for golden in goldens for call in golden.all_calls()):
            return True
        names = {choice.name for golden in goldens for choice in golden.metrics}
        chosen = [one.metric for one in (*self.metrics, *self.later)]
        chosen += [session_metrics.BUILT_IN_METRICS[name] for name in names & session_metrics.BUILT_IN_METRICS.keys()]
        return any(session_metrics.TOOL_DEFINITIONS in session_metrics.needs_of(metric) for metric in chosen)

    def reads_content(self, goldens: Sequence[Golden]) -> bool:
        """Whether scoring may read more of a session than its calls: messages, results, answers."""
        if self._preset_reads_content(goldens):
            return True
        names = {choice.name for golden in goldens for choice in golden.metrics}
        names.update(choice.metric.name for choice in (*self.metrics, *self.later))
        if any(
            name not in session_metrics.BUILT_IN_METRICS
            or session_metrics.CONTEXT in session_metrics.needs_of(session_metrics.BUILT_IN_METRICS[name])
            for name in names
        ):
            return True
        values = (call.values for golden in goldens for call in golden.all_calls() if call.values is not call.args)
        return any(asked_by(*one.values()) is Asks.CONTENT for one in values)

    def _preset_reads_content(self, goldens: Sequence[Golden]) -> bool:
        presets = {golden.preset.name for golden in goldens if golden.preset is not None}
        if self.preset is not None:
            presets = {self.preset.name}
        if not presets:
            return False
        from goldspan.scoring.presets.preset_registry import PRESETS  # noqa: PLC0415 - see choose_preset

        return any(PRESETS[name].needs for name in presets & PRESETS.keys())


def scorer_of(
    criterion: Criterion | None = None,
    preset: str | Mapping[str, Any] | ChosenPreset | None = None,
    metrics: Iterable[session_metrics.MetricSource] | None = (),
    run: session_metrics.MetricRunner = session_metrics.run_in_this_thread,
    *,
    has_goldens: bool = True,
    tools: Definitions | None = None,
    profile: str | Path | None = None,
) -> Scorer:
    """Return a scorer. A preset is its name, or a mapping of `name` and its options.

    `metrics` None: with goldens none, without goldens those that need none. `tools` are definitions of the agent's
    tools, or a file with them, in place of those in telemetry. `profile` is the file of a profile: what is normal for
    the agent, by which `tool_parameter_profile` judges and `tool_parameter_grounding` knows which values the agent
    makes itself. Raises CriterionError if there is no such preset, or it
    has no such option. Raises MetricError if there is no such metric, and FileError if `tools` cannot be read.
    """
    if isinstance(preset, str):
        preset = choose_preset(preset)
    elif preset is not None and not isinstance(preset, ChosenPreset):
        options = dict(preset)
        preset = choose_preset(str(options.pop("name", "")), options)
    if metrics is None:
        metrics = () if has_goldens else session_metrics.WITHOUT_GOLDEN
    if profile is not None:
        metrics = (*metrics, f"{session_metrics.PROFILE_METRIC}:{profile}")
    scorer = Scorer(criterion, preset, session_metrics.choose_metrics(metrics), run)
    return scorer if tools is None else scorer.with_tools(load_tools(tools))
