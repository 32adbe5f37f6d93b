"""Ended spans and log records of the SDK on their way to the engine, read only where that may matter.

Most sessions on live traffic have no golden. Spans that no dialect marks, and those whose trace belongs to sessions
that no golden wants, stay unread on a shelf: all that is looked at are their trace ids and the keys of their
attributes. A span of a session that is wanted, or not known yet, is read, and from then on so is everything of its
trace. What is known comes from the same places as everywhere: session ids under the keys of R6, on any span of the
trace, its resource or its log records. So the engine sees exactly the traces whose results may be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan

from goldspan.collector_processor.engine import Engine
from goldspan.collector_processor.engine_settings import EngineSettings
from goldspan.collector_processor.in_process.held_spans import estimated_size
from goldspan.collector_processor.shelf import Shelf
from goldspan.collector_processor.store import MemoryStore
from goldspan.mappers.dialects import DialectRegistry
from goldspan.mappers.dialects.identifiers import identifier
from goldspan.mappers.facts import LogFacts, SpanFacts
from goldspan.mappers.readers.sdk import (
    PlainSdkSpan,
    SdkReader,
    attributes_of,
    is_entry,
    plain_span,
    skeleton,
    undecoded,
)
from goldspan.mappers.spans import LogView, PlainSpans, Undecoded
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

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


class Intake:
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
        self._shelf = Shelf[int, Unread](retention=settings.trace_retention, max_bytes=MAX_UNREAD_BYTES)
        self._agents_scopes: set[str] = set()
        self._sampled = _SAMPLED

    @property
    def unread_bytes(self) -> int:
        """Estimated memory of what is on the shelf."""
        return self._shelf.size

    def take(self, spans: Sequence[ReadableSpan], now: float) -> Iterator[tuple[SpanRef, ReadableSpan]]:
        """Take in spans; yield those that should wait for a result."""
        try:
            to_read: Sequence[ReadableSpan] = self._sifted(spans, now)
        except Exception as error:  # noqa: BLE001 - a span that has no shape goes the way of those that are read
            self._on_failure("read", error)
            to_read = spans
        for span in to_read:
            facts = self._facts(span)
            try:
                if facts is not None and self.engine.feed(facts, now) and facts.span_id:
                    yield facts.ref, span
            except Exception as error:  # noqa: BLE001 - a span that the engine trips over is still the user's
                self._on_failure("engine", error)

    def take_log(self, view: LogView, now: float) -> None:
        """Take in a log record. Raises what the engine raises."""
        facts = self._registry.read_log(view, content=self._content)
        if facts is None or not facts.trace_id:
            return
        trace = int(facts.trace_id, 16)
        if not self._is_known(facts.trace_id):
            if not any(self._goldens.wants(session_id) for _, session_id in facts.session_keys):
                self._shelf.add({trace: [facts]}, _LOG_SIZE, now, telling=True)
                return
            self._promote(trace, facts.trace_id, now)
        self.engine.feed_log(facts, now)

    def _facts(self, span: ReadableSpan) -> SpanFacts | None:
        try:
            return self._registry.read(self._views.view(span), content=self._content)
        except Exception as error:  # noqa: BLE001 - a span we cannot read is still the user's
            self._on_failure("read", error)
            return None

    def _sifted(self, spans: Iterable[ReadableSpan], now: float) -> list[ReadableSpan]:
        """Return what is to be read; the rest goes on the shelf, or as mere places to the engine."""
        traces: dict[int, list[ReadableSpan]] = {}
        for span in spans:
            context = span.context
            trace = 0 if context is None else context.trace_id
            if trace in traces:
                traces[trace].append(span)
            else:
                traces[trace] = [span]
        to_read = traces.pop(0, [])
        shelved: dict[int, list[Unread]] = {}
        size = 0
        for trace, some in traces.items():
            trace_id = format(trace, "032x")
            if not self._is_known(trace_id):
                unread, its_size = self._unread(trace, trace_id, some)
                if unread is not None:
                    shelved[trace] = unread
                    size += its_size
                    continue
                self._promote(trace, trace_id, now)
            to_read += self._without_plain(trace_id, some, now)
        if shelved:
            self._shelf.add(shelved, size, now)
        self._shelf.expire(now)
        return to_read

    def _is_known(self, trace_id: str) -> bool:
        """Tell whether the engine was told of a trace."""
        return self._store.trace(trace_id) is not None or self._store.is_buried(trace_id, "") is not None

    def _unread(self, trace: int, trace_id: str, spans: list[ReadableSpan]) -> tuple[list[Unread] | None, int]:
        """Return what is to be shelved of these spans, with its size; none where they may be wanted."""
        registry, wants = self._registry, self._goldens.wants
        (keys, bare_scopes), session_keys, opaque = registry.markers, registry.session_keys, registry.opaque_markers
        unread: list[Unread] = []
        marked: list[ReadableSpan] = []
        session_ids: dict[str, None] = {}
        resource: object = None
        for span in spans:
            attributes = attributes_of(span)
            hits = keys.intersection(attributes)
            if not hits and (attributes or _scope(span) not in bare_scopes):
                unread.append(plain_span(span))
                continue
            if not opaque.isdisjoint(hits):
                return None, 0
            if not session_keys.isdisjoint(hits):
                for key in session_keys.intersection(hits):
                    if (session_id := identifier(attributes[key])) is not None:
                        session_ids[session_id] = None
            if span.resource is not resource:
                resource = span.resource
                told = registry.resource(self._views.resource(resource)).session_keys
                session_ids.update((session_id, None) for _, session_id in told)
            marked.append(span)
        if not marked:
            return unread, _PLAIN_SIZE * len(unread)
        unwanted = trace in self._shelf.unwanted
        if not unwanted:
            session_ids.update(self._told_on_shelf(trace))
        if any(map(wants, session_ids)):
            return None, 0
        if not unwanted:
            if wants(trace_id) or (not session_ids and self._goldens.goldens):
                return None, 0  # without any session id it may still turn out to be anybody's
            self._shelf.unwanted[trace] = None
            if self._holds_agent(marked):
                self.engine.count_unmatched(next(iter(session_ids), trace_id))
        size = _PLAIN_SIZE * len(unread) + self._size(marked)
        unread += marked
        return unread, size

    def _told_on_shelf(self, trace: int) -> Iterator[tuple[str, None]]:
        for record in self._shelf.records(trace):
            if isinstance(record, LogFacts):
                for _, session_id in record.session_keys:
                    yield session_id, None

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
            name = _scope(span)
            if name in self._agents_scopes:
                return True
            facts = self._facts(span)
            if facts is not None and facts.role is not None:
                if len(self._agents_scopes) < _MAX_SCOPES:
                    self._agents_scopes.add(name)
                return True
        return False

    def _without_plain(self, trace_id: str, spans: list[ReadableSpan], now: float) -> list[ReadableSpan]:
        """Tell the engine of the places of plain spans below others, and return the spans that are to be read."""
        keys, bare_scopes = self._registry.markers
        plain: list[Unread] = []
        others: list[ReadableSpan] = []
        for span in spans:
            attributes, parent = attributes_of(span), span.parent
            local = parent is not None and not parent.is_remote and not is_entry(span.kind)
            if local and keys.isdisjoint(attributes) and (attributes or _scope(span) not in bare_scopes):
                plain.append(plain_span(span))
            else:
                others.append(span)
        self._feed_unread(trace_id, plain, now)
        return others

    def _promote(self, trace: int, trace_id: str, now: float) -> None:
        """Let the engine know a trace: what of it lies on the shelf, and whether there was more."""
        if (lost := self._shelf.was_forgotten(trace)) is not None:
            self._store.note_lost(trace_id, calls=lost)
        self._feed_unread(trace_id, self._shelf.take(trace), now)

    def _feed_unread(self, trace_id: str, records: Iterable[Unread], now: float) -> None:
        plain: dict[int, tuple[object, list[Undecoded]]] = {}
        for record in records:
            if isinstance(record, tuple):
                resource, context, *_ = record
                if context.span_id:
                    plain.setdefault(id(resource), (resource, []))[1].append(undecoded(record))
            elif isinstance(record, LogFacts):
                self.engine.feed_log(record, now)
            elif (facts := self._facts(record)) is not None:
                self.engine.feed(facts, now)
        for resource, places in plain.values():
            spans = PlainSpans({trace_id: places}, skeleton, self._views.resource(resource))
            for skeletons in self._registry.skeletons(spans):
                self.engine.feed_plain(skeletons, now)


def _scope(span: ReadableSpan) -> str:
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name
