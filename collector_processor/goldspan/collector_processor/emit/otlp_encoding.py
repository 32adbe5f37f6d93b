"""Score attributes and events as OTLP bytes.

What comes before a value, its key and its length, is encoded once and kept: it differs little from event to event.
https://github.com/open-telemetry/opentelemetry-proto (common.proto, resource.proto, logs.proto)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import (
    EventRun,
    result_attributes,
    run_attributes,
    run_of,
    source_attributes,
)
from goldspan.collector_processor.emit.emitters import SCOPE, scope_version
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

Value = str | bool | int | float | Sequence[str]
"""The attribute values that can be encoded."""

# The tag of a field is its number times 8, plus 0 for a varint, 1 for 8 bytes, 2 for a length and bytes, 5 for 4 bytes.

SPAN_ATTRIBUTES = b"\x4a"
"""Tag of the field `attributes` of a `Span`."""
_RECORD_ATTRIBUTES = b"\x32"
_RESOURCE_ATTRIBUTES = b"\x0a"

_KEPT = 4096
"""So many beginnings of attributes are kept, each with a key and a length."""
_64_BITS = 0xFFFFFFFFFFFFFFFF

_TIMES = Struct("<BQ")
_DOUBLE = Struct("<Bd")
_INFO = b"\x10\x09"
"""The severity of events."""
_SAMPLED = b"\x45\x01\x00\x00\x00"
"""Trace flags of a record with a span."""


def encoded_attributes(attributes: Mapping[str, Value], tag: bytes) -> bytes:
    """Return attributes as a repeated field of `KeyValue`. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    parts: list[bytes] = []
    for key, value in attributes.items():
        if isinstance(value, str):
            text = value.encode("utf-8", "backslashreplace")
            parts.append(_before_text(tag, key, len(text)))
            parts.append(text)
        else:
            content = _any_value(value)
            parts.append(_before(tag, key, len(content)))
            parts.append(content)
    return b"".join(parts)


def encoded_events(evaluations: Iterable[Evaluation], observed: int) -> bytes:
    """Return an `ExportLogsServiceRequest` with one event for each evaluation.

    An event has the resource and the span context of what was judged. `observed` is in nanoseconds since the epoch.
    """
    by_source: dict[ResourceFacts, list[bytes]] = {}
    for evaluation in evaluations:
        by_source.setdefault(evaluation.resource, []).append(encoded_event(evaluation, observed))
    return events_request(by_source)


def encoded_event(evaluation: Evaluation, observed: int) -> bytes:
    """Return one event as a field of a `ScopeLogs`."""
    return encoded_field(
        b"\x12",
        b"".join(
            (
                _TIMES.pack(0x09, evaluation.timestamp & _64_BITS),
                _INFO,
                _run_attributes(run_of(evaluation)),
                encoded_attributes(result_attributes(evaluation), _RECORD_ATTRIBUTES),
                _context(evaluation.target),
                _TIMES.pack(0x59, observed & _64_BITS),
                _EVENT_NAME,
            )
        ),
    )


def events_request(by_source: Mapping[ResourceFacts, Iterable[bytes]]) -> bytes:
    """Return an `ExportLogsServiceRequest` of encoded events, by the resource that was judged."""
    return b"".join(
        encoded_field(
            b"\x0a", _resource(source) + encoded_field(b"\x12", SCOPE_FIELD + b"".join(events) + SCHEMA_URL_FIELD)
        )
        for source, events in by_source.items()
    )


def _context(target: SpanRef | None) -> bytes:
    try:
        trace_id, span_id = (bytes.fromhex(part) for part in target or ())
    except ValueError:
        return b""
    if not (trace_id and span_id):
        return b""
    return _SAMPLED + encoded_field(b"\x4a", trace_id) + encoded_field(b"\x52", span_id)


@lru_cache(maxsize=64)
def _run_attributes(run: EventRun) -> bytes:
    return encoded_attributes(run_attributes(run), _RECORD_ATTRIBUTES)


@lru_cache(maxsize=64)
def _resource(source: ResourceFacts) -> bytes:
    return encoded_field(b"\x0a", encoded_attributes(source_attributes(source), _RESOURCE_ATTRIBUTES))


@lru_cache(_KEPT)
def _before(tag: bytes, key: str, size: int) -> bytes:
    """Return what comes before an `AnyValue` in a `KeyValue` with this tag."""
    start = encoded_field(b"\x0a", _text(key)) + b"\x12" + _varint(size)
    return tag + _varint(len(start) + size) + start


@lru_cache(_KEPT)
def _before_text(tag: bytes, key: str, size: int) -> bytes:
    """Return what comes before a text."""
    start = b"\x0a" + _varint(size)
    return _before(tag, key, len(start) + size) + start


def _any_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value & _64_BITS)
    if isinstance(value, float):
        return _DOUBLE.pack(0x21, value)
    if isinstance(value, str):
        return encoded_field(b"\x0a", _text(value))
    return encoded_field(b"\x2a", b"".join(encoded_field(b"\x0a", _any_value(item)) for item in value))


def encoded_field(tag: bytes, content: bytes) -> bytes:
    """Return a field with a length."""
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
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


_ONE_BYTE = tuple(bytes([size]) for size in range(128))
_EVENT_NAME = encoded_field(b"\x62", names.EVALUATION_RESULT.encode())
SCHEMA_URL_FIELD = encoded_field(b"\x1a", names.SCHEMA_URL.encode())
SCOPE_FIELD = encoded_field(
    b"\x0a", encoded_field(b"\x0a", SCOPE.encode()) + encoded_field(b"\x12", scope_version().encode())
)
"""Made at the start: later there may be no file descriptor left to read the version."""
