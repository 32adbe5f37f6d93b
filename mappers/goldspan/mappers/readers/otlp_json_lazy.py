"""OTLP/JSON read lazily: one pass finds the spans of a request, and values are decoded where someone asks for them.

What this module reads at all, it reads like `otlp_json`. Whatever it does not know by its type (other spellings of a
field, ids that are no text, NaN, lone surrogates) it refuses, so that the whole text is read the plain way.
"""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from goldspan.mappers.readers.otlp_json import (
    JsonReader,
    decode_value,
    event_views,
    hex_id,
    is_remote,
    link_refs,
    span_kind,
    status_code,
    text_of,
)
from goldspan.mappers.spans import (
    ENTRY_KINDS,
    Encodable,
    EncodedSpan,
    EventView,
    Markers,
    PlainSpans,
    ResourceView,
    SpanOutline,
    SpanView,
    UndecodedAttributes,
)
from goldspan.scoring.sessions import SpanRef

_NOTHING = msgspec.Raw(b"")
_MAX_RESOURCES = 256
_MAX_KEPT = 8192
"""Bytes of a span that may wait to be read."""
_untyped = msgspec.json.Decoder().decode
_PlainSpan = tuple[str, str | None, int | None, int | None, int | str | None, int | str | None]
"""Span id, parent id, start, end, kind and flags, as the request holds them."""


class _Pair(msgspec.Struct, gc=False, omit_defaults=True):
    key: str
    value: msgspec.Raw = _NOTHING


class _Span(msgspec.Struct, gc=False, omit_defaults=True, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: int | None = None
    end_time_unix_nano: int | None = None
    flags: int | str | None = None
    attributes: list[_Pair] | None = None
    events: msgspec.Raw = _NOTHING
    links: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING
    # A field of type null is one that must not be there.
    snake_trace_id: None = msgspec.field(default=None, name="trace_id")
    snake_span_id: None = msgspec.field(default=None, name="span_id")
    snake_parent: None = msgspec.field(default=None, name="parent_span_id")
    snake_start: None = msgspec.field(default=None, name="start_time_unix_nano")
    snake_end: None = msgspec.field(default=None, name="end_time_unix_nano")


class _Scope(msgspec.Struct):
    name: str | None = None


class _ScopeSpans(msgspec.Struct):
    scope: _Scope | None = None
    spans: list[_Span] | None = None
    library: None = msgspec.field(default=None, name="instrumentationLibrary")


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = _NOTHING
    scope_spans: list[_ScopeSpans] | None = None
    snake: None = msgspec.field(default=None, name="scope_spans")
    library_spans: None = msgspec.field(default=None, name="instrumentationLibrarySpans")


class LazyRequest(msgspec.Struct, rename="camel"):
    """A trace request whose spans are found and not yet decoded."""

    resource_spans: list[_ResourceSpans]
    # Log records in the same request are read the plain way.
    resource_logs: None = None
    snake_logs: None = msgspec.field(default=None, name="resource_logs")


_request = msgspec.json.Decoder(LazyRequest, strict=False).decode  # 64-bit integers are texts in OTLP/JSON
_encoded_span = msgspec.json.Encoder().encode
_span = msgspec.json.Decoder(_Span).decode


def loads(text: bytes) -> object:
    """Parse JSON: a `LazyRequest` where it is one, anything else, with the same errors, as `json.loads` does."""
    try:
        if not text.isascii():
            text.decode()  # what is stepped over is checked for everything but its encoding
        return _request(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return json.loads(text)


class LazyJsonSpan(Encodable):
    """One span of a `LazyRequest`."""

    __slots__ = (
        "_raw",
        "attributes",
        "end",
        "kind",
        "parent_id",
        "resource",
        "scope_name",
        "span_id",
        "start",
        "trace_id",
    )

    def __init__(self, raw: _Span, scope_name: str, resource: ResourceView) -> None:
        self._raw = raw
        self.scope_name = scope_name
        self.resource = resource
        self.trace_id = hex_id(raw.trace_id, 32)
        self.span_id = hex_id(raw.span_id, 16)
        self.parent_id = hex_id(raw.parent_span_id, 16) if raw.parent_span_id else ""
        start, end, kind = raw.start_time_unix_nano or 0, raw.end_time_unix_nano or 0, raw.kind
        self.start = start if start > 0 else 0
        self.end = end if end > 0 else 0
        self.kind = kind if type(kind) is int else span_kind(kind)
        self.attributes: UndecodedAttributes[msgspec.Raw] = UndecodedAttributes(
            {pair.key: pair.value for pair in raw.attributes or ()}, _value
        )

    def encode(self) -> EncodedSpan | None:
        try:
            encoded = _encoded_span(self._raw)
        except OverflowError:  # a time of more than 64 bits
            return None
        if len(encoded) > _MAX_KEPT:
            return None
        return EncodedSpan(encoded, _decoded_span, self.scope_name, self.resource)

    @property
    def name(self) -> str:
        return self._raw.name or ""

    @property
    def parent_is_remote(self) -> bool:
        return self._raw.flags is not None and is_remote(self._raw.flags)

    @property
    def status_code(self) -> int:
        return status_code(_decoded(self._raw.status))

    @property
    def status_message(self) -> str:
        return text_of(_decoded(self._raw.status), "message")

    @property
    def events(self) -> Sequence[EventView]:
        return event_views(_decoded(self._raw.events))

    @property
    def links(self) -> Sequence[SpanRef]:
        return link_refs(_decoded(self._raw.links))


def _decoded_span(encoded: bytes, scope_name: str, resource: ResourceView) -> LazyJsonSpan:
    return LazyJsonSpan(_span(encoded), scope_name, resource)


class LazyReader:
    """Reads the lazy requests of a file that a `JsonReader` also reads."""

    def __init__(self, plain: JsonReader) -> None:
        self._plain = plain
        self._resources: dict[bytes, ResourceView] = {}

    def spans(self, request: LazyRequest) -> Iterator[SpanView]:
        """Yield the spans of a request."""
        for group in request.resource_spans:
            resource = self._resource(bytes(group.resource))
            for scope_spans in group.scope_spans or ():
                scope_name = (scope_spans.scope.name if scope_spans.scope is not None else None) or ""
                for span in scope_spans.spans or ():
                    self._plain.records += 1
                    yield LazyJsonSpan(span, scope_name, resource)

    def marked(self, request: LazyRequest, markers: Markers) -> Iterator[SpanView | PlainSpans]:
        """Yield the spans of a request that hold any of these markers, and the others together."""
        keys = markers.keys
        for group in request.resource_spans:
            resource = self._resource(bytes(group.resource))
            plain: dict[str, list[_PlainSpan]] = {}
            for scope_spans in group.scope_spans or ():
                scope_name = (scope_spans.scope.name if scope_spans.scope is not None else None) or ""
                spans = scope_spans.spans or ()
                self._plain.records += len(spans)
                all_marked = scope_name in markers.scopes
                for span in spans:
                    for pair in span.attributes or ():
                        if pair.key in keys:
                            break
                    else:
                        trace_id, span_id = span.trace_id, span.span_id
                        if (
                            trace_id
                            and span_id
                            and len(span_id) == 16
                            and span_id.isalnum()
                            and span_id.islower()
                            and not all_marked
                        ):  # a span id as all readers write it; those few without any letter need a closer look
                            others = plain.get(trace_id)
                            if others is None and hex_id(trace_id, 32):
                                others = plain[trace_id] = []
                            if others is not None:
                                others.append(
                                    (
                                        span_id,
                                        span.parent_span_id,
                                        span.start_time_unix_nano,
                                        span.end_time_unix_nano,
                                        span.kind,
                                        span.flags,
                                    )
                                )
                                continue
                    yield LazyJsonSpan(span, scope_name, resource)
            if plain:
                yield PlainSpans(_by_trace(plain), _skeleton, resource)

    def _resource(self, raw: bytes) -> ResourceView:
        view = self._resources.get(raw)
        if view is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            view = self._resources[raw] = self._plain.resource(_decoded(raw))
        return view


def _by_trace(plain: dict[str, list[_PlainSpan]]) -> dict[str, list[_PlainSpan]]:
    """Group spans by trace ids as all readers write them."""
    by_trace: dict[str, list[_PlainSpan]] = {}
    for written, spans in plain.items():
        trace_id = hex_id(written, 32)
        if trace_id in by_trace:
            by_trace[trace_id] += spans
        else:
            by_trace[trace_id] = spans
    return by_trace


def _skeleton(span: _PlainSpan) -> SpanOutline:
    span_id, parent_id, start, end, kind, flags = span
    return (
        span_id,
        hex_id(parent_id, 16) if parent_id else "",
        start if start is not None and start > 0 else 0,
        end if end is not None and end > 0 else 0,
        (flags is not None and is_remote(flags)) or span_kind(kind) in ENTRY_KINDS,
    )


def _value(raw: msgspec.Raw) -> Any:
    return decode_value(_decoded(raw))


def _decoded(raw: msgspec.Raw | bytes) -> Any:
    """Decode JSON that msgspec has validated. `json` decodes numbers that msgspec cannot."""
    try:
        return _untyped(raw) if raw else None
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError):
        return None
