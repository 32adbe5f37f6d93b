# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "anthropic==2.11.0",
#   "openinference-instrumentation-anthropic==3.1.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-instrumentation-anthropic==0.62.4",
#   "opentelemetry-instrumentation-genai-anthropic==1.3b0",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Anthropic's SDK in a loop of the program's own, as OpenInference, OpenLLMetry and OpenTelemetry write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import scenario
from anthropic import Anthropic
from openai_server import serve
from openinference.instrumentation import using_session
from recorder import Recorder, main, recording
from scenario import Turn

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TOOLS = [
    {"name": tool.__name__, "description": tool.__doc__, "input_schema": scenario.parameters(tool.__name__)}
    for tool in scenario.TOOLS
]


def result_of(block: Any) -> dict[str, Any]:
    """Run a tool, and tell the model what came of it."""
    answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.id}
    try:
        return answer | {"content": json.dumps(scenario.run_tool(block.name, block.input))}
    except (scenario.NoTable, TypeError) as error:
        return answer | {"content": str(error), "is_error": True}


def converse(turns: Iterable[Turn] = scenario.STANDARD, *, stream: bool = False) -> None:
    client = Anthropic(base_url=serve(turns).removesuffix("/v1"), api_key="none")
    history: list[Any] = []
    for turn in turns:
        history.append({"role": "user", "content": turn.user})
        while True:
            asked: dict[str, Any] = {
                "model": scenario.MODEL,
                "max_tokens": 100,
                "system": scenario.INSTRUCTIONS,
                "messages": history,
                "tools": TOOLS,
            }
            if stream:
                with client.messages.stream(**asked) as answers:
                    answer = answers.get_final_message()
            else:
                answer = client.messages.create(**asked)
            history.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
            results = [result_of(block) for block in answer.content if block.type == "tool_use"]
            if not results:
                break
            history.append({"role": "user", "content": results})


def openinference(recorder: Recorder) -> None:
    from openinference.instrumentation.anthropic import AnthropicInstrumentor  # noqa: PLC0415 - one of three

    AnthropicInstrumentor().instrument(tracer_provider=recorder.trace())


def openllmetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor  # noqa: PLC0415 - one of three

    AnthropicInstrumentor().instrument(tracer_provider=recorder.trace())


def opentelemetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor  # noqa: PLC0415 - one of three

    provider, logs = recorder.trace(), recorder.log()
    AnthropicInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)


Instrument = Callable[[Recorder], None]
IN_SPANS = {CONTENT: "SPAN_ONLY"}
IN_EVENTS = {CONTENT: "EVENT_ONLY", "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true"}
for name, instrument, environment in (
    ("raw-anthropic-openinference", openinference, {}),
    ("raw-anthropic-traceloop", openllmetry, {}),
    ("raw-anthropic-traceloop-nocontent", openllmetry, {"TRACELOOP_TRACE_CONTENT": "false"}),
    ("raw-anthropic-otel-genai", opentelemetry, IN_SPANS),
    ("raw-anthropic-otel-genai-nocontent", opentelemetry, {}),
    ("raw-anthropic-otel-genai-event", opentelemetry, IN_EVENTS),
):
    for mode in ("",) if name.endswith(("-event", "-nocontent")) else ("", "-stream"):

        @recording(name + mode, environment)
        def standard(recorder: Recorder, instrument: Instrument = instrument, mode: str = mode) -> None:
            instrument(recorder)
            with using_session(scenario.SESSION):
                converse(stream=bool(mode))


main(__file__)
