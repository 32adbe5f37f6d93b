"""Stands in for the HTTP API of a model provider, on this machine: each request gets the script's next step."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import scenario
from scenario import Step, Turn

CREATED = 1_796_115_600


def serve(turns: Iterable[Turn]) -> str:
    """Start the server and return its base URL. It ends with the process."""

    class Handler(_Handler):
        steps = scenario.steps(turns)
        numbers = count(1)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def body_of(handler: BaseHTTPRequestHandler) -> bytes:
    """Read a request's body, whole or in chunks."""
    if "Content-Length" in handler.headers:
        return handler.rfile.read(int(handler.headers["Content-Length"]))
    chunks: list[bytes] = []
    while size := int(handler.rfile.readline(), 16):
        chunks.append(handler.rfile.read(size))
        handler.rfile.readline()
    handler.rfile.readline()
    return b"".join(chunks)


class _Handler(BaseHTTPRequestHandler):
    steps: Iterator[Step]
    numbers: Iterator[int]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(body_of(self))
        step, number = next(self.steps), next(self.numbers)
        if self.path.endswith("/responses"):
            document = response(step, number) | {key: asked.get(key) for key in ("tools", "instructions")}
            events = response_events(document)
        elif self.path.endswith("/messages"):
            document = message(step, number)
            events = message_events(document)
        else:
            document = completion(step, number)
            events = ((None, chunk) for chunk in chunks(document))
        if asked.get("stream"):
            self.stream(events)
        else:
            self.reply("application/json", json.dumps(document).encode())

    def stream(self, events: Iterable[tuple[str | None, dict[str, Any]]]) -> None:
        lines = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n" for name, event in events]
        end = "" if self.path.endswith("/messages") else "data: [DONE]\n\n"
        self.reply("text/event-stream", ("".join(lines) + end).encode())

    def reply(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the base class names it so


def completion(step: Step, number: int) -> dict[str, Any]:
    """A chat completion."""
    said: dict[str, Any] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if not isinstance(step, str):
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in step
        ]
    reason = "stop" if isinstance(step, str) else "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": scenario.MODEL,
        "choices": [{"index": 0, "message": said, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def chunks(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same as a stream: each call's arguments in two pieces."""
    [choice] = document["choices"]
    head = {key: document[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": choice["message"]["content"]})
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        first = {"name": call["function"]["name"], "arguments": arguments[:9]}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": first}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[9:]}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": document["usage"]}


def response(step: Step, number: int) -> dict[str, Any]:
    """An answer of the Responses API."""
    if isinstance(step, str):
        text = {"type": "output_text", "text": step, "annotations": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
        output: list[dict[str, Any]] = [said]
    else:
        output = [
            {
                "type": "function_call",
                "id": f"fc_{call.id}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.json,
                "status": "completed",
            }
            for call in step
        ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": scenario.MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


def response_events(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same as a stream, as far as clients need it."""
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": {**document, "status": "in_progress", "output": []}})
    ]
    for index, item in enumerate(document["output"]):
        events.append(("response.output_item.added", {"output_index": index, "item": item}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": document}))
    for number, (name, event) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **event}


def message(step: Step, number: int) -> dict[str, Any]:
    """An answer of Anthropic's Messages API."""
    content: list[dict[str, Any]] = (
        [{"type": "text", "text": step}]
        if isinstance(step, str)
        else [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in step]
    )
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": scenario.MODEL,
        "content": content,
        "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def message_events(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same as a stream: each call's arguments in two pieces."""
    start = {**document, "content": [], "stop_reason": None}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(document["content"]):
        if block["type"] == "text":
            begun, pieces = {"type": "text", "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        else:
            begun, text = {**block, "input": {}}, json.dumps(block["input"], ensure_ascii=False)
            pieces = [{"type": "input_json_delta", "partial_json": part} for part in (text[:9], text[9:])]
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begun}
        for piece in pieces:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": piece}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": document["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": document["usage"]}
    yield "message_stop", {"type": "message_stop"}
