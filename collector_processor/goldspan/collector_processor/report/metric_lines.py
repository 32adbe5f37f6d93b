"""Metrics beside the main one, in words: of a session, and summed up over all."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from goldspan.collector_processor.replay.hints import WORDS
from goldspan.collector_processor.report.layout import MARKS, STYLES, Page, counted
from goldspan.collector_processor.report.values import printable
from goldspan.scoring.results import Label, MetricResult, MetricVerdict, Reason, RunResult, SessionResult

NEUTRAL = "·"
"""The mark of a metric that only informs."""


def number_text(score: Fraction | float | None) -> str:
    """Two decimals, or as many figures as it takes; unlike shares, a score of a metric may be any number."""
    if score is None:
        return "-"
    short = f"{float(score):.2f}"
    return short if Fraction(short) == score or 0.01 <= float(score) <= 0.99 else f"{float(score):.4g}"


def mark_of(verdict: MetricVerdict) -> str:
    """Return the mark of a label; without one, of neither good nor bad."""
    return NEUTRAL if verdict.label is None else MARKS[verdict.label]


def metric_note(result: MetricResult) -> str:
    """Say what a score is held against, or why there is none."""
    verdict = result.verdict
    notes = [] if verdict.reason is None else [WORDS[verdict.reason]]
    if result.threshold is not None and verdict.label is not Label.PASS:
        notes.append(f"needs {number_text(result.threshold)}")
    if verdict.explanation:
        notes.append(printable(verdict.explanation))
    return "; ".join(notes)


def metric_lines(page: Page, result: SessionResult, *, wrong_only: bool) -> None:
    """Add a line for each metric of a session; only for those that failed or broke where the rest is in order."""
    for one in result.metrics:
        verdict = one.verdict
        broken = verdict.label is Label.FAIL or (verdict.label is Label.NOT_EVALUATED and one.threshold is not None)
        if wrong_only and not broken:
            continue
        mark = mark_of(verdict)
        style = STYLES.get(mark, "dim")
        page.paragraph(
            metric_note(one), label=((f"{mark} {number_text(verdict.exact):>4}", style), f"  {one.name}  "), indent=2
        )


def metric_sums(result: RunResult) -> str:
    """Sum up each metric over the sessions: means of one metric and one threshold, never of several."""
    groups: dict[tuple[str, Fraction | None], list[MetricVerdict]] = {}
    for session in result.sessions:
        for one in session.metrics:
            groups.setdefault((one.name, one.threshold), []).append(one.verdict)
    return "; ".join(_sum(name, threshold, verdicts) for (name, threshold), verdicts in groups.items())


def metric_failures(result: RunResult, *, strict: bool) -> Iterator[str]:
    """Say which metrics are a reason to fail: those with a threshold, and a score below it or, if strict, none."""
    failed: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for session in result.sessions:
        for one in session.metrics:
            if one.verdict.label is Label.FAIL:
                failed[one.name] = failed.get(one.name, 0) + 1
            elif one.threshold is not None and one.verdict.reason is not None and is_lost(one.verdict):
                unknown[one.name] = unknown.get(one.name, 0) + 1
    for name, count in failed.items():
        yield f"{name} is too low in {counted(count, 'session')}"
    for name, count in unknown.items() if strict else ():
        yield f"{name} could not be evaluated in {counted(count, 'session')}"


def is_lost(verdict: MetricVerdict) -> bool:
    """Whether there should have been a score."""
    return verdict.reason is not None and verdict.reason not in (Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN)


def _sum(name: str, threshold: Fraction | None, verdicts: list[MetricVerdict]) -> str:
    scores = [verdict.exact for verdict in verdicts if verdict.exact is not None]
    text = f"{name} {number_text(sum(scores, Fraction(0)) / len(scores)) if scores else 'without a score'}"
    if threshold is not None:
        below = sum(verdict.label is Label.FAIL for verdict in verdicts)
        text += f", {below:,} below {number_text(threshold)}" if below else f", none below {number_text(threshold)}"
    broken = sum(map(is_lost, verdicts))
    return text + (f", {broken:,} not evaluated" if broken else "")
