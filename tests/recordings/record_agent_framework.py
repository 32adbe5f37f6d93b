# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "agent-framework-core==1.23.0",
#   "agent-framework-openai==1.17.0",
#   "openai==3.52.0",
#   "openinference-instrumentation-agent-framework==0.1.13",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Microsoft's Agent Framework in its own telemetry's modes, and with OpenInference."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import scenario
from agent_framework import Agent, AgentSession, Message, tool
from agent_framework.observability import enable_instrumentation
from agent_framework.openai import OpenAIChatCompletionClient
from openai_server import serve
from openinference.instrumentation.agent_framework import AgentFrameworkToOpenInferenceProcessor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

CONTENT = {"ENABLE_SENSITIVE_DATA": "true"}
OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"


# Synchronous tools would run in threads, in another order each time.
async def get_weather(city: str, unit: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast."""
    return scenario.get_weather(city, unit, days)


async def convert(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a temperature."""
    return float(scenario.convert_temperature(value, from_unit, to_unit)["value"])


async def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> dict[str, Any]:
    """Book a table."""
    return scenario.book_table(restaurant, people, when, notes)


TOOLS = [get_weather, convert, book_table]


def agent(turns: Iterable[Turn], **options: Any) -> Agent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, **options}
    client = OpenAIChatCompletionClient(scenario.MODEL, api_key="none", base_url=serve(turns))
    return Agent(client, scenario.INSTRUCTIONS, **settings)


async def converse(
    one: Agent, turns: Iterable[Turn] = scenario.STANDARD, session: AgentSession | None = None, **options: Any
) -> None:
    session = session or one.create_session(session_id=scenario.SESSION)
    for turn in turns:
        answer = one.run(turn.user, session=session, **options)
        if options.get("stream"):
            async for _ in answer:
                pass
        else:
            await answer


def instrumented(recorder: Recorder) -> None:
    recorder.trace()
    recorder.log()
    enable_instrumentation()


def standard(recorder: Recorder) -> None:
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.STANDARD)))


for name, environment in {
    "agent-framework-native": CONTENT,
    "agent-framework-native-nocontent": {},
    "agent-framework-native-semconv136": CONTENT | {OPT_IN: "none"},
}.items():
    recording(name, environment)(standard)


@recording("agent-framework-native-servicesession", CONTENT)
def service_session(recorder: Recorder) -> None:
    """The model's provider holds the conversation; its id is written."""
    instrumented(recorder)

    async def run() -> None:
        for turn in scenario.STANDARD:
            # The provider keeps the history: a client for chat completions sends none of its own.
            session = AgentSession(service_session_id=scenario.SESSION)
            await agent([turn]).run(turn.user, session=session)

    asyncio.run(run())


@recording("agent-framework-native-stream", CONTENT)
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.STANDARD), stream=True))


@recording("agent-framework-openinference", CONTENT)
def openinference(recorder: Recorder) -> None:
    recorder.trace(AgentFrameworkToOpenInferenceProcessor())
    recorder.log()
    enable_instrumentation()
    asyncio.run(converse(agent(scenario.STANDARD)))


@recording("agent-framework-native-rejected", CONTENT)
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    instrumented(recorder)
    asyncio.run(converse(agent(scenario.REJECTED), scenario.REJECTED))


def agents_tools(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    inner = agent([scenario.TABLE], name=scenario.BOOKING_AGENT, tools=TOOLS[2:])
    as_tool = inner.as_tool(arg_name="request")
    asyncio.run(converse(agent(scenario.DELEGATED, tools=[*TOOLS[:2], as_tool])))


@recording("agent-framework-native-agent-as-tool", CONTENT)
def agent_as_tool(recorder: Recorder) -> None:
    instrumented(recorder)
    agents_tools(recorder)


@recording("agent-framework-openinference-agent-as-tool", CONTENT)
def agent_as_tool_by_openinference(recorder: Recorder) -> None:
    recorder.trace(AgentFrameworkToOpenInferenceProcessor())
    enable_instrumentation()
    agents_tools(recorder)


@recording("agent-framework-native-denied", CONTENT)
def denied(recorder: Recorder) -> None:
    """A person denies the first booking and approves the second: each decision is a run of its own."""
    instrumented(recorder)
    asking = tool(book_table, approval_mode="always_require")
    one = agent(scenario.STANDARD, tools=[*TOOLS[:2], asking])

    async def run() -> None:
        session = one.create_session(session_id=scenario.SESSION)

        async def say(message: Any) -> Any:
            attributes = {"session.id": scenario.SESSION}
            with trace.get_tracer("weather_app").start_as_current_span("message", attributes=attributes):
                return await one.run(message, session=session)

        await say(scenario.ASK_WEATHER)
        result = await say(scenario.ASK_TABLE)
        for approved in (False, True):
            [asked] = result.user_input_requests
            result = await say(Message("user", [asked.to_function_approval_response(approved)]))

    asyncio.run(run())


def run_batch(recorder: Recorder, together: Callable[[list[Awaitable[Any]]], Awaitable[Any]]) -> None:
    instrumented(recorder)

    async def run() -> None:
        with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
            for number in range(2):
                await together(
                    [
                        agent([turns[number]]).run(turns[number].user, session=AgentSession(service_session_id=session))
                        for session, turns in scenario.CONVERSATIONS.items()
                    ]
                )

    asyncio.run(run())


@recording("agent-framework-native-batch-concurrent", CONTENT)
def concurrent_batch(recorder: Recorder) -> None:
    """A program runs two conversations at once under one span."""

    async def at_once(turns: list[Awaitable[Any]]) -> None:
        await asyncio.gather(*turns)

    run_batch(recorder, at_once)


main(__file__)
