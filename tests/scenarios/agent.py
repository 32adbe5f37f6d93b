"""An agent in a process of its own: `agent.py SCENARIO DOOR ENDPOINT`, the door `plain` or `goldspan`.

Each scenario is what some real process does to its telemetry. It prints how many spans it ended.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opentelemetry import _logs, metrics, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from rigs.scripted_agent import PARIS, ROME, Call, golden, golden_set, run_turn

WORKERS = 3
SPANS_OF_A_TURN = 4
"""Of a turn with one call: the agent's, the model's, the tool's and its HTTP request's."""
ROUNDS = int(os.environ.get("SCENARIO_ROUNDS", "2000"))
FORKS = min(0.002 * ROUNDS, 40)
"""What a child takes most time for is giving back its parent's memory at its end."""
SESSIONS = [f"s-{number}" for number in range(max(1000, ROUNDS // 20))]
LONG = float(os.environ.get("SCENARIO_SECONDS", "6"))
HOLD_TIMEOUT = float(os.environ.get("SCENARIO_HOLD_TIMEOUT", "1"))


class Count(SpanProcessor):
    """How many spans this process ended."""

    ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class EverySecondCallFails(SpanExporter):
    """A back-end that is away every other time."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._calls = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._calls += 1
        if self._calls % 2 == 0:
            raise ConnectionError("away")
        return self._inner.export(spans)

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def set_up(door: str, endpoint: str, around: Callable[[SpanExporter], SpanExporter] = lambda inner: inner) -> Count:
    """What a service does when it starts, with one line that differs."""
    loggers = LoggerProvider()
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{endpoint}/v1/logs")))
    _logs.set_logger_provider(loggers)
    metrics.set_meter_provider(
        MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"))])
    )
    exporter = around(OTLPSpanExporter(f"{endpoint}/v1/traces"))
    goldens = golden_set(*(golden(session, [PARIS], [PARIS, ROME]) for session in SESSIONS))
    processor: SpanProcessor = (
        BatchSpanProcessor(exporter)
        if door == "plain"
        else ToolParameterMatchSpanProcessor(exporter, goldens=goldens, settle=0.2, hold_timeout=HOLD_TIMEOUT)
    )
    provider = TracerProvider()
    provider.add_span_processor(processor)
    provider.add_span_processor(count := Count())
    trace.set_tracer_provider(provider)
    return count


def flush() -> None:
    for provider in (trace.get_tracer_provider(), _logs.get_logger_provider(), metrics.get_meter_provider()):
        provider.force_flush()  # type: ignore[attr-defined]


def turn(session: str, calls: Sequence[Call] = (PARIS,)) -> None:
    run_turn(trace.get_tracer("agent"), session, calls)


def say(count: Count) -> None:
    print(count.ended, flush=True)


def short_script(count: Count) -> None:
    """Two turns, and the end."""
    turn("s-0")
    turn("s-0", [PARIS, ROME])
    say(count)


def flush_and_freeze(count: Count) -> None:
    """A serverless function: flushed and frozen after each call, thawed for the next, killed in the end."""
    for session in ("s-0", "s-1", "s-2"):
        turn(session)
        flush()
        say(count)
        os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)


def prefork(count: Count) -> None:
    """A server that loads once and forks its workers; a span was already ended before."""
    turn("s-0")
    children = []
    for worker in range(WORKERS):
        if (child := os.fork()) == 0:
            turn(f"s-{worker + 1}")
            sys.exit(0)  # as workers do: exit handlers run
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    print(count.ended * (1 + WORKERS), flush=True)


def sigterm(count: Count) -> None:
    """A server that is told to stop, and ends by its handler."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    turn("s-0")
    say(count)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def sigkill(count: Count) -> None:
    """A process that is killed two seconds after a flush-less start; half a turn is open."""
    turn("s-0")
    with trace.get_tracer("agent").start_as_current_span("invoke_agent", attributes=_agent("s-1")):
        turn("s-1")
        say(count)
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)


def long_turn(count: Count) -> None:
    """A turn that lasts far longer than spans are held; a short one comes after it."""
    with trace.get_tracer("agent").start_as_current_span("invoke_agent", attributes=_agent("s-0")):
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            turn("s-0")
            time.sleep(LONG / 6)
    turn("s-1")
    say(count)


def abandoned_stream(count: Count) -> None:
    """A streaming turn whose reader goes away: its span never ends."""
    stream = _stream("s-0")
    next(stream)
    del stream
    gc.collect()
    time.sleep(3)
    say(count)


def failing_exporter(count: Count) -> None:
    """Eight batches to a back-end that refuses every second one."""
    for session in SESSIONS[:8]:
        turn(session)
        trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]
    say(count)


def at_random(count: Count) -> None:
    """Turns of many sessions with flushes and forks in between, in a fixed order of chances."""
    chances = random.Random(7)
    in_children = 0
    for _ in range(ROUNDS):
        turn(chances.choice(SESSIONS), [chances.choice((PARIS, ROME)) for _ in range(chances.randint(0, 3))])
        chance = chances.random()
        if chance < 0.002:
            flush()
        elif chance < 0.002 + FORKS / ROUNDS:
            if (child := os.fork()) == 0:
                turn(chances.choice(SESSIONS))
                sys.exit(0)
            in_children += SPANS_OF_A_TURN
            os.waitpid(child, 0)
        while _queued() > 1500:  # a full queue drops spans, with or without goldspan
            time.sleep(0.01)
    print(count.ended + in_children, flush=True)


def _queued() -> int:
    processor: Any = trace.get_tracer_provider()._active_span_processor._span_processors[0]  # type: ignore[attr-defined]
    return len(processor._batch_processor._queue)


def _agent(session: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}


def _stream(session: str) -> Iterator[None]:
    span = trace.get_tracer("agent").start_span("invoke_agent", attributes=_agent(session))
    with trace.use_span(span, end_on_exit=False):
        turn(session)
        yield
        turn(session)
    span.end()


SCENARIOS: dict[str, Callable[[Count], None]] = {
    "short script": short_script,
    "flush and freeze": flush_and_freeze,
    "prefork": prefork,
    "SIGTERM": sigterm,
    "SIGKILL": sigkill,
    "long turn": long_turn,
    "abandoned stream": abandoned_stream,
    "failing exporter": failing_exporter,
    "at random": at_random,
}


if __name__ == "__main__":
    scenario, chosen_door, where = sys.argv[1:]
    wrapping = EverySecondCallFails if scenario == "failing exporter" else (lambda inner: inner)
    SCENARIOS[scenario](set_up(chosen_door, where, wrapping))
