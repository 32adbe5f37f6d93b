"""The policy of reading in the agent's process: which spans of the SDK the engine gets, and which wait for a result.

`_ScannedSpans` shows the policy the spans of one trace. Session ids are read from any span of the trace, its resource,
its log records, and the root that may still run. A trace of a wanted session is read whole: every span of it, from then
on and from the buffer. As long as no session is known, its tool spans and roots are held unread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast
from weakref import ref as weak_reference

from opentelemetry.sdk.trace import ReadableSpan

from goldspan.collector_processor.engine.engine import AT_ONCE, Engine, EngineOutput
from goldspan.collector_processor.engine.engine_state import MemoryStore
from goldspan.collector_processor.engine.reading_and_holding import (
    Decision,
    ReadingPolicy,
    SpanBuffer,
    TracesWithoutSession,
)
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.carrying_keys import are_of_agent
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.value_parsing import session_identifier
from goldspan.mappers.readers import sdk
from goldspan.mappers.span_facts import LogFacts, Role, content_size
from goldspan.mappers.spans import LogView, PlainSpans, UndecodedSpan
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

MAX_BUFFER_BYTES = 32 * 1024 * 1024
"""Estimated memory of the unread spans. Beyond it the oldest are forgotten."""
MAX_ROOTS = 10_000
"""Running roots at once. Beyond it all are forgotten, and their traces wait for an ended span to name the session."""
_MIN_ROOTS = 256
_PLAIN_SPAN_SIZE = 600  # bytes that are kept of a span without markers, measured on CPython 3.11
_LOG_SIZE = 4_000  # bytes that are kept of a log record, without its content
_SAMPLE_EVERY = 13
"""The size of every 13th marked span is estimated. A prime, since agents repeat the same sequence of spans."""

Unread = ReadableSpan | sdk.PlainSdkSpan | LogFacts
"""In the buffer: a marked span as it is, the ids and times of one without markers, the facts of a log record."""


class _ScannedSpans:
    """New spans of one trace, sorted by whether a dialect marks them. `TraceBatch` describes the members."""

    __slots__ = ("_filter", "carrying", "is_opaque", "marked_spans", "plain", "session_ids", "trace", "trace_id")

    of_interest = True

    def __init__(self, trace: int, trace_filter: TraceFilter) -> None:
        self.trace = trace
        self.trace_id = format(trace, "032x")
        self.plain: list[ReadableSpan] = []
        """Spans without a marker."""
        self.carrying: list[ReadableSpan] = []
        """Spans without a marker whose keys may carry a call: read where their trace is, and they decide nothing."""
        self.marked_spans: list[ReadableSpan] = []
        self.session_ids: dict[str, str] = {}
        """The sessions that they name: by id, the attribute that names it."""
        self.is_opaque = False
        self._filter = trace_filter

    @property
    def is_marked(self) -> bool:
        return bool(self.marked_spans)

    def sessions(self) -> Iterable[str]:
        return self.session_ids

    def earlier_sessions(self, unread: Sequence[Unread]) -> Mapping[str, str]:
        """Return what unread log records name; if nothing does, what the root names that still runs."""
        earlier = sessions_of_logs(unread)
        return earlier if earlier or self.session_ids else self._filter.sessions_of_root(self.trace)

    def first_session(self, earlier: Mapping[str, str]) -> tuple[str, str] | None:
        return self._filter.first_of({**earlier, **self.session_ids})

    def marked(self) -> Iterator[tuple[str, ReadableSpan]]:
        return ((scope_of(span), span) for span in self.marked_spans)


class TraceFilter:
    """One engine, and the traces that it does not know. Not thread-safe, except for `root_started` and `log_view`."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: EngineSettings,
        registry: DialectRegistry,
        *,
        content: bool,
        on_failure: Callable[[str, Exception], object],
    ) -> None:
        """Score by these goldens. `content` says to read messages, results of calls and answers of models.

        `on_failure` is called with `read` or `engine`, and the exception that was contained there.
        """
        self._goldens = goldens
        self._session_ranks = {key: rank for rank, key in enumerate(settings.assembly.session_keys)}
        self._registry = registry
        self._content = content
        self._on_failure = on_failure
        self._reader = sdk.SdkReader()
        self._log_reader = sdk.SdkReader()
        self._store = MemoryStore()
        self.engine = Engine(goldens, settings, self._store)
        self.buffer = SpanBuffer[int, Unread](retention=settings.trace_retention, max_bytes=MAX_BUFFER_BYTES)
        """The unread spans."""
        self._roots = RunningRoots()
        self.root_started = self._roots.add
        """Notes the root of a trace: it may name its session long before it ends. Called by the agent's threads."""
        self._without_session = TracesWithoutSession[int](settings.settle, settings.hold_timeout)
        self._policy = ReadingPolicy[int, ReadableSpan](
            goldens,
            self.buffer,
            recognises=lambda span: registry.outline(self._reader.view(span)) is not None,
            without_golden=self.engine.without_golden,
            on_unmatched=self.engine.count_unmatched,
            waiting=self._without_session,
        )
        self._released: set[SpanRef] = set()
        self._until_sample = _SAMPLE_EVERY

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

    def log_view(self, record: Any) -> LogView | None:
        """Return a log record of the SDK as it is now; None if it tells nothing. Called by the agent's threads."""
        if getattr(record, "log_record", record).trace_id and self._registry.may_tell(*sdk.log_event(record)):
            return self._log_reader.log_view(record)
        return None

    def add_log(self, view: LogView, now: float) -> None:
        """Take a log record. It is ignored if it belongs to no trace or no dialect knows it."""
        facts = self._registry.read_log(view, content=self._content)
        if facts is None or not facts.trace_id:
            return
        trace = int(facts.trace_id, 16)
        if not self._is_known(facts.trace_id):
            if not any(self._goldens.wants(session_id) for _, session_id in facts.session_keys):
                self.buffer.add({trace: [facts]}, _LOG_SIZE + content_size(facts), now, calls=True)
                return
            self._read_buffered(trace, facts.trace_id, now)
        self._feed_log(facts, now)

    def poll(self, now: float, *, large: bool = True) -> EngineOutput:
        """Return the results that are due, and the spans that need not be held any longer; as `Engine.poll`."""
        for trace in self._without_session.overdue(now):
            self._released.update(self._without_session.remove(trace))
        for trace in self._without_session.settled(now):
            self._end_without_session(trace)
        return self._with_released(self.engine.poll(now, AT_ONCE, large=large))

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
            scan = self._scan(trace, of_trace)
            if not self._is_known(scan.trace_id):
                decision = self._policy.decide(trace, scan)
                if decision is Decision.WAIT_FOR_SESSION:
                    to_hold += self._wait_for_session(of_trace, scan, now)
                    continue
                if decision is Decision.LEAVE_UNREAD:
                    self._released.update(self._without_session.remove(trace))
                    self._buffer_spans(trace, scan.plain, [*scan.marked_spans, *scan.carrying], now)
                    continue
                self._read_buffered(trace, scan.trace_id, now)
            # Of a span without marker that is no root, ids and times are enough.
            self._feed_unread(scan.trace_id, [sdk.plain_span(span) for span in scan.plain if not is_root(span)], now)
            to_read += (*scan.marked_spans, *scan.carrying)
            to_read += filter(is_root, scan.plain)
        self.buffer.expire(now)
        return to_read, to_hold

    def _is_known(self, trace_id: str) -> bool:
        return self._store.trace(trace_id) is not None or self._store.tombstone_has(trace_id, "") is not None

    def _wait_for_session(
        self, spans: Iterable[ReadableSpan], scan: _ScannedSpans, now: float
    ) -> list[tuple[SpanRef, ReadableSpan]]:
        """Buffer spans of a trace without a session, and return those to hold: they may get a score."""
        plain_roots = list(filter(is_root, scan.plain))
        plain = [span for span in scan.plain if not is_root(span)]
        self._buffer_spans(scan.trace, plain, [*scan.marked_spans, *scan.carrying, *plain_roots], now)
        roles = [self._registry.outline(self._reader.view(span)) for span in scan.marked_spans]
        if scan.trace not in self._without_session and not any(roles):
            return []
        roles_of = zip(scan.marked_spans, roles, strict=True)
        scored = [span for span, role in roles_of if role in (Role.TOOL, Role.AGENT) or is_root(span)]
        may_get_score = set(map(id, (*plain_roots, *filter(is_root, scan.carrying), *scored)))
        to_hold = [
            (SpanRef(scan.trace_id, format(span.context.span_id, "016x")), span)
            for span in spans
            if id(span) in may_get_score and span.context is not None and span.context.span_id
        ]
        root_ended = any(map(is_root, spans))
        self._without_session.add(scan.trace, (ref for ref, _ in to_hold), now, root_ended=root_ended)
        return to_hold

    def _end_without_session(self, trace: int) -> None:
        """Count a trace whose root has ended and that named no session with a golden."""
        session = self.first_of(sessions_of_logs(self.buffer.records(trace))) or (format(trace, "032x"), "trace_id")
        self.engine.count_unmatched(*session)
        self.buffer.unwanted.add(trace)
        self._released.update(self._without_session.remove(trace))

    def sessions_of_root(self, trace: int) -> Mapping[str, str]:
        """Return the sessions that the root of a trace names, if it still runs, each with the attribute."""
        root = self._roots.get(trace)
        # The attributes of a running span may change meanwhile, so they are copied.
        return {} if root is None else dict(self._session_ids(dict(root.attributes or {})))

    def first_of(self, session_ids: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the session id whose attribute comes first (R6), and the attribute; None without any."""
        ranks = self._session_ranks
        return min(session_ids.items(), key=lambda one: ranks.get(one[1], len(ranks)), default=None)

    def _buffer_spans(
        self, trace: int, plain: Iterable[ReadableSpan], others: Sequence[ReadableSpan], now: float
    ) -> None:
        records: list[Unread] = list(map(sdk.plain_span, plain))
        size = _PLAIN_SPAN_SIZE * len(records) + self._estimated_size(others)
        records += others
        self.buffer.add({trace: records}, size, now)

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
        if (lost := self.buffer.lost_calls(trace)) is not None:
            self._store.note_loss(trace_id, calls=lost)
        self._released.update(self._without_session.remove(trace))
        self._released -= self._feed_unread(trace_id, self.buffer.take(trace), now)

    def _feed_unread(self, trace_id: str, records: Iterable[Unread], now: float) -> set[SpanRef]:
        """Feed the engine what was not read so far. Returns the spans that should stay held."""
        plain: dict[int, tuple[object, list[UndecodedSpan]]] = {}
        to_hold: set[SpanRef] = set()
        for record in records:
            if isinstance(record, tuple):
                resource, context, *_ = record
                if context.span_id:
                    plain.setdefault(id(resource), (resource, []))[1].append(sdk.undecoded(record))
            elif isinstance(record, LogFacts):
                self._feed_log(record, now)
            elif (ref := self._feed(record, now)) is not None:
                to_hold.add(ref)
        for resource, of_resource in plain.values():
            spans = PlainSpans({trace_id: of_resource}, sdk.skeleton, self._reader.resource(resource))
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

    def _scan(self, trace: int, spans: Iterable[ReadableSpan]) -> _ScannedSpans:
        """Scan spans of one trace. Every span of every trace passes here, so this is as fast as can be."""
        registry = self._registry
        markers, session_keys, opaque = registry.markers, registry.session_keys, registry.opaque_markers
        keys, bare_scopes, is_plain = markers.keys, markers.scopes, markers.plain.issuperset
        found = _ScannedSpans(trace, self)
        plain, marked, session_ids = found.plain, found.marked_spans, found.session_ids
        resource: object = None
        for span in spans:
            attributes = sdk.attributes_of(span)
            if is_plain(attributes) and (attributes or scope_of(span) not in bare_scopes):
                plain.append(span)
                continue
            hits = keys.intersection(attributes)
            if not hits and attributes and not are_of_agent(attributes):
                (plain if markers.are_plain(attributes) else found.carrying).append(span)
                continue
            marked.append(span)
            if not session_keys.isdisjoint(hits):
                session_ids.update(self._session_ids(attributes))
            if span.resource is not resource:
                resource = span.resource
                of_resource = registry.resource(self._reader.resource(resource)).session_keys
                session_ids.update((session_id, key) for key, session_id in of_resource)
            found.is_opaque = found.is_opaque or not opaque.isdisjoint(hits)
        return found

    def _session_ids(self, attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key in self._registry.session_keys.intersection(attributes):
            if (session_id := session_identifier(attributes[key])) is not None:
                yield session_id, key


def sessions_of_logs(unread: Iterable[Unread]) -> Mapping[str, str]:
    """Return the sessions that unread log records of a trace name, each with the attribute."""
    logs = (record for record in unread if isinstance(record, LogFacts))
    return {session_id: key for log in logs for key, session_id in log.session_keys}


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
    return span.parent is None or span.parent.is_remote or sdk.is_entry(span.kind)


def scope_of(span: ReadableSpan) -> str:
    """Return the name of a span's instrumentation scope, or an empty string."""
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name


_SPAN_OVERHEAD = 2_000  # bytes of an SDK span without its attributes and events, measured on CPython 3.11
_MAX_DEPTH = 8
_NESTED = frozenset({tuple, list, dict, MappingProxyType})


def estimated_size(span: ReadableSpan) -> int:
    """Estimate the memory of a span in bytes."""
    size = _SPAN_OVERHEAD + _size_of_attributes(sdk.attributes_of(span))
    for event in span.events:
        size += 500 + _size_of_attributes(event.attributes or {})
    return size


def _size_of_attributes(attributes: Mapping[str, object]) -> int:
    # Most values are strings and numbers: only nested ones need a walk.
    values = attributes.values()
    nested = [value for value in values if type(value) in _NESTED]
    return (
        sum(map(sys.getsizeof, attributes))
        + sum(map(sys.getsizeof, values))
        + sum(_size_of_value(value, 1) for value in nested)
    )


def _size_of_value(value: object, depth: int) -> int:
    size = sys.getsizeof(value, 64)
    if isinstance(value, (str, int, float)) or depth >= _MAX_DEPTH:
        return size
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return size + sum(sys.getsizeof(key, 64) + _size_of_value(item, depth + 1) for key, item in items)
    if isinstance(value, (list, tuple)):
        return size + sum(_size_of_value(item, depth + 1) for item in cast("Iterable[object]", value))
    return size
