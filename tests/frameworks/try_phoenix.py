# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "arize-phoenix-otel==0.17.2",
#   "langchain==1.4.7",
#   "langchain-openai==1.7.3",
#   "openinference-instrumentation-langchain==0.1.80",
# ]
#
# [tool.try.environment]
# PHOENIX_COLLECTOR_ENDPOINT = "{receiver}"
# ///
"""LangChain, set up by Phoenix's register."""

from __future__ import annotations

import scenario
from events import send_events_and_points
from langchain.agents import create_agent
from openinference.instrumentation import using_session
from phoenix.otel import HTTPSpanExporter, register

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
provider = register(project_name="weather", auto_instrument=True)
provider.add_span_processor(ToolParameterMatchSpanProcessor(HTTPSpanExporter(), goldens="goldens.yaml"))

agent = create_agent("openai:fake-model", tools=[scenario.get_weather, scenario.convert_temperature])
with using_session("sess-weather-1"):
    agent.invoke({"messages": [{"role": "user", "content": scenario.ASK_WEATHER}]})
