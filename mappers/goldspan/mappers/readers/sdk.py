"""Finished spans and log records of the OpenTelemetry SDK. They are recognised by shape; the SDK is not imported."""

# ruff: noqa: D102 - the members of a span view are described by SpanView

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from goldspan.mappers import spans
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import SpanRef

_MAX_RESOURCES = 256


class SdkSpan:
    """One `ReadableSpan`; its ids may be unset, as in spans that a test made by hand."""

    __slots__ = (
        "_reader",
        "_span",
        "attributes",
        "end",
        "parent_id",
        "parent_is_remote",
        "span_id",
        "start",
        "trace_id",
    )

    def __init__(self, span: Any, reader: SdkReader) -> None:
        self._span = span
        self._reader = reader
        context = span.context
        self.trace_id = format(context.trace_id, "032x") if context is not None and context.trace_id else ""
        self.span_id = format(context.span_id, "016x") if context is not None and context.span_id else ""
        parent = span.parent
        if parent is not None and parent.span_id:
            self.parent_id = format(parent.span_id, "016x")
            self.parent_is_remote = bool(parent.is_remote)
        else:
            self.parent_id = ""
            self.parent_is_remote = False
        self.start: int = span.start_time or 0
        self.end: int = span.end_time or 0
        self.attributes = _of_plain_types(attributes_of(span))

    @property
    def name(self) -> str:
        name = self._span.name
        return name if isinstance(name, str) else ""

    @property
    def kind(self) -> int:
        return _otlp_kind(self._span.kind)

    @property
    def status_code(self) -> int:
        try:
            value = self._span.status.status_code.value
        except AttributeError:
            return 0
        return value if isinstance(value, int) else 0

    @property
    def status_message(self) -> str:
        description = getattr(self._span.status, "description", None)
        return description if isinstance(description, str) else ""

    @property
    def events(self) -> Sequence[spans.EventView]:
        return [
            spans.EventView(str(event.name), _of_plain_types(event.attributes or spans.NO_ATTRIBUTES))
            for event in self._span.events or ()
        ]

    @property
    def links(self) -> Sequence[SpanRef]:
        contexts = (link.context for link in self._span.links or ())
        return [SpanRef(format(one.trace_id, "032x"), format(one.span_id, "016x")) for one in contexts]

    @property
    def scope_name(self) -> str:
        name = getattr(self._span.instrumentation_scope, "name", None)
        return name if isinstance(name, str) else ""

    @property
    def resource(self) -> spans.ResourceView:
        return self._reader.resource(self._span.resource)


def attributes_of(span: Any) -> Mapping[str, Any]:
    """Return the attributes, from the dict inside where this SDK has one: a tenth of the public way's cost."""
    try:
        inner: Any = span._attributes._dict  # noqa: SLF001 - guarded: any other shape goes the public way
        if isinstance(inner, dict):
            return cast("dict[str, Any]", inner)
    except AttributeError:
        pass
    attributes = span.attributes
    return attributes if is_mapping(attributes) else spans.NO_ATTRIBUTES


_PLAIN_TYPES = frozenset({str, bool, int, float, bytes, type(None)})


def _of_plain_types(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return text of a class of its own, which may do anything when it is hashed or compared, as plain text."""
    if _PLAIN_TYPES.issuperset(map(type, attributes.values())):
        return attributes
    return {key: _of_plain_type(value) for key, value in attributes.items()}


def _of_plain_type(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, tuple):
        return tuple(map(_of_plain_type, cast("Sequence[Any]", value)))
    return value


PlainSdkSpan = tuple[Any, Any, Any, Any, Any, Any]
plain_span: Callable[[Any], PlainSdkSpan] = attrgetter(
    "resource", "context", "parent", "start_time", "end_time", "kind"
)
"""Takes the fields to keep of a span without markers. They are decoded on first use."""


def undecoded(plain: PlainSdkSpan) -> spans.UndecodedSpan:
    """Return what `plain_span` took, with its id in front; `skeleton` reads the rest."""
    return (format(plain[1].span_id, "016x"), *plain[2:])


def skeleton(span: spans.UndecodedSpan) -> spans.SpanOutline:
    """Return the place of a plain span."""
    span_id, parent, start, end, kind = span
    if parent is None or not parent.span_id:
        return span_id, "", start or 0, end or 0, is_entry(kind)
    return span_id, format(parent.span_id, "016x"), start or 0, end or 0, parent.is_remote or is_entry(kind)


def is_entry(kind: Any) -> bool:
    """Tell whether a span of this kind has its parent in another process."""
    return _otlp_kind(kind) in spans.ENTRY_KINDS


def _otlp_kind(kind: Any) -> int:
    # The SDK counts from 0 (internal), OTLP from 1.
    try:
        return int(kind.value) + 1
    except (AttributeError, TypeError, ValueError):
        return 0


def is_log_record(value: object) -> bool:
    """Return whether this is a log record, bare or as the SDK passes it to processors and exporters."""
    record = getattr(value, "log_record", value)
    return hasattr(record, "observed_timestamp") and hasattr(record, "trace_id")


def log_event(value: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a log record's event, `""` where it has none, and its attributes."""
    record = getattr(value, "log_record", value)
    name, attributes = getattr(record, "event_name", None), record.attributes
    inner = getattr(attributes, "_dict", attributes)  # as above
    return (name if isinstance(name, str) else ""), inner if is_mapping(inner) else spans.NO_ATTRIBUTES


class SdkReader:
    """Makes views of SDK spans and log records; keeps one resource view for each SDK resource, a bounded number."""

    def __init__(self) -> None:
        self._resources: dict[int, tuple[object, spans.ResourceView]] = {}

    def view(self, span: object) -> SdkSpan:
        """Return the view of a finished span. What is not shaped like one raises `AttributeError` or `TypeError`."""
        return SdkSpan(span, self)

    def log_view(self, value: Any) -> spans.LogView:
        """Return the view of a log record as it is now: processors may change it later. Raises as `view` does."""
        record = getattr(value, "log_record", value)
        name, attributes = log_event(record)
        scope_name = getattr(getattr(value, "instrumentation_scope", None), "name", None)
        resource = getattr(value, "resource", None)
        return spans.LogView(
            format(record.trace_id, "032x") if record.trace_id else "",
            format(record.span_id, "016x") if record.span_id else "",
            record.timestamp or record.observed_timestamp or 0,
            name,
            record.body,
            dict(_of_plain_types(attributes)),
            scope_name if isinstance(scope_name, str) else "",
            self.resource(getattr(record, "resource", None) if resource is None else resource),
        )

    def resource(self, resource: object) -> spans.ResourceView:
        """Return the one view of this resource object."""
        known = self._resources.get(id(resource))
        if known is not None and known[0] is resource:
            return known[1]
        attributes = getattr(resource, "attributes", None)
        view = spans.ResourceView(_of_plain_types(attributes) if is_mapping(attributes) else spans.NO_ATTRIBUTES)
        if len(self._resources) >= _MAX_RESOURCES:
            self._resources.clear()
        self._resources[id(resource)] = (resource, view)
        return view
