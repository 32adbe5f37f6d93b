# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "agent-framework-core==1.23.0",
#   "agent-framework-openai==1.17.0",
#   "openai==3.52.0",
# ]
# ///
"""Microsoft's Agent Framework, set up by its own configure_otel_providers."""

from __future__ import annotations

import asyncio

import scenario
from agent_framework import Agent
from agent_framework.observability import configure_otel_providers
from agent_framework.openai import OpenAIChatCompletionClient
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor, session_scope

provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
trace.set_tracer_provider(provider)
configure_otel_providers(enable_sensitive_data=True)

client = OpenAIChatCompletionClient("fake-model")
agent = Agent(client, name="weather_agent", tools=[scenario.get_weather, scenario.convert_temperature])
with session_scope("sess-weather-1"):
    asyncio.run(agent.run(scenario.ASK_WEATHER))
