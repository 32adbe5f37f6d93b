"""A local OTLP/HTTP receiver in a process of its own, which accepts everything and keeps nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """Run a sink; yields its base URL."""
    command = [sys.executable, "-m", "benchmarks.sink"]
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


class _Accepting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Stay quiet."""


def main() -> None:
    """Serve until ended; the port is the first line of the output."""
    if hasattr(os, "sched_setaffinity"):
        # The benchmark that started this one is kept on a core; leave that one to it where there is another.
        others = set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, others)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Accepting)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
