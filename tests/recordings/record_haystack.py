# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "haystack-ai==3.4.0",
#   "openai==3.52.0",
#   "openinference-instrumentation-haystack==0.1.46",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-haystack==2.0.0",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Haystack's own tracing, and OpenInference's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import scenario
from haystack import Pipeline, tracing
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool
from haystack.utils import Secret
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
from openai_server import serve
from openinference.instrumentation import using_session
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

QUIET = {"HAYSTACK_TELEMETRY_ENABLED": "false"}
CONTENT = QUIET | {"HAYSTACK_CONTENT_TRACING_ENABLED": "true"}


@tool
def get_weather(city: Annotated[str, "city"], unit: Annotated[str, "unit"], days: Annotated[int, "days"] = 1) -> str:
    """Weather forecast."""
    return json.dumps(scenario.get_weather(city, unit, days))


@tool
def convert(value: Annotated[float, "value"], from_unit: Annotated[str, "from"], to_unit: Annotated[str, "to"]) -> str:
    """Convert a temperature."""
    return json.dumps(scenario.convert_temperature(value, from_unit, to_unit))


@tool
def book_table(
    restaurant: Annotated[dict[str, Any], "restaurant"],
    people: Annotated[int, "people"],
    when: Annotated[str, "when"],
    notes: Annotated[str | None, "notes"] = None,
) -> str:
    """Book a table."""
    return json.dumps(scenario.book_table(restaurant, people, when, notes))


TOOLS = [get_weather, convert, book_table]


def agent(turns: Iterable[Turn], tools: Iterable[Any] = TOOLS, **options: Any) -> Agent:
    model = OpenAIChatGenerator(Secret.from_token("none"), scenario.MODEL, api_base_url=serve(turns))
    # More than one thread would run the tools in another order each time.
    return Agent(
        chat_generator=model,
        tools=list(tools),
        system_prompt=scenario.INSTRUCTIONS,
        tool_concurrency_limit=1,
        **options,
    )


def native(recorder: Recorder) -> None:
    recorder.trace()
    tracing.enable_tracing(OpenTelemetryTracer(trace.get_tracer("haystack")))


def openinference(recorder: Recorder) -> None:
    HaystackInstrumentor().instrument(tracer_provider=recorder.trace())


def in_pipeline(one: Agent, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    pipeline = Pipeline()
    pipeline.add_component("agent", one)
    history: list[ChatMessage] = []
    for turn in turns:
        history.append(ChatMessage.from_user(turn.user))
        history = pipeline.run({"agent": {"messages": history}})["agent"]["messages"]


def alone(one: Agent, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    history: list[ChatMessage] = []
    for turn in turns:
        history.append(ChatMessage.from_user(turn.user))
        history = one.run(messages=history)["messages"]


@contextmanager
def session(session_id: str = scenario.SESSION) -> Iterator[None]:
    """What a program does that has no other way to name its conversation."""
    with trace.get_tracer("weather_app").start_as_current_span("message", attributes={"session.id": session_id}):
        yield


@recording("haystack-native", CONTENT)
def standard(recorder: Recorder) -> None:
    native(recorder)
    in_pipeline(agent(scenario.STANDARD))


@recording("haystack-native-nocontent", QUIET)
def hidden(recorder: Recorder) -> None:
    native(recorder)
    in_pipeline(agent(scenario.STANDARD))


@recording("haystack-native-agent-alone", CONTENT)
def without_pipeline(recorder: Recorder) -> None:
    """The agent runs outside any pipeline."""
    native(recorder)
    alone(agent(scenario.STANDARD))


@recording("haystack-native-async", CONTENT)
def run_async(recorder: Recorder) -> None:
    native(recorder)
    one = agent(scenario.STANDARD)

    async def run() -> None:
        history: list[ChatMessage] = []
        for turn in scenario.STANDARD:
            history.append(ChatMessage.from_user(turn.user))
            history = (await one.run_async(messages=history))["messages"]

    asyncio.run(run())


@recording("haystack-native-rejected", CONTENT)
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    native(recorder)
    alone(agent(scenario.INCOMPLETE), scenario.INCOMPLETE)


@recording("haystack-native-agent-as-tool", CONTENT)
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    native(recorder)
    inner = agent([scenario.TABLE], TOOLS[2:])

    @tool
    def booking_agent(request: Annotated[str, "what to book"]) -> str:
        """Book tables."""
        return str(inner.run(messages=[ChatMessage.from_user(request)])["last_message"].text)

    alone(agent(scenario.DELEGATED, [*TOOLS[:2], booking_agent]))


@recording("haystack-native-batch", CONTENT)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    native(recorder)
    agents = {name: agent(turns) for name, turns in scenario.CONVERSATIONS.items()}
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for name, turns in scenario.CONVERSATIONS.items():
                with session(name):
                    agents[name].run(messages=[ChatMessage.from_user(turns[number].user)])


@recording("haystack-openinference", QUIET)
def by_openinference(recorder: Recorder) -> None:
    openinference(recorder)
    with using_session(scenario.SESSION):
        in_pipeline(agent(scenario.STANDARD))


main(__file__)
