"""The first of two tiers: the spans of one tenant wait until their turn is complete and get its session id.

Only some spans of a turn name their session, so a load balancer cannot route the others by it. This tier sees whole
traces: it finds the sessions of their turns (rule R6) and stamps them on every span and resource. It scores nothing. A
trace without a dialect's marker is forwarded at once, and one without a session is forwarded unstamped. So is an
unmarked span that came before all other spans of its trace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from goldspan.collector_processor.engine.engine import EngineOutput
from goldspan.collector_processor.gateway.attribute_key_scanner import KeyScanner
from goldspan.collector_processor.gateway.encoded_spans import Envelope, SpanGroup, by_trace
from goldspan.collector_processor.gateway.tenant import HeldSpan, HoldDecision, Tenant, TenantOutput
from goldspan.mappers.assembly import Fragment, read_trace
from goldspan.mappers.assembly.duplicate_spans import newer_version
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import LogFacts, Record, SpanFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

SESSION_ID = "goldspan.session.id"
"""The first of the keys under which session ids are looked up."""
_NO_OUTPUT = EngineOutput()
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
    """Holds the spans of agents' traces and stamps their session ids. For one thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of a `Tenant`; goldens and `hold` have no effect."""
        super().__init__(*arguments, **options)
        self._waiting = OrderedDict[bytes, _Trace]()
        """Traces with held spans, those that have waited longest first."""
        self._quiet = OrderedDict[bytes, _Trace]()
        """Traces without held spans: they give late spans their session. The least recently active first."""
        self._stamped: dict[tuple[bytes, str], bytes] = {}
        self.held_bytes: int = 0
        self._known = 0
        """Spans and log records in memory."""

    @property
    def held_spans(self) -> int:
        """Held spans."""
        return sum(len(trace.held) for trace in list(self._waiting.values()))

    def receive_spans(
        self,
        body: bytes,  # noqa: ARG002 - as in Tenant
        groups: Sequence[SpanGroup],
        number: int,
        now: float,
        *,
        already_sent: bool = False,
    ) -> HoldDecision:
        """Receive the spans of a request; `already_sent` ones, after a restart, are read and never held."""
        self._unread.expire(now)
        sorted_groups = [by_trace(group.spans) for group in groups]
        ours = {
            trace
            for group, traces in zip(groups, sorted_groups, strict=True)
            for trace, spans in traces.items()
            if self._find(trace) is not None
            or (trace and self._scanner.reads_without_attributes(group.envelope.scope))
            or (trace and any(map(self._scanner.marked, spans)))
        }
        read: list[Record] = []
        held: dict[int, SpanRef] = {}
        for group, traces in zip(groups, sorted_groups, strict=True):
            plain = {trace: spans for trace, spans in traces.items() if trace not in ours}
            for trace in traces.keys() - plain.keys():
                read += self._open_trace(trace, now)
                part = SpanGroup(group.envelope, traces[trace])
                facts = self._facts(part)
                read += self._add_facts(trace, facts, now)
                if not already_sent:
                    held |= self._hold_spans(trace, part, facts, number, now)
            if plain:
                self._unread.put(group.envelope, plain, now)
        self._bound()
        return self._hold_decision(groups, held, read)

    def receive_logs(self, body: bytes, now: float) -> tuple[Record, ...]:
        """Read the session of a trace from its log records. They are not held, and forwarded as they came."""
        if not self._scanner.may_concern_spans(body):
            return ()
        read: list[Record] = []
        for view in self._reader.views(self._reader.parse(body, "logs"), "logs"):
            if isinstance(view, LogView) and self._registry.may_tell(view.event_name, view.attributes):
                fact = self._registry.read_log(view, content=False)
                if fact is not None and fact.trace_id:
                    self._add_log(self._opened(bytes.fromhex(fact.trace_id), now), fact)
                    read.append(fact)
        return tuple(read)

    def compact(self, now: float) -> None:
        """Drop traces that were quiet for long."""
        quiet_since = now - self.engine.settings.trace_retention
        while self._quiet and next(iter(self._quiet.values())).last <= quiet_since:
            self._drop_oldest()

    def is_due(self, now: float) -> bool:  # noqa: ARG002 - as in Tenant
        """Tell that `poll` leaves nothing to do."""
        return False

    def poll(self, now: float) -> TenantOutput | None:
        """Release the spans of every turn that is complete."""
        settings = self.engine.settings
        released: list[HeldSpan] = []
        past_timeout = 0
        for trace_id, trace in list(self._waiting.items()):
            timed_out = trace.held[0].since + settings.hold_timeout <= now
            if not timed_out and trace.last + settings.settle > now:
                continue
            fragments = self._fragments(trace)
            if timed_out or not any(one.waits_for_caller or one.waits_for_remote for one in fragments):
                past_timeout += len(trace.held) if any(one.waits_for_caller for one in fragments) else 0
                released += self._release_trace(trace_id, trace, fragments)
        return TenantOutput(_NO_OUTPUT, released, past_timeout) if released else None

    def flush(self, now: float, *, end_of_input: bool) -> TenantOutput:  # noqa: ARG002 - as in Tenant
        """Release every span."""
        return TenantOutput(_NO_OUTPUT, self.release_oldest(0))

    def release_oldest(self, max_bytes: int) -> Sequence[HeldSpan]:
        """Release the traces that have waited longest, until at most `max_bytes` are held."""
        released: list[HeldSpan] = []
        for trace_id, trace in list(self._waiting.items()):
            if self.held_bytes <= max_bytes:
                break
            released += self._release_trace(trace_id, trace, self._fragments(trace))
        return released

    def use_goldens(
        self,
        goldens: GoldenIndex,  # noqa: ARG002 - as in Tenant
        registry: DialectRegistry,
        scanner: KeyScanner,
    ) -> None:
        """Read the attributes that these goldens join on; nothing is judged here."""
        self._registry, self._scanner = registry, scanner

    def restore(self, record: Record, now: float) -> None:
        """Restore a record of the journal after a restart."""
        if not record.trace_id:
            return
        trace = self._opened(bytes.fromhex(record.trace_id), now)
        if isinstance(record, LogFacts):
            self._add_log(trace, record)
        else:
            self._add_span(trace, record)

    def is_open(self, trace_id: str) -> bool:
        """Tell whether a trace is in memory."""
        return len(trace_id) == 32 and self._find(bytes.fromhex(trace_id)) is not None

    def _open_trace(self, trace: bytes, now: float) -> list[Record]:
        read: list[Record] = []
        for group in self._unread.take(trace):
            read += self._add_facts(trace, self._facts(group), now)
        return read

    def _add_facts(self, trace: bytes, facts: Iterable[SpanFacts | None], now: float) -> list[Record]:
        opened = self._opened(trace, now)
        read: list[Record] = []
        for fact in facts:
            if fact is not None and fact.span_id:
                self._add_span(opened, fact)
                read.append(fact)
        return read

    def _add_span(self, trace: _Trace, fact: SpanFacts) -> None:
        before = trace.size
        trace.spans[fact.span_id] = newer_version(trace.spans.get(fact.span_id), fact)
        self._known += trace.size - before
        for note in fact.notes:
            self._add_log(trace, note)

    def _add_log(self, trace: _Trace, fact: LogFacts) -> None:
        before = trace.size
        trace.logs[fact.identity] = fact
        self._known += trace.size - before

    def _hold_spans(
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

    def _release_trace(self, trace_id: bytes, trace: _Trace, fragments: Sequence[Fragment]) -> list[HeldSpan]:
        sessions = sessions_of(trace.spans, fragments)
        released, trace.held = trace.held, []
        for held in released:
            self.held_bytes -= held.size
            session_id = sessions.get(held.ref.span_id)
            if session_id is not None:
                if SESSION_ID not in dict(trace.spans[held.ref.span_id].session_keys):
                    held.attributes[SESSION_ID] = session_id
                held.envelope = Envelope(self._resource_of(held.envelope.resource, session_id), held.envelope.scope)
        self._quiet[trace_id] = self._waiting.pop(trace_id)
        return released

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
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        trace_id, trace = self._quiet.popitem(last=False)
        self._known -= trace.size
        self._on_closed(trace_id.hex())


def sessions_of(spans: Mapping[str, SpanFacts], fragments: Sequence[Fragment]) -> dict[str, str]:
    """Return the session id of each span of a trace, by span id, without spans that belong to none.

    A span outside all turns belongs to the turn above it, else to the only session below it. If all turns are of one
    session, all spans are.
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
    """Return the ids of the ancestors of a span, the nearest first; a cycle ends where it began."""
    path: dict[str, None] = {}
    span = spans.get(spans[span_id].parent_id) if span_id in spans else None
    while span is not None and span.span_id not in path and span.span_id != span_id:
        path[span.span_id] = None
        span = spans.get(span.parent_id)
    return list(path)
