"""A daemon thread that wakes its owner in time, and lives only while there is something to wake it for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_SHORTEST = 0.01
"""Seconds between two rings at least: an owner that always sets a time in the past does not spin."""


class Timer:
    """Calls `ring` from its own thread once the time it was set to has come.

    `ring` must not raise, and may set the alarm again. Times are those of `time.monotonic`.
    """

    def __init__(self, ring: Callable[[], None], name: str) -> None:
        self._ring = ring
        self._name = name
        self._changed = threading.Condition()
        self._when: float | None = None
        self._thread: threading.Thread | None = None

    def set(self, when: float | None) -> None:
        """Ring at `when` instead of any time set before; None: not at all."""
        with self._changed:
            later = when is not None and self._when is not None and when >= self._when
            self._when = when
            if self._thread is None:
                if when is not None:
                    self._start()
            elif not later:
                self._changed.notify()

    def set_at_latest(self, when: float) -> None:
        """Ring at `when`, unless it was set to an earlier time."""
        with self._changed:
            if self._when is None or self._when > when:
                self.set(when)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            # No more threads, or the interpreter is going down: the next export or flush does the work instead.
            self._thread = None

    def _run(self) -> None:
        earliest = 0.0
        while self._wait(earliest):
            self._ring()
            earliest = time.monotonic() + _SHORTEST

    def _wait(self, earliest: float) -> bool:
        """Wait for the time to come; False where there is nothing left to wait for."""
        with self._changed:
            while self._when is not None:
                left = max(self._when, earliest) - time.monotonic()
                if left <= 0:
                    self._when = None
                    return True
                self._changed.wait(left)
            self._thread = None
            return False
