# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "mlflow-tracing==3.17.2",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Functions that MLflow traces, in its own attributes and in OpenTelemetry's."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from typing import Any

import scenario
from otlp_sink import receive
from recorder import Recorder, main, recording
from scenario import Step, Turn

# Nobody listens there: without it MLflow opens a database.
OTLP = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}
GENAI = OTLP | {"MLFLOW_ENABLE_OTEL_GENAI_SEMCONV": "true"}


def loop(recorder: Recorder, turns: Iterable[Turn] = scenario.STANDARD) -> Any:
    """Build an agent that is traced from its turns to its tools."""
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{receive(recorder)}/v1/traces"
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    import mlflow  # noqa: PLC0415 - it reads the endpoint when it is imported
    from mlflow.entities import SpanType  # noqa: PLC0415 - as above

    tools = {tool.__name__: mlflow.trace(tool, span_type=SpanType.TOOL) for tool in scenario.TOOLS}
    steps = scenario.steps(turns)

    @mlflow.trace(span_type=SpanType.CHAT_MODEL)
    def chat(messages: list[Any]) -> dict[str, Any]:
        step: Step = next(steps)
        if isinstance(step, str):
            said: dict[str, Any] = {"role": "assistant", "content": step}
        else:
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
                for call in step
            ]
            said = {"role": "assistant", "content": None, "tool_calls": calls}
        return {"choices": [{"index": 0, "message": said}], "model": scenario.MODEL}

    @mlflow.trace(name=scenario.AGENT, span_type=SpanType.AGENT)
    def answer(question: str) -> str:
        mlflow.update_current_trace(metadata={"mlflow.trace.session": scenario.SESSION})
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            message = chat(messages)["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                function = call["function"]
                try:
                    said = json.dumps(tools[function["name"]](**json.loads(function["arguments"])))
                except scenario.NoTable as error:
                    said = str(error)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})

    return answer


@recording("mlflow-otlp-functions", OTLP)
def own_attributes(recorder: Recorder) -> None:
    answer = loop(recorder)
    for turn in scenario.STANDARD:
        answer(turn.user)
    flush()


@recording("mlflow-otlp-conventions", GENAI)
def conventions(recorder: Recorder) -> None:
    answer = loop(recorder)
    for turn in scenario.STANDARD:
        answer(turn.user)
    flush()


@recording("mlflow-otlp-async", OTLP)
def in_threads(recorder: Recorder) -> None:
    """Each turn in a thread of its own."""
    answer = loop(recorder)

    async def run() -> None:
        for turn in scenario.STANDARD:
            await asyncio.to_thread(answer, turn.user)

    asyncio.run(run())
    flush()


def flush() -> None:
    from mlflow.tracing.provider import provider  # noqa: PLC0415 - it reads the endpoint when it is imported

    provider.get().force_flush()


main(__file__)
