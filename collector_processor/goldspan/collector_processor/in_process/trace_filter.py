"""Which spans are read: those of traces whose session has a golden, or is in the sample of metrics without golden.

Most sessions of live traffic are neither, so a batch is sorted by trace, and of each span only the keys of its
attributes are looked at. A trace is then

- read, if one of its sessions is wanted: every span of it, from then on and from the buffer;
- left unread in a bounded buffer (`SpanBuffer`), if no dialect marks its spans or its sessions are unwanted;
- left unread as well, its tool spans and roots held back, as long as no session is known.

Session ids are read from any span of the trace, its resource, its log records, and the root that may still run. So the
engine gets the complete traces of every wanted session, and results are the same as if every span were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any, NamedTuple
from weakref import ref as weak_reference

from opentelemetry.sdk.trace import ReadableSpan

from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.engine.store import MemoryStore, SpanBuffer
from goldspan.collector_processor.in_process.held_spans import TracesWithoutSession, estimated_size
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.value_parsing import identifier
from goldspan.mappers.readers.sdk import (
    PlainSdkSpan,
    SdkReader,
    attributes_of,
    is_entry,
    plain_span,
    skeleton,
    undecoded,
)
from goldspan.mappers.span_facts import LogFacts, Role, content_size
from goldspan.mappers.spans import LogView, PlainSpans, UndecodedSpan
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

MAX_BUFFER_BYTES = 32 * 1024 * 1024
"""Estimated memory of the unread spans. Beyond it the oldest are forgotten."""
MAX_ROOTS = 10_000
"""Running roots at once. Beyond it all are forgotten, and their traces wait for an ended span to name the session."""
_MIN_ROOTS = 256
_PLAIN_SPAN_SIZE = 600
"""Bytes that are kept of a span without markers, measured on CPython 3.11."""
_LOG_SIZE = 4_000
"""Bytes that are kept of a log record, without its content."""
_SAMPLE_EVERY = 13
"""The size of every 13th marked span is estimated. A prime, since agents repeat the same sequence of spans."""
_MAX_SCOPES = 256

Unread = ReadableSpan | PlainSdkSpan | LogFacts
"""In the buffer: a marked span as it is, the ids and times of one without markers, the facts of a log record."""


class _Decision(Enum):
    """What happens to the new spans of a trace that the engine does not know."""

    READ = auto()
    LEAVE_UNREAD = auto()
    WAIT_FOR_SESSION = auto()


class ScannedSpans(NamedTuple):
    """Spans of one trace, sorted by whether a dialect marks them, and the sessions that they name."""

    plain: Sequence[ReadableSpan]
    """Spans without a marker."""
    marked: Sequence[ReadableSpan]
    session_ids: Mapping[str, str]
    """By id, the attribute that names it."""
    is_opaque: bool
    """A dialect marks some of them that finds session ids in a way of its own, or refers to other traces."""


class TraceFilter:
    """One engine, and the traces that it does not know. Not thread-safe, except for `root_started`."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: EngineSettings,
        registry: DialectRegistry,
        *,
        content: bool,
        on_failure: Callable[[str, Exception], object],
    ) -> None:
        """Score against these goldens.

        Args:
            goldens: Which sessions have a golden, or are in the sample.
            settings: The engine's settings.
            registry: Reads spans and log records.
            content: Whether messages, results of calls and answers of models are needed.
            on_failure: Called with `read` or `engine` and the exception that was contained there.

        """
        self._goldens = goldens
        self._session_ranks = {key: rank for rank, key in enumerate(settings.assembly.session_keys)}
        self._registry = registry
        self._content = content
        self._on_failure = on_failure
        self._reader = SdkReader()
        self._store = MemoryStore()
        self.engine = Engine(goldens, settings, self._store)
        self._buffer = SpanBuffer[int, Unread](retention=settings.trace_retention, max_bytes=MAX_BUFFER_BYTES)
        self._roots = RunningRoots()
        self._without_session = TracesWithoutSession(settings.settle, settings.hold_timeout)
        self._released: set[SpanRef] = set()
        self._agent_scopes: set[str] = set()
        self._until_sample = _SAMPLE_EVERY

    @property
    def buffer_bytes(self) -> int:
        """Estimated memory of the unread spans."""
        return self._buffer.size

    def root_started(self, span: ReadableSpan) -> None:
        """Note the root of a trace: it may name its session long before it ends. Called by the agent's threads."""
        self._roots.add(span)

    def add(self, spans: Sequence[ReadableSpan], now: float) -> Iterator[tuple[SpanRef, ReadableSpan]]:
        """Take ended spans, and yield those that should be held for a result."""
        try:
            to_read, to_hold = self._sort(spans, now)
        except Exception as error:  # noqa: BLE001 - reading each span alone shows which one is broken
            self._on_failure("read", error)
            to_read, to_hold = spans, []
        yield from to_hold
        for span in to_read:
            if (ref := self._feed(span, now)) is not None:
                yield ref, span

    def add_log(self, view: LogView, now: float) -> None:
        """Take a log record. It is ignored if it belongs to no trace or no dialect knows it."""
        facts = self._registry.read_log(view, content=self._content)
        if facts is None or not facts.trace_id:
            return
        trace = int(facts.trace_id, 16)
        if not self._is_known(facts.trace_id):
            if not any(self._goldens.wants(session_id) for _, session_id in facts.session_keys):
                self._buffer.add({trace: [facts]}, _LOG_SIZE + content_size(facts), now, calls=True)
                return
            self._read_buffered(trace, facts.trace_id, now)
        self._feed_log(facts, now)

    def poll(self, now: float) -> EngineOutput:
        """Return the results that are due, and the spans that need not be held any longer."""
        for trace in self._without_session.overdue(now):
            self._released.update(self._without_session.remove(trace))
        for trace in self._without_session.settled(now):
            self._end_without_session(trace)
        return self._with_released(self.engine.poll(now))

    def flush(self, now: float, *, end_of_input: bool = False) -> EngineOutput:
        """Return all results there are, as `Engine.flush`."""
        for trace in self._without_session.settled(float("inf")):
            self._end_without_session(trace)
        return self._with_released(self.engine.flush(now, end_of_input=end_of_input))

    def deadline(self) -> float | None:
        """Return when `poll` will next have something to do. None: not without new spans."""
        times = (self.engine.deadline(), self._without_session.deadline())
        return min((when for when in times if when is not None), default=None)

    def _with_released(self, output: EngineOutput) -> EngineOutput:
        released, self._released = self._released, set()
        return replace(output, released=output.released | released) if released else output

    def _sort(
        self, spans: Iterable[ReadableSpan], now: float
    ) -> tuple[Sequence[ReadableSpan], list[tuple[SpanRef, ReadableSpan]]]:
        """Return the spans to read, and unread ones to hold. Buffer the others, or feed the engine their ids only."""
        traces: dict[int, list[ReadableSpan]] = {}
        for span in spans:
            context = span.context
            trace = 0 if context is None else context.trace_id
            if trace in traces:
                traces[trace].append(span)
            else:
                traces[trace] = [span]
        to_read = traces.pop(0, [])
        self._roots.forget_ended()
        to_hold: list[tuple[SpanRef, ReadableSpan]] = []
        for trace, of_trace in traces.items():
            trace_id = format(trace, "032x")
            scan = self._scan(of_trace)
            if not self._is_known(trace_id):
                decision = self._decide(trace, trace_id, scan)
                if decision is _Decision.LEAVE_UNREAD:
                    self._buffer_spans(trace, scan.plain, scan.marked, now)
                    continue
                if decision is _Decision.WAIT_FOR_SESSION:
                    to_hold += self._wait_for_session(trace, trace_id, of_trace, scan, now)
                    continue
                self._read_buffered(trace, trace_id, now)
            # Of a span without marker that is no root, ids and times are enough.
            self._feed_unread(trace_id, [plain_span(span) for span in scan.plain if not is_root(span)], now)
            to_read += scan.marked
            to_read += filter(is_root, scan.plain)
        self._buffer.expire(now)
        return to_read, to_hold

    def _is_known(self, trace_id: str) -> bool:
        """Whether the engine knows a trace, or did."""
        return self._store.trace(trace_id) is not None or self._store.tombstone_has(trace_id, "") is not None

    def _decide(self, trace: int, trace_id: str, scan: ScannedSpans) -> _Decision:
        wanted = self._goldens.wants
        if not scan.marked:
            return _Decision.WAIT_FOR_SESSION if trace in self._without_session else _Decision.LEAVE_UNREAD
        if scan.is_opaque or any(map(wanted, scan.session_ids)):
            return _Decision.READ
        if trace in self._buffer.unwanted:
            return _Decision.LEAVE_UNREAD
        session_ids = {**dict(self._sessions_of_logs(trace)), **scan.session_ids} or self._sessions_of_root(trace)
        if any(map(wanted, session_ids)) or self._goldens.wants_trace(trace_id, named=bool(session_ids)):
            return _Decision.READ
        if not session_ids and self._goldens.wants_any:
            has_room = trace in self._without_session or not self._without_session.is_full
            return _Decision.WAIT_FOR_SESSION if has_room else _Decision.READ
        if self._has_agent_span(scan.marked):
            self.engine.count_unmatched(*self._first_named(session_ids, trace_id))
        self._leave_unread(trace)
        return _Decision.LEAVE_UNREAD

    def _wait_for_session(
        self, trace: int, trace_id: str, spans: Iterable[ReadableSpan], scan: ScannedSpans, now: float
    ) -> list[tuple[SpanRef, ReadableSpan]]:
        """Buffer spans of a trace without a session, and return those to hold: they may get a score."""
        roots = {id(span) for span in spans if is_root(span)}
        may_get_score = set(roots)
        recognised = trace in self._without_session
        for span in scan.marked:
            role = self._registry.outline(self._reader.view(span))
            recognised = recognised or role is not None
            if role is Role.TOOL or role is Role.AGENT:
                may_get_score.add(id(span))
        plain = [span for span in scan.plain if id(span) not in roots]
        self._buffer_spans(trace, plain, [*scan.marked, *(span for span in scan.plain if id(span) in roots)], now)
        if not recognised:
            return []
        to_hold = [
            (SpanRef(trace_id, format(span.context.span_id, "016x")), span)
            for span in spans
            if id(span) in may_get_score and span.context is not None and span.context.span_id
        ]
        self._without_session.add(trace, (ref for ref, _ in to_hold), now, root_ended=bool(roots))
        return to_hold

    def _end_without_session(self, trace: int) -> None:
        """Count a trace whose root has ended and that named no session with a golden."""
        self.engine.count_unmatched(*self._first_named(dict(self._sessions_of_logs(trace)), format(trace, "032x")))
        self._leave_unread(trace)

    def _leave_unread(self, trace: int) -> None:
        self._buffer.unwanted.add(trace)
        self._released.update(self._without_session.remove(trace))

    def _sessions_of_root(self, trace: int) -> dict[str, str]:
        root = self._roots.get(trace)
        # The attributes of a running span may change meanwhile, so they are copied.
        return {} if root is None else dict(self._session_ids(dict(root.attributes or {})))

    def _sessions_of_logs(self, trace: int) -> Iterator[tuple[str, str]]:
        for record in self._buffer.records(trace):
            if isinstance(record, LogFacts):
                yield from ((session_id, key) for key, session_id in record.session_keys)

    def _first_named(self, session_ids: Mapping[str, str], trace_id: str) -> tuple[str, str]:
        """Return the session id whose attribute comes first (R6), and the attribute; without any the trace id."""
        ranks = self._session_ranks
        return min(session_ids.items(), key=lambda one: ranks.get(one[1], len(ranks)), default=(trace_id, "trace_id"))

    def _has_agent_span(self, marked: Iterable[ReadableSpan]) -> bool:
        """Whether a span is an agent's, a model's or a tool's. A marker alone does not say so."""
        for span in marked:
            name = scope_of(span)
            if name in self._agent_scopes:
                return True
            if self._registry.outline(self._reader.view(span)) is not None:
                if len(self._agent_scopes) < _MAX_SCOPES:
                    self._agent_scopes.add(name)
                return True
        return False

    def _buffer_spans(
        self, trace: int, plain: Iterable[ReadableSpan], others: Sequence[ReadableSpan], now: float
    ) -> None:
        records: list[Unread] = list(map(plain_span, plain))
        size = _PLAIN_SPAN_SIZE * len(records) + self._estimated_size(others)
        records += others
        self._buffer.add({trace: records}, size, now)

    def _estimated_size(self, spans: Iterable[ReadableSpan]) -> int:
        """Estimate the memory of spans from a sample: estimating each takes longer than everything else here."""
        size = 0
        for span in spans:
            self._until_sample -= 1
            if not self._until_sample:
                self._until_sample = _SAMPLE_EVERY
                size += _SAMPLE_EVERY * estimated_size(span)
        return size

    def _read_buffered(self, trace: int, trace_id: str, now: float) -> None:
        """Start to read a trace: feed the engine what the buffer has of it, and note what the buffer has forgotten."""
        if (lost := self._buffer.lost_calls(trace)) is not None:
            self._store.note_loss(trace_id, calls=lost)
        self._released.update(self._without_session.remove(trace))
        self._released -= self._feed_unread(trace_id, self._buffer.take(trace), now)

    def _feed_unread(self, trace_id: str, records: Iterable[Unread], now: float) -> set[SpanRef]:
        """Feed the engine what was not read so far. Returns the spans that should stay held."""
        plain: dict[int, tuple[object, list[UndecodedSpan]]] = {}
        to_hold: set[SpanRef] = set()
        for record in records:
            if isinstance(record, tuple):
                resource, context, *_ = record
                if context.span_id:
                    plain.setdefault(id(resource), (resource, []))[1].append(undecoded(record))
            elif isinstance(record, LogFacts):
                self._feed_log(record, now)
            elif (ref := self._feed(record, now)) is not None:
                to_hold.add(ref)
        for resource, of_resource in plain.values():
            spans = PlainSpans({trace_id: of_resource}, skeleton, self._reader.resource(resource))
            try:
                self.engine.feed_plain(self._registry.skeletons(spans), now)
            except Exception as error:  # noqa: BLE001 - the other spans may be good
                self._on_failure("engine", error)
        return to_hold

    def _feed(self, span: ReadableSpan, now: float) -> SpanRef | None:
        """Read a span and feed it to the engine. Returns its ids if it should be held for a result."""
        where = "read"
        try:
            facts = self._registry.read(self._reader.view(span), content=self._content)
            where = "engine"
            return facts.ref if self.engine.feed(facts, now) and facts.span_id else None
        except Exception as error:  # noqa: BLE001 - a span that cannot be read or scored is still exported
            self._on_failure(where, error)
            return None

    def _feed_log(self, facts: LogFacts, now: float) -> None:
        try:
            self.engine.feed_log(facts, now)
        except Exception as error:  # noqa: BLE001 - the other records may be good
            self._on_failure("engine", error)

    def _scan(self, spans: Iterable[ReadableSpan]) -> ScannedSpans:
        """Scan spans of one trace. Every span of every trace passes here, so this is as fast as can be."""
        registry = self._registry
        (keys, bare_scopes), session_keys, opaque = registry.markers, registry.session_keys, registry.opaque_markers
        plain: list[ReadableSpan] = []
        marked: list[ReadableSpan] = []
        session_ids: dict[str, str] = {}
        resource: object = None
        is_opaque = False
        for span in spans:
            attributes = attributes_of(span)
            if keys.isdisjoint(attributes) and (attributes or scope_of(span) not in bare_scopes):
                plain.append(span)
                continue
            marked.append(span)
            hits = keys.intersection(attributes)
            if not session_keys.isdisjoint(hits):
                session_ids.update(self._session_ids(attributes))
            if span.resource is not resource:
                resource = span.resource
                of_resource = registry.resource(self._reader.resource(resource)).session_keys
                session_ids.update((session_id, key) for key, session_id in of_resource)
            is_opaque = is_opaque or not opaque.isdisjoint(hits)
        return ScannedSpans(plain, marked, session_ids, is_opaque)

    def _session_ids(self, attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key in self._registry.session_keys.intersection(attributes):
            if (session_id := identifier(attributes[key])) is not None:
                yield session_id, key


class RunningRoots:
    """The running root of each trace. `add` is the agent's time: a `WeakValueDictionary` takes ten times as long."""

    def __init__(self) -> None:
        self._roots: dict[int, weak_reference[ReadableSpan]] = {}
        self._forget_above = _MIN_ROOTS

    def __len__(self) -> int:
        return len(self._roots)

    def add(self, span: ReadableSpan) -> None:
        """Note a root that starts."""
        context = span.context
        if context is not None:
            if len(self._roots) >= MAX_ROOTS:
                self._roots.clear()
            self._roots[context.trace_id] = weak_reference(span)

    def get(self, trace: int) -> ReadableSpan | None:
        """Return the root of a trace if it still runs."""
        found = self._roots.get(trace)
        return None if found is None else found()

    def forget_ended(self) -> None:
        """Forget roots that have ended, each time their number has doubled."""
        if len(self._roots) > self._forget_above:
            for trace, root in list(self._roots.items()):
                if root() is None:
                    self._roots.pop(trace, None)
            self._forget_above = 2 * len(self._roots) + _MIN_ROOTS


def is_root(span: ReadableSpan) -> bool:
    """Whether a span is the first one of its trace in this process."""
    return span.parent is None or span.parent.is_remote or is_entry(span.kind)


def scope_of(span: ReadableSpan) -> str:
    """Return the name of a span's instrumentation scope, or an empty string."""
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name
