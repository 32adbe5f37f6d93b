"""The scores as a person reads them: what failed first, what was not evaluated next, what passed last and shortest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from goldspan.collector_processor.replay.hints import WORDS
from goldspan.collector_processor.report.call_lines import (
    CALL_INDENT,
    arguments_text,
    call_lines,
    known_arguments,
    rejected_line,
    unexpected_line,
    unknown_mark,
)
from goldspan.collector_processor.report.layout import (
    MARKS,
    STYLES,
    Page,
    Part,
    counted,
    listed,
    score_text,
)
from goldspan.collector_processor.report.metric_lines import metric_lines
from goldspan.collector_processor.report.score_summary import summary
from goldspan.collector_processor.report.session_names import sessions_with_golden
from goldspan.collector_processor.report.totals import Judgement, totals
from goldspan.collector_processor.report.values import printable, shorten
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.results import Label, PresetResult, Reason, RunResult, SessionResult, TurnResult

_MOST_IN_DETAIL = 20
_MOST_IN_BRIEF = 10
_MOST_ASIDES = 6


def score_page(
    page: Page, result: RunResult, judgement: Judgement, advice: Mapping[str, str], *, verbose: bool
) -> None:
    """Add the sessions, then the sums and the verdict; `advice` says per dialect how to have arguments captured."""
    _sessions(page, result, verbose=verbose)
    for repeat in result.repeats:
        mark = MARKS[repeat.verdict.label]
        page.line(
            (f"{mark} {score_text(repeat.verdict.exact)}", STYLES[mark]),
            f"  golden {printable(repeat.golden.key)}: {repeat}",
        )
    summary(page, result, totals(result), judgement, advice)


def _sessions(page: Page, result: RunResult, *, verbose: bool) -> None:
    """Add every session that has a golden, worst label first, each label in the order of the input."""
    with_golden = sessions_with_golden(result.sessions)
    for label, what in ((Label.FAIL, "failed"), (Label.NOT_EVALUATED, "not evaluated"), (Label.PASS, "passed")):
        chosen = [pair for pair in with_golden if pair[1].verdict.label is label]
        passed = label is Label.PASS
        if passed:
            chosen.sort(key=lambda pair: (not pair[1].failed, pair[1].verdict.exact == 1))
        most = len(chosen) if verbose else _MOST_IN_BRIEF if passed else _MOST_IN_DETAIL
        for name, session in chosen[:most]:
            if verbose or not passed:
                page.blank()
            session_lines(page, name, session, verbose=verbose)
        if len(chosen) > most:
            page.line((f"… and {counted(len(chosen) - most, 'more session')} {what}; -v shows all", "dim"))
        page.blank()


def session_lines(page: Page, name: str, result: SessionResult, *, verbose: bool = False) -> None:
    """Add one session: its headline, and of its turns and calls what was not right."""
    _headline(page, name, result)
    reason = result.verdict.reason
    if reason is not None and not result.turns:
        page.paragraph(WORDS[reason], indent=CALL_INDENT + 4)
    passed = result.verdict.label is Label.PASS
    metric_lines(page, result, wrong_only=passed and not verbose)
    for turn in result.turns:
        if verbose or not passed or turn.verdict.label is not Label.PASS or turn.verdict.exact != 1:
            expected = expected_of(result, turn) if turn.answer is not None else ()
            shown = {"verbose": verbose, "wrong_only": passed and not verbose}
            _turn(page, turn, whole=result.as_one, expected=expected, **shown)


def _headline(page: Page, name: str, result: SessionResult) -> None:
    mark = MARKS[result.verdict.label]
    notes: list[str] = []
    golden = result.golden
    if result.preset is not None:
        notes.append(f"by {result.preset}")
    elif result.verdict.label is Label.FAIL and golden is not None:
        notes.append(f"needs {score_text(float(golden.criterion.threshold))}")
    if result.verdict.label is Label.PASS:
        others = [name for turn in result.turns for name in _unexpected_names(turn)]
        notes += [f"not expected: {listed(others, 3)}"] if others else []
    if result.calls_evaluated < result.calls_expected:
        notes.append(f"{result.calls_evaluated} of {counted(result.calls_expected, 'call')} evaluated")
    if golden is not None and result.session is not None and golden.key != result.session.id:
        notes.append(f"golden {printable(golden.key)}")
    if result.session is not None and result.session.id_source == "trace_id":
        notes.append("a trace id: no span names a session")
    if result.session is not None and result.session.incomplete:
        notes.append("incomplete")
    text = " · ".join(notes)
    beside = 8 + cell_len(name) + 2 + cell_len(text) <= page.width
    page.line(
        (f"{mark} {score_text(result.verdict.exact)}", f"bold {STYLES[mark]}"),
        "  ",
        (name, "bold"),
        (f"  {text}" if text and beside else "", "dim"),
    )
    if not beside:
        page.paragraph(text, indent=8, style="dim")


def expected_of(result: SessionResult, turn: TurnResult) -> Sequence[ExpectedCall]:
    """Return what the golden expects of a turn; of all of them, where they were judged as one."""
    golden = result.golden
    if golden is None:
        return ()
    if result.as_one or turn.expected_index is None:
        return golden.calls or [call for one in golden.turns for call in one.calls]
    return golden.turns[turn.expected_index].calls


def _turn(
    page: Page, turn: TurnResult, *, whole: bool, verbose: bool, wrong_only: bool, expected: Sequence[ExpectedCall] = ()
) -> None:
    if turn.verdict.reason is Reason.NOTHING_EXPECTED and wrong_only:
        return
    if not whole:
        _turn_headline(page, turn)
    reason = turn.verdict.reason
    if turn.answer is not None:
        _answer(page, turn, turn.answer, expected)
        return
    if turn.turn is None or reason in {Reason.TURN_NOT_EXPECTED, Reason.CALLS_NOT_VISIBLE}:
        return
    if turn.verdict.exact == 1 and turn.verdict.label is Label.PASS and not verbose and not whole:
        return
    unknown = [call for call in turn.calls if unknown_mark(call)]
    for call in turn.calls:
        if (len(unknown) < 2 or not unknown_mark(call)) and not (wrong_only and call.verdict.label is Label.PASS):
            call_lines(page, call)
    if len(unknown) >= 2:
        names = listed(printable(call.expected.name) for call in unknown if call.expected)
        reasons = ", ".join(dict.fromkeys(WORDS[call.verdict.reason] for call in unknown if call.verdict.reason))
        mark = MARKS[Label.NOT_EVALUATED]
        page.line(
            (f"{mark} {score_text(None)}", STYLES[mark]),
            f"  {names}",
            (f"  {reasons}", STYLES[mark]),
            indent=CALL_INDENT,
        )
    if wrong_only:
        return
    for call in sorted(turn.unexpected, key=lambda call: call.violates is None)[:_MOST_ASIDES]:
        unexpected_line(page, call)
    for request in turn.rejected[:_MOST_ASIDES]:
        rejected_line(page, request)
    hidden = len(turn.unexpected[_MOST_ASIDES:]) + len(turn.rejected[_MOST_ASIDES:])
    if hidden:
        page.line((f"… and {counted(hidden, 'more call')} that nothing expected", "dim"), indent=CALL_INDENT)


def _answer(page: Page, turn: TurnResult, answer: PresetResult, expected: Sequence[ExpectedCall]) -> None:
    """Show what a preset said, and the calls it was asked about."""
    said = [f"status {answer.status}"] if answer.status else []
    said += [printable(answer.words)] if answer.words else []
    for text in said:
        page.paragraph(text, indent=CALL_INDENT)
    calls = [] if turn.turn is None else [call for call in turn.turn.calls if not call.rejected]
    wanted = [f"{printable(call.name)}  {arguments_text(call.args)}" for call in expected]
    made = [f"{printable(call.name)}  {known_arguments(call)}" for call in calls]
    for what, lines in (("expected", wanted), ("called", made)):
        for index, line in enumerate(lines[:_MOST_ASIDES] or ["nothing"]):
            text = f"{what if index == 0 else '':<10}{line}"
            page.line((shorten(text, page.width - CALL_INDENT), "dim"), indent=CALL_INDENT)
        if len(lines) > _MOST_ASIDES:
            page.line((f"{'':<10}… and {len(lines) - _MOST_ASIDES:,} more", "dim"), indent=CALL_INDENT)


def _turn_headline(page: Page, turn: TurnResult) -> None:
    mark = MARKS[turn.verdict.label]
    index = turn.expected_index if turn.expected_index is not None else turn.turn_index
    head: list[Part] = [
        (f"{mark} {score_text(turn.verdict.exact)}", STYLES[mark]),
        f"  turn {index + 1}" if index is not None else "  turn",
    ]
    notes: list[Part] = []
    reason = turn.verdict.reason
    if turn.turn is None:
        why = WORDS[reason] if reason is not None else "never happened"
        notes.append((f"{why}: {listed(_expected_names(turn))}", STYLES[mark]))
    elif reason is Reason.TURN_NOT_EXPECTED:
        made = listed(printable(call.name) for call in turn.turn.calls) or "no call"
        notes.append((f"{WORDS[reason]}: {made}", STYLES[mark]))
    elif reason is not None and not any(call.verdict.reason is reason for call in turn.calls):
        notes.append((WORDS[reason], STYLES[mark]))
    elif turn.verdict.label is Label.PASS and turn.answer is None:
        others = listed(_unexpected_names(turn), 3) if turn.verdict.exact == 1 else ""
        notes.append((counted(len(turn.calls), "call") + (f", not expected: {others}" if others else ""), "dim"))
    if turn.approximate:
        notes.append(("too many calls to align exactly", "yellow"))
    said = turn.turn.user_text.value if turn.turn is not None else None
    used = sum(len(note[0]) + 2 for note in notes) + 20
    if isinstance(said, str) and said.strip() and page.width - used > 16:
        notes.append((shorten(printable(" ".join(said.split())), page.width - used), "dim italic"))
    for note in notes:
        head.extend(["  ", note])
    page.line(*head, indent=2)


def _unexpected_names(turn: TurnResult) -> list[str]:
    return [printable(call.actual.name) for call in turn.unexpected if call.actual]


def _expected_names(turn: TurnResult) -> list[str]:
    return [printable(call.expected.name) for call in turn.calls if call.expected]
