"""The first stage, by trace id: traces are assembled, and the turns that are complete go to their sessions.

    spans, logs   which traces are read? -> keep their facts, hold the spans that may get a score, pass on all others
    advance       no new record for `settle`? -> fragments -> those that changed go to their sessions, with held spans
    save          what changed since the last call becomes rows of the state

Time is event time: that of the records. Rows are written by `save` alone, which the application calls before it commits
its offsets. So what is not saved is read again after a restart, and a row is written once for many records.

Rows of a partition, by the first byte of their keys:

    t + trace                  what is known of an open trace: what was sent to which session, when it is looked at next
    r + trace + number         records of a trace that came between two calls of `save`
    h + trace + span           a held span
    u + number                 spans that no golden wants so far
    x + trace                  a tombstone: the trace was dropped, and what comes for it is late
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from goldspan.collector_processor.encoded_spans.call_records import (
    KeptTexts,
    decode_record,
    encode_record,
    lost_text,
    pieces_of,
)
from goldspan.collector_processor.encoded_spans.span_groups import (
    EncodedSpanBuffer,
    Envelope,
    SpanGroup,
    TraceSelection,
    by_trace,
    chunks,
    join_request,
    split_request,
)
from goldspan.collector_processor.engine.reading_and_holding import SessionsWithoutGolden
from goldspan.collector_processor.engine.trace_machine import TraceMachine, TraceRecords, is_root
from goldspan.collector_processor.stream.stage_interface import (
    FORMAT,
    MAX_BYTES,
    DeadLetter,
    DueTimes,
    Output,
    PartitionState,
    StageStats,
    StreamContext,
    ToEverySessionPartition,
    ToEveryTracePartition,
    ToSession,
    Traces,
    decode_trace_row,
    digest,
    encode_fragment,
    encode_trace_row,
    session_message,
)
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import LogFacts, Record, SpanFacts, content_size
from goldspan.scoring.errors import Problem

_HEARTBEAT = 1.0  # seconds of event time after which every session partition is told the watermark
_QUIET = 5.0  # seconds without new records after which a trace is kept in rows alone
_MAX_TOMBSTONES = 100_000
_ID_BYTES = 16
"""Of a trace id. Spans without one are passed on: nobody knows which partition has their turn."""
_TRACE, _RECORDS, _HELD, _UNREAD, _TOMBSTONE, _EPOCH = b"t", b"r", b"h", b"u", b"x", b"e"


@dataclass(slots=True)
class _HeldSpan:
    """A span that waits for its turn."""

    span: bytes
    envelope: Envelope
    since: float
    saved: bool = False


class _Sent(NamedTuple):
    """A fragment that was sent."""

    session: str
    digest: bytes
    fragment: Fragment | None = None  # None: it was sent by an earlier worker
    incomplete: bool = False  # records of it were dropped


@dataclass(slots=True)
class _StoredTrace(TraceRecords):
    """An open trace, and what its rows say of it."""

    key: bytes = b""
    held: dict[str, _HeldSpan] = field(default_factory=dict[str, _HeldSpan])
    sent: dict[str, _Sent] = field(default_factory=dict[str, _Sent])  # by the span id of its root
    rows: int = 0  # rows with its records
    unsaved: list[Record] = field(default_factory=list[Record])
    written: set[bytes] = field(default_factory=set[bytes])  # digests of the pieces of text in its rows
    released: list[str] = field(default_factory=list[str])  # spans that are not held any longer, and have a row
    complete: bool = False  # all of it was sent
    loaded: bool = True  # its records are in memory


class _SavedSpanBuffer(EncodedSpanBuffer):
    """A span buffer that knows what was added since the last `save`."""

    def __init__(self, retention: float, max_bytes: int) -> None:
        super().__init__(retention=retention, max_bytes=max_bytes)
        self.unsaved: list[SpanGroup] = []
        self.newest = 0.0
        """When the last spans came."""

    def put(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        super().put(envelope, spans, now)
        if self.max_bytes:
            self.unsaved += [SpanGroup(envelope, some) for some in spans.values()]
            self.newest = max(self.newest, now)


class TraceStage:
    """One partition of the first stage. For one thread."""

    def __init__(self, context: StreamContext, state: PartitionState, partition: int) -> None:
        """Continue with the state of this partition."""
        self._context = context
        self._settings = context.settings
        self._machine = TraceMachine(context.goldens, context.settings)
        self._state = state
        self._partition = partition
        self.stats = StageStats()
        self.without_golden = SessionsWithoutGolden()
        self._unread = _SavedSpanBuffer(self._settings.trace_retention, 0)
        self._texts = KeptTexts(lambda _: None, context.max_text_bytes)
        """Messages, results and definitions of tools, where a metric asks for them."""
        self._selection = TraceSelection(
            context.goldens,
            context.registry,
            context.scanner,
            unread=self._unread,
            content=False,
            is_open=self._is_open,
            without_golden=self.without_golden,
            on_unmatched=self._count_unmatched,
            on_problem=self._on_problem,
        )
        self.use_goldens(context)
        self._now = 0.0
        """The watermark. Records may be ahead of it, since other topics of the partition may lag."""
        self._last_heartbeat = 0.0  # its watermark
        self._traces: OrderedDict[bytes, _StoredTrace] = OrderedDict()
        """Open traces in memory, the least recently active first."""
        self._due = DueTimes()  # every open trace
        self._tombstones: OrderedDict[bytes, float] = OrderedDict()
        self._changed: dict[bytes, None] = {}  # traces in memory that differ from their rows
        self._unread_rows: deque[tuple[float, int]] = deque()
        self._epoch = 1 + struct.unpack(">Q", state.get(_EPOCH) or bytes(8))[0]
        self._writes: list[tuple[bytes, bytes | None]] = [(_EPOCH, struct.pack(">Q", self._epoch))]
        """Rows of dropped traces, and tombstones, that `save` writes or deletes."""
        self._restore()

    @property
    def open_traces(self) -> int:
        """Traces whose records are kept."""
        return len(self._due)

    # Input.

    def spans(self, body: bytes, now: float) -> Iterable[Output]:
        """Receive an `ExportTraceServiceRequest` of this time."""
        now = max(now, self._now)
        groups = split_request(body)
        if groups is None:
            return [DeadLetter(body, "found no ExportTraceServiceRequest")]
        outputs: list[Output] = []
        held: set[int] = set()
        for key, parts in self._selection.select(body, groups, now):
            if len(key) != _ID_BYTES or self._is_late(key, sum(len(part.spans) for part in parts)):
                continue
            trace = self._open(key, now)
            for part in parts:
                held.update(map(id, self._add_group(trace, part, now, outputs)))
        if not held:
            return [*outputs, Traces(body)]
        passed = [SpanGroup(one.envelope, [span for span in one.spans if id(span) not in held]) for one in groups]
        forward = join_request(passed)
        return [*outputs, Traces(forward)] if forward else outputs

    def logs(self, body: bytes, now: float) -> Iterable[Output]:
        """Receive an `ExportLogsServiceRequest` of this time. Log records are not passed on."""
        now = max(now, self._now)
        if split_request(body) is None:
            return [DeadLetter(body, "found no ExportLogsServiceRequest")]
        for fact in self._selection.log_facts(body):
            self._receive_log(fact, now)
        return []

    def notes(self, body: bytes, now: float) -> Iterable[Output]:
        """Receive content for spans of another trace, as another partition told it by `ToEveryTracePartition`."""
        now = max(now, self._now)
        try:
            fact = decode_record(body)
        except ValueError as error:
            return [DeadLetter(body, str(error))]
        if isinstance(fact, LogFacts):
            self._receive_log(fact, now)
        return []

    # Time.

    def deadline(self) -> float | None:
        """Return the next time at which `advance` has work to do."""
        return self._due.first()

    def advance(self, watermark: float) -> Iterable[Output]:
        """Send what is complete by this time, each trace as of the time at which it was."""
        now = self._now = max(self._now, watermark)
        outputs: list[Output] = []
        for due, key in self._due.take(now):
            trace = self._find(key)
            if trace is not None:
                self._check(trace, due, outputs)
        if now >= self._last_heartbeat + _HEARTBEAT:
            self._last_heartbeat = now
            outputs.append(ToEverySessionPartition(session_message(self._partition, now, epoch=self._epoch)))
        return outputs

    # State.

    def save(self) -> None:
        """Write rows for what changed since the last call."""
        for row, value in self._writes:
            if value is None:
                self._state.delete(row)
            else:
                self._state.set(row, value)
        self._writes.clear()
        for key in self._changed:
            if (trace := self._traces.get(key)) is not None:
                self._save_trace(trace)
        self._changed.clear()
        number = self._unread_rows[-1][1] + 1 if self._unread_rows else 0
        since = max(self._now, self._unread.newest)  # the watermark is 0 until it is known
        unsaved, self._unread.unsaved = self._unread.unsaved, []
        for groups in chunks(unsaved, _size, MAX_BYTES):
            self._state.set(_UNREAD + struct.pack(">Q", number), struct.pack(">d", since) + join_request(groups))
            self._unread_rows.append((since, number))
            number += 1
        while self._unread_rows and self._unread_rows[0][0] + self._settings.trace_retention <= self._now:
            _, oldest = self._unread_rows.popleft()
            self._state.delete(_UNREAD + struct.pack(">Q", oldest))
        self._forget_quiet()

    def _save_trace(self, trace: _StoredTrace) -> None:
        for records in chunks(trace.unsaved, lambda record: 1_000 + content_size(record), MAX_BYTES):
            pieces = {piece.digest: piece for record in records for piece in pieces_of(record)}
            new = [piece for digest, piece in pieces.items() if digest not in trace.written]
            trace.written |= pieces.keys()
            self._state.set(_row_key(trace.key, trace.rows), encode_trace_row(new, list(map(encode_record, records))))
            trace.rows += 1
        trace.unsaved.clear()
        for span_id in trace.released:
            self._state.delete(_HELD + trace.key + span_id.encode())
        trace.released.clear()
        for span_id, held in trace.held.items():
            if not held.saved:
                held.saved = True
                row = (held.since, *held.envelope, held.span)
                self._state.set(_HELD + trace.key + span_id.encode(), msgspec.msgpack.encode(row))
        sent = [(root, one.session, one.digest) for root, one in trace.sent.items()]
        flags = (trace.lost, trace.lost_text, trace.counted, trace.complete)
        head = (FORMAT, self._due[trace.key], trace.last, trace.rows, flags, sent)
        self._state.set(_TRACE + trace.key, msgspec.msgpack.encode(head))

    def _forget_quiet(self) -> None:
        """Keep traces that are settled and quiet in their rows alone."""
        while self._traces:
            key, trace = next(iter(self._traces.items()))
            if trace.last + _QUIET > self._now or trace.held:
                break
            del self._traces[key]
            self._texts.release(trace.trace_id)

    def _restore(self) -> None:
        for key, row in self._state.items(_TOMBSTONE):
            self._tombstones[key[1:]] = struct.unpack(">d", row)[0]
        self._tombstones = OrderedDict(sorted(self._tombstones.items(), key=lambda one: one[1]))
        for key, row in self._state.items(_TRACE):
            form, due, *_ = msgspec.msgpack.decode(row)
            if form == FORMAT:
                self._due.set(key[1:], due)
        for key, row in self._state.items(_UNREAD):
            since = struct.unpack(">d", row[:8])[0]
            self._unread_rows.append((since, struct.unpack(">Q", key[1:])[0]))
            for group in split_request(row[8:]) or ():
                unread = {
                    trace: spans
                    for trace, spans in by_trace(group.spans).items()
                    if not self._is_open(trace) and trace not in self._tombstones
                }
                self._unread.put(group.envelope, unread, since)
        self._unread.unsaved.clear()

    # Traces.

    def _is_open(self, key: bytes) -> bool:
        return key in self._due

    def _is_late(self, key: bytes, records: int) -> bool:
        if key not in self._tombstones:
            return False
        self.stats.late += records
        return True

    def _find(self, key: bytes) -> _StoredTrace | None:
        """Return an open trace, from memory or from its rows, perhaps without its records."""
        trace = self._traces.get(key)
        if trace is not None or key not in self._due or (row := self._state.get(_TRACE + key)) is None:
            return trace
        _, _, last, rows, (lost, lost_text, counted, complete), sent = msgspec.msgpack.decode(row)
        trace = _StoredTrace(key.hex(), last, lost=lost, lost_text=lost_text, counted=counted, complete=complete)
        trace.key, trace.rows, trace.loaded = key, rows, False
        trace.sent = {root: _Sent(session, known) for root, session, known in sent}
        for held_key, held in self._state.items(_HELD + key):
            since, resource, scope, span = msgspec.msgpack.decode(held)
            trace.held[held_key[1 + len(key) :].decode()] = _HeldSpan(
                span, Envelope(resource, scope), since, saved=True
            )
        self._traces[key] = trace
        return trace

    def _load(self, trace: _StoredTrace) -> None:
        """Read the records of a trace from its rows."""
        if not trace.loaded:
            trace.loaded = True
            for number in range(trace.rows):
                row = self._state.get(_row_key(trace.key, number))
                pieces, records = decode_trace_row(row) if row is not None else ([], [])
                for key, content in pieces:
                    self._texts.restore(key, content)
                for encoded in records:
                    record = decode_record(encoded, self._texts.find)
                    self._texts.hold(record)
                    trace.written.update(piece.digest for piece in pieces_of(record))
                    trace.add(record)

    def _open(self, key: bytes, now: float) -> _StoredTrace:
        """Return a trace with the spans of it that were kept unread."""
        trace = self._find(key)
        if trace is None:
            trace = self._traces[key] = _StoredTrace(key.hex(), now, lost=self._unread.lost_calls(key), key=key)
            self._due.set(key, now + self._settings.settle)
            for group in self._unread.take(key):
                for fact in self._selection.facts(group):
                    if fact is not None and fact.span_id:
                        self._add_span(trace, fact, now, [])
        self._load(trace)
        return trace

    def _add_group(self, trace: _StoredTrace, group: SpanGroup, now: float, outputs: list[Output]) -> Iterator[bytes]:
        """Keep spans of a trace; yield those that are held."""
        for fact, span in zip(self._selection.facts(group), group.spans, strict=True):
            if fact is None or not fact.span_id or not self._add_span(trace, fact, now, outputs):
                continue
            if self._context.hold and self._machine.may_get_score(trace, fact, root=is_root(fact)):
                before = trace.held.get(fact.span_id)  # a span that comes again waits no longer for it
                trace.held[fact.span_id] = _HeldSpan(span, group.envelope, now if before is None else before.since)
                yield span

    def _add_span(self, trace: _StoredTrace, fact: SpanFacts, now: float, outputs: list[Output]) -> bool:
        """Keep a span and its notes; False for one that came before."""
        self.stats.spans += 1
        for note in fact.notes:
            if note.trace_id == trace.trace_id:
                self._add(trace, note, now)
            elif note.trace_id:
                outputs.append(ToEveryTracePartition(encode_record(note)))
        return self._add(trace, fact, now)

    def _add(self, trace: _StoredTrace, record: Record, now: float) -> bool:
        """Keep a record, while there is room; False for one that came before."""
        kept = self._kept(trace, record)
        if not trace.has_room(kept, self._context.max_trace_spans):
            trace.lost, trace.fragments = True, None
        elif trace.add(kept):
            trace.unsaved.append(kept)
        else:
            self.stats.repeated += 1
            return False
        trace.last = max(trace.last, now)  # a note may be of an earlier time than the spans it is for
        trace.complete = False
        self._traces.move_to_end(trace.key)
        self._changed[trace.key] = None
        if self._due[trace.key] > trace.last + self._settings.settle:
            self._due.set(trace.key, trace.last + self._settings.settle)
        return True

    def _kept(self, trace: _StoredTrace, record: Record) -> Record:
        """Return a record with its text in pieces, which all records of a trace share."""
        if not self._keeps_text:
            return record
        kept = self._texts.kept(record)
        if lost_text(kept) and not trace.lost_text:
            trace.lost_text = True
            self._on_problem(Problem("dropped_text", f"trace {trace.trace_id} has too much text", ""))
        return kept

    def _receive_log(self, fact: Record, now: float) -> None:
        try:
            key = bytes.fromhex(fact.trace_id)
        except ValueError:
            return
        if len(key) == _ID_BYTES and not self._is_late(key, 1):
            self._add(self._open(key, now), fact, now)

    # Completion.

    def _check(self, trace: _StoredTrace, now: float, outputs: list[Output]) -> None:
        """Send what is complete, release what waited too long, drop the trace if it was quiet for long."""
        settled_at = trace.last + self._settings.settle
        again: float | None = settled_at
        if trace.complete and now >= self._machine.kept_until(trace, wanted=True):
            again = None
        elif now >= settled_at:
            again = self._send(trace, now, outputs)
        if trace.held:
            timeout = self._settings.hold_timeout
            overdue = [span_id for span_id, held in trace.held.items() if held.since + timeout <= now]
            self.stats.held_past_timeout += len(overdue)
            outputs += _requests(self._release(trace, overdue))
            times = [held.since + timeout for held in trace.held.values()]
            again = min(times if again is None else [again, *times], default=None)
        if again is None:
            self._drop(trace, now)
        else:
            self._due.set(trace.key, again)
            self._changed[trace.key] = None

    def _send(self, trace: _StoredTrace, now: float, outputs: list[Output]) -> float | None:
        """Send the fragments that are complete; return when to look again, None if the trace is to be dropped."""
        self._load(trace)
        machine = self._machine
        turns, again = machine.check(trace, now, self._on_problem, has_turns=bool(trace.sent), stay=trace.sent)
        if turns is not None:
            self._send_changes(trace, turns, now, outputs)
        if again is not None:
            return again
        outputs += _requests(self._release(trace, list(trace.held)))
        trace.complete = turns is not None
        if turns is None and (unmatched := trace.unmatched()) is not None:
            self._count_unmatched(*unmatched)
        dropped_at = machine.kept_until(trace, wanted=bool(trace.sent) or machine.has_logs_only(trace, turns))
        return dropped_at if now < dropped_at else None

    def _send_changes(self, trace: _StoredTrace, ready: Iterable[Fragment], now: float, outputs: list[Output]) -> None:
        """Send the fragments that differ from what was sent, and take back those that are not there any longer."""
        changes: dict[str, list[tuple[str, bytes | None]]] = {}
        held: dict[str, list[SpanGroup]] = {}
        before, trace.sent = trace.sent, {}
        for fragment in ready:
            root, session = fragment.root.span_id, fragment.session.id
            incomplete = trace.lacks_records_of((fragment,))
            known = before.get(root)
            if known is not None and known.fragment is fragment and known.incomplete is incomplete:
                trace.sent[root] = known  # as most of a long trace
                continue
            own = dict.fromkeys((root, *(span.span_id for span in fragment.spans)))
            spans = self._release(trace, filter(trace.held.__contains__, own))
            if not self._machine.goldens.wants(session):
                outputs += _requests(spans)
                continue
            encoded = encode_fragment(fragment, incomplete=incomplete)
            trace.sent[root] = sent = _Sent(session, digest(encoded), fragment, incomplete)
            if known is None or (known.session, known.digest) != (sent.session, sent.digest):
                changes.setdefault(session, []).append((root, encoded))
            if spans:
                held.setdefault(session, []).extend(spans)
        for root, known in before.items():
            if root not in trace.sent or trace.sent[root].session != known.session:
                changes.setdefault(known.session, []).append((root, None))
        for session in dict.fromkeys((*changes, *held)):
            outputs += self._to_session(trace, session, changes.get(session, ()), held.get(session, ()), now)

    def _to_session(
        self,
        trace: _StoredTrace,
        session: str,
        changes: Iterable[tuple[str, bytes | None]],
        held: Iterable[SpanGroup],
        now: float,
    ) -> Iterator[ToSession]:
        """Yield the messages to a session: the last changes and the first spans in one, so that it is scored once."""
        key = session.encode("utf-8", "surrogatepass")
        some_changes = list(chunks(changes, lambda change: len(change[1] or b""), MAX_BYTES))
        some_held = [join_request(groups) for groups in chunks(held, _size, MAX_BYTES)]
        last = [(some_changes.pop(), some_held.pop(0))] if some_changes and some_held else []
        messages = [*((one, b"") for one in some_changes), *last, *(((), one) for one in some_held)]
        for one, spans in messages:
            yield ToSession(key, session_message(self._partition, now, trace.trace_id, one, spans, epoch=self._epoch))

    def _release(self, trace: _StoredTrace, span_ids: Iterable[str]) -> list[SpanGroup]:
        """Stop holding these spans; return them."""
        groups: list[SpanGroup] = []
        for span_id in span_ids:
            held = trace.held.pop(span_id)
            groups.append(SpanGroup(held.envelope, [held.span]))
            if held.saved:
                trace.released.append(span_id)
        return groups

    def _drop(self, trace: _StoredTrace, now: float) -> None:
        if trace.sent or (not trace.recognised and self._machine.may_matter(trace)):
            self._tombstones[trace.key] = now
            self._writes.append((_TOMBSTONE + trace.key, struct.pack(">d", now)))
        else:
            self._unread.note_loss(trace.key, calls=trace.has_calls)
        while self._tombstones and (
            len(self._tombstones) > _MAX_TOMBSTONES
            or next(iter(self._tombstones.values())) + self._settings.tombstone_ttl <= now
        ):
            oldest, _ = self._tombstones.popitem(last=False)
            self._writes.append((_TOMBSTONE + oldest, None))
        self._due.remove(trace.key)
        del self._traces[trace.key]
        self._texts.release(trace.trace_id)
        self._changed.pop(trace.key, None)
        rows = [_TRACE + trace.key, *(_row_key(trace.key, number) for number in range(trace.rows))]
        rows += [_HELD + trace.key + span_id.encode() for span_id in trace.released]
        self._writes += [(row, None) for row in rows]

    def use_goldens(self, context: StreamContext) -> None:
        """Read what the goldens of this context ask for from now on."""
        goldens, scorer = context.goldens, self._settings.scorer
        self._context, self._machine.goldens = context, goldens
        content = scorer.reads_content(goldens.goldens)
        self._keeps_text = content or scorer.reads_definitions(goldens.goldens)
        self._unread.max_bytes = context.unread_span_bytes if goldens.wants_any else 0
        self._selection.use_goldens(goldens, context.registry, context.scanner, content=content)

    def _count_unmatched(self, session_id: str, source: str) -> None:
        if self._context.goldens.goldens:
            self.stats.sessions_without_golden += self.without_golden.add(session_id, source)

    def _on_problem(self, problem: Problem) -> None:
        self.stats.problems[problem.code] += 1


def _row_key(key: bytes, number: int) -> bytes:
    return _RECORDS + key + struct.pack(">I", number)


def _size(group: SpanGroup) -> int:
    return sum(map(len, group.spans)) + len(group.envelope.resource)


def _requests(groups: Sequence[SpanGroup]) -> Iterator[Traces]:
    for some in chunks(groups, _size, MAX_BYTES):
        yield Traces(join_request(some))
