"""The report as Markdown for a comment on a pull request: a table, failures folded away, never longer than allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from goldspan.collector_processor.replay.summary_and_exit_code import MetricTotals
from goldspan.collector_processor.report.model import Report
from goldspan.scoring.pages import MARKS, counted, number_text, printable, score_text, shorten
from goldspan.scoring.ranked_findings import SYSTEMATIC_WORDS, RankedFindings
from goldspan.scoring.result_lines import session_text
from goldspan.scoring.result_words import SessionWords, is_broken
from goldspan.scoring.results import SessionResult
from goldspan.scoring.verdict import Label

LONGEST = 65_536
"""Characters GitHub takes in a comment; kept in bytes, which are never fewer."""
_WIDTH = 96
_MOST_ROWS = 30
_MOST_LISTED = 30
_MOST_LINES = 100
_TAIL = 200  # bytes kept free for the sentence about what was left out
_LONGEST_NAME = 120
_LONGEST_LINE = 400


def markdown_report(report: Report) -> str:
    """Return the comment: at most `LONGEST` characters, whatever the result."""
    room = LONGEST - _TAIL
    kept: list[str] = []
    left_out = 0
    for block in _blocks(report):
        size = len(block.encode("utf-8", "backslashreplace")) + 2
        if size > room:
            left_out += 1
            continue
        kept.append(block)
        room -= size
    if left_out:
        kept.append(f"… and {counted(left_out, 'more section')} that a comment has no room for.")
    return "\n\n".join(kept) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    yield f"### {report.mark} goldspan: {report.word}"
    yield prose_text(report.because)
    if report.first_difference:
        yield f"{report.first_head}: {code_text(shorten(report.first_difference, _LONGEST_LINE))}"
    yield _bullets([f"**{label}** {prose_text(text)}" for label, text in report.summary])
    if report.regressions:
        yield "**Regressed**"
        yield _bullets(list(map(prose_text, report.regressions)))
    if report.fixed:
        yield "**Fixed**"
        yield _bullets(list(map(code_text, report.fixed)))
    yield from _findings(report.findings)
    if report.metrics:
        yield _metric_table(report.metrics)
    yield from _sessions(report)


def _findings(findings: RankedFindings) -> Iterator[str]:
    """Yield what metrics found, the rarest and worst first; what most sessions have is folded."""
    if findings.rare:
        lines = ["| finding | in | the first |", "|---|---|---|"]
        for one in findings.rare[:_MOST_ROWS]:
            first = one.places[0]
            words = prose_text(f"{first.words}: {first.finding.words(include_values=True)}")
            lines.append(f"| {code_text(one.argument)} {prose_text(one.words)} | {one.share} | {words} |")
        if len(findings.rare) > _MOST_ROWS:
            lines.append(f"| … and {counted(len(findings.rare) - _MOST_ROWS, 'more finding')} | | |")
        yield "\n".join(lines)
    if findings.systematic:
        lines = [
            f"{code_text(one.argument)} {prose_text(f'{one.words} in {one.share}: {one.settled_by}')}"
            for one in findings.systematic
        ]
        yield _folded(f"Systematic: {SYSTEMATIC_WORDS}", _bullets(lines))


def _sessions(report: Report) -> Iterator[str]:
    """Yield the sessions: those that are as they were in the run before come last, folded."""
    sessions = [one for one in report.worst_first() if one.has_golden or one.failed]
    known = [one for one in sessions if one.name in report.known_failures]
    new = [one for one in sessions if one.name not in report.known_failures]
    if new:
        yield _table(new)
    yield from _lists(report)
    yield from (_details(one) for one in new if one.failed or one.label is not Label.PASS)
    if known:
        yield _folded(f"{counted(len(known), 'session')} that failed before, too", _table(known))


def _lists(report: Report) -> Iterator[str]:
    """Yield goldens with several runs, what to do, and what could not be read."""
    if report.repeats:
        yield _bullets(
            [f"{MARKS[one.label]} golden {code_text(one.golden.key)}: {prose_text(str(one))}" for one in report.repeats]
        )
    if report.hints:
        lines = [f"**{prose_text(seen)}**: {prose_text(helps)}" for seen, helps in report.hints]
        yield _folded("What to do", _bullets(lines))
    if report.problems:
        lines = [prose_text(f"{code}: {text}") for code, text in report.problems]
        yield _folded(f"{counted(len(lines), 'problem')} in the traces", _bullets(lines))


def _metric_table(metrics: Sequence[MetricTotals]) -> str:
    lines = ["| | without goldens | score | passed | failed | not evaluated |", "|---|---|---:|---:|---:|---|"]
    for one in metrics:
        gaps = f"{one.gaps:,}: {prose_text(one.reasons)}" if one.gaps else "0"
        name = f"{code_text(one.name)}, {one.unit}s"
        lines.append(
            f"| {MARKS[one.label]} | {name} | {number_text(one.score)} | {one.passed:,} | {one.failed:,} | {gaps} |"
        )
    return "\n".join(lines)


def _table(sessions: Sequence[SessionWords]) -> str:
    first = "first difference" if any(one.has_golden for one in sessions) else "first finding"
    lines = [f"| | score | session | calls right | {first} |", "|---|---:|---|---:|---|"]
    for session in sessions[:_MOST_ROWS]:
        cells = [
            MARKS[session.label],
            score_text(session.score).strip(),
            code_text(shorten(session.name, _LONGEST_NAME)),
            "" if session.result.preset or not session.has_golden else _calls_right(session.result),
            "; ".join(_notes(session)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if len(sessions) > _MOST_ROWS:
        lines.append(f"| | | … and {counted(len(sessions) - _MOST_ROWS, 'more session')} | | |")
    return "\n".join(lines)


def _calls_right(result: SessionResult) -> str:
    calls = [call for turn in result.turns for call in turn.calls]
    return f"{sum(call.verdict.exact == 1 for call in calls)} of {len(calls)}"


def _notes(session: SessionWords) -> Iterator[str]:
    if session.first_line and session.label is Label.FAIL:
        yield _plain(shorten(session.first_line, _LONGEST_NAME))
    if session.reason:
        yield session.reason
    result = session.result
    forbidden = dict.fromkeys(call.actual.name for turn in result.turns for call in turn.violations if call.actual)
    if forbidden:
        yield f"forbidden, but called: {', '.join(map(code_text, forbidden))}"
    if result.preset and session.has_golden:
        yield f"scored by {_plain(result.preset)}"
    for metric in result.metrics if session.has_golden else filter(is_broken, result.metrics):
        text = f"{_plain(metric.name)} {number_text(metric.verdict.exact)}"
        yield text if metric.label in {None, Label.PASS} else f"{MARKS[metric.label]} {text}"


def _details(session: SessionWords) -> str:
    lines = session_text(session, _WIDTH).split("\n")
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {counted(len(lines) - _MOST_LINES, 'more line')}"]
    text = "\n".join(lines)
    # A fence ends at the first line that has as many backticks as it: so have more than any of them.
    fence = "`" * max(3, max((len(run) + 1 for run in re.findall("`+", text)), default=3))
    title = f"{MARKS[session.label]} {score_text(session.score).strip()} {shorten(session.name, _LONGEST_NAME)}"
    return _folded(_html(title), f"{fence}text\n{text}\n{fence}")


def _folded(title: str, content: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{content}\n\n</details>"


def _bullets(lines: Sequence[str]) -> str:
    kept = [f"- {line}" for line in lines[:_MOST_LISTED]]
    if len(lines) > _MOST_LISTED:
        kept.append(f"- … and {len(lines) - _MOST_LISTED:,} more")
    return "\n".join(kept)


def code_text(text: str) -> str:
    """Write text as code in a table, whatever backticks and bars are in it."""
    return f"<code>{_plain(text)}</code>"


def prose_text(text: str) -> str:
    """Write a sentence as text; plain words between backticks stay code."""
    parts = re.split(r"((?<!\\)`[\w .:=\[\]-]+`)", shorten(printable(text), _LONGEST_LINE))
    return "".join(part if index % 2 else _plain(part) for index, part in enumerate(parts))


def _plain(text: str) -> str:
    """Escape what Markdown would make something of."""
    return re.sub(r"([\\`*\[\]~]|(?<!\w)_|_(?!\w))", r"\\\1", _html(text)).replace("|", "&#124;")


def _html(text: str) -> str:
    """Escape HTML; an invisible space keeps people from being called and addresses from becoming links."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<![A-Za-z0-9_]@)(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)", "&#8203;", text)
