# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openinference-instrumentation-smolagents==0.1.43",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
#   "smolagents==1.26.0",
# ]
# ///
"""smolagents, calling tools and writing code, as OpenInference writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import scenario
from openinference.instrumentation import using_session
from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from recorder import Recorder, main, recording
from scenario import Call, Step, Turn
from smolagents import ChatMessage, CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

FINAL = "final_answer"


class ScriptedModel(Model):
    """Says what comes next; the last word of a turn is a call too."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__(model_id=scenario.MODEL)
        self._steps = scenario.steps(turns)

    def generate(self, messages: Any, **kwargs: Any) -> ChatMessage:
        step: Step = next(self._steps)
        calls = (Call("call_last", FINAL, {"answer": step}),) if isinstance(step, str) else step
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content="",
            tool_calls=[
                ChatMessageToolCall(ChatMessageToolCallFunction(call.arguments, call.name), call.id, "function")
                for call in calls
            ],
        )


class CodingModel(ScriptedModel):
    """Writes the same calls as Python."""

    def generate(self, messages: Any, **kwargs: Any) -> ChatMessage:
        step: Step = next(self._steps)
        if isinstance(step, str):
            code = f"{FINAL}({step!r})"
        else:
            code = "\n".join(
                f"print({call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())}))"
                for call in step
            )
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: next.\n<code>\n{code}\n</code>")


@tool
def get_weather(city: str, unit: str, days: int) -> dict:
    """Weather forecast.

    Args:
        city: the city's name
        unit: celsius or fahrenheit
        days: how many days ahead
    """
    return scenario.get_weather(city, unit, days)


@tool
def convert(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a temperature.

    Args:
        value: the temperature
        from_unit: C or F
        to_unit: C or F
    """
    return scenario.convert_temperature(value, from_unit, to_unit)["value"]


@tool
def book_table(restaurant: dict, people: int, when: str, notes: str | None = None) -> dict:
    """Book a table.

    Args:
        restaurant: its name and id
        people: for how many
        when: date and time
        notes: wishes
    """
    return scenario.book_table(restaurant, people, when, notes)


TOOLS = [get_weather, convert, book_table]


def calling_agent(turns: Iterable[Turn], **options: Any) -> ToolCallingAgent:
    settings = {"tools": TOOLS, "name": scenario.AGENT, **options}
    # More than one thread would run the tools in another order each time.
    return ToolCallingAgent(model=ScriptedModel(turns), max_tool_threads=1, verbosity_level=0, **settings)


def converse(recorder: Recorder, one: Any, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    SmolagentsInstrumentor().instrument(tracer_provider=recorder.trace())
    with using_session(scenario.SESSION):
        for turn in turns:
            one.run(turn.user, reset=False)


@recording("smolagents-openinference")
def calling(recorder: Recorder) -> None:
    converse(recorder, calling_agent(scenario.STANDARD))


@recording("smolagents-code-openinference")
def coding(recorder: Recorder) -> None:
    one = CodeAgent(TOOLS, CodingModel(scenario.STANDARD), name=scenario.AGENT, verbosity_level=0)
    converse(recorder, one)


@recording("smolagents-openinference-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    converse(recorder, calling_agent(scenario.REJECTED), scenario.REJECTED)


@recording("smolagents-openinference-managed-agent")
def managed(recorder: Recorder) -> None:
    """The agent calls another agent like a tool."""
    inner = calling_agent([scenario.TABLE], tools=TOOLS[2:], name=scenario.BOOKING_AGENT, description="Books tables")
    turns = (
        scenario.WEATHER,
        Turn(
            scenario.ASK_TABLE,
            (
                (Call("call_8", scenario.BOOKING_AGENT, {"task": "A table for two at 19:30"}),),
                "Your table is booked.",
            ),
        ),
    )
    converse(recorder, calling_agent(turns, tools=TOOLS[:2], managed_agents=[inner]), turns)


main(__file__)
