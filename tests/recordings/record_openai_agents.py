# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai-agents==0.24.0",
#   "openai==3.52.0",
#   "openinference-instrumentation-openai-agents==2.6.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-instrumentation-genai-openai-agents==1.3b0",
#   "opentelemetry-instrumentation-openai-agents==0.62.4",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""OpenAI Agents as OpenInference, OpenLLMetry and OpenTelemetry write them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import json_tools
import scenario
from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Usage,
    function_tool,
    set_trace_processors,
)
from agents.tracing import generation_span
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai_server import serve
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor as OpenInference
from opentelemetry import trace
from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor as OpenTelemetry
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor as OpenLLMetry
from recorder import Recorder, main, recording
from scenario import Step, Turn

CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}


class ScriptedModel(Model):
    """Says what comes next, inside the span that the SDK's own chat model opens."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._steps = scenario.steps(turns)

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002 - the base class names it so
        step: Step = next(self._steps)
        asked = [{"content": input, "role": "user"}] if isinstance(input, str) else input
        history = [{"role": "system", "content": system_instructions}, *asked]
        with generation_span(input=history, model=scenario.MODEL, model_config={"temperature": 0}) as span:
            span.span_data.output = [as_message(step)]
            span.span_data.usage = {"input_tokens": 10, "output_tokens": 5}
        return ModelResponse(
            output_items(step), Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15), None
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def as_message(step: Step) -> dict[str, Any]:
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}} for call in step
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def output_items(step: Step) -> list[Any]:
    if isinstance(step, str):
        text = ResponseOutputText(text=step, type="output_text", annotations=[])
        return [ResponseOutputMessage(id="msg_1", content=[text], role="assistant", status="completed", type="message")]
    return [
        ResponseFunctionToolCall(arguments=call.json, call_id=call.id, name=call.name, type="function_call")
        for call in step
    ]


TOOLS = [function_tool(tool, strict_mode=False) for tool in json_tools.TOOLS]


def agent(turns: Iterable[Turn], **options: Any) -> Agent[None]:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, "model": ScriptedModel(turns), **options}
    return Agent(instructions=scenario.INSTRUCTIONS, **settings)


def config(session: str = scenario.SESSION) -> RunConfig:
    return RunConfig(workflow_name="weather workflow", group_id=session)


def converse(one: Agent[None], turns: Iterable[Turn] = scenario.STANDARD) -> None:
    history: list[Any] = []
    for turn in turns:
        result = Runner.run_sync(one, [*history, {"role": "user", "content": turn.user}], run_config=config())
        history = result.to_input_list()


@contextmanager
def traced(recorder: Recorder, instrumentor: Any) -> Iterator[None]:
    """Only one of the instrumentations, without the SDK's own exporter."""
    set_trace_processors([])
    instrumentor().instrument(tracer_provider=recorder.trace())
    yield
    instrumentor().uninstrument()


def standard(recorder: Recorder, instrumentor: Any) -> None:
    with traced(recorder, instrumentor):
        converse(agent(scenario.STANDARD))


for name, instrumentor, environment in (
    ("openai-agents-openinference", OpenInference, {}),
    ("openai-agents-traceloop", OpenLLMetry, {}),
    ("openai-agents-traceloop-nocontent", OpenLLMetry, {"TRACELOOP_TRACE_CONTENT": "false"}),
    ("openai-agents-otel-genai", OpenTelemetry, CONTENT),
    ("openai-agents-otel-genai-nocontent", OpenTelemetry, {}),
):
    recording(name, environment)(lambda recorder, instrumentor=instrumentor: standard(recorder, instrumentor))


def over_http(turns: Iterable[Turn]) -> OpenAIResponsesModel:
    return OpenAIResponsesModel(scenario.MODEL, AsyncOpenAI(base_url=serve(turns), api_key="none"))


@recording("openai-agents-openinference-responses")
def responses(recorder: Recorder) -> None:
    """The SDK's own model for the Responses API, in a session that the program declares."""
    with traced(recorder, OpenInference), using_session(scenario.SESSION):
        converse(agent((), model=over_http(scenario.STANDARD)))


def responses_by(recorder: Recorder, instrumentor: Any) -> None:
    with traced(recorder, instrumentor):
        converse(agent((), model=over_http(scenario.STANDARD)))


for name, instrumentor, environment in (
    ("openai-agents-traceloop-responses", OpenLLMetry, {}),
    ("openai-agents-otel-genai-responses", OpenTelemetry, CONTENT),
):
    recording(name, environment)(lambda recorder, instrumentor=instrumentor: responses_by(recorder, instrumentor))


@recording("openai-agents-openinference-stream")
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    one = agent((), model=over_http(scenario.STANDARD))

    async def run() -> None:
        history: list[Any] = []
        for turn in scenario.STANDARD:
            asked = [*history, {"role": "user", "content": turn.user}]
            result = Runner.run_streamed(one, asked, run_config=config())
            async for _ in result.stream_events():
                pass
            history = result.to_input_list()

    with traced(recorder, OpenInference), using_session(scenario.SESSION):
        asyncio.run(run())


def hand_over(recorder: Recorder, instrumentor: Any) -> None:
    model = ScriptedModel(scenario.HANDED_OVER_BY_TOOL)
    booking = Agent(name=scenario.BOOKING_AGENT, instructions="Book.", tools=TOOLS[2:], model=model)
    with traced(recorder, instrumentor):
        converse(agent((), tools=TOOLS[:2], handoffs=[booking], model=model))


for name, instrumentor, environment in (
    ("openai-agents-openinference-handoff", OpenInference, {}),
    ("openai-agents-traceloop-handoff", OpenLLMetry, {}),
    ("openai-agents-otel-genai-handoff", OpenTelemetry, CONTENT),
):
    recording(name, environment)(lambda recorder, instrumentor=instrumentor: hand_over(recorder, instrumentor))


def delegate(recorder: Recorder, instrumentor: Any) -> None:
    """A tool of the agent runs another agent."""
    inner = Agent(
        name=scenario.BOOKING_AGENT,
        instructions="Book.",
        tools=TOOLS[2:],
        model=ScriptedModel([scenario.TABLE]),
    )

    async def run_inner(request: str) -> str:
        """Book tables."""
        return str((await Runner.run(inner, request)).final_output)

    tool = function_tool(run_inner, name_override=scenario.BOOKING_AGENT, strict_mode=False)
    with traced(recorder, instrumentor):
        converse(agent(scenario.DELEGATED, tools=[*TOOLS[:2], tool]))


for name, instrumentor, environment in (
    ("openai-agents-openinference-agent-as-tool", OpenInference, {}),
    ("openai-agents-traceloop-agent-as-tool", OpenLLMetry, {}),
    ("openai-agents-otel-genai-agent-as-tool", OpenTelemetry, CONTENT),
):
    recording(name, environment)(lambda recorder, instrumentor=instrumentor: delegate(recorder, instrumentor))


@recording(
    "openai-agents-openinference-nocontent", {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
)
def hidden(recorder: Recorder) -> None:
    with traced(recorder, OpenInference), using_session(scenario.SESSION):
        converse(agent(scenario.STANDARD))


@recording("openai-agents-openinference-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: the SDK answers with an error, the model asks again."""
    with traced(recorder, OpenInference), using_session(scenario.SESSION):
        converse(agent(scenario.REJECTED), scenario.REJECTED)


def deny(recorder: Recorder, instrumentor: Any) -> None:
    """A person rejects the first booking and approves the second: each decision resumes the run.

    The group's id is dropped where a run is resumed, so that the program names the session on a span of its own.
    """
    tool = function_tool(json_tools.book_table, strict_mode=False, needs_approval=True)
    one = agent(scenario.STANDARD, tools=[*TOOLS[:2], tool])

    def say(message: Any) -> Any:
        attributes = {"session.id": scenario.SESSION}
        with trace.get_tracer("weather_app").start_as_current_span("message", attributes=attributes):
            return Runner.run_sync(one, message, run_config=config())

    with traced(recorder, instrumentor):
        say(scenario.ASK_WEATHER)
        result = say(scenario.ASK_TABLE)
        for approved in (False, True):
            state = result.to_state()
            [asked] = result.interruptions
            if approved:
                state.approve(asked)
            else:
                state.reject(asked)
            result = say(state)


for name, instrumentor, environment in (
    ("openai-agents-traceloop-denied", OpenLLMetry, {}),
    ("openai-agents-otel-genai-denied", OpenTelemetry, CONTENT),
):
    recording(name, environment)(lambda recorder, instrumentor=instrumentor: deny(recorder, instrumentor))


@recording("openai-agents-openinference-batch")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    agents = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}
    with traced(recorder, OpenInference), trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                with using_session(session):
                    Runner.run_sync(agents[session], turns[number].user, run_config=config(session))


main(__file__)
