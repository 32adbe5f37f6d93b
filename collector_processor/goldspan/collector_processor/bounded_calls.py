"""Calls of code that may hang, made on a thread of their own, so that a caller waits no longer than it wants to."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from goldspan.collector_processor.timer import call_in_forked_children


@dataclass(slots=True)
class _Call:
    run: Callable[[], bool]
    done: bool = False
    result: bool = False
    error: BaseException | None = None


class BoundedCalls:
    """Makes one call at a time on a daemon thread, which starts at once: at the end of the process it is too late.

    A call that takes longer than its caller waits goes on, and the next one waits for its end. So there is one thread
    and one call, however often a caller tries while something hangs.
    """

    def __init__(self, name: str) -> None:
        """`name` is the thread's name."""
        self._name = name
        self._closed = False
        self._call: _Call | None = None
        self._reset()
        call_in_forked_children(self._reset)

    def run(self, call: Callable[[], bool], seconds: float) -> bool | None:
        """Return what `call` returns, and raise what it raises. None: it has not ended or not begun within `seconds`.

        On this thread itself, and where no thread can be started, the call is made at once and may take any time.
        """
        end = time.monotonic() + seconds
        thread = self._thread
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return call()
        mine = _Call(call)
        with self._changed:
            if not self._wait_until(lambda: self._call is None, end):
                return None
            self._call = mine
            self._changed.notify_all()
            if not self._wait_until(lambda: mine.done, end):
                return None
        if mine.error is not None:
            raise mine.error
        return mine.result

    def close(self) -> None:
        """End the thread after its call. Later calls are made by their callers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _reset(self) -> None:
        """Start with no call: at first, and in a forked child, where the parent's thread does not live."""
        self._changed = threading.Condition()
        self._call = None
        self._thread: threading.Thread | None = None
        if self._closed:
            return
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads, or the process ends
            thread.start()
            self._thread = thread

    def _wait_until(self, condition: Callable[[], bool], end: float) -> bool:
        return self._changed.wait_for(condition, max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        changed = self._changed
        while True:
            with changed:
                changed.wait_for(lambda: self._call is not None or self._closed)
                call = self._call
            if call is None:
                return
            try:
                call.result = call.run()
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                call.error = error
            with changed:
                call.done = True
                self._call = None
                changed.notify_all()
