"""Evaluations as OTLP requests: events as log records, and metric points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes, source_attributes
from goldspan.collector_processor.emit.emitters import SCOPE, MetricEmitter, scope_version
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.gateway.encoded_spans import key_values
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

_SCOPE = {"name": SCOPE, "version": scope_version()}
"""Read at the start: later there may be no file descriptor left for it."""
_SAMPLED = 1
_SERVICE = "goldspan-gateway"
_64_BITS = 0xFFFFFFFFFFFFFFFF


def encoded_events(evaluations: Iterable[Evaluation], observed: int) -> bytes:
    """Return an `ExportLogsServiceRequest` with one event for each evaluation.

    An event has the resource and the span context of what was judged. `observed` is in nanoseconds since the epoch.
    """
    request = ExportLogsServiceRequest()
    by_source: dict[ResourceFacts, Any] = {}
    for evaluation in evaluations:
        source = evaluation.resource
        if (scope_logs := by_source.get(source)) is None:
            resource = {"attributes": key_values(source_attributes(source))}
            scope_logs = by_source[source] = request.resource_logs.add(resource=resource).scope_logs.add(scope=_SCOPE)
        scope_logs.log_records.append(_record(evaluation, observed))
    return request.SerializeToString()


def _record(evaluation: Evaluation, observed: int) -> LogRecord:
    return LogRecord(
        time_unix_nano=evaluation.timestamp & _64_BITS,
        observed_time_unix_nano=observed & _64_BITS,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        attributes=key_values(event_attributes(evaluation)),
        event_name=names.EVALUATION_RESULT,
        **_context(evaluation.target),
    )


def _context(target: SpanRef | None) -> dict[str, Any]:
    try:
        trace_id, span_id = (bytes.fromhex(part) for part in target or ())
    except ValueError:
        return {}
    return {"flags": _SAMPLED, "trace_id": trace_id, "span_id": span_id}


class TenantMetrics:
    """The metric points of one tenant, cumulative since the start of the process.

    Each request contains all points, so of several that wait to be delivered only the newest is needed.
    """

    def __init__(self, instance: str, service: str = _SERVICE) -> None:
        """`instance` distinguishes the points of this process from those of others of this service."""
        self._reader = InMemoryMetricReader()
        resource = Resource({names.SERVICE_NAME.name: service, "service.instance.id": instance})
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
