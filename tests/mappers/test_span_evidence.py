"""What a span says by its content alone: the same from every way of writing it, and nothing from what is no message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from goldspan.mappers.dialects.reading.evidence_reading import evidence_of
from goldspan.mappers.span_facts import NO_EVIDENCE, RequestEvidence, ResultEvidence, Role, SpanEvidence, value_digest
from goldspan.mappers.spans import DecodedSpan, EventView

ARGUMENTS = {"city": "Paris", "days": 3}
SCHEMA = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}


def openai_call(call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)}}


QUESTION = {"role": "user", "content": "Weather in Paris?"}
ASKING = {"role": "assistant", "content": "", "tool_calls": [openai_call()]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": '{"temperature": 21.5}'}
SAID = {"role": "assistant", "content": "21.5 degrees."}
AGAIN = {"role": "user", "content": "And tomorrow?"}
REQUEST = RequestEvidence("get_weather", "c1", value_digest(ARGUMENTS), ("city", "days"))


def evidence(attributes: dict[str, Any], role: Role | None = Role.MODEL) -> SpanEvidence:
    return evidence_of(DecodedSpan("1" * 32, "2" * 16, attributes=attributes), role)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.output.messages": json.dumps([ASKING])},
        {"any.output": json.dumps({"choices": [{"message": ASKING}]})},
        {"any.response": json.dumps(json.dumps([ASKING]))},
        {"anyOutputs": {"messages": [ASKING]}},
        {
            "x.completion.0.role": "assistant",
            "x.completion.0.tool_calls.0.id": "c1",
            "x.completion.0.tool_calls.0.name": "get_weather",
            "x.completion.0.tool_calls.0.arguments": json.dumps(ARGUMENTS),
        },
        {"out.result": json.dumps({"lc": 1, "id": ["langchain", "AIMessage"], "kwargs": {**ASKING, "type": "ai"}})},
    ],
)
def test_requests_are_seen_in_every_shape(attributes: dict[str, Any]) -> None:
    found = evidence(attributes)
    assert found.requests == (REQUEST,)


def test_messages_in_events_are_seen_whatever_their_names() -> None:
    held = {"x.prompt": [QUESTION, ASKING, ANSWER], "x.completion": [ASKING]}
    events = tuple(EventView(key, {key: json.dumps(value)}) for key, value in held.items())
    found = evidence_of(DecodedSpan("1" * 32, "2" * 16, events=events), Role.MODEL)
    assert (found.requests, found.continues) == ((REQUEST,), True)


def test_a_request_may_be_the_text_of_a_message_that_has_its_id() -> None:
    text = json.dumps({"name": "get_weather", "arguments": json.dumps(ARGUMENTS)})
    asking = {"role": "assistant", "tool_call_id": "c1", "content": text}
    assert evidence({"any.output": json.dumps([asking])}).requests == (REQUEST,)
    assert evidence({"any.output": json.dumps([{**asking, "content": '{"name": "get_weather"}'}])}).requests == ()


@pytest.mark.parametrize(("content", "answers"), [("", False), ("21.5 degrees.", True)])
def test_a_message_with_a_role_alone_is_no_answer(content: str, answers: bool) -> None:
    said = {"x.completion.0.role": "assistant", **({"x.completion.0.content": content} if content else {})}
    assert evidence(said).answers is answers
    parts = [{"type": "text", "content": content}] if content else []
    ended = {"role": "assistant", "parts": parts, "finish_reason": "completed"}
    assert evidence({"gen_ai.output.messages": json.dumps([ended])}).answers is answers


@pytest.mark.parametrize(("text", "may_be_user"), [("And tomorrow?", True), ('{"temperature": 21.5}', False)])
def test_a_text_in_the_users_name_may_be_a_result_where_one_is_awaited(text: str, may_be_user: bool) -> None:
    found = evidence({"any.input": json.dumps([QUESTION, ASKING, {"role": "user", "content": text}])})
    assert (found.continues, found.may_be_user) == (True, may_be_user)
    assert evidence({"any.input": json.dumps([QUESTION, SAID, AGAIN])}).may_be_user is False


@pytest.mark.parametrize(("arguments", "repeated"), [({"city": "Paris"}, ("c1",)), ({}, ()), ("{}", ()), (None, ())])
def test_an_input_repeats_what_the_model_asked_for(arguments: object, repeated: tuple[str, ...]) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": arguments}
    messages = [QUESTION, {"role": "assistant", "parts": [call]}, ANSWER]
    assert evidence({"any.input": json.dumps(messages)}).with_arguments == repeated
    assert evidence({"any.input": json.dumps([*messages, SAID, AGAIN])}).with_arguments == ()


def test_messages_that_are_written_empty_may_be_requests_and_results() -> None:
    empty = [{"role": role, "parts": [{"type": "text", "content": None}]} for role in ("assistant", "user")]
    assert evidence({"any.input": json.dumps([QUESTION, *empty])}).users is None
    assert len(evidence({"any.input": json.dumps([QUESTION, empty[0], AGAIN])}).users or ()) == 2


def test_messages_that_are_cut_within_a_request_ask_for_a_tool() -> None:
    whole = json.dumps([ASKING])
    assert evidence({"any.output": whole[:-20]}).asks_in_text
    assert not evidence({"any.output": whole}).asks_in_text
    assert not evidence({"any.output": json.dumps([SAID])[:-5]}).asks_in_text


def test_arguments_tell_a_request_that_has_no_id() -> None:
    without = {key: value for key, value in openai_call().items() if key != "id"}
    found = evidence({"any.output": json.dumps([{**ASKING, "tool_calls": [without]}])})
    assert found.requests == (RequestEvidence("get_weather", None, value_digest(ARGUMENTS), ("city", "days")),)


@pytest.mark.parametrize(
    "around",
    [
        lambda messages: messages,
        lambda messages: {"tools": [SCHEMA], "messages": messages},
        lambda messages: [messages],
    ],
)
def test_the_end_of_the_input_tells_a_new_message_from_results(around: Any) -> None:
    asked = evidence({"any.input": json.dumps(around([QUESTION, ASKING, ANSWER, SAID, AGAIN]))})
    assert asked.continues is False
    assert asked.users == tuple(value_digest(one["content"]) for one in (QUESTION, AGAIN))
    answered = evidence({"any.input": json.dumps(around([QUESTION, ASKING, ANSWER]))})
    assert (answered.continues, answered.users) == (True, None)
    assert answered.results == (ResultEvidence("c1", None, failed=False),)


def test_a_definition_is_no_message_whatever_its_role() -> None:
    given = [QUESTION, {"role": "tool", "content": json.dumps(SCHEMA)}]
    assert evidence({"input": json.dumps(given)}).continues is False


def test_a_message_between_request_and_answer_is_not_a_turn_of_the_user() -> None:
    injected = {"role": "user", "content": "Remember the budget."}
    given = [QUESTION, ASKING, ANSWER, injected, SAID, AGAIN]
    assert evidence({"input": json.dumps(given)}).users == tuple(
        value_digest(one["content"]) for one in (QUESTION, AGAIN)
    )


def test_requests_are_those_of_the_value_that_has_the_most() -> None:
    ran = {"type": "mcp_call", "id": "m1", "name": "find", "arguments": "{}", "output": "x"}
    asked = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
    some = {"message.tool_calls.0.tool_call.function.name": "get_weather"}
    flat = {f"llm.output_messages.0.{key}": value for key, value in some.items()}
    found = evidence({**flat, "output.value": json.dumps({"output": [ran, asked]})})
    assert [one.name for one in found.requests] == ["find", "get_weather"]


def test_requests_of_a_transcript_are_of_several_responses() -> None:
    more = {"role": "assistant", "tool_calls": [openai_call("c2"), openai_call("c3")]}
    found = evidence({"output": json.dumps([QUESTION, ASKING, ANSWER, more])})
    first, second, third = (one.response for one in found.requests)
    assert first != second == third


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(ARGUMENTS),
        json.dumps({"input": ARGUMENTS}),
        json.dumps([{"role": "tool", "content": json.dumps(ARGUMENTS)}]),
    ],
)
def test_arguments_are_seen_inside_what_is_around_them(written: str) -> None:
    found = evidence({"my.input": written, "my.config": json.dumps({"other": 1})}, Role.TOOL)
    assert value_digest({"days": 3.0, "city": "Paris", "unit": None}) in found.arguments
    assert value_digest({"other": 1}) not in found.arguments


@pytest.mark.parametrize(
    ("attributes", "failed", "names_error"),
    [
        ({"my.result": "21.5"}, False, False),
        ({"my.result": "Error: no table"}, True, False),
        ({"my.output": json.dumps({"content": [{"text": "x"}], "isError": True})}, True, False),
        ({"my.output": json.dumps({"error": "no table"})}, None, False),
        ({"my.output": json.dumps({"status": {"code": 2}, "result": "Failed: no table"})}, True, False),
        ({"my.output": '{"result": "Tool \\u0065rror: no table"}'}, True, False),
        ({"my.outcome": "error"}, None, True),
        ({"my.error": "none", "is_error": False}, None, False),
        ({"is_error": True}, None, True),
        ({}, None, False),
    ],
)
def test_a_tool_span_names_its_own_failure(attributes: dict[str, Any], failed: bool | None, names_error: bool) -> None:
    found = evidence(attributes, Role.TOOL)
    assert (found.failed, found.names_error) == (failed, names_error)


def test_ids_of_sessions_are_known_by_the_words_of_their_keys() -> None:
    found = evidence({"acme.conversationId": "s-1", "mcp.session.id": "m-1", "session.name": "demo"})
    assert found.sessions == (("acme.conversationId", "s-1"),)
    assert evidence({"acme.convoId": "s-1"}).sessions == (("acme.convoId", "s-1"),)


@pytest.mark.parametrize(
    "value", [b"\xff", "[{", '{"role": 7}', [[[]]], {"role": {"role": []}}, float("nan"), "[" * 9000]
)
def test_hostile_values_say_nothing(value: Any) -> None:
    found = evidence({"output": value, "input": value, "any.0.role": value})
    assert replace(found, answers=False) == NO_EVIDENCE, "only that an output is there is said"


@pytest.mark.parametrize(
    "output",
    [
        {"any.output": "A table, then a chair."},
        {
            "any.response": json.dumps(
                {"choices": [{"message": {"role": "assistant", "content": "A table, then a chair."}}]}
            )
        },
        {"any.output.messages": json.dumps([{"role": "assistant", "parts": [{"text": "A table, then a chair. "}]}])},
    ],
)
def test_the_text_of_an_answer_is_known_in_every_shape(output: dict[str, Any]) -> None:
    assert evidence(output).wrote == value_digest("A table, then a chair.")
    assert evidence({"any.output": json.dumps([ASKING])}).wrote == ""
    assert evidence({"any.output": "yes"}).wrote == "", "a user may say so, too"
    assert evidence({"any.output": "HIDDEN:non-empty"}).wrote == "", "all that is hidden reads so"
    assert [evidence({"any.output": text}).speaks for text in ("yes", "", json.dumps([ASKING]))] == [True, False, False]


@pytest.mark.parametrize("key", ["system", "instructions", "config"])
def test_what_the_system_says_beside_the_messages_tells_tasks_apart(key: str) -> None:
    def told(text: str) -> str:
        body = {key: {"system_instruction": text} if key == "config" else text, "messages": [QUESTION]}
        return evidence({"any.request.body": json.dumps(body)}).system

    assert told("plan") == told("plan") != told("judge")


@pytest.mark.parametrize(
    ("before", "continues"), [(SAID, False), (ASKING, True), ({"role": "assistant", "parts": []}, True)], ids=str
)
def test_a_message_without_parts_is_a_users_behind_an_answer_and_else_a_result(
    before: dict[str, Any], *, continues: bool
) -> None:
    given = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}, before, {"role": "user", "parts": []}]
    assert evidence({"gen_ai.input.messages": json.dumps(given)}).continues is continues
