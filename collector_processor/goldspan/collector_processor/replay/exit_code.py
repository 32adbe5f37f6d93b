"""The exit code of `goldspan score`: 0 or 1, and every reason for a 1 in words. The command itself decides on 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from goldspan.collector_processor.replay.totals import Totals, gaps, is_gap, totals
from goldspan.collector_processor.replay.wording import counted, listed, printable
from goldspan.scoring.run import RunResult
from goldspan.scoring.verdict import REASON_TEXT, Label, Reason


class Coverage(StrEnum):
    """Whether what could not be evaluated is a failure."""

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(frozen=True, slots=True)
class ExitDecision:
    """The exit code, 0 or 1, and each reason for it in words."""

    exit_code: int
    reasons: tuple[str, ...]
    """None where the exit code is 0."""
    regressions: tuple[str, ...] | None = None
    """What got worse since an earlier run, a sentence each; None where there was no run to compare with."""


def decide_exit_code(
    result: RunResult, *, recognised: int, coverage: Coverage, fail_under: Fraction | None = None
) -> ExitDecision:
    """Decide whether the result fails a build, as `RunResult.passes` does, and say why.

    Beyond that it fails if no span was recognised, and if the mean score (of any criterion, where goldens use several)
    is below `fail_under`.
    """
    sums = totals(result)
    strict = coverage is Coverage.STRICT
    reasons = list(nothing_found(result, recognised))
    failed = sum(session.verdict.label is Label.FAIL for session in result.sessions if not session.repeated)
    if failed:
        reasons.append(f"{failed} of {counted(sum(sums.sessions.values()), 'session')} failed")
    reasons += _metrics(result, strict=strict)
    reasons += _repeats(result, strict=strict)
    if strict:
        reasons += _gaps(result)
        if sums.never_seen:
            count = counted(len(sums.never_seen), "golden was", "goldens were")
            reasons.append(f"{count} never seen ({listed(sums.never_seen)})")
    reasons += too_low(sums, fail_under)
    return ExitDecision(1 if reasons else 0, tuple(reasons))


def nothing_found(result: RunResult, recognised: int) -> Iterator[str]:
    """Say that there was nothing to score, if so: that fails whatever else was asked for."""
    if not recognised:
        yield "no span was recognised as an agent's, a model's or a tool's: see `goldspan inspect`"
    elif not result.sessions:
        yield "no turn of an agent was found: see `goldspan inspect`"


def too_low(sums: Totals, fail_under: Fraction | None) -> Iterator[str]:
    """Say that the mean score is below `fail_under`, if so."""
    if fail_under is not None and (sums.lowest_mean is None or sums.lowest_mean < fail_under):
        least = f"{float(fail_under):.4g}"
        if sums.lowest_mean is None:
            yield f"there is no mean score, and --fail-under asks for {least}"
        else:
            yield f"the mean score {float(sums.lowest_mean):.4g} is below --fail-under {least}"


def _metrics(result: RunResult, *, strict: bool) -> Iterator[str]:
    """Say which metrics with a threshold scored below it or, if strict, have no score."""
    failed: Counter[str] = Counter()
    without_score: Counter[str] = Counter()
    for session in result.sessions:
        for metric in session.metrics if not session.repeated else ():
            if metric.verdict.label is Label.FAIL:
                failed[metric.name] += 1
            elif metric.threshold is not None and is_gap(metric.verdict):
                without_score[metric.name] += 1
    for name, count in failed.items():
        yield f"{name} is too low in {counted(count, 'session')}"
    for name, count in without_score.items() if strict else ():
        yield f"{name} could not be evaluated in {counted(count, 'session')}"


def _repeats(result: RunResult, *, strict: bool) -> Iterator[str]:
    """Say which goldens have too few runs that passed, or that were seen."""
    for repeat in result.repeats:
        label = repeat.verdict.label
        if label is Label.FAIL or (label is Label.NOT_EVALUATED and strict):
            yield f"golden {printable(repeat.golden.key)}: {repeat}"


def _gaps(result: RunResult) -> Iterator[str]:
    """Say what could not be evaluated though it should have been: whole sessions, and parts of others."""
    whole: list[list[Reason]] = []
    partly: list[list[Reason]] = []
    for session in result.sessions:
        reasons = gaps(session)
        if reasons and session.session is not None and session.verdict.label is not Label.FAIL:
            (whole if session.verdict.label is Label.NOT_EVALUATED else partly).append(reasons)
    for what, found in (("", whole), ("parts of ", partly)):
        if found:
            words = ", ".join(dict.fromkeys(REASON_TEXT[reason] for reasons in found for reason in reasons))
            yield f"{what}{counted(len(found), 'session')} could not be evaluated ({words})"
