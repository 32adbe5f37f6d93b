"""Evaluations as OTLP requests: events as log records, encoded here, and metric points, encoded by the SDK."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.instrumentation import SCOPE, scope_version
from goldspan.collector_processor.emit.metrics import MetricEmitter
from goldspan.collector_processor.gateway.encoded_spans import field, fixed32, fixed64, key_values, number_field
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

_INFO = 9
"""`SEVERITY_NUMBER_INFO`."""
_SAMPLED = 1
_SERVICE = "goldspan-gateway"


def encoded_events(evaluations: Iterable[Evaluation], observed: int) -> bytes:
    """Return an `ExportLogsServiceRequest` with one event for each evaluation.

    An event has the resource and the span context of what was judged. `observed` is in nanoseconds since the epoch.
    """
    by_source: dict[ResourceFacts, list[bytes]] = {}
    for evaluation in evaluations:
        by_source.setdefault(evaluation.resource, []).append(field(2, _record(evaluation, observed)))
    return b"".join(
        [
            field(1, field(1, _resource(source)) + field(2, _scope() + b"".join(records)))
            for source, records in by_source.items()
        ]
    )


@cache
def _scope() -> bytes:
    return field(1, field(1, SCOPE.encode()) + field(2, scope_version().encode()))


def _record(evaluation: Evaluation, observed: int) -> bytes:
    return (
        fixed64(1, evaluation.timestamp)
        + number_field(2, _INFO)
        + key_values(6, event_attributes(evaluation))
        + _context(evaluation.target)
        + fixed64(11, observed)
        + field(12, names.EVALUATION_RESULT.encode())
    )


def _context(target: SpanRef | None) -> bytes:
    try:
        trace_id, span_id = (bytes.fromhex(part) for part in target or ())
    except ValueError:
        return b""
    return fixed32(8, _SAMPLED) + field(9, trace_id) + field(10, span_id)


def _resource(source: ResourceFacts) -> bytes:
    attributes = {names.SERVICE_NAME.name: source.service_name, names.ENVIRONMENT.name: source.environment}
    return key_values(1, {key: value for key, value in attributes.items() if value is not None})


class TenantMetrics:
    """The metric points of one tenant, cumulative since the start of the process.

    Each request contains all points, so of several that wait to be delivered only the newest is needed.
    """

    def __init__(self, instance: str) -> None:
        """`instance` distinguishes the points of this process from those of other gateways."""
        self._reader = InMemoryMetricReader()
        resource = Resource({names.SERVICE_NAME.name: _SERVICE, "service.instance.id": instance})
        self._meters = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        self._emitter = MetricEmitter(self._meters)

    def record(self, evaluations: Iterable[Evaluation]) -> None:
        """Count evaluations."""
        for evaluation in evaluations:
            self._emitter.record(evaluation)

    def record_without_golden(self, sessions: int) -> None:
        """Count sessions that no golden wants."""
        self._emitter.record_no_golden(sessions)

    def encoded(self) -> bytes:
        """Return an `ExportMetricsServiceRequest` with every point; empty without points."""
        data = self._reader.get_metrics_data()
        return b"" if data is None else encode_metrics(data).SerializeToString()

    def close(self) -> None:
        """Shut the instruments down."""
        self._meters.shutdown()
