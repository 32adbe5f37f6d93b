"""A whole stream in memory: partitions of both stages, their topics and their state, with faults on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from goldspan.collector_processor.encoded_spans.span_groups import (
    LOST,
    SpanGroup,
    by_trace,
    join_request,
    split_request,
)
from goldspan.collector_processor.engine.result_revisions import digest_of
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stage_interface import (
    DeadLetter,
    Logs,
    Output,
    Results,
    StreamContext,
    ToEverySessionPartition,
    ToEveryTracePartition,
    ToSession,
    Traces,
)
from goldspan.collector_processor.stream.trace_stage import TraceStage
from rigs.pipeline_rig import Said, events_in, newest, spans_in

_MOST_RESTARTS = 40


class DictState:
    """The state of a partition: what was committed, and what was set since."""

    def __init__(self, committed: dict[bytes, bytes]) -> None:
        self.rows = dict(committed)

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def set(self, key: bytes, value: bytes) -> None:
        self.rows[key] = value

    def delete(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted((key, value) for key, value in self.rows.items() if key.startswith(prefix)))


@dataclass
class Record:
    """A record of a topic."""

    kind: str
    """`spans`, `logs`, `notes` or `session`."""
    time: float
    body: bytes
    key: bytes = b""


@dataclass
class Partition:
    """A partition of one stage: its input, how far it was read, and its committed state."""

    start: Callable[[DictState], TraceStage | SessionStage]
    records: list[Record] = field(default_factory=list[Record])
    next: int = 0
    committed_next: int = 0
    committed: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    counted: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """What counters say: what became final by a commit, less what did not stay so."""
    blind: int = 0
    """So many records are read before a watermark is known, as until a worker has asked for the ends of its topics."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Continue from the last commit, as another worker does."""
        self.next = self.committed_next
        self.state = DictState(self.committed)
        self.stage = self.start(self.state)
        self.watermark = 0.0
        self.has_committed = False

    def commit(self) -> None:
        self.has_committed = True
        self.stage.save()
        if isinstance(self.stage, SessionStage):
            final, superseded = self.stage.take_uncounted()
            self.counted.update((one.id, digest_of(one)) for one in final)
            self.counted.subtract((one.id, digest_of(one)) for one in superseded)
        self.committed, self.committed_next = dict(self.state.rows), self.next

    @property
    def is_read(self) -> bool:
        return self.next == len(self.records)


class Stream:
    """Both stages over in-memory topics. Which partition goes on next, and what fails, is drawn."""

    def __init__(
        self,
        context: StreamContext,
        seed: int,
        *,
        traces: int = 4,
        sessions: int = 4,
        faults: float = 0.1,
        lagging: int = 0,
    ) -> None:
        """So many partitions of each stage; `lagging` ones of the first are read when all others are at their ends."""
        self.rng = random.Random(seed)
        self.faults = faults
        self.salt = seed

        self.context = context

        def trace_stage(number: int) -> Callable[[DictState], TraceStage]:
            return lambda state: TraceStage(self.context, state, number)

        self.first = [Partition(trace_stage(number)) for number in range(traces)]
        self.second = [Partition(lambda state: SessionStage(self.context, state, traces)) for _ in range(sessions)]
        self.lagging = self.first[:lagging]
        if faults:
            self.blind(*self.first)
        self.outputs: list[Output] = []
        self.restarts = 0
        self.delayed: list[tuple[list[Output], float]] = []
        """What workers wrote that did not know yet that another one has their partition."""

    def use_goldens(self, context: StreamContext) -> None:
        """Let all workers score by other goldens; those that start later too."""
        self.context = context
        for partition in (*self.first, *self.second):
            partition.stage.use_goldens(context)

    def partition_of(self, key: bytes, partitions: Sequence[Partition]) -> Partition:
        return partitions[crc32(key, self.salt) % len(partitions)]

    def put(self, requests: Iterable[ExportRequest], *, begin: float = 1e9, step: float = 0.01) -> float:
        """Write requests to the topics by trace id, one after another; return when the last one came."""
        now = begin
        for request in requests:
            for key, body in parts_of(request):
                kind = "spans" if request.signal is Signal.TRACES else "logs"
                self.partition_of(key, self.first).records.append(Record(kind, now, body))
            now += step
        return now

    def run(self, end: float) -> None:
        """Read the topics to their ends, then let the time go on until everything is complete and dropped."""
        while any(not one.is_read for one in (*self.first, *self.second)):
            ready = [one for one in (*self.first, *self.second) if not one.is_read]
            partition = self.rng.choice([one for one in ready if one not in self.lagging] or ready)
            for _ in range(self.rng.choice([1, 3, 50])):
                if not partition.is_read:
                    self.read(partition)
            self.disturb(partition)
            if self.delayed and self.rng.random() < 0.2:
                self.take(*self.delayed.pop(0))
        while self.delayed:
            self.take(*self.delayed.pop(0))
        for now in (end + 30, end + 700, end + 800, end + 900):
            for partition in self.first:
                self.take(partition.stage.advance(now), now)
                self.disturb(partition)
            while any(not one.is_read for one in self.second):
                self.read(self.rng.choice([one for one in self.second if not one.is_read]))
            for partition in self.second:
                self.take(partition.stage.advance(now), now)
                self.disturb(partition)
            if any(not one.is_read for one in (*self.first, *self.second)):
                self.run(end)  # what a restart read again
                return

    def read(self, partition: Partition) -> None:
        record = partition.records[partition.next]
        partition.next += 1
        partition.watermark = max(partition.watermark, record.time)
        stage = partition.stage
        if isinstance(stage, SessionStage):
            self.take(stage.receive(record.key, record.body), record.time)
            return
        self.take(self.receive(stage, record), record.time)
        if partition.blind:
            partition.blind -= 1
        else:
            self.take(stage.advance(partition.watermark), partition.watermark)

    def receive(self, stage: TraceStage, record: Record) -> Iterable[Output]:
        receive = {"spans": stage.spans, "logs": stage.logs, "notes": stage.notes}[record.kind]
        return receive(record.body, record.time)

    def disturb(self, partition: Partition) -> None:
        if self.rng.random() < 0.3:
            partition.commit()
        if self.restarts < _MOST_RESTARTS and self.rng.random() < self.faults:
            self.restarts += 1
            if partition.has_committed and isinstance(partition.stage, TraceStage):
                self.read_unaware(partition, partition.stage)
            partition.restart()
            self.blind(partition)

    def read_unaware(self, partition: Partition, stage: TraceStage) -> None:
        """Let a worker that has lost a partition read on. What it writes comes late."""
        outputs: list[Output] = []
        for record in partition.records[partition.next :][: self.rng.choice([0, 1, 10])]:
            outputs += self.receive(stage, record)
            outputs += stage.advance(max(partition.watermark, record.time))
        self.delayed.append((outputs, partition.watermark))

    def blind(self, *partitions: Partition) -> None:
        for partition in partitions:
            partition.blind = self.rng.choice([0, 3, 100])

    def take(self, outputs: Iterable[Output], now: float) -> None:
        for output in outputs:
            match output:
                case ToSession(key, body):
                    self.partition_of(key, self.second).records.append(Record("session", now, body, key))
                case ToEverySessionPartition(body):
                    for partition in self.second:
                        partition.records.append(Record("session", now, body))
                case ToEveryTracePartition(body):
                    for partition in self.first:
                        partition.records.append(Record("notes", now, body))
                case _:
                    self.outputs.append(output)

    def of(self, kind: type[Traces | Logs | DeadLetter]) -> list[bytes]:
        return [one.body for one in self.outputs if isinstance(one, kind)]

    def events(self) -> list[dict[str, Any]]:
        return events_in(self.of(Logs))

    def said(self) -> Said:
        return newest(self.events(), as_written=True)  # a restart forgets revisions that were not committed

    def counted(self) -> Counter[str]:
        """How often each result was counted, once all is committed."""
        counts = Counter[str]()
        for partition in self.second:
            partition.commit()
            for (result, _), count in partition.counted.items():
                counts[result] += count
        return +counts

    def spans(self) -> list[Span]:
        return spans_in(self.of(Traces))

    def results(self) -> list[Results]:
        return [one for one in self.outputs if isinstance(one, Results)]


def parts_of(request: ExportRequest) -> Iterator[tuple[bytes, bytes]]:
    """What the Collector's exporter makes of a request: one record for each trace."""
    groups = split_request(request.body) or []
    if request.signal is Signal.LOGS:
        yield from logs_by_trace(request.body)
        groups = [group for group in groups if group.envelope == LOST]
    parts: dict[bytes, list[SpanGroup]] = {}
    for group in groups:
        for trace, spans in by_trace(group.spans).items():
            parts.setdefault(trace, []).append(SpanGroup(group.envelope, spans))
    for trace, groups in parts.items():
        yield trace, join_request(groups)


def logs_by_trace(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    parts: dict[bytes, ExportLogsServiceRequest] = {}
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        for inner in group.scope_logs:
            for record in inner.log_records:
                part = parts.setdefault(record.trace_id, ExportLogsServiceRequest())
                scope = part.resource_logs.add(resource=group.resource).scope_logs.add(scope=inner.scope)
                scope.log_records.append(record)
    for trace, part in parts.items():
        yield trace, part.SerializeToString()
