# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai==3.52.0",
#   "openinference-instrumentation-openai==0.1.66",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-instrumentation-genai-openai==1.3b0",
#   "opentelemetry-instrumentation-openai==0.62.4",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""OpenAI's SDK in a loop of the program's own, as OpenInference, OpenLLMetry and OpenTelemetry write it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import scenario
from openai import AsyncOpenAI, OpenAI
from openai_server import serve
from openinference.instrumentation import using_session
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": tool.__name__,
            "description": tool.__doc__,
            "parameters": scenario.parameters(tool.__name__),
        },
    }
    for tool in scenario.TOOLS
]
RESPONSES_TOOLS = [{"type": "function", **tool["function"]} for tool in TOOLS]


def answer_to(name: str, arguments: str) -> str:
    """Run a tool, and tell the model what came of it."""
    try:
        return json.dumps(scenario.run_tool(name, json.loads(arguments)))
    except (scenario.NoTable, TypeError) as error:
        return f"Error: {error}"


def put_together(chunks: Iterable[Any]) -> tuple[str | None, list[dict[str, Any]]]:
    """Build a streamed answer."""
    text, calls = "", dict[int, dict[str, Any]]()
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] = piece.id or call["id"]
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    return text or None, list(calls.values())


def converse(turns: Iterable[Turn] = scenario.STANDARD, *, stream: bool = False) -> None:
    client = OpenAI(base_url=serve(turns), api_key="none")
    history: list[Any] = [{"role": "system", "content": scenario.INSTRUCTIONS}]
    for turn in turns:
        history.append({"role": "user", "content": turn.user})
        while True:
            options: dict[str, Any] = {"stream": True} if stream else {}
            answer = client.chat.completions.create(
                model=scenario.MODEL, messages=history, tools=TOOLS, parallel_tool_calls=True, **options
            )
            if stream:
                text, calls = put_together(answer)
            else:
                message = answer.choices[0].message
                text, calls = message.content, [call.model_dump() for call in message.tool_calls or ()]
            if not calls:
                history.append({"role": "assistant", "content": text})
                break
            history.append({"role": "assistant", "content": text, "tool_calls": calls})
            history += [
                {"role": "tool", "tool_call_id": call["id"], "content": answer_to(**call["function"])} for call in calls
            ]


async def converse_async(turns: Iterable[Turn] = scenario.STANDARD) -> None:
    client = AsyncOpenAI(base_url=serve(turns), api_key="none")
    history: list[Any] = [{"role": "system", "content": scenario.INSTRUCTIONS}]
    for turn in turns:
        history.append({"role": "user", "content": turn.user})
        while True:
            answer = await client.chat.completions.create(model=scenario.MODEL, messages=history, tools=TOOLS)
            message = answer.choices[0].message
            calls = [call.model_dump() for call in message.tool_calls or ()]
            history.append({"role": "assistant", "content": message.content} | ({"tool_calls": calls} if calls else {}))
            if not calls:
                break
            history += [
                {"role": "tool", "tool_call_id": call["id"], "content": answer_to(**call["function"])} for call in calls
            ]


def by_responses(turns: Iterable[Turn] = scenario.STANDARD) -> None:
    """The Responses API, the conversation kept by the program."""
    client = OpenAI(base_url=serve(turns), api_key="none")
    history: list[Any] = []
    for turn in turns:
        history.append({"role": "user", "content": turn.user})
        while True:
            answer = client.responses.create(
                model=scenario.MODEL, input=history, tools=RESPONSES_TOOLS, instructions=scenario.INSTRUCTIONS
            )
            calls = [item for item in answer.output if item.type == "function_call"]
            history += [item.model_dump(exclude_none=True) for item in answer.output]
            if not calls:
                break
            history += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": answer_to(call.name, call.arguments),
                }
                for call in calls
            ]


def openinference(recorder: Recorder) -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: PLC0415 - one of three

    OpenAIInstrumentor().instrument(tracer_provider=recorder.trace())


def openllmetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor  # noqa: PLC0415 - one of three

    OpenAIInstrumentor().instrument(tracer_provider=recorder.trace())


def opentelemetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor  # noqa: PLC0415 - one of three

    provider, logs = recorder.trace(), recorder.log()
    OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)


Instrument = Callable[[Recorder], None]
IN_SPANS = {CONTENT: "SPAN_ONLY"}
IN_EVENTS = {CONTENT: "EVENT_ONLY", "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true"}
HIDDEN = {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
MODES: dict[str, Callable[[], None]] = {
    "": converse,
    "-stream": lambda: converse(stream=True),
    "-async": lambda: asyncio.run(converse_async()),
    "-responses": by_responses,
}
for name, instrument, environment in (
    ("raw-openai-openinference", openinference, {}),
    ("raw-openai-traceloop", openllmetry, {}),
    ("raw-openai-otel-genai", opentelemetry, IN_SPANS),
):
    for mode, play in MODES.items():

        @recording(name + mode, environment)
        def standard(recorder: Recorder, instrument: Instrument = instrument, play: Callable[[], None] = play) -> None:
            instrument(recorder)
            with using_session(scenario.SESSION):
                play()


@recording("raw-openai-otel-genai-event", IN_EVENTS)
def in_events(recorder: Recorder) -> None:
    opentelemetry(recorder)
    converse()


@recording("raw-openai-openinference-nocontent", HIDDEN)
def hidden(recorder: Recorder) -> None:
    openinference(recorder)
    with using_session(scenario.SESSION):
        converse()


@recording("raw-openai-otel-genai-nocontent")
def without_content(recorder: Recorder) -> None:
    """Nothing but the finish reason says that tools were asked for."""
    opentelemetry(recorder)
    converse()


@recording("raw-openai-traceloop-nocontent", {"TRACELOOP_TRACE_CONTENT": "false"})
def without_content_by_openllmetry(recorder: Recorder) -> None:
    openllmetry(recorder)
    converse()


@recording("raw-openai-openinference-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: the program refuses it, the model asks again."""
    openinference(recorder)
    with using_session(scenario.SESSION):
        converse(scenario.INCOMPLETE)


@recording("raw-openai-otel-genai-one-trace", IN_SPANS)
def one_trace(recorder: Recorder) -> None:
    """The program opens one span for its whole conversation, and names the session on it."""
    opentelemetry(recorder)
    attributes = {"gen_ai.conversation.id": scenario.SESSION}
    with trace.get_tracer("weather_app").start_as_current_span("conversation", attributes=attributes):
        converse()


main(__file__)
