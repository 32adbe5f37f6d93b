# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai==3.52.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
#   "semantic-kernel==1.45.0",
# ]
# ///
"""Semantic Kernel's own telemetry: what models say is in log records only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Annotated, Any

import scenario
from openai import AsyncOpenAI
from openai_server import serve
from opentelemetry import trace
from opentelemetry.sdk._logs import LoggingHandler
from recorder import Recorder, main, recording
from scenario import Turn
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

CONTENT = {"SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE": "true"}
NO_CONTENT = {"SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS": "true"}


class Operations:
    """The tools as a plugin; its name stands before theirs."""

    @kernel_function(name="get_weather", description="Weather forecast")
    async def get_weather(self, city: str, unit: str, days: int = 1) -> dict[str, Any]:
        return scenario.get_weather(city, unit, days)

    @kernel_function(name="convert", description="Convert a temperature")
    async def convert(self, value: float, from_unit: str, to_unit: str) -> float:
        return float(scenario.convert_temperature(value, from_unit, to_unit)["value"])

    @kernel_function(name="book_table", description="Book a table")
    async def book_table(
        self, restaurant: dict[str, Any], people: int, when: str, notes: Annotated[str | None, "wishes"] = None
    ) -> dict[str, Any]:
        return scenario.book_table(restaurant, people, when, notes)


def by_plugin(turns: Iterable[Turn]) -> list[Turn]:
    """The same calls by the names that the model is given."""
    return [
        Turn(
            turn.user,
            tuple(
                step
                if isinstance(step, str)
                else tuple(scenario.Call(call.id, f"ops-{call.name}", call.arguments) for call in step)
                for step in turn.steps
            ),
        )
        for turn in turns
    ]


def agent(turns: Iterable[Turn]) -> ChatCompletionAgent:
    client = AsyncOpenAI(base_url=serve(by_plugin(turns)), api_key="none")
    service = OpenAIChatCompletion(ai_model_id=scenario.MODEL, async_client=client)
    one = ChatCompletionAgent(service=service, name=scenario.AGENT, instructions=scenario.INSTRUCTIONS, plugins=[])
    one.kernel.add_plugin(Operations(), "ops")
    return one


async def converse(
    one: ChatCompletionAgent, turns: Iterable[Turn] = scenario.STANDARD, *, stream: bool = False
) -> None:
    thread = ChatHistoryAgentThread()
    for turn in turns:
        if stream:
            async for _ in one.invoke_stream(turn.user, thread=thread):
                pass
        else:
            await one.get_response(turn.user, thread=thread)


def instrumented(recorder: Recorder) -> None:
    recorder.trace()
    handler = LoggingHandler(logger_provider=recorder.log())
    logger = logging.getLogger("semantic_kernel")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def standard(recorder: Recorder) -> None:
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.STANDARD)))


recording("semantic-kernel-native", CONTENT)(standard)
recording("semantic-kernel-native-nocontent", NO_CONTENT)(standard)


@recording("semantic-kernel-native-stream", CONTENT)
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.STANDARD), stream=True))


@recording("semantic-kernel-native-rejected", CONTENT)
def rejected(recorder: Recorder) -> None:
    """The first request lacks an argument: it is refused, and asked for again."""
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.INCOMPLETE), scenario.INCOMPLETE))


@recording("semantic-kernel-native-batch-concurrent", CONTENT)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations at once under one span, and names the session of each turn on a span."""
    instrumented(recorder)
    tracer = trace.get_tracer("batch_runner")

    async def say(session: str, turn: Turn) -> None:
        with tracer.start_as_current_span("message", attributes={"session.id": session}):
            await converse(agent([turn]), [turn])

    async def run() -> None:
        with tracer.start_as_current_span("nightly batch"):
            for number in range(2):
                await asyncio.gather(
                    *(say(session, turns[number]) for session, turns in scenario.CONVERSATIONS.items())
                )

    asyncio.run(run())


main(__file__)
