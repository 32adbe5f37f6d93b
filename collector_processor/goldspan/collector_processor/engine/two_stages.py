"""The engine in two stages, for processes that share the work by key: first by trace id, then by session id.

    reading     TraceChunks    records of one trace, a bounded number a chunk
    stage 1     TraceRecords   every chunk of a trace -> SessionPart, one for each session that the trace holds
    stage 2     SessionParts   every part of a session -> its results

All records of a trace meet in stage 1, since the session of a turn may be named anywhere in its trace (R6). All parts
of a session meet in stage 2. Chunks and parts may come in any order and more than once. At the end of input the
results are those of one engine that read everything. What goes from stage to stage pickles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.engine.session_scorer import OutputBuilder, SessionScorer
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import MemoryStore, SessionState, TraceState
from goldspan.mappers.assembly import AssemblySettings, Fragment, read_trace
from goldspan.mappers.assembly.trace_reading import newer_version, without_ids
from goldspan.mappers.assembly.trace_tree import TraceTree
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import NO_CONTEXT, LogFacts, PlainSpanFacts, SpanFacts
from goldspan.mappers.spans import LogView, MarkedView, PlainSpans
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.results import SessionResult

MAX_SPANS = 100_000
"""Records of one trace, and spans of one session, that are kept; beyond it results are `incomplete`."""
_CHUNK = 1_000
"""Records of a chunk at most."""
_WAITING = 20_000
"""Records that wait for others of their trace."""


class TraceChunk(Struct, frozen=True, gc=False):
    """Some records of one trace, as they were read. The trace `""` holds the spans without ids."""

    trace_id: str
    order: int
    """Orders the spans without ids."""
    spans: tuple[SpanFacts, ...] = ()
    logs: tuple[LogFacts, ...] = ()
    plain: tuple[PlainSpanFacts, ...] = ()

    def __len__(self) -> int:
        return len(self.spans) + len(self.logs) + sum(map(len, self.plain))


class SessionPart(Struct, frozen=True, gc=False):
    """What one trace holds of one session."""

    session_id: str
    trace_id: str
    fragments: tuple[Fragment, ...]
    incomplete: bool = False
    """Records of the trace were left out."""

    def __len__(self) -> int:
        return sum(len(fragment.spans) for fragment in self.fragments)

    @property
    def start(self) -> int:
        """When the first of the fragments began, nanoseconds since the epoch."""
        return min(fragment.start for fragment in self.fragments)


class TraceChunks:
    """Reads records into chunks: those of one trace that come soon after one another are in one chunk."""

    def __init__(self, registry: DialectRegistry, *, content: bool, first: int = 0) -> None:
        """Start with the number `first`; without `content`, leave messages and results out."""
        self._registry = registry
        self._content = content
        self._next = first
        self._traces: dict[str, tuple[list[SpanFacts], list[LogFacts], list[PlainSpanFacts]]] = {}
        self._waiting = 0

    def read(self, views: Iterable[MarkedView]) -> Iterator[TraceChunk]:
        """Read records; yield the chunks that became full."""
        for view in views:
            if isinstance(view, LogView):
                log = self._registry.read_log(view, content=self._content)
                if log is not None:
                    yield from self._add_log(log)
            elif isinstance(view, PlainSpans):
                for plain in self._registry.skeletons(view):
                    yield from self._add_plain(plain)
            else:
                fact = self._registry.read(view, content=self._content)
                named = fact if fact.trace_id and fact.span_id else without_ids(fact, 0)
                for note in named.notes:
                    yield from self._add_log(note)
                yield from self._added(named.trace_id, 1, span=named)

    def rest(self) -> Iterator[TraceChunk]:
        """Yield the chunks that are not full."""
        for trace_id in list(self._traces):
            yield self._taken(trace_id)

    def _add_log(self, log: LogFacts) -> Iterator[TraceChunk]:
        if log.trace_id:  # else it can be joined to nothing
            yield from self._added(log.trace_id, 1, log=log)

    def _add_plain(self, plain: PlainSpanFacts) -> Iterator[TraceChunk]:
        outlines = list(plain.read())
        for start in range(0, len(outlines), _CHUNK):
            some = outlines[start : start + _CHUNK]
            yield from self._added(
                plain.trace_id, len(some), plain=PlainSpanFacts(plain.trace_id, some, tuple, plain.resource)
            )

    def _added(
        self,
        trace_id: str,
        count: int,
        *,
        span: SpanFacts | None = None,
        log: LogFacts | None = None,
        plain: PlainSpanFacts | None = None,
    ) -> Iterator[TraceChunk]:
        known = self._traces.get(trace_id)
        if known is None:
            known = self._traces[trace_id] = ([], [], [])
        spans, logs, plains = known
        if span is not None:
            spans.append(span)
        if log is not None:
            logs.append(log)
        if plain is not None:
            plains.append(plain)
        self._waiting += count
        if len(spans) + len(logs) >= _CHUNK or (plain is not None and sum(map(len, plains)) >= _CHUNK):
            yield self._taken(trace_id)
        elif self._waiting >= _WAITING:
            yield from self.rest()

    def _taken(self, trace_id: str) -> TraceChunk:
        spans, logs, plains = self._traces.pop(trace_id)
        chunk = TraceChunk(trace_id, self._next, tuple(spans), tuple(logs), tuple(plains))
        self._next += 1
        self._waiting -= len(chunk)
        return chunk


class TraceRecords:
    """Stage 1: the records of one trace, one version of each, and a bounded number of them."""

    def __init__(self, trace_id: str, most: int = MAX_SPANS) -> None:
        """Keep at most so many records."""
        self.trace_id = trace_id
        self._most = most
        self._spans: dict[str, SpanFacts] = {}
        self._logs: dict[str, LogFacts] = {}
        self._plain: list[PlainSpanFacts] = []
        self._plain_count = 0
        self._lost = False

    def add(self, chunk: TraceChunk) -> None:
        """Add a chunk. Those of the trace `""` must come in their order."""
        for span in chunk.spans:
            named = span if self.trace_id else without_ids(span, len(self._spans))
            old = self._spans.get(named.span_id)
            if old is not None or self._has_room():
                self._spans[named.span_id] = newer_version(old, named)
        for log in chunk.logs:
            if log.identity not in self._logs and self._has_room():
                self._logs[log.identity] = log
        for plain in chunk.plain:
            if self._has_room():
                self._plain.append(plain)
                self._plain_count += len(plain)

    def parts(self, settings: AssemblySettings) -> tuple[list[SessionPart], list[Problem]]:
        """Assemble the trace; return what it holds of each session, and what is wrong with it."""
        if not self._spans and not self._logs:
            return [], []
        fragments, problems = read_trace(self._spans, settings, self._logs.values(), self._plain)
        by_session: dict[str, list[Fragment]] = {}
        for fragment in fragments:
            by_session.setdefault(fragment.session.id, []).append(fragment)
        return [
            SessionPart(session_id, self.trace_id, _without_other_spans(some), self._lost)
            for session_id, some in by_session.items()
        ], problems

    def _has_room(self) -> bool:
        room = len(self._spans) + len(self._logs) + self._plain_count < self._most
        self._lost = self._lost or not room
        return room


def _without_other_spans(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """Return fragments of one trace with a tree of their own spans and what is above these.

    A trace may hold any number of sessions, and a session needs no span of another one.
    """
    owned = [
        (fragment.tree, span)
        for fragment in fragments
        for span in (*fragment.spans, fragment.root_span)
        if span is not None
    ]
    kept = {span.span_id: span for _, span in owned}
    for tree, span in owned:
        for above in tree.ancestors(span.span_id):
            if above.span_id in kept:
                break
            kept[above.span_id] = above if above.context is NO_CONTEXT else above.changed(context=NO_CONTEXT)
    part = TraceTree(kept)
    return tuple(replace(fragment, tree=part) for fragment in fragments)


class SessionParts:
    """Stage 2: the parts of one session, the last that came of each trace, and a bounded number of spans."""

    def __init__(self, session_id: str, most: int = MAX_SPANS) -> None:
        """Keep at most so many spans."""
        self.session_id = session_id
        self._most = most
        self._parts: dict[str, SessionPart] = {}
        self._spans = 0
        self._lost = False

    def add(self, part: SessionPart) -> None:
        """Add what one trace holds of the session. An empty part: the trace holds nothing of it any more."""
        old = self._parts.get(part.trace_id)
        if not part.fragments:
            self._parts.pop(part.trace_id, None)
            self._spans -= 0 if old is None else len(old)
            return
        change = len(part) - (0 if old is None else len(old))
        if self._spans + change > self._most:
            self._lost = True
        else:
            self._parts[part.trace_id] = part
            self._spans += change

    def results(self, goldens: GoldenIndex, settings: EngineSettings) -> list[SessionResult]:
        """Return the results of the session's runs, each judged as complete."""
        store = MemoryStore()
        state = SessionState(self.session_id, 0.0)
        store.add_session(state)
        for trace_id, part in self._parts.items():
            trace = TraceState(trace_id, 0.0, lost_text=part.incomplete)
            trace.set_ready(list(part.fragments))
            store.add_trace(trace)
            state.traces[trace_id] = None
        output = OutputBuilder()
        judge = SessionScorer(goldens, settings, EngineStats(), store)
        judge.judge(self.session_id, output, complete=True, incomplete=self._lost)
        return output.sessions
