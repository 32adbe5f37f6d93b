"""The judge of the gateway: threads that ask a model about sessions that are over, and delay nothing.

As many sessions are judged side by side as the judge may ask questions at once. A session of which questions were left
without an answer is asked about again, until its answers are complete, its budget ends or it is too old; answers that
came are kept by the judge. Results are events and metric points of their own, some seconds after the others. What waits
is in memory: sessions that wait when the gateway ends are not judged.
"""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec.structs import replace as changed

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Events
from goldspan.collector_processor.engine.result_revisions import digest_of, revise, score_later
from goldspan.collector_processor.http_client import backoff
from goldspan.collector_processor.judge.judging import Judge
from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.process import GuardedThread, OnFailure
from goldspan.scoring.metrics.judge import NoAnswer
from goldspan.scoring.metrics.session_metrics import ChosenMetric
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import Session

MAX_WAITING = 1_000
"""Sessions that wait. Beyond it, or beyond the bytes below, the one that has waited longest is not judged."""
MAX_WAITING_BYTES = 64 << 20
_MAX_REMEMBERED = 1_000  # sessions whose results are remembered, so that a correction has the next revision
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds until a session is asked about again, doubled each time
_SHORTEST_PAUSE = 0.05  # seconds until a thread looks again

_Key = tuple[str, str, str]  # tenant, session and run


@dataclass(slots=True)
class _Waiting:
    result: SessionResult
    size: int
    since: float
    not_before: float = 0.0
    attempts: int = 0
    found: list[Evaluation] = field(default_factory=list[Evaluation])
    """What the last attempt gave, with questions without an answer."""


class _Attempt(NamedTuple):
    evaluations: list[Evaluation]
    may_be_answered: bool  # questions are without an answer that may have one later


class BackgroundJudge:
    """Judges complete runs. `put` and `results` are for the worker's thread, counts for any."""

    def __init__(
        self,
        chosen: ChosenMetric,
        *,
        include_values: bool,
        events: Events,
        on_failure: OnFailure,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Score by a metric that blocks, such as a `Judge`."""
        self._chosen = chosen
        self._judge = chosen.metric if isinstance(chosen.metric, Judge) else None
        self._include_values = include_values
        self._events = events
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: OrderedDict[_Key, _Waiting] = OrderedDict()
        self._waiting_bytes = 0
        self._in_progress: dict[_Key, _Waiting] = {}
        self._results = deque[tuple[str, list[Evaluation]]]()
        self._remembered: OrderedDict[_Key, dict[str, Evaluation]] = OrderedDict()
        self._closed = False
        self.dropped = 0
        """Sessions that were not judged, since too many waited or the gateway ended."""
        self.given_up = 0
        """Sessions with questions that will not be asked again."""
        concurrency = 1 if self._judge is None else self._judge.options.concurrency
        self.threads = [GuardedThread("judge", self._run, on_failure) for _ in range(concurrency)]

    def put(self, tenant: str, result: SessionResult) -> None:
        """Queue a complete run, in place of an earlier state of it; none that lacks spans. Never blocks."""
        session = result.session
        if session is None or session.incomplete or not any(turn.calls for turn in session.turns):
            return
        with self._changed:
            self._add((tenant, session.id, session.run), _Waiting(result, _size(session), self._clock()))
            while self._waiting and (
                len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES or self._closed
            ):
                self._drop(next(iter(self._waiting)))
            self._changed.notify()

    def results(self) -> Iterator[tuple[str, list[Evaluation]]]:
        """Yield the new results, with the name of the tenant."""
        while self._results:
            yield self._results.popleft()

    def close(self, seconds: float) -> None:
        """Judge what waits, for so long at most, and end. Of the rest is said what was answered so far, if anything."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_progress and self._ready() is None, seconds)
            self._closed = True
            self.dropped += len(self._in_progress)
            for key in list(self._waiting):
                self._drop(key)
            self._changed.notify_all()

    def samples(self) -> Iterator[Sample]:
        """Yield what was counted since the start."""
        with self._changed:
            oldest = min((one.since for one in (*self._waiting.values(), *self._in_progress.values())), default=None)
            waiting, in_progress = len(self._waiting), len(self._in_progress)
        yield "goldspan_judge_waiting_sessions", {}, waiting
        yield "goldspan_judge_sessions_in_progress", {}, in_progress
        yield "goldspan_judge_oldest_waiting_seconds", {}, 0.0 if oldest is None else self._clock() - oldest
        yield "goldspan_judge_dropped_sessions_total", {}, self.dropped
        yield "goldspan_judge_given_up_sessions_total", {}, self.given_up
        if (judge := self._judge) is not None:
            yield "goldspan_judge_questions_total", {}, judge.usage.questions
            yield "goldspan_judge_unanswered_questions_total", {}, judge.usage.unanswered
            yield "goldspan_judge_calls_total", {}, judge.usage.calls
            yield "goldspan_judge_tokens_total", {}, judge.usage.tokens
            yield "goldspan_judge_paused", {}, int(judge.paused_seconds > 0)

    # The queue; its lock is held.

    def _add(self, key: _Key, one: _Waiting) -> None:
        if (before := self._waiting.pop(key, None)) is not None:
            self._waiting_bytes -= before.size
        self._waiting[key] = one
        self._waiting_bytes += one.size

    def _drop(self, key: _Key) -> None:
        one = self._waiting.pop(key)
        self._waiting_bytes -= one.size
        if one.found:
            self._give(key, one.found)
            self.given_up += 1
        else:
            self.dropped += 1

    def _give(self, key: _Key, found: list[Evaluation]) -> None:
        if changes := self._corrected(key, found):
            self._results.append((key[0], changes))

    def _ready(self) -> _Key | None:
        """Return the session that is judged next; None: all have to wait, or the model is not asked for a while."""
        if self._judge is not None and self._judge.paused_seconds:
            return None
        now = self._clock()
        ready = (key for key, one in self._waiting.items() if one.not_before <= now and key not in self._in_progress)
        return next(ready, None)

    def _pause(self) -> float | None:
        """Return how many seconds from now a session may be ready; None: when something changes."""
        if not self._waiting:
            return None
        paused = 0.0 if self._judge is None else self._judge.paused_seconds
        soonest = min(one.not_before for one in self._waiting.values()) - self._clock()
        return max(_SHORTEST_PAUSE, paused, soonest)

    # A thread.

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and self._ready() is None:
                    self._changed.wait(self._pause())
                if self._closed or (key := self._ready()) is None:
                    return
                one = self._in_progress[key] = self._waiting.pop(key)
                self._waiting_bytes -= one.size
            attempt = _Attempt([], may_be_answered=False)
            try:
                attempt = self._judged(one.result)
            finally:
                with self._changed:
                    del self._in_progress[key]
                    self._settle(key, one, attempt)
                    self._changed.notify_all()

    def _judged(self, result: SessionResult) -> _Attempt:
        unanswered: list[NoAnswer] = []
        chosen = self._chosen
        if self._judge is not None:
            chosen = replace(chosen, metric=self._judge.noting(unanswered.append))
        _, found = score_later(result, [chosen], include_values=self._include_values, events=self._events)
        return _Attempt(found, any(not one.final for one in unanswered))

    def _settle(self, key: _Key, one: _Waiting, attempt: _Attempt) -> None:
        """Give what was found, or ask again later about what was not answered; the lock is held."""
        if key in self._waiting:
            return  # a newer state of the session, whose questions are answered by what is kept
        now, judge = self._clock(), self._judge
        if attempt.may_be_answered and judge is not None:
            one.attempts += 1
            one.found = attempt.evaluations
            one.not_before = now + backoff(one.attempts, _FIRST_PAUSE, _LONGEST_PAUSE, random.uniform)
            if not self._closed and one.not_before - one.since < judge.options.ask_again_for:
                self._add(key, one)
                return
            self.given_up += 1
        self._give(key, attempt.evaluations)

    def _corrected(self, key: _Key, found: list[Evaluation]) -> list[Evaluation]:
        """Return what differs from the results that were given before."""
        known = self._remembered.pop(key, {})
        changes = revise(known, {own.id: own for own in found})
        self._remembered[key] = {
            # What tells whether a later one differs.
            name: own if isinstance(own.detail, DetailDigest) else changed(own, detail=DetailDigest(digest_of(own)))
            for name, own in known.items()
        }
        if len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return changes


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
