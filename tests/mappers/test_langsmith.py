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
