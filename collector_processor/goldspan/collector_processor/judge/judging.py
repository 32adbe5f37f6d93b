"""The judge: asks a model of the user's choice about calls, within a budget, for `tool_parameter_accuracy`.

Answers are kept by the content of their questions: in memory, and in a SQLite file if one is named.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from copy import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from goldspan.collector_processor.judge import model_clients
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.metrics import judge
from goldspan.scoring.metrics.argument_profile import Profile
from goldspan.scoring.metrics.profile_file import load_profile
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import MetricScore, Range

_MAX_IN_MEMORY = 10_000
_SECONDS_LOCKED = 2.0  # how long one process waits for another that writes


class AnswerCache:
    """Keeps answers. Only an answer Yes or No is kept, so that a question that failed is asked again. Thread-safe.

    The file is for its owner alone (0600): reasons quote conversations. A file that fails later costs only its answers.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it. Raises SettingsError."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, judge.JudgeAnswer] = OrderedDict()
        self._file = None if path is None else _opened(path)

    def get(self, key: str) -> judge.JudgeAnswer | None:
        """Return the answer kept for a key."""
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return found
            if self._file is None:
                return None
            try:
                row = self._file.execute("SELECT accurate, reasoning FROM answers WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error:
                return None
            return None if row is None else judge.JudgeAnswer(bool(row[0]), str(row[1]))

    def put(self, key: str, answer: judge.JudgeAnswer) -> None:
        """Keep an answer."""
        with self._lock:
            self._kept[key] = answer
            if len(self._kept) > _MAX_IN_MEMORY:
                self._kept.popitem(last=False)
            if self._file is not None:
                with suppress(sqlite3.Error):
                    row = (key, answer.accurate, answer.reasoning)
                    self._file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)


def key_of(question: judge.Question, identity: str) -> str:
    """Return the key of a question to a model: a hash of all that the answer depends on."""
    asked = [identity, question.messages, question.answer.name, question.answer.schema]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _opened(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        file = sqlite3.connect(path, timeout=_SECONDS_LOCKED, isolation_level=None, check_same_thread=False)
        file.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, accurate INTEGER, reasoning TEXT) WITHOUT ROWID"
        )
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(
            f"judge: cache: {path} cannot be used: {getattr(error, 'strerror', None) or error}"
        ) from None
    return file


_FIRST_PAUSE = 0.5
_SHORTEST = 0.01  # seconds of a request where the budget has less
_FAILURES_IN_A_ROW = 5  # after so many questions in a row without a reply the model is not asked for a while
_PAUSE, _LONGEST_PAUSE = 5.0, 60.0  # seconds for which it is not asked then, doubled each time until it replies
_CHARACTERS_A_TOKEN = 4


class JudgeUsage:
    """What a judge has used so far. Thread-safe."""

    def __init__(self, budget: model_clients.JudgeBudget, clock: Callable[[], float]) -> None:
        self._budget, self._clock = budget, clock
        self._lock = threading.Lock()
        self._waiting, self._since = 0, 0.0
        self._seconds = 0.0
        self._renewed: float | None = None
        self._before = (0, 0, 0.0)  # calls, tokens and seconds when the budget was last there again
        self.questions = 0
        """Questions, whoever answered."""
        self.from_cache = 0
        """Questions that the cache answered."""
        self.unanswered = 0
        """Questions without an answer."""
        self.calls = 0
        """Requests to the model."""
        self.tokens = 0
        """Tokens of prompts and answers."""

    @property
    def seconds(self) -> float:
        """Seconds in which at least one question waited for the model."""
        with self._lock:
            return self._seconds + (self._clock() - self._since if self._waiting else 0.0)

    @property
    def seconds_left(self) -> float:
        """Seconds that the budget leaves."""
        budget = self._budget.seconds
        return float("inf") if budget is None else max(0.0, budget - (self.seconds - self._before[2]))

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Count the time of a block."""
        with self._lock:
            if not self._waiting:
                self._since = self._clock()
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._seconds += self._clock() - self._since

    def take(self, tokens: int) -> str:
        """Count a request of so many tokens; or say what is used up, and count nothing."""
        budget = self._budget
        now, seconds = self._clock(), self.seconds
        with self._lock:  # the whole budget again after `every` seconds
            if self._renewed is None:
                self._renewed = now
            elif self._budget.every is not None and now - self._renewed >= self._budget.every:
                self._renewed, self._before = now, (self.calls, self.tokens, seconds)
        if self.seconds_left <= 0:
            return f"the budget of {budget.seconds:g} seconds is used up"
        with self._lock:
            calls, used, _ = self._before
            if budget.calls is not None and self.calls - calls >= budget.calls:
                return f"the budget of {budget.calls} calls is used up"
            if budget.tokens is not None and self.tokens - used + tokens > budget.tokens:
                return f"the budget of {budget.tokens} tokens is used up"
            self.calls += 1
            self.tokens += tokens
            return ""

    def add(self, **counts: int) -> None:
        """Add to counts."""
        with self._lock:
            for name, number in counts.items():
                setattr(self, name, getattr(self, name) + number)

    def __str__(self) -> str:
        return (
            f"{self.questions} questions: {self.calls} calls of the model, {self.tokens:,} tokens, "
            f"{self.seconds:.1f} s; {self.from_cache} answered from the cache, {self.unanswered} without an answer"
        )


class Pace:
    """When requests may be made, by the rate of the options and by what a server asks for. Thread-safe."""

    def __init__(self, options: model_clients.JudgeOptions, clock: Callable[[], float]) -> None:
        self._requests, self._tokens = options.requests_per_minute, options.tokens_per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._next = self._held_until = 0.0

    def reserve(self, tokens: int, *, has_waited: bool = False) -> float:
        """Take the next place for a request of so many tokens; return in how many seconds that is.

        `has_waited`: the request is one that a server had asked to wait, and did.
        """
        taken = max(
            0.0 if self._requests is None else 60.0 / self._requests,
            0.0 if self._tokens is None else 60.0 * tokens / self._tokens,
        )
        now = self._clock()
        with self._lock:
            at = max(now, self._next, now if has_waited else self._held_until)
            self._next = at + taken
        return at - now

    def hold(self, seconds: float) -> None:
        """Let nobody ask for so long."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)


class Judge:
    """`tool_parameter_accuracy`: asks a model about each call, `score_sessions(None, sessions, metrics=[Judge(...)])`.

    A metric that blocks while the model is asked. In an event loop use `await judge.score(session)`.
    """

    name = judge.ACCURACY
    description = "The share of calls whose arguments a model finds faithful to the conversation."
    range = Range(0.0, 1.0)
    needs = frozenset(("context", "tool_definitions"))
    threshold = Fraction(1)

    def __init__(
        self,
        model: model_clients.ModelFunction | str | object = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        """Take the model: its name, or a function of a `Question`, sync or async; and the fields of `JudgeOptions`.

        Raises SettingsError if an option is wrong, or an API key or a library is missing.
        """
        given: Mapping[str, Any] = {"model": model, **options} if isinstance(model, str) else options
        self.options: model_clients.JudgeOptions = model_clients.judge_options(given)
        self.usage = JudgeUsage(self.options.budget, clock)
        """What was used so far."""
        self.metric = judge.ToolParameterAccuracy(
            self.ask,
            preset=self.options.preset,
            when=self.options.when,
            system_prompt=self.options.system_prompt,
            profile=Profile() if self.options.profile is None else load_profile(self.options.profile),
        )
        """What is asked, and what answers mean."""
        self._client: model_clients.ModelClient = model_clients.model_client(
            None if isinstance(model, str) else model, self.options
        )
        self._cache = AnswerCache(self.options.cache)
        self._sleep, self._clock, self._random = sleep, clock, random.Random()
        self._slots = threading.BoundedSemaphore(self.options.concurrency)
        self._lock = threading.Lock()
        self._pace = Pace(self.options, clock)
        self._failures, self._pauses, self._paused_until = 0, 0, 0.0

    @classmethod
    def from_file(cls, path: Path | str) -> Judge:
        """Make a judge of a file of options. Raises FileError and SettingsError."""
        return cls(**model_clients.load_judge_options(Path(path)).model_dump())

    def __call__(self, session: Session, _golden: object = None, /) -> MetricScore:
        """Judge every call of a session, rejected requests aside."""
        return self.metric(session)

    async def score(self, session: Session) -> MetricScore:
        """Judge a session without blocking the event loop."""
        return await asyncio.to_thread(self, session)

    def with_tools(self, tools: Mapping[str, Mapping[str, Any]]) -> Judge:
        """Return this judge with the schemas of all tools by name. Budget, usage and cache are shared."""
        told = copy(self)
        told.metric = replace(self.metric, tools=tools)
        return told

    def noting(self, note: Callable[[judge.NoAnswer], object]) -> Judge:
        """Return this judge, which also notes each question without an answer. Budget, usage and cache are shared."""
        noting = copy(self)

        def ask(questions: Sequence[judge.Question]) -> list[judge.JudgeAnswer | judge.NoAnswer]:
            answers = self.ask(questions)
            for one in answers:
                if isinstance(one, judge.NoAnswer):
                    note(one)
            return answers

        noting.metric = replace(self.metric, ask=ask)
        return noting

    @property
    def paused_seconds(self) -> float:
        """For how many seconds the model is not asked, since it gave no reply again and again."""
        return max(0.0, self._paused_until - self._clock())

    def ask(self, questions: Sequence[judge.Question]) -> list[judge.JudgeAnswer | judge.NoAnswer]:
        """Put questions to the model, several at a time; an answer for each, in order."""
        if not questions:
            return []
        with self.usage.waiting():
            if len(questions) == 1:
                return [self._answer(questions[0])]
            with ThreadPoolExecutor(min(self.options.concurrency, len(questions)), "goldspan judge") as threads:
                # In the caller's context, in which a door has suppressed instrumentation.
                futures = [threads.submit(copy_context().run, self._answer, one) for one in questions]
                return [future.result() for future in futures]

    def _answer(self, question: judge.Question) -> judge.JudgeAnswer | judge.NoAnswer:
        self.usage.add(questions=1)
        key = key_of(question, self._client.identity)
        if (kept := self._cache.get(key)) is not None:
            self.usage.add(from_cache=1)
            return kept
        found = self._asked(question)
        if isinstance(found, judge.JudgeAnswer):
            self._cache.put(key, found)
        else:
            self.usage.add(unanswered=1)
        return found

    def _asked(self, question: judge.Question) -> judge.JudgeAnswer | judge.NoAnswer:
        options, attempt, waited = self.options, 0, 0.0
        failure, has_waited = judge.NoAnswer("the model was not asked"), False
        while attempt < options.attempts:
            if self.paused_seconds:
                return judge.NoAnswer(
                    f"the model gave no reply to {_FAILURES_IN_A_ROW} questions, and is not asked for a while"
                )
            try:
                reply = self._reply(question, failure if attempt else None, has_waited=has_waited)
            except model_clients.ModelError as error:
                failure = judge.NoAnswer(error.message, error.detailed, final=not error.retry)
                if error.wait is None:
                    attempt += 1
                    pause = _FIRST_PAUSE * 2.0 ** (attempt - 1) * self._random.uniform(0.5, 1.0)
                else:
                    pause = error.wait  # the server is there: whoever comes later waits as well
                    self._pace.hold(pause)
                has_waited = error.wait is not None
                waited += pause
                if not error.retry or attempt >= options.attempts or waited > options.longest_wait:
                    break
                self._sleep(min(pause, self.usage.seconds_left))
                continue
            if isinstance(reply, judge.NoAnswer):
                return reply
            with self._lock:
                self._failures, self._pauses = 0, 0
            if (answer := judge.parse_answer(reply.content)) is not None:
                return answer
            said = reply.content if isinstance(reply.content, str) else ""
            wrong = "the model answers neither Yes nor No"
            failure = judge.NoAnswer(wrong, f"{wrong}: {said[:300]}", final=True)
            question = question.corrected(said)
            attempt += 1
        else:
            return failure
        self._failed()
        return failure

    def _reply(
        self, question: judge.Question, before: judge.NoAnswer | None, *, has_waited: bool
    ) -> model_clients.Reply | judge.NoAnswer:
        """Make one attempt, when the pace and the budget allow it. Raises ModelError."""
        usage = self.usage
        estimate = sum(len(one["content"]) for one in question.messages) // _CHARACTERS_A_TOKEN
        with self._slots:
            if pause := self._pace.reserve(estimate, has_waited=has_waited):
                self._sleep(pause)
            if used_up := usage.take(estimate):
                message = used_up if before is None else f"{used_up}; before: {before.message}"
                return judge.NoAnswer(message, final=self.options.budget.every is None)
            try:
                reply = self._client(question, min(self.options.timeout, max(usage.seconds_left, _SHORTEST)))
            except model_clients.ModelError:
                usage.add(tokens=-estimate)
                raise
        said = reply.content if isinstance(reply.content, str) else ""
        actual = estimate + len(said) // _CHARACTERS_A_TOKEN if reply.tokens is None else reply.tokens
        usage.add(tokens=actual - estimate)
        return reply

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= _FAILURES_IN_A_ROW:
                pause = min(_LONGEST_PAUSE, _PAUSE * 2.0**self._pauses)
                self._failures, self._paused_until = 0, self._clock() + pause
                self._pauses += 1
