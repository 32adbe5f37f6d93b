"""The sans-IO core of every door: fed span facts and a time, it hands back evaluations.

It reads no clock, file, environment or network. The law it holds: *the newest revisions of a run's results depend only
on its set of records, never on their order, batching, repetition, timing or door, wherever no bound was hit.* Time
decides when a result is handed out and when state is dropped, never what it is. That is so because nothing is ever
updated in place: what is kept is a set of spans, and every result is a pure function of that set.

Outside the law are results marked `incomplete`, revision numbers, and what came after a run was dropped: those spans
are counted as late, since nothing is left to correct.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.judge import Judge, OutputBuilder
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import MemoryStore, SessionState, Store, TraceState
from goldspan.mappers.assembly import Fragment, read_trace
from goldspan.mappers.assembly.deduplication import newer_version, without_ids
from goldspan.mappers.facts import LogFacts, PlainSpanFacts, Role, SpanFacts
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden_index import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import SpanRef


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """What one step of the engine gives to its door."""

    evaluations: tuple[Evaluation, ...] = ()
    released: frozenset[SpanRef] = frozenset()
    """Spans that wait for nothing any more: their evaluations, if there are any, are in this or an earlier handout."""
    sessions: tuple[SessionResult, ...] = ()
    """Runs handed out in this step, for reports; a later one of the same session and run replaces the earlier."""
    problems: tuple[Problem, ...] = ()


class Engine:
    """Owns de-duplication, assembly, completion, joining and scoring. Not thread-safe: a door locks around it."""

    def __init__(
        self, goldens: GoldenIndex, settings: EngineSettings | None = None, store: Store | None = None
    ) -> None:
        """Score against these goldens. A `store` that is not empty continues where its engine stopped."""
        self.goldens = goldens
        self.settings = settings or EngineSettings()
        self.stats = EngineStats()
        self._store: Store = store if store is not None else MemoryStore()
        self._judge = Judge(goldens, self.settings, self.stats, self._store)
        self._now = 0.0
        self._kept = 0
        self._due: list[tuple[float, int, str, str]] = []
        self._pushed = 0
        self._glances: dict[str, None] = {}
        self._held: dict[SpanRef, float] = {}
        self._pending = OutputBuilder()

    def feed_log(self, fact: LogFacts, now: float) -> None:
        """Take in one log record; what belongs to no trace cannot be joined to anything."""
        now = self._tick(now)
        if not fact.trace_id:
            return
        buried = self._store.is_buried(fact.trace_id, fact.identity)
        if buried is not None:
            self.stats.repeated += buried
            self.stats.late += not buried
            return
        trace = self._open(fact.trace_id, now)
        if trace.lost_calls and not trace.spans:
            self.stats.late += 1  # what it speaks of may be among what was forgotten; it may also still come
        if fact.identity not in trace.logs:
            trace.logs[fact.identity] = fact
            trace.session_ids.update((session_id, None) for _, session_id in fact.session_keys)
            self._kept += 1
            self._changed(trace, now)
        if self._kept > self.settings.max_spans:
            self._evict(now)

    def feed(self, fact: SpanFacts, now: float) -> bool:
        """Take in one span. True: a door that stamps attributes should hold it until a handout releases it."""
        now = self._tick(now)
        self.stats.spans += 1
        if not (fact.trace_id and fact.span_id):
            nameless = self._store.trace("")
            fact = without_ids(fact, len(nameless.spans) if nameless is not None else 0)
        for note in fact.notes:
            self.feed_log(note, now)
        buried = self._store.is_buried(fact.trace_id, fact.span_id)
        if buried is not None:
            if buried:
                self.stats.repeated += 1
            elif fact.role is not None:
                self.stats.late += 1
            return False
        trace = self._open(fact.trace_id, now)
        old = trace.spans.get(fact.span_id)
        if newer_version(old, fact) is old:
            self.stats.repeated += 1
            return False
        if old is None:
            self._kept += 1
            trace.recognised += fact.role is not None
        trace.spans[fact.span_id] = fact
        for _, session_id in (*fact.session_keys, *fact.resource.session_keys):
            trace.session_ids[session_id] = None
        trace.rooted = trace.rooted or not fact.parent_id or fact.entry
        self._changed(trace, now)
        hold = self._holds(trace, fact)
        if hold:
            ref = fact.ref
            self._held[ref] = now
            trace.held.append(ref)
        if self._kept > self.settings.max_spans:
            self._evict(now)
        return hold

    def feed_plain(self, plain: PlainSpanFacts, now: float) -> None:
        """Take in spans of one trace that hold nothing but their places; all of them have ids."""
        now = self._tick(now)
        self.stats.spans += len(plain)
        trace = self._store.trace(plain.trace_id)
        if trace is not None:
            trace.plain.append(plain)
            self._changed(trace, now)
        elif self._store.is_buried(plain.trace_id, "") is None:
            self._store.keep_plain(plain, now)
        else:
            return
        self._kept += len(plain)
        if self._kept > self.settings.max_spans:
            self._evict(now)

    def poll(self, now: float) -> EngineOutput:
        """Hand out what is due at this time."""
        now = self._tick(now)
        self._kept -= self._store.forget_plain(now - self.settings.trace_retention)
        step = OutputBuilder()
        for trace_id in self._glances:
            trace = self._store.trace(trace_id)
            if trace is None:
                continue
            if not self._may_matter(trace):
                step.release_all(trace)
            elif len(trace.session_ids) > 1:
                step.release(fragment for fragment in self._fragments(trace) if not self._may_be_wanted(fragment))
        self._glances.clear()
        while self._due and self._due[0][0] <= now:
            when, _, kind, key = heapq.heappop(self._due)
            if kind == "trace":
                trace = self._store.trace(key)
                if trace is not None and trace.due == when:
                    trace.due = None
                    self._settle(trace, now, step)
            else:
                session = self._store.session(key)
                if session is not None and session.due == when:
                    session.due = None
                    self._rest(session, now, step)
        for session_id in step.touched:
            self._judge.judge(session_id, step)
        for ref, since in self._held.items():
            if now - since < self.settings.hold_timeout:
                break
            step.released.add(ref)
            self.stats.held_past_timeout += 1
        return self._handout(step)

    def flush(self, now: float, *, end_of_input: bool = False) -> EngineOutput:
        """Hand out every turn whose root has ended, without waiting; with `end_of_input` everything there is.

        A run is judged as a whole at the end of input, or when every turn of its golden was seen: a flush in the
        middle of a conversation does not make the turns to come missing ones.
        """
        now = self._tick(now)
        step = OutputBuilder()
        for trace in self._store.unsettled():
            self._settle(trace, now, step, at_once=True, end_of_input=end_of_input)
        for session in self._store.sessions():
            if end_of_input or session.id in step.touched:
                self._judge.judge(session.id, step, flushed=True, over=end_of_input)
        step.released.update(self._held)
        return self._handout(step)

    def deadline(self) -> float | None:
        """Return when `poll` will next have something to do, or none."""
        times = [self._due[0][0]] if self._due else []
        if self._held:
            times.append(next(iter(self._held.values())) + self.settings.hold_timeout)
        if self._glances:
            times.append(self._now)
        return min(times, default=None)

    def count_unmatched(self, session_id: str) -> None:
        """Count a session that no golden wants, and that the door therefore says no more of."""
        self._judge.count_unmatched(session_id)

    def remember(self, session: SessionState, now: float) -> None:
        """Take in what was said of a session before a restart; its records are to be fed again too."""
        now = self._tick(now)
        self._store.add_session(session)
        self._look_at_session(session, now + self.settings.run_idle)

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these from now on. What was said of a session stands until something new comes for it."""
        self.goldens = self._judge.goldens = goldens

    def _open(self, trace_id: str, now: float) -> TraceState:
        trace = self._store.trace(trace_id)
        if trace is None:
            lost = self._store.was_forgotten(trace_id)
            trace = TraceState(trace_id, last=now, reopened=lost is not None, lost_calls=bool(lost))
            trace.plain = self._store.take_plain(trace_id)
            self._store.add_trace(trace)
        return trace

    def _changed(self, trace: TraceState, now: float) -> None:
        trace.fragments = None
        trace.last = now
        self._store.touch_trace(trace.trace_id)
        self._look_at_trace(trace, now + self.settings.settle)

    def _tick(self, now: float) -> float:
        """Let time move forward only, whatever the door's clock does."""
        self._now = max(self._now, now)
        return self._now

    def _push(self, when: float, kind: str, key: str) -> float:
        self._pushed += 1
        heapq.heappush(self._due, (when, self._pushed, kind, key))
        return when

    def _look_at_trace(self, trace: TraceState, when: float) -> None:
        if trace.due is None or trace.due > when:
            trace.due = self._push(when, "trace", trace.trace_id)

    def _look_at_session(self, session: SessionState, when: float) -> None:
        if session.due is None or session.due > when:
            session.due = self._push(when, "session", session.id)

    def _handout(self, step: OutputBuilder) -> EngineOutput:
        released = step.released & self._held.keys()
        for ref in released:
            del self._held[ref]
        earlier, self._pending = self._pending, OutputBuilder()
        return EngineOutput(
            evaluations=(*earlier.evaluations, *step.evaluations),
            released=frozenset(released),
            sessions=(*earlier.sessions, *step.sessions),
            problems=(*earlier.problems, *step.problems),
        )

    def _holds(self, trace: TraceState, fact: SpanFacts) -> bool:
        """Hold what may carry a result, tools and roots of turns, unless its session is one that no golden wants."""
        if fact.scored or not self.settings.holds:
            return False
        root = fact.role is Role.AGENT or not fact.parent_id or fact.entry
        if trace.recognised == 0 and not (root and fact.session_keys):
            return False  # LangSmith ends a root that only names its session before the spans below it
        if root:
            self._glances[trace.trace_id] = None
        elif fact.role is not Role.TOOL:
            return False
        if fact.session_keys:
            return self.goldens.wants(fact.session_keys[0][1])
        return not trace.session_ids or self._may_matter(trace)

    def _may_matter(self, trace: TraceState) -> bool:
        """Tell whether a golden wants any session that a turn of this trace could come out to belong to."""
        wants = self.goldens.wants
        return any(map(wants, trace.session_ids)) or wants(trace.trace_id)

    def _may_be_wanted(self, fragment: Fragment) -> bool:
        unknown = fragment.waits_for_caller and fragment.session.source == "trace_id"
        return unknown or self.goldens.wants(fragment.session.id)

    def _fragments(self, trace: TraceState) -> list[Fragment]:
        if trace.fragments is None:
            trace.fragments, problems = read_trace(
                trace.spans, self.settings.assembly, trace.logs.values(), trace.plain
            )
            self._pending.problems += problems
        return trace.fragments

    def _settle(
        self, trace: TraceState, now: float, step: OutputBuilder, *, at_once: bool = False, end_of_input: bool = False
    ) -> None:
        """Find out what of a trace is ready to be handed out, and when to look at it again."""
        settled_at = trace.last + self.settings.settle
        if not at_once and now < settled_at:
            self._look_at_trace(trace, settled_at)
            return
        if not trace.ready and not self.settings.report_unmatched and not self._may_matter(trace):
            self._pass_over(trace, now, step, end_of_input=end_of_input)
            return
        fragments = self._fragments(trace)
        ready: list[Fragment] = []
        for fragment in fragments:
            ready_at = trace.last + self._waiting_time(fragment)
            if end_of_input or now >= ready_at:
                ready.append(fragment)
            else:
                self._look_at_trace(trace, ready_at)
        if ready != trace.ready:
            step.touched.update(dict.fromkeys(fragment.session.id for fragment in (*trace.ready, *ready)))
            self._leave(trace, {fragment.session.id for fragment in ready})
            trace.ready = ready
            for fragment in ready:
                self._join(fragment, trace, now)
        if self.settings.holds:
            step.release(ready)
        if len(ready) == len(fragments):
            step.release_all(trace)
            if not any(self.goldens.wants(fragment.session.id) for fragment in fragments):
                self._let_go(trace, now, step)

    def _pass_over(self, trace: TraceState, now: float, step: OutputBuilder, *, end_of_input: bool) -> None:
        """Settle a trace that no golden is interested in without rebuilding its turns."""
        rooted = trace.rooted or any(
            not parent or entry for one in trace.plain for _, parent, _, _, entry in one.read()
        )
        waits_until = trace.last if rooted else trace.last + self.settings.caller_timeout
        if now < waits_until and not end_of_input:
            self._look_at_trace(trace, waits_until)
            return
        step.release_all(trace)
        if trace.recognised and not trace.counted:
            trace.counted = True
            self._judge.count_unmatched(next(iter(trace.session_ids), trace.trace_id))
        self._let_go(trace, now, step)

    def _waiting_time(self, fragment: Fragment) -> float:
        if fragment.waits_for_caller:
            return self.settings.caller_timeout
        return self.settings.hold_timeout if fragment.waits_for_remote and self.settings.remote_callers else 0.0

    def _let_go(self, trace: TraceState, now: float, step: OutputBuilder) -> None:
        """Forget a quiet trace that no golden is interested in, without a tombstone: nothing was said of it."""
        if not trace.ready and self._may_matter(trace):
            self._give_up(trace, now)
            return
        quiet_at = trace.last + self.settings.trace_retention
        if now < quiet_at:
            self._look_at_trace(trace, quiet_at)
            return
        for session_id in {fragment.session.id for fragment in trace.ready}:
            session = self._store.session(session_id)
            if session is not None:
                self._judge.judge(session_id, step, over=True)
                session.traces.pop(trace.trace_id, None)
                if not session.traces:
                    self._store.drop_session(session_id)
        self._kept -= trace.size
        self._store.forget(trace.trace_id)

    def _give_up(self, trace: TraceState, now: float) -> None:
        """Drop what log records said of a session that a golden wants, where the spans they speak of never came."""
        quiet_at = trace.last + self.settings.retention
        if now < quiet_at:
            self._look_at_trace(trace, quiet_at)
            return
        self._kept -= trace.size
        self._store.bury([trace.trace_id], now)

    def _join(self, fragment: Fragment, trace: TraceState, now: float) -> None:
        session = self._store.session(fragment.session.id)
        if session is None:
            session = SessionState(fragment.session.id, last=now)
            self._store.add_session(session)
        if self._judge.is_late(fragment, session):
            self.stats.late += len(fragment.spans)
            return
        session.traces[trace.trace_id] = None
        session.last = now
        session.judged = False
        self._look_at_session(session, now + self.settings.run_idle)

    def _leave(self, trace: TraceState, stays_in: set[str]) -> None:
        """Take a trace out of the sessions that newer spans showed it does not belong to."""
        for session_id in {fragment.session.id for fragment in trace.ready} - stays_in:
            session = self._store.session(session_id)
            if session is not None:
                session.traces.pop(trace.trace_id, None)

    def _rest(self, session: SessionState, now: float, step: OutputBuilder) -> None:
        """Judge the runs of a session that went quiet, later drop its state, later the memory of it."""
        if now < session.last + self.settings.run_idle:
            self._look_at_session(session, session.last + self.settings.run_idle)
        elif not session.judged:
            self._judge.judge(session.id, step, over=True)
            self._look_at_session(session, session.last + self.settings.retention)
        elif session.traces:
            group = self._bound_together([session.id])
            quiet_at = max(member.last for member in group) + self.settings.retention
            if now < quiet_at:
                self._look_at_session(session, quiet_at)
            else:
                self._drop(group, now)
        else:
            self._store.drop_session(session.id)
            self._store.expire(now - self.settings.tombstone_ttl)

    def _drop(self, sessions: list[SessionState], now: float) -> None:
        """Drop the traces of these sessions; what still comes for their runs is late."""
        for session in sessions:
            for trace_id in session.traces:
                trace = self._store.trace(trace_id)
                if trace is None:
                    continue
                ends = [fragment.end for fragment in trace.ready if fragment.session.id == session.id]
                session.dropped_until = max([session.dropped_until, *ends])
        for session in sessions:
            for trace_id in session.traces:
                trace = self._store.trace(trace_id)
                self._kept -= trace.size if trace is not None else 0
                self._store.bury([trace_id], now)
            session.traces.clear()
            session.results.clear()
            session.turns.clear()
            session.over.clear()
            self._look_at_session(session, now + self.settings.tombstone_ttl)

    def _evict(self, now: float) -> None:
        """Make room: hand out the least recently active session as incomplete, with all that hangs on its traces."""
        self._kept -= self._store.forget_plain(0, self._kept - self.settings.max_spans)
        if self._kept <= self.settings.max_spans:
            return
        oldest = next(self._store.traces())
        self._leave(oldest, set())
        oldest.ready = self._fragments(oldest)
        for fragment in oldest.ready:
            self._join(fragment, oldest, now)
        if not oldest.ready:
            self._kept -= oldest.size
            self._store.forget(oldest.trace_id)
            return
        group = self._bound_together([fragment.session.id for fragment in oldest.ready])
        for session in group:
            self.stats.evicted_sessions += self.goldens.wants(session.id)
            self._judge.judge(session.id, self._pending, over=True, incomplete=True)
        self._drop(group, now)

    def _bound_together(self, session_ids: list[str]) -> list[SessionState]:
        """List these sessions and those that share a trace with them: traces are dropped whole."""
        group: dict[str, SessionState] = {}
        pending = list(session_ids)
        while pending:
            session = self._store.session(pending.pop())
            if session is None or session.id in group:
                continue
            group[session.id] = session
            traces = [self._store.trace(trace_id) for trace_id in session.traces]
            pending += [fragment.session.id for trace in traces if trace is not None for fragment in trace.ready]
        return list(group.values())
