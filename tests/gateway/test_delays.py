"""How long deliveries took, as the numbers of `/metrics` say."""

from __future__ import annotations

import time

from goldspan.collector_processor.gateway.interfaces import Accepted, Delivered, DeliveryResult, ExportRequest, Retry
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import Backoff, PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import DurationHistogram
from goldspan.scoring.goldens import load_goldens
from rigs.pipeline_rig import Downstream
from rigs.waiting import until


def test_delays_are_counted_in_buckets_each_with_those_below() -> None:
    delays = DurationHistogram()
    for seconds in (0.01, 0.2, 0.3, 7_200.0):
        delays.add(seconds)
    found = {(name, labels.get("le")): value for name, labels, value in delays.samples("d")}
    assert [found["d_bucket", le] for le in ("0.01", "0.1", "0.5", "3600.0", "+Inf")] == [1, 1, 3, 3, 4]
    assert (found["d_sum", None], found["d_count", None]) == (7_200.51, 4)


def test_a_delay_is_from_the_first_attempt_to_the_answer() -> None:
    attempts: list[float] = []

    def answer(request: ExportRequest) -> DeliveryResult:
        attempts.append(time.monotonic())
        return Retry(None, "away") if attempts[-1] < attempts[0] + 0.3 else Delivered()

    pipeline = GatewayPipeline(
        load_goldens({"format": 1, "golden_set": "g", "goldens": []}),
        Downstream(answer),
        PipelineSettings(backoff=Backoff(initial=0.02, longest=0.05)),
    )
    assert pipeline.accept(ExportRequest(Signal.METRICS, b"")) == Accepted()

    def seconds(what: str) -> float:
        return next(value for name, _, value in pipeline.metrics() if name == f"goldspan_delivery_delay_seconds_{what}")

    until(lambda: seconds("count") == 1)
    assert 0.2 < seconds("sum") < 30
    assert pipeline.drain(10.0)
