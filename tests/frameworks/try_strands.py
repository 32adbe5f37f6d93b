# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "strands-agents[openai,otel]==1.62.0",
# ]
# ///
"""Strands Agents, set up by its own StrandsTelemetry."""

from __future__ import annotations

import scenario
from events import send_events_and_points
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.telemetry import StrandsTelemetry

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
telemetry = StrandsTelemetry()
telemetry.tracer_provider.add_span_processor(
    ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml")
)

agent = Agent(
    model=OpenAIModel(model_id="fake-model"),
    tools=[tool(scenario.get_weather), tool(scenario.convert_temperature)],
    trace_attributes={"session.id": "sess-weather-1"},
)
agent(scenario.ASK_WEATHER)
