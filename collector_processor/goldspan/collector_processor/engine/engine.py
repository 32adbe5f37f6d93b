"""The engine: it is fed spans, log records and the time, and gives evaluations. It does no I/O.

    feed            de-duplicate by trace and span id, and keep the record in its trace
    poll, flush     which turns of which traces are complete? -> add them to their sessions -> score the sessions
    later           score quiet sessions as a whole, then drop their state and leave tombstones

It reads no clock, file, environment or network. Its law: *the newest revisions of a run's results depend only on its
set of records, never on their order, batching, repetition, timing or door, wherever no bound was hit.* Time decides
when a result is given and when state is dropped, never what the result is.

Outside the law are results marked `incomplete`, revision numbers, and spans that come after their run was dropped: they
are counted as late, since there is nothing left to correct.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from goldspan.collector_processor.daemon_threads import SideThread
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.engine_state import MemoryStore, TraceState
from goldspan.collector_processor.engine.reading_and_holding import SessionsWithoutGolden
from goldspan.collector_processor.engine.session_scorer import (
    OutputBuilder,
    PartOf,
    SessionScorer,
    SessionState,
    SessionStep,
    next_step,
)
from goldspan.collector_processor.engine.trace_machine import (
    EngineSettings,
    EngineStats,
    SessionPart,
    TraceMachine,
    is_root,
)
from goldspan.mappers.assembly.trace_reading import without_ids
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import LogFacts, PlainSpanFacts, Record, SpanFacts, content_size
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import SpanRef

AT_ONCE = 128
"""Traces and sessions that a door lets an engine judge at once: between them it passes on what came meanwhile."""
_ONE = 100  # a trace with so many records, or a session with so many results, is judged in the time of two small ones
_PAUSE = 0.05  # seconds after which what waits for a large session is looked at again


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """What one call of `poll` or `flush` gives."""

    evaluations: tuple[Evaluation, ...] = ()
    final: tuple[Evaluation, ...] = ()
    """Results of complete runs that were not final before: what counters count."""
    superseded: tuple[Evaluation, ...] = ()
    """Results that were in `final` and do not hold any longer."""
    released: frozenset[SpanRef] = frozenset()
    """Held spans that need not wait any longer: their evaluations, if any, are in this output or an earlier one.

    The door itself releases those that have waited for `hold_timeout`, also while the engine judges.
    """
    sessions: tuple[SessionResult, ...] = ()
    """Complete runs, for reports; a later result of the same session and run replaces an earlier one."""
    problems: tuple[Problem, ...] = ()


class Engine:
    """De-duplication, completion, assembly and scoring of the spans of one tenant. Not thread-safe."""

    def __init__(
        self, goldens: GoldenIndex, settings: EngineSettings | None = None, store: MemoryStore | None = None
    ) -> None:
        """Score against these goldens. With a `store` that is not empty, continue where its engine stopped."""
        self.goldens = goldens
        self.settings = settings or EngineSettings()
        self.stats = EngineStats()
        self._store: MemoryStore = store if store is not None else MemoryStore()
        self._machine = TraceMachine(goldens, self.settings)
        self._scorer = SessionScorer(goldens, self.settings, self.stats)
        self._now = 0.0
        self._records = 0
        self._content = 0
        self._due: list[tuple[float, int, str, str]] = []
        self._sequence = 0
        self._without_ids = 0
        """Spans without ids so far: each has a number of its own, also after those before it were dropped."""
        self._new_roots: dict[str, None] = {}
        self._held: set[SpanRef] = set()
        self._pending = OutputBuilder()
        self._to_score: dict[str, set[SpanRef]] = {}
        """Sessions whose turns changed and that wait for another large one, with their spans that wait, too."""
        self.side = SideThread()
        """Where large sessions are judged, for doors that go on meanwhile."""

    # Input.

    def feed_log(self, fact: LogFacts, now: float) -> None:
        """Feed one log record; a record without a trace id is ignored."""
        now = self._tick(now)
        if not fact.trace_id or self._is_dropped(fact.trace_id, fact.identity):
            return
        trace = self._open(fact.trace_id, now)
        if trace.lost and not trace.spans:
            self.stats.late += 1  # the span that it belongs to may be among the dropped ones; it may also still come
        if trace.add(fact):
            self._changed(trace, now, 1, self._content_of(fact))
        self._evict_excess(now)

    def feed(self, fact: SpanFacts, now: float) -> bool:
        """Feed one span. True: a door that writes scores on spans should hold it until an output releases it."""
        now = self._tick(now)
        self.stats.spans += 1
        if fact.lost and not fact.trace_id:
            self._note_lost_span(fact)
            return False
        if not (fact.trace_id and fact.span_id):
            fact = without_ids(fact, self._without_ids)
            self._without_ids += 1
        for note in fact.notes:
            self.feed_log(note, now)
        if self._is_dropped(fact.trace_id, fact.span_id):  # a plain span too: it may join an agent to its tool
            return False
        trace = self._open(fact.trace_id, now)
        old = trace.spans.get(fact.span_id)
        if not trace.add(fact):
            self.stats.repeated += 1
            return False
        content = 0 if self.settings.max_content is None else self._content_of(fact, old)
        self._changed(trace, now, old is None and not fact.lost, content)
        if not self.settings.holds:
            self._evict_excess(now)
            return False
        hold = self._holds(trace, fact)
        self._evict_excess(now)
        return hold

    def _holds(self, trace: TraceState, fact: SpanFacts) -> bool:
        root = is_root(fact)
        if root and (trace.recognised or fact.session_keys):
            self._new_roots[trace.trace_id] = None
        hold = self._machine.may_get_score(trace, fact, root=root)
        if hold and fact.ref not in self._held:
            self._held.add(fact.ref)
            trace.held.append(fact.ref)
        return hold

    def _note_lost_span(self, fact: SpanFacts) -> None:
        """Note that a session lacks a span, whatever its trace."""
        for _, session_id in fact.session_keys[:1]:
            if not self._store.lost_calls(session_id):
                self._store.note_loss(session_id, calls=True)
                self._to_score.setdefault(session_id, set())

    def feed_plain(self, groups: Iterable[PlainSpanFacts], now: float) -> None:
        """Feed plain spans, each group of one trace; all of them have ids."""
        now = self._tick(now)
        store = self._store
        for plain in groups:
            count = len(plain.undecoded)
            self.stats.spans += count
            trace = store.trace(plain.trace_id)
            if trace is not None:
                trace.add(plain)
                self._changed(trace, now, count)
            elif store.tombstone_has(plain.trace_id, "") is None:
                store.add_plain(plain, now)
                self._records += count
            else:
                repeated = sum(store.tombstone_has(plain.trace_id, span_id) is True for span_id in plain.ids())
                self.stats.repeated += repeated
                self.stats.late += count - repeated
        self._evict_excess(now)

    # Time.

    def poll(self, now: float, most: int | None = None, *, large: bool = True) -> EngineOutput:
        """Return what is due at this time, the earliest first.

        With `most`, of at most so many traces and sessions; one with many records counts as several, and one that is
        large comes alone. Without `large`, or while one is judged in the side thread, these wait.
        """
        now = self._tick(now)
        self.side.may_start = large
        self._records -= self._store.drop_plain(now - self.settings.trace_retention)
        output = OutputBuilder()
        self._release_unwanted(output)
        done = 0
        while self._due and self._due[0][0] <= now and (most is None or done < most):
            when, _, kind, key = heapq.heappop(self._due)
            state = self._store.trace(key) if kind == "trace" else self._store.session(key)
            if state is None or state.due != when:
                continue
            state.due = None
            is_large = self._is_large(state, now)
            if self._must_wait(state, is_large=is_large):
                self._check_at(state, now + _PAUSE)
                continue
            if is_large and done and most is not None:
                self._check_at(state, when)
                break
            if isinstance(state, TraceState):
                done += 1 + state.size // _ONE
                self._complete_trace(state, now, output)
            else:
                done += 1 + len(state.results) // _ONE
                self._advance_session(state, now, output)
            if is_large and most is not None:
                break
        for session_id in [*dict.fromkeys((*self._to_score, *output.touched))]:
            waited = self._to_score.pop(session_id, set())
            if self._score(session_id, output, aside=True):
                output.released |= waited
            else:
                self._to_score[session_id] = waited | self._held_back(session_id, output)
        return self._output(output)

    def flush(self, now: float, *, end_of_input: bool = False) -> EngineOutput:
        """Score every turn whose root has ended, without waiting; with `end_of_input` everything there is.

        Not to be called while the side thread is busy.
        A run is scored as complete at the end of input, or if every turn of its golden was seen. So a flush in the
        middle of a conversation does not report later turns as missing.
        """
        now = self._tick(now)
        output = OutputBuilder()
        for trace in self._store.unsettled():
            self._complete_trace(trace, now, output, at_once=True, end_of_input=end_of_input)
        output.touched.update(dict.fromkeys(self._to_score))
        self._to_score.clear()
        sessions = [session.id for session in self._store.sessions()] if end_of_input else output.touched
        for session_id in sessions:
            self._score(session_id, output, flushed=True, complete=end_of_input)
        output.released.update(self._held)
        return self._output(output)

    def deadline(self) -> float | None:
        """Return when `poll` will have something to do, or None."""
        times = [self._due[0][0]] if self._due else []
        if self._new_roots or self._pending.released or (self._to_score and not self.side.is_busy):
            times.append(self._now)
        return min(times, default=None)

    @property
    def without_golden(self) -> SessionsWithoutGolden:
        """The sessions that were counted as `stats.sessions_without_golden`."""
        return self._scorer.without_golden

    def count_unmatched(self, session_id: str, source: str) -> None:
        """Count a session without golden, of which the door feeds nothing. `source`: the attribute that names it."""
        self._scorer.count_unmatched(session_id, source)

    def restore_session(self, session: SessionState, now: float) -> None:
        """Restore the results of a session after a restart; feed its records again, too."""
        now = self._tick(now)
        self._store.add_session(session)
        self._check_at(session, now + self.settings.run_idle)

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Score by these goldens from now on. The results of a session stay until a new record comes for it."""
        self.goldens = self._machine.goldens = self._scorer.goldens = goldens

    # Records in memory.

    def _is_dropped(self, trace_id: str, identity: str) -> bool:
        """Tell whether a trace was dropped, and count the record that came for it."""
        repeated = self._store.tombstone_has(trace_id, identity)
        if repeated is None:
            return False
        self.stats.repeated += repeated
        self.stats.late += not repeated
        return True

    def _open(self, trace_id: str, now: float) -> TraceState:
        trace = self._store.trace(trace_id)
        if trace is None:
            trace = TraceState(trace_id, now, lost=self._store.lost_calls(trace_id))
            for plain in self._store.take_plain(trace_id):
                trace.add(plain)
            self._store.add_trace(trace)
        return trace

    def _changed(self, trace: TraceState, now: float, records: int, content: int = 0) -> None:
        """Note that so many records, with so much content, came for a trace."""
        self._records += records
        self._content += content
        trace.content += content
        trace.has_news = True
        trace.last = now
        self._store.touch_trace(trace.trace_id)
        self._check_at(trace, now + self.settings.settle)

    def _content_of(self, record: Record, replaced: Record | None = None) -> int:
        """Return how much content a record adds, where it is limited."""
        if self.settings.max_content is None:
            return 0
        return content_size(record) - (0 if replaced is None else content_size(replaced))

    def _tick(self, now: float) -> float:
        """Return the time; it never goes back, whatever the door's clock does."""
        self._now = max(self._now, now)
        return self._now

    def _check_at(self, state: TraceState | SessionState, when: float) -> None:
        if state.due is None or state.due > when:
            state.due = when
            self._sequence += 1
            kind, key = ("trace", state.trace_id) if isinstance(state, TraceState) else ("session", state.id)
            heapq.heappush(self._due, (when, self._sequence, kind, key))

    # Large traces and sessions.

    def _is_large(self, state: TraceState | SessionState, now: float) -> bool:
        """Tell whether to read a trace, or to score a session as complete, may take long."""
        if isinstance(state, TraceState):
            settled = state.last + self.settings.settle <= now
            return state.size >= self.side.large and state.fragments is None and settled
        return len(state.results) >= self.side.large and not state.is_scored

    def _must_wait(self, state: TraceState | SessionState, *, is_large: bool) -> bool:
        """Tell whether a state must wait: for what the side thread works on, or for a caller that has such a thread."""
        side = self.side
        if side.go_on is None or not side.is_busy:
            return side.go_on is not None and is_large and not side.may_start
        if isinstance(state, TraceState):
            return is_large or not side.subjects.isdisjoint((state.trace_id, *state.session_ids, *state.by_session))
        return is_large or state.is_scored or state.id in side.subjects

    def _held_back(self, session_id: str, output: OutputBuilder) -> set[SpanRef]:
        """Take the spans of a session that is not scored yet from those that are released, and return them."""
        session = self._store.session(session_id)
        traces = [self._store.trace(trace_id) for trace_id in (() if session is None else session.changed)]
        spans = OutputBuilder()
        for trace in traces:
            spans.release(() if trace is None else trace.by_session.get(session_id, ()))
        back = spans.released & output.released
        output.released -= back
        return back

    # Held spans.

    def _output(self, output: OutputBuilder) -> EngineOutput:
        earlier, self._pending = self._pending, OutputBuilder()
        released = (output.released | earlier.released) & self._held
        self._held -= released
        return EngineOutput(
            evaluations=(*earlier.evaluations, *output.evaluations),
            final=(*earlier.final, *output.final),
            superseded=(*earlier.superseded, *output.superseded),
            released=frozenset(released),
            sessions=(*earlier.sessions, *output.sessions),
            problems=(*earlier.problems, *output.problems),
        )

    def _release_all(self, trace: TraceState, output: OutputBuilder) -> None:
        output.released.update(trace.held)
        trace.held.clear()

    def _release_unwanted(self, output: OutputBuilder) -> None:
        """Release the held spans of traces whose root came, where it is known now that no golden wants them."""
        roots, self._new_roots = self._new_roots, {}
        for trace_id in roots:
            trace = self._store.trace(trace_id)
            if trace is None:
                continue
            if not self._machine.may_matter(trace):
                self._release_all(trace, output)
            elif len(trace.session_ids) > 1 and trace.size < self.side.large:  # else once it is read
                fragments = self._fragments(trace)
                output.release(fragment for fragment in fragments if not self._machine.may_be_wanted(fragment))

    # Traces.

    def _fragments(self, trace: TraceState) -> list[Fragment]:
        return self._machine.fragments(trace, self._on_problem)

    def _on_problem(self, problem: Problem) -> None:
        self._pending.problems.append(problem)

    def _complete_trace(
        self, trace: TraceState, now: float, output: OutputBuilder, *, at_once: bool = False, end_of_input: bool = False
    ) -> None:
        """Add the complete turns of a trace to their sessions, and decide when to check the trace again."""
        check = partial(self._machine.check, trace, now, self._on_problem, has_turns=bool(trace.ready))
        had_news, trace.has_news = trace.has_news, False
        if at_once:
            turns, again = check(at_once=True, end_of_input=end_of_input)
        else:
            size = trace.size if self._is_large(trace, now) else 0
            turns, again = self.side.run(size, (trace.trace_id,), check)
        if news_since := trace.has_news:  # records that came while the side thread read it
            trace.fragments = None
        if turns is None:
            trace.has_news = had_news or news_since
        elif turns != trace.ready or (turns and had_news):
            output.touched.update(dict.fromkeys(trace.by_session))
            new = self._set_ready(trace, turns, now)
            output.touched.update(dict.fromkeys(trace.by_session))
            if self.settings.holds:
                output.release(new)
        if again is not None:
            self._check_at(trace, again)
        if again is not None or news_since:
            return
        self._store.settle_trace(trace.trace_id)
        self._release_all(trace, output)
        if turns is None and (unmatched := trace.unmatched()) is not None:
            self._scorer.count_unmatched(*unmatched)
        reported = self.settings.report_unmatched and trace.ready  # its session is dropped whole, as a wanted one is
        if not reported and not any(map(self.goldens.wants, trace.by_session)):
            self._drop_unwanted_trace(trace, now, output)

    def _drop_unwanted_trace(self, trace: TraceState, now: float, output: OutputBuilder) -> None:
        """Drop a quiet trace that no golden wants; it needs no tombstone, as it has no results."""
        logs_only = self._machine.has_logs_only(trace, trace.ready)
        quiet_at = self._machine.kept_until(trace, wanted=logs_only)
        if now < quiet_at:
            self._check_at(trace, quiet_at)
            return
        self._forget_size(trace)
        if logs_only:
            self._store.drop_with_tombstone(trace.trace_id, now)
            return
        for session_id in trace.by_session:
            session = self._store.session(session_id)
            if session is not None:
                self._score(session_id, output, complete=True)
                session.set_part(trace.trace_id, has_turns=False)
                if not session.traces:
                    self._store.drop_session(session_id)
        self._store.drop_trace(trace.trace_id)

    def _set_ready(self, trace: TraceState, ready: list[Fragment], now: float) -> list[Fragment]:
        """Add the complete turns of a trace to their sessions, in place of those before; return the new ones."""
        before = list(trace.by_session)
        new = trace.set_ready(ready)
        for session_id in before:
            session = None if session_id in trace.by_session else self._store.session(session_id)
            if session is not None:  # the trace does not belong to it any longer, by its newer spans
                session.set_part(trace.trace_id, has_turns=False)
        for session_id, fragments in trace.by_session.items():
            session = self._store.session(session_id)
            if session is None:
                session = SessionState(session_id, last=now)
                self._store.add_session(session)
            late = self._scorer.late_fragments(fragments, session)
            self.stats.late += sum(len(fragment.spans) for fragment in late)
            if len(late) < len(fragments):
                session.set_part(trace.trace_id, has_turns=True)
                session.grow(now)
                self._check_at(session, now + self.settings.run_idle)
        return new

    # Sessions.

    def _part(self, session_id: str, trace_id: str) -> SessionPart | None:
        trace = self._store.trace(trace_id)
        return None if trace is None else trace.part(session_id)

    def _score(
        self,
        session_id: str,
        output: OutputBuilder,
        *,
        complete: bool = False,
        flushed: bool = False,
        incomplete: bool = False,
        aside: bool = False,
    ) -> bool:
        """Score a session: `aside`, in the side thread if it is large. False: that has to wait."""
        session = self._store.session(session_id)
        if session is None:
            return True
        if aside and self.side.is_busy and session_id in self.side.subjects:
            return False
        part_of: PartOf = partial(self._part, session_id)
        size, traces = 0, list[TraceState]()
        if aside and self.side.go_on is not None and self.goldens.wants(session_id):
            changed = session.changed if session.kept is not None and session.kept.build else session.traces
            traces = [trace for trace_id in changed if (trace := self._store.trace(trace_id)) is not None]
            size = max(sum(trace.size for trace in traces), len(session.results) if complete else 0)
        if size >= self.side.large and aside:
            if self.side.is_busy or not self.side.may_start:
                return False
            part_of = {trace.trace_id: self._part(session_id, trace.trace_id) for trace in traces}.get
        incomplete = incomplete or bool(self._store.lost_calls(session_id))
        flags = {"complete": complete, "flushed": flushed, "incomplete": incomplete}
        self.side.run(size, (session_id,), partial(self._scorer.score, session, part_of, output, **flags))
        return True

    def _advance_session(self, session: SessionState, now: float, output: OutputBuilder) -> None:
        """Score the runs of a quiet session; later drop its traces; later forget it."""
        step, again = next_step(session, now, self.settings)
        if step is SessionStep.FORGET:
            self._store.drop_session(session.id)
            self._store.expire(now - self.settings.tombstone_ttl)
            return
        if step is SessionStep.SCORE:
            again = again if self._score(session.id, output, complete=True, aside=True) else now + _PAUSE
        elif step is SessionStep.DROP:
            group = self._sharing_traces([session.id])
            again = max(member.last for member in group) + self.settings.retention
            if again <= now:
                self._drop_sessions(group, now)
                return
        self._check_at(session, again)

    def _drop_sessions(self, sessions: list[SessionState], now: float) -> None:
        """Drop the traces of these sessions; records that come for their runs later are late."""
        traces = {session.id: list(session.traces) for session in sessions}
        for session in sessions:
            parts = [self._part(session.id, trace_id) for trace_id in session.traces]
            fragments = chain.from_iterable(part.fragments for part in parts if part is not None)
            session.drop_runs(fragments, self.settings.assembly.session_gap_ns)
            self._check_at(session, now + self.settings.tombstone_ttl)
        for trace_id in dict.fromkeys(chain.from_iterable(traces.values())):
            trace = self._store.trace(trace_id)
            if trace is not None:
                self._forget_size(trace)
                self._release_all(trace, self._pending)
                self._store.drop_with_tombstone(trace_id, now)

    def _evict_excess(self, now: float) -> None:
        """Beyond the limits, drop the least recently active sessions, and those that share traces with them.

        A session that was not scored as complete is scored as incomplete. Held spans are released with the next output.
        """
        if not self._exceeds_limits() or self.side.is_busy:
            return
        self._records -= self._store.drop_plain(0, self._records - self.settings.max_spans)
        while self._exceeds_limits() and (oldest := next(self._store.traces(), None)) is not None:
            self._evict(oldest, now)

    def _exceeds_limits(self) -> bool:
        most = self.settings.max_content
        return self._records > self.settings.max_spans or (most is not None and self._content > most)

    def _evict(self, oldest: TraceState, now: float) -> None:
        group: list[SessionState] = []
        unread = [oldest]
        while unread:  # what came for any trace that is dropped counts
            for trace in unread:
                trace.has_news = False
                fragments = self._fragments(trace)
                if trace.ready != fragments:
                    self._set_ready(trace, fragments, now)
            group = self._sharing_traces(list(oldest.by_session))
            traces = (self._store.trace(trace_id) for session in group for trace_id in session.traces)
            unread = [trace for trace in traces if trace is not None and trace.has_news]
        for session in group:
            if not session.is_scored:
                self.stats.evicted_sessions += self.goldens.wants(session.id)
                self._score(session.id, self._pending, complete=True, incomplete=True)
        self._drop_sessions(group, now)
        left = self._store.trace(oldest.trace_id)
        if left is not None:  # it belongs to no session, or only to runs that were dropped
            self._forget_size(left)
            self._release_all(left, self._pending)
            self._store.drop_trace(left.trace_id)

    def _forget_size(self, trace: TraceState) -> None:
        self._records -= trace.size
        self._content -= trace.content

    def _sharing_traces(self, session_ids: list[str]) -> list[SessionState]:
        """Return these sessions and all that share a trace with them, since traces are dropped whole."""
        group: dict[str, SessionState] = {}
        pending = list(session_ids)
        while pending:
            session = self._store.session(pending.pop())
            if session is None or session.id in group:
                continue
            group[session.id] = session
            traces = [self._store.trace(trace_id) for trace_id in session.traces]
            pending += [other for trace in traces if trace is not None for other in trace.by_session]
        return list(group.values())
