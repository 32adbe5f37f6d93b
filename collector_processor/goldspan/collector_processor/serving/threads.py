"""The gateway's own threads: each goes on after a failure, and says whether it runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from goldspan.collector_processor.serving.prometheus import Sample

OnFailure = Callable[[str, BaseException], object]
"""Called with the name of what failed, and the error. It must not block."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 10.0
"""Seconds after a failure, doubled after each further one that follows within the longest pause."""


class GuardedThread:
    """A thread that calls `loop` until it returns. If it raises, the error is reported and it is called again."""

    def __init__(self, name: str, loop: Callable[[], object], on_failure: OnFailure) -> None:
        """`name` is what the thread does, for metrics and logs; several threads may share one."""
        self.name = name
        self._loop = loop
        self._on_failure = on_failure
        self._in_loop = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"goldspan-{name}", daemon=True)

    @property
    def runs(self) -> bool:
        """Whether it is in its loop: false before its start, after its end, and in the pause after a failure."""
        return self._in_loop and self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """Whether its loop has returned, or was never begun."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Begin the loop."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the loop to return; after a failure it is not called again."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            self._in_loop = True
            try:
                self._loop()
            except BaseException as error:  # noqa: BLE001 - even SystemExit would end a thread that is needed
                self._in_loop = False
                with suppress(BaseException):
                    self._on_failure(self.name, error)
            else:
                return
            finally:
                self._in_loop = False
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            if self._closing.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)


def thread_metrics(threads: Iterable[GuardedThread]) -> Iterator[Sample]:
    """Yield how many threads there are and how many of them run, by name."""
    threads = list(threads)
    running = Counter(one.name for one in threads if one.runs)
    for name, number in Counter(one.name for one in threads).items():
        yield "goldspan_threads", {"thread": name}, number
        yield "goldspan_threads_running", {"thread": name}, running[name]


def why_not_running(threads: Iterable[GuardedThread]) -> str | None:
    """Return a sentence that names the threads that do not run; None if all do."""
    names = sorted({one.name for one in threads if not one.runs})
    return f"threads that failed and do not run now: {', '.join(names)}" if names else None
