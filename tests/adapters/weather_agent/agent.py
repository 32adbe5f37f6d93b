"""An ADK agent with a scripted model. It needs no network, and says nothing of goldspan but one import."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

import goldspan.collector_processor.adapters.adk  # noqa: F401 - makes `tool_parameter_match` a metric of ADK's

SCRIPT = {
    "What's the weather in Paris?": [("get_weather", {"city": "Paris", "unit": "celsius"})],
    "And in Lyon and Nice?": [
        ("get_weather", {"city": "Lyon", "unit": "celsius"}),
        ("get_weather", {"city": "Nice", "unit": "celsius"}),
    ],
    "Set the heating to 21.6": [("set_temperature", {"celsius": 21.6})],
}


class ScriptedModel(BaseLlm):
    """Asks for the tools that stand in the script, all at once, then answers."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts or []
        calls = SCRIPT.get(last[-1].text or "", [])
        parts = [types.Part.from_function_call(name=name, args=args) for name, args in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="Done.")]))


def get_weather(city: str, unit: str) -> dict[str, str]:
    """Tell the weather of a city."""
    return {"city": city, "weather": f"20 {unit}"}


def set_temperature(celsius: float) -> dict[str, float]:
    """Set the heating."""
    return {"celsius": celsius}


root_agent = Agent(name="weather_agent", model=ScriptedModel(model="scripted"), tools=[get_weather, set_temperature])
