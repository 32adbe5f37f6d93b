"""When a failed request is sent again: at most an hour later, whatever the back-end asks for."""

from __future__ import annotations

from random import Random

import pytest

from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, PendingRequest
from goldspan.collector_processor.gateway.interfaces import (
    Delivered,
    DeliveryResult,
    ExportRequest,
    OtlpResponse,
    RequestStatus,
    Retry,
    parse_retry_info,
    status_as_protobuf,
)
from goldspan.collector_processor.gateway.settings.sections import Backoff
from goldspan.collector_processor.otlp_signals import Signal
from rigs.waiting import until

HOUR = 3600.0


@pytest.mark.parametrize(("asked", "pause"), [(0.0, 0.0), (90.0, 90.0), (HOUR, HOUR), (HOUR + 1, HOUR), (1e300, HOUR)])
def test_retry_after_is_used_as_it_is_up_to_an_hour(asked: float, pause: float) -> None:
    assert Backoff(initial=1.0, longest=60.0).pause(1, asked, Random(0)) == pause


@pytest.mark.parametrize(("failures", "longest"), [(1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (10_000, 60.0)])
def test_without_it_the_pause_doubles_up_to_its_bound(failures: int, longest: float) -> None:
    random = Random(0)
    pauses = [Backoff(initial=1.0, longest=60.0).pause(failures, None, random) for _ in range(200)]
    assert longest / 2 <= min(pauses) <= max(pauses) <= longest
    assert max(pauses) - min(pauses) > longest / 5


@pytest.mark.parametrize("seconds", [0.25, 7.0, 1e6])
def test_retry_info_is_read_as_it_is_written(seconds: float) -> None:
    assert parse_retry_info(status_as_protobuf(OtlpResponse(RequestStatus.BUSY, "", seconds))) == seconds


@pytest.mark.parametrize("status", [None, b"", b"\xff", status_as_protobuf(OtlpResponse(RequestStatus.BUSY, "full"))])
def test_a_status_without_retry_info_asks_for_nothing(status: bytes | None) -> None:
    assert parse_retry_info(status) is None


class AsksForAYear:
    """An exporter whose back-end once asks for a pause of a year, for traces."""

    def __init__(self) -> None:
        self.attempts: list[Signal] = []

    def deliver(self, request: ExportRequest) -> DeliveryResult:
        self.attempts.append(request.signal)
        if self.attempts == [Signal.TRACES]:
            return Retry(365 * 24 * HOUR, "maintenance")
        return Delivered()

    def close(self) -> None:
        pass


def test_a_back_end_that_asks_for_a_year_is_tried_again_after_an_hour() -> None:
    exporter, clock = AsksForAYear(), [0.0]
    dispatcher = Dispatcher(
        exporter,
        lambda pending, result: None,
        threads=1,
        max_memory=1 << 20,
        backoff=Backoff(),
        now=lambda: clock[0],
        random=Random(0),
        on_failure=lambda name, error: None,
    )

    def put(signal: Signal) -> None:
        dispatcher.put(PendingRequest(signal, (), 1, b"x"))

    dispatcher.start()
    put(Signal.TRACES)
    until(lambda: dispatcher.retries[Signal.TRACES] == 1)
    clock[0] = HOUR - 1
    put(Signal.LOGS)  # wakes the thread, as the clock would
    until(lambda: dispatcher.waiting == 1)
    clock[0] = HOUR + 1
    put(Signal.LOGS)
    until(lambda: dispatcher.waiting == 0)
    dispatcher.close(1.0)
    assert exporter.attempts.count(Signal.TRACES) == 2
    assert exporter.attempts[:2] == [Signal.TRACES, Signal.LOGS]
