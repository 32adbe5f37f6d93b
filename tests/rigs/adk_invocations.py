"""ADK's eval cases and sets as JSON, the way people write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

needs_adk = pytest.mark.skipif(
    find_spec("google.adk") is None, reason="google-adk is not installed here: `make test-adk` runs this"
)

Call = tuple[str, dict[str, Any] | None]
Said = Sequence[tuple[str, Sequence[Call]]]
"""What was said by the user and the calls of each invocation."""


def function_call(call: Call) -> dict[str, Any]:
    name, args = call
    return {"name": name} if args is None else {"name": name, "args": args}


def invocation(text: str, calls: Sequence[Call]) -> dict[str, Any]:
    """An invocation as goldens have it."""
    return {
        "user_content": {"role": "user", "parts": [{"text": text}]},
        "intermediate_data": {"tool_uses": [function_call(call) for call in calls]},
    }


def observed(text: str, batches: Sequence[Sequence[Call]]) -> dict[str, Any]:
    """An invocation as ADK has it after running an agent: an event for each model response."""
    events = [
        {
            "author": "weather_agent",
            "content": {"role": "model", "parts": [{"function_call": function_call(call)} for call in batch]},
        }
        for batch in batches
    ]
    return {
        "user_content": {"role": "user", "parts": [{"text": text}]},
        "intermediate_data": {"invocation_events": events},
    }


def eval_set(cases: dict[str, Said]) -> dict[str, Any]:
    return {
        "eval_set_id": "weather",
        "eval_cases": [
            {
                "eval_id": eval_id,
                "conversation": [invocation(text, calls) for text, calls in said],
                "session_input": {"app_name": "weather_agent", "user_id": "u", "session_id": f"session-{eval_id}"},
            }
            for eval_id, said in cases.items()
        ],
    }


def write_json(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), "utf-8")
    return path
