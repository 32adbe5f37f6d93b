"""The scores as Markdown for a comment on a pull request: a table, failures folded away, never longer than allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from goldspan.collector_processor.replay.hints import WORDS
from goldspan.collector_processor.report.layout import BAD, GOOD, MARKS, Page, counted, score_text
from goldspan.collector_processor.report.metric_lines import mark_of, number_text
from goldspan.collector_processor.report.score_page import session_lines
from goldspan.collector_processor.report.score_summary import advice_lines, conclusion, sum_rows
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.session_names import sessions_with_golden
from goldspan.collector_processor.report.totals import totals
from goldspan.collector_processor.report.values import printable, shorten
from goldspan.scoring.results import Label, SessionResult

LONGEST = 65_536
"""Characters GitHub takes in a comment; kept in bytes, which are never fewer."""
_WIDTH = 96
_MOST_ROWS = 30
_MOST_LISTED = 30
_MOST_LINES = 100
_WORST_FIRST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
_TAIL = 200
"""Bytes kept free for the sentence about what was left out."""
_LONGEST_NAME = 120
_LONGEST_LINE = 400

_Named = tuple[str, SessionResult]


def markdown(scored: Scored) -> str:
    """Return the comment: at most `LONGEST` characters, whatever the result."""
    room = LONGEST - _TAIL
    kept: list[str] = []
    left_out = 0
    for block in _blocks(scored):
        size = len(block.encode("utf-8", "backslashreplace")) + 2
        if size > room:
            left_out += 1
            continue
        kept.append(block)
        room -= size
    if left_out:
        kept.append(f"… and {counted(left_out, 'more section')} that a comment has no room for.")
    return "\n\n".join(kept) + "\n"


def _blocks(scored: Scored) -> Iterator[str]:
    sums = totals(scored.result)
    word, why = conclusion(sums, scored.judgement)
    mark = BAD if scored.judgement.exit_code else GOOD
    yield f"### {mark} goldspan: {word}"
    yield _prose(why)
    yield _bullets([f"**{label}** {_prose(text)}" for label, text in sum_rows(scored.result, sums)])
    if scored.judgement.regressions:
        yield "**Regressed**"
        yield _bullets([_prose(line) for line in scored.judgement.regressions])
    pairs = sessions_with_golden(scored.result.sessions)
    pairs.sort(key=lambda pair: (_WORST_FIRST.index(pair[1].verdict.label), pair[1].verdict.score or 0.0))
    if pairs:
        yield _table(pairs)
    if repeats := scored.result.repeats:
        yield _bullets(
            [f"{MARKS[one.verdict.label]} golden {_code(one.golden.key)}: {_prose(str(one))}" for one in repeats]
        )
    if advice := list(dict.fromkeys(advice_lines(scored.result, sums, scored.advice))):
        yield _folded("What to do", _bullets([f"**{_prose(seen)}**: {_prose(helps)}" for seen, helps in advice]))
    if problems := scored.result.problems:
        lines = _bullets([_prose(f"{problem.code}: {problem}") for problem in problems])
        yield _folded(f"{counted(len(problems), 'problem')} in the traces", lines)
    for name, result in pairs:
        if result.failed or result.verdict.label is not Label.PASS:
            yield _details(name, result)


def _table(pairs: Sequence[_Named]) -> str:
    lines = ["| | score | session | calls right | |", "|---|---:|---|---:|---|"]
    for name, result in pairs[:_MOST_ROWS]:
        right = sum(call.verdict.exact == 1 for turn in result.turns for call in turn.calls)
        cells = [
            MARKS[result.verdict.label],
            score_text(result.verdict.exact).strip(),
            _code(shorten(name, _LONGEST_NAME)),
            "" if result.preset else f"{right} of {sum(len(turn.calls) for turn in result.turns)}",
            "; ".join(_notes(result)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if len(pairs) > _MOST_ROWS:
        lines.append(f"| | | … and {counted(len(pairs) - _MOST_ROWS, 'more session')} | | |")
    return "\n".join(lines)


def _notes(result: SessionResult) -> Iterator[str]:
    if result.verdict.reason:
        yield WORDS[result.verdict.reason]
    if made := dict.fromkeys(call.actual.name for turn in result.turns for call in turn.violations if call.actual):
        yield f"forbidden, but called: {', '.join(map(_code, made))}"
    if result.preset is not None:
        yield f"by {_plain(result.preset)}"
    for metric in result.metrics:
        text = f"{_plain(metric.name)} {number_text(metric.verdict.exact)}"
        yield text if metric.verdict.label in {None, Label.PASS} else f"{mark_of(metric.verdict)} {text}"


def _details(name: str, result: SessionResult) -> str:
    page = Page(_WIDTH)
    session_lines(page, name, result)
    lines = str(page).split("\n")
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {counted(len(lines) - _MOST_LINES, 'more line')}"]
    text = "\n".join(lines)
    # A fence ends at the first line that has as many backticks as it: so have more than any of them.
    fence = "`" * max(3, max((len(run) + 1 for run in re.findall("`+", text)), default=3))
    title = f"{MARKS[result.verdict.label]} {score_text(result.verdict.exact).strip()} {shorten(name, _LONGEST_NAME)}"
    return _folded(_html(title), f"{fence}text\n{text}\n{fence}")


def _folded(title: str, content: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{content}\n\n</details>"


def _bullets(lines: Sequence[str]) -> str:
    kept = [f"- {line}" for line in lines[:_MOST_LISTED]]
    if len(lines) > _MOST_LISTED:
        kept.append(f"- … and {len(lines) - _MOST_LISTED:,} more")
    return "\n".join(kept)


def _code(text: str) -> str:
    """Write text as code in a table, whatever backticks and bars are in it."""
    return f"<code>{_plain(text)}</code>"


def _prose(text: str) -> str:
    """Write a sentence as text; plain words between backticks stay code."""
    parts = re.split(r"(`[\w .:=-]+`)", shorten(printable(text), _LONGEST_LINE))
    return "".join(part if index % 2 else _plain(part) for index, part in enumerate(parts))


def _plain(text: str) -> str:
    """Escape what Markdown would make something of."""
    return re.sub(r"([\\`*\[\]~]|(?<!\w)_|_(?!\w))", r"\\\1", _html(text)).replace("|", "&#124;")


def _html(text: str) -> str:
    """Escape HTML; an invisible space keeps people from being called and addresses from becoming links."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(?<![A-Za-z0-9_]@)(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)", "&#8203;", text)
