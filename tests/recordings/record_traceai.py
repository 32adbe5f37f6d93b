# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai-agents==0.24.0",
#   "openai==3.54.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
#   "traceai-openai-agents==0.1.6",
# ]
# ///
"""OpenAI Agents as traceAI writes them."""

from __future__ import annotations

import asyncio
from typing import Any

import agents
import json_tools
import scenario
from fi_instrumentation import using_session
from openai import AsyncOpenAI
from openai_server import serve
from recorder import Recorder, main, recording
from traceai_openai_agents import OpenAIAgentsInstrumentor


@recording("py-openai-agents-traceai")
def standard(recorder: Recorder) -> None:
    OpenAIAgentsInstrumentor().instrument(tracer_provider=recorder.trace())
    client = AsyncOpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    agent = agents.Agent(
        name=scenario.AGENT,
        instructions=scenario.INSTRUCTIONS,
        model=agents.OpenAIChatCompletionsModel(scenario.MODEL, client),
        tools=[agents.function_tool(tool, strict_mode=False) for tool in json_tools.TOOLS],
    )
    asyncio.run(converse(agent))


async def converse(agent: Any) -> None:
    messages: list[Any] = []
    with using_session(scenario.SESSION):
        for turn in scenario.STANDARD:
            result = await agents.Runner.run(agent, [*messages, {"role": "user", "content": turn.user}])
            messages = result.to_input_list()


if __name__ == "__main__":
    main(__file__)
