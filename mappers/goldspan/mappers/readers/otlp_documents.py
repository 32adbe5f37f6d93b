"""OTLP protobuf as OTLP/JSON documents, for what writes spans again as it read them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

_IDS = ("traceId", "spanId", "parentSpanId")


def document_of(request: Any) -> dict[str, Any]:
    """Return a request of the lazy schema as OTLP/JSON; spans that do not parse as a whole are left out."""
    return {"resourceSpans": [_resource_spans(group) for group in request.resource_spans]}


def _resource_spans(group: Any) -> dict[str, Any]:
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope  # noqa: PLC0415 - the whole schema is
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415   needed only where spans are
    from opentelemetry.proto.trace.v1.trace_pb2 import Span  # noqa: PLC0415             written again

    nothing: dict[str, Any] = {}
    resource = next(_documents(Resource, [group.resource]), nothing)
    scope_spans = [
        {
            "scope": next(_documents(InstrumentationScope, [inner.scope]), nothing),
            "spans": list(_documents(Span, [span.SerializeToString() for span in inner.spans])),
        }
        for inner in group.scope_spans
    ]
    return {"resource": resource, "scopeSpans": scope_spans}


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
