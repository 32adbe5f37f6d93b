"""What is still to be done for each body that was acknowledged: which of its spans have left, and when it is done with.

Changes for the journal are gathered here until they are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from goldspan.collector_processor.gateway.body_log import Entry
from goldspan.collector_processor.gateway.call_records import packed
from goldspan.collector_processor.gateway.journal import Changes
from goldspan.mappers.facts import Record
from goldspan.scoring.sessions import SpanRef


@dataclass(slots=True)
class Body:
    """One acknowledged request."""

    number: int
    tenant: str
    entry: Entry | None
    """Where it is on disk; none without a journal."""
    rest_waits: bool = True
    """What was not held, or the body as a whole, was not delivered yet."""
    held: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans of it that wait, or are on their way, without being anywhere else on disk."""
    moved: set[SpanRef] = field(default_factory=set[SpanRef])
    """Held spans that were delivered, or are elsewhere on disk."""
    facts: Sequence[Record] = ()
    time: float = 0.0


class Ledger:
    """The bodies that are not done with. For one thread."""

    def __init__(self, is_open: Callable[[str, str], bool]) -> None:
        """`is_open` tells of a tenant's trace whether its records are still needed."""
        self._is_open = is_open
        self._bodies: dict[int, Body] = {}
        self._touched: set[int] = set()
        self.changes = Changes()

    def __len__(self) -> int:
        return len(self._bodies)

    def open(self, body: Body) -> None:
        """Keep account of a body."""
        self._bodies[body.number] = body

    def get(self, number: int) -> Body | None:
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

    def _look_at(self, body: Body) -> None:
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
                self.changes.records.setdefault(trace, []).append((body.time, packed(fact)))


def _ids(refs: Iterable[SpanRef]) -> bytes:
    return b"".join(
        [bytes.fromhex(ref.trace_id + ref.span_id) for ref in refs if len(ref.trace_id + ref.span_id) == 48]
    )


def refs_of(ids: bytes) -> set[SpanRef]:
    """Return the spans in what `Changes.parts` holds of them."""
    return {SpanRef(ids[at : at + 16].hex(), ids[at + 16 : at + 24].hex()) for at in range(0, len(ids), 24)}
