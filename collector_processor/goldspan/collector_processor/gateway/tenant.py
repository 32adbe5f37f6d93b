"""The spans of one tenant: which may leave at once, which wait for a score, and what the engine makes of them.

Not every span reaches the engine. One that no dialect marks, or whose trace belongs to sessions that no golden wants,
goes on the shelf, encoded as it came. A span of a session that is wanted, or not known yet, is read, and from then on
so is everything of its trace. What is known comes from the same places as everywhere: session ids under the keys of R6,
on any span of the trace or its resource. So the engine sees exactly the traces whose results may be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from goldspan.collector_processor.emit.attributes import Attributes, span_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.compressed_store import CompressedStore
from goldspan.collector_processor.gateway.encoded_spans import (
    EncodedSpanBuffer,
    Envelope,
    SpanGroup,
    by_trace,
    join_request,
    traces_at,
    with_attributes,
)
from goldspan.collector_processor.gateway.key_scanner import KeyScanner
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.facts import LogFacts, Record, SpanFacts
from goldspan.mappers.readers.otlp_protobuf import ProtobufReader
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

_MAX_RESOURCES = _MAX_SCOPES = 256
_REMEMBERED = 10_000
"""Sessions without golden that are told apart."""


@dataclass(slots=True)
class HeldSpan:
    """A span that waits for its result, as it came, and what it will carry."""

    ref: SpanRef
    span: bytes
    envelope: Envelope
    body: int
    """The number of the request it came in."""
    since: float
    attributes: Attributes = field(default_factory=dict[str, "str | bool | int | float | tuple[str, ...]"])

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.span) + 600

    def leave(self) -> SpanGroup:
        """Return the span to forward."""
        return SpanGroup(self.envelope, [with_attributes(self.span, self.attributes) if self.attributes else self.span])


@dataclass(frozen=True, slots=True)
class SplitSpans:
    """What became of the spans of one request."""

    held: frozenset[SpanRef] = frozenset()
    rest: bytes | None = None
    """A request with the others, where some are held; empty where all are. None: the request leaves as it came."""
    facts: tuple[Record, ...] = ()
    """What the engine was told, to be kept with it."""


@dataclass(frozen=True, slots=True)
class TenantOutput:
    """What the engine handed out in one step."""

    handout: EngineOutput
    released: Sequence[HeldSpan] = ()
    past_timeout: int = 0
    """How many of the released ones leave without having been judged, only because they waited so long."""


class Tenant:
    """One engine with its goldens. For one thread."""

    def __init__(
        self,
        goldens: GoldenIndex,
        registry: DialectRegistry,
        needles: KeyScanner,
        settings: EngineSettings,
        *,
        shelf: EncodedSpanBuffer,
        hold: bool,
        on_problem: Callable[[Problem], object],
        on_buried: Callable[[str, float, bytes | None], object],
        on_closed: Callable[[str], object],
    ) -> None:
        """Score by these goldens; `hold` says whether spans wait for their attributes."""
        self._registry = registry
        self._needles = needles
        self._reads_content = settings.scorer.reads_content(goldens.goldens)
        self._hold = hold
        self._shelf = shelf
        self._on_problem = on_problem
        self._on_closed = on_closed
        self.store = CompressedStore(self._closed, on_buried, settings.assembly)
        self.engine = Engine(goldens, settings, self.store)
        self._reader = ProtobufReader(on_problem)
        self._open: set[bytes] = set()
        """Traces that the engine was told of."""
        self._resources: dict[bytes, tuple[str, ...]] = {}
        self._without_golden: dict[str, None] = {}
        self._agents_scopes: set[bytes] = set()
        self._held: dict[SpanRef, HeldSpan] = {}
        self.held_bytes = 0
        self.sessions_without_golden = 0
        """Those that the engine was not even told of."""

    @property
    def held_spans(self) -> int:
        """How many spans wait."""
        return len(self._held)

    def take_traces(
        self, body: bytes, groups: Sequence[SpanGroup], number: int, now: float, *, leave: bool = True
    ) -> SplitSpans:
        """Take in the spans of a request. Without `leave` they have left before and are only learnt of."""
        self._shelf.expire(now)
        bare = [self._needles.bare(group.envelope.scope) for group in groups]
        if not any(bare) and self._needles.marked(body) is None:
            return self._take_plain(groups, number, now, leave=leave)
        return self._take_marked(body, groups, bare, number, now, leave=leave)

    def take_logs(self, body: bytes, now: float) -> tuple[Record, ...]:
        """Learn from log records what they tell of spans."""
        if not self.engine.goldens.goldens or not self._needles.may_tell(body):
            return ()
        told: list[Record] = []
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if not isinstance(view, LogView) or not self._registry.may_tell(view.event_name, view.attributes):
                continue
            fact = self._registry.read_log(view, content=self._reads_content)
            if fact is None or not fact.trace_id:
                continue
            self.engine.feed_log(fact, now)
            told.append(fact)
            trace = bytes.fromhex(fact.trace_id)
            if trace not in self._open and self.store.has(fact.trace_id):
                told += self._promote(trace, now)
        return tuple(told)

    def rest(self, now: float) -> None:
        """Make small what is quiet, and forget what is too old."""
        self.store.expire(now - self.engine.settings.tombstone_ttl)
        for trace_id in self.store.pack(now):
            self._open.discard(bytes.fromhex(trace_id))

    def poll(self, now: float) -> TenantOutput | None:
        """Hand out what is due; none where nothing is."""
        deadline = self.engine.deadline()
        if deadline is None or deadline > now:
            return None
        late = self.engine.stats.held_past_timeout
        return self._judged(self.engine.poll(now), self.engine.stats.held_past_timeout - late)

    def flush(self, now: float, *, end_of_input: bool) -> TenantOutput:
        """Hand out every turn that is ready, and let go of every span."""
        judged = self._judged(self.engine.flush(now, end_of_input=end_of_input), 0)
        return replace(judged, released=(*judged.released, *self._leaving(list(self._held))))

    def let_go(self, max_bytes: int) -> Sequence[HeldSpan]:
        """Let go of those spans that have waited longest, until so many bytes are left."""
        refs: list[SpanRef] = []
        left = self.held_bytes
        for ref, held in self._held.items():
            if left <= max_bytes:
                break
            refs.append(ref)
            left -= held.size
        return self._leaving(refs)

    def use_goldens(self, goldens: GoldenIndex, registry: DialectRegistry, needles: KeyScanner) -> None:
        """Judge by these from now on, and read what they join on."""
        self.engine.use_goldens(goldens)
        self._registry, self._needles = registry, needles
        self._reads_content = self.engine.settings.scorer.reads_content(goldens.goldens)
        self._shelf.unwanted.clear()

    def restore(self, record: Record, now: float) -> None:
        """Tell the engine again what it was told before a restart."""
        if isinstance(record, LogFacts):
            self.engine.feed_log(record, now)
        else:
            self.engine.feed(record, now)
        if record.trace_id and self.store.has(record.trace_id):
            self._open.add(bytes.fromhex(record.trace_id))

    def is_open(self, trace_id: str) -> bool:
        """Tell whether the engine still keeps a trace."""
        return self.store.has(trace_id)

    def _take_plain(self, groups: Sequence[SpanGroup], number: int, now: float, *, leave: bool) -> SplitSpans:
        """Put spans that no dialect marks on the shelf, except those of traces that the engine knows."""
        facts: list[Record] = []
        held: dict[int, SpanRef] = {}
        for group in groups:
            traces = by_trace(group.spans)
            for trace in traces.keys() & self._shelf.unwanted:
                part = SpanGroup(group.envelope, traces[trace])
                if self._is_for_engine(trace, [(part, False)], of_interest=True):
                    facts += self._promote(trace, now)
            for trace in traces.keys() & self._open | traces.keys() & self.store.packed.keys():
                spans = traces.pop(trace)
                fed, waiting = self._feed(SpanGroup(group.envelope, spans), number, now, hold=leave)
                facts += fed
                held |= waiting
            if traces:
                self._shelf.put(group.envelope, traces, now)
        return self._taken(groups, held, facts)

    def _take_marked(
        self, body: bytes, groups: Sequence[SpanGroup], bare: Sequence[bool], number: int, now: float, *, leave: bool
    ) -> SplitSpans:
        by_group = [by_trace(group.spans) for group in groups]
        of_interest = self._of_interest(body, groups)
        where: dict[bytes, list[int]] = {}
        for index, traces in enumerate(by_group):
            for trace in traces:
                where.setdefault(trace, []).append(index)
        facts: list[Record] = []
        held: dict[int, SpanRef] = {}
        for trace, indexes in where.items():
            mine = [(SpanGroup(groups[index].envelope, by_group[index][trace]), bare[index]) for index in indexes]
            if self._is_for_engine(trace, mine, of_interest=of_interest is None or trace in of_interest):
                facts += self._promote(trace, now)
                for index, (group, _) in zip(indexes, mine, strict=True):
                    del by_group[index][trace]
                    fed, waiting = self._feed(group, number, now, hold=leave)
                    facts += fed
                    held |= waiting
        for group, traces in zip(groups, by_group, strict=True):
            if traces:
                self._shelf.put(group.envelope, traces, now)
        return self._taken(groups, held, facts)

    def _of_interest(self, body: bytes, groups: Sequence[SpanGroup]) -> Container[bytes] | None:
        """Return the traces that a golden may want by what stands in their spans; none where that is not to be told."""
        goldens = self.engine.goldens
        if not goldens.goldens:
            return ()
        for resource in {group.envelope.resource for group in groups}:
            if any(map(goldens.wants, self._session_ids_of(resource))):
                return None
        return traces_at(body, groups, self._needles.of_interest(body, goldens.wants))

    def _is_for_engine(self, trace: bytes, mine: Sequence[tuple[SpanGroup, bool]], *, of_interest: bool) -> bool:
        """Decide about a trace by these spans of it and those on the shelf.

        `of_interest` says that a wanted session, or a marker of a dialect that tells session ids in its own way, may be
        in there.
        """
        if trace in self._open or trace in self.store.packed or not trace:
            return True
        needles, unwanted = self._needles, trace in self._shelf.unwanted
        any_goldens = bool(self.engine.goldens.goldens)
        if any_goldens and of_interest and any(any(map(needles.opaque, group.spans)) for group, _ in mine):
            return True
        if unwanted and not of_interest:
            return False
        if not unwanted and not any(bare or any(map(needles.marked, group.spans)) for group, bare in mine):
            return False
        groups = [group for group, _ in mine]
        ids = self._session_ids(groups)
        found = list(ids if of_interest else islice(ids, 1))
        if not unwanted:
            groups += (shelved := self._shelf.records(trace))
            found += self._session_ids(shelved)
        if any_goldens and any(map(self.engine.goldens.wants, (*found, trace.hex()))):
            return True
        if not unwanted:
            if not found:
                return any_goldens  # it may still turn out to be anybody's
            self._shelf.unwanted.add(trace)
            self._count_without_golden(found[0], groups)
        return False

    def _session_ids(self, groups: Iterable[SpanGroup]) -> Iterator[str]:
        for group in groups:
            yield from self._session_ids_of(group.envelope.resource)
            for span in group.spans:
                yield from self._needles.session_ids(span)

    def _session_ids_of(self, resource: bytes) -> tuple[str, ...]:
        ids = self._resources.get(resource)
        if ids is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            ids = self._resources[resource] = tuple(self._needles.session_ids(resource))
        return ids

    def _count_without_golden(self, session_id: str, groups: Iterable[SpanGroup]) -> None:
        """Count a session that no golden wants, once, if any of these spans really is an agent's, model's or tool's."""
        if session_id in self._without_golden:
            return
        for group in groups:
            for span in group.spans:
                if self._needles.marked(span) is None:
                    continue
                known = group.envelope.scope in self._agents_scopes
                if known or any(
                    fact is not None and fact.role is not None
                    for fact in self._facts(SpanGroup(group.envelope, [span]))
                ):
                    self._remember_scope(group.envelope.scope)
                    self._without_golden[session_id] = None
                    self.sessions_without_golden += 1
                    if len(self._without_golden) > _REMEMBERED:
                        del self._without_golden[next(iter(self._without_golden))]
                    return

    def _remember_scope(self, scope: bytes) -> None:
        """Note that spans of a scope are those of agents: sessions are counted by it without reading further."""
        if len(self._agents_scopes) < _MAX_SCOPES:
            self._agents_scopes.add(scope)

    def _promote(self, trace: bytes, now: float) -> list[Record]:
        """Let the engine know a trace: what of it lies on the shelf, and whether there was more."""
        if trace in self._open or trace in self.store.packed or not trace:
            return []
        self._open.add(trace)
        if (lost := self._shelf.was_forgotten(trace)) is not None and not self.is_open(trace.hex()):
            self.store.note_lost(trace.hex(), calls=lost)
        facts: list[Record] = []
        for group in self._shelf.take(trace):
            facts += self._feed(group, 0, now, hold=False)[0]
        return facts

    def _feed(
        self, group: SpanGroup, number: int, now: float, *, hold: bool
    ) -> tuple[list[SpanFacts], dict[int, SpanRef]]:
        """Feed spans to the engine; return what it was told, and those that wait, by their identity in memory."""
        facts: list[SpanFacts] = []
        waiting: dict[int, SpanRef] = {}
        for fact, span in zip(self._facts(group), group.spans, strict=True):
            if fact is None:
                continue
            facts.append(fact)
            wanted = self.engine.feed(fact, now)
            ref = fact.ref
            if wanted and hold and self._hold and fact.span_id and ref not in self._held:
                held = self._held[ref] = HeldSpan(ref, span, group.envelope, number, now)
                self.held_bytes += held.size
                waiting[id(span)] = ref
        return facts, waiting

    def _facts(self, group: SpanGroup) -> list[SpanFacts | None]:
        """Read spans, one after another; none for what is no span at all."""
        body = join_request([group])
        try:
            views = list(self._reader.views(self._reader.parse(body, "traces"), "traces"))
        except Exception as error:  # noqa: BLE001 - whatever a span is, its neighbours go on
            self._on_problem(Problem("unreadable_span", f"{type(error).__name__}: {error}", "traces"))
            views = []
        if len(views) == len(group.spans):
            read, content = self._registry.read, self._reads_content
            return [None if isinstance(view, LogView) else read(view, content=content) for view in views]
        if len(group.spans) == 1:
            return [None]
        return [fact for span in group.spans for fact in self._facts(SpanGroup(group.envelope, [span]))]

    def _taken(self, groups: Sequence[SpanGroup], held: Mapping[int, SpanRef], facts: Sequence[Record]) -> SplitSpans:
        if not held:
            return SplitSpans(facts=tuple(facts))
        rest = [SpanGroup(group.envelope, [span for span in group.spans if id(span) not in held]) for group in groups]
        return SplitSpans(frozenset(held.values()), join_request(rest), tuple(facts))

    def _judged(self, handout: EngineOutput, past_timeout: int) -> TenantOutput:
        for evaluation in handout.evaluations:
            self._annotate(evaluation)
        return TenantOutput(handout, self._leaving(handout.released), past_timeout)

    def _annotate(self, evaluation: Evaluation) -> None:
        if evaluation.target is not None and (held := self._held.get(evaluation.target)) is not None:
            held.attributes.update(span_attributes(evaluation))

    def _leaving(self, refs: Iterable[SpanRef]) -> list[HeldSpan]:
        leaving = [held for ref in refs if (held := self._held.pop(ref, None)) is not None]
        self.held_bytes -= sum(held.size for held in leaving)
        return sorted(leaving, key=lambda held: held.since)

    def _closed(self, trace_id: str) -> None:
        if len(trace_id) == 32:
            self._open.discard(bytes.fromhex(trace_id))
        self._on_closed(trace_id)
