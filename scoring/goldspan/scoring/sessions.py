"""What a mapper yields and a metric reads: sessions of turns of tool calls.

Everything here is a frozen value. Times are nanoseconds since the epoch, as in OTLP; 0 means unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, StructMeta, field
from msgspec.structs import replace

from goldspan.scoring import json_values

JsonValue = json_values.JsonValue


class Capture(StrEnum):
    """How recorded content was captured. Content that was not captured is unknown, not empty."""

    CAPTURED = "captured"
    NOT_CAPTURED = "not_captured"
    REDACTED = "redacted"
    TRUNCATED = "truncated"
    UNPARSABLE = "unparsable"


class SpanRef(NamedTuple):
    """A span by its ids, lower-case hex as in OTLP/JSON."""

    trace_id: str
    span_id: str


class Content(Struct, frozen=True, gc=False, omit_defaults=True):
    """Recorded content as it was written, and how it was captured; decoded on use."""

    raw: object = None
    """The attribute's value: most often JSON text, sometimes a decoded value, `None` unless something was recorded."""
    capture: Capture = Capture.NOT_CAPTURED

    @property
    def value(self) -> JsonValue:
        """The decoded value: JSON text is parsed, other text stays text; `None` unless captured."""
        if self.capture is not Capture.CAPTURED:
            return None
        if not isinstance(self.raw, str):
            return self.raw
        try:
            return json_values.loads(self.raw)
        except (ValueError, RecursionError):
            return self.raw


NO_CONTENT = Content()


class _TakesArgs(StructMeta):
    """Accepts `args=` for `arguments=`, the name in golden files and in ADK."""

    if not TYPE_CHECKING:  # type checkers know `arguments`

        def __call__(cls, *values, **named):  # noqa: N805 - a metaclass
            if "args" in named:
                if "arguments" in named or len(values) > 1:
                    raise TypeError("found `args` and `arguments`, which mean the same: leave one")
                named["arguments"] = named.pop("args")
            return super().__call__(*values, **named)


class ToolCall(Struct, frozen=True, gc=False, metaclass=_TakesArgs):
    """One execution of a tool, or a request for one that was never seen to be executed.

    `ToolCall("get_weather", {"city": "Paris"})` is enough to score with; a mapper fills in the rest.
    """

    name: str
    arguments: Mapping[str, JsonValue] | None = field(default_factory=dict[str, Any])
    """By parameter name; `None` exactly where `capture` is not `captured`."""
    capture: Capture = Capture.CAPTURED
    argument_captures: Mapping[str, Capture] = field(default_factory=dict[str, Capture])
    """Single arguments whose value is hidden, by name: they are present in `arguments`, but not to be believed."""
    call_id: str | None = None
    start: int = 0
    end: int = 0
    error: str | None = None
    """Why the call failed: the recorded `error.type`, status message or `error`; `None` if it did not fail."""
    requested: bool = False
    """A model requested the call, and no execution was seen."""
    rejected: bool = False
    """A request that was refused, invalid or denied: its tool was executed in this turn, but not for this request."""
    batch: int = 0
    """Calls of a turn with the same number are parallel calls: their order does not matter. 0: no batch."""
    span: SpanRef | None = None
    """The outermost span of the execution, which carries the results."""
    evidence: tuple[SpanRef, ...] = ()
    """Every span the call was read from."""
    dialect: str = ""
    agent: str | None = None
    result: Content = NO_CONTENT
    raw_arguments: Content = NO_CONTENT
    response_id: str | None = None
    """The id of the model's response that requested the call, where its span names one."""
    tool_definitions: Content = NO_CONTENT
    """What the model that requested it was given, where that is not what its turn has."""
    alias: str = ""
    """The tool's name in its trace, where the golden has another one."""

    @property
    def args(self) -> Mapping[str, JsonValue] | None:
        """The same as `arguments`."""
        return self.arguments


class UserMessages(NamedTuple):
    """How many user messages are in a model's input; what tools answered does not count."""

    earlier: int
    """Before the model's own last message."""
    total: int


class DoubtedFact(StrEnum):
    """What of a reading is in doubt."""

    CALLS = "calls"
    TURNS = "turns"
    ARGUMENTS = "arguments"
    BATCH = "batch"
    FAILURE = "failure"
    SESSION = "session"


_OF_CALLS = frozenset({DoubtedFact.CALLS, DoubtedFact.ARGUMENTS})
_OF_TURN = _OF_CALLS | {DoubtedFact.TURNS}


class Doubt(Struct, frozen=True, gc=False, order=True):
    """A contradiction between how a turn was read and what its own telemetry says. It never says which is right."""

    code: str
    """Which contradiction it is, one of a closed list."""
    fact: DoubtedFact
    spans: tuple[SpanRef, ...] = ()
    """Those that say otherwise."""
    names: tuple[str, ...] = ()
    """The tools, or the attribute, that it is about."""
    dialect: str = ""
    """The dialect that read these spans."""


class Turn(Struct, frozen=True, gc=False):
    """One invocation of the outermost agent: from a user message to the answer."""

    calls: tuple[ToolCall, ...] = ()
    """In the order they were asked for; rejected requests are among them."""
    root: SpanRef | None = None
    trace_ids: tuple[str, ...] = ()
    turn_id: str | None = None
    """The dialect's own id of the turn, such as ADK's invocation id."""
    turn_number: int | None = None
    """The dialect's own number of the turn in its session, from 1."""
    user_messages: tuple[UserMessages, ...] = ()
    """In the input of its first model call, and of those later ones that end with a user message."""
    start: int = 0
    end: int = 0
    agent: str | None = None
    calls_visible: bool = True
    """False where tools may have run and no span shows it: "no calls" must not be concluded."""
    user_text: Content = NO_CONTENT
    answer: Content = NO_CONTENT
    messages: Content = NO_CONTENT
    tool_definitions: Content = NO_CONTENT
    """The first list of tools that one of its agents or models was given."""
    more_definitions: tuple[Content, ...] = ()
    """The other lists, each once."""
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Its calls, their arguments, or where it begins and ends are in doubt, so that it cannot be evaluated."""
        return any(doubt.fact in _OF_TURN for doubt in self.doubts)

    @property
    def has_doubtful_calls(self) -> bool:
        """Its calls or their arguments are in doubt, so that nothing can be said of them."""
        return any(doubt.fact in _OF_CALLS for doubt in self.doubts)


class Session(Struct, frozen=True, gc=False):
    """The turns that share a session id, in one run."""

    id: str
    turns: tuple[Turn, ...] = ()
    id_source: str = "given"
    """The attribute the id was read from, `trace_id` where none had it, or `input` for spans without any id."""
    run: str = ""
    """Tells runs of one session id apart: a declared run id, else one derived from the first turn."""
    used_again: bool = False
    """The session id had a complete run before this one."""
    ambiguous: bool = False
    """Several session ids stood where one was looked for; `id` is then a trace id."""
    incomplete: bool = False
    """A bound, an eviction or a time limit touched this run: calls may be missing."""
    resource: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    """`service.name`, `service.version` and `deployment.environment.name` of the source, where set."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, Any])
    """Attributes of the turn roots that goldens join on, such as `test.case.name`."""

    @property
    def start(self) -> int:
        """When its first turn began, as `Turn.start`; 0 where no turn says it."""
        return min((turn.start for turn in self.turns if turn.start), default=0)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of all turns, in order."""
        return tuple([call for turn in self.turns for call in turn.calls])


def as_one_turn(session: Session) -> Turn | None:
    """Return all turns as one, which ends with the last and stands at its root; none where there is no turn."""
    if not session.turns:
        return None
    turns, last = session.turns, session.turns[-1]
    captured = (turn.tool_definitions for turn in reversed(turns) if turn.tool_definitions.capture is Capture.CAPTURED)
    definitions = next(captured, last.tool_definitions)
    return replace(
        last,
        calls=tuple(call for turn in turns for call in _with_definitions(turn, definitions)),
        trace_ids=tuple(dict.fromkeys(trace for turn in turns for trace in turn.trace_ids)),
        turn_id=None,
        start=turns[0].start,
        calls_visible=all(turn.calls_visible for turn in turns),
        # Where one turn ends and the next begins decides nothing.
        doubts=tuple(one for turn in turns for one in turn.doubts if one.fact is not DoubtedFact.TURNS),
        tool_definitions=definitions,
        more_definitions=tuple(one for turn in turns for one in (turn.tool_definitions, *turn.more_definitions)),
    )


def _with_definitions(turn: Turn, others: Content) -> Sequence[ToolCall]:
    """Return a turn's calls with its own definitions of tools, if the turn that they get into has `others`."""
    own = turn.tool_definitions
    if own.capture is not Capture.CAPTURED or own == others:
        return turn.calls
    return [call if call.tool_definitions != NO_CONTENT else replace(call, tool_definitions=own) for call in turn.calls]


def batches_of(turns: Sequence[Turn]) -> list[int]:
    """Return a batch number for each call, which no two turns share; 0 stands for no batch."""
    numbers: dict[tuple[int, int], int] = {}
    return [
        numbers.setdefault((index, call.batch), len(numbers) + 1) if call.batch else 0
        for index, turn in enumerate(turns)
        for call in turn.calls
    ]


# The calls before a call, whose results an expected value may come from.

ExpectedCallPosition = tuple[int, int]
"""The position of an expected call in its golden: turn, then call in the turn, each from 0."""


class CallHistory:
    """The calls of a session in order, and the expected calls that they are aligned with.

    The list of calls is made on first use, since most goldens never use it.
    """

    __slots__ = ("_aligned", "_calls", "_complete", "_expected", "_known_from", "_positions", "_turns")

    def __init__(self, turns: Sequence[Turn], expected: Sequence[Sequence[str]], *, complete: bool = True) -> None:
        """Take a session's turns, and the tools that the golden expects by turn; `complete`: no call is missing."""
        self._turns, self._expected, self._complete = turns, expected, complete
        self._aligned: dict[int, Mapping[int, ToolCall]] = {}
        self._calls: list[ToolCall] = []
        self._positions: dict[int, tuple[int, int]] = {}
        self._known_from: dict[str, int] = {}

    def record(self, turn: int, aligned: Mapping[int, ToolCall]) -> None:
        """Record the partners of a golden turn's expected calls, by index, for the turns after it."""
        self._aligned[turn] = aligned

    def before(self, call: ToolCall) -> EarlierCalls:
        """Return the calls before a call."""
        if not self._calls:
            known = True
            for turn in self._turns:
                known = known and turn.calls_visible and not turn.has_doubtful_calls
                for earlier in turn.calls:
                    self._positions.setdefault(id(earlier), (len(self._calls), turn.start))
                    self._calls.append(earlier)
            self._complete = self._complete and known
        position, start = self._positions.get(id(call), (0, 0))
        return EarlierCalls(self, position, call, call.start or start)

    def made(self, tool: str, position: int) -> Iterator[ToolCall]:
        """Yield the calls of a tool before a position that were not rejected."""
        return (call for call in islice(self._calls, position) if call.name == tool and not call.rejected)

    def before_turn(self, turn: Turn) -> Iterator[ToolCall]:
        """Yield the calls of the turns before a turn; none if it is no turn of the session."""
        at = next((index for index, one in enumerate(self._turns) if one is turn), 0)
        return (call for one in islice(self._turns, at) for call in one.calls)

    def returned(self, reference: str | ExpectedCallPosition, position: int) -> Iterator[Content | None]:
        """Yield the results of the referenced calls before a position; None if such a call may be missing."""
        aligned = None if isinstance(reference, str) else self._aligned.get(reference[0])
        if isinstance(reference, str) or aligned is None:
            name = reference if isinstance(reference, str) else self._tool_at(reference)
            yield from (call.result for call in self.made(name or "", position))
        elif reference[1] in aligned:
            yield aligned[reference[1]].result
        if not self._complete:
            yield None

    def knows(self, word: str, position: int) -> bool:
        """Whether the user said a word, or a call returned it, before the call at a position, as far as is recorded."""
        if not self._known_from:
            self._known_from[""] = 0
            calls = 0
            for turn in self._turns:
                self._learn(turn.user_text, calls)
                for call in turn.calls:
                    calls += 1
                    self._learn(call.result, calls)
        return self._known_from.get(word.casefold(), position + 1) <= position

    def _learn(self, content: Content, position: int) -> None:
        if content.capture is Capture.CAPTURED:
            raw = content.raw
            text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)
            for word in WORD_WITH_SIGNS.findall(text.casefold()):
                self._known_from.setdefault(word, position)

    def _tool_at(self, place: ExpectedCallPosition) -> str | None:
        turn, index = place
        calls = self._expected[turn] if turn < len(self._expected) else ()
        return calls[index] if index < len(calls) else None


WORD_WITH_SIGNS = re.compile(r"\w(?:[\w.@+-]*\w)?")
"""A word of a text with the signs that ids, numbers and addresses have inside."""


class EarlierCalls(NamedTuple):
    """What a session had before one of its calls."""

    history: CallHistory
    position: int
    call: ToolCall
    """The call itself."""
    time: int
    """When it was made, in nanoseconds since the epoch; 0 if that is not known."""

    def returned(self, reference: str | ExpectedCallPosition) -> Iterator[Content | None]:
        """Yield the results of earlier calls: of a tool, or of the call aligned with an expected call."""
        return self.history.returned(reference, self.position)

    def made(self, tool: str) -> Iterator[ToolCall]:
        """Yield the earlier calls of a tool."""
        return self.history.made(tool, self.position)

    def knows(self, word: str) -> bool:
        """Whether the user said a word, or a call returned it, as far as that is recorded."""
        return self.history.knows(word, self.position)


# What was made of each item of a list, such as the turns of a session, kept while the list grows. Items count as
# unchanged only if they are the same objects. What is kept never changes a result: it is what would be made again.

MadeT = TypeVar("MadeT")


def unchanged_start(before: Sequence[object], now: Sequence[object]) -> int:
    """Return how many items at the start of both lists are the same objects."""
    if not before or before is now:
        return len(before)
    if all(map(is_, before, now)):  # one of them may only be longer: what grows is asked after each turn
        return min(len(before), len(now))
    return list(map(is_, before, now)).index(False)


class IncrementalList(Generic[MadeT]):
    """What was made of each item of a list, in the order of the list."""

    __slots__ = ("_items", "made")

    def __init__(self) -> None:
        self._items: Sequence[object] = ()
        self.made: list[MadeT] = []

    def update(
        self, items: Sequence[object], make: Callable[[int], MadeT], *, at_most: int | None = None
    ) -> tuple[int, list[MadeT]]:
        """Make the items anew, by their positions, from the first one that is not the same object as before.

        `at_most` says how many of those before may be kept. Returns how many were kept, and what was made of the
        others before; what `make` raises changes nothing.
        """
        return self.accumulate(items, lambda _, at: make(at), at_most=at_most)

    def accumulate(
        self, items: Sequence[object], make: Callable[[MadeT | None, int], MadeT], *, at_most: int | None = None
    ) -> tuple[int, list[MadeT]]:
        """Do as `update` does, where `make` also takes what was made of the item before, None for the first."""
        first = unchanged_start(self._items, items)
        if at_most is not None:
            first = min(first, at_most)
        before = self.made[first - 1] if first else None
        more: list[MadeT] = []
        for at in range(first, len(items)):
            before = make(before, at)
            more.append(before)
        gone = self.made[first:]
        self.made[first:] = more
        self._items = items
        return first, gone
