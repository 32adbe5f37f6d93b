# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "logfire==5.2.0",
#   "openai==3.52.0",
#   "pydantic-ai-slim[openai]==2.68.0",
# ]
#
# [tool.try.environment]
# OTEL_TRACES_EXPORTER = "none"
# ///
"""Pydantic AI, set up by Logfire."""

from __future__ import annotations

import logfire
import scenario
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from pydantic_ai import Agent

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

logfire.configure(
    send_to_logfire=False,
    additional_span_processors=[ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml")],
)
logfire.instrument_pydantic_ai()

agent = Agent("openai-chat:fake-model", tools=[scenario.get_weather, scenario.convert_temperature])
agent.run_sync(scenario.ASK_WEATHER, conversation_id="sess-weather-1")
