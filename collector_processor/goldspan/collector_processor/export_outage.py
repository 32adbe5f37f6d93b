"""What is logged while a receiver is away: once that it is, once that it is back."""

from __future__ import annotations

import logging
import re
import time

_CREDENTIALS = re.compile("//[^/@]*@")
_logger = logging.getLogger("goldspan")


def without_credentials(address: str) -> str:
    """Return an address as a log may show it."""
    return _CREDENTIALS.sub("//", address)


class ExportOutage:
    """Logs the first of several failures in a row as a warning, and the first success after them as information."""

    def __init__(self, target: str, what: str = "spans", fate: str = "dropped") -> None:
        """Say of `what` that it cannot be delivered to `target`, an address or a file, and what becomes of it."""
        self._target = without_credentials(target)
        self._what = what
        self._fate = fate
        self._since: float | None = None
        self._failed = 0

    def failed(self, count: int, error: object) -> None:
        """Note that so many were not delivered, and why."""
        self._failed += count
        if self._since is not None:
            return
        self._since = time.monotonic()
        _logger.warning(
            "%s cannot be delivered to %s: %s. They are %s until they can; this is logged once.",
            self._what,
            self._target,
            f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error,
            self._fate,
            # What a library raises on purpose says enough; another exception may be a mistake in an exporter.
            exc_info=error if isinstance(error, Exception) and not isinstance(error, OSError) else None,
        )

    def succeeded(self) -> None:
        """Note that some were delivered."""
        if self._since is None:
            return
        seconds, self._since = time.monotonic() - self._since, None
        failed, self._failed = self._failed, 0
        _logger.info(
            "%s are delivered to %s again after %.0f s; %d were %s",
            self._what,
            self._target,
            seconds,
            failed,
            self._fate,
        )
