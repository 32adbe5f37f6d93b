"""The judge of the gateway: a thread that asks a model about sessions that are over, and delays nothing.

Its results are events and metric points of their own, some seconds after the others. What waits is in memory: sessions
that wait when the gateway ends are not judged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Events
from goldspan.collector_processor.engine.evaluations import digest_of, revise, score_later
from goldspan.collector_processor.judge.judging import Judge
from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.process import GuardedThread, OnFailure
from goldspan.scoring.metrics.session_metrics import ChosenMetric
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import Session

MAX_WAITING = 1_000
"""Sessions that wait. Beyond it, or beyond the bytes below, the one that has waited longest is not judged."""
MAX_WAITING_BYTES = 64 << 20
_MAX_REMEMBERED = 1_000
"""Sessions whose results are remembered, so that a correction has the next revision."""


class _Waiting(NamedTuple):
    tenant: str
    result: SessionResult
    size: int


class BackgroundJudge:
    """Judges complete runs one after another. `put` and `results` are for the worker's thread, counts for any."""

    def __init__(self, chosen: ChosenMetric, *, include_values: bool, events: Events, on_failure: OnFailure) -> None:
        """Score by a metric that blocks, such as a `Judge`."""
        self._chosen = chosen
        self._include_values = include_values
        self._events = events
        self._changed = threading.Condition()
        self._waiting = deque[_Waiting]()
        self._waiting_bytes = 0
        self._results = deque[tuple[str, list[Evaluation]]]()
        self._remembered: OrderedDict[tuple[str, str, str], dict[str, Evaluation]] = OrderedDict()
        self._busy = self._closed = False
        self.dropped = 0
        """Sessions that were not judged, since too many waited or the gateway ended."""
        self.thread = GuardedThread("judge", self._run, on_failure)

    def put(self, tenant: str, result: SessionResult) -> None:
        """Queue a complete run; a run that lacks spans is not judged. Never blocks."""
        session = result.session
        if session is None or session.incomplete or not any(turn.calls for turn in session.turns):
            return
        one = _Waiting(tenant, result, _size(session))
        with self._changed:
            self._waiting.append(one)
            self._waiting_bytes += one.size
            while self._waiting and (
                len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES or self._closed
            ):
                self._waiting_bytes -= self._waiting.popleft().size
                self.dropped += 1
            self._changed.notify_all()

    def results(self) -> Iterator[tuple[str, list[Evaluation]]]:
        """Yield the new results, with the name of the tenant."""
        while self._results:
            yield self._results.popleft()

    def close(self, seconds: float) -> None:
        """Judge what waits, for so long at most, and end. The rest is dropped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)
            self._closed = True
            self.dropped += len(self._waiting) + self._busy
            self._waiting.clear()
            self._changed.notify_all()

    def samples(self) -> Iterator[Sample]:
        """Yield what was counted since the start."""
        yield "goldspan_judge_waiting_sessions", {}, len(self._waiting)
        yield "goldspan_judge_dropped_sessions_total", {}, self.dropped
        if isinstance(judge := self._chosen.metric, Judge):
            yield "goldspan_judge_calls_total", {}, judge.usage.calls
            yield "goldspan_judge_tokens_total", {}, judge.usage.tokens

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                one = self._waiting.popleft()
                self._waiting_bytes -= one.size
                self._busy = True
            if found := self._judged(one):
                self._results.append((one.tenant, found))

    def _judged(self, one: _Waiting) -> list[Evaluation]:
        result, session = one.result, one.result.session
        if session is None:
            return []
        _, evaluations = score_later(result, [self._chosen], include_values=self._include_values, events=self._events)
        newest = {own.id: own for own in evaluations}
        key = (one.tenant, session.id, session.run)
        known = self._remembered.pop(key, {})
        changed = revise(known, newest)
        self._remembered[key] = {
            # What tells whether a later one differs.
            name: own if isinstance(own.detail, DetailDigest) else replace(own, detail=DetailDigest(digest_of(own)))
            for name, own in known.items()
        }
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return changed


def _size(session: Session) -> int:
    """Return about how many bytes a session holds."""
    contents = [
        content.raw
        for turn in session.turns
        for content in (
            *(turn.user_text, turn.answer, turn.messages, turn.tool_definitions),
            *(content for call in turn.calls for content in (call.result, call.raw_arguments)),
        )
    ]
    return 1_000 + sum(len(raw) if isinstance(raw, str) else 1_000 for raw in contents if raw is not None)
