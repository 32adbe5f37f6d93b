"""Fields of OTLP/JSON records other than their values: ids, times, kinds, status, events. Never raises."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.mappers.readers.anyvalue import decode_attributes, integer
from goldspan.mappers.spans import EventView
from goldspan.scoring.sessions import SpanRef

_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUS = {"OK": 1, "ERROR": 2}
_IS_REMOTE = 0x200
"""`SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK` of trace.proto."""


def hex_id(value: object, length: int) -> str:
    """Return an id in lower case; `""` for none, for an invalid one of zeros only, and for what is no text.

    Ids are hex in OTLP/JSON. `json_format` of protobuf, and Tempo with it, writes base64 all the same, recognised
    here by its length.
    """
    if not isinstance(value, str):
        return ""
    text = value.strip().lower()
    if len(text) == length:
        return text if text[0] != "0" or text.strip("0") else ""
    base64_length = (length // 2 + 2) // 3 * 4
    if len(text) == base64_length and text.endswith("="):
        try:
            text = base64.b64decode(value.strip(), validate=True).hex()
        except (binascii.Error, ValueError):
            return text
    return "" if text.strip("0") == "" else text


def nanoseconds(value: object) -> int:
    """Return a time in nanoseconds since the epoch, a number or a text of one; 0 for what is none."""
    number = integer(value)
    return number if isinstance(number, int) and number > 0 else 0


def span_kind(value: object) -> int:
    """Return a `SpanKind`, written as a number or by its name; 0 for what is none."""
    return _enum(value, "SPAN_KIND_", _KINDS)


def is_remote(flags: object) -> bool:
    """Tell whether a span's flags say that its parent is in another process."""
    number = integer(flags)
    return isinstance(number, int) and bool(number & _IS_REMOTE)


def status_code(status: object) -> int:
    """Return the `StatusCode` of a status, written as a number or by its name; 0 for what is none."""
    return _enum(status.get("code"), "STATUS_CODE_", _STATUS) if is_object(status) else 0


def status_message(status: object) -> str:
    """Return the message of a status; `""` for what is no text."""
    message = status.get("message") if is_object(status) else None
    return message if isinstance(message, str) else ""


def scope_name(scope: object) -> str:
    """Return the name of an instrumentation scope; `""` for what is no text."""
    name = scope.get("name") if is_object(scope) else None
    return name if isinstance(name, str) else ""


def event_views(events: object) -> list[EventView]:
    """Return the events of a span; what is none is left out."""
    return [
        EventView(str(event.get("name") or ""), decode_attributes(event.get("attributes")))
        for event in (events if is_list(events) else ())
        if is_object(event)
    ]


def link_refs(links: object) -> list[SpanRef]:
    """Return the spans that a span links to; what names none is left out."""
    refs: list[SpanRef] = []
    for link in links if is_list(links) else ():
        if is_object(link):
            trace_id = hex_id(link.get("traceId") or link.get("trace_id"), 32)
            span_id = hex_id(link.get("spanId") or link.get("span_id"), 16)
            refs.append(SpanRef(trace_id, span_id))
    return [ref for ref in refs if ref.trace_id and ref.span_id]


def _enum(value: object, prefix: str, names: Mapping[str, int]) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str):
        if value.isdecimal() and len(value) < 4:
            return int(value)
        return names.get(value.upper().removeprefix(prefix), 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
