"""Messages in every provider's shape: what is asked for, what is answered, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.dialects.reading.model_messages import (
    end_of_input,
    event_messages,
    flat_messages,
    last_answer,
    last_user_text,
    newest_first,
    requests_in,
)
from goldspan.scoring.messages import message_of, raw_messages
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span, event

PARIS = {"city": "Paris"}
ASKED = [("get_weather", PARIS, "c-1")]

SHAPES: dict[str, Any] = {
    "OpenTelemetry": [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c-1", "name": "get_weather", "arguments": PARIS}]}
    ],
    "OpenTelemetry, text in JSON": [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c-1", "name": "get_weather", "arguments": '{"city": "Paris"}'}],
        }
    ],
    "OpenAI chat": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c-1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        ],
    },
    "OpenAI choices": [
        {
            "index": 0,
            "message": {
                "tool_calls": [{"id": "c-1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]
            },
        }
    ],
    "OpenAI responses": [
        {"type": "reasoning"},
        {"type": "function_call", "id": "fc", "call_id": "c-1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
    ],
    "Anthropic": [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see"},
                {"type": "tool_use", "id": "c-1", "name": "get_weather", "input": PARIS},
            ],
        }
    ],
    "Bedrock": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c-1", "name": "get_weather", "input": PARIS}}]}
    ],
    "Gemini": {
        "content": {"role": "model", "parts": [{"function_call": {"id": "c-1", "name": "get_weather", "args": PARIS}}]}
    },
    "Gemini, as Rust writes it": {"role": "model", "parts": [{"name": "get_weather", "args": PARIS, "id": "c-1"}]},
    "Pydantic AI": {
        "kind": "response",
        "parts": [
            {"part_kind": "text", "content": "Let me see"},
            {"part_kind": "tool-call", "tool_name": "get_weather", "args": '{"city":"Paris"}', "tool_call_id": "c-1"},
        ],
    },
    "Vercel": [
        {"toolCallType": "function", "toolCallId": "c-1", "toolName": "get_weather", "input": '{"city":"Paris"}'}
    ],
    "Vercel 4": [{"toolCallId": "c-1", "toolName": "get_weather", "args": '{"city":"Paris"}'}],
    "LangChain": [
        {
            "type": "ai",
            "content": "",
            "tool_calls": [{"name": "get_weather", "args": PARIS, "id": "c-1", "type": "tool_call"}],
        }
    ],
    "OpenAI's own client of MCP": [
        {"type": "mcp_list_tools", "id": "l-1", "server_label": "s", "tools": [{"name": "get_weather"}]},
        {
            "type": "mcp_call",
            "id": "c-1",
            "server_label": "s",
            "name": "get_weather",
            "arguments": '{"city":"Paris"}',
            "output": "21 C",
        },
    ],
    "Anthropic's own search": [
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "c-1", "name": "get_weather", "input": PARIS},
                {"type": "web_search_tool_result", "tool_use_id": "c-1", "content": []},
            ],
        }
    ],
    "Anthropic's own client of MCP": [
        {"type": "mcp_tool_use", "id": "c-1", "name": "get_weather", "server_name": "s", "input": PARIS}
    ],
    "OpenTelemetry, run by the provider": [
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "server_tool_call",
                    "id": "l-1",
                    "name": "mcp_list_tools",
                    "server_tool_call": {"type": "mcp_list_tools", "tools": [{"name": "get_weather"}]},
                },
                {
                    "type": "server_tool_call",
                    "id": "c-1",
                    "name": "get_weather",
                    "server_tool_call": {"type": "mcp", "arguments": '{"city": "Paris"}', "output": "21 C"},
                },
            ],
        }
    ],
    "Haystack": [
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "get_weather", "arguments": PARIS, "id": "c-1"}}]}
    ],
    ".NET": {
        "role": "assistant",
        "contents": [{"$type": "functionCall", "callId": "c-1", "name": "get_weather", "arguments": PARIS}],
    },
    ".NET, capitals": {
        "Role": "Assistant",
        "ToolCalls": [{"Id": "c-1", "Function": {"Name": "get_weather", "Arguments": '{"city": "Paris"}'}}],
    },
}


@pytest.mark.parametrize("written", [json.dumps, lambda shape: shape], ids=["text", "decoded"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_requests_of_every_shape(shape: Any, written: Any) -> None:
    found = requests_in(written(shape))
    assert [(request.name, request.arguments.value, request.call_id) for request in found] == ASKED


@pytest.mark.parametrize(
    "output",
    [
        None,
        3,
        70.7,
        "",
        "plain text about a tool_call",
        '[{"tool_call',
        [None, 3, "x", []],
        {"tool_calls": 3},
        {"tool_calls": [3, {"function": {"name": 4}}, {"function": {}}]},
        [{"role": "tool", "parts": [{"type": "tool_call", "name": "get_weather"}]}],
        [{"role": "user", "content": [{"type": "tool_use", "name": "get_weather", "input": {}}]}],
        [{"role": "assistant", "parts": [{"type": "tool_call_response", "id": "c"}]}],
    ],
)
def test_what_is_no_request_of_the_model_is_none(output: Any) -> None:
    assert requests_in(output) == ()


@pytest.mark.parametrize(("more", "arguments"), [({}, PARIS), ({"id": "c-1", "type": "function"}, {"input": PARIS})])
def test_a_dump_of_a_block_is_an_envelope_where_nothing_else_is_told_of_the_request(more: Any, arguments: Any) -> None:
    """A tool may have a parameter `input`."""
    call = {"function": {"name": "get_weather", "arguments": '{"input":{"city":"Paris"}}'}, **more}
    [request] = requests_in({"role": "assistant", "tool_calls": [call]})
    assert request.arguments.value == arguments


def test_a_request_may_lack_arguments_and_id_and_hide_one_argument() -> None:
    first, second = requests_in(
        [
            {
                "parts": [
                    {"type": "tool_call", "name": "a"},
                    {"type": "tool_call", "name": "b", "arguments": {"x": "[REDACTED]"}},
                ]
            }
        ]
    )
    assert (first.arguments.capture, first.call_id) == (Capture.NOT_CAPTURED, None)
    assert second.argument_captures == {"x": Capture.REDACTED}


@pytest.mark.parametrize(
    "output",
    [
        [{"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "error": "boom", "status": "failed"}],
        [
            {"type": "mcp_tool_use", "id": "m", "name": "f", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True, "content": []},
        ],
    ],
)
def test_what_the_provider_ran_itself_may_have_failed(output: Any) -> None:
    own = {"type": "tool_use", "id": "c-1", "name": "g", "input": {}}
    found = requests_in([{"role": "assistant", "content": [*output, own]}])
    assert [(request.call_id, request.failed) for request in found] == [("m", True), ("c-1", False)]


# The end of the input

ANSWERS: dict[str, Any] = {
    "OpenTelemetry": {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c-1", "response": "x"}]},
    "pydantic-ai": {"role": "user", "parts": [{"type": "tool_call_response", "id": "c-1", "result": "x"}]},
    "pydantic-ai's own": {
        "kind": "request",
        "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": "x", "tool_call_id": "c-1"}],
    },
    "OpenAI chat": {"role": "tool", "tool_call_id": "c-1", "content": "x"},
    "OpenAI responses": {"type": "function_call_output", "call_id": "c-1", "output": "x"},
    "Anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c-1", "content": "x"}]},
    "Bedrock": {"role": "user", "content": [{"toolResult": {"toolUseId": "c-1", "status": "success"}}]},
    "Gemini": {"role": "user", "parts": [{"function_response": {"id": "c-1", "response": {}}}]},
    "Vercel": {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c-1", "output": {"type": "json"}}]},
    "LangChain": {"type": "tool", "content": "x", "tool_call_id": "c-1", "status": "success"},
    "Haystack": {"role": "tool", "content": [{"tool_call_result": {"origin": {"id": "c-1"}, "error": False}}]},
    ".NET": {"role": "tool", "contents": [{"$type": "functionResult", "callId": "c-1", "result": "x"}]},
    ".NET, capitals": {"Role": "Tool", "ToolCallId": "c-1", "Content": "x"},
}
USER = {"role": "user", "parts": [{"type": "text", "content": "And in Lyon?"}]}
MODEL = {"role": "assistant", "parts": [{"type": "text", "content": "It rains."}]}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_input_that_ends_with_answers_carries_a_turn_on(answer: Any) -> None:
    end = end_of_input(json.dumps([USER, MODEL, answer]))
    assert (end.new_user_message, end.answered) == (False, {"c-1": False})
    assert end.user_text.capture is Capture.NOT_CAPTURED


@pytest.mark.parametrize(
    "text", [{"type": "text", "text": "And in Lyon?"}, {"part_kind": "user-prompt", "content": "And in Lyon?"}]
)
def test_what_a_user_says_beside_answers_is_kept(text: dict[str, str]) -> None:
    answer = {"type": "tool_result", "tool_use_id": "c-1", "content": "x"}
    end = end_of_input(json.dumps([USER, MODEL, {"role": "user", "content": [answer, text]}]))
    assert (end.new_user_message, end.answered, end.user_text.value) == (False, {"c-1": False}, "And in Lyon?")


def test_capitals_in_what_a_tool_returned_stay() -> None:
    [result] = message_of(
        next(raw_messages({"Role": "Tool", "ToolCallId": "c-1", "Content": {"Booked": True}}))
    ).results
    assert result.content == {"Booked": True}


def test_an_input_that_ends_with_a_user_begins_one() -> None:
    end = end_of_input(json.dumps([USER, MODEL, *ANSWERS.values(), USER]))
    assert (end.new_user_message, end.user_text.value) == (True, "And in Lyon?")
    assert end.answered == {"c-1": False}


def test_only_what_follows_the_models_last_message_counts() -> None:
    end = end_of_input([ANSWERS["OpenAI chat"], MODEL, USER])
    assert (end.new_user_message, end.answered) == (True, None)


@pytest.mark.parametrize(
    "failed",
    [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "status": "error"}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "output": {"type": "error-text"}}]},
        {"type": "tool", "tool_call_id": "c", "status": "error", "content": "no"},
        {"role": "tool", "content": [{"tool_call_result": {"origin": {"id": "c"}, "error": True}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"error": "no"}}, "id": "c"}]},
    ],
)
def test_answers_that_are_errors(failed: Any) -> None:
    assert end_of_input([failed]).answered == {"c": True}


def test_what_the_provider_ran_itself_is_answered_beside_what_it_asked_for() -> None:
    ran = {"type": "mcp_tool_use", "id": "m", "name": "weather", "input": {}}
    failed = {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True, "content": []}
    found = {"type": "web_search_tool_result", "tool_use_id": "w", "content": [{"type": "web_search_result"}]}
    asked = {"role": "assistant", "content": [ran, failed, found, {"type": "tool_use", "id": "c-1", "name": "f"}]}
    end = end_of_input([USER, asked, ANSWERS["Anthropic"]])
    assert (end.new_user_message, end.answered) == (False, {"c-1": False, "m": True, "w": False})
    assert end_of_input([USER, asked, ANSWERS["Anthropic"], MODEL, USER]).answered is None
    assert end_of_input([USER, asked, USER]).answered is None


@pytest.mark.parametrize(("role", "result"), [("model", True), ("assistant", False)])
def test_an_empty_message_behind_an_empty_one_of_gemini_is_a_result_that_was_not_written(
    role: str, *, result: bool
) -> None:
    """LangSmith writes Gemini's functions so; Ax writes users so where content is off."""
    end = end_of_input([USER, {"role": role, "content": ""}, {"role": "user", "content": ""}])
    assert end.new_user_message is not result


@pytest.mark.parametrize("write", [list, json.dumps, lambda parts: json.dumps(parts[0])])
def test_a_function_in_a_part_is_a_result_if_the_part_says_so(write: Callable[[Any], Any]) -> None:
    answer = {"type": "function_response", "function": {"name": "f", "response": {"error": "no table"}}}
    [result] = message_of({"role": "user", "content": write([answer])}).results
    assert (result.name, result.content, result.failed) == ("f", {"error": "no table"}, True)


@pytest.mark.parametrize(
    "messages", [None, "", "x", "[", "[]", "[1]", 3, [], {}, [[]], '[{"role": 3}]', [{"role": "system"}]]
)
def test_an_input_that_says_nothing(messages: Any) -> None:
    assert end_of_input(messages).new_user_message is None
    assert last_user_text(messages).capture is Capture.NOT_CAPTURED


def test_redacted_messages_hide_the_users_text_and_the_answer() -> None:
    assert last_user_text("[REDACTED]").capture is Capture.REDACTED
    assert last_answer("[REDACTED]").capture is Capture.REDACTED


def test_the_users_text_is_found_behind_a_whole_turn_of_tools() -> None:
    history = [USER, MODEL, ANSWERS["pydantic-ai"], MODEL, ANSWERS["Anthropic"], MODEL]
    assert last_user_text(json.dumps(history)).value == "And in Lyon?"
    assert last_answer(json.dumps(history)).value == "It rains."


# Reading from the end is reading the same

texts = st.text(max_size=8) | st.sampled_from(['{"role"', '[{"role": "user"}]', "]", '"}]'])
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={
        "content": texts,
        "parts": st.lists(st.fixed_dictionaries({"type": st.just("text"), "content": texts, "role": texts})),
        "nested": st.lists(st.fixed_dictionaries({"role": texts})),
    },
)


@given(st.lists(messages), st.booleans(), st.sampled_from([None, 1, 3]))
def test_messages_parsed_from_the_end_are_the_messages_parsed_as_a_whole(
    history: list[dict[str, Any]], sort: bool, indent: int | None
) -> None:
    text = json.dumps(history, sort_keys=sort, indent=indent)
    assert list(newest_first(text)) == history[::-1]
    assert list(newest_first(f" {text}\n")) == history[::-1]


def test_a_long_history_is_not_parsed_to_see_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    history = json.dumps([MODEL] * 10_000 + [USER])
    monkeypatch.setattr(json, "loads", None)
    assert end_of_input(history).new_user_message is True


# Span events and flattened keys


def test_events_of_older_conventions() -> None:
    choice = event(
        "gen_ai.choice", **{"gen_ai.event.content": json.dumps({"index": 0, "message": SHAPES["OpenAI chat"]})}
    )
    assert [request.call_id for request in requests_in(event_messages([choice]))] == ["c-1"]
    given_events = [
        event("gen_ai.user.message", content="Weather in Paris?"),
        event("gen_ai.assistant.message", tool_calls=json.dumps(SHAPES["OpenAI chat"]["tool_calls"])),
        event("gen_ai.tool.message", id="c-1", content="21 C"),
    ]
    end = end_of_input(event_messages(given_events))
    assert (end.new_user_message, end.answered) == (False, {"c-1": False})
    assert last_user_text(event_messages(given_events)).value == "Weather in Paris?"
    assert list(event_messages(given_events)[:1]) == [{"role": "user", "content": "Weather in Paris?"}]


def test_flattened_messages_keep_their_numbers_order_and_survive_conflicts() -> None:
    attributes = {
        "m.10.message.role": "user",
        "m.10.message.content": "last",
        "m.2.message.role": "assistant",
        "m.2.message.tool_calls.1.tool_call.function.name": "b",
        "m.2.message.tool_calls.0.tool_call.function.name": "a",
        "m.2.message.tool_calls.0.tool_call.function": "a leaf where an object belongs",
        "m.2.message.tool_calls.x.tool_call.function.name": "no number",
        "m.99999999999.message.role": "user",
        "m.": 1,
        7: "no text",
    }
    found = flat_messages("m.")(Span(), attributes)
    assert found is not None
    assert len(found) == 2
    assert [request.name for request in requests_in(found)] == ["a", "b"]
    assert end_of_input(found).user_text.value == "last"
    assert flat_messages("n.")(Span(), attributes) is None


def test_calls_in_two_families_of_keys_are_read_once() -> None:
    call = {"tool_call.id": "c-1", "tool_call.function.name": "f", "tool_call.function.arguments": "{}"}
    both = {f"m.0.message.tool_calls.0.{key}": value for key, value in call.items()}
    both |= {f"m.0.message.contents.0.{key}": value for key, value in call.items()}
    alone = {key: value for key, value in both.items() if "contents" in key}
    for attributes in (both, alone):
        found = flat_messages("m.")(Span(), attributes)
        assert [(request.name, request.call_id) for request in requests_in(found)] == [("f", "c-1")]


PARTS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("text")},
        optional={"content": st.sampled_from(["", "x", None, 3]), "text": st.just("y"), "id": st.just("p")},
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_call")},
        optional={
            "id": st.sampled_from(["c1", "", None, 3]),
            "name": st.sampled_from(["book", "", None]),
            "arguments": st.sampled_from([{"seat": 7}, '{"seat": 7}', None, 3]),
            "input": st.just({"seat": 8}),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_call_response")},
        optional={
            "id": st.sampled_from(["c1", "", None]),
            "response": st.sampled_from(
                [
                    *(
                        "done",
                        "Error: no",
                        "",
                        None,
                        {"isError": True},
                        {"status": "error"},
                        {"type": "json", "value": 1},
                    ),
                    *([{"type": "text", "text": "a"}], {"content": [{"type": "text", "text": "Error: b"}]}),
                ]
            ),
            "result": st.just("other"),
        },
    ),
    st.sampled_from([{"type": "reasoning", "content": "so"}, {"content": "bare"}, "text", {}]),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "tool", "system", "model", "User", "", "nobody", None, 3]),
            "parts": st.one_of(st.lists(PARTS, max_size=3), st.just("text"), st.none()),
            "finish_reason": st.just("stop"),
        },
    )
)
def test_a_message_with_the_keys_of_the_conventions_alone_is_read_as_any_other(message: dict[str, Any]) -> None:
    assert message_of(message) == message_of({**message, "of nobody": None})


def test_a_conversation_that_is_the_text_of_its_only_message() -> None:
    """OpenLLMetry for JavaScript writes the items of a response's input so."""
    asked = {"role": "user", "content": "Weather?"}
    items: list[dict[str, Any]] = [
        asked,
        {"type": "function_call", "call_id": "c-1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "c-1", "output": "{}"},
    ]

    def written(*inside: object) -> str:
        return json.dumps([{"role": "user", "parts": [{"type": "text", "content": json.dumps(inside)}]}])

    end = end_of_input(written(*items))
    assert (end.new_user_message, end.answered) == (False, {"c-1": False})
    assert [(one.name, one.arguments.raw) for one in end.repeated] == [("get_weather", PARIS)]
    assert end_of_input(written(asked)).user_text.raw == "Weather?"
    table = [{"city": "Paris"}, {"city": "Lyon"}]
    assert end_of_input(written(*table)).user_text.raw == json.dumps(table), "what a user wrote"
