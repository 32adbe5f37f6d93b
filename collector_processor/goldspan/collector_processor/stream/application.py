# quixstreams is not installed where types are checked:
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportUntypedBaseClass=false, reportPrivateUsage=false
"""Both stages on Quix Streams: records of the assigned partitions in, outputs and state out, and commits.

    spans, logs, notes [p] -> TraceStage p      the store of the first stage, partition p
    sessions [p]           -> SessionStage p    the store of the second stage, partition p

One worker has the same partition of all topics. At a commit the stages write what changed to their stores, then all
outputs are delivered, then the changes go to the changelog topics, and then the offsets are committed. So a partition
that another worker takes over continues at the last commit: what came after it is read again, and results that were
given again have the same ids.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from quixstreams import Application
from quixstreams.models import TopicManager
from quixstreams.sinks import BaseSink
from quixstreams.state.rocksdb import RocksDBOptions

from goldspan.collector_processor.emit.otlp_encoding import EncodedMetrics
from goldspan.collector_processor.encoded_spans.span_groups import ForeignScores
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import GoldenCoverage, Sample
from goldspan.collector_processor.stream import stage_interface
from goldspan.collector_processor.stream.progress import PartitionProgress, TopicProgress
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.collector_processor.stream.trace_stage import TraceStage

_logger = logging.getLogger("goldspan.stream")

_FAMILY = "rows"
"""The column family of the stages' rows. That of Quix, `default`, tries to recognise values that expire."""
_TURN = 0.2  # seconds between two looks at the clock, the ends of topics and timers
_SEND_AGAIN = 60.0
_STEP = 1.0  # seconds by which the watermark moves until a stage learns of it without need
_POLL = 0.1
_NETWORK = 30.0  # seconds for a question to the broker
_BLOCK_CACHE = 128 << 20
_COMMITTED = b"!"  # the row that is written where outputs are all that there is to commit
_EVENT_TIME = "goldspan.time"  # header of a note: the event time at which it was written, in milliseconds
_PRODUCER_ONLY = ("compression.type", "linger.ms", "batch.size", "request.timeout.ms")
_CONSUMER_ONLY = ("fetch.", "queued.")


class StateUnusableError(Exception):
    """The state on disk can be read or written no longer."""


@dataclass(slots=True)
class StreamCounters:
    """What a worker has counted since its start; other threads read it."""

    read: Counter[str] = field(default_factory=Counter[str])
    """Records, by topic."""
    sent: Counter[str] = field(default_factory=Counter[str])
    """Records, by topic."""
    dead_letters: Counter[str] = field(default_factory=Counter[str])
    """By the topic that they came from."""
    too_large: Counter[str] = field(default_factory=Counter[str])
    """Outputs that exceed `kafka.max_message`, by topic."""
    removed_scores: Counter[str] = field(default_factory=Counter[str])
    """What was written under goldspan's names and is not trusted, by signal."""
    stages: Counter[str] = field(default_factory=Counter[str])
    """Sums of the stages of partitions that went to other workers."""
    starts: int = 0
    recovery_seconds: float = 0.0


class _Rows:
    """The rows of one partition of a stage, in a store of Quix."""

    def __init__(self, application: Application, stream: str, partition: int) -> None:
        self._context = application._processing_context  # noqa: SLF001 - the way to stores without a key
        self._stream = stream
        self._partition = partition
        self._transaction: Any = None
        self._written: dict[bytes, bytes | None] = {}  # what was written since the last commit

    def get(self, key: bytes) -> bytes | None:
        transaction = self._current()
        if key in self._written:
            return self._written[key]
        with _state_errors():
            value: bytes | None = transaction.get_bytes(key, prefix=b"", cf_name=_FAMILY)
        return value

    def set(self, key: bytes, value: bytes) -> None:
        transaction = self._current()
        transaction.set_bytes(key, value, prefix=b"", cf_name=_FAMILY)
        self._written[key] = value

    def delete(self, key: bytes) -> None:
        transaction = self._current()
        transaction.delete(key, prefix=b"", cf_name=_FAMILY)
        self._written[key] = None

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._current()
        with _state_errors():
            store = self._context.state_manager.get_store(stream_id=self._stream).partitions[self._partition]
            stored = store.iter_items(lower_bound=prefix, upper_bound=_after(prefix), cf_name=_FAMILY)
        written = {key: value for key, value in self._written.items() if key.startswith(prefix)}
        if not written:
            yield from stored
            return
        merged = {key: value for key, value in stored if key not in written}
        merged |= {key: value for key, value in written.items() if value is not None}
        yield from sorted(merged.items())

    def _current(self) -> Any:
        transaction = self._context.checkpoint.get_store_transaction(stream_id=self._stream, partition=self._partition)
        if transaction is not self._transaction:  # the last one was committed
            self._transaction = transaction
            self._written.clear()
        return transaction


def _after(prefix: bytes) -> bytes:
    """Return the first key after those that start with a prefix."""
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes([rest[-1] + 1])


class _state_errors:  # noqa: N801 - a context manager
    """Turns what RocksDB raises into an error that is not taken for a fault of a record."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):
            raise StateUnusableError(str(error)) from error


@dataclass(slots=True)
class _Assigned:
    """A partition of one stage that this worker has."""

    number: int
    store: object
    """Quix' partition of the store. After a rebalance it is another one."""
    stage: TraceStage | SessionStage
    rows: _Rows
    progress: PartitionProgress
    advanced: float = 0.0  # the watermark that the stage knows
    unsaved: bool = False  # the stage has changed since it wrote its rows
    paused: bool = False


class StreamWorker(BaseSink):
    """One worker: a Quix application that runs both stages on the partitions it is assigned. For one thread.

    Quix gives it each record by `add`, and calls `flush` when it begins a commit.
    """

    def __init__(
        self,
        settings: StreamSettings,
        context: stage_interface.StreamContext,
        *,
        options: Mapping[str, str],
        partitions: int,
        folder: Path,
        instance: str,
        coverage: GoldenCoverage,
        counters: StreamCounters,
        foreign_scores: ForeignScores | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take librdkafka's `options` with the addresses of brokers, and the number of partitions of each topic."""
        super().__init__()
        self._settings = settings
        self._topics = settings.topics
        self._context = context
        self._new_goldens: tuple[stage_interface.StreamContext, ForeignScores | None] | None = None
        """What is used from the next look at the clock on; another thread sets it."""
        self._partitions = partitions
        self._clock = clock
        self._coverage = coverage
        self._counters = counters
        self._foreign_scores = foreign_scores
        self._metrics = EncodedMetrics("goldspan-stream", instance, settings.scoring.name_limit)
        self._new_points = False
        self._send_again_at = 0.0  # when the points are written again: exporters drop series that seem to be gone
        self._next_turn = 0.0
        self._uncommitted = False  # a transaction has outputs
        self._began_recovery: float | None = None
        self._ready = False
        self._lock = threading.Lock()
        self._logged = frozenset[int]()  # the partitions that the log says this worker has
        self._assigned: dict[tuple[str, int], _Assigned] = {}
        """By stream and number. The first stage's stream is named after the spans, the second's after the sessions."""
        self._application = _application(settings, options, folder)
        self._producer = self._application._producer  # noqa: SLF001 - one producer, so that one transaction has all
        self._consumer = self._application._consumer  # noqa: SLF001 - to pause, and to know the ends of topics
        self._declare()

    def _declare(self) -> None:
        application, topics = self._application, self._topics
        registry = application._dataframe_registry  # noqa: SLF001 - streams of several topics, and timers
        for name in topics.read():
            topic = application.topic(name, value_deserializer="bytes", key_deserializer="bytes")
            application.dataframe(topic).sink(self)
            if name in {topics.spans, topics.sessions}:
                config = TopicManager.derive_topic_config([topic])
                config.extra_config.clear()
                config.extra_config["max.message.bytes"] = str(self._settings.kafka.max_message + 4096)
                application._state_manager.register_store(stream_id=name, changelog_config=config)  # noqa: SLF001 - as above
        registry.register_stream_id(topics.spans, [topics.logs, topics.notes])
        registry.register_periodic_task(self._turn)

    @property
    def _transactional(self) -> bool:
        return self._settings.kafka.guarantee == "exactly-once"

    def run(self) -> None:
        """Work until `stop` or a signal. Raises what Quix, librdkafka and RocksDB raise."""
        try:
            self._application.run()
        finally:
            self._ready = False
            with self._lock:
                for one in self._assigned.values():
                    self._counters.stages.update(_counts(one))
                self._assigned.clear()
            self._log_partitions()

    def stop(self) -> None:
        """Commit, leave the group, and return from `run`. Any thread may call it."""
        self._application.stop()

    def use_goldens(self, context: stage_interface.StreamContext, foreign_scores: ForeignScores | None) -> None:
        """Score by the goldens of this context soon. Any thread may call it."""
        self._new_goldens = context, foreign_scores

    # Records.

    def add(self, value: Any, key: Any, timestamp: int, headers: Any, topic: str, partition: int, offset: int) -> None:
        """Let a stage process one record."""
        now = self._clock()
        self._counters.read[topic] += 1
        is_session = topic == self._topics.sessions
        one = self._of(self._topics.sessions if is_session else self._topics.spans, partition, now)
        event_time = timestamp / 1000 if timestamp > 0 else now
        if topic == self._topics.notes:
            event_time = _time_of_note(headers, event_time)
        one.progress.read(topic, offset, event_time, now)
        self._advance(one)
        if value is None:
            return
        try:
            outputs = list(self._process(one.stage, topic, key or b"", value, event_time))
        except StateUnusableError:
            raise
        except Exception as error:
            _logger.exception("a record failed and goes to the dead letters", extra={"topic": topic, "offset": offset})
            outputs = [stage_interface.DeadLetter(value, f"{type(error).__name__}: {error}")]
        one.unsaved = True
        self._send(outputs, event_time, source=(topic, partition, offset))

    def _process(
        self, stage: TraceStage | SessionStage, topic: str, key: bytes, body: bytes, event_time: float
    ) -> Iterable[stage_interface.Output]:
        if isinstance(stage, SessionStage):
            return stage.receive(key, body)
        if topic == self._topics.notes:
            return stage.notes(body, event_time)
        signal = Signal.TRACES if topic == self._topics.spans else Signal.LOGS
        if self._foreign_scores is not None:
            cleaned = self._foreign_scores.remove(signal, body)
            if cleaned is None:
                return [stage_interface.DeadLetter(body, f"found no OTLP {signal.value}")]
            body, removed = cleaned
            self._counters.removed_scores[signal.value] += removed
        return stage.spans(body, event_time) if signal is Signal.TRACES else stage.logs(body, event_time)

    def _advance(self, one: _Assigned) -> None:
        """Tell a stage the watermark, if it has something to do then."""
        if isinstance(one.stage, SessionStage):
            return  # its time is in the messages of the first stage
        watermark = one.progress.watermark
        if watermark <= one.advanced:
            return
        deadline = one.stage.deadline()
        if watermark >= one.advanced + _STEP or (deadline is not None and deadline <= watermark):
            one.advanced = watermark
            outputs = list(one.stage.advance(watermark))
            one.unsaved = True
            self._send(outputs, watermark)

    def _send(
        self, outputs: Iterable[stage_interface.Output], now: float, source: tuple[str, int, int] | None = None
    ) -> None:
        """Write the outputs of a stage at this event time."""
        topics = self._topics
        for output in outputs:
            match output:
                case stage_interface.Traces(body):
                    self._produce(topics.scored, body)
                case stage_interface.ToSession(key, body):
                    self._produce(topics.sessions, body, key=key)
                case stage_interface.ToEverySessionPartition(body):
                    for partition in range(self._partitions):
                        self._produce(topics.sessions, body, partition=partition)
                case stage_interface.ToEveryTracePartition(body):
                    event_time = str(int(now * 1000)).encode()
                    for partition in range(self._partitions):
                        self._produce(topics.notes, body, partition=partition, headers={_EVENT_TIME: event_time})
                case stage_interface.Logs(key, body):
                    self._produce(topics.events, body, key=key)
                case stage_interface.Results(evaluations):
                    for evaluation in evaluations:
                        self._coverage.see(evaluation)
                case stage_interface.DeadLetter(body, error):
                    self._dead_letter(body, error, source)

    def _dead_letter(self, body: bytes, error: str, source: tuple[str, int, int] | None) -> None:
        topic, partition, offset = source or ("", -1, -1)
        self._counters.dead_letters[topic] += 1
        where = {"topic": topic, "partition": str(partition), "offset": str(offset)}
        _logger.warning("a record goes to the dead letters: %s", error, extra=where)
        headers = {name: value.encode() for name, value in {**where, "error": error[:1000]}.items()}
        self._produce(self._topics.dead_letters, body, headers=headers)

    def _produce(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: dict[str, bytes] | None = None,
    ) -> None:
        if len(value) > self._settings.kafka.max_message:
            self._counters.too_large[topic] += 1
            _logger.error(
                "a record for %s was dropped: it has %s bytes, `kafka.max_message` allows %s",
                topic,
                len(value),
                self._settings.kafka.max_message,
            )
            return
        self._producer.produce(topic=topic, value=value, key=key, partition=partition, headers=headers)
        self._uncommitted = self._transactional
        self._counters.sent[topic] += 1

    # Commits.

    def flush(self) -> None:
        """Write the rows of all stages, and wait until all outputs are delivered. Quix calls it at each commit."""
        self._save_rows()
        self._count_final()
        self._uncommitted = False
        if not self._transactional and (left := self._producer.flush(_NETWORK * 4)):
            # State must never be ahead of outputs: after a crash they would be missing.
            raise KafkaException(f"{left} outputs could not be delivered")

    def _count_final(self) -> None:
        """Count what is final in the state that is committed now, and write the points with it."""
        for one in list(self._assigned.values()):
            if isinstance(one.stage, SessionStage) and self._is_current(one):
                final, superseded = one.stage.take_uncounted()
                self._metrics.record(final, superseded)
                for evaluation in final:
                    self._coverage.count(evaluation)
                self._new_points |= bool(final or superseded)
        self._new_points |= self._metrics.count_without_golden(self.sessions_without_golden)
        if self._new_points:
            self._write_points(self._clock())

    def _write_points(self, now: float) -> None:
        self._new_points, self._send_again_at = False, now + _SEND_AGAIN
        if points := self._metrics.encoded():
            self._produce(self._topics.metrics, points)

    def on_paused(self) -> None:
        """Do nothing: this sink never refuses records."""

    # Time.

    def _turn(self) -> None:
        """Look at the clock. Quix calls it after each record, and while none come."""
        now = self._clock()
        if self._application._state_manager.recovery_required:  # noqa: SLF001 - as above
            self._began_recovery = self._began_recovery or now
            self._ready = False
            return
        if now >= self._next_turn:
            self._next_turn = now + _TURN
            self._follow_clock(now)
        self._keep_outputs()

    def _follow_clock(self, now: float) -> None:
        """Do what time alone asks for."""
        if self._began_recovery is not None:
            self._counters.recovery_seconds += now - self._began_recovery
            self._began_recovery = None
        if (new := self._new_goldens) is not None:
            self._new_goldens = None
            context, self._foreign_scores = new
            self._context = context
            for one in self._assigned.values():
                one.stage.use_goldens(context)
        self._follow_assignment(now)
        reachable = getattr(self._consumer, "_broker_unavailable_since", None) is None
        for one in list(self._assigned.values()):
            self._look_at_ends(one)
            if reachable:
                one.progress.follow_clock(now)
            self._advance(one)
        self._pause_or_resume()
        if now >= self._send_again_at:
            self._write_points(now)

    def _follow_assignment(self, now: float) -> None:
        manager = self._application._state_manager  # noqa: SLF001 - as above
        for key, one in list(self._assigned.items()):
            if not self._is_current(one):
                self._forget(key)
        for stream in (self._topics.spans, self._topics.sessions):
            for partition in manager.get_store(stream_id=stream).partitions:
                self._of(stream, partition, now)
        self._ready = bool(self._assigned)
        self._log_partitions()

    def _log_partitions(self) -> None:
        """Log which partitions were taken and lost since the last look."""
        has = frozenset(partition for _, partition in self._assigned)
        if has != self._logged:
            taken, lost = sorted(has - self._logged), sorted(self._logged - has)
            _logger.info("partitions were taken or lost", extra={"taken": taken, "lost": lost, "has": sorted(has)})
            self._logged = has

    def _of(self, stream: str, partition: int, now: float) -> _Assigned:
        """Return a partition of a stage, which continues with its rows."""
        one = self._assigned.get((stream, partition))
        if one is not None and self._is_current(one):
            return one
        if one is not None:
            self._forget((stream, partition))
        store = self._application._state_manager.get_store(stream_id=stream).partitions[partition]  # noqa: SLF001 - as above
        rows = _Rows(self._application, stream, partition)
        topics = self._topics
        if stream == topics.sessions:
            stage: TraceStage | SessionStage = SessionStage(self._context, rows, self._partitions)
            names: tuple[str, ...] = (topics.sessions,)
        else:
            stage = TraceStage(self._context, rows, partition)
            names = (topics.spans, topics.logs, topics.notes)
        progress = PartitionProgress(
            {name: TopicProgress(self._position(name, partition), moved_at=now) for name in names},
            markers=self._transactional,
        )
        one = _Assigned(partition, store, stage, rows, progress)
        with self._lock:
            self._assigned[stream, partition] = one
        return one

    def _position(self, topic: str, partition: int) -> int:
        """Return the offset at which this worker begins to read."""
        where = TopicPartition(topic, partition)
        [committed] = self._consumer.committed([where], timeout=_NETWORK)
        if committed.offset >= 0:
            return int(committed.offset)
        low, _ = self._consumer.get_watermark_offsets(where, timeout=_NETWORK)
        return int(low)

    def _is_current(self, one: _Assigned) -> bool:
        stream = self._topics.sessions if isinstance(one.stage, SessionStage) else self._topics.spans
        store = self._application._state_manager.get_store(stream_id=stream)  # noqa: SLF001 - as above
        return store.partitions.get(one.number) is one.store

    def _forget(self, key: tuple[str, int]) -> None:
        with self._lock:
            self._counters.stages.update(_counts(self._assigned.pop(key)))

    def _look_at_ends(self, one: _Assigned) -> None:
        for topic, progress in one.progress.topics.items():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, one.number), cached=True)
            progress.end_offset = max(progress.end_offset, int(end))

    def _pause_or_resume(self) -> None:
        """Pause the spans and logs of partitions whose sessions wait, so that these catch up."""
        most = self._settings.kafka.max_waiting
        for (stream, partition), one in self._assigned.items():
            sessions = self._assigned.get((self._topics.sessions, partition))
            if stream != self._topics.spans or sessions is None:
                continue
            waiting = sessions.progress.lag
            where = [TopicPartition(name, partition) for name in (self._topics.spans, self._topics.logs)]
            if not one.paused and waiting > most:
                self._consumer.pause(where)
                one.paused = True
            elif one.paused and waiting <= most // 2:
                self._consumer.resume(where)
                one.paused = False

    def _keep_outputs(self) -> None:
        """Write rows for what time alone did. Quix aborts the transaction of a checkpoint without records and rows."""
        checkpoint = self._application._processing_context.checkpoint  # noqa: SLF001 - as above
        if not checkpoint.empty() or not (self._uncommitted or checkpoint.expired()):
            return
        self._save_rows()
        if self._uncommitted and checkpoint.empty():
            for one in list(filter(self._is_current, self._assigned.values()))[:1]:
                one.rows.set(_COMMITTED, b"")

    def _save_rows(self) -> None:
        for one in list(self._assigned.values()):
            if one.unsaved and self._is_current(one):
                one.stage.save()
                one.unsaved = False

    # What other threads ask.

    def not_ready_reason(self) -> str | None:
        """Say why no records are processed; None if they are."""
        if self._ready:
            return None
        if self._began_recovery is not None:
            return "state is being read from the changelog"
        return "no partition is assigned"

    @property
    def sessions_without_golden(self) -> int:
        """Sessions that no golden matches."""
        return self._sums()["sessions_without_golden"]

    def metrics(self) -> Iterator[Sample]:
        """Yield the numbers of this worker."""
        with self._lock:
            assigned = list(self._assigned.items())
        now = self._clock()
        traces = [one.stage for _, one in assigned if isinstance(one.stage, TraceStage)]
        sessions = [one.stage for _, one in assigned if isinstance(one.stage, SessionStage)]
        yield "goldspan_stream_partitions", {"stage": "traces"}, len(traces)
        yield "goldspan_stream_partitions", {"stage": "sessions"}, len(sessions)
        for (_, partition), one in assigned:
            for topic, progress in one.progress.topics.items():
                yield "goldspan_stream_lag_records", {"topic": topic, "partition": str(partition)}, progress.lag
            if isinstance(one.stage, TraceStage):
                behind = max(0.0, now - one.advanced) if one.advanced else 0.0
                yield "goldspan_stream_watermark_delay_seconds", {"partition": str(partition)}, behind
                yield "goldspan_stream_paused", {"partition": str(partition)}, int(one.paused)
        yield "goldspan_stream_open_traces", {}, sum(stage.open_traces for stage in traces)
        yield "goldspan_stream_open_sessions", {}, sum(stage.open_sessions for stage in sessions)
        sums = self._sums()
        for name in ("spans", "repeated", "late", "held_past_timeout", "sessions_without_golden"):
            yield f"goldspan_stream_{name}_total", {}, sums[name]
        for name, count in sums.items():
            if name.startswith("problem "):
                yield "goldspan_problems_total", {"code": name.removeprefix("problem ")}, count

    def _sums(self) -> Counter[str]:
        with self._lock:
            sums = self._counters.stages.copy()
            for one in self._assigned.values():
                sums.update(_counts(one))
        sums.update({f"problem {code}": count for code, count in self._context.problems.copy().items()})
        return sums


def _counts(one: _Assigned) -> Counter[str]:
    stats = one.stage.stats
    counts = Counter({name: getattr(stats, name) for name in ("spans", "repeated", "late", "held_past_timeout")})
    counts["sessions_without_golden"] = stats.sessions_without_golden
    counts.update({f"problem {code}": count for code, count in stats.problems.copy().items()})
    return counts


def _time_of_note(headers: Any, otherwise: float) -> float:
    for name, value in headers or ():
        if name == _EVENT_TIME and value.isdigit():
            return int(value) / 1000
    return otherwise


def _application(settings: StreamSettings, options: Mapping[str, str], folder: Path) -> Application:
    kafka = settings.kafka
    shared = {name: value for name, value in options.items() if name != "bootstrap.servers"}
    consumer = {name: value for name, value in shared.items() if not name.startswith(_PRODUCER_ONLY)}
    producer = {name: value for name, value in shared.items() if not name.startswith(_CONSUMER_ONLY)}
    return Application(
        options["bootstrap.servers"],
        consumer_group=kafka.group,
        auto_offset_reset="earliest",  # the first stage may write before the second one reads
        commit_interval=kafka.commit_interval,
        consumer_extra_config={
            "session.timeout.ms": int(kafka.session_timeout * 1000),
            "heartbeat.interval.ms": max(100, int(kafka.session_timeout * 1000 / 5)),
            **consumer,
        },
        producer_extra_config={"compression.type": "lz4", "message.max.bytes": kafka.max_message + 4096, **producer},
        state_dir=folder,
        rocksdb_options=RocksDBOptions(block_cache_size=_BLOCK_CACHE),
        consumer_poll_timeout=_POLL,
        loglevel=None,
        processing_guarantee=kafka.guarantee,
        broker_availability_timeout=kafka.broker_timeout,
    )
