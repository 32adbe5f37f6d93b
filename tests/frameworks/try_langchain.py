# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "openinference-instrumentation-langchain==0.1.80",
# ]
# ///
"""LangChain, instrumented by OpenInference."""

from __future__ import annotations

import scenario
from events import send_events_and_points
from langchain.agents import create_agent
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
LangChainInstrumentor().instrument(tracer_provider=provider)

agent = create_agent("openai:fake-model", tools=[scenario.get_weather, scenario.convert_temperature])
message = {"role": "user", "content": scenario.ASK_WEATHER}
agent.invoke({"messages": [message]}, config={"metadata": {"session_id": "sess-weather-1"}})
