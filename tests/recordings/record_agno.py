# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "agno==3.1.10",
#   "openai==3.52.0",
#   "openinference-instrumentation-agno==1.0.15",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-instrumentation-agno==0.62.4",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Agno as OpenInference and OpenLLMetry write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import scenario
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat
from agno.team import Team
from openai_server import serve
from openinference.instrumentation.agno import AgnoInstrumentor as OpenInference
from opentelemetry import trace
from opentelemetry.instrumentation.agno import AgnoInstrumentor as OpenLLMetry
from recorder import Recorder, main, recording
from scenario import Call, Turn

UNTRACED = {"AGNO_TELEMETRY": "false"}


def model(turns: Iterable[Turn]) -> OpenAIChat:
    return OpenAIChat(id=scenario.MODEL, base_url=serve(turns), api_key="none")


def agent(turns: Iterable[Turn], **options: Any) -> Agent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": list(scenario.TOOLS), **options}
    return Agent(
        model=model(turns),
        instructions=scenario.INSTRUCTIONS,
        db=InMemoryDb(),
        add_history_to_context=True,
        telemetry=False,
        **settings,
    )


def converse(
    one: Agent | Team, turns: Iterable[Turn] = scenario.STANDARD, session: str = scenario.SESSION, **options: Any
) -> None:
    for turn in turns:
        answer = one.run(turn.user, session_id=session, **options)
        if options.get("stream"):
            list(answer)


def standard(recorder: Recorder, instrumentor: Any) -> None:
    instrumentor().instrument(tracer_provider=recorder.trace())
    converse(agent(scenario.STANDARD))


HIDDEN = {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
for name, instrumentor, environment in (
    ("agno-openinference", OpenInference, {}),
    ("agno-openinference-nocontent", OpenInference, HIDDEN),
    ("agno-openllmetry", OpenLLMetry, {}),
    ("agno-openllmetry-nocontent", OpenLLMetry, {"TRACELOOP_TRACE_CONTENT": "false"}),
):
    recording(name, UNTRACED | environment)(
        lambda recorder, instrumentor=instrumentor: standard(recorder, instrumentor)
    )


@recording("agno-openinference-stream", UNTRACED)
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    OpenInference().instrument(tracer_provider=recorder.trace())
    converse(agent(scenario.STANDARD), stream=True)


def run_async(recorder: Recorder, instrumentor: Any) -> None:
    """Parallel calls run at once."""
    instrumentor().instrument(tracer_provider=recorder.trace())
    one = agent(scenario.STANDARD)

    async def run() -> None:
        for turn in scenario.STANDARD:
            await one.arun(turn.user, session_id=scenario.SESSION)

    asyncio.run(run())


recording("agno-openinference-async", UNTRACED)(lambda recorder: run_async(recorder, OpenInference))
recording("agno-openllmetry-async", UNTRACED)(lambda recorder: run_async(recorder, OpenLLMetry))


def refuse(recorder: Recorder, instrumentor: Any) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    instrumentor().instrument(tracer_provider=recorder.trace())
    converse(agent(scenario.INCOMPLETE), scenario.INCOMPLETE)


recording("agno-openinference-rejected", UNTRACED)(lambda recorder: refuse(recorder, OpenInference))
recording("agno-openllmetry-rejected", UNTRACED)(lambda recorder: refuse(recorder, OpenLLMetry))


def delegate(recorder: Recorder, instrumentor: Any) -> None:
    """The leader of a team gives the second turn to a member."""
    instrumentor().instrument(tracer_provider=recorder.trace())
    delegation = Call(
        "call_8", "delegate_task_to_member", {"member_id": "booking-agent", "task": "A table for two at 19:30"}
    )
    turns = (scenario.WEATHER, Turn(scenario.ASK_TABLE, ((delegation,), "Your table is booked.")))
    inner = Agent(
        model=model([scenario.TABLE]), name=scenario.BOOKING_AGENT, tools=[scenario.TOOLS[2]], telemetry=False
    )
    team = Team(
        [inner],
        model=model(turns),
        name=scenario.AGENT,
        tools=list(scenario.TOOLS[:2]),
        instructions=scenario.INSTRUCTIONS,
        telemetry=False,
    )
    converse(team)


recording("agno-openinference-team", UNTRACED)(lambda recorder: delegate(recorder, OpenInference))
recording("agno-openllmetry-team", UNTRACED)(lambda recorder: delegate(recorder, OpenLLMetry))


def run_batch(recorder: Recorder, together: Callable[[Any], Any]) -> None:
    OpenInference().instrument(tracer_provider=recorder.trace())
    agents = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}

    async def run() -> None:
        with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
            for number in range(2):
                await together(
                    [
                        agents[session].arun(turns[number].user, session_id=session)
                        for session, turns in scenario.CONVERSATIONS.items()
                    ]
                )

    asyncio.run(run())


@recording("agno-openinference-batch", UNTRACED)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""

    async def in_turn(turns: Iterable[Any]) -> None:
        for turn in turns:
            await turn

    run_batch(recorder, in_turn)


main(__file__)
