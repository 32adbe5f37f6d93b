"""Spans as protobuf bytes: requests are split and joined, and attributes appended, without decoding a span.

Splitting a request finds its spans and copies their bytes, at some 50 ns a span. Resource, scope, schema URLs and
unknown fields stay bytes too, so that any part of a request can be sent as a request of its own.

The second half writes protobuf directly, since the gateway adds only a few kinds of fields:
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
"""The attribute values that can be encoded."""


_SPANS, _ATTRIBUTES = 2, 9
"""Field numbers: `ScopeSpans.spans` and `Span.attributes`."""
_TRACE_ID = b"\n\x10"
"""The first bytes of a span whose trace id is its first field and has 16 bytes, as every writer encodes it."""


class Envelope(NamedTuple):
    """Resource and scope of spans, encoded: a `ResourceSpans` without `scope_spans`, a `ScopeSpans` without `spans`."""

    resource: bytes
    scope: bytes


class SpanGroup(NamedTuple):
    """The spans of one scope of one resource."""

    envelope: Envelope
    spans: Sequence[bytes]


def split_request(body: bytes) -> list[SpanGroup] | None:
    """Return the spans of a trace request in their order; None if the bytes are no trace request."""
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
    """Return a trace request with these spans; empty without spans.

    Equal resources and scopes are written once. Spans keep their order within a scope, and resources and scopes the
    order of their first span.
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
    """Group encoded spans by trace id, in the order of first occurrence."""
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


def traces_at(body: bytes, groups: Iterable[SpanGroup], offsets: Sequence[int]) -> set[bytes] | None:
    """Return the trace ids of the spans that contain these byte offsets of a request; None if one is in no span.

    The offsets ascend. Spans of a scope follow one another in a request, each after its tag and its length.
    """
    found: set[bytes] = set()
    at, index = 0, 0
    for group in groups:
        for span in group.spans:
            if index == len(offsets):
                return found
            size = len(span)
            at += 1 + len(varint(size))
            if not body.startswith(span, at) and (at := body.find(span, at)) < 0:
                return None
            if offsets[index] < at:
                return None
            at += size
            while index < len(offsets) and offsets[index] < at:
                found.add(trace_id_of(span))
                index += 1
    return found if index == len(offsets) else None


def trace_id_of(span: bytes) -> bytes:
    """Return the trace id of an encoded span; empty without one."""
    if span.startswith(_TRACE_ID):
        return span[2:18]
    found = b""
    for number, wire, start, end, whole in fields(span):
        if (number, wire, whole) == (1, 2, True):
            found = span[start:end]
    return found


def with_attributes(span: bytes, attributes: Mapping[str, Value]) -> bytes:
    """Return an encoded span with attributes appended; a key that the span has already is left as it is.

    The fields of a protobuf message may come in any order, so the span's own bytes are not touched.
    """
    # The keys share a prefix, and nearly every span has none of them: then one search is enough.
    prefixed = _common_prefix(min(attributes), max(attributes)).encode() in span if attributes else False
    present = _keys(span) if prefixed and any(key.encode() in span for key in attributes) else frozenset[str]()
    return span + key_values(_ATTRIBUTES, {key: value for key, value in attributes.items() if key not in present})


@lru_cache(256)
def _common_prefix(first: str, last: str) -> str:
    return first[: next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)]


def _keys(span: bytes) -> frozenset[str]:
    attributes = [span[start:end] for number, wire, start, end, _ in fields(span) if (number, wire) == (_ATTRIBUTES, 2)]
    return frozenset(_decoded_key(raw) for raw in attributes)


def _decoded_key(raw: bytes) -> str:
    try:
        return str(message_class("KeyValue").FromString(raw).key)
    except DecodeError:
        return ""


def ref_of(span: bytes) -> SpanRef:
    """Return trace id and span id of an encoded span."""
    ids = {number: span[start:end] for number, wire, start, end, _ in fields(span) if number in (1, 2) and wire == 2}
    return SpanRef(hex_bytes(ids.get(1, b"")), hex_bytes(ids.get(2, b"")))


_OVERHEAD = 120
"""Bytes of memory that a buffered span takes beside its own."""


class EncodedSpanBuffer(SpanBuffer[bytes, SpanGroup]):
    """The spans of one tenant that the engine has not read, by trace id."""

    def put(self, envelope: Envelope, spans: Mapping[bytes, list[bytes]], now: float) -> None:
        """Add spans of one envelope, by trace id."""
        size = sum(sum(map(len, encoded)) + _OVERHEAD * len(encoded) for encoded in spans.values())
        self.add({trace: (SpanGroup(envelope, encoded),) for trace, encoded in spans.items()}, size, now)


# Protobuf encoding.


def varint(number: int) -> bytes:
    """Encode a non-negative number."""
    if number < 0x80:
        return _SMALL[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SMALL = [bytes([number]) for number in range(0x80)]
_LOW_FIELDS = 16
_SHORT_HEADS = [[bytes([number << 3 | 2, size]) for size in range(0x80)] for number in range(_LOW_FIELDS)]
"""Tag and length of short fields, by field number and length."""
_MAX_CACHED_TEXT = 64
"""Characters; shorter texts repeat often enough to be cached."""


def field(number: int, content: bytes) -> bytes:
    """Encode a field of bytes, text or a message."""
    size = len(content)
    if size < 0x80 and number < _LOW_FIELDS:
        return _SHORT_HEADS[number][size] + content
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
    if isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_CACHED_TEXT):
        return _cached_key_value(number, key, value)
    return field(number, _key(key) + field(2, any_value(value)))


@lru_cache(4096, typed=True)
def _cached_key_value(number: int, key: str, value: str | int) -> bytes:
    """Encode an attribute; most attributes repeat, so the bytes are cached."""
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
    """Encode text; a lone surrogate, which UTF-8 cannot encode, is escaped."""
    return text.encode("utf-8", "backslashreplace")
