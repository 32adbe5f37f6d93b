"""Content that a framework writes to log records, handed to the door that scores the spans (R11)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from goldspan.collector_processor import (
    ToolParameterMatchExporter,
    ToolParameterMatchLogRecordProcessor,
    ToolParameterMatchSpanProcessor,
)
from goldspan.collector_processor.in_process import span_pipeline
from goldspan.collector_processor.in_process.span_pipeline import MAX_QUEUED_LOGS
from goldspan.scoring.errors import SettingsError
from rigs.in_process_rig import Inner, Rig, scores
from rigs.scripted_agent import PARIS, ROME, Call, golden, golden_set
from rigs.waiting import until

GOLDENS = golden_set(golden("wanted", [PARIS]))
DETAILS = "gen_ai.client.inference.operation.details"
Write = Callable[..., None]


def choice(calls: Sequence[Call]) -> dict[str, Any]:
    """The body of a model's answer before semantic conventions 1.37."""
    asked = [
        {"id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": asked}}


def whole(calls: Sequence[Call]) -> dict[str, Any]:
    """The attributes of a model call since."""
    parts = [
        {"type": "tool_call", "id": f"call-{n}", "name": name, "arguments": arguments}
        for n, (name, arguments) in enumerate(calls)
    ]
    return {"gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}]}


class Agent:
    """Writes a turn whose arguments stand in a log record only."""

    def __init__(self, tracer_provider: TracerProvider, logger_provider: LoggerProvider) -> None:
        self.tracer = tracer_provider.get_tracer("agent")
        self.logger = logger_provider.get_logger("agent")

    def log(self, event_name: str, body: Any = None, **attributes: Any) -> None:
        self.logger.emit(event_name=event_name, body=body, attributes=attributes, severity_number=SeverityNumber.INFO)

    def turn(self, calls: Sequence[Call] = (ROME,), write: Write | None = None, session: str = "wanted") -> None:
        operation = "gen_ai.operation.name"
        root = {operation: "invoke_agent", "gen_ai.conversation.id": session}
        with self.tracer.start_as_current_span("invoke_agent weather", attributes=root):
            with self.tracer.start_as_current_span("chat", attributes={operation: "chat"}):
                if write is None:
                    self.log("gen_ai.choice", choice(calls))
                else:
                    write(self, calls)
            for number, (name, _) in enumerate(calls):
                told = {operation: "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": f"call-{number}"}
                with self.tracer.start_as_current_span(f"execute_tool {number}", attributes=told):
                    pass


class Traced:
    """Two providers with both doors on them."""

    def __init__(self, **options: Any) -> None:
        self.inner = Inner()
        self.door = ToolParameterMatchSpanProcessor(self.inner, **{"goldens": GOLDENS, **options})
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(self.door)
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(self.door))
        self.agent = Agent(self.tracer_provider, self.logger_provider)

    def scored(self) -> dict[str, Any]:
        self.tracer_provider.force_flush()
        return {span.name: scores(span).get("tool_parameter_match.score") for span in self.inner.spans}

    def close(self) -> None:
        self.logger_provider.shutdown()
        self.tracer_provider.shutdown()


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    made.close()


@pytest.fixture
def logged(rig: Rig) -> tuple[Rig, Agent]:
    """The rig, whose own events and whose agent's records go through one logger provider."""
    rig.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(rig.door))
    return rig, Agent(rig.tracer_provider, rig.logger_provider)


def as_text(agent: Agent, calls: Sequence[Call]) -> None:
    """As handlers of Python's logging write events: the name an attribute, the body JSON text."""
    agent.log("", json.dumps(choice(calls)), **{"event.name": "gen_ai.choice"})


def in_attributes(agent: Agent, calls: Sequence[Call]) -> None:
    agent.log(DETAILS, **whole(calls))


@pytest.mark.parametrize("write", [None, as_text, in_attributes], ids=["structured", "text", "attributes"])
def test_spans_carry_the_score_of_arguments_that_only_a_log_record_holds(traced: Traced, write: Write | None) -> None:
    traced.agent.turn([ROME], write)
    assert traced.scored()["execute_tool 0"] == 0.5


def test_without_it_the_arguments_are_unknown() -> None:
    inner = Inner()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ToolParameterMatchSpanProcessor(inner, goldens=GOLDENS))
    Agent(provider, LoggerProvider(shutdown_on_exit=False)).turn([ROME])
    provider.shutdown()
    reasons = [scores(span).get("tool_parameter_match.reason") for span in inner.spans]
    assert "arguments_not_captured" in reasons


def test_it_may_feed_an_exporter_too(logged: tuple[Rig, Agent]) -> None:
    rig, agent = logged
    agent.turn([PARIS])
    until(lambda: "invoke_agent weather" in rig.exported())
    assert rig.score("execute_tool 0") == 1.0


def test_a_record_is_taken_as_it_was_when_it_was_written(traced: Traced) -> None:
    class Redacts(ToolParameterMatchLogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            log_record.log_record.body = None
            log_record.log_record.attributes.clear()

    traced.logger_provider.add_log_record_processor(Redacts(traced.door))
    traced.agent.turn([PARIS], in_attributes)
    assert traced.scored()["execute_tool 0"] == 1.0


def test_a_record_that_comes_after_the_result_corrects_it(logged: tuple[Rig, Agent]) -> None:
    rig, agent = logged
    spans: list[Any] = []

    agent.turn([PARIS], lambda *_: spans.append(context.get_current()))
    until(lambda: "invoke_agent weather" in rig.exported())
    assert rig.score("execute_tool 0") is None
    agent.logger.emit(event_name="gen_ai.choice", body=choice([PARIS]), context=spans[0])

    def said() -> list[object]:
        about_call = [event.attributes for event in rig.events() if "gen_ai.tool.call.id" in event.attributes]
        return [one.get("gen_ai.evaluation.score.value") for one in about_call]

    until(lambda: said() == [None, 1.0])


def test_goldspan_does_not_feed_on_its_own_events(logged: tuple[Rig, Agent]) -> None:
    rig, agent = logged
    agent.turn([ROME])
    until(lambda: "invoke_agent weather" in rig.exported())
    assert [event.event_name for event in rig.events()] == ["gen_ai.choice", *["gen_ai.evaluation.result"] * 2]
    assert waiting(rig.door) == 0
    rig.door.force_flush()
    assert len(rig.events()) == 3


def test_ordinary_log_lines_are_left_alone(logged: tuple[Rig, Agent]) -> None:
    rig, agent = logged
    agent.log("gen_ai.choice", choice([PARIS]))  # written in no span
    with agent.tracer.start_as_current_span("plain"):
        agent.log("", "GET /weather")
        agent.log("checkout.started", {"cart": 3}, user="u-1")
        assert waiting(rig.door) == 0
        agent.log("", "GET /weather", **{"gen_ai.conversation.id": "wanted"})
        assert waiting(rig.door) == 1


def test_the_session_may_stand_in_log_records_only(traced: Traced) -> None:
    operation = "gen_ai.operation.name"
    told = {operation: "execute_tool", "gen_ai.tool.name": "get_weather"}
    arguments = json.dumps(PARIS[1])
    with traced.agent.tracer.start_as_current_span("invoke_agent weather", attributes={operation: "invoke_agent"}):
        traced.agent.log("", "a line", **{"session.id": "wanted"})
        with traced.agent.tracer.start_as_current_span(
            "execute_tool 0", attributes={**told, "gen_ai.tool.call.arguments": arguments}
        ):
            pass
    assert traced.scored()["execute_tool 0"] == 1.0


@pytest.mark.parametrize(
    "record",
    [
        None,
        object(),
        SimpleNamespace(log_record=None),
        SimpleNamespace(log_record=SimpleNamespace(trace_id="x", span_id=None)),
        SimpleNamespace(log_record=SimpleNamespace(trace_id=1, span_id=[], event_name="gen_ai.choice", attributes=3)),
        SimpleNamespace(
            log_record=SimpleNamespace(trace_id=1, span_id=2, event_name=None, attributes={"event.name": []})
        ),
    ],
)
def test_no_record_is_so_broken_that_it_raises(logged: tuple[Rig, Agent], record: Any) -> None:
    rig, agent = logged
    processor = ToolParameterMatchLogRecordProcessor(rig.door)
    processor.on_emit(record)
    agent.turn([PARIS])
    until(lambda: "invoke_agent weather" in rig.exported())
    assert rig.score("execute_tool 0") == 1.0


class Stuck(Inner):
    """An exporter that hangs until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go_on = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.go_on.wait(10)
        return super().export(spans)


def test_writing_a_record_never_waits_and_no_more_than_so_many_wait(make_rig: Callable[..., Rig]) -> None:
    stuck = Stuck()
    rig = make_rig(inner=stuck)
    rig.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(rig.door))
    agent = Agent(rig.tracer_provider, rig.logger_provider)
    exporting = threading.Thread(target=lambda: agent.tracer.start_span("plain").end())
    exporting.start()
    assert stuck.entered.wait(10)
    began = time.monotonic()
    with agent.tracer.start_as_current_span("plain") as span:
        for _ in range(MAX_QUEUED_LOGS + 10):
            agent.log("gen_ai.choice", choice([PARIS]))
        assert time.monotonic() - began < 8
        assert waiting(rig.door) == MAX_QUEUED_LOGS
        stuck.go_on.set()
        exporting.join()
        assert span.is_recording()
    assert rig.counted("goldspan.problems")["dropped_log_record"] == 10


def test_many_records_are_taken_in_at_once(logged: tuple[Rig, Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_pipeline, "_LOG_DELAY", 3600.0)
    rig, agent = logged
    with agent.tracer.start_as_current_span("plain"):
        for _ in range(256):
            agent.log("gen_ai.choice", choice([PARIS]))
        until(lambda: waiting(rig.door) == 0)


class Writing(Inner):
    """An exporter that writes a log record when it gets the spans that were held."""

    def __init__(self) -> None:
        super().__init__()
        self.write: Callable[[], None] = lambda: None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if any(span.name.startswith("invoke_agent") for span in spans):
            self.write()
        return super().export(spans)


def test_a_record_that_comes_while_spans_leave_is_read_soon(
    make_rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_pipeline, "_LOG_DELAY", 0.2)
    rig = make_rig(inner=(inner := Writing()))
    rig.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(rig.door))
    agent = Agent(rig.tracer_provider, rig.logger_provider)
    seen: list[int] = []

    def write() -> None:
        elsewhere = trace.set_span_in_context(trace.NonRecordingSpan(trace.SpanContext(7, 7, is_remote=False)))
        agent.logger.emit(event_name="gen_ai.choice", body=choice([PARIS]), context=elsewhere)
        seen.append(waiting(rig.door))

    inner.write = write
    agent.turn([PARIS])
    until(lambda: seen == [1])
    until(lambda: waiting(rig.door) == 0)


def test_a_flush_takes_in_what_waits(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(settle=3600.0)
    rig.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(rig.door))
    agent = Agent(rig.tracer_provider, rig.logger_provider)
    spans: list[Any] = []
    agent.turn([PARIS], lambda *_: spans.append(context.get_current()))
    agent.logger.emit(event_name="gen_ai.choice", body=choice([PARIS]), context=spans[0])
    assert rig.door.force_flush()
    assert rig.score("execute_tool 0") == 1.0


def test_the_log_side_may_end_before_the_spans_do(traced: Traced) -> None:
    traced.agent.turn([ROME])
    assert traced.logger_provider.force_flush()
    traced.logger_provider.shutdown()
    assert traced.scored()["execute_tool 0"] == 0.5


def test_after_the_spans_door_is_shut_records_go_nowhere(traced: Traced) -> None:
    traced.tracer_provider.shutdown()
    with traced.agent.tracer.start_as_current_span("late"):
        traced.agent.log("gen_ai.choice", choice([ROME]))
    assert waiting(traced.door) == 0


def test_where_nothing_is_scored_nothing_is_kept(
    make_rig: Callable[..., Rig], warnings_logged: Callable[[], list[str]]
) -> None:
    rig = make_rig(goldens="nowhere.yaml")
    rig.logger_provider.add_log_record_processor(ToolParameterMatchLogRecordProcessor(rig.door))
    Agent(rig.tracer_provider, rig.logger_provider).turn([ROME])
    assert waiting(rig.door) == 0
    assert len(warnings_logged()) == 1


@pytest.mark.parametrize("door", [None, Inner(), BatchSpanProcessor, ToolParameterMatchExporter])
def test_only_a_door_can_be_fed(door: Any) -> None:
    with pytest.raises(SettingsError, match="expected the ToolParameterMatchSpanProcessor"):
        ToolParameterMatchLogRecordProcessor(door)


def waiting(door: ToolParameterMatchExporter | ToolParameterMatchSpanProcessor) -> int:
    """How many log records wait to be taken in."""
    exporter = door if isinstance(door, ToolParameterMatchExporter) else door._scoring_exporter
    made = exporter._pipeline.get()
    assert made is not None
    return len(made._logs)
