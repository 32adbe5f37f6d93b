# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langfuse==5.0.4",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Functions that Langfuse observes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import scenario
from langfuse import Langfuse, get_client, observe, propagate_attributes
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

KEYS = {"LANGFUSE_PUBLIC_KEY": "none", "LANGFUSE_SECRET_KEY": "none", "LANGFUSE_BASE_URL": "http://127.0.0.1:1"}


def loop(recorder: Recorder, turns: Iterable[Turn], **options: Any) -> Any:
    provider = recorder.trace()
    Langfuse(tracer_provider=provider)
    tools = {tool.__name__: observe(tool, as_type="tool", **options) for tool in scenario.TOOLS}
    steps = scenario.steps(turns)

    @observe(as_type="generation", **options)
    def chat(messages: list[Any]) -> Any:
        step = next(steps)
        if isinstance(step, str):
            return {"role": "assistant", "content": step}
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in step
        ]
        get_client().update_current_generation(model=scenario.MODEL)
        return {"role": "assistant", "content": None, "tool_calls": calls}

    @observe(name=scenario.AGENT, as_type="agent", **options)
    def answer(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            message = chat(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                function = call["function"]
                try:
                    said = str(tools[function["name"]](**json.loads(function["arguments"])))
                except scenario.NoTable as error:
                    said = str(error)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})

    return answer


def converse(recorder: Recorder, **options: Any) -> None:
    answer = loop(recorder, scenario.STANDARD, **options)
    with propagate_attributes(session_id=scenario.SESSION):
        for turn in scenario.STANDARD:
            answer(turn.user)


@recording("langfuse-observe-agent", KEYS)
def standard(recorder: Recorder) -> None:
    converse(recorder)


@recording("langfuse-observe-nocontent", KEYS)
def hidden(recorder: Recorder) -> None:
    converse(recorder, capture_input=False, capture_output=False)


@recording("langfuse-observe-batch", KEYS)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    turns = [turns[number] for number in range(2) for turns in scenario.CONVERSATIONS.values()]
    answer = loop(recorder, turns)
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, played in scenario.CONVERSATIONS.items():
                with propagate_attributes(session_id=session):
                    answer(played[number].user)


main(__file__)
