"""The report as lines for a terminal, a pipe or a log. JUnit and Markdown show sessions in these lines too."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from goldspan.collector_processor.replay.hints import Hint
from goldspan.collector_processor.replay.wording import NO_SCORE, counted, listed, printable, score_text
from goldspan.collector_processor.report.model import (
    INFORMS,
    LABEL_WORDS,
    MARKS,
    REJECTED,
    RIGHT,
    UNEXPECTED,
    UNKNOWN,
    WORST_FIRST,
    WRONG,
    ActualCall,
    ArgumentReport,
    CallReport,
    JudgedCall,
    MetricReport,
    MetricRow,
    OtherCall,
    PresetAnswer,
    Report,
    SessionReport,
    TurnReport,
)
from goldspan.collector_processor.report.shown_values import (
    ValueDifference,
    arguments_text,
    contrast,
    differences,
    one_line,
    shorten,
)
from goldspan.scoring.matchers.matcher import ABSENT
from goldspan.scoring.results import ArgumentOutcome
from goldspan.scoring.verdict import Label

_PIPED_WIDTH = 100
_MOST_IN_DETAIL = 20
_MOST_IN_BRIEF = 10
_MOST_OTHERS = 6
_MOST_DIFFERENCES = 4
_MOST_REGRESSIONS = 20
_LABEL = 12
_CALL_INDENT = 4
_DETAIL_INDENT = _CALL_INDENT + 8
STYLES = {
    RIGHT: "green",
    WRONG: "red",
    UNKNOWN: "yellow",
    UNEXPECTED: "magenta",
    REJECTED: "magenta",
    INFORMS: "dim",
}
_ASCII = str.maketrans({RIGHT: "P", WRONG: "F", "…": "...", INFORMS: "-", "─": "-", "┌": "/", "│": "|", "└": "\\"})

Part = str | tuple[str, str]
"""Text, or text and its style."""


class TerminalPage:
    """Lines in the making; `width` is what values are cut to, never what ids are cut at."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[Text] = []

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add a line of these parts."""
        self.lines.append(Text.assemble(" " * indent, *parts))

    def blank(self) -> None:
        """Add an empty line, unless the page is empty or has just had one."""
        if self.lines and self.lines[-1].plain:
            self.lines.append(Text())

    def paragraph(self, text: str, *, indent: int = 0, label: str | tuple[Part, ...] = "", style: str = "") -> None:
        """Add text that wraps at spaces only; what follows the first line hangs under it."""
        head = ((label, "bold"),) if isinstance(label, str) else label
        width = _cells(head)
        room = max(self.width - indent - width, 24)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        self.line(*head, (lines[0] if lines else "", style), indent=indent)
        for line in lines[1:]:
            self.line((line, style), indent=indent + width)

    def __str__(self) -> str:
        """Return every line without style, as it looks in a pipe."""
        return "\n".join(line.plain.rstrip() for line in self.lines)


def page_width(console: Console) -> int:
    """Return the terminal's width; where there is none, what a log has room for and a person can still read."""
    return console.width if console.is_terminal else _PIPED_WIDTH


def print_page(console: Console, page: TerminalPage) -> None:
    """Print the lines as they are: long ids run over instead of being broken."""
    encodes_all = console.encoding.lower().startswith("utf")
    for line in page.lines:
        line.rstrip()
        if encodes_all:
            console.print(line, soft_wrap=True)
        else:
            console.print(line.plain.translate(_ASCII), soft_wrap=True, markup=False, highlight=False)


def _cells(parts: Iterable[Part]) -> int:
    return sum(cell_len(part if isinstance(part, str) else part[0]) for part in parts)


def report_page(page: TerminalPage, report: Report, *, verbose: bool = False) -> None:
    """Add a report: failed sessions first, then those not evaluated, then those that passed, then the sums."""
    for label in WORST_FIRST:
        _sessions(page, label, [one for one in report.sessions if one.label is label], verbose=verbose)
    _without_golden(page, report.without_golden, verbose=verbose)
    _repeats(page, report)
    _sums(page, report)
    hint_rows(page, report.hints)
    page.blank()
    page.paragraph(report.because, label=f"{report.mark} {report.word}: ", style=STYLES[report.mark])


def scoreboard(page: TerminalPage, report: Report, *, verbose: bool = False) -> None:
    """Add a line for each session that did not pass, with `verbose` for each one, then the sums."""
    for session in report.worst_first():
        if verbose or session.failed or session.label is not Label.PASS:
            _headline(page, session)
    _repeats(page, report)
    _sums(page, report)


def _repeats(page: TerminalPage, report: Report) -> None:
    for repeat in report.repeats:
        mark = MARKS[repeat.label]
        page.line((f"{mark} {score_text(repeat.score)}", STYLES[mark]), f"  golden {repeat.golden}: {repeat.words}")


def _sums(page: TerminalPage, report: Report) -> None:
    page.blank()
    for name, text in report.summary:
        page.paragraph(text, label=f"{name:<{_LABEL}}")
    metric_rows(page, report.metrics)
    problem_rows(page, report.problems, label=_LABEL)
    _regressions(page, report.regressions)


def problem_rows(page: TerminalPage, problems: Sequence[tuple[str, str]], *, label: int) -> None:
    """Add what could not be read: counts by code, and the first of each; `label` is the width of the label column."""
    if not problems:
        return
    counts = Counter(code for code, _ in problems)
    text = ", ".join(f"{code} {count:,}" for code, count in counts.most_common())
    page.paragraph(text, label=f"{'problems':<{label}}")
    shown: Counter[str] = Counter()
    for code, text in problems:
        shown[code] += 1
        if shown[code] <= 2 and shown.total() <= 8:
            page.line((shorten(text, max(page.width - label, 60)), "dim"), indent=label)


def hint_rows(page: TerminalPage, hints: Iterable[Hint]) -> None:
    """Add what to do: pairs of what was seen and what helps."""
    for index, (seen, helps) in enumerate(hints):
        if index == 0:
            page.blank()
            page.line(("what to do", "bold"))
        page.paragraph(f"{seen}: {helps}" if seen else helps, label="- ", indent=2)


def metric_rows(page: TerminalPage, metrics: Sequence[MetricRow]) -> None:
    """Add a table of the metrics that need no golden: their scores, and what became of the calls."""
    if not metrics:
        return
    width = max(len(one.name) for one in metrics)
    page.blank()
    page.line((f"  {'without goldens':<{width}}  score  passed  failed  not evaluated", "bold"))
    for one in metrics:
        mark = MARKS[one.label]
        words = f"{one.not_evaluated:,}" + (f": {one.reasons}" if one.reasons else "")
        head = (
            (f"{mark} ", STYLES[mark]),
            f"{one.name:<{width}}  {one.score_text:>5}  {one.passed:>6,}  ",
            (f"{one.failed:>6,}", STYLES[WRONG] if one.failed and one.label is Label.FAIL else ""),
            "  ",
        )
        page.paragraph(words, label=head, style="" if one.not_evaluated else "dim")
    units = [counted(sum((one.passed, one.failed, one.not_evaluated)), one.unit) for one in metrics]
    failing = [f"{one.name} informs only" for one in metrics if one.label is None]
    page.line((f"  of {max(units, key=len)}" + "".join(f"; {text}" for text in failing), "dim"))


def _regressions(page: TerminalPage, regressions: Sequence[str]) -> None:
    if not regressions:
        return
    page.blank()
    page.line(("regressed", "bold"))
    for regression in regressions[:_MOST_REGRESSIONS]:
        page.paragraph(regression, label="- ", indent=2)
    if len(regressions) > _MOST_REGRESSIONS:
        page.line(f"… and {len(regressions) - _MOST_REGRESSIONS:,} more", indent=2)


def _sessions(page: TerminalPage, label: Label, sessions: list[SessionReport], *, verbose: bool) -> None:
    passed = label is Label.PASS
    if passed:
        sessions.sort(key=lambda one: (not one.failed, one.score == 1))
    most = len(sessions) if verbose else _MOST_IN_BRIEF if passed else _MOST_IN_DETAIL
    for session in sessions[:most]:
        if verbose or not passed:
            page.blank()
        session_lines(page, session, verbose=verbose)
    if len(sessions) > most:
        rest = counted(len(sessions) - most, "more session")
        page.line((f"… and {rest} {LABEL_WORDS[label]}; -v shows all", "dim"))
    page.blank()


def _without_golden(page: TerminalPage, sessions: Sequence[SessionReport], *, verbose: bool) -> None:
    """Add what metrics found in sessions without golden; those with nothing to tell only if all are asked for."""
    for label in WORST_FIRST:
        of_label = [one for one in sessions if one.label is label]
        most = len(of_label) if verbose else _MOST_IN_DETAIL if label is Label.FAIL else 0
        for session in of_label[:most]:
            page.blank()
            session_lines(page, session, verbose=verbose)
        if most and len(of_label) > most:
            rest = counted(len(of_label) - most, "more session")
            page.line((f"… and {rest} {LABEL_WORDS[label]}; -v shows all", "dim"))
    page.blank()


def session_text(session: SessionReport, width: int) -> str:
    """Return the lines of one session without style."""
    page = TerminalPage(width)
    session_lines(page, session)
    return str(page)


def session_lines(page: TerminalPage, session: SessionReport, *, verbose: bool = False) -> None:
    """Add one session: its headline, and of its turns and calls what was not right."""
    if session.has_golden:
        _headline(page, session)
    else:
        mark = MARKS[session.label]
        notes = " · ".join(session.notes)
        page.line((mark, f"bold {STYLES[mark]}"), "  ", (session.name, "bold"), (f"  {notes}", "dim"))
    if session.reason and not session.turns:
        page.paragraph(session.reason, indent=_CALL_INDENT + 4)
    only_wrong = session.label is Label.PASS and not verbose
    for metric in session.metrics:
        judged = [one for one in session.judged if one.metric == metric.name]
        informs = verbose or judged or (metric.needs_golden and not only_wrong)
        if metric.broken or informs:
            _metric(page, metric)
            _judged_calls(page, judged, verbose=verbose)
    for turn in session.turns:
        if not only_wrong or turn.label is not Label.PASS or turn.score != 1:
            _turn(page, turn, verbose=verbose, only_wrong=only_wrong)


def _headline(page: TerminalPage, session: SessionReport) -> None:
    mark = MARKS[session.label]
    first = session.first_difference if session.label is Label.FAIL else ""
    notes = " · ".join(session.notes)
    text = " · ".join(filter(None, (first, notes)))
    if 8 + cell_len(session.name) + 2 + cell_len(text) <= page.width:
        rest = text.removeprefix(first)
        page.line(*_name(session), "  " if text else "", (first, STYLES[mark]), (rest, "dim"))
    else:
        page.line(*_name(session))
        page.paragraph(text, indent=8, style="dim")


def _name(session: SessionReport) -> tuple[Part, ...]:
    mark = MARKS[session.label]
    return (f"{mark} {score_text(session.score)}", f"bold {STYLES[mark]}"), "  ", (session.name, "bold")


def _metric(page: TerminalPage, metric: MetricReport) -> None:
    mark = MARKS[metric.label]
    head = (f"{mark} {metric.score_text:>4}", STYLES[mark]), f"  {metric.name}  "
    page.paragraph(metric.note, label=head, indent=2)


def _judged_calls(page: TerminalPage, calls: Sequence[JudgedCall], *, verbose: bool) -> None:
    """Add the calls in which a metric that needs no golden found something, each with what it found."""
    for one in calls if verbose else calls[:_MOST_OTHERS]:
        mark = MARKS[one.label]
        head: list[Part] = [(mark, STYLES[mark]), f" {one.place}  ", (one.call.tool, "bold")]
        room = page.width - _CALL_INDENT - _cells(head) - 2
        text = call_text(one.call)
        page.line(*head, (f"  {shorten(text, room)}" if text and room > 12 else "", "dim"), indent=_CALL_INDENT)
        for finding in one.findings:
            label = (finding.argument or finding.words, "bold"), "  "
            page.paragraph(finding.sentence, label=label, indent=_DETAIL_INDENT)
    if not verbose and len(calls) > _MOST_OTHERS:
        rest = counted(len(calls) - _MOST_OTHERS, "more call")
        page.line((f"… and {rest}; -v shows all", "dim"), indent=_CALL_INDENT)


def _turn(page: TerminalPage, turn: TurnReport, *, verbose: bool, only_wrong: bool) -> None:
    if turn.nothing_expected and only_wrong:
        return
    if not turn.whole:
        _turn_headline(page, turn)
    if turn.preset is not None:
        _preset(page, turn.preset)
        return
    right = turn.score == 1 and turn.label is Label.PASS
    if turn.only_headline or (right and not verbose and not turn.whole):
        return
    unknown = [call for call in turn.calls if call.only_unknown]
    together = len(unknown) >= 2
    for call in turn.calls:
        if not (together and call.only_unknown) and not (only_wrong and call.label is Label.PASS):
            _call(page, call)
    if together:
        reasons = ", ".join(dict.fromkeys(call.reason for call in unknown if call.reason))
        page.line(
            (f"{UNKNOWN} {score_text(None)}", STYLES[UNKNOWN]),
            f"  {listed(call.tool for call in unknown)}",
            (f"  {reasons}", STYLES[UNKNOWN]),
            indent=_CALL_INDENT,
        )
    if not only_wrong:
        _others(page, [other for other in turn.others if other.judged])


def _turn_headline(page: TerminalPage, turn: TurnReport) -> None:
    mark = MARKS[turn.label]
    style = STYLES[mark]
    notes: list[Part] = []
    if not turn.happened:
        notes.append((f"{turn.reason}: {listed(call.tool for call in turn.calls)}", style))
    elif not turn.in_golden:
        notes.append((f"{turn.reason}: {listed(turn.made_tools) or 'no call'}", style))
    elif turn.reason:
        notes += [] if any(call.reason == turn.reason for call in turn.calls) else [(turn.reason, style)]
    elif turn.label is Label.PASS and turn.preset is None:
        tools = [other.call.tool for other in turn.others if other.judged and other.mark != REJECTED]
        others = listed(tools, 3) if turn.score == 1 else ""
        calls = counted(len(turn.calls), "call")
        notes.append((calls + (f", not expected: {others}" if others else ""), "dim"))
    if turn.approximate:
        notes.append(("too many calls to align exactly", "yellow"))
    used = _cells(notes) + 2 * len(notes) + 20
    if turn.user_text and page.width - used > 16:
        notes.append((shorten(turn.user_text, page.width - used), "dim italic"))
    spaced = [part for note in notes for part in ("  ", note)]
    page.line((f"{mark} {score_text(turn.score)}", style), f"  {turn.title}", *spaced, indent=2)


def _preset(page: TerminalPage, answer: PresetAnswer) -> None:
    """Show what a preset answered, and the calls it was asked about."""
    for text in answer.lines:
        page.paragraph(text, indent=_CALL_INDENT)
    expected = [f"{tool}  {arguments_text(arguments)}" for tool, arguments in answer.expected]
    made = [f"{call.tool}  {call_text(call)}" for call in answer.made]
    for what, lines in (("expected", expected), ("called", made)):
        for index, line in enumerate(lines[:_MOST_OTHERS] or ["nothing"]):
            text = f"{what if index == 0 else '':<10}{line}"
            page.line((shorten(text, page.width - _CALL_INDENT), "dim"), indent=_CALL_INDENT)
        if len(lines) > _MOST_OTHERS:
            page.line((f"{'':<10}… and {len(lines) - _MOST_OTHERS:,} more", "dim"), indent=_CALL_INDENT)


def _others(page: TerminalPage, others: Sequence[OtherCall]) -> None:
    """Add calls that stand for no expected one; of each kind not too many."""
    refused = [other for other in others if other.mark == REJECTED]
    made = [other for other in others if other.mark != REJECTED]
    for other in (*made[:_MOST_OTHERS], *refused[:_MOST_OTHERS]):
        _other(page, other)
    hidden = len(made[_MOST_OTHERS:]) + len(refused[_MOST_OTHERS:])
    if hidden:
        page.line((f"… and {counted(hidden, 'more call')} that nothing expected", "dim"), indent=_CALL_INDENT)


def _other(page: TerminalPage, other: OtherCall) -> None:
    style = STYLES[other.mark]
    head: list[Part] = [(f"{other.mark} {NO_SCORE:^4}", style), "  ", (other.call.tool, "bold")]
    head.append((f"  {other.words}", style))
    room = page.width - _CALL_INDENT - _cells(head) - 2
    text = call_text(other.call)
    page.line(*head, (f"  {shorten(text, room)}" if text and room > 12 else "", "dim"), indent=_CALL_INDENT)


def call_text(call: ActualCall) -> str:
    """Write the arguments of a call, or why they are not known."""
    known = {name: value for name, value, hidden in call.arguments if not hidden and value is not ABSENT}
    hidden = [f"{name} {words}" for name, _, words in call.arguments if words]
    return call.hidden or ", ".join(filter(None, [arguments_text(known), *hidden]))


def _call(page: TerminalPage, call: CallReport) -> None:
    """Add an expected call, with its partner, its near miss or nothing."""
    mark = MARKS[call.label]
    passed = call.label is Label.PASS
    head: list[Part] = [
        (f"{mark} {score_text(call.score)}", STYLES[mark]),
        "  ",
        (call.tool, "" if passed else "bold"),
    ]
    if call.note:
        head.append((f"  {call.note}", "" if passed else STYLES[mark]))
    never_called = call.missing and call.actual is None
    right = {one.name: one.expected for one in call.arguments if never_called or one.outcome == ArgumentOutcome.MATCHED}
    room = page.width - _CALL_INDENT - _cells(head) - 2
    if right and room > 12:
        head.append((f"  {shorten(arguments_text(right), room)}", "dim"))
    page.line(*head, indent=_CALL_INDENT)
    if not never_called:
        _arguments(page, call)
    hints = [f"{argument.name}: {argument.hint}" for argument in call.arguments if argument.hint]
    for hint in filter(None, (call.hint, *hints)):
        page.paragraph(hint, indent=_DETAIL_INDENT)


_Row = tuple[str, str, str, str, str, str]
"""Argument, words before, expected value, words between, actual value, words after."""


def _arguments(page: TerminalPage, call: CallReport) -> None:
    """Add what was wrong with each argument, and the names of those that were not expected."""
    known = call.actual is not None and not call.actual.hidden
    rows = [row for argument in call.arguments for row in _rows(argument, known=known)]
    names = max((min(cell_len(row[0]), 24) for row in rows), default=0)
    for name, before, expected, between, actual, after in rows:
        indent = _DETAIL_INDENT + max(names, cell_len(name)) + 2
        head = f"{name}{' ' * (indent - _DETAIL_INDENT - cell_len(name))}"
        room = page.width - indent
        words = cell_len(before) + cell_len(between) + cell_len(after)
        values: list[Part] = [(expected, "green"), between, (actual, "red"), (after, "dim")]
        if words + cell_len(expected[: room + 1]) + cell_len(actual[: room + 1]) <= room:
            page.line((head, "bold"), before, *values, indent=_DETAIL_INDENT)
            continue
        room = max(room - len("expected "), 12)
        if not actual:
            values[0] = (shorten(expected, max(room - cell_len(between) - cell_len(after), 12)), "green")
            page.line((head, "bold"), before, *values, indent=_DETAIL_INDENT)
            continue
        first, second = contrast(expected, actual, room)
        page.line((head, "bold"), f"{before:>9}", (first, "green"), indent=_DETAIL_INDENT)
        page.line(f"{between.removeprefix(','):>9}", (second, "red"), indent=indent)
        if after:
            page.line((f"{' ' * 9}{after.strip()}", "dim"), indent=indent)
    extra = [argument.name for argument in call.arguments if argument.outcome == "extra"]
    if extra and (call.label is not Label.PASS or call.missing):
        page.line((f"also passed: {listed(extra)}", "dim"), indent=_DETAIL_INDENT)


def _rows(argument: ArgumentReport, *, known: bool) -> Iterator[_Row]:
    unknown = f", {argument.unknown}" if argument.unknown and known else ""
    if argument.outcome == ArgumentOutcome.MISSING or unknown:
        yield argument.name, "expected ", one_line(argument.expected), unknown or ", not passed", "", ""
    if argument.outcome != ArgumentOutcome.MISMATCHED:
        return
    after = "" if argument.strategy == "exact" else f"  ({argument.strategy}"
    if after:
        after += f" {score_text(argument.score)})" if argument.score else ")"
    found: tuple[ValueDifference, ...] = ()
    if argument.strategy in {"exact", "casefold_exact"}:
        found = differences(argument.expected, argument.actual, casefold=argument.strategy == "casefold_exact")
    # Many differences mean another value altogether: then the whole of it says more than its pieces.
    if not found or len(found) > _MOST_DIFFERENCES:
        found = (ValueDifference("", argument.expected, argument.actual),)
    for difference in found:
        path = printable(difference.path)
        place = argument.name + (path if path.startswith("[") or not path else f".{path}")
        if difference.actual is ABSENT:
            yield place, "expected ", one_line(difference.expected), ", not passed", "", after
        elif difference.expected is ABSENT:
            yield place, "not expected", "", ", found ", one_line(difference.actual), after
        else:
            yield place, "expected ", one_line(difference.expected), ", found ", one_line(difference.actual), after
