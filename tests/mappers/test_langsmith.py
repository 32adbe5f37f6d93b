"""What LangSmith writes of a model's answer: LangChain's generations, a provider's choices, or the message alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from rigs.otlp_containers import Span

PARIS = {"city": "Paris"}
OPENAI = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps(PARIS)}}],
}
CALL = {"type": "tool_call", "id": "c1", "name": "f", "args": PARIS}
LANGCHAIN = {"lc": 1, "type": "constructor", "kwargs": {"type": "ai", "tool_calls": [CALL]}}


@pytest.mark.parametrize(
    "outputs",
    [
        {"generations": [[{"message": LANGCHAIN}]]},
        {"generations": [{"message": LANGCHAIN}]},
        {"choices": [{"index": 0, "message": OPENAI}]},
        OPENAI,
    ],
    ids=["generations", "one list of generations", "choices", "message"],
)
def test_requests_are_found_in_outputs_of_every_kind(outputs: dict[str, Any]) -> None:
    span = Span({"langsmith.span.kind": "llm", "gen_ai.completion": json.dumps(outputs)})
    facts = DialectRegistry().read(span)
    assert facts.dialect == "langsmith"
    assert facts.model is not None
    assert [(one.name, one.arguments.value, one.call_id) for one in facts.model.requests] == [("f", PARIS, "c1")]


@pytest.mark.parametrize(
    ("inputs", "read"),
    [
        (PARIS, (PARIS, None)),
        ({"args": [PARIS, {"toolCallId": "c1", "messages": []}]}, (PARIS, "c1")),
        ({"args": [{}, {"toolCallId": "c1", "messages": []}]}, ({}, "c1")),
        ({"args": [PARIS, {"unit": "C"}]}, ({"args": [PARIS, {"unit": "C"}]}, None)),
    ],
    ids=["input alone", "the AI SDK's options", "without arguments", "a tool with a parameter args"],
)
def test_a_tool_of_the_ai_sdk_has_options_beside_its_input(inputs: Any, read: tuple[Any, str | None]) -> None:
    span = Span({"langsmith.span.kind": "tool", "gen_ai.tool.name": "f", "gen_ai.prompt": json.dumps(inputs)})
    facts = DialectRegistry().read(span)
    assert facts.tool is not None
    assert (facts.tool.arguments.value, facts.tool.call_id) == read
