"""Users' own metrics, each in a thread of its own: one that hangs costs a session its result, and a door no more."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import NamedTuple, cast

from goldspan.scoring.goldens.models import Golden
from goldspan.scoring.metrics import Measured, Metric
from goldspan.scoring.sessions import Session

TIMEOUT = 10.0
"""Seconds a metric may take for one session."""


class MetricWorkers:
    """Runs metrics that are not goldspan's own, sync or async, no longer than `timeout` seconds for each session.

    A thread cannot be stopped: a metric that took too long keeps its one thread, and until it is done every other
    session has no result of it. So there is never more than one thread for each metric, and a door waits for a metric
    that hangs only once.
    """

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def __call__(self, metric: Metric, session: Session, golden: Golden) -> Measured:
        """Return the metric's answer.

        Raises:
            TimeoutError: it took too long, or is still at an earlier session.
            Exception: whatever the metric raised.

        """
        with self._lock:
            before = self._threads.get(metric.name)
            if before is not None and before.is_alive():
                raise TimeoutError("it is still at an earlier session, which took too long")
            answers: SimpleQueue[_Answer] = SimpleQueue()
            # In the caller's context, in which a door has switched instrumentations off.
            thread = threading.Thread(
                target=copy_context().run,
                args=(_work, metric, session, golden, answers),
                name=f"goldspan {metric.name}",
                daemon=True,
            )
            self._threads[metric.name] = thread
            thread.start()
        try:
            answer = answers.get(timeout=self._timeout)
        except Empty:
            raise TimeoutError(f"it took more than {self._timeout:g} seconds") from None
        thread.join()
        if answer.error is not None:
            raise answer.error
        return answer.measured


class _Answer(NamedTuple):
    measured: Measured
    error: Exception | None = None


def _work(metric: Metric, session: Session, golden: Golden, answers: SimpleQueue[_Answer]) -> None:
    try:
        answers.put(_Answer(_answer(metric, session, golden)))
    except Exception as error:  # noqa: BLE001 - handed to who asked
        answers.put(_Answer(None, error))
    except BaseException as error:  # noqa: BLE001 - sys.exit in a metric ends nothing
        answers.put(_Answer(None, RuntimeError(f"{type(error).__name__}: {error}")))


def _answer(metric: Metric, session: Session, golden: Golden) -> Measured:
    answer = metric(session, golden)
    if not isawaitable(answer):
        return cast("Measured", answer)

    async def wait() -> Measured:
        return await answer

    return asyncio.run(wait())
