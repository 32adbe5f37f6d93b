# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "google-adk==2.13.0",
# ]
#
# [tool.try.environment]
# OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = "SPAN_ONLY"
# ///
"""Google ADK's own telemetry, in a program with a runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import scenario
from events import send_events_and_points
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

STEPS = scenario.steps([scenario.WEATHER])


class ScriptedModel(BaseLlm):
    """Says what comes next."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        step = next(STEPS)
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=call.name, args=call.arguments)) for call in step]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


send_events_and_points()
provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
trace.set_tracer_provider(provider)

agent = LlmAgent(
    name="weather_agent",
    model=ScriptedModel(model="fake-model"),
    tools=[scenario.get_weather, scenario.convert_temperature],
)
runner = InMemoryRunner(agent, app_name="weather")
message = types.Content(role="user", parts=[types.Part(text=scenario.ASK_WEATHER)])


async def turn() -> None:
    await runner.session_service.create_session(app_name="weather", user_id="u-1", session_id="sess-weather-1")
    async for _ in runner.run_async(user_id="u-1", session_id="sess-weather-1", new_message=message):
        pass


asyncio.run(turn())
