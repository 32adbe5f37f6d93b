# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "litellm==1.106.2",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""LiteLLM's own telemetry, by its callback `otel`, in a loop of the program's own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import scenario
from openai_server import serve
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

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
LOCAL = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
LOOP = asyncio.new_event_loop()
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def answer_to(name: str, arguments: str) -> str:
    """Run a tool, and tell the model what came of it."""
    try:
        return json.dumps(scenario.run_tool(name, json.loads(arguments)))
    except (scenario.NoTable, TypeError) as error:
        return f"Error: {error}"


def ask(options: dict[str, Any], mode: str) -> Any:
    """Ask for one answer, in one of the ways there are."""
    import litellm  # noqa: PLC0415 - reads its settings when it is imported

    if mode == "async":
        return LOOP.run_until_complete(litellm.acompletion(**options))
    if mode == "stream":
        return litellm.stream_chunk_builder(list(litellm.completion(stream=True, **options)))
    return litellm.completion(**options)


def wait() -> None:
    """Wait for the span, which another thread or task writes after the answer."""
    time.sleep(0.5)
    LOOP.run_until_complete(asyncio.sleep(0.5))


def converse(mode: str = "", turns: Iterable[Turn] = scenario.STANDARD, **more: Any) -> Iterator[Turn]:
    """Play the turns; yields each before it begins."""
    options = {"model": f"openai/{scenario.MODEL}", "api_base": serve(turns), "api_key": "none", "tools": TOOLS, **more}
    history: list[Any] = [{"role": "system", "content": scenario.INSTRUCTIONS}]
    for turn in turns:
        yield turn
        history.append({"role": "user", "content": turn.user})
        while True:
            message = ask({**options, "messages": list(history)}, mode).choices[0].message
            wait()
            history.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            history += [
                {"role": "tool", "tool_call_id": call.id, "content": answer_to(**call.function.model_dump())}
                for call in message.tool_calls
            ]


def by_responses() -> None:
    """The Responses API, the conversation kept by the program."""
    import litellm  # noqa: PLC0415 - reads its settings when it is imported

    base, history = serve(scenario.STANDARD), list[Any]()
    for turn in scenario.STANDARD:
        history.append({"role": "user", "content": turn.user})
        while True:
            answer = litellm.responses(
                model=f"openai/{scenario.MODEL}",
                api_base=base,
                api_key="none",
                input=list(history),
                tools=RESPONSES_TOOLS,
                instructions=scenario.INSTRUCTIONS,
            )
            wait()
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


def listen(recorder: Recorder, **settings: Any) -> None:
    """Register the callback as a program of its own would, with a provider that the program made."""
    import litellm  # noqa: PLC0415 - reads its settings when it is imported
    from litellm.integrations.opentelemetry import OpenTelemetry  # noqa: PLC0415

    recorder.trace()
    for name, value in settings.items():
        setattr(litellm, name, value)
    litellm.callbacks = [OpenTelemetry()]


def play(conversation: Iterable[object]) -> None:
    for _ in conversation:
        pass


@contextmanager
def agent() -> Iterator[None]:
    """A span of the program around one turn, which names the session."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": scenario.SESSION}
    with trace.get_tracer("weather_app").start_as_current_span(f"invoke_agent {scenario.AGENT}", attributes=attributes):
        yield


def under_agents(conversation: Iterator[object]) -> None:
    """Play each turn under a span of its own."""
    turns, ended = conversation, object()
    turn = next(turns)
    while turn is not ended:
        with agent():
            turn = next(turns, ended)


MODES: dict[str, Callable[[], None]] = {
    "py-litellm": lambda: play(converse()),
    "py-litellm-stream": lambda: play(converse("stream")),
    "py-litellm-async": lambda: play(converse("async")),
    "py-litellm-responses": by_responses,
    "py-litellm-agent": lambda: under_agents(converse()),
}
for name, mode in MODES.items():

    @recording(name, LOCAL)
    def standard(recorder: Recorder, mode: Callable[[], None] = mode) -> None:
        listen(recorder)
        mode()


@recording("py-litellm-agent-request-spans", LOCAL | {"USE_OTEL_LITELLM_REQUEST_SPAN": "true"})
def request_spans(recorder: Recorder) -> None:
    """LiteLLM writes spans of its own beneath the program's, instead of attributes of the program's span."""
    listen(recorder)
    under_agents(converse())


@recording("py-litellm-latest", LOCAL | LATEST | {CONTENT: "SPAN_ONLY"})
def latest(recorder: Recorder) -> None:
    """By the newer conventions of OpenTelemetry."""
    listen(recorder)
    play(converse())


@recording("py-litellm-nocontent", LOCAL)
def without_content(recorder: Recorder) -> None:
    listen(recorder, turn_off_message_logging=True)
    play(converse())


@recording("py-litellm-server", LOCAL)
def under_a_server(recorder: Recorder) -> None:
    """One span that is no agent's holds the whole conversation."""
    listen(recorder)
    attributes = {"session.id": scenario.SESSION}
    with trace.get_tracer("weather_app").start_as_current_span("POST /chat", attributes=attributes):
        play(converse())


@recording("py-litellm-agent-stream", LOCAL)
def streamed_under_agents(recorder: Recorder) -> None:
    """Of a streamed answer nothing is left."""
    listen(recorder)
    under_agents(converse("stream"))


@recording("py-litellm-agent-latest", LOCAL | LATEST | {CONTENT: "SPAN_ONLY"})
def latest_under_agents(recorder: Recorder) -> None:
    """Each call is written over the one before."""
    listen(recorder)
    under_agents(converse())


@recording("py-litellm-v2", LOCAL | {"LITELLM_OTEL_V2": "true", CONTENT: "SPAN_ONLY"})
def second_writer(recorder: Recorder) -> None:
    """The writer that is to replace the first, which knows of sessions."""
    import litellm  # noqa: PLC0415 - reads its settings when it is imported
    from litellm.integrations.otel.logger import OpenTelemetryV2  # noqa: PLC0415

    litellm.callbacks = [OpenTelemetryV2(tracer_provider=recorder.trace())]
    play(converse("async", litellm_session_id=scenario.SESSION))


main(__file__)
