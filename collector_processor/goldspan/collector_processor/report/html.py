"""The scores as one HTML file: it loads nothing, and its content security policy forbids it to."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources

from goldspan.collector_processor.hints import HELP, WORDS
from goldspan.collector_processor.report.html_calls import badge, turn_html
from goldspan.collector_processor.report.html_metrics import metric_badges, metrics_html
from goldspan.collector_processor.report.html_values import html_text
from goldspan.collector_processor.report.layout import BAD, GOOD, counted, listed, score_text
from goldspan.collector_processor.report.score_page import expected_of
from goldspan.collector_processor.report.score_summary import advice_lines, conclusion, sum_rows
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.session_names import has_golden, sessions_with_golden, unseen_goldens
from goldspan.collector_processor.report.totals import Totals, totals
from goldspan.scoring.explanation import explain
from goldspan.scoring.results import Label, Reason, RunResult, SessionResult

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
    yield f'<p class="facts">{html_text(" · ".join(_facts(result)))}</p></details>'


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


def _facts(result: SessionResult) -> Iterator[str]:
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
