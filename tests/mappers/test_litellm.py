"""LiteLLM beyond its recordings: other providers and versions, and calls written on spans of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring.sessions import Turn

PARIS = {"city": "Paris"}
OWN = {"llm.request.type": "completion", "litellm.call_id": "c1", "llm.is_streaming": "False"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(PARIS)}}


def span(name: str, parent: str, attributes: dict[str, str], scope: str = "litellm", start: int = 1) -> dict[str, Any]:
    encoded = {
        "traceId": "a" * 32,
        "spanId": name.encode().hex().ljust(16, "0")[-16:],
        "parentSpanId": parent.encode().hex().ljust(16, "0")[-16:] if parent else "",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    return {"scope": {"name": scope}, "spans": [encoded]}


def turns(*spans: dict[str, Any]) -> list[Turn]:
    return [
        turn for session in read_sessions({"resourceSpans": [{"scopeSpans": list(spans)}]}) for turn in session.turns
    ]


def test_messages_of_older_versions_are_flat() -> None:
    attributes = {
        "llm.request.type": "completion",
        "metadata.user_api_key_hash": "",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Weather?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.function_call.name": "get_weather",
        "gen_ai.completion.0.function_call.arguments": json.dumps(PARIS),
    }
    [turn] = turns(span("litellm_request", "", attributes))
    assert [(call.name, call.arguments) for call in turn.calls] == [("get_weather", PARIS)]
    assert turn.user_text.value == "Weather?"


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("llm.openai.choices", [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}]),
        ("llm.anthropic.content", [{"type": "tool_use", "id": "call_1", "name": "get_weather", "input": PARIS}]),
        (
            "llm.gemini.candidates",
            [{"content": {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": PARIS}}]}}],
        ),
        (
            "llm.bedrock.output",
            {
                "message": {
                    "role": "assistant",
                    "content": [{"toolUse": {"toolUseId": "call_1", "name": "get_weather", "input": PARIS}}],
                }
            },
        ),
        (
            "llm.None.output",
            [{"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": json.dumps(PARIS)}],
        ),
    ],
)
@pytest.mark.parametrize("write", [json.dumps, repr], ids=["json", "python"])
def test_a_call_on_another_span_is_read_from_the_answer_of_any_provider(key: str, answer: Any, write: Any) -> None:
    stale = {"gen_ai.completion.1.function_call.name": "convert", "gen_ai.completion.1.function_call.arguments": "{}"}
    [turn] = turns(
        span("POST /chat", "", OWN | stale | {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[]"}, "web"),
        span("raw_gen_ai_request", "POST /chat", {key: write(answer)}),
    )
    assert [(call.name, call.arguments) for call in turn.calls] == [("get_weather", PARIS)]


@pytest.mark.parametrize("name", ["POST /chat", "invoke_agent weather"])
@pytest.mark.parametrize(
    "attributes",
    [{"llm.is_streaming": "True", "gen_ai.input.messages": "[]"}, {"llm.is_streaming": "False"}],
    ids=["streamed", "without content"],
)
def test_where_nothing_holds_the_answer_calls_are_not_visible(name: str, attributes: dict[str, str]) -> None:
    [turn] = turns(span(name, "", OWN | attributes, "web"), span("raw_gen_ai_request", name, {}))
    assert not turn.calls_visible


def test_a_copy_within_a_request_starts_no_turn_and_is_no_second_call() -> None:
    user = [{"role": "user", "content": "Weather?"}]
    answer = [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}]
    request = OWN | {
        "gen_ai.input.messages": json.dumps(user),
        "gen_ai.completion.0.function_call.name": "get_weather",
        "gen_ai.completion.0.function_call.arguments": json.dumps(PARIS),
    }
    raw = {"llm.openai.messages": repr(user), "llm.openai.choices": repr(answer)}
    found = turns(span("litellm_request", "", request), span("raw_gen_ai_request", "litellm_request", raw))
    assert [[call.name for call in turn.calls] for turn in found] == [["get_weather"]]
