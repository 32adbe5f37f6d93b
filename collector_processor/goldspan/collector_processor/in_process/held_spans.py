"""Which spans are held back, how much memory they take, how long they wait, and the copy that is exported in the end.

An ended span cannot be changed. A span that may get a score therefore waits here, and leaves as a `ScoredSpan`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from goldspan.collector_processor.emit.names import is_own
from goldspan.mappers.readers.sdk import attributes_of
from goldspan.scoring.sessions import SpanRef

MAX_TRACES_WITHOUT_SESSION = 1000
"""At most so many traces wait for a session id: each step looks at all of them."""


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How many spans may wait for their result, and for how long."""

    enabled: bool = True
    timeout: float = 20.0
    """Seconds."""
    max_spans: int = 10_000
    max_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class HeldSpan:
    """A span that waits for its result, and the attributes it has got so far."""

    ref: SpanRef
    span: ReadableSpan
    since: float
    size: int
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    metrics: set[str] = field(default_factory=set[str])
    """The metrics that wrote these."""

    @property
    def overwrites(self) -> bool:
        """Whether the agent wrote attributes itself that only goldspan should write."""
        metrics = frozenset(self.metrics)
        return bool(self.attributes) and any(_is_own(key, metrics) for key in attributes_of(self.span))

    def to_export(self) -> ReadableSpan:
        """Return a copy with the attributes in place of any of these names; the span itself if there are none."""
        if not self.attributes:
            return self.span
        metrics = frozenset(self.metrics)
        attributes = {key: value for key, value in attributes_of(self.span).items() if not _is_own(key, metrics)}
        attributes.update(self.attributes)
        return ScoredSpan(self.span, attributes)


_is_own = lru_cache(maxsize=4096)(is_own)
"""The instrumentations of an agent write few different names."""


class HeldSpans:
    """Held spans by their ids, oldest first. Not thread-safe: `SpanPipeline` locks around it."""

    def __init__(self, max_spans: int, max_bytes: int) -> None:
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._spans: dict[SpanRef, HeldSpan] = {}
        self.size = 0
        """Estimated bytes of all of them."""

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, ref: SpanRef, span: ReadableSpan, now: float) -> bool:
        """Hold a span. False if a span with these ids is held already: the second one must not be lost."""
        if ref in self._spans:
            return False
        held = HeldSpan(ref, span, now, estimated_size(span))
        self._spans[ref] = held
        self.size += held.size
        return True

    def hold_again(self, spans: Iterable[HeldSpan]) -> None:
        """Hold spans that were removed and could not be exported yet; they are the oldest."""
        again = {held.ref: held for held in spans}
        self._spans = {**again, **self._spans}
        self.size += sum(held.size for held in again.values())

    def annotate(self, ref: SpanRef | None, metric: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Add attributes of a metric to a held span. Does nothing if the span is not held, or without attributes."""
        if attributes and ref is not None and (held := self._spans.get(ref)) is not None:
            held.attributes.update(attributes)
            held.metrics.add(metric)

    def release(self, refs: Iterable[SpanRef]) -> list[HeldSpan]:
        """Remove and return those of these spans that are held."""
        return [self._remove(ref) for ref in refs if ref in self._spans]

    def release_all(self) -> list[HeldSpan]:
        """Remove and return all held spans."""
        return self.release(list(self._spans))

    def release_older(self, since: float) -> list[HeldSpan]:
        """Remove and return the spans that came at `since` or before."""
        return self.release([ref for ref, held in self._spans.items() if held.since <= since])

    def release_excess(self) -> tuple[list[HeldSpan], str]:
        """Remove and return the oldest spans beyond the limits, and the name of the limit that was reached."""
        excess: list[HeldSpan] = []
        limit = ""
        while self._spans and (len(self._spans) > self._max_spans or self.size > self._max_bytes):
            limit = "max_held_spans" if len(self._spans) > self._max_spans else "max_held_bytes"
            excess.append(self._remove(next(iter(self._spans))))
        return excess, limit

    def oldest(self) -> float | None:
        """Return when the oldest held span came."""
        return next((held.since for held in self._spans.values()), None)

    def _remove(self, ref: SpanRef) -> HeldSpan:
        held = self._spans.pop(ref)
        self.size -= held.size
        return held


@dataclass(slots=True)
class _WaitingTrace:
    since: float
    last: float
    root_ended: bool = False
    refs: list[SpanRef] = field(default_factory=list[SpanRef])


class TracesWithoutSession:
    """Traces of which no span has named a session yet, by trace id, and the held spans of each.

    A trace waits until its root has ended and nothing came for `settle` seconds: then it belongs to no session. It
    waits `hold_timeout` seconds at most.
    """

    def __init__(self, settle: float, hold_timeout: float) -> None:
        self._settle = settle
        self._hold_timeout = hold_timeout
        self._traces: dict[int, _WaitingTrace] = {}

    def __contains__(self, trace: int) -> bool:
        return trace in self._traces

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another trace."""
        return len(self._traces) >= MAX_TRACES_WITHOUT_SESSION

    def add(self, trace: int, refs: Iterable[SpanRef], now: float, *, root_ended: bool) -> None:
        """Note that spans of a trace came, and which of them are held."""
        waiting = self._traces.setdefault(trace, _WaitingTrace(now, now))
        waiting.last = now
        waiting.root_ended = waiting.root_ended or root_ended
        waiting.refs += refs

    def remove(self, trace: int) -> list[SpanRef]:
        """Forget a trace and return the spans that are held for it."""
        waiting = self._traces.pop(trace, None)
        return [] if waiting is None else waiting.refs

    def settled(self, now: float) -> list[int]:
        """Return the traces whose root has ended and that had no news for `settle` seconds."""
        return [trace for trace, one in self._traces.items() if one.root_ended and one.last + self._settle <= now]

    def overdue(self, now: float) -> list[int]:
        """Return the traces that have waited for `hold_timeout` seconds."""
        return [trace for trace, one in self._traces.items() if one.since + self._hold_timeout <= now]

    def deadline(self) -> float | None:
        """Return when `settled` or `overdue` will next return a trace; None: not without news."""
        times = (
            min(one.since + self._hold_timeout, one.last + self._settle if one.root_ended else float("inf"))
            for one in self._traces.values()
        )
        return min(times, default=None)


class ScoredSpan(ReadableSpan):
    """A copy of an ended span with other attributes.

    The copy keeps the counts of dropped attributes, events and links, which the constructor would set to 0.
    """

    def __init__(self, original: ReadableSpan, attributes: Mapping[str, AttributeValue]) -> None:
        super().__init__(
            name=original.name,
            context=original.context,
            parent=original.parent,
            resource=original.resource,
            attributes=attributes,
            events=original.events,
            links=original.links,
            kind=original.kind,
            status=original.status,
            start_time=original.start_time,
            end_time=original.end_time,
            instrumentation_scope=original.instrumentation_scope,
        )
        self._dropped = (original.dropped_attributes, original.dropped_events, original.dropped_links)

    @property
    def dropped_attributes(self) -> int:
        """Number of attributes that the SDK's limits dropped."""
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        """Number of events that the SDK's limits dropped."""
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        """Number of links that the SDK's limits dropped."""
        return self._dropped[2]


_SPAN_OVERHEAD = 2_000
"""Bytes of an SDK span without its attributes and events, measured on CPython 3.11."""
_MAX_DEPTH = 8
_NESTED = frozenset({tuple, list, dict, MappingProxyType})


def estimated_size(span: ReadableSpan) -> int:
    """Estimate the memory of a span in bytes."""
    size = _SPAN_OVERHEAD + _size_of_attributes(attributes_of(span))
    for event in span.events:
        size += 500 + _size_of_attributes(event.attributes or {})
    return size


def _size_of_attributes(attributes: Mapping[str, object]) -> int:
    # Most values are strings and numbers: only nested ones need a walk.
    values = attributes.values()
    nested = [value for value in values if type(value) in _NESTED]
    return (
        sum(map(sys.getsizeof, attributes))
        + sum(map(sys.getsizeof, values))
        + sum(_size_of_value(value, 1) for value in nested)
    )


def _size_of_value(value: object, depth: int) -> int:
    size = sys.getsizeof(value, 64)
    if isinstance(value, (str, int, float)) or depth >= _MAX_DEPTH:
        return size
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return size + sum(sys.getsizeof(key, 64) + _size_of_value(item, depth + 1) for key, item in items)
    if isinstance(value, (list, tuple)):
        return size + sum(_size_of_value(item, depth + 1) for item in cast("Iterable[object]", value))
    return size
