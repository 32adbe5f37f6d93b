"""The engine: it is fed spans, log records and the time, and gives evaluations. It does no I/O.

    feed            de-duplicate by trace and span id, and keep the record in its trace
    poll, flush     which traces are complete? -> which turns? -> add them to their sessions -> judge the sessions
    later           judge quiet sessions as a whole, then drop their state and leave tombstones

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

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.session_scorer import OutputBuilder, SessionScorer
from goldspan.collector_processor.engine.sessions_without_golden import SessionsWithoutGolden
from goldspan.collector_processor.engine.settings import EngineSettings, EngineStats
from goldspan.collector_processor.engine.store import MemoryStore, SessionState, TraceState
from goldspan.mappers.assembly import Fragment
from goldspan.mappers.assembly.trace_reading import newer_version, without_ids
from goldspan.mappers.span_facts import LogFacts, PlainSpanFacts, Record, Role, SpanFacts, content_size
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden_index import GoldenIndex
from goldspan.scoring.results import SessionResult
from goldspan.scoring.sessions import SpanRef


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """What one call of `poll` or `flush` gives."""

    evaluations: tuple[Evaluation, ...] = ()
    released: frozenset[SpanRef] = frozenset()
    """Held spans that need not wait any longer: their evaluations, if any, are in this output or an earlier one."""
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
        self._judge = SessionScorer(goldens, self.settings, self.stats, self._store)
        self._now = 0.0
        self._records = 0
        self._content = 0
        self._due: list[tuple[float, int, str, str]] = []
        self._sequence = 0
        self._new_roots: dict[str, None] = {}
        self._held: dict[SpanRef, float] = {}
        self._pending = OutputBuilder()

    # Input.

    def feed_log(self, fact: LogFacts, now: float) -> None:
        """Feed one log record; a record without a trace id is ignored."""
        now = self._tick(now)
        if not fact.trace_id:
            return
        repeated = self._store.tombstone_has(fact.trace_id, fact.identity)
        if repeated is not None:
            self.stats.repeated += repeated
            self.stats.late += not repeated
            return
        trace = self._open(fact.trace_id, now)
        if trace.lost_calls and not trace.spans:
            self.stats.late += 1  # the span that it belongs to may be among the dropped ones; it may also still come
        if fact.identity not in trace.logs:
            trace.logs[fact.identity] = fact
            trace.reading.add(fact)
            trace.session_ids.update((session_id, key) for key, session_id in fact.session_keys)
            self._records += 1
            self._count_content(trace, fact, None)
            self._changed(trace, now)
        self._evict_excess(now)

    def feed(self, fact: SpanFacts, now: float) -> bool:
        """Feed one span. True: a door that writes scores on spans should hold it until an output releases it."""
        now = self._tick(now)
        self.stats.spans += 1
        if not (fact.trace_id and fact.span_id):
            without_id = self._store.trace("")
            fact = without_ids(fact, len(without_id.spans) if without_id is not None else 0)
        for note in fact.notes:
            self.feed_log(note, now)
        repeated = self._store.tombstone_has(fact.trace_id, fact.span_id)
        if repeated is not None:
            self.stats.repeated += repeated
            self.stats.late += not repeated  # a plain span too: it may join an agent to its tool
            return False
        trace = self._open(fact.trace_id, now)
        old = trace.spans.get(fact.span_id)
        if newer_version(old, fact) is old:
            self.stats.repeated += 1
            return False
        if old is None:
            self._records += 1
            trace.recognised += fact.role is not None
        trace.spans[fact.span_id] = fact
        trace.reading.add(fact)
        self._count_content(trace, fact, old)
        for key, session_id in (*fact.session_keys, *fact.resource.session_keys):
            trace.session_ids.setdefault(session_id, key)
        trace.rooted = trace.rooted or not fact.parent_id or fact.entry
        self._changed(trace, now)
        hold = self._holds(trace, fact)
        if hold:
            self._held[fact.ref] = now
            trace.held.append(fact.ref)
        self._evict_excess(now)
        return hold

    def feed_plain(self, groups: Iterable[PlainSpanFacts], now: float) -> None:
        """Feed plain spans, each group of one trace; all of them have ids."""
        now = self._tick(now)
        store = self._store
        for plain in groups:
            count = len(plain.undecoded)
            self.stats.spans += count
            trace = store.trace(plain.trace_id)
            if trace is not None:
                trace.add_plain(plain)
                self._changed(trace, now)
            elif store.tombstone_has(plain.trace_id, "") is None:
                store.add_plain(plain, now)
            else:
                repeated = sum(store.tombstone_has(plain.trace_id, span_id) is True for span_id in plain.ids())
                self.stats.repeated += repeated
                self.stats.late += count - repeated
                continue
            self._records += count
        self._evict_excess(now)

    # Time.

    def poll(self, now: float, most: int | None = None) -> EngineOutput:
        """Return what is due at this time; with `most`, of at most so many traces and sessions, the earliest first."""
        now = self._tick(now)
        self._records -= self._store.drop_plain(now - self.settings.trace_retention)
        output = OutputBuilder()
        for trace_id in self._new_roots:
            trace = self._store.trace(trace_id)
            if trace is None:
                continue
            if not self._may_matter(trace):
                output.release_all(trace)
            elif len(trace.session_ids) > 1:
                output.release(fragment for fragment in self._fragments(trace) if not self._may_be_wanted(fragment))
        self._new_roots.clear()
        done = 0
        while self._due and self._due[0][0] <= now and (most is None or done < most):
            done += 1
            when, _, kind, key = heapq.heappop(self._due)
            if kind == "trace":
                trace = self._store.trace(key)
                if trace is not None and trace.due == when:
                    trace.due = None
                    self._complete_trace(trace, now, output)
            else:
                session = self._store.session(key)
                if session is not None and session.due == when:
                    session.due = None
                    self._advance_session(session, now, output)
        for session_id in output.touched:
            self._judge.judge(session_id, output)
        for ref, since in self._held.items():
            if now - since < self.settings.hold_timeout:
                break
            output.released.add(ref)
            self.stats.held_past_timeout += 1
        return self._output(output)

    def flush(self, now: float, *, end_of_input: bool = False) -> EngineOutput:
        """Judge every turn whose root has ended, without waiting; with `end_of_input` everything there is.

        A run is judged as complete at the end of input, or if every turn of its golden was seen. So a flush in the
        middle of a conversation does not report later turns as missing.
        """
        now = self._tick(now)
        output = OutputBuilder()
        for trace in self._store.unsettled():
            self._complete_trace(trace, now, output, at_once=True, end_of_input=end_of_input)
        sessions = [session.id for session in self._store.sessions()] if end_of_input else output.touched
        for session_id in sessions:
            self._judge.judge(session_id, output, flushed=True, complete=end_of_input)
        output.released.update(self._held)
        return self._output(output)

    def deadline(self) -> float | None:
        """Return when `poll` will have something to do, or None."""
        times = [self._due[0][0]] if self._due else []
        if self._held:
            times.append(next(iter(self._held.values())) + self.settings.hold_timeout)
        if self._new_roots or self._pending.released:
            times.append(self._now)
        return min(times, default=None)

    @property
    def without_golden(self) -> SessionsWithoutGolden:
        """The sessions that were counted as `stats.sessions_without_golden`."""
        return self._judge.without_golden

    def count_unmatched(self, session_id: str, source: str) -> None:
        """Count a session without golden, of which the door feeds nothing. `source`: the attribute that names it."""
        self._judge.count_unmatched(session_id, source)

    def restore_session(self, session: SessionState, now: float) -> None:
        """Restore the results of a session after a restart; feed its records again, too."""
        now = self._tick(now)
        self._store.add_session(session)
        self._check_at(session, now + self.settings.run_idle)

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these goldens from now on. The results of a session stay until a new record comes for it."""
        self.goldens = self._judge.goldens = goldens

    # Records in memory.

    def _open(self, trace_id: str, now: float) -> TraceState:
        trace = self._store.trace(trace_id)
        if trace is None:
            lost = self._store.lost_calls(trace_id)
            trace = TraceState(trace_id, last=now, reopened=lost is not None, lost_calls=bool(lost))
            for plain in self._store.take_plain(trace_id):
                trace.add_plain(plain)
            self._store.add_trace(trace)
        return trace

    def _changed(self, trace: TraceState, now: float) -> None:
        trace.fragments = None
        trace.has_news = True
        trace.last = now
        self._store.touch_trace(trace.trace_id)
        self._check_at(trace, now + self.settings.settle)

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

    # Held spans.

    def _output(self, output: OutputBuilder) -> EngineOutput:
        earlier, self._pending = self._pending, OutputBuilder()
        released = (output.released | earlier.released) & self._held.keys()
        for ref in released:
            del self._held[ref]
        return EngineOutput(
            evaluations=(*earlier.evaluations, *output.evaluations),
            released=frozenset(released),
            sessions=(*earlier.sessions, *output.sessions),
            problems=(*earlier.problems, *output.problems),
        )

    def _holds(self, trace: TraceState, fact: SpanFacts) -> bool:
        """Tell whether a span may get a score: a tool or the root of a turn, unless no golden wants its session."""
        if not self.settings.holds:
            return False
        root = fact.role is Role.AGENT or not fact.parent_id or fact.entry
        if trace.recognised == 0 and not (root and fact.session_keys):
            return False  # a LangSmith root names its session, and may end before the spans below it
        if root:
            self._new_roots[trace.trace_id] = None
        elif fact.role is not Role.TOOL:
            return False
        if fact.session_keys:
            return self.goldens.wants(fact.session_keys[0][1])
        return not trace.session_ids or self._may_matter(trace)

    def _may_matter(self, trace: TraceState) -> bool:
        """Tell whether a golden wants any session that a turn of this trace may belong to."""
        wants = self.goldens.wants
        return any(map(wants, trace.session_ids)) or wants(trace.trace_id)

    def _may_be_wanted(self, fragment: Fragment) -> bool:
        unknown = fragment.waits_for_caller and fragment.session.source == "trace_id"
        return unknown or self.goldens.wants(fragment.session.id)

    # Completion: which turns of a trace are complete.

    def _fragments(self, trace: TraceState, *, waiting: bool = True) -> list[Fragment]:
        """Read a trace. Without `waiting`, turns that wait for their caller may be left out: see `reading.waits`."""
        if trace.fragments is not None:
            return trace.fragments
        keys, on_problem = self.settings.assembly.session_keys, self._pending.problems.append
        fragments = trace.reading.fragments(keys, on_problem, waiting=waiting)
        if not trace.reading.waits:
            trace.fragments = fragments
        return fragments

    def _complete_trace(
        self, trace: TraceState, now: float, output: OutputBuilder, *, at_once: bool = False, end_of_input: bool = False
    ) -> None:
        """Find the complete turns of a trace, add them to their sessions, and decide when to check the trace again."""
        settled_at = trace.last + self.settings.settle
        if not at_once and now < settled_at:
            self._check_at(trace, settled_at)
            return
        if not trace.ready and not self.settings.report_unmatched and not self._may_matter(trace):
            self._pass_unwanted_trace(trace, now, output, end_of_input=end_of_input)
            return
        callers_until = trace.last + self.settings.caller_timeout
        fragments = self._fragments(trace, waiting=end_of_input or now >= callers_until)
        waits = trace.fragments is None
        if waits:
            self._check_at(trace, callers_until)
        ready = fragments
        if trace.reading.waiting and not end_of_input:
            ready = list[Fragment]()
            for fragment in fragments:
                ready_at = trace.last + self._waiting_time(fragment)
                if now >= ready_at:
                    ready.append(fragment)
                else:
                    self._check_at(trace, ready_at)
        if ready != trace.ready or (ready and trace.has_news):
            trace.has_news = False
            output.touched.update(dict.fromkeys(trace.by_session))
            new = self._set_ready(trace, ready, now)
            output.touched.update(dict.fromkeys(trace.by_session))
            if self.settings.holds:
                output.release(new)
        if len(ready) == len(fragments) and not waits:
            self._store.settle_trace(trace.trace_id)
            output.release_all(trace)
            reported = (
                self.settings.report_unmatched and trace.ready
            )  # its session is dropped whole, as a wanted one is
            if not reported and not any(map(self.goldens.wants, trace.by_session)):
                self._drop_unwanted_trace(trace, now, output)

    def _pass_unwanted_trace(self, trace: TraceState, now: float, output: OutputBuilder, *, end_of_input: bool) -> None:
        """Complete a trace that no golden wants, without assembling its turns."""
        rooted = trace.rooted or any(
            not parent or entry for one in trace.plain for _, parent, _, _, entry in one.read()
        )
        waits_until = trace.last if rooted else trace.last + self.settings.caller_timeout
        if now < waits_until and not end_of_input:
            self._check_at(trace, waits_until)
            return
        self._store.settle_trace(trace.trace_id)
        output.release_all(trace)
        if trace.recognised and not trace.counted:
            trace.counted = True
            named = next(iter(trace.session_ids.items()), (trace.trace_id, "trace_id"))
            self._judge.count_unmatched(*named)
        self._drop_unwanted_trace(trace, now, output)

    def _waiting_time(self, fragment: Fragment) -> float:
        if fragment.waits_for_caller:
            return self.settings.caller_timeout
        return self.settings.hold_timeout if fragment.waits_for_remote and self.settings.remote_callers else 0.0

    def _drop_unwanted_trace(self, trace: TraceState, now: float, output: OutputBuilder) -> None:
        """Drop a quiet trace that no golden wants; it needs no tombstone, as it has no results."""
        without_spans = not trace.ready and self._may_matter(trace)  # log records of a wanted session only
        quiet_at = trace.last + (self.settings.retention if without_spans else self.settings.trace_retention)
        if now < quiet_at:
            self._check_at(trace, quiet_at)
            return
        self._forget_size(trace)
        if without_spans:
            self._store.drop_with_tombstones([trace.trace_id], now)
            return
        for session_id in trace.by_session:
            session = self._store.session(session_id)
            if session is not None:
                self._judge.judge(session_id, output, complete=True)
                session.traces.pop(trace.trace_id, None)
                session.changed[trace.trace_id] = None
                if not session.traces:
                    self._store.drop_session(session_id)
        self._store.drop_trace(trace.trace_id)

    # Sessions.

    def _set_ready(self, trace: TraceState, ready: list[Fragment], now: float) -> list[Fragment]:
        """Add the complete turns of a trace to their sessions, in place of those before; return the new ones."""
        before = list(trace.by_session)
        new = trace.set_ready(ready)
        for session_id in before:
            session = None if session_id in trace.by_session else self._store.session(session_id)
            if session is not None:  # the trace does not belong to it any longer, by its newer spans
                session.traces.pop(trace.trace_id, None)
                session.changed[trace.trace_id] = None
        for session_id, fragments in trace.by_session.items():
            session = self._store.session(session_id)
            if session is None:
                session = SessionState(session_id, last=now)
                self._store.add_session(session)
            late = self._judge.late_fragments(fragments, session)
            self.stats.late += sum(len(fragment.spans) for fragment in late)
            if len(late) < len(fragments):
                session.traces[trace.trace_id] = session.changed[trace.trace_id] = None
                session.last = now
                session.judged = False
                self._check_at(session, now + self.settings.run_idle)
        return new

    def _advance_session(self, session: SessionState, now: float, output: OutputBuilder) -> None:
        """Judge the runs of a quiet session; later drop its traces; later forget it."""
        if now < session.last + self.settings.run_idle:
            self._check_at(session, session.last + self.settings.run_idle)
        elif not session.judged:
            self._judge.judge(session.id, output, complete=True)
            self._check_at(session, session.last + self.settings.retention)
        elif session.traces:
            group = self._sharing_traces([session.id])
            quiet_at = max(member.last for member in group) + self.settings.retention
            if now < quiet_at:
                self._check_at(session, quiet_at)
            else:
                self._drop_sessions(group, now)
        else:
            self._store.drop_session(session.id)
            self._store.expire(now - self.settings.tombstone_ttl)

    def _drop_sessions(self, sessions: list[SessionState], now: float) -> None:
        """Drop the traces of these sessions; records that come for their runs later are late."""
        for session in sessions:
            for trace_id in session.traces:
                trace = self._store.trace(trace_id)
                if trace is None:
                    continue
                ends = [fragment.end for fragment in trace.by_session.get(session.id, ())]
                session.dropped_until = max([session.dropped_until, *ends])
        for session in sessions:
            for trace_id in session.traces:
                trace = self._store.trace(trace_id)
                if trace is not None:
                    self._forget_size(trace)
                    self._pending.release_all(trace)
                self._store.drop_with_tombstones([trace_id], now)
            session.traces.clear()
            session.results.clear()
            session.kept = None
            session.changed.clear()
            session.complete_runs.clear()
            self._check_at(session, now + self.settings.tombstone_ttl)

    def _evict_excess(self, now: float) -> None:
        """Beyond the limits, drop the least recently active sessions, and those that share traces with them.

        A session that was not judged as complete is judged as incomplete. Held spans are released with the next output.
        """
        if self._exceeds_limits():
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
            if not session.judged:
                self.stats.evicted_sessions += self.goldens.wants(session.id)
                self._judge.judge(session.id, self._pending, complete=True, incomplete=True)
        self._drop_sessions(group, now)
        left = self._store.trace(oldest.trace_id)
        if left is not None:  # it belongs to no session, or only to runs that were dropped
            self._forget_size(left)
            self._pending.release_all(left)
            self._store.drop_trace(left.trace_id)

    def _count_content(self, trace: TraceState, record: Record, replaced: SpanFacts | None) -> None:
        if self.settings.max_content is not None:
            change = content_size(record) - (0 if replaced is None else content_size(replaced))
            trace.content += change
            self._content += change

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
