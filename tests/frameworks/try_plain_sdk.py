# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "openai==3.52.0",
# ]
# ///
"""A loop of the program's own around OpenAI's client, traced by hand with OpenTelemetry's SDK."""

from __future__ import annotations

import json
from typing import Any

import scenario
from events import send_events_and_points
from openai import OpenAI
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

send_events_and_points()
provider = TracerProvider()
provider.add_span_processor(ToolParameterMatchSpanProcessor(OTLPSpanExporter(), goldens="goldens.yaml"))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("weather")


def run(call: Any) -> str:
    with tracer.start_as_current_span(f"execute_tool {call.function.name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", call.function.name)
        span.set_attribute("gen_ai.tool.call.id", call.id)
        span.set_attribute("gen_ai.tool.call.arguments", call.function.arguments)
        return json.dumps(scenario.run_tool(call.function.name, json.loads(call.function.arguments)))


def answer(question: str, session: str) -> None:
    with tracer.start_as_current_span("invoke_agent weather_agent") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.conversation.id", session)
        history: list[Any] = [{"role": "user", "content": question}]
        while calls := ask(history).tool_calls:
            history += [{"role": "tool", "tool_call_id": call.id, "content": run(call)} for call in calls]


def ask(history: list[Any]) -> Any:
    message = OpenAI().chat.completions.create(model="fake-model", messages=history).choices[0].message
    history.append(message.model_dump(exclude_none=True))
    return message


answer(scenario.ASK_WEATHER, "sess-weather-1")
