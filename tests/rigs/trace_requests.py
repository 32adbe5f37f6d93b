"""OTLP/JSON trace requests made by hand: agent turns with tool calls, in the shape of OpenTelemetry's conventions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND


def digits(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def turn_request(
    session: str | None,
    *calls: tuple[str, Mapping[str, Any] | None],
    turn: int = 0,
    user: str = "",
    scope: str = "tests",
) -> dict[str, Any]:
    """One trace: an agent's span over the spans of its tools, `None` for arguments that were not captured."""
    name = f"{session}/{turn}/{user}/{calls}"
    trace_id, root_id = digits(name, 32), digits(f"{name}/root", 16)
    start = START + turn * 60 * SECOND
    root = [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", "weather_agent")]
    if session is not None:
        root.append(attribute("gen_ai.conversation.id", session))
    if user:
        messages = [{"role": "user", "parts": [{"type": "text", "content": user}]}]
        root.append(attribute("gen_ai.input.messages", json.dumps(messages)))
    spans = [
        span(trace_id, root_id, "", "invoke_agent weather_agent", start=start, seconds=len(calls) + 2, attributes=root)
    ]
    for index, (tool, arguments) in enumerate(calls):
        attributes = [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", tool)]
        if arguments is not None:
            attributes.append(attribute("gen_ai.tool.call.arguments", json.dumps(arguments)))
        own_id = digits(f"{name}/{index}", 16)
        begun = start + (index + 1) * SECOND
        spans.append(
            span(trace_id, own_id, root_id, f"execute_tool {tool}", start=begun, seconds=1, attributes=attributes)
        )
    return request(spans, scope)


def span(
    trace_id: str,
    span_id: str,
    parent_id: str,
    name: str,
    *,
    start: int,
    seconds: int,
    attributes: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + seconds * SECOND),
        "attributes": attributes,
    }


def request(spans: list[dict[str, Any]], scope: str = "tests") -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": scope}, "spans": spans}]}]}


def plain_request(name: str = "GET /", scope: str = "http") -> dict[str, Any]:
    """A span that no agent has to do with."""
    return request([span(digits(name, 32), digits(name, 16), "", name, start=START, seconds=1, attributes=[])], scope)


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return path
