"""OTLP protobuf, out of files and as messages in memory: spans that are decoded only as far as someone looks at them.

Parsed with the lazy schema, a span costs its ids and times; of its attributes only the keys are read. A message that is
broken somewhere is walked field by field, and gives every span that is whole. A message of opentelemetry's own classes
is read as the bytes it would be sent as.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from goldspan.mappers.readers.problems import BAD_PROTOBUF, BAD_SPAN, OnProblem
from goldspan.mappers.readers.protobuf_framing import varint
from goldspan.mappers.spans import (
    ENTRY_KINDS,
    EventView,
    LogView,
    LostSpan,
    MarkedView,
    Markers,
    PlainSpans,
    RecordView,
    ResourceView,
    SpanOutline,
    UndecodedAttributes,
)
from goldspan.scoring.errors import Problem
from goldspan.scoring.json_values import is_dict, is_list
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.sessions import SpanRef

# The classes are built at run time from the fields that `otlp_lazy.toml` lists; opentelemetry's are not needed.

_PACKAGE = "goldspan.lazy"
_Type = descriptor_pb2.FieldDescriptorProto
_ONE_OF = "AnyValue"  # the message with a oneof: its `value` is one of the fields


@cache
def message_class(name: str) -> Any:
    """Return the class of a message of the lazy schema."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="goldspan/lazy.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in texts_beside("goldspan.mappers.readers", "otlp_lazy.toml").items():
        message = file.message_type.add(name=name)
        if name == _ONE_OF:
            message.oneof_decl.add(name="value")
        for field_name, (number, written) in fields.items():
            field = message.field.add(name=field_name, number=number)
            kind = written.removesuffix("[]")
            field.label = _Type.LABEL_OPTIONAL if kind == written else _Type.LABEL_REPEATED
            if kind.islower():
                field.type = _Type.Type.Value(f"TYPE_{kind.upper()}")
            else:
                field.type, field.type_name = _Type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if name == _ONE_OF:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


# ruff: noqa: D102 - the members of a span view are described by SpanView


IS_REMOTE = 0x200
_MAX_DEPTH = 100
_MAX_RESOURCES = 256
_MAX_KEYS = 4096
_KEY, _VALUE = 0x0A, 0x12  # tags of the fields of `KeyValue`
_PlainSpan = tuple[str, bytes, int, int, int, int]  # span id, encoded parent id, start, end, kind and flags
_TIMES_OF_LOGS = ((1, 1), (11, 1))
"""`time_unix_nano` and `observed_time_unix_nano` of a log record, as field number and wire type."""


def hex_bytes(identifier: bytes) -> str:
    """Return an id in hex; `""` for none and for an invalid one of zeros only."""
    return identifier.hex() if any(identifier) else ""


def message_attributes(pairs: Any) -> dict[str, Any]:
    """Decode `KeyValue` messages. The last value of a repeated key wins."""
    return {pair.key: message_value(pair.value, 0) for pair in pairs}


def message_value(value: Any, depth: int = 0) -> Any:
    """Decode a message of the type `AnyValue`; one without a value is null."""
    kind = value.WhichOneof("value")
    if kind is None or depth > _MAX_DEPTH:
        return None
    if kind == "array_value":
        return [message_value(inner, depth + 1) for inner in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: message_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return getattr(value, kind)


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

    def message_views(self, message: Any, place: str) -> Iterator[RecordView]:
        """Yield the records of a message of opentelemetry's own classes: a request, data, a part of one, a bare record.

        Raises TypeError for a message that holds no spans or log records by its type.
        """
        of, level = _place_of(message)
        request = message_class(_LEVELS[level]).FromString(message.SerializeToString())
        for above in range(level - 1, -1, -1):
            request = message_class(_LEVELS[above])(**{_INNER[above]: [request]})
        return cast("Iterator[RecordView]", self.marked(request, place, None, of))

    def marked(self, request: Any, place: str, markers: Markers | None, of: str = "") -> Iterator[MarkedView]:
        """Yield the spans of a request, grouping those without any of the `markers`, or its log records.

        `of` is what is known of its records: `Span`, `LogRecord`, or nothing.
        """
        self._place = place
        self._broken_parts.clear()
        for group in request.resource_spans:
            resource = self._resource(group.resource)
            plain: dict[str, list[_PlainSpan]] = {}
            for scope_spans in group.scope_spans:
                scope_name = str(self.parsed("Scope", scope_spans.scope).name)
                chosen = None if markers is None or scope_name in markers.scopes else markers
                for span in scope_spans.spans:
                    self.records += 1
                    if not span.start_time_unix_nano and len(span.span_id) != 8:
                        kind = of or kind_of(span)
                        if kind == "LogRecord":
                            yield self._log(span.SerializeToString(), scope_name, resource)
                            continue
                        if kind == "Metric":
                            break  # and all that follows are metrics, too
                    if chosen is not None and chosen.are_plain(self.keyed(span.attributes)):
                        trace_id, span_id = hex_bytes(span.trace_id), hex_bytes(span.span_id)
                        if trace_id and span_id:
                            start, end = span.start_time_unix_nano, span.end_time_unix_nano
                            one = (span_id, span.parent_span_id, start, end, span.kind, span.flags)
                            plain.setdefault(trace_id, []).append(one)
                            continue
                    yield ProtobufSpan(span, scope_name, resource, self)
            if plain:
                yield PlainSpans(plain, _skeleton, resource)
        for span in request.lost_spans:
            yield LostSpan(
                hex_bytes(span.trace_id), "", attributes=UndecodedAttributes(self.keyed(span.attributes), self.value)
            )

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
        """Return encoded attributes by key. The last value of a repeated key wins."""
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


_LEVELS = ("TracesData", "ResourceSpans", "ScopeSpans", "Span")
_INNER = ("resource_spans", "scope_spans", "spans")
"""Messages around a span, and the fields in which each holds the next; those of a log record have the same numbers."""
_INNER_OF_LOGS = ("resource_logs", "scope_logs", "log_records")


def _place_of(message: Any) -> tuple[str, int]:
    """Return whether a message is of spans or of log records, by its type, and at which of the levels it is."""
    fields = message.DESCRIPTOR.fields_by_name
    for of, names, time in (("Span", _INNER, "start"), ("LogRecord", _INNER_OF_LOGS, "observed")):
        level = next((level for level, name in enumerate(names) if name in fields), len(names))
        if level < len(names) or ("span_id" in fields and f"{time}_time_unix_nano" in fields):
            return of, level
    name = message.DESCRIPTOR.full_name
    raise TypeError(f"found a protobuf message of type {name}; expected OTLP spans or log records")


def _skeleton(span: _PlainSpan) -> SpanOutline:
    span_id, parent_id, start, end, kind, flags = span
    return span_id, hex_bytes(parent_id), start, end, bool(flags & IS_REMOTE) or kind in ENTRY_KINDS


def kind_of(span: Any) -> str:
    """Tell spans, log records and metrics apart by the types of their fields: all have the same field number.

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
    """Return a broken request with only its complete spans, and the numbers of complete and broken spans."""
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


# OTLP protobuf as OTLP/JSON documents, for commands that write records back.

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def document_of(request: Any) -> dict[str, Any]:
    """Return a request of the lazy schema as OTLP/JSON, whatever it is a request of; broken records are left out."""
    from google.protobuf import json_format  # noqa: PLC0415 - start-up time: only this function needs it
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData  # noqa: PLC0415 - start-up time, as above
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415 - as above
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415 - as above

    whole: Any = {"Span": TracesData, "LogRecord": LogsData, "Metric": MetricsData}[_kind(request)]
    try:
        message = whole.FromString(request.SerializeToString())
    except DecodeError:
        message = _piece_by_piece(request, whole)
    document: dict[str, Any] = json_format.MessageToDict(message, use_integers_for_enums=True)
    _write_ids_in_hex(document)
    return document


def _kind(request: Any) -> str:
    spans = (span for group in request.resource_spans for inner in group.scope_spans for span in inner.spans)
    first = next(spans, None)
    return "Span" if first is None else kind_of(first)


def _piece_by_piece(request: Any, whole: Any) -> Any:
    message = whole()
    for group in request.resource_spans:
        for scope_spans in group.scope_spans:
            for span in scope_spans.spans:
                piece = type(request)()
                inside = piece.resource_spans.add(resource=group.resource).scope_spans.add(scope=scope_spans.scope)
                inside.spans.append(span)
                try:
                    message.MergeFrom(whole.FromString(piece.SerializeToString()))
                except DecodeError:
                    continue  # counted when it was read
    return message


def _write_ids_in_hex(value: object) -> None:
    """Write ids in hex, as OTLP/JSON does; protobuf writes base64. Attributes are never keys of these objects."""
    if is_list(value):
        for inner in value:
            _write_ids_in_hex(inner)
    elif is_dict(value):
        for key, inner in value.items():
            if key in _IDS and isinstance(inner, str):
                value[key] = base64.b64decode(inner).hex()
            else:
                _write_ids_in_hex(inner)
