# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "beeai-framework==0.1.85",
#   "openinference-instrumentation-beeai==0.1.30",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""BeeAI as OpenInference writes it."""

from __future__ import annotations

import asyncio

import scenario
from beeai_framework.adapters.openai import OpenAIChatModel
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.memory import UnconstrainedMemory
from beeai_framework.tools import tool
from openai_server import serve
from openinference.instrumentation import using_session
from openinference.instrumentation.beeai import BeeAIInstrumentor
from recorder import Recorder, main, recording


@recording("beeai-openinference")
def standard(recorder: Recorder) -> None:
    BeeAIInstrumentor().instrument(tracer_provider=recorder.trace())
    agent = RequirementAgent(
        name=scenario.AGENT,
        llm=OpenAIChatModel(scenario.MODEL, base_url=serve(scenario.STANDARD), api_key="none", stream=False),
        tools=[tool(one) for one in scenario.TOOLS],
        memory=UnconstrainedMemory(),
        instructions=scenario.INSTRUCTIONS,
        final_answer_as_tool=False,
    )
    asyncio.run(converse(agent))


async def converse(agent: RequirementAgent) -> None:
    with using_session(scenario.SESSION):
        for turn in scenario.STANDARD:
            await agent.run(turn.user)


if __name__ == "__main__":
    main(__file__)
