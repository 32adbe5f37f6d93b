"""OTLP/JSON read lazily: one pass finds the spans of a request, and values are decoded where someone asks for them.

What this module reads at all, it reads like `otlp_json`. Whatever it does not know by its type (other spellings of a
field, ids that are no text, NaN, lone surrogates) it refuses, so that the whole text is read the plain way.
"""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from goldspan.mappers.readers import otlp_json
from goldspan.mappers.spans import (
    ENTRY_KINDS,
    Encodable,
    EncodedSpan,
    EventView,
    Markers,
    PlainSpans,
    ResourceView,
    Search,
    SpanOutline,
    SpanView,
    UndecodedAttributes,
    alternatives,
)
from goldspan.scoring.sessions import SpanRef

_NOTHING = msgspec.Raw(b"")
_MAX_RESOURCES = 256
_MAX_KEPT = 8192  # bytes of a span that may wait to be read
_untyped = msgspec.json.Decoder().decode
_PlainSpan = tuple[str, str | None, int | None, int | None, int | str | None, int | str | None]
"""Span id, parent id, start, end, kind and flags, as the request holds them."""
_outline: Callable[[Any], _PlainSpan] = attrgetter(
    "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano", "kind", "flags"
)
_LIST = frozenset(b"[")
_UNUSUAL = re.compile(r'[\0-\x1f"/\\\x7f-\uffff]')  # what may be escaped in JSON in several ways


_Time = Annotated[int, msgspec.Meta(ge=0)]
_Flags = Annotated[int, msgspec.Meta(ge=0, le=0xFFFFFFFF)]


class _Pair(msgspec.Struct, gc=False, omit_defaults=True):
    key: str
    value: msgspec.Raw = _NOTHING


class _Value(msgspec.Struct, gc=False, rename="camel"):
    string_value: str | None = None


class _Status(msgspec.Struct, gc=False, omit_defaults=True):
    code: int | str | None = None
    message: str | None = None


class _Span(msgspec.Struct, gc=False, omit_defaults=True, rename="camel"):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: _Time | None = None
    end_time_unix_nano: _Time | None = None
    flags: _Flags | str | None = None
    attributes: msgspec.Raw = _NOTHING
    events: list[msgspec.Raw] | None = None
    links: list[msgspec.Raw] | None = None
    status: _Status | None = None
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
_text = msgspec.json.Decoder(_Value).decode
_pairs = msgspec.json.Decoder(list[_Pair] | None).decode


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
        """Take a span. Attributes that are no list of pairs raise `msgspec.DecodeError`."""
        pairs = _pairs(raw.attributes) if raw.attributes else None
        self._raw = raw
        self.scope_name = scope_name
        self.resource = resource
        self.trace_id = otlp_json.hex_id(raw.trace_id, 32)
        self.span_id = otlp_json.hex_id(raw.span_id, 16)
        self.parent_id = otlp_json.hex_id(raw.parent_span_id, 16) if raw.parent_span_id else ""
        start, end, kind = raw.start_time_unix_nano or 0, raw.end_time_unix_nano or 0, raw.kind
        self.start, self.end = start, end
        self.kind = kind if type(kind) is int else otlp_json.span_kind(kind)
        self.attributes: UndecodedAttributes[msgspec.Raw] = UndecodedAttributes(
            {pair.key: pair.value for pair in pairs or ()}, _value
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
        return self._raw.flags is not None and otlp_json.is_remote(self._raw.flags)

    @property
    def status_code(self) -> int:
        status = self._raw.status
        return 0 if status is None else otlp_json.status_code({"code": status.code})

    @property
    def status_message(self) -> str:
        status = self._raw.status
        return "" if status is None else status.message or ""

    @property
    def events(self) -> Sequence[EventView]:
        return otlp_json.event_views(list(map(_decoded, raw))) if (raw := self._raw.events) else ()

    @property
    def links(self) -> Sequence[SpanRef]:
        return otlp_json.link_refs(list(map(_decoded, self._raw.links or ())))


def _decoded_span(encoded: bytes, scope_name: str, resource: ResourceView) -> LazyJsonSpan:
    return LazyJsonSpan(_span(encoded), scope_name, resource)


class LazyReader:
    """Reads the lazy requests of a file that a `JsonReader` also reads."""

    def __init__(self, plain: otlp_json.JsonReader) -> None:
        self._plain = plain
        self._resources: dict[bytes, ResourceView] = {}

    def spans(self, request: LazyRequest, place: str) -> Iterator[SpanView]:
        """Yield the spans of a request that was read at this place."""
        for group in request.resource_spans:
            resource = self._resource(bytes(group.resource))
            for scope_spans in group.scope_spans or ():
                for span in scope_spans.spans or ():
                    if (view := self._view(span, _name(scope_spans), resource, place)) is not None:
                        yield view

    def marked(self, request: LazyRequest, markers: Markers, place: str) -> Iterator[SpanView | PlainSpans]:
        """Yield the spans of a request that hold any of these markers, and the others together."""
        for group in request.resource_spans:
            resource = self._resource(bytes(group.resource))
            plain: dict[str, list[_PlainSpan]] = {}
            for scope_spans in group.scope_spans or ():
                scope_name = _name(scope_spans)
                spans: Sequence[_Span] = scope_spans.spans or ()
                others = () if scope_name in markers.scopes else _without_markers(spans, markers)
                if len(others) < len(spans):
                    left_out = set(map(id, others))
                    for span in spans:
                        if id(span) in left_out:
                            continue
                        if (view := self._view(span, scope_name, resource, place)) is not None:
                            yield view
                self._plain.records += len(others)
                for span in others:
                    trace_id = span.trace_id or ""
                    if (of_trace := plain.get(trace_id)) is None:
                        of_trace = plain[trace_id] = []
                    of_trace.append(_outline(span))
            if plain:
                yield PlainSpans(plain, _skeleton, resource)

    def _view(self, span: _Span, scope_name: str, resource: ResourceView, place: str) -> SpanView | None:
        status = span.status
        try:
            if type(span.kind) is str or type(span.flags) is str or (status is not None and type(status.code) is str):
                _check(span)
            view = LazyJsonSpan(span, scope_name, resource)
        except (msgspec.DecodeError, otlp_json.BadValueError):
            return self._plain.span(_parsed(span), {"name": scope_name}, resource, place)
        self._plain.records += 1
        return view

    def _resource(self, raw: bytes) -> ResourceView:
        view = self._resources.get(raw)
        if view is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            view = self._resources[raw] = self._plain.resource(_decoded(raw))
        return view


def _check(span: _Span) -> None:
    """Raise BadValueError for a field that the plain way reports, beside what its type excludes."""
    if isinstance(span.kind, str):
        otlp_json.as_kind(span.kind)
    if isinstance(span.flags, str):
        otlp_json.as_flags(span.flags)
    if span.status is not None and isinstance(span.status.code, str):
        otlp_json.as_code(span.status.code)


def _parsed(span: _Span) -> dict[str, Any]:
    """Return a span as `json.loads` does."""
    values = {field.encode_name: getattr(span, field.name) for field in msgspec.structs.fields(_Span)}
    values["status"] = msgspec.to_builtins(span.status)
    for name in ("events", "links"):
        values[name] = None if values[name] is None else list(map(_decoded, values[name]))
    return {name: _decoded(value) if isinstance(value, msgspec.Raw) else value for name, value in values.items()}


def _name(scope_spans: _ScopeSpans) -> str:
    return (scope_spans.scope.name if scope_spans.scope is not None else None) or ""


def _without_markers(spans: Sequence[_Span], markers: Markers) -> Sequence[_Span]:
    """Return the spans that hold none of these keys and have ids as all readers write them; most often all or none.

    All attributes are searched at once. A span that is left out by mistake is read, and found to hold nothing.
    """
    search = _search_for(markers.keys)
    written = [raw for span in spans if (raw := span.attributes)]
    joined = b"".join(written)
    unusual = not {memoryview(raw)[0] for raw in written} <= _LIST or b"\\" in joined
    if unusual or not _are_plain(joined, search, markers):
        spans = [span for span in spans if not span.attributes or _holds_none(bytes(span.attributes), search, markers)]
    if not _ids_are_usual(spans):
        spans = [span for span in spans if _ids_are_usual([span])]
    return spans


def _are_plain(attributes: bytes, search: Search, markers: Markers) -> bool:
    """Tell whether no key in these attributes, or in what else they hold, is a marker or may carry a call."""
    if markers.other_keys()(attributes) is None:
        return True
    return search(attributes) is None and markers.are_plain(
        {str(key, "utf-8", "replace") for key in set(_KEYS.findall(attributes))}
    )


def _holds_none(attributes: bytes, search: Search, markers: Markers) -> bool:
    """Tell whether this is a list without any of the keys. What has escapes may spell them in any way."""
    return (
        _are_plain(attributes, search, markers)
        and b"\\u" not in attributes
        and (attributes.startswith(b"[") or attributes == b"null")
    )


def _ids_are_usual(spans: Sequence[_Span]) -> bool:
    """Tell whether the ids of all these spans are lower-case hex of the right lengths, and not all zeros."""
    span_ids = [span.span_id or "" for span in spans]
    return _are_hex(span_ids, 16) and _are_hex({span.trace_id or "" for span in spans}, 32)


def _are_hex(ids: Collection[str], length: int) -> bool:
    joined = "".join(ids)
    if len(joined) != len(ids) * length or "0" * length in ids or not {length}.issuperset(map(len, ids)):
        return False
    try:
        return bytes.fromhex(joined).hex() == joined
    except ValueError:
        return False


_KEYS = re.compile(rb'"key"\s*:\s*"([^"\\]*)"')


@lru_cache(maxsize=8)
def _search_for(keys: frozenset[str]) -> Search:
    """Compile a search for these attribute keys in JSON that escapes no letter of them."""
    if any(_UNUSUAL.search(key) for key in keys):
        return re.compile(b"").search
    words = alternatives(sorted(key.encode("utf-8", "surrogatepass") + b'"' for key in keys))
    return re.compile(rb'"key"\s*:\s*"(?:' + words + b")").search


def _skeleton(span: _PlainSpan) -> SpanOutline:
    span_id, parent_id, start, end, kind, flags = span
    return (
        span_id,
        otlp_json.hex_id(parent_id, 16) if parent_id else "",
        start or 0,
        end or 0,
        (flags is not None and otlp_json.is_remote(flags)) or otlp_json.span_kind(kind) in ENTRY_KINDS,
    )


def _value(raw: msgspec.Raw) -> Any:
    try:
        text = _text(raw).string_value  # most values are text
    except (msgspec.DecodeError, RecursionError):
        text = None
    return otlp_json.decode_value(_decoded(raw)) if text is None else text


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
