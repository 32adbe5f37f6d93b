# quixstreams and confluent-kafka are not installed where types are checked:
# mypy: disable-error-code="import-not-found, import-untyped, misc, no-any-unimported"
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
"""A worker as a process: topics, admin pages, signals, restarts after failures of Kafka, and what ends it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from quixstreams.exceptions import QuixException
from quixstreams.state.exceptions import InvalidStoreChangelogOffset

from goldspan.collector_processor.emit.emitters import scope_version
from goldspan.collector_processor.encoded_spans.span_groups import ForeignScores
from goldspan.collector_processor.serving.admin import STREAM_HELP, Admin, GoldenCoverage, MetricsPage, Sample
from goldspan.collector_processor.serving.field_types import ListenAddress
from goldspan.collector_processor.serving.golden_files import GoldenFiles, GoldenReloader
from goldspan.collector_processor.serving.http_server import BearerTokens, HttpServer, RequestLimits
from goldspan.collector_processor.serving.process import (
    FileWatch,
    notify_systemd,
    raise_all,
    raise_open_files,
    warn_of_slow_protobuf,
)
from goldspan.collector_processor.stream.application import StateUnusableError, StreamCounters, StreamWorker
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.collector_processor.stream.stream_settings import StreamSettings
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex

_TIMEOUT = 20.0


def partitions_of(settings: StreamSettings, options: Mapping[str, str]) -> dict[str, int | None]:
    """Return the number of partitions of each topic; None: there is no such topic.

    Raises SettingsError if no broker answers, or if the partitions of the topics that are read do not fit together.
    """
    try:
        known = _admin(options).list_topics(timeout=_TIMEOUT).topics
    except KafkaException as error:
        brokers = options["bootstrap.servers"]
        raise SettingsError(f"kafka.brokers: no broker answers at {brokers}: {_text(error)}") from None
    names = (*settings.topics.read(), *settings.topics.written())
    found = {name: len(known[name].partitions) if name in known else None for name in names}
    counts = {name: count for name in settings.topics.read() if (count := found[name]) is not None}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SettingsError(
            f"topics: found different numbers of partitions: {said}; expected the same, since a worker has the same "
            "partition of each. Create the topics anew, or name others"
        )
    return found


def number_of_partitions(settings: StreamSettings, found: Mapping[str, int | None]) -> int:
    """Return how many partitions each topic that is read has, or gets."""
    return next((count for name in settings.topics.read() if (count := found[name])), settings.kafka.partitions)


def partitions_of_new(settings: StreamSettings, name: str, number: int) -> int:
    """Return how many partitions a new topic gets, where those that are read have `number`."""
    return 1 if name == settings.topics.dead_letters else number


def create_missing(settings: StreamSettings, options: Mapping[str, str], found: Mapping[str, int | None]) -> None:
    """Create the topics that do not exist. Raises SettingsError if the broker refuses."""
    number = number_of_partitions(settings, found)
    new: list[NewTopic] = []
    for name, count in found.items():
        if count is None:
            config = {"max.message.bytes": str(settings.kafka.max_message + 4096)}
            if name in {settings.topics.spans, settings.topics.logs}:
                # Event time is that of the broker's one clock, not of many Collectors' clocks.
                config["message.timestamp.type"] = "LogAppendTime"
            partitions = partitions_of_new(settings, name, number)
            new.append(NewTopic(name, partitions, settings.kafka.replication, config=config))
    if not new:
        return
    admin = _admin(options)  # kept: the answers come as long as it lives
    for name, future in admin.create_topics(new, operation_timeout=_TIMEOUT).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another worker was faster
                raise SettingsError(f"the topic {name} cannot be created: {_text(error)}") from None


def _admin(options: Mapping[str, str]) -> AdminClient:
    return AdminClient({**options, "socket.timeout.ms": int(_TIMEOUT * 1000), "log_level": 2})


def _text(error: KafkaException) -> str:
    return str(error.args[0].str() if isinstance(error.args[0], KafkaError) else error)


_logger = logging.getLogger("goldspan.stream")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a worker starts anew after a failure of Kafka, doubled after each that follows soon."""


def check_stream(settings: StreamSettings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield what a worker would read and write. Raises FileError and SettingsError."""
    files = GoldenFiles(settings.goldens, settings.criterion)
    tokens = [(f"admin.tokens[{index}]", partial(one.read, environ)) for index, one in enumerate(settings.admin.tokens)]
    options_of = partial(settings.options, environ)
    raise_all(("goldens", files.load), ("scoring", settings.engine), ("kafka.options", options_of), *tokens)
    goldens, options = files.load(), options_of()
    found = partitions_of(settings, options)
    number = number_of_partitions(settings, found)
    yield f"goldens: {len(goldens.goldens)}"
    for verb, names in (("reads", settings.topics.read()), ("writes", settings.topics.written())):
        for name in names:
            count = found[name]
            new = partitions_of_new(settings, name, number)
            wanted = "1 partition" if new == 1 else f"{new} partitions"
            there = f"{count} partitions" if count is not None else f"does not exist yet, gets {wanted}"
            yield f"{verb} {name}: {there}"
    yield f"group {settings.kafka.group}, {settings.kafka.guarantee}, state in {settings.folder(environ)}"


class StreamServer:
    """One worker. `run` works until it is stopped."""

    def __init__(self, settings: StreamSettings, environ: Mapping[str, str]) -> None:
        """Read goldens and secrets. Raises FileError and SettingsError."""
        self._settings = settings
        self._folder = settings.folder(environ)
        make_private(self._folder)
        self._options = settings.options(environ)
        files = GoldenFiles(settings.goldens, settings.criterion, self._folder / ".goldens")
        goldens = files.load_each()
        engine = settings.engine()
        goldens = engine.scorer.sampled(goldens, settings.scoring.sample)
        self._golden_files = files
        self._reloader = GoldenReloader(files, self._use_goldens, loaded_at=time.time(), now=time.time)
        self._file_watch = FileWatch(settings.watch_files, check=self._reloader.check, reload=self._reloader.reload)
        self._context = replace(
            StreamContext.of(goldens, engine, hold=settings.scoring.hold == "turn"),
            max_trace_spans=settings.state.max_trace_spans,
            max_session_spans=settings.state.max_session_spans,
            cached_bytes=settings.state.cache,
            unread_span_bytes=settings.state.cache,
        )
        self._coverage = GoldenCoverage(self._context.goldens)
        self._counters = StreamCounters(
            dead_letters=Counter(dict.fromkeys(settings.topics.read(), 0)),
            too_large=Counter(dict.fromkeys(settings.topics.written(), 0)),
        )
        self._stopped = threading.Event()
        self._worker: StreamWorker | None = None
        tokens = [token.read(environ) for token in settings.admin.tokens]
        self._admin = None if settings.admin.listen is None else _AdminThread(self._admin_pages(tokens), settings)

    def _use_goldens(self, goldens: GoldenIndex) -> None:
        """Score by these goldens from now on, whichever worker runs."""
        engine = self._context.settings
        goldens = engine.scorer.sampled(goldens, self._settings.scoring.sample)
        self._context = self._context.with_goldens(goldens)
        self._coverage.goldens = goldens
        if (worker := self._worker) is not None:
            worker.use_goldens(self._context, self._foreign_scores)

    @property
    def _foreign_scores(self) -> ForeignScores | None:
        context = self._context
        return None if self._settings.trust_scores else ForeignScores.of(context.goldens, context.settings.scorer)

    def run(self) -> None:
        """Work until a signal. Raises SettingsError if it cannot go on, with what to do."""
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_reload)
        self._file_watch.start()
        try:
            if self._admin is not None:
                self._admin.start()
            self._work()
            _logger.info("shut down: what was read is committed, and other workers take the partitions over")
        finally:
            notify_systemd("STOPPING=1")
            self._file_watch.stop()
            if self._admin is not None:
                self._admin.stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _work(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            committed = self._counters.sent.total()
            try:
                self._work_once()
            except Exception as error:
                if (reason := self._why_it_ends(error)) is not None:
                    raise SettingsError(reason) from error
                if self._counters.sent.total() > committed:
                    pause = _FIRST_PAUSE
                _logger.warning(
                    "Kafka failed, the worker starts anew in %g s and continues at its last commit: %s", pause, error
                )
                self._listen_to_signals()
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _work_once(self) -> None:
        settings = self._settings
        found = partitions_of(settings, self._options)
        create_missing(settings, self._options, found)
        partitions = number_of_partitions(settings, found)
        self._worker = StreamWorker(
            settings,
            self._context,
            options=self._options,
            partitions=partitions,
            folder=self._folder,
            instance=f"{socket.gethostname()}-{os.getpid()}",
            coverage=self._coverage,
            counters=self._counters,
            foreign_scores=self._foreign_scores,
        )
        self._counters.starts += 1
        read, written = ", ".join(settings.topics.read()), ", ".join(settings.topics.written())
        _logger.info(
            "reads %s and writes %s",
            read,
            written,
            extra={
                "brokers": ",".join(settings.kafka.brokers),
                "group": settings.kafka.group,
                "partitions": partitions,
                "guarantee": settings.kafka.guarantee,
                "state": str(self._folder),
                "goldens": len(self._context.goldens.goldens),
            },
        )
        notify_systemd("READY=1")
        try:
            self._worker.run()
        finally:
            self._worker = None
        self._stopped.set()  # Quix ends by a signal, and for no other reason

    def _why_it_ends(self, error: Exception) -> str | None:
        """Return what is wrong and what to do; None for failures that pass."""
        full = _is_disk_full(error)
        if full or isinstance(error, StateUnusableError):
            found = "the disk is full" if full else f"the state cannot be used: {error}"
            return (
                f"state.folder: {self._folder}: {found}. Nothing is lost: the changelog topics have the state, and "
                "other workers take the partitions over. Free space or name another folder, and start this worker again"
            )
        if isinstance(error, InvalidStoreChangelogOffset):
            return (
                f"state.folder: {self._folder}: its state is newer than the changelog topics, which were created anew. "
                "Remove the folder, and start this worker again"
            )
        if isinstance(error, SettingsError):
            return None if self._counters.starts else str(error)
        if isinstance(error, KafkaException | QuixException | RuntimeError):  # Quix raises RuntimeError in rebalances
            return None
        _logger.error("the worker ends by an error that is its own", exc_info=error)
        return f"{type(error).__name__}: {error}"

    def _on_signal(self, *_: object) -> None:
        self._stopped.set()
        if self._worker is not None:
            self._worker.stop()

    def _on_reload(self, *_: object) -> None:
        self._file_watch.reload_soon()

    def _listen_to_signals(self) -> None:
        """Take signals again: Quix has taken them while it ran."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    # Admin pages.

    def _admin_pages(self, tokens: list[str]) -> Admin:
        return Admin(
            tokens=BearerTokens(tokens),
            metrics=MetricsPage(self._metrics, help_texts=STREAM_HELP),
            coverage=self._coverage_page,
            not_ready_reason=self._not_ready_reason,
            warning=self._golden_files.warning,
        )

    def _not_ready_reason(self) -> str | None:
        worker = self._worker
        return "Kafka failed, the worker starts anew soon" if worker is None else worker.not_ready_reason()

    def _coverage_page(self) -> Mapping[str, Any]:
        worker = self._worker
        counts = self._coverage.document(0 if worker is None else worker.sessions_without_golden, ())
        return {**counts, "golden_files": self._golden_files.document()}

    def _metrics(self) -> Iterator[Sample]:
        counters = self._counters
        counted = {
            ("goldspan_stream_read_records_total", "topic"): counters.read,
            ("goldspan_stream_sent_records_total", "topic"): counters.sent,
            ("goldspan_stream_dead_letters_total", "topic"): counters.dead_letters,
            ("goldspan_stream_too_large_total", "topic"): counters.too_large,
            ("goldspan_removed_scores_total", "signal"): counters.removed_scores,
        }
        for (name, label), counter in counted.items():
            for value, count in counter.copy().items():
                yield name, {label: value}, count
        yield "goldspan_info", {"version": scope_version()}, 1
        yield "goldspan_stream_starts_total", {}, counters.starts
        yield "goldspan_stream_recovery_seconds_total", {}, counters.recovery_seconds
        yield from self._coverage.samples()
        yield from self._reloader.metrics()
        yield from self._file_watch.metrics()
        if (worker := self._worker) is not None:
            yield from worker.metrics()


class _AdminThread:
    """The server of the admin pages, in a thread with an event loop of its own."""

    def __init__(self, application: Admin, settings: StreamSettings) -> None:
        self._listen = settings.admin.listen or ListenAddress("127.0.0.1", 0)
        self._server = HttpServer(application, self._listen, RequestLimits(), settings.admin.tls)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="goldspan-admin", daemon=True)

    def start(self) -> None:
        """Listen. Raises SettingsError if the address cannot be used."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result()
        address = str(ListenAddress(self._listen.host, self._server.port))
        _logger.info("listening", extra={"server": "admin", "address": address})

    def stop(self) -> None:
        if self._server.port:
            asyncio.run_coroutine_threadsafe(self._server.stop(1.0), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


def make_private(folder: Path) -> None:
    """Make a folder, with all in it, readable by its owner alone. Raises SettingsError if that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        raise SettingsError(f"state.folder: {folder}: {error.strerror or error}") from None


def _is_disk_full(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if "No space left" in text or (isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def run_stream(settings: StreamSettings, environ: Mapping[str, str]) -> None:
    """Run a worker until a signal. Raises FileError and SettingsError."""
    raise_open_files()
    warn_of_slow_protobuf()
    os.umask(0o077)  # RocksDB has no modes of its own
    StreamServer(settings, environ).run()
