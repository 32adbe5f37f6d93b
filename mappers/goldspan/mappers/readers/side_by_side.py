"""Two series of files read at one pace, so that what belongs together comes together: a span and its log records.

Read one after the other, log records would come long after their spans, when a reader with bounded memory has
forgotten these, or be kept until their spans come.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from goldspan.mappers.readers.streams import OnBytes
from goldspan.mappers.spans import MarkedView

_LISTS = re.compile(
    rb'"(resource_?spans|scope_?spans|spans|batches|resource_?logs|scope_?logs|log_?records)"\s*:', re.I
)


def starts_with_logs(head: bytes) -> bool:
    """Tell by the first bytes of OTLP/JSON whether it holds log records."""
    found = _LISTS.search(head)
    return found is not None and b"log" in found[1].lower()


class Series:
    """The records of some files, and how much of them was read."""

    def __init__(
        self, read: Callable[[OnBytes], Iterator[MarkedView]], size: int, on_bytes: OnBytes | None = None
    ) -> None:
        """Take what yields the records and tells how many more bytes it read, and how many there are."""
        self._size = size
        self._on_bytes = on_bytes
        self._read = 0
        self.records = read(self._advance)

    def _advance(self, count: int) -> None:
        self._read += count
        if self._on_bytes is not None:
            self._on_bytes(count)

    @property
    def share(self) -> float:
        """How much of it was read, from 0 to 1; 1 where nobody knows how much there is."""
        return self._read / self._size if self._size else 1.0


def side_by_side(one: Series, other: Series) -> Iterator[MarkedView]:
    """Yield the records of both, always of the one of which less was read."""
    while True:
        ahead, behind = (other, one) if one.share <= other.share else (one, other)
        record = next(behind.records, None)
        if record is None:
            yield from ahead.records
            return
        yield record
