# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "llama-index-core==0.14.25",
#   "llama-index-llms-openai==0.8.3",
#   "openinference-instrumentation-llama-index==4.6.1",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-instrumentation-llamaindex==0.62.4",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""LlamaIndex as OpenInference and OpenLLMetry write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import json_tools
import scenario
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from openai_server import serve
from openinference.instrumentation import using_session
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Call, Turn

# The client asks for the size of a model's context by its name.
MODEL = "gpt-4o-mini"
HIDDEN = {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
DESCRIPTION = "Helps."


TOOLS = [FunctionTool.from_defaults(async_fn=tool) for tool in json_tools.TOOLS]


def model(turns: Iterable[Turn]) -> OpenAI:
    return OpenAI(MODEL, api_base=serve(turns), api_key="none", max_retries=0)


def agent(turns: Iterable[Turn], **options: Any) -> FunctionAgent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": TOOLS, "streaming": False, **options}
    return FunctionAgent(
        llm=settings.pop("llm", None) or model(turns),
        description=DESCRIPTION,
        system_prompt=scenario.INSTRUCTIONS,
        **settings,
    )


async def converse(one: Any, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    context = Context(one)
    for turn in turns:
        await one.run(user_msg=turn.user, ctx=context)


def openinference(recorder: Recorder) -> None:
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor  # noqa: PLC0415 - one of two

    LlamaIndexInstrumentor().instrument(tracer_provider=recorder.trace())


def openllmetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor  # noqa: PLC0415 - one of two

    LlamaIndexInstrumentor().instrument(tracer_provider=recorder.trace())


def standard(recorder: Recorder, instrument: Callable[[Recorder], None], **options: Any) -> None:
    instrument(recorder)
    with using_session(scenario.SESSION):
        asyncio.run(converse(agent(scenario.STANDARD, **options)))


for name, instrument, environment in (
    ("llama-index-openinference", openinference, {}),
    ("llama-index-openinference-nocontent", openinference, HIDDEN),
    ("llama-index-openllmetry-openai", openllmetry, {}),
    ("llama-index-openllmetry-nocontent", openllmetry, {"TRACELOOP_TRACE_CONTENT": "false"}),
):
    recording(name, environment)(lambda recorder, instrument=instrument: standard(recorder, instrument))


@recording("llama-index-openinference-stream")
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    standard(recorder, openinference, streaming=True)


@recording("llama-index-openllmetry-stream")
def stream_by_openllmetry(recorder: Recorder) -> None:
    standard(recorder, openllmetry, streaming=True)


def refuse(recorder: Recorder, instrument: Callable[[Recorder], None]) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    instrument(recorder)
    with using_session(scenario.SESSION):
        asyncio.run(converse(agent(scenario.INCOMPLETE), scenario.INCOMPLETE))


recording("llama-index-openinference-rejected")(lambda recorder: refuse(recorder, openinference))
recording("llama-index-openllmetry-rejected")(lambda recorder: refuse(recorder, openllmetry))


def delegate(recorder: Recorder, instrument: Callable[[Recorder], None]) -> None:
    """A tool of the agent runs another agent."""
    instrument(recorder)
    inner = agent([scenario.TABLE], name=scenario.BOOKING_AGENT, tools=TOOLS[2:])

    async def booking_agent(request: str) -> str:
        """Book tables."""
        return str(await inner.run(user_msg=request))

    tool = FunctionTool.from_defaults(async_fn=booking_agent)
    with using_session(scenario.SESSION):
        asyncio.run(converse(agent(scenario.DELEGATED, tools=[*TOOLS[:2], tool])))


recording("llama-index-openinference-agent-as-tool")(lambda recorder: delegate(recorder, openinference))
recording("llama-index-openllmetry-agent-as-tool")(lambda recorder: delegate(recorder, openllmetry))


def hand_over(recorder: Recorder, instrument: Callable[[Recorder], None]) -> None:
    """The second turn is handed over to another agent, by a tool that the workflow adds."""
    instrument(recorder)
    request = Call("call_8", "handoff", {"to_agent": scenario.BOOKING_AGENT, "reason": "a booking"})
    turns = (scenario.WEATHER, Turn(scenario.ASK_TABLE, ((request,), *scenario.TABLE.steps)))
    llm = model(turns)
    agents = [
        agent((), llm=llm, tools=TOOLS[:2], can_handoff_to=[scenario.BOOKING_AGENT]),
        agent((), llm=llm, name=scenario.BOOKING_AGENT, tools=TOOLS[2:]),
    ]
    with using_session(scenario.SESSION):
        asyncio.run(converse(AgentWorkflow(agents=agents, root_agent=scenario.AGENT)))


recording("llama-index-openinference-handoff")(lambda recorder: hand_over(recorder, openinference))
recording("llama-index-openllmetry-handoff")(lambda recorder: hand_over(recorder, openllmetry))


@recording("llama-index-openinference-batch-concurrent")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations at once under one span."""
    openinference(recorder)

    async def say(session: str, turn: Turn) -> None:
        with using_session(session):
            await agent([turn]).run(user_msg=turn.user)

    async def run() -> None:
        with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
            for number in range(2):
                await asyncio.gather(
                    *(say(session, turns[number]) for session, turns in scenario.CONVERSATIONS.items())
                )

    asyncio.run(run())


main(__file__)
