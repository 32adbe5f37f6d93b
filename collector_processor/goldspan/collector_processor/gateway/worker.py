"""The work of the gateway's one engine thread: everything that has state, and nothing that waits.

The pipeline calls the worker with requests, delivery results and the time; the worker puts requests into the delivery
queue. A request that carries results is sent only after the commit that notes the results as given: after a crash a
result may be sent again, or for the first time, and is never lost.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from goldspan.collector_processor.daemon_threads import LARGE
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import encoded_events
from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, join_request
from goldspan.collector_processor.engine.reading_and_holding import JoinReport, SessionsWithoutGolden
from goldspan.collector_processor.gateway.background_judge import BackgroundJudge
from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher
from goldspan.collector_processor.gateway.deliver.outbox import AcceptedBody, DeadLetters, Outbox, RequestSources
from goldspan.collector_processor.gateway.interfaces import ExportRequest, Headers
from goldspan.collector_processor.gateway.journal.body_log import LogEntry
from goldspan.collector_processor.gateway.journal.journal import Journal
from goldspan.collector_processor.gateway.profile_learner import ProfileLearner
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.tenant import (
    ALREADY_SENT,
    ReadingRules,
    ReleasedSpans,
    Tenant,
    TenantOutput,
    TenantTable,
)
from goldspan.collector_processor.gateway.unread_services import Advise, UnreadServices
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.admin import GoldenCoverage
from goldspan.mappers.span_facts import Record
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex

_logger = logging.getLogger("goldspan.gateway")

_REPORT_INTERVAL = 10.0  # seconds between two lines of the log about sessions without golden
_NANOSECONDS = 1_000_000_000


class ReceivedBody(NamedTuple):
    """An acknowledged request, split into spans."""

    number: int
    request: ExportRequest
    groups: Sequence[SpanGroup]
    """The spans to send; empty for other signals."""
    entry: LogEntry | None
    """Its place in the body log; None without a journal."""
    sent: Sequence[SpanGroup] | None = None
    """After a restart, the spans of a partly delivered body that were delivered."""
    time: float | None = None
    """When it was acknowledged: its spans are held from then; None: when it is received."""


class Worker:
    """For one thread; other threads may only read counts."""

    def __init__(
        self,
        goldens: GoldenIndex,
        settings: PipelineSettings,
        *,
        journal: Journal | None,
        queue: Dispatcher,
        instance: str,
        on_failure: Callable[[str, BaseException], object],
        on_results: Callable[[Sequence[Evaluation]], object] | None = None,
        judge: BackgroundJudge | None = None,
        advise: Advise | None = None,
        learner: ProfileLearner | None = None,
        go_on: Callable[[threading.Event], object] | None = None,
    ) -> None:
        """Judge by `goldens` and send through `queue`; `instance` names this gateway in its metrics.

        `go_on` is what its thread does while a large session is judged in another one.
        `on_results` is called with all results too; it must not raise. `judge` and `learner` are given the
        sessions that are over.
        """
        self.settings = settings
        self.journal = journal
        self.coverage = GoldenCoverage(goldens)
        self.unread_services = UnreadServices(advise)
        self.problems = Counter[str]()
        self.released_early = Counter[str]()
        self.is_busy = False
        """More is due than the last call of `poll` judged."""
        self._is_full = False  # the journal accepted no request at the last tick
        self._past_without_golden = 0  # sessions without golden of tenants that are gone
        self._joins = JoinReport()
        self._next_report: float | None = None
        self._rules = ReadingRules.of(goldens, settings, self._on_problem)
        self._instance = instance
        self._on_failure = on_failure
        self._on_results = on_results
        self._judge = judge
        self._learner = learner
        self._go_on = go_on
        letters = None
        if settings.dead_letters is not None:
            letters = DeadLetters(
                settings.dead_letters, max_files=settings.dead_letter_files, max_bytes=settings.dead_letter_bytes
            )
        self.outbox = Outbox(queue, journal, letters, self._is_open, on_failure, settings.batch_bytes)
        self.tenants = TenantTable(settings, self._new_tenant, self._close_tenant)
        self.tenants.buffers_unread = self._rules.goldens.wants_any

    # Requests.

    def receive(self, received: ReceivedBody, now: float) -> None:
        """Receive an acknowledged request; what cannot be worked on is forwarded."""
        request = received.request
        try:
            if request.signal is Signal.TRACES:
                self._receive_spans(received, now)
            else:
                logs = request.signal is Signal.LOGS
                tenant = self.tenants.of(request.headers, now)
                self.forward(received, now, tenant.receive_logs(request.body, now) if logs else ())
        except BaseException as error:  # noqa: BLE001 - what cannot be scored is forwarded all the same
            self._on_failure("engine", error)
            self.forward(received, now)

    def forward(self, received: ReceivedBody, now: float, facts: Sequence[Record] = ()) -> None:
        """Forward a request as it is, unless it is being worked on; `facts` are those that the engine was fed of it."""
        number, request = received.number, received.request
        if not self.outbox.is_tracked(number):
            tenant = self.tenants.of(request.headers, now)
            body = AcceptedBody(number, tenant.name, received.entry, facts=facts, time=now)
            self.outbox.track(body)
            self.outbox.forward(request, body)

    def _receive_spans(self, received: ReceivedBody, now: float) -> None:
        number, request, groups = received.number, received.request, received.groups
        tenant = self.tenants.of(request.headers, now)
        forward: bytes | None = None
        facts: tuple[Record, ...] = ()
        if received.sent is not None:
            facts = tenant.receive_spans(request.body, received.sent, number, now, ALREADY_SENT).facts
            forward = join_request(groups)
        self.unread_services.note(tenant.label, groups, self._rules.scanner)
        decision = tenant.receive_spans(request.body, groups, number, now, received.time)
        forward = decision.forward if decision.forward is not None else forward
        held, facts = set(decision.held), (*facts, *decision.facts)
        body = AcceptedBody(number, tenant.name, received.entry, held=held, facts=facts, time=now)
        self.outbox.track(body)
        if forward is None:
            self.outbox.forward(request, body)
        elif forward:
            request = ExportRequest(Signal.TRACES, forward, request.headers)
            self.outbox.send(request, RequestSources(forward_of=number))
        else:
            self.outbox.mark_forwarded(number)
        if released := self.tenants.release_excess(tenant):
            self._send_early(tenant, released, "max_held_bytes")

    # Time.

    def tick(self, now: float) -> None:
        """Work on what is due, and commit."""
        self.poll(now)
        for tenant in self.tenants:
            tenant.unread.expire(now)
            tenant.compact(now)
            tenant.metrics.count_without_golden(tenant.sessions_without_golden, now)
        self._report_joins(now)
        self.commit(now)

    def poll(self, now: float) -> None:
        """Judge a part of what is due, so that a backlog delays nothing else; `is_busy` tells whether more is due."""
        for tenant in self.tenants:
            self._step(tenant, tenant.poll, now)
        self.release_overdue(now)
        self.emit_judged(now)
        self.is_busy = any(tenant.is_due(now) for tenant in self.tenants)

    def release_overdue(self, now: float, *, beside_worker: bool = False) -> None:
        """Send spans that were held for too long; `beside_worker`: in another thread, while this one may judge."""
        for tenant in self.tenants:
            if released := tenant.release_overdue(now, beside_worker=beside_worker):
                self.released_early["hold_timeout"] += released

    def emit_judged(self, now: float) -> None:
        """Send the results that the background judge has by now."""
        if self._judge is not None:
            for name, evaluations in self._judge.results():
                tenant = self.tenants.restored(name, now)
                self._emit_results(tenant, evaluations, now)
                self._count(tenant, evaluations, (), now)

    def flush(self, now: float, *, end_of_input: bool) -> None:
        """Judge every turn that is ready and release every span; with `end_of_input` judge every run."""
        for tenant in self.tenants:
            self._step(tenant, functools.partial(tenant.flush, end_of_input=end_of_input), now)
            tenant.metrics.count_without_golden(tenant.sessions_without_golden, now, at_once=True)
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
        self.coverage.goldens = goldens
        self._rules = ReadingRules.of(goldens, self.settings, self._on_problem)
        for tenant in self.tenants:
            tenant.use_goldens(self._rules)
        self.tenants.buffers_unread = self._rules.goldens.wants_any
        self.tenants.share_memory()

    # Counts.

    def unread(self) -> list[Mapping[str, Any]]:
        """Return the services whose telemetry is not understood, as JSON values."""
        return self.unread_services.document(self._rules.registry)

    @property
    def sessions_without_golden(self) -> int:
        """Sessions that no golden wants."""
        return self._past_without_golden + sum(tenant.sessions_without_golden for tenant in self.tenants)

    @property
    def unread_span_bytes(self) -> int:
        """Bytes in all span buffers."""
        return sum(tenant.unread.size for tenant in self.tenants)

    def newest_without_golden(self) -> SessionsWithoutGolden:
        """Return the last sessions without golden, those of the most recently active tenant last."""
        newest = SessionsWithoutGolden()
        for tenant in self.tenants:
            for one in tenant.engine.without_golden.newest():
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
        sentence = self._joins.sentence(self._rules.goldens.goldens, self.newest_without_golden(), count, last=last)
        if sentence is not None:
            _logger.log(logging.WARNING if self._joins.is_warning else logging.INFO, "%s", sentence)

    # Tenants.

    def _new_tenant(self, headers: Headers) -> Tenant:
        return Tenant(
            headers,
            self._rules,
            self.settings,
            self.outbox,
            instance=self._instance,
            on_problem=self._on_problem,
            go_on=self._go_on,
        )

    def _close_tenant(self, tenant: Tenant, now: float) -> None:
        """Judge all runs of a tenant and delete it from the journal."""
        self._step(tenant, functools.partial(tenant.flush, end_of_input=True), now)
        self._past_without_golden += tenant.sessions_without_golden
        tenant.delete_from_journal()

    def _is_open(self, tenant: str, trace_id: str) -> bool:
        found = self.tenants.named(tenant)
        return found is not None and found.store.has(trace_id)

    # Results.

    def _step(self, tenant: Tenant, step: Callable[[float], TenantOutput | None], now: float) -> None:
        """Run one step of an engine; after a failure its spans are released and a new engine takes its place."""
        try:
            output = step(now)
        except BaseException as error:  # noqa: BLE001 - the engine's state cannot be trusted after it, the spans can
            self._on_failure("engine", error)
            self._send_early(tenant, tenant.held.release_all(), "failure")
            tenant.restart()
            self.tenants.share_memory()
            return
        if output is not None:
            self._emit(tenant, output, now)

    def _emit(self, tenant: Tenant, step: TenantOutput, now: float) -> None:
        for problem in step.output.problems:
            self._on_problem(problem)
        tenant.send_released(step.released)
        self._emit_results(tenant, step.output.evaluations, now)
        self._count(tenant, step.output.final, step.output.superseded, now)
        if self.journal is None:
            tenant.store.touched.clear()
        else:
            tenant.journal_sessions()
        if self._learner is not None:
            for result in step.output.sessions:
                if result.session is not None:
                    self._learner.put(tenant.name, result.session)
        if self._judge is not None:
            for result in step.output.sessions:
                run = result.session
                if result.golden is not None or (run is not None and self._rules.goldens.samples_run(run)):
                    self._judge.put(tenant.name, result)

    def _emit_results(self, tenant: Tenant, evaluations: Sequence[Evaluation], now: float) -> None:
        for start in range(0, len(evaluations), LARGE):
            if start:
                tenant.engine.side.pause({one.session_id for one in evaluations[start:]})
            some = evaluations[start : start + LARGE]
            for evaluation in some:
                self.coverage.see(evaluation)
                self._joins.golden_seen(evaluation.golden_set, evaluation.golden)
            if self._on_results is not None:
                self._on_results(some)
            if events := encoded_events(some, int(now * _NANOSECONDS)):
                self.outbox.send_after_commit(ExportRequest(Signal.LOGS, events, tenant.headers))

    def _count(self, tenant: Tenant, final: Sequence[Evaluation], superseded: Sequence[Evaluation], now: float) -> None:
        """Count results that are final: a session that grows would count what it withdraws."""
        for start in range(0, len(final), LARGE):
            if start:
                tenant.engine.side.pause({one.session_id for one in final[start:]})
            some = final[start : start + LARGE]
            for evaluation in some:
                self.coverage.count(evaluation, tenant.label)
            tenant.metrics.record(some, (), now)
        if superseded:
            tenant.metrics.record((), superseded, now)

    def _send_early(self, tenant: Tenant, released: ReleasedSpans, reason: str) -> None:
        self.released_early[reason] += len(released)
        tenant.send_released(released)

    def _on_problem(self, problem: Problem) -> None:
        self.problems[problem.code] += 1
