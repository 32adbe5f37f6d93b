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
from goldspan.collector_processor.replay.summary_and_exit_code import RIGHT_CALLS, MetricTotals
from goldspan.collector_processor.report.model import Report
from goldspan.scoring import result_words as phrases
from goldspan.scoring.json_values import is_dict, is_list, plain, pointer_name
from goldspan.scoring.matchers.matcher import ABSENT, Absence, dollar_keys
from goldspan.scoring.ranked_findings import SYSTEMATIC_WORDS, RankedFindings
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult, turn_name
from goldspan.scoring.sessions import JsonValue, ToolCall
from goldspan.scoring.verdict import Label, MetricCall, MetricResult, Reason
from goldspan.scoring.wording import (
    LABEL_WORDS,
    MARKS,
    UNEXPECTED,
    WORST_FIRST,
    common_beginning,
    counted,
    number_text,
    printable,
    score_text,
    shorten,
)

LONGEST = 20_000
"""Characters of one value that are shown; the JSON document has all of it."""
_MOST_FINDINGS, _MOST_PLACES = 100, 5
_MOST_OPEN = 5
"""Sessions of one label that are open when the page is; more are folded."""
_MOST_WITHOUT_GOLDEN = 500
"""Sessions without golden and without a failure that are shown of one label."""
_MOST_FILTERS = 100
"""Mistakes that can be chosen as a filter, the most frequent ones."""
_FEWEST_FILTERS = 2
_BRIEF = 160
_LONG = 2_000
_ON_ONE_LINE = 48
_CUT = "… cut here; the JSON document has the whole value"
_INDENT = "  "
_SHOWN_OTHERWISE = {"sessions", "mistakes", "findings"}
"""Rows of the summary that the page shows as numbers and as filters."""
_OUTCOMES = {
    ArgumentOutcome.MATCHED: "✓ right",
    ArgumentOutcome.MISMATCHED: "✗ differs",
    ArgumentOutcome.MISSING: "✗ not passed",
    ArgumentOutcome.UNKNOWN: "? unknown",
    ArgumentOutcome.IGNORED: "ignored",
}
_WRONG = (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING)
_PASSED = (ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED)
_NOTHING = '<span class="none">—</span>'


def html_report(report: Report) -> str:
    """Return the page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    mistakes = _Mistakes((*report.sessions, *report.without_golden))
    sets = html_text(", ".join(report.golden_sets))
    title = sets or ("Without goldens" if report.metrics else "No golden set")
    script = _file("html_page.js")
    yield _head(f"{report.word}: {sets or 'goldspan'}", mistakes.style(), script)
    yield f'<header><p class="made">goldspan · tool call arguments</p><h1>{title}</h1>'
    yield f'<p class="conclusion {"fail" if report.failed else "pass"}"><strong>{report.mark} {report.word}</strong> '
    yield f"{_prose(report.because)}</p>"
    if report.first_difference:
        yield f'<p class="first">{report.first_head}: <code>{html_text(report.first_difference)}</code></p>'
    yield "</header>"
    yield from _findings(report.findings)
    yield from _summary(report)
    yield from _since_baseline(report)
    yield from _filter(report)
    yield from mistakes.panel()
    yield "<main>"
    for label in WORST_FIRST:
        yield from _sessions(label, report, mistakes)
    yield '<p id="nothing-left" hidden>No session matches the filter.</p></main>'
    if report.never_seen:
        lines = [" · ".join(filter(None, (one.key, one.golden_set, one.source))) for one in report.never_seen]
        yield from _listing("Goldens never seen", lines, opened=True, helps=HELP[Reason.GOLDEN_NEVER_SEEN])
    if report.totals.without_golden and not report.without_golden:
        yield from _listing("Sessions without a golden", report.totals.without_golden, opened=False)
    if report.problems:
        lines = [f"{code}: {text}" for code, text in report.problems]
        yield from _listing("Problems", lines, opened=len(lines) <= _MOST_OPEN)
    yield f"<script>{script}</script>\n</body>\n</html>"


def _findings(findings: RankedFindings) -> Iterator[str]:
    """Yield what metrics found, the rarest and worst first; what most sessions have is in a block of its own."""
    if findings.rare:
        yield '<section class="summary findings"><h2>Findings</h2><p class="note">the rarest and worst first</p>'
        yield '<div class="wide metrics rows"><table><thead><tr>'
        yield "".join(f'<th scope="col">{head}</th>' for head in ("argument", "finding", "sessions", "where"))
        yield "</tr></thead><tbody>"
    for one in findings.rare[:_MOST_FINDINGS]:
        yield f'<tr><th scope="row"><code>{html_text(one.argument)}</code></th>'
        yield f'<td data-head="finding">{html_text(one.words)}</td><td data-head="sessions">{one.share}</td><td>'
        for place in one.places[:_MOST_PLACES]:
            said = html_text(printable(place.finding.words(include_values=True))[:_LONG])
            yield f'<span class="about">{html_text(place.words)}</span> {said}<br>'
        more = len(one.places) - _MOST_PLACES
        yield f"{f'… and {more:,} more' if more > 0 else ''}</td></tr>"
    if findings.rare:
        yield "</tbody></table></div></section>"
    if findings.systematic:
        lines = [f"{one.name} in {one.share}: {one.settled_by}" for one in findings.systematic]
        yield from _listing("Systematic", lines, opened=False, helps=f"{SYSTEMATIC_WORDS.capitalize()}.")


def _since_baseline(report: Report) -> Iterator[str]:
    """Yield the lists of what became worse or better since the baseline, and of what failed in it."""
    if report.regressions:
        yield from _listing("Regressed", report.regressions, opened=True)
    if report.fixed:
        yield from _listing("Fixed", report.fixed, opened=len(report.fixed) <= _MOST_OPEN)
    if report.known_failures:
        yield from _listing("Failed before, too", sorted(report.known_failures), opened=False)


def html_page(title: str, body: str) -> str:
    """Return a page in the dress of the report, without any script; `body` is HTML, `title` text."""
    return f"{_head(html_text(title))}\n{body}\n</body>\n</html>\n"


def _head(title: str, more_style: str = "", script: str = "") -> str:
    """Return everything before the content; only this style and this script may be in the page."""
    style = _file("html_page.css") + more_style
    scripts = f"script-src '{_digest(script)}'; " if script else ""
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; {scripts}img-src data:; base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
            f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
        )
    )


def _file(name: str) -> str:
    return (resources.files("goldspan.collector_processor.report") / name).read_text("utf-8")


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
    numbers = Counter(sums.sessions) + Counter(sums.judged_without_golden)
    label_words = LABEL_WORDS | ({Label.PASS: "judged"} if sums.informs else {})
    counts = [(label.value, numbers[label], label_words[label]) for label in WORST_FIRST]
    yield '<section class="summary" aria-label="Summary">'
    yield _bar([(kind, count) for kind, count, _ in counts])
    yield '<ul class="tiles">'
    tiles = [(kind if count else "none", f"{count:,}", words) for kind, count, words in counts]
    if sums.mean is not None:
        tiles.append(("mean", score_text(sums.mean), "mean score"))
    if sums.calls:
        right = sums.calls.get(RIGHT_CALLS, 0)
        tiles.append(("mean", f"{right:,} / {sum(sums.calls.values()):,}", "calls right"))
    for kind, number, words in tiles:
        yield f'<li class="{kind}"><b>{number}</b> {words}</li>'
    yield "</ul><dl>"
    for label, text in report.summary:
        if label not in _SHOWN_OTHERWISE:
            yield f"<dt>{label}</dt><dd>{html_text(text)}</dd>"
    yield "</dl>"
    yield from _metric_rows(report.metrics)
    if report.hints:
        yield '<section class="hints"><h2>What to do</h2><ul>'
        yield from (f"<li><b>{html_text(seen)}</b>: {_prose(helps)}</li>" for seen, helps in report.hints)
        yield "</ul></section>"
    yield "</section>"


def _metric_rows(metrics: Sequence[MetricTotals]) -> Iterator[str]:
    """Yield a table of the metrics that need no golden: their scores, and what became of the calls."""
    if not metrics:
        return
    yield '<div class="wide metrics rows"><table><caption>Without goldens</caption><thead><tr>'
    for head in ("metric", "score", "passed", "failed", "not evaluated"):
        yield f'<th scope="col">{head}</th>'
    yield "</tr></thead><tbody>"
    for one in metrics:
        yield f'<tr><th scope="row">{html_text(one.name)}</th><td>{_badge(one.label, number_text(one.score))}</td>'
        for head, count in (("passed", one.passed), ("failed", one.failed)):
            yield f'<td data-head="{head}">{counted(count, one.unit)}</td>'
        gaps = counted(one.gaps, one.unit)
        about = f'<span class="about">{html_text(one.reasons)}</span>' if one.reasons else ""
        yield f'<td data-head="not evaluated"><span>{gaps}{about}</span></td></tr>'
    yield "</tbody></table></div>"


def _bar(parts: Sequence[tuple[str, int]], whole: int | None = None) -> str:
    """Return a bar with a part for each count, as long as its share of `whole`, else of their sum."""
    whole = whole or sum(count for _, count in parts) or 1
    rects: list[str] = []
    start = 0.0
    for kind, count in parts:
        if count:
            width = max(100 * count / whole, 0.5)
            rects.append(f'<rect class="{kind}" x="{start:.2f}" width="{width:.2f}" height="1"></rect>')
            start += width
    return f'<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">{"".join(rects)}</svg>'


def _open(opened: bool) -> str:  # noqa: FBT001 - it is the only argument
    return " open" if opened else ""


def _filter(report: Report) -> Iterator[str]:
    counts = Counter(session.label for session in (*report.sessions, *report.without_golden))
    if not counts:
        return
    yield '<form id="filter" role="search"><fieldset><legend class="unseen">Show sessions by label</legend>'
    choices = [("", "All", counts.total())]
    choices += [(label.value, LABEL_WORDS[label].capitalize(), counts[label]) for label in WORST_FIRST]
    for value, words, count in choices:
        checked = "" if value else " checked"
        yield f'<label><input type="radio" name="label" id="show-{value or "all"}" value="{value}"{checked}> '
        yield f"{words} <b>{count:,}</b></label>"
    yield '</fieldset><label class="text" hidden><span class="unseen">Show sessions that contain</span>'
    yield '<input type="search" id="text" placeholder="Session, tool, argument or value" autocomplete="off"'
    yield ' aria-keyshortcuts="/"> <kbd>/</kbd></label>'
    yield '<button type="button" id="open-all" hidden>Open all</button>'
    yield '<button type="button" id="close-all" hidden>Close all</button>'
    yield '<output id="shown" for="text"></output></form>'


class _Mistakes:
    """The mistakes of all sessions, by tool and argument, each with the class that its sessions have.

    The filters work by style alone, so that the page needs no script for them.
    """

    def __init__(self, sessions: Sequence[phrases.SessionWords]) -> None:
        self.counts = Counter(one.name for session in sessions for one in session.mistakes)
        tools: dict[str, dict[str, phrases.SessionMistake]] = {}
        for session in sessions:
            for one in session.mistakes:
                tools.setdefault(one.tool, {})[one.name] = one
        of_tool = Counter(tool for one in sessions for tool in dict.fromkeys(mistake.tool for mistake in one.mistakes))
        self._tools = [(tool, count, sorted(tools[tool], key=self._rarity)) for tool, count in of_tool.most_common()]
        self._named = {name: one for known in tools.values() for name, one in known.items()}
        shown = [name for name, _ in self.counts.most_common(_MOST_FILTERS)]
        self._class = {name: f"m{number}" for number, name in enumerate(shown)}
        self._class_of_tool = {tool: f"t{number}" for number, (tool, _, _) in enumerate(self._tools[:_MOST_FILTERS])}
        self._sessions = sum(bool(session.mistakes) for session in sessions)

    def _rarity(self, name: str) -> int:
        return -self.counts[name]

    def classes(self, sessions: Iterable[phrases.SessionWords]) -> str:
        """Return the classes of the mistakes that these sessions have."""
        found: dict[str, None] = {}
        for one in (one for session in sessions for one in session.mistakes):
            for name in (self._class_of_tool.get(one.tool), self._class.get(one.name)):
                if name:
                    found[name] = None
        return "".join(f" {name}" for name in found)

    def most_frequent(self, session: phrases.SessionWords) -> str:
        """Return the mistake of the session that most sessions have; what differs from its golden comes first."""
        differs = [one.name for one in session.mistakes if not one.place]
        names = differs or [one.name for one in session.mistakes]
        return max(names, key=lambda name: self.counts[name], default="")

    def style(self) -> str:
        """Return the rules that hide what a chosen filter leaves out."""
        hide = "body:has(#{0}:checked) :is(.session,.group,.part):not(.{1}){{display:none}}\n".format
        labels = (hide(f"show-{label.value}", label.value) for label in WORST_FIRST)
        return "".join(
            (*labels, *(hide(name, name) for name in (*self._class.values(), *self._class_of_tool.values())))
        )

    def panel(self) -> Iterator[str]:
        """Yield the filters: for each tool, and for each of its mistakes."""
        if len(self.counts) < _FEWEST_FILTERS:
            return
        yield '<details class="mistakes" open><summary><h2>Mistakes</h2> <span class="note">in '
        yield f"{counted(self._sessions, 'session')}; choose one to see them</span></summary>"
        yield '<fieldset><legend class="unseen">Show sessions by mistake</legend>'
        yield '<label class="any"><input type="radio" name="mistake" form="filter" id="any" value="" checked> '
        yield "All sessions</label>"
        yield '<div class="tools">'
        most = max(count for _, count, _ in self._tools)
        for tool, count, known in self._tools:
            names = [name for name in known if name in self._class]
            if not names:
                continue
            yield '<div class="tool">'
            if len(names) > 1 and tool:
                yield self._choice(self._class_of_tool[tool], f"<code>{html_text(tool)}</code>", count, most, "whole")
            for name in names:
                one = self._named[name]
                words = f' <span class="note">{html_text(one.words)}</span>' if one.words else ""
                shown = one.argument if len(names) > 1 else ".".join(filter(None, (tool, one.argument)))
                text = f"<code>{html_text(shown)}</code>{words}" if shown else html_text(one.words if tool else name)
                yield self._choice(self._class[name], text, self.counts[name], most, "")
            yield "</div>"
        yield "</div>"
        if len(self.counts) > len(self._class):
            yield f'<p class="note">and {counted(len(self.counts) - len(self._class), "rarer mistake")}</p>'
        yield "</fieldset></details>"

    def _choice(self, value: str, text: str, count: int, most: int, kind: str) -> str:
        return (
            f'<label class="choice {kind}"><input type="radio" name="mistake" form="filter" id="{value}" '
            f'value="{value}"> <span>{text}</span> {_bar([("fail", count)], most)} <b>{count:,}</b></label>'
        )


def _listing(title: str, lines: Sequence[str], *, opened: bool, helps: str = "") -> Iterator[str]:
    yield f'<details class="listing"{_open(opened)}><summary><h2>{title}</h2> <b>{len(lines):,}</b>'
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


def _sessions(label: Label, report: Report, mistakes: _Mistakes) -> Iterator[str]:
    """Yield the sessions with a label; those that have the same cause are a group."""
    of_label = [one for one in report.worst_first() if one.label is label]
    if not of_label:
        return
    sessions = _worth_a_look(of_label)
    groups: dict[str, list[phrases.SessionWords]] = {}
    for session in sessions:
        groups.setdefault(_cause(session, label, mistakes), []).append(session)
    few = len(sessions) <= _MOST_OPEN
    yield f'<section class="part {label.value}{mistakes.classes(sessions)}"><h2>{LABEL_WORDS[label].capitalize()} '
    yield f'<span class="note">{counted(len(of_label), "session")}</span></h2>'
    for cause, alike in sorted(groups.items(), key=lambda item: (not item[1][0].failed, -len(item[1]))):
        if len(alike) > 1:
            yield f'<details class="group {label.value}{mistakes.classes(alike)}"{_open(few)}><summary>'
            yield f'<span class="cause">{html_text(cause)}</span> <b class="count">{len(alike):,}</b> '
            if example := next((one.detail for one in alike[0].mistakes if one.name == cause), ""):
                yield f'<span class="brief">{html_text(shorten(example, _BRIEF))}</span>'
            yield "</summary>"
        for session in alike:
            yield from _session(session, mistakes, opened=few and (label is not Label.PASS or alike[0].failed))
        if len(alike) > 1:
            yield "</details>"
    if len(sessions) < len(of_label):
        yield f'<p class="note">… and {counted(len(of_label) - len(sessions), "more session")} without golden</p>'
    yield "</section>"


def _worth_a_look(sessions: Sequence[phrases.SessionWords]) -> list[phrases.SessionWords]:
    """Leave out sessions without golden that did not fail, of which there may be any number, but for the first."""
    kept: list[phrases.SessionWords] = []
    others = 0
    for session in sessions:
        others += not session.has_golden and not session.failed
        if session.has_golden or session.failed or others <= _MOST_WITHOUT_GOLDEN:
            kept.append(session)
    return kept


def _cause(session: phrases.SessionWords, label: Label, mistakes: _Mistakes) -> str:
    """Return the heading under which a session stands together with others."""
    if label is not Label.FAIL and (
        broken := next((one.name for one in session.result.metrics if phrases.is_broken(one)), "")
    ):
        return broken
    if label is Label.NOT_EVALUATED and session.reason:
        return session.reason
    if name := mistakes.most_frequent(session):
        return name
    if label is not Label.PASS:
        return session.explanation
    others = any(call for turn in session.result.turns for call in turn.unpaired_calls)
    return "right, with calls that nobody expected" if others else "everything right"


def _session(session: phrases.SessionWords, mistakes: _Mistakes, *, opened: bool) -> Iterator[str]:
    label = session.label.value
    yield f'<details class="session {label}{mistakes.classes([session])}" data-label="{label}"{_open(opened)}>'
    score = score_text(session.score).strip() if session.has_golden else ""
    yield f'<summary>{_badge(session.label, score)} <span class="name">{html_text(session.name)}</span> '
    failed = [one for one in session.result.metrics if one.label is Label.FAIL and session.has_golden]
    texts = [html_text(f"{MARKS[one.label]} {one.name} {number_text(one.verdict.exact)}") for one in failed]
    badges = "".join(f' <span class="badge fail">{text}</span>' for text in texts)
    if session.first_difference:
        yield f'<code class="brief">{html_text(shorten(session.first_difference, _BRIEF))}</code> '
    notes = filter(None, (phrases.session_notes(session.result), "" if session.has_golden else "no golden"))
    yield f'<span class="note">{html_text(" · ".join(notes))}</span>{badges}</summary>'
    if session.reason:
        yield f'<p class="reason"><b>{html_text(session.reason)}.</b> {_prose(session.helps)}</p>'
    yield from _metrics(session.result.metrics)
    for metric in session.result.metrics:
        yield from _found_by(metric)
    for turn in session.result.turns:
        yield from _turn(session.result, turn)
    yield f'<p class="facts">{html_text(" · ".join(phrases.session_facts(session)))}</p></details>'


def _found_by(metric: MetricResult) -> Iterator[str]:
    """Yield the calls in which a metric that needs no golden found something wrong."""
    found = [(turn, call) for turn, call in phrases.judged_calls(metric) if call.failures]
    if found:
        yield f'<p class="found-by"><b>{html_text(metric.name)}</b> found:</p>'
    for turn, call in found:
        yield from _judged_call(turn, call)


def _metrics(metrics: Sequence[MetricResult]) -> Iterator[str]:
    if not metrics:
        return
    yield '<div class="wide metrics"><table><caption>Other metrics</caption><thead><tr>'
    yield '<th scope="col">metric</th><th scope="col">score</th><th scope="col">threshold</th>'
    yield '<th scope="col">explanation</th></tr></thead><tbody>'
    for one in metrics:
        threshold = "none" if one.threshold is None else number_text(one.threshold)
        badge = _badge(one.label, number_text(one.verdict.exact))
        yield f'<tr><th scope="row">{html_text(one.name)}</th><td>{badge}</td>'
        yield f'<td data-head="threshold">{threshold}</td><td>{html_text(phrases.metric_words(one))} '
        yield f'<span class="about">{html_text(one.description)}</span></td></tr>'
    yield "</tbody></table></div>"


def _turn(session: SessionResult, turn: TurnResult) -> Iterator[str]:
    whole, label = session.as_one, turn.label.value
    if whole:
        yield f'<section class="turn {label}">'
    else:
        right = turn.label is Label.PASS and turn.verdict.exact == 1
        notes = [phrases.turn_reason(turn), counted(len(turn.calls), "expected call") if turn.calls else ""]
        notes += ["too many calls to align exactly"] if turn.approximate else []
        yield f'<details class="turn {label}"{_open(not right)}><summary>'
        yield f"<h3>{_score_badge(turn.label, turn.verdict.exact)} {turn_name(turn)}"
        yield f' <span class="note">{html_text(" · ".join(filter(None, notes)))}</span></h3>'
        if said := phrases.said_in(turn):
            yield f' <span class="said">{html_text(said[:_LONG])}</span>'
        yield "</summary>"
    for doubt in turn.doubts:
        yield f'<p class="note">{html_text(phrases.doubt_words(doubt))}</p>'
    if turn.answer is not None:
        yield from _preset(session, turn, turn.answer.name)
    else:
        for call in turn.calls:
            yield from _call(call)
        for other in phrases.other_calls(turn):
            yield from _other(other)
        if not turn.calls and not turn.unexpected_calls:
            for made in phrases.made_calls(turn):
                yield from _other(phrases.OtherCall(UNEXPECTED, "not judged", made))
    yield "</section>" if whole else "</details>"


def _preset(session: SessionResult, turn: TurnResult, name: str) -> Iterator[str]:
    """Return what a preset answered, and the calls it compared, each side in its order."""
    yield f'<p class="answer"><b>{html_text(name)}</b> {html_text(" · ".join(phrases.preset_lines(turn)))}</p>'
    expected = [(call.name, phrases.arguments_text(call.args)) for call in phrases.expected_calls(session, turn)]
    made = [(call.name, phrases.arguments_of_call(call)) for call in phrases.made_calls(turn)]
    yield '<div class="wide sides"><table><thead><tr><th scope="col">expected calls</th>'
    yield '<th scope="col">actual calls</th></tr></thead><tbody><tr>'
    for side in (expected, made):
        items = "".join(
            f"<li><code>{html_text(tool)}</code> <span class='brief'>{html_text(shorten(text, _LONG))}</span></li>"
            for tool, text in side
        )
        yield f"<td><ol>{items}</ol></td>" if items else f"<td>{_NOTHING}</td>"
    yield "</tr></tbody></table></div>"


def _judged_call(turn: int, judged: MetricCall) -> Iterator[str]:
    """Yield a call with what a metric that needs no golden found in it."""
    call, label = judged.call, "no_label" if judged.label is None else judged.label.value
    place = f"turn {turn + 1}, call {judged.call_index + 1}"
    badge = _badge(judged.label, score_text(judged.verdict.exact).strip())
    yield f'<details class="call {label}" open><summary>{badge} '
    yield f'<code>{html_text(call.name)}</code> <span class="note">{place}</span> '
    yield f'<span class="brief">{html_text(shorten(phrases.arguments_of_call(call), _BRIEF))}</span></summary>'
    yield '<div class="wide found"><table><thead><tr><th scope="col">argument</th>'
    yield '<th scope="col" colspan="2">finding</th><th scope="col">kind</th></tr></thead><tbody>'
    for one in judged.failures:
        yield f'<tr class="mismatched"><th scope="row">{html_text(pointer_name(one.path) or "whole call")}</th>'
        yield f'<td colspan="2">{html_text(printable(one.words(include_values=True))[:_LONG])}</td>'
        yield f'<td class="what">{html_text(phrases.kind_words(one))}</td></tr>'
    yield "</tbody></table></div>"
    yield from _facts(call)
    yield "</details>"


# Calls and their arguments, expected and actual side by side.


def _call(call: CallResult) -> Iterator[str]:
    label, score = call.label, call.verdict.exact
    opened = label is not Label.PASS or score != 1
    yield f'<details class="call {label.value}"{_open(opened)}>'
    yield f"<summary>{_score_badge(label, score)} <code>{html_text(call.tool)}</code>"
    if note := "; ".join(filter(None, (phrases.call_note(call).rstrip(":"), phrases.call_hint(call)))):
        yield f' <span class="note {label.value}">{html_text(note)}</span>'
    if not opened:
        expected = {one.name: one.expected_value for one in call.arguments} | phrases.not_compared(call)
        yield f' <span class="brief">{html_text(shorten(phrases.arguments_text(expected), _BRIEF))}</span>'
    yield "</summary>"
    head = "actual" if call.aligned or call.actual is None else "nearest call"
    if rows := list(_rows(call, head)):
        yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">expected</th>'
        yield f'<th scope="col">{head}</th><th scope="col">result</th></tr></thead><tbody>'
        yield from rows
        yield "</tbody></table></div>"
    else:
        yield '<p class="none">No arguments are expected.</p>'
    if call.actual is not None:
        yield from _facts(call.actual)
    yield "</details>"


def _rows(call: CallResult, head: str) -> Iterator[str]:
    """Yield the rows of a call's arguments: what was wrong, what was never passed, and all others."""
    made = call.actual
    arguments = sorted(call.arguments, key=lambda one: one.outcome not in _WRONG)
    wrong = [one for one in arguments if one.outcome in _WRONG]
    yield from (_row(one, made, head) for one in wrong)
    for name, value in phrases.not_compared(call).items():
        cells = _two_cells(value_html(value), _NOTHING, head)
        yield _table_row("missing", name, cells, "✗ never called" if call.missing else "")
    yield from (_row(one, made, head) for one in arguments[len(wrong) :])
    passed = {} if made is None else made.arguments or {}
    for name in call.extra_arguments:
        cells = _two_cells(_NOTHING, _value_or_nothing(passed.get(name, ABSENT)), head)
        yield _table_row("extra", name, cells, "not expected")


def _row(argument: ArgumentResult, made: ToolCall | None, head: str) -> str:
    value: JsonValue | Absence = argument.actual_value if argument.outcome in _PASSED else ABSENT
    left_out = made is not None and made.arguments is not None and argument.name not in made.arguments
    if argument.outcome is ArgumentOutcome.MATCHED and argument.actual_value is None and left_out:
        value = ABSENT
    expected, actual = value_html(argument.expected_value), _value_or_nothing(value)
    if argument.outcome is ArgumentOutcome.MISMATCHED:
        casefold = argument.strategy == "casefold_exact"
        expected, actual = side_by_side(argument.expected_value, argument.actual_value, casefold=casefold)
    if unknown := phrases.why_unknown(argument, made):
        actual = f'<span class="none">{html_text(unknown)}</span>'
    cells = _two_cells(expected, actual, head)
    if argument.outcome is ArgumentOutcome.MATCHED and expected == actual:
        cells = f'<td colspan="2"><pre>{expected}</pre></td>'
    words = "; ".join(filter(None, (_outcome_words(argument, made), argument.hint)))
    return _table_row(argument.outcome, argument.name, cells, words)


def _outcome_words(argument: ArgumentResult, made: ToolCall | None) -> str:
    if argument.outcome is ArgumentOutcome.UNKNOWN and made is None:
        return "? never called"
    words = _OUTCOMES[argument.outcome]
    if argument.exact is not None and argument.exact.denominator != 1:
        words += f" {score_text(argument.exact)}"
    if argument.strategy != "exact" and argument.outcome in _PASSED:
        words += f" ({argument.strategy})"
    return words if argument.weight == 1 else f"{words}, weight {float(argument.weight):.4g}"


def _two_cells(expected: str, actual: str, head: str) -> str:
    return f'<td data-head="expected"><pre>{expected}</pre></td><td data-head="{head}"><pre>{actual}</pre></td>'


def _table_row(kind: str, name: str, cells: str, words: str) -> str:
    what = f'<td class="what">{html_text(words)}</td>'
    return f'<tr class="{kind}"><th scope="row">{html_text(name)}</th>\n{cells}\n{what}</tr>'


def _value_or_nothing(value: JsonValue | Absence) -> str:
    return _NOTHING if isinstance(value, Absence) else value_html(value)


def _other(other: phrases.OtherCall) -> Iterator[str]:
    call = other.call
    yield f'<details class="call aside"><summary><span class="badge aside">{other.mark}</span> '
    yield f'<code>{html_text(call.name)}</code> <span class="note">{other.words}</span> '
    yield f'<span class="brief">{html_text(shorten(phrases.arguments_of_call(call), _BRIEF))}</span></summary>'
    if arguments := list(phrases.passed_arguments(call)):
        yield '<div class="wide"><table><thead><tr><th scope="col">argument</th><th scope="col">actual</th></tr>'
        yield "</thead><tbody>"
        for name, value, hidden in arguments:
            shown = f'<span class="none">{hidden}</span>' if hidden else _value_or_nothing(value)
            yield f'<tr class="extra"><th scope="row">{html_text(name)}</th>'
            yield f'<td data-head="actual"><pre>{shown}</pre></td></tr>'
        yield "</tbody></table></div>"
    yield from _facts(call)
    yield "</details>"


def _facts(call: ToolCall) -> Iterator[str]:
    if facts := phrases.call_facts(call):
        yield f'<p class="facts">{html_text(" · ".join(facts))}</p>'


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
    elif not phrases.differences(value, other, casefold=casefold):
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
            yield head + _json(mine), not phrases.may_be_absent(mine)
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
    begin = common_beginning(mine, its)
    end = common_beginning(mine[begin:][::-1], its[begin:][::-1])
    stop = len(value) - end
    yield f'"{_inside(value[:begin])}', False
    yield _inside(value[begin:stop]), True
    yield f'{_inside(value[stop:])}"', False


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(text: str) -> str:
    return _json(text)[1:-1]
