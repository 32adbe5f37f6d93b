"""A copy of an ended span with attributes added: an ended span itself cannot be changed."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.util.types import AttributeValue


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
