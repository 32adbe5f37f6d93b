"""Lines about one tool call: its score, and what was wrong with which argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.cells import cell_len

from goldspan.collector_processor.replay.hints import CAPTURE_WORDS, WORDS
from goldspan.collector_processor.report.layout import (
    EXTRA,
    MARKS,
    NO_SCORE,
    REFUSED,
    STYLES,
    UNKNOWN,
    Page,
    Part,
    listed,
    score_text,
)
from goldspan.collector_processor.report.values import (
    ABSENT,
    Difference,
    contrast,
    differences,
    one_line,
    printable,
    shorten,
)
from goldspan.scoring.results import ArgumentResult, CallResult, Label, Outcome
from goldspan.scoring.sessions import Capture, JsonValue, ToolCall

CALL_INDENT = 4
_DETAIL_INDENT = CALL_INDENT + 8
_MOST_DIFFERENCES = 4
_WRONG = (Outcome.MISMATCHED, Outcome.MISSING)


def call_lines(page: Page, call: CallResult) -> None:
    """Add an expected call, with its partner, its near miss or nothing."""
    if call.expected is None:
        unexpected_line(page, call)
        return
    label = call.verdict.label
    mark = MARKS[label]
    head: list[Part] = [
        (f"{mark} {score_text(call.verdict.exact)}", STYLES[mark]),
        "  ",
        (printable(call.expected.name), "" if label is Label.PASS else "bold"),
    ]
    note = call_note(call)
    if note:
        head.append((f"  {note}", "" if label is Label.PASS else "yellow" if label is Label.NOT_EVALUATED else "red"))
    right = {a.name: a.expected for a in call.arguments if a.outcome is Outcome.MATCHED}
    if call.missing and call.actual is None:
        right = dict(call.expected.args)
    room = page.width - CALL_INDENT - sum(cell_len(part if isinstance(part, str) else part[0]) for part in head) - 2
    if right and room > 12:
        head.append((f"  {shorten(arguments_text(right), room)}", "dim"))
    page.line(*head, indent=CALL_INDENT)
    argument_lines(page, call)


def argument_lines(page: Page, call: CallResult) -> None:
    """Add what was wrong with each argument, and the names of those that were not asked for."""
    rows = [row for argument in call.arguments for row in _rows(argument, call.actual)]
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
    extra = [printable(name) for name in call.extra_arguments]
    if extra and (call.verdict.label is not Label.PASS or call.missing):
        page.line((f"also passed: {listed(extra)}", "dim"), indent=_DETAIL_INDENT)


def unexpected_line(page: Page, call: CallResult) -> None:
    """Add an actual call that stands for no expected one."""
    if call.actual is not None:
        if call.violates is None:
            _aside(page, EXTRA, call.actual, "not expected")
        else:
            _aside(page, MARKS[Label.FAIL], call.actual, "forbidden, but called")


def rejected_line(page: Page, call: ToolCall) -> None:
    """Add a request that was refused before it was executed."""
    _aside(page, REFUSED, call, "asked for, never executed")


def _aside(page: Page, mark: str, call: ToolCall, what: str) -> None:
    head = f"{mark} {NO_SCORE:^4}"
    name = printable(call.name)
    room = page.width - CALL_INDENT - cell_len(head) - cell_len(name) - cell_len(what) - 6
    text = known_arguments(call)
    page.line(
        (head, STYLES[mark]),
        "  ",
        (name, "bold"),
        (f"  {what}", STYLES[mark]),
        (f"  {shorten(text, room)}" if text and room > 12 else "", "dim"),
        indent=CALL_INDENT,
    )


def known_arguments(call: ToolCall) -> str:
    """Put the call's arguments in text, or in words why they are not known."""
    if call.arguments is None:
        return f"arguments {CAPTURE_WORDS[call.capture]}"
    hidden = call.argument_captures
    shown = {name: value for name, value in call.arguments.items() if name not in hidden}
    words = [f"{printable(name)} {CAPTURE_WORDS[capture]}" for name, capture in hidden.items()]
    return ", ".join(filter(None, [arguments_text(shown), *words]))


def arguments_text(arguments: Mapping[str, JsonValue]) -> str:
    """Put arguments as in `city="Paris", days=3`."""
    return ", ".join(f"{printable(name)}={one_line(value)}" for name, value in arguments.items())


def call_note(call: CallResult) -> str:
    """Say in a few words what is special about an expected call; nothing where its arguments say it all."""
    if call.missing:
        if call.verdict.reason is not None:
            return WORDS[call.verdict.reason]
        if call.actual is None:
            return "never called"
        if any(argument.outcome in _WRONG for argument in call.arguments):
            return "not called; nearest call:"
        if call.actual.error is not None:
            return f"not called; the nearest call failed: {shorten(printable(call.actual.error), 40)}"
        if call.extra_arguments:
            return "not called; the nearest call passed more:"
        if call.actual.arguments is None:
            return f"not called, unless by one with arguments {CAPTURE_WORDS[call.actual.capture]}"
        return "called, but out of order"
    if call.violates is not None:
        return "forbidden, but called"
    if call.optional and call.verdict.label is Label.FAIL:
        return "optional, but wrong"
    if call.actual is not None and call.verdict.label is Label.NOT_EVALUATED and call.actual.arguments is None:
        return f"arguments {CAPTURE_WORDS[call.actual.capture]}"
    if call.actual is not None and call.actual.error is not None:
        return f"(the call failed: {shorten(printable(call.actual.error), 40)})"
    return ""


_Row = tuple[str, str, str, str, str, str]
"""Argument, words before, expected value, words between, actual value, words after."""


def _rows(argument: ArgumentResult, actual: ToolCall | None) -> Iterable[_Row]:
    name = printable(argument.name)
    if argument.outcome is Outcome.MISSING:
        yield name, "expected ", one_line(argument.expected), ", not passed", "", ""
    elif argument.outcome is Outcome.MISMATCHED:
        yield from _mismatch(name, argument)
    elif argument.outcome is Outcome.UNKNOWN and actual is not None and actual.arguments is not None:
        yield name, "expected ", one_line(argument.expected), f", {unknown_words(argument, actual)}", "", ""


def unknown_words(argument: ArgumentResult, actual: ToolCall) -> str:
    """Say why it is not known whether an argument is right."""
    capture = actual.argument_captures.get(argument.name, actual.capture)
    return "depends on a result that is not known" if capture is Capture.CAPTURED else CAPTURE_WORDS[capture]


def _mismatch(name: str, argument: ArgumentResult) -> Iterable[_Row]:
    after = "" if argument.strategy == "exact" else f"  ({argument.strategy}"
    if after:
        after += f" {score_text(argument.exact)})" if argument.exact else ")"
    found: tuple[Difference, ...] = ()
    if argument.strategy in {"exact", "casefold_exact"}:
        found = differences(argument.expected, argument.actual, casefold=argument.strategy == "casefold_exact")
    # Many differences mean another value altogether: then the whole of it says more than its pieces.
    if not found or len(found) > _MOST_DIFFERENCES:
        found = (Difference("", argument.expected, argument.actual),)
    for difference in found:
        path = printable(difference.path)
        place = name + (path if path.startswith("[") or not path else f".{path}")
        if difference.actual is ABSENT:
            yield place, "expected ", one_line(difference.expected), ", not passed", "", after
        elif difference.expected is ABSENT:
            yield place, "not expected", "", ", got ", one_line(difference.actual), after
        else:
            yield place, "expected ", one_line(difference.expected), ", got ", one_line(difference.actual), after


def unknown_mark(call: CallResult) -> bool:
    """Whether all there is to say of the call is that its arguments are unknown."""
    return (
        MARKS[call.verdict.label] == UNKNOWN
        and not call.missing
        and not any(argument.outcome in _WRONG for argument in call.arguments)
    )
