"""The door without goldens: every session, or a sample of them, is scored by the metrics that need none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import live_agent
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from goldspan.collector_processor import ToolParameterMatchExporter, ToolParameterMatchSpanProcessor
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.in_process.trace_filter import TraceFilter
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from rigs.in_process_rig import Counting, Inner, MakeRig, Rig, recorded
from rigs.markdown_pages import blocks
from rigs.repository import ROOT
from rigs.scripted_agent import PARIS, ROME, golden, golden_set, run_turn

PAGE = ROOT / "docs" / "in-process.md"
SCHEMA, GROUNDING, REPETITION = (metric.name for metric in WITHOUT_GOLDEN)
UNSCORED = "tool_parameter_match.not_evaluated"
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "How warm is it in Paris, in celsius?"}]}]
DEFINED = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]


@pytest.fixture(name="live", scope="module")
def _live() -> tuple[InMemorySpanExporter, InMemoryLogRecordExporter, InMemoryMetricReader]:
    """The example's agent, and what its process exports with the one line of set-up that a user writes."""
    spans, events, points = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryMetricReader()
    loggers, meters, tracers = LoggerProvider(), MeterProvider([points]), TracerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
    tracers.add_span_processor(
        ToolParameterMatchSpanProcessor(spans, emit="all", logger_provider=loggers, meter_provider=meters),
    )
    live_agent.converse(tracers)
    tracers.shutdown()
    return spans, events, points


def test_tool_spans_and_roots_of_a_live_agent_carry_the_scores(live: Any) -> None:
    tools = {
        json.dumps(json.loads(arguments)) if arguments else "": dict(span.attributes)
        for span in live[0].get_finished_spans()
        if (arguments := span.attributes.get("gen_ai.tool.call.arguments"))
    }
    right = tools['{"room": "kitchen", "celsius": 21.6}']
    wrong = tools['{"room": "bath", "celsius": 18}']
    assert (right[f"{SCHEMA}.score"], right[f"{SCHEMA}.label"]) == (1.0, "pass")
    assert (right[f"{REPETITION}.score"], f"{REPETITION}.label" in right) == (1.0, False)
    assert (wrong[f"{GROUNDING}.score"], wrong[f"{GROUNDING}.label"]) == (0.5, "fail")
    assert wrong[f"{GROUNDING}.ungrounded"] == ("room",)
    spans = sorted(live[0].get_finished_spans(), key=lambda span: span.start_time)
    roots = [span for span in spans if span.parent is None]
    assert [root.attributes[f"{GROUNDING}.turn.label"] for root in roots] == ["pass", "fail"]
    every = [key for span in spans for key in span.attributes]
    assert not any(key.startswith("tool_parameter_match.") for key in every)


def test_its_events_are_of_calls_turns_and_the_session(live: Any) -> None:
    events = [dict(entry.log_record.attributes) for entry in live[1].get_finished_logs()]
    for name in (SCHEMA, GROUNDING, REPETITION):
        mine = [event for event in events if event["gen_ai.evaluation.name"] == name]
        assert sorted(event[f"{name}.level"] for event in mine) == ["call"] * 3 + ["session"] + ["turn"] * 2
        assert {event[f"{name}.revision"] for event in mine} == {1}
        assert not any(f"{name}.golden" in event for event in mine)
    near, wrong = (event for event in events if f"{GROUNDING}.ungrounded" in event)
    for event, argument in ((near, "celsius"), (wrong, "room")):
        explained = f"1 of 2 values; set_temperature.{argument}: comes from nowhere"
        assert event["gen_ai.evaluation.explanation"].startswith(explained)
    assert "bath" not in json.dumps(events)


def test_by_default_findings_alone_are_told_and_the_rest_is_counted() -> None:
    spans, events, points = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryMetricReader()
    loggers, meters, tracers = LoggerProvider(), MeterProvider([points]), TracerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
    tracers.add_span_processor(ToolParameterMatchSpanProcessor(spans, logger_provider=loggers, meter_provider=meters))
    live_agent.converse(tracers)
    tracers.shutdown()
    told = [dict(entry.log_record.attributes) for entry in events.get_finished_logs()]
    assert {event["gen_ai.evaluation.name"] for event in told} == {GROUNDING}
    assert {event["gen_ai.evaluation.score.label"] for event in told} == {"fail"}
    assert sorted(event[f"{GROUNDING}.level"] for event in told) == ["call", "call", "session", "turn"]
    marked = [span for span in spans.get_finished_spans() if any(".score" in key for key in span.attributes)]
    assert sorted(span.name.partition(" ")[0] for span in marked) == ["execute_tool", "execute_tool", "invoke_agent"]
    counted = {
        (metric.name, point.count)
        for resource in points.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == f"{SCHEMA}.score"
        for point in metric.data.data_points
    }
    assert counted


def test_its_points_are_by_tool_and_argument(live: Any) -> None:
    metrics = {
        metric.name: metric.data.data_points
        for resource in live[2].get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {f"{name}.score" for name in (SCHEMA, GROUNDING, REPETITION)} <= set(metrics)
    failed = {
        point.attributes[f"{GROUNDING}.argument"]: point.value for point in metrics[f"{GROUNDING}.failed_arguments"]
    }
    assert failed == {"celsius": 1, "room": 1}, "21.6 is not the 21.5 that was asked for, and no bath was named"
    assert UNSCORED not in metrics


def test_the_example_of_the_page_gives_what_the_page_shows(make_rig: MakeRig) -> None:
    parts = blocks(PAGE.read_text("utf-8"))
    at = next(index for index, one in enumerate(parts) if "execute_tool get_weather" in one.text)
    rig = make_rig(goldens=None, emit="findings")
    exec(parts[at].text, {"trace": SimpleNamespace(get_tracer=lambda _: rig.tracer)})
    rig.door.force_flush()
    attributes = rig.exported()["execute_tool get_weather"].attributes or {}
    shown = re.findall(r"(tool_[\w.]+) +(\[.*?\]|\S+)", parts[at + 1].text)
    assert len(shown) == 6
    assert not any(name.startswith(REPETITION) for name in attributes)  # in order
    for name, value in shown:
        found = attributes[name]
        assert (json.dumps(list(found)) if isinstance(found, tuple) else str(found)) == value, name


def turn_with_content(rig: Rig, session: str | None, arguments: Mapping[str, Any], *, asked: Any = ASKED) -> None:
    """A turn whose model call has messages and definitions of tools."""
    agent = {"gen_ai.operation.name": "invoke_agent", **({"gen_ai.conversation.id": session} if session else {})}
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.tool.definitions": json.dumps(DEFINED),
    }
    call = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": "warm",
    }
    with rig.tracer.start_as_current_span("turn", attributes=agent):
        rig.tracer.start_span("chat", attributes=model).end()
        rig.tracer.start_span("tool", attributes=call).end()


def found(rig: Rig, name: str, level: str = "call") -> list[dict[str, Any]]:
    events = [dict(record.attributes) for record in rig.events()]
    return [event for event in events if event["gen_ai.evaluation.name"] == name and event[f"{name}.level"] == level]


def labels(rig: Rig, name: str) -> list[object]:
    return [event.get("gen_ai.evaluation.score.label") for event in found(rig, name)]


def test_a_turn_is_told_when_it_is_over_and_the_session_later(make_rig: MakeRig) -> None:
    rig = make_rig(goldens=None)
    turn_with_content(rig, "s", {"city": "Paris"})
    rig.door.force_flush()
    assert [len(found(rig, GROUNDING, level)) for level in ("call", "turn", "session")] == [1, 1, 0]
    rig.door.shutdown()
    assert len(found(rig, GROUNDING, "session")) == 1


@pytest.mark.parametrize("session", ["s", None], ids=["named", "by its trace id"])
def test_a_session_needs_no_name(make_rig: MakeRig, session: str | None) -> None:
    rig = make_rig(goldens=None)
    turn_with_content(rig, session, {"city": "Oslo"})
    rig.close()
    assert (labels(rig, SCHEMA), labels(rig, GROUNDING)) == (["pass"], ["fail"])


def test_nothing_is_said_or_counted_of_goldens_that_are_not_there(
    make_rig: MakeRig, warnings_logged: Callable[[], list[str]]
) -> None:
    rig = make_rig(goldens=None)
    rig.turn("s")
    rig.door.force_flush()
    rig.door.shutdown()
    assert warnings_logged() == []
    assert rig.points(UNSCORED) == []


def test_with_goldens_only_what_is_chosen_runs(make_rig: MakeRig) -> None:
    rig = make_rig()
    turn_with_content(rig, "wanted", PARIS[1])
    turn_with_content(rig, "other", PARIS[1])
    rig.close()
    assert {record.attributes["gen_ai.evaluation.name"] for record in rig.events()} == {"tool_parameter_match"}


def test_beside_goldens_sessions_without_one_are_scored_by_what_needs_none(
    make_rig: MakeRig, warnings_logged: Callable[[], list[str]]
) -> None:
    rig = make_rig(goldens=golden_set(golden("wanted", [ROME])), metrics=[SCHEMA, "trajectory_f1"])
    turn_with_content(rig, "other", {"city": 3})
    rig.door.end_of_input()
    [warning] = warnings_logged()
    assert warning.startswith("0 of 1 goldens seen; sessions seen: other ")
    turn_with_content(rig, "wanted", {"city": "Rome"})
    rig.door.shutdown()
    assert labels(rig, SCHEMA) == ["fail", "pass"]
    assert [event["gen_ai.conversation.id"] for event in found(rig, "trajectory_f1", "turn")] == ["wanted"]
    [point] = rig.points(UNSCORED)
    assert point.value == 1


def test_one_metric_reads_no_more_than_it_needs(make_rig: MakeRig) -> None:
    rig = make_rig(goldens=None, metrics=[SCHEMA])
    turn_with_content(rig, "s", {"city": "Oslo", "unit": "K"})
    rig.close()
    assert labels(rig, SCHEMA) == ["fail"]
    assert found(rig, GROUNDING) == []


@pytest.mark.parametrize("how", ["definitions", "a file"])
def test_tools_take_the_place_of_those_in_telemetry(make_rig: MakeRig, tmp_path: Path, how: str) -> None:
    given: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": {"required": ["unit"]}}}]
    if how == "a file":
        (tmp_path / "tools.json").write_text(json.dumps(given), "utf-8")
        given = tmp_path / "tools.json"
    rig = make_rig(goldens=None, tools=given)
    turn_with_content(rig, "s", {"city": "Paris"})
    rig.close()
    assert found(rig, SCHEMA)[0][f"{SCHEMA}.invalid"] == ("unit",)


@pytest.mark.parametrize(
    "options",
    [{"sample": 0}, {"sample": 1.1}, {"sample": True}, {"sample": "all"}, {"tools": "nowhere.json"}, {"tools": []}],
    ids=str,
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        ToolParameterMatchExporter(Inner(), **options)


def test_metrics_that_all_need_a_golden_are_told(warnings_logged: Callable[[], list[str]]) -> None:
    ToolParameterMatchExporter(Inner(), metrics=["trajectory_f1"]).shutdown()
    assert warnings_logged() == ["no goldens, and each metric chosen needs one, so nothing is scored"]


# Sampling.

INSIDE, OUTSIDE = ("s-1", "s-15", "s-19"), ("s-0", "s-2", "s-3")
"""By the digest of the id, so they are the same in every process and on every machine."""


def test_the_same_sessions_are_in_a_sample_everywhere(make_rig: MakeRig) -> None:
    rig = make_rig(goldens=None, sample=0.1)
    for session in (*INSIDE, *OUTSIDE):
        rig.turn(session)
    rig.close()
    assert {event["gen_ai.conversation.id"] for event in found(rig, REPETITION)} == set(INSIDE)


def turn_of(session: str | None) -> list[ReadableSpan]:
    def play(tracer: Tracer) -> None:
        run_turn(tracer, session, [PARIS])

    return recorded(play)


def filter_of(index: GoldenIndex, registry: DialectRegistry) -> TraceFilter:
    settings = EngineSettings(scorer=scorer_of(metrics=WITHOUT_GOLDEN))
    return TraceFilter(index, settings, registry, content=True, on_failure=_fail)


def test_of_a_session_outside_the_sample_no_span_is_read_or_held() -> None:
    index, registry = GoldenIndex(sample=0.1), Counting()
    filter_ = filter_of(index, registry)
    for number in range(100):
        if not index.samples(f"s-{number}"):
            assert list(filter_.add(turn_of(f"s-{number}"), 0.0)) == []
    assert registry.read_spans == []
    assert filter_.engine.stats.sessions_without_golden == 0


def test_a_trace_that_names_two_sessions_is_in_no_sample_in_any_door() -> None:
    index = GoldenIndex(sample=0.5)
    outside = [f"s-{number}" for number in range(50) if not index.samples(f"s-{number}")][:2]

    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("turn", attributes={"gen_ai.operation.name": "invoke_agent"}):
            for session in outside:
                named = {"gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": "{}", "gen_ai.conversation.id": session}
                tracer.start_span("tool", attributes={"gen_ai.operation.name": "execute_tool", **named}).end()

    scorer = scorer_of(metrics=WITHOUT_GOLDEN)
    for _ in range(20):  # of trace ids, about half are in the sample
        spans = recorded(play)
        said: list[Evaluation] = []
        replay(
            views(spans, on_problem=lambda _: None),
            index,
            DialectRegistry(definitions=True),
            problems=[],
            consumers=[said.append],
            scorer=scorer,
        )
        filter_ = filter_of(index, DialectRegistry(definitions=True))
        list(filter_.add(spans, 0.0))
        assert (list(filter_.flush(0.1, end_of_input=True).evaluations), said) == ([], [])


@pytest.mark.parametrize(("session", "scored"), [(INSIDE[0], True), (OUTSIDE[0], False)])
def test_a_trace_that_names_its_session_late_is_held_until_it_does(session: str, scored: bool) -> None:
    filter_ = filter_of(GoldenIndex(sample=0.1), DialectRegistry(definitions=True))

    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("plain", attributes={"http.route": "/"}):
            name, arguments = PARIS
            call = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
            tracer.start_span("tool", attributes={"gen_ai.operation.name": "execute_tool", **call}).end()
            named = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": session}
            tracer.start_span("chat", attributes=named).end()

    tool, chat, root = recorded(play)
    held = {ref for ref, _ in filter_.add([tool, root], 0.0)}
    assert len(held) == 2
    list(filter_.add([chat], 0.1))
    output = filter_.flush(0.2, end_of_input=True)
    assert output.released == held
    assert bool(output.evaluations) is scored


def _fail(where: str, error: Exception) -> None:
    raise AssertionError(where) from error
