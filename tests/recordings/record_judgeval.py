# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "judgeval==1.6.0",
#   "openai==3.57.0",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""The OpenAI SDK and tools of one's own, as Judgment writes them."""

from __future__ import annotations

from collections.abc import Callable

import openai
import openai_loop
import scenario
from judgeval import Tracer
from openai_server import serve
from recorder import Recorder, main, recording


@recording("py-judgeval")
def standard(recorder: Recorder) -> None:
    Tracer.init(project_name="weather", span_processors=[recorder.processor()])
    tools = {tool.__name__: Tracer.observe(span_type="tool")(tool) for tool in scenario.TOOLS}
    client = Tracer.wrap(openai.OpenAI(base_url=serve(scenario.STANDARD), api_key="none"))
    openai_loop.turns(client, tools, observed)


def observed(answer: Callable[[str], str]) -> Callable[[str], str]:
    @Tracer.observe(span_type="agent", span_name="turn")
    def turn(question: str) -> str:
        Tracer.set_session_id(scenario.SESSION)
        return answer(question)

    return turn


if __name__ == "__main__":
    main(__file__)
