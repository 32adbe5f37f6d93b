"""Protobuf written by hand: the few encodings that the gateway needs to add to what it forwards.

https://protobuf.dev/programming-guides/encoding/ and opentelemetry-proto's common.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from goldspan.collector_processor.engine.span_buffer import SpanBuffer
from goldspan.mappers.readers.otlp_messages import hex_bytes
from goldspan.mappers.readers.otlp_protobuf import fields, message_class
from goldspan.scoring.sessions import SpanRef

Value = str | bool | int | float | bytes | Sequence[str]
"""What an attribute may hold here."""


def varint(number: int) -> bytes:
    """Encode a number that is not negative."""
    if number < 0x80:
        return _SMALL[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SMALL = [bytes([number]) for number in range(0x80)]
_FEW = 16
_STARTS = [[bytes([number << 3 | 2, size]) for size in range(0x80)] for number in range(_FEW)]
"""Tag and length of short fields, by number and length."""
_SHORT = 64
"""Letters of a text that may well be written again."""


def field(number: int, content: bytes) -> bytes:
    """Encode a field of bytes, text or a message."""
    size = len(content)
    if size < 0x80 and number < _FEW:
        return _STARTS[number][size] + content
    return b"%b%b%b" % (varint(number << 3 | 2), varint(size), content)


def fixed64(number: int, value: int) -> bytes:
    """Encode a field of the type `fixed64`."""
    return varint(number << 3 | 1) + struct.pack("<Q", value & 0xFFFFFFFFFFFFFFFF)


def fixed32(number: int, value: int) -> bytes:
    """Encode a field of the type `fixed32`."""
    return varint(number << 3 | 5) + struct.pack("<I", value)


def number_field(number: int, value: int) -> bytes:
    """Encode a field of the types `int32`, `int64`, `enum` or `bool`."""
    return varint(number << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def key_values(number: int, attributes: Mapping[str, Value]) -> bytes:
    """Encode attributes as a repeated field of `KeyValue`."""
    return b"".join([_key_value(number, key, attributes[key]) for key in attributes])


def _key_value(number: int, key: str, value: Value) -> bytes:
    if isinstance(value, int) or (isinstance(value, str) and len(value) <= _SHORT):
        return _known_key_value(number, key, value)
    return field(number, _key(key) + field(2, any_value(value)))


@lru_cache(4096, typed=True)
def _known_key_value(number: int, key: str, value: str | int) -> bytes:
    """Encode an attribute; of most that are written the same was said before."""
    return field(number, _key(key) + field(2, any_value(value)))


@lru_cache(1024)
def _key(key: str) -> bytes:
    return field(1, _utf8(key))


def any_value(value: Value) -> bytes:
    """Encode the content of an `AnyValue`."""
    if isinstance(value, str):
        return field(1, _utf8(value))
    if isinstance(value, bool):
        return number_field(2, value)
    if isinstance(value, int):
        return number_field(3, value)
    if isinstance(value, float):
        return b"\x21" + struct.pack("<d", value)
    if isinstance(value, bytes):
        return field(7, value)
    return field(5, _values(value))


def _values(values: Iterable[Value]) -> bytes:
    return b"".join([field(1, any_value(value)) for value in values])


def _utf8(text: str) -> bytes:
    """Encode text; a lone surrogate, which UTF-8 has no place for, is escaped."""
    return text.encode("utf-8", "backslashreplace")


# A trace request taken apart into spans that stay as they came, and put together again from some of them.
#
# Parsing finds the spans and copies their bytes, no more: a request costs some 50 ns a span. What is around the spans,
# resource, scope, schema URLs and fields that nobody knows yet, is kept as bytes too, so that any part of a request can
# leave as a request of its own.

_SPANS, _ATTRIBUTES = 2, 9
"""Fields of `ScopeSpans` and `Span`."""
_TRACE_ID = b"\n\x10"
"""How a span starts whose trace id is where every writer puts it, and of its proper length."""


class Envelope(NamedTuple):
    """What is around spans, encoded: a `ResourceSpans` without its `scope_spans`, a `ScopeSpans` without `spans`."""

    resource: bytes
    scope: bytes


class SpanGroup(NamedTuple):
    """The spans of one scope of one resource."""

    envelope: Envelope
    spans: Sequence[bytes]


def split_request(body: bytes) -> list[SpanGroup] | None:
    """Return the spans of a trace request in their order; none where the bytes are no trace request."""
    try:
        request = message_class("UnreadSpans").FromString(body)
    except DecodeError:
        return None
    groups: list[SpanGroup] = []
    for resource_spans in request.resource_spans:
        found: list[tuple[bytes, list[bytes]]] = []
        for scope_spans in resource_spans.scope_spans:
            spans = list(scope_spans.spans)
            scope_spans.ClearField("spans")
            found.append((scope_spans.SerializeToString(), spans))
        resource_spans.ClearField("scope_spans")
        resource: bytes = resource_spans.SerializeToString()
        groups += [SpanGroup(Envelope(resource, scope), spans) for scope, spans in found]
    return groups


def join_request(groups: Iterable[SpanGroup]) -> bytes:
    """Return a trace request with these spans; equal resources and scopes are written once. Empty where there is none.

    The order of spans is kept within a scope, as is the order in which resources and scopes first come.
    """
    resources: dict[bytes, dict[bytes, Any]] = {}
    for group in groups:
        if not group.spans:
            continue
        scopes = resources.setdefault(group.envelope.resource, {})
        message = scopes.get(group.envelope.scope)
        if message is None:
            message = scopes[group.envelope.scope] = message_class("UnreadScopeSpans").FromString(group.envelope.scope)
        message.spans.extend(group.spans)
    return b"".join(
        [
            field(1, resource + b"".join([field(_SPANS, message.SerializeToString()) for message in scopes.values()]))
            for resource, scopes in resources.items()
        ]
    )


def by_trace(spans: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Sort encoded spans by their trace ids, in the order in which these first come."""
    starts: dict[bytes, list[bytes]] = {}
    for span in spans:
        start = span[:18]
        if start in starts:
            starts[start].append(span)
        else:
            starts[start] = [span]
    traces: dict[bytes, list[bytes]] = {}
    for start, some in starts.items():
        if start.startswith(_TRACE_ID):
            traces.setdefault(start[2:], []).extend(some)
        else:
            for span in some:
                traces.setdefault(trace_id_of(span), []).append(span)
    return traces


def traces_at(body: bytes, groups: Iterable[SpanGroup], places: Sequence[int]) -> set[bytes] | None:
    """Return the traces of the spans in which these places of a request lie, which rise; none where one is outside.

    Spans of a scope follow one another in a request, each after its tag and its length.
    """
    found: set[bytes] = set()
    at, index = 0, 0
    for group in groups:
        for span in group.spans:
            if index == len(places):
                return found
            size = len(span)
            at += 1 + len(varint(size))
            if not body.startswith(span, at) and (at := body.find(span, at)) < 0:
                return None
            if places[index] < at:
                return None
            at += size
            while index < len(places) and places[index] < at:
                found.add(trace_id_of(span))
                index += 1
    return found if index == len(places) else None


def trace_id_of(span: bytes) -> bytes:
    """Return the trace id of an encoded span; empty where it has none."""
    if span.startswith(_TRACE_ID):
        return span[2:18]
    found = b""
    for number, wire, start, end, whole in fields(span):
        if (number, wire, whole) == (1, 2, True):
            found = span[start:end]
    return found


def with_attributes(span: bytes, attributes: Mapping[str, Value]) -> bytes:
    """Return an encoded span with attributes added. Those it has already stay: a second pass adds nothing.

    Fields of a message may come in any order, so that appending is enough; the span's own bytes are not touched.
    """
    # Nearly always the keys begin alike, and no span has come by here before: then one look is enough.
    alike = _common_start(min(attributes), max(attributes)).encode() in span if attributes else False
    present = _keys(span) if alike and any(key.encode() in span for key in attributes) else frozenset[str]()
    return span + key_values(_ATTRIBUTES, {key: value for key, value in attributes.items() if key not in present})


@lru_cache(256)
def _common_start(first: str, last: str) -> str:
    return first[: next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)]


def _keys(span: bytes) -> frozenset[str]:
    attributes = [span[start:end] for number, wire, start, end, _ in fields(span) if (number, wire) == (_ATTRIBUTES, 2)]
    return frozenset(_key_splitting(raw) for raw in attributes)


def _key_splitting(raw: bytes) -> str:
    try:
        return str(message_class("KeyValue").FromString(raw).key)
    except DecodeError:
        return ""


def ref_of(span: bytes) -> SpanRef:
    """Return the ids of an encoded span."""
    ids = {number: span[start:end] for number, wire, start, end, _ in fields(span) if number in (1, 2) and wire == 2}
    return SpanRef(hex_bytes(ids.get(1, b"")), hex_bytes(ids.get(2, b"")))


# The shelf on which a tenant's spans lie as they came.

_OVERHEAD = 120
"""Bytes that a span on the shelf takes beside its own."""


class EncodedSpanBuffer(SpanBuffer[bytes, SpanGroup]):
    """Encoded spans by trace id."""

    def put(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        """Put spans of one envelope on the shelf, by trace id."""
        size = sum(sum(map(len, encoded)) + _OVERHEAD * len(encoded) for encoded in spans.values())
        self.add({trace: (SpanGroup(envelope, encoded),) for trace, encoded in spans.items()}, size, now)
