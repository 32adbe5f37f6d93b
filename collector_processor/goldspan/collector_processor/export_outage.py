"""What is logged while a receiver is away: once that it is, once that it is back."""

from __future__ import annotations

import logging
import math
import re
import time

_CREDENTIALS = re.compile("//[^/@]*@")
_logger = logging.getLogger("goldspan")


def without_credentials(address: str) -> str:
    """Return an address as a log may show it."""
    return _CREDENTIALS.sub("//", address)


class Outage:
    """Whether something is away, and what is to be said of it: once that it is, once that it is back."""

    def __init__(self, pause: float = 0.0) -> None:
        """`pause`: seconds between two outages that are told at least. One that flaps must not flood the log."""
        self._pause = pause
        self._since: float | None = None
        self._is_told = False
        self._next = -math.inf

    def begins(self, now: float) -> bool:
        """Note a failure. Returns whether to tell of it."""
        if self._since is None:
            self._since = now
        if self._is_told or now < self._next:
            return False
        self._is_told, self._next = True, now + self._pause
        return True

    def ends(self, now: float) -> float | None:
        """Note a success. Returns how many seconds an outage was that was told of, which is over now."""
        since, was_told = self._since, self._is_told
        self._since, self._is_told = None, False
        return now - since if since is not None and was_told else None


class ExportOutage:
    """Logs the first of several failures in a row as a warning, and the first success after them as information."""

    def __init__(self, target: str, what: str = "spans", fate: str = "dropped") -> None:
        """Say of `what` that it cannot be delivered to `target`, an address or a file, and what becomes of it."""
        self.target = without_credentials(target)
        self._what = what
        self._fate = fate
        self._outage = Outage()
        self._failed = 0

    def failed(self, count: int, error: object) -> None:
        """Note that so many were not delivered, and why."""
        self._failed += count
        if not self._outage.begins(time.monotonic()):
            return
        _logger.warning(
            "%s cannot be delivered to %s: %s. They are %s until they can; this is logged once.",
            self._what,
            self.target,
            f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error,
            self._fate,
            # What a library raises on purpose says enough; another exception may be a mistake in an exporter.
            exc_info=error if isinstance(error, Exception) and not isinstance(error, OSError) else None,
        )

    def succeeded(self) -> None:
        """Note that some were delivered."""
        seconds = self._outage.ends(time.monotonic())
        if seconds is None:
            return
        failed, self._failed = self._failed, 0
        _logger.info(
            "%s are delivered to %s again after %.0f s; %d were %s",
            self._what,
            self.target,
            seconds,
            failed,
            self._fate,
        )
