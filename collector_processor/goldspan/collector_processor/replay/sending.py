"""Results of a replay sent on: to an OTLP endpoint, and as scores to Phoenix, MLflow or Langfuse."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Sequence
from importlib.util import find_spec

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from goldspan.collector_processor.emit.emitters import EventEmitter, MetricEmitter
from goldspan.collector_processor.emit.evaluation import Evaluation, source_attributes
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.replay.replay import Consumer
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.errors import SettingsError

_PATIENCE_SECONDS = 15.0  # how long a span may be unknown to a back-end
_CLOSE_SECONDS = 30.0
_MOST_WAITING = 2_000  # scores that wait at once, before the replay waits itself
_BATCH = 512
_NEVER_MS = 86_400_000.0


@contextlib.contextmanager
def sending(
    otlp_endpoint: str | None, sinks: Sequence[tuple[str, str]], complaints: list[object], *, otlp_metrics: bool
) -> Generator[list[Consumer]]:
    """Give what takes evaluations and sends them on while the block runs; what was not taken is a complaint.

    `sinks` are kinds of back-ends and their addresses.
    """
    with contextlib.ExitStack() as destinations:
        consumers: list[Consumer] = []
        if otlp_endpoint is not None:
            sender = _to_otlp(otlp_endpoint, complaints, metrics=otlp_metrics)
            consumers.append(destinations.enter_context(sender))
        if sinks:
            consumers.append(destinations.enter_context(_to_sinks(sinks, complaints)))
        yield consumers


@contextlib.contextmanager
def _to_sinks(sinks: Sequence[tuple[str, str]], complaints: list[object]) -> Generator[Consumer]:
    if find_spec("urllib3") is None:
        raise SettingsError("--sink needs urllib3: pip install 'goldspan[sinks]'")
    # Imported when asked for, since they need the extra `sinks`.
    from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores  # noqa: PLC0415
    from goldspan.collector_processor.sinks.score_exporter import ScoreSinks  # noqa: PLC0415

    exporters = {"phoenix": PhoenixScores, "mlflow": MLflowScores, "langfuse": LangfuseScores}
    feeds = [ScoreSinks({kind: exporters[kind](endpoint, patience=_PATIENCE_SECONDS)}) for kind, endpoint in sinks]

    def take(evaluation: Evaluation) -> None:
        for feed in feeds:
            feed.put([evaluation])
            feed.flush_above(_MOST_WAITING, _PATIENCE_SECONDS)

    try:
        yield take
    finally:
        for (kind, endpoint), feed in zip(sinks, feeds, strict=True):
            feed.close(_CLOSE_SECONDS)
            exporter = feed.exporters[kind]
            if exporter.dropped:
                count = f"{exporter.dropped} of {exporter.dropped + exporter.delivered} scores"
                complaints.append(f"{kind} at {endpoint} did not take {count}")


@contextlib.contextmanager
def _to_otlp(endpoint: str, complaints: list[object], *, metrics: bool) -> Generator[Consumer]:
    results = _OtlpResults(endpoint, metrics=metrics)
    try:
        yield results.take
    finally:
        points_lost = not results.close()
    sent, lost = results.events.sent, results.events.lost
    what = [f"{lost} of {sent + lost} events"] if lost else []
    what += ["the metrics"] if points_lost else []
    if what:
        complaints.append(f"{endpoint} did not take {' and '.join(what)}; expected an OTLP/HTTP receiver there")


class _OtlpResults:
    """Sends evaluations to `{endpoint}/v1/logs` and, with `metrics`, to `{endpoint}/v1/metrics`.

    Headers, certificates and timeouts are taken from the `OTEL_EXPORTER_OTLP_*` variables, as in any exporter.
    """

    def __init__(self, endpoint: str, *, metrics: bool) -> None:
        # What goes wrong is said once, at the end, in our own words.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self.events = _Counted(OTLPLogExporter(Signal.LOGS.url(endpoint)))
        # One processor for all sources: each has a resource of its own, and with it a provider.
        self._processor = BatchLogRecordProcessor(
            self.events, schedule_delay_millis=_NEVER_MS, max_export_batch_size=_BATCH, max_queue_size=4 * _BATCH
        )
        self._emitters: dict[ResourceFacts, EventEmitter] = {}
        self._waiting = 0
        self._meters: MeterProvider | None = None
        self._points: MetricEmitter | None = None
        if metrics:
            exporter = OTLPMetricExporter(Signal.METRICS.url(endpoint))
            reader = PeriodicExportingMetricReader(exporter, export_interval_millis=_NEVER_MS)
            self._meters = MeterProvider([reader], shutdown_on_exit=False)
            self._points = MetricEmitter(self._meters)

    def take(self, evaluation: Evaluation) -> None:
        """Send one evaluation, some time before `close` returns."""
        self._emitter(evaluation.resource).emit(evaluation)
        if self._points is not None:
            self._points.record((evaluation,))
        self._waiting += 1
        if self._waiting >= _BATCH:
            self._processor.force_flush()
            self._waiting = 0

    def close(self) -> bool:
        """Send what still waits, and return whether the metric points were taken."""
        self._processor.force_flush()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        if self._meters is None:
            return True
        taken = self._meters.force_flush()
        self._meters.shutdown()
        return taken

    def _emitter(self, source: ResourceFacts) -> EventEmitter:
        if source not in self._emitters:
            provider = LoggerProvider(Resource(source_attributes(source)), shutdown_on_exit=False)
            provider.add_log_record_processor(self._processor)
            self._emitters[source] = EventEmitter(provider)
        return self._emitters[source]


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
