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

from goldspan.collector_processor.encoded_spans.call_records import decode_record, decode_session, is_piece
from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, ref_of, split_request
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError, LogEntry
from goldspan.collector_processor.gateway.journal.journal import Journal, RecoveredState, decode_refs
from goldspan.collector_processor.gateway.tenant import ALREADY_SENT, Tenant, session_hash
from goldspan.collector_processor.gateway.worker import ReceivedBody, Worker
from goldspan.collector_processor.otlp_signals import Signal

_READ_AGAIN = 1.0  # seconds after which a body that could not be read is read again


class Recovery:
    """Gives the worker what an earlier process left: first its state, then its bodies."""

    def __init__(
        self,
        worker: Worker,
        journal: Journal,
        found: RecoveredState,
        *,
        on_failure: Callable[[str, Exception], object],
        after_each: Callable[[], object] = lambda: None,
    ) -> None:
        """Restore what is in `found`.

        `on_failure` gets what cannot be read or scored. `after_each` is called after each body, of which there may be
        many.
        """
        self._worker = worker
        self._journal = journal
        self.found = found
        """What is not restored yet."""
        self._on_failure = on_failure
        self._after_each = after_each
        self._read_again_at = 0.0

    def restore_state(self, now: float) -> Iterator[None]:
        """Restore everything but the bodies.

        Yields after each session: the caller can note deliveries, work on what is due and compress large states.
        """
        tenants, found = self._worker.tenants, self.found
        self._worker.outbox.resend(found.outgoing, self._journal.next_outgoing)
        for name, trace_id, at, known in found.tombstones:
            tenants.restored(name, now).store.restore_tombstone(trace_id, at, known)
        records: dict[tuple[str, str], list[tuple[float, bytes]]] = {}
        for name, trace_id, at, record in found.records:
            if is_piece(trace_id):
                with self._unreadable_counted():
                    tenants.restored(name, now).texts.restore(trace_id, record)
            else:
                records.setdefault((name, trace_id), []).append((at, record))
        found.records.clear()
        for name, session_id, encoded in found.sessions:
            tenant = tenants.restored(name, now)
            with self._unreadable_counted():
                session = decode_session(session_id, encoded, now)
                tenant.engine.restore_session(session, now)
                tenant.journaled[session_id] = session_hash(session)
                # With all its traces at once a session is judged as before, so that no result is given again.
                targets = (result.target for result in session.results.values())
                for trace_id in {target.trace_id for target in targets if target is not None}:
                    self._restore_records(tenant, records.pop((name, trace_id), ()), now)
            yield
        for (name, _), some in records.items():
            self._restore_records(tenants.restored(name, now), some, now)
            yield
        for tenant in tenants:
            tenant.texts.drop_unused()

    def receive_bodies(self, now: float) -> bool:
        """Let the worker receive the bodies, at most once a second; return whether none is left.

        Those that cannot be read now stay for another call.
        """
        if now < self._read_again_at:
            return False
        self._read_again_at = now + _READ_AGAIN
        found = self.found
        found.retained = [one for one in found.retained if not self._receive(one, now, is_done=True)]
        found.bodies = [one for one in found.bodies if not self._receive(one, now, is_done=False)]
        return not (found.retained or found.bodies)

    def _receive(self, entry: LogEntry, now: float, *, is_done: bool) -> bool:
        """Let the worker receive a body, or read the spans of one that is done; False if it cannot be read now."""
        if is_done and entry.signal is not Signal.TRACES:
            return True
        try:
            body = self._journal.body(entry)
        except BodyGoneError as error:
            if not is_done:
                self._on_failure("journal", error)
                self._worker.outbox.changes.done.add(entry.number)
        except OSError as error:
            self._on_failure("journal", error)
            return False
        else:
            read = self._read_delivered if is_done else self._receive_waiting
            read(entry, body, now)
        finally:
            self._after_each()
        return True

    def _read_delivered(self, entry: LogEntry, body: bytes, now: float) -> None:
        """Let the worker read the spans of a body: they may still turn out to be wanted."""
        try:
            tenant = self._worker.tenants.of(entry.headers, now)
            tenant.receive_spans(body, split_request(body) or [], 0, min(entry.received, now), ALREADY_SENT)
        except Exception as error:  # noqa: BLE001 - it was delivered
            self._on_failure("engine", error)

    def _receive_waiting(self, entry: LogEntry, body: bytes, now: float) -> None:
        """Let the worker receive a body that is not done; its spans that were delivered are not sent again."""
        received = ReceivedBody(entry.number, ExportRequest(entry.signal, body, entry.headers), (), entry)
        part = self.found.parts.get(entry.number) if entry.signal is Signal.TRACES else None
        try:
            groups, sent = _waiting_and_sent(split_request(body) or [], part)
        except Exception as error:  # noqa: BLE001 - what cannot be scored is forwarded all the same
            self._on_failure("engine", error)
            self._worker.forward(received, now)
        else:
            self._worker.receive(received._replace(groups=groups, sent=sent), now)

    def _restore_records(self, tenant: Tenant, records: Iterable[tuple[float, bytes]], now: float) -> None:
        for at, record in records:
            with self._unreadable_counted():
                tenant.restore(decode_record(record, tenant.texts.find), min(at, now))

    @contextlib.contextmanager
    def _unreadable_counted(self) -> Generator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - what is on disk may be anything
            self._worker.problems["unreadable_record"] += 1


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
