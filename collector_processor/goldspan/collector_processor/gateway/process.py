"""What the gateway asks of its operating system: room for connections, memory that is kept, a word to systemd."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from google.protobuf.internal import api_implementation

_logger = logging.getLogger("goldspan.gateway")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_HEAP_BUFFER = 32 << 20
"""The most that glibc lets M_MMAP_THRESHOLD be; requests are smaller."""
_KEPT_BYTES = 64 << 20
"""Freed memory that is kept for the next requests."""


def raise_open_files() -> None:
    """Allow as many open files as the administrator does: each connection is one."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_freed_memory() -> None:
    """Let glibc reuse the memory of large buffers.

    By its defaults each buffer of more than 128 KiB is mapped and unmapped, which makes reading and writing a request
    of 600 KiB four times as slow. And each thread has an arena of its own, which it grows page by page and which keeps
    what another could use; one is enough for threads of which one runs at a time.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_HEAP_BUFFER)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def warn_of_slow_protobuf() -> None:
    """Say so where another package has put a pure Python protobuf in the place of the fast one."""
    if (kind := api_implementation.Type()) != "upb":
        _logger.warning(
            "protobuf runs on its %s implementation, which is slower by far: install protobuf's own wheel", kind
        )


def notify_systemd(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Tell systemd how far we are, if it asked to be told (sd_notify(3))."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(state.encode())
    except OSError as error:
        _logger.warning("systemd could not be told %s: %s", state, error)


# What the gateway says of itself: one line for each thing, as JSON for machines or as text for people.

_LIBRARIES = ("grpc", "urllib3", "uvicorn", "opentelemetry")
_NOT_EXTRA = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(level: str, form: Literal["json", "text"]) -> None:
    """Send what is logged to standard error; of libraries only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """A JSON object on a line: time, level, logger, message, and what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{extra}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        # What is quoted may be a stranger's: only the first line begins at the margin.
        return "\n  ".join(text.splitlines())


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _NOT_EXTRA}
