"""A large session delays only itself: it is read and scored in a thread of its own, while the engine goes on.

To score a turn of 100,000 calls takes seconds. Meanwhile the thread that has the engine feeds it, polls it and passes
spans on, by a function of its door. What the side thread works on is left alone until it is done: the trace, or the
session, that is its subject. Other large ones wait, and so does whatever drops state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from goldspan.collector_processor.daemon_threads import call_in_thread

LARGE = 1_000
"""Records of a trace, spans or results of a session: fewer are read and scored in some milliseconds."""

_T = TypeVar("_T")


class SideThread:
    """Does one large piece of work at a time. All but that work is for the engine's thread."""

    def __init__(self) -> None:
        """Without `go_on` there is no such thread."""
        self.go_on: Callable[[threading.Event], object] | None = None
        """What the engine's thread does until the event is set, at least once: it may feed the engine and poll it."""
        self.large = LARGE
        self.is_busy = False
        self.may_start = True
        """The caller of the engine can go on with other things; otherwise what is large waits for one that can."""
        self.subjects: frozenset[str] = frozenset()
        """The ids of what it works on: of a trace, or of sessions."""

    def run(self, size: int, subjects: Iterable[str], work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or raise what it raises: done here if it is not large."""
        if size < self.large or self.go_on is None or self.is_busy:
            return work()
        try:
            future = call_in_thread(work, "goldspan-large")
        except RuntimeError:  # no more threads
            return work()
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        self._go_on(done, subjects)
        return future.result()

    def pause(self, subjects: Iterable[str]) -> None:
        """Let the engine's thread do what came meanwhile, between two portions of something long."""
        if self.go_on is not None and not self.is_busy:
            done = threading.Event()
            done.set()
            self._go_on(done, subjects)

    def _go_on(self, done: threading.Event, subjects: Iterable[str]) -> None:
        assert self.go_on is not None
        self.is_busy, self.subjects = True, frozenset(subjects)
        try:
            self.go_on(done)
        finally:
            done.wait()
            self.is_busy, self.may_start, self.subjects = False, True, frozenset()
