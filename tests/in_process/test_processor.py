"""The span processor: BatchSpanProcessor's contracts, and the order in which things end."""

from __future__ import annotations

import atexit
import gc
import threading
import weakref
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from goldspan.collector_processor import ToolParameterMatchExporter, ToolParameterMatchSpanProcessor
from goldspan.scoring.errors import SettingsError
from rigs.in_process_rig import Inner, scores
from rigs.scripted_agent import PARIS, ROME, golden, golden_set, run_turn
from rigs.waiting import until

GOLDENS = golden_set(golden("wanted", [PARIS]))


class Traced:
    def __init__(self, **options: Any) -> None:
        self.inner = Inner()
        self.processor = ToolParameterMatchSpanProcessor(self.inner, **{"goldens": GOLDENS, **options})
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("agent")

    def scores(self) -> list[object]:
        found = [scores(span).get("tool_parameter_match.score") for span in self.inner.spans]
        return [score for score in found if score is not None]


@pytest.fixture
def traced() -> Iterator[Traced]:
    traced = Traced()
    yield traced
    traced.provider.shutdown()


def test_ending_a_span_is_batch_span_processor_s_own_code(traced: Traced) -> None:
    assert isinstance(traced.processor, BatchSpanProcessor)
    assert ToolParameterMatchSpanProcessor.on_end is BatchSpanProcessor.on_end
    assert isinstance(traced.processor.span_exporter, ToolParameterMatchExporter)


def test_results_come_by_themselves(traced: Traced) -> None:
    traced.provider.shutdown()
    quick = Traced(schedule_delay_millis=20, settle=0.02)
    run_turn(quick.tracer, "wanted", [ROME])
    until(lambda: len(quick.inner.spans) == 4)
    assert quick.scores() == [0.5]
    quick.provider.shutdown()


def test_force_flush_of_the_provider_releases_what_is_held(traced: Traced) -> None:
    run_turn(traced.tracer, "wanted", [ROME])
    assert traced.provider.force_flush()
    assert len(traced.inner.spans) == 4
    assert traced.scores() == [0.5]
    assert traced.inner.calls[-1] == "force_flush"


def test_shutdown_of_the_provider_exports_the_last_turn_once(traced: Traced) -> None:
    run_turn(traced.tracer, "wanted", [ROME])
    traced.provider.shutdown()
    traced.provider.shutdown()
    traced.processor.shutdown()
    assert traced.scores() == [0.5]
    assert traced.inner.calls.count("shutdown") == 1
    assert traced.provider.force_flush() is False


def test_batch_span_processor_s_parameters_and_environment_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    by_environment = Traced(settle=0.02)
    by_size = Traced(max_queue_size=4, max_export_batch_size=4, schedule_delay_millis=60_000, settle=0.02)
    for traced in (by_environment, by_size):
        run_turn(traced.tracer, "wanted", [ROME])
        until(lambda traced=traced: traced.scores() == [0.5])
        traced.provider.shutdown()
    with pytest.raises(ValueError, match="max_queue_size"):
        Traced(max_queue_size=0)


@pytest.mark.skipif(
    "meter_provider" not in signature(BatchSpanProcessor.__init__).parameters,
    reason="this SDK's processor measures nothing",
)
def test_batch_span_processor_s_own_metrics_go_to_the_same_meter_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    reader = InMemoryMetricReader()
    traced = Traced(meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    run_turn(traced.tracer, "wanted", [ROME])
    traced.provider.shutdown()
    data = reader.get_metrics_data()
    assert data is not None
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    measured = {metric.name for scope in scopes for metric in scope.metrics}
    assert {"otel.sdk.processor.span.processed", "tool_parameter_match.score"} <= measured


def test_an_option_that_cannot_be_is_refused_before_any_thread_starts() -> None:
    before = threading.active_count()
    with pytest.raises(SettingsError, match="settle: found 0"):
        Traced(settle=0)
    assert threading.active_count() == before


def test_the_exit_handler_is_registered_with_the_first_span_and_removed_by_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    traced = Traced()
    assert registered == []
    run_turn(traced.tracer, "wanted", [ROME])
    run_turn(traced.tracer, "wanted", [ROME])
    assert len(registered) == 1
    traced.provider.shutdown()
    assert registered == []


def test_the_exit_handler_scores_the_session_and_leaves_the_processor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", lambda _: None)
    traced = Traced()
    run_turn(traced.tracer, "wanted", [ROME])
    registered[0]()
    assert traced.scores() == [0.5]
    traced.tracer.start_span("in a later exit handler").end()
    traced.provider.shutdown()
    assert traced.inner.spans[-1].name == "in a later exit handler"


def test_the_exit_handler_keeps_nothing_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", lambda _: None)
    traced = Traced()
    traced.tracer.start_span("first").end()
    traced.provider.shutdown()
    exporter = weakref.ref(traced.processor.span_exporter)
    del traced
    until(lambda: gc.collect() is not None and exporter() is None)  # its thread may not have ended yet
    registered[0]()


def test_starting_a_span_never_raises(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no more handlers")

    monkeypatch.setattr(atexit, "register", broken)
    run_turn(traced.tracer, "wanted", [ROME])
    traced.provider.force_flush()
    assert traced.scores() == [0.5]
