"""The engine's store in the gateway: quiet traces and sessions are compressed, and callbacks learn what is dropped.

A trace whose results were all given is compressed some seconds later, in the journal's encoding; so is a session with
its results. Reading one restores it as it was, since the same facts always give the same turns.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from goldspan.collector_processor.daemon_threads import SideThread
from goldspan.collector_processor.encoded_spans.call_records import (
    KeptTexts,
    decode_record,
    decode_session,
    encode_record,
    encode_session,
    lost_text,
)
from goldspan.collector_processor.engine.engine_state import MemoryStore, TraceState
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.mappers.assembly.runs import AssemblySettings

_QUIET = 5.0  # seconds without new records after which a trace is compressed
_AT_ONCE = 2048  # traces and sessions that one call of `compress` looks at


class CompressedStore(MemoryStore):
    """A `MemoryStore` that compresses what is quiet and tells callbacks what it drops."""

    def __init__(
        self,
        on_closed: Callable[[str], object],
        on_tombstone: Callable[[str, float, bytes | None], object],
        assembly: AssemblySettings,
        texts: KeptTexts,
    ) -> None:
        """Call `on_closed` for each dropped trace, `on_tombstone` for each tombstone, and with None once it expired.

        Records have their content in `texts`.
        """
        super().__init__()
        self._on_closed = on_closed
        self._on_tombstone = on_tombstone
        self._assembly = assembly
        self._texts = texts
        self.compressed: OrderedDict[bytes, bytes] = OrderedDict()
        """Compressed traces by the bytes of their ids, the least recently active first."""
        self._compressed_sessions: dict[str, bytes] = {}
        self.side = SideThread()
        """Where what is large is compressed."""
        self.touched: set[str] = set()
        """Sessions that were read, and so may have changed, since the worker cleared this set."""

    @property
    def open_sessions(self) -> int:
        """How many sessions there are. Any thread may ask."""
        return len(self._sessions) + len(self._compressed_sessions)

    def session(self, session_id: str) -> SessionState | None:
        """Return a session."""
        self.touched.add(session_id)
        small = self._compressed_sessions.pop(session_id, None)
        if small is not None:
            super().add_session(_decompressed_session(session_id, small))
        return super().session(session_id)

    def add_session(self, session: SessionState) -> None:
        """Open a session."""
        self.touched.add(session.id)
        super().add_session(session)

    def forget_oldest_tombstone(self) -> str:
        """Forget the tombstone that was made first, and return its trace id."""
        trace_id = super().forget_oldest_tombstone()
        self._on_tombstone(trace_id, 0.0, None)
        return trace_id

    def sessions(self) -> Iterator[SessionState]:
        """Return the sessions one by one; a compressed one is compressed again before the next."""
        for session_id in [*self._compressed_sessions, *self._sessions]:
            was_compressed = session_id in self._compressed_sessions
            session = self.session(session_id)
            if session is not None:
                yield session
                if was_compressed and session_id in self._sessions:
                    self._keep_compressed(session, _compressed_session(session))

    def drop_session(self, session_id: str) -> None:
        """Forget a session altogether."""
        self._compressed_sessions.pop(session_id, None)
        super().drop_session(session_id)

    def has(self, trace_id: str) -> bool:
        """Tell whether a trace is open, without decompressing it."""
        return trace_id in self._traces or (len(trace_id) == 32 and bytes.fromhex(trace_id) in self.compressed)

    def trace(self, trace_id: str) -> TraceState | None:
        """Return an open trace."""
        found = super().trace(trace_id)
        if found is None and len(trace_id) == 32:
            small = self.compressed.pop(bytes.fromhex(trace_id), None)
            if small is not None:
                found = self._decompressed(trace_id, small)
                self.add_trace(found)
        return found

    def traces(self) -> Iterator[TraceState]:
        """Return the open traces; each is decompressed when it is reached."""
        yielded: set[str] = set()
        while self.compressed:
            trace_id = next(iter(self.compressed)).hex()
            yielded.add(trace_id)
            if (trace := self.trace(trace_id)) is not None:
                yield trace
        yield from (trace for trace in super().traces() if trace.trace_id not in yielded)

    def compress(self, now: float) -> list[str]:
        """Compress traces that are quiet and settled, with their sessions; return their trace ids."""
        done: list[TraceState] = []
        for trace in islice(self._traces.values(), _AT_ONCE):
            if trace.last + _QUIET > now:
                break
            settled = trace.fragments is not None and trace.ready == trace.fragments and trace.due is None
            if settled and not trace.held and not trace.plain and len(trace.trace_id) == 32:
                done.append(trace)
        compressed: list[str] = []
        for trace in done:
            small = self.side.run(trace.size, (trace.trace_id,), partial(_compressed, trace))
            if trace.due is None and trace.trace_id in self._traces:  # nothing came for it meanwhile
                del self._traces[trace.trace_id]
                self.compressed[bytes.fromhex(trace.trace_id)] = small
                self._texts.pack(trace.trace_id)
                compressed.append(trace.trace_id)
        self._compress_sessions(now)
        return compressed

    def _compress_sessions(self, now: float) -> None:
        for session in list(islice(self._sessions.values(), _AT_ONCE)):
            if session.last + _QUIET <= now and all(len(trace_id) == 32 for trace_id in session.traces):
                due, compress = session.due, partial(_compressed_session, session)
                small = self.side.run(len(session.results), (session.id,), compress)
                if session.due == due and session.id in self._sessions:
                    self._keep_compressed(session, small)

    def drop_trace(self, trace_id: str) -> None:
        """Drop a trace without results."""
        self.trace(trace_id)
        super().drop_trace(trace_id)
        self._on_closed(trace_id)

    def drop_with_tombstone(self, trace_id: str, now: float) -> None:
        """Drop a trace and leave a tombstone for it."""
        trace = self.trace(trace_id)
        super().drop_with_tombstone(trace_id, now)
        if trace is not None:
            self._on_closed(trace_id)

    def keep_tombstone(self, trace_id: str, at: float, known: bytes) -> None:
        """Keep a tombstone with the ids in `known`, and forget the oldest ones beyond a limit."""
        self._on_tombstone(trace_id, at, known)
        super().keep_tombstone(trace_id, at, known)

    def restore_tombstone(self, trace_id: str, at: float, known: bytes) -> None:
        """Restore a tombstone of an earlier process."""
        super().keep_tombstone(trace_id, at, known)

    def _keep_compressed(self, session: SessionState, small: bytes) -> None:
        self._compressed_sessions[session.id] = small
        super().drop_session(session.id)

    def _decompressed(self, trace_id: str, small: bytes) -> TraceState:
        content: tuple[Any, ...] = msgspec.msgpack.decode(zlib.decompress(small))
        last, counted, lost, records = content
        trace = TraceState(trace_id, last, counted=counted, lost=lost)
        for record in records:
            fact = decode_record(record, self._texts.find)
            trace.lost_text = trace.lost_text or lost_text(fact)
            trace.add(fact)
        trace.fragments = trace.reading.fragments(self._assembly.session_keys, lambda _: None)
        trace.set_ready(trace.fragments)
        return trace


def _compressed(trace: TraceState) -> bytes:
    records = [*map(encode_record, trace.spans.values()), *map(encode_record, trace.logs.values())]
    content = (trace.last, trace.counted, trace.lost, records)
    return zlib.compress(msgspec.msgpack.encode(content), 1)


def _compressed_session(session: SessionState) -> bytes:
    traces = b"".join(bytes.fromhex(trace_id) for trace_id in session.traces if len(trace_id) == 32)
    return msgspec.msgpack.encode((session.last, session.due, session.is_scored, traces, encode_session(session)))


def _decompressed_session(session_id: str, small: bytes) -> SessionState:
    last, due, is_scored, traces, results = msgspec.msgpack.decode(small)
    session = decode_session(session_id, results, last)
    session.due, session.is_scored = due, is_scored
    session.traces = {traces[at : at + 16].hex(): None for at in range(0, len(traces), 16)}
    return session
