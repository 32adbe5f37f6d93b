"""What is taken for a tool span where no table reads it and no model asked for it, and what never is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span, read_alone

PARIS = {"city": "Paris"}
TEXT = json.dumps(PARIS)
USER_SAID, MODEL_SAID = (
    json.dumps([{"role": role, "parts": [{"type": "text", "content": "sun"}]}]) for role in ("user", "assistant")
)


def read(name: str, attributes: dict[str, Any]) -> SpanFacts:
    return read_alone(Span(attributes, name=name))


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("run", {"tool.name": "search", "tool.arguments": TEXT}),
        ("run", {"tool_name": "search", "tool_input": TEXT}),
        ("run", {"tool.name": "search", "tool.parameters": TEXT}),
        ("run", {"toolName": "search", "args": TEXT}),
        ("run", {"function.name": "search", "function.arguments": TEXT}),
        ("run", {"function_name": "search", "arguments": TEXT}),
        ("run", {"tool.name": "search", "input": TEXT}),
        ("run", {"tool.name": "search", "input": PARIS}),
        ("run", {"gen_ai.tool.name": "search", "input": TEXT}),
        ("run", {"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": "search", "input": TEXT}),
        ("tool: search", {"input": TEXT}),
        ("Toolkit.handle", {"tool": "search", "parameters": TEXT}),
        ("execute_tool search", {"arguments": TEXT}),
        ("Tool:search", {"args": TEXT}),
        ("tool.search", {"parameters": TEXT}),
        ("search", {"span.type": "tool", "input": TEXT}),
        (
            "search.tool",
            {"agentops.span.kind": "tool", "agentops.entity.input": '{"args": [], "kwargs": {"city": "Paris"}}'},
        ),
        ("search", {"lmnr.span.type": "TOOL", "lmnr.span.input": TEXT}),
        ("search", {"langwatch.span.type": "tool", "langwatch.input": json.dumps({"type": "json", "value": PARIS})}),
    ],
)
def test_a_tool_named_somewhere_with_its_arguments_as_an_object(name: str, attributes: dict[str, Any]) -> None:
    facts = read(name, attributes)
    assert facts.tool is not None, facts
    assert (facts.role, facts.tool.name, facts.tool.arguments.value) == (Role.TOOL, "search", PARIS)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("run", {"tool.name": "hammer"}),  # no arguments, and nothing else says tool
        ("run", {"tool.name": "search", "input": "Paris"}),
        ("run", {"tool": "function", "input": TEXT}),
        ("run", {"tool.name": "search", "input": "[1, 2]"}),
        ("run", {"tool.name": "search", "tool.parameters": '{"type": "object", "properties": {"city": {}}}'}),
        ("run", {"tool.name": 7, "input": TEXT}),
        ("search", {"input": TEXT}),
        ("tool: ", {"input": TEXT}),
        ("GET /tool", {"http.request.method": "GET", "tool.name": "search", "input": TEXT}),
        ("SELECT", {"db.system.name": "postgresql", "span.type": "tool", "input": TEXT}),
        ("chat", {"gen_ai.operation.name": "chat", "gen_ai.tool.name": "search", "input": TEXT}),
        ("chain", {"openinference.span.kind": "CHAIN", "tool_name": "search", "args": TEXT}),
        ("step", {"span.type": ["tool"], "input": TEXT}),
        ("step", {"span.type": "server", "input": TEXT}),
    ],
)
def test_nothing_else_is_a_tool(name: str, attributes: dict[str, Any]) -> None:
    assert read(name, attributes).role is not Role.TOOL


def test_what_is_marked_as_a_tool_needs_no_arguments() -> None:
    facts = read("search", {"span.type": "tool"})
    assert facts.tool is not None
    assert (facts.tool.name, facts.tool.arguments.capture) == ("search", Capture.NOT_CAPTURED)


def test_a_span_named_as_a_call_that_names_its_tool_once_more_needs_none_either() -> None:
    facts = read("Tool: search", {"tool.name": "search", "function.id": "call_1"})
    assert facts.tool is not None
    assert (facts.tool.name, facts.tool.arguments.capture) == ("search", Capture.NOT_CAPTURED)
    assert read("Tool: search", {"tool.name": "find"}).role is None


def test_ids_results_and_failures_are_read_too() -> None:
    facts = read("x", {"tool.name": "f", "args": "{}", "tool_call_id": "c1", "output": "no", "tool.status": "failed"})
    assert facts.tool is not None
    assert (facts.tool.call_id, facts.tool.result.value, bool(facts.tool.error)) == ("c1", "no", True)


def test_an_agent_s_span_is_told_by_its_kind() -> None:
    assert read("support", {"span.type": "agent"}).role is Role.AGENT
    assert read("support", {"span.type": "agent", "http.request.method": "GET"}).role is None


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"span.type": "agent", "input": "A table for two", "input.mime_type": "text/plain"}, "A table for two"),
        ({"span.type": "agent", "input": "A table for two", "params": "x"}, None),
        ({"span.type": "agent", "input": TEXT}, None),
    ],
)
def test_what_an_agent_was_told_is_its_input_if_that_is_one_text(attributes: dict[str, Any], told: str | None) -> None:
    assert read("support", attributes).context.user_text.value == told


BOOKING: dict[str, Any] = {"seat": 7, "where": {"row": 2}, "extra": None}
WRITTEN = {
    "each an attribute": {
        "seat": 7,
        "where": '{"row": 2}',
        "extra": "null",
        "return": "x",
        "logfire.msg_template": "f",
    },
    "each one of a function": {"code.function.parameter.seat": 7, "code.function.parameter.where": '{"row": 2}'},
    "each as a text": {"task.kind": "tool", "input": json.dumps({"seat": "7", "where": '{"row": 2}', "extra": "None"})},
}


@pytest.mark.parametrize("attributes", WRITTEN.values(), ids=WRITTEN)
def test_the_execution_of_a_request_is_known_by_arguments_however_written(attributes: dict[str, Any]) -> None:
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "book", "arguments": json.dumps(BOOKING)}}]}
    model = Span({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([asked])}, span_id="11" * 8)
    for name, ran in (("book", True), ("cancel", False)):
        run = Span({**attributes, "error.type": "full"}, name=name, parent_id=model.span_id, start=2_000, end=3_000)
        [session] = assemble(map(DialectRegistry().read, (model, run)))
        [call] = session.calls
        assert (call.name, call.arguments) == ("book", BOOKING)
        assert (call.requested, call.error) == (not ran, "full" if ran else None)


def test_pieces_of_an_answer_are_no_models_of_their_own() -> None:
    asked = [{"toolCallId": call_id, "toolName": "book", "args": {"seat": n}} for n, call_id in enumerate(("c1", "c2"))]
    given = json.dumps([{"role": "user", "content": "Two seats"}])
    step = Span({"x.input": given, "x.output": json.dumps({"toolCalls": asked})}, span_id="a" * 16, end=9_000)
    pieces = [
        Span({"x.output": json.dumps(one)}, span_id=f"b{n}" * 8, parent_id=step.span_id, start=1_100 + n, end=1_200 + n)
        for n, one in enumerate(asked)
    ]
    runs = [
        Span(
            {"x.kind": "tool", "x.tool.call.id": one["toolCallId"], "x.arguments": json.dumps(one["args"])},
            name="book",
            span_id=f"c{n}" * 8,
            parent_id=step.span_id,
            start=2_000 + 100 * n,
            end=2_050 + 100 * n,
        )
        for n, one in enumerate(asked)
    ]
    [session] = assemble(map(DialectRegistry().read, (step, *pieces, *runs)))
    assert [(call.call_id, call.requested, call.batch) for call in session.calls] == [
        ("c1", False, 1),
        ("c2", False, 1),
    ]


def test_what_is_around_an_agent_is_no_model_so_that_calls_nobody_recorded_are_missed() -> None:
    said = {"gen_ai.input.messages": USER_SAID, "gen_ai.output.messages": MODEL_SAID}
    entry = Span({"gen_ai.operation.name": "enter", **said}, span_id="a" * 16, end=9_000)
    crew = Span({"gen_ai.operation.name": "invoke_agent", **said}, span_id="b" * 16, parent_id=entry.span_id)
    [session] = assemble(map(DialectRegistry().read, (entry, crew)))
    assert [(turn.calls, turn.calls_visible) for turn in session.turns] == [((), False)]


@pytest.mark.parametrize(("name", "told"), [("get_weather.tool", True), ("fetch.tool", False)])
def test_an_execution_without_arguments_has_those_of_the_one_span_below_it_with_its_name(
    name: str, *, told: bool
) -> None:
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    outer = Span(called, name="execute_tool get_weather", span_id="a" * 16, end=9_000)
    inner = Span({"app.input": TEXT, "error.type": "late"}, name=name, span_id="b" * 16, parent_id=outer.span_id)
    [session] = assemble(map(DialectRegistry().read, (outer, inner)))
    assert [(call.arguments, call.error) for call in session.calls] == [(PARIS, "late") if told else (None, None)]


LONG = json.dumps({"city": "Paris", "notes": "by the river " * 20})


@pytest.mark.parametrize("text", [LONG[:128], json.dumps(LONG)[:128]])
def test_a_tool_whose_arguments_are_cut_off_is_one_all_the_same(text: str) -> None:
    facts = read("run", {"tool.name": "search", "tool.arguments": text})
    assert facts.tool is not None, facts
    assert facts.tool.arguments.capture is Capture.TRUNCATED


@pytest.mark.parametrize(("name", "requested"), [("search", False), ("fetch", True)])
def test_a_request_is_executed_by_a_call_of_its_name_whose_arguments_are_cut_off(name: str, *, requested: bool) -> None:
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": LONG}}]}
    model = Span({"x.output": json.dumps([asked]), "x.input": json.dumps([{"role": "user", "content": "Weather"}])})
    run = {"tool.name": name, "tool.arguments": LONG[:128]}
    ran = Span(run, span_id="a" * 16, parent_id=model.span_id, start=1_500, end=1_900)
    [session] = assemble(map(DialectRegistry().read, (model, ran)))
    assert [call.requested for call in session.calls] == [requested]


def decorated(number: int, arguments: Any, name: str = "book") -> Span:
    """A function that a decorator traces: nothing says that it is a tool."""
    said = {"app.function": name, "app.values": json.dumps(arguments)}
    start = 1_000 * number
    return Span(said, name=name, span_id=f"{number:x}" * 16, parent_id="f" * 16, start=start, end=start + 500)


@pytest.mark.parametrize(
    ("arguments", "name", "found"),
    [({"seat": 8}, "book", 2), ({"seat": 7}, "book", 1), ({"seat": 8}, "main", 1)],
    ids=["other arguments", "written once more", "no tool's name"],
)
def test_what_is_written_like_the_execution_of_a_request_is_another(arguments: Any, name: str, found: int) -> None:
    asked = {"role": "assistant", "tool_calls": [{"function": {"name": "book", "arguments": '{"seat": 7}'}}]}
    given = json.dumps([{"role": "user", "content": "A seat"}])
    root = Span({"gen_ai.operation.name": "invoke_agent"}, span_id="f" * 16, end=9_000)
    model = Span({"x.input": given, "x.output": json.dumps([asked])}, name="ask", span_id="a" * 16, parent_id="f" * 16)
    ran = decorated(2, {"seat": 7}), decorated(3, arguments, name)
    [session] = assemble(map(DialectRegistry().read, (root, model, *ran)))
    assert len(session.calls) == found


@pytest.mark.parametrize(("name", "doubted"), [("ask", True), ("log", False)])
def test_what_is_named_like_a_model_that_asked_is_one(name: str, *, doubted: bool) -> None:
    """So a request that nobody executed was not the last word of a turn."""
    seats = [
        {"role": "assistant", "tool_calls": [{"function": {"name": "book", "arguments": json.dumps({"seat": seat})}}]}
        for seat in (7, 8)
    ]
    root = Span({"gen_ai.operation.name": "invoke_agent"}, span_id="f" * 16, end=9_000)
    models = [
        Span({"x.output": json.dumps([asked])}, "ask", span_id=span, parent_id="f" * 16, start=start, end=start + 9)
        for asked, span, start in zip(seats, ("a" * 16, "b" * 16), (1_000, 3_000), strict=True)
    ]
    last = Span({"x.output": "Done."}, name=name, span_id="c" * 16, parent_id="f" * 16, start=4_000, end=4_500)
    [session] = assemble(map(DialectRegistry().read, (root, *models, decorated(2, {"seat": 7}), last)))
    assert [doubt.code for turn in session.turns for doubt in turn.doubts] == ["rejected_unseen"] * doubted
