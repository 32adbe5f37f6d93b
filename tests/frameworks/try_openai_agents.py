# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai==3.52.0",
#   "openai-agents==0.24.0",
#   "openinference-instrumentation-openai-agents==2.6.0",
# ]
# ///
"""OpenAI Agents, instrumented by OpenInference."""

from __future__ import annotations

import scenario
from agents import Agent, Runner, function_tool
from events import send_events_and_points
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)

tools = [function_tool(tool, strict_mode=False) for tool in (scenario.get_weather, scenario.convert_temperature)]
agent = Agent("weather_agent", tools=tools, model="fake-model")
with using_session("sess-weather-1"):
    Runner.run_sync(agent, scenario.ASK_WEATHER)
