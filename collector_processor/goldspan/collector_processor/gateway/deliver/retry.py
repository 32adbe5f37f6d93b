"""When a failed request is sent again: when the back-end says (Retry-After, RetryInfo), else by exponential backoff.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-throttling and #otlpgrpc-throttling
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from goldspan.collector_processor.gateway.settings.field_types import Seconds, Section

MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer Retry-After is cut to this: a wrong header must not stop delivery for days."""

_MAX_HEADER = 100
"""Characters of a Retry-After that are read; a date has 29."""


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
        return min(self.longest, self.initial * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds in a Retry-After header, which is a number or a date (RFC 9110, section 10.2.3).

    None if it is neither. A number may be too large for any pause; `Backoff` has the bound.
    """
    if value is None:
        return None
    text = value.strip()
    if len(text) > _MAX_HEADER:
        return None
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())
    except Exception:  # noqa: BLE001 - the parser raises many kinds for years, offsets and texts that are out of range
        return None


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
