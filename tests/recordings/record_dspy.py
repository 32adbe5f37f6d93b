# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "dspy==3.4.1",
#   "openinference-instrumentation-dspy==0.1.48",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""DSPy's ReAct as OpenInference writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import dspy
import scenario
from openinference.instrumentation import using_session
from openinference.instrumentation.dspy import DSPyInstrumentor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Call, Step, Turn


class ScriptedModel(dspy.BaseLM):
    """Says what comes next in the fields that ReAct asks for: one call a step, then `finish`, then the answer."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__(model=scenario.MODEL, cache=False)
        self._steps = (answer for step in scenario.steps(turns) for answer in fields(step))

    def __call__(self, prompt: str | None = None, messages: Any = None, **kwargs: Any) -> list[str]:
        answer = next(self._steps)
        return [
            "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in answer.items()), "[[ ## completed ## ]]"])
        ]

    async def acall(self, prompt: str | None = None, messages: Any = None, **kwargs: Any) -> list[str]:
        return self(prompt, messages, **kwargs)


def fields(step: Step) -> Iterable[dict[str, str]]:
    """ReAct calls one tool after the other, so that a step of several calls becomes several."""
    calls = (Call("", "finish", {}),) if isinstance(step, str) else step
    for call in calls:
        yield {"next_thought": "Next.", "next_tool_name": call.name, "next_tool_args": call.json}
    if isinstance(step, str):
        yield {"reasoning": "Done.", "answer": step}


def agent(turns: Iterable[Turn], tools: Iterable[Any] = scenario.TOOLS) -> dspy.ReAct:
    one = dspy.ReAct("question -> answer", tools=list(tools))
    one.set_lm(ScriptedModel(turns))
    return one


def instrumented(recorder: Recorder) -> None:
    DSPyInstrumentor().instrument(tracer_provider=recorder.trace())


def converse(one: Any, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    with using_session(scenario.SESSION):
        for turn in turns:
            one(question=turn.user)


@recording("dspy-openinference")
def standard(recorder: Recorder) -> None:
    instrumented(recorder)
    converse(agent(scenario.STANDARD))


@recording("dspy-openinference-nocontent", {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"})
def hidden(recorder: Recorder) -> None:
    instrumented(recorder)
    converse(agent(scenario.STANDARD))


@recording("dspy-openinference-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: it is refused, and asked for again."""
    instrumented(recorder)
    converse(agent(scenario.REJECTED), scenario.REJECTED)


@recording("dspy-openinference-async")
def run_async(recorder: Recorder) -> None:
    instrumented(recorder)
    one = agent(scenario.STANDARD)

    async def run() -> None:
        for turn in scenario.STANDARD:
            await one.acall(question=turn.user)

    with using_session(scenario.SESSION), dspy.context(allow_tool_async_sync_conversion=True):
        asyncio.run(run())


@recording("dspy-openinference-module")
def module(recorder: Recorder) -> None:
    """The program is a module of its own, with the agent inside."""

    class Concierge(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.agent = agent(scenario.STANDARD)

        def forward(self, question: str) -> Any:
            return self.agent(question=question)

    instrumented(recorder)
    converse(Concierge())


@recording("dspy-openinference-agent-as-tool")
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    instrumented(recorder)
    inner = agent([scenario.TABLE], scenario.TOOLS[2:])

    def booking_agent(request: str) -> str:
        """Book tables."""
        return str(inner(question=request).answer)

    converse(agent(scenario.DELEGATED, [*scenario.TOOLS[:2], booking_agent]))


@recording("dspy-openinference-batch")
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    instrumented(recorder)
    agents = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                with using_session(session):
                    agents[session](question=turns[number].user)


main(__file__)
