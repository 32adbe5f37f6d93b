"""A result in words, once: the phrases of every report, and of `str(result)`.

Each phrase comes from the result alone: the mistake that a difference is, the notes of a session, a turn or a call,
why something is not known. `result_lines.py` puts them into lines, and the HTML report into tables. Explanations in
telemetry, one line each without values, are in `results.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple, cast

from msgspec import Struct

from goldspan.scoring import pages, verdict
from goldspan.scoring.comparison import equal
from goldspan.scoring.goldens.documents import ValuePath, path_text
from goldspan.scoring.goldens.golden import ExpectedCall, GoldenTurn, key_of, keys_of
from goldspan.scoring.json_values import is_mapping, is_sequence, plain, pointer_name, shown_name
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.matchers.matcher import ABSENT, Absence, dollar_keys
from goldspan.scoring.matchers.reading import matches
from goldspan.scoring.results import (
    REPEATED,
    ArgumentOutcome,
    ArgumentResult,
    CallResult,
    SessionResult,
    TurnResult,
    explain,
)
from goldspan.scoring.sessions import Capture, Doubt, JsonValue, ToolCall, Turn

CAPTURE_WORDS: dict[Capture, str] = {
    Capture.CAPTURED: "captured",
    Capture.NOT_CAPTURED: "not captured",
    Capture.REDACTED: "redacted",
    Capture.TRUNCATED: "cut off by a length limit",
    Capture.UNPARSABLE: "not readable",
}
GROUNDING = "tool_parameter_grounding"
MISSING_INPUT = {
    "tool_parameter_schema": "no definition of the tool",
    GROUNDING: "nothing said before the call was captured",
}
"""What `input_missing` means for metrics that need no golden."""
_NOT_EXPECTED, _FORBIDDEN = "not expected", "forbidden, but called"
_MOST_DIFFERENCES = 4
_LONGEST_KEY = 60  # cells of what a user said, where it is the key of a golden
_LONGEST_ERROR = 40  # cells of an error in the note of a call; its facts have all of it


def _words(what: str) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", texts_beside("goldspan.scoring", "result_words.toml")[what])


# What went wrong, one thing at a time.


class SessionMistake(Struct, frozen=True, gc=False):
    """One way in which a session differs from its golden, which lowers its score; or what a metric found in a call."""

    name: str
    """Without values, as in the summary: `get_weather.days`, `send_email.to (not passed)`."""
    tool: str
    """Empty where a whole turn is meant."""
    argument: str
    """Empty where a whole call or turn is meant."""
    words: str
    """`not passed`, `not called`; empty for an argument with another value."""
    detail: str
    """What was expected and found, or what may be the cause."""
    turn: str
    place: str = ""
    """Tool and place in the arguments, where a metric that needs no golden found it; `detail` is then a sentence."""

    def __str__(self) -> str:
        """Write it with its values: `convert.unit (expected "F", found "K")`."""
        if self.place:
            return f"{self.place}: {self.detail}"
        name = ".".join(filter(None, (self.tool, self.argument))) or self.turn
        return f"{name} ({'; '.join(filter(None, (self.words, self.detail)))})"

    @property
    def line(self) -> str:
        """The same, after the name of its turn."""
        return f"{self.turn}: {self}" if self.tool else str(self)


def mistakes_of(result: SessionResult) -> tuple[SessionMistake, ...]:
    """Return what lowers the score of a session, each once, what explains most first; then what metrics found."""
    found: dict[str, SessionMistake] = {}
    for one in result.differences:
        if one.lowers_score:
            found.setdefault(mistake_name(one), _mistake(one))
    by_metrics: dict[str, SessionMistake] = {}
    for metric in result.metrics:
        for turn, call in judged_calls(metric) if metric.label is verdict.Label.FAIL else ():
            for finding in call.failures:
                by_metrics.setdefault(finding_name(call, finding), found_mistake(turn, call, finding))
    return (*found.values(), *by_metrics.values())


def mistake_name(difference: verdict.Difference) -> str:
    """Return the name of a mistake, without values: `get_weather.days`, `send_email.to (not passed)`."""
    words = "" if difference.kind is verdict.DifferenceKind.WRONG_ARGUMENT else f" ({difference.words})"
    return pages.printable(f"{difference.name}{words}")


def _mistake(one: verdict.Difference) -> SessionMistake:
    wrong = one.kind is verdict.DifferenceKind.WRONG_ARGUMENT
    detail = [verdict.value_differences(one.expected, one.actual, one.parts)] if wrong else []
    return SessionMistake(
        name=mistake_name(one),
        tool=pages.printable(shown_name(one.tool)) if one.tool else "",
        argument=pages.printable(shown_name(one.argument)) if one.argument else "",
        words="" if wrong else one.words,
        detail=pages.printable("; ".join(filter(None, [*detail, one.hint]))),
        turn=pages.printable(one.turn),
    )


def kind_words(finding: verdict.Finding) -> str:
    """Return the kind of a finding in a few words; a metric of one's own has its own words."""
    return _words("kinds").get(finding.kind) or finding.kind.replace("_", " ")


def finding_name(call: verdict.MetricCall, finding: verdict.Finding) -> str:
    """Return the name of what a metric found, without values: `book_table.when (no origin)`."""
    name = ".".join(filter(None, (call.call.name, _argument_of(finding))))
    return pages.printable(f"{name} ({kind_words(finding)})")


def found_mistake(turn: int, call: verdict.MetricCall, finding: verdict.Finding) -> SessionMistake:
    """Return what a metric found in a call of a turn, whose number is from 0."""
    return SessionMistake(
        name=finding_name(call, finding),
        tool=pages.printable(shown_name(call.call.name)),
        argument=pages.printable(_argument_of(finding)),
        words=kind_words(finding),
        detail=pages.printable(finding.words(include_values=True)),
        turn=f"turn {turn + 1}",
        place=pages.printable(".".join(filter(None, (call.call.name, pointer_name(finding.path))))),
    )


def _argument_of(finding: verdict.Finding) -> str:
    return pointer_name("/".join(finding.path.split("/")[:2]))


# Metrics.


def judged_calls(metric: verdict.MetricResult) -> Iterator[tuple[int, verdict.MetricCall]]:
    """Yield the calls that a metric without golden judged, each after the number of its turn, from 0."""
    if not metric.needs_golden:
        for place, turn in enumerate(metric.turns):
            index = place if turn.turn_index is None else turn.turn_index
            yield from ((index, call) for call in turn.calls)


def reason_words(metric: str, reason: verdict.Reason) -> str:
    """Return why a metric that needs no golden has no score: of the own ones, what they lack."""
    if reason is verdict.Reason.NOTHING_EXPECTED:
        return "nothing to judge"
    lacks = MISSING_INPUT.get(metric) if reason is verdict.Reason.INPUT_MISSING else None
    return lacks or verdict.REASON_TEXT[reason]


def metric_reason(result: verdict.MetricResult) -> str:
    """Return why a metric has no score; empty if it has one."""
    if result.reason is None:
        return ""
    return verdict.REASON_TEXT[result.reason] if result.needs_golden else reason_words(result.name, result.reason)


def metric_words(result: verdict.MetricResult, *, needs: bool = False) -> str:
    """Return why a metric has no score, what it `needs` if that is asked for, and what it says of its score."""
    threshold = result.threshold if needs and result.label is not verdict.Label.PASS else None
    known = [call for _, call in judged_calls(result) if call.verdict.exact is not None]
    # What was found in calls is shown with them.
    right = f"{sum(not call.failures for call in known)} of {pages.counted(len(known), 'call')} right" if known else ""
    below = "" if threshold is None else f"needs {pages.number_text(threshold)}"
    said = pages.printable(result.verdict.explanation)
    if result.reason is not None and said == verdict.REASON_TEXT[result.reason]:
        said = ""
    return "; ".join(filter(None, (metric_reason(result), below, right or said)))


def is_broken(metric: verdict.MetricResult) -> bool:
    """Whether a metric failed, or has a threshold and no score though it should."""
    lost = metric.label is verdict.Label.NOT_EVALUATED and metric.threshold is not None and metric.needs_golden
    return metric.label is verdict.Label.FAIL or lost


# Sessions.


class SessionWords(Struct, frozen=True, gc=False):
    """One run of a session, with what is said of it in more than one place."""

    result: SessionResult
    name: str
    """The id and, where there are several runs, which one it is."""
    has_golden: bool
    label: verdict.Label
    """Without a golden, what its metrics say."""
    failed: bool
    """Whether it failed, or one of its metrics did."""
    reason: str
    reason_code: str
    mistakes: tuple[SessionMistake, ...]
    """Each one once, the one that explains most first."""
    run: int = 1
    """Which run of the session id this is, from 1."""
    runs: int = 1
    helps: str = ""
    """What may help where it was not evaluated."""

    @classmethod
    def of(cls, result: SessionResult, name: str = "", run: tuple[int, int] = (1, 1), helps: str = "") -> SessionWords:
        """Put a result in words. Its name is that of its session or golden where none is given."""
        has_golden = result.has_golden
        label, reason = result.label, result.reason
        words = "" if reason is None else verdict.REASON_TEXT[reason]
        if not has_golden and result.metrics:
            label = result.label_of_metrics
            found = ((reason_words(one.name, one.reason), one.reason) for one in result.metrics if one.reason)
            words, reason = next(found, ("nothing to judge", verdict.Reason.NOTHING_EXPECTED))
            if label is not verdict.Label.NOT_EVALUATED:
                words, reason = "", None
        return cls(
            result=result,
            name=name or session_name(result),
            has_golden=has_golden,
            label=label,
            failed=result.failed,
            reason=words,
            reason_code=reason or "",
            mistakes=mistakes_of(result),
            run=run[0],
            runs=run[1],
            helps=helps,
        )

    @property
    def score(self) -> Fraction | None:
        """The exact score."""
        return self.result.verdict.exact

    @property
    def first_difference(self) -> str:
        """The mistake that explains most, with its values, on one line; empty where there is none."""
        return str(self.mistakes[0]) if self.mistakes else ""

    @property
    def first_line(self) -> str:
        """The same, after the name of its turn."""
        return self.mistakes[0].line if self.mistakes else ""

    @property
    def explanation(self) -> str:
        """The explanation without values; of a session without golden, the scores of its metrics."""
        if self.has_golden or not self.result.metrics:
            return pages.printable(explain(self.result))
        return "; ".join(
            f"{pages.printable(one.name)} {pages.number_text(one.verdict.exact)}" for one in self.result.metrics
        )


def session_name(result: SessionResult) -> str:
    """Return the name of a session as it can be printed: its id, else the name of its golden."""
    name = shown_name(result.name) if result.name else "without id"
    return f"{name} (session id used again)" if result.session is not None and result.session.used_again else name


def session_notes(result: SessionResult) -> str:
    """Say what is special about a session, in a few words."""
    return pages.printable(" · ".join(filter(None, (*_score_notes(result), *_source_notes(result)))))


def _score_notes(result: SessionResult) -> Iterator[str]:
    golden = result.golden
    if result.preset is not None:
        yield f"scored by {result.preset}"
    elif result.label is verdict.Label.FAIL and golden is not None and golden.criterion.threshold < 1:
        yield f"needs {pages.score_text(float(golden.criterion.threshold))}"
    others = [call.tool for turn in result.turns for call in turn.unpaired_calls]
    if others and result.label is verdict.Label.PASS:
        yield f"{_NOT_EXPECTED}: {pages.listed(others, 3)}"
    if result.calls_evaluated < result.calls_expected:
        yield f"{result.calls_evaluated} of {pages.counted(result.calls_expected, 'call')} evaluated"


def _source_notes(result: SessionResult) -> Iterator[str]:
    golden, session = result.golden, result.session
    if session is None:
        return
    if golden is not None and golden.key != session.id:
        yield f"golden {pages.shorten(golden.key, _LONGEST_KEY) if golden.first_user_text else golden.key}"
    if any(turn.turn is not None and user_text_note(result, turn) for turn in result.turns):
        yield "other user text"
    if session.id_source == "trace_id":
        yield "no session id, named after its trace"
    if session.incomplete:
        yield "incomplete"
    if doubted := dict.fromkeys(doubt.fact.value for turn in session.turns for doubt in turn.doubts):
        yield f"in doubt: {', '.join(doubted)}"


def session_facts(session: SessionWords) -> Iterator[str]:
    """Yield what a session was scored by, and where it comes from."""
    result = session.result
    if session.has_golden:
        yield explain(result)
        yield f"metric {result.metric}"
        yield from [f"criterion {result.criterion}"] if result.criterion else []
        if result.golden is not None:
            yield f"golden set {result.golden.golden_set}"
            yield from [result.golden.source] if result.golden.source else []
    if result.session is not None:
        yield f"session id from {result.session.id_source}"
        if session.has_golden and result.session.run:
            yield f"run {result.session.run}"


# Doubts: what a turn was read as, and what its telemetry says.

_MOST_NAMES = 4


def doubt_sides(doubt: Doubt) -> tuple[str, str]:
    """Return what was read, and what the telemetry says against it."""
    names = pages.listed(map(shown_name, doubt.names), _MOST_NAMES)
    read, told = _words("doubts")[doubt.code]
    return pages.printable(read.format(names=names)), pages.printable(told.format(names=names))


def doubt_words(doubt: Doubt) -> str:
    """Write a doubt as a sentence."""
    return f"in doubt ({doubt.fact}): {', but '.join(doubt_sides(doubt))}"


def doubt_document(doubt: Doubt) -> dict[str, JsonValue]:
    """Return a doubt as plain JSON values."""
    read, told = doubt_sides(doubt)
    spans = [span._asdict() for span in doubt.spans]
    names = [plain(name) for name in doubt.names]
    facts = {"code": doubt.code, "fact": doubt.fact.value, "dialect": doubt.dialect, "names": names}
    return {**facts, "read": read, "telemetry": told, "spans": spans}


# Turns.


def turn_reason(turn: TurnResult) -> str:
    """Return why a turn was not evaluated, or that it never happened."""
    if turn.reason is not None:
        return verdict.REASON_TEXT[turn.reason]
    return "never happened" if turn.turn is None else ""


def said_in(turn: TurnResult) -> str:
    """Return what the user said in a turn, on one line; empty where it is not known."""
    text = None if turn.turn is None else turn.turn.user_text.value
    return pages.printable(" ".join(text.split())) if isinstance(text, str) else ""


def expected_calls(session: SessionResult, turn: TurnResult) -> Sequence[ExpectedCall]:
    """Return what the golden expects of a turn; of all turns, where they were judged as one."""
    golden = session.golden
    if golden is None:
        return ()
    if session.as_one or turn.expected_index is None:
        return golden.calls or [call for one in golden.turns for call in one.calls]
    return golden.turns[turn.expected_index].calls


class OtherCall(NamedTuple):
    """A call that no expected one stands for, or a request that was refused."""

    mark: str
    words: str
    call: ToolCall


def made_calls(turn: TurnResult) -> list[ToolCall]:
    """Return the calls of a turn that were made, whatever the golden expects."""
    return [] if turn.turn is None else [call for call in turn.turn.calls if not call.rejected]


def other_calls(turn: TurnResult) -> Iterator[OtherCall]:
    """Yield calls that were forbidden, not expected or refused, in this order.

    A call that a missing call names as its nearest is told with that call.
    """
    forbidden = [call for call in turn.unexpected_calls if call.violates is not None]
    others = [call for call in turn.unpaired_calls if call.violates is None]
    for call in (*forbidden, *others):
        if call.actual is not None:
            words = REPEATED if call.repeats else _FORBIDDEN
            mark, words = (pages.UNEXPECTED, _NOT_EXPECTED) if call.violates is None else (pages.WRONG, words)
            yield OtherCall(mark, words, call.actual)
    for request in turn.rejected:
        yield OtherCall(pages.REJECTED, "requested, never executed", request)


def can_compare_calls(turn: TurnResult) -> bool:
    """Whether the calls of a turn can be compared one by one."""
    unknown = {verdict.Reason.TURN_NOT_EXPECTED, verdict.Reason.CALLS_NOT_VISIBLE, verdict.Reason.READING_DOUBTFUL}
    return turn.turn is not None and turn.reason not in unknown


def preset_lines(turn: TurnResult) -> tuple[str, ...]:
    """Return what a preset answered about a turn: its status, and its explanation."""
    answer = turn.answer
    if answer is None:
        return ()
    status = f"status {answer.status}" if answer.status else ""
    return tuple(pages.printable(text) for text in (status, answer.words) if text)


# Calls as they were made.


def hidden_words(call: ToolCall) -> str:
    """Say why the arguments of a call are not known; empty where they are."""
    return f"arguments {CAPTURE_WORDS[call.capture]}" if call.arguments is None else ""


def passed_arguments(call: ToolCall) -> Iterator[tuple[str, JsonValue | Absence, str]]:
    """Yield the name and the value of each argument, and why the value is not known."""
    hidden = {name: CAPTURE_WORDS[capture] for name, capture in call.argument_captures.items()}
    passed = call.arguments or {}
    for name in (*(name for name in passed if name not in hidden), *hidden):
        yield pages.printable(name), ABSENT if name in hidden else passed[name], hidden.get(name, "")


def arguments_of_call(call: ToolCall) -> str:
    """Write the arguments of a call, or why they are not known."""
    if call.arguments is None:
        return hidden_words(call)
    arguments = list(passed_arguments(call))
    known = {name: value for name, value, hidden in arguments if not hidden and not isinstance(value, Absence)}
    return ", ".join(
        filter(None, [arguments_text(known), *(f"{name} {words}" for name, _, words in arguments if words)])
    )


def call_facts(call: ToolCall) -> tuple[str, ...]:
    """Return what is known of a call beside its arguments: error, id and span."""
    facts = [f"failed: {call.error}"] if call.error is not None else []
    facts += [f"call id {call.call_id}"] if call.call_id else []
    facts += [f"trace {call.span.trace_id}, span {call.span.span_id}"] if call.span else []
    facts += ["requested; no execution of it was seen"] if call.requested and not call.rejected else []
    return tuple(map(pages.printable, facts))


# Expected calls and their arguments.


def call_note(call: CallResult) -> str:
    """Say in a few words what is special about an expected call; ends with a colon where its arguments say the rest."""
    made = call.actual
    hidden = "" if made is None else hidden_words(made)
    failed = "" if made is None or made.error is None else pages.shorten(pages.printable(made.error), _LONGEST_ERROR)
    if call.missing:
        cases = (
            (call.reason is not None, verdict.REASON_TEXT.get(call.reason or verdict.Reason.NOTHING_EXPECTED, "")),
            (call.actual is None, "never called"),
            (call.other_agent, f"called by the agent {call.other_agent}"),
            (call.wrong_status, "called, but it failed" if failed else "called, but it did not fail"),
            (call.out_of_order, "called, but out of order"),
            (call.has_wrong_arguments, "called, but not as expected:"),
            (failed, f"not called; the nearest call failed: {failed}"),
            (hidden, f"not called, or called with {hidden}"),
        )
        return next((words for holds, words in cases if holds), "not called")
    if call.violates is not None:
        return _FORBIDDEN
    if call.optional and call.label is verdict.Label.FAIL:
        return "optional, but wrong"
    if call.label is verdict.Label.NOT_EVALUATED and hidden:
        return hidden
    return f"(the call failed: {failed})" if failed else ""


def only_unknown(call: CallResult) -> bool:
    """Whether all there is to say of a call is that its arguments are not known."""
    return call.label is verdict.Label.NOT_EVALUATED and not call.missing and not call.has_wrong_arguments


def call_hint(call: CallResult) -> str:
    """Return what may be the cause of a call that was never made, if something suggests it."""
    return pages.printable(next((one.hint for one in call.differences if call.actual is None), ""))


def not_compared(call: CallResult) -> dict[str, JsonValue]:
    """Return the expected arguments that were compared with nothing."""
    compared = {argument.name for argument in call.arguments}
    expected: Mapping[str, JsonValue] = {} if call.expected is None else call.expected.args
    return {name: value for name, value in expected.items() if name not in compared}


def why_unknown(argument: ArgumentResult, made: ToolCall | None) -> str:
    """Return why the value that was passed for an argument is not known; empty where it is."""
    if argument.outcome is not ArgumentOutcome.UNKNOWN or made is None:
        return ""
    capture = made.argument_captures.get(argument.name, made.capture)
    return "depends on a result that is not known" if capture is Capture.CAPTURED else CAPTURE_WORDS[capture]


# Values, and the innermost places where two of them differ.

_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """The innermost place where two values part, as in `address.zip` or `stops[2]`."""

    path: str
    expected: JsonValue | Absence
    """`ABSENT` where there is nothing, which is not JSON's null."""
    actual: JsonValue | Absence


def user_text_differs(expected: GoldenTurn, actual: Turn) -> bool:
    """Whether a turn was joined by its position alone, since the user said something else than the golden has."""
    key, keys = key_of(expected), keys_of(actual)
    return key is not None and key[0] == "user text" and key not in keys and any(kind == key[0] for kind, _ in keys)


_LIKE = 0.6  # the share of two texts of the user that is the same in texts that are nearly one


def user_text_note(session: SessionResult | None, turn: TurnResult) -> str:
    """Say that the user's text is another one than the golden of a session has for a turn; nothing if it is the same.

    For a turn that was not found: which of the turns without a place in the golden has nearly its text.
    """
    golden = None if session is None else session.golden
    if session is None or golden is None or turn.expected_index is None or not golden.turns:
        return ""
    expected = golden.turns[turn.expected_index]
    if turn.turn is not None:
        differs = user_text_differs(expected, turn.turn)
        return f"the user text differs; the golden has {one_line(expected.user)}" if differs else ""
    others = [one.turn.user_text.value for one in session.turns if one.turn is not None and one.expected_index is None]
    texts = [one for one in others if isinstance(one, str)]
    nearest = get_close_matches(expected.user, texts, 1, _LIKE) if expected.user else []
    return f"no turn has the user text {one_line(expected.user)}; nearest: {one_line(nearest[0])}" if nearest else ""


def one_line(value: JsonValue) -> str:
    """Write the value as JSON on one line."""
    return pages.printable(json.dumps(plain(value), ensure_ascii=False))


def arguments_text(arguments: Mapping[str, JsonValue]) -> str:
    """Write arguments as in `city="Paris", days=3`."""
    return ", ".join(f"{pages.printable(name)}={one_line(value)}" for name, value in arguments.items())


def differences(expected: JsonValue, actual: JsonValue, *, casefold: bool = False) -> tuple[ValueDifference, ...]:
    """Find the innermost places where two JSON values differ; none where they are equal."""
    return tuple(
        ValueDifference(path_text(path), mine, its)
        for path, mine, its in innermost_parts(expected, actual, depth=_DEEPEST)
        if not _same(mine, its, casefold=casefold)
    )


def innermost_parts(
    expected: Any, actual: Any, path: ValuePath = (), depth: float = inf
) -> Iterator[tuple[ValuePath, Any, Any]]:
    """Yield the innermost parts of two values beside each other, with their paths; `ABSENT` where there is nothing.

    A matcher is one part, and so are lists of different lengths, and what is deeper than `depth`.
    """
    parts: Sequence[tuple[str | int, Any, Any]] = ()
    is_whole = not depth or dollar_keys(expected) or dollar_keys(actual)
    if not is_whole and is_mapping(expected) and is_mapping(actual):
        parts = [(key, expected.get(key, ABSENT), actual.get(key, ABSENT)) for key in {**expected, **actual}]
    elif not is_whole and is_sequence(expected) and is_sequence(actual) and len(expected) == len(actual):
        parts = [(index, *pair) for index, pair in enumerate(zip(expected, actual, strict=True))]
    if not parts:
        yield path, expected, actual
    for step, mine, its in parts:
        yield from innermost_parts(mine, its, (*path, step), depth - 1)


def may_be_absent(expected: JsonValue) -> bool:
    """Whether an expected value is a matcher that is satisfied where there is nothing."""
    return bool(dollar_keys(expected)) and matches(expected, ABSENT)


def _same(expected: Any, actual: Any, *, casefold: bool) -> bool:
    for value, other in ((expected, actual), (actual, expected)):
        if dollar_keys(value) and matches(value, other, casefold=casefold):
            return True
    return equal(expected, actual, casefold=casefold)


def value_parts(argument: ArgumentResult) -> tuple[ValueDifference, ...]:
    """Return where the two values of an argument differ.

    Many differences mean another value altogether: then the whole of it says more than its pieces.
    """
    expected, actual = argument.expected_value, argument.actual_value
    found: tuple[ValueDifference, ...] = ()
    if argument.strategy in {"exact", "casefold_exact"}:
        found = differences(expected, actual, casefold=argument.strategy == "casefold_exact")
    if not found or len(found) > _MOST_DIFFERENCES:
        return (ValueDifference("", expected, actual),)
    return found
