"""Goldens that are judged over several runs of their session: so many must be seen, and so many of them must pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from goldspan.scoring.api import GivenGolden, GivenSession
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, Repeat
from goldspan.scoring.goldens.golden_index import Ambiguous
from goldspan.scoring.metrics.registry import BUILT_IN_METRICS, MetricRunner, run_in_this_thread
from goldspan.scoring.metrics.session_metrics import ChosenMetric, MetricSource, choose_metrics, score_metrics
from goldspan.scoring.presets import PRESETS
from goldspan.scoring.presets.session_preset import ChosenPreset, choose_preset, score_by_preset
from goldspan.scoring.results import Label, Reason, SessionResult, Verdict
from goldspan.scoring.score import score_session
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.type_guards import is_mapping, is_sequence


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """A golden with `repeat` and every run of its session that was seen."""

    golden: Golden
    repeat: Repeat
    runs: tuple[SessionResult, ...]
    """In the order of the result; each is judged on its own too."""
    verdict: Verdict
    """The score is the share of the runs seen that passed.

    It fails once too many runs failed, whatever is still to come; it passes when enough passed of as many runs as were
    asked for, or of more the same share; else it is not evaluated: `input_missing` while there are too few runs.
    """

    @property
    def passed(self) -> int:
        """How many runs passed."""
        return sum(map(_passed, self.runs))

    def __str__(self) -> str:
        runs = "run" if len(self.runs) == 1 else "runs"
        text = f"{self.passed} of {len(self.runs)} {runs} passed, {self.repeat.passes} of {self.repeat.runs} must"
        few = len(self.runs) < self.repeat.runs and self.verdict.label is Label.NOT_EVALUATED
        return f"{text}: too few were seen" if few else text


def repeats_of(sessions: Iterable[SessionResult]) -> tuple[RepeatResult, ...]:
    """Judge every golden that has `repeat` over its runs, in the order in which they were first seen."""
    runs: dict[tuple[str, str], list[SessionResult]] = {}
    for session in sessions:
        if session.repeated and session.session is not None and session.golden is not None:
            runs.setdefault((session.golden.golden_set, session.golden.key), []).append(session)
    return tuple(result for some in runs.values() if (result := _result(some)) is not None)


def _result(runs: list[SessionResult]) -> RepeatResult | None:
    golden = runs[0].golden
    if golden is None or golden.repeat is None:
        return None
    return RepeatResult(golden, golden.repeat, tuple(runs), _verdict(runs, golden.repeat))


def _verdict(runs: list[SessionResult], repeat: Repeat) -> Verdict:
    seen, passed = len(runs), sum(map(_passed, runs))
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


def _passed(run: SessionResult) -> bool:
    return run.verdict.label is Label.PASS and not run.failed


# How sessions are judged: by `tool_parameter_match` or a preset in its place, and by the metrics chosen beside it.
#
# Every door and `score_sessions` judge through a `Scorer`, so that all say the same.


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

    def score(
        self, golden: GivenGolden | Ambiguous | None, session: GivenSession, *, final: bool = True
    ) -> SessionResult:
        """Judge one run of a session, as `score_session` does.

        Raises:
            TypeError: something given is no golden or no session.

        """
        own = score_session(golden, session, self.criterion, final=final)
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

    Raises:
        CriterionError: there is no such preset, or it has no such option.
        MetricError: there is no such metric.

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
