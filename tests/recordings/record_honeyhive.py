# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "honeyhive==1.7.0",
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""Tools of one's own, as HoneyHive writes them: one attribute for each argument."""

from __future__ import annotations

import openai
import openai_loop
import scenario
from honeyhive import HoneyHiveTracer, trace
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-honeyhive")
def standard(recorder: Recorder) -> None:
    recorder.listen()
    tracer = HoneyHiveTracer.init(
        api_key="none",
        project="weather",
        session_id="11111111-2222-4333-8444-555555555555",
        server_url="http://127.0.0.1:1",
        disable_batch=True,
    )
    tools = {
        one.__name__: trace(event_type="tool", event_name=one.__name__, tracer=tracer)(one) for one in scenario.TOOLS
    }
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    openai_loop.turns(client, tools, trace(event_type="chain", event_name="turn", tracer=tracer))


if __name__ == "__main__":
    main(__file__)
