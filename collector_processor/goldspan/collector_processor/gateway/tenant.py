"""The spans of one tenant: which are forwarded at once, which wait for their scores, and which the engine reads.

A span without a dialect's marker, or of a trace whose sessions no golden wants, is not decoded: it goes into the span
buffer. A span of a wanted session, or of a session that is not known yet, is read, and so is every later span of its
trace. Session ids are looked up under the keys of rule R6, on any span of the trace and its resource. So the engine
reads exactly the traces that may have results.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from goldspan.collector_processor.emit.attributes import Attributes, span_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.attribute_key_scanner import KeyScanner
from goldspan.collector_processor.gateway.compressed_store import CompressedStore
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.deliver.evaluation_requests import TenantMetrics
from goldspan.collector_processor.gateway.encoded_spans import (
    EncodedSpanBuffer,
    Envelope,
    SpanGroup,
    by_trace,
    has_scores,
    join_request,
    traces_at,
    with_scores,
)
from goldspan.collector_processor.gateway.interfaces import Headers
from goldspan.collector_processor.gateway.kept_texts import KeptTexts, lost_text
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_protobuf import ProtobufReader
from goldspan.mappers.span_facts import LogFacts, Record, SpanFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

_MAX_RESOURCES = _MAX_SCOPES = 256
_AT_ONCE = 128
"""Traces and sessions that are judged at once: between them held spans leave, and requests are received."""
"""Sessions without golden, each counted once while it is remembered."""


@dataclass(slots=True)
class HeldSpan:
    """A span that waits for its scores: its bytes, and the attributes that will be appended."""

    ref: SpanRef
    span: bytes
    envelope: Envelope
    body: int
    """The number of the request it came in."""
    since: float
    attributes: Attributes = field(default_factory=dict[str, "str | bool | int | float | tuple[str, ...]"])
    metrics: set[str] = field(default_factory=set[str])
    """The metrics that wrote these."""

    @property
    def size(self) -> int:
        """Estimated bytes of memory."""
        return len(self.span) + 600

    def scored(self) -> SpanGroup:
        """Return the span with its attributes, ready to be forwarded."""
        return SpanGroup(self.envelope, [with_scores(self.span, self.attributes, self.metrics)])


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
    released: Sequence[HeldSpan] = ()
    past_timeout: int = 0
    """Released spans that reached `hold_timeout` before they had a score."""


class Tenant:
    """One engine, its goldens and the spans it holds. For one thread."""

    def __init__(
        self,
        goldens: GoldenIndex,
        registry: DialectRegistry,
        scanner: KeyScanner,
        settings: EngineSettings,
        *,
        unread: EncodedSpanBuffer,
        hold: bool,
        on_problem: Callable[[Problem], object],
        on_tombstone: Callable[[str, float, bytes | None], object],
        on_closed: Callable[[str], object],
    ) -> None:
        """Score against `goldens`; `hold` says whether spans wait for their scores."""
        self._registry = registry
        self._scanner = scanner
        self._hold = hold
        self.texts = KeptTexts(on_closed)
        """Messages, results and definitions of tools, where a metric asks for them."""
        self._unread = unread
        self._on_problem = on_problem
        self._on_closed = on_closed
        self.store = CompressedStore(self._closed, on_tombstone, settings.assembly, self.texts)
        self.engine = Engine(goldens, settings, self.store)
        self._read_as_asked(goldens)
        self._reader = ProtobufReader(on_problem)
        self._open: set[bytes] = set()
        """Traces that the engine reads, by the bytes of their ids."""
        self._resources: dict[bytes, tuple[str, ...]] = {}
        self._agent_scopes: set[bytes] = set()
        self._held: dict[SpanRef, HeldSpan] = {}
        self.held_bytes = 0

    @property
    def held_spans(self) -> int:
        """Held spans."""
        return len(self._held)

    def receive_spans(
        self, body: bytes, groups: Sequence[SpanGroup], number: int, now: float, *, already_sent: bool = False
    ) -> HoldDecision:
        """Receive the spans of a request; `already_sent` ones, after a restart, are read and never held."""
        self._unread.expire(now)
        bare = [self._scanner.reads_without_attributes(group.envelope.scope) for group in groups]
        if not any(bare) and self._scanner.marked(body) is None:
            return self._receive_unmarked(groups, number, now, hold=not already_sent)
        return self._receive_marked(body, groups, bare, number, now, hold=not already_sent)

    def receive_logs(self, body: bytes, now: float) -> tuple[Record, ...]:
        """Feed the log records that concern spans to the engine, and return them."""
        if not self.engine.goldens.wants_any or not self._scanner.may_concern_spans(body):
            return ()
        read: list[Record] = []
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if not isinstance(view, LogView) or not self._registry.may_tell(view.event_name, view.attributes):
                continue
            fact = self._registry.read_log(view, content=self._reads_content)
            if fact is None or not fact.trace_id:
                continue
            read.append(self._engine_feeds(fact, now)[0])
            trace = bytes.fromhex(fact.trace_id)
            if trace not in self._open and self.store.has(fact.trace_id):
                read += self._open_trace(trace, now)
        return tuple(read)

    def compact(self, now: float) -> None:
        """Compress quiet traces and drop expired tombstones."""
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
        before = self.engine.stats.held_past_timeout
        return self._output(self.engine.poll(now, _AT_ONCE), self.engine.stats.held_past_timeout - before)

    def flush(self, now: float, *, end_of_input: bool) -> TenantOutput:
        """Return every turn that is ready, and release every span."""
        output = self._output(self.engine.flush(now, end_of_input=end_of_input))
        return replace(output, released=(*output.released, *self._release(list(self._held))))

    def release_oldest(self, max_bytes: int) -> Sequence[HeldSpan]:
        """Release the spans that have waited longest, until at most `max_bytes` are held."""
        refs: list[SpanRef] = []
        left = self.held_bytes
        for ref, held in self._held.items():
            if left <= max_bytes:
                break
            refs.append(ref)
            left -= held.size
        return self._release(refs)

    def use_goldens(self, goldens: GoldenIndex, registry: DialectRegistry, scanner: KeyScanner) -> None:
        """Judge by these goldens from now on, and read the attributes that they join on."""
        self.engine.use_goldens(goldens)
        self._registry, self._scanner = registry, scanner
        self._read_as_asked(goldens)
        self._unread.unwanted.clear()

    def _read_as_asked(self, goldens: GoldenIndex) -> None:
        scorer = self.engine.settings.scorer
        self._reads_content = scorer.reads_content(goldens.goldens)
        self._keeps_text = self._reads_content or scorer.reads_definitions(goldens.goldens)

    def restore(self, record: Record, now: float) -> None:
        """Feed a record of the journal to the engine after a restart."""
        self.texts.hold(record)
        self._engine_feeds(record, now)
        if record.trace_id and self.store.has(record.trace_id):
            self._open.add(bytes.fromhex(record.trace_id))

    def is_open(self, trace_id: str) -> bool:
        """Tell whether the engine keeps state of a trace."""
        return self.store.has(trace_id)

    def _receive_unmarked(self, groups: Sequence[SpanGroup], number: int, now: float, *, hold: bool) -> HoldDecision:
        """Buffer spans without a dialect's marker, except those of traces that the engine reads."""
        facts: list[Record] = []
        held: dict[int, SpanRef] = {}
        for group in groups:
            traces = by_trace(group.spans)
            for trace in traces.keys() & self._unread.unwanted:
                part = SpanGroup(group.envelope, traces[trace])
                if self._is_for_engine(trace, [(part, False)], of_interest=True):
                    facts += self._open_trace(trace, now)
            for trace in traces.keys() & self._open | traces.keys() & self.store.compressed.keys():
                spans = traces.pop(trace)
                fed, waiting = self._feed(SpanGroup(group.envelope, spans), number, now, hold=hold)
                facts += fed
                held |= waiting
            if traces:
                self._unread.put(group.envelope, traces, now)
        return self._hold_decision(groups, held, facts)

    def _receive_marked(
        self, body: bytes, groups: Sequence[SpanGroup], bare: Sequence[bool], number: int, now: float, *, hold: bool
    ) -> HoldDecision:
        by_group = [by_trace(group.spans) for group in groups]
        of_interest = self._of_interest(body, groups)
        groups_of: dict[bytes, list[int]] = {}
        for index, traces in enumerate(by_group):
            for trace in traces:
                groups_of.setdefault(trace, []).append(index)
        facts: list[Record] = []
        held: dict[int, SpanRef] = {}
        for trace, indexes in groups_of.items():
            mine = [(SpanGroup(groups[index].envelope, by_group[index][trace]), bare[index]) for index in indexes]
            if self._is_for_engine(trace, mine, of_interest=of_interest is None or trace in of_interest):
                facts += self._open_trace(trace, now)
                for index, (group, _) in zip(indexes, mine, strict=True):
                    del by_group[index][trace]
                    fed, waiting = self._feed(group, number, now, hold=hold)
                    facts += fed
                    held |= waiting
        for group, traces in zip(groups, by_group, strict=True):
            if traces:
                self._unread.put(group.envelope, traces, now)
        return self._hold_decision(groups, held, facts)

    def _of_interest(self, body: bytes, groups: Sequence[SpanGroup]) -> Container[bytes] | None:
        """Return the traces whose spans name a wanted session or may do so; None if it may be any of them."""
        goldens = self.engine.goldens
        if not goldens.wants_any:
            return ()
        for resource in {group.envelope.resource for group in groups}:
            if any(map(goldens.wants, self._session_ids_of(resource))):
                return None
        return traces_at(body, groups, self._scanner.of_interest(body, goldens.wants))

    def _is_for_engine(self, trace: bytes, mine: Sequence[tuple[SpanGroup, bool]], *, of_interest: bool) -> bool:
        """Decide by these spans of a trace, and those in the buffer, whether the engine reads it.

        `of_interest` says that the spans may name a wanted session, or have the marker of a dialect that keeps session
        ids elsewhere.
        """
        if trace in self._open or trace in self.store.compressed or not trace:
            return True
        scanner, unwanted = self._scanner, trace in self._unread.unwanted
        wants_any = self.engine.goldens.wants_any
        if wants_any and of_interest and any(any(map(scanner.opaque, group.spans)) for group, _ in mine):
            return True
        if unwanted and not of_interest:
            return False
        if not unwanted and not any(bare or any(map(scanner.marked, group.spans)) for group, bare in mine):
            return False
        groups = [group for group, _ in mine]
        ids = self._session_ids(groups)
        found = list(ids if of_interest else islice(ids, 1))
        if not unwanted:
            groups += (buffered := self._unread.records(trace))
            found += self._session_ids(buffered)
        if wants_any and any(map(self.engine.goldens.wants, (*found, trace.hex()))):
            return True
        if not unwanted:
            if not found:
                return wants_any  # a later span may name its session
            self._unread.unwanted.add(trace)
            self._count_without_golden(found[0], groups)
        return False

    def _session_ids(self, groups: Iterable[SpanGroup]) -> Iterator[str]:
        for group in groups:
            yield from self._session_ids_of(group.envelope.resource)
            for span in group.spans:
                yield from self._scanner.session_ids(span)

    def _session_ids_of(self, resource: bytes) -> tuple[str, ...]:
        ids = self._resources.get(resource)
        if ids is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            ids = self._resources[resource] = tuple(self._scanner.session_ids(resource))
        return ids

    def _count_without_golden(self, session_id: str, groups: Iterable[SpanGroup]) -> None:
        """Count a session that no golden wants, once, if one of these spans is an agent's, a model's or a tool's."""
        if session_id in self.engine.without_golden:
            return
        groups = list(groups)
        for group in groups:
            for span in group.spans:
                if self._scanner.marked(span) is None:
                    continue
                seen_before = group.envelope.scope in self._agent_scopes
                if seen_before or any(
                    fact is not None and fact.role is not None
                    for fact in self._facts(SpanGroup(group.envelope, [span]))
                ):
                    self._remember_scope(group.envelope.scope)
                    self.engine.count_unmatched(session_id, self._source_of(session_id, groups))
                    return

    def _source_of(self, session_id: str, groups: Iterable[SpanGroup]) -> str:
        """Return the attribute that names this session."""
        encoded = (one for group in groups for one in (group.envelope.resource, *group.spans))
        return next(filter(None, (self._scanner.session_key(one, session_id) for one in encoded)), "a span")

    def _remember_scope(self, scope: bytes) -> None:
        """Note that an agent writes spans of this scope: further sessions are counted without reading their spans."""
        if len(self._agent_scopes) < _MAX_SCOPES:
            self._agent_scopes.add(scope)

    def _open_trace(self, trace: bytes, now: float) -> list[Record]:
        """Let the engine read a trace: feed its buffered spans, and note whether the buffer lost some."""
        if trace in self._open or trace in self.store.compressed or not trace:
            return []
        self._open.add(trace)
        if (lost := self._unread.lost_calls(trace)) is not None and not self.is_open(trace.hex()):
            self.store.note_loss(trace.hex(), calls=lost)
        facts: list[Record] = []
        for group in self._unread.take(trace):
            facts += self._feed(group, 0, now, hold=False)[0]
        return facts

    def _feed(
        self, group: SpanGroup, number: int, now: float, *, hold: bool
    ) -> tuple[list[Record], dict[int, SpanRef]]:
        """Feed spans to the engine; return their facts, and the held ones by the identity of their bytes object."""
        facts: list[Record] = []
        waiting: dict[int, SpanRef] = {}
        for fact, span in zip(self._facts(group), group.spans, strict=True):
            if fact is None:
                continue
            kept, wanted = self._engine_feeds(fact, now)
            facts.append(kept)
            ref = fact.ref
            if wanted and hold and self._hold and fact.span_id and ref not in self._held:
                held = self._held[ref] = HeldSpan(ref, span, group.envelope, number, now)
                self.held_bytes += held.size
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

    def _facts(self, group: SpanGroup) -> list[SpanFacts | None]:
        """Read spans in order; None for bytes that are no span."""
        body = join_request([group])
        try:
            views = list(self._reader.views(self._reader.parse(body, "traces"), "traces"))
        except Exception as error:  # noqa: BLE001 - one bad span must not stop the others
            self._on_problem(Problem("unreadable_span", f"{type(error).__name__}: {error}", "traces"))
            views = []
        if len(views) == len(group.spans):
            read, content = self._registry.read, self._reads_content
            return [None if isinstance(view, LogView) else read(view, content=content) for view in views]
        if len(group.spans) == 1:
            return [None]
        return [fact for span in group.spans for fact in self._facts(SpanGroup(group.envelope, [span]))]

    def _hold_decision(
        self, groups: Sequence[SpanGroup], held: Mapping[int, SpanRef], facts: Sequence[Record]
    ) -> HoldDecision:
        if not held:
            return HoldDecision(facts=tuple(facts))
        forward = [
            SpanGroup(group.envelope, [span for span in group.spans if id(span) not in held]) for group in groups
        ]
        return HoldDecision(frozenset(held.values()), join_request(forward), tuple(facts))

    def _output(self, output: EngineOutput, past_timeout: int = 0) -> TenantOutput:
        for evaluation in output.evaluations:
            if evaluation.target is not None and (held := self._held.get(evaluation.target)) is not None:
                self._annotate(held, evaluation)
        return TenantOutput(output, self._release(output.released), past_timeout)

    def _annotate(self, held: HeldSpan, evaluation: Evaluation) -> None:
        """Add the attributes of a result, in place of those that the client wrote under the same names."""
        if attributes := span_attributes(evaluation):
            if evaluation.metric not in held.metrics and has_scores(held.span, (evaluation.metric,)):
                self._on_problem(Problem("overwritten_score", f"span {held.ref.span_id} came with a score", ""))
            held.metrics.add(evaluation.metric)
            held.attributes.update(attributes)

    def _release(self, refs: Iterable[SpanRef]) -> list[HeldSpan]:
        released = [held for ref in refs if (held := self._held.pop(ref, None)) is not None]
        self.held_bytes -= sum(held.size for held in released)
        return sorted(released, key=lambda held: held.since)

    def _closed(self, trace_id: str) -> None:
        if len(trace_id) == 32:
            self._open.discard(bytes.fromhex(trace_id))
        self.texts.release(trace_id)
        self._on_closed(trace_id)


# The tenants of a gateway, and how much memory each may use.
#
# Every distinct set of forwarded headers is a tenant with an engine, a span buffer and metrics of its own. All tenants
# have equal shares of `max_spans` and `unread_span_bytes`. Beyond `max_tenants` the least recently active one is judged
# and dropped; beyond `max_held_bytes` the tenant that receives spans releases the ones that it has held longest.


@dataclass(slots=True)
class TenantState:
    """A tenant, and what the worker keeps for it alone."""

    name: str
    """The headers as JSON: the tenant's key in the journal."""
    headers: Headers
    tenant: Tenant
    unread: EncodedSpanBuffer
    metrics: TenantMetrics
    journaled: dict[str, int] = field(default_factory=dict[str, int])
    """For each session a hash of its results as they were last written to the journal."""
    metrics_request: PendingRequest | None = None
    """The newest request with metric points."""
    metrics_sent_at: float = 0.0
    metrics_changed: bool = False
    sessions_without_golden: int = 0


class TenantTable:
    """The tenants by their headers, the least recently active first. For one thread; iterating is thread-safe."""

    def __init__(
        self,
        settings: PipelineSettings,
        create: Callable[[str, Headers], TenantState],
        evict: Callable[[TenantState, float], object],
    ) -> None:
        """Make tenants by `create`; a tenant beyond `max_tenants` is given to `evict`, with the time, and dropped."""
        self._settings = settings
        self._create = create
        self._evict = evict
        self._states: OrderedDict[str, TenantState] = OrderedDict()
        self.evicted = 0
        self.buffers_unread = True
        """Unread spans are worth keeping: a golden may want a later span of their trace."""

    def __iter__(self) -> Iterator[TenantState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def named(self, name: str) -> TenantState | None:
        """Return the tenant with this key in the journal."""
        return self._states.get(name)

    def restored(self, name: str, now: float) -> TenantState:
        """Return the tenant with this key in the journal, created if needed."""
        return self.of(tuple((key, value) for key, value in json.loads(name)), now)

    def of(self, headers: Headers, now: float) -> TenantState:
        """Return the tenant of a request with these headers, created if needed; it is now the most recently active."""
        name = json.dumps(headers)
        state = self._states.get(name)
        if state is not None:
            self._states.move_to_end(name)
            return state
        state = self._states[name] = self._create(name, headers)
        if len(self._states) > self._settings.max_tenants:
            self._drop(next(iter(self._states.values())), now)
        self.share_memory()
        return state

    def share_memory(self) -> None:
        """Give every tenant an equal share of the memory for spans."""
        shares, settings = len(self._states), self._settings
        for state in self._states.values():
            state.unread.max_bytes = settings.unread_span_bytes // shares if self.buffers_unread else 0
            state.tenant.texts.max_bytes = settings.max_text_bytes // shares
            state.tenant.engine.settings = replace(
                settings.engine, max_spans=max(1, settings.engine.max_spans // shares)
            )

    def release_excess(self, state: TenantState) -> Sequence[HeldSpan]:
        """Release held spans of a tenant, the oldest first, until all tenants together hold `max_held_bytes`."""
        excess = sum(one.tenant.held_bytes for one in self._states.values()) - self._settings.max_held_bytes
        return state.tenant.release_oldest(max(0, state.tenant.held_bytes - excess)) if excess > 0 else ()

    def _drop(self, state: TenantState, now: float) -> None:
        self.evicted += 1
        self._evict(state, now)
        del self._states[state.name]
