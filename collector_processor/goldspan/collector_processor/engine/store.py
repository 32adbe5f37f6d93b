"""Where the engine's state lives: open traces, the sessions they belong to, and tombstones of what was dropped.

The engine sees only `Store`, so that a door may put something durable behind it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.mappers.assembly import Fragment, TurnFragments
from goldspan.mappers.facts import LogFacts, PlainSpanFacts, SpanFacts
from goldspan.scoring.sessions import SpanRef, Turn


@dataclass(slots=True)
class TraceState:
    """One trace that is still open."""

    trace_id: str
    last: float
    """When something new last came, in the door's seconds."""
    spans: dict[str, SpanFacts] = field(default_factory=dict[str, SpanFacts])
    logs: dict[str, LogFacts] = field(default_factory=dict[str, LogFacts])
    """Log records by identity."""
    plain: list[PlainSpanFacts] = field(default_factory=list[PlainSpanFacts])
    """Spans that came without any marker."""
    recognised: int = 0
    fragments: list[Fragment] | None = None
    """What the trace holds of turns; none while it must be read again."""
    ready: list[Fragment] = field(default_factory=list[Fragment])
    """The fragments that were handed out, as of the last settling."""
    due: float | None = None
    """When the engine looks at it again."""
    session_ids: dict[str, None] = field(default_factory=dict[str, None])
    """Every session id that anything in the trace names: a turn's is one of these or the trace id."""
    held: list[SpanRef] = field(default_factory=list[SpanRef])
    """Spans that the door was asked to hold."""
    rooted: bool = False
    """A span without a parent in this process was seen: nobody above is still running."""
    counted: bool = False
    """It was counted as without golden."""
    reopened: bool = False
    """Spans of it were forgotten before the newest came."""
    lost_calls: bool = False
    """Recognised ones were among them."""

    @property
    def size(self) -> int:
        """How many records are kept of it."""
        return len(self.spans) + len(self.logs) + sum(map(len, self.plain))


@dataclass(slots=True)
class SessionState:
    """One session id: the traces it is spread over and the results that were handed out."""

    id: str
    last: float
    traces: dict[str, None] = field(default_factory=dict[str, None])
    results: dict[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    """The newest revision of every result, by id."""
    over: set[str] = field(default_factory=set[str])
    """Runs whose session was judged: later corrections judge it again."""
    turns: dict[TurnFragments, Turn] = field(default_factory=dict[TurnFragments, Turn])
    due: float | None = None
    judged: bool = False
    """Every run was judged as a whole since something new last came."""
    dropped_until: int = 0
    """End of the latest dropped run, in span time: what starts before, or soon after, belongs to it and is late."""


class Store(Protocol):
    """The engine's memory. Iteration is from the least recently active."""

    def trace(self, trace_id: str) -> TraceState | None:
        """Return an open trace."""
        ...

    def add_trace(self, trace: TraceState) -> None:
        """Open a trace."""
        ...

    def touch_trace(self, trace_id: str) -> None:
        """Note that something new came for it."""
        ...

    def traces(self) -> Iterator[TraceState]:
        """Return the open traces."""
        ...

    def unsettled(self) -> Iterator[TraceState]:
        """Return the open traces, except those of which everything was handed out and nothing came since."""
        ...

    def keep_plain(self, plain: PlainSpanFacts, now: float) -> None:
        """Keep plain spans of a trace that is not open, in case it comes to be."""
        ...

    def take_plain(self, trace_id: str) -> list[PlainSpanFacts]:
        """Hand over what was kept of a trace that is opened now."""
        ...

    def forget_plain(self, before: float, count: int = 0) -> int:
        """Forget plain spans of traces that got none since, then more until so many are forgotten; return how many."""
        ...

    def session(self, session_id: str) -> SessionState | None:
        """Return a session that has open traces or a dropped run that is remembered."""
        ...

    def add_session(self, session: SessionState) -> None:
        """Open a session."""
        ...

    def sessions(self) -> Iterator[SessionState]:
        """Return the sessions."""
        ...

    def drop_session(self, session_id: str) -> None:
        """Forget a session altogether."""
        ...

    def forget(self, trace_id: str) -> None:
        """Drop a trace of which nothing was said."""
        ...

    def was_forgotten(self, trace_id: str) -> bool | None:
        """Tell whether content of this trace, in spans or logs, was forgotten not long ago; none where nothing was."""
        ...

    def bury(self, trace_ids: Iterable[str], now: float) -> None:
        """Drop traces and leave a tombstone for each, with the identities of its spans and log records."""
        ...

    def is_buried(self, trace_id: str, identity: str) -> bool | None:
        """Tell whether a record of a dropped trace had come before; none where the trace was not dropped."""
        ...

    def expire(self, before: float) -> None:
        """Remove tombstones older than this."""
        ...


_DIGEST = 8
"""Bytes of what is remembered of a span or log record: a span id as it is."""
_HEX = frozenset("0123456789abcdef")


def digests(identities: Iterable[str]) -> bytes:
    """Return what a tombstone keeps of these spans and log records."""
    return b"".join(sorted(set(map(_digest, identities))))


def _digest(identity: str) -> bytes:
    if len(identity) == 2 * _DIGEST and _HEX.issuperset(identity):
        return bytes.fromhex(identity)
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


@dataclass(slots=True)
class _Plain:
    """What is kept of a trace in which nothing was recognised."""

    groups: list[PlainSpanFacts]
    last: float


class MemoryStore:
    """A `Store` in this process."""

    def __init__(self, max_tombstones: int = 100_000) -> None:
        """Keep at most so many tombstones, newest first."""
        self._traces: OrderedDict[str, TraceState] = OrderedDict()
        self._sessions: dict[str, SessionState] = {}
        self._tombstones: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._forgotten: OrderedDict[str, bool] = OrderedDict()
        self._plain: OrderedDict[str, _Plain] = OrderedDict()
        self._max_tombstones = max_tombstones

    def trace(self, trace_id: str) -> TraceState | None:
        """Return an open trace."""
        return self._traces.get(trace_id)

    def add_trace(self, trace: TraceState) -> None:
        """Open a trace."""
        self._traces[trace.trace_id] = trace

    def touch_trace(self, trace_id: str) -> None:
        """Note that something new came for it."""
        self._traces.move_to_end(trace_id)

    def traces(self) -> Iterator[TraceState]:
        """Return the open traces from the least recently active."""
        return iter(list(self._traces.values()))

    def unsettled(self) -> Iterator[TraceState]:
        """Return the open traces, settled or not: few are kept here that are."""
        return self.traces()

    def keep_plain(self, plain: PlainSpanFacts, now: float) -> None:
        """Keep plain spans of a trace that is not open, in case it comes to be."""
        kept = self._plain.get(plain.trace_id)
        if kept is None:
            self._plain[plain.trace_id] = _Plain([plain], now)
        else:
            kept.groups.append(plain)
            kept.last = now
            self._plain.move_to_end(plain.trace_id)

    def take_plain(self, trace_id: str) -> list[PlainSpanFacts]:
        """Hand over what was kept of a trace that is opened now."""
        kept = self._plain.pop(trace_id, None)
        return kept.groups if kept is not None else []

    def forget_plain(self, before: float, count: int = 0) -> int:
        """Forget plain spans of traces that got none since, then more until so many are forgotten; return how many."""
        forgotten = 0
        while self._plain:
            trace_id, oldest = next(iter(self._plain.items()))
            if oldest.last >= before and forgotten >= count:
                break
            del self._plain[trace_id]
            forgotten += sum(map(len, oldest.groups))
            self.note_lost(trace_id, calls=False)
        return forgotten

    def session(self, session_id: str) -> SessionState | None:
        """Return a session that has open traces or a dropped run that is remembered."""
        return self._sessions.get(session_id)

    def add_session(self, session: SessionState) -> None:
        """Open a session."""
        self._sessions[session.id] = session

    def sessions(self) -> Iterator[SessionState]:
        """Return the sessions in the order they were opened."""
        return iter(list(self._sessions.values()))

    def drop_session(self, session_id: str) -> None:
        """Forget a session altogether."""
        self._sessions.pop(session_id, None)

    def forget(self, trace_id: str) -> None:
        """Drop a trace of which nothing was said."""
        trace = self._traces.pop(trace_id, None)
        if trace is not None:
            self.note_lost(trace_id, calls=trace.recognised > 0 or bool(trace.logs) or trace.lost_calls)

    def note_lost(self, trace_id: str, *, calls: bool) -> None:
        """Note that records of a trace were forgotten, and calls perhaps among them."""
        self._forgotten[trace_id] = calls or self._forgotten.get(trace_id, False)
        if len(self._forgotten) > self._max_tombstones:
            self._forgotten.popitem(last=False)

    def was_forgotten(self, trace_id: str) -> bool | None:
        """Tell whether content of this trace, in spans or logs, was forgotten not long ago; none where nothing was."""
        return self._forgotten.get(trace_id)

    def bury(self, trace_ids: Iterable[str], now: float) -> None:
        """Drop traces and leave a tombstone for each, with the identities of its spans and log records."""
        for trace_id in trace_ids:
            trace = self._traces.pop(trace_id, None)
            if trace is not None:
                self._tombstones[trace_id] = (now, digests((*trace.spans, *trace.logs)))
        while len(self._tombstones) > self._max_tombstones:
            self._tombstones.popitem(last=False)

    def is_buried(self, trace_id: str, identity: str) -> bool | None:
        """Tell whether a record of a dropped trace had come before; none where the trace was not dropped."""
        tombstone = self._tombstones.get(trace_id)
        if tombstone is None:
            return None
        wanted, known = _digest(identity), tombstone[1]
        at = known.find(wanted)
        while at > 0 and at % _DIGEST:  # it stands across two others
            at = known.find(wanted, at + 1)
        return at >= 0

    def expire(self, before: float) -> None:
        """Remove tombstones older than this."""
        while self._tombstones and next(iter(self._tombstones.values()))[0] < before:
            self._tombstones.popitem(last=False)
