"""Recovery after a crash or restart: what the journal kept is given back to the worker, before anything new.

requests that were not delivered  -> sent again
tombstones                        -> repeats of dropped spans are recognised as before
sessions and their call records   -> the engine continues; no result is given twice
done bodies within the retention  -> their spans may still turn out to be wanted
bodies that are not done          -> received again; their spans that were delivered are not sent again
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from goldspan.collector_processor.encoded_spans.call_records import decode_record, decode_session
from goldspan.collector_processor.encoded_spans.kept_texts import is_piece
from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, ref_of, split_request
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError, LogEntry
from goldspan.collector_processor.gateway.journal.journal import Journal, RecoveredState, decode_refs
from goldspan.collector_processor.gateway.tenant import Tenant, session_hash
from goldspan.collector_processor.gateway.worker import Worker
from goldspan.collector_processor.otlp_signals import Signal


def restore_state(worker: Worker, journal: Journal, found: RecoveredState, now: float) -> Iterator[None]:
    """Restore everything but the bodies.

    Yields after each session, so that the caller can note deliveries, work on what is due and compress large states.
    """
    worker.outbox.resend(found.outgoing, journal.next_outgoing)
    for tenant, trace_id, at, known in found.tombstones:
        worker.tenants.restored(tenant, now).store.restore_tombstone(trace_id, at, known)
    records: dict[tuple[str, str], list[tuple[float, bytes]]] = {}
    for tenant, trace_id, at, record in found.records:
        if is_piece(trace_id):
            with _unreadable_counted(worker):
                worker.tenants.restored(tenant, now).texts.restore(trace_id, record)
        else:
            records.setdefault((tenant, trace_id), []).append((at, record))
    found.records.clear()
    for tenant, session_id, encoded in found.sessions:
        one = worker.tenants.restored(tenant, now)
        with _unreadable_counted(worker):
            session = decode_session(session_id, encoded, now)
            one.engine.restore_session(session, now)
            one.journaled[session_id] = session_hash(session)
            # With all its traces at once a session is judged as before, so that no result is given again.
            targets = (result.target for result in session.results.values())
            for trace_id in {target.trace_id for target in targets if target is not None}:
                _restore_records(worker, one, records.pop((tenant, trace_id), ()), now)
        yield
    for (tenant, _), some in records.items():
        _restore_records(worker, worker.tenants.restored(tenant, now), some, now)
        yield
    for one in worker.tenants:
        one.texts.drop_unused()


def receive_bodies(
    worker: Worker,
    journal: Journal,
    found: RecoveredState,
    now: float,
    on_failure: Callable[[str, Exception], object],
    after_each: Callable[[], object] = lambda: None,
) -> bool:
    """Let the worker receive the bodies in `found`; `on_failure` gets what cannot be read or scored.

    `after_each` is called after each body, of which there may be many. Those that cannot be read now stay in `found`,
    for another call. Return whether there are none.
    """

    def left(entries: Iterable[LogEntry], receive: Callable[[LogEntry], bool]) -> Iterator[LogEntry]:
        for entry in entries:
            if not receive(entry):
                yield entry
            after_each()

    found.retained = list(left(found.retained, lambda one: _receive_retained(worker, journal, one, now, on_failure)))
    found.bodies = list(left(found.bodies, lambda one: _receive(worker, journal, found, one, now, on_failure)))
    return not (found.retained or found.bodies)


def _receive_retained(
    worker: Worker, journal: Journal, entry: LogEntry, now: float, on_failure: Callable[[str, Exception], object]
) -> bool:
    """Let the worker read the spans of a body that was delivered; False if it cannot be read now."""
    if entry.signal is not Signal.TRACES:
        return True
    try:
        groups = split_request(body := journal.body(entry)) or []
        tenant = worker.tenants.of(entry.headers, now)
        tenant.receive_spans(body, groups, 0, min(entry.received, now), already_sent=True)
    except BodyGoneError:
        return True
    except OSError as error:
        on_failure("journal", error)
        return False
    except Exception as error:  # noqa: BLE001 - it was delivered
        on_failure("engine", error)
    return True


def _receive(
    worker: Worker,
    journal: Journal,
    found: RecoveredState,
    entry: LogEntry,
    now: float,
    on_failure: Callable[[str, Exception], object],
) -> bool:
    """Let the worker receive a body that is not done; False if it cannot be read now."""
    try:
        body = journal.body(entry)
    except BodyGoneError as error:
        on_failure("journal", error)
        worker.outbox.changes.done.add(entry.number)
        return True
    except OSError as error:
        on_failure("journal", error)
        return False
    request = ExportRequest(entry.signal, body, entry.headers)
    part = found.parts.get(entry.number) if entry.signal is Signal.TRACES else None
    try:
        groups, sent = _waiting_and_sent(split_request(body) or [], part)
    except Exception as error:  # noqa: BLE001 - what cannot be scored is forwarded all the same
        on_failure("engine", error)
        worker.forward(entry.number, request, entry, now)
    else:
        worker.receive(entry.number, request, groups, entry, now, already_sent=sent)
    return True


def _restore_records(worker: Worker, tenant: Tenant, records: Iterable[tuple[float, bytes]], now: float) -> None:
    for at, record in records:
        with _unreadable_counted(worker):
            tenant.restore(decode_record(record, tenant.texts.find), min(at, now))


@contextlib.contextmanager
def _unreadable_counted(worker: Worker) -> Generator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - what is on disk may be anything
        worker.problems["unreadable_record"] += 1


def _waiting_and_sent(
    groups: Sequence[SpanGroup], part: tuple[bool, bytes] | None
) -> tuple[list[SpanGroup], list[SpanGroup] | None]:
    """Separate the spans of a partly delivered body into those that still have to be sent and those that were."""
    if part is None:
        return list(groups), None
    forward_waits, ids = part
    named = decode_refs(ids)
    waiting: list[SpanGroup] = []
    sent: list[SpanGroup] = []
    for envelope, spans in groups:
        waits = [(ref_of(span) in named) is not forward_waits for span in spans]
        waiting.append(SpanGroup(envelope, [span for span, wait in zip(spans, waits, strict=True) if wait]))
        sent.append(SpanGroup(envelope, [span for span, wait in zip(spans, waits, strict=True) if not wait]))
    return waiting, sent
