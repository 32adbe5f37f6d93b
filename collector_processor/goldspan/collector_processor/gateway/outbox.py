"""What leaves, on its way from the stage to the dispatcher: written down first where it must not be lost.

Three kinds of requests leave. A body that goes on as it came, or what is left of it without the spans that are held, is
owed until it is delivered, and comes out of the log of bodies again after a crash. What carries a result is a row of
the journal, committed together with the fact that the result was given, and sent only after that. Held spans that
leave without a result are owed as part of their body.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from goldspan.collector_processor.gateway.body_log import Entry
from goldspan.collector_processor.gateway.contract import Delivered, Delivery, Refused, Request, Signal
from goldspan.collector_processor.gateway.dead_letters import DeadLetters
from goldspan.collector_processor.gateway.delivery import Parcel
from goldspan.collector_processor.gateway.journal import Journal, Outgoing
from goldspan.collector_processor.gateway.ledger import Body, Ledger
from goldspan.scoring.sessions import SpanRef


class Post(Protocol):
    """Takes parcels to where they go."""

    @property
    def is_slow(self) -> bool:
        """Much waits, so that what is sent had better be on disk as well."""
        ...

    def put(self, parcel: Parcel) -> None:
        """Deliver a parcel some time from now."""
        ...

    def take_back(self, parcel: Parcel) -> bool:
        """Take back a parcel that is not needed any more; False if it is under way, or was."""
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """What a parcel stands for."""

    rest_of: int | None = None
    """The body whose other spans, or all of it, this is."""
    held: Mapping[int, Sequence[SpanRef]] = field(default_factory=dict[int, Sequence[SpanRef]])
    """Spans that were held, by body."""
    row: int | None = None
    """The row of the journal where it is kept until it is delivered."""


class Outbox:
    """For one thread."""

    def __init__(self, ledger: Ledger, post: Post, journal: Journal | None, dead_letters: DeadLetters | None) -> None:
        """Send by `post`; write to `journal` what must not be lost, and to `dead_letters` what was refused."""
        self._ledger = ledger
        self._post = post
        self._journal = journal
        self.dead_letters = dead_letters
        self.delivered = Counter[Signal]()
        self.refused = Counter[Signal]()
        self.rejected = Counter[Signal]()
        """Spans, records and points that receivers rejected."""
        self._after_commit: list[Parcel] = []
        self._next_row = 1

    def outcome(self, parcel: Parcel, delivery: Delivery, now: float) -> None:
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
        if not isinstance(contents, Contents):
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
                Parcel(row.signal, row.headers, row.size, None, self._loader(row.id), contents=Contents(row=row.id))
            )

    def send_whole(self, request: Request, body: Body) -> None:
        """Send a body as it came."""
        load = None
        if body.entry is not None and self._journal is not None:
            load = functools.partial(_read_back, self._journal, body.entry)
        contents = Contents(rest_of=body.number)
        self._post.put(
            Parcel(request.signal, request.headers, len(request.body), request.body, load, contents=contents)
        )

    def send(self, request: Request, contents: Contents) -> None:
        """Send what is owed of bodies that are on disk; it is written down only where it may have to wait for long."""
        if self._journal is not None and self._post.is_slow:
            if contents.rest_of is not None:
                self._ledger.rest_left(contents.rest_of)
            self.write_and_send(request, contents.held)
        else:
            self._post.put(Parcel(request.signal, request.headers, len(request.body), request.body, contents=contents))

    def write_and_send(self, request: Request, held: Mapping[int, Sequence[SpanRef]] | None = None) -> Parcel:
        """Send after the next commit what is written with it, and owe no body these spans any more."""
        row: int | None = None
        if self._journal is not None:
            row, self._next_row = self._next_row, self._next_row + 1
            self._ledger.changes.outgoing[row] = request
            for number, refs in (held or {}).items():
                self._ledger.moved(number, refs)
            held = None
        parcel = Parcel(
            request.signal,
            request.headers,
            len(request.body),
            request.body,
            None if row is None else self._loader(row),
            contents=Contents(held=held or {}, row=row),
        )
        self._after_commit.append(parcel)
        return parcel

    def replace(self, before: Parcel | None, request: Request) -> Parcel:
        """Write and send a request that says all that an earlier one did, and withdraw that if it still waits."""
        if before is not None and isinstance(before.contents, Contents):
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

    def _bury(self, parcel: Parcel, reason: str, now: float) -> None:
        if self.dead_letters is None:
            return
        body = parcel.body if parcel.body is not None or parcel.load is None else parcel.load()
        if body is not None:
            self.dead_letters.put(Request(parcel.signal, body, parcel.headers), reason, now)


def _read_back(journal: Journal, entry: Entry) -> bytes | None:
    with contextlib.suppress(OSError):
        return journal.body(entry)
    return None
