"""The state of an engine: open traces, their sessions, and tombstones of dropped traces.

A door can pass the engine a subclass of `MemoryStore` that compresses or persists its state.

A *plain* span is one without a dialect's marker. It is kept as its place in the trace only, since plain spans stand
between tools and agents. A *tombstone* keeps the ids of the spans and log records of a dropped trace, so that a span
that is delivered again is recognised as a repeat and not taken for a new run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.collector_processor.engine.trace_machine import SessionPart, TraceRecords
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import PlainSpanFacts
from goldspan.scoring.sessions import SpanRef, unchanged_start


@dataclass(slots=True)
class TraceState(TraceRecords):
    """An open trace of an engine."""

    has_news: bool = False
    """A record came since its turns were last scored."""
    ready: list[Fragment] = field(default_factory=list[Fragment])
    """The fragments whose turns are complete, as of the last check."""
    by_session: dict[str, list[Fragment]] = field(default_factory=dict[str, list[Fragment]])
    """The same by their sessions, each in the same order."""
    due: float | None = None
    """When the engine checks it next."""
    held: list[SpanRef] = field(default_factory=list[SpanRef])
    """Spans that the door holds."""
    content: int = 0
    """Characters of messages, definitions of tools, results and answers in its records, where these are limited."""

    def set_ready(self, ready: list[Fragment]) -> list[Fragment]:
        """Set the fragments whose turns are complete; return those that were not among them before."""
        same = unchanged_start(self.ready, ready)
        gone, new = self.ready[same:], ready[same:]
        for fragment in gone:
            of_session = self.by_session[fragment.session.id]
            of_session.pop()
            if not of_session:
                del self.by_session[fragment.session.id]
        for fragment in new:
            self.by_session.setdefault(fragment.session.id, []).append(fragment)
        self.ready = ready
        known = set(map(id, gone))
        return [fragment for fragment in new if id(fragment) not in known]

    def part(self, session_id: str) -> SessionPart:
        """Return what is complete of a session."""
        return SessionPart(
            session_id, self.trace_id, self.by_session.get(session_id, ()), self.lacks_records_of(self.ready)
        )


_DIGEST = 8
"""Bytes that a tombstone keeps of an id. A span id has as many."""
_HEX = frozenset("0123456789abcdef")


_MAX_TOMBSTONE_BYTES = 64 << 20  # beyond it the oldest tombstones are forgotten


def digests(identities: Iterable[str]) -> bytes:
    """Return the ids of these spans and log records as a tombstone keeps them."""
    return b"".join(sorted(set(map(_digest, identities))))


def _digest(identity: str) -> bytes:
    if len(identity) == 2 * _DIGEST and _HEX.issuperset(identity):
        return bytes.fromhex(identity)
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


@dataclass(slots=True)
class _Plain:
    """The plain spans of a trace that is not open."""

    groups: list[PlainSpanFacts]
    last: float


class MemoryStore:
    """The state of one engine. Iteration over traces starts with the least recently active."""

    def __init__(self, max_tombstones: int = 100_000) -> None:
        """Keep at most the newest `max_tombstones` tombstones."""
        self._traces: OrderedDict[str, TraceState] = OrderedDict()
        self._unsettled: OrderedDict[str, TraceState] = OrderedDict()
        self._sessions: dict[str, SessionState] = {}
        self._tombstones: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._tombstone_bytes = 0
        self._lost: OrderedDict[str, bool] = OrderedDict()
        self._plain: OrderedDict[str, _Plain] = OrderedDict()
        self._max_tombstones = max_tombstones

    def trace(self, trace_id: str) -> TraceState | None:
        """Return an open trace."""
        return self._traces.get(trace_id)

    def add_trace(self, trace: TraceState) -> None:
        """Open a trace."""
        self._traces[trace.trace_id] = trace

    def touch_trace(self, trace_id: str) -> None:
        """Note that a new record came for a trace: it is not settled."""
        self._traces.move_to_end(trace_id)
        self._unsettled[trace_id] = self._traces[trace_id]
        self._unsettled.move_to_end(trace_id)

    def settle_trace(self, trace_id: str) -> None:
        """Note that a trace is settled: without new records, a flush has nothing to do for it."""
        self._unsettled.pop(trace_id, None)

    def traces(self) -> Iterator[TraceState]:
        """Return the open traces from the least recently active."""
        return iter(list(self._traces.values()))

    def unsettled(self) -> Iterator[TraceState]:
        """Return the open traces that are not settled, from the least recently active."""
        return iter(list(self._unsettled.values()))

    def add_plain(self, plain: PlainSpanFacts, now: float) -> None:
        """Keep plain spans of a trace that is not open; it may be opened later."""
        kept = self._plain.get(plain.trace_id)
        if kept is None:
            self._plain[plain.trace_id] = _Plain([plain], now)
        else:
            kept.groups.append(plain)
            kept.last = now
            self._plain.move_to_end(plain.trace_id)

    def take_plain(self, trace_id: str) -> list[PlainSpanFacts]:
        """Remove and return the plain spans of a trace that is opened."""
        kept = self._plain.pop(trace_id, None)
        return kept.groups if kept is not None else []

    def drop_plain(self, before: float, count: int = 0) -> int:
        """Drop plain spans of traces quiet since `before`, then more until `count` are dropped; return how many."""
        dropped = 0
        while self._plain:
            trace_id, oldest = next(iter(self._plain.items()))
            if oldest.last >= before and dropped >= count:
                break
            del self._plain[trace_id]
            dropped += sum(map(len, oldest.groups))
            self.note_loss(trace_id, calls=False)
        return dropped

    def session(self, session_id: str) -> SessionState | None:
        """Return a session with open traces or with a dropped run that is remembered."""
        return self._sessions.get(session_id)

    def add_session(self, session: SessionState) -> None:
        """Open a session."""
        self._sessions[session.id] = session

    def sessions(self) -> Iterator[SessionState]:
        """Return the sessions in the order they were opened."""
        return iter(list(self._sessions.values()))

    def drop_session(self, session_id: str) -> None:
        """Drop a session."""
        self._sessions.pop(session_id, None)

    def drop_trace(self, trace_id: str) -> None:
        """Drop a trace without results."""
        trace = self._take_trace(trace_id)
        if trace is not None:
            self.note_loss(trace_id, calls=trace.has_calls)

    def note_loss(self, trace_id: str, *, calls: bool) -> None:
        """Note that records of a trace were dropped; `calls` says whether they may have described calls."""
        if not trace_id:
            return  # the next spans without ids are of other conversations
        self._lost[trace_id] = calls or self._lost.get(trace_id, False)
        if len(self._lost) > self._max_tombstones:
            self._lost.popitem(last=False)

    def lost_calls(self, trace_id: str) -> bool | None:
        """Tell whether the records that a trace lost may have described calls; None if no loss is remembered."""
        return self._lost.get(trace_id)

    def drop_with_tombstone(self, trace_id: str, now: float) -> None:
        """Drop a trace, with a tombstone that keeps the ids of its spans and log records."""
        trace = self._take_trace(trace_id)
        if trace is not None and trace_id:  # spans without ids never come again: each is another one
            plain = (span_id for group in trace.plain for span_id in group.ids())
            self.keep_tombstone(trace_id, now, digests((*trace.spans, *trace.logs, *plain)))

    def _take_trace(self, trace_id: str) -> TraceState | None:
        self.settle_trace(trace_id)
        return self._traces.pop(trace_id, None)

    def keep_tombstone(self, trace_id: str, at: float, known: bytes) -> None:
        """Keep a tombstone with the ids in `known`, and forget the oldest ones beyond a limit."""
        _, before = self._tombstones.get(trace_id, (0.0, b""))
        self._tombstones[trace_id] = (at, known)
        self._tombstone_bytes += len(known) - len(before)
        while len(self._tombstones) > self._max_tombstones or self._tombstone_bytes > _MAX_TOMBSTONE_BYTES:
            self.forget_oldest_tombstone()

    def forget_oldest_tombstone(self) -> str:
        """Forget the tombstone that was made first, and return its trace id."""
        trace_id, (_, known) = self._tombstones.popitem(last=False)
        self._tombstone_bytes -= len(known)
        return trace_id

    def tombstone_has(self, trace_id: str, identity: str) -> bool | None:
        """Tell whether a tombstone keeps this id; None if the trace has no tombstone."""
        tombstone = self._tombstones.get(trace_id)
        if tombstone is None:
            return None
        wanted, known = _digest(identity), tombstone[1]
        at = known.find(wanted)
        while at > 0 and at % _DIGEST:  # the match spans two ids
            at = known.find(wanted, at + 1)
        return at >= 0

    def expire(self, before: float) -> None:
        """Remove tombstones older than this."""
        while self._tombstones and next(iter(self._tombstones.values()))[0] < before:
            self.forget_oldest_tombstone()
