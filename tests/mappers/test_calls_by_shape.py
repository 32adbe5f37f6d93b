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


@pytest.mark.parametrize(
    ("attributes", "failed"),
    [
        ({"acme.level": "ERROR"}, True),
        ({"acme.level": "DEFAULT"}, False),
        ({"log.level": "ERROR"}, False),
        ({"output": '[{"text": "Error: no table"}]'}, True),
        ({"output": '[{"text": "no table"}]'}, False),
    ],
)
def test_a_level_and_a_block_of_text_tell_failures(attributes: dict[str, Any], failed: bool) -> None:
    facts = read("x", {"tool.name": "f", "args": "{}", **attributes})
    assert facts.tool is not None
    assert bool(facts.tool.error) is failed


def test_strands_tells_a_failure_by_a_status_of_its_own() -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    errors = [
        facts.tool and facts.tool.error
        for facts in (read("x", named | {"tool.status": status}) for status in ("error", "success"))
    ]
    assert errors == ["error", None]


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


def test_arguments_that_stand_one_by_one_may_hold_lists() -> None:
    flat = {"t.args.seats.0.row": 7, "t.args.seats.0.side": "left", "t.args.seats.1.row": 8, "t.args.day": "Monday"}
    facts = read("run", {"tool.name": "book", **flat})
    assert facts.tool is not None
    seats = [{"row": 7, "side": "left"}, {"row": 8}]
    assert facts.tool.arguments.value == {"seats": seats, "day": "Monday"}


@pytest.mark.parametrize("name", ["tools/call", "call_tool"])
def test_the_tool_of_a_protocol_s_request_is_the_one_that_it_names(name: str) -> None:
    params = {"name": "search", "arguments": PARIS, "_meta": {"progressToken": 1}}
    written = {"jsonrpc.method": "tools/call", "jsonrpc.params": json.dumps(params), "jsonrpc.result": "{}"}
    facts = read(name, written)
    assert facts.tool is not None
    assert (facts.tool.name, facts.tool.arguments.value) == ("search", PARIS)


def test_what_a_named_tool_was_called_with_is_no_protocol_s_request() -> None:
    arguments = {"name": "Ada", "arguments": {"mood": "good"}}
    facts = read("greet", {"span.type": "tool", "tool.input": json.dumps(arguments)})
    assert facts.tool is not None
    assert facts.tool.name == "greet"


def asking(*seats: int, call_id: str = "c") -> dict[str, Any]:
    calls = [
        {"id": f"{call_id}{seat}", "function": {"name": "book", "arguments": json.dumps({"seat": seat})}}
        for seat in seats
    ]
    return {"role": "assistant", "tool_calls": calls}


def below(number: int, name: str, attributes: dict[str, Any], **more: Any) -> Span:
    start = 1_000 * number
    return Span(attributes, name, span_id=f"{number:x}" * 16, parent_id="f" * 16, start=start, end=start + 500, **more)


def calls_of(*spans: Span) -> list[tuple[str, int, bool]]:
    root = Span({"session.id": "s"}, span_id="f" * 16, end=9_000)
    [session] = assemble(map(DialectRegistry().read, (root, *spans)))
    assert not any(turn.doubts for turn in session.turns)
    return [(call.name, call.batch, call.error is not None) for call in session.calls]


def test_a_message_of_an_assistant_alone_is_an_answer_under_any_key() -> None:
    said = [{"role": "user", "content": "Two seats"}]
    assert calls_of(below(1, "ask", {"llm.prompt": json.dumps(said), "llm.reply": json.dumps(asking(7, 8))})) == [
        ("book", 1, False),
        ("book", 1, False),
    ]


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm.request.messages": json.dumps([{"role": "user", "content": "Hello"}])},
        {"prompt": "Hello", "completion": "Good morning"},
    ],
    ids=["messages and no answer", "texts"],
)
def test_a_turn_without_calls_is_known_by_what_its_model_was_told(attributes: dict[str, Any]) -> None:
    root = Span({"session.id": "s"}, span_id="f" * 16, end=9_000)
    [session] = assemble(map(DialectRegistry().read, (root, below(1, "ask", attributes))))
    assert [turn.calls for turn in session.turns] == [()]


def test_executions_between_models_are_one_batch_where_the_first_one_s_answer_is_cut() -> None:
    cut = json.dumps([asking(7, 8)])[:60]
    ran = [below(2 + at, "run", {"tool.name": "book", "args": json.dumps({"seat": 7 + at})}) for at in (0, 1)]
    last = below(4, "ask", {"x.output": json.dumps([{"role": "assistant", "content": "Booked"}])})
    assert calls_of(below(1, "ask", {"x.output": cut}), *ran, last) == [("book", 1, False), ("book", 1, False)]


@pytest.mark.parametrize("call_id", ["c1", "c2"])
def test_a_failure_may_be_told_by_the_span_that_is_written_as_a_call_ends(call_id: str) -> None:
    begun = below(1, "tool_start", {"span.type": "tool", "tool_name": "book", "tool_call_id": "c1", "args": "{}"})
    ended = below(2, "tool_end", {"tool_call_id": call_id, "tool_error": "no seat", "tool_output": "no seat"})
    assert calls_of(begun, ended) == [("book", 1, call_id == "c1")]


def test_calls_whose_ids_are_numbered_anew_failed_as_the_model_after_each_was_told() -> None:
    history: list[Any] = [{"role": "user", "content": "Seats"}]
    models: list[Span] = []
    for number, (seat, result) in enumerate(((7, "Error: taken"), (8, "booked")), start=1):
        asked = {**asking(seat), "tool_calls": [{**asking(seat)["tool_calls"][0], "id": "call_0"}]}
        models.append(below(number, "ask", {"x.input": json.dumps(history), "x.output": json.dumps([asked])}))
        history += [asked, {"role": "tool", "tool_call_id": "call_0", "content": result}]
    done = {"role": "assistant", "content": "Done"}
    models.append(below(3, "ask", {"x.input": json.dumps(history), "x.output": json.dumps([done])}))
    assert calls_of(*models) == [("book", 1, True), ("book", 2, False)]


@pytest.mark.parametrize(
    "text", ["Fehler: belegt", "Erreur : occupé", "エラー: 満席", "错误\uff1a已满", "Fehlerfrei: gebucht"]
)
def test_results_begin_as_errors_in_other_languages(text: str) -> None:
    facts = read("book", {"span.type": "tool", "args": "{}", "output": text})
    assert facts.tool is not None
    assert (facts.tool.error is not None) == (text != "Fehlerfrei: gebucht")


def doubts_of(*spans: Span) -> set[str]:
    sessions = assemble(map(DialectRegistry().read, spans))
    return {doubt.code for session in sessions for turn in session.turns for doubt in turn.doubts}


RUN = {"tool.name": "book", "tool.args": '{"seat": 7}', "tool.result": "booked"}


@pytest.mark.parametrize(
    ("second", "root", "doubted"),
    [
        ({"input": "And another", "output": "Booked"}, {}, True),
        ({"input": TEXT, "output": "Booked"}, {}, False),
        ({"input": "And another"}, {}, False),
        ({"input": "And another", "output": "Booked"}, {"input": "Two seats", "output": "Both booked"}, False),
    ],
    ids=["another message", "a step's state", "no answer", "the turn's own messages"],
)
def test_parts_of_a_silent_root_that_answer_a_text_each_may_be_turns(
    second: dict[str, Any], root: dict[str, Any], *, doubted: bool
) -> None:
    above = Span({"session.id": "s", **root}, span_id="f" * 16, end=9_000)
    parts = [below(1, "on_text", {"input": "A seat", "output": "Booked"}), below(3, "on_text", second)]
    ran = [
        Span(RUN, "act", span_id=own * 16, parent_id=part * 16, start=start, end=start + 99)
        for own, part, start in (("a", "1", 1_100), ("b", "3", 3_100))
    ]
    assert ("several_user_messages" in doubts_of(above, *parts, *ran)) is doubted


@pytest.mark.parametrize("parent", ["", "f" * 16])
def test_a_tool_with_nothing_around_it_may_be_a_part_of_a_turn(parent: str) -> None:
    ran = Span({**RUN, "session.id": "s"}, "act", span_id="a" * 16, parent_id=parent, start=1_100, end=1_200)
    root = Span({"session.id": "s"}, span_id="f" * 16, end=9_000)
    assert doubts_of(ran, root) == ({"tool_alone"} if not parent else set())
