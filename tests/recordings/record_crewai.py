# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "crewai==1.15.30",
#   "openai==2.54.0",
#   "openinference-instrumentation-crewai==1.1.21",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""CrewAI as OpenInference writes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import scenario
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from openai_server import serve
from openinference.instrumentation import using_session
from openinference.instrumentation.crewai import CrewAIInstrumentor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Call, Turn

# CrewAI asks its provider's list of models whether one can call tools.
MODEL = "gpt-4o-mini"
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true"}
HIDDEN = {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
DELEGATE = "delegate_work_to_coworker"


@tool("get_weather")
def get_weather(city: str, unit: str, days: int = 1) -> str:
    """Weather forecast."""
    return json.dumps(scenario.get_weather(city, unit, days))


@tool("convert")
def convert(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a temperature."""
    return json.dumps(scenario.convert_temperature(value, from_unit, to_unit))


@tool("book_table")
def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> str:
    """Book a table."""
    return json.dumps(scenario.book_table(restaurant, people, when, notes))


TOOLS = [get_weather, convert, book_table]


def agent(turns: Iterable[Turn], **options: Any) -> Agent:
    settings: dict[str, Any] = {"role": scenario.AGENT, "tools": TOOLS, "allow_delegation": False, **options}
    return Agent(
        goal="Help.",
        backstory=scenario.INSTRUCTIONS,
        llm=LLM(model=f"openai/{MODEL}", base_url=serve(turns), api_key="none"),
        **settings,
    )


def crew(one: Agent, turn: Turn, *others: Agent, **options: Any) -> Crew:
    task = Task(description=turn.user, expected_output="An answer", agent=one)
    return Crew(agents=[one, *others], tasks=[task], **options)


def instrumented(recorder: Recorder) -> None:
    CrewAIInstrumentor().instrument(tracer_provider=recorder.trace())


def converse(one: Agent, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    with using_session(scenario.SESSION):
        for turn in turns:
            crew(one, turn).kickoff()


def standard(recorder: Recorder) -> None:
    instrumented(recorder)
    converse(agent(scenario.STANDARD))


recording("crewai-openinference", QUIET)(standard)
recording("crewai-openinference-nocontent", QUIET | HIDDEN)(standard)


@recording("crewai-openinference-rejected", QUIET)
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    instrumented(recorder)
    converse(agent(scenario.REJECTED), scenario.REJECTED)


@recording("crewai-openinference-delegation", QUIET)
def delegation(recorder: Recorder) -> None:
    """In the second turn the agent gives work to a co-worker, by a tool that CrewAI adds."""
    instrumented(recorder)
    arguments = {"task": "A table for two at 19:30", "context": "", "coworker": scenario.BOOKING_AGENT}
    request = Turn(scenario.ASK_TABLE, ((Call("call_8", DELEGATE, arguments),), "Your table is booked."))
    one = agent((scenario.WEATHER, request), tools=TOOLS[:2], allow_delegation=True)
    other = agent([scenario.TABLE], role=scenario.BOOKING_AGENT, tools=TOOLS[2:])
    with using_session(scenario.SESSION):
        for turn in (scenario.WEATHER, request):
            crew(one, turn, other).kickoff()


@recording("crewai-openinference-two-agents", QUIET)
def two_agents(recorder: Recorder) -> None:
    """One kick-off of two tasks, each with an agent of its own."""
    instrumented(recorder)
    first, second = agent([scenario.WEATHER], tools=TOOLS[:2]), agent([scenario.TABLE], tools=TOOLS[2:])
    tasks = [
        Task(description=turn.user, expected_output="An answer", agent=one)
        for one, turn in ((first, scenario.WEATHER), (second, scenario.TABLE))
    ]
    with using_session(scenario.SESSION):
        Crew(agents=[first, second], tasks=tasks, process=Process.sequential).kickoff()


@recording("crewai-openinference-async", QUIET)
def run_async(recorder: Recorder) -> None:
    instrumented(recorder)
    one = agent(scenario.STANDARD)

    async def run() -> None:
        for turn in scenario.STANDARD:
            await crew(one, turn).kickoff_async()

    with using_session(scenario.SESSION):
        asyncio.run(run())


@recording("crewai-openinference-batch", QUIET)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    instrumented(recorder)
    agents = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                with using_session(session):
                    crew(agents[session], turns[number]).kickoff()


main(__file__)
