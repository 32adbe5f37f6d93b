"""The spans that wait for their turn's result, within bounds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue

from goldspan.mappers.readers.sdk import attributes_of
from goldspan.scoring.sessions import SpanRef

# A copy of an ended span with attributes added: an ended span itself cannot be changed.


class ScoredSpan(ReadableSpan):
    """Everything the original says, and `added` beside its attributes.

    Counts of what was dropped are taken over: a copy made by the constructor alone would say that nothing was.
    """

    def __init__(self, original: ReadableSpan, added: Mapping[str, AttributeValue]) -> None:
        super().__init__(
            name=original.name,
            context=original.context,
            parent=original.parent,
            resource=original.resource,
            attributes={**(original.attributes or {}), **added},
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
        """How many attributes the limits of the source cut off."""
        return self._dropped[0]

    @property
    def dropped_events(self) -> int:
        """How many events the limits of the source cut off."""
        return self._dropped[1]

    @property
    def dropped_links(self) -> int:
        """How many links the limits of the source cut off."""
        return self._dropped[2]


@dataclass(slots=True)
class HeldSpan:
    """A span that waits, and what it will carry when it leaves."""

    span: ReadableSpan
    since: float
    size: int
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])

    def leave(self) -> ReadableSpan:
        """Return the span to export: a copy with attributes, or the very span where there are none."""
        return ScoredSpan(self.span, self.attributes) if self.attributes else self.span


class HeldSpans:
    """Spans by their ids, in the order they came. Not thread-safe: its owner is."""

    def __init__(self, max_spans: int, max_bytes: int) -> None:
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._held: dict[SpanRef, HeldSpan] = {}
        self.size = 0
        """Estimated bytes of all of them."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, ref: SpanRef, span: ReadableSpan, now: float) -> bool:
        """Hold a span; False if a span of these ids waits already, so that the second is not lost."""
        if ref in self._held:
            return False
        held = HeldSpan(span, now, estimated_size(span))
        self._held[ref] = held
        self.size += held.size
        return True

    def annotate(self, ref: SpanRef | None, attributes: Mapping[str, AttributeValue]) -> None:
        """Add attributes to a span that waits; one that has left, or never came, stays as it is."""
        if ref is not None and (held := self._held.get(ref)) is not None:
            held.attributes.update(attributes)

    def take(self, refs: Iterable[SpanRef]) -> list[HeldSpan]:
        """Stop holding these, as far as they are held."""
        return [self._pop(ref) for ref in refs if ref in self._held]

    def take_all(self) -> list[HeldSpan]:
        """Stop holding anything."""
        return self.take(list(self._held))

    def take_older(self, since: float) -> list[HeldSpan]:
        """Stop holding what came at `since` or before."""
        return self.take([ref for ref, held in self._held.items() if held.since <= since])

    def take_excess(self) -> tuple[list[HeldSpan], str]:
        """Stop holding the oldest ones beyond the bounds; name the bound that was hit."""
        excess: list[HeldSpan] = []
        bound = ""
        while self._held and (len(self._held) > self._max_spans or self.size > self._max_bytes):
            bound = "max_held_spans" if len(self._held) > self._max_spans else "max_held_bytes"
            excess.append(self._pop(next(iter(self._held))))
        return excess, bound

    def oldest(self) -> float | None:
        """Return when the longest waiting span came."""
        return next((held.since for held in self._held.values()), None)

    def _pop(self, ref: SpanRef) -> HeldSpan:
        held = self._held.pop(ref)
        self.size -= held.size
        return held


_SPAN_OVERHEAD = 2_000
"""Bytes of an SDK span without its attributes and events, measured on CPython 3.11."""
_DEEPEST = 8
_NESTED = frozenset({tuple, list, dict, MappingProxyType})


def estimated_size(span: ReadableSpan) -> int:
    """Estimate the memory a span keeps alive, in bytes."""
    size = _SPAN_OVERHEAD + _content_of(attributes_of(span))
    for event in span.events:
        size += 500 + _content_of(event.attributes or {})
    return size


def _content_of(attributes: Mapping[str, object]) -> int:
    """Add up attributes: most are texts and numbers, of which the size is all there is to know."""
    values = attributes.values()
    nested = [value for value in values if type(value) in _NESTED]
    return (
        sum(map(sys.getsizeof, attributes)) + sum(map(sys.getsizeof, values)) + sum(_content(one, 1) for one in nested)
    )


def _content(value: object, depth: int) -> int:
    size = sys.getsizeof(value, 64)
    if isinstance(value, (str, int, float)) or depth >= _DEEPEST:
        return size
    if isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            size += sys.getsizeof(key, 64) + _content(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in cast("Iterable[object]", value):
            size += _content(item, depth + 1)
    return size
