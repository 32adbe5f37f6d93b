# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-core==1.7.2",
#   "langchain-openai==1.7.3",
#   "langgraph==1.2.22",
#   "monocle_apptrace==0.8.15",
#   "openai==3.54.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""LangChain's agent as Monocle writes it."""

from __future__ import annotations

import json
from typing import Any

import scenario
from langchain import agents
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from monocle_apptrace import setup_monocle_telemetry
from monocle_apptrace.instrumentation.common.scope_wrapper import start_scope
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-langchain-monocle")
def standard(recorder: Recorder) -> None:
    setup_monocle_telemetry(workflow_name="weather", span_processors=[recorder.processor()])

    @tool
    def get_weather(city: str, unit: str, days: int = 1) -> str:
        """Weather forecast."""
        return json.dumps(scenario.get_weather(city, unit, days))

    @tool
    def convert(value: float, from_unit: str, to_unit: str) -> str:
        """Convert a temperature."""
        return json.dumps(scenario.convert_temperature(value, from_unit, to_unit))

    @tool
    def book_table(restaurant: dict[str, Any], people: int, when: str, notes: str | None = None) -> str:
        """Book a table."""
        return json.dumps(scenario.book_table(restaurant, people, when, notes))

    @wrap_tool_call
    def tool_errors(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except scenario.NoTable as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    agent = agents.create_agent(
        ChatOpenAI(model=scenario.MODEL, base_url=serve(scenario.STANDARD), api_key="none"),
        [get_weather, convert, book_table],
        system_prompt=scenario.INSTRUCTIONS,
        middleware=[tool_errors],
        name=scenario.AGENT,
    )
    messages: list[Any] = []
    token = start_scope("agentic.session", scenario.SESSION)
    assert token
    for turn in scenario.STANDARD:
        messages = agent.invoke({"messages": [*messages, ("user", turn.user)]})["messages"]


if __name__ == "__main__":
    main(__file__)
