"""Users' own metrics, each in a thread of its own with a timeout: a metric that hangs costs only its own results."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import cast

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics import Metric, MetricAnswer
from goldspan.scoring.sessions import Session

TIMEOUT = 10.0
"""Seconds that a metric may take for one session."""


@dataclass(slots=True)
class _MetricState:
    """The lock and the thread of one metric."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stuck: threading.Thread | None = None  # the thread that exceeded the timeout; it may still run


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
            if state.stuck is not None and state.stuck.is_alive():
                raise TimeoutError("it is still at an earlier session, which took too long")
            state.stuck = None
            return self._run(state, metric, session, golden)
        finally:
            state.lock.release()

    def _run(self, state: _MetricState, metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
        future = Future[MetricAnswer]()
        # In the caller's context, in which a door has suppressed instrumentation.
        thread = threading.Thread(
            target=copy_context().run,
            args=(_work, metric, session, golden, future),
            name=f"goldspan {metric.name}",
            daemon=True,
        )
        thread.start()
        wait([future], self.timeout)
        if not future.done():
            state.stuck = thread
            raise TimeoutError(f"it took more than {self.timeout:g} seconds")
        return future.result()


def _work(metric: Metric, session: Session, golden: Golden | None, future: Future[MetricAnswer]) -> None:
    try:
        future.set_result(_answer(metric, session, golden))
    except Exception as error:  # noqa: BLE001 - raised again in the caller
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - sys.exit in a metric must not end the process
        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))


def _answer(metric: Metric, session: Session, golden: Golden | None) -> MetricAnswer:
    answer = metric(session, cast("Golden", golden))  # a metric that needs none takes None
    if not isawaitable(answer):
        return answer

    # Imported for the few metrics that wait: doors start sooner without it.
    import asyncio  # noqa: PLC0415

    async def wait() -> MetricAnswer:
        return await answer

    return asyncio.run(wait())
