"""OTLP protobuf as OTLP/JSON documents, for what writes records again as it read them."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from goldspan.mappers.json_shapes import is_list, is_object
from goldspan.mappers.readers.otlp_protobuf import kind_of

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def document_of(request: Any) -> dict[str, Any]:
    """Return a request of the lazy schema as OTLP/JSON, whatever it is a request of; broken records are left out."""
    # The whole schema, which is needed nowhere else.
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData  # noqa: PLC0415
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData  # noqa: PLC0415

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
    """Write ids as OTLP/JSON does; protobuf's own mapping has base64. Attributes are no keys of these objects."""
    if is_list(value):
        for inner in value:
            _write_ids_in_hex(inner)
    elif is_object(value):
        for key, inner in value.items():
            if key in _IDS and isinstance(inner, str):
                value[key] = base64.b64decode(inner).hex()
            else:
                _write_ids_in_hex(inner)
