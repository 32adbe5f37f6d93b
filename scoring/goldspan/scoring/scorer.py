"""How sessions are judged: by `tool_parameter_match` or a preset in its place, and by the metrics chosen beside it.

Every door and `score_sessions` judge through a `Scorer`, so that all say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.given import GivenGolden, GivenSession
from goldspan.scoring.goldens.matching import Ambiguous
from goldspan.scoring.goldens.models import ExpectedCall, Golden
from goldspan.scoring.metrics.judging import ChosenMetric, MetricSource, choose_metrics, judge_metrics
from goldspan.scoring.metrics.metric import Run, run_here
from goldspan.scoring.metrics.registry import OWN
from goldspan.scoring.presets import PRESETS
from goldspan.scoring.presets.judging import ChosenPreset, choose_preset, judge_by_preset
from goldspan.scoring.results import Label, Reason, SessionResult, Verdict
from goldspan.scoring.score import score_session
from goldspan.scoring.sessions import JsonValue


@dataclass(frozen=True, slots=True)
class Scorer:
    """What is asked for of every session; a golden may ask for more of its own."""

    criterion: Criterion | None = None
    """Replaces every criterion of goldens; None: those hold."""
    preset: ChosenPreset | None = None
    """Scores in the place of `tool_parameter_match`; None: what the golden says, if anything."""
    metrics: tuple[ChosenMetric, ...] = ()
    """Judge beside it."""
    run: Run = run_here
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
        metrics = judge_metrics(own, self.metrics, override=self.criterion, run=self.run, final=final)
        try:
            preset = self.preset or _preset_of(own.golden)
        except CriterionError:
            unknown = Verdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR)
            return replace(own, verdict=unknown, turns=(), metrics=metrics)
        result = own if preset is None else judge_by_preset(preset, own, final=final)
        return replace(result, metrics=metrics) if metrics else result

    def reads_content(self, goldens: Sequence[Golden]) -> bool:
        """Whether what is asked for may read more of a session than its calls: messages, definitions, results."""
        presets = {golden.preset.name for golden in goldens if golden.preset is not None}
        names = {choice.name for golden in goldens for choice in golden.metrics}
        if self.preset is not None:
            presets = {self.preset.name}
        names.update(one.metric.name for one in self.metrics)
        if any(PRESETS[name].needs for name in presets & PRESETS.keys()) or not names <= OWN.keys():
            return True
        return any(_asks_results(call) for golden in goldens for call in golden.all_calls())


def scorer_of(
    criterion: Criterion | None = None,
    preset: str | Mapping[str, Any] | ChosenPreset | None = None,
    metrics: Iterable[MetricSource] = (),
    run: Run = run_here,
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
        if is_object(value):
            if "$from_result" in value:
                return True
            waiting += [] if "$literal" in value else value.values()
        elif is_list(value):
            waiting += value
    return False


def _preset_of(golden: Golden) -> ChosenPreset | None:
    return None if golden.preset is None else choose_preset(golden.preset.name, golden.preset.options)
