"""A server that answers as the score APIs of Phoenix, MLflow and Langfuse do."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rigs.local_http import Quiet, serving

Reply = tuple[int, Any]


@dataclass
class Server:
    """A back-end on a local port: it notes what it was sent, and answers as told."""

    endpoint: str = ""
    answer: Callable[[str, Any], Reply] = lambda path, body: (200, {})
    requests: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)

    def bodies(self, path: str) -> list[Any]:
        return [body for _, at, body, _ in self.requests if at.partition("?")[0] == path]


@contextmanager
def score_backend() -> Generator[Server]:
    """Listen while the block runs."""
    found = Server()

    class Handler(Quiet):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.requests.append((self.command, self.path, body, dict(self.headers)))
            status, reply = found.answer(self.path, body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_PATCH = do_POST

    with serving(Handler) as found.endpoint:
        yield found
