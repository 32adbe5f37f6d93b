"""A tracer provider with the in-process door on it, and everything that leaves it, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.mappers.dialect_registry import DialectRegistry
from rigs.scripted_agent import PARIS, ROME, Call, golden, golden_set, run_turn

SETTLE = 0.05


class Inner(SpanExporter):
    """Keeps what it is given, and notices when two threads come at once."""

    def __init__(self) -> None:
        self.batches: list[list[ReadableSpan]] = []
        self.calls: list[str] = []
        self.inside = 0
        self.most_inside = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.calls.append("export")
        self.batches.append(list(spans))
        self.inside -= 1
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.calls.append("force_flush")
        return True

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span for batch in self.batches for span in batch]


class Rig:
    """A door between a simple processor, which exports as spans end, and an exporter in memory."""

    def __init__(self, inner: Any, **options: Any) -> None:
        self.inner: Inner = inner
        self._logs = InMemoryLogRecordExporter()
        self._reader = InMemoryMetricReader()
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        chosen = {
            "goldens": golden_set(golden("wanted", [PARIS])),
            "settle": SETTLE,
            "emit": "all",
            "logger_provider": self.logger_provider,
            "meter_provider": self.meter_provider,
        }
        self.door = ToolParameterMatchExporter(inner, **{**chosen, **options})
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.door))
        self.tracer = self.tracer_provider.get_tracer("agent")

    def turn(self, session: str | None = "wanted", calls: Sequence[Call] = (ROME,)) -> None:
        run_turn(self.tracer, session, calls)

    def exported(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.inner.spans}

    def score(self, span_name: str) -> object:
        return scores(self.exported()[span_name]).get("tool_parameter_match.score")

    def events(self) -> list[Any]:
        return [entry.log_record for entry in self._logs.get_finished_logs()]

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def counted(self, name: str) -> dict[object, int]:
        return {point.attributes.get("goldspan.reason"): point.value for point in self.points(name)}

    def close(self) -> None:
        self.tracer_provider.shutdown()
        self.logger_provider.shutdown()
        self.meter_provider.shutdown()


MakeRig = Callable[..., Rig]
Logged = Callable[[], list[str]]


def recorded(play: Any) -> list[ReadableSpan]:
    """What an agent's spans are, in the order in which they end."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    play(provider.get_tracer("agent"))
    return list(memory.get_finished_spans())


class Counting(DialectRegistry):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_spans: list[str] = []

    def read(self, view: Any, *, content: bool = True) -> Any:
        self.read_spans.append(view.name)
        return super().read(view, content=content)


def scores(span: ReadableSpan) -> dict[str, object]:
    """Goldspan's attributes of a span."""
    return {key: value for key, value in (span.attributes or {}).items() if key.startswith("tool_parameter_match.")}
