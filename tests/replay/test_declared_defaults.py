"""Defaults that a tool's definition in the trace declares, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from goldspan.collector_processor.cli import main

GOLDENS = {
    "golden_set": "weather",
    "goldens": [{"session": "s-1", "calls": [{"name": "get_weather", "args": {"city": "Paris", "days": 1}}]}],
}


def span(number: int, name: str, parent: int | None, **attributes: Any) -> dict[str, Any]:
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "startTimeUnixNano": str(10**18 + number),
        "endTimeUnixNano": str(10**18 + 100 - number),
        "attributes": [{"key": f"gen_ai.{key}", "value": {"stringValue": text}} for key, text in attributes.items()],
    }


@pytest.mark.parametrize(("default", "score"), [(1, 1.0), (3, 0.5), (None, 0.5)])
def test_an_argument_left_out_has_its_declared_default(tmp_path: Path, default: int | None, score: float) -> None:
    days = {"type": "integer"} | ({} if default is None else {"default": default})
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": days}}
    definitions = json.dumps([{"type": "function", "name": "get_weather", "parameters": schema}])
    agent = {"operation.name": "invoke_agent", "conversation.id": "s-1"}
    call = {"operation.name": "execute_tool", "tool.name": "get_weather", "tool.call.arguments": '{"city": "Paris"}'}
    spans = [
        span(1, "invoke_agent", None, **agent),
        span(2, "chat", 1, **{"operation.name": "chat", "tool.definitions": definitions}),
        span(3, "execute_tool get_weather", 1, **call),
    ]
    (tmp_path / "traces.jsonl").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")
    (tmp_path / "goldens.json").write_text(json.dumps(GOLDENS), "utf-8")
    command = ["score", f"{tmp_path}/traces.jsonl", "--goldens", f"{tmp_path}/goldens.json", "--format", "json"]
    done = CliRunner().invoke(main, [*command, "--criterion", str(criterion(tmp_path))])
    [session] = json.loads(done.stdout)["sessions"]
    assert session["score"] == score


def criterion(folder: Path) -> Path:
    path = folder / "criterion.yaml"
    path.write_text("match_mode: name_only\n", "utf-8")
    return path
