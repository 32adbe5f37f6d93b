"""What the in-process door costs the agent: on the thread that ends spans, and in CPU altogether."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.harness import ATTEMPTS, PROCESS_CPU, ROUNDS, THREAD_CPU, Comparison, Subject, compare, pin, print_table
from benchmarks.sink import sink
from benchmarks.traffic import SCOPE, SessionPlan, golden_set, plan_sessions, play
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.scoring import GoldenIndex, load_goldens

SESSIONS = 24
"""In one slice: 816 spans, so that the batch thread wakes while they are made."""
RESOURCE = Resource({"service.name": "travel"})


class NoExport(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def session_ids(number: int) -> list[str]:
    """The ids of one slice's sessions."""
    return [f"s-{number}-{index}" for index in range(SESSIONS)]


def goldens_for_half_of_the_sessions() -> GoldenIndex:
    """Make goldens that want every other session of every slice."""
    wanted: list[SessionPlan] = []
    for number in range(ATTEMPTS * (ROUNDS + 1)):
        wanted += plan_sessions(session_ids(number))[::2]
    return load_goldens(golden_set(wanted))


class Agent:
    """A tracer provider over one processor, through which the same traffic is played slice after slice."""

    def __init__(self, name: str, processor: SpanProcessor, *, agent: bool = True) -> None:
        self.name = name
        self.provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer(SCOPE)
        self._numbers = itertools.count()
        self._agent = agent
        self._sessions: tuple[SessionPlan, ...] = ()
        self.plan()

    def plan(self) -> None:
        """Get the next slice's traffic ready: sessions never seen before, with the same calls."""
        self._sessions = plan_sessions(session_ids(next(self._numbers)), agent=self._agent)

    @property
    def spans(self) -> int:
        """Spans in one slice."""
        return sum(map(len, self._sessions))

    def play(self) -> None:
        """Start and end the spans of a slice."""
        for session in self._sessions:
            for turn in session.turns:
                play(self._tracer, turn)

    def flush(self) -> None:
        """Have the batch thread export what there is."""
        self.provider.force_flush()


def on_the_callers_thread(title: str, goldens: GoldenIndex, *, agent: bool) -> Comparison:
    """Start and end spans; only what the thread that does so pays is counted, exporting is done between slices."""

    def subject(name: str, processor: SpanProcessor) -> Subject:
        made = Agent(name, processor, agent=agent)
        agents.append(made)
        return Subject(name, made.play, before=made.plan, after=made.flush)

    agents: list[Agent] = []
    try:
        return compare(
            title,
            item="span",
            reference=subject("BatchSpanProcessor", BatchSpanProcessor(NoExport())),
            control=subject("BatchSpanProcessor", BatchSpanProcessor(NoExport())),
            candidates=[
                subject(
                    "ToolParameterMatchSpanProcessor", ToolParameterMatchSpanProcessor(NoExport(), goldens=goldens)
                ),
            ],
            items=agents[0].spans,
            clock=THREAD_CPU,
        )
    finally:
        for made in agents:
            made.provider.shutdown()


@contextlib.contextmanager
def telemetry(url: str) -> Iterator[tuple[LoggerProvider, MeterProvider]]:
    """Where events and metrics go: by OTLP to the sink, too."""
    logs = LoggerProvider(RESOURCE, shutdown_on_exit=False)
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{url}/v1/metrics"))
    metrics = MeterProvider([reader], RESOURCE, shutdown_on_exit=False)
    try:
        yield logs, metrics
    finally:
        logs.shutdown()
        metrics.shutdown()


def altogether(title: str, goldens: GoldenIndex, url: str, *, agent: bool) -> Comparison:
    """Start, end, read, score and export spans over OTLP/HTTP; every thread of the process is counted."""

    def subject(name: str, processor: SpanProcessor, *flushes: Callable[[], object]) -> Subject:
        made = Agent(name, processor, agent=agent)
        agents.append(made)

        def play_and_export() -> None:
            made.play()
            made.flush()
            for flush in flushes:
                flush()

        return Subject(name, play_and_export, before=made.plan)

    agents: list[Agent] = []
    with telemetry(url) as (logs, metrics):
        try:
            return compare(
                title,
                item="span",
                reference=subject("BatchSpanProcessor", BatchSpanProcessor(OTLPSpanExporter(f"{url}/reference"))),
                control=subject("BatchSpanProcessor", BatchSpanProcessor(OTLPSpanExporter(f"{url}/control"))),
                candidates=[
                    subject(
                        "goldspan, spans alone",
                        ToolParameterMatchSpanProcessor(OTLPSpanExporter(f"{url}/spans"), goldens=goldens),
                    ),
                    subject(
                        "goldspan, events and metrics too",
                        ToolParameterMatchSpanProcessor(
                            OTLPSpanExporter(f"{url}/all"),
                            goldens=goldens,
                            logger_provider=logs,
                            meter_provider=metrics,
                        ),
                        logs.force_flush,
                    ),
                ],
                items=agents[0].spans,
                clock=PROCESS_CPU,
                rounds=max(5, ROUNDS // 2),
            )
        finally:
            for made in agents:
                made.provider.shutdown()


def run() -> list[Comparison]:
    """Measure both costs, on an agent's traffic and on traffic without agents."""
    pin()
    goldens = goldens_for_half_of_the_sessions()
    with sink() as url:
        mix = "25 % chat, 25 % tools, 50 % HTTP, goldens for half the sessions"
        return [
            on_the_callers_thread(f"start and end a span, caller's thread CPU ({mix})", goldens, agent=True),
            on_the_callers_thread("start and end a span, caller's thread CPU (HTTP only)", goldens, agent=False),
            altogether(f"start, end and export by OTLP/HTTP, process CPU ({mix})", goldens, url, agent=True),
            altogether("start, end and export by OTLP/HTTP, process CPU (HTTP only)", goldens, url, agent=False),
        ]


if __name__ == "__main__":
    print_table(run())
