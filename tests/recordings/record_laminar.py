# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "lmnr==0.8.2",
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.1",
#   "opentelemetry-sdk==1.45.1",
# ]
# ///
"""The OpenAI SDK and tools of one's own, as Laminar writes them."""

from __future__ import annotations

import openai
import openai_loop
import scenario
from lmnr import Laminar, observe
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-laminar-openai")
def standard(recorder: Recorder) -> None:
    recorder.listen()
    Laminar.initialize(
        project_api_key="none", base_url="http://127.0.0.1", http_port=1, grpc_port=1, disable_batch=True
    )
    tools = {tool.__name__: observe(span_type="TOOL", name=tool.__name__)(tool) for tool in scenario.TOOLS}
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    openai_loop.turns(client, tools, observe(name="agent-turn", session_id=scenario.SESSION))


if __name__ == "__main__":
    main(__file__)
