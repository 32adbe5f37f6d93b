"""A timer on a daemon thread of its own, which lives only while a time is set; and forks, which no thread survives."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable

_logger = logging.getLogger("goldspan")
_MIN_INTERVAL = 0.01
"""Seconds between two calls at least, so that an owner that always sets a time in the past does not spin."""


def call_in_forked_children(method: Callable[[], object]) -> None:
    """Call a method in every process that is forked from this one, as long as its object lives."""
    if hasattr(os, "register_at_fork"):
        alive = weakref.WeakMethod(method)
        os.register_at_fork(after_in_child=lambda: (found := alive()) and found())


class Timer:
    """Calls `on_due` from its own thread when the time that was set has come.

    `on_due` may set the timer again. If it raises, that is logged and the thread goes on. Times are those of
    `time.monotonic`.
    """

    def __init__(self, on_due: Callable[[], None], name: str) -> None:
        """`name` is the thread's name."""
        self._on_due = on_due
        self._name = name
        self._changed = threading.Condition()
        self._when: float | None = None
        self._thread: threading.Thread | None = None

    def set(self, when: float | None) -> None:
        """Call at `when`, in place of any time set before. None: do not call."""
        with self._changed:
            later = when is not None and self._when is not None and when >= self._when
            self._when = when
            if self._thread is None:
                if when is not None:
                    self._start()
            elif not later:
                self._changed.notify()

    def set_at_latest(self, when: float) -> None:
        """Call at `when`, unless an earlier time is set."""
        with self._changed:
            if self._when is None or self._when > when:
                self.set(when)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            # No more threads, or the interpreter shuts down: the next export or flush does the work instead.
            self._thread = None

    def _run(self) -> None:
        earliest = 0.0
        while self._wait(earliest):
            try:
                self._on_due()
            except Exception:
                _logger.warning("work of the thread %s failed", self._name, exc_info=True)
            earliest = time.monotonic() + _MIN_INTERVAL

    def _wait(self, earliest: float) -> bool:
        """Wait for the time that is set. False if none is set any longer."""
        with self._changed:
            while self._when is not None:
                left = max(self._when, earliest) - time.monotonic()
                if left <= 0:
                    self._when = None
                    return True
                self._changed.wait(left)
            self._thread = None
            return False
