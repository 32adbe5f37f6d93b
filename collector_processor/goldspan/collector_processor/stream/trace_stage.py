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

import heapq
import struct
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from goldspan.collector_processor.encoded_spans.call_records import decode_record, encode_record
from goldspan.collector_processor.encoded_spans.kept_texts import KeptTexts, lost_text, pieces_of
from goldspan.collector_processor.encoded_spans.span_groups import (
    EncodedSpanBuffer,
    Envelope,
    SpanGroup,
    by_trace,
    join_request,
    split_request,
)
from goldspan.collector_processor.encoded_spans.trace_selection import TraceSelection
from goldspan.collector_processor.engine.sessions_without_golden import SessionsWithoutGolden
from goldspan.collector_processor.stream.rows_and_messages import (
    FORMAT,
    chunks,
    decode_trace_row,
    digest,
    encode_fragment,
    encode_trace_row,
    session_message,
)
from goldspan.collector_processor.stream.stage_interface import (
    DeadLetter,
    Output,
    PartitionState,
    StageStats,
    StreamContext,
    ToEverySessionPartition,
    ToEveryTracePartition,
    ToSession,
    Traces,
)
from goldspan.mappers.assembly import Fragment, TraceReading
from goldspan.mappers.assembly.trace_reading import newer_version
from goldspan.mappers.span_facts import LogFacts, Record, Role, SpanFacts, content_size
from goldspan.scoring.errors import Problem

_HEARTBEAT = 1.0
"""Seconds of event time after which every session partition is told the watermark."""
_QUIET = 5.0
"""Seconds without new records after which a trace is kept in rows alone."""
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


@dataclass(slots=True)
class _Trace:
    """An open trace."""

    key: bytes
    last: float = 0.0
    """When its newest record came."""
    spans: dict[str, SpanFacts] = field(default_factory=dict[str, SpanFacts])
    logs: dict[str, LogFacts] = field(default_factory=dict[str, LogFacts])
    recognised: int = 0
    session_ids: dict[str, str] = field(default_factory=dict[str, str])
    """Every session id that its records name, with the attribute."""
    rooted: bool = False
    """A span without a parent in its process was seen, so no caller is still running."""
    lost: bool | None = None
    """Records of it were dropped; whether they may have described calls."""
    lost_text: bool = False
    """Text of it did not fit."""
    counted: bool = False
    """It was counted as a session without golden."""
    held: dict[str, _HeldSpan] = field(default_factory=dict[str, _HeldSpan])
    sent: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    """The session and the digest of each fragment that was sent, by the span id of its root."""
    encoded: dict[str, tuple[Fragment, bool]] = field(default_factory=dict[str, tuple[Fragment, bool]])
    """Each fragment that was encoded, and whether records of it were dropped, by the span id of its root."""
    reading: TraceReading = field(default_factory=TraceReading)
    """What was read of its records."""
    fragments: list[Fragment] | None = None
    """None after a new record, until they are read again."""
    rows: int = 0
    """Rows with its records."""
    unsaved: list[Record] = field(default_factory=list[Record])
    written: set[bytes] = field(default_factory=set[bytes])
    """Digests of the pieces of text in its rows."""
    released: list[str] = field(default_factory=list[str])
    """Spans that are not held any longer, and have a row."""
    complete: bool = False
    """All of it was sent."""
    loaded: bool = True
    """Its records are in memory."""

    @property
    def id(self) -> str:
        return self.key.hex()

    @property
    def size(self) -> int:
        return len(self.spans) + len(self.logs)


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
        self._goldens = context.goldens
        self._state = state
        self._partition = partition
        self.stats = StageStats()
        self.without_golden = SessionsWithoutGolden()
        self._unread = _SavedSpanBuffer(
            self._settings.trace_retention, context.unread_span_bytes if context.goldens.wants_any else 0
        )
        scorer = self._settings.scorer
        content = scorer.reads_content(context.goldens.goldens)
        self._keeps_text = content or scorer.reads_definitions(context.goldens.goldens)
        self._texts = KeptTexts(lambda _: None, context.max_text_bytes)
        """Messages, results and definitions of tools, where a metric asks for them."""
        self._selection = TraceSelection(
            context.goldens,
            context.registry,
            context.scanner,
            unread=self._unread,
            content=content,
            is_open=self._is_open,
            without_golden=self.without_golden,
            on_unmatched=self._count_unmatched,
            on_problem=self._on_problem,
        )
        self._now = 0.0
        """The watermark. Records may be ahead of it, since other topics of the partition may lag."""
        self._told = 0.0
        """The watermark of the last heartbeat."""
        self._traces: OrderedDict[bytes, _Trace] = OrderedDict()
        """Open traces in memory, the least recently active first."""
        self._due: dict[bytes, float] = {}
        """Every open trace, and when it is looked at next."""
        self._queue: list[tuple[float, bytes]] = []
        self._tombstones: OrderedDict[bytes, float] = OrderedDict()
        self._changed: dict[bytes, None] = {}
        """Traces in memory that differ from their rows."""
        self._writes: list[tuple[bytes, bytes | None]] = []
        """Rows of dropped traces, and tombstones, that `save` writes or deletes."""
        self._unread_rows: deque[tuple[float, int]] = deque()
        self._epoch = 1 + struct.unpack(">Q", state.get(_EPOCH) or bytes(8))[0]
        self._saved_epoch = False
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
                for fact, span in zip(self._selection.facts(part), part.spans, strict=True):
                    if fact is None or not fact.span_id or not self._add_span(trace, fact, now, outputs):
                        continue
                    if self._may_get_score(trace, fact):
                        trace.held[fact.span_id] = _HeldSpan(span, part.envelope, now)
                        held.add(id(span))
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
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def advance(self, watermark: float) -> Iterable[Output]:
        """Send what is complete by this time, each trace as of the time at which it was."""
        now = self._tick(watermark)
        outputs: list[Output] = []
        while (due := self.deadline()) is not None and due <= now:
            _, key = heapq.heappop(self._queue)
            trace = self._find(key)
            if trace is not None:
                self._check(trace, due, outputs)
        if now >= self._told + _HEARTBEAT:
            self._told = now
            outputs.append(ToEverySessionPartition(session_message(self._partition, now, epoch=self._epoch)))
        return outputs

    # State.

    def save(self) -> None:
        """Write rows for what changed since the last call."""
        if not self._saved_epoch:
            self._saved_epoch = True
            self._state.set(_EPOCH, struct.pack(">Q", self._epoch))
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
        self._save_unread()
        self._forget_quiet()

    def _save_trace(self, trace: _Trace) -> None:
        for records in chunks(trace.unsaved, lambda record: 1_000 + content_size(record)):
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
        sent = [(root, session, known) for root, (session, known) in trace.sent.items()]
        flags = (trace.lost, trace.lost_text, trace.counted, trace.complete)
        head = (FORMAT, self._due[trace.key], trace.last, trace.rows, flags, sent)
        self._state.set(_TRACE + trace.key, msgspec.msgpack.encode(head))

    def _save_unread(self) -> None:
        number = self._unread_rows[-1][1] + 1 if self._unread_rows else 0
        since = max(self._now, self._unread.newest)  # the watermark is 0 until it is known
        unsaved, self._unread.unsaved = self._unread.unsaved, []
        for groups in chunks(unsaved, lambda group: sum(map(len, group.spans)) + len(group.envelope.resource)):
            self._state.set(_UNREAD + struct.pack(">Q", number), struct.pack(">d", since) + join_request(groups))
            self._unread_rows.append((since, number))
            number += 1
        while self._unread_rows and self._unread_rows[0][0] + self._settings.trace_retention <= self._now:
            _, oldest = self._unread_rows.popleft()
            self._state.delete(_UNREAD + struct.pack(">Q", oldest))

    def _forget_quiet(self) -> None:
        """Keep traces that are settled and quiet in their rows alone."""
        while self._traces:
            key, trace = next(iter(self._traces.items()))
            if trace.last + _QUIET > self._now or trace.held:
                break
            del self._traces[key]
            self._texts.release(trace.id)

    def _restore(self) -> None:
        for key, row in self._state.items(_TOMBSTONE):
            self._tombstones[key[1:]] = struct.unpack(">d", row)[0]
        self._tombstones = OrderedDict(sorted(self._tombstones.items(), key=lambda one: one[1]))
        for key, row in self._state.items(_TRACE):
            form, due, *_ = msgspec.msgpack.decode(row)
            if form == FORMAT:
                self._schedule(key[1:], due)
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

    def _find(self, key: bytes) -> _Trace | None:
        """Return an open trace, from memory or from its rows, perhaps without its records."""
        trace = self._traces.get(key)
        if trace is not None or key not in self._due or (row := self._state.get(_TRACE + key)) is None:
            return trace
        _, _, last, rows, (lost, lost_text, counted, complete), sent = msgspec.msgpack.decode(row)
        trace = _Trace(key, last, lost=lost, lost_text=lost_text, counted=counted, complete=complete)
        trace.rows, trace.loaded = rows, False
        trace.sent = {root: (session, known) for root, session, known in sent}
        for held_key, held in self._state.items(_HELD + key):
            since, resource, scope, span = msgspec.msgpack.decode(held)
            trace.held[held_key[1 + len(key) :].decode()] = _HeldSpan(
                span, Envelope(resource, scope), since, saved=True
            )
        self._traces[key] = trace
        return trace

    def _load(self, trace: _Trace) -> None:
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
                    _note(trace, record)

    def _open(self, key: bytes, now: float) -> _Trace:
        """Return a trace with the spans of it that were kept unread."""
        trace = self._find(key)
        if trace is None:
            trace = self._traces[key] = _Trace(key, now, lost=self._unread.lost_calls(key))
            self._schedule(key, now + self._settings.settle)
            for group in self._unread.take(key):
                for fact in self._selection.facts(group):
                    if fact is not None and fact.span_id:
                        self._add_span(trace, fact, now, [])
        self._load(trace)
        return trace

    def _add_span(self, trace: _Trace, fact: SpanFacts, now: float, outputs: list[Output]) -> bool:
        """Keep a span; False for one that came before."""
        self.stats.spans += 1
        for note in fact.notes:
            if note.trace_id == trace.id:
                self._add_log(trace, note, now)
            elif note.trace_id:
                outputs.append(ToEveryTracePartition(encode_record(note)))
        kept = self._kept(trace, fact)
        old = trace.spans.get(fact.span_id)
        if isinstance(kept, LogFacts) or newer_version(old, kept) is old:
            self.stats.repeated += 1
            return False
        self._add(trace, kept, now)
        return True

    def _add_log(self, trace: _Trace, fact: LogFacts, now: float) -> None:
        if fact.identity in trace.logs:
            self.stats.repeated += 1
        else:
            self._add(trace, self._kept(trace, fact), now)

    def _kept(self, trace: _Trace, record: Record) -> Record:
        """Return a record with its text in pieces, which all records of a trace share."""
        if not self._keeps_text:
            return record
        kept = self._texts.kept(record)
        if lost_text(kept) and not trace.lost_text:
            trace.lost_text = True
            self._on_problem(Problem("dropped_text", f"trace {trace.id} has too much text", ""))
        return kept

    def _add(self, trace: _Trace, record: Record, now: float) -> None:
        if trace.size >= self._context.max_trace_spans:
            trace.lost = True
        else:
            _note(trace, record)
            trace.unsaved.append(record)
        trace.last = max(trace.last, now)  # a note may be of an earlier time than the spans it is for
        trace.fragments = None
        trace.complete = False
        self._traces.move_to_end(trace.key)
        self._changed[trace.key] = None
        if self._due[trace.key] > trace.last + self._settings.settle:
            self._schedule(trace.key, trace.last + self._settings.settle)

    def _receive_log(self, fact: LogFacts, now: float) -> None:
        try:
            key = bytes.fromhex(fact.trace_id)
        except ValueError:
            return
        if len(key) == _ID_BYTES and not self._is_late(key, 1):
            self._add_log(self._open(key, now), fact, now)

    def _may_get_score(self, trace: _Trace, fact: SpanFacts) -> bool:
        """Tell whether a span is held: a tool or the root of a turn, unless no golden wants its session."""
        if not self._context.hold:
            return False
        root = fact.role is Role.AGENT or not fact.parent_id or fact.entry
        if not root and fact.role is not Role.TOOL:
            return False
        if trace.recognised == 0 and not (root and fact.session_keys):
            return False  # a LangSmith root names its session, and may end before the spans below it
        if fact.session_keys:
            return self._goldens.wants(fact.session_keys[0][1])
        return not trace.session_ids or self._may_matter(trace)

    def _may_matter(self, trace: _Trace) -> bool:
        wants = self._goldens.wants
        return any(map(wants, trace.session_ids)) or wants(trace.id)

    # Completion.

    def _check(self, trace: _Trace, now: float, outputs: list[Output]) -> None:
        """Send what is complete, release what waited too long, drop the trace if it was quiet for long."""
        settings = self._settings
        settled_at = trace.last + settings.settle
        again = [settled_at]
        if trace.complete and now >= trace.last + settings.retention:
            again = []
        elif now >= settled_at:
            self._load(trace)
            again = self._send(trace, now, outputs)
        if trace.held:
            overdue = [span_id for span_id, held in trace.held.items() if held.since + settings.hold_timeout <= now]
            self.stats.held_past_timeout += len(overdue)
            outputs += _requests(self._release(trace, overdue))
            again += [held.since + settings.hold_timeout for held in trace.held.values()]
        if again:
            self._schedule(trace.key, min(again))
            self._changed[trace.key] = None
        else:
            self._drop(trace, now)

    def _send(self, trace: _Trace, now: float, outputs: list[Output]) -> list[float]:
        """Send the fragments that are complete; return when to look again, nothing if the trace is to be dropped."""
        settings = self._settings
        if not trace.sent and not self._may_matter(trace):
            return self._pass_unwanted(trace, now, outputs)
        callers_until = trace.last + settings.caller_timeout
        fragments = trace.fragments
        if fragments is None:
            waiting = bool(trace.sent) or now >= callers_until
            fragments = trace.reading.fragments(settings.assembly.session_keys, self._on_problem, waiting=waiting)
            trace.fragments = None if trace.reading.waits else fragments
        again = [callers_until] if trace.fragments is None else []
        ready: list[Fragment] = []
        for fragment in fragments:
            ready_at = trace.last + self._waiting_time(fragment)
            if now >= ready_at or fragment.root.span_id in trace.sent:
                ready.append(fragment)
            else:
                again.append(ready_at)
        self._send_changes(trace, ready, now, outputs)
        if again:
            return again
        trace.complete = True
        outputs += _requests(self._release(trace, list(trace.held)))
        wanted = trace.sent or not fragments
        dropped_at = trace.last + (settings.retention if wanted else settings.trace_retention)
        return [dropped_at] if now < dropped_at else []

    def _pass_unwanted(self, trace: _Trace, now: float, outputs: list[Output]) -> list[float]:
        waits_until = trace.last if trace.rooted else trace.last + self._settings.caller_timeout
        if now < waits_until:
            return [waits_until]
        outputs += _requests(self._release(trace, list(trace.held)))
        if trace.recognised and not trace.counted:
            trace.counted = True
            self._count_unmatched(*next(iter(trace.session_ids.items()), (trace.id, "trace_id")))
        dropped_at = trace.last + self._settings.trace_retention
        return [dropped_at] if now < dropped_at else []

    def _waiting_time(self, fragment: Fragment) -> float:
        if fragment.waits_for_caller:
            return self._settings.caller_timeout
        return self._settings.hold_timeout if fragment.waits_for_remote else 0.0

    def _send_changes(self, trace: _Trace, ready: Sequence[Fragment], now: float, outputs: list[Output]) -> None:
        """Send the fragments that differ from what was sent, and take back those that are not there any longer."""
        changes: dict[str, list[tuple[str, bytes | None]]] = {}
        held: dict[str, list[SpanGroup]] = {}
        sent: dict[str, tuple[str, bytes]] = {}
        for fragment in ready:
            root, session = fragment.root.span_id, fragment.session.id
            incomplete = _lacks_records(trace, fragment)
            known, was_incomplete = trace.encoded.get(root, (None, False))
            unchanged = known is fragment and was_incomplete is incomplete  # as most of a long trace
            own = () if unchanged else dict.fromkeys((root, *(span.span_id for span in fragment.spans)))
            spans = self._release(trace, [span_id for span_id in own if span_id in trace.held])
            if not self._goldens.wants(session):
                outputs += _requests(spans)
                continue
            if unchanged:
                sent[root] = trace.sent[root]
                continue
            encoded = encode_fragment(fragment, incomplete=incomplete)
            sent[root] = session, digest(encoded)
            trace.encoded[root] = fragment, incomplete
            if trace.sent.get(root) != sent[root]:
                changes.setdefault(session, []).append((root, encoded))
            if spans:
                held.setdefault(session, []).extend(spans)
        for root, (session, _) in trace.sent.items():
            if root not in sent or sent[root][0] != session:
                changes.setdefault(session, []).append((root, None))
        trace.sent = sent
        trace.encoded = {root: known for root, known in trace.encoded.items() if root in sent}
        for session in dict.fromkeys((*changes, *held)):
            key = session.encode("utf-8", "surrogatepass")
            told = list(chunks(changes.get(session, ()), lambda change: len(change[1] or b"")))
            spans_of = list(chunks(held.get(session, ()), _size))
            last = told.pop() if told and spans_of else []  # one message where it fits, so that it is judged once
            for some in told:
                outputs.append(ToSession(key, session_message(self._partition, now, trace.id, some, epoch=self._epoch)))
            for groups in spans_of:
                body = session_message(self._partition, now, trace.id, last, join_request(groups), epoch=self._epoch)
                outputs.append(ToSession(key, body))
                last = []

    def _release(self, trace: _Trace, span_ids: Iterable[str]) -> list[SpanGroup]:
        """Stop holding these spans; return them."""
        groups: list[SpanGroup] = []
        for span_id in span_ids:
            held = trace.held.pop(span_id)
            groups.append(SpanGroup(held.envelope, [held.span]))
            if held.saved:
                trace.released.append(span_id)
        return groups

    def _drop(self, trace: _Trace, now: float) -> None:
        if trace.sent or (not trace.recognised and self._may_matter(trace)):
            self._tombstones[trace.key] = now
            self._writes.append((_TOMBSTONE + trace.key, struct.pack(">d", now)))
        else:
            self._unread.note_loss(trace.key, calls=trace.recognised > 0 or bool(trace.logs) or bool(trace.lost))
        while self._tombstones and (
            len(self._tombstones) > _MAX_TOMBSTONES
            or next(iter(self._tombstones.values())) + self._settings.tombstone_ttl <= now
        ):
            oldest, _ = self._tombstones.popitem(last=False)
            self._writes.append((_TOMBSTONE + oldest, None))
        del self._due[trace.key], self._traces[trace.key]
        self._texts.release(trace.id)
        self._changed.pop(trace.key, None)
        rows = [_TRACE + trace.key, *(_row_key(trace.key, number) for number in range(trace.rows))]
        rows += [_HELD + trace.key + span_id.encode() for span_id in trace.released]
        self._writes += [(row, None) for row in rows]

    def _schedule(self, key: bytes, when: float) -> None:
        self._due[key] = when
        heapq.heappush(self._queue, (when, key))

    def _tick(self, now: float) -> float:
        self._now = max(self._now, now)
        return self._now

    def _count_unmatched(self, session_id: str, source: str) -> None:
        if self._goldens.goldens:
            self.stats.sessions_without_golden += self.without_golden.add(session_id, source)

    def _on_problem(self, problem: Problem) -> None:
        self.stats.problems[problem.code] += 1


def _note(trace: _Trace, record: Record) -> None:
    """Add a record to a trace in memory."""
    keys = record.session_keys
    trace.reading.add(record)
    if isinstance(record, LogFacts):
        trace.logs[record.identity] = record
    else:
        old = trace.spans.get(record.span_id)
        trace.spans[record.span_id] = newer_version(old, record)
        trace.recognised += old is None and record.role is not None
        trace.rooted = trace.rooted or not record.parent_id or record.entry
        keys = (*keys, *record.resource.session_keys)
    for key, session_id in keys:
        trace.session_ids.setdefault(session_id, key)


def _lacks_records(trace: _Trace, fragment: Fragment) -> bool:
    """Tell whether records of this fragment were dropped: calls or text of it, or a plain span between others."""
    if trace.lost_text:
        return True
    return trace.lost is not None and (trace.lost or fragment.waits_for_caller or fragment.waits_for_remote)


def _row_key(key: bytes, number: int) -> bytes:
    return _RECORDS + key + struct.pack(">I", number)


def _size(group: SpanGroup) -> int:
    return sum(map(len, group.spans)) + len(group.envelope.resource)


def _requests(groups: Sequence[SpanGroup]) -> Iterator[Traces]:
    """Yield requests with these spans."""
    for some in chunks(groups, _size):
        yield Traces(join_request(some))
