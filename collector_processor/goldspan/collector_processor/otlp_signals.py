"""The signals of OTLP, and what differs for each: the path of its service."""

from __future__ import annotations

import re
from enum import StrEnum

_OF_A_SIGNAL = re.compile("/v1/(traces|logs|metrics)$")


def base_of(url: str) -> str:
    """Return the URL for any signal of a receiver's URL, which may be that for one."""
    return _OF_A_SIGNAL.sub("", url.rstrip("/"))


class Signal(StrEnum):
    """The OTLP signals; each has a service and a path of its own."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"

    @property
    def path(self) -> str:
        """Where a receiver takes it."""
        return f"/v1/{self}"

    def url(self, base: str) -> str:
        """Return the URL of a receiver for this signal; `base` may be that for any signal."""
        return f"{base_of(base)}{self.path}"
