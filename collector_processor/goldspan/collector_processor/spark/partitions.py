"""What runs in Spark's Python workers: each function takes the Arrow batches of a partition and yields others.

    read_traces      rows of traces           -> chunks of records, with the key of their trace     TraceChunks
    assemble_traces  chunks, sorted by key    -> parts of sessions, with the key of their session   BoundedTrace
    score_sessions   parts, sorted by key     -> rows of the table of results                       BoundedSession

A stream calls them anew with all that came so far of a trace or session, and says what it no longer has. All records
of a trace meet in the second, since the session of a turn may be named anywhere in its trace (R6), and all parts of a
session in the third. Chunks and parts may come in any order and more than once, and what goes on pickles. At the end
of input the results are those of one engine that read everything.

Spark sorts a partition on disk if need be. A worker holds one batch of rows and one trace or session, of which it keeps
no more than `max_spans`. So neither a large partition nor a giant session takes its memory.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.engine.result_table import ResultRow, arrow_batch, result_rows
from goldspan.collector_processor.engine.session_scorer import OutputBuilder, SessionScorer, SessionState
from goldspan.collector_processor.engine.trace_machine import EngineSettings, EngineStats, SessionPart, TraceRecords
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.assembly.trace_reading import without_ids
from goldspan.mappers.assembly.trace_tree import TraceTree
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.readers.files import read_payload
from goldspan.mappers.readers.problems import MAX_LISTED
from goldspan.mappers.readers.span_tables import SpanTableReader
from goldspan.mappers.span_facts import NO_CONTEXT, LogFacts, PlainSpanFacts, Record, SpanFacts
from goldspan.mappers.spans import LogView, MarkedView, Markers, PlainSpans
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.json_values import plain
from goldspan.scoring.results import SessionResult

MAX_SPANS = 100_000
"""Records of one trace, and spans of one session, that are kept; beyond it results are `incomplete`."""
_CHUNK = 1_000  # records of a chunk at most
_WAITING = 20_000  # records that wait for others of their trace


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
                if record.lost:
                    continue  # its session may be in any partition
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


Batches = Iterable[Any]
"""`pyarrow.RecordBatch`es."""

KEYED_COLUMNS = "key binary not null, position bigint not null, data binary not null"
"""Rows between the stages, as Spark's DDL: a digest of an id, the place in the order, chunks and parts as bytes."""
PART_COLUMNS = f"{KEYED_COLUMNS}, trace binary not null, session binary"
"""Parts: also the key of the trace, and the session id as bytes unless the part is empty."""
PROBLEM_COLUMNS = "code string not null, message string not null, count bigint not null"
"""Rows of `read_problems`."""
_ROWS = 5_000
_BYTES = 8 << 20  # an output batch ends at whichever comes first
_PARTITION_BITS = 33
_LATEST = 2**63 - 1
REMOVED = "removed"
"""The level of the one row of a session that has no results, or none any more."""
_REMOVED = ResultRow._make(
    {"level": REMOVED, "metric": "", "incomplete": False}.get(name) for name in ResultRow._fields
)


@dataclass(frozen=True)
class ScoringJob:
    """How to score: the same for all workers."""

    goldens: GoldenIndex
    settings: EngineSettings
    max_spans: int
    columns: tuple[str, ...] = ()
    """The columns of a table of spans; without any, the one column is of OTLP."""
    problems: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]], compare=False)

    @cached_property
    def registry(self) -> DialectRegistry:
        """Reads spans by the dialects that the worker has installed."""
        join_attributes = (*JOIN_ATTRIBUTES, *self.goldens.join_attributes)
        return DialectRegistry(join_attributes=join_attributes, definitions=True, on_problem=self.note)

    @cached_property
    def span_table(self) -> SpanTableReader | None:
        """Reads the rows of a table of spans."""
        return SpanTableReader(self.columns, self.note) if self.columns else None

    @cached_property
    def content(self) -> bool:
        """Whether scoring reads messages and results."""
        return self.settings.scorer.reads_content(self.goldens.goldens)

    def note(self, problem: Problem) -> None:
        """Count a problem; `read_problems` gives them. Of many different ones the later are counted by code alone."""
        key = problem.code, problem.message
        if len(self.problems) >= MAX_LISTED and key not in self.problems:
            key = problem.code, "others of this kind, which are not listed"
        self.problems[key] += 1


@lru_cache(maxsize=4)
def job_in(pickled: bytes) -> ScoringJob:
    """Return the job in these bytes: read once in a process, which goes on to the next task."""
    job: ScoringJob = pickle.loads(pickled)
    return job


def read_traces(batches: Batches, job: ScoringJob, partition: int) -> Iterator[Any]:
    """Read rows of traces into chunks of records."""
    chunks = TraceChunks(job.registry, content=job.content, first=partition << _PARTITION_BITS)

    def read() -> Iterator[TraceChunk]:
        for batch in batches:
            yield from chunks.read(_views(batch, job, job.registry.markers))
        yield from chunks.rest()

    yield from _keyed((chunk.trace_id, chunk.order, chunk) for chunk in read())


def assemble_traces(batches: Batches, job: ScoringJob) -> Iterator[Any]:
    """Assemble each trace from all of its chunks into parts of sessions.

    In a stream, the ids of sessions that it had parts of are among the chunks: a session of which the trace holds
    nothing any more gets an empty part.
    """

    def parts() -> Iterator[tuple[str, int, SessionPart, bytes, bytes | None]]:
        for group in _groups(batches):
            had: dict[str, None] = {}
            trace: BoundedTrace | None = None
            for one in group:
                if isinstance(one, str):
                    had[one] = None
                else:
                    trace = trace or BoundedTrace(one.trace_id, job.max_spans)
                    trace.add(one)
            if trace is None:
                continue
            key = _key(trace.trace_id)
            for part in trace.parts(job.settings.assembly):
                had.pop(part.session_id, None)
                yield part.session_id, part.start, part, key, pickle.dumps(part.session_id)
            for session_id in had:
                yield session_id, 0, SessionPart(session_id, trace.trace_id, ()), key, None

    yield from _keyed(parts(), ("trace", "session"))


def score_sessions(batches: Batches, job: ScoringJob) -> Iterator[Any]:
    """Score each session; yield the rows of the table of results. A session without results has a row that says so."""
    rows: list[ResultRow] = []
    for parts in _groups(batches):
        session: BoundedSession | None = None
        for part in parts:
            session = session or BoundedSession(part.session_id, job.max_spans)
            session.add(part)
        if session is None:
            continue
        found = [row for result in session.results(job.goldens, job.settings) for row in result_rows(result)]
        rows += found or [_REMOVED._replace(session=plain(session.session_id))]
        if len(rows) >= _ROWS:
            yield arrow_batch(rows)
            rows = []
    if rows:
        yield arrow_batch(rows)


def problems_of(batches: Batches, job: ScoringJob) -> Iterator[Any]:
    """Read rows of traces; yield what was wrong with them."""
    pa = import_module("pyarrow")

    job.problems.clear()
    chunks = TraceChunks(job.registry, content=True)
    for batch in batches:
        for _ in chunks.read(_views(batch, job, job.registry.markers)):
            pass
    rows = [{"code": code, "message": message, "count": count} for (code, message), count in job.problems.items()]
    schema = pa.schema([("code", pa.string()), ("message", pa.string()), ("count", pa.int64())])
    yield pa.RecordBatch.from_pylist(rows, schema)


def _views(batch: Any, job: ScoringJob, markers: Markers | None) -> Iterator[MarkedView]:
    if job.span_table is not None:
        yield from job.span_table.batch(batch)
        return
    for value in batch.column(0):
        payload = value.as_py()
        if payload is not None:
            data = payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass")
            yield from read_payload(data, "row", markers, job.note)


def _groups(batches: Batches) -> Iterator[Iterator[Any]]:
    """Yield what is in the rows of each key; the rows are sorted by key."""
    rows = (
        (key.as_py(), data)
        for batch in batches
        for key, data in zip(batch.column("key"), batch.column("data"), strict=True)
    )
    for _, group in groupby(rows, key=itemgetter(0)):
        yield (pickle.loads(data.as_py()) for _, data in group)


def _key(of: str) -> bytes:
    return blake2b(of.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _keyed(values: Iterable[tuple[Any, ...]], more: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield rows of values, each with an id to group by and a place in the order; `more` names columns of bytes."""
    pa = import_module("pyarrow")

    names = ("key", "position", "data", *more)
    kinds = (pa.binary(), pa.int64(), *[pa.binary()] * (len(names) - 2))
    rows: list[tuple[Any, ...]] = []
    size = 0

    def batch() -> Any:
        columns = zip(*rows, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(one, kind) for one, kind in zip(columns, kinds, strict=True)], names
        )

    for of, position, value, *others in values:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        rows.append((_key(of), min(position, _LATEST), data, *others))
        size += len(data)
        if len(rows) >= _ROWS or size >= _BYTES:
            yield batch()
            rows.clear()
            size = 0
    if rows:
        yield batch()
