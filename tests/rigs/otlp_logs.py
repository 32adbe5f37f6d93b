"""Log records made by hand, and recorded ones in each container that goldspan reads."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from opentelemetry._logs import LogRecord
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from goldspan.mappers.readers.otlp_json import decode_attributes, decode_value
from goldspan.mappers.spans import LogView, ResourceView
from rigs.otlp_containers import documents_in
from rigs.repository import RECORDINGS

LOGGED = sorted(path.name.removesuffix(".logs.json") for path in RECORDINGS.glob("*.logs.json"))
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def log(event_name: str = "", body: Any = None, *, time: int = 1_000, scope: str = "", **attributes: Any) -> LogView:
    """A log record in the container-independent form."""
    return LogView(TRACE, SPAN, time, event_name, body, attributes, scope, ResourceView({}))


def log_documents(recording: str) -> list[dict[str, Any]]:
    """The requests of a recording that hold its log records."""
    return documents_in(RECORDINGS / f"{recording}.logs.json")


def records_in(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Every record of a request with its scope and resource."""
    for group in document["resourceLogs"]:
        for inner in group["scopeLogs"]:
            for record in inner["logRecords"]:
                yield record, inner.get("scope", {}), group.get("resource", {})


def as_logs_data(document: dict[str, Any]) -> LogsData:
    """Turn OTLP/JSON into the protobuf message: its ids are hex there, base64 for `json_format`."""
    document = copy.deepcopy(document)
    for record, _, _ in records_in(document):
        for key in ("traceId", "spanId"):
            if record.get(key):
                record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
    return json_format.ParseDict(document, LogsData())


def as_sdk_records(document: dict[str, Any]) -> list[ReadableLogRecord]:
    """Turn OTLP/JSON into what the SDK would have given to an exporter that wrote it."""
    return [
        ReadableLogRecord(
            _sdk_record(record),
            Resource(decode_attributes(resource.get("attributes"))),
            InstrumentationScope(scope.get("name") or ""),
        )
        for record, scope, resource in records_in(document)
    ]


def _sdk_record(record: dict[str, Any]) -> LogRecord:
    context = SpanContext(
        int(record.get("traceId") or "0", 16),
        int(record.get("spanId") or "0", 16),
        is_remote=False,
        trace_flags=TraceFlags(1),
    )
    return LogRecord(
        timestamp=int(record.get("timeUnixNano") or 0) or None,
        observed_timestamp=int(record["observedTimeUnixNano"]),
        context=set_span_in_context(NonRecordingSpan(context)),
        body=decode_value(record.get("body")),
        attributes=decode_attributes(record.get("attributes")),
        event_name=record.get("eventName"),
    )
