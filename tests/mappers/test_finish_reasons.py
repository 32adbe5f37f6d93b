"""With content off a finish reason is all that tells of requests: never "no calls" then (R10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from rigs.otlp_containers import Span, event


def hides(attributes: dict[str, Any]) -> bool:
    facts = DialectRegistry().read(Span({"gen_ai.operation.name": "chat", **attributes}))
    assert facts.model is not None
    return facts.model.unseen_requests


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.response.finish_reasons": ["tool_calls"]},
        {"gen_ai.response.finish_reasons": ("stop", "tool_use")},
        {"gen_ai.response.finish_reasons": '["tool_calls"]'},
        {"gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS"},
        {"ai.response.finishReason": "tool-calls"},
        {"gen_ai.response.finish_reasons": ["TOOL_EXECUTION"]},  # LangChain4j
        {"gen_ai.output.messages": "[REDACTED]"},
        {"gen_ai.output.messages": 'Object {"content": Null, "tool_calls": Array [Object {"id": String("c")}]}'},
        {"gen_ai.output.messages": 'AiMessage { toolExecutionRequests = [ToolExecutionRequest { id = "c" }] }'},
        {"gen_ai.output.messages": "ChatCompletionMessage(content=None, tool_calls=[Call(id='c', type='function')]"},
    ],
)
def test_an_answer_that_asked_for_tools_and_is_not_written(attributes: dict[str, Any]) -> None:
    assert hides(attributes)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"gen_ai.response.finish_reasons": ["stop"]},
        {"gen_ai.response.finish_reasons": ["stop"], "gen_ai.output.messages": "[REDACTED]"},
        {"gen_ai.response.finish_reasons": [7, None]},
        {"gen_ai.output.messages": 'AiMessage { text = "Paris.", toolExecutionRequests = [], attributes = {} }'},
        {"gen_ai.output.messages": "Message(content='Paris.', function_call=None, tool_calls=None, at=<x>)"},
        {"gen_ai.output.messages": 'Object {"content": String("Paris."), "tool_calls": Null}'},
        {"gen_ai.output.messages": "Yes, a tool_call would do."},
        {"gen_ai.response.finish_reasons": {"tool_calls": 1}},
        {
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "tool_call", "name": "f"}]}]',
        },
    ],
)
def test_nothing_is_hidden_otherwise(attributes: dict[str, Any]) -> None:
    assert not hides(attributes)


def test_an_event_tells_the_finish_reason_too() -> None:
    choice = event("gen_ai.choice", finish_reason="function_call", tool_names="book")
    model = DialectRegistry().read(Span({"gen_ai.operation.name": "chat"}, events=[choice])).model
    assert model is not None
    assert model.unseen_requests


@pytest.mark.parametrize(
    ("said", "silent"),
    [({}, True), ({"content": "Two flights."}, False), ({"finish_reason": "stop"}, False)],
)
def test_an_answer_with_a_role_and_nothing_else_may_have_asked(said: dict[str, str], silent: bool) -> None:
    answer = {f"gen_ai.completion.0.{key}": value for key, value in {"role": "assistant", **said}.items()}
    model = DialectRegistry().read(Span({"llm.request.type": "chat", **answer})).model
    assert model is not None
    assert model.silent is silent


@pytest.mark.parametrize(("parts", "silent"), [([], True), ([{"type": "text", "content": "No."}], False)])
def test_a_message_without_parts_may_have_asked(parts: list[Any], silent: bool) -> None:
    said = json.dumps([{"role": "assistant", "parts": parts, "finish_reason": ""}])
    model = DialectRegistry().read(Span({"gen_ai.operation.name": "chat", "gen_ai.output.messages": said})).model
    assert model is not None
    assert model.silent is silent


@pytest.mark.parametrize(
    ("reasons", "silent"),
    [(["completed"], True), ("completed", True), (["stop"], False), (["completed", "stop"], False)],
)
def test_the_status_of_an_answer_is_no_reason(reasons: object, *, silent: bool) -> None:
    """OpenLIT for JavaScript leaves requests of the Responses API out of the answer."""
    answer = {"gen_ai.response.finish_reasons": reasons, "gen_ai.output.messages": '[{"role":"assistant","parts":[]}]'}
    model = DialectRegistry().read(Span({"gen_ai.operation.name": "chat", **answer})).model
    assert model is not None
    assert model.silent is silent


def test_a_call_of_which_nothing_is_written_may_have_asked() -> None:
    """What its agent runs before the next one is of one batch then (R8)."""
    asked, answered = DialectRegistry().read(Span({"gen_ai.operation.name": "chat"})).model, {"finish_reason": "stop"}
    told = DialectRegistry().read(Span({"gen_ai.operation.name": "chat"}, events=[event("gen_ai.choice", **answered)]))
    assert asked is not None
    assert told.model is not None
    assert (asked.untold, told.model.untold) == (True, False)


def test_a_redacted_answer_may_have_asked() -> None:
    facts = DialectRegistry().read(Span({"openinference.span.kind": "LLM", "output.value": "__REDACTED__"}))
    assert facts.model is not None
    assert facts.model.unseen_requests
