"""The work of the gateway's one engine thread: everything that has state, and nothing that waits.

The pipeline calls the worker with requests, delivery results and the time; the worker puts requests into the delivery
queue. A request that carries results is sent only after the commit that notes the results as given: after a crash a
result may be sent again, or for the first time, and is never lost.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from goldspan.collector_processor.emit.encoded_points import EncodedMetrics
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import encoded_events
from goldspan.collector_processor.encoded_spans.attribute_key_scanner import KeyScanner
from goldspan.collector_processor.encoded_spans.call_records import encode_session
from goldspan.collector_processor.encoded_spans.span_groups import (
    EncodedSpanBuffer,
    SpanGroup,
    join_request,
    with_scores,
)
from goldspan.collector_processor.engine.reading_policy import HeldSpan
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.collector_processor.engine.sessions_without_golden import JoinReport, SessionsWithoutGolden
from goldspan.collector_processor.gateway.background_judge import BackgroundJudge
from goldspan.collector_processor.gateway.deliver.outbox import (
    AcceptedBody,
    DeadLetters,
    DeliveryQueue,
    Outbox,
    RequestSources,
)
from goldspan.collector_processor.gateway.interfaces import ExportRequest, Headers
from goldspan.collector_processor.gateway.journal.body_log import LogEntry
from goldspan.collector_processor.gateway.journal.journal import Journal
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.tenant import (
    BodySpan,
    ReleasedSpans,
    Tenant,
    TenantOutput,
    TenantState,
    TenantTable,
)
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.golden_coverage import GoldenCoverage
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.span_facts import Record
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import SpanRef

_logger = logging.getLogger("goldspan.gateway")

_MAX_SPANS, _MAX_BYTES = 512, 4 << 20
"""The released spans in one request; a request that is larger has one span."""
_METRICS_INTERVAL = 10.0
"""Seconds between metric points that count only sessions without golden."""
_REPORT_INTERVAL = 10.0
"""Seconds between two lines of the log about sessions without golden."""
_NANOSECONDS = 1_000_000_000


class Worker:
    """For one thread; other threads may only read counts."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: PipelineSettings,
        registry: DialectRegistry,
        *,
        journal: Journal | None,
        queue: DeliveryQueue,
        instance: str,
        on_failure: Callable[[str, Exception], object],
        on_results: Callable[[Sequence[Evaluation]], object] | None = None,
        judge: BackgroundJudge | None = None,
    ) -> None:
        """Judge by `goldens` and send through `queue`; `instance` names this gateway in its metrics.

        `on_results` is called with all results too; it must not raise. `judge` is given the sessions that are over.
        """
        self.settings = settings
        self.journal = journal
        self.coverage = GoldenCoverage(goldens)
        self.problems = Counter[str]()
        self.released_early = Counter[str]()
        self.is_busy = False
        """More is due than the last call of `poll` judged."""
        self._is_full = False
        """The journal accepted no request at the last tick."""
        self._past_without_golden = 0
        """Sessions without golden of engines that are gone."""
        self._joins = JoinReport()
        self._next_report: float | None = None
        self._goldens = goldens
        self._registry = registry
        self._scanner = KeyScanner(registry, settings.engine.assembly.session_keys)
        self._instance = instance
        self._on_failure = on_failure
        self._on_results = on_results
        self._judge = judge
        letters = None
        if settings.dead_letters is not None:
            letters = DeadLetters(
                settings.dead_letters, max_files=settings.dead_letter_files, max_bytes=settings.dead_letter_bytes
            )
        self.outbox = Outbox(queue, journal, letters, self._is_open, on_failure)
        self.tenants = TenantTable(settings, self._new_tenant_state, self._close_tenant)
        self.tenants.buffers_unread = self._goldens.wants_any

    # Requests.

    def receive(
        self,
        number: int,
        request: ExportRequest,
        groups: Sequence[SpanGroup],
        entry: LogEntry | None,
        now: float,
        *,
        already_sent: Sequence[SpanGroup] | None = None,
    ) -> None:
        """Receive an acknowledged request, split into spans; what cannot be worked on is forwarded.

        After a restart `already_sent` are the spans of the body that were delivered, and `groups` the others.
        """
        try:
            if request.signal is Signal.TRACES:
                self._receive_spans(number, request, groups, entry, now, already_sent)
            else:
                logs = request.signal is Signal.LOGS
                tenant = self.tenants.of(request.headers, now).tenant
                self.forward(number, request, entry, now, tenant.receive_logs(request.body, now) if logs else ())
        except Exception as error:  # noqa: BLE001 - what cannot be scored is forwarded all the same
            self._on_failure("engine", error)
            self.forward(number, request, entry, now)

    def forward(
        self, number: int, request: ExportRequest, entry: LogEntry | None, now: float, facts: Sequence[Record] = ()
    ) -> None:
        """Forward a request as it is, unless it is being worked on; `facts` are those that the engine was fed of it."""
        if not self.outbox.is_tracked(number):
            body = AcceptedBody(number, self.tenants.of(request.headers, now).name, entry, facts=facts, time=now)
            self.outbox.track(body)
            self.outbox.forward(request, body)

    def _receive_spans(
        self,
        number: int,
        request: ExportRequest,
        groups: Sequence[SpanGroup],
        entry: LogEntry | None,
        now: float,
        already_sent: Sequence[SpanGroup] | None,
    ) -> None:
        state = self.tenants.of(request.headers, now)
        forward: bytes | None = None
        facts: tuple[Record, ...] = ()
        if already_sent is not None:
            facts = state.tenant.receive_spans(request.body, already_sent, number, now, already_sent=True).facts
            forward = join_request(groups)
        decision = state.tenant.receive_spans(request.body, groups, number, now)
        forward = decision.forward if decision.forward is not None else forward
        held, facts = set(decision.held), (*facts, *decision.facts)
        body = AcceptedBody(number, state.name, entry, held=held, facts=facts, time=now)
        self.outbox.track(body)
        if forward is None:
            self.outbox.forward(request, body)
        elif forward:
            request = ExportRequest(Signal.TRACES, forward, request.headers)
            self.outbox.send(request, RequestSources(forward_of=number))
        else:
            self.outbox.mark_forwarded(number)
        if released := self.tenants.release_excess(state):
            self._send_early(state, released, "max_held_bytes")

    # Time.

    def tick(self, now: float) -> None:
        """Work on what is due, and commit."""
        self.poll(now)
        for state in self.tenants:
            state.unread.expire(now)
            state.tenant.compact(now)
            self._count_without_golden(state, now)
        self._report_joins(now)
        self.commit(now)

    def poll(self, now: float) -> None:
        """Judge a part of what is due, so that a backlog delays nothing else; `is_busy` tells whether more is due."""
        for state in self.tenants:
            self._step(state, state.tenant.poll, now)
        self.emit_judged(now)
        self.is_busy = any(state.tenant.is_due(now) for state in self.tenants)

    def emit_judged(self, now: float) -> None:
        """Send the results that the background judge has by now."""
        if self._judge is not None:
            for name, evaluations in self._judge.results():
                self._emit_results(self.tenants.restored(name, now), evaluations, now)

    def flush(self, now: float, *, end_of_input: bool) -> None:
        """Judge every turn that is ready and release every span; with `end_of_input` judge every run."""
        for state in self.tenants:
            self._step(state, functools.partial(state.tenant.flush, end_of_input=end_of_input), now)
            state.metrics_sent_at = 0.0
            self._count_without_golden(state, now)
        self._report_joins(now, last=True)
        self.commit(now)

    def commit(self, now: float) -> None:
        """Commit the changes and send what waited for that; after an error the next commit tries again."""
        self.outbox.write_dead_letters()
        try:
            for problem in self.outbox.commit(now - self.settings.engine.trace_retention):
                self.problems["journal_damaged"] += 1
                _logger.warning("%s", problem)
        except Exception as error:  # noqa: BLE001 - whatever it is, the changes wait for the next commit
            self.problems["journal_failed"] += 1
            self._on_failure("journal", error)
        if self.journal is not None:
            self.journal.check_room()
            reason = self.journal.not_ready_reason or ""
            if bool(reason) != self._is_full:
                self._is_full = bool(reason)
                _logger.warning("%s", f"requests are refused: {reason}" if reason else "requests are accepted again")

    def use_goldens(self, goldens: GoldenIndex) -> None:
        """Judge by these goldens from now on."""
        self._goldens = self.coverage.goldens = goldens
        self._registry = registry_for(goldens, self.settings)
        self._scanner = KeyScanner(self._registry, self.settings.engine.assembly.session_keys)
        for state in self.tenants:
            state.tenant.use_goldens(goldens, self._registry, self._scanner)
        self.tenants.buffers_unread = self._goldens.wants_any
        self.tenants.share_memory()

    # Counts.

    def coverage_document(self) -> Mapping[str, Any]:
        """Return the coverage of the goldens as JSON values."""
        return self.coverage.document(self.sessions_without_golden, self._newest_without_golden().newest())

    @property
    def sessions_without_golden(self) -> int:
        """Sessions that no golden wants."""
        return self._past_without_golden + sum(state.sessions_without_golden for state in self.tenants)

    @property
    def unread_span_bytes(self) -> int:
        """Bytes in all span buffers."""
        return sum(state.unread.size for state in self.tenants)

    def _newest_without_golden(self) -> SessionsWithoutGolden:
        """Return the last sessions without golden, those of the most recently active tenant last."""
        newest = SessionsWithoutGolden()
        for state in self.tenants:
            for one in state.tenant.engine.without_golden.newest():
                newest.add(one.id, one.source)
        return newest

    def _report_joins(self, now: float, *, last: bool = False) -> None:
        """Log which sessions came that no golden wants, now and then and at the end, if there are new ones."""
        count = self.sessions_without_golden
        if self._next_report is None and count:
            self._next_report = now + _REPORT_INTERVAL  # sessions with a golden that began with it are scored by then
        if self._next_report is None or (now < self._next_report and not last):
            return
        self._next_report = now + _REPORT_INTERVAL
        sentence = self._joins.sentence(self._goldens.goldens, self._newest_without_golden(), count, last=last)
        if sentence is not None:
            _logger.log(logging.WARNING if self._joins.is_warning else logging.INFO, "%s", sentence)

    # Tenants.

    def _new_tenant_state(self, name: str, headers: Headers) -> TenantState:
        engine = self.settings.engine
        unread = EncodedSpanBuffer(retention=engine.trace_retention, max_bytes=self.settings.unread_span_bytes)
        metrics = EncodedMetrics("goldspan-gateway", self._instance)
        return TenantState(name, headers, self._new_tenant(name, unread), unread, metrics)

    def _new_tenant(self, name: str, unread: EncodedSpanBuffer) -> Tenant:
        outbox = self.outbox

        def on_tombstone(trace_id: str, at: float, known: bytes | None) -> None:
            outbox.changes.tombstones[name, trace_id] = None if known is None else (at, known)

        def on_closed(trace_id: str) -> None:
            outbox.changes.close(name, trace_id)

        return Tenant(
            self._goldens,
            self._registry,
            self._scanner,
            self.settings.engine,
            unread=unread,
            hold=self.settings.hold == "turn",
            on_problem=self._on_problem,
            on_tombstone=on_tombstone,
            on_closed=on_closed,
        )

    def _close_tenant(self, state: TenantState, now: float) -> None:
        """Judge all runs of a tenant and delete it from the journal."""
        self._step(state, functools.partial(state.tenant.flush, end_of_input=True), now)
        self._past_without_golden += state.sessions_without_golden
        for trace in state.tenant.store.traces():
            self.outbox.changes.close(state.name, trace.trace_id)
            state.tenant.texts.release(trace.trace_id)
        for session_id in state.journaled:
            self.outbox.changes.sessions[state.name, session_id] = None

    def _is_open(self, tenant: str, trace_id: str) -> bool:
        state = self.tenants.named(tenant)
        return state is not None and state.tenant.is_open(trace_id)

    # Results.

    def _step(self, state: TenantState, step: Callable[[float], TenantOutput | None], now: float) -> None:
        """Run one step of an engine; after a failure its spans are released and a new engine takes its place."""
        try:
            output = step(now)
        except Exception as error:  # noqa: BLE001 - the engine's state cannot be trusted after it, the spans can
            self._on_failure("engine", error)
            self._send_early(state, state.tenant.held.release_all(), "failure")
            self._past_without_golden += state.sessions_without_golden
            state.sessions_without_golden = 0
            state.tenant = self._new_tenant(state.name, state.unread)
            self.tenants.share_memory()
            return
        if output is not None:
            self._emit(state, output, now)

    def _emit(self, state: TenantState, step: TenantOutput, now: float) -> None:
        for problem in step.output.problems:
            self._on_problem(problem)
        self.released_early["hold_timeout"] += step.past_timeout
        self._send_released(state, step.released)
        self._emit_results(state, step.output.evaluations, now)
        self._journal_sessions(state)
        if self._judge is not None:
            for result in step.output.sessions:
                run = result.session
                if result.golden is not None or (run is not None and self._goldens.samples_run(run)):
                    self._judge.put(state.name, result)

    def _emit_results(self, state: TenantState, evaluations: Sequence[Evaluation], now: float) -> None:
        for evaluation in evaluations:
            self.coverage.count(evaluation)
            self._joins.golden_seen(evaluation.golden_set, evaluation.golden)
        if evaluations:
            if self._on_results is not None:
                self._on_results(evaluations)
            events = encoded_events(evaluations, int(now * _NANOSECONDS))
            self.outbox.send_after_commit(ExportRequest(Signal.LOGS, events, state.headers))
            state.metrics.record(evaluations)
            self._send_metrics(state, now)

    def _count_without_golden(self, state: TenantState, now: float) -> None:
        """Count sessions that no golden wants; a metric point is sent now and then, or with the next results."""
        tenant = state.tenant
        total = tenant.engine.stats.sessions_without_golden
        added, state.sessions_without_golden = total - state.sessions_without_golden, total
        if added:
            state.metrics.record_no_golden(added)
            state.metrics_changed = True
        if state.metrics_changed and now - state.metrics_sent_at >= _METRICS_INTERVAL:
            self._send_metrics(state, now)

    def _send_metrics(self, state: TenantState, now: float) -> None:
        state.metrics_sent_at, state.metrics_changed = now, False
        if encoded := state.metrics.encoded():
            request = ExportRequest(Signal.METRICS, encoded, state.headers)
            state.metrics_request = self.outbox.replace(state.metrics_request, request)

    def _send_early(self, state: TenantState, released: ReleasedSpans, reason: str) -> None:
        self.released_early[reason] += len(released)
        self._send_released(state, released)

    def _send_released(self, state: TenantState, released: ReleasedSpans) -> None:
        """Send released spans: those with attributes after a commit, the others as a part of their bodies."""
        scored: list[HeldSpan[BodySpan]] = []
        bare: list[HeldSpan[BodySpan]] = []
        for held in released:
            (scored if held.attributes else bare).append(held)
        for some in _chunks(scored):
            self.outbox.send_after_commit(_request_of(some, state.headers), _refs_by_body(some))
        for some in _chunks(bare):
            self.outbox.send(_request_of(some, state.headers), RequestSources(held=_refs_by_body(some)))

    def _journal_sessions(self, state: TenantState) -> None:
        """Write the sessions whose results changed to the journal."""
        store = state.tenant.store
        touched, store.touched = store.touched, set()
        if self.journal is None:
            return
        sessions = self.outbox.changes.sessions
        for session_id in touched:
            session = store.session(session_id)
            newest = 0 if session is None else session_hash(session)
            if newest == state.journaled.get(session_id, 0):
                continue
            if session is None or not newest:
                state.journaled.pop(session_id, None)
                sessions[state.name, session_id] = None
            else:
                state.journaled[session_id] = newest
                sessions[state.name, session_id] = encode_session(session)
        store.touched.clear()

    def _on_problem(self, problem: Problem) -> None:
        self.problems[problem.code] += 1


def registry_for(goldens: GoldenIndex, settings: PipelineSettings) -> DialectRegistry:
    """Return a registry that reads all attributes that these goldens and settings need."""
    return DialectRegistry(
        session_keys=settings.engine.assembly.session_keys,
        join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
        definitions=settings.engine.scorer.reads_definitions(goldens.goldens),
    )


def session_hash(session: SessionState) -> int:
    """Return a number that changes when a session gets or corrects a result; 0 without results."""
    if not (session.results or session.complete_runs or session.dropped_until):
        return 0
    revisions = tuple((one.id, one.revision) for one in session.results.values())
    return hash((session.dropped_until, frozenset(session.complete_runs), revisions)) or 1


def _chunks(released: ReleasedSpans) -> Iterable[list[HeldSpan[BodySpan]]]:
    chunk: list[HeldSpan[BodySpan]] = []
    size = 0
    for held in released:
        if chunk and (len(chunk) >= _MAX_SPANS or size + len(held.span.span) > _MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(held)
        size += len(held.span.span)
    if chunk:
        yield chunk


def _request_of(released: ReleasedSpans, headers: Headers) -> ExportRequest:
    return ExportRequest(Signal.TRACES, join_request(map(_scored, released)), headers)


def _scored(held: HeldSpan[BodySpan]) -> SpanGroup:
    span, envelope, _ = held.span
    return SpanGroup(envelope, [with_scores(span, held.attributes, held.metrics)])


def _refs_by_body(released: ReleasedSpans) -> dict[int, list[SpanRef]]:
    found: dict[int, list[SpanRef]] = {}
    for held in released:
        found.setdefault(held.span.body, []).append(held.ref)
    return found
