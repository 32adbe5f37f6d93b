"""Results of a replay sent to an OTLP/HTTP endpoint: an event for each, and metric points on request."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.events import EventEmitter
from goldspan.collector_processor.emit.metrics import MetricEmitter
from goldspan.mappers.facts import ResourceFacts

_BATCH = 512
_NEVER_MS = 86_400_000.0


class OtlpResults:
    """Sends evaluations to `{endpoint}/v1/logs` and, with `metrics`, to `{endpoint}/v1/metrics`.

    Headers, certificates and timeouts are taken from the `OTEL_EXPORTER_OTLP_*` variables, as in any exporter.
    """

    def __init__(self, endpoint: str, *, metrics: bool) -> None:
        base = endpoint.rstrip("/").removesuffix("/v1/logs").removesuffix("/v1/metrics").removesuffix("/v1/traces")
        # What goes wrong is said once, at the end, in our own words.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = _Counted(OTLPLogExporter(f"{base}/v1/logs"))
        # One processor for all sources: each has a resource of its own, and with it a provider.
        self._processor = BatchLogRecordProcessor(
            self._exporter, schedule_delay_millis=_NEVER_MS, max_export_batch_size=_BATCH, max_queue_size=4 * _BATCH
        )
        self._events: dict[ResourceFacts, EventEmitter] = {}
        self._waiting = 0
        self._meters: MeterProvider | None = None
        self._points: MetricEmitter | None = None
        if metrics:
            reader = PeriodicExportingMetricReader(
                OTLPMetricExporter(f"{base}/v1/metrics"), export_interval_millis=_NEVER_MS
            )
            self._meters = MeterProvider([reader], shutdown_on_exit=False)
            self._points = MetricEmitter(self._meters)
        self.sent = 0
        self.lost = 0
        """Events that the endpoint did not take."""
        self.points_lost = False

    def take(self, evaluation: Evaluation) -> None:
        """Send one evaluation, some time before `close` returns."""
        self._emitter(evaluation.resource).emit(evaluation)
        if self._points is not None:
            self._points.record(evaluation)
        self._waiting += 1
        if self._waiting >= _BATCH:
            self._flush()

    def close(self) -> None:
        """Send what still waits."""
        self._flush()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        if self._meters is not None:
            self.points_lost = not self._meters.force_flush()
            self._meters.shutdown()
        self.sent, self.lost = self._exporter.sent, self._exporter.lost

    def _flush(self) -> None:
        self._processor.force_flush()
        self._waiting = 0

    def _emitter(self, source: ResourceFacts) -> EventEmitter:
        if source not in self._events:
            attributes = {
                names.SERVICE_NAME.name: source.service_name,
                names.ENVIRONMENT.name: source.environment,
            }
            resource = Resource({key: value for key, value in attributes.items() if value is not None})
            provider = LoggerProvider(resource, shutdown_on_exit=False)
            provider.add_log_record_processor(self._processor)
            self._events[source] = EventEmitter(provider)
        return self._events[source]


class _Counted(LogRecordExporter):
    """Counts what arrived; once the endpoint refused a batch it is not asked again, since each try takes seconds."""

    def __init__(self, inner: LogRecordExporter) -> None:
        self._inner = inner
        self.sent = 0
        self.lost = 0

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = LogRecordExportResult.FAILURE
        if not self.lost:
            # The contract of exporters allows them to raise anything.
            with contextlib.suppress(Exception):
                result = self._inner.export(batch)
        if result is LogRecordExportResult.SUCCESS:
            self.sent += len(batch)
        else:
            self.lost += len(batch)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)
