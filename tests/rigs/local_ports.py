"""Ports of this machine, for servers that have to be told where to listen."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
