"""Which spans a door reads, which it leaves unread, and which it holds: one policy for SDK spans and for encoded ones.

Most sessions of live traffic have no golden and are not in the sample of metrics without golden. So a door sorts what
came by trace, and of each span it looks at the keys of the attributes alone. It shows these to `ReadingPolicy.decide`
as a `TraceBatch`. Four batches of one trace, of which only the third names a session:

    1  GET /weather    no dialect knows its keys        LEAVE_UNREAD: it goes into the buffer
    2  execute_tool    a dialect marks it               WAIT_FOR_SESSION: likewise, and held, as it may get a score
    3  chat            `gen_ai.conversation.id: s-17`   READ if s-17 is wanted: 1 and 2 are taken from the buffer
                                                        LEAVE_UNREAD if not: s-17 is counted, and 2 is released
    4  GET /weather    the trace is known by now        as 3; if that was unread, until a wanted session is named

A session is *wanted* if it has a golden or is in the sample. A span is *unread* as long as no dialect has read it: the
`SpanBuffer` has it, bounded in age and bytes. A span is *held* if the door has not sent it yet, since it may get a
score. So the engine gets the complete traces of every wanted session, and results are the same as if every span were
read.

What a door says of the sessions that no golden wants, and where their ids come from, is here too.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice, takewhile
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from goldspan.collector_processor.emit.evaluation import Attributes, AttributeValue
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.goldens.golden import Golden, joined_by
from goldspan.scoring.sessions import SpanRef

MAX_REMEMBERED = 10_000
"""Sessions that are counted once; a session that is older than so many others is counted again."""
MAX_LISTED = 20
"""The newest sessions, which are kept with their ids."""
_LONGEST_ID = 200
_MAX_NAMED = 5  # sessions, and goldens, in one sentence


class SeenSession(NamedTuple):
    """A session without a golden."""

    id: str
    """At most 200 characters of it."""
    source: str
    """The attribute that names the session; `trace_id` if none does, and the id is the trace's."""

    @property
    def shown(self) -> str:
        """The id, and where it comes from."""
        if self.source == "trace_id":
            return f"{printable(self.id)} (a trace id: no span names a session)"
        return f"{printable(self.id)} (from {printable(self.source)})"


class SessionsWithoutGolden:
    """Notes each session once while it is remembered. One thread adds, any may read. Memory is bounded."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[int, None] = OrderedDict()  # hashes: an id may have any length
        self._newest: deque[SeenSession] = deque(maxlen=MAX_LISTED)

    def __contains__(self, session_id: str) -> bool:
        """Whether a session is remembered."""
        return hash(session_id) in self._remembered

    def add(self, session_id: str, source: str) -> bool:
        """Note a session. False if it was noted before."""
        if session_id in self:
            return False
        self._remembered[hash(session_id)] = None
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        self._newest.append(SeenSession(session_id[:_LONGEST_ID], source))
        return True

    def newest(self) -> tuple[SeenSession, ...]:
        """Return the newest sessions, at most 20, the oldest of them first."""
        return tuple(self._newest)


class JoinReport:
    """What a door logs of sessions without a golden. It says nothing twice, and each time more of what is the same.

    The first sessions are named one by one; later a tenth more than were said before must have come.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._said = 0

    def golden_seen(self, golden_set: str, golden: str) -> None:
        """Note that a session of this golden was scored. Empty names are those of a result without golden."""
        if golden_set or golden:
            self._seen.add((golden_set, golden))

    @property
    def is_warning(self) -> bool:
        """Whether no golden was seen at all. Sessions without a golden beside others are no mistake."""
        return not self._seen

    def sentence(
        self, goldens: Sequence[Golden], sessions: SessionsWithoutGolden, count: int, *, last: bool = False
    ) -> str | None:
        """Return what is to be said now; None if there is nothing new.

        Args:
            goldens: All goldens.
            sessions: The sessions without a golden.
            count: How many there were.
            last: Nothing is said later: say all that is new.

        """
        self._said = min(self._said, count)  # after a failure the engine and its counts start over
        new = count - self._said
        if not new or not goldens or (new < self._said // 10 and not last):
            return None
        self._said = count
        return join_sentence(len(self._seen), goldens, sessions.newest(), count)


def join_sentence(seen: int, goldens: Sequence[Golden], sessions: Sequence[SeenSession], count: int) -> str:
    """Say how many goldens were seen, which sessions came that none wants, and what to do.

    Args:
        seen: How many of the goldens were seen.
        goldens: All goldens.
        sessions: The newest sessions without a golden, the oldest of them first.
        count: How many sessions without a golden there were.

    """
    came = [one.shown for one in sessions[-_MAX_NAMED:]]
    wanted = [printable(" ".join(joined_by(golden))) for golden in islice(goldens, _MAX_NAMED)]
    return (
        f"{seen} of {len(goldens)} goldens seen; sessions seen: {_listed(came, max(count, len(came)))}. "
        f"The goldens are for: {_listed(wanted, len(goldens))}. "
        "Write the id of the session into the golden file, or name the session in the agent: session_scope."
    )


def _listed(shown: Sequence[str], total: int) -> str:
    rest = total - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def printable(text: str) -> str:
    """Return the text, with escapes for what would break a line of a log."""
    text = text[:_LONGEST_ID]
    return text if text.isprintable() else repr(text)[1:-1]


Trace = TypeVar("Trace", bound=Hashable)
Record = TypeVar("Record")
Span = TypeVar("Span")
MarkedSpan = TypeVar("MarkedSpan")
MarkedSpan_co = TypeVar("MarkedSpan_co", covariant=True)

_MAX_SCOPES = 256
_MAX_REMEMBERED_LOSSES = 100_000  # traces; beyond it the loss that was noted first is forgotten
_MAX_UNWANTED = 10_000
"""Unwanted traces without records that are known. A later span of one that is forgotten is looked at again."""
MAX_TRACES_WITHOUT_SESSION = 1000
"""At most so many traces wait for a session id: each step looks at all of them."""


class Decision(Enum):
    """What happens to the new spans of a trace that the engine does not know."""

    READ = auto()
    LEAVE_UNREAD = auto()
    WAIT_FOR_SESSION = auto()


class TraceBatch(Protocol[MarkedSpan_co]):
    """The new spans of one trace, as far as a door knows them without reading them. Each answer is found when asked."""

    @property
    def trace_id(self) -> str:
        """As hex digits."""
        ...

    @property
    def of_interest(self) -> bool:
        """They may name a wanted session or be opaque. False, where a search of a whole request says so."""
        ...

    @property
    def is_marked(self) -> bool:
        """A dialect may read some of them."""
        ...

    @property
    def is_opaque(self) -> bool:
        """A dialect may read some of them that finds session ids in a way of its own, or refers to other traces."""
        ...

    def sessions(self) -> Iterable[str]:
        """Return the session ids that they name."""
        ...

    def earlier_sessions(self, unread: Sequence[Any]) -> Mapping[str, Any]:
        """Return the session ids that unread records of the trace name, or its running root, with their attributes."""
        ...

    def first_session(self, earlier: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the session that the trace is counted as, with the attribute that names it; None if none is named."""
        ...

    def marked(self) -> Iterable[tuple[Hashable, MarkedSpan_co]]:
        """Return the spans that a dialect may read, each with its instrumentation scope."""
        ...


class ReadingPolicy(Generic[Trace, MarkedSpan]):
    """Decides which traces are read. For one thread."""

    def __init__(
        self,
        goldens: GoldenIndex,
        buffer: SpanBuffer[Trace, Any],
        *,
        recognises: Callable[[MarkedSpan], bool],
        without_golden: SessionsWithoutGolden,
        on_unmatched: Callable[[str, str], object],
        waiting: TracesWithoutSession[Trace] | None = None,
    ) -> None:
        """Decide by these goldens, and by the unread spans in `buffer`.

        A marker alone does not tell that a span is an agent's, a model's or a tool's: `recognises` does. `on_unmatched`
        is told of each session that is not wanted, with the attribute that names it, once: `without_golden` has those.
        A trace without a session's name is `waiting`, or read at once where there is None.
        """
        self._goldens = goldens
        self._buffer = buffer
        self._recognises = recognises
        self._without_golden = without_golden
        self._on_unmatched = on_unmatched
        self._waiting = waiting
        self._agent_scopes: set[Hashable] = set()

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Decide by these goldens from now on."""
        self._goldens = goldens
        self._buffer.unwanted.clear()

    def decide(self, trace: Trace, batch: TraceBatch[MarkedSpan]) -> Decision:
        """Decide by these spans of a trace, and by its unread ones."""
        goldens, unwanted = self._goldens, trace in self._buffer.unwanted
        if batch.of_interest and goldens.wants_any and batch.is_opaque:
            return Decision.READ
        if not (unwanted or batch.is_marked):
            waits = self._waiting is not None and trace in self._waiting
            return Decision.WAIT_FOR_SESSION if waits else Decision.LEAVE_UNREAD
        if batch.of_interest and any(map(goldens.wants, batch.sessions())):
            return Decision.READ
        if unwanted:
            return Decision.LEAVE_UNREAD
        earlier = batch.earlier_sessions(self._buffer.records(trace))
        first = batch.first_session(earlier)
        if (earlier and any(map(goldens.wants, earlier))) or goldens.wants_trace(
            batch.trace_id, named=first is not None
        ):
            return Decision.READ
        if first is None and goldens.wants_any:
            has_room = self._waiting is not None and (trace in self._waiting or not self._waiting.is_full)
            return Decision.WAIT_FOR_SESSION if has_room else Decision.READ
        if first is not None:
            self._leave_unread(trace, first, batch)
        return Decision.LEAVE_UNREAD

    def _leave_unread(self, trace: Trace, session: tuple[str, str], batch: TraceBatch[MarkedSpan]) -> None:
        """Note that a trace is unwanted, and count its session once, if an agent's spans are in it."""
        self._buffer.unwanted.add(trace)
        if session[0] in self._without_golden:
            return
        for scope, span in batch.marked():
            if scope in self._agent_scopes or self._recognises(span):
                if len(self._agent_scopes) < _MAX_SCOPES:
                    self._agent_scopes.add(scope)
                self._on_unmatched(*session)
                return


# Spans that no engine reads yet.


class SpanBuffer(Generic[Trace, Record]):
    """Unread records by trace id, bounded in age and bytes. For one thread.

    Spans without a dialect's marker, and those of unwanted sessions, are sent on unread. They are kept here in case a
    later span of their trace belongs to a session with a golden: unmarked spans stand between tools and agents. Of
    spans that are dropped, the buffer remembers only that their trace lost some.
    """

    def __init__(self, *, retention: float, max_bytes: int) -> None:
        """Keep records for `retention` seconds, and at most `max_bytes` of them."""
        self._retention = retention
        self.max_bytes = max_bytes
        self._by_trace: dict[Trace, list[tuple[int, Sequence[Record]]]] = {}
        self._batches: deque[tuple[float, int, int, tuple[Trace, ...]]] = deque()
        self._number = 0
        self.unwanted: set[Trace] = set()
        """Traces whose sessions are known, and wanted by no golden."""
        self._with_calls: set[Trace] = set()
        self._lost: OrderedDict[Trace, bool] = OrderedDict()
        self.size = 0
        """Bytes of all records, as estimated by the callers of `add`."""

    def add(self, records: Mapping[Trace, Sequence[Record]], size: int, now: float, *, calls: bool = False) -> None:
        """Add records by trace id; `calls` says that some may describe calls even where the trace is not unwanted."""
        if calls:
            self._with_calls.update(records)
        self._number += 1
        for trace, some in records.items():
            self._by_trace.setdefault(trace, []).append((self._number, some))
        self.size += size
        self._batches.append((now, self._number, size, tuple(records)))

    def take(self, trace: Trace) -> list[Record]:
        """Remove and return the records of a trace."""
        self.unwanted.discard(trace)
        self._with_calls.discard(trace)
        return [record for _, some in self._by_trace.pop(trace, ()) for record in some]

    def records(self, trace: Trace) -> list[Record]:
        """Return the records of a trace."""
        return [record for _, some in self._by_trace.get(trace, ()) for record in some]

    def lost_calls(self, trace: Trace) -> bool | None:
        """Tell whether the records that a trace lost may have described calls; None if it lost none."""
        return self._lost.get(trace)

    def note_loss(self, trace: Trace, *, calls: bool) -> None:
        """Note that records of a trace were dropped; `calls` says whether they may have described calls."""
        self._lost[trace] = calls or self._lost.get(trace, False)
        if len(self._lost) > _MAX_REMEMBERED_LOSSES:
            self._lost.popitem(last=False)

    def expire(self, now: float) -> None:
        """Drop records that are too old, then the oldest ones until the rest fits into `max_bytes`."""
        while self._batches and (self._batches[0][0] + self._retention <= now or self.size > self.max_bytes):
            _, number, size, traces = self._batches.popleft()
            self.size -= size
            for trace in traces:
                entries = self._by_trace.get(trace)
                if entries is None or entries[0][0] > number:
                    continue
                del entries[0]
                calls = trace in self.unwanted or trace in self._with_calls
                if not entries:
                    self.take(trace)
                self.note_loss(trace, calls=calls)
        if len(self.unwanted) > 2 * len(self._by_trace) + _MAX_UNWANTED:
            self.unwanted.intersection_update(self._by_trace)


@dataclass(slots=True)
class _WaitingTrace:
    since: float
    last: float
    root_ended: bool = False
    refs: list[SpanRef] = field(default_factory=list[SpanRef])


class TracesWithoutSession(Generic[Trace]):
    """Traces of which no span has named a session yet, by trace id, and the held spans of each.

    A trace waits until its root has ended and nothing came for `settle` seconds: then it belongs to no session. It
    waits `hold_timeout` seconds at most.
    """

    def __init__(self, settle: float, hold_timeout: float) -> None:
        self._settle = settle
        self._hold_timeout = hold_timeout
        self._traces: dict[Trace, _WaitingTrace] = {}

    def __contains__(self, trace: Trace) -> bool:
        return trace in self._traces

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another trace."""
        return len(self._traces) >= MAX_TRACES_WITHOUT_SESSION

    def add(self, trace: Trace, refs: Iterable[SpanRef], now: float, *, root_ended: bool) -> None:
        """Note that spans of a trace came, and which of them are held."""
        waiting = self._traces.setdefault(trace, _WaitingTrace(now, now))
        waiting.last = now
        waiting.root_ended = waiting.root_ended or root_ended
        waiting.refs += refs

    def remove(self, trace: Trace) -> list[SpanRef]:
        """Forget a trace and return the spans that are held for it."""
        waiting = self._traces.pop(trace, None)
        return [] if waiting is None else waiting.refs

    def settled(self, now: float) -> list[Trace]:
        """Return the traces whose root has ended and that had no news for `settle` seconds."""
        return [trace for trace, one in self._traces.items() if one.root_ended and one.last + self._settle <= now]

    def overdue(self, now: float) -> list[Trace]:
        """Return the traces that have waited for `hold_timeout` seconds."""
        return [trace for trace, one in self._traces.items() if one.since + self._hold_timeout <= now]

    def deadline(self) -> float | None:
        """Return when `settled` or `overdue` will next return a trace; None: not without news."""
        times = (
            min(one.since + self._hold_timeout, one.last + self._settle if one.root_ended else float("inf"))
            for one in self._traces.values()
        )
        return min(times, default=None)


# Spans that a door has not sent yet.


@dataclass(slots=True)
class HeldSpan(Generic[Span]):
    """A span that waits for its scores, and the attributes it has got so far."""

    ref: SpanRef
    span: Span
    since: float
    size: int
    """Estimated bytes of memory."""
    attributes: Attributes = field(default_factory=dict[str, AttributeValue])
    metrics: set[str] = field(default_factory=set[str])
    """The metrics that wrote these."""

    def annotate(self, metric: str, attributes: Attributes) -> None:
        """Add attributes of a metric, if there are any."""
        if attributes:
            self.attributes.update(attributes)
            self.metrics.add(metric)


class HeldSpans(Generic[Span]):
    """Held spans by their ids, oldest first. With a re-entrant `lock`, several threads may use them."""

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock = lock or nullcontext()
        self._spans: dict[SpanRef, HeldSpan[Span]] = {}
        self.size = 0
        """Estimated bytes of all of them."""

    def __len__(self) -> int:
        return len(self._spans)

    def get(self, ref: SpanRef | None) -> HeldSpan[Span] | None:
        """Return a held span; None if it is not held."""
        return None if ref is None else self._spans.get(ref)

    def add(self, ref: SpanRef, span: Span, size: int, now: float) -> bool:
        """Hold a span. False if a span with these ids is held already: the second one must not be lost."""
        with self._lock:
            if ref in self._spans:
                return False
            self._spans[ref] = HeldSpan(ref, span, now, size)
            self.size += size
            return True

    def hold_again(self, spans: Iterable[HeldSpan[Span]]) -> None:
        """Hold spans that were released and could not be sent yet; they are the oldest."""
        again = {held.ref: held for held in spans}
        with self._lock:
            self._spans = {**again, **self._spans}
            self.size += sum(held.size for held in again.values())

    def release(self, refs: Iterable[SpanRef]) -> list[HeldSpan[Span]]:
        """Remove and return those of these spans that are held, oldest first."""
        with self._lock:
            released = [held for ref in refs if (held := self._spans.pop(ref, None)) is not None]
            self.size -= sum(held.size for held in released)
        return sorted(released, key=lambda held: held.since)

    def release_all(self) -> list[HeldSpan[Span]]:
        """Remove and return all held spans."""
        with self._lock:
            return self.release(list(self._spans))

    def release_older(self, since: float, *, scored: bool = True) -> list[HeldSpan[Span]]:
        """Remove and return the spans that came at `since` or before; `scored`: also those that have attributes."""
        with self._lock:
            older = takewhile(lambda held: held.since <= since, self._spans.values())
            return self.release([held.ref for held in older if scored or not held.attributes])

    def release_excess(self, max_spans: float, max_bytes: int) -> tuple[list[HeldSpan[Span]], str]:
        """Remove and return the oldest spans beyond these limits, and the name of the limit that was reached."""
        excess: list[SpanRef] = []
        with self._lock:
            left, limit = self.size, ""
            for ref, held in self._spans.items():
                if (too_many := len(self) - len(excess) > max_spans) or left > max_bytes:
                    limit = "max_held_spans" if too_many else "max_held_bytes"
                    excess.append(ref)
                    left -= held.size
                else:
                    break
            return self.release(excess), limit

    def oldest(self) -> float | None:
        """Return when the oldest held span came."""
        return next((held.since for held in self._spans.values()), None)
