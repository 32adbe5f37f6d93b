"""What is still to be done for each body that was acknowledged: which of its spans have left, and when it is done with.

Changes for the journal are gathered here until they are committed together.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from goldspan.collector_processor.gateway.deliver.dead_letters import DeadLetters
from goldspan.collector_processor.gateway.deliver.dispatcher import PendingRequest
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Refused, Request, Signal
from goldspan.collector_processor.gateway.journal.body_log import LogEntry
from goldspan.collector_processor.gateway.journal.journal import Changes, Journal, Outgoing
from goldspan.collector_processor.gateway.journal.records import encode_record
from goldspan.mappers.facts import Record
from goldspan.scoring.sessions import SpanRef


@dataclass(slots=True)
class TrackedBody:
    """One acknowledged request."""

    number: int
    tenant: str
    entry: LogEntry | None
    """Where it is on disk; none without a journal."""
    rest_waits: bool = True
    """What was not held, or the body as a whole, was not delivered yet."""
    held: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans of it that wait, or are on their way, without being anywhere else on disk."""
    moved: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans that were delivered, or are elsewhere on disk."""
    facts: Sequence[Record] = ()
    time: float = 0.0


class BodyTracker:
    """The bodies that are not done with. For one thread."""

    def __init__(self, is_open: Callable[[str, str], bool]) -> None:
        """`is_open` tells of a tenant's trace whether its records are still needed."""
        self._is_open = is_open
        self._bodies: dict[int, TrackedBody] = {}
        self._touched: set[int] = set()
        self.changes = Changes()

    def __len__(self) -> int:
        return len(self._bodies)

    def open(self, body: TrackedBody) -> None:
        """Keep account of a body."""
        self._bodies[body.number] = body

    def get(self, number: int) -> TrackedBody | None:
        """Return a body that is not done with."""
        return self._bodies.get(number)

    def rest_left(self, number: int) -> None:
        """Note that what was not held is delivered."""
        body = self._bodies.get(number)
        if body is not None:
            body.rest_waits = False
            self._look_at(body)

    def moved(self, number: int, refs: Iterable[SpanRef]) -> None:
        """Note that held spans were delivered, or written somewhere else in this commit."""
        body = self._bodies.get(number)
        if body is not None:
            for ref in refs:
                body.held.discard(ref)
                body.moved.add(ref)
            self._look_at(body)

    def gather(self) -> Changes:
        """Return what is to be committed, and begin anew."""
        for number in self._touched:
            body = self._bodies.get(number)
            if body is not None and body.entry is not None and (body.moved or not body.rest_waits):
                refs = body.moved if body.rest_waits else body.held
                self.changes.parts[number] = (body.rest_waits, _ids(refs))
        self._touched.clear()
        changes, self.changes = self.changes, Changes()
        return changes

    def give_back(self, changes: Changes) -> None:
        """Take changes back that could not be committed: they come before what was gathered since."""
        newer, self.changes = self.changes, changes
        changes.done |= newer.done
        changes.parts.update(newer.parts)
        changes.outgoing.update(newer.outgoing)
        changes.delivered |= newer.delivered
        for key in newer.closed:
            changes.close(*key)
        for key, rows in newer.records.items():
            changes.records.setdefault(key, []).extend(rows)
        changes.sessions.update(newer.sessions)
        changes.tombstones.update(newer.tombstones)

    def _look_at(self, body: TrackedBody) -> None:
        self._touched.add(body.number)
        if body.rest_waits or body.held:
            return
        del self._bodies[body.number]
        if body.entry is None:
            return
        self.changes.done.add(body.number)
        for fact in body.facts:
            if self._is_open(body.tenant, fact.trace_id):
                trace = (body.tenant, fact.trace_id)
                self.changes.records.setdefault(trace, []).append((body.time, encode_record(fact)))


def _ids(refs: Iterable[SpanRef]) -> bytes:
    return b"".join(
        [bytes.fromhex(ref.trace_id + ref.span_id) for ref in refs if len(ref.trace_id + ref.span_id) == 48]
    )


def refs_of(ids: bytes) -> set[SpanRef]:
    """Return the spans in what `Changes.parts` holds of them."""
    return {SpanRef(ids[at : at + 16].hex(), ids[at + 16 : at + 24].hex()) for at in range(0, len(ids), 24)}


# What leaves, on its way from the stage to the dispatcher: written down first where it must not be lost.
#
# Three kinds of requests leave. A body that goes on as it came, or what is left of it without the spans that
# are held, is
# owed until it is delivered, and comes out of the log of bodies again after a crash. What carries a result is a row of
# the journal, committed together with the fact that the result was given, and sent only after that. Held spans that
# leave without a result are owed as part of their body.


class DeliveryQueue(Protocol):
    """Takes parcels to where they go."""

    @property
    def is_slow(self) -> bool:
        """Much waits, so that what is sent had better be on disk as well."""
        ...

    def put(self, parcel: PendingRequest) -> None:
        """Deliver a parcel some time from now."""
        ...

    def take_back(self, parcel: PendingRequest) -> bool:
        """Take back a parcel that is not needed any more; False if it is under way, or was."""
        ...


@dataclass(frozen=True, slots=True)
class RequestSources:
    """What a parcel stands for."""

    rest_of: int | None = None
    """The body whose other spans, or all of it, this is."""
    held: Mapping[int, Sequence[SpanRef]] = field(default_factory=dict[int, Sequence[SpanRef]])
    """Spans that were held, by body."""
    row: int | None = None
    """The row of the journal where it is kept until it is delivered."""


class Outbox:
    """For one thread."""

    def __init__(
        self, ledger: BodyTracker, post: DeliveryQueue, journal: Journal | None, dead_letters: DeadLetters | None
    ) -> None:
        """Send by `post`; write to `journal` what must not be lost, and to `dead_letters` what was refused."""
        self._ledger = ledger
        self._post = post
        self._journal = journal
        self.dead_letters = dead_letters
        self.delivered = Counter[Signal]()
        self.refused = Counter[Signal]()
        self.rejected = Counter[Signal]()
        """Spans, records and points that receivers rejected."""
        self._after_commit: list[PendingRequest] = []
        self._next_row = 1

    def outcome(self, parcel: PendingRequest, delivery: DeliveryResult, now: float) -> None:
        """Note what came of a parcel."""
        if isinstance(delivery, Refused):
            self.refused[parcel.signal] += 1
            self._bury(parcel, delivery.reason, now)
        elif isinstance(delivery, Delivered):
            self.delivered[parcel.signal] += 1
            if delivery.rejected:
                self.rejected[parcel.signal] += delivery.rejected
                self._bury(parcel, f"{delivery.rejected} rejected: {delivery.message}", now)
        contents = parcel.contents
        if not isinstance(contents, RequestSources):
            return
        if contents.rest_of is not None:
            self._ledger.rest_left(contents.rest_of)
        for number, refs in contents.held.items():
            self._ledger.moved(number, refs)
        if contents.row is not None:
            self._ledger.changes.delivered.add(contents.row)

    def commit(self, retained_since: float) -> int:
        """Write down what happened, and send what waited for that.

        Returns how much of the journal was found damaged. Raises `OSError` where nothing could be written; then all of
        it waits for the next commit.
        """
        changes = self._ledger.gather()
        damaged = 0
        if self._journal is not None and changes:
            try:
                damaged = len(self._journal.commit(changes, retained_since))
            except OSError:
                self._ledger.give_back(changes)
                raise
        waiting, self._after_commit = self._after_commit, []
        for parcel in waiting:
            self._post.put(parcel)
        return damaged

    def send_again(self, rows: Sequence[Outgoing], next_row: int) -> None:
        """Send what an earlier process wrote down and did not see delivered."""
        self._next_row = next_row
        for row in rows:
            self._post.put(
                PendingRequest(
                    row.signal, row.headers, row.size, None, self._loader(row.id), contents=RequestSources(row=row.id)
                )
            )

    def send_whole(self, request: Request, body: TrackedBody) -> None:
        """Send a body as it came."""
        load = None
        if body.entry is not None and self._journal is not None:
            load = functools.partial(_read_back, self._journal, body.entry)
        contents = RequestSources(rest_of=body.number)
        self._post.put(
            PendingRequest(request.signal, request.headers, len(request.body), request.body, load, contents=contents)
        )

    def send(self, request: Request, contents: RequestSources) -> None:
        """Send what is owed of bodies that are on disk; it is written down only where it may have to wait for long."""
        if self._journal is not None and self._post.is_slow:
            if contents.rest_of is not None:
                self._ledger.rest_left(contents.rest_of)
            self.write_and_send(request, contents.held)
        else:
            self._post.put(
                PendingRequest(request.signal, request.headers, len(request.body), request.body, contents=contents)
            )

    def write_and_send(self, request: Request, held: Mapping[int, Sequence[SpanRef]] | None = None) -> PendingRequest:
        """Send after the next commit what is written with it, and owe no body these spans any more."""
        row: int | None = None
        if self._journal is not None:
            row, self._next_row = self._next_row, self._next_row + 1
            self._ledger.changes.outgoing[row] = request
            for number, refs in (held or {}).items():
                self._ledger.moved(number, refs)
            held = None
        parcel = PendingRequest(
            request.signal,
            request.headers,
            len(request.body),
            request.body,
            None if row is None else self._loader(row),
            contents=RequestSources(held=held or {}, row=row),
        )
        self._after_commit.append(parcel)
        return parcel

    def replace(self, before: PendingRequest | None, request: Request) -> PendingRequest:
        """Write and send a request that says all that an earlier one did, and withdraw that if it still waits."""
        if before is not None and isinstance(before.contents, RequestSources):
            withdrawn = before in self._after_commit
            if withdrawn:
                self._after_commit.remove(before)
            elif self._post.take_back(before):
                withdrawn = True
            if withdrawn and before.contents.row is not None:
                self._ledger.changes.delivered.add(before.contents.row)
        return self.write_and_send(request)

    def _loader(self, row: int) -> Callable[[], bytes | None] | None:
        journal = self._journal
        return None if journal is None else functools.partial(journal.outgoing_body, row)

    def _bury(self, parcel: PendingRequest, reason: str, now: float) -> None:
        if self.dead_letters is None:
            return
        body = parcel.body if parcel.body is not None or parcel.load is None else parcel.load()
        if body is not None:
            self.dead_letters.put(Request(parcel.signal, body, parcel.headers), reason, now)


def _read_back(journal: Journal, entry: LogEntry) -> bytes | None:
    with contextlib.suppress(OSError):
        return journal.body(entry)
    return None
