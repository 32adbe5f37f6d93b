# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "ag2==1.2.1",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""AG2's own telemetry, by its `TelemetryMiddleware`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import json_tools
import scenario
from ag2 import Agent
from ag2.events import ToolCallEvent
from ag2.middleware.builtin.telemetry import TelemetryMiddleware
from ag2.testing import TestConfig
from recorder import Recorder, main, recording
from scenario import Turn


def model(turns: Iterable[Turn]) -> TestConfig:
    """A model that follows the script and goes on where a tool failed, as those of providers do."""
    answers = [
        step if isinstance(step, str) else [ToolCallEvent(id=one.id, name=one.name, arguments=one.json) for one in step]
        for step in scenario.steps(turns)
    ]
    return TestConfig(*answers, raise_tool_errors=False)


def play(recorder: Recorder, turns: Iterable[Turn] = scenario.STANDARD, **options: Any) -> None:
    telemetry = TelemetryMiddleware(
        tracer_provider=recorder.trace(),
        agent_name=scenario.AGENT,
        span_attributes={"gen_ai.conversation.id": scenario.SESSION},
        **options,
    )
    agent = Agent(
        scenario.AGENT,
        scenario.INSTRUCTIONS,
        config=model(turns),
        tools=list(json_tools.TOOLS),
        middleware=[telemetry],
    )

    async def run() -> None:
        reply: Any = agent
        for turn in turns:
            reply = await reply.ask(turn.user)

    asyncio.run(run())


@recording("ag2")
def standard(recorder: Recorder) -> None:
    play(recorder)


@recording("ag2-nocontent")
def without_content(recorder: Recorder) -> None:
    play(recorder, capture_content=False)


main(__file__)
