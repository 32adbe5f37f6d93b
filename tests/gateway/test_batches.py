"""Requests that leave together: the same spans, once each, and what one of them spoils spoils no other."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, PendingRequest
from goldspan.collector_processor.gateway.interfaces import (
    Accepted,
    Delivered,
    DeliveryResult,
    ExportRequest,
    Refused,
    Retry,
)
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import Backoff, PipelineSettings
from goldspan.collector_processor.gateway.worker import ReceivedBody
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import GoldenIndex
from rigs.gateway_rig import one_span
from rigs.pipeline_rig import QUICK, Downstream
from rigs.waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator

SOON = Backoff(initial=0.01, longest=0.02)
BODIES = [one_span(f"span {number}").SerializeToString() for number in range(30)]


@contextmanager
def gateway(downstream: Downstream, folder: Path, *, journal: bool = True) -> Generator[GatewayPipeline]:
    settings = PipelineSettings(
        engine=QUICK,
        batch_delay=0.1,
        backoff=SOON,
        journal=folder / "journal" if journal else None,
        dead_letters=folder / "letters",
    )
    pipeline = GatewayPipeline(GoldenIndex(()), downstream, settings)
    try:
        yield pipeline
    finally:
        assert pipeline.drain(20.0)


def send(pipeline: GatewayPipeline, *bodies: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
    for body in bodies:
        assert pipeline.accept(ExportRequest(Signal.TRACES, body, headers)) == Accepted()


def names(downstream: Downstream) -> list[str]:
    return sorted(span.name for span in downstream.spans())


ALL = sorted(f"span {number}" for number in range(30))


@pytest.mark.parametrize("journal", [True, False])
def test_small_requests_leave_together_as_they_came(tmp_path: Path, journal: bool) -> None:
    downstream = Downstream()
    with gateway(downstream, tmp_path, journal=journal) as pipeline:
        send(pipeline, *BODIES)
    assert b"".join(downstream.of(Signal.TRACES)) == b"".join(BODIES)
    assert len(downstream.requests) < 10
    assert pipeline.worker.outbox.delivered[Signal.TRACES] == len(BODIES)


def test_requests_of_two_tenants_never_leave_together(tmp_path: Path) -> None:
    downstream = Downstream()
    with gateway(downstream, tmp_path) as pipeline:
        for number, body in enumerate(BODIES):
            send(pipeline, body, headers=(("tenant", str(number % 2)),))
    for tenant in (0, 1):
        assert b"".join(downstream.of(Signal.TRACES, (("tenant", str(tenant)),))) == b"".join(BODIES[tenant::2])


def test_a_large_request_leaves_by_itself(tmp_path: Path) -> None:
    large = one_span("x" * (1 << 20)).SerializeToString()
    downstream = Downstream()
    with gateway(downstream, tmp_path) as pipeline:
        send(pipeline, *BODIES[:10], large, *BODIES[10:])
    assert large in downstream.of(Signal.TRACES)
    assert Counter(names(downstream)) == Counter([*ALL, "x" * (1 << 20)])


def test_a_refused_request_takes_no_other_with_it(tmp_path: Path) -> None:
    def answer(request: ExportRequest) -> DeliveryResult:
        return Refused("HTTP 400") if b"span 7" in request.body else Delivered()

    downstream = Downstream(answer)
    with gateway(downstream, tmp_path) as pipeline:
        send(pipeline, *BODIES)
    assert names(downstream) == [name for name in ALL if name != "span 7"]
    assert [path.read_bytes() for path in (tmp_path / "letters").glob("*.pb")] == [BODIES[7]]
    assert pipeline.worker.outbox.refused[Signal.TRACES] == 1


@pytest.mark.parametrize(("error", "arrives"), [(OSError("busy"), True), (BodyGoneError("gone"), False)])
def test_a_body_that_cannot_be_read_back_takes_no_other_with_it(error: Exception, arrives: bool) -> None:
    failures = iter([error] * (2 if arrives else 10))

    def unreadable() -> bytes:
        if failure := next(failures, None):
            raise failure
        return b"b"

    downstream, results = Downstream(), list[tuple[int, DeliveryResult]]()
    dispatcher = Dispatcher(
        downstream,
        lambda together, result: results.append((len(together), result)),
        threads=1,
        max_memory=1 << 20,
        backoff=SOON,
        now=time.monotonic,
        random=Random(0),
        on_failure=lambda name, error: None,
        batch_bytes=100,
    )
    loads = [lambda: b"a", unreadable, lambda: b"c"]
    dispatcher.put(*(PendingRequest(Signal.TRACES, (), 1, None, load) for load in loads))
    dispatcher.start()
    until(lambda: not dispatcher.waiting)
    dispatcher.close(1.0)
    assert sorted(b"".join(one.body for one in downstream.requests)) == sorted(b"abc" if arrives else b"ac")
    assert sum(isinstance(result, Refused) for _, result in results) == (not arrives)
    assert sum(count for count, _ in results) == 3


def test_what_a_receiver_away_did_not_take_arrives_once(tmp_path: Path) -> None:
    answers = iter([Retry(None, "away")] * 3)
    downstream = Downstream(lambda request: next(answers, Delivered()))
    with gateway(downstream, tmp_path) as pipeline:
        send(pipeline, *BODIES)
        until(lambda: len(downstream.spans()) == len(ALL))
    assert names(downstream) == ALL


def test_items_rejected_of_a_batch_are_counted_once_and_all_of_it_is_kept(tmp_path: Path) -> None:
    downstream = Downstream(lambda request: Delivered(rejected=3, message="too old"))
    with gateway(downstream, tmp_path) as pipeline:
        send(pipeline, *BODIES)
    assert pipeline.worker.outbox.rejected[Signal.TRACES] == 3 * len(downstream.requests)
    kept = [path.read_bytes() for path in (tmp_path / "letters").glob("*.pb")]
    assert sorted(kept) == sorted(BODIES)


def test_a_gateway_waits_after_a_request_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked at its clock again and again until the next request came."""
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        return time.time()

    settings = PipelineSettings(engine=QUICK, batch_delay=0.1, backoff=SOON)
    pipeline = GatewayPipeline(GoldenIndex(()), Downstream(), settings, now=now)
    receive = pipeline.worker.receive

    def receive_slowly(received: ReceivedBody, at: float) -> None:
        time.sleep(0.4)
        receive(received, at)

    monkeypatch.setattr(pipeline.worker, "receive", receive_slowly)
    send(pipeline, BODIES[0])
    until(lambda: pipeline.worker.outbox.delivered[Signal.TRACES] == 1)
    before = looks
    time.sleep(0.3)
    assert looks - before < 1_000
    assert pipeline.drain(20.0)
