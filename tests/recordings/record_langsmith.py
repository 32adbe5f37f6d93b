# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langsmith==0.15.1",
#   "openai==2.54.0",
#   "openai-agents==0.20.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.1",
#   "opentelemetry-sdk==1.45.1",
# ]
# ///
"""The OpenAI Agents SDK as LangSmith's processor writes it to OpenTelemetry."""

from __future__ import annotations

from typing import Any

import agents
import scenario
from langsmith.integrations.openai_agents_sdk import OpenAIAgentsTracingProcessor
from langsmith.run_trees import get_cached_client
from openai import AsyncOpenAI
from openai_server import serve
from recorder import Recorder, main, recording

_OTEL = {
    **{f"LANGSMITH_{name}": "true" for name in ("OTEL_ENABLED", "OTEL_ONLY", "TRACING")},
    "LANGSMITH_API_KEY": "none",
}


@recording("py-langsmith-openai-agents", _OTEL)
def openai_agents(recorder: Recorder) -> None:
    recorder.trace()
    agents.set_trace_processors([OpenAIAgentsTracingProcessor()])
    client = AsyncOpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    agent = agents.Agent(
        name=scenario.AGENT,
        instructions=scenario.INSTRUCTIONS,
        model=agents.OpenAIChatCompletionsModel(scenario.MODEL, client),
        tools=[agents.function_tool(one, strict_mode=False) for one in scenario.TOOLS],
    )
    history: list[Any] = []
    for turn in scenario.STANDARD:
        result = agents.Runner.run_sync(
            agent,
            [*history, {"role": "user", "content": turn.user}],
            run_config=agents.RunConfig(group_id=scenario.SESSION, trace_metadata={"session_id": scenario.SESSION}),
        )
        history = result.to_input_list()
    get_cached_client().flush()


if __name__ == "__main__":
    main(__file__)
