"""All of the gateway that has state and no threads: tenants, what is owed of each body, and what is written down.

It is told the time, is given requests and outcomes, and sends parcels. What carries a result is sent only after it was
committed together with the fact that the result was given: so after a crash a result is repeated, or given for the
first time, and never lost.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.gateway.assembling_tenant import AssemblingTenant
from goldspan.collector_processor.gateway.deliver.dead_letters import DeadLetters
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.deliver.evaluation_requests import TenantMetrics, encoded_events
from goldspan.collector_processor.gateway.deliver.outbox import (
    BodyTracker,
    DeliveryQueue,
    Outbox,
    RequestSources,
    TrackedBody,
    refs_of,
)
from goldspan.collector_processor.gateway.encoded_spans import (
    EncodedSpanBuffer,
    SpanGroup,
    join_request,
    ref_of,
    split_request,
)
from goldspan.collector_processor.gateway.golden_coverage import Coverage
from goldspan.collector_processor.gateway.interfaces import Headers, Request, Signal
from goldspan.collector_processor.gateway.journal.body_log import LogEntry
from goldspan.collector_processor.gateway.journal.journal import Journal, RecoveredState
from goldspan.collector_processor.gateway.journal.records import decode_record, decode_session, encode_session
from goldspan.collector_processor.gateway.key_scanner import KeyScanner
from goldspan.collector_processor.gateway.settings.pipeline_settings import PipelineSettings
from goldspan.collector_processor.gateway.tenant import HeldSpan, Tenant, TenantOutput
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.facts import Record
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

_SPANS, _BYTES = 512, 4 << 20
"""A request made here holds so many spans at most, and is begun anew beyond so many bytes."""
_POINTS_EVERY = 10.0
"""Seconds between points that tell of nothing but sessions without golden."""
_RESTORED_AT_ONCE = 1000
"""Sessions that are put back before those before them are looked at."""
_BILLION = 1_000_000_000


@dataclass(slots=True)
class _TenantState:
    """A tenant and what belongs to it alone."""

    name: str
    headers: Headers
    tenant: Tenant
    shelf: EncodedSpanBuffer
    points: TenantMetrics
    said: dict[str, int] = field(default_factory=dict[str, int])
    """A check sum of each session as it was written last."""
    points_sent: PendingRequest | None = None
    points_at: float = 0.0
    points_due: bool = False
    without_golden: int = 0


class Worker:
    """For one thread; only reading counts is safe from others."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: PipelineSettings,
        registry: DialectRegistry,
        *,
        journal: Journal | None,
        post: DeliveryQueue,
        instance: str,
        on_failure: Callable[[str, Exception], object],
        on_results: Callable[[Sequence[Evaluation]], object] | None = None,
    ) -> None:
        """Judge by these goldens and send what leaves by `post`; `instance` names this gateway in its metrics.

        `on_results` is told every result as well, and must not raise.
        """
        self.settings = settings
        self.journal = journal
        self.coverage = Coverage(goldens)
        self.problems = Counter[str]()
        self.released_early = Counter[str]()
        self.evicted_tenants = 0
        self._gone_without_golden = 0
        self._goldens = goldens
        self._registry = registry
        self._needles = KeyScanner(registry, settings.engine.assembly.session_keys)
        self._instance = instance
        self._on_failure = on_failure
        self._on_results = on_results
        self._lines: OrderedDict[str, _TenantState] = OrderedDict()
        self.ledger = BodyTracker(self._is_open)
        letters = None
        if settings.dead_letters is not None:
            bounds = (settings.dead_letter_files, settings.dead_letter_bytes)
            letters = DeadLetters(settings.dead_letters, max_files=bounds[0], max_bytes=bounds[1])
        self.outbox = Outbox(self.ledger, post, journal, letters)

    # What comes in.

    def take(
        self,
        number: int,
        request: Request,
        groups: Sequence[SpanGroup],
        entry: LogEntry | None,
        now: float,
        parts: tuple[bool, bytes] | None = None,
    ) -> None:
        """Take in an acknowledged request, taken apart; after a restart `parts` says what of it has left already."""
        if request.signal is Signal.TRACES:
            self._take_traces(number, request, groups, entry, now, parts)
            return
        line = self._line(request.headers, now)
        body = TrackedBody(number, line.name, entry, time=now)
        if request.signal is Signal.LOGS:
            body.facts = line.tenant.take_logs(request.body, now)
        self.ledger.open(body)
        self.outbox.send_whole(request, body)

    def pass_on(self, number: int, request: Request, entry: LogEntry | None, now: float) -> None:
        """Forward a request that could not be worked on."""
        line = self._line(request.headers, now)
        body = self.ledger.get(number)
        if body is None:
            body = TrackedBody(number, line.name, entry, time=now)
            self.ledger.open(body)
            self.outbox.send_whole(request, body)

    # Time.

    def tick(self, now: float) -> None:
        """Hand out what is due, and commit."""
        for line in list(self._lines.values()):
            line.shelf.expire(now)
            self._step(line, line.tenant.poll, now)
            line.tenant.rest(now)
            self._count_without_golden(line, now)
        self.commit(now)

    def flush(self, now: float, *, end_of_input: bool) -> None:
        """Hand out every turn that is ready and let go of every span; with `end_of_input` judge every run."""
        for line in list(self._lines.values()):
            self._step(line, functools.partial(line.tenant.flush, end_of_input=end_of_input), now)
            line.points_at = 0.0
            self._count_without_golden(line, now)
        self.commit(now)

    def commit(self, now: float) -> None:
        """Write down what happened and send what waited for that, or try again the next time."""
        try:
            found = self.outbox.commit(now - self.settings.engine.trace_retention)
            self.problems["journal_damaged"] += found
        except OSError:
            self.problems["journal_failed"] += 1

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these from now on."""
        self._goldens = self.coverage.goldens = goldens
        self._registry = registry_for(goldens, self.settings)
        self._needles = KeyScanner(self._registry, self.settings.engine.assembly.session_keys)
        for line in self._lines.values():
            line.tenant.use_goldens(goldens, self._registry, self._needles)
        self._share_out()

    # Restart.

    def restore(self, found: RecoveredState, now: float) -> Iterator[None]:
        """Put back what was known; bodies that are still owed come after this, by `take`.

        Yields now and then, so that what is back can be judged and made small before more comes.
        """
        assert self.journal is not None
        self.outbox.send_again(found.outgoing, self.journal.next_outgoing)
        for tenant, trace_id, at, known in found.tombstones:
            self._line(_headers(tenant), now).tenant.store.lay_to_rest(trace_id, at, known)
        records: dict[tuple[str, str], list[tuple[float, bytes]]] = {}
        for tenant, trace_id, at, record in found.records:
            records.setdefault((tenant, trace_id), []).append((at, record))
        found.records.clear()
        for count, (tenant, session_id, state) in enumerate(found.sessions):
            line = self._line(_headers(tenant), now)
            with self._unreadable():
                session = decode_session(session_id, state, now)
                line.tenant.engine.remember(session, now)
                line.said[session_id] = _check(session)
                # With all its traces at once a session is judged as it was, and nothing is said again.
                for trace_id in {one.target.trace_id for one in session.results.values() if one.target is not None}:
                    self._feed_again(line, records.pop((tenant, trace_id), ()), now)
            if count % _RESTORED_AT_ONCE == _RESTORED_AT_ONCE - 1:
                yield
        for (tenant, _), some in records.items():
            self._feed_again(self._line(_headers(tenant), now), some, now)
        for entry in found.retained:
            if entry.signal is Signal.TRACES:
                with contextlib.suppress(OSError):
                    groups = split_request(body := self.journal.body(entry)) or []
                    line = self._line(entry.headers, now)
                    line.tenant.take_traces(body, groups, 0, min(entry.received, now), leave=False)

    def _feed_again(self, line: _TenantState, records: Iterable[tuple[float, bytes]], now: float) -> None:
        for at, record in records:
            with self._unreadable():
                line.tenant.restore(decode_record(record), min(at, now))

    # Reading.

    def document(self) -> Mapping[str, Any]:
        """Return the coverage as JSON values."""
        return self.coverage.document(self.sessions_without_golden)

    @property
    def sessions_without_golden(self) -> int:
        """Sessions that no golden wants."""
        return self._gone_without_golden + sum(line.without_golden for line in list(self._lines.values()))

    @property
    def tenants(self) -> Sequence[Tenant]:
        """Every tenant that is known."""
        return [line.tenant for line in list(self._lines.values())]

    @property
    def shelf_bytes(self) -> int:
        """Bytes on all shelves."""
        return sum(line.shelf.size for line in list(self._lines.values()))

    # Inside.

    def _line(self, headers: Headers, now: float) -> _TenantState:
        name = json.dumps(headers)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = self._new_line(name, headers)
            if len(self._lines) > self.settings.max_tenants:
                self._drop(next(iter(self._lines.values())), now)
            self._share_out()
        else:
            self._lines.move_to_end(name)
        return line

    def _share_out(self) -> None:
        """Give each tenant an equal part of what all of them may keep; spans that no golden can want are not kept."""
        parts, keeps = len(self._lines), bool(self._goldens.goldens) or self.settings.tier == "assemble"
        for line in self._lines.values():
            line.shelf.max_bytes = self.settings.shelf_bytes // parts if keeps else 0
            line.tenant.engine.settings = replace(
                self.settings.engine, max_spans=max(1, self.settings.engine.max_spans // parts)
            )

    def _new_line(self, name: str, headers: Headers) -> _TenantState:
        shelf = EncodedSpanBuffer(retention=self.settings.engine.trace_retention, max_bytes=self.settings.shelf_bytes)
        return _TenantState(name, headers, self._new_tenant(name, shelf), shelf, TenantMetrics(self._instance))

    def _new_tenant(self, name: str, shelf: EncodedSpanBuffer) -> Tenant:
        changes = self.ledger

        def on_buried(trace_id: str, at: float, known: bytes | None) -> None:
            changes.changes.tombstones[name, trace_id] = None if known is None else (at, known)

        return (AssemblingTenant if self.settings.tier == "assemble" else Tenant)(
            self._goldens,
            self._registry,
            self._needles,
            self.settings.engine,
            shelf=shelf,
            hold=self.settings.hold == "turn",
            on_problem=self._on_problem,
            on_buried=on_buried,
            on_closed=lambda trace_id: changes.changes.close(name, trace_id),
        )

    def _drop(self, line: _TenantState, now: float) -> None:
        """Judge all there is of the least recently active tenant, and forget it."""
        self.evicted_tenants += 1
        self._step(line, functools.partial(line.tenant.flush, end_of_input=True), now)
        del self._lines[line.name]
        self._gone_without_golden += line.without_golden
        for trace in line.tenant.store.traces():
            self.ledger.changes.close(line.name, trace.trace_id)
        for session_id in line.said:
            self.ledger.changes.sessions[line.name, session_id] = None
        line.points.close()

    def _take_traces(
        self,
        number: int,
        request: Request,
        groups: Sequence[SpanGroup],
        entry: LogEntry | None,
        now: float,
        parts: tuple[bool, bytes] | None,
    ) -> None:
        line = self._line(request.headers, now)
        rest: bytes | None = None
        learnt: tuple[Record, ...] = ()
        if parts is not None:
            groups, gone = _parted(groups, parts)
            learnt = line.tenant.take_traces(request.body, gone, number, now, leave=False).facts
            rest = join_request(groups)
        taken = line.tenant.take_traces(request.body, groups, number, now)
        rest = taken.rest if taken.rest is not None else rest
        body = TrackedBody(number, line.name, entry, held=set(taken.held), facts=(*learnt, *taken.facts), time=now)
        self.ledger.open(body)
        if rest is None:
            self.outbox.send_whole(request, body)
        elif rest:
            self.outbox.send(Request(Signal.TRACES, rest, request.headers), RequestSources(rest_of=number))
        else:
            self.ledger.rest_left(number)
        self._bound_held(line)

    def _bound_held(self, line: _TenantState) -> None:
        held = sum(one.tenant.held_bytes for one in self._lines.values())
        if held > self.settings.max_held_bytes:
            released = line.tenant.let_go(max(0, line.tenant.held_bytes - (held - self.settings.max_held_bytes)))
            self.released_early["max_held_bytes"] += len(released)
            self._leave(line, released)

    def _step(self, line: _TenantState, step: Callable[[float], TenantOutput | None], now: float) -> None:
        """Take one step of an engine; one that fails lets go of its spans, and another engine takes its place."""
        try:
            judged = step(now)
        except Exception as error:  # noqa: BLE001 - the engine's state is not to be trusted any more; the spans are
            self._on_failure("engine", error)
            released = line.tenant.let_go(0)
            self.released_early["failure"] += len(released)
            self._leave(line, released)
            self._gone_without_golden += line.without_golden
            line.without_golden = 0
            line.tenant = self._new_tenant(line.name, line.shelf)
            self._share_out()
            return
        if judged is not None:
            self._emit(line, judged, now)

    def _emit(self, line: _TenantState, judged: TenantOutput, now: float) -> None:
        handout = judged.handout
        for evaluation in handout.evaluations:
            self.coverage.take(evaluation)
        for problem in handout.problems:
            self._on_problem(problem)
        self.released_early["hold_timeout"] += judged.past_timeout
        self._leave(line, judged.released)
        if handout.evaluations:
            if self._on_results is not None:
                self._on_results(handout.evaluations)
            events = encoded_events(handout.evaluations, int(now * _BILLION))
            self.outbox.write_and_send(Request(Signal.LOGS, events, line.headers))
            line.points.record(handout.evaluations)
            self._send_points(line, now)
        self._write_sessions(line)

    def _count_without_golden(self, line: _TenantState, now: float) -> None:
        """Count sessions that no golden wants; a point tells of them now and then, or with the next results."""
        tenant = line.tenant
        without = tenant.engine.stats.sessions_without_golden + tenant.sessions_without_golden
        newly, line.without_golden = without - line.without_golden, without
        if newly:
            line.points.record_without_golden(newly)
            line.points_due = True
        if line.points_due and now - line.points_at >= _POINTS_EVERY:
            self._send_points(line, now)

    def _send_points(self, line: _TenantState, now: float) -> None:
        line.points_at, line.points_due = now, False
        if encoded := line.points.encoded():
            request = Request(Signal.METRICS, encoded, line.headers)
            line.points_sent = self.outbox.replace(line.points_sent, request)

    def _leave(self, line: _TenantState, released: Iterable[HeldSpan]) -> None:
        """Send spans that waited: written down first where they carry something, else still owed as before."""
        scored: list[HeldSpan] = []
        bare: list[HeldSpan] = []
        for held in released:
            (scored if held.attributes else bare).append(held)
        for some in _chunks(scored):
            self.outbox.write_and_send(
                Request(Signal.TRACES, join_request(held.leave() for held in some), line.headers), _by_body(some)
            )
        for some in _chunks(bare):
            self.outbox.send(
                Request(Signal.TRACES, join_request(held.leave() for held in some), line.headers),
                RequestSources(held=_by_body(some)),
            )

    def _write_sessions(self, line: _TenantState) -> None:
        store = line.tenant.store
        touched, store.touched = store.touched, set()
        if self.journal is None:
            return
        for session_id in touched:
            session = store.session(session_id)
            check = 0 if session is None else _check(session)
            if check == line.said.get(session_id, 0):
                continue
            if session is None or not check:
                line.said.pop(session_id, None)
                self.ledger.changes.sessions[line.name, session_id] = None
            else:
                line.said[session_id] = check
                self.ledger.changes.sessions[line.name, session_id] = encode_session(session)
        store.touched.clear()

    def _is_open(self, tenant: str, trace_id: str) -> bool:
        line = self._lines.get(tenant)
        return line is not None and line.tenant.is_open(trace_id)

    def _on_problem(self, problem: Problem) -> None:
        self.problems[problem.code] += 1

    @contextlib.contextmanager
    def _unreadable(self) -> Any:
        try:
            yield
        except (ValueError, msgspec.MsgspecError):
            self.problems["unreadable_record"] += 1


def registry_for(goldens: GoldenIndex, settings: PipelineSettings) -> DialectRegistry:
    """Return what reads all that these goldens and settings need."""
    return DialectRegistry(
        session_keys=settings.engine.assembly.session_keys,
        join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
    )


def _check(session: Any) -> int:
    """Return what is another when something new was said of a session; 0 where nothing was."""
    if not (session.results or session.over or session.dropped_until):
        return 0
    revisions = tuple((one.id, one.revision) for one in session.results.values())
    return hash((session.dropped_until, frozenset(session.over), revisions)) or 1


def _headers(name: str) -> Headers:
    return tuple((key, value) for key, value in json.loads(name))


def _parted(groups: Sequence[SpanGroup], parts: tuple[bool, bytes]) -> tuple[list[SpanGroup], list[SpanGroup]]:
    """Tell the spans that still have to leave from those that have left."""
    rest_waits, ids = parts
    named = refs_of(ids)
    leaving: list[SpanGroup] = []
    gone: list[SpanGroup] = []
    for group in groups:
        stays = [(ref_of(span) in named) is not rest_waits for span in group.spans]
        leaving.append(SpanGroup(group.envelope, [span for span, stay in zip(group.spans, stays, strict=True) if stay]))
        gone.append(
            SpanGroup(group.envelope, [span for span, stay in zip(group.spans, stays, strict=True) if not stay])
        )
    return leaving, gone


def _chunks(released: Sequence[HeldSpan]) -> Iterable[list[HeldSpan]]:
    chunk: list[HeldSpan] = []
    size = 0
    for held in released:
        if chunk and (len(chunk) >= _SPANS or size + len(held.span) > _BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(held)
        size += len(held.span)
    if chunk:
        yield chunk


def _by_body(released: Iterable[HeldSpan]) -> dict[int, list[SpanRef]]:
    found: dict[int, list[SpanRef]] = {}
    for held in released:
        found.setdefault(held.body, []).append(held.ref)
    return found
