"""Score attributes, events, spans of the SDK and metric points as OTLP bytes.

What comes before a value, its key and its length, is encoded once and kept: it differs little from record to record.
Counters and histograms are cumulative, as those of the SDK, at less cost: of a point, its attributes and its start are
encoded once. https://github.com/open-telemetry/opentelemetry-proto
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf, isfinite
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.context import Context
from opentelemetry.metrics import Meter, NoOpCounter, NoOpHistogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.trace import get_current_span

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import SCOPE, MetricEmitter, scope_version
from goldspan.collector_processor.emit.evaluation import Evaluation, event_attributes, source_attributes
from goldspan.mappers.readers.sdk import attributes_of
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Link, SpanContext

_logger = logging.getLogger("goldspan")

Value = str | bool | int | float | Sequence[str]
"""The attribute values that goldspan writes. Those of spans may be any that OTLP has."""

Source = tuple[bytes, bytes]
"""Where records come from, as the fields of their resource and of their scope, each with its schema URL."""

# The tag of a field is its number times 8, plus 0 for a varint, 1 for 8 bytes, 2 for a length and bytes, 5 for 4 bytes.

SPAN_ATTRIBUTES = b"\x4a"
"""Tag of the field `attributes` of a `Span`."""
_RECORD_ATTRIBUTES = b"\x32"
_RESOURCE_ATTRIBUTES = b"\x0a"

_SPAN = b"\x12"
_SPAN_EVENT = b"\x5a"
_SPAN_LINK = b"\x6a"

_KEPT = 4096  # so many beginnings of attributes are kept, each with a key and a length
_KEPT_SOURCES = 256  # so many resources, and scopes, are kept
_64_BITS = 0xFFFFFFFFFFFFFFFF
_2_63 = 1 << 63

_TIMES = Struct("<BQ")
_KIND_AND_TIMES = Struct("<BBBQBQ")
_IDS = Struct(">BBQQBBQ")
_DOUBLE = Struct("<Bd")
_INFO = b"\x10\x09"  # the severity of events
_SAMPLED = b"\x45\x01\x00\x00\x00"  # trace flags of a record with a span


def encoded_attributes(attributes: Mapping[str, object], tag: bytes) -> bytes:
    """Return attributes as a repeated field of `KeyValue`. Lone surrogates, which UTF-8 cannot encode, are escaped.

    An attribute that OTLP has no value for, such as an integer of more than 64 bits, is left out and logged.
    """
    parts: list[bytes] = []
    for key, value in attributes.items():
        try:
            if isinstance(value, str):
                text = value.encode("utf-8", "backslashreplace")
                parts.append(_before_text(tag, key, len(text)))
                parts.append(text)
            else:
                content = _any_value(value)
                parts.append(_before(tag, key, len(content)))
                parts.append(content)
        except Exception as error:  # noqa: BLE001 - the values of spans are the user's
            _log_left_out(str(key), type(value).__name__, type(error).__name__)
    return b"".join(parts)


def encoded_events(evaluations: Iterable[Evaluation], observed: int) -> bytes:
    """Return an `ExportLogsServiceRequest` with the event of each evaluation that has one; empty if none has.

    An event has the resource and the span context of what was judged. `observed` is in nanoseconds since the epoch.
    """
    told = (one for one in evaluations if one.has_event)
    return export_request((event_source(one.resource), encoded_event(one, observed)) for one in told)


def encoded_event(evaluation: Evaluation, observed: int) -> bytes:
    """Return one event as a field of a `ScopeLogs`."""
    return encoded_field(
        b"\x12",
        b"".join(
            (
                _TIMES.pack(0x09, evaluation.timestamp & _64_BITS),
                _INFO,
                encoded_attributes(event_attributes(evaluation), _RECORD_ATTRIBUTES),
                _context(evaluation.target),
                _TIMES.pack(0x59, observed & _64_BITS),
                _EVENT_NAME,
            )
        ),
    )


@lru_cache(maxsize=64)
def event_source(judged: ResourceFacts) -> Source:
    """Return where events come from: goldspan's scope, in the resource that was judged."""
    resource = encoded_attributes(source_attributes(judged), _RESOURCE_ATTRIBUTES)
    return encoded_field(b"\x0a", resource), SCOPE_FIELD + SCHEMA_URL_FIELD


def export_request(records: Iterable[tuple[Source, bytes]]) -> bytes:
    """Return an `ExportLogsServiceRequest` of events, or an `ExportTraceServiceRequest` of spans: one frame."""
    by_resource: dict[bytes, dict[bytes, list[bytes]]] = {}
    for (resource, scope), record in records:
        by_resource.setdefault(resource, {}).setdefault(scope, []).append(record)
    return b"".join(
        encoded_field(
            b"\x0a",
            resource + b"".join(encoded_field(b"\x12", scope + b"".join(some)) for scope, some in scopes.items()),
        )
        for resource, scopes in by_resource.items()
    )


def span_source(span: ReadableSpan) -> Source:
    """Return where a span comes from."""
    return (
        _kept(_resources, span.resource, _encoded_resource),
        _kept(_scopes, span.instrumentation_scope, _encoded_scope),
    )


def encoded_span(span: ReadableSpan) -> bytes:
    """Return a span as a field of a `ScopeSpans`, with what the SDK's `encode_spans` writes.

    Raises:
        Exception: of any kind, where OTLP has no such span: without ids, or with a time below 0.

    """
    context, parent, kind = cast("SpanContext", span.context), span.parent, span.kind
    parts = [
        _ids(context),
        encoded_field(b"\x2a", _text(span.name or "")),
        # The SDK counts kinds from 0 (internal), OTLP from 1.
        _KIND_AND_TIMES.pack(0x30, kind.value + 1, 0x39, span.start_time or 0, 0x41, span.end_time or 0),
        encoded_attributes(attributes_of(span), SPAN_ATTRIBUTES),
    ]
    if context.trace_state:
        state = ",".join(f"{key}={value}" for key, value in context.trace_state.items())
        parts.append(encoded_field(b"\x1a", _text(state)))
    if parent is not None:
        parts += (b"\x22\x08", parent.span_id.to_bytes(8, "big"))
    parts += [_span_event(event) for event in span.events]
    parts += [_span_link(link) for link in span.links]
    for tag, dropped in (
        (b"\x50", span.dropped_attributes),
        (b"\x60", span.dropped_events),
        (b"\x70", span.dropped_links),
    ):
        if dropped:
            parts.append(tag + varint(dropped))
    if (status := span.status) is not None:  # pyright: ignore[reportUnnecessaryComparison] # of a span made by hand
        code = b"\x18" + _ONE_BYTE[status.status_code.value]
        parts.append(encoded_field(b"\x7a", code + _optional(b"\x12", status.description)))
    parts += (b"\x85\x01", _span_flags(parent))
    return encoded_field(_SPAN, b"".join(parts))


def _span_event(event: Event) -> bytes:
    return encoded_field(
        _SPAN_EVENT,
        _TIMES.pack(0x09, event.timestamp or 0)
        + encoded_field(b"\x12", _text(event.name))
        + encoded_attributes(attributes_of(event), b"\x1a")
        + b"\x20"
        + varint(event.dropped_attributes),
    )


def _span_link(link: Link) -> bytes:
    context = link.context
    return encoded_field(
        _SPAN_LINK,
        _ids(context)
        + encoded_attributes(attributes_of(link), b"\x22")
        + b"\x28"
        + varint(link.dropped_attributes)
        + b"\x35"
        + _span_flags(context),
    )


def _ids(context: SpanContext) -> bytes:
    trace_id = context.trace_id
    return _IDS.pack(0x0A, 16, trace_id >> 64, trace_id & _64_BITS, 0x12, 8, context.span_id)


def _span_flags(context: SpanContext | None) -> bytes:
    """Return the flags of a span with this parent, or of a link to this span: whether that is in another process."""
    return b"\x00\x03\x00\x00" if context is not None and context.is_remote else b"\x00\x01\x00\x00"


def _kept(kept: dict[int, tuple[object, bytes]], source: Any, encode: Callable[[Any], bytes]) -> bytes:
    """Encode a resource or scope once: by identity, since hashing one costs more than encoding a span."""
    found = kept.get(id(source))
    if found is None:
        if len(kept) >= _KEPT_SOURCES:
            kept.clear()
        found = kept[id(source)] = (source, encode(source))  # what is kept keeps its id
    return found[1]


def _encoded_resource(resource: Any) -> bytes:
    attributes = encoded_attributes(resource.attributes, _RESOURCE_ATTRIBUTES)
    return encoded_field(b"\x0a", attributes) + _optional(b"\x1a", resource.schema_url)


def _encoded_scope(scope: Any) -> bytes:
    if scope is None:
        return b"\x0a\x00"
    content = _optional(b"\x0a", scope.name) + _optional(b"\x12", scope.version)
    content += encoded_attributes(scope.attributes or {}, b"\x1a")
    return encoded_field(b"\x0a", content) + _optional(b"\x1a", scope.schema_url)


def _optional(tag: bytes, text: str | None) -> bytes:
    return encoded_field(tag, _text(text)) if text else b""


def _context(target: SpanRef | None) -> bytes:
    try:
        trace_id, span_id = (bytes.fromhex(part) for part in target or ())
    except ValueError:
        return b""
    if not (trace_id and span_id):
        return b""
    return _SAMPLED + encoded_field(b"\x4a", trace_id) + encoded_field(b"\x52", span_id)


@lru_cache(256)
def _log_left_out(key: str, kind: str, error: str) -> None:
    """Log an attribute that cannot be encoded, once for each key and reason; its value may be confidential."""
    _logger.warning("attribute %s is left out: OTLP cannot encode this %s (%s). It is logged once.", key, kind, error)


@lru_cache(_KEPT)
def _before(tag: bytes, key: str, size: int) -> bytes:
    start = encoded_field(b"\x0a", _text(key)) + b"\x12" + varint(size)
    return tag + varint(len(start) + size) + start


@lru_cache(_KEPT)
def _before_text(tag: bytes, key: str, size: int) -> bytes:
    start = b"\x0a" + varint(size)
    return _before(tag, key, len(start) + size) + start


def _any_value(value: object) -> bytes:
    """Return the content of an `AnyValue`. Raises OverflowError and TypeError for what it cannot be."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        if not -_2_63 <= value < _2_63:
            raise OverflowError("more than 64 bits")
        return b"\x18" + varint(value & _64_BITS)
    if isinstance(value, float):
        return _DOUBLE.pack(0x21, value)
    if isinstance(value, str):
        return encoded_field(b"\x0a", _text(value))
    if value is None:
        return b""
    if isinstance(value, bytes):
        return encoded_field(b"\x3a", value)
    if isinstance(value, Sequence):
        items = cast("Sequence[object]", value)
        return encoded_field(b"\x2a", b"".join(encoded_field(b"\x0a", _any_value(item)) for item in items))
    if isinstance(value, Mapping):
        return encoded_field(b"\x32", b"".join(_pair(*pair) for pair in cast("Mapping[Any, object]", value).items()))
    raise TypeError("no value of OTLP")


def _pair(key: object, value: object) -> bytes:
    content = encoded_field(b"\x0a", _text(str(key))) + encoded_field(b"\x12", _any_value(value))
    return encoded_field(b"\x0a", content)


def encoded_field(tag: bytes, content: bytes) -> bytes:
    """Return a field with a length."""
    return tag + varint(len(content)) + content


def varint(number: int) -> bytes:
    """Return a number of 0 or more as protobuf writes it."""
    if number < 128:
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number >= 128:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


_resources: dict[int, tuple[object, bytes]] = {}
_scopes: dict[int, tuple[object, bytes]] = {}
_ONE_BYTE = tuple(bytes([size]) for size in range(128))
_EVENT_NAME = encoded_field(b"\x62", names.EVALUATION_RESULT.encode())
SCHEMA_URL_FIELD = encoded_field(b"\x1a", names.SCHEMA_URL.encode())
SCOPE_FIELD = encoded_field(
    b"\x0a", encoded_field(b"\x0a", SCOPE.encode()) + encoded_field(b"\x12", scope_version().encode())
)
"""Made at the start: later there may be no file descriptor left to read the version."""


MAX_POINTS = 2000
"""Points of an instrument. What has further attributes is added to one point more, as in the SDK."""
_OVERFLOW = (("otel.metric.overflow", True),)
_DEFAULT_BOUNDARIES = (0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1e3, 2.5e3, 5e3, 7.5e3, 1e4)

_FIXED = Struct("<BQ")
_SIGNED = Struct("<Bq")
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

    def __init__(self, service: str, instance: str, name_limit: int = names.NAME_LIMIT) -> None:
        """`instance` distinguishes the points of this process from those of others of this service."""
        resource = {names.SERVICE_NAME.name: service, "service.instance.id": instance}
        self._points = EncodedPoints(resource, time.time_ns)
        super().__init__(self._points, agent_names=None, name_limit=name_limit)
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
        self._tag = tag  # of the attributes of a point
        self._buckets = buckets
        self._points: dict[tuple[tuple[str, Any], ...], _Point] = {}

    def __len__(self) -> int:
        return len(self._points)

    def add(self, value: float, attributes: Mapping[str, Any] | None, context: Context | None, bucket: int) -> _Point:
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
