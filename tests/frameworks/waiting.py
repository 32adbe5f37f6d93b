"""Waits for a server of this machine."""

from __future__ import annotations

import socket
import time


def until_open(port: int, seconds: float = 60.0) -> None:
    """Return when something listens."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return
