"""Metrics beside the main one as HTML: a table for each session, and badges for those that failed."""

from __future__ import annotations

from collections.abc import Iterator

from goldspan.collector_processor.hints import WORDS
from goldspan.collector_processor.report.html_values import html_text
from goldspan.collector_processor.report.metric_lines import mark_of, number_text
from goldspan.scoring.metrics.results import MetricResult, MetricVerdict
from goldspan.scoring.results import Label, SessionResult


def metric_badges(result: SessionResult) -> str:
    """Return a badge for each metric that failed, to be seen while the session is closed."""
    failed = [metric for metric in result.metrics if metric.verdict.label is Label.FAIL]
    return "".join(
        f' <span class="badge fail">{html_text(f"{mark_of(one.verdict)} {one.name} {number_text(one.verdict.exact)}")}'
        "</span>"
        for one in failed
    )


def metrics_html(result: SessionResult) -> Iterator[str]:
    """Return the table of a session's metrics; nothing where there are none."""
    if not result.metrics:
        return
    yield '<div class="wide metrics"><table><caption>Beside the score</caption><thead><tr>'
    yield '<th scope="col">metric</th><th scope="col">score</th><th scope="col">passes</th>'
    yield '<th scope="col">what it says</th></tr></thead><tbody>'
    for metric in result.metrics:
        yield from _row(metric)
    yield "</tbody></table></div>"


def _row(metric: MetricResult) -> Iterator[str]:
    least = "only informs" if metric.threshold is None else f"from {number_text(metric.threshold)}"
    said = "; ".join(_said(metric))
    yield f'<tr><th scope="row">{html_text(metric.name)}</th><td>{_badge(metric.verdict)}</td><td>{least}</td>'
    yield f'<td>{html_text(said)} <span class="about">{html_text(metric.description)}</span></td></tr>'


def _said(metric: MetricResult) -> Iterator[str]:
    if metric.verdict.reason is not None:
        yield WORDS[metric.verdict.reason]
    if metric.verdict.explanation:
        yield metric.verdict.explanation


def _badge(verdict: MetricVerdict) -> str:
    label = "informs" if verdict.label is None else verdict.label.value
    words = label.replace("_", " ")
    score = number_text(verdict.exact)
    mark = "" if verdict.label is None else f"{mark_of(verdict)} "
    return f'<span class="badge {label}" title="{words}">{mark}{score}<span class="unseen"> {words}</span></span>'
