# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "logfire==5.2.0",
#   "openai-agents==0.24.0",
#   "openai==3.52.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""OpenAI Agents and OpenAI's SDK as Logfire writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import json_tools
import logfire
import scenario
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_trace_processors,
)
from openai import AsyncOpenAI, OpenAI
from openai_server import serve
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Turn

TOOLS = [function_tool(tool, strict_mode=False) for tool in json_tools.TOOLS]


def instrumented(recorder: Recorder) -> None:
    set_trace_processors([])
    logfire.configure(
        send_to_logfire=False,
        console=False,
        service_name=recorder.name,
        additional_span_processors=[recorder.processor()],
        inspect_arguments=False,
    )
    logfire.instrument_openai_agents()


def client(turns: Iterable[Turn]) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=serve(turns), api_key="none")


def agent(model: Any, **options: Any) -> Agent[None]:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, **options}
    return Agent(instructions=scenario.INSTRUCTIONS, model=model, **settings)


def config(session: str = scenario.SESSION, **options: Any) -> RunConfig:
    return RunConfig(workflow_name="weather workflow", group_id=session, **options)


def converse(one: Agent[None], turns: Iterable[Turn] = scenario.STANDARD, **options: Any) -> None:
    history: list[Any] = []
    for turn in turns:
        asked = [*history, {"role": "user", "content": turn.user}]
        history = Runner.run_sync(one, asked, run_config=config(**options)).to_input_list()


@recording("openai-agents-logfire")
def standard(recorder: Recorder) -> None:
    instrumented(recorder)
    converse(agent(OpenAIChatCompletionsModel(scenario.MODEL, client(scenario.STANDARD))))


@recording("openai-agents-logfire-responses")
def responses(recorder: Recorder) -> None:
    """The model for the Responses API."""
    instrumented(recorder)
    converse(agent(OpenAIResponsesModel(scenario.MODEL, client(scenario.STANDARD))))


@recording("openai-agents-logfire-nocontent")
def hidden(recorder: Recorder) -> None:
    instrumented(recorder)
    model = OpenAIChatCompletionsModel(scenario.MODEL, client(scenario.STANDARD))
    converse(agent(model), trace_include_sensitive_data=False)


@recording("openai-agents-logfire-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: the SDK answers with an error, the model asks again."""
    instrumented(recorder)
    converse(agent(OpenAIChatCompletionsModel(scenario.MODEL, client(scenario.REJECTED))), scenario.REJECTED)


@recording("openai-agents-logfire-handoff")
def hand_over(recorder: Recorder) -> None:
    """The second turn is handed over to another agent."""
    instrumented(recorder)
    model = OpenAIChatCompletionsModel(scenario.MODEL, client(scenario.HANDED_OVER_BY_TOOL))
    booking = agent(model, name=scenario.BOOKING_AGENT, tools=TOOLS[2:])
    converse(agent(model, tools=TOOLS[:2], handoffs=[booking]))


@recording("openai-agents-logfire-batch")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    instrumented(recorder)
    agents = {
        session: agent(OpenAIChatCompletionsModel(scenario.MODEL, client(turns)))
        for session, turns in scenario.CONVERSATIONS.items()
    }
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                Runner.run_sync(agents[session], turns[number].user, run_config=config(session))


@recording("raw-openai-logfire")
def raw(recorder: Recorder) -> None:
    """OpenAI's SDK in a loop of the program's own, with a span for each tool."""
    instrumented(recorder)
    one = OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    logfire.instrument_openai(one)
    tools = [
        {
            "type": "function",
            "function": {"name": tool.__name__, "parameters": scenario.parameters(tool.__name__)},
        }
        for tool in scenario.TOOLS
    ]
    history: list[Any] = []
    for turn in scenario.STANDARD:
        history.append({"role": "user", "content": turn.user})
        while True:
            answer = one.chat.completions.create(model=scenario.MODEL, messages=history, tools=tools)
            message = answer.choices[0].message
            history.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                try:
                    said = json.dumps(scenario.run_tool(call.function.name, json.loads(call.function.arguments)))
                except scenario.NoTable as error:
                    said = str(error)
                history.append({"role": "tool", "tool_call_id": call.id, "content": said})


main(__file__)
