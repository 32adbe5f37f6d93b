"""Spans as protobuf bytes: requests are split and joined, and attributes appended, without decoding a span.

Splitting a request finds its spans and copies their bytes, at some 50 ns a span. Resource, scope, schema URLs and
unknown fields stay bytes too, so that any part of a request can be sent as a request of its own.

`ForeignScores` removes what a client wrote under goldspan's names, where clients are not trusted with scores:

    traces    attributes of resources, scopes, spans, span events and links; span events that are evaluations
    logs      attributes of resources, scopes and records; records that are evaluations
    metrics   attributes of resources and scopes; metrics

Nearly every request holds none of the names: then a search is all it costs. Of the others only attributes and names
are parsed. Evaluations of other metrics stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from goldspan.collector_processor.emit.names import EVALUATION_NAME, is_own
from goldspan.collector_processor.emit.otlp_encoding import SPAN_ATTRIBUTES, Value, encoded_attributes
from goldspan.collector_processor.engine.reading_policy import SpanBuffer
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.otlp_protobuf import fields, hex_bytes, message_class
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import BUILT_IN_METRICS
from goldspan.scoring.run import Scorer
from goldspan.scoring.sessions import SpanRef

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
    request = message_class("UnreadSpans")()
    resources: dict[bytes, Any] = {}
    scopes: dict[Envelope, Any] = {}
    for envelope, spans in groups:
        if not spans:
            continue
        scope = scopes.get(envelope)
        if scope is None:
            resource = resources.get(envelope.resource)
            if resource is None:
                resource = resources[envelope.resource] = request.resource_spans.add()
                resource.MergeFromString(envelope.resource)
            scope = scopes[envelope] = resource.scope_spans.add()
            scope.MergeFromString(envelope.scope)
        scope.spans.extend(spans)
    return bytes(request.SerializeToString())


def by_trace(spans: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Group encoded spans by trace id, in the order of first occurrence."""
    starts: dict[bytes, list[bytes]] = {}
    for span in spans:
        start = span[:18]
        if (some := starts.get(start)) is None:
            some = starts[start] = []
        some.append(span)
    traces: dict[bytes, list[bytes]] = {}
    for start, some in starts.items():
        if start.startswith(_TRACE_ID):
            trace = start[2:]
            traces[trace] = traces[trace] + some if trace in traces else some
        else:
            for span in some:
                traces.setdefault(trace_id_of(span), []).append(span)
    return traces


def trace_ids(groups: Iterable[SpanGroup]) -> list[bytes] | None:
    """Return the trace ids of these spans; None if a span has none where every writer puts it."""
    starts = {span[:18] for group in groups for span in group.spans}
    return [start[2:] for start in starts] if all(start.startswith(_TRACE_ID) for start in starts) else None


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
            at += 1 + max(1, -(-size.bit_length() // 7))  # the tag, and the length as a varint
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


def with_scores(span: bytes, attributes: Mapping[str, Value], metrics: Collection[str]) -> bytes:
    """Return an encoded span with the attributes of these metrics, in place of those that came under their names.

    The fields of a protobuf message may come in any order, so attributes are appended.
    """
    if not attributes:
        return span
    if has_scores(span, metrics):
        message = message_class("Span").FromString(span)
        _remove_scores(message, metrics)
        span = message.SerializeToString()
    return span + encoded_attributes(attributes, SPAN_ATTRIBUTES)


def has_scores(span: bytes, metrics: Collection[str]) -> bool:
    """Tell whether an encoded span has attributes under the names of these metrics."""
    if not any(metric.encode() in span for metric in metrics):
        return False  # as nearly every span
    try:
        return any(is_score(raw, metrics) for raw in message_class("Span").FromString(span).attributes)
    except DecodeError:
        return False


def is_score(attribute: bytes, metrics: Collection[str]) -> bool:
    """Tell whether an encoded attribute has a name of these metrics."""
    try:
        key: bytes = message_class("Key").FromString(attribute).key
    except DecodeError:
        return False
    return is_own(str(key, "utf-8", "replace"), metrics)


def _remove_scores(holder: Any, metrics: Collection[str]) -> int:
    """Remove the attributes under the names of these metrics from a message, and return how many these were."""
    kept = [raw for raw in holder.attributes if not is_score(raw, metrics)]
    removed = len(holder.attributes) - len(kept)
    if removed:
        del holder.attributes[:]
        holder.attributes.extend(kept)
    return removed


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
        size = sum(len(span) + _OVERHEAD for some in spans.values() for span in some)
        self.add({trace: (SpanGroup(envelope, encoded),) for trace, encoded in spans.items()}, size, now)


_EVALUATION_NAME = EVALUATION_NAME.name.encode()


class ForeignScores:
    """The names of some metrics; gives requests without them. For any number of threads."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = frozenset(metrics)
        self._encoded = {name.encode() for metric in self._metrics for name in (metric, metric.replace(".", "_"))}
        self._clean = {
            Signal.TRACES: self._clean_span,
            Signal.LOGS: self._clean_record,
            Signal.METRICS: self._clean_metric,
        }

    @classmethod
    def of(cls, goldens: GoldenIndex, scorer: Scorer) -> ForeignScores:
        """Name the metrics that are built in, and those that the scorer or a golden asks for."""
        chosen = {choice.metric.name for choice in (*scorer.metrics, *scorer.later)}
        of_goldens = {choice.name for golden in goldens.goldens for choice in golden.metrics}
        return cls({*BUILT_IN_METRICS, *chosen, *of_goldens})

    def remove(self, signal: Signal, body: bytes) -> tuple[bytes, int] | None:
        """Return a request without foreign scores, and how many attributes, events, records and metrics were removed.

        A span, a record or a metric that is broken and may hold one is removed whole. None: the body is no request.
        """
        if not self._may_hold(body):
            return body, 0
        try:
            request = message_class("AnyRequest").FromString(body)
        except DecodeError:
            return None
        removed = 0
        for resource in request.resources:
            removed += _remove_scores(resource.resource, self._metrics)
            for scope in resource.scopes:
                removed += _remove_scores(scope.scope, self._metrics)
                removed += self._clean_all(scope.items, signal)
        return (bytes(request.SerializeToString()), removed) if removed else (body, 0)

    def _may_hold(self, encoded: bytes) -> bool:
        return any(name in encoded for name in self._encoded)

    def _clean_all(self, items: Any, signal: Signal) -> int:
        """Replace the spans, records or metrics of a scope by clean ones. Returns how much was removed."""
        removed = 0
        kept: list[bytes] = []
        for item in items:
            clean, count = item, 0
            if self._may_hold(item):
                try:
                    clean, count = self._clean[signal](item)
                except DecodeError:
                    clean, count = None, 1
            removed += count
            if clean is not None:
                kept.append(clean)
        if removed:
            del items[:]
            items.extend(kept)
        return removed

    def _clean_span(self, encoded: bytes) -> tuple[bytes | None, int]:
        span = message_class("Span").FromString(encoded)
        removed = _remove_scores(span, self._metrics)
        for parts, kind in ((span.events, "EventParts"), (span.links, "LinkParts")):
            kept: list[bytes] = []
            for part in parts:
                message = message_class(kind).FromString(part)
                if self._is_evaluation(message):
                    removed += 1
                elif count := _remove_scores(message, self._metrics):
                    removed += count
                    kept.append(message.SerializeToString())
                else:
                    kept.append(part)
            del parts[:]
            parts.extend(kept)
        return (span.SerializeToString() if removed else encoded), removed

    def _clean_record(self, encoded: bytes) -> tuple[bytes | None, int]:
        record = message_class("RecordParts").FromString(encoded)
        if self._is_evaluation(record):
            return None, 1
        removed = _remove_scores(record, self._metrics)
        return (record.SerializeToString() if removed else encoded), removed

    def _clean_metric(self, encoded: bytes) -> tuple[bytes | None, int]:
        name = str(message_class("MetricParts").FromString(encoded).name, "utf-8", "replace")
        return (None, 1) if is_own(name, self._metrics) else (encoded, 0)

    def _is_evaluation(self, event: Any) -> bool:
        """Tell whether a log record or a span event is the evaluation of one of these metrics."""
        for raw in event.attributes:
            if _EVALUATION_NAME in raw:
                attribute = message_class("TextAttribute").FromString(raw)
                if attribute.key == _EVALUATION_NAME and attribute.value.string_value in self._encoded:
                    return True
        return False
