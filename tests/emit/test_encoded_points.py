"""Points as bytes, beside what the SDK collects and encodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import MeterProvider as AnyMeterProvider
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider, export
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit.emitters import SCOPE, MetricEmitter, scope_version
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.names import SCHEMA_URL
from goldspan.collector_processor.emit.otlp_encoding import EncodedPoints
from goldspan.scoring.goldens import GoldenIndex
from rigs import evaluation_examples as given
from rigs.recorded_evaluations import WRONG, evaluations_of
from rigs.repository import RECORDING_NAMES

RESOURCE = {"service.name": "gateway", "service.instance.id": "one"}
Play = Callable[[AnyMeterProvider], object]


def both(play: Play) -> tuple[ExportMetricsServiceRequest, ExportMetricsServiceRequest]:
    """What is encoded of the same measurements, by the SDK and by goldspan."""
    reader = InMemoryMetricReader()
    sdk = MeterProvider([reader], Resource(RESOURCE), shutdown_on_exit=False)
    ours = EncodedPoints(RESOURCE, count(1).__next__)
    play(sdk)
    play(ours)
    data = reader.get_metrics_data()
    assert data is not None
    return plain(encode_metrics(data)), plain(ExportMetricsServiceRequest.FromString(ours.encoded()))


def plain(request: ExportMetricsServiceRequest) -> ExportMetricsServiceRequest:
    """Without times and exemplars, and in one order."""
    for scope in (scope for resource in request.resource_metrics for scope in resource.scope_metrics):
        metrics = sorted(scope.metrics, key=lambda metric: metric.name)
        del scope.metrics[:]
        scope.metrics.extend(metrics)
        for metric in scope.metrics:
            points: Any = getattr(metric, str(metric.WhichOneof("data"))).data_points
            for point in points:
                point.ClearField("start_time_unix_nano")
                point.ClearField("time_unix_nano")
                point.ClearField("exemplars")
                attributes = sorted(point.attributes, key=lambda pair: pair.key)
                del point.attributes[:]
                point.attributes.extend(attributes)
                if hasattr(point, "sum"):
                    point.sum = round(point.sum, 9)
    return request


NEWEST = hasattr(export, "CardinalityLimits")
"""Older SDKs have no limit of attribute sets and record what is not finite."""


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_points_are_those_of_the_sdk(recording: str) -> None:
    evaluations = [one for goldens in (WRONG, GoldenIndex(sample=1.0)) for one in evaluations_of(recording, goldens)]

    def record(provider: AnyMeterProvider) -> None:
        emitter = MetricEmitter(provider)
        for start in range(0, len(evaluations), 7):
            emitter.record(evaluations[start : start + 7])
        emitter.record_no_golden(3)

    expected, found = both(record)
    assert found == expected


def test_unusual_measurements_are_those_of_the_sdk() -> None:
    def record(provider: AnyMeterProvider) -> None:
        meter = provider.get_meter(SCOPE, scope_version(), schema_url=SCHEMA_URL)
        histogram = meter.create_histogram("h", explicit_bucket_boundaries_advisory=[0.0, 0.5, 1.0])
        for amount in (0.0, 0.5, 0.50001, 1.0, 7.5, -1.0, *([math.nan, math.inf] if NEWEST else ())):
            histogram.record(amount, {"text": "Zürich"})
        meter.create_histogram("default", "ms", "ü").record(7, {})
        counter = meter.create_counter("c", unit="1")
        for number in range(2010 if NEWEST else 1990):
            counter.add(2, {"n": number})

    expected, found = both(record)
    assert found == expected


def test_a_point_leads_to_the_spans_that_were_judged_since_it_was_last_sent() -> None:
    provider = EncodedPoints(RESOURCE, count(1).__next__)
    emitter = MetricEmitter(provider)

    def exemplars(*evaluations: Evaluation) -> list[str]:
        emitter.record(evaluations)
        request = ExportMetricsServiceRequest.FromString(provider.encoded())
        metrics = request.resource_metrics[0].scope_metrics[0].metrics
        points = next(one.histogram.data_points for one in metrics if one.name == "tool_parameter_match.score")
        return [one.span_id.hex() for point in points for one in point.exemplars]

    assert exemplars(given.evaluation(given.ALIGNED)) == [given.TOOL_SPAN.span_id]
    assert exemplars(given.evaluation(given.ALIGNED, target=None)) == []
    assert exemplars() == []
    assert provider.encoded() != b""


def test_nothing_is_encoded_of_nothing() -> None:
    assert EncodedPoints(RESOURCE, count(1).__next__).encoded() == b""
