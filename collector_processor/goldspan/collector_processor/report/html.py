"""The report as one HTML file. It loads nothing, and its content security policy forbids it to.

The page stands in `html_report.html` beside this module, with `html_page.html` (what every page has), `html_page.css`
and `html_page.js`. Here is what the page asks for that is more than an attribute of a result. Whatever a template shows
is made printable and escaped, unless it is `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from goldspan.collector_processor.replay.hints import HELP
from goldspan.collector_processor.replay.summary_and_exit_code import RIGHT_CALLS
from goldspan.collector_processor.report.model import Report
from goldspan.scoring import pages
from goldspan.scoring import result_words as phrases
from goldspan.scoring.json_values import is_dict, is_list, plain, pointer_name
from goldspan.scoring.matchers.matcher import ABSENT, Absence, dollar_keys
from goldspan.scoring.ranked_findings import SYSTEMATIC_WORDS, RankedFindings
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult, turn_name
from goldspan.scoring.sessions import JsonValue, ToolCall
from goldspan.scoring.verdict import Label, Reason

LONGEST = 20_000
"""Characters of one value that are shown; the JSON document has all of it."""
_MOST_OPEN = 5  # sessions of one label that are open when the page is; more are folded
_MOST_WITHOUT_GOLDEN = 500  # sessions without golden and without a failure that are shown of one label
_MOST_FILTERS = 100  # mistakes that can be chosen as a filter, the most frequent ones
_ON_ONE_LINE = 48
_CUT = "… cut here; the JSON document has the whole value"
_INDENT = "  "
_OUTCOMES = {
    ArgumentOutcome.MATCHED: "✓ right",
    ArgumentOutcome.MISMATCHED: "✗ differs",
    ArgumentOutcome.MISSING: "✗ not passed",
    ArgumentOutcome.UNKNOWN: "? unknown",
    ArgumentOutcome.IGNORED: "ignored",
}
_WRONG = (ArgumentOutcome.MISMATCHED, ArgumentOutcome.MISSING)
_PASSED = (ArgumentOutcome.MATCHED, ArgumentOutcome.MISMATCHED)
_NOTHING = Markup('<span class="none">—</span>')


def html_report(report: Report) -> str:
    """Return the page."""
    mistakes = _Mistakes((*report.sessions, *report.without_golden))
    return rendered(
        "html_report.html",
        report=report,
        mistakes=mistakes,
        tiles=_tiles(report),
        choices=_choices(report),
        script=_file("html_page.js"),
    )


def rendered(template: str, **context: object) -> str:
    """Return a page made by a template that stands beside this module."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    """Return the templates, with what all of them may ask for."""
    templates = Environment(
        loader=FunctionLoader(lambda name: str(_file(name))),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "digest": _digest,
        "printable": pages.printable,
        "prose": _prose,
        "thousands": "{:,}".format,
        "value": _value_or_nothing,
    }
    given: dict[str, Any] = {
        **{name: words for name, words in vars(pages).items() if not name.startswith("_")},
        "BRIEF": 160,
        "LONG": 2_000,
        "MOST_FINDINGS": 100,
        "MOST_OPEN": _MOST_OPEN,
        "MOST_PLACES": 5,
        "NEVER_SEEN_HELP": HELP[Reason.GOLDEN_NEVER_SEEN],
        "NOTHING": _NOTHING,
        # Rows of the summary that the page shows as numbers and as filters.
        "SHOWN_OTHERWISE": {"sessions", "mistakes", "findings"},
        "SYSTEMATIC_WORDS": SYSTEMATIC_WORDS,
        "argument_rows": _argument_rows,
        "dotted": _dotted,
        "expected_text": _expected_text,
        "grouped": _grouped,
        "never_seen_lines": _never_seen_lines,
        "noted": _noted,
        "phrases": phrases,
        "pointer_name": pointer_name,
        "sides": _sides,
        "style_sheet": _file("html_page.css"),
        "systematic_lines": _systematic_lines,
        "turn_name": turn_name,
        "worth_a_look": _worth_a_look,
    }
    templates.globals.update(given)
    return templates


def _shown(value: object) -> Markup:
    """Return what a template shows of a value: escaped, and whatever in it could not be seen."""
    return value if isinstance(value, Markup) else Markup(escape(pages.printable(str(value))))


def _dotted(*notes: str) -> str:
    return " · ".join(filter(None, notes))


def _file(name: str) -> Markup:
    return Markup((resources.files("goldspan.collector_processor.report") / name).read_text("utf-8"))


def _prose(text: str) -> Markup:
    """Write a sentence of ours, in which `code` stands between backticks."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", escape(pages.printable(text))))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# The sums and the filters.


class _Tiles(NamedTuple):
    labels: Sequence[tuple[str, int]]  # how many sessions have each label: the parts of a bar
    all: Sequence[tuple[str, str, str]]  # class, number and words of each tile


def _tiles(report: Report) -> _Tiles:
    sums = report.totals
    numbers = Counter(sums.sessions) + Counter(sums.judged_without_golden)
    words = pages.LABEL_WORDS | ({Label.PASS: "judged"} if sums.informs else {})
    labels = [(label.value, numbers[label]) for label in pages.WORST_FIRST]
    tiles = [(kind if count else "none", f"{count:,}", words[Label(kind)]) for kind, count in labels]
    if sums.mean is not None:
        tiles.append(("mean", pages.score_text(sums.mean), "mean score"))
    if sums.calls:
        right = sums.calls.get(RIGHT_CALLS, 0)
        tiles.append(("mean", f"{right:,} / {sum(sums.calls.values()):,}", "calls right"))
    return _Tiles(labels, tiles)


def _choices(report: Report) -> list[tuple[str, str, int]]:
    """Return by which labels sessions can be filtered: value, words and count; none where there are no sessions."""
    counts = Counter(session.label for session in (*report.sessions, *report.without_golden))
    words = pages.LABEL_WORDS
    of_labels = [(label.value, words[label].capitalize(), counts[label]) for label in pages.WORST_FIRST]
    return [("", "All", counts.total()), *of_labels] if counts else []


def _systematic_lines(findings: RankedFindings) -> list[str]:
    return [f"{one.name} in {one.share}: {one.settled_by}" for one in findings.systematic]


def _never_seen_lines(report: Report) -> list[str]:
    return [_dotted(one.key, one.golden_set, one.source) for one in report.never_seen]


class _ToolMistakes(NamedTuple):
    name: str
    times: int  # sessions with a mistake of the tool
    id: str
    mistakes: list[phrases.SessionMistake]  # those that can be chosen, the most frequent first


class _Mistakes:
    """The mistakes of all sessions, by tool and argument, each with the class that its sessions have.

    The filters work by style alone, so that the page needs no script for them.
    """

    def __init__(self, sessions: Sequence[phrases.SessionWords]) -> None:
        self.counts = Counter(one.name for session in sessions for one in session.mistakes)
        self._by_tool: dict[str, dict[str, phrases.SessionMistake]] = {}
        for one in (one for session in sessions for one in session.mistakes):
            self._by_tool.setdefault(one.tool, {})[one.name] = one
        of_tool = Counter(tool for one in sessions for tool in dict.fromkeys(mistake.tool for mistake in one.mistakes))
        self._tools = of_tool.most_common()
        self.most = max(of_tool.values(), default=0)
        self.ids = {name: f"m{number}" for number, (name, _) in enumerate(self.counts.most_common(_MOST_FILTERS))}
        """Of the mistakes that can be chosen."""
        self._tool_ids = {tool: f"t{number}" for number, (tool, _) in enumerate(self._tools[:_MOST_FILTERS])}
        self.sessions = sum(bool(session.mistakes) for session in sessions)

    def shown(self) -> Iterator[_ToolMistakes]:
        for tool, count in self._tools:
            known = sorted(self._by_tool[tool].values(), key=lambda one: -self.counts[one.name])
            if mistakes := [one for one in known if one.name in self.ids]:
                yield _ToolMistakes(tool, count, self._tool_ids.get(tool, ""), mistakes)

    def filters(self) -> Iterator[tuple[str, str]]:
        """Yield the id of each choice, and the class of the sessions that stay."""
        yield from ((f"show-{label.value}", label.value) for label in pages.WORST_FIRST)
        yield from ((one, one) for one in (*self.ids.values(), *self._tool_ids.values()))

    def classes(self, sessions: Iterable[phrases.SessionWords]) -> str:
        found = (one for session in sessions for one in session.mistakes)
        names = (name for one in found for name in (self._tool_ids.get(one.tool), self.ids.get(one.name)) if name)
        return "".join(f" {name}" for name in dict.fromkeys(names))

    def most_frequent(self, session: phrases.SessionWords) -> str:
        """Return the mistake of the session that most sessions have; what differs from its golden comes first."""
        differs = [one.name for one in session.mistakes if not one.place]
        names = differs or [one.name for one in session.mistakes]
        return max(names, key=lambda name: self.counts[name], default="")


# Sessions.


def _worth_a_look(sessions: Sequence[phrases.SessionWords]) -> list[phrases.SessionWords]:
    """Leave out sessions without golden that did not fail, of which there may be any number, but for the first."""
    kept: list[phrases.SessionWords] = []
    others = 0
    for session in sessions:
        others += not session.has_golden and not session.failed
        if session.has_golden or session.failed or others <= _MOST_WITHOUT_GOLDEN:
            kept.append(session)
    return kept


def _grouped(
    sessions: Iterable[phrases.SessionWords], label: Label, mistakes: _Mistakes
) -> list[tuple[str, list[phrases.SessionWords]]]:
    """Return the sessions by what they have in common: failed ones first, then the largest groups."""
    groups: dict[str, list[phrases.SessionWords]] = {}
    for session in sessions:
        groups.setdefault(_cause(session, label, mistakes), []).append(session)
    return sorted(groups.items(), key=lambda item: (not item[1][0].failed, -len(item[1])))


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


def _sides(session: SessionResult, turn: TurnResult) -> tuple[list[tuple[str, str]], ...]:
    """Return the calls that a preset compared, expected and made: their tools and arguments."""
    return (
        [(call.name, phrases.arguments_text(call.args)) for call in phrases.expected_calls(session, turn)],
        [(call.name, phrases.arguments_of_call(call)) for call in phrases.made_calls(turn)],
    )


# Calls and their arguments.


def _noted(call: CallResult) -> str:
    return "; ".join(filter(None, (phrases.call_note(call).rstrip(":"), phrases.call_hint(call))))


def _expected_text(call: CallResult) -> str:
    expected = {one.name: one.expected_value for one in call.arguments}
    return phrases.arguments_text(expected | phrases.not_compared(call))


class _ArgumentRow(NamedTuple):
    kind: str
    name: str
    expected: Markup
    actual: Markup
    words: str
    is_one: bool = False  # both sides are the same


def _argument_rows(call: CallResult) -> Iterator[_ArgumentRow]:
    """Yield the rows of a call's arguments: what was wrong, what was never passed, and all others."""
    made = call.actual
    arguments = sorted(call.arguments, key=lambda one: one.outcome not in _WRONG)
    wrong = [one for one in arguments if one.outcome in _WRONG]
    yield from (_argument_row(one, made) for one in wrong)
    for name, value in phrases.not_compared(call).items():
        yield _ArgumentRow("missing", name, value_html(value), _NOTHING, "✗ never called" if call.missing else "")
    yield from (_argument_row(one, made) for one in arguments[len(wrong) :])
    passed = {} if made is None else made.arguments or {}
    for name in call.extra_arguments:
        yield _ArgumentRow("extra", name, _NOTHING, _value_or_nothing(passed.get(name, ABSENT)), "not expected")


def _argument_row(argument: ArgumentResult, made: ToolCall | None) -> _ArgumentRow:
    value: JsonValue | Absence = argument.actual_value if argument.outcome in _PASSED else ABSENT
    left_out = made is not None and made.arguments is not None and argument.name not in made.arguments
    if argument.outcome is ArgumentOutcome.MATCHED and argument.actual_value is None and left_out:
        value = ABSENT
    expected, actual = value_html(argument.expected_value), _value_or_nothing(value)
    if argument.outcome is ArgumentOutcome.MISMATCHED:
        casefold = argument.strategy == "casefold_exact"
        expected, actual = side_by_side(argument.expected_value, argument.actual_value, casefold=casefold)
    if unknown := phrases.why_unknown(argument, made):
        actual = Markup('<span class="none">{}</span>').format(pages.printable(unknown))
    is_one = argument.outcome is ArgumentOutcome.MATCHED and expected == actual
    words = "; ".join(filter(None, (_outcome_words(argument, made), argument.hint)))
    return _ArgumentRow(argument.outcome, argument.name, expected, actual, words, is_one)


def _outcome_words(argument: ArgumentResult, made: ToolCall | None) -> str:
    if argument.outcome is ArgumentOutcome.UNKNOWN and made is None:
        return "? never called"
    words = _OUTCOMES[argument.outcome]
    if argument.exact is not None and argument.exact.denominator != 1:
        words += f" {pages.score_text(argument.exact)}"
    if argument.strategy != "exact" and argument.outcome in _PASSED:
        words += f" ({argument.strategy})"
    return words if argument.weight == 1 else f"{words}, weight {float(argument.weight):.4g}"


def _value_or_nothing(value: JsonValue | Absence) -> Markup:
    return _NOTHING if isinstance(value, Absence) else value_html(value)


# Values as JSON, with what differs between two of them marked.

_Part = tuple[str, bool]  # text, and whether it is marked


def value_html(value: JsonValue) -> Markup:
    """Write one value as JSON: short ones on one line."""
    value = plain(value)
    return _html(_parts(value, value, "", casefold=False))


def side_by_side(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[Markup, Markup]:
    """Write both values as JSON, each with the innermost parts marked in which it differs from the other."""
    expected, actual = plain(expected), plain(actual)
    return (
        _html(_parts(expected, actual, "", casefold=casefold)),
        _html(_parts(actual, expected, "", casefold=casefold)),
    )


def _html(parts: Iterable[_Part]) -> Markup:
    room = LONGEST
    pieces: list[str] = []
    for text, marked in parts:
        # What holds a line break is layout: JSON writes those of a text as an escape.
        shown = escape(text) if "\n" in text else escape(pages.printable(text[:room]))
        pieces.append(f"<mark>{shown}</mark>" if marked and shown else shown)
        room -= len(text)
        if room < 0:
            pieces.append(f'<span class="none"> {_CUT}</span>')
            break
    return Markup("".join(pieces))


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
    begin = pages.common_beginning(mine, its)
    end = pages.common_beginning(mine[begin:][::-1], its[begin:][::-1])
    stop = len(value) - end
    yield f'"{_inside(value[:begin])}', False
    yield _inside(value[begin:stop]), True
    yield f'{_inside(value[stop:])}"', False


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(text: str) -> str:
    return _json(text)[1:-1]
