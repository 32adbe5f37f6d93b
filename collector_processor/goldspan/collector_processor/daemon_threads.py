"""Daemon threads in a process of others: a timer, calls that may hang or that take long, and what happens at a fork.

No thread survives a fork: `call_in_forked_children` lets what has one begin again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from goldspan.scoring.goldens.golden import Golden
    from goldspan.scoring.metrics import Metric, MetricAnswer
    from goldspan.scoring.sessions import Session

_logger = logging.getLogger("goldspan")
_T = TypeVar("_T")
_MIN_INTERVAL = 0.01
"""Seconds between two calls at least, so that an owner that always sets a time in the past does not spin."""


def call_in_forked_children(method: Callable[[], object]) -> None:
    """Call a method in every process that is forked from this one, as long as its object lives."""
    if hasattr(os, "register_at_fork"):
        alive = weakref.WeakMethod(method)
        os.register_at_fork(after_in_child=lambda: (found := alive()) and found())


def call_in_thread(call: Callable[[], _T], name: str) -> Future[_T]:
    """Make a call on a thread of its own, in the caller's context, in which a door has suppressed instrumentation.

    The future raises what the call raised; that of `sys.exit`, which must not end the caller, is a RuntimeError. Raises
    RuntimeError if no thread can be started.
    """
    future = Future[_T]()

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - as above
            future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    return future


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

    def run(
        self, call: Callable[[], bool], seconds: float, meanwhile: Callable[[], object] = lambda: None
    ) -> bool | None:
        """Return what `call` returns, and raise what it raises. None: it has not ended or not begun within `seconds`.

        `meanwhile` is called by the caller's thread once the call is handed over. On this thread itself, and where no
        thread can be started, the call is made at once and may take any time.
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
        meanwhile()
        with self._changed:
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


# Users' own metrics, each in a thread of its own with a timeout: a metric that hangs costs only its own results.

TIMEOUT = 10.0
"""Seconds that a metric may take for one session."""


@dataclass(slots=True)
class _MetricState:
    lock: threading.Lock = field(default_factory=threading.Lock)
    stuck: Future[MetricAnswer] | None = None  # what exceeded the timeout; it may still run


@dataclass(frozen=True, slots=True)
class MetricWorkers:
    """Runs users' metrics, sync or async, for at most `timeout` seconds a session.

    A thread cannot be stopped: a metric that exceeds the timeout keeps its thread, and until it returns it gives no
    results for other sessions. So a metric never has more than one thread, and one that hangs delays its caller only
    once. Several threads may share the workers; a metric runs for one of them at a time.
    """

    timeout: float = TIMEOUT
    _threads: dict[str, _MetricState] = field(default_factory=dict[str, _MetricState], repr=False, compare=False)

    def __reduce__(self) -> tuple[type[MetricWorkers], tuple[float]]:
        """Pickle and copy the timeout alone: threads stay in their process."""
        return MetricWorkers, (self.timeout,)

    def __call__(self, metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
        """Return the metric's result.

        Raises:
            TimeoutError: The metric took too long, or still runs for an earlier session.
            Exception: Whatever the metric raised.

        """
        state = self._threads.setdefault(metric.name, _MetricState())
        if not state.lock.acquire(timeout=self.timeout):
            raise TimeoutError(f"other sessions kept it for more than {self.timeout:g} seconds")
        try:
            if state.stuck is not None and not state.stuck.done():
                raise TimeoutError("it is still at an earlier session, which took too long")
            state.stuck = None
            return self._run(state, metric, session, golden)
        finally:
            state.lock.release()

    def _run(self, state: _MetricState, metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
        future = call_in_thread(partial(_answer, metric, session, golden), f"goldspan {metric.name}")
        wait([future], self.timeout)
        if not future.done():
            state.stuck = future
            raise TimeoutError(f"it took more than {self.timeout:g} seconds")
        return future.result()


def _answer(metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
    answer = metric(session, cast("Golden", golden))  # a metric that needs none takes None
    if not isawaitable(answer):
        return answer

    # Imported for the few metrics that wait: doors start sooner without it.
    import asyncio  # noqa: PLC0415

    async def wait() -> MetricAnswer:
        return await answer

    return asyncio.run(wait())


# A large session delays only itself: it is read and scored in a thread of its own, while the engine goes on.
#
# To score a turn of 100,000 calls takes seconds. Meanwhile the thread that has the engine feeds it, polls it and passes
# spans on, by a function of its door. What the side thread works on is left alone until it is done: the trace, or the
# session, that is its subject. Other large ones wait, and so does whatever drops state.

LARGE = 1_000
"""Records of a trace, spans or results of a session: fewer are read and scored in some milliseconds."""


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
