"""An inner exporter that hangs or ends its thread costs no more than it costs a BatchSpanProcessor."""

from __future__ import annotations

import contextvars
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.daemon_threads import BoundedCalls
from goldspan.collector_processor.in_process import span_pipeline, span_processor
from rigs.in_process_rig import Inner, MakeRig
from rigs.scripted_agent import PARIS, golden, golden_set, run_turn
from rigs.waiting import until

GOLDENS = golden_set(golden("wanted", [PARIS]))
AGENT = {"gen_ai.operation.name": "invoke_agent"}
TURN = 4
"""Spans of a turn: two are held, two pass."""


class Hanging(Inner):
    """Hangs where it is told to, until it is let go."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.let_go = threading.Event()

    def wait(self, where: str) -> None:
        if self.where == where:
            self.let_go.wait(60)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        held = any("execute_tool" in span.name for span in spans)
        self.wait("held" if held else "passing")
        self.wait("any")
        return super().export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.wait("force_flush")
        return super().force_flush(timeout_millis)

    def shutdown(self) -> None:
        self.wait("shutdown")
        super().shutdown()


@pytest.fixture(params=["any", "passing", "held", "force_flush"])
def hanging(request: pytest.FixtureRequest) -> Iterator[Hanging]:
    inner = Hanging(request.param)
    yield inner
    inner.let_go.set()


def traced(inner: Inner, **options: float) -> tuple[TracerProvider, ToolParameterMatchSpanProcessor]:
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ToolParameterMatchSpanProcessor(inner, goldens=GOLDENS, **options)
    provider.add_span_processor(processor)
    return provider, processor


def seconds_of(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


@pytest.mark.parametrize("delay", [10, 60_000])
def test_a_flush_comes_back_in_its_time_and_the_spans_arrive_when_the_exporter_does(
    hanging: Hanging, delay: float
) -> None:
    provider, processor = traced(hanging, schedule_delay_millis=delay, settle=0.05)
    run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
    time.sleep(0.2)
    flushed: list[bool] = []
    threads: list[int] = []
    for _ in range(5):
        assert seconds_of(lambda: flushed.append(processor.force_flush(100))) < 1
        threads.append(threading.active_count())
    assert flushed == [False] * 5
    assert len(set(threads)) == 1
    hanging.let_go.set()
    assert processor.force_flush(5_000)
    assert sorted(span.name for span in hanging.spans) == sorted({span.name for span in hanging.spans})
    assert len(hanging.spans) == TURN
    provider.shutdown()


@pytest.mark.parametrize("ending", [False, True], ids=["export", "export and shutdown"])
def test_a_shutdown_comes_back_in_its_time(
    hanging: Hanging, make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, *, ending: bool
) -> None:
    monkeypatch.setattr(span_processor, "SHUTDOWN_TIMEOUT", 0.3)
    if ending:
        monkeypatch.setattr(hanging, "shutdown", lambda: hanging.let_go.wait(60))
    provider, processor = traced(hanging, settle=60.0)
    run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
    assert seconds_of(processor.shutdown) < 1.5
    assert ending or hanging.calls[-1:] == ["shutdown"]
    assert seconds_of(processor.shutdown) < 0.1
    rig = make_rig(inner=Hanging("held"), settle=60.0)
    rig.turn()
    assert seconds_of(lambda: rig.door.shutdown(timeout_millis=200)) < 1.5
    rig.inner.let_go.set()


def test_held_spans_that_a_shutdown_has_to_leave_are_counted_and_told(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, warnings_logged: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(span_pipeline, "MAX_BATCH", 1)
    rig = make_rig(inner=Hanging("passing"), settle=60.0)
    with rig.tracer.start_as_current_span("turn", attributes={"session.id": "wanted", **AGENT}):
        rig.tracer.start_span(
            "call", attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
        ).end()
    hanging = threading.Thread(target=rig.door.export, args=([ReadableSpan("passing")],))
    hanging.start()
    rig.door.shutdown(timeout_millis=100)
    assert rig.counted("goldspan.spans.dropped") == {"shutdown": 2}
    assert warnings_logged()[-1].startswith("2 held spans are dropped: an export to Hanging did not end")
    rig.inner.let_go.set()
    hanging.join()


class Exiting(Inner):
    """Raises SystemExit, or another exception that is no error, in some of its exports."""

    def __init__(self, raising: Callable[[int], bool], kind: type[BaseException] = SystemExit) -> None:
        super().__init__()
        self._raising = raising
        self._kind = kind
        self.exports = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.exports += 1
        if self._raising(self.exports):
            raise self._kind(3)
        return super().export(spans)


def outcome(call: Callable[[], object]) -> object:
    try:  # a SystemExit leaves BatchSpanProcessor's mark in the context
        return contextvars.copy_context().run(call)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        return repr(error)


def alone(inner: Inner, delay: float) -> BatchSpanProcessor:
    return BatchSpanProcessor(inner, schedule_delay_millis=delay)


def scoring(inner: Inner, delay: float) -> BatchSpanProcessor:
    return ToolParameterMatchSpanProcessor(inner, schedule_delay_millis=delay, goldens=GOLDENS, settle=0.05)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("raising", [lambda n: n == 1, lambda n: True, lambda n: False], ids=["first", "all", "none"])
@pytest.mark.parametrize("delay", [10, 60_000], ids=["in the worker", "in the flush"])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_system_exit_is_what_it_is_to_a_batch_span_processor(
    kind: type[BaseException], raising: Callable[[int], bool], delay: float
) -> None:
    said: list[list[object]] = []
    arrived: list[int] = []
    for make in (alone, scoring):
        inner = Exiting(raising, kind)
        provider = TracerProvider(shutdown_on_exit=False)
        processor = make(inner, delay)
        provider.add_span_processor(processor)
        outcomes: list[object] = []
        for _ in range(2):
            run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
            if delay < 1000:
                time.sleep(0.2)
            outcomes.append(outcome(functools.partial(processor.force_flush, 5_000)))
        run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
        outcomes.append(outcome(provider.shutdown))
        said.append(outcomes)
        arrived.append(len(inner.spans))
        assert inner.calls[-1] == "shutdown"
    assert said[0] == said[1]
    assert arrived[1] >= arrived[0]


def test_a_system_exit_costs_one_batch_of_the_held_spans(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_pipeline, "MAX_BATCH", 1)
    monkeypatch.setattr(span_pipeline, "_PAUSE", 0.05)
    rig = make_rig(inner=Exiting(lambda n: n == TURN - 1), settle=0.1)
    rig.turn()  # both held spans leave by the timer, one by one
    until(lambda: len(rig.inner.spans) == TURN - 1)
    rig.turn()
    until(lambda: len(rig.inner.spans) == 2 * TURN - 1)


def test_the_held_spans_behind_that_batch_are_held_again(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_pipeline, "MAX_BATCH", 1)
    rig = make_rig(inner=Exiting(lambda n: n == TURN - 1), settle=3600.0)
    began = time.monotonic()
    rig.turn()
    with pytest.raises(SystemExit):
        rig.door.flush_spans_since(began, 5.0)
    assert len(rig.inner.spans) == TURN - 2
    assert sum(point.value for point in rig.points("goldspan.spans.held_bytes")) > 0
    assert rig.door.force_flush()
    assert len(rig.inner.spans) == TURN - 1
    assert rig.counted("goldspan.spans.dropped") == {"export_failed": 1}
    assert sum(point.value for point in rig.points("goldspan.spans.held_bytes")) == 0


@pytest.mark.parametrize("door", ["processor", "zero code"])
def test_a_process_ends_in_time_though_the_exporter_hangs(door: str) -> None:
    script = f"""
import time
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from goldspan.collector_processor.in_process import span_exporter, span_processor, zero_code
for module in (span_exporter, span_processor, zero_code):
    module.SHUTDOWN_TIMEOUT = 0.5
from rigs.scripted_agent import PARIS, golden, golden_set, run_turn
class Hanging(SpanExporter):
    def export(self, spans):
        time.sleep(60)
provider = TracerProvider()
trace.set_tracer_provider(provider)
goldens = golden_set(golden("wanted", [PARIS]))
if {door == "processor"}:
    provider.add_span_processor(span_processor.ToolParameterMatchSpanProcessor(Hanging(), goldens=goldens))
else:
    exporter = span_exporter.ToolParameterMatchExporter(Hanging(), goldens=goldens)
    zero_code._exporters.add(exporter)
    zero_code.GoldspanInstrumentor().instrument()
    class Short(BatchSpanProcessor):
        def shutdown(self):
            self._batch_processor.shutdown(timeout_millis=500)
    provider.add_span_processor(Short(exporter))
run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
print("ends", flush=True)
"""
    here = Path(__file__).parent.parent
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=here, timeout=30, check=True
    )
    assert ended.stdout == "ends\n"


def test_calls_are_made_one_at_a_time_and_one_that_was_given_up_is_not_begun() -> None:
    calls, gate, made = BoundedCalls("test"), threading.Event(), []

    def slow() -> bool:
        made.append("slow")
        return gate.wait(10)

    assert calls.run(slow, 0.05) is None
    assert calls.run(lambda: bool(made.append("never")), 0.05) is None
    gate.set()
    assert calls.run(lambda: calls.run(lambda: True, 0.0) is True, 5.0) is True
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: bool(1 // 0), 5.0)
    calls.close()
    until(lambda: not any(thread.name == "test" for thread in threading.enumerate()))
    assert calls.run(lambda: True, 0.0) is True
    assert made == ["slow"]


class Away(Inner):
    """Waits for a receiver that is away in each export."""

    seconds = 0.3

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        super().export(spans)
        time.sleep(self.seconds)
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("end", ["shutdown", "flush at the end"])
def test_the_end_waits_once_for_a_receiver_that_is_away(end: str) -> None:
    inner = Away()
    provider, processor = traced(inner, settle=3600.0)
    run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
    if end == "shutdown":
        provider.shutdown()
    else:
        processor.end_of_input(5.0)
    assert [len(batch) for batch in inner.batches] == [TURN]
    if end != "shutdown":
        run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
        assert processor.force_flush()
        assert len(inner.spans) == 2 * TURN
        provider.shutdown()


def test_events_are_sent_while_spans_are_exported() -> None:
    inner, flushed = Away(), list[float]()
    inner.seconds = 1.0

    class Loggers(LoggerProvider):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            flushed.append(time.monotonic())
            return super().force_flush(timeout_millis)

    provider = TracerProvider(shutdown_on_exit=False)
    loggers = Loggers(shutdown_on_exit=False)
    events = InMemoryLogRecordExporter()
    loggers.add_log_record_processor(BatchLogRecordProcessor(events))
    processor = ToolParameterMatchSpanProcessor(inner, goldens=GOLDENS, logger_provider=loggers)
    provider.add_span_processor(processor)
    run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
    began = time.monotonic()
    assert processor.end_of_input(5.0)
    assert 1.0 <= time.monotonic() - began < 1.9
    assert flushed[0] - began < 0.9
    assert events.get_finished_logs()
    provider.shutdown()
    loggers.shutdown()
