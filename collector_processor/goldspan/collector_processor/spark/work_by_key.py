"""The engine in two stages, for processes that share the work by key: first by trace id, then by session id.

    reading     TraceChunks       records of one trace, a bounded number a chunk
    stage 1     BoundedTrace      every chunk of a trace -> SessionPart, one for each session that the trace holds
    stage 2     BoundedSession    every part of a session -> its results

All records of a trace meet in stage 1, since the session of a turn may be named anywhere in its trace (R6). All parts
of a session meet in stage 2. Chunks and parts may come in any order and more than once. At the end of input the
results are those of one engine that read everything. What goes from stage to stage pickles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.engine.session_scorer import OutputBuilder, SessionScorer, SessionState
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.trace_machine import SessionPart, TraceRecords
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.assembly.trace_reading import without_ids
from goldspan.mappers.assembly.trace_tree import TraceTree
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import NO_CONTEXT, LogFacts, PlainSpanFacts, Record, SpanFacts
from goldspan.mappers.spans import LogView, MarkedView, PlainSpans
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
    records: tuple[Record | PlainSpanFacts, ...] = ()


class TraceChunks:
    """Reads records into chunks: those of one trace that come soon after one another are in one chunk."""

    def __init__(self, registry: DialectRegistry, *, content: bool, first: int = 0) -> None:
        """Start with the number `first`; without `content`, leave messages and results out."""
        self._registry = registry
        self._content = content
        self._next = first
        self._traces: dict[str, tuple[list[Record | PlainSpanFacts], int]] = {}
        """The records of each trace that wait, and how many they are."""
        self._waiting = 0

    def read(self, views: Iterable[MarkedView]) -> Iterator[TraceChunk]:
        """Read records; yield the chunks that became full."""
        for view in views:
            if isinstance(view, LogView):
                log = self._registry.read_log(view, content=self._content)
                if log is not None:
                    yield from self._add(log)
            elif isinstance(view, PlainSpans):
                for plain in self._registry.skeletons(view):
                    outlines = list(plain.read())
                    for start in range(0, len(outlines), _CHUNK):
                        some = outlines[start : start + _CHUNK]
                        yield from self._add(PlainSpanFacts(plain.trace_id, some, tuple, plain.resource))
            else:
                fact = self._registry.read(view, content=self._content)
                named = fact if fact.trace_id and fact.span_id else without_ids(fact, 0)
                for note in named.notes:
                    yield from self._add(note)
                yield from self._add(named)

    def rest(self) -> Iterator[TraceChunk]:
        """Yield the chunks that are not full."""
        for trace_id in list(self._traces):
            yield self._chunk(trace_id)

    def _add(self, record: Record | PlainSpanFacts) -> Iterator[TraceChunk]:
        if isinstance(record, LogFacts) and not record.trace_id:
            return  # it can be joined to nothing
        records, size = self._traces.get(record.trace_id, ([], 0))
        more = len(record) if isinstance(record, PlainSpanFacts) else 1
        records.append(record)
        self._traces[record.trace_id] = records, size + more
        self._waiting += more
        if size + more >= _CHUNK:
            yield self._chunk(record.trace_id)
        elif self._waiting >= _WAITING:
            yield from self.rest()

    def _chunk(self, trace_id: str) -> TraceChunk:
        records, size = self._traces.pop(trace_id)
        chunk = TraceChunk(trace_id, self._next, tuple(records))
        self._next += 1
        self._waiting -= size
        return chunk


class BoundedTrace:
    """Stage 1: the records of one trace, one version of each, and a bounded number of them."""

    def __init__(self, trace_id: str, most: int = MAX_SPANS) -> None:
        """Keep at most so many records."""
        self.trace_id = trace_id
        self._trace = TraceRecords(trace_id)
        self._most = most

    def add(self, chunk: TraceChunk) -> None:
        """Add a chunk. Those of the trace `""` must come in their order."""
        trace = self._trace
        for record in chunk.records:
            named = record
            if isinstance(record, SpanFacts) and not trace.trace_id:
                named = without_ids(record, len(trace.spans))
            if trace.has_room(named, self._most):
                trace.add(named)
            else:
                trace.lost = True

    def parts(self, settings: AssemblySettings) -> list[SessionPart]:
        """Assemble the trace; return what it holds of each session."""
        trace = self._trace
        if not trace.spans and not trace.logs:
            return []
        by_session: dict[str, list[Fragment]] = {}
        for fragment in trace.reading.fragments(settings.session_keys, lambda _: None):
            by_session.setdefault(fragment.session.id, []).append(fragment)
        return [
            SessionPart(session_id, trace.trace_id, _without_other_spans(some), bool(trace.lost))
            for session_id, some in by_session.items()
        ]


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


class BoundedSession:
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
        """Return the results of the session's runs, each scored as complete."""
        state = SessionState(self.session_id, 0.0, traces=dict.fromkeys(self._parts))
        output = OutputBuilder()
        scorer = SessionScorer(goldens, settings, EngineStats())
        scorer.score(state, self._parts.get, output, complete=True, incomplete=self._lost)
        return output.sessions
