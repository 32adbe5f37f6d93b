"""What runs in Spark's Python workers: each function takes the Arrow batches of a partition and yields others.

    read_traces      rows of traces           -> chunks of records, with the key of their trace
    assemble_traces  chunks, sorted by key    -> parts of sessions, with the key of their session
    score_sessions   parts, sorted by key     -> rows of the table of results

A stream calls them anew with all that came so far of a trace or session, and says what it no longer has.

Spark sorts a partition on disk if need be. A worker holds one batch of rows and one trace or session, of which it keeps
no more than `max_spans`. So neither a large partition nor a giant session takes its memory.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import Any

from goldspan.collector_processor.engine.result_table import ResultRow, arrow_batch, result_rows
from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.engine.trace_machine import SessionPart
from goldspan.collector_processor.spark.work_by_key import (
    BoundedSession,
    BoundedTrace,
    TraceChunk,
    TraceChunks,
)
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.readers.files import read_payload
from goldspan.mappers.readers.span_tables import SpanTableReader
from goldspan.mappers.spans import MarkedView, Markers
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.json_values import plain

Batches = Iterable[Any]
"""`pyarrow.RecordBatch`es."""

KEYED_COLUMNS = "key binary not null, position bigint not null, data binary not null"
"""Rows between the stages, as Spark's DDL: a digest of an id, the place in the order, chunks and parts as bytes."""
PART_COLUMNS = f"{KEYED_COLUMNS}, trace binary not null, session binary"
"""Parts: also the key of the trace, and the session id as bytes unless the part is empty."""
PROBLEM_COLUMNS = "code string not null, message string not null, count bigint not null"
"""Rows of `read_problems`."""
_ROWS = 5_000
_BYTES = 8 << 20
"""An output batch ends at whichever comes first."""
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
        """Count a problem; `read_problems` gives them."""
        self.problems[problem.code, problem.message] += 1


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
