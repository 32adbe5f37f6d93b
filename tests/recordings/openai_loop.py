"""A loop over the OpenAI SDK with tools of one's own, for instrumentations that wrap functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import scenario

DECLARED = [
    {"type": "function", "function": {"name": tool.__name__, "parameters": scenario.parameters(tool.__name__)}}
    for tool in scenario.TOOLS
]

Answer = Callable[[str], str]


def turns(client: Any, tools: dict[str, Callable[..., Any]], wrapped: Callable[[Answer], Answer]) -> None:
    """Play the standard conversation; `wrapped` decorates the function that answers one message of the user."""
    messages: list[Any] = [{"role": "system", "content": scenario.INSTRUCTIONS}]

    def answer(question: str) -> str:
        messages.append({"role": "user", "content": question})
        while True:
            reply = client.chat.completions.create(model=scenario.MODEL, messages=messages, tools=DECLARED)
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

    turn = wrapped(answer)
    for one in scenario.STANDARD:
        turn(one.user)
