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

import langwatch
import openai
import openai_loop
import scenario
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-langwatch", {"LANGWATCH_API_KEY": "none", "LANGWATCH_ENDPOINT": "http://127.0.0.1:1"})
def standard(recorder: Recorder) -> None:
    langwatch.setup(tracer_provider=recorder.trace())
    client = openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none")
    tools = {tool.__name__: langwatch.span(type="tool", name=tool.__name__)(tool) for tool in scenario.TOOLS}

    def wrapped(answer: openai_loop.Answer) -> openai_loop.Answer:
        agent = langwatch.span(type="agent", name=scenario.AGENT)(answer)

        @langwatch.trace(name="chat-turn", metadata={"thread_id": scenario.SESSION})
        def turn(question: str) -> str:
            langwatch.get_current_trace().autotrack_openai_calls(client)
            return str(agent(question))

        return turn

    openai_loop.turns(client, tools, wrapped)


if __name__ == "__main__":
    main(__file__)
