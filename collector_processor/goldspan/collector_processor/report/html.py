"""The report as one HTML file. It loads nothing, and its content security policy forbids it to.

The style and the script that are put into the page stand in `html_page.css` and `html_page.js` beside this module.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from html import escape
from importlib import resources

from goldspan.collector_processor.replay.hints import HELP
from goldspan.collector_processor.replay.wording import (
    ABSENT,
    Absent,
    arguments_text,
    counted,
    differences,
    may_be_absent,
    printable,
    score_text,
    shorten,
)
from goldspan.collector_processor.report.model import (
    LABEL_WORDS,
    MARKS,
    WORST_FIRST,
    ActualCall,
    ArgumentReport,
    CallReport,
    MetricReport,
    OtherCall,
    PresetAnswer,
    Report,
    SessionReport,
    TurnReport,
)
from goldspan.collector_processor.report.terminal import call_text
from goldspan.scoring.json_values import is_dict, is_list, plain
from goldspan.scoring.matchers.kinds.literal import dollar_keys
from goldspan.scoring.results import ArgumentOutcome
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.verdict import Label, Reason

LONGEST = 20_000
"""Characters of one value that are shown; the JSON document has all of it."""
_MOST_OPEN = 20
"""Sessions that are open when the page is; the rest is one key away."""
_BRIEF = 160
_LONG = 2_000
_ON_ONE_LINE = 48
_CUT = "… cut here; the JSON document has the whole value"
_INDENT = "  "
_NOTHING = '<span class="none">—</span>'


def html_report(report: Report) -> str:
    """Return the page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    folder = resources.files("goldspan.collector_processor.report")
    style = (folder / "html_page.css").read_text("utf-8")
    script = (folder / "html_page.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    sets = html_text(", ".join(report.golden_sets))
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">'
    yield f"<title>{report.word}: {sets or 'goldspan'}</title>\n<style>{style}</style>\n</head>\n<body>"
    yield f'<header><p class="made">goldspan · tool call arguments</p><h1>{sets or "No golden set"}</h1>'
    yield f'<p class="conclusion {"fail" if report.failed else "pass"}"><strong>{report.mark} {report.word}</strong> '
    yield f"{html_text(report.because)}</p></header>"
    yield from _summary(report)
    if report.regressions:
        yield from _listing("Regressed", report.regressions, opened=True)
    yield from _filter(report)
    yield "<main>"
    for index, session in enumerate(report.worst_first()):
        opened = index < _MOST_OPEN and (session.failed or session.label is not Label.PASS)
        yield from _session(session, opened=opened)
    yield '<p id="nothing-left" hidden>No session matches the filter.</p></main>'
    if report.never_seen:
        lines = [" · ".join(filter(None, (one.name, one.golden_set, one.source))) for one in report.never_seen]
        yield from _listing("Goldens never seen", lines, opened=True, helps=HELP[Reason.GOLDEN_NEVER_SEEN])
    if report.totals.without_golden:
        yield from _listing("Sessions without a golden", report.totals.without_golden, opened=False)
    if report.problems:
        lines = [f"{code}: {text}" for code, text in report.problems]
        yield from _listing("Problems", lines, opened=len(lines) <= 20)
    yield f"<script>{script}</script>\n</body>\n</html>"


def html_text(text: str) -> str:
    """Escape text for HTML, and whatever in it could not be seen."""
    return escape(printable(text))


def _prose(text: str) -> str:
    """Write a sentence of ours, in which `code` stands between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html_text(text))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _summary(report: Report) -> Iterator[str]:
    sums = report.totals
    yield '<section class="summary" aria-label="Summary"><ul class="tiles">'
    tiles = [(label.value, str(sums.sessions.get(label, 0)), LABEL_WORDS[label]) for label in WORST_FIRST]
    if sums.mean is not None:
        tiles.append(("mean", score_text(sums.mean), "mean score"))
    if sums.calls_expected:
        tiles.append(("mean", f"{sums.calls_matched:,} / {sums.calls_expected:,}", "calls right"))
    for kind, number, words in tiles:
        yield f'<li class="{kind}"><b>{number}</b> {words}</li>'
    yield "</ul><dl>"
    for label, text in report.summary:
        yield f"<dt>{label}</dt><dd>{html_text(text)}</dd>"
    yield "</dl>"
    if report.hints:
        yield "<h2>What to do</h2><ul>"
        yield from (f"<li><b>{html_text(seen)}</b>: {_prose(helps)}</li>" for seen, helps in report.hints)
        yield "</ul>"
    yield "</section>"


def _filter(report: Report) -> Iterator[str]:
    counts = Counter(session.label for session in report.sessions)
    yield '<form id="filter" role="search" hidden><fieldset><legend class="unseen">Show sessions by label</legend>'
    choices = [("", "All", counts.total())]
    choices += [(label.value, LABEL_WORDS[label].capitalize(), counts[label]) for label in WORST_FIRST]
    for value, words, count in choices:
        checked = "" if value else " checked"
        yield f'<label><input type="radio" name="label" value="{value}"{checked}> {words} <b>{count:,}</b></label>'
    yield '</fieldset><label class="text"><span class="unseen">Show sessions that contain</span>'
    yield '<input type="search" id="text" placeholder="session, tool, argument or value" autocomplete="off"'
    yield ' aria-keyshortcuts="/"> <kbd>/</kbd></label>'
    yield '<button type="button" id="open-all">Open all</button>'
    yield '<button type="button" id="close-all">Close all</button>'
    yield '<output id="shown" for="text"></output></form>'


def _listing(title: str, lines: Sequence[str], *, opened: bool, helps: str = "") -> Iterator[str]:
    yield f'<details class="listing"{" open" if opened else ""}><summary><h2>{title}</h2> <b>{len(lines):,}</b>'
    yield "</summary>"
    if helps:
        yield f"<p>{_prose(helps)}</p>"
    yield "<ul>"
    yield from (f"<li>{html_text(line)}</li>" for line in lines)
    yield "</ul></details>"


# Sessions, metrics and turns.


def _badge(label: Label | None, score: str) -> str:
    """Return the mark and the score, with the label as their class and in words for who cannot see them."""
    kind = "no_label" if label is None else label.value
    words = kind.replace("_", " ")
    mark = "" if label is None else f"{MARKS[label]} "
    return f'<span class="badge {kind}" title="{words}">{mark}{score}<span class="unseen"> {words}</span></span>'


def _score_badge(label: Label, score: Fraction | None) -> str:
    return _badge(label, score_text(score).strip())


def _session(session: SessionReport, *, opened: bool) -> Iterator[str]:
    label = session.label.value
    yield f'<details class="session {label}" data-label="{label}"{" open" if opened else ""}>'
    yield f'<summary>{_score_badge(session.label, session.score)} <span class="name">{html_text(session.name)}</span> '
    failed = [one for one in session.metrics if one.label is Label.FAIL]
    texts = [html_text(f"{MARKS[one.label]} {one.name} {one.score_text}") for one in failed]
    badges = "".join(f' <span class="badge fail">{text}</span>' for text in texts)
    yield f'<span class="note">{html_text(" · ".join(session.notes))}</span>{badges}</summary>'
    if session.reason:
        yield f'<p class="reason"><b>{html_text(session.reason)}.</b> {_prose(session.helps)}</p>'
    yield from _metrics(session.metrics)
    for turn in session.turns:
        yield from _turn(turn)
    yield f'<p class="facts">{html_text(" · ".join(session.facts))}</p></details>'


def _metrics(metrics: Sequence[MetricReport]) -> Iterator[str]:
    if not metrics:
        return
    yield '<div class="wide metrics"><table><caption>Other metrics</caption><thead><tr>'
    yield '<th scope="col">metric</th><th scope="col">score</th><th scope="col">threshold</th>'
    yield '<th scope="col">explanation</th></tr></thead><tbody>'
    for one in metrics:
        threshold = one.threshold_text or "none"
        words = "; ".join(filter(None, (one.reason, one.explanation)))
        yield f'<tr><th scope="row">{html_text(one.name)}</th><td>{_badge(one.label, one.score_text)}</td>'
        yield f"<td>{threshold}</td><td>{html_text(words)} "
        yield f'<span class="about">{html_text(one.description)}</span></td></tr>'
    yield "</tbody></table></div>"


def _turn(turn: TurnReport) -> Iterator[str]:
    yield f'<section class="turn {turn.label.value}">'
    if not turn.whole:
        notes = [turn.reason, counted(len(turn.calls), "expected call") if turn.calls else ""]
        notes += ["too many calls to align exactly"] if turn.approximate else []
        yield f"<h3>{_score_badge(turn.label, turn.score)} {turn.title}"
        yield f' <span class="note">{html_text(" · ".join(filter(None, notes)))}</span></h3>'
        if turn.user_text:
            yield f'<p class="said">{html_text(turn.user_text[:_LONG])}</p>'
    if turn.preset is not None:
        yield from _preset(turn.preset)
    else:
        for call in turn.calls:
            yield from _call(call)
        for other in turn.others:
            yield from _other(other)
    yield "</section>"


def _preset(answer: PresetAnswer) -> Iterator[str]:
    """Return what a preset answered, and the calls it compared, each side in its order."""
    yield f'<p class="answer"><b>{html_text(answer.preset)}</b> {html_text(" · ".join(answer.lines))}</p>'
    expected = [(tool, arguments_text(arguments)) for tool, arguments in answer.expected]
    made = [(call.tool, call_text(call)) for call in answer.made]
    yield '<div class="wide sides"><table><thead><tr><th scope="col">expected calls</th>'
    yield '<th scope="col">actual calls</th></tr></thead><tbody><tr>'
    for side in (expected, made):
        items = "".join(
            f"<li><code>{html_text(tool)}</code> <span class='brief'>{html_text(shorten(text, _LONG))}</span></li>"
            for tool, text in side
        )
        yield f"<td><ol>{items}</ol></td>" if items else f"<td>{_NOTHING}</td>"
    yield "</tr></tbody></table></div>"


# Calls and their arguments, expected and actual side by side.


def _call(call: CallReport) -> Iterator[str]:
    opened = call.label is not Label.PASS or call.score != 1
    yield f'<details class="call {call.label.value}"{" open" if opened else ""}>'
    yield f"<summary>{_score_badge(call.label, call.score)} <code>{html_text(call.tool)}</code>"
    if call.note:
        yield f' <span class="note {call.label.value}">{html_text(call.note.rstrip(":"))}</span>'
    if not opened:
        expected = {one.name: one.expected for one in call.arguments if not isinstance(one.expected, Absent)}
        yield f' <span class="brief">{html_text(shorten(arguments_text(expected), _BRIEF))}</span>'
    yield "</summary>"
    if call.arguments:
        actual = "actual" if call.aligned or call.actual is None else "nearest call"
        yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">expected</th>'
        yield f'<th scope="col">{actual}</th><th scope="col">result</th></tr></thead><tbody>'
        for argument in call.arguments:
            yield from _argument(argument)
        yield "</tbody></table></div>"
    else:
        yield '<p class="none">No arguments are expected.</p>'
    yield from _facts(call.actual)
    yield "</details>"


def _argument(argument: ArgumentReport) -> Iterator[str]:
    kind = "missing" if argument.outcome == "never_called" else argument.outcome
    if argument.outcome == ArgumentOutcome.MISMATCHED:
        casefold = argument.strategy == "casefold_exact"
        expected, actual = side_by_side(argument.expected, argument.actual, casefold=casefold)
    else:
        expected, actual = _value_or_nothing(argument.expected), _value_or_nothing(argument.actual)
    if argument.unknown:
        actual = f'<span class="none">{html_text(argument.unknown)}</span>'
    yield f'<tr class="{kind}"><th scope="row">{html_text(argument.name)}</th><td><pre>{expected}</pre></td>'
    yield f'<td><pre>{actual}</pre></td><td class="what">{html_text(argument.words)}</td></tr>'


def _value_or_nothing(value: JsonValue | Absent) -> str:
    return _NOTHING if value is ABSENT else value_html(value)


def _other(other: OtherCall) -> Iterator[str]:
    call = other.call
    yield f'<details class="call aside"><summary><span class="badge aside">{other.mark}</span> '
    yield f'<code>{html_text(call.tool)}</code> <span class="note">{other.words}</span> '
    yield f'<span class="brief">{html_text(shorten(call_text(call), _BRIEF))}</span></summary>'
    if call.arguments:
        yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">actual</th></tr>'
        yield "</thead><tbody>"
        for name, value, hidden in call.arguments:
            shown = f'<span class="none">{hidden}</span>' if hidden else _value_or_nothing(value)
            yield f'<tr class="extra"><th scope="row">{html_text(name)}</th><td><pre>{shown}</pre></td></tr>'
        yield "</tbody></table></div>"
    yield from _facts(call)
    yield "</details>"


def _facts(call: ActualCall | None) -> Iterator[str]:
    if call is not None and call.facts:
        yield f'<p class="facts">{html_text(" · ".join(call.facts))}</p>'


# Values as JSON, with what differs between two of them marked.

_Part = tuple[str, bool]
"""Text, and whether it is marked."""


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
    if is_dict(value) and is_dict(other) and not (dollar_keys(value) or dollar_keys(other)):
        items = [(f"{_json(key)}: ", value[key], key in other, other.get(key)) for key in value]
        yield from _container("{}", items, value, indent, casefold=casefold)
    elif is_list(value) and is_list(other) and len(value) == len(other):
        items = [("", mine, True, its) for mine, its in zip(value, other, strict=True)]
        yield from _container("[]", items, value, indent, casefold=casefold)
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
