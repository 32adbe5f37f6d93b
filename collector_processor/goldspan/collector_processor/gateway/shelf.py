"""The shelf on which a tenant's spans lie as they came."""

from __future__ import annotations

from collections.abc import Mapping

from goldspan.collector_processor.gateway.splitting import Envelope, Group
from goldspan.collector_processor.shelf import Shelf

_OVERHEAD = 120
"""Bytes that a span on the shelf takes beside its own."""


class EncodedSpans(Shelf[bytes, Group]):
    """Encoded spans by trace id."""

    def put(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        """Put spans of one envelope on the shelf, by trace id."""
        size = sum(sum(map(len, encoded)) + _OVERHEAD * len(encoded) for encoded in spans.values())
        self.add({trace: (Group(envelope, encoded),) for trace, encoded in spans.items()}, size, now)
