"""OTLP protobuf out of files: spans that are decoded only as far as someone looks at them.

Parsed with the lazy schema, a span costs its ids and times; of its attributes only the keys are read. A message that is
broken somewhere is walked field by field, and gives every span that is whole.
"""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from google.protobuf.message import DecodeError

from goldspan.mappers.readers.framing import varint
from goldspan.mappers.readers.otlp_messages import IS_REMOTE, hex_bytes, message_attributes, message_value
from goldspan.mappers.readers.otlp_schema import message_class
from goldspan.mappers.readers.problems import BAD_PROTOBUF, BAD_SPAN, OnProblem
from goldspan.mappers.readers.undecoded import UndecodedAttributes
from goldspan.mappers.spans import (
    ENTRY_KINDS,
    EventView,
    LogView,
    MarkedView,
    Markers,
    PlainSpans,
    RecordView,
    ResourceView,
    Skeleton,
)
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import SpanRef

_MAX_RESOURCES = 256
_MAX_KEYS = 4096
_KEY, _VALUE = 0x0A, 0x12
"""Tags of the fields of `KeyValue`."""
_PlainSpan = tuple[str, bytes, int, int, int, int]
"""Span id, encoded parent id, start, end, kind and flags."""
_TIMES_OF_LOGS = ((1, 1), (11, 1))
"""`time_unix_nano` and `observed_time_unix_nano` of a log record, as field number and wire type."""


class ProtobufSpan:
    """One span of the lazy schema."""

    __slots__ = (
        "_reader",
        "_span",
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

    def __init__(self, span: Any, scope_name: str, resource: ResourceView, reader: ProtobufReader) -> None:
        self._span = span
        self._reader = reader
        self.scope_name = scope_name
        self.resource = resource
        self.trace_id = hex_bytes(span.trace_id)
        self.span_id = hex_bytes(span.span_id)
        self.parent_id = hex_bytes(span.parent_span_id)
        self.start: int = span.start_time_unix_nano
        self.end: int = span.end_time_unix_nano
        self.kind: int = span.kind
        self.attributes = UndecodedAttributes(reader.keyed(span.attributes), reader.value)

    @property
    def name(self) -> str:
        return str(self._span.name, "utf-8", "replace")

    @property
    def parent_is_remote(self) -> bool:
        return bool(self._span.flags & IS_REMOTE)

    @property
    def status_code(self) -> int:
        return int(self._reader.parsed("Status", self._span.status).code)

    @property
    def status_message(self) -> str:
        return str(self._reader.parsed("Status", self._span.status).message)

    @property
    def events(self) -> Sequence[EventView]:
        events = [self._reader.parsed("Event", event) for event in self._span.events]
        return [EventView(event.name, message_attributes(event.attributes)) for event in events]

    @property
    def links(self) -> Sequence[SpanRef]:
        links = [self._reader.parsed("Link", link) for link in self._span.links]
        return [SpanRef(hex_bytes(link.trace_id), hex_bytes(link.span_id)) for link in links]


class ProtobufReader:
    """Reads the messages of one file; keeps one resource view for equal resources, a bounded number of them."""

    def __init__(self, on_problem: OnProblem) -> None:
        self._on_problem = on_problem
        self._place = ""
        self._broken_parts: set[str] = set()
        self._resources: dict[bytes, ResourceView] = {}
        self._keys: dict[bytes, str] = {}
        self._traces_data = message_class("TracesData").FromString
        self.records = 0
        """How many spans and log records were read, and how many messages held metrics instead."""

    def parse(self, data: bytes, place: str, *, whole: bool = True) -> Any:
        """Return the trace request in these bytes as a message of the lazy schema; as much of it as is not broken."""
        try:
            if whole:
                return self._traces_data(data)
        except DecodeError:
            pass
        message, spans, lost = _repaired(data)
        what = "is broken" if whole else "is cut off"
        found = f"{spans} whole spans were read from it" + (f", {lost} were not" if lost else "")
        self._on_problem(Problem(BAD_PROTOBUF, f"a message {what}; {found}", place))
        return message

    def views(self, request: Any, place: str) -> Iterator[RecordView]:
        """Yield the spans of a parsed request, or its log records."""
        return cast("Iterator[RecordView]", self.marked(request, place, None))

    def marked(self, request: Any, place: str, markers: Markers | None) -> Iterator[MarkedView]:
        """Yield the spans of a parsed request, those without any of the `markers` together, or its log records."""
        self._place = place
        self._broken_parts.clear()
        for group in request.resource_spans:
            resource = self._resource(group.resource)
            plain: dict[str, list[_PlainSpan]] = {}
            for scope_spans in group.scope_spans:
                scope_name = str(self.parsed("Scope", scope_spans.scope).name)
                keys = markers.keys if markers is not None and scope_name not in markers.scopes else None
                for span in scope_spans.spans:
                    self.records += 1
                    if not span.start_time_unix_nano and len(span.span_id) != 8:
                        kind = kind_of(span)
                        if kind == "LogRecord":
                            yield self._log(span.SerializeToString(), scope_name, resource)
                            continue
                        if kind == "Metric":
                            if plain:
                                yield PlainSpans(plain, _skeleton, resource)
                            return
                    if keys is not None and keys.isdisjoint(self.keyed(span.attributes)):
                        trace_id, span_id = hex_bytes(span.trace_id), hex_bytes(span.span_id)
                        if trace_id and span_id:
                            start, end = span.start_time_unix_nano, span.end_time_unix_nano
                            one = (span_id, span.parent_span_id, start, end, span.kind, span.flags)
                            plain.setdefault(trace_id, []).append(one)
                            continue
                    yield ProtobufSpan(span, scope_name, resource, self)
            if plain:
                yield PlainSpans(plain, _skeleton, resource)

    def _log(self, raw: bytes, scope_name: str, resource: ResourceView) -> LogView:
        record = self.parsed("LogRecord", raw)
        return LogView(
            hex_bytes(record.trace_id),
            hex_bytes(record.span_id),
            record.time_unix_nano or record.observed_time_unix_nano,
            str(record.event_name, "utf-8", "replace"),
            message_value(self.parsed("AnyValue", record.body)),
            message_attributes(record.attributes),
            scope_name,
            resource,
        )

    def keyed(self, attributes: Any) -> dict[str, bytes]:
        """Return encoded attributes by key; of a key given twice the last wins."""
        known = self._keys
        keyed: dict[str, bytes] = {}
        for raw in attributes:
            try:
                keyed[known[raw[: raw[1] + 3]]] = raw
            except (KeyError, IndexError):
                keyed[self._key(raw)] = raw
        return keyed

    def _key(self, raw: bytes) -> str:
        """Return the key of an encoded attribute, and remember how such attributes start.

        Every writer puts the key first: its tag, its length, itself, and then the tag of the value.
        """
        if len(raw) > 2 and raw[0] == _KEY and raw[1] < 0x80:
            start = raw[: raw[1] + 3]
            if len(start) == raw[1] + 3 and start[-1] == _VALUE:
                try:
                    key = str(start[2:-1], "utf-8")
                except UnicodeDecodeError:
                    return str(self.parsed("KeyValue", raw).key)
                if len(self._keys) >= _MAX_KEYS:
                    self._keys.clear()
                self._keys[start] = key
                return key
        return str(self.parsed("KeyValue", raw).key)

    def value(self, raw: bytes) -> Any:
        """Decode the value of an encoded attribute."""
        return message_value(self.parsed("KeyValue", raw).value)

    def parsed(self, name: str, raw: bytes) -> Any:
        """Parse a part of a span; an empty message, and a problem, where it is broken."""
        try:
            return message_class(name).FromString(raw)
        except DecodeError:
            if name not in self._broken_parts:
                self._broken_parts.add(name)  # once in a message: a broken writer breaks every span
                message = f"found a {name} that is broken; it was taken for empty"
                self._on_problem(Problem(BAD_SPAN, message, self._place))
            return message_class(name)()

    def _resource(self, raw: bytes) -> ResourceView:
        view = self._resources.get(raw)
        if view is None:
            if len(self._resources) >= _MAX_RESOURCES:
                self._resources.clear()
            view = self._resources[raw] = ResourceView(message_attributes(self.parsed("Resource", raw).attributes))
        return view


def _skeleton(span: _PlainSpan) -> Skeleton:
    span_id, parent_id, start, end, kind, flags = span
    return span_id, hex_bytes(parent_id), start, end, bool(flags & IS_REMOTE) or kind in ENTRY_KINDS


def kind_of(span: Any) -> str:
    """Tell log records and metrics, which stand where spans do, by their types of fields.

    A log record has its times in fields that are messages of a span; a metric has its name for a trace id.
    """
    tags = {(number, wire) for number, wire, *_ in fields(span.SerializeToString())}
    if not tags.isdisjoint(_TIMES_OF_LOGS):
        return "LogRecord"
    return "Span" if len(span.trace_id) in (0, 16) else "Metric"


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield each field up to a broken one as (number, wire type, start of its value, its end, whether it is whole)."""
    stop = len(data) if end is None else end
    at = start
    while at < stop:
        tag, at = varint(data, at)
        wire = tag & 7
        if tag < 8 or at > stop:
            return
        if wire == 2:
            size, at = varint(data, at)
        elif wire == 0:
            begin = at
            value, at = varint(data, at)
            size, at = (at - begin, begin) if value >= 0 else (-1, at)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0 or at > stop:
            return
        yield tag >> 3, wire, at, min(at + size, stop), at + size <= stop
        at += size


def _repaired(data: bytes) -> tuple[Any, int, int]:
    """Return a request with the whole spans of a broken one, how many they are, and how many were not whole."""
    request = message_class("TracesData")()
    spans = lost = 0
    for number, wire, start, end, _ in fields(data):
        if (number, wire) != (1, 2):
            continue
        group = request.resource_spans.add()
        for inner, inner_wire, inner_start, inner_end, inner_whole in fields(data, start, end):
            if (inner, inner_wire, inner_whole) == (1, 2, True):
                group.resource = data[inner_start:inner_end]
            elif (inner, inner_wire) == (2, 2):
                scope_spans = group.scope_spans.add()
                for leaf, leaf_wire, leaf_start, leaf_end, leaf_whole in fields(data, inner_start, inner_end):
                    if (leaf, leaf_wire, leaf_whole) == (1, 2, True):
                        scope_spans.scope = data[leaf_start:leaf_end]
                    elif (leaf, leaf_wire) == (2, 2):
                        span = message_class("Span")()
                        if leaf_whole and _merges(span, data[leaf_start:leaf_end]):
                            scope_spans.spans.append(span)
                            spans += 1
                        else:
                            lost += 1
    return request, spans, lost


def _merges(message: Any, data: bytes) -> bool:
    try:
        message.MergeFromString(data)
    except DecodeError:
        return False
    return True
