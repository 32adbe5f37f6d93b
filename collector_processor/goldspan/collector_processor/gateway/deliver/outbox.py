"""What still has to be delivered of every accepted body, and what is written to the journal before it is sent.

Three kinds of requests are sent:

- A body, or its part without the held spans. It is in the body log until it was delivered, and is read from there
  again after a crash.
- A request that carries results. It is a row of the journal, committed together with the fact that the results were
  given, and is sent only after that commit. So a crash may repeat a result, and never loses one.
- Held spans that are released without a result. They are still part of their body.

A body is done when all of it was delivered or is in rows of the journal. Changes for the journal are gathered here
until they are committed together.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goldspan.collector_processor.encoded_spans.call_records import encode_record, pieces_of
from goldspan.collector_processor.gateway.deliver.dispatcher import Dispatcher, PendingRequest
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, ExportRequest, Refused
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError, LogEntry, make_private, write_private
from goldspan.collector_processor.gateway.journal.journal import Changes, Journal, Outgoing, encode_refs
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.span_facts import Record
from goldspan.scoring.sessions import SpanRef

# Requests that a receiver refused for good, kept as files for a person to look at.


class DeadLetters:
    """Two files for each request: its body as it was sent, `*.pb`, and the reason, `*.json`.

    Beyond the bounds the oldest requests are deleted. Headers are named without their values, which may be secrets.
    """

    def __init__(self, folder: Path, *, max_files: int, max_bytes: int) -> None:
        """Use a folder, which is created with the first request; keep at most so many requests and bytes of bodies."""
        self._folder = folder
        self.max_files = max_files
        self.max_bytes = max_bytes
        self._count = 0
        self.written = 0
        self.dropped = 0
        """Requests that were deleted, or that could not be written and read any more."""

    def put(self, request: ExportRequest, reason: str, now: float) -> None:
        """Keep a request. Raises `OSError` if it cannot be written."""
        self._count += 1
        name = f"{now:017.6f}-{self._count:06d}-{request.signal.value}"
        reason_file = {
            "signal": request.signal.value,
            "bytes": len(request.body),
            "headers": [key for key, _ in request.headers],
            "reason": reason,
        }
        make_private(self._folder, () if self.written else ("*.pb", "*.json"))
        write_private(self._folder / f"{name}.json", json.dumps(reason_file, indent=2).encode())
        write_private(self._folder / f"{name}.pb", request.body)
        self.written += 1
        with contextlib.suppress(OSError):  # the next one makes room
            self._make_room()

    def _make_room(self) -> None:
        letters = sorted(self._folder.glob("*.pb"))
        sizes = {letter: letter.stat().st_size for letter in letters}
        total = sum(sizes.values())
        while letters and (len(letters) > self.max_files or total > self.max_bytes):
            oldest = letters.pop(0)
            total -= sizes[oldest]
            oldest.unlink(missing_ok=True)
            oldest.with_suffix(".json").unlink(missing_ok=True)
            self.dropped += 1


@dataclass(slots=True)
class AcceptedBody:
    """An acknowledged request that is not done."""

    number: int
    tenant: str
    entry: LogEntry | None
    """Its place in the body log; None without a journal."""
    forward_waits: bool = True
    """The part that is not held, or the whole body, was not delivered yet."""
    held: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans that wait or are being delivered, and are on disk in this body only."""
    settled: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans that were delivered, or are in a row of the journal."""
    facts: Sequence[Record] = ()
    """What the engine was fed of it: written to the journal when the body is done."""
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestSources:
    """What is done once a request was delivered."""

    forward_of: int | None = None
    """The body that the request forwards, whole or without held spans."""
    held: Mapping[int, Sequence[SpanRef]] = field(default_factory=dict[int, Sequence[SpanRef]])
    """Held spans in the request, by body."""
    row: int | None = None
    """The row of the journal that keeps the request until then."""


class Outbox:
    """Sends requests and keeps account of bodies. For one thread."""

    def __init__(
        self,
        queue: Dispatcher,
        journal: Journal | None,
        dead_letters: DeadLetters | None,
        is_open: Callable[[str, str], bool],
        on_failure: Callable[[str, Exception], object],
        batch_bytes: int = 0,
    ) -> None:
        """Send by `queue`; `is_open` tells of a tenant and a trace id whether the engine still keeps the trace.

        Requests of up to `batch_bytes` wait for `send_ready`.
        """
        self._queue = queue
        self._journal = journal
        self.dead_letters = dead_letters
        self._is_open = is_open
        self._on_failure = on_failure
        self._unwritten = deque[tuple[PendingRequest, str, float]]()
        """Refused requests that are not written as dead letters yet, with reason and time."""
        self._bodies: dict[int, AcceptedBody] = {}
        self._touched: set[int] = set()
        self.changes = Changes()
        """What the next commit writes."""
        self.delivered = Counter[Signal]()
        self.refused = Counter[Signal](dict.fromkeys(Signal, 0))
        self.rejected = Counter[Signal]()
        """Spans, log records and points that a receiver rejected."""
        self._batch_bytes = batch_bytes
        self._ready: list[PendingRequest] = []  # what may leave at once, and is given to the dispatcher together
        self._ready_bytes = 0
        self._after_commit: list[PendingRequest] = []
        self._next_row = 1

    # Accepted bodies.

    @property
    def open_bodies(self) -> int:
        """Bodies that are not done."""
        return len(self._bodies)

    @property
    def undelivered(self) -> int:
        """Requests, received or made, that are not delivered, or not noted as delivered in the journal."""
        rows = 0 if self._journal is None else self._journal.outgoing_rows + len(self.changes.outgoing)
        return len(self._bodies) + len(self.changes.done) + rows

    def track(self, body: AcceptedBody) -> None:
        """Keep account of a body until it is done."""
        self._bodies[body.number] = body

    def is_tracked(self, number: int) -> bool:
        """Tell whether a body is tracked and not done."""
        return number in self._bodies

    def mark_forwarded(self, number: int) -> None:
        """Note that the part of a body that is not held was delivered, or is in a row of the journal."""
        body = self._bodies.get(number)
        if body is not None:
            body.forward_waits = False
            self._finish_if_done(body)

    def _mark_settled(self, number: int, refs: Iterable[SpanRef]) -> None:
        body = self._bodies.get(number)
        if body is not None:
            body.held.difference_update(refs)
            body.settled.update(refs)
            self._finish_if_done(body)

    def _finish_if_done(self, body: AcceptedBody) -> None:
        self._touched.add(body.number)
        if body.forward_waits or body.held:
            return
        del self._bodies[body.number]
        if body.entry is None:
            return
        self.changes.done.add(body.number)
        for fact in body.facts:
            if self._is_open(body.tenant, fact.trace_id):
                trace = (body.tenant, fact.trace_id)
                self.changes.records.setdefault(trace, []).append((body.time, encode_record(fact)))
                for piece in pieces_of(fact):
                    if not piece.written:
                        piece.written = True
                        self.changes.records[body.tenant, piece.key] = [(body.time, piece.read())]

    # Sending.

    def forward(self, request: ExportRequest, body: AcceptedBody) -> None:
        """Send a body as it came."""
        load = None
        if body.entry is not None and self._journal is not None:
            load = functools.partial(self._journal.body, body.entry)
        self._send_soon(_pending(request, RequestSources(forward_of=body.number), load))

    def send(self, request: ExportRequest, sources: RequestSources) -> None:
        """Send a part of bodies. It is in the body log: a row is written only where delivery is slow."""
        if self.is_slow:
            if sources.forward_of is not None:
                self.mark_forwarded(sources.forward_of)
            self.send_after_commit(request, sources.held)
        else:
            self._send_soon(_pending(request, sources, None))

    def _send_soon(self, pending: PendingRequest) -> None:
        self._ready.append(pending)
        self._ready_bytes += pending.size
        if self._ready_bytes >= self._batch_bytes:
            self.send_ready()

    def send_ready(self) -> None:
        """Send what waits for others."""
        if self._ready:
            ready, self._ready, self._ready_bytes = self._ready, [], 0
            self._queue.put(*ready)

    def send_at_once(self, request: ExportRequest, sources: RequestSources) -> None:
        """Send a part of bodies. Any thread may call it."""
        self._queue.put(_pending(request, sources, None))

    @property
    def is_slow(self) -> bool:
        """So much waits in memory to be delivered that more should be in the journal."""
        return self._journal is not None and self._queue.is_slow

    def send_after_commit(
        self, request: ExportRequest, held: Mapping[int, Sequence[SpanRef]] | None = None
    ) -> PendingRequest:
        """Write a request to the journal, with the held spans in it by body, and send it after the next commit."""
        row: int | None = None
        if self._journal is not None:
            row, self._next_row = self._next_row, self._next_row + 1
            self.changes.outgoing[row] = request
            for number, refs in (held or {}).items():
                self._mark_settled(number, refs)
            held = None
        load = None if row is None else self._row_loader(row)
        pending = _pending(request, RequestSources(held=held or {}, row=row), load)
        self._after_commit.append(pending)
        return pending

    def replace(self, before: PendingRequest | None, request: ExportRequest) -> PendingRequest:
        """Send a request that contains all of an earlier one, and withdraw the earlier one if it still waits."""
        if before is not None and isinstance(before.sources, RequestSources):
            if waited := before in self._after_commit:
                self._after_commit.remove(before)
            if (waited or self._queue.withdraw(before)) and before.sources.row is not None:
                self.changes.delivered.add(before.sources.row)
        return self.send_after_commit(request)

    def resend(self, rows: Sequence[Outgoing], next_row: int) -> None:
        """Send the rows of an earlier process that were not delivered."""
        self._next_row = next_row
        for row in rows:
            load = self._row_loader(row.id)
            sources = RequestSources(row=row.id)
            self._queue.put(PendingRequest(row.signal, row.headers, row.size, None, load, sources=sources))

    def _row_loader(self, row: int) -> Callable[[], bytes] | None:
        journal = self._journal
        return None if journal is None else functools.partial(journal.outgoing_body, row)

    # Results of deliveries.

    def note_delivery(self, together: Sequence[PendingRequest], result: DeliveryResult, now: float) -> None:
        """Note that requests were delivered together, or were refused and become dead letters."""
        reason, signal = "", together[0].signal
        if isinstance(result, Refused):
            self.refused[signal] += len(together)
            reason = result.reason
        elif isinstance(result, Delivered):
            self.delivered[signal] += len(together)
            if result.rejected:
                self.rejected[signal] += result.rejected
                among = f" of {len(together)} requests" if len(together) > 1 else ""
                reason = f"{result.rejected} rejected{among}: {result.message}"
        for pending in together:
            if reason and self.dead_letters is not None:
                self._unwritten.append((pending, reason, now))
                self.write_dead_letters()
                if self._unwritten and pending.load is not None:
                    pending.body = None
            else:
                self._mark_delivered(pending)

    def write_dead_letters(self) -> None:
        """Write the dead letters that could not be written yet; until then their bodies stay in the journal.

        Beyond the bounds of dead letters that are kept the oldest is dropped.
        """
        letters = self.dead_letters
        while letters is not None and self._unwritten:
            pending, reason, now = self._unwritten[0]
            try:
                letters.put(ExportRequest(pending.signal, pending.read_body(), pending.headers), reason, now)
            except OSError as error:
                self._on_failure("dead_letters", error)
                waiting = sum(one.size for one, _, _ in self._unwritten)
                if len(self._unwritten) <= letters.max_files and waiting <= letters.max_bytes:
                    return
                letters.dropped += 1
            except BodyGoneError:
                letters.dropped += 1
            self._unwritten.popleft()
            self._mark_delivered(pending)

    def _mark_delivered(self, pending: PendingRequest) -> None:
        sources = pending.sources
        if not isinstance(sources, RequestSources):
            return
        if sources.forward_of is not None:
            self.mark_forwarded(sources.forward_of)
        for number, refs in sources.held.items():
            self._mark_settled(number, refs)
        if sources.row is not None:
            self.changes.delivered.add(sources.row)

    # The journal.

    def commit(self, retained_since: float) -> list[str]:
        """Write the changes, then send what waited for that.

        Returns what was found damaged in the journal. Raises `OSError` if nothing could be written: then the
        changes wait for the next commit, and the requests are sent all the same. Their bodies are not done, so after a
        crash they may be sent again; and a row that was delivered need not be written.
        """
        changes = self._gather()
        try:
            return self._journal.commit(changes, retained_since) if self._journal is not None and changes else []
        except BaseException:
            self.changes = changes.followed_by(self.changes)
            for pending in self._after_commit:
                pending.load = None  # its row is not there to be read
            raise
        finally:
            self._ready += self._after_commit
            self._after_commit = []
            self.send_ready()

    def _gather(self) -> Changes:
        for number in self._touched:
            body = self._bodies.get(number)
            if body is not None and body.entry is not None and (body.settled or not body.forward_waits):
                refs = body.settled if body.forward_waits else body.held
                self.changes.parts[number] = (body.forward_waits, encode_refs(refs))
        self._touched.clear()
        changes, self.changes = self.changes, Changes()
        return changes


def _pending(request: ExportRequest, sources: RequestSources, load: Callable[[], bytes] | None) -> PendingRequest:
    return PendingRequest(request.signal, request.headers, len(request.body), request.body, load, sources=sources)
