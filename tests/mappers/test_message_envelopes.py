"""Messages and results out of whatever wraps them: envelopes, JSON within JSON, dumps and reprs of frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from goldspan.mappers.dialects.reading.model_messages import end_of_input, requests_in
from goldspan.scoring.json_values import python_value, read_value
from goldspan.scoring.messages import message_of, raw_messages, read_messages, result_of
from goldspan.scoring.sessions import Capture, Content

PARIS = {"city": "Paris"}
CALL = {"id": "c-1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
ASKED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
CONVERSATION: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Paris?"},
    ASKED,
    {"role": "tool", "tool_call_id": "c-1", "content": '{"temp": 21}'},
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda value: value,
    "messages": lambda value: {"messages": value},
    "tools beside messages": lambda value: {"tools": [TOOL], "messages": value},
    "input": lambda value: {"input": value},
    "args and kwargs": lambda value: {"args": [], "kwargs": {"messages": value}},
    "output": lambda value: {"output": value},
    "a graph's update": lambda value: [{"graph": None, "update": {"messages": value}, "goto": []}],
    "prompts": lambda value: {"messages": [value]},
}
WRITERS: dict[str, Callable[[Any], Any]] = {
    "decoded": lambda value: value,
    "JSON": json.dumps,
    "JSON in JSON": lambda value: json.dumps(json.dumps(value)),
    "Python": repr,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_conversation_is_read_out_of_every_envelope(wrap: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
    found = read_messages(Content(write(wrap(CONVERSATION)), Capture.CAPTURED))
    assert [message.role for message in found] == ["system", "user", "assistant", "tool"]
    assert [message.text for message in found[:2]] == ["Be brief.", "Weather in Paris?"]
    assert [(one.name, one.call_id) for one in found[2].requests] == [("get_weather", "c-1")]
    assert [(one.call_id, one.content, one.failed) for one in found[3].results] == [("c-1", '{"temp": 21}', False)]


def test_messages_as_langchain4j_writes_them() -> None:
    call = {"id": "c-1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
    written = [
        {"text": "Be brief.", "type": "SYSTEM"},
        {"contents": [{"text": "Weather in Paris?", "type": "TEXT"}], "type": "USER"},
        {"toolExecutionRequests": [call], "attributes": {}, "type": "AI"},
        {"id": "c-1", "toolName": "get_weather", "text": '{"temp": 21}', "type": "TOOL_EXECUTION_RESULT"},
        {"text": "Warm.", "toolExecutionRequests": [], "attributes": {}, "type": "AI"},
    ]
    found = read_messages(Content(json.dumps(written), Capture.CAPTURED))
    assert [one.role for one in found] == ["system", "user", "assistant", "tool", "assistant"]
    assert [one.text for one in found] == ["Be brief.", "Weather in Paris?", "", "", "Warm."]
    assert [(one.name, one.call_id) for one in found[2].requests] == [("get_weather", "c-1")]
    assert [(one.call_id, one.content) for one in found[3].results] == [("c-1", '{"temp": 21}')]


def test_a_tool_s_message_without_parts_answers_nothing() -> None:
    assert message_of({"role": "tool", "parts": []}).results == ()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_requests_and_the_end_of_an_input_are_read_out_of_every_envelope(
    wrap: Callable[[Any], Any], write: Callable[[Any], Any]
) -> None:
    found = requests_in(write(wrap([ASKED])))
    assert [(one.name, one.arguments.value, one.call_id) for one in found] == [("get_weather", PARIS, "c-1")]
    assert end_of_input(write(wrap(CONVERSATION))).answered == {"c-1": False}


def test_the_definition_of_a_tool_is_no_message_whatever_its_role() -> None:
    listed = [{"role": "tool", "content": TOOL}, {"role": "tool", "content": json.dumps(TOOL)}, TOOL]
    named = {"name": "f", "description": "Finds.", "input_schema": {"type": "object", "properties": {}}}
    assert list(raw_messages([*listed, named])) == []
    end = end_of_input(json.dumps([*CONVERSATION[:2], *listed]))
    assert (end.new_user_message, end.user_text.value) == (True, "Weather in Paris?")


LANGCHAIN = {"content": "21 C", "type": "tool", "name": "get_weather", "id": None, "tool_call_id": "c-1"}
RESULTS: dict[str, Any] = {
    "LangChain": {**LANGCHAIN, "status": "success"},
    "LangChain, data": {"type": "tool", "data": LANGCHAIN},
    "LangChain, constructor": {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": LANGCHAIN},
    "LangChain, output": {"output": {**LANGCHAIN, "status": "success"}},
    "LangGraph": {"graph": None, "update": {"messages": [LANGCHAIN]}, "goto": []},
    "OpenAI Responses": {"type": "function_call_output", "call_id": "c-1", "output": "21 C"},
    "Anthropic": {"type": "tool_result", "tool_use_id": "c-1", "content": [{"type": "text", "text": "21 C"}]},
    "Bedrock": {"toolResult": {"toolUseId": "c-1", "content": [{"text": "21 C"}], "status": "success"}},
    "Python": "content='21 C' name='get_weather' tool_call_id='c-1'",
    "MCP": {"content": [{"type": "text", "text": "21 C"}], "isError": False},
    "MCP, parts": [{"type": "text", "text": "21 C"}],
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_result_is_read_out_of_the_message_or_protocol_around_it(result: Any) -> None:
    for written in (result, result if isinstance(result, str) else json.dumps(result)):
        found = result_of(written)
        assert found is not None
        assert (found.content, found.failed) == ("21 C", False)
        assert found.call_id in {"c-1", ""}


FAILED_REPR = "content='no table' name='book_table' tool_call_id='c-1' status='error'"


@pytest.mark.parametrize(
    "result",
    [
        {**LANGCHAIN, "status": "error"},
        {"content": [{"type": "text", "text": "no table"}], "isError": True},
        {"type": "tool_result", "tool_use_id": "c-1", "content": "no table", "is_error": True},
        {"output": FAILED_REPR},
        FAILED_REPR,
    ],
)
def test_a_result_that_is_marked_as_an_error_failed(result: Any) -> None:
    found = result_of(json.dumps(result))
    assert found is not None
    assert found.failed


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: no table at 19:30", True),
        ("Error executing tool book: no table", True),
        ("Traceback (most recent call last):\n", True),
        ("An error occurred while running the tool.", True),
        ("Invalid input for tool track: Type validation failed", True),
        ("Model tried to call unavailable tool 'teleport'.", True),
        ("Tool with name 'refund' failed to execute due to the error: locked", True),
        ('{"error": "Failed to invoke function stock because of error shop unreachable"}', True),
        ("{'error': \"Failed to invoke function stock because of {'x': 1}\"}", True),
        ("Failed to invoke Tool `stock` with parameters {'item': 'ghost'}.", True),
        ("Tool execution failed: Error executing tool 'stock': shop unreachable", True),
        ("Invalid input for tools is refused here", False),
        ("ToolException: no table", True),
        ('{"error": "Error executing book: no table"}', True),
        ('{"error": "no table"}', False),
        ('"Error: no table at 19:30"', True),
        ('{"result": "Error: no table at 19:30"}', True),
        ('{"output":"\\"Error: no table\\""}', True),
        ('{"result": "no error"}', False),
        ('{"title": "Error: a novel"}', False),
        ("No error", False),
        ("Errors of the last week: none", False),
        ("The word error: a mistake", False),
    ],
)
def test_a_result_that_begins_as_frameworks_write_failures_failed(text: str, failed: bool) -> None:
    parts = {"content": [{"type": "text", "text": text}], "metadata": None, "is_interrupted": False, "id": "r"}
    found = result_of(json.dumps(parts))
    assert found is not None
    assert (found.content, found.failed) == (text, failed)
    assert end_of_input([{"role": "tool", "tool_call_id": "c-1", "content": text}]).answered == {"c-1": failed}


@pytest.mark.parametrize(
    "result",
    [
        {"content": "a page", "title": "x"},
        {"output": {"content": 1}},
        {"result": 3},
        {"type": "tool", "name": "hammer"},
        {"data": {"messages": [{"text": "hi"}]}},
        [{"text": "a"}, {"text": "b"}],
        "plain text with 'tool_call_id=' in it",
        '{"tool_call_id": cut',
        None,
        7,
    ],
)
def test_what_a_tool_returns_itself_stays_as_it_is(result: Any) -> None:
    assert result_of(result) is None
    assert result_of(json.dumps(result)) is None


def test_objects_in_python_are_read_by_their_reprs() -> None:
    text = "ToolCall(tool_name='f', tool_kwargs={'a': (1, -2)}, role=<Role.USER: 'user'>, at=datetime(2026, 1, 2))"
    assert python_value(text) == {
        "__class__": "ToolCall",
        "tool_name": "f",
        "tool_kwargs": {"a": [1, -2]},
        "role": "user",
        "at": {"__class__": "datetime", "__values__": [2026, 1, 2]},
    }
    said = message_of(next(raw_messages("[ChatMessage(role=<MessageRole.USER: 'user'>, content='hi')]")))
    assert (said.role, said.text) == ("user", "hi")


@pytest.mark.parametrize(
    "text", ["f(", "a b c", "x='1", "[" * 5_000, "Call(" * 200 + ")" * 200, "(lambda: 1)()", "x=1 and more", "'a' * 9"]
)
def test_what_is_no_repr_stays_a_text(text: str) -> None:
    assert python_value(text) is None
    assert read_value(text) == text


@pytest.mark.parametrize("text", ['"quoted"', "plain", "", "  ", "{cut", '{"a": '])
def test_text_that_is_no_object_is_unchanged(text: str) -> None:
    assert read_value(text) == text


@pytest.mark.parametrize("key", ["text", "content"])
@pytest.mark.parametrize("write", [WRITERS["decoded"], json.dumps, repr])
def test_a_failure_in_a_part_of_a_result(key: str, write: Callable[[Any], Any]) -> None:
    result = {"role": "tool", "tool_call_id": "c-1", "content": write([{"type": "text", key: "Error: no table"}])}
    [held] = message_of(result).results
    assert (held.content, held.failed) == ("Error: no table", True)
    part = {"type": "tool_call_response", "id": "c-1", "response": result["content"]}
    [held] = message_of({"role": "tool", "parts": [part]}).results
    assert (held.content, held.failed) == ("Error: no table", True)


def test_what_llama_index_puts_around_a_result() -> None:
    blocks = [{"block_type": "text", "text": "no table"}]
    output = {"blocks": blocks, "tool_name": "book", "raw_output": "no table", "is_error": True}
    for held in (output, {"tool_name": "book", "tool_id": "c-1", "tool_output": output}):
        found = result_of(json.dumps(held))
        assert found is not None
        assert (found.content, found.failed) == ("no table", True)
