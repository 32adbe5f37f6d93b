"""What the log and the numbers say of a next receiver that does not take requests."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, OutageLog, PendingRequest
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, ExportRequest, Refused, Retry
from goldspan.collector_processor.gateway.settings.sections import Backoff
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.process import GuardedThread, thread_metrics, why_not_running
from rigs.pipeline_rig import Downstream
from rigs.waiting import until

BACKEND, OTHER = "http://collector:4318", "http://localhost:4320"
AWAY = Retry(None, "ConnectionRefusedError: [Errno 111] Connection refused")


class Log:
    """An outage log, its clock, and what it said."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 0.0
        self._caplog = caplog
        caplog.set_level(logging.INFO, "goldspan.gateway")
        addresses = {Signal.TRACES: BACKEND, Signal.LOGS: BACKEND, Signal.METRICS: OTHER}
        self._outages = OutageLog(addresses, lambda: self.now)

    def note(self, result: DeliveryResult, signal: Signal = Signal.TRACES, waiting: int = 0) -> None:
        self._outages.note(signal, result, waiting, 100 * waiting)

    @property
    def lines(self) -> list[Any]:
        return [(one.levelname, vars(one).get("address")) for one in self._caplog.records]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def test_an_outage_is_one_warning_and_its_end_one_line(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.note(Delivered())
    assert log.lines == []
    for signal in (Signal.TRACES, Signal.LOGS, Signal.TRACES):
        log.note(AWAY, signal)
        log.now += 15
    log.note(Delivered(), waiting=7)
    log.note(Delivered())
    assert log.lines == [("WARNING", BACKEND), ("INFO", BACKEND)]
    began, over = (vars(one) for one in caplog.records)
    assert "Connection refused" in began["error"]
    assert (over["seconds"], over["waiting_requests"], over["waiting_bytes"]) == (45.0, 7, 700)


def test_each_address_has_its_own(log: Log) -> None:
    log.note(AWAY)
    log.note(AWAY, Signal.METRICS)
    log.note(Delivered(), Signal.METRICS)
    assert log.lines == [("WARNING", BACKEND), ("WARNING", OTHER), ("INFO", OTHER)]


def test_a_backend_that_flaps_does_not_flood_the_log(log: Log) -> None:
    for _ in range(600):
        log.note(AWAY)
        log.now += 0.5
        log.note(Delivered())
        log.now += 0.5
    assert log.lines == [("WARNING", BACKEND), ("INFO", BACKEND)] * 10


def test_an_outage_that_began_soon_after_another_is_told_once_it_lasts(log: Log) -> None:
    log.note(AWAY)
    log.note(Delivered())
    log.now = 5
    log.note(AWAY)
    log.now = 70
    log.note(AWAY)
    log.note(Delivered())
    assert log.lines == [("WARNING", BACKEND), ("INFO", BACKEND)] * 2


@pytest.mark.parametrize("result", [Refused("HTTP 400: bad"), Delivered(3, "too old")])
def test_refused_data_is_a_warning_once_a_minute(
    log: Log, caplog: pytest.LogCaptureFixture, result: DeliveryResult
) -> None:
    for _ in range(120):
        log.note(result)
        log.now += 1
    assert log.lines == [("WARNING", BACKEND)] * 2
    assert vars(caplog.records[0])["error"] in {"HTTP 400: bad", "3 rejected: too old"}


def dispatcher_to(exporter: Any, now: Any, failures: list[str]) -> Dispatcher:
    return Dispatcher(
        exporter,
        lambda pending, result: None,
        threads=2,
        max_memory=1 << 20,
        backoff=Backoff(initial=0.001, longest=0.002),
        now=now,
        random=Random(0),
        on_failure=lambda name, error: failures.append(f"{name}: {error}"),
    )


def test_waiting_without_a_delivery_is_measured_by_signal() -> None:
    clock, away = [100.0], [True]
    downstream = Downstream(lambda request: AWAY if away[0] and request.signal is Signal.TRACES else Delivered())
    dispatcher = dispatcher_to(downstream, lambda: clock[0], [])
    for signal in (Signal.TRACES, Signal.LOGS):
        dispatcher.put(PendingRequest(signal, (), 1, b"x"))
    dispatcher.start()
    until(lambda: dispatcher.waiting == 1)
    clock[0] = 145.0
    dispatcher.put(PendingRequest(Signal.LOGS, (), 1, b"x"))
    until(lambda: dispatcher.waiting == 1)
    assert dict(dispatcher.stalled_seconds()) == {Signal.TRACES: 45.0, Signal.LOGS: 0.0, Signal.METRICS: 0.0}
    away[0] = False
    clock[0] = 200.0
    dispatcher.put(PendingRequest(Signal.TRACES, (), 1, b"x"))
    until(lambda: dispatcher.waiting == 0)
    assert set(dict(dispatcher.stalled_seconds()).values()) == {0.0}
    dispatcher.close(1.0)


@pytest.mark.parametrize("error", [TypeError("a bug"), MemoryError(), SystemExit(3), RecursionError()])
def test_an_exporter_that_raises_neither_loses_the_request_nor_ends_the_thread(error: BaseException) -> None:
    failures: list[str] = []
    left = [20]

    def answer(_: ExportRequest) -> DeliveryResult:
        if left[0]:
            left[0] -= 1
            raise error
        return Delivered()

    downstream = Downstream(answer)
    ticks = iter(range(10**9))
    dispatcher = dispatcher_to(downstream, lambda: float(next(ticks)), failures)
    for _ in range(5):
        dispatcher.put(PendingRequest(Signal.TRACES, (), 1, b"x"))
    dispatcher.start()
    until(lambda: len(downstream.requests) == 5)
    assert all(thread.runs for thread in dispatcher.threads)
    assert failures == [f"delivery: {error}"] * 20
    dispatcher.close(1.0)


def test_a_thread_goes_on_after_a_failure_and_tells_meanwhile_that_it_does_not_run() -> None:
    failures: list[str] = []
    calls: list[int] = []
    threads: list[GuardedThread] = []

    def loop() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise SystemExit("no")
        until(lambda: len(calls) > 3)

    def on_failure(name: str, error: BaseException) -> None:
        failures.append(f"{name}: {error}; {why_not_running(threads)}")
        raise OSError("the report itself fails")

    threads.append(GuardedThread("engine", loop, on_failure))
    assert why_not_running(threads) == "threads that failed and do not run now: engine"
    threads[0].start()
    until(lambda: len(calls) == 3)
    assert why_not_running(threads) is None
    assert [value for _, _, value in thread_metrics(threads)] == [1, 1]
    assert failures == ["engine: no; threads that failed and do not run now: engine"] * 2
    calls.append(1)
    threads[0].join(5)
    assert threads[0].has_ended
    assert [value for _, _, value in thread_metrics(threads)] == [1, 0]
