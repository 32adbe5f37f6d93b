# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "autogen-agentchat==0.7.5",
#   "autogen-core==0.7.5",
#   "autogen-ext==0.7.5",
#   "openinference-instrumentation-autogen-agentchat==0.1.22",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""AutoGen's own telemetry, and OpenInference's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import json_tools
import scenario
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from openinference.instrumentation import using_session
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
from recorder import Recorder, main, recording
from scenario import Turn

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)
SILENT = {"AUTOGEN_DISABLE_RUNTIME_TRACING": "true"}


TOOLS = [FunctionTool(tool, tool.__doc__ or "") for tool in json_tools.TOOLS]


def model(turns: Iterable[Turn]) -> ReplayChatCompletionClient:
    answers = [
        CreateResult(
            finish_reason="stop" if isinstance(step, str) else "function_calls",
            content=step if isinstance(step, str) else [FunctionCall(call.id, call.json, call.name) for call in step],
            usage=RequestUsage(10, 5),
            cached=False,
        )
        for step in scenario.steps(turns)
    ]
    return ReplayChatCompletionClient(answers, model_info=INFO)


def agent(turns: Iterable[Turn], **options: Any) -> AssistantAgent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, **options}
    client = settings.pop("model_client", None) or model(turns)
    return AssistantAgent(model_client=client, system_message=scenario.INSTRUCTIONS, max_tool_iterations=9, **settings)


def team(one: AssistantAgent) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([one], termination_condition=TextMessageTermination(one.name))


def converse(one: Any, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    async def run() -> None:
        for turn in turns:
            await one.run(task=turn.user)

    asyncio.run(run())


def openinference(recorder: Recorder) -> None:
    AutogenAgentChatInstrumentor().instrument(tracer_provider=recorder.trace())


@recording("autogen-native-team")
def native(recorder: Recorder) -> None:
    recorder.trace()
    converse(team(agent(scenario.STANDARD)))


@recording("autogen-native-agent")
def alone(recorder: Recorder) -> None:
    """The agent runs outside any team: no messages, and so no arguments."""
    recorder.trace()
    converse(agent(scenario.STANDARD))


@recording("autogen-openinference-team")
def by_openinference(recorder: Recorder) -> None:
    openinference(recorder)
    with using_session(scenario.SESSION):
        converse(team(agent(scenario.STANDARD)))


@recording("autogen-openinference-agent", SILENT)
def alone_by_openinference(recorder: Recorder) -> None:
    openinference(recorder)
    with using_session(scenario.SESSION):
        converse(agent(scenario.STANDARD))


@recording("autogen-openinference-agent-as-tool", SILENT)
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    openinference(recorder)
    inner = agent([scenario.TABLE], name=scenario.BOOKING_AGENT, description="Books tables", tools=TOOLS[2:])
    turns = tuple(
        Turn(
            turn.user,
            tuple(
                step
                if isinstance(step, str)
                else tuple(
                    scenario.Call(call.id, call.name, {"task": call.arguments["request"]})
                    if call.name == scenario.BOOKING_AGENT
                    else call
                    for call in step
                )
                for step in turn.steps
            ),
        )
        for turn in scenario.DELEGATED
    )
    with using_session(scenario.SESSION):
        converse(agent(turns, tools=[*TOOLS[:2], AgentTool(inner)]))


@recording("autogen-openinference-rejected", SILENT)
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    openinference(recorder)
    with using_session(scenario.SESSION):
        converse(agent(scenario.REJECTED), scenario.REJECTED)


main(__file__)
