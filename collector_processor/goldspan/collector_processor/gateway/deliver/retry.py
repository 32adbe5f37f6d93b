"""When a failed request is sent again: when the back-end says (Retry-After, RetryInfo), else by exponential backoff.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-throttling and #otlpgrpc-throttling
"""

from __future__ import annotations

from random import Random

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from goldspan.collector_processor.http_client import backoff
from goldspan.collector_processor.serving.field_types import Seconds, Section

MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer Retry-After is cut to this: a wrong header must not stop delivery for days."""


class Backoff(Section):
    """How long delivery pauses after a failed attempt. A Retry-After from the back-end is used instead."""

    initial: Seconds = 1.0
    """Pause after the first failure. It doubles after each further failure."""
    longest: Seconds = 60.0
    """Longest pause, unless the back-end asks for a longer one."""

    def pause(self, failures: int, asked_seconds: float | None, random: Random) -> float:
        """Return how many seconds to pause after so many failures in a row.

        `asked_seconds` is what the back-end asked for, or None. The computed pause is random within its
        upper half, so that several gateways do not return at the same moment.
        """
        if asked_seconds is not None:
            return min(asked_seconds, MAX_RETRY_AFTER_SECONDS)
        return backoff(failures, self.initial, self.longest, random.uniform)


def parse_retry_info(status: object) -> float | None:
    """Return the seconds in the RetryInfo of an encoded `google.rpc.Status`; None if it has none."""
    if not isinstance(status, bytes):
        return None
    info = RetryInfo()
    try:
        found = any(detail.Unpack(info) for detail in Status.FromString(status).details)
    except (DecodeError, ValueError):
        return None
    return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9) if found else None
