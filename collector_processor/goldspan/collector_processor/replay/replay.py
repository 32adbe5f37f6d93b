"""Replay: recorded spans go through the engine as fast as they can be read, and give one result at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from msgspec.structs import replace

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.emit.evaluation import Evaluation, Events
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.result_revisions import score_later
from goldspan.collector_processor.engine.trace_machine import EngineSettings, EngineStats
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.protocol import Stack
from goldspan.mappers.span_facts import LogFacts, PlainSpanFacts, SpanFacts
from goldspan.mappers.spans import LogView, MarkedView, PlainSpans
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import Golden, GoldenIndex
from goldspan.scoring.goldens.golden import Ambiguous
from goldspan.scoring.metrics.session_metrics import ChosenMetric
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import Scorer, ScoringResult
from goldspan.scoring.sessions import NO_CONTENT, Session, Turn
from goldspan.scoring.verdict import MetricResult, MetricTurn, Reason

SPANS_A_SECOND = 1_000.0
"""The clock of a replay counts spans, so that the same files give the same results on any machine."""
QUIET_SPANS = 100_000
"""A session is scored, and its spans are dropped, after so many spans in a row that belong to other sessions."""

_SESSIONS_AT_ONCE = 16
_MOST_UNFINISHED = 200
"""Sessions that wait for a model while others are read: they are in memory with all that was said."""

Consumer = Callable[[Evaluation], object]
"""Takes each evaluation, to send it on or write it down."""


ReplayRecord = SpanFacts | LogFacts | Sequence[PlainSpanFacts]
"""What is read of a view."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found."""

    result: ScoringResult
    spans: int
    recognised: int
    """How many of the spans stand for an agent, a model call or a tool; if only by their shape, how many sessions."""
    stacks: frozenset[tuple[str, Stack]] = frozenset()
    """What may have written the spans, each with a dialect that knows it."""


def replay(
    views: Iterable[MarkedView],
    goldens: GoldenIndex,
    registry: DialectRegistry,
    *,
    problems: list[Problem],
    consumers: Sequence[Consumer] = (),
    quiet_spans: int = QUIET_SPANS,
    scorer: Scorer | None = None,
    events: Events = Events.FINDINGS,
) -> Replay:
    """Score recorded spans, and the log records beside them, in the order they come.

    Memory is bounded by the spans of sessions that are still active and by the results. `problems` is the list that the
    reader of `views` adds to; what the engine finds is added too. Every consumer is given each evaluation as it is
    handed out; `events` says which of them have an event. `scorer` says what is asked for beside the goldens: a preset,
    metrics.
    """
    scorer = scorer or Scorer(run=MetricWorkers())
    later = _LaterMetrics(scorer.later)
    content = scorer.reads_content(goldens.goldens)
    scoring = RecordScoring(goldens, scorer, quiet_spans, consumers, events)
    recognised = 0
    with later:
        scoring.on_session = later.put
        for read, record in _read_records(views, registry, goldens, content=content):
            recognised += isinstance(record, SpanFacts) and record.role is not None
            scoring.feed(record, read)
        scoring.end()
        for key, metrics, evaluations in later.results():
            scoring.results[key] = replace(scoring.results[key], metrics=(*scoring.results[key].metrics, *metrics))
            for evaluation in evaluations:
                for consumer in consumers:
                    consumer(evaluation)
    for problem in problems_of(scoring.problems, [scoring.stats], quiet_spans):
        problems.append(problem)  # noqa: PERF402 - the list may keep some and count the rest
    return Replay(
        run_result(list(scoring.results.values()), goldens, problems),
        scoring.read,
        recognised or len(scoring.results),
        registry.stacks(),
    )


def _read_records(
    views: Iterable[MarkedView], registry: DialectRegistry, goldens: GoldenIndex, *, content: bool
) -> Iterator[tuple[int, ReplayRecord]]:
    """Yield what the views hold for the engine, each with the number of spans read until then.

    Content is read at once where most spans that name a session name one that a golden wants.
    """
    read = named = wanted = 0
    for view in views:
        if isinstance(view, LogView):
            if (log := registry.read_log(view, content=content)) is not None:
                yield read, log
        elif isinstance(view, PlainSpans):
            read += len(view)
            yield read, list(registry.skeletons(view))
        else:
            read += 1
            fact = registry.read(view, content=content, defer=2 * wanted <= named)
            if fact.session_keys:
                named += 1
                wanted += goldens.wants(fact.session_keys[0][1])
            yield read, fact


class RecordScoring:
    """An engine whose clock counts the spans that a replay has read, in this process or another."""

    def __init__(
        self,
        goldens: GoldenIndex,
        scorer: Scorer,
        quiet_spans: int,
        consumers: Sequence[Consumer] = (),
        events: Events = Events.FINDINGS,
    ) -> None:
        """Start without records. Every consumer is given each evaluation."""
        self._goldens = goldens
        self._engine = Engine(goldens, _settings(quiet_spans, scorer, events, emits=bool(consumers)))
        self._consumers = consumers
        self.stats = self._engine.stats
        self.problems: list[Problem] = []
        self._poll_every = self._next_poll = max(quiet_spans // 10, 1)
        self.on_session: Callable[[SessionResult, Session], object] | None = None
        """Called with each complete run that is scored; a later result of it replaces an earlier one."""
        self.results: dict[tuple[str, str], SessionResult] = {}
        """The newest result of each run, by session id and run."""
        self.read = 0
        """How many spans were read."""

    def feed(self, record: ReplayRecord, read: int) -> None:
        """Feed a record; `read` is the number of spans that were read until then, never less than before."""
        self.advance(read)
        now = read / SPANS_A_SECOND
        if isinstance(record, SpanFacts):
            self._engine.feed(record, now)
        elif isinstance(record, LogFacts):
            self._engine.feed_log(record, now)
        else:
            self._engine.feed_plain(record, now)

    def advance(self, read: int) -> None:
        """Note that so many spans were read.

        The engine is polled at fixed counts, so that what it does does not depend on whose records it is fed.
        """
        self.read = read
        while read >= self._next_poll:
            self._take(self._engine.poll(self._next_poll / SPANS_A_SECOND))
            self._next_poll += self._poll_every

    def end(self) -> None:
        """Score what is left, at the end of the input."""
        self._take(self._engine.flush(self.read / SPANS_A_SECOND, end_of_input=True))

    def _take(self, output: EngineOutput) -> None:
        for result in output.sessions:
            if result.session is not None:
                self.results[result.session.id, result.session.run] = _slim(result, result.session)
                judged = result.golden is not None or self._goldens.samples_run(result.session)
                if judged and self.on_session is not None:
                    self.on_session(result, result.session)
        self.problems.extend(output.problems)
        for evaluation in output.evaluations:
            for consumer in self._consumers:
                consumer(evaluation)


class _LaterMetrics:
    """Scores the metrics of `Scorer.later`, which may wait for a model, for several sessions while others are read."""

    def __init__(self, chosen: Sequence[ChosenMetric]) -> None:
        self._chosen = chosen
        self._threads = ThreadPoolExecutor(_SESSIONS_AT_ONCE, "goldspan later")
        self._unfinished = deque[Future[_Scored]]()
        self._scored: dict[_Key, Future[_Scored]] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def put(self, result: SessionResult, session: Session) -> None:
        """Queue a complete run; a later result of the same session and run replaces an earlier one."""
        if not self._chosen:
            return
        if len(self._unfinished) >= _MOST_UNFINISHED:
            self._unfinished.popleft().exception()
        future = self._threads.submit(copy_context().run, _score_later, result, self._chosen)
        self._unfinished.append(future)
        self._scored[session.id, session.run] = future

    def results(self) -> Iterator[tuple[_Key, Sequence[MetricResult], Sequence[Evaluation]]]:
        """Yield what was scored, in the order in which sessions came; waits for it."""
        for key, future in self._scored.items():
            yield key, *future.result()


_Key = tuple[str, str]
_Scored = tuple[Sequence[MetricResult], Sequence[Evaluation]]


def _score_later(result: SessionResult, chosen: Sequence[ChosenMetric]) -> _Scored:
    metrics, evaluations = score_later(result, chosen)
    return metrics if result.golden is not None else tuple(map(_slim_metric, metrics)), evaluations


def _slim(result: SessionResult, session: Session) -> SessionResult:
    """Keep of a session without a golden when it was, and what metrics say: there may be any number of them."""
    if result.golden is not None or result.verdict.reason is not Reason.NO_GOLDEN:
        return result
    last = session.turns[-1] if session.turns else Turn()
    return replace(
        result,
        session=replace(session, turns=(Turn(root=last.root, start=session.start, end=last.end),)),
        metrics=tuple(map(_slim_metric, result.metrics)),
    )


def _slim_metric(metric: MetricResult) -> MetricResult:
    return replace(metric, turns=tuple(map(_slim_turn, metric.turns)))


def _slim_turn(turn: MetricTurn) -> MetricTurn:
    """Keep of each call what reports and tables say of it, which is neither its result nor the messages around it."""
    calls = tuple(
        replace(one, call=replace(one.call, result=NO_CONTENT, raw_arguments=NO_CONTENT)) for one in turn.calls
    )
    made = turn.turn
    kept = None if made is None else Turn(root=made.root, start=made.start, end=made.end, agent=made.agent)
    return replace(turn, turn=kept, calls=calls)


def _settings(quiet_spans: int, scorer: Scorer, events: Events, *, emits: bool) -> EngineSettings:
    quiet = quiet_spans / SPANS_A_SECOND
    return EngineSettings(
        settle=quiet,
        hold_timeout=quiet,
        caller_timeout=quiet,
        run_idle=quiet,
        retention=quiet,
        trace_retention=quiet,
        tombstone_ttl=100 * quiet,
        max_spans=_most_spans(quiet_spans),
        holds=False,
        events=events,
        emits=emits,
        report_unmatched=True,
        scorer=scorer,
    )


def problems_of(found: Iterable[Problem], stats: Sequence[EngineStats], quiet_spans: int) -> list[Problem]:
    """Return the problems that engines found and counted, in an order that does not depend on their number."""
    problems = sorted(found, key=lambda problem: (problem.code, problem.source, problem.message))
    if evicted := sum(one.evicted_sessions for one in stats):
        message = (
            f"{evicted} sessions were scored before all of their spans were read, since more than "
            f"{_most_spans(quiet_spans):,} spans were open at once; sort the input by time, or score it in parts"
        )
        problems.append(Problem("evicted", message))
    if late := sum(one.late for one in stats):
        message = (
            f"{late} records came more than {quiet_spans:,} spans after the rest of their session and were left "
            "out; sort the input by time"
        )
        problems.append(Problem("late", message))
    return problems


def _most_spans(quiet_spans: int) -> int:
    return 5 * quiet_spans


def run_result(results: Sequence[SessionResult], goldens: GoldenIndex, problems: Sequence[Problem]) -> ScoringResult:
    """Return the result of a run from those of its sessions, in any order."""
    seen = [golden for result in results for golden in _goldens_of(result, goldens)]
    ordered = sorted(results, key=_place)
    return ScoringResult(
        sessions=tuple(ordered),
        never_seen=goldens.never_seen(seen),
        problems=tuple(problems),
        golden_sets={one.label: one.digest for one in goldens.sets},
    )


def _goldens_of(result: SessionResult, goldens: GoldenIndex) -> tuple[Golden, ...]:
    """Return the goldens that wanted this session, also where none of several could be chosen."""
    if result.golden is not None:
        return (result.golden,)
    found = None if result.session is None else goldens.find(result.session)
    return found.goldens if isinstance(found, Ambiguous) else ()


def _place(result: SessionResult) -> tuple[bool, int, str, str]:
    """Put sessions with a golden first, each part in the order of time, whatever the order of the files."""
    session = result.session
    if session is None:
        return True, 0, "", ""
    return result.golden is None, session.start, session.id, session.run
