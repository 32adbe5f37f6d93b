# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "agentops==0.4.21",
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.1",
#   "opentelemetry-sdk==1.45.1",
# ]
# ///
"""The OpenAI SDK and tools of one's own, as AgentOps writes them: requests as spans of tools within the model's."""

from __future__ import annotations

import agentops
import openai_loop
import scenario
from agentops.sdk.decorators import operation, session, tool
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-agentops-openai")
def standard(recorder: Recorder) -> None:
    recorder.listen()
    agentops.init(
        api_key="none",
        endpoint="http://127.0.0.1:1",
        exporter_endpoint="http://127.0.0.1:1",
        auto_start_session=False,
    )
    import openai  # noqa: PLC0415 - AgentOps instruments what is imported from now on

    tools = {one.__name__: tool(one) for one in scenario.TOOLS}
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    openai_loop.turns(client, tools, lambda answer: session(operation(answer)))


if __name__ == "__main__":
    main(__file__)
