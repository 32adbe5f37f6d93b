"""What the in-process door costs the agent: on the thread that ends spans, and in CPU altogether."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.harness import (
    ATTEMPTS,
    PROCESS_CPU,
    ROUNDS,
    THREAD_CPU,
    Comparison,
    Subject,
    compare,
    nothing,
    pin,
    print_tables,
)
from benchmarks.sink import sink
from benchmarks.traffic import SCOPE, SessionPlan, golden_set, plan_sessions, play
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.in_process.otlp_span_exporter import OtlpSpanExporter
from goldspan.collector_processor.in_process.span_exporter import ExporterOptions, ToolParameterMatchExporter
from goldspan.collector_processor.in_process.span_pipeline import MAX_BATCH
from goldspan.scoring import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN

SESSIONS = 24
"""In one slice: 816 spans, so that the batch thread wakes while they are made."""
SETTLE = 0.02
RESOURCE = Resource({"service.name": "travel"})


class DoorOptions(ExporterOptions, total=False):
    """The options of a processor."""

    goldens: GoldenIndex


Candidate = tuple[str, DoorOptions | None]
"""Who sends spans, `SDK` or `goldspan`, and how they are scored; None: not at all."""


class NoExport(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class NoLogExport(LogRecordExporter):
    """Takes log records and does nothing with them."""

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def shutdown(self) -> None:
        pass


class Counted(SpanExporter):
    """Counts the spans that another exporter was given."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._spans += len(spans)
        return self._inner.export(spans)

    def take(self) -> int:
        """Return how many there were since the last call."""
        spans, self._spans = self._spans, 0
        return spans

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._inner.shutdown()


def sessions_of(number: int, *, agent: bool = True, content: bool = False) -> tuple[SessionPlan, ...]:
    """Plan the sessions of one slice, with ids and texts that no other slice has."""
    ids = [f"s-{number}-{index}" for index in range(SESSIONS)]
    return plan_sessions(ids, seed=number, agent=agent, content=content)


def goldens_for_one_session_in(many: int) -> GoldenIndex:
    """Make goldens that want one session in so many of every slice; of none, if that is more than there are."""
    wanted = [*plan_sessions(["nobody's"])]
    for number in range(ATTEMPTS * (ROUNDS + 1)):
        wanted += sessions_of(number)[many - 1 :: many]
    return load_goldens(golden_set(wanted))


class Agent:
    """A tracer provider over one processor, through which the same traffic is played slice after slice."""

    def __init__(self, processor: BatchSpanProcessor, *, agent: bool, content: bool = False) -> None:
        self.processor = processor
        self.provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer(SCOPE)
        self._numbers = itertools.count()
        self._agent = agent
        self._content = content
        self._sessions: tuple[SessionPlan, ...] = ()
        self.plan()

    def plan(self) -> None:
        """Get the next slice's traffic ready: sessions never seen before."""
        self._sessions = sessions_of(next(self._numbers), agent=self._agent, content=self._content)

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
        """Have everything exported, as at the end of the process."""
        self.provider.force_flush()

    def export(self) -> None:
        """Do what the batch thread does when its time has come, let what is held settle, and wait for the end of it."""
        BatchSpanProcessor.force_flush(self.processor)
        time.sleep(5 * SETTLE)
        self.flush()


def on_the_callers_thread(title: str, goldens: GoldenIndex, *, agent: bool) -> Comparison:
    """Start and end spans; only what the thread that does so pays is counted, exporting is done between slices."""

    def subject(name: str, processor: BatchSpanProcessor) -> Subject:
        made = Agent(processor, agent=agent)
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


def altogether(
    title: str, candidates: Mapping[str, Candidate], url: str, *, agent: bool, content: bool = False
) -> Comparison:
    """Start, end, read, score and export spans over OTLP/HTTP, and results; every thread of the process is counted.

    Turns and sessions settle at once instead of after seconds, so that they are scored in the slice that made them.
    """

    def exporter(sender: str = "SDK") -> Counted:
        to = f"{url}/{len(counters)}"
        counters.append(Counted(OtlpSpanExporter(to) if sender == "goldspan" else OTLPSpanExporter(to)))
        return counters[-1]

    def subject(name: str, processor: BatchSpanProcessor) -> Subject:
        made, counter = Agent(processor, agent=agent, content=content), counters[-1]
        agents.append(made)

        def play_and_export() -> None:
            made.play()
            made.export()
            # Events wait a second for others; here they leave in the slice that made them. What goldspan sends itself
            # has left with a flush of the door, and of its exporter where there is no door.
            logs.force_flush()
            counter.force_flush()

        def check() -> None:
            assert counter.take() == made.spans, "some spans were exported outside of their slice"

        return Subject(name, play_and_export, before=made.plan, after=check)

    def candidate(name: str, sender: str, options: DoorOptions | None) -> Subject:
        if options is None:
            return subject(name, BatchSpanProcessor(exporter(sender)))
        processor = ToolParameterMatchSpanProcessor(exporter(sender), **{**options, **soon, **signals})
        return subject(f"goldspan, {name}", processor)

    counters: list[Counted] = []
    agents: list[Agent] = []
    soon: ExporterOptions = {"settle": SETTLE, "run_idle": 2 * SETTLE}
    with telemetry(url) as (logs, metrics):
        signals: ExporterOptions = {"logger_provider": logs, "meter_provider": metrics}
        try:
            return compare(
                title,
                item="span",
                reference=subject("BatchSpanProcessor", BatchSpanProcessor(exporter())),
                control=subject("BatchSpanProcessor", BatchSpanProcessor(exporter())),
                candidates=[candidate(name, *one) for name, one in candidates.items()],
                items=agents[0].spans,
                clock=PROCESS_CPU,
                rounds=max(5, ROUNDS // 2),
            )
        finally:
            for made in agents:
                made.provider.shutdown()


class Recorded(SpanExporter):
    """Keeps the spans that ended since the last call of `take`."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._spans += spans
        return SpanExportResult.SUCCESS

    def take(self) -> list[ReadableSpan]:
        """Return these spans."""
        taken, self._spans = self._spans, []
        return taken


def door_only(title: str, candidates: Mapping[str, DoorOptions], *, content: bool) -> Comparison:
    """Read, score and emit spans that were made before, and export none of them; results stay in the process.

    Every slice has the spans of new sessions. An OTLP exporter's encoding of the same spans is the reference.
    """

    def subject(
        name: str, take: Callable[[Sequence[ReadableSpan]], object], finish: Callable[[], object] = nothing
    ) -> Subject:
        recorded = Recorded()
        agent = Agent(BatchSpanProcessor(recorded), agent=True, content=content)
        agents.append(agent)
        spans: list[ReadableSpan] = []

        def make() -> None:
            agent.plan()
            agent.play()
            agent.flush()
            spans[:] = recorded.take()

        def pass_on() -> None:
            for start in range(0, len(spans), MAX_BATCH):
                take(spans[start : start + MAX_BATCH])
            finish()

        return Subject(name, pass_on, before=make)

    def door(name: str, options: DoorOptions) -> Subject:
        logs, metrics = LoggerProvider(RESOURCE), MeterProvider([InMemoryMetricReader()], RESOURCE)
        logs.add_log_record_processor(BatchLogRecordProcessor(NoLogExport()))
        made = ToolParameterMatchExporter(
            NoExport(),
            **options,
            settle=SETTLE,
            run_idle=2 * SETTLE,
            logger_provider=logs,
            meter_provider=metrics,
        )
        doors.append(made)

        def settle() -> None:
            time.sleep(5 * SETTLE)
            made.force_flush()

        return subject(f"goldspan, {name}", made.export, settle)

    agents: list[Agent] = []
    doors: list[ToolParameterMatchExporter] = []
    try:
        return compare(
            title,
            item="span",
            reference=subject("encode_spans of the OTLP exporter", encode_spans),
            control=subject("encode_spans of the OTLP exporter", encode_spans),
            candidates=[door(name, options) for name, options in candidates.items()],
            items=agents[0].spans,
            clock=PROCESS_CPU,
            rounds=max(5, ROUNDS // 2),
        )
    finally:
        for agent in agents:
            agent.provider.shutdown()
        for one in doors:
            one.shutdown()


def run() -> Iterator[Comparison]:
    """Measure both costs, on an agent's traffic and on traffic without agents."""
    pin()
    logging.getLogger("goldspan").setLevel(logging.ERROR)  # each flush says which sessions have no golden
    shares = {"no session": SESSIONS + 1, f"one session in {SESSIONS}": SESSIONS, "every other session": 2}
    goldens: dict[str, Candidate] = {
        f"{wanted} wanted": ("SDK", {"goldens": goldens_for_one_session_in(many)}) for wanted, many in shares.items()
    }
    half, every = goldens_for_one_session_in(2), goldens_for_one_session_in(1)
    # A sample of nearly none: what a session outside of it costs.
    without: dict[str, Candidate] = {
        "no session": ("SDK", {"sample": 1e-9}),
        "a tenth of the sessions": ("SDK", {"sample": 0.1}),
        "every session, schema only": ("SDK", {"metrics": ["tool_parameter_schema"]}),
        "every session, all three metrics": ("SDK", {}),
    }
    doors: dict[str, DoorOptions] = {
        "no session wanted": {"goldens": goldens_for_one_session_in(SESSIONS + 1)},
        "every session wanted by a golden": {"goldens": every},
        "all three metrics and a golden": {"goldens": every, "metrics": WITHOUT_GOLDEN},
    }
    yield door_only("door only: spans made before, exported to nowhere, process CPU", doors, content=False)
    yield door_only("door only, with content", doors, content=True)
    with sink() as url:
        itself: dict[str, Candidate] = {
            name: ("goldspan", {**options, "events": url}) for name, (_, options) in goldens.items() if options
        }
        itself = {"goldspan's exporter alone, nothing scored": ("goldspan", None), **itself}
        goldens['every other session wanted, events="otlp"'] = ("SDK", {"goldens": half, "events": url})
        without['every session, all three metrics, events="otlp"'] = ("SDK", {"events": url})
        judged: DoorOptions = {"goldens": every, "metrics": WITHOUT_GOLDEN}
        mix = "25 % chat, 25 % tools, 50 % HTTP"
        yield on_the_callers_thread(f"start and end a span, caller's thread CPU ({mix}; half wanted)", half, agent=True)
        yield on_the_callers_thread("start and end a span, caller's thread CPU (HTTP only)", half, agent=False)
        yield altogether(f"start, end and export by OTLP/HTTP, process CPU ({mix})", goldens, url, agent=True)
        yield altogether(
            "the same, spans and events sent by goldspan itself: its exporter is compared with the SDK's",
            itself,
            url,
            agent=True,
        )
        yield altogether(
            f"three metrics and a golden for every session, with content: process CPU ({mix})",
            {
                "events by the logger provider": ("SDK", judged),
                'events="otlp"': ("SDK", {**judged, "events": url}),
                "spans and events sent by goldspan itself": ("goldspan", {**judged, "events": url}),
            },
            url,
            agent=True,
            content=True,
        )
        yield altogether(
            f"without goldens, with content: start, end and export by OTLP/HTTP, process CPU ({mix})",
            without,
            url,
            agent=True,
            content=True,
        )
        plain: dict[str, Candidate] = {"goldens for other sessions": ("SDK", {"goldens": half})}
        yield altogether("start, end and export by OTLP/HTTP, process CPU (HTTP only)", plain, url, agent=False)


if __name__ == "__main__":
    print_tables(run())
