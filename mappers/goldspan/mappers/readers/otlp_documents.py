"""OTLP protobuf as OTLP/JSON documents, for what writes records again as it read them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from goldspan.mappers.readers.otlp_protobuf import kind_of

_IDS = ("traceId", "spanId", "parentSpanId")


def document_of(request: Any) -> dict[str, Any]:
    """Return a request of the lazy schema as OTLP/JSON; spans and log records that are not whole are left out."""
    # The whole schema is needed only where records are written again.
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord  # noqa: PLC0415
    from opentelemetry.proto.trace.v1.trace_pb2 import Span  # noqa: PLC0415

    groups = request.resource_spans
    first = next((record for group in groups for inner in group.scope_spans for record in inner.spans), None)
    if first is not None and kind_of(first) == "LogRecord":
        return {"resourceLogs": [_group(group, LogRecord, "scopeLogs", "logRecords") for group in groups]}
    return {"resourceSpans": [_group(group, Span, "scopeSpans", "spans") for group in groups]}


def _group(group: Any, kind: Any, scopes: str, records: str) -> dict[str, Any]:
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415

    nothing: dict[str, Any] = {}
    resource = next(_documents(Resource, [group.resource]), nothing)
    inside = [
        {
            "scope": next(_documents(InstrumentationScope, [inner.scope]), nothing),
            records: list(_documents(kind, [record.SerializeToString() for record in inner.spans])),
        }
        for inner in group.scope_spans
    ]
    return {"resource": resource, scopes: inside}


def _documents(kind: Any, encoded: list[bytes]) -> Iterator[dict[str, Any]]:
    for one in encoded:
        try:
            message = kind.FromString(one)
        except DecodeError:
            continue
        document: dict[str, Any] = json_format.MessageToDict(message, use_integers_for_enums=True)
        for holder in (document, *document.get("links", ())):
            for key in filter(holder.__contains__, _IDS):
                # OTLP/JSON writes ids in hex, where protobuf's own mapping has base64.
                holder[key] = base64.b64decode(holder[key]).hex()
        yield document
