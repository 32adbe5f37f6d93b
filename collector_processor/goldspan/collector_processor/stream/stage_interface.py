"""What the stages of a stream get and give: settings, the state of a partition, outputs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.encoded_spans.trace_selection import KeyScanner
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.results import SessionResult


class PartitionState(Protocol):
    """The key-value store of one partition of one stage. What was set is seen at once, committed or not."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        ...

    def set(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        ...

    def delete(self, key: bytes) -> None:
        """Delete a key, if it is there."""
        ...

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that start with a prefix and their values, in the order of keys."""
        ...


class DueTimes:
    """When each of many things is looked at next."""

    def __init__(self) -> None:
        self._times: dict[bytes, float] = {}
        self._queue: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: bytes) -> bool:
        return key in self._times

    def __getitem__(self, key: bytes) -> float:
        return self._times[key]

    def set(self, key: bytes, when: float) -> None:
        """Set when something is looked at, in place of any time before."""
        self._times[key] = when
        heapq.heappush(self._queue, (when, key))

    def remove(self, key: bytes) -> None:
        """Forget something."""
        del self._times[key]

    def first(self) -> float | None:
        """Return the earliest time."""
        while self._queue and self._times.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def take(self, until: float) -> Iterator[tuple[float, bytes]]:
        """Yield what is due until then, the earliest first; times may be set meanwhile."""
        while (due := self.first()) is not None and due <= until:
            yield heapq.heappop(self._queue)


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What all partitions of both stages share."""

    goldens: GoldenIndex
    settings: EngineSettings
    """When turns and runs are scored and state is dropped, in seconds of event time. `max_spans` has no effect."""
    registry: DialectRegistry
    scanner: KeyScanner
    hold: bool = True
    """Spans that may get a score wait for it. Without, results are events and metrics only."""
    max_trace_spans: int = 20_000
    """Spans and log records of a trace; results of a trace with more are `incomplete`."""
    max_session_spans: int = 100_000
    """Spans of a session; results of a session with more are `incomplete`."""
    unread_span_bytes: int = 64 << 20
    """Memory of a partition for spans of traces that no golden wants so far."""
    max_text_bytes: int = 64 << 20
    """Memory of a partition for messages, results and definitions of tools, where a metric asks for them; results of
    a trace whose text did not fit are `incomplete`, as are those of one with more than 1 MiB."""
    cached_bytes: int = 64 << 20
    """Rows of sessions that a partition keeps in memory."""

    @classmethod
    def of(cls, goldens: GoldenIndex, settings: EngineSettings | None = None, *, hold: bool = True) -> StreamContext:
        """Return the context for these goldens, with the dialects that are installed."""
        settings = settings or EngineSettings()
        registry = DialectRegistry(
            session_keys=settings.assembly.session_keys,
            join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
            definitions=settings.scorer.reads_definitions(goldens.goldens),
        )
        return cls(goldens, settings, registry, KeyScanner(registry, settings.assembly.session_keys), hold)


@dataclass(slots=True)
class StageStats(EngineStats):
    """What one partition of a stage has counted since it was assigned. Most of its spans are passed on unread."""

    problems: Counter[str] = field(default_factory=Counter[str])
    """Spans and rows that could not be read, and other mistakes in telemetry, by code."""


# Outputs.


class ToSession(Struct, frozen=True, gc=False):
    """A record for the topic by session: `key` is the session id."""

    key: bytes
    body: bytes


class ToEverySessionPartition(Struct, frozen=True, gc=False):
    """A record for each partition of the topic by session: the watermark of a partition of the first stage."""

    body: bytes


class ToEveryTracePartition(Struct, frozen=True, gc=False):
    """A record for each partition of the first stage: content for spans of another trace. It is rare."""

    body: bytes


class Traces(Struct, frozen=True, gc=False):
    """An `ExportTraceServiceRequest`: spans, scored or passed on."""

    body: bytes


class Logs(Struct, frozen=True, gc=False):
    """An `ExportLogsServiceRequest`: one event for each result. Those of a session stay in order: the last counts."""

    key: bytes
    """The session id."""
    body: bytes


class Results(Struct, frozen=True, gc=False):
    """The results in the events that came just before, for metric points and reports."""

    evaluations: tuple[Evaluation, ...]
    sessions: tuple[SessionResult, ...] = ()
    """Complete runs; a later result of the same session and run replaces an earlier one."""


class DeadLetter(Struct, frozen=True, gc=False):
    """A body that cannot be read, and why."""

    body: bytes
    error: str


Output = ToSession | ToEverySessionPartition | ToEveryTracePartition | Traces | Logs | Results | DeadLetter
