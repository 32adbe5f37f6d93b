"""Memory after ten times the input, in every door: sessions come and go, and nothing grows with their number."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.emit import emitters
from goldspan.collector_processor.encoded_spans import span_groups
from goldspan.collector_processor.engine import reading_and_holding
from goldspan.collector_processor.engine.engine_state import MemoryStore
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import Accepted, Delivered, DeliveryResult, ExportRequest
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.in_process import span_pipeline
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.replay.replay import replay
from goldspan.collector_processor.spark import partitions
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.mappers import dialect_registry
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers import otlp_protobuf, sdk
from goldspan.mappers.readers.files import views
from goldspan.mappers.readers.problems import ProblemList, number_of_problems
from goldspan.scoring.goldens import load_goldens
from rigs.otlp_containers import as_message, as_sdk_spans
from rigs.stream_rig import Stream
from rigs.trace_requests import plain_request, turn_request
from rigs.waiting import until

GOLDENS = load_goldens(
    {
        "golden_set": "slope",
        "goldens": [{"session_pattern": "wanted-*", "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}]}],
    }
)
PAUSE = 30_000.0
"""Seconds between two steps: the state of a session is dropped after an hour, what is known of it after a day."""
WARM = 100
"""Steps until as much is known as ever will be, and caches are full."""
STEPS = 120
MOST = 320.0
"""Bytes that a step with five sessions may leave behind: the ids of all take 400, and caches fill up."""


def step_of(number: int) -> list[dict[str, Any]]:
    """What one step brings: sessions with and without golden, one without a name, a plain span, bad arguments."""
    odd = turn_request(f"odd-{number}", ("f", {"x": number}))
    for span in odd["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["attributes"].append({"key": "gen_ai.tool.call.arguments", "value": {"intValue": 5}})
    return [
        turn_request(f"wanted-{number}", ("f", {"x": number})),
        turn_request(f"unwanted-{number}", ("f", {"x": 1})),
        turn_request(None, ("f", {"x": number})),
        plain_request(f"plain {number}"),
        odd,
    ]


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@contextmanager
def in_process(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[int], None]]:
    clock = SimpleNamespace(monotonic=lambda: now[0])
    now = [0.0]
    monkeypatch.setattr(span_pipeline, "time", clock)
    door = ToolParameterMatchExporter(
        _Nowhere(), goldens=GOLDENS, logger_provider=LoggerProvider(), meter_provider=MeterProvider()
    )

    def step(number: int) -> None:
        for document in step_of(number):
            door.export(as_sdk_spans(document))
        for _ in range(3):
            now[0] += PAUSE / 3
            door.export([])

    yield step
    door.shutdown()


class _Outlet:
    def deliver(self, request: ExportRequest) -> DeliveryResult:
        return Delivered()

    def close(self) -> None:
        pass


@contextmanager
def gateway(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[int], None]]:
    now, asked = [1e9], [0]
    monkeypatch.setattr("goldspan.collector_processor.gateway.pipeline._TICK", 0.001)

    def clock() -> float:
        asked[0] += 1
        return now[0]

    pipeline = GatewayPipeline(GOLDENS, _Outlet(), PipelineSettings(), now=clock)

    def step(number: int) -> None:
        for document in step_of(number):
            assert pipeline.accept(request_of(document)) == Accepted()
        until(lambda: not pipeline.intake.backlog)
        for _ in range(3):
            now[0] += PAUSE / 3
            until(lambda passed=asked[0] + 8: asked[0] > passed)  # the worker has looked at the clock since

    yield step
    until(lambda: not pipeline.dispatcher.waiting)
    assert pipeline.drain(10.0)


@contextmanager
def stream(_: pytest.MonkeyPatch) -> Generator[Callable[[int], None]]:
    found = Stream(StreamContext.of(GOLDENS, EngineSettings()), seed=1, traces=1, sessions=1, faults=0.0)
    [first], [second] = found.first, found.second
    now = 1e9

    def step(number: int) -> None:
        nonlocal now
        found.put(map(request_of, step_of(number)), begin=now)
        for _ in range(3):
            while not (first.is_read and second.is_read):
                found.read(second if first.is_read else first)
            now += PAUSE / 3
            for one in (first, second):
                found.take(one.stage.advance(now), now)
        for one in (first, second):
            one.commit()
            one.records.clear()
            one.counted.clear()
            one.next = one.committed_next = 0
        found.outputs.clear()

    yield step


def request_of(document: dict[str, Any]) -> ExportRequest:
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString())


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of what is gone, and what waits for more, is bounded in number: let that be reached soon."""
    for module in (dialect_registry, otlp_protobuf, sdk, span_groups):
        monkeypatch.setattr(module, "_MAX_RESOURCES", 4)
    monkeypatch.setattr(emitters, "evaluated_span", lru_cache(16)(emitters.evaluated_span.__wrapped__))
    monkeypatch.setattr(partitions, "_WAITING", 200)
    monkeypatch.setattr(partitions, "_ROWS", 200)
    monkeypatch.setattr(reading_and_holding, "_MAX_REMEMBERED_LOSSES", 8)
    monkeypatch.setattr(reading_and_holding, "_MAX_UNWANTED", 8)
    monkeypatch.setattr(reading_and_holding, "MAX_REMEMBERED", 8)
    monkeypatch.setattr(MemoryStore.__init__, "__defaults__", (8,))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("door", [in_process, gateway, stream])
def test_sessions_that_are_over_leave_no_memory_behind(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with door(monkeypatch) as step:
        tracemalloc.start()
        try:
            for number in range(WARM - 6):
                step(number)
            before = lowest(step, range(WARM - 6, WARM))
            for number in range(WARM, WARM + STEPS - 6):
                step(number)
            per_step = (lowest(step, range(WARM + STEPS - 6, WARM + STEPS)) - before) / STEPS
        finally:
            tracemalloc.stop()
    print(f"{door.__name__}: {per_step:.1f} bytes for each of {STEPS} steps")
    assert per_step < MOST


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("door", ["replay", "spark"])
def test_what_is_bad_or_of_no_agent_leaves_nothing_behind(door: str, tmp_path: Path) -> None:
    lines_of = {"replay": replayed, "spark": scored_by_a_partition}[door]

    def peak(lines: int) -> int:
        tracemalloc.start()
        try:
            assert lines_of(tmp_path, lines) >= 2 * lines
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(FULL)
    few, many = peak(FULL), peak(4 * FULL)
    print(f"{door}: at most {few:,} bytes for {3 * FULL:,} lines, {many:,} for {12 * FULL:,}")
    assert many < few + 500_000  # a problem takes 1 kB: unbounded, 6 MB


FULL = 1000
"""So many problems of one kind are listed."""


def lines_to_leave_out(count: int) -> Iterator[str]:
    """Lines that are no JSON, lines with a span without usable id, and lines of no agent."""
    for number in range(count):
        bad = plain_request(f"{number}")
        bad["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = number + 1
        yield from (f"{number} is no JSON", json.dumps(bad), json.dumps(plain_request(str(number % 100))))


def replayed(folder: Path, count: int) -> int:
    """Replay such lines; return how many problems there were."""
    path = folder / f"{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines_to_leave_out(count))
    problems = ProblemList()
    replay(views(path, problems.append), GOLDENS, DialectRegistry(), problems=problems)
    return sum(number_of_problems(one.message) for one in problems)


def scored_by_a_partition(_: Path, count: int) -> int:
    """Read such lines as rows of a partition of Spark, and score what there is; return how many problems there were."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, the extra `parquet`")
    job = partitions.ScoringJob(GOLDENS, EngineSettings(), 100_000)
    lines = (line.encode() for line in lines_to_leave_out(count))
    batches = (pa.RecordBatch.from_pydict({"value": rows}) for rows in iter(lambda: list(islice(lines, 30)), []))
    traces = partitions.assemble_traces(partitions.read_traces(batches, job, 0), job)
    assert not any(row.num_rows for row in partitions.score_sessions(traces, job))
    return job.problems.total()


def lowest(step: Callable[[int], None], numbers: range) -> int:
    """Take some steps; return the least memory after one of them: what another thread works on is not kept."""
    found: list[int] = []
    for number in numbers:
        step(number)
        found.append(traced())
    return min(found)


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
