"""The lines of a result: what `str(result)`, a terminal, JUnit and Markdown show.

A result is read from the outside in, and each level says only what the one above has not said:

    ✗ 0.50  sess-1  get_weather.unit (expected "celsius", found "F")     session: score, name, first difference
      ✗ 0.50  turn 1  What is the weather in Paris?                       turn: score, what the user said
        ✗ 0.50  get_weather  city="Paris"                                 call: score, what is special, what is right
                unit  expected "celsius", found "F"                       argument: what was wrong with it
        +  -    log  not expected                                         calls that nothing expected

HTML tables of the same for notebooks stand at the end. The phrases are those of `result_words.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from textwrap import dedent
from typing import NamedTuple, TypeVar

from goldspan.scoring import result_words as phrases
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import pointer_name, shown, shown_name
from goldspan.scoring.matchers.matcher import Absence
from goldspan.scoring.pages import (
    MARKS,
    NO_SCORE,
    REJECTED,
    STYLES,
    UNKNOWN,
    Page,
    Part,
    cells,
    cells_of,
    contrast,
    counted,
    listed,
    number_text,
    printable,
    score_text,
    shorten,
)
from goldspan.scoring.results import (
    ArgumentOutcome,
    ArgumentResult,
    CallResult,
    Readable,
    SessionResult,
    TurnResult,
    explain,
    turn_name,
)
from goldspan.scoring.run import RepeatResult, ScoringResult
from goldspan.scoring.sessions import ToolCall
from goldspan.scoring.verdict import REASON_TEXT, Label, MetricCall, MetricResult, MetricVerdict, Reason, Verdict

_T = TypeVar("_T")
_MOST_OTHERS = 6
_STR_WIDTH = 120
_CALL_INDENT = 4
_DETAIL_INDENT = _CALL_INDENT + 8


def text_of_result(result: Readable) -> str:
    """Return the readable difference of a result: `str(result)`."""
    page = Page(_STR_WIDTH)
    if isinstance(result, ScoringResult):
        _run(page, result)
    elif isinstance(result, SessionResult):
        add_session(page, phrases.SessionWords.of(result))
    elif isinstance(result, TurnResult):
        _turn(page, result, None, verbose=True)
    elif isinstance(result, CallResult) and result.expected is None and result.actual is not None:
        mark = MARKS[result.label]
        _line_with(
            page, _other_head(mark, result.tool, explain(result)), phrases.arguments_of_call(result.actual), indent=0
        )
    elif isinstance(result, CallResult):
        _call(page, result, indent=0)
    return dedent(str(page))


def brief(result: Readable) -> str:
    """Return score, name and first difference of a result on one line."""
    if isinstance(result, ScoringResult):
        return _brief_of_run(result)
    if isinstance(result, SessionResult):
        session = phrases.SessionWords.of(result)
        name, first = session.name, session.first_line or session.explanation
    elif isinstance(result, TurnResult | CallResult):
        name = turn_name(result) if isinstance(result, TurnResult) else shown_name(result.tool)
        difference = next(iter(result.differences), None) if result.label is not Label.PASS else None
        first = explain(result) if difference is None else str(difference)
    else:
        raise TypeError(f"found a {type(result).__name__}, expected the result of a session, a turn or a call")
    return f"{label_and_score(result.verdict)} {name}: {first}"


def _brief_of_run(run: ScoringResult) -> str:
    score = "" if run.score is None else f" {run.score:.3g}"
    wrong = [one for one in failures_first(run.sessions) if one.label is not Label.PASS and is_interesting(one)]
    first = brief(wrong[0]) if wrong else headline_of_run(run)
    return f"{run.label}{score}, {counted(len(run.sessions), 'session')}; {first}"


def label_and_score(verdict: Verdict | MetricVerdict) -> str:
    """Return the mark of a verdict and its score, if it has one."""
    return f"{MARKS[verdict.label]} {number_text(verdict.exact) if verdict.exact is not None else ''}".rstrip()


# Many sessions.

_MAX_SESSIONS = 50


def headline_of_run(run: ScoringResult) -> str:
    """Return how many sessions passed, failed and were not evaluated."""
    labels = [session.label for session in run.sessions]
    failed = sum(session.failed and session.reason is Reason.NO_GOLDEN for session in run.sessions)
    return (
        f"{counted(len(labels), 'session')}: {labels.count(Label.PASS)} passed, {labels.count(Label.FAIL)} failed, "
        f"{labels.count(Label.NOT_EVALUATED)} not evaluated"
        + (f"; a metric failed in {failed} of those without a golden" if failed else "")
    )


def _run(page: Page, run: ScoringResult) -> None:
    """Add the sums, the sessions with anything besides a pass, goldens never seen, and problems."""
    page.line(headline_of_run(run))
    if not run.sessions:
        page.line("nothing was recognised: no session in what was read")
    for session in _few(page, failures_first(filter(is_interesting, run.sessions)), "session"):
        add_session(page, phrases.SessionWords.of(session))
    add_repeats(page, run.repeats)
    for golden in _few(page, run.never_seen, "golden"):
        of = f" of {golden.golden_set}" if golden.golden_set else ""
        page.line(f"never seen: golden {shown_name(golden.key)}{of}")
    for problem in run.problems[:_MAX_SESSIONS]:
        page.line(f"problem: {problem}")


def _few(page: Page, found: Iterable[_T], noun: str) -> Iterator[_T]:
    """Yield the first of these, and count the others on the page."""
    everything = list(found)
    yield from everything[:_MAX_SESSIONS]
    if len(everything) > _MAX_SESSIONS:
        page.line(f"… and {counted(len(everything) - _MAX_SESSIONS, f'more {noun}')}")


def failures_first(sessions: Iterable[SessionResult]) -> list[SessionResult]:
    """Return sessions in their order, but those that failed before all others."""
    return sorted(sessions, key=lambda one: one.label is not Label.FAIL)


def is_interesting(session: SessionResult) -> bool:
    """Whether the session has a golden, and anything besides a pass to report; without one, whether it failed."""
    if session.reason is Reason.NO_GOLDEN:
        return session.failed
    metric_differs = any(metric.label not in {None, Label.PASS} for metric in session.metrics)
    return metric_differs or session.label is not Label.PASS or any(map(_has_more, session.turns))


def _has_more(turn: TurnResult) -> bool:
    verdicts = [turn.verdict, *(call.verdict for call in turn.calls)]
    differs = (one.label is not Label.PASS and one.reason is not Reason.NOTHING_EXPECTED for one in verdicts)
    return bool(turn.unexpected_calls or turn.rejected or turn.doubts) or any(differs)


def add_repeats(page: Page, repeats: Iterable[RepeatResult]) -> None:
    """Add a line for each golden that is judged over several runs."""
    for repeat in repeats:
        mark = MARKS[repeat.label]
        score = f"{mark} {score_text(repeat.verdict.exact)}", STYLES[mark]
        page.line(score, f"  golden {repeat.golden.key}: {repeat}")


# Sessions.


def add_session(page: Page, session: phrases.SessionWords, *, verbose: bool = False) -> None:
    """Add one session: its headline, and of its metrics, turns and calls what was not right."""
    result = session.result
    if session.has_golden or not result.metrics:
        add_headline(page, session)
    else:
        mark = MARKS[session.label]
        notes = phrases.session_notes(result)
        page.line((mark, f"bold {STYLES[mark]}"), "  ", (session.name, "bold"), (f"  {notes}", "dim"))
    if session.reason and not result.turns:
        page.paragraph(session.reason, indent=_CALL_INDENT + 4)
    only_wrong = session.label is Label.PASS and not verbose
    for metric in result.metrics:
        _metric(page, metric, verbose=verbose, only_wrong=only_wrong)
    for turn in result.turns:
        if not (only_wrong and (_is_right(turn) or turn.reason is Reason.NOTHING_EXPECTED)):
            _turn(page, turn, result, verbose=verbose, only_wrong=only_wrong)


def session_text(session: phrases.SessionWords, width: int) -> str:
    """Return the lines of one session without style."""
    page = Page(width)
    add_session(page, session)
    return str(page)


def add_headline(page: Page, session: phrases.SessionWords) -> None:
    """Add the first line of a session: its score, its name, its first difference and what is special about it."""
    mark = MARKS[session.label]
    style = STYLES[mark]
    name: tuple[Part, ...] = ((f"{mark} {score_text(session.score)}", f"bold {style}"), "  ", (session.name, "bold"))
    first = session.first_difference if session.label is Label.FAIL else ""
    text = " · ".join(filter(None, (first, phrases.session_notes(session.result))))
    if 8 + cells(session.name) + 2 + cells(text) <= page.width:
        page.line(*name, "  " if text else "", (first, style), (text.removeprefix(first), "dim"))
    else:
        page.line(*name)
        page.paragraph(text, indent=8, style="dim")


def _metric(page: Page, metric: MetricResult, *, verbose: bool, only_wrong: bool) -> None:
    """Add a metric that is broken or that informs, with the calls in which it found something."""
    failed = [(turn, call) for turn, call in phrases.judged_calls(metric) if call.failures]
    if phrases.is_broken(metric) or verbose or failed or (metric.needs_golden and not only_wrong):
        mark = MARKS[metric.label]
        head = (f"{mark} {number_text(metric.verdict.exact):>4}", STYLES[mark]), f"  {metric.name}  "
        page.paragraph(phrases.metric_words(metric, needs=True), label=head, indent=2)
        _judged_calls(page, failed, verbose=verbose)


def _judged_calls(page: Page, calls: Sequence[tuple[int, MetricCall]], *, verbose: bool) -> None:
    """Add the calls in which a metric that needs no golden found something, each with what it found."""
    for turn, one in calls if verbose else calls[:_MOST_OTHERS]:
        mark = MARKS[one.label]
        place = f" turn {turn + 1}, call {one.call_index + 1}  "
        _line_with(page, [(mark, STYLES[mark]), place, (one.call.name, "bold")], phrases.arguments_of_call(one.call))
        for finding in one.failures:
            label = (pointer_name(finding.path) or phrases.kind_words(finding), "bold"), "  "
            page.paragraph(finding.words(include_values=True), label=label, indent=_DETAIL_INDENT)
    if not verbose and len(calls) > _MOST_OTHERS:
        rest = counted(len(calls) - _MOST_OTHERS, "more call")
        page.line((f"… and {rest}; -v shows all", "dim"), indent=_CALL_INDENT)


def _line_with(page: Page, head: Sequence[Part], text: str, *, indent: int = _CALL_INDENT) -> None:
    """Add a line, and behind it as much of a text as there is room for."""
    room = page.width - indent - cells_of(head) - 2
    page.line(*head, (f"  {shorten(text, room)}" if text and room > 12 else "", "dim"), indent=indent)


# Turns.


def _turn(
    page: Page, turn: TurnResult, session: SessionResult | None, *, verbose: bool = False, only_wrong: bool = False
) -> None:
    """Add a turn of a session, or one alone. One that stands for the whole session needs no headline."""
    whole = session is not None and session.as_one
    if not whole:
        _turn_headline(page, turn)
        if note := phrases.user_text_note(session, turn):
            page.paragraph(note, indent=_CALL_INDENT)
    for doubt in turn.doubts:
        page.paragraph(phrases.doubt_words(doubt), indent=_CALL_INDENT, style=STYLES[UNKNOWN])
    if turn.answer is not None:
        _preset(page, turn, () if session is None else phrases.expected_calls(session, turn))
        return
    if not phrases.can_compare_calls(turn) or (_is_right(turn) and not verbose and not whole):
        return
    _expected_calls(page, turn, only_wrong=only_wrong)
    if not only_wrong:
        _others(page, list(phrases.other_calls(turn)))


def _is_right(turn: TurnResult) -> bool:
    return turn.label is Label.PASS and turn.verdict.exact == 1


def _expected_calls(page: Page, turn: TurnResult, *, only_wrong: bool) -> None:
    """Add the expected calls of a turn; several of which only the arguments are not known share a line."""
    unknown = [call for call in turn.calls if phrases.only_unknown(call)]
    together = len(unknown) >= 2
    for call in turn.calls:
        if not (together and phrases.only_unknown(call)) and not (only_wrong and call.label is Label.PASS):
            _call(page, call)
    if together:
        reasons = ", ".join(dict.fromkeys(REASON_TEXT[call.reason] for call in unknown if call.reason))
        page.line(
            (f"{UNKNOWN} {score_text(None)}", STYLES[UNKNOWN]),
            f"  {listed(call.tool for call in unknown)}",
            (f"  {reasons}", STYLES[UNKNOWN]),
            indent=_CALL_INDENT,
        )


def _turn_headline(page: Page, turn: TurnResult) -> None:
    mark = MARKS[turn.label]
    style = STYLES[mark]
    notes: list[Part] = list(_turn_notes(turn, style))
    if turn.approximate:
        notes.append(("too many calls to align exactly", "yellow"))
    used = cells_of(notes) + 2 * len(notes) + 20
    if (said := phrases.said_in(turn)) and page.width - used > 16:
        notes.append((shorten(said, page.width - used), "dim italic"))
    spaced = [part for note in notes for part in ("  ", note)]
    page.line((f"{mark} {score_text(turn.verdict.exact)}", style), f"  {turn_name(turn)}", *spaced, indent=2)


def _turn_notes(turn: TurnResult, style: str) -> Iterator[Part]:
    """Yield why a turn has no score, or how many calls are right."""
    reason = phrases.turn_reason(turn)
    if turn.turn is None:
        yield f"{reason}: {listed(call.tool for call in turn.calls)}", style
    elif turn.reason is Reason.TURN_NOT_EXPECTED:
        yield f"{reason}: {listed(call.name for call in turn.turn.calls) or 'no call'}", style
    elif reason:
        if all(call.reason is not turn.reason for call in turn.calls):
            yield reason, style
    elif turn.label is Label.PASS and turn.answer is None:
        tools = [other.call.name for other in phrases.other_calls(turn) if other.mark != REJECTED]
        others = listed(tools, 3) if turn.verdict.exact == 1 else ""
        yield counted(len(turn.calls), "call") + (f", not expected: {others}" if others else ""), "dim"


def _preset(page: Page, turn: TurnResult, of_golden: Sequence[ExpectedCall]) -> None:
    """Show what a preset answered, and the calls it was asked about."""
    for text in phrases.preset_lines(turn):
        page.paragraph(text, indent=_CALL_INDENT)
    expected = [f"{call.name}  {phrases.arguments_text(call.args)}" for call in of_golden]
    made = [f"{call.name}  {phrases.arguments_of_call(call)}" for call in phrases.made_calls(turn)]
    for what, lines in (("expected", expected), ("called", made)):
        for index, line in enumerate(lines[:_MOST_OTHERS] or ["nothing"]):
            text = f"{what if index == 0 else '':<10}{printable(line)}"
            page.line((shorten(text, page.width - _CALL_INDENT), "dim"), indent=_CALL_INDENT)
        if len(lines) > _MOST_OTHERS:
            page.line((f"{'':<10}… and {len(lines) - _MOST_OTHERS:,} more", "dim"), indent=_CALL_INDENT)


def _others(page: Page, others: Sequence[phrases.OtherCall]) -> None:
    """Add calls that stand for no expected one; of each kind not too many."""
    refused = [other for other in others if other.mark == REJECTED]
    made = [other for other in others if other.mark != REJECTED]
    for mark, words, call in (*made[:_MOST_OTHERS], *refused[:_MOST_OTHERS]):
        _line_with(page, _other_head(mark, call.name, words), phrases.arguments_of_call(call))
    hidden = len(made[_MOST_OTHERS:]) + len(refused[_MOST_OTHERS:])
    if hidden:
        page.line((f"… and {counted(hidden, 'more call')} that nothing expected", "dim"), indent=_CALL_INDENT)


def _other_head(mark: str, tool: str, words: str) -> tuple[Part, ...]:
    return (f"{mark} {NO_SCORE:^4}", STYLES[mark]), "  ", (tool, "bold"), (f"  {words}", STYLES[mark])


# Expected calls and their arguments.


def _call(page: Page, call: CallResult, *, indent: int = _CALL_INDENT) -> None:
    """Add an expected call, with its partner, its near miss or nothing."""
    mark = MARKS[call.label]
    passed = call.label is Label.PASS
    head: list[Part] = [
        (f"{mark} {score_text(call.verdict.exact)}", STYLES[mark]),
        "  ",
        (call.tool, "" if passed else "bold"),
    ]
    if note := phrases.call_note(call):
        head.append((f"  {note}", "" if passed else STYLES[mark]))
    never_called = call.missing and call.actual is None
    shown = (one for one in call.arguments if never_called or one.outcome is ArgumentOutcome.MATCHED)
    right = {one.name: one.expected_value for one in shown} | (phrases.not_compared(call) if never_called else {})
    _line_with(page, head, phrases.arguments_text(right), indent=indent)
    inner = indent + _DETAIL_INDENT - _CALL_INDENT
    if not never_called:
        _arguments(page, call, inner)
    hints = [f"{argument.name}: {argument.hint}" for argument in call.arguments if argument.hint]
    for hint in filter(None, (phrases.call_hint(call), *hints)):
        page.paragraph(hint, indent=inner)


class _Row(NamedTuple):
    """What is wrong with an argument, or a part of it."""

    name: str
    expected: str
    between: str
    actual: str = ""
    after: str = ""
    before: str = "expected "


def _arguments(page: Page, call: CallResult, indent: int) -> None:
    """Add what was wrong with each argument, and the names of those that were not expected."""
    rows = [row for argument in call.arguments for row in _rows(argument, call.actual)]
    names = max((min(cells(row.name), 24) for row in rows), default=0)
    for row in rows:
        _argument(page, row, indent, indent + max(names, cells(row.name)) + 2)
    if call.extra_arguments and (call.label is not Label.PASS or call.missing):
        page.line((f"also passed: {listed(call.extra_arguments)}", "dim"), indent=indent)


def _argument(page: Page, row: _Row, indent: int, inner: int) -> None:
    """Add a row on one line; where it is too long, the values under each other, cut where they still differ."""
    head = f"{row.name}{' ' * (inner - indent - cells(row.name))}", "bold"
    room = page.width - inner
    words = cells(row.before) + cells(row.between) + cells(row.after)
    expected, actual = row.expected, row.actual
    if words + cells(expected[: room + 1]) + cells(actual[: room + 1]) <= room:
        page.line(
            head, row.before, (expected, "green"), row.between, (actual, "red"), (row.after, "dim"), indent=indent
        )
        return
    room = max(room - len("expected "), 12)
    if not actual:
        expected = shorten(expected, max(room - cells(row.between) - cells(row.after), 12))
        page.line(head, row.before, (expected, "green"), row.between, (row.after, "dim"), indent=indent)
        return
    first, second = contrast(expected, actual, room)
    page.line(head, f"{row.before:>9}", (first, "green"), indent=indent)
    page.line(f"{row.between.removeprefix(','):>9}", (second, "red"), indent=inner)
    if row.after:
        page.line((f"{' ' * 9}{row.after.strip()}", "dim"), indent=inner)


def _rows(argument: ArgumentResult, made: ToolCall | None) -> Iterator[_Row]:
    name = printable(argument.name)
    unknown = phrases.why_unknown(argument, made) if made is not None and made.arguments is not None else ""
    if argument.outcome is ArgumentOutcome.MISSING or unknown:
        yield _Row(name, phrases.one_line(argument.expected_value), f", {unknown or 'not passed'}")
    if argument.outcome is not ArgumentOutcome.MISMATCHED:
        return
    score = f" {score_text(argument.exact)}" if argument.exact else ""
    after = "" if argument.strategy == "exact" else f"  ({argument.strategy}{score})"
    for one in phrases.value_parts(argument):
        path = printable(one.path)
        place = name + (path if path.startswith("[") or not path else f".{path}")
        if isinstance(one.actual, Absence):
            yield _Row(place, phrases.one_line(one.expected), ", not passed", after=after)
        elif isinstance(one.expected, Absence):
            yield _Row(place, "", ", found ", phrases.one_line(one.actual), after, before="not expected")
        else:
            yield _Row(place, phrases.one_line(one.expected), ", found ", phrases.one_line(one.actual), after)


_CALL_COLUMNS = ("session", "turn", "call", "label", "score", "explanation")
_ARGUMENT_COLUMNS = ("argument", "outcome", "expected", "actual")

_MAX_ROWS = 200
_JUDGED_COLUMNS = {"label", "outcome"}
_WRAPPED_COLUMNS = {"explanation", "expected", "actual"}
_RED, _YELLOW = "#d32f2f", "#8a6d00"
_ROW_COLOURS = {"fail": _RED, "mismatched": _RED, "missing": _RED, "not_evaluated": _YELLOW, "unknown": _YELLOW}
"""The colours of rows by label or outcome, readable on light and dark pages."""


def html_of_result(result: Readable) -> str:
    """Return the table of a result: of a run, a session or a turn a row for each call, of a call for each argument."""
    if isinstance(result, CallResult):
        return _html_table(text_of_result(result), _ARGUMENT_COLUMNS, _argument_rows(result))
    if isinstance(result, ScoringResult):
        rows = [row for session in failures_first(result.sessions) for row in _session_rows(session)]
        unseen = (Label.NOT_EVALUATED.value, "", REASON_TEXT[Reason.GOLDEN_NEVER_SEEN])
        rows += [(shown_name(golden.key), "", "", *unseen) for golden in result.never_seen]
        return _html_table(headline_of_run(result), _CALL_COLUMNS, rows)
    # The line above the table names the session.
    if isinstance(result, SessionResult):
        return _html_table(brief(result), _CALL_COLUMNS, _session_rows(result, named=False))
    return _html_table(brief(result), _CALL_COLUMNS, _call_rows("", result) if isinstance(result, TurnResult) else [])


def _call_rows(session: str, turn: TurnResult) -> list[tuple[str, ...]]:
    head = (session, turn_name(turn))
    if not turn.calls and not turn.unexpected_calls:
        return [(*head, "", *_label_and_score(turn.verdict), explain(turn))]
    return [
        (*head, shown_name(call.tool), *_label_and_score(call.verdict), explain(call, include_values=True))
        for call in (*turn.calls, *turn.unexpected_calls)
    ]


def _session_rows(result: SessionResult, *, named: bool = True) -> list[tuple[str, ...]]:
    """Return the table rows of a session: for each call, or for a session without turns; for metrics that fail.

    A session without golden has a row for each of its metrics, if any judged it.
    """
    name = phrases.session_name(result) if named else ""
    by_metrics = bool(result.metrics) and not result.has_golden
    rows = [row for turn in result.turns for row in _call_rows(name, turn)]
    if not rows and not by_metrics:
        rows = [(name, "", "", *_label_and_score(result.verdict), explain(result))]
    return rows + [
        (name, "", "", *_label_and_score(one.verdict), f"{one.name}: {found}")
        for one in result.metrics
        if by_metrics or one.label not in {None, Label.PASS}
        if (found := one.verdict.detailed or one.verdict.explanation or "no score")
    ]


def _argument_rows(call: CallResult) -> list[tuple[str, ...]]:
    passed = (ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED)
    return [
        (
            argument.name,
            argument.outcome.value,
            shown(argument.expected_value),
            shown(argument.actual_value) if argument.outcome in passed else "",
        )
        for argument in call.arguments
    ]


def _label_and_score(verdict: Verdict | MetricVerdict) -> tuple[str, str]:
    return "" if verdict.label is None else verdict.label.value, "" if verdict.score is None else f"{verdict.score:.3g}"


def _html_table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table for notebooks, without columns that are empty; all text is escaped."""
    used = [at for at, _ in enumerate(columns) if not rows or any(row[at] for row in rows)]
    judged = next(at for at, name in enumerate(columns) if name in _JUDGED_COLUMNS)

    def row(cells: Sequence[str], tag: str, colour: str = "inherit") -> str:
        style = f"text-align:left;vertical-align:top;color:{colour};white-space:"
        wraps = {at: "normal" if columns[at] in _WRAPPED_COLUMNS else "nowrap" for at in used}
        inner = (f"<{tag} style='{style}{wraps[at]}'>{escape(cells[at])}</{tag}>" for at in used)
        return f"<tr>{''.join(inner)}</tr>"

    body = "".join(row(cells, "td", _ROW_COLOURS.get(cells[judged], "inherit")) for cells in rows[:_MAX_ROWS])
    more = f"<p>and {len(rows) - _MAX_ROWS} more</p>" if len(rows) > _MAX_ROWS else ""
    table = f"<table><thead>{row(columns, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"<div><p>{escape(caption)}</p>{table}{more}</div>"
