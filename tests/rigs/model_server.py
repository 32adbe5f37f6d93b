"""A server that answers as an OpenAI-compatible endpoint does, by a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rigs.local_http import Quiet, serving


@dataclass(frozen=True)
class Response:
    """What the server sends: a chat completion unless `body` says otherwise."""

    content: object = None
    tool_arguments: str | None = None
    tokens: int | None = 100
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    delay: float = 0.0
    at_once: int = 0
    """It waits until so many requests were open at the same time, ten seconds at most."""

    def data(self) -> bytes:
        if self.body is not None:
            return self.body
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_arguments is not None:
            message["tool_calls"] = [{"id": "1", "type": "function", "function": {"arguments": self.tool_arguments}}]
        usage = {} if self.tokens is None else {"usage": {"total_tokens": self.tokens}}
        return json.dumps({"choices": [{"index": 0, "message": message}], **usage}).encode()


def rated(score: object, reasoning: str = "because") -> Response:
    """An answer as JSON text."""
    return Response(json.dumps({"reasoning": reasoning, "score": score}))


@dataclass
class ModelServer:
    """A model on a local port: it notes what it was asked, and answers as told."""

    url: str = ""
    answer: Callable[[dict[str, Any]], Response] = lambda body: rated("Yes")
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0

    def script(self, *responses: Response) -> None:
        """Answer one after another, the last for ever."""
        left = list(responses)
        self.answer = lambda body: left.pop(0) if len(left) > 1 else left[0]

    def prompts(self) -> list[str]:
        return [request["messages"][1]["content"] for request in self.requests]


@contextmanager
def model_server() -> Generator[ModelServer]:
    """Listen while the block runs."""
    found, lock, open_requests = ModelServer(), threading.Lock(), [0]

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                open_requests[0] += 1
                found.most_at_once = max(found.most_at_once, open_requests[0])
                found.requests.append(body)
                found.headers.append(dict(self.headers))
                response = found.answer(body)
            try:
                end = time.monotonic() + 10.0
                while found.most_at_once < response.at_once and time.monotonic() < end:
                    time.sleep(0.005)
                time.sleep(response.delay)
                data = response.data()
                self.send_response(response.status)
                for name, value in {**response.headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client did not wait
            finally:
                with lock:
                    open_requests[0] -= 1

    with serving(Handler) as address:
        found.url = f"{address}/v1"
        yield found
