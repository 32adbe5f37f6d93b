"""One turn of a session as HTML: each call's expected and actual arguments side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goldspan.collector_processor.hints import CAPTURE_WORDS, WORDS
from goldspan.collector_processor.report.call_lines import arguments_text, call_note, known_arguments, unknown_words
from goldspan.collector_processor.report.html_values import html_text, side_by_side, value_html
from goldspan.collector_processor.report.layout import EXTRA, MARKS, REFUSED, counted, score_text
from goldspan.collector_processor.report.values import shorten
from goldspan.scoring.goldens.models import ExpectedCall
from goldspan.scoring.presets.result import PresetResult
from goldspan.scoring.results import ArgumentResult, CallResult, Label, Outcome, TurnResult, Verdict
from goldspan.scoring.sessions import ToolCall

NOTHING = '<span class="none">—</span>'
_BRIEF = 160
_LONG = 2000
_WHAT = {
    Outcome.MATCHED: "✓ right",
    Outcome.MISMATCHED: "✗ differs",
    Outcome.MISSING: "✗ not passed",
    Outcome.UNKNOWN: "? unknown",
    Outcome.IGNORED: "ignored",
}


def badge(verdict: Verdict) -> str:
    """Return the mark and the score, with the label as their class and in words for who cannot see them."""
    label = verdict.label.value
    words = label.replace("_", " ")
    return (
        f'<span class="badge {label}" title="{words}">{MARKS[verdict.label]} {score_text(verdict.exact).strip()}'
        f'<span class="unseen"> {words}</span></span>'
    )


def turn_html(turn: TurnResult, *, whole: bool, expected: Sequence[ExpectedCall] = ()) -> Iterator[str]:
    """Return a turn; one that stands for the whole session has no headline.

    Where a preset judged it, `expected` are the calls it was asked about.
    """
    yield f'<section class="turn {turn.verdict.label.value}">'
    if not whole:
        yield from _headline(turn)
    if turn.answer is not None:
        yield from _answer(turn, turn.answer, expected)
        yield "</section>"
        return
    for call in turn.calls:
        yield from _call(call)
    for call in turn.unexpected:
        if call.actual is not None:
            what = "not expected" if call.violates is None else "forbidden, but called"
            yield from _aside(EXTRA if call.violates is None else MARKS[Label.FAIL], what, call.actual)
    for request in turn.rejected:
        yield from _aside(REFUSED, "asked for, never executed", request)
    if turn.turn is not None and not turn.calls and not turn.unexpected:
        for made in turn.turn.calls:
            if not made.rejected:
                yield from _aside(EXTRA, "not judged", made)
    yield "</section>"


def _answer(turn: TurnResult, answer: PresetResult, expected: Sequence[ExpectedCall]) -> Iterator[str]:
    """Return what a preset said, and the calls it compared, each side in its order."""
    words = " · ".join(filter(None, (f"status {answer.status}" if answer.status else "", answer.words)))
    yield f'<p class="answer"><b>{html_text(answer.name)}</b> {html_text(words)}</p>'
    calls = () if turn.turn is None else [call for call in turn.turn.calls if not call.rejected]
    wanted = [(call.name, arguments_text(call.args)) for call in expected]
    made = [(call.name, known_arguments(call)) for call in calls]
    yield '<div class="wide sides"><table><thead><tr><th scope="col">expected calls</th>'
    yield '<th scope="col">actual calls</th></tr></thead><tbody><tr>'
    for side in (wanted, made):
        items = "".join(
            f"<li><code>{html_text(name)}</code> <span class='brief'>{html_text(shorten(text, _LONG))}</span></li>"
            for name, text in side
        )
        yield f"<td><ol>{items}</ol></td>" if items else f"<td>{NOTHING}</td>"
    yield "</tr></tbody></table></div>"


def _headline(turn: TurnResult) -> Iterator[str]:
    index = turn.expected_index if turn.expected_index is not None else turn.turn_index
    reason = turn.verdict.reason
    notes = [] if reason is None else [WORDS[reason]]
    notes += ["never happened"] if turn.turn is None and reason is None else []
    notes += [counted(len(turn.calls), "expected call")] if turn.calls else []
    notes += ["too many calls to align exactly"] if turn.approximate else []
    yield f"<h3>{badge(turn.verdict)} turn {'' if index is None else index + 1}"
    yield f' <span class="note">{html_text(" · ".join(notes))}</span></h3>'
    said = turn.turn.user_text.value if turn.turn is not None else None
    if isinstance(said, str) and said.strip():
        yield f'<p class="said">{html_text(" ".join(said.split())[:2000])}</p>'


def _call(call: CallResult) -> Iterator[str]:
    if call.expected is None:
        return
    label = call.verdict.label
    opened = " open" if label is not Label.PASS or call.verdict.exact != 1 else ""
    yield f'<details class="call {label.value}"{opened}><summary>{badge(call.verdict)} '
    yield f"<code>{html_text(call.expected.name)}</code>"
    if note := call_note(call).rstrip(":"):
        yield f' <span class="note {label.value}">{html_text(note)}</span>'
    if not opened:
        yield f' <span class="brief">{html_text(shorten(arguments_text(call.expected.args), _BRIEF))}</span>'
    yield "</summary>"
    yield from _table(call)
    if call.actual is not None:
        yield from _facts(call.actual)
    yield "</details>"


def _table(call: CallResult) -> Iterator[str]:
    rows = list(_rows(call))
    if not rows:
        yield '<p class="none">No arguments are expected.</p>'
        return
    actual = "actual" if call.aligned or call.actual is None else "nearest call"
    yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">expected</th>'
    yield f'<th scope="col">{actual}</th><th scope="col">result</th></tr></thead><tbody>'
    for kind, name, expected, found, what in rows:
        yield f'<tr class="{kind}"><th scope="row">{html_text(name)}</th><td><pre>{expected}</pre></td>'
        yield f'<td><pre>{found}</pre></td><td class="what">{html_text(what)}</td></tr>'
    yield "</tbody></table></div>"


def _rows(call: CallResult) -> Iterator[tuple[str, str, str, str, str]]:
    judged = {argument.name for argument in call.arguments}
    for argument in call.arguments:
        expected, actual = _values(argument, call.actual)
        yield argument.outcome.value, argument.name, expected, actual, _what(argument, call.actual)
    if call.expected is not None:
        for name, value in call.expected.args.items():
            if name not in judged:
                yield "missing", name, value_html(value), NOTHING, "✗ never called" if call.missing else ""
    for name in call.extra_arguments:
        known = call.actual is not None and call.actual.arguments is not None and name in call.actual.arguments
        value = call.actual.arguments[name] if known and call.actual and call.actual.arguments else None
        yield "extra", name, NOTHING, value_html(value) if known else NOTHING, "not asked for"


def _values(argument: ArgumentResult, actual: ToolCall | None) -> tuple[str, str]:
    if argument.outcome is Outcome.MISMATCHED:
        casefold = argument.strategy == "casefold_exact"
        return side_by_side(argument.expected, argument.actual, casefold=casefold)
    if argument.outcome is Outcome.MATCHED and argument.actual is None and _was_left_out(argument, actual):
        return value_html(argument.expected), NOTHING
    if argument.outcome is Outcome.MATCHED:
        return value_html(argument.expected), value_html(argument.actual)
    if argument.outcome is Outcome.UNKNOWN and actual is not None:
        return value_html(argument.expected), f'<span class="none">{unknown_words(argument, actual)}</span>'
    return value_html(argument.expected), NOTHING


def _was_left_out(argument: ArgumentResult, actual: ToolCall | None) -> bool:
    return actual is not None and actual.arguments is not None and argument.name not in actual.arguments


def _what(argument: ArgumentResult, actual: ToolCall | None) -> str:
    if argument.outcome is Outcome.UNKNOWN and actual is None:
        return "? never called"
    words = _WHAT[argument.outcome]
    if argument.exact is not None and 0 < argument.exact < 1:
        words += f" {score_text(argument.exact)}"
    if argument.strategy != "exact" and argument.outcome in {Outcome.MATCHED, Outcome.MISMATCHED}:
        words += f" ({argument.strategy})"
    return words if argument.weight == 1 else f"{words}, weight {float(argument.weight):.4g}"


def _aside(mark: str, what: str, call: ToolCall) -> Iterator[str]:
    yield f'<details class="call aside"><summary><span class="badge aside">{mark}</span> '
    yield f'<code>{html_text(call.name)}</code> <span class="note">{what}</span> '
    yield f'<span class="brief">{html_text(shorten(known_arguments(call), _BRIEF))}</span></summary>'
    if call.arguments:
        yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">actual</th></tr>'
        yield "</thead><tbody>"
        for name, value in call.arguments.items():
            hidden = call.argument_captures.get(name)
            shown = value_html(value) if hidden is None else f'<span class="none">{CAPTURE_WORDS[hidden]}</span>'
            yield f'<tr class="extra"><th scope="row">{html_text(name)}</th><td><pre>{shown}</pre></td></tr>'
        yield "</tbody></table></div>"
    yield from _facts(call)
    yield "</details>"


def _facts(call: ToolCall) -> Iterator[str]:
    facts = [f"failed: {call.error}"] if call.error is not None else []
    facts += [f"call id {call.call_id}"] if call.call_id else []
    facts += [f"trace {call.span.trace_id}, span {call.span.span_id}"] if call.span else []
    facts += ["asked for; no execution of it was seen"] if call.requested and not call.rejected else []
    if facts:
        yield f'<p class="facts">{html_text(" · ".join(facts))}</p>'
