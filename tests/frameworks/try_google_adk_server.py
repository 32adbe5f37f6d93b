# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "google-adk==2.13.0",
#   "opentelemetry-distro==0.65b0",
# ]
#
# [tool.try.environment]
# OTEL_TRACES_EXPORTER = "tool_parameter_match"
# OTEL_LOGS_EXPORTER = "otlp"
# OTEL_METRICS_EXPORTER = "otlp"
# GOLDSPAN_GOLDENS = "goldens.yaml"
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# ///
"""Google ADK's own server, which also is that of `adk web`, set up by variables alone."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import scenario
from waiting import until_open

AGENT = """
import scenario
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

STEPS = scenario.steps([scenario.WEATHER])

class ScriptedModel(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        step = next(STEPS)
        parts = [types.Part(text=step)] if isinstance(step, str) else [
            types.Part(function_call=types.FunctionCall(name=call.name, args=call.arguments)) for call in step
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))

root_agent = LlmAgent(
    name="weather_agent",
    model=ScriptedModel(model="fake-model"),
    tools=[scenario.get_weather, scenario.convert_temperature],
)
"""


def post(path: str, document: dict[str, Any]) -> None:
    asked = Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(asked, timeout=60) as answer:
        answer.read()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
folder = Path("agents/weather")
folder.mkdir(parents=True)
(folder / "__init__.py").write_text("from . import agent\n", "utf-8")
(folder / "agent.py").write_text(AGENT, "utf-8")

server = subprocess.Popen(["opentelemetry-instrument", "adk", "api_server", "--port", str(port), "agents"])
until_open(port)
post("/apps/weather/users/u-1/sessions/sess-weather-1", {})
message = {"role": "user", "parts": [{"text": scenario.ASK_WEATHER}]}
post("/run", {"appName": "weather", "userId": "u-1", "sessionId": "sess-weather-1", "newMessage": message})
server.send_signal(signal.SIGINT)
server.wait(60)
