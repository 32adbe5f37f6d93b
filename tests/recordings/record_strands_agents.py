# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openinference-instrumentation-strands-agents==0.1.12",
#   "opentelemetry-exporter-otlp-proto-common==1.44.0",
#   "opentelemetry-sdk==1.44.0",
#   "strands-agents==1.62.0",
# ]
# ///
"""Strands Agents in its telemetry modes, and with OpenInference."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import scenario
from openinference.instrumentation.strands_agents import StrandsAgentsToOpenInferenceProcessor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Step, Turn
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST = "gen_ai_latest_experimental,gen_ai_tool_definitions"


class ScriptedModel(Model):
    """Streams what comes next, as Bedrock would."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._steps = scenario.steps(turns)
        self.config = {"model_id": scenario.MODEL}

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, str]:
        return self.config

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        step: Step = next(self._steps)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": step}}}
            yield {"contentBlockStop": {}}
        else:
            for call in step:
                half = len(call.json) // 2
                yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call.id, "name": call.name}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.json[:half]}}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.json[half:]}}}}
                yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}}
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


# Synchronous tools would run in threads, in another order each time.
@tool
async def get_weather(city: str, unit: str, days: int = 1) -> dict[str, Any]:
    """Weather forecast."""
    return {"status": "success", "content": [{"json": scenario.get_weather(city, unit, days)}]}


@tool
async def convert(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a temperature."""
    return json.dumps(scenario.convert_temperature(value, from_unit, to_unit))


@tool
async def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> dict[str, Any]:
    """Book a table."""
    return {"status": "success", "content": [{"json": scenario.book_table(restaurant, people, when, notes)}]}


TOOLS = [get_weather, convert, book_table]


def agent(turns: Iterable[Turn], session: str = scenario.SESSION, **options: Any) -> Agent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, **options}
    return Agent(
        model=ScriptedModel(turns),
        system_prompt=scenario.INSTRUCTIONS,
        trace_attributes={"session.id": session, "gen_ai.conversation.id": session},
        callback_handler=None,
        **settings,
    )


def converse(one: Agent, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    for turn in turns:
        one(turn.user)


def standard(recorder: Recorder) -> None:
    recorder.trace()
    converse(agent(scenario.STANDARD))


for name, environment in {
    "strands-default": {},
    "strands-latest": {OPT_IN: LATEST},
    "strands-latest-attrs-only": {OPT_IN: f"{LATEST},gen_ai_span_attributes_only"},
    "strands-latest-redacted": {OPT_IN: "gen_ai_latest_experimental,gen_ai_unredacted_attributes=gen_ai.tool.name"},
}.items():
    recording(name, environment)(standard)


@recording("strands-openinference")
def openinference(recorder: Recorder) -> None:
    recorder.trace(StrandsAgentsToOpenInferenceProcessor())
    converse(agent(scenario.STANDARD))


@recording("strands-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: the tool answers with an error, and is asked again."""
    recorder.trace()
    converse(agent(scenario.REJECTED), scenario.REJECTED)


@recording("strands-agent-as-tool")
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent, whose spans carry no session id."""
    recorder.trace()
    inner = Agent(
        model=ScriptedModel([scenario.TABLE]), name=scenario.BOOKING_AGENT, tools=[book_table], callback_handler=None
    )

    @tool
    async def booking_agent(request: str) -> str:
        """Book tables."""
        return str(await inner.invoke_async(request))

    converse(agent(scenario.DELEGATED, tools=[get_weather, convert, booking_agent]))


class Approval(HookProvider):
    """Asks a person before a table is booked."""

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.ask)

    def ask(self, event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "book_table" and event.interrupt("approval", reason="Book it?") != "yes":
            event.cancel_tool = "The guest does not want 19:30."


@recording("strands-denied")
def denied(recorder: Recorder) -> None:
    """A person denies the first booking and approves the second: each decision starts an invocation of its own."""
    recorder.trace()
    one = agent(scenario.STANDARD, hooks=[Approval()])
    one(scenario.ASK_WEATHER)
    result = one(scenario.ASK_TABLE)
    for decision in ("no", "yes"):
        [asked] = result.interrupts
        result = one([{"interruptResponse": {"interruptId": asked.id, "response": decision}}])


@recording("strands-batch-concurrent")
def concurrent_batch(recorder: Recorder) -> None:
    """A program runs two conversations at once under one span."""
    recorder.trace()
    agents = {session: agent(turns, session) for session, turns in scenario.CONVERSATIONS.items()}

    async def run() -> None:
        with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
            for number in range(2):
                turns = {session: turns[number] for session, turns in scenario.CONVERSATIONS.items()}
                await asyncio.gather(*(agents[session].invoke_async(turn.user) for session, turn in turns.items()))

    asyncio.run(run())


main(__file__)
