# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langwatch==1.4.0",
#   "openai==3.54.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""The OpenAI SDK and tools of one's own, as LangWatch writes them."""

from __future__ import annotations

import json
from typing import Any

import langwatch
import openai
import scenario
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-langwatch", {"LANGWATCH_API_KEY": "none", "LANGWATCH_ENDPOINT": "http://127.0.0.1:1"})
def standard(recorder: Recorder) -> None:
    langwatch.setup(tracer_provider=recorder.trace())
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    tools = {tool.__name__: langwatch.span(type="tool", name=tool.__name__)(tool) for tool in scenario.TOOLS}
    declared = [
        {"type": "function", "function": {"name": name, "parameters": scenario.parameters(name)}} for name in tools
    ]
    messages: list[Any] = [{"role": "system", "content": scenario.INSTRUCTIONS}]

    @langwatch.trace(name="chat-turn", metadata={"thread_id": scenario.SESSION})
    def turn(question: str) -> str:
        langwatch.get_current_trace().autotrack_openai_calls(client)
        return answer(question)

    @langwatch.span(type="agent", name=scenario.AGENT)
    def answer(question: str) -> str:
        messages.append({"role": "user", "content": question})
        while True:
            reply = client.chat.completions.create(model=scenario.MODEL, messages=messages, tools=declared)
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                try:
                    said = json.dumps(tools[call.function.name](**json.loads(call.function.arguments)))
                except scenario.NoTable as error:
                    said = str(error)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": said})

    for one in scenario.STANDARD:
        turn(one.user)


if __name__ == "__main__":
    main(__file__)
