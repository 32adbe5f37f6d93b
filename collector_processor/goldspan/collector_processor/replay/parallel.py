"""A replay in several processes, with the results of one process.

    1  read     each process reads byte ranges of files to facts, and writes these to a file of its own, by trace
    2  divide   traces that share a session id, or tell of each other, are a group; each process gets some groups
    3  score    each process scores its groups, fed in the order of the input by a clock that counts all spans

Between the processes go facts: of recognised spans their undecoded attributes, of other spans ids and times. They wait
on disk, so that memory is bounded as in one process, beside the ids of the traces that hold anything of agents.
"""

from __future__ import annotations

import gc
import heapq
import io
import multiprocessing
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.replay.replay import (
    QUIET_SPANS,
    Consumer,
    EngineFindings,
    RecordScoring,
    Replay,
    ReplayRecord,
    problems_of,
    read_records,
    run_result,
)
from goldspan.collector_processor.replay.trace_files import TraceFiles
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers import OnBytes, RangeReading
from goldspan.mappers.readers.file_ranges import RANGE_BYTES, FileRange
from goldspan.mappers.span_facts import LazySpanFacts, LogFacts, PlainSpanFacts
from goldspan.scoring.errors import GoldspanError, Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import Scorer

Progress = Callable[[], AbstractContextManager[OnBytes | None]]


def can_run_in_parallel() -> bool:
    """Return whether this system can start processes as a copy of this one."""
    return "fork" in multiprocessing.get_all_start_methods()


def replay_in_parallel(
    files: TraceFiles,
    goldens: GoldenIndex,
    registry: DialectRegistry,
    scorer: Scorer,
    *,
    jobs: int,
    progress: Progress,
    consumers: Sequence[Consumer] = (),
    quiet_spans: int = QUIET_SPANS,
    range_bytes: int = RANGE_BYTES,
) -> Replay:
    """Score recorded spans in so many processes, as `replay` does; problems are added to `files`.

    The registry must report to `files.problems`. Consumers are given each evaluation, in no particular order. The
    metrics of `Scorer.later` are not scored. Raises TraceFileError as `TraceFiles.spans`, GoldspanError if a process is
    killed.
    """
    with tempfile.TemporaryDirectory(prefix="goldspan-") as folder:
        ranges = files.ranges(range_bytes)
        work = _Work(files.problems, goldens, registry, scorer, quiet_spans, bool(consumers), Path(folder), ranges)
        try:
            readings = _read_all(work, jobs, progress)
            files.note_readings(ranges, [(one.problems, one.lines, one.nothing) for one in readings])
            work = replace(work, starts=_starts(readings), share_of=_shares(readings, jobs))
            shares = _score_all(work, jobs, consumers)
        except BrokenProcessPool:
            message = f"one of {jobs} processes was killed, perhaps for lack of memory; try fewer --jobs"
            raise GoldspanError(message) from None
    results = [result for share in shares for result in share.results]
    files.problems += problems_of([share.findings for share in shares], quiet_spans)
    return Replay(
        run_result(results, goldens, files.problems),
        sum(one.spans for one in readings),
        sum(one.recognised for one in readings),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """What every process knows. Processes are copies of the first one, so that none of it is ever sent."""

    problems: list[Problem]
    """Where the registry reports to; each process has its own."""
    goldens: GoldenIndex
    registry: DialectRegistry
    scorer: Scorer
    quiet_spans: int
    keeps_evaluations: bool
    folder: Path
    ranges: Sequence[FileRange]
    starts: Sequence[int] = ()
    """The number of spans before each range, and of all spans."""
    share_of: Mapping[str, int] = field(default_factory=dict[str, int])
    """Which share of the work each trace belongs to."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a process found in a range, beside the facts that it wrote to its file."""

    spans: int
    recognised: int
    traces: dict[str, tuple[int, frozenset[str]]]
    """The traces that hold more than plain spans: how many bytes of facts, and the sessions and traces they name."""
    problems: list[Problem]
    lines: int
    nothing: str


@dataclass(frozen=True, slots=True)
class _Share:
    """The results of one share of the work."""

    results: list[SessionResult]
    findings: EngineFindings


_work: _Work | None = None
"""The work of this process."""


def _start(work: _Work) -> None:
    global _work  # noqa: PLW0603 - a process has one piece of work, which it inherits
    _work = work
    gc.freeze()  # what it inherits is never garbage


def _processes(work: _Work, count: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(max(count, 1), mp_context=context, initializer=_start, initargs=(work,))


# 1: read.


def _read_all(work: _Work, jobs: int, progress: Progress) -> list[_Reading]:
    with _processes(work, min(jobs, len(work.ranges))) as pool:
        futures = [pool.submit(_read_range, number) for number in range(len(work.ranges))]
        with progress() as advance:  # after the processes were started: it has a thread
            readings: list[_Reading] = []
            for one, future in zip(work.ranges, futures, strict=True):
                readings.append(_result(future, futures))
                if advance is not None:
                    advance(one.size)
            return readings


def _result(future: Future[Any], others: Iterable[Future[Any]]) -> Any:
    try:
        return future.result()
    except BaseException:
        for other in others:
            other.cancel()
        raise


def _read_range(number: int) -> _Reading:
    work = cast("_Work", _work)
    work.problems.clear()
    reading = RangeReading(work.ranges[number], work.registry.markers, work.problems.append)
    content = work.scorer.reads_content(work.goldens.goldens)
    records: dict[str, list[tuple[int, int, ReplayRecord]]] = {}
    names: dict[str, set[str]] = {}
    spans = recognised = 0
    for position, (spans, record) in enumerate(read_records(reading.views(), work.registry, content=content)):
        if isinstance(record, PlainSpanFacts):
            trace_id = record.trace_id
        elif isinstance(record, LogFacts):
            trace_id = record.trace_id
            names.setdefault(trace_id, set()).update(f"session {value}" for _, value in record.session_keys)
        else:
            recognised += record.role is not None
            trace_id = record.trace_id if record.span_id else ""
            named = names.setdefault(trace_id, set())
            for _, value in (*record.session_keys, *record.resource.session_keys):
                named.add(f"session {value}")
            for note in record.notes:
                named.update((note.trace_id, *(f"session {value}" for _, value in note.session_keys)))
        records.setdefault(trace_id, []).append((position, spans, record))
    sizes = _write_facts(work, number, records)
    return _Reading(
        spans,
        recognised,
        {trace_id: (sizes[trace_id], frozenset(named)) for trace_id, named in names.items()},
        list(work.problems),
        reading.lines,
        reading.nothing(),
    )


def _write_facts(
    work: _Work, number: int, records: Mapping[str, list[tuple[int, int, ReplayRecord]]]
) -> dict[str, int]:
    """Write the records of each trace, and beside them where each trace starts; return the size of each."""
    known = {id(work.registry): "registry"}
    index: dict[str, tuple[int, int]] = {}
    at = 0
    with _facts_of(work, number).open("wb") as file:
        for trace_id, found in records.items():
            packed = _packed(found, known)
            file.write(packed)
            index[trace_id] = (at, len(packed))
            at += len(packed)
    _facts_of(work, number, ".index").write_bytes(pickle.dumps(index, pickle.HIGHEST_PROTOCOL))
    return {trace_id: size for trace_id, (_, size) in index.items()}


def _facts_of(work: _Work, number: int, suffix: str = "") -> Path:
    return work.folder / f"{number}{suffix}"


# 2: divide.


def _starts(readings: Sequence[_Reading]) -> list[int]:
    starts = [0]
    for one in readings:
        starts.append(starts[-1] + one.spans)
    return starts


def _shares(readings: Sequence[_Reading], jobs: int) -> dict[str, int]:
    """Divide the traces: those that name each other, or one session, have one share; shares are about equal in size."""
    leader: dict[str, str] = {}

    def leader_of(name: str) -> str:
        path: list[str] = []
        while (above := leader.setdefault(name, name)) != name:
            path.append(name)
            name = above
        for below in path:
            leader[below] = name
        return name

    sizes: dict[str, int] = {}
    for reading in readings:
        for trace_id, (size, named) in reading.traces.items():
            sizes[trace_id] = sizes.get(trace_id, 0) + size
            own = leader_of(trace_id)
            # A session may have the id of a trace: of one whose spans name none.
            for other in (*named, f"session {trace_id}"):
                leader[leader_of(other)] = own
    groups: dict[str, int] = {}
    for trace_id, size in sizes.items():
        group = leader_of(trace_id)
        groups[group] = groups.get(group, 0) + size
    shares = [(0, share) for share in range(jobs)]
    share_of: dict[str, int] = {}
    for group, size in sorted(groups.items(), key=lambda item: -item[1]):
        total, share = shares[0]
        heapq.heapreplace(shares, (total + size, share))
        share_of[group] = share
    return {trace_id: share_of[leader_of(trace_id)] for trace_id in sizes}


# 3: score.


def _score_all(work: _Work, jobs: int, consumers: Sequence[Consumer]) -> list[_Share]:
    """Score every share; the first in this process, which need not send its results to itself."""
    with _processes(work, jobs - 1) as pool:
        futures = [pool.submit(_score_share, share) for share in range(1, jobs)]
        shares = [_score(work, 0, consumers)]
        for share, future in enumerate(futures, start=1):
            shares.append(cast("_Share", _unpacked(_result(future, futures), _known(work))))
            if consumers:
                for evaluation in _evaluations(work, share):
                    for consumer in consumers:
                        consumer(evaluation)
    return shares


def _score_share(share: int) -> bytes:
    work = cast("_Work", _work)
    known = {id(value): key for key, value in _known(work).items()}
    if not work.keeps_evaluations:
        return _packed(_score(work, share, ()), known)
    with _facts_of(work, share, ".evaluations").open("wb") as file:

        def keep(evaluation: Evaluation) -> None:
            packed = _packed(evaluation, known)
            file.write(len(packed).to_bytes(8) + packed)

        return _packed(_score(work, share, (keep,)), known)


def _score(work: _Work, share: int, consumers: Sequence[Consumer]) -> _Share:
    scoring = RecordScoring(work.goldens, work.scorer, work.quiet_spans, consumers)
    for number, start in enumerate(work.starts[:-1]):
        for read, record in _facts(work, number, share):
            scoring.feed(record, start + read)
    scoring.advance(work.starts[-1])
    scoring.end()
    return _Share(list(scoring.results.values()), scoring.findings())


def _facts(work: _Work, number: int, share: int) -> Iterator[tuple[int, ReplayRecord]]:
    """Yield the records of a range that belong to a share, in the order of the range."""
    index: dict[str, tuple[int, int]] = pickle.loads(_facts_of(work, number, ".index").read_bytes())
    known = {"registry": work.registry}
    found: list[tuple[int, int, ReplayRecord]] = []
    with _facts_of(work, number).open("rb") as file:
        for trace_id, (at, size) in index.items():
            if work.share_of.get(trace_id) == share:
                file.seek(at)
                found += cast("list[tuple[int, int, ReplayRecord]]", _unpacked(file.read(size), known))
    found.sort(key=lambda record: record[0])
    for _, read, record in found:
        yield read, record


def _evaluations(work: _Work, share: int) -> Iterator[Evaluation]:
    known = _known(work)
    with _facts_of(work, share, ".evaluations").open("rb") as file:
        while size := file.read(8):
            yield cast("Evaluation", _unpacked(file.read(int.from_bytes(size)), known))


def _known(work: _Work) -> dict[str, Any]:
    """Return by name what every process has: it is sent by its name alone."""
    known: dict[str, Any] = {"registry": work.registry}
    for number, golden in enumerate(work.goldens.goldens):
        known[f"{number}"] = golden
        known |= {f"{number}.{call}": one for call, one in enumerate(golden.all_calls())}
    return known


# Values between processes. Both ends are the same program in the same run.


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, known: Mapping[int, str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._known = known

    def persistent_id(self, obj: Any) -> str | None:
        return self._known.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        """Leave what was not read of a span unread."""
        if type(obj) is LazySpanFacts and not obj.is_read:
            return LazySpanFacts.unread, (obj.eager_fields(), obj.content)
        return NotImplemented


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_load(self, pid: str) -> Any:
        return self._known[pid]


def _packed(value: object, known: Mapping[int, str]) -> bytes:
    file = io.BytesIO()
    _Packer(file, known).dump(value)
    return file.getvalue()


def _unpacked(packed: bytes, known: Mapping[str, Any]) -> object:
    return _Unpacker(io.BytesIO(packed), known).load()
