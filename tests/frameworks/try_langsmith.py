# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "langsmith==0.14.17",
# ]
#
# [tool.try.environment]
# LANGSMITH_TRACING = "true"
# LANGSMITH_OTEL_ENABLED = "true"
# LANGSMITH_OTEL_ONLY = "true"
# LANGSMITH_API_KEY = "none"
# LANGSMITH_ENDPOINT = "http://127.0.0.1:9"
# ///
"""LangChain, traced by LangSmith's own OpenTelemetry mode."""

from __future__ import annotations

import scenario
from events import send_events_and_points
from langchain.agents import create_agent
from langchain_core.tracers.langchain import wait_for_all_tracers
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
trace.set_tracer_provider(provider)

agent = create_agent("openai:fake-model", tools=[scenario.get_weather, scenario.convert_temperature])
message = {"role": "user", "content": scenario.ASK_WEATHER}
agent.invoke({"messages": [message]}, config={"metadata": {"session_id": "sess-weather-1"}})
wait_for_all_tracers()
