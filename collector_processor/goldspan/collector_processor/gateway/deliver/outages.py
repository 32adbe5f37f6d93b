"""What the log says of destinations that do not take requests: one warning when it begins, one line when it is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Retry
from goldspan.collector_processor.otlp_signals import Signal

_logger = logging.getLogger("goldspan.gateway")
_PAUSE = 60.0
"""Seconds between two warnings of one kind about one destination: one that flaps must not flood the log."""


@dataclass(slots=True)
class _Destination:
    away_since: float | None = None
    is_reported: bool = False
    """The log has a warning about this outage."""
    next_outage: float = 0.0
    next_refusal: float = 0.0
    """When the next warning may be written."""


class OutageLog:
    """Logs when a destination stops and starts taking requests. Safe for use from any thread."""

    def __init__(self, addresses: Mapping[Signal, str], now: Callable[[], float]) -> None:
        """Take where each signal is sent; signals with one address are one destination."""
        self._addresses = addresses
        self._now = now
        self._destinations: dict[str, _Destination] = {}
        self._lock = threading.Lock()

    def note(self, signal: Signal, result: DeliveryResult, waiting: int, waiting_bytes: int) -> None:
        """Note the result of an attempt, and how many requests and bytes wait after it."""
        address = self._addresses.get(signal, "")
        now = self._now()
        with self._lock:
            destination = self._destinations.setdefault(address, _Destination())
            if isinstance(result, Retry):
                self._note_failure(destination, address, result.reason, now)
                return
            if destination.away_since is not None:
                if destination.is_reported:
                    _logger.info(
                        "the next receiver takes requests again",
                        extra={
                            "address": address,
                            "seconds": round(now - destination.away_since, 1),
                            "waiting_requests": waiting,
                            "waiting_bytes": waiting_bytes,
                        },
                    )
                destination.away_since, destination.is_reported = None, False
            rejects = (
                f"{result.rejected} rejected: {result.message}" if isinstance(result, Delivered) else result.reason
            )
            if not (isinstance(result, Delivered) and not result.rejected) and now >= destination.next_refusal:
                destination.next_refusal = now + _PAUSE
                _logger.warning(
                    "the next receiver refuses data for good; see the counters and dead letters for all of it",
                    extra={"address": address, "signal": signal.value, "error": rejects},
                )

    def _note_failure(self, destination: _Destination, address: str, reason: str, now: float) -> None:
        if destination.away_since is None:
            destination.away_since = now
        if not destination.is_reported and now >= destination.next_outage:
            destination.is_reported, destination.next_outage = True, now + _PAUSE
            _logger.warning(
                "the next receiver does not take requests: they wait and are sent again",
                extra={"address": address, "error": reason},
            )
