"""The trace machine: which turns of a trace are complete, which spans wait for a score, and when a trace is dropped.

A trace is a set of records, of each the newest version. It is read into *fragments*: the parts of turns that it holds.

    t=0   the tool of an agent ends         -> held: a golden may want its session
    t=1   the agent, a root of session "s", ends -> held too; one fragment, as its root was seen
    t=2   nothing came for `settle`         -> the fragment is complete: session "s" is scored, both spans are released
    t=9   another tool of the agent ends    -> the fragment is another one; at t=10 "s" is scored again, as a correction
    t=..  nothing came for `retention`      -> dropped; what comes later is late

A fragment whose caller was not seen waits longer, for `caller_timeout` or, in another process, `hold_timeout`. A trace
that names sessions, but none that a golden wants, is not read at all: it is counted and dropped.

The machine has no clock and does no I/O: it is told the time, and says what is complete and when to ask again. The
engine, the first stage of a stream and Spark's workers keep traces in stores of their own, and ask it.
The settings of an engine, and its counters, stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.emit.evaluation import Events
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.assembly.trace_reading import TraceReading
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import LogFacts, PlainSpanFacts, Record, Role, SpanFacts
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens.golden import GoldenIndex
from goldspan.scoring.run import Scorer


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """When results are given and state is dropped; times in seconds of the door's clock."""

    settle: float = 1.0
    """A turn whose root has ended is complete after so long without new records in its trace."""
    hold_timeout: float = 20.0
    """A turn waits no longer for a caller in another process; nor does a door hold spans longer."""
    caller_timeout: float = 600.0
    """How long a turn waits for a parent in its own process that was not seen: its agent is still running."""
    run_idle: float = 60.0
    """A run is complete after so long without new records in its session."""
    retention: float = 3600.0
    """The state of a session is dropped after so long without new records."""
    trace_retention: float = 60.0
    """The state of a trace that no golden wants is dropped after so long without new records."""
    tombstone_ttl: float = 86_400.0
    """How long repeats of dropped spans are recognised."""
    max_spans: int = 1_000_000
    """Spans in memory; beyond it the least recently active session is scored as incomplete and dropped."""
    max_content: int | None = None
    """Characters of messages, definitions of tools, results and answers in memory; beyond it as beyond `max_spans`."""
    remote_callers: bool = True
    """The spans of calling processes may arrive here, too; in the agent's own process they never do."""
    holds: bool = True
    """The door holds spans until they are released."""
    include_values: bool = False
    """Explanations hold argument values."""
    events: Events = Events.FINDINGS
    """Which results are told by an event."""
    emits: bool = True
    """Results are given as evaluations too, which are emitted; otherwise as results of sessions alone."""
    report_unmatched: bool = False
    """Give results of sessions without golden too, for reports: which there were, where and when."""
    scorer: Scorer = field(default_factory=lambda: Scorer(run=MetricWorkers()))
    """How sessions are scored: `tool_parameter_match` or a preset, and additional metrics."""
    assembly: AssemblySettings = field(default_factory=AssemblySettings)


@dataclass(slots=True)
class EngineStats:
    """What an engine has counted."""

    spans: int = 0
    repeated: int = 0
    """Records that came again: same trace and span id, and no newer version."""
    late: int = 0
    """Records of traces and runs that were dropped, so that they can correct nothing."""
    evicted_sessions: int = 0
    sessions_without_golden: int = 0


OnProblem = Callable[[Problem], object]


@dataclass(slots=True)
class TraceRecords:
    """The records of one trace, and what was read of them."""

    trace_id: str
    last: float = 0.0
    """When its newest record came, in seconds of the door's clock."""
    spans: dict[str, SpanFacts] = field(default_factory=dict[str, SpanFacts])
    logs: dict[str, LogFacts] = field(default_factory=dict[str, LogFacts])
    """Log records by identity."""
    plain: list[PlainSpanFacts] = field(default_factory=list[PlainSpanFacts])
    """Spans without a dialect's marker: only their place in the trace, since they stand between tools and agents."""
    size: int = 0
    """How many records these are."""
    recognised: int = 0
    """Spans that a dialect recognised."""
    session_ids: dict[str, str] = field(default_factory=dict[str, str])
    """Every session id that its records name, with the attribute; the id of a turn is one of these or the trace id."""
    unwanted: tuple[GoldenIndex | None, int] = (None, 0)
    """How many of these, from the first, no golden wants: each is asked for once, however many spans come."""
    rooted: bool = False
    """A span without a parent in its process was seen, so no caller is still running."""
    counted: bool = False
    """It was counted as a session without golden."""
    lost: bool | None = None
    """Records of it were dropped; whether they may have described calls."""
    lost_text: bool = False
    """Messages, results or definitions of it were not kept, since they were too large."""
    reading: TraceReading = field(default_factory=TraceReading)
    """What was read of its records."""
    fragments: list[Fragment] | None = None
    """The parts of turns in this trace; None after a new record, until they are read again."""

    def add(self, record: Record | PlainSpanFacts) -> bool:
        """Add a record; False: it came before, and is no newer version."""
        keys: Iterable[tuple[str, str]] = ()
        if isinstance(record, SpanFacts) and record.lost:
            if self.lost:
                return False
            self.lost, self.fragments = True, None
            return True
        if isinstance(record, SpanFacts):
            old = self.spans.get(record.span_id)
            if old is not None and not record.supersedes(old):
                return False
            self.spans[record.span_id] = record
            if old is None:
                self.size += 1
                self.recognised += record.role is not None
            self.rooted = self.rooted or not record.parent_id or record.entry
            keys = (*record.session_keys, *record.resource.session_keys)
        elif isinstance(record, LogFacts):
            if record.identity in self.logs:
                return False
            self.logs[record.identity] = record
            self.size += 1
            keys = record.session_keys
        else:
            self.plain.append(record)
            self.size += len(record)
        for key, session_id in keys:
            self.session_ids.setdefault(session_id, key)
        self.reading.add(record)
        self.fragments = None
        return True

    def has_room(self, record: Record | PlainSpanFacts, most: int) -> bool:
        """Tell whether a record fits into a trace of so many: a full one still takes newer versions of its spans."""
        if self.size < most or isinstance(record, PlainSpanFacts):
            return self.size < most
        return record.identity in self.logs if isinstance(record, LogFacts) else record.span_id in self.spans

    def unmatched(self) -> tuple[str, str] | None:
        """Return the session of a trace that no golden wants and the attribute that names it, to be counted once."""
        if self.counted or not self.recognised:
            return None
        self.counted = True
        return next(iter(self.session_ids.items()), (self.trace_id, "trace_id"))

    @property
    def has_calls(self) -> bool:
        """Whether its records, or those that it lost, may describe calls."""
        return self.recognised > 0 or bool(self.logs) or bool(self.lost)

    def lacks_records_of(self, fragments: Sequence[Fragment]) -> bool:
        """Tell whether records of these fragments were dropped: calls or text, or a plain span between others."""
        if self.lost is None or self.lost_text:
            return self.lost_text
        return self.lost or any(fragment.waits_for_caller or fragment.waits_for_remote for fragment in fragments)


class SessionPart(Struct, frozen=True, gc=False):
    """What one trace holds of one session."""

    session_id: str
    trace_id: str
    fragments: Sequence[Fragment]
    incomplete: bool = False
    """Records of the trace were dropped."""

    def __len__(self) -> int:
        return sum(len(fragment.spans) for fragment in self.fragments)

    @property
    def start(self) -> int:
        """When the first of the fragments began, nanoseconds since the epoch."""
        return min(fragment.start for fragment in self.fragments)


class TraceCheck(NamedTuple):
    """What is complete of a trace."""

    turns: list[Fragment] | None
    """The fragments whose turns are complete; None: the trace was not read."""
    again: float | None
    """When more may be; None: all of it is complete."""


_LARGE, _PAUSE = 1_000, 1e-4
"""Beyond so many records, corrections of a trace wait so many seconds longer for each. That is five times as long as it
takes to read it anew: however many spans come one by one, a fifth of the time is spent on them, and not n * n for n."""


class TraceMachine:
    """Decides about traces, by the goldens and settings of their engine."""

    def __init__(self, goldens: GoldenIndex, settings: EngineSettings) -> None:
        self.goldens = goldens
        self._settings = settings

    def may_matter(self, trace: TraceRecords) -> bool:
        """Tell whether a golden wants any session that a turn of this trace may belong to."""
        wants = self.goldens.wants
        of, asked = trace.unwanted
        if of is not self.goldens:
            asked = 0
        if asked < len(trace.session_ids):
            for session_id in islice(trace.session_ids, asked, None):
                if wants(session_id):
                    break
                asked += 1
            trace.unwanted = self.goldens, asked
        return asked < len(trace.session_ids) or wants(trace.trace_id)

    def may_be_wanted(self, fragment: Fragment) -> bool:
        """Tell whether a golden wants the session of this turn, or may want it once its caller is known."""
        unknown = fragment.waits_for_caller and fragment.session.source == "trace_id"
        return unknown or self.goldens.wants(fragment.session.id)

    def may_get_score(self, trace: TraceRecords, fact: SpanFacts, *, root: bool) -> bool:
        """Tell whether a span of this trace is held: a tool or the `root` of a turn that a golden may want."""
        if not root and fact.role is not Role.TOOL:
            return False
        if trace.recognised == 0 and not (root and fact.session_keys):
            return False  # a LangSmith root names its session, and may end before the spans below it
        if fact.session_keys:
            return self.goldens.wants(fact.session_keys[0][1])
        return not trace.session_ids or self.may_matter(trace)

    def fragments(self, trace: TraceRecords, on_problem: OnProblem, *, waiting: bool = True) -> list[Fragment]:
        """Read a trace. Without `waiting`, turns that wait for their caller may be left out: see `reading.waits`."""
        if trace.fragments is not None:
            return trace.fragments
        fragments = trace.reading.fragments(self._settings.assembly.session_keys, on_problem, waiting=waiting)
        if not trace.reading.waits:
            trace.fragments = fragments
        return fragments

    def check(
        self,
        trace: TraceRecords,
        now: float,
        on_problem: OnProblem,
        *,
        has_turns: bool,
        stay: Collection[str] = (),
        at_once: bool = False,
        end_of_input: bool = False,
    ) -> TraceCheck:
        """Find the complete turns of a trace.

        Args:
            trace: Its records.
            now: The time.
            on_problem: Takes what is wrong with the spans that are read.
            has_turns: Turns of it were complete before.
            stay: The roots of fragments that stay complete, although they may wait for a caller.
            at_once: Whether its newest record came just now does not matter.
            end_of_input: Nothing comes any more, so that nothing is waited for.

        """
        settings = self._settings
        settled_at = trace.last + settings.settle
        if has_turns and trace.size > _LARGE:
            settled_at += (trace.size - _LARGE) * _PAUSE
        if not at_once and now < settled_at:
            return TraceCheck(None, settled_at)
        callers_until = trace.last + settings.caller_timeout
        if not has_turns and not settings.report_unmatched and not self.may_matter(trace):
            waits = now < callers_until and not end_of_input and not _is_rooted(trace)
            return TraceCheck(None, callers_until if waits else None)
        waiting = end_of_input or bool(stay) or now >= callers_until
        fragments = self.fragments(trace, on_problem, waiting=waiting)
        again = callers_until if trace.fragments is None else None
        if not trace.reading.waiting or end_of_input:
            return TraceCheck(fragments, again)
        return self._without_waiting(trace, fragments, now, stay, again)

    def _without_waiting(
        self, trace: TraceRecords, fragments: list[Fragment], now: float, stay: Collection[str], again: float | None
    ) -> TraceCheck:
        """Leave out the turns that wait for a caller."""
        until = {one.root.span_id: trace.last + self._waiting_time(one) for one in fragments}
        waiting = {root: at for root, at in until.items() if at > now and root not in stay}
        complete = [one for one in fragments if one.root.span_id not in waiting]
        times = [*waiting.values()] if again is None else [again, *waiting.values()]
        return TraceCheck(complete, min(times, default=None))

    def _waiting_time(self, fragment: Fragment) -> float:
        if fragment.waits_for_caller:
            return self._settings.caller_timeout
        return self._settings.hold_timeout if fragment.waits_for_remote and self._settings.remote_callers else 0.0

    def has_logs_only(self, trace: TraceRecords, turns: Collection[Fragment] | None) -> bool:
        """Tell whether a complete trace has only log records of a session that a golden wants."""
        return not turns and self.may_matter(trace)

    def kept_until(self, trace: TraceRecords, *, wanted: bool) -> float:
        """Return when a quiet trace is dropped: later if a golden wants a session of it."""
        return trace.last + (self._settings.retention if wanted else self._settings.trace_retention)


def is_root(fact: SpanFacts) -> bool:
    """Tell whether a span may be the root of a turn."""
    return fact.role is Role.AGENT or not fact.parent_id or fact.entry


def _is_rooted(trace: TraceRecords) -> bool:
    return trace.rooted or any(not parent or entry for one in trace.plain for _, parent, _, _, entry in one.read())
