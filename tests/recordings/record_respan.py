# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.1",
#   "opentelemetry-sdk==1.45.1",
#   "respan-tracing==2.24.0",
# ]
# ///
"""Tools and an agent of one's own, as Respan writes them: what the OpenAI SDK does is not recorded here."""

from __future__ import annotations

from collections.abc import Callable

import openai
import openai_loop
import scenario
from openai_server import serve
from recorder import Recorder, main, recording
from respan_tracing import RespanTelemetry, get_client
from respan_tracing.decorators import agent, tool, workflow


@recording("py-respan")
def standard(recorder: Recorder) -> None:
    recorder.listen()
    RespanTelemetry(app_name="app", api_key="none", base_url="http://127.0.0.1:1", is_batching_enabled=False)
    tools = {one.__name__: tool(name=one.__name__)(one) for one in scenario.TOOLS}
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    openai_loop.turns(client, tools, traced)


def traced(answer: Callable[[str], str]) -> Callable[[str], str]:
    @workflow(name="turn")
    def turn(question: str) -> str:
        get_client().update_current_span(respan_params={"thread_identifier": scenario.SESSION})
        return str(agent(name=scenario.AGENT)(answer)(question))

    return turn


if __name__ == "__main__":
    main(__file__)
