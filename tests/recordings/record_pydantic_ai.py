# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openinference-instrumentation-pydantic-ai==0.1.30",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
#   "pydantic-ai-slim==2.68.0",
# ]
# ///
"""Pydantic AI, with its own instrumentation in its versions and with OpenInference's on top."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import scenario
from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor
from opentelemetry import trace
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    InstrumentationSettings,
    ModelRetry,
    Tool,
    ToolDenied,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from recorder import Recorder, main, recording
from scenario import Call, Step, Turn


async def get_weather(city: str, unit: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast."""
    return scenario.get_weather(city, unit, days)


async def convert(value: float, from_unit: str, to_unit: str) -> dict[str, Any]:
    """Convert a temperature."""
    return scenario.convert_temperature(value, from_unit, to_unit)


async def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> dict[str, Any]:
    """Book a table; no table is something the model may try again about."""
    try:
        return scenario.book_table(restaurant, people, when, notes)
    except scenario.NoTable as error:
        raise ModelRetry(str(error)) from error


# Synchronous tools would run in threads, in another order each time.
TOOLS = [get_weather, convert, book_table]


def as_sent(call: Call) -> dict[str, Any] | str:
    """Some providers send arguments as an object, some as JSON text: the framework records what it was given."""
    return json.dumps(call.arguments) if call.id in ("call_2", "call_4") else call.arguments


def model(turns: Iterable[Turn]) -> FunctionModel:
    steps = scenario.steps(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step: Step = next(steps)
        if isinstance(step, str):
            return ModelResponse([TextPart(step)])
        return ModelResponse([ToolCallPart(call.name, as_sent(call), call.id) for call in step])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        step: Step = next(steps)
        if isinstance(step, str):
            yield step
            return
        for index, call in enumerate(step):
            half = len(call.json) // 2
            yield {index: DeltaToolCall(call.name, call.json[:half], tool_call_id=call.id)}
            yield {index: DeltaToolCall(None, call.json[half:])}

    return FunctionModel(answer, stream_function=stream, model_name=scenario.MODEL)


def agent(turns: Iterable[Turn], tools: list[Any] = TOOLS, **settings: Any) -> Agent[None, Any]:
    made = Agent(model(turns), name=scenario.AGENT, instructions=scenario.INSTRUCTIONS, tools=tools, retries=2)
    made.instrument = InstrumentationSettings(**settings)
    return made


def converse(one: Agent[None, Any], session: str = scenario.SESSION, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    history: list[ModelMessage] = []
    for turn in turns:
        history = one.run_sync(turn.user, message_history=history, conversation_id=session).all_messages()


def standard(recorder: Recorder, **settings: Any) -> None:
    recorder.trace()
    converse(agent(scenario.STANDARD, **settings))


for number in (2, 3, 4, 5, 6):
    recording(f"pydantic-ai-v{number}")(lambda recorder, number=number: standard(recorder, version=number))


@recording("pydantic-ai-v5-nocontent")
def without_content(recorder: Recorder) -> None:
    standard(recorder, include_content=False)


@recording("pydantic-ai-v5-truncated60", {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "60"})
def truncated(recorder: Recorder) -> None:
    standard(recorder)


@recording("pydantic-ai-openinference")
def openinference(recorder: Recorder) -> None:
    recorder.trace(OpenInferenceSpanProcessor())
    converse(agent(scenario.STANDARD))


@recording("pydantic-ai-v5-stream")
def stream(recorder: Recorder) -> None:
    """Requests arrive in pieces."""
    recorder.trace()
    one = agent(scenario.STANDARD)
    history: list[ModelMessage] = []

    async def converse_streaming() -> None:
        nonlocal history
        for turn in scenario.STANDARD:
            async with one.run_stream(turn.user, message_history=history, conversation_id=scenario.SESSION) as result:
                await result.get_output()
                history = result.all_messages()

    asyncio.run(converse_streaming())


@recording("pydantic-ai-v5-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    recorder.trace()
    converse(agent(scenario.REJECTED), turns=scenario.REJECTED)


@recording("pydantic-ai-v5-agent-as-tool")
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    recorder.trace()
    inner = Agent(model([scenario.TABLE]), name=scenario.BOOKING_AGENT, tools=[book_table], retries=2)
    inner.instrument = InstrumentationSettings()

    async def booking_agent(request: str) -> str:
        """Book tables."""
        return str((await inner.run(request)).output)

    converse(agent(scenario.DELEGATED, [*TOOLS[:2], booking_agent]))


@recording("pydantic-ai-v5-denied")
def denied(recorder: Recorder) -> None:
    """A person denies the first booking and approves the second: each decision starts a run of its own."""
    recorder.trace()
    one: Agent[None, Any] = Agent(
        model(scenario.STANDARD),
        name=scenario.AGENT,
        tools=[*TOOLS[:2], Tool(book_table, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )
    one.instrument = InstrumentationSettings()
    converse(one, turns=[scenario.WEATHER])
    result = one.run_sync(scenario.ASK_TABLE, conversation_id=scenario.SESSION)
    for decision in (ToolDenied("The guest does not want 19:30."), True):
        [request] = result.output.approvals
        result = one.run_sync(
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={request.tool_call_id: decision}),
            conversation_id=scenario.SESSION,
        )


@recording("pydantic-ai-v5-batch")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    recorder.trace()
    agents = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}
    histories: dict[str, list[ModelMessage]] = {session: [] for session in scenario.CONVERSATIONS}
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                result = agents[session].run_sync(
                    turns[number].user, message_history=histories[session], conversation_id=session
                )
                histories[session] = result.all_messages()


main(__file__)
