"""Counters and histograms whose points are encoded as OTLP bytes: cumulative, as those of the SDK, at less cost.

What does not change of a point, its attributes and its start, is encoded once.
https://github.com/open-telemetry/opentelemetry-proto (metrics.proto)
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from struct import Struct
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import Meter, NoOpCounter, NoOpHistogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.trace import get_current_span

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import MetricEmitter
from goldspan.collector_processor.emit.otlp_encoding import (
    SCHEMA_URL_FIELD,
    SCOPE_FIELD,
    Value,
    encoded_attributes,
    encoded_field,
)

MAX_POINTS = 2000
"""Points of an instrument. What has further attributes is added to one point more, as in the SDK."""
_OVERFLOW = (("otel.metric.overflow", True),)
_DEFAULT_BOUNDARIES = (0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1e3, 2.5e3, 5e3, 7.5e3, 1e4)

_FIXED = Struct("<BQ")
_SIGNED = Struct("<Bq")
_DOUBLE = Struct("<Bd")
_CUMULATIVE = b"\x10\x02"
_MONOTONIC = b"\x18\x01"

Clock = Callable[[], int]
"""Nanoseconds since the epoch."""


class EncodedPoints(NoOpMeterProvider):
    """A meter provider with one meter, whose points are encoded when they are asked for. For one thread."""

    def __init__(self, resource: Mapping[str, Value], clock: Clock) -> None:
        self._resource = encoded_field(b"\x0a", encoded_attributes(resource, b"\x0a"))
        self._clock = clock
        self._meter = _Meter(clock)

    def get_meter(self, *_: Any, **__: Any) -> Meter:
        """Return the meter."""
        return self._meter

    def encoded(self) -> bytes:
        """Return an `ExportMetricsServiceRequest` with every point; empty without points."""
        time = _FIXED.pack(0x19, self._clock())
        metrics = b"".join(one.encoded(time) for one in self._meter.instruments if one.points)
        if not metrics:
            return b""
        return encoded_field(b"\x0a", self._resource + encoded_field(b"\x12", SCOPE_FIELD + metrics + SCHEMA_URL_FIELD))


class EncodedMetrics(MetricEmitter):
    """Records evaluations in points of its own, cumulative since the start of the process.

    Each request contains all points, so of several that wait to be delivered only the newest is needed.
    """

    def __init__(self, service: str, instance: str) -> None:
        """`instance` distinguishes the points of this process from those of others of this service."""
        resource = {names.SERVICE_NAME.name: service, "service.instance.id": instance}
        self._points = EncodedPoints(resource, time.time_ns)
        super().__init__(self._points)
        self._without_golden = 0

    def count_without_golden(self, total: int) -> bool:
        """Count sessions without golden, of which there are so many by now; False if there are no more than before."""
        added = total - self._without_golden
        if added > 0:
            self.record_no_golden(added)
            self._without_golden = total
        return added > 0

    def encoded(self) -> bytes:
        """Return an `ExportMetricsServiceRequest` with every point; empty without points."""
        return self._points.encoded()


class _Meter(NoOpMeter):
    def __init__(self, clock: Clock) -> None:
        super().__init__("goldspan")
        self._clock = clock
        self.instruments: list[_Counter | _Histogram] = []

    def create_counter(self, name: str, unit: str = "", description: str = "") -> _Counter:
        self.instruments.append(counter := _Counter(self._clock, name, unit, description))
        return counter

    def create_histogram(
        self,
        name: str,
        unit: str = "",
        description: str = "",
        *,
        explicit_bucket_boundaries_advisory: Sequence[float] | None = None,
    ) -> _Histogram:
        boundaries = explicit_bucket_boundaries_advisory or _DEFAULT_BOUNDARIES
        self.instruments.append(histogram := _Histogram(self._clock, name, unit, description, boundaries))
        return histogram


class _Point:
    """What was measured with the same attributes."""

    __slots__ = ("buckets", "exemplars", "greatest", "least", "start", "sum")

    def __init__(self, start: bytes, buckets: int) -> None:
        self.start = start
        """Attributes and start, encoded."""
        self.sum: float = 0
        self.buckets = [0] * buckets
        self.least, self.greatest = inf, -inf
        self.exemplars: dict[int, tuple[float, int, Context | None]] = {}
        """By bucket, the newest value since the points were last encoded, its time and its span."""


class _Points:
    """The points of one instrument by their attributes."""

    def __init__(self, clock: Clock, tag: bytes, buckets: int) -> None:
        self._clock = clock
        self._tag = tag
        """Of the attributes of a point."""
        self._buckets = buckets
        self._points: dict[tuple[tuple[str, Any], ...], _Point] = {}

    def __len__(self) -> int:
        return len(self._points)

    def add(self, value: float, attributes: Mapping[str, Any] | None, context: Context | None, bucket: int) -> _Point:
        """Add to a sum, and return its point."""
        key = tuple(attributes.items()) if attributes else ()
        point = self._points.get(key)
        if point is None and len(self._points) >= MAX_POINTS:
            key = _OVERFLOW
            point = self._points.get(key)
        now = self._clock()
        if point is None:
            start = encoded_attributes(dict(key), self._tag) + _FIXED.pack(0x11, now)
            point = self._points[key] = _Point(start, self._buckets)
        point.sum += value
        point.exemplars[bucket] = (value, now, context)
        return point

    def encoded(self, values: Callable[[_Point], bytes], tag: bytes, time: bytes) -> bytes:
        """Return the points as a repeated field; `tag` is that of exemplars."""
        parts: list[bytes] = []
        for point in self._points.values():
            exemplars = b"".join(_exemplar(tag, *one) for one in point.exemplars.values())
            point.exemplars.clear()
            parts.append(encoded_field(b"\x0a", point.start + time + values(point) + exemplars))
        return b"".join(parts)


class _Counter(NoOpCounter):
    def __init__(self, clock: Clock, name: str, unit: str, description: str) -> None:
        super().__init__(name, unit, description)
        self._described = _described(name, unit, description)
        self.points = _Points(clock, b"\x3a", 0)

    def add(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Context | None = None) -> None:
        self.points.add(amount, attributes, context, 0)

    def encoded(self, time: bytes) -> bytes:
        points = self.points.encoded(lambda point: _number(point.sum, 0x31, 0x21), b"\x2a", time)
        return encoded_field(b"\x12", self._described + encoded_field(b"\x3a", points + _CUMULATIVE + _MONOTONIC))


class _Histogram(NoOpHistogram):
    def __init__(self, clock: Clock, name: str, unit: str, description: str, boundaries: Sequence[float]) -> None:
        super().__init__(name, unit, description)
        self._described = _described(name, unit, description)
        self._boundaries = tuple(boundaries)
        self._bounds = encoded_field(b"\x3a", Struct(f"<{len(boundaries)}d").pack(*boundaries))
        self._counts = Struct(f"<{len(boundaries) + 1}Q")
        self.points = _Points(clock, b"\x4a", len(boundaries) + 1)

    def record(
        self, amount: float, attributes: Mapping[str, Any] | None = None, context: Context | None = None
    ) -> None:
        if not isfinite(amount) or amount < 0:
            return  # as in the SDK
        bucket = bisect_left(self._boundaries, amount)
        point = self.points.add(amount, attributes, context, bucket)
        point.buckets[bucket] += 1
        point.least = min(point.least, amount)
        point.greatest = max(point.greatest, amount)

    def encoded(self, time: bytes) -> bytes:
        points = self.points.encoded(self._values, b"\x42", time)
        return encoded_field(b"\x12", self._described + encoded_field(b"\x4a", points + _CUMULATIVE))

    def _values(self, point: _Point) -> bytes:
        counts = self._counts.pack(*point.buckets)
        return b"".join(
            (
                _FIXED.pack(0x21, sum(point.buckets)),
                _DOUBLE.pack(0x29, point.sum),
                encoded_field(b"\x32", counts),
                self._bounds,
                _DOUBLE.pack(0x59, point.least),
                _DOUBLE.pack(0x61, point.greatest),
            )
        )


def _described(name: str, unit: str, description: str) -> bytes:
    texts = ((b"\x0a", name), (b"\x12", description), (b"\x1a", unit))
    return b"".join(encoded_field(tag, text.encode("utf-8", "backslashreplace")) for tag, text in texts)


def _exemplar(tag: bytes, value: float, time: int, context: Context | None) -> bytes:
    span = get_current_span(context).get_span_context()
    if not span.is_valid:
        return b""
    span_id, trace_id = span.span_id.to_bytes(8, "big"), span.trace_id.to_bytes(16, "big")
    ids = encoded_field(b"\x22", span_id) + encoded_field(b"\x2a", trace_id)
    return encoded_field(tag, _FIXED.pack(0x11, time) + _number(value, 0x31, 0x19) + ids)


def _number(value: float, tag_of_int: int, tag_of_double: int) -> bytes:
    return _SIGNED.pack(tag_of_int, value) if isinstance(value, int) else _DOUBLE.pack(tag_of_double, value)
