"""The signals of OTLP."""

from __future__ import annotations

from enum import StrEnum


class Signal(StrEnum):
    """The OTLP signals; each has a service and a path of its own."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"
