"""The scores as one HTML file: it loads nothing, and its content security policy forbids it to."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from goldspan.collector_processor.replay.hints import CAPTURE_WORDS, HELP, WORDS
from goldspan.collector_processor.report.call_lines import arguments_text, call_note, known_arguments, unknown_words
from goldspan.collector_processor.report.layout import BAD, EXTRA, GOOD, MARKS, REFUSED, counted, listed, score_text
from goldspan.collector_processor.report.metric_lines import mark_of, number_text
from goldspan.collector_processor.report.score_page import expected_of
from goldspan.collector_processor.report.score_summary import advice_lines, conclusion, sum_rows
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.session_names import has_golden, sessions_with_golden, unseen_goldens
from goldspan.collector_processor.report.totals import Totals, totals
from goldspan.collector_processor.report.values import differences, may_be_absent, printable, shorten
from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.scoring.explanation import explain
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import plain
from goldspan.scoring.matchers.kinds.literal import dollar_keys
from goldspan.scoring.results import (
    ArgumentResult,
    CallResult,
    Label,
    MetricResult,
    MetricVerdict,
    Outcome,
    PresetResult,
    Reason,
    RunResult,
    SessionResult,
    TurnResult,
    Verdict,
)
from goldspan.scoring.sessions import JsonValue, ToolCall

# Two values side by side as HTML, with what differs between them marked.

LONGEST = 20_000
"""Characters of one value that are shown; the JSON document has all of it."""
_ON_ONE_LINE = 48
_CUT = "… cut here; the JSON document has the whole value"
_INDENT = "  "

_Part = tuple[str, bool]
"""Text, and whether it is marked."""


def html_text(text: str) -> str:
    """Escape text for HTML, and whatever in it could not be seen."""
    return escape(printable(text))


def value_html(value: JsonValue) -> str:
    """Write one value as JSON: short ones on one line."""
    value = plain(value)
    return _html(_parts(value, value, "", casefold=False))


def side_by_side(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[str, str]:
    """Write both values as JSON, each with the innermost parts marked in which it differs from the other."""
    expected, actual = plain(expected), plain(actual)
    return (
        _html(_parts(expected, actual, "", casefold=casefold)),
        _html(_parts(actual, expected, "", casefold=casefold)),
    )


def _html(parts: Iterable[_Part]) -> str:
    room = LONGEST
    pieces: list[str] = []
    for text, marked in parts:
        # What holds a line break is layout: JSON writes those of a text as an escape.
        shown = escape(text) if "\n" in text else html_text(text[:room])
        pieces.append(f"<mark>{shown}</mark>" if marked and shown else shown)
        room -= len(text)
        if room < 0:
            pieces.append(f'<span class="none"> {_CUT}</span>')
            break
    return "".join(pieces)


def _parts(value: JsonValue, other: JsonValue, indent: str, *, casefold: bool) -> Iterator[_Part]:
    if is_object(value) and is_object(other) and not (dollar_keys(value) or dollar_keys(other)):
        items = [(f"{_json(key)}: ", value[key], key in other, other.get(key)) for key in value]
        yield from _container("{}", items, value, indent, casefold=casefold)
    elif is_list(value) and is_list(other) and len(value) == len(other):
        yield from _container(
            "[]",
            [("", mine, True, its) for mine, its in zip(value, other, strict=True)],
            value,
            indent,
            casefold=casefold,
        )
    elif not differences(value, other, casefold=casefold):
        yield _json(value), False
    elif isinstance(value, str) and isinstance(other, str):
        yield from _string(value, other, casefold=casefold)
    else:
        yield _json(value), True


def _container(
    brackets: str,
    items: Sequence[tuple[str, JsonValue, bool, JsonValue]],
    value: JsonValue,
    indent: str,
    *,
    casefold: bool,
) -> Iterator[_Part]:
    short = not items or len(_json(value)) <= _ON_ONE_LINE
    inner = indent + _INDENT
    yield brackets[0], False
    for index, (head, mine, shared, its) in enumerate(items):
        if index:
            yield ("," if not short else ", "), False
        if not short:
            yield f"\n{inner}", False
        if not shared:
            yield head + _json(mine), not may_be_absent(mine)
            continue
        yield head, False
        yield from _parts(mine, its, inner, casefold=casefold)
    if not short:
        yield f"\n{indent}", False
    yield brackets[1], False


def _string(value: str, other: str, *, casefold: bool) -> Iterator[_Part]:
    """Mark what is between the common beginning and the common end of two texts."""
    mine, its = list(value), list(other)
    if casefold:
        mine, its = [char.casefold() for char in mine], [char.casefold() for char in its]
    begin = _common(mine, its)
    end = _common(mine[begin:][::-1], its[begin:][::-1])
    stop = len(value) - end
    yield f'"{_inside(value[:begin])}', False
    yield _inside(value[begin:stop]), True
    yield f'{_inside(value[stop:])}"', False


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(text: str) -> str:
    return _json(text)[1:-1]


# Metrics beside the main one as HTML: a table for each session, and badges for those that failed.


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


# One turn of a session as HTML: each call's expected and actual arguments side by side.

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


_MOST_OPEN = 20
"""Sessions that are open when the page is; the rest is one key away."""
_WORST_FIRST = (Label.FAIL, Label.NOT_EVALUATED, Label.PASS)
_LABEL_WORDS = {Label.FAIL: "Failed", Label.NOT_EVALUATED: "Not evaluated", Label.PASS: "Passed"}


def html_page(scored: Scored) -> str:
    """Return the page."""
    return "\n".join(_page(scored)) + "\n"


def _page(scored: Scored) -> Iterator[str]:
    folder = resources.files("goldspan.collector_processor.report")
    style = (folder / "html_page.css").read_text("utf-8")
    script = (folder / "html_page.js").read_text("utf-8")
    sums = totals(scored.result)
    word, why = conclusion(sums, scored.judgement)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    sets = ", ".join(scored.result.golden_sets)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">'
    yield f"<title>{word}: {html_text(sets) or 'goldspan'}</title>\n<style>{style}</style>\n</head>\n<body>"
    verdict = "fail" if scored.judgement.exit_code else "pass"
    yield f'<header><p class="made">goldspan · tool call arguments</p><h1>{html_text(sets) or "No golden set"}</h1>'
    yield f'<p class="conclusion {verdict}"><strong>{BAD if scored.judgement.exit_code else GOOD} {word}</strong> '
    yield f"{html_text(why)}</p></header>"
    yield from _summary(scored, sums)
    yield from _regressions(scored)
    yield from _filter(scored)
    yield "<main>"
    yield from _sessions(scored)
    yield '<p id="nothing-left" hidden>No session fits the filter.</p></main>'
    yield from _never_seen(scored)
    yield from _others(scored)
    yield from _problems(scored)
    yield f"<script>{script}</script>\n</body>\n</html>"


def _prose(text: str) -> str:
    """Write a sentence of ours, in which `code` stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html_text(text))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _summary(scored: Scored, sums: Totals) -> Iterator[str]:
    yield '<section class="summary" aria-label="Summary"><ul class="tiles">'
    tiles = [(label.value, str(sums.sessions.get(label, 0)), _LABEL_WORDS[label].lower()) for label in _WORST_FIRST]
    if sums.mean is not None:
        tiles.append(("mean", score_text(sums.mean), "mean score"))
    if sums.calls_expected:
        tiles.append(("mean", f"{sums.calls_matched:,} / {sums.calls_expected:,}", "calls right"))
    for kind, number, words in tiles:
        yield f'<li class="{kind}"><b>{number}</b> {words}</li>'
    yield "</ul><dl>"
    for label, text in sum_rows(scored.result, sums):
        yield f"<dt>{label}</dt><dd>{html_text(text)}</dd>"
    yield "</dl>"
    advice = list(dict.fromkeys(advice_lines(scored.result, sums, scored.advice)))
    if advice:
        yield "<h2>What to do</h2><ul>"
        yield from (f"<li><b>{html_text(seen)}</b>: {_prose(helps)}</li>" for seen, helps in advice)
        yield "</ul>"
    yield "</section>"


def _regressions(scored: Scored) -> Iterator[str]:
    if scored.judgement.regressions:
        yield from _listing("Regressed", scored.judgement.regressions, opened=True)


def _filter(scored: Scored) -> Iterator[str]:
    counts = Counter(result.verdict.label for result in scored.result.sessions if has_golden(result))
    yield '<form id="filter" role="search" hidden><fieldset><legend class="unseen">Show sessions by label</legend>'
    choices = [("", "All", counts.total())]
    choices += [(label.value, _LABEL_WORDS[label], counts[label]) for label in _WORST_FIRST]
    for value, words, count in choices:
        checked = "" if value else " checked"
        yield f'<label><input type="radio" name="label" value="{value}"{checked}> {words} <b>{count:,}</b></label>'
    yield '</fieldset><label class="text"><span class="unseen">Show sessions that contain</span>'
    yield '<input type="search" id="text" placeholder="session, tool, argument or value" autocomplete="off"'
    yield ' aria-keyshortcuts="/"> <kbd>/</kbd></label>'
    yield '<button type="button" id="open-all">Open all</button>'
    yield '<button type="button" id="close-all">Close all</button>'
    yield '<output id="shown" for="text"></output></form>'


def _sessions(scored: Scored) -> Iterator[str]:
    pairs = sorted(sessions_with_golden(scored.result.sessions), key=lambda pair: _worst_first(pair[1]))
    for index, (name, result) in enumerate(pairs):
        opened = index < _MOST_OPEN and (result.failed or result.verdict.label is not Label.PASS)
        yield from _session(name, result, scored.advice, opened=opened)


def _outcome(result: SessionResult) -> Label:
    """Return what a session is sorted by: one whose metrics failed comes with the failed ones."""
    return Label.FAIL if result.failed else result.verdict.label


def _worst_first(result: SessionResult) -> tuple[int, bool, float]:
    score = result.verdict.score
    return _WORST_FIRST.index(_outcome(result)), score is None, score or 0.0


def _session(name: str, result: SessionResult, advice: Mapping[str, str], *, opened: bool) -> Iterator[str]:
    label = result.verdict.label.value
    yield f'<details class="session {label}" data-label="{label}"{" open" if opened else ""}>'
    yield f'<summary>{badge(result.verdict)} <span class="name">{html_text(name)}</span> '
    yield f'<span class="note">{html_text(" · ".join(_notes(result)))}</span>{metric_badges(result)}</summary>'
    reason = result.verdict.reason
    if reason is not None:
        alone = RunResult((result,))
        helps = "; ".join(helps for _, helps in advice_lines(alone, totals(alone), advice))
        yield f'<p class="reason"><b>{html_text(WORDS[reason])}.</b> {_prose(helps)}</p>'
    yield from metrics_html(result)
    for turn in result.turns:
        expected = expected_of(result, turn) if turn.answer is not None else ()
        yield from turn_html(turn, whole=result.as_one, expected=expected)
    yield f'<p class="facts">{html_text(" · ".join(_facts_html(result)))}</p></details>'


def _notes(result: SessionResult) -> Iterator[str]:
    golden, session = result.golden, result.session
    if result.preset is not None:
        yield f"scored by {result.preset}"
    elif result.verdict.label is Label.FAIL and golden is not None:
        yield f"needs {score_text(float(golden.criterion.threshold))}"
    others = [call.actual.name for turn in result.turns for call in turn.unexpected if call.actual]
    if others:
        yield f"not expected: {listed(others, 3)}"
    if result.calls_evaluated < result.calls_expected:
        yield f"{result.calls_evaluated} of {counted(result.calls_expected, 'call')} evaluated"
    if golden is not None and session is not None and golden.key != session.id:
        yield f"golden {golden.key}"
    if session is not None and session.id_source == "trace_id":
        yield "a trace id: no span names a session"
    if session is not None and session.incomplete:
        yield "incomplete"


def _facts_html(result: SessionResult) -> Iterator[str]:
    yield explain(result)
    yield f"metric {result.metric}"
    if result.criterion:
        yield f"criterion {result.criterion}"
    if result.golden is not None:
        yield f"golden set {result.golden.golden_set}"
        if result.golden.source:
            yield result.golden.source
    if result.session is not None:
        yield f"session id from {result.session.id_source}"
        if result.session.run:
            yield f"run {result.session.run}"


def _never_seen(scored: Scored) -> Iterator[str]:
    goldens = unseen_goldens(scored.result)
    lines = dict.fromkeys(" · ".join(filter(None, (one.key, one.golden_set, one.source))) for one in goldens)
    if lines:
        yield from _listing("Goldens never seen", lines, opened=True, helps=HELP[Reason.GOLDEN_NEVER_SEEN])


def _others(scored: Scored) -> Iterator[str]:
    others = [s.session.id for s in scored.result.sessions if s.session and s.verdict.reason is Reason.NO_GOLDEN]
    if others:
        yield from _listing("Sessions without a golden", others, opened=False)


def _problems(scored: Scored) -> Iterator[str]:
    if scored.result.problems:
        lines = [f"{problem.code}: {problem}" for problem in scored.result.problems]
        yield from _listing("Problems", lines, opened=len(lines) <= 20)


def _listing(title: str, lines: Iterable[str], *, opened: bool, helps: str = "") -> Iterator[str]:
    lines = list(lines)
    yield f'<details class="listing"{" open" if opened else ""}><summary><h2>{title}</h2> <b>{len(lines):,}</b>'
    yield "</summary>"
    if helps:
        yield f"<p>{_prose(helps)}</p>"
    yield "<ul>"
    yield from (f"<li>{html_text(line)}</li>" for line in lines)
    yield "</ul></details>"
