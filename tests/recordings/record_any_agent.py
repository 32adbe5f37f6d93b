# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "any-agent==1.18.0",
#   "mcp<2",
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""any-agent's own tracing."""

from __future__ import annotations

import scenario
from any_agent import AgentConfig, AnyAgent
from openai_server import serve
from opentelemetry.trace import get_tracer_provider
from recorder import Recorder, main, recording


@recording("py-any-agent")
def standard(recorder: Recorder) -> None:
    get_tracer_provider().add_span_processor(recorder.processor())
    config = AgentConfig(
        model_id=f"openai:{scenario.MODEL}",
        api_base=serve(scenario.STANDARD),
        api_key="none",
        name=scenario.AGENT,
        instructions=scenario.INSTRUCTIONS,
        tools=list(scenario.TOOLS),
    )
    agent = AnyAgent.create("tinyagent", config)
    for turn in scenario.STANDARD:
        agent.run(turn.user)


if __name__ == "__main__":
    main(__file__)
