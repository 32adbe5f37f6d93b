"""Spring AI beyond its recordings: without content, without a session, streamed answers, tools that throw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.sessions import Capture, Session, Turn
from rigs.otlp_containers import Span, event

SESSION = "spring.ai.chat.client.conversation.id"
CLIENT = {"gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai", "spring.ai.kind": "chat_client"}
PARIS, LYON = '{"city": "Paris"}', '{"city": "Lyon"}'


def client(*, session: str = "s1", stream: bool = False) -> dict[str, str]:
    return CLIENT | {"spring.ai.chat.client.stream": str(stream).lower()} | ({SESSION: session} if session else {})


def chat(reason: str) -> dict[str, str]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.response.finish_reasons": f'["{reason}"]',
        "spring.ai.model.request.tool.names": '["get_weather"]',
    }


def tool(arguments: str | None = PARIS, **more: str) -> dict[str, str]:
    written = {} if arguments is None else {"spring.ai.tool.call.arguments": arguments}
    return {
        "gen_ai.operation.name": "framework",
        "gen_ai.system": "spring_ai",
        "spring.ai.kind": "tool_call",
        "spring.ai.tool.definition.name": "get_weather",
        **written,
        **more,
    }


def request(*spans: tuple[str, str, int, int, Mapping[str, str]], trace: str = "a" * 32) -> dict[str, Any]:
    """Spans of one trace: name, parent, start, end, attributes. The scope is Spring Boot's, or the application's."""
    encoded = [
        {
            "traceId": trace,
            "spanId": name.encode().hex().ljust(16, "0"),
            "parentSpanId": parent.encode().hex().ljust(16, "0") if parent else "",
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for name, parent, start, end, attributes in spans
    ]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "weather"}, "spans": encoded}]}]}


def turn_of(sessions: list[Session]) -> Turn:
    [session] = sessions
    [turn] = session.turns
    return turn


def batches(turn: Turn) -> list[int | None]:
    return [call.batch for call in turn.calls]


def test_tools_between_two_model_calls_are_one_batch() -> None:
    turn = turn_of(
        read_sessions(
            request(
                ("root", "", 0, 100, client()),
                ("chat1", "root", 1, 10, chat("TOOL_CALLS")),
                ("one", "root", 11, 12, tool()),
                ("two", "root", 13, 14, tool(LYON)),
                ("chat2", "root", 20, 30, chat("TOOL_CALLS")),
                ("three", "root", 31, 32, tool()),
                ("chat3", "root", 40, 50, chat("STOP")),
            )
        )
    )
    assert batches(turn) == [1, 1, 2]


@pytest.mark.parametrize("agent_as_tool", [False, True])
def test_a_nested_client_s_model_calls_are_not_its_caller_s(agent_as_tool: bool) -> None:
    inner = [("inner", "one", 12, 30, client(session=""))] if agent_as_tool else []
    turn = turn_of(
        read_sessions(
            request(
                ("root", "", 0, 100, client()),
                ("chat1", "root", 1, 10, chat("TOOL_CALLS")),
                ("one", "root", 11, 40, tool()),
                *inner,
                ("chatA", "inner" if inner else "one", 13, 20, chat("TOOL_CALLS")),
                ("deep", "inner" if inner else "one", 21, 22, tool(LYON, **{"spring.ai.tool.definition.name": "deep"})),
                ("two", "root", 41, 50, tool(LYON)),
                ("chat2", "root", 60, 70, chat("STOP")),
            )
        )
    )
    assert [(call.name, call.batch) for call in turn.calls] == [("get_weather", 1), ("get_weather", 1), ("deep", 2)]


def test_model_calls_of_a_streamed_answer_are_nested() -> None:
    turn = turn_of(
        read_sessions(
            request(
                ("root", "", 0, 100, client(stream=True)),
                ("chat1", "root", 1, 90, chat("STOP")),
                ("one", "chat1", 11, 12, tool()),
                ("two", "chat1", 13, 14, tool(LYON)),
                ("chat2", "chat1", 20, 80, chat("STOP")),
                ("three", "chat2", 31, 32, tool()),
                ("chat3", "chat2", 40, 70, chat("STOP")),
            )
        )
    )
    assert batches(turn) == [1, 1, 2]


def test_tools_of_a_streamed_answer_in_other_traces_are_not_visible_in_their_turn() -> None:
    streamed = request(
        ("root", "", 0, 100, client(stream=True)),
        ("chat1", "root", 1, 90, chat("STOP")),
        ("chat2", "chat1", 20, 80, chat("STOP")),
    )
    assert not turn_of(read_sessions(streamed)).calls_visible
    answered = request(("root", "", 0, 100, client(stream=True)), ("chat1", "root", 1, 90, chat("STOP")))
    assert turn_of(read_sessions(answered)).calls_visible
    [session] = read_sessions(request(("one", "", 11, 12, tool()), trace="b" * 32))
    assert (session.id_source, session.turns[0].calls[0].arguments) == ("trace_id", {"city": "Paris"})


def test_without_content_arguments_are_not_captured() -> None:
    [call] = turn_of(read_sessions(request(("root", "", 0, 9, client()), ("one", "root", 1, 2, tool(None))))).calls
    assert (call.name, call.capture, call.arguments) == ("get_weather", Capture.NOT_CAPTURED, None)


def test_without_a_conversation_id_there_is_no_session() -> None:
    [session] = read_sessions(request(("root", "", 0, 9, client(session="")), ("one", "root", 1, 2, tool())))
    assert session.id_source == "trace_id"


def test_version_2_names_the_operation_and_the_call() -> None:
    attributes = tool(**{"gen_ai.operation.name": "execute_tool", "spring.ai.tool.call.id": "call_1"})
    facts = DialectRegistry().read(Span(attributes, name="execute_tool get_weather"))
    assert facts.tool is not None
    assert (facts.dialect, facts.tool.name, facts.tool.call_id) == ("spring_ai", "get_weather", "call_1")


def test_a_tool_whose_exception_is_passed_on_has_failed() -> None:
    raised = event("exception", **{"exception.type": "org.springframework.ai.tool.execution.ToolExecutionException"})
    facts = DialectRegistry().read(Span(tool(), status_code=2, status_message="no table", events=[raised]))
    assert facts.tool is not None
    assert facts.tool.error == "no table"


@pytest.mark.parametrize(
    ("result", "error"),
    [
        *(("no table at 19:30", "no table at 19:30"), ('"booked"', None), ('{"city": "Par', None), ("21.5", None)),
        *(("null", None), ("", None)),
    ],
)
def test_a_result_that_is_no_json_is_what_the_tool_threw(result: str, error: str | None) -> None:
    facts = DialectRegistry().read(Span(tool(**{"spring.ai.tool.call.result": result})))
    assert facts.tool is not None
    assert facts.tool.error == error
