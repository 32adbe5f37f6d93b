"""The spans of one tenant: `span_groups` says which the engine reads; of these, some wait for their scores."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from threading import Event, RLock
from typing import NamedTuple

from goldspan.collector_processor.emit.evaluation import Evaluation, span_attributes
from goldspan.collector_processor.emit.otlp_encoding import EncodedMetrics
from goldspan.collector_processor.encoded_spans.call_records import KeptTexts, encode_session, lost_text
from goldspan.collector_processor.encoded_spans.span_groups import (
    EncodedSpanBuffer,
    Envelope,
    KeyScanner,
    SpanGroup,
    TraceSelection,
    chunks,
    has_scores,
    join_request,
    with_scores,
)
from goldspan.collector_processor.engine.engine import AT_ONCE, Engine, EngineOutput
from goldspan.collector_processor.engine.reading_and_holding import HeldSpan, HeldSpans
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.collector_processor.gateway.compressed_store import CompressedStore
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.deliver.outbox import Outbox, RequestSources
from goldspan.collector_processor.gateway.interfaces import ExportRequest, Headers, tenant_name
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.span_facts import LogFacts, Record
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

_MAX_SPANS, _MAX_BYTES = 512, 4 << 20  # the released spans in one request; a request that is larger has one span
_METRICS_INTERVAL = 10.0  # seconds between metric points that count only sessions without golden
_KEEP_INTERVAL = 60.0
"""Seconds after which points are sent again though nothing was counted: exporters drop series that seem to be gone."""
_HELD_OVERHEAD = 600  # bytes of memory that a held span takes beside its own


class ReadingRules(NamedTuple):
    """What every tenant reads by."""

    goldens: GoldenIndex
    registry: DialectRegistry
    scanner: KeyScanner

    @classmethod
    def of(
        cls, goldens: GoldenIndex, settings: PipelineSettings, on_problem: Callable[[Problem], object]
    ) -> ReadingRules:
        """Read all attributes that these goldens and settings need, and tell what dialects do wrong."""
        session_keys = settings.engine.assembly.session_keys
        registry = DialectRegistry(
            session_keys=session_keys,
            join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
            definitions=settings.engine.scorer.reads_definitions(goldens.goldens),
            on_problem=on_problem,
        )
        return cls(goldens, registry, KeyScanner(registry, session_keys))


ALREADY_SENT = -inf
"""When spans came that were sent on before they are read."""


class BodySpan(NamedTuple):
    """A span that waits for its scores, and the number of the request it came in."""

    span: bytes
    envelope: Envelope
    body: int


ReleasedSpans = Sequence[HeldSpan[BodySpan]]


@dataclass(frozen=True, slots=True)
class HoldDecision:
    """What happens to the spans of one request."""

    held: frozenset[SpanRef] = frozenset()
    forward: bytes | None = None
    """A request with the spans that are not held; empty if all are. None: nothing is held, the request is unchanged."""
    facts: tuple[Record, ...] = ()
    """What was fed to the engine, for the journal."""


@dataclass(frozen=True, slots=True)
class TenantOutput:
    """What one step of the engine gave, with the held spans it released."""

    output: EngineOutput
    released: ReleasedSpans = ()


class TenantMetrics:
    """The metric points of one tenant. Each request has them all, so it replaces an earlier one that still waits."""

    def __init__(self, instance: str, headers: Headers, outbox: Outbox, name_limit: int) -> None:
        """Send by `outbox`; `instance` names this gateway."""
        self._points = EncodedMetrics("goldspan-gateway", instance, name_limit)
        self._headers = headers
        self._outbox = outbox
        self._newest: PendingRequest | None = None
        self._changed = False
        self._next_at = 0.0  # when points may be sent that count only sessions without golden
        self._keep_at = 0.0

    def folded(self) -> Iterator[Mapping[str, object]]:
        """Yield the names of tools, arguments and agents that are counted as `_other`, as JSON values."""
        for service, kind, name, count in self._points.known_names.folded():
            yield {"service": service, "kind": kind, "name": name, "count": count}

    def record(self, final: Sequence[Evaluation], superseded: Sequence[Evaluation], now: float) -> None:
        """Record results that are final, and those that are so no longer; send the points with the next commit."""
        self._points.record(final, superseded)
        self._send(now)

    def count_without_golden(self, total: int, now: float, *, at_once: bool = False) -> None:
        """Count sessions that no golden wants; points are sent now and then, or with the next results."""
        self._changed |= self._points.count_without_golden(total)
        if (self._changed and (at_once or now >= self._next_at)) or (self._newest and now >= self._keep_at):
            self._send(now)

    def _send(self, now: float) -> None:
        self._next_at, self._changed = now + _METRICS_INTERVAL, False
        self._keep_at = now + _KEEP_INTERVAL
        if encoded := self._points.encoded():
            request = ExportRequest(Signal.METRICS, encoded, self._headers)
            self._newest = self._outbox.replace(self._newest, request)


class Tenant:
    """One engine, its goldens, the spans it holds, and what of them is in the journal. For one thread."""

    def __init__(
        self,
        headers: Headers,
        rules: ReadingRules,
        settings: PipelineSettings,
        outbox: Outbox,
        *,
        instance: str,
        on_problem: Callable[[Problem], object],
        go_on: Callable[[Event], object] | None = None,
    ) -> None:
        """Judge the spans that come with these headers, and send by `outbox`; `instance` names this gateway.

        `go_on` is what the thread does while a large session is judged in another one.
        """
        self.name = json.dumps(headers)
        """The key of the tenant in the journal."""
        self.label = tenant_name(headers)
        """What people call it."""
        self.headers = headers
        self._rules = rules
        self._settings = settings
        self._outbox = outbox
        self._on_problem = on_problem
        self._go_on = go_on
        self.metrics = TenantMetrics(instance, headers, outbox, settings.name_limit)
        self.unread = EncodedSpanBuffer(retention=settings.engine.trace_retention, max_bytes=settings.unread_span_bytes)
        self.journaled: dict[str, int] = {}
        """For each session a hash of its results as they were last written to the journal."""
        self._past_without_golden = 0  # sessions without golden of engines that are gone
        self._start()

    def _start(self) -> None:
        """Begin with an empty engine that holds nothing."""
        goldens, settings = self._rules.goldens, self._settings.engine
        self.texts = KeptTexts(self._delete_records)
        """Messages, results and definitions of tools, where a metric asks for them."""
        self.store = CompressedStore(self._closed, self._write_tombstone, settings.assembly, self.texts)
        self.engine = Engine(goldens, settings, self.store)
        self.engine.side.go_on = self._go_on
        self.store.side = self.engine.side
        self._open: set[bytes] = set()  # traces that the engine reads, by the bytes of their ids
        self.selection = TraceSelection(
            *self._rules,
            unread=self.unread,
            content=self._read_as_asked(goldens),
            is_open=self._is_read,
            without_golden=self.engine.without_golden,
            on_unmatched=self.engine.count_unmatched,
            on_problem=self._on_problem,
        )
        self.held = HeldSpans[BodySpan](RLock())

    def restart(self) -> None:
        """Replace an engine that failed: its state cannot be trusted. Unread spans stay."""
        self._past_without_golden = self.sessions_without_golden
        self.delete_from_journal()
        self._start()

    @property
    def sessions_without_golden(self) -> int:
        """Sessions that no golden wants."""
        return self._past_without_golden + self.engine.stats.sessions_without_golden

    def receive_spans(
        self, body: bytes, groups: Sequence[SpanGroup], number: int, now: float, since: float | None = None
    ) -> HoldDecision:
        """Receive the spans of a request that came at `since`; `ALREADY_SENT` ones are read and never held."""
        since = now if since is None else since
        facts: list[Record] = []
        held: dict[int, SpanRef] = {}
        for trace, parts in self.selection.select(body, groups, now):
            facts += self._open_trace(trace, now)
            for part in parts:
                fed, waiting = self._feed(part, number, now, since=since)
                facts += fed
                held |= waiting
        if not held:
            return HoldDecision(facts=tuple(facts))
        forward = [SpanGroup(one.envelope, [span for span in one.spans if id(span) not in held]) for one in groups]
        return HoldDecision(frozenset(held.values()), join_request(forward), tuple(facts))

    def receive_logs(self, body: bytes, now: float) -> tuple[Record, ...]:
        """Feed the log records that concern spans to the engine, and return them."""
        read: list[Record] = []
        for fact in self.selection.log_facts(body):
            read.append(self._engine_feeds(fact, now)[0])
            trace = bytes.fromhex(fact.trace_id)
            if trace not in self._open and self.store.has(fact.trace_id):
                read += self._open_trace(trace, now)
        return tuple(read)

    def compact(self, now: float) -> None:
        """Compress quiet traces and drop expired tombstones."""
        if self.engine.side.is_busy:
            return
        self.store.expire(now - self.engine.settings.tombstone_ttl)
        for trace_id in self.store.compress(now):
            self._open.discard(bytes.fromhex(trace_id))

    def is_due(self, now: float) -> bool:
        """Tell whether `poll` has something to do."""
        deadline = self.engine.deadline()
        return deadline is not None and deadline <= now

    def poll(self, now: float) -> TenantOutput | None:
        """Return a part of what is due; None if nothing is."""
        if not self.is_due(now):
            return None
        engine = self.engine
        output = engine.poll(now, AT_ONCE)
        # Meanwhile it may have failed at another session, and there is a new one.
        return self._output(output) if engine is self.engine else None

    def flush(self, now: float, *, end_of_input: bool) -> TenantOutput:
        """Return every turn that is ready, and release every span."""
        output = self._output(self.engine.flush(now, end_of_input=end_of_input))
        return replace(output, released=(*output.released, *self.held.release_all()))

    def use_goldens(self, rules: ReadingRules) -> None:
        """Judge by these goldens from now on, and read the attributes that they join on."""
        self._rules = rules
        self.engine.use_goldens(rules.goldens)
        self.selection.use_goldens(*rules, content=self._read_as_asked(rules.goldens))

    # Requests, and rows of the journal.

    def send_released(self, released: ReleasedSpans) -> None:
        """Send released spans: those with attributes after a commit, the others as a part of their bodies."""
        for some in _chunks([held for held in released if held.attributes]):
            self._outbox.send_after_commit(self._request_of(some), _refs_by_body(some))
        self._send_unscored([held for held in released if not held.attributes], self._outbox.send)

    def release_overdue(self, now: float, *, beside_worker: bool) -> int:
        """Send the spans that were held for `hold_timeout`, and return how many; `beside_worker`: in another thread.

        That thread does what need not be noted before: those with attributes, and all if delivery is slow, can wait.
        """
        if beside_worker and self._outbox.is_slow:
            return 0
        released = self.held.release_older(now - self._settings.engine.hold_timeout, scored=not beside_worker)
        if beside_worker:
            self._send_unscored(released, self._outbox.send_at_once)
        else:
            self.send_released(released)
        return len(released)

    def _send_unscored(self, released: ReleasedSpans, send: Callable[[ExportRequest, RequestSources], object]) -> None:
        for some in _chunks(released):
            groups = (SpanGroup(held.span.envelope, [held.span.span]) for held in some)
            request = ExportRequest(Signal.TRACES, join_request(groups), self.headers)
            send(request, RequestSources(held=_refs_by_body(some)))

    def _request_of(self, released: ReleasedSpans) -> ExportRequest:
        scored = (
            SpanGroup(held.span.envelope, [with_scores(held.span.span, held.attributes, held.metrics)])
            for held in released
        )
        return ExportRequest(Signal.TRACES, join_request(scored), self.headers)

    def journal_sessions(self) -> None:
        """Write the sessions whose results changed to the journal."""
        side = self.engine.side
        touched, self.store.touched = self.store.touched, set()
        changing = touched & side.subjects if side.is_busy else set[str]()
        sessions = self._outbox.changes.sessions
        for session_id in touched - changing:
            session = self.store.session(session_id)
            newest = 0 if session is None else session_hash(session)
            if newest == self.journaled.get(session_id, 0):
                continue
            if session is None or not newest:
                self.journaled.pop(session_id, None)
                sessions[self.name, session_id] = None
            else:
                self.journaled[session_id] = newest
                encode = partial(encode_session, session)
                sessions[self.name, session_id] = side.run(len(session.results), (session_id,), encode)
        self.store.touched = changing  # what was read here did not change

    def delete_from_journal(self) -> None:
        """Delete all rows of a tenant that is dropped, or whose engine failed."""
        self._outbox.changes.forget(self.name)
        self.journaled.clear()

    def _delete_records(self, trace_id: str) -> None:
        self._outbox.changes.close(self.name, trace_id)

    def _write_tombstone(self, trace_id: str, at: float, known: bytes | None) -> None:
        self._outbox.changes.tombstones[self.name, trace_id] = None if known is None else (at, known)

    def _closed(self, trace_id: str) -> None:
        if len(trace_id) == 32:
            self._open.discard(bytes.fromhex(trace_id))
        self.texts.release(trace_id)
        self._delete_records(trace_id)

    def _read_as_asked(self, goldens: GoldenIndex) -> bool:
        """Tell whether messages and results are read; keep text if so, or if definitions are."""
        scorer = self.engine.settings.scorer
        content = scorer.reads_content(goldens.goldens)
        self._keeps_text = content or scorer.reads_definitions(goldens.goldens)
        return content

    def _is_read(self, trace: bytes) -> bool:
        return trace in self._open or trace in self.store.compressed

    def restore(self, record: Record, now: float) -> None:
        """Feed a record of the journal to the engine after a restart."""
        self.texts.hold(record)
        self._engine_feeds(record, now)
        if record.trace_id and self.store.has(record.trace_id):
            self._open.add(bytes.fromhex(record.trace_id))

    def _open_trace(self, trace: bytes, now: float) -> list[Record]:
        """Let the engine read a trace: feed its buffered spans, and note whether the buffer lost some."""
        if trace in self._open or trace in self.store.compressed or not trace:
            return []
        self._open.add(trace)
        if (lost := self.selection.unread.lost_calls(trace)) is not None and not self.store.has(trace.hex()):
            self.store.note_loss(trace.hex(), calls=lost)
        facts: list[Record] = []
        for group in self.selection.unread.take(trace):
            facts += self._feed(group, 0, now, since=ALREADY_SENT)[0]
        return facts

    def _feed(
        self, group: SpanGroup, number: int, now: float, *, since: float
    ) -> tuple[list[Record], dict[int, SpanRef]]:
        """Feed spans to the engine; return their facts, and the held ones by the identity of their bytes object.

        They came at `since`, which may be too long ago to hold them.
        """
        settings = self._settings
        hold = settings.hold == "turn" and since + settings.engine.hold_timeout > now
        facts: list[Record] = []
        waiting: dict[int, SpanRef] = {}
        for fact, span in zip(self.selection.facts(group), group.spans, strict=True):
            if fact is None:
                continue
            kept, wanted = self._engine_feeds(fact, now)
            facts.append(kept)
            ref = fact.ref
            may_hold = wanted and hold and fact.span_id
            size = len(span) + _HELD_OVERHEAD
            if may_hold and self.held.add(ref, BodySpan(span, group.envelope, number), size, since):
                waiting[id(span)] = ref
        return facts, waiting

    def _engine_feeds(self, record: Record, now: float) -> tuple[Record, bool]:
        """Feed a record with its text kept; return it so, and whether its span should be held."""
        if self._keeps_text:
            record = self.texts.kept(record)
            if self.texts.is_full:
                self.texts.make_room(self.store.compressed)
        if isinstance(record, LogFacts):
            self.engine.feed_log(record, now)
            wanted = False
        else:
            wanted = self.engine.feed(record, now)
        if self._keeps_text:
            if not self.store.has(record.trace_id):
                self.texts.release(record.trace_id)
            elif lost_text(record) and (trace := self.store.trace(record.trace_id)) is not None:
                self._on_problem(Problem("dropped_text", f"trace {record.trace_id} has too much text", ""))
                trace.lost_text = True
        return record, wanted

    def _output(self, output: EngineOutput) -> TenantOutput:
        for evaluation in output.evaluations:
            if (held := self.held.get(evaluation.target)) is not None:
                self._annotate(held, evaluation)
        return TenantOutput(output, self.held.release(output.released))

    def _annotate(self, held: HeldSpan[BodySpan], evaluation: Evaluation) -> None:
        """Add the attributes of a result, in place of those that the client wrote under the same names."""
        attributes, metric = span_attributes(evaluation), evaluation.metric
        if attributes and metric not in held.metrics and has_scores(held.span.span, (metric,)):
            self._on_problem(Problem("overwritten_score", f"span {held.ref.span_id} came with a score", ""))
        held.annotate(metric, attributes)


def session_hash(session: SessionState) -> int:
    """Return a number that changes when a session gets or corrects a result; 0 without results."""
    if not (session.results or session.complete_runs or session.dropped):
        return 0
    revisions = tuple((one.id, one.revision) for one in session.results.values())
    return hash((session.dropped, frozenset(session.complete_runs), revisions)) or 1


def _chunks(released: ReleasedSpans) -> Iterator[list[HeldSpan[BodySpan]]]:
    return chunks(released, lambda held: len(held.span.span), _MAX_BYTES, _MAX_SPANS)


def _refs_by_body(released: ReleasedSpans) -> dict[int, list[SpanRef]]:
    found: dict[int, list[SpanRef]] = {}
    for held in released:
        found.setdefault(held.span.body, []).append(held.ref)
    return found


# The tenants of a gateway, and how much memory each may use.
#
# Every distinct set of forwarded headers is a tenant with an engine, a span buffer and metrics of its own. All tenants
# have equal shares of `max_spans` and `unread_span_bytes`. Beyond `max_tenants` the least recently active one is judged
# and dropped; beyond `max_held_bytes` the tenant that receives spans releases the ones that it has held longest.


class TenantTable:
    """The tenants by their headers, the least recently active first. For one thread; iterating is thread-safe."""

    def __init__(
        self,
        settings: PipelineSettings,
        create: Callable[[Headers], Tenant],
        evict: Callable[[Tenant, float], object],
    ) -> None:
        """Make tenants by `create`; a tenant beyond `max_tenants` is given to `evict`, with the time, and dropped."""
        self._settings = settings
        self._create = create
        self._evict = evict
        self._tenants: OrderedDict[str, Tenant] = OrderedDict()
        self.evicted = 0
        self.buffers_unread = True
        """Unread spans are worth keeping: a golden may want a later span of their trace."""

    def __iter__(self) -> Iterator[Tenant]:
        return iter(list(self._tenants.values()))

    def __len__(self) -> int:
        return len(self._tenants)

    def named(self, name: str) -> Tenant | None:
        """Return the tenant with this key in the journal."""
        return self._tenants.get(name)

    def open_sessions(self, headers: Headers) -> int:
        """Return how many sessions a tenant has open. Any thread may ask."""
        tenant = self._tenants.get(json.dumps(headers))
        return 0 if tenant is None else tenant.store.open_sessions

    def restored(self, name: str, now: float) -> Tenant:
        """Return the tenant with this key in the journal, created if needed."""
        return self.of(tuple((key, value) for key, value in json.loads(name)), now)

    def of(self, headers: Headers, now: float) -> Tenant:
        """Return the tenant of a request with these headers, created if needed; it is now the most recently active."""
        name = json.dumps(headers)
        tenant = self._tenants.get(name)
        if tenant is not None:
            self._tenants.move_to_end(name)
            return tenant
        tenant = self._tenants[name] = self._create(headers)
        if len(self._tenants) > self._settings.max_tenants:
            idle = (one for one in self._tenants.values() if one is not tenant and not one.engine.side.is_busy)
            if (oldest := next(idle, None)) is not None:
                self._drop(oldest, now)
        self.share_memory()
        return tenant

    def share_memory(self) -> None:
        """Give every tenant an equal share of the memory for spans."""
        shares, settings = len(self._tenants), self._settings
        for tenant in self._tenants.values():
            tenant.unread.max_bytes = settings.unread_span_bytes // shares if self.buffers_unread else 0
            tenant.texts.max_bytes = settings.max_text_bytes // shares
            tenant.engine.settings = replace(settings.engine, max_spans=max(1, settings.engine.max_spans // shares))

    def release_excess(self, tenant: Tenant) -> ReleasedSpans:
        """Release held spans of a tenant, the oldest first, until all tenants together hold `max_held_bytes`."""
        excess = sum(one.held.size for one in self._tenants.values()) - self._settings.max_held_bytes
        return tenant.held.release_excess(inf, max(0, tenant.held.size - excess))[0] if excess > 0 else ()

    def _drop(self, tenant: Tenant, now: float) -> None:
        self.evicted += 1
        tenant.engine.side.go_on = None
        self._evict(tenant, now)
        del self._tenants[tenant.name]
