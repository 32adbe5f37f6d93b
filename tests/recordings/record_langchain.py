# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "langchain==1.4.7",
#   "langchain-core==1.7.2",
#   "langgraph==1.2.22",
#   "langsmith==0.14.17",
#   "openinference-instrumentation-langchain==0.1.80",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-exporter-otlp-proto-http==1.45.2",
#   "opentelemetry-instrumentation-genai-langchain==1.3b0",
#   "opentelemetry-instrumentation-langchain==0.62.4",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""LangChain and LangGraph as OpenInference, OpenLLMetry, OpenTelemetry and LangSmith write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import scenario
from langchain import agents
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Step, Turn

LANGSMITH = {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
    "LANGSMITH_API_KEY": "none",
    "LANGSMITH_PROJECT": "weather",
    "LANGSMITH_ENDPOINT": "http://127.0.0.1:1",
}


class ScriptedModel(BaseChatModel):
    """Says what comes next."""

    steps: Any
    model: str = scenario.MODEL

    @property
    def _llm_type(self) -> str:
        return scenario.MODEL

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[{"type": "function", "function": {"name": one.name}} for one in tools])

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        step: Step = next(self.steps)
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        if isinstance(step, str):
            message = AIMessage(step, usage_metadata=usage)
        else:
            calls = [{"name": call.name, "args": call.arguments, "id": call.id} for call in step]
            message = AIMessage("", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


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


TOOLS = [get_weather, convert, book_table]


@wrap_tool_call
def tool_errors(request: Any, handler: Callable[[Any], Any]) -> Any:
    """Tell the model what went wrong, instead of ending the run."""
    try:
        return handler(request)
    except scenario.NoTable as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


def agent(turns: Iterable[Turn], **options: Any) -> Any:
    settings: dict[str, Any] = {
        "name": scenario.AGENT,
        "tools": TOOLS,
        "middleware": [tool_errors],
        "checkpointer": InMemorySaver(),
        **options,
    }
    return agents.create_agent(
        ScriptedModel(steps=scenario.steps(turns)), system_prompt=scenario.INSTRUCTIONS, **settings
    )


def config(session: str) -> dict[str, Any]:
    # More than one thread would run the tools in another order each time.
    return {
        "configurable": {"thread_id": session},
        "metadata": {"session_id": session, "thread_id": session},
        "max_concurrency": 1,
    }


def say(one: Any, text: str, session: str = scenario.SESSION) -> Any:
    return one.invoke({"messages": [{"role": "user", "content": text}]}, config(session))


def converse(one: Any, turns: Iterable[Turn] = scenario.STANDARD) -> None:
    for turn in turns:
        say(one, turn.user)


def openinference(recorder: Recorder) -> None:
    from openinference.instrumentation.langchain import LangChainInstrumentor  # noqa: PLC0415 - one of four

    LangChainInstrumentor().instrument(tracer_provider=recorder.trace())


def openllmetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor  # noqa: PLC0415 - one of four

    LangchainInstrumentor().instrument(tracer_provider=recorder.trace())


def opentelemetry(recorder: Recorder) -> None:
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor  # noqa: PLC0415 - one of four

    LangChainInstrumentor().instrument(tracer_provider=recorder.trace())


def langsmith(recorder: Recorder) -> None:
    recorder.trace()


CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}
for name, instrument, environment in (
    ("langchain-openinference", openinference, {}),
    ("langchain-traceloop", openllmetry, {}),
    ("langchain-traceloop-nocontent", openllmetry, {"TRACELOOP_TRACE_CONTENT": "false"}),
    ("langchain-otel-genai", opentelemetry, CONTENT),
    ("langchain-langsmith", langsmith, LANGSMITH),
):

    @recording(name, environment)
    def standard(recorder: Recorder, instrument: Callable[[Recorder], None] = instrument) -> None:
        instrument(recorder)
        converse(agent(scenario.STANDARD))
        if instrument is langsmith:
            from langchain_core.tracers.langchain import wait_for_all_tracers  # noqa: PLC0415 - elsewhere unused

            wait_for_all_tracers()


@recording("langchain-openinference-rejected")
def rejected(recorder: Recorder) -> None:
    """The first request does not fit the tool's signature: LangGraph answers with an error, the model asks again."""
    openinference(recorder)
    converse(agent(scenario.REJECTED), scenario.REJECTED)


@recording("langchain-openinference-agent-as-tool")
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent."""
    openinference(recorder)
    inner = agent([scenario.TABLE], name=scenario.BOOKING_AGENT, tools=TOOLS[2:], checkpointer=None)

    @tool
    def booking_agent(request: str) -> str:
        """Book tables."""
        result = inner.invoke({"messages": [{"role": "user", "content": request}]})
        return str(result["messages"][-1].content)

    converse(agent(scenario.DELEGATED, tools=[*TOOLS[:2], booking_agent]))


def deny(recorder: Recorder) -> None:
    """A person rejects the first booking and approves the second: each decision resumes the thread."""
    asking = HumanInTheLoopMiddleware(interrupt_on={"book_table": True})
    one = agent(scenario.STANDARD, middleware=[tool_errors, asking])
    converse(one)
    rejection = {"type": "reject", "message": "The guest does not want 19:30."}
    for decision in (rejection, {"type": "approve"}):
        one.invoke(Command(resume={"decisions": [decision]}), config(scenario.SESSION))


@recording("langchain-openinference-denied")
def denied(recorder: Recorder) -> None:
    openinference(recorder)
    deny(recorder)


@recording("langchain-otel-genai-denied", CONTENT)
def denied_by_opentelemetry(recorder: Recorder) -> None:
    opentelemetry(recorder)
    deny(recorder)


def run_batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    prepared = {session: agent(turns) for session, turns in scenario.CONVERSATIONS.items()}

    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            for session, turns in scenario.CONVERSATIONS.items():
                say(prepared[session], turns[number].user, session)


@recording("langchain-openinference-batch")
def batch(recorder: Recorder) -> None:
    openinference(recorder)
    run_batch(recorder)


@recording("langchain-traceloop-batch")
def batch_by_openllmetry(recorder: Recorder) -> None:
    openllmetry(recorder)
    run_batch(recorder)


main(__file__)
