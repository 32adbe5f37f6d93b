"""Ended spans and log records of the SDK on their way to the engine, read only where that may matter.

Most sessions on live traffic have no golden. Spans that no dialect marks, and those whose trace belongs to sessions
that no golden wants, stay unread on a shelf: all that is looked at are their trace ids and the keys of their
attributes. Where neither a trace nor its root, which may still be running, names a session yet, tools and roots wait,
unread too, until one does. A span of a session that is wanted is read, and from then on so is everything of its trace.
What is known comes from the same places as everywhere: session ids under the keys of R6, on any span of the trace, its
resource or its log records. So the engine sees exactly the traces whose results may be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from weakref import ref

from opentelemetry.sdk.trace import ReadableSpan

from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.engine.span_buffer import SpanBuffer
from goldspan.collector_processor.engine.store import MemoryStore
from goldspan.collector_processor.in_process.held_spans import estimated_size
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.recorded_values import identifier
from goldspan.mappers.facts import LogFacts, Role, SpanFacts
from goldspan.mappers.readers.sdk import (
    PlainSdkSpan,
    SdkReader,
    attributes_of,
    is_entry,
    plain_span,
    skeleton,
    undecoded,
)
from goldspan.mappers.spans import LogView, PlainSpans, UndecodedSpan
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

# What can be seen of SDK spans from outside: the keys of their attributes, and what stands under some of these.


class ScannedTrace(NamedTuple):
    """What is seen of some spans of a trace."""

    plain: Sequence[ReadableSpan]
    """Those that no dialect marks."""
    marked: Sequence[ReadableSpan]
    session_ids: Mapping[str, None]
    is_opaque: bool
    """A dialect that has ways of its own to tell session ids, or speaks of other traces, marks some of them."""


class MarkerScan:
    """Looks at spans by the keys that the dialects of a registry know."""

    def __init__(self, registry: DialectRegistry, views: SdkReader) -> None:
        """Resources are read by `registry`, through `views`."""
        self._registry = registry
        self._views = views

    def at(self, spans: Iterable[ReadableSpan]) -> ScannedTrace:
        """Look at spans of one trace; this is done to every span there is."""
        registry = self._registry
        (keys, bare_scopes), session_keys, opaque = registry.markers, registry.session_keys, registry.opaque_markers
        plain: list[ReadableSpan] = []
        marked: list[ReadableSpan] = []
        session_ids: dict[str, None] = {}
        resource: object = None
        is_opaque = False
        for span in spans:
            attributes = attributes_of(span)
            hits = keys.intersection(attributes)
            if not hits and (attributes or scope_of(span) not in bare_scopes):
                plain.append(span)
                continue
            marked.append(span)
            if not session_keys.isdisjoint(hits):
                session_ids.update(self._named(attributes))
            if span.resource is not resource:
                resource = span.resource
                told = registry.resource(self._views.resource(resource)).session_keys
                session_ids.update((session_id, None) for _, session_id in told)
            is_opaque = is_opaque or not opaque.isdisjoint(hits)
        return ScannedTrace(plain, marked, session_ids, is_opaque)

    def sessions_of(self, running: ReadableSpan) -> list[str]:
        """Return the sessions that a span names which has not ended: its attributes may change while one looks."""
        return [session_id for session_id, _ in self._named(dict(running.attributes or {}))]

    def _named(self, attributes: Mapping[str, Any]) -> Iterator[tuple[str, None]]:
        for key in self._registry.session_keys.intersection(attributes):
            if (session_id := identifier(attributes[key])) is not None:
                yield session_id, None

    def plain_below(self, spans: Iterable[ReadableSpan]) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
        """Tell plain spans below others, of which nothing but their places matters, from the rest."""
        keys, bare_scopes = self._registry.markers
        plain: list[ReadableSpan] = []
        others: list[ReadableSpan] = []
        for span in spans:
            attributes: Mapping[str, Any] = attributes_of(span)
            bare = keys.isdisjoint(attributes) and (attributes or scope_of(span) not in bare_scopes)
            (plain if bare and not is_root(span) else others).append(span)
        return plain, others


def is_root(span: ReadableSpan) -> bool:
    """Tell whether a span is the first one of its trace in this process."""
    return span.parent is None or span.parent.is_remote or is_entry(span.kind)


def scope_of(span: ReadableSpan) -> str:
    """Return the name of the scope a span was written in; empty where it has none."""
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name


# The roots of traces while they run: often they name at their start the session that their trace belongs to.

MAX_ROOTS = 10_000
"""Traces at once; beyond it all are forgotten, and their spans wait until one that ended names the session."""
_FEW = 256


class RunningRoots:
    """Running spans by trace id. Adding one is the agent's time, a tenth of what a `WeakValueDictionary` takes."""

    def __init__(self) -> None:
        self._roots: dict[int, ref[ReadableSpan]] = {}
        self._enough = _FEW

    def __len__(self) -> int:
        return len(self._roots)

    def add(self, span: ReadableSpan) -> None:
        """Remember a root that starts."""
        context = span.context
        if context is not None:
            if len(self._roots) >= MAX_ROOTS:
                self._roots.clear()
            self._roots[context.trace_id] = ref(span)

    def get(self, trace: int) -> ReadableSpan | None:
        """Return the root of a trace, if it still runs."""
        found = self._roots.get(trace)
        return None if found is None else found()

    def forget_ended(self) -> None:
        """Forget those that are gone, once there are twice as many as were left the last time."""
        if len(self._roots) > self._enough:
            for trace, one in list(self._roots.items()):
                if one() is None:
                    self._roots.pop(trace, None)
            self._enough = 2 * len(self._roots) + _FEW


# Traces that name no session so far: what of them waits, and until when.

MAX_UNDECIDED = 1000
"""Traces at once, for they are all looked at in each step."""


@dataclass(slots=True)
class _Waiting:
    since: float
    last: float
    rooted: bool = False
    refs: list[SpanRef] = field(default_factory=list[SpanRef])


class TracesWithoutSession:
    """Traces by id. A root that ended, and nothing new for a while, decides that they belong to no session at all."""

    def __init__(self, settle: float, hold_timeout: float) -> None:
        """Wait for news of a trace whose root has ended, and for the session's name, no longer than this."""
        self._settle = settle
        self._hold_timeout = hold_timeout
        self._waiting: dict[int, _Waiting] = {}

    def __contains__(self, trace: int) -> bool:
        return trace in self._waiting

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another trace."""
        return len(self._waiting) >= MAX_UNDECIDED

    def add(self, trace: int, refs: Iterable[SpanRef], now: float, *, rooted: bool) -> None:
        """Note that spans of a trace came, and those of them that wait."""
        waiting = self._waiting.setdefault(trace, _Waiting(now, now))
        waiting.last = now
        waiting.rooted = waiting.rooted or rooted
        waiting.refs += refs

    def take(self, trace: int) -> list[SpanRef]:
        """Return what of a trace waits, and know of it no more."""
        waiting = self._waiting.pop(trace, None)
        return [] if waiting is None else waiting.refs

    def rooted(self, now: float) -> list[int]:
        """Return the traces whose root has ended, and that were quiet for long enough."""
        return [trace for trace, one in self._waiting.items() if one.rooted and one.last + self._settle <= now]

    def overdue(self, now: float) -> list[int]:
        """Return the traces that have waited for too long."""
        return [trace for trace, one in self._waiting.items() if one.since + self._hold_timeout <= now]

    def deadline(self) -> float | None:
        """Return when there will be something to do next, or none."""
        times = (
            min(one.since + self._hold_timeout, one.last + self._settle if one.rooted else float("inf"))
            for one in self._waiting.values()
        )
        return min(times, default=None)


MAX_UNREAD_BYTES = 32 * 1024 * 1024
"""Estimated memory of what is on the shelf; beyond it the oldest is forgotten."""
_PLAIN_SIZE = 600
"""Bytes of what is kept of a plain span, measured on CPython 3.11."""
_LOG_SIZE = 4_000
_SAMPLED = 13
"""One marked span in so many is measured; a prime, since agents repeat themselves."""
_MAX_SCOPES = 256

Unread = ReadableSpan | PlainSdkSpan | LogFacts
"""What is on the shelf: a marked span as it is, what is kept of a plain one, what a log record said."""


class TraceFilter:
    """One engine, and what it was not told of. For one thread."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: EngineSettings,
        registry: DialectRegistry,
        *,
        content: bool,
        on_failure: Callable[[str, Exception], object],
    ) -> None:
        """Judge by these goldens; `content` says whether they need what calls returned and models answered."""
        self._goldens = goldens
        self._registry = registry
        self._content = content
        self._on_failure = on_failure
        self._views = SdkReader()
        self._store = MemoryStore()
        self.engine = Engine(goldens, settings, self._store)
        self._shelf = SpanBuffer[int, Unread](retention=settings.trace_retention, max_bytes=MAX_UNREAD_BYTES)
        self._look = MarkerScan(registry, self._views)
        self._roots = RunningRoots()
        self._undecided = TracesWithoutSession(settings.settle, settings.hold_timeout)
        self._released: set[SpanRef] = set()
        self._agents_scopes: set[str] = set()
        self._sampled = _SAMPLED

    @property
    def unread_bytes(self) -> int:
        """Estimated memory of what is on the shelf."""
        return self._shelf.size

    def look_at_root(self, span: ReadableSpan) -> None:
        """Remember the root of a trace while it runs: often it says at its start which session its trace belongs to.

        Called by the agent's threads.
        """
        self._roots.add(span)

    def take(self, spans: Sequence[ReadableSpan], now: float) -> Iterator[tuple[SpanRef, ReadableSpan]]:
        """Take in spans; yield those that should wait for a result."""
        try:
            to_read, waiting = self._sifted(spans, now)
        except Exception as error:  # noqa: BLE001 - what is amiss with one span comes out when each is read
            self._on_failure("read", error)
            to_read, waiting = spans, []
        yield from waiting
        for span in to_read:
            if (ref := self._read(span, now)) is not None:
                yield ref, span

    def poll(self, now: float) -> EngineOutput:
        """Hand out what is due at this time."""
        for trace in self._undecided.overdue(now):
            self._released.update(self._undecided.take(trace))
        for trace in self._undecided.rooted(now):
            self._settle(trace)
        return self._with_released(self.engine.poll(now))

    def flush(self, now: float, *, end_of_input: bool = False) -> EngineOutput:
        """Hand out all there is, as the engine's `flush` does."""
        for trace in self._undecided.rooted(float("inf")):
            self._settle(trace)
        return self._with_released(self.engine.flush(now, end_of_input=end_of_input))

    def deadline(self) -> float | None:
        """Return when `poll` will next have something to do, or none."""
        times = (self.engine.deadline(), self._undecided.deadline())
        return min((when for when in times if when is not None), default=None)

    def _with_released(self, handout: EngineOutput) -> EngineOutput:
        released, self._released = self._released, set()
        return replace(handout, released=handout.released | released) if released else handout

    def _settle(self, trace: int) -> None:
        """Take it that a trace belongs to no session: its root has ended, and none was named."""
        self.engine.count_unmatched(next(self._told_on_shelf(trace), format(trace, "032x")))
        self._set_aside(trace)

    def _set_aside(self, trace: int) -> None:
        """Let go of what waited for a trace to be of interest."""
        self._shelf.unwanted.add(trace)
        self._released.update(self._undecided.take(trace))

    def take_log(self, view: LogView, now: float) -> None:
        """Take in a log record."""
        facts = self._registry.read_log(view, content=self._content)
        if facts is None or not facts.trace_id:
            return
        trace = int(facts.trace_id, 16)
        if not self._is_known(facts.trace_id):
            if not any(self._goldens.wants(session_id) for _, session_id in facts.session_keys):
                self._shelf.add({trace: [facts]}, _LOG_SIZE, now, telling=True)
                return
            self._promote(trace, facts.trace_id, now)
        self._feed_log(facts, now)

    def _read(self, span: ReadableSpan, now: float) -> SpanRef | None:
        """Read a span and tell the engine; return its ids if it should wait for a result."""
        facts = self._facts(span)
        if facts is None:
            return None
        try:
            return facts.ref if self.engine.feed(facts, now) and facts.span_id else None
        except Exception as error:  # noqa: BLE001 - a span that the engine trips over is still the user's
            self._on_failure("engine", error)
            return None

    def _facts(self, span: ReadableSpan) -> SpanFacts | None:
        try:
            return self._registry.read(self._views.view(span), content=self._content)
        except Exception as error:  # noqa: BLE001 - a span we cannot read is still the user's
            self._on_failure("read", error)
            return None

    def _feed_log(self, facts: LogFacts, now: float) -> None:
        try:
            self.engine.feed_log(facts, now)
        except Exception as error:  # noqa: BLE001 - the records beside it may be good
            self._on_failure("engine", error)

    def _sifted(
        self, spans: Iterable[ReadableSpan], now: float
    ) -> tuple[Sequence[ReadableSpan], list[tuple[SpanRef, ReadableSpan]]]:
        """Return what is to be read, and what waits unread; the rest goes on the shelf or, as mere places, further."""
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
        waiting: list[tuple[SpanRef, ReadableSpan]] = []
        for trace, some in traces.items():
            trace_id = format(trace, "032x")
            if not self._is_known(trace_id):
                glance = self._look.at(some)
                match self._decision(trace, trace_id, glance):
                    case True:
                        self._promote(trace, trace_id, now)
                    case False:
                        self._shelve(trace, glance.plain, glance.marked, now)
                        continue
                    case None:
                        waiting += self._hold_back(trace, trace_id, some, glance, now)
                        continue
            plain, others = self._look.plain_below(some)
            self._feed_unread(trace_id, map(plain_span, plain), now)
            to_read += others
        self._shelf.expire(now)
        return to_read, waiting

    def _is_known(self, trace_id: str) -> bool:
        """Tell whether the engine was told of a trace."""
        return self._store.trace(trace_id) is not None or self._store.is_buried(trace_id, "") is not None

    def _decision(self, trace: int, trace_id: str, glance: ScannedTrace) -> bool | None:
        """Tell whether spans of a trace, new to the engine, are to be read; none where that cannot be told yet."""
        wants = self._goldens.wants
        if not glance.marked:
            return None if trace in self._undecided else False
        if glance.is_opaque or any(map(wants, glance.session_ids)):
            return True
        if trace in self._shelf.unwanted:
            return False
        session_ids = [*glance.session_ids, *self._told_on_shelf(trace)] or self._named_by_root(trace)
        if wants(trace_id) or any(map(wants, session_ids)):
            return True
        if not session_ids and self._goldens.goldens:
            return True if self._undecided.is_full and trace not in self._undecided else None
        if self._holds_agent(glance.marked):
            self.engine.count_unmatched(next(iter(session_ids), trace_id))
        self._set_aside(trace)
        return False

    def _hold_back(
        self, trace: int, trace_id: str, spans: Iterable[ReadableSpan], glance: ScannedTrace, now: float
    ) -> list[tuple[SpanRef, ReadableSpan]]:
        """Shelve spans of a trace that names no session, and return those that may come to carry a result."""
        roots = {id(span) for span in spans if is_root(span)}
        tools: set[int] = set()
        scored: set[int] = set()
        recognised = trace in self._undecided
        for span in glance.marked:
            role, is_scored = self._registry.outline(self._views.view(span))
            recognised = recognised or role is not None
            if is_scored:
                scored.add(id(span))
            elif role is Role.TOOL or role is Role.AGENT:
                tools.add(id(span))
        self._shelve(
            trace,
            [span for span in glance.plain if id(span) not in roots],
            [*glance.marked, *(span for span in glance.plain if id(span) in roots)],
            now,
        )
        if not recognised:
            return []
        may_carry = (tools | roots) - scored
        waiting = [
            (SpanRef(trace_id, format(span.context.span_id, "016x")), span)
            for span in spans
            if id(span) in may_carry and span.context is not None and span.context.span_id
        ]
        self._undecided.add(trace, (ref for ref, _ in waiting), now, rooted=bool(roots))
        return waiting

    def _shelve(self, trace: int, plain: Iterable[ReadableSpan], others: Sequence[ReadableSpan], now: float) -> None:
        records: list[Unread] = list(map(plain_span, plain))
        size = _PLAIN_SIZE * len(records) + self._size(others)
        records += others
        self._shelf.add({trace: records}, size, now)

    def _named_by_root(self, trace: int) -> list[str]:
        """Return the sessions that the root of a trace names, which may still be running."""
        root = self._roots.get(trace)
        return [] if root is None else self._look.sessions_of(root)

    def _told_on_shelf(self, trace: int) -> Iterator[str]:
        for record in self._shelf.records(trace):
            if isinstance(record, LogFacts):
                yield from (session_id for _, session_id in record.session_keys)

    def _size(self, spans: Iterable[ReadableSpan]) -> int:
        """Estimate the memory these spans keep alive, from a few of them: it takes longer than all the rest."""
        size = 0
        for span in spans:
            self._sampled -= 1
            if not self._sampled:
                self._sampled = _SAMPLED
                size += _SAMPLED * estimated_size(span)
        return size

    def _holds_agent(self, marked: Iterable[ReadableSpan]) -> bool:
        """Tell whether any of these spans really is an agent's, a model's or a tool's."""
        for span in marked:
            name = scope_of(span)
            if name in self._agents_scopes:
                return True
            role, _ = self._registry.outline(self._views.view(span))
            if role is not None:
                if len(self._agents_scopes) < _MAX_SCOPES:
                    self._agents_scopes.add(name)
                return True
        return False

    def _promote(self, trace: int, trace_id: str, now: float) -> None:
        """Let the engine know a trace: what of it lies on the shelf, and whether there was more."""
        if (lost := self._shelf.was_forgotten(trace)) is not None:
            self._store.note_lost(trace_id, calls=lost)
        self._released.update(self._undecided.take(trace))
        self._released -= self._feed_unread(trace_id, self._shelf.take(trace), now)

    def _feed_unread(self, trace_id: str, records: Iterable[Unread], now: float) -> set[SpanRef]:
        """Tell the engine of what was not read so far; return the spans that should wait, if they have not left."""
        plain: dict[int, tuple[object, list[UndecodedSpan]]] = {}
        wanted: set[SpanRef] = set()
        for record in records:
            if isinstance(record, tuple):
                resource, context, *_ = record
                if context.span_id:
                    plain.setdefault(id(resource), (resource, []))[1].append(undecoded(record))
            elif isinstance(record, LogFacts):
                self._feed_log(record, now)
            elif (ref := self._read(record, now)) is not None:
                wanted.add(ref)
        for resource, places in plain.values():
            spans = PlainSpans({trace_id: places}, skeleton, self._views.resource(resource))
            try:
                for skeletons in self._registry.skeletons(spans):
                    self.engine.feed_plain(skeletons, now)
            except Exception as error:  # noqa: BLE001 - likewise
                self._on_failure("engine", error)
        return wanted
