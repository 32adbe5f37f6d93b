# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "traceloop-sdk==0.62.4",
# ]
#
# [tool.try.environment]
# TRACELOOP_TELEMETRY = "false"
# ///
"""LangChain, set up by the Traceloop SDK."""

from __future__ import annotations

import scenario
from events import send_events_and_points
from langchain.agents import create_agent
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from traceloop.sdk import Traceloop

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
Traceloop.init(
    app_name="weather",
    processor=ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"),
)

agent = create_agent("openai:fake-model", tools=[scenario.get_weather, scenario.convert_temperature])
Traceloop.set_association_properties({"session_id": "sess-weather-1"})
agent.invoke({"messages": [{"role": "user", "content": scenario.ASK_WEATHER}]})
