"""Users' own metrics, each in a thread of its own with a timeout: a metric that hangs costs only its own results."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import cast

from goldspan.collector_processor.daemon_threads import call_in_thread
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics import Metric, MetricAnswer
from goldspan.scoring.sessions import Session

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
