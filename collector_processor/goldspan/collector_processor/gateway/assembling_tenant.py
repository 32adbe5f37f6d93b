"""The first of two tiers: the spans of one tenant wait until their turn is over, and leave with its session.

Only some spans of a turn say which session they belong to, so that nothing downstream can sort them by it. Here a
trace is seen as a whole: its turns' sessions are found as everywhere (R6) and stamped on every span and resource.
Nothing is scored. A trace without any attribute that a dialect knows passes at once, as it came; one without session
leaves unstamped. So does a plain span that came before anything else of its trace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from goldspan.collector_processor.engine.engine import EngineOutput
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.encoded_spans import EncodedSpanBuffer, Envelope, SpanGroup, by_trace
from goldspan.collector_processor.gateway.key_scanner import KeyScanner
from goldspan.collector_processor.gateway.tenant import HeldSpan, SplitSpans, Tenant, TenantOutput
from goldspan.mappers.assembly import Fragment, read_trace
from goldspan.mappers.assembly.deduplication import newer_version
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.facts import LogFacts, Record, SpanFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

SESSION_ID = "goldspan.session.id"
"""The first of the keys that sessions are looked up by."""
_NOTHING = EngineOutput(evaluations=(), released=frozenset(), sessions=(), problems=())
_MAX_RESOURCES = 1024


@dataclass(slots=True)
class _Trace:
    spans: dict[str, SpanFacts] = field(default_factory=dict[str, SpanFacts])
    logs: dict[str, LogFacts] = field(default_factory=dict[str, LogFacts])
    last: float = 0.0
    held: list[HeldSpan] = field(default_factory=list[HeldSpan])

    @property
    def size(self) -> int:
        return len(self.spans) + len(self.logs)


class AssemblingTenant(Tenant):
    """Holds the spans of agents' traces and stamps their sessions. For one thread."""

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
        """Take what a `Tenant` takes; of the goldens nothing is asked, and spans wait whatever `hold` says."""
        super().__init__(
            goldens,
            registry,
            needles,
            settings,
            shelf=shelf,
            hold=hold,
            on_problem=on_problem,
            on_buried=on_buried,
            on_closed=on_closed,
        )
        self._waiting = OrderedDict[bytes, _Trace]()
        """Traces with spans that wait, those that waited longest first."""
        self._quiet = OrderedDict[bytes, _Trace]()
        """Those of which everything has left: what comes late is stamped by them. The least recently active first."""
        self._stamped: dict[tuple[bytes, str], bytes] = {}
        self.held_bytes: int = 0
        self._known = 0
        """Spans and log records that are kept in mind."""

    @property
    def held_spans(self) -> int:
        """How many spans wait."""
        return sum(len(trace.held) for trace in list(self._waiting.values()))

    def take_traces(
        self,
        body: bytes,  # noqa: ARG002 - as in Tenant
        groups: Sequence[SpanGroup],
        number: int,
        now: float,
        *,
        leave: bool = True,
    ) -> SplitSpans:
        """Take in the spans of a request. Without `leave` they have left before and are only learnt of."""
        self._shelf.expire(now)
        sorted_groups = [by_trace(group.spans) for group in groups]
        ours = {
            trace
            for group, traces in zip(groups, sorted_groups, strict=True)
            for trace, spans in traces.items()
            if self._find(trace) is not None
            or (trace and self._needles.bare(group.envelope.scope))
            or (trace and any(map(self._needles.marked, spans)))
        }
        told: list[Record] = []
        held: dict[int, SpanRef] = {}
        for group, traces in zip(groups, sorted_groups, strict=True):
            plain = {trace: spans for trace, spans in traces.items() if trace not in ours}
            for trace in traces.keys() - plain.keys():
                told += self._promote(trace, now)
                part = SpanGroup(group.envelope, traces[trace])
                facts = self._facts(part)
                told += self._learn(trace, facts, now)
                if leave:
                    held |= self._keep(trace, part, facts, number, now)
            if plain:
                self._shelf.put(group.envelope, plain, now)
        self._bound()
        return self._taken(groups, held, told)

    def take_logs(self, body: bytes, now: float) -> tuple[Record, ...]:
        """Learn from log records which session their trace belongs to. They are not held and leave as they came."""
        if not self._needles.may_tell(body):
            return ()
        told: list[Record] = []
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if isinstance(view, LogView) and self._registry.may_tell(view.event_name, view.attributes):
                fact = self._registry.read_log(view, content=False)
                if fact is not None and fact.trace_id:
                    self._note(self._opened(bytes.fromhex(fact.trace_id), now), fact)
                    told.append(fact)
        return tuple(told)

    def rest(self, now: float) -> None:
        """Forget traces that were quiet for long."""
        quiet_since = now - self.engine.settings.trace_retention
        while self._quiet and next(iter(self._quiet.values())).last <= quiet_since:
            self._forget()

    def poll(self, now: float) -> TenantOutput | None:
        """Let go of the spans of every turn that is over."""
        settings = self.engine.settings
        leaving: list[HeldSpan] = []
        late = 0
        for trace_id, trace in list(self._waiting.items()):
            timed_out = trace.held[0].since + settings.hold_timeout <= now
            if not timed_out and trace.last + settings.settle > now:
                continue
            fragments = self._fragments(trace)
            if timed_out or not any(one.waits_for_caller or one.waits_for_remote for one in fragments):
                late += len(trace.held) if any(one.waits_for_caller for one in fragments) else 0
                leaving += self._release(trace_id, trace, fragments)
        return TenantOutput(_NOTHING, leaving, late) if leaving else None

    def flush(self, now: float, *, end_of_input: bool) -> TenantOutput:  # noqa: ARG002 - as in Tenant
        """Let go of every span."""
        return TenantOutput(_NOTHING, self.let_go(0))

    def let_go(self, max_bytes: int) -> Sequence[HeldSpan]:
        """Let go of those traces that have waited longest, until so many bytes are left."""
        leaving: list[HeldSpan] = []
        for trace_id, trace in list(self._waiting.items()):
            if self.held_bytes <= max_bytes:
                break
            leaving += self._release(trace_id, trace, self._fragments(trace))
        return leaving

    def use_goldens(
        self,
        goldens: GoldenIndex,  # noqa: ARG002 - as in Tenant
        registry: DialectRegistry,
        needles: KeyScanner,
    ) -> None:
        """Read what these join on; nothing is judged here."""
        self._registry, self._needles = registry, needles

    def restore(self, record: Record, now: float) -> None:
        """Learn again what was known before a restart."""
        if not record.trace_id:
            return
        trace = self._opened(bytes.fromhex(record.trace_id), now)
        if isinstance(record, LogFacts):
            self._note(trace, record)
        else:
            self._see(trace, record)

    def is_open(self, trace_id: str) -> bool:
        """Tell whether a trace is still kept in mind."""
        return len(trace_id) == 32 and self._find(bytes.fromhex(trace_id)) is not None

    def _promote(self, trace: bytes, now: float) -> list[Record]:
        told: list[Record] = []
        for group in self._shelf.take(trace):
            told += self._learn(trace, self._facts(group), now)
        return told

    def _learn(self, trace: bytes, facts: Iterable[SpanFacts | None], now: float) -> list[Record]:
        opened = self._opened(trace, now)
        told: list[Record] = []
        for fact in facts:
            if fact is not None and fact.span_id:
                self._see(opened, fact)
                told.append(fact)
        return told

    def _see(self, trace: _Trace, fact: SpanFacts) -> None:
        before = trace.size
        trace.spans[fact.span_id] = newer_version(trace.spans.get(fact.span_id), fact)
        self._known += trace.size - before
        for note in fact.notes:
            self._note(trace, note)

    def _note(self, trace: _Trace, fact: LogFacts) -> None:
        before = trace.size
        trace.logs[fact.identity] = fact
        self._known += trace.size - before

    def _keep(
        self, trace_id: bytes, group: SpanGroup, facts: Sequence[SpanFacts | None], number: int, now: float
    ) -> dict[int, SpanRef]:
        trace = self._opened(trace_id, now)
        waiting: dict[int, SpanRef] = {}
        for fact, span in zip(facts, group.spans, strict=True):
            if fact is None or not fact.span_id:
                continue
            held = HeldSpan(fact.ref, span, group.envelope, number, now)
            trace.held.append(held)
            self.held_bytes += held.size
            waiting[id(span)] = held.ref
        if trace.held and trace_id not in self._waiting:
            self._waiting[trace_id] = self._quiet.pop(trace_id)
        return waiting

    def _release(self, trace_id: bytes, trace: _Trace, fragments: Sequence[Fragment]) -> list[HeldSpan]:
        sessions = sessions_of(trace.spans, fragments)
        leaving, trace.held = trace.held, []
        for held in leaving:
            self.held_bytes -= held.size
            session_id = sessions.get(held.ref.span_id)
            if session_id is not None:
                held.attributes[SESSION_ID] = session_id
                held.envelope = Envelope(self._resource_of(held.envelope.resource, session_id), held.envelope.scope)
        self._quiet[trace_id] = self._waiting.pop(trace_id)
        return leaving

    def _fragments(self, trace: _Trace) -> list[Fragment]:
        return read_trace(trace.spans, self.engine.settings.assembly, trace.logs.values())[0]

    def _resource_of(self, resource: bytes, session_id: str) -> bytes:
        stamped = self._stamped.get((resource, session_id))
        if stamped is None:
            message = ResourceSpans.FromString(resource)
            if all(one.key != SESSION_ID for one in message.resource.attributes):
                message.resource.attributes.add(key=SESSION_ID).value.string_value = session_id
            stamped = message.SerializeToString()
            if len(self._stamped) >= _MAX_RESOURCES:
                self._stamped.clear()
            self._stamped[resource, session_id] = stamped
        return stamped

    def _find(self, trace: bytes) -> _Trace | None:
        return self._waiting.get(trace) or self._quiet.get(trace)

    def _opened(self, trace_id: bytes, now: float) -> _Trace:
        trace = self._find(trace_id)
        if trace is None:
            trace = self._quiet[trace_id] = _Trace()
        trace.last = max(trace.last, now)
        if trace_id in self._quiet:
            self._quiet.move_to_end(trace_id)
        return trace

    def _bound(self) -> None:
        while self._known > self.engine.settings.max_spans and self._quiet:
            self._forget()

    def _forget(self) -> None:
        trace_id, trace = self._quiet.popitem(last=False)
        self._known -= trace.size
        self._on_closed(trace_id.hex())


def sessions_of(spans: Mapping[str, SpanFacts], fragments: Sequence[Fragment]) -> dict[str, str]:
    """Return the session of each span of a trace, by span id; a span that belongs to none is left out.

    What is in no turn belongs to the turn above it, else to the only session below it; where all turns are of one
    session, so is everything.
    """
    named = {one.session.id for one in fragments if one.session.source != "trace_id"}
    if len(named) == 1 and all(one.session.source != "trace_id" for one in fragments):
        return dict.fromkeys(spans, next(iter(named)))
    own: dict[str, str | None] = {}
    for fragment in fragments:
        session_id = fragment.session.id if fragment.session.source != "trace_id" else None
        own.update(dict.fromkeys((span.span_id for span in fragment.spans), session_id))
        if fragment.root_span is not None:
            own[fragment.root_span.span_id] = session_id
    below: dict[str, set[str]] = {}
    for span_id, session_id in own.items():
        if session_id is not None:
            for above in _above(spans, span_id):
                below.setdefault(above, set()).add(session_id)
    found: dict[str, str] = {}
    for span_id in spans:
        nearest = next((one for one in (span_id, *_above(spans, span_id)) if one in own), None)
        inside = below.get(span_id, ())
        session_id = own[nearest] if nearest is not None else next(iter(inside)) if len(inside) == 1 else None
        if session_id is not None:
            found[span_id] = session_id
    return found


def _above(spans: Mapping[str, SpanFacts], span_id: str) -> list[str]:
    """Return the ids of the spans above one, the nearest first; a circle ends where it began."""
    path: dict[str, None] = {}
    span = spans.get(spans[span_id].parent_id) if span_id in spans else None
    while span is not None and span.span_id not in path and span.span_id != span_id:
        path[span.span_id] = None
        span = spans.get(span.parent_id)
    return list(path)
