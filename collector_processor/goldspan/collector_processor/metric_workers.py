"""Users' own metrics, each in a thread of its own: one that hangs costs a session its result, and a door no more."""

from __future__ import annotations

import threading
from contextvars import copy_context
from dataclasses import dataclass, field
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics import Metric, MetricAnswer
from goldspan.scoring.sessions import Session

TIMEOUT = 10.0
"""Seconds a metric may take for one session."""


@dataclass(slots=True)
class _Lane:
    """One metric's place to run."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stuck: threading.Thread | None = None
    """The thread that took too long, perhaps still at it."""


@dataclass(frozen=True, slots=True)
class MetricWorkers:
    """Runs metrics that are not goldspan's own, sync or async, no longer than `timeout` seconds for each session.

    A thread cannot be stopped: a metric that took too long keeps its one thread, and until it is done every other
    session has no result of it. So there is never more than one thread for each metric, and a door waits for a metric
    that hangs only once. Several threads may share the workers; a metric is asked by one of them at a time.
    """

    timeout: float = TIMEOUT
    _lanes: dict[str, _Lane] = field(default_factory=dict[str, _Lane], repr=False, compare=False)

    def __call__(self, metric: Metric, session: Session, golden: Golden) -> MetricAnswer:
        """Return the metric's answer.

        Raises:
            TimeoutError: it took too long, or is still at an earlier session.
            Exception: whatever the metric raised.

        """
        lane = self._lanes.setdefault(metric.name, _Lane())
        if not lane.lock.acquire(timeout=self.timeout):
            raise TimeoutError(f"other sessions kept it for more than {self.timeout:g} seconds")
        try:
            if lane.stuck is not None and lane.stuck.is_alive():
                raise TimeoutError("it is still at an earlier session, which took too long")
            lane.stuck = None
            return self._run(lane, metric, session, golden)
        finally:
            lane.lock.release()

    def _run(self, lane: _Lane, metric: Metric, session: Session, golden: Golden) -> MetricAnswer:
        answers: SimpleQueue[_Answer] = SimpleQueue()
        # In the caller's context, in which a door has switched instrumentations off.
        thread = threading.Thread(
            target=copy_context().run,
            args=(_work, metric, session, golden, answers),
            name=f"goldspan {metric.name}",
            daemon=True,
        )
        thread.start()
        try:
            answer = answers.get(timeout=self.timeout)
        except Empty:
            lane.stuck = thread
            raise TimeoutError(f"it took more than {self.timeout:g} seconds") from None
        if answer.error is not None:
            raise answer.error
        return answer.measured


class _Answer(NamedTuple):
    measured: MetricAnswer
    error: Exception | None = None


def _work(metric: Metric, session: Session, golden: Golden, answers: SimpleQueue[_Answer]) -> None:
    try:
        answers.put(_Answer(_answer(metric, session, golden)))
    except Exception as error:  # noqa: BLE001 - handed to who asked
        answers.put(_Answer(None, error))
    except BaseException as error:  # noqa: BLE001 - sys.exit in a metric ends nothing
        answers.put(_Answer(None, RuntimeError(f"{type(error).__name__}: {error}")))


def _answer(metric: Metric, session: Session, golden: Golden) -> MetricAnswer:
    answer = metric(session, golden)
    if not isawaitable(answer):
        return answer

    # Imported for the few metrics that wait: doors start sooner without it.
    import asyncio  # noqa: PLC0415

    async def wait() -> MetricAnswer:
        return await answer

    return asyncio.run(wait())
