"""Whatever the inner exporter, goldens, engine or providers do, the agent goes on and no span is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as otel
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.in_process import span_pipeline
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.errors import SettingsError
from rigs.in_process_rig import Inner, Logged, MakeRig, Rig, scores
from rigs.scripted_agent import PARIS, golden, golden_set, run_turn
from rigs.waiting import until

TURN = {"chat test-model", "GET 0", "execute_tool get_weather 0", "invoke_agent weather"}


class Broken(Inner):
    """Raises wherever it can."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        super().export(spans)
        raise ConnectionError("no route")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        raise ConnectionError("no route")

    def shutdown(self) -> None:
        raise ConnectionError("no route")


class Refusing(Inner):
    """Answers that it could not."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        super().export(spans)
        return SpanExportResult.FAILURE


def test_an_inner_exporter_that_raises_is_counted_and_logged_once(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(inner=Broken())
    rig.turn()
    rig.turn("unwanted")
    assert rig.door.force_flush() is False
    rig.door.shutdown()
    assert len(rig.inner.spans) == 8
    assert rig.counted("goldspan.spans.dropped") == {"export_failed": 8}
    assert len(rig.events()) == 3
    assert warnings_logged() == [
        "spans cannot be delivered to Broken: ConnectionError: no route. They are dropped until they can; "
        "this is logged once.",
        "export failed; later failures of this kind are counted only",  # its flush and its shutdown
    ]


def test_the_inner_exporter_s_answer_is_handed_on(make_rig: MakeRig) -> None:
    rig = make_rig(inner=Refusing())
    assert rig.door.export([ReadableSpan("plain")]) is SpanExportResult.FAILURE
    assert rig.counted("goldspan.spans.dropped") == {"export_failed": 1}


def test_an_empty_batch_reaches_the_inner_exporter(rig: Rig) -> None:
    assert rig.door.export([]) is SpanExportResult.SUCCESS
    assert rig.inner.batches == [[]]


@pytest.mark.parametrize(
    "text",
    ["goldens: [", "golden_set: x\ngoldens: [{sesion: a}]\n", "\x00\x01", ""],
    ids=["torn", "typo", "binary", "empty"],
)
def test_goldens_that_cannot_be_used_are_one_warning_and_spans_pass(
    make_rig: MakeRig, tmp_path: Path, warnings_logged: Logged, text: str
) -> None:
    file = tmp_path / "goldens.yaml"
    file.write_text(text)
    rig = make_rig(goldens=file)
    rig.turn()
    assert set(rig.exported()) == TURN
    [warning] = warnings_logged()
    assert "goldens.yaml" in warning
    assert rig.counted("goldspan.failures") == {"goldens": 1}


@pytest.mark.parametrize(
    "goldens", ["no/such/file.yaml", object(), [object()], [None]], ids=["no file", "object", "list", "list of None"]
)
def test_goldens_that_are_none_at_all_likewise(make_rig: MakeRig, warnings_logged: Logged, goldens: object) -> None:
    rig = make_rig(goldens=goldens)
    rig.turn()
    assert set(rig.exported()) == TURN
    assert len(warnings_logged()) == 1


@pytest.mark.parametrize("step", ["feed", "poll", "flush", "deadline"])
def test_an_engine_that_raises_lets_every_span_pass(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, warnings_logged: Logged, step: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("engine")

    monkeypatch.setattr(Engine, step, broken)
    rig = make_rig(hold_timeout=0.1)
    rig.turn()
    rig.door.force_flush()
    assert sorted(span.name for span in rig.inner.spans) == sorted(TURN)
    assert warnings_logged()[0] == "engine failed; later failures of this kind are counted only"


def test_an_engine_that_raises_once_works_again(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig(settle=3600)
    rig.turn()
    with monkeypatch.context() as broken:
        broken.setattr(Engine, "flush", lambda *_, **__: 1 / 0)
        rig.door.force_flush()
    assert set(rig.exported()) == TURN
    assert rig.counted("goldspan.spans.released_early") == {"failure": 2}
    rig.inner.batches.clear()
    rig.turn()
    rig.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 0.5


def test_an_engine_that_forgets_a_span_cannot_keep_it(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "feed", lambda *_: True)
    monkeypatch.setattr(Engine, "poll", lambda *_, **__: EngineOutput())
    monkeypatch.setattr(Engine, "deadline", lambda *_: None)
    rig = make_rig(hold_timeout=0.05)
    rig.turn()
    assert set(rig.exported()) == {"chat test-model", "GET 0"}
    until(lambda: len(rig.inner.spans) == 4)
    assert rig.counted("goldspan.spans.released_early") == {"hold_timeout": 2}


def test_a_flush_lets_go_of_spans_that_the_engine_forgot(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "flush", lambda *_, **__: EngineOutput())
    rig = make_rig(settle=3600)
    rig.turn()
    assert set(rig.exported()) != TURN
    rig.door.force_flush()
    assert set(rig.exported()) == TURN


def test_a_span_that_cannot_be_read_passes(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DialectRegistry, "read", lambda *_, **__: 1 / 0)
    rig = make_rig()
    rig.turn()
    assert set(rig.exported()) == TURN
    assert rig.counted("goldspan.failures") == {"read": 3}


@pytest.mark.parametrize(
    "broken", ["span_pipeline.estimated_size", "span_pipeline.ScoredSpan", "span_pipeline.span_attributes"]
)
def test_our_own_mistakes_lose_no_span_either(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, warnings_logged: Logged, broken: str
) -> None:
    monkeypatch.setattr(f"goldspan.collector_processor.in_process.{broken}", lambda *_: 1 / 0)
    rig = make_rig(settle=0.01)
    rig.turn()
    until(lambda: len(rig.inner.spans) == 4)
    assert set(rig.exported()) == TURN
    assert len(warnings_logged()) == 1


def test_the_timer_survives_a_mistake(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig(settle=0.1, hold_timeout=0.3)
    rig.turn()
    with monkeypatch.context() as broken:
        broken.setattr(span_pipeline.HeldSpans, "release_excess", lambda _: 1 / 0)
        until(lambda: rig.counted("goldspan.failures"))
    rig.turn()
    until(lambda: len(rig.inner.spans) == 8)


def test_providers_that_raise_do_not_keep_spans_or_each_other(make_rig: MakeRig) -> None:
    class BrokenLogs(LogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            raise OSError("disk full")

        def shutdown(self) -> None: ...

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return True

    rig = make_rig()
    rig.logger_provider.add_log_record_processor(BrokenLogs())
    rig.turn()
    rig.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 0.5
    assert len(rig.points("tool_parameter_match.score")) == 3
    assert rig.counted("goldspan.failures") == {"events": 3}


def test_exporting_and_emitting_are_not_traced(make_rig: MakeRig) -> None:
    seen: list[object] = []

    class Curious(Inner):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            seen.append(otel.get_value(otel._SUPPRESS_INSTRUMENTATION_KEY))
            return super().export(spans)

    rig = make_rig(inner=Curious(), settle=0.01)
    rig.turn()
    until(lambda: len(rig.inner.spans) == 4)
    rig.door.export([ReadableSpan("not from a processor")])
    rig.turn()
    rig.door.force_flush()
    assert set(seen) == {True}
    assert otel.get_value(otel._SUPPRESS_INSTRUMENTATION_KEY) is None


def test_an_inner_exporter_that_comes_back_on_the_same_thread_is_served(make_rig: MakeRig) -> None:
    class Tracing(Inner):
        door: ToolParameterMatchExporter

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if not any(span.name == "own span" for span in spans):
                self.door.export([ReadableSpan("own span")])
                self.door.force_flush()
            return super().export(spans)

    tracing = Tracing()
    rig = make_rig(inner=tracing)
    tracing.door = rig.door
    started = time.monotonic()
    rig.turn()
    rig.door.force_flush()
    assert time.monotonic() - started < 5
    assert set(rig.exported()) == {*TURN, "own span"}
    assert len([span for span in tracing.spans if span.name in TURN]) == 4


class Stuck(Inner):
    """Hangs in its first export until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.let_go = threading.Event()
        self.shut_down = threading.Event()

    def shutdown(self) -> None:
        super().shutdown()
        self.shut_down.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.let_go.wait(30)
        return super().export(spans)


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


def test_beside_a_stuck_exporter_nothing_waits_for_ever(
    make_rig: MakeRig, stuck: Stuck, monkeypatch: pytest.MonkeyPatch, warnings_logged: Logged
) -> None:
    rig = make_rig(inner=stuck)
    hanging = threading.Thread(target=rig.door.export, args=([ReadableSpan("first")],))
    hanging.start()
    assert stuck.entered.wait(5)
    monkeypatch.setattr(span_pipeline, "LOCK_TIMEOUT", 0.05)  # from now on the lock is taken: nothing waits in vain
    started = time.monotonic()
    assert rig.door.export([ReadableSpan("second")]) is SpanExportResult.FAILURE
    assert rig.door.force_flush(timeout_millis=50) is False
    rig.door.shutdown(timeout_millis=50)
    assert stuck.shut_down.wait(5)
    assert time.monotonic() - started < 5
    stuck.let_go.set()
    hanging.join()
    assert set(rig.exported()) == {"first"}
    assert rig.counted("goldspan.spans.dropped") == {"export_timeout": 1}
    assert [call for call in stuck.calls if call != "force_flush"] == ["shutdown", "export"]
    # A machine that runs the flush's thread late lets it still end in time, and say that no golden was seen.
    [warning] = [said for said in warnings_logged() if "goldens seen" not in said]
    assert "cannot be delivered to Stuck: an export has not ended for 0.05 s. They are dropped" in warning


def test_shutdown_exports_everything_once_and_may_be_called_again(make_rig: MakeRig) -> None:
    rig = make_rig(settle=3600)
    rig.turn()
    rig.door.shutdown()
    rig.door.shutdown()
    assert rig.score("execute_tool get_weather 0") == 0.5
    assert rig.inner.calls.count("shutdown") == 1
    assert {record.attributes["tool_parameter_match.level"] for record in rig.events()} == {"call", "turn", "session"}
    assert rig.door.export([ReadableSpan("late")]) is SpanExportResult.FAILURE
    assert "late" not in rig.exported()
    assert rig.counted("goldspan.spans.dropped") == {"shutdown": 1}


def test_shutdown_passes_its_time_on_to_exporters_that_take_one(make_rig: MakeRig) -> None:
    given: list[float] = []

    class Timed(Inner):
        def shutdown(self, timeout_millis: float = -1) -> None:
            given.append(timeout_millis)

    make_rig(inner=Timed()).door.shutdown(timeout_millis=5_000)
    assert len(given) == 1
    assert 0 < given[0] <= 5_000


def test_two_doors_in_a_row_score_once_and_say_so(make_rig: MakeRig, warnings_logged: Logged) -> None:
    goldens = golden_set(golden("wanted", [("get_weather", {"city": "Paris"})]))
    inside = make_rig(goldens=goldens)
    outside = make_rig(inner=inside.door)
    outside.turn()
    outside.door.force_flush()
    assert [scores(span).get("tool_parameter_match.score") for span in inside.inner.spans].count(0.0) == 1
    assert outside.events() == []
    assert "wrapped in another" in warnings_logged()[0]


def test_two_doors_side_by_side_are_warned_of(make_rig: MakeRig, inner: Inner, warnings_logged: Logged) -> None:
    first = make_rig()
    make_rig()
    assert "counted twice" in warnings_logged()[0]
    first.door.shutdown()
    make_rig(inner=Inner())
    assert len(warnings_logged()) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hold", "maybe"),
        ("settle", 0),
        ("hold_timeout", -1),
        ("hold_timeout", float("nan")),
        ("run_idle", "60"),
        ("session_gap", None),
        ("max_held_spans", 0),
        ("max_held_bytes", True),
        ("include_values", "off"),
        ("agent_names", "planner"),
        ("metrics", "tool_parameter_schema"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"{option}: found "):
        ToolParameterMatchExporter(Inner(), goldens=[], **{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("hold", "held"), [("on", True), (True, True), ("off", False), (False, False)])
def test_hold_understands_what_yaml_makes_of_on_and_off(make_rig: MakeRig, hold: object, held: bool) -> None:
    rig = make_rig(hold=hold, settle=3600)
    rig.turn()
    assert (len(rig.inner.spans) == 2) is held


class NoHash(str):
    """Text that cannot be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise ValueError("no hash")


@pytest.mark.parametrize("key", ["gen_ai.conversation.id", "gen_ai.tool.name", "gen_ai.tool.call.id"])
def test_text_of_a_class_of_its_own_costs_no_neighbour_its_score(key: str, make_rig: MakeRig) -> None:
    rig = make_rig(goldens=golden_set(golden("wanted", [PARIS]), golden("other", [PARIS])), settle=3600.0)
    run_turn(rig.tracer, "other", [PARIS])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "wanted"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "1"}
    for attributes in (agent, tool):
        if key in attributes:
            attributes[key] = NoHash(attributes[key])
    with rig.tracer.start_as_current_span("agent", attributes=agent):
        rig.tracer.start_span("tool", attributes=tool).end()
        run_turn(rig.tracer, None, [PARIS])
    rig.door.force_flush()
    found = [scores(span).get("tool_parameter_match.score") for span in rig.inner.spans if "get_weather" in span.name]
    assert found == [1.0, 1.0]
