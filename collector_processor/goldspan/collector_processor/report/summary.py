"""The end of every report: the sums in words, what to do, and why the run passed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from goldspan.collector_processor.replay.exit_code import ExitDecision
from goldspan.collector_processor.replay.totals import Totals, is_gap
from goldspan.collector_processor.replay.wording import counted, listed, number_text, printable, score_text
from goldspan.scoring.metric_results import MetricVerdict
from goldspan.scoring.run import RunResult
from goldspan.scoring.verdict import Label


def because(decision: ExitDecision, sums: Totals) -> str:
    """Return the sentence that says why the run passed or failed."""
    nothing_worse = "nothing regressed" if decision.regressions is not None else _passed(sums)
    return f"{'; '.join(decision.reasons) or nothing_worse}."


def _passed(sums: Totals) -> str:
    passed = sums.sessions.get(Label.PASS, 0)
    if not passed:
        return "nothing failed, but nothing was evaluated"
    return f"{counted(passed, 'session')} of {sum(sums.sessions.values()):,}"


def summary_rows(result: RunResult, sums: Totals) -> Iterator[tuple[str, str]]:
    """Yield the rows of the summary: what is summed up, and the sum in words."""
    yield "sessions", _sessions(sums)
    presets = dict.fromkeys(one.preset for one in result.sessions if one.preset is not None and one.golden is not None)
    if presets:
        yield "scored by", f"preset {', '.join(presets)}, by another system's rules"
    if sums.calls_expected:
        yield "calls", _calls(sums)
    if metrics := _metric_sums(result):
        yield "metrics", metrics
    if len(sums.mistakes) > 1:
        yield "mistakes", listed((name for name, times in sums.mistakes for _ in range(times)), 4)
    if sums.seen or sums.never_seen:
        yield "goldens", _goldens(result, sums)


def _sessions(sums: Totals) -> str:
    counts = ((Label.PASS, "passed"), (Label.FAIL, "failed"), (Label.NOT_EVALUATED, "not evaluated"))
    text = _nonzero(*((sums.sessions.get(label, 0), word) for label, word in counts)) or "none has a golden"
    if sums.mean is not None:
        text += f"; mean score {score_text(sums.mean)}"
    if sums.without_golden:
        text += f"; {len(sums.without_golden):,} without a golden ({listed(sums.without_golden, 3)})"
    return text


def _calls(sums: Totals) -> str:
    expected = _nonzero(
        (sums.calls_matched, "right"),
        (sums.calls_evaluated - sums.calls_matched - sums.calls_missing, "with wrong arguments"),
        (sums.calls_missing, "never made"),
        (sums.calls_expected - sums.calls_evaluated, "not evaluated"),
    )
    others = _nonzero((sums.calls_unexpected, "not expected"), (sums.calls_rejected, "requested but never executed"))
    return f"{sums.calls_expected:,} expected: {expected}" + (f"; also {others}" if others else "")


def _nonzero(*counts: tuple[int, str]) -> str:
    return ", ".join(f"{count:,} {what}" for count, what in counts if count > 0)


def _metric_sums(result: RunResult) -> str:
    """Sum up each metric over the sessions: means of one metric and one threshold, never of several."""
    groups: dict[tuple[str, Fraction | None], list[MetricVerdict]] = {}
    for session in result.sessions:
        for one in session.metrics:
            groups.setdefault((printable(one.name), one.threshold), []).append(one.verdict)
    return "; ".join(_metric_sum(name, threshold, verdicts) for (name, threshold), verdicts in groups.items())


def _metric_sum(name: str, threshold: Fraction | None, verdicts: list[MetricVerdict]) -> str:
    scores = [verdict.exact for verdict in verdicts if verdict.exact is not None]
    text = f"{name} {number_text(sum(scores, Fraction(0)) / len(scores)) if scores else 'without a score'}"
    if threshold is not None:
        below = sum(verdict.label is Label.FAIL for verdict in verdicts)
        text += f", {below:,} below {number_text(threshold)}" if below else f", none below {number_text(threshold)}"
    broken = sum(map(is_gap, verdicts))
    return text + (f", {broken:,} not evaluated" if broken else "")


def _goldens(result: RunResult, sums: Totals) -> str:
    total = len(sums.seen) + len(sums.never_seen)
    names = listed(printable(label) for label in result.golden_sets)
    text = f"{len(sums.seen):,} of {total:,} seen" + (f" ({names})" if names else "")
    return text + (f"; never seen: {listed(sums.never_seen, 8)}" if sums.never_seen else "")
