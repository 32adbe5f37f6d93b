# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "google-adk==2.13.0",
#   "openinference-instrumentation-google-adk==1.0.5",
#   "opentelemetry-exporter-otlp-proto-common==1.44.0",
#   "opentelemetry-sdk==1.44.0",
# ]
# ///
"""Google ADK in both schemas and all content modes, and with OpenInference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any

import scenario
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from openinference.instrumentation.google_adk import GoogleADKInstrumentor
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Step, Turn

SCHEMA = "ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
IN_SPANS = {CONTENT: "SPAN_ONLY"}
USER = "u-1"
CONFIRMATION = "adk_request_confirmation"


class ScriptedModel(BaseLlm):
    """Says what comes next; gives its calls no id, as Gemini does."""

    steps: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        step: Step = next(self.steps)
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            parts = [types.Part(function_call=types.FunctionCall(name=call.name, args=call.arguments)) for call in step]
        if stream and isinstance(step, str):
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=step[:4])]), partial=True)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=5, total_token_count=15
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            usage_metadata=usage,
            finish_reason=types.FinishReason.STOP,
        )


def as_result(tool: Any, args: dict[str, Any], tool_context: Any, error: Exception) -> dict[str, Any]:
    """Tell the model what went wrong, instead of ending the run."""
    return {"error": str(error)}


def agent(turns: Iterable[Turn], **options: Any) -> LlmAgent:
    settings: dict[str, Any] = {"name": scenario.AGENT, "tools": list(scenario.TOOLS), **options}
    return LlmAgent(
        model=ScriptedModel(model=scenario.MODEL, steps=scenario.steps(turns)),
        instruction=scenario.INSTRUCTIONS,
        on_tool_error_callback=as_result,
        **settings,
    )


async def runner(root: LlmAgent, session: str = scenario.SESSION) -> InMemoryRunner:
    made = InMemoryRunner(root, app_name="weather_app")
    await made.session_service.create_session(app_name="weather_app", user_id=USER, session_id=session)
    return made


async def say(one: InMemoryRunner, part: types.Part, session: str = scenario.SESSION, **options: Any) -> list[Any]:
    message = types.Content(role="user", parts=[part])
    events = one.run_async(user_id=USER, session_id=session, new_message=message, run_config=RunConfig(**options))
    return [event async for event in events]


async def converse(
    root: LlmAgent, session: str = scenario.SESSION, turns: Iterable[Turn] = scenario.STANDARD, **options: Any
) -> None:
    one = await runner(root, session)
    for turn in turns:
        await say(one, types.Part(text=turn.user), session, **options)


def standard(recorder: Recorder) -> None:
    recorder.trace()
    recorder.log()
    asyncio.run(converse(agent(scenario.STANDARD)))


V1 = {SCHEMA: "1"}
for name, environment in {
    "google-adk-v2-default": {},
    "google-adk-v2-span": IN_SPANS,
    "google-adk-v2-event": {CONTENT: "EVENT_ONLY"},
    "google-adk-v1": {**V1, CONTENT: "true"},
    "google-adk-v1-nocontent": {**V1, "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false"},
}.items():
    recording(name, environment)(standard)


@recording("google-adk-openinference")
def openinference(recorder: Recorder) -> None:
    provider = recorder.trace()
    recorder.log()
    GoogleADKInstrumentor().instrument(tracer_provider=provider)
    asyncio.run(converse(agent(scenario.STANDARD)))


@recording("google-adk-v2-stream", IN_SPANS)
def stream(recorder: Recorder) -> None:
    """Answers arrive in pieces."""
    recorder.trace()
    asyncio.run(converse(agent(scenario.STANDARD), streaming_mode=StreamingMode.SSE))


@recording("google-adk-v2-rejected", IN_SPANS)
def rejected(recorder: Recorder) -> None:
    """The first request lacks an argument: ADK answers it itself, and the model asks again."""
    recorder.trace()
    asyncio.run(converse(agent(scenario.INCOMPLETE), turns=scenario.INCOMPLETE))


@recording("google-adk-v2-subagent", IN_SPANS)
def handed_over(recorder: Recorder) -> None:
    """The second turn is handed over to a sub-agent."""
    recorder.trace()
    tools = list(scenario.TOOLS)
    model = ScriptedModel(model=scenario.MODEL, steps=scenario.steps(scenario.HANDED_OVER))
    booking = LlmAgent(
        name=scenario.BOOKING_AGENT,
        description="Books tables",
        model=model,
        tools=tools[2:],
        on_tool_error_callback=as_result,
    )
    root = agent((), tools=tools[:2], sub_agents=[booking])
    root.model = model
    asyncio.run(converse(root))


@recording("google-adk-v2-agent-as-tool", IN_SPANS)
def agent_as_tool(recorder: Recorder) -> None:
    """A tool of the agent runs another agent, which ADK gives a session of its own."""
    recorder.trace()
    tools = list(scenario.TOOLS)
    booking = agent([scenario.TABLE], name=scenario.BOOKING_AGENT, description="Books tables", tools=tools[2:])
    asyncio.run(converse(agent(scenario.DELEGATED, tools=[*tools[:2], AgentTool(booking)])))


@recording("google-adk-v2-denied", IN_SPANS)
def denied(recorder: Recorder) -> None:
    """A person denies the first booking and confirms the second: each decision starts an invocation of its own."""
    recorder.trace()
    tools = [*scenario.TOOLS[:2], FunctionTool(scenario.book_table, require_confirmation=True)]

    async def decide() -> None:
        one = await runner(agent(scenario.STANDARD, tools=tools))
        await say(one, types.Part(text=scenario.ASK_WEATHER))
        events = await say(one, types.Part(text=scenario.ASK_TABLE))
        for confirmed in (False, True):
            asked = next(call for event in events for call in event.get_function_calls() if call.name == CONFIRMATION)
            answer = types.FunctionResponse(id=asked.id, name=CONFIRMATION, response={"confirmed": confirmed})
            events = await say(one, types.Part(function_response=answer))

    asyncio.run(decide())


async def one_turn_each(together: Callable[..., Any]) -> None:
    runners = {session: await runner(agent(turns), session) for session, turns in scenario.CONVERSATIONS.items()}
    with trace.get_tracer("batch_runner").start_as_current_span("nightly batch"):
        for number in range(2):
            await together(
                say(runners[session], types.Part(text=turns[number].user), session)
                for session, turns in scenario.CONVERSATIONS.items()
            )


@recording("google-adk-v2-batch", IN_SPANS)
def batch(recorder: Recorder) -> None:
    """A program runs two conversations, turn by turn, under one span."""
    recorder.trace()

    async def in_turn(turns: Iterator[Any]) -> None:
        for turn in turns:
            await turn

    asyncio.run(one_turn_each(in_turn))


@recording("google-adk-v2-batch-concurrent", IN_SPANS)
def concurrent_batch(recorder: Recorder) -> None:
    """A program runs two conversations at once under one span."""
    recorder.trace()

    async def at_once(turns: Iterator[Any]) -> None:
        await asyncio.gather(*turns)

    asyncio.run(one_turn_each(at_once))


main(__file__)
