"""What the stages of a stream take, give and keep: their settings, rows of state, messages and outputs.

The state of a partition is rows of bytes, and what crosses the topic by session is messages of bytes.
A fragment is the part of a turn that one trace holds: its recognised spans, with what log records add to them, the
spans above them, and its session. It is encoded without anything that no turn, call or score is made of, so that the
same fragment has the same bytes, whatever came around it.
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from hashlib import blake2b
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.encoded_spans.call_records import (
    KeptContent,
    Piece,
    decode_record,
    decode_session,
    encode_record,
    encode_session,
    with_contents,
)
from goldspan.collector_processor.encoded_spans.span_groups import KeyScanner
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.collector_processor.engine.trace_machine import EngineSettings, EngineStats
from goldspan.mappers.assembly.trace_tree import time_order
from goldspan.mappers.assembly.turn_fragments import FoundSession, Fragment, restored_fragment
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.readers.compression import zlib_library
from goldspan.mappers.span_facts import NO_CONTEXT, ContextFacts, LogFacts, Role, SpanFacts, first_captured
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import NO_CONTENT, Content, SpanRef


class PartitionState(Protocol):
    """The key-value store of one partition of one stage. What was set is seen at once, committed or not."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        ...

    def set(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete a key, if it is there."""
        ...

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that start with a prefix and their values, in the order of keys."""
        ...


class DueTimes:
    """When each of many things is looked at next."""

    def __init__(self) -> None:
        self._times: dict[bytes, float] = {}
        self._queue: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: bytes) -> bool:
        return key in self._times

    def __getitem__(self, key: bytes) -> float:
        return self._times[key]

    def set(self, key: bytes, when: float) -> None:
        """Set when something is looked at, in place of any time before."""
        self._times[key] = when
        heapq.heappush(self._queue, (when, key))

    def remove(self, key: bytes) -> None:
        """Forget something."""
        del self._times[key]

    def first(self) -> float | None:
        """Return the earliest time."""
        while self._queue and self._times.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self, until: float) -> Iterator[tuple[float, bytes]]:
        """Yield what is due until then, the earliest first; times may be set meanwhile."""
        while (due := self.first()) is not None and due <= until:
            yield heapq.heappop(self._queue)


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What all partitions of both stages share."""

    goldens: GoldenIndex
    settings: EngineSettings
    """When turns and runs are scored and state is dropped, in seconds of event time. `max_spans` has no effect."""
    registry: DialectRegistry
    scanner: KeyScanner
    hold: bool = True
    """Spans that may get a score wait for it. Without, results are events and metrics only."""
    max_trace_spans: int = 20_000
    """Spans and log records of a trace; results of a trace with more are `incomplete`."""
    max_session_spans: int = 100_000
    """Spans of a session; results of a session with more are `incomplete`."""
    unread_span_bytes: int = 64 << 20
    """Memory of a partition for spans of traces that no golden wants so far."""
    max_text_bytes: int = 64 << 20
    """Memory of a partition for messages, results and definitions of tools, where a metric asks for them; results of
    a trace whose text did not fit are `incomplete`, as are those of one with more than 1 MiB."""
    cached_bytes: int = 64 << 20
    """Rows of sessions that a partition keeps in memory."""
    problems: Counter[str] = field(default_factory=Counter[str])
    """What dialects did wrong, by code."""

    @classmethod
    def of(cls, goldens: GoldenIndex, settings: EngineSettings | None = None, *, hold: bool = True) -> StreamContext:
        """Return the context for these goldens, with the dialects that are installed."""
        settings, problems = settings or EngineSettings(), Counter[str]()
        registry = DialectRegistry(
            session_keys=settings.assembly.session_keys,
            join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
            definitions=settings.scorer.reads_definitions(goldens.goldens),
            on_problem=lambda problem: problems.update((problem.code,)),
        )
        scanner = KeyScanner(registry, settings.assembly.session_keys)
        return cls(goldens, settings, registry, scanner, hold, problems=problems)

    def with_goldens(self, goldens: GoldenIndex) -> StreamContext:
        """Return the same with other goldens."""
        own = StreamContext.of(goldens, self.settings)
        own.problems.update(self.problems)
        return dataclass_replace(
            self, goldens=goldens, registry=own.registry, scanner=own.scanner, problems=own.problems
        )


@dataclass(slots=True)
class StageStats(EngineStats):
    """What one partition of a stage has counted since it was assigned. Most of its spans are passed on unread."""

    held_past_timeout: int = 0
    problems: Counter[str] = field(default_factory=Counter[str])
    """Spans and rows that could not be read, and other mistakes in telemetry, by code."""


# Outputs.


class ToSession(Struct, frozen=True, gc=False):
    """A record for the topic by session: `key` is the session id."""

    key: bytes
    body: bytes


class ToEverySessionPartition(Struct, frozen=True, gc=False):
    """A record for each partition of the topic by session: the watermark of a partition of the first stage."""

    body: bytes


class ToEveryTracePartition(Struct, frozen=True, gc=False):
    """A record for each partition of the first stage: content for spans of another trace. It is rare."""

    body: bytes


class Traces(Struct, frozen=True, gc=False):
    """An `ExportTraceServiceRequest`: spans, scored or passed on."""

    body: bytes


class Logs(Struct, frozen=True, gc=False):
    """An `ExportLogsServiceRequest`: one event for each result. Those of a session stay in order: the last counts."""

    key: bytes
    """The session id."""
    body: bytes


class Results(Struct, frozen=True, gc=False):
    """The results in the events that came just before, for metric points and reports."""

    evaluations: tuple[Evaluation, ...]
    sessions: tuple[SessionResult, ...] = ()
    """Complete runs; a later result of the same session and run replaces an earlier one."""


class DeadLetter(Struct, frozen=True, gc=False):
    """A body that cannot be read, and why."""

    body: bytes
    error: str


Output = ToSession | ToEverySessionPartition | ToEveryTracePartition | Traces | Logs | Results | DeadLetter


MAX_BYTES = 400_000
"""Of a row and of a message, about; a broker takes a megabyte unless it is told otherwise."""
FORMAT = 1
"""Of messages and rows; those of another format are refused."""


# Messages from the first stage to the second.


class SessionMessage(Struct, frozen=True, gc=False, array_like=True):
    """What the first stage tells a session, or the watermark alone, told to each partition of the second."""

    format: int
    source: int
    """The partition of the first stage that it comes from."""
    watermark: float
    """Event time up to which that partition has sent everything, in seconds since the epoch."""
    trace: str = ""
    changes: tuple[tuple[str, bytes | None], ...] = ()
    """Fragments of that trace by the span id of their root; None: it does not belong to this session any longer."""
    held: bytes = b""
    """An `ExportTraceServiceRequest` with spans that get their scores now."""
    epoch: int = 0
    """How often the partition has begun with a worker: a later one continues at the last commit and says all anew."""


_messages = msgspec.msgpack.Decoder(SessionMessage)
_encode = msgspec.msgpack.Encoder().encode


def session_message(
    source: int,
    watermark: float,
    trace: str = "",
    changes: Iterable[tuple[str, bytes | None]] = (),
    held: bytes = b"",
    *,
    epoch: int = 0,
) -> bytes:
    """Return a message of the first stage as bytes."""
    return _encode(SessionMessage(FORMAT, source, watermark, trace, tuple(changes), held, epoch))


def decode_message(body: bytes) -> SessionMessage:
    """Return the message in these bytes. Raises `ValueError` if there is none."""
    try:
        message = _messages.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"found no message of the first stage: {error}") from error
    if message.format != FORMAT:
        raise ValueError(f"found a message of format {message.format}, expected {FORMAT}: it is of another version")
    return message


# Fragments.


def _compressed(content: object) -> bytes:
    return cast("bytes", zlib_library().compress(_encode(content), 1))


def encode_fragment(fragment: Fragment, *, incomplete: bool) -> bytes:
    """Return a fragment as bytes; `incomplete`: records of its trace were dropped."""
    taken = _taken_contents(fragment)
    others = _spans_above(fragment)
    session = fragment.session
    spans = [*(_needed(span, taken) for span in fragment.spans), *(_needed(span, taken, above=True) for span in others)]
    same = {name: _same_contents(spans, name) for name in _REPEATED}
    for name, places in same.items():
        for at, _ in places:
            spans[at] = _with_content(spans[at], name, NO_CONTENT)
    records, members = list(map(encode_record, spans)), len(fragment.spans)
    content = (
        fragment.root.span_id,
        (session.id, session.source, session.ambiguous),
        incomplete,
        records[:members],
        records[members:],
        same,
        [None if ref is None else ref.span_id for ref in (fragment.unit, fragment.around)],
    )
    return _compressed(content)


_REPEATED = ("tool_definitions", "user_text")
"""What many spans of a turn have in common: it is written once."""
_MOST_DIFFERENT = 16


def _same_contents(spans: Sequence[SpanFacts], name: str) -> list[tuple[int, int]]:
    """Return the places of spans with the content of this name of an earlier one, and the place of that one."""
    first: deque[int] = deque(maxlen=_MOST_DIFFERENT)
    same: list[tuple[int, int]] = []
    for at, span in enumerate(spans):
        if (own := getattr(span.context, name)) != NO_CONTENT:
            before = next((one for one in first if getattr(spans[one].context, name) == own), None)
            if before is None:
                first.append(at)
            else:
                same.append((at, before))
    return same


def _with_content(span: SpanFacts, name: str, content: Content) -> SpanFacts:
    return span.changed(context=replace(span.context, **{name: content}))


def _spans_above(fragment: Fragment) -> list[SpanFacts]:
    """Return the spans above those of a fragment, in the order of time."""
    ids = {span.span_id for span in fragment.spans}
    above = {} if fragment.root_span is None else {fragment.root.span_id: fragment.root_span}
    for span_id in (fragment.root.span_id, *ids):
        for span in fragment.tree.ancestors(span_id):
            if span.span_id in above:
                break
            above[span.span_id] = span
    return sorted((span for span_id, span in above.items() if span_id not in ids), key=time_order)


def decode_fragment(encoded: bytes) -> tuple[Fragment, bool]:
    """Return the fragment in these bytes, and whether records of its trace were dropped. Raises `ValueError`."""
    try:
        root, session, incomplete, members, others, same, near = msgspec.msgpack.decode(zlib.decompress(encoded))
        spans = _spans([*members, *others])
        repeated: dict[str, list[tuple[int, int]]] = same
        for name, places in repeated.items():
            for at, before in places:
                spans[at] = _with_content(spans[at], name, getattr(spans[before].context, name))
        own, above = spans[: len(members)], spans[len(members) :]
        beside = [None if span_id is None else SpanRef(own[0].trace_id, span_id) for span_id in near]
        fragment = restored_fragment(root, own, above, FoundSession(*session), beside)
    except (msgspec.MsgspecError, zlib.error, TypeError, IndexError) as error:
        raise ValueError(f"found a part of a turn that cannot be read: {error}") from error
    return fragment, incomplete


def _spans(encoded: Sequence[bytes]) -> list[SpanFacts]:
    return [fact for one in encoded if not isinstance(fact := decode_record(one), LogFacts)]


def _needed(span: SpanFacts, contents: Sequence[Content], *, above: bool = False) -> SpanFacts:
    """Return a span with what its turn is made of.

    The version tells only which delivery is kept, and the session is known. Of messages and the like only those in
    `contents` stay, the definitions of tools, and what a user said to each. What a tool `above` a fragment did is not a
    part of it.
    """
    resource = span.resource if not span.resource.session_keys else replace(span.resource, session_keys=())
    context = span.context
    if context is not NO_CONTEXT:
        own = context.user_text, context.answer, context.messages
        taken = [one if any(one is chosen for chosen in contents) else NO_CONTENT for one in own]
        told = taken[0] if above else context.user_text
        context = ContextFacts(told, taken[1], taken[2], context.tool_definitions)
    tool = None if above else span.tool
    needed = span.changed(version=(0, 0, ""), session_keys=(), notes=(), resource=resource, context=context, tool=tool)
    return needed if (whole := with_contents(needed, _whole)) is needed or isinstance(whole, LogFacts) else whole


def _whole(content: Content) -> Content:
    return Content(content.raw, content.capture) if isinstance(content, KeptContent) else content


def _taken_contents(fragment: Fragment) -> tuple[Content, ...]:
    """Return the contents of a fragment that its turn may take: the first or the last copy that was captured.

    Each model call repeats the messages so far. What the first span was told and the last model answered is held
    against other runs.
    """
    root = [fragment.root_span.context] if fragment.root_span is not None else []
    own = [span.context for span in fragment.spans]
    last = next((span.context for span in reversed(fragment.spans) if span.role is Role.MODEL), None)
    return (
        fragment.user_text,
        fragment.answer,
        first_captured(one.messages for one in [*reversed(own), *root]),
        *([own[0].messages] if last is None else [last.answer]),
    )


def digest(encoded: bytes) -> bytes:
    """Return 8 bytes that differ where the encoded fragments do."""
    return blake2b(encoded, digest_size=8).digest()


# Rows.

TraceRow = tuple[list[tuple[str, bytes]], list[bytes]]
"""Pieces of text by their keys, and encoded records that name them."""


def encode_trace_row(pieces: Iterable[Piece], records: Sequence[bytes]) -> bytes:
    """Return encoded records of a trace, and the pieces of text that no earlier row of it has, as one row."""
    return _compressed(([(piece.key, piece.read()) for piece in pieces], records))


def decode_trace_row(row: bytes) -> TraceRow:
    """Return what is in a row of a trace. Raises `ValueError`."""
    try:
        found: TraceRow = msgspec.msgpack.decode(zlib.decompress(row), type=TraceRow)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise ValueError(f"found a row that cannot be read: {error}") from error
    return found


def encode_head(state: SessionState, *, incomplete: bool) -> bytes:
    """Return the state of a session without its fragments."""
    return _encode((FORMAT, state.due, state.last, state.is_scored, incomplete, state.id, encode_session(state)))


def due_of(head: bytes) -> float | None:
    """Return when a session is looked at next."""
    due: float | None = _decoded(head)[0]
    return due


def decode_head(head: bytes) -> tuple[SessionState, bool]:
    """Return the state of a session without its fragments, and whether it is incomplete. Raises `ValueError`."""
    due, last, is_scored, incomplete, session_id, encoded = _decoded(head)
    state = decode_session(session_id, encoded, last)
    state.due, state.is_scored = due, is_scored
    return state, incomplete


def _decoded(row: bytes) -> list[Any]:
    try:
        found: list[Any] = msgspec.msgpack.decode(row)
    except msgspec.MsgspecError as error:
        raise ValueError(f"found a row that cannot be read: {error}") from error
    if not found or found[0] != FORMAT:
        raise ValueError(f"found a row of format {found[0] if found else None}, expected {FORMAT}")
    return found[1:]
