# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "agentscope==2.0.11",
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""AgentScope's own tracing."""

from __future__ import annotations

import asyncio

import json_tools
import scenario
from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.middleware import TracingMiddleware
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from openai_server import serve
from recorder import Recorder, main, recording


@recording("agentscope-native")
def standard(recorder: Recorder) -> None:
    recorder.trace()
    asyncio.run(converse(serve(scenario.STANDARD)))


async def converse(url: str) -> None:
    agent = Agent(
        scenario.AGENT,
        scenario.INSTRUCTIONS,
        OpenAIChatModel(OpenAICredential(api_key="none", base_url=url), scenario.MODEL, stream=False),
        Toolkit(tools=[FunctionTool(one, is_read_only=True) for one in json_tools.TOOLS]),
        middlewares=[TracingMiddleware()],
        state=AgentState(session_id=scenario.SESSION, permission_context=PermissionContext(mode=PermissionMode.BYPASS)),
    )
    for turn in scenario.STANDARD:
        await agent.reply(UserMsg("user", turn.user))


if __name__ == "__main__":
    main(__file__)
