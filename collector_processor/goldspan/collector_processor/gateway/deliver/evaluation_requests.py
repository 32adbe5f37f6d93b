"""The metric points of evaluations as OTLP requests."""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import MetricEmitter
from goldspan.collector_processor.emit.evaluation import Evaluation

_SERVICE = "goldspan-gateway"


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
        self._emitter.record(evaluations)

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
