"""A replay in several processes, with the results of one process.

    1  read     each process reads byte ranges of files to facts, and writes these to a file of its own, by trace
    2  divide   traces that share a session id, or tell of each other, are a group; each process gets some groups
    3  score    each process scores its groups, fed in the order of the input by a clock that counts all spans

Between the processes go facts: of recognised spans the encoded span and what its outline says, of other spans ids and
times. They wait on disk, so that memory is bounded as in one process, beside the ids of the traces that hold anything
of agents. The rest of the traces is never read again.
"""

from __future__ import annotations

import gc
import heapq
import io
import multiprocessing
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from goldspan.collector_processor.emit.evaluation import Evaluation, Events
from goldspan.collector_processor.engine.trace_machine import EngineStats
from goldspan.collector_processor.replay import replay
from goldspan.collector_processor.replay.trace_files import TraceFiles
from goldspan.mappers.dialect_registry import DialectRegistry, UnreadSpan
from goldspan.mappers.dialects.reading.protocol import Stack
from goldspan.mappers.readers.compression import OnBytes
from goldspan.mappers.readers.file_ranges import RANGE_BYTES, FileRange
from goldspan.mappers.readers.files import RangeReading
from goldspan.mappers.readers.problems import ProblemList
from goldspan.mappers.span_facts import LazySpanFacts, LogFacts, PlainSpanFacts, SpanFacts
from goldspan.mappers.spans import EncodedSpan, LogView, PlainSpans, ResourceView, UndecodedSpan
from goldspan.scoring.errors import GoldspanError, Problem
from goldspan.scoring.goldens import ExpectedCall, Golden, GoldenIndex
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
    consumers: Sequence[replay.Consumer] = (),
    quiet_spans: int = replay.QUIET_SPANS,
    range_bytes: int = RANGE_BYTES,
    events: Events = Events.FINDINGS,
) -> replay.Replay:
    """Score recorded spans in so many processes, as `replay` does; problems are added to `files`.

    The registry must report to `files.problems`. Consumers are given each evaluation, in no particular order. The
    metrics of `Scorer.later` are not scored. Raises TraceFileError as `TraceFiles.spans`, GoldspanError if a process is
    killed.
    """
    with tempfile.TemporaryDirectory(prefix="goldspan-") as folder:
        ranges = files.ranges(range_bytes)
        kept = bool(consumers)
        work = _Work(files.problems, goldens, registry, scorer, quiet_spans, kept, events, Path(folder), ranges)
        try:
            readings = _read_all(work, jobs, progress)
            files.note_readings(ranges, [(one.problems, one.lines, one.nothing) for one in readings])
            starts = list(accumulate((one.spans for one in readings), initial=0))
            work = replace(work, starts=starts, share_of=_shares(readings, jobs))
            shares = _score_all(work, jobs, consumers)
        except BrokenProcessPool:
            message = f"one of {jobs} processes was killed, perhaps for lack of memory; try fewer --jobs"
            raise GoldspanError(message) from None
    results = [result for share in shares for result in share.results]
    found = [problem for share in shares for problem in share.problems]
    for problem in replay.problems_of(found, [share.stats for share in shares], quiet_spans):
        files.problems.append(problem)
    return replay.Replay(
        replay.run_result(results, goldens, files.problems),
        sum(one.spans for one in readings),
        sum(one.recognised for one in readings) or len(results),
        frozenset[tuple[str, Stack]]().union(*(one.stacks for one in readings)),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """What every process knows. Processes are copies of the first one, so that none of it is ever sent."""

    problems: ProblemList  # where the registry reports to; each process has its own
    goldens: GoldenIndex
    registry: DialectRegistry
    scorer: Scorer
    quiet_spans: int
    keeps_evaluations: bool
    events: Events
    folder: Path
    ranges: Sequence[FileRange]
    starts: Sequence[int] = ()  # the number of spans before each range, and of all spans
    share_of: Mapping[str, int] = field(default_factory=dict[str, int])  # which share of the work each trace belongs to


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a process found in a range, beside the facts that it wrote to its file."""

    spans: int
    recognised: int
    traces: dict[str, tuple[int, frozenset[str]]]
    """The traces that hold more than plain spans: how many bytes of facts, and the sessions and traces they name."""
    problems: ProblemList
    lines: int
    nothing: str
    stacks: frozenset[tuple[str, Stack]]


@dataclass(frozen=True, slots=True)
class _Share:
    """The results of one share of the work."""

    results: list[SessionResult]
    problems: list[Problem]
    stats: EngineStats


class _Process:
    """The work of this process, and the goldens and calls that it shares with others, by number."""

    work: _Work
    shared: Sequence[Golden | ExpectedCall]
    names: Mapping[int, int]


_process = _Process()


def _take_up(work: _Work) -> None:
    _process.work = work
    goldens = work.goldens.goldens
    _process.shared = [*goldens, *(call for golden in goldens for call in golden.all_calls())]
    _process.names = {id(one): number for number, one in enumerate(_process.shared)}


def _start(work: _Work) -> None:
    gc.freeze()  # what it inherits is never garbage
    _take_up(work)


def _processes(work: _Work, count: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(max(count, 1), mp_context=context, initializer=_start, initargs=(work,))


# 1: read.


def _read_all(work: _Work, jobs: int, progress: Progress) -> list[_Reading]:
    with _processes(work, min(jobs, len(work.ranges))) as pool:
        found = pool.map(_read_range, range(len(work.ranges)))
        with progress() as advance:  # after the processes were started: it has a thread
            readings: list[_Reading] = []
            for one, reading in zip(work.ranges, found, strict=True):
                readings.append(reading)
                if advance is not None:
                    advance(one.size)
            return readings


def _read_range(number: int) -> _Reading:
    return _RangeFacts(_process.work, number).read()


_Fact = tuple[int, int, SpanFacts | LogFacts]
"""The position of a record in its range, the number of spans read until then, and the record."""
_Plain = tuple[int, int, int, Sequence[UndecodedSpan]]
"""The same for plain spans of one trace, with the number of their source."""
_Source = tuple[Callable[..., Any], ResourceView]  # what reads the spans of a source, and its resource


_KEPT = (
    *("span_id", "parent_id", "start", "end", "version", "role", "session_keys", "turn_id", "run_id", "no_turn"),
    "entry",
)
"""What the outline of a span says."""
_kept: Callable[[SpanFacts], tuple[Any, ...]] = attrgetter(*_KEPT)
_Unread = tuple[int, int, int, str, bytes, tuple[Any, ...]]
"""The same for a recognised span whose content was not read, with its scope, its bytes and its outline."""


@dataclass(slots=True)
class _RangeTrace:
    """The records of one trace in a range."""

    plain: list[_Plain] = field(default_factory=list[_Plain])
    unread: list[_Unread] = field(default_factory=list[_Unread])
    facts: list[_Fact] = field(default_factory=list[_Fact])
    named: set[str] = field(default_factory=set[str])  # the sessions and other traces that they name


class _RangeFacts:
    """Reads a range to facts, and writes them by trace."""

    def __init__(self, work: _Work, number: int) -> None:
        self._work = work
        self._number = number
        self._traces: dict[str, _RangeTrace] = {}
        self._sources: list[_Source] = []
        self._source_numbers: dict[tuple[Callable[..., Any], int], int] = {}  # by identity of the resource

    def read(self) -> _Reading:
        work = self._work
        work.problems.clear()
        registry, traces = work.registry, self._traces
        reading = RangeReading(work.ranges[self._number], registry.markers, work.problems.append)
        content = work.scorer.reads_content(work.goldens.goldens)
        spans = recognised = 0
        for position, view in enumerate(reading.views()):
            if isinstance(view, PlainSpans):
                spans += len(view)
                source = self._source(view.skeleton, view.resource)
                for trace_id, undecoded in view.by_trace.items():
                    records = traces.get(trace_id)
                    if records is None:
                        records = traces[trace_id] = _RangeTrace()
                    records.plain.append((position, spans, source, undecoded))
            elif isinstance(view, LogView):
                if (log := registry.read_log(view, content=content)) is not None:
                    self._add(log.trace_id, position, spans, log)
            else:
                spans += 1
                fact = registry.read(view, content=content)
                recognised += fact.role is not None
                self._add(fact.trace_id if fact.span_id else "", position, spans, fact)
        sizes = self._write()
        found = {
            trace_id: (sizes[trace_id], frozenset(records.named))
            for trace_id, records in traces.items()
            if records.unread or records.facts
        }
        return _Reading(
            spans, recognised, found, work.problems.copy(), reading.lines, reading.nothing(), registry.stacks()
        )

    def _add(self, trace_id: str, position: int, read: int, fact: SpanFacts | LogFacts) -> None:
        records = self._traces.get(trace_id)
        if records is None:
            records = self._traces[trace_id] = _RangeTrace()
        for _, value in fact.session_keys:
            records.named.add(_session(value))
        if isinstance(fact, LogFacts):
            records.facts.append((position, read, fact))
            return
        for _, value in fact.resource.session_keys:
            records.named.add(_session(value))
        for note in fact.notes:
            records.named.update((note.trace_id, *(_session(value) for _, value in note.session_keys)))
        unread = self._unread(position, read, fact)
        if unread is None:
            records.facts.append((position, read, fact))
        else:
            records.unread.append(unread)

    def _unread(self, position: int, read: int, fact: SpanFacts) -> _Unread | None:
        """Return the facts of a span with its content as it came, unless there is more to them."""
        if not isinstance(fact, LazySpanFacts) or not isinstance(fact.content, UnreadSpan):
            return None
        if fact.notes or fact.join_attributes is not None or fact.turn_number is not None:
            return None
        span = fact.content.span
        return position, read, self._source(span.decode, span.resource), span.scope_name, span.encoded, _kept(fact)

    def _source(self, reader: Callable[..., Any], resource: ResourceView) -> int:
        key = (reader, id(resource))
        number = self._source_numbers.get(key)
        if number is None:
            number = self._source_numbers[key] = len(self._sources)
            self._sources.append((reader, resource))
        return number

    def _write(self) -> dict[str, int]:
        """Write the records of each trace, and beside them where each trace starts; return the size of each."""
        index: _Index = {}
        with _file(self._work, self._number).open("wb") as file:
            at = 0
            for trace_id, records in self._traces.items():
                encoded = pickle.dumps((records.plain, records.unread, records.facts), pickle.HIGHEST_PROTOCOL)
                index[trace_id] = (at, len(encoded))
                at += file.write(encoded)
        _file(self._work, self._number, ".index").write_bytes(pickle.dumps((self._sources, index)))
        return {trace_id: size for trace_id, (_, size) in index.items()}


_Index = dict[str, tuple[int, int]]
"""Where the records of each trace start in the file of a range, and how many bytes they are."""


def _session(value: str) -> str:
    return f"session {value}"


def _file(work: _Work, number: int, suffix: str = "") -> Path:
    return work.folder / f"{number}{suffix}"


# 2: divide.


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
            for other in (*named, _session(trace_id)):
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


def _score_all(work: _Work, jobs: int, consumers: Sequence[replay.Consumer]) -> list[_Share]:
    """Score every share; the first in this process, which need not send its results to itself."""
    _take_up(work)
    with _processes(work, jobs - 1) as pool:
        found = pool.map(_score_share, range(1, jobs))
        shares = [_score(work, 0, consumers)]
        for share, packed in enumerate(found, start=1):
            shares.append(pickle.loads(packed))
            for evaluation in _evaluations(work, share) if consumers else ():
                for consumer in consumers:
                    consumer(evaluation)
    return shares


def _score_share(share: int) -> bytes:
    work = _process.work
    if not work.keeps_evaluations:
        return _packed(_score(work, share, ()))
    with _file(work, share, ".evaluations").open("wb") as file:
        return _packed(_score(work, share, (lambda evaluation: file.write(_packed(evaluation)),)))


def _score(work: _Work, share: int, consumers: Sequence[replay.Consumer]) -> _Share:
    scoring = replay.RecordScoring(work.goldens, work.scorer, work.quiet_spans, consumers, work.events)
    for number, start in enumerate(work.starts[:-1]):
        for read, record in _records(work, number, share):
            scoring.feed(record, start + read)
    scoring.advance(work.starts[-1])
    scoring.end()
    return _Share(list(scoring.results.values()), scoring.problems, scoring.stats)


def _records(work: _Work, number: int, share: int) -> Iterator[tuple[int, replay.ReplayRecord]]:
    """Yield the records of a range that belong to a share, in the order of the range."""
    registry = work.registry
    sources: list[_Source]
    index: _Index
    sources, index = pickle.loads(_file(work, number, ".index").read_bytes())
    resources = [registry.resource(resource) for _, resource in sources]
    found: list[tuple[int, int, replay.ReplayRecord]] = []
    with _file(work, number).open("rb") as file:
        for trace_id, (at, size) in index.items():
            if work.share_of.get(trace_id) != share:
                continue
            file.seek(at)
            all_plain: list[_Plain]
            all_unread: list[_Unread]
            facts: list[_Fact]
            all_plain, all_unread, facts = pickle.loads(file.read(size))
            found += facts
            for position, read, source, undecoded in all_plain:
                plain = PlainSpanFacts(trace_id, undecoded, sources[source][0], resources[source])
                found.append((position, read, (plain,)))
            for position, read, source, scope_name, encoded, kept in all_unread:
                decode, resource = sources[source]
                content = UnreadSpan(registry, EncodedSpan(encoded, decode, scope_name, resource))
                outline: dict[str, Any] = dict(zip(_KEPT, kept, strict=True))
                unread = LazySpanFacts(trace_id, resource=resources[source], content=content, **outline)
                found.append((position, read, unread))
    found.sort(key=itemgetter(0))
    for _, read, record in found:
        yield read, record


def _evaluations(work: _Work, share: int) -> Iterator[Evaluation]:
    with _file(work, share, ".evaluations").open("rb") as file, suppress(EOFError):
        while True:
            yield pickle.load(file)


# Values between processes. Both ends are the same program in the same run, and have the same work.


def _packed(value: object) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(value)
    return file.getvalue()


def _reduce_shared(value: Golden | ExpectedCall) -> Any:
    """Name a golden or a call of one: every process has them."""
    name = _process.names.get(id(value))
    return value.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if name is None else (_shared, (name,))


def _shared(name: int) -> Golden | ExpectedCall:
    return _process.shared[name]


_REDUCERS: dict[type, Callable[[Any], Any]] = {Golden: _reduce_shared, ExpectedCall: _reduce_shared}
