"""Spans as platforms document them that no table reads and no recording shows: two calls that one model asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from goldspan.mappers import read_sessions

USER = [{"role": "user", "content": "weather?"}]
CALLS = [("get_weather", {"city": "Paris"}, "21"), ("convert", {"value": 2}, "35")]
ASKS: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments, _) in enumerate(CALLS)
    ],
}
RESULTS = [{"role": "tool", "tool_call_id": f"c{number}", "content": call[2]} for number, call in enumerate(CALLS)]
ANSWER: dict[str, Any] = {"role": "assistant", "content": "done"}

Written = Mapping[str, Any]


class Way(NamedTuple):
    """How one platform writes an agent, a model's call and a tool's."""

    agent: Written
    model: Callable[[list[Any], Any], Written]
    tool: Callable[[str, Any, str], Written]


WAYS = {
    "Braintrust": Way(
        {"braintrust.span_attributes": {"type": "task"}, "session.id": "s"},
        lambda given, said: {
            "braintrust.span_attributes": {"type": "llm"},
            "braintrust.input_json": given,
            "braintrust.output_json": [{"message": said, "finish_reason": "stop"}],
        },
        lambda name, arguments, result: {
            "braintrust.span_attributes": {"type": "tool", "name": name},
            "braintrust.input_json": arguments,
            "braintrust.output_json": result,
        },
    ),
    "Opik": Way(
        {"opik.type": "general", "session.id": "s"},
        lambda given, said: {"opik.type": "llm", "opik.input": {"messages": given}, "opik.output": {"message": said}},
        lambda _, arguments, result: {"opik.type": "tool", "opik.input": arguments, "opik.output": {"output": result}},
    ),
    "HoneyHive": Way(
        {"honeyhive_event_type": "chain"},
        lambda given, said: {
            "honeyhive_event_type": "model",
            "honeyhive_inputs.chat_history": given,
            "honeyhive_outputs.content": [said],
        },
        lambda _, arguments, result: {
            "honeyhive_event_type": "tool",
            **{f"honeyhive_inputs.{name}": value for name, value in arguments.items()},
            "honeyhive_outputs.result": result,
        },
    ),
    "text in text": Way(
        {"app.kind": "agent", "session.id": "s"},
        lambda given, said: {"app.kind": "llm", "llm.request": {"messages": given}, "llm.response": {"message": said}},
        lambda _, arguments, result: {"app.kind": "tool", "app.args": json.dumps(arguments), "app.response": result},
    ),
}


def span(number: int, name: str, start: int, end: int, attributes: Written) -> dict[str, Any]:
    held = {key: value if isinstance(value, str | int) else json.dumps(value) for key, value in attributes.items()}
    return {
        "traceId": "1" * 32,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{1:016x}" if number > 1 else "",
        "name": name,
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str(end * 10**9),
        "attributes": [
            {"key": key, "value": {"stringValue" if isinstance(value, str) else "intValue": value}}
            for key, value in held.items()
        ],
    }


def test_a_list_of_tools_is_no_call(tmp_path: Path) -> None:
    listing = {"mcp.method.name": "tools/list", "fastmcp.component.type": "tool"}
    file = tmp_path / "spans.json"
    file.write_text(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span(1, "tools/list", 1, 2, listing)]}]}]})
    )
    assert not read_sessions([file])


def test_what_has_no_name_is_no_tool(tmp_path: Path) -> None:
    """NVIDIA's toolkit writes a workflow as the function `<workflow>`."""
    kind = {"nat.span.kind": "FUNCTION"}
    around = span(1, "<workflow>", 1, 9, {**kind, "nat.function.name": "<workflow>", "input.value": "weather?"})
    given = {"nat.function.name": "get_weather", "input.value": '{"city": "Paris"}'}
    called = span(2, "get_weather", 2, 3, {**kind, **given})
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [around, called]}]}]}))
    (session,) = read_sessions([file])
    assert [(call.name, call.arguments) for call in session.turns[0].calls] == [("get_weather", {"city": "Paris"})]


def test_a_streaming_agent_of_llama_index(tmp_path: Path) -> None:
    """What its models answered is nowhere; each tool's span has a repr of the call."""
    event = {
        "name": "LLMChatStartEvent",
        "timeUnixNano": str(2 * 10**9),
        "attributes": [{"key": "messages", "value": {"stringValue": json.dumps(USER)}}],
    }
    key = "llamaindex.step.input_summary"
    around = span(1, "FunctionAgent.run", 1, 9, {key: "AgentWorkflowStartEvent(user_msg='weather?')"})
    said = {**span(2, "OpenAI.astream_chat", 2, 3, {key: "AgentSetup(input=[])"}), "events": [event]}
    given = "ToolCall(tool_name='get_weather', tool_kwargs={'city': 'Paris'}, tool_id='c0')"
    called = span(3, "BaseWorkflowAgent.call_tool", 4, 5, {"llamaindex.step.input_event": "ToolCall", key: given})
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [around, said, called]}]}]}))
    (session,) = read_sessions([file])
    (turn,) = session.turns
    assert (turn.user_text.value, [(call.name, call.arguments) for call in turn.calls]) == (
        "weather?",
        [("get_weather", {"city": "Paris"})],
    )


@pytest.mark.parametrize("platform", WAYS)
def test_calls_are_read_by_the_shape_of_spans(platform: str, tmp_path: Path) -> None:
    way = WAYS[platform]
    spans = [
        span(1, "agent", 1, 20, way.agent),
        span(2, "llm", 2, 3, way.model(USER, ASKS)),
        *(span(number, call[0], 4, 5, way.tool(*call)) for number, call in enumerate(CALLS, start=3)),
        span(9, "llm", 6, 7, way.model([*USER, ASKS, *RESULTS], ANSWER)),
    ]
    path = tmp_path / "traces.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")
    [session] = read_sessions([path])
    [turn] = session.turns
    assert [(call.name, call.arguments) for call in turn.calls] == [(name, given) for name, given, _ in CALLS]
    assert not any(call.requested for call in turn.calls)
    assert (len({call.batch for call in turn.calls}), turn.doubts) == (1, ())
