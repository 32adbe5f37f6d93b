"""Arbitrary OTLP trace requests: as Hypothesis strategies of OTLP/JSON, as messages, and in every framing of files."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files, views
from goldspan.mappers.span_facts import Record
from goldspan.scoring.errors import Problem

KEYS = (
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "openinference.span.kind",
    "input.value",
    "tool.name",
    "session.id",
    "test.case.name",
    "error.type",
    "http.request.method",
    "ключ",
    "",
)
PLAIN_KEYS = ("http.request.method", "server.port", "url.full", "ключ", "")
TEXTS = ("execute_tool", "invoke_agent", "chat", "TOOL", "AGENT", "get_weather", '{"city": "Zürich"}', "{", "", "s-1")

_text = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_scalar = st.one_of(
    st.builds(lambda text: {"stringValue": text}, _text),
    st.builds(lambda number: {"intValue": str(number)}, st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda flag: {"boolValue": flag}, st.booleans()),
    st.builds(lambda number: {"doubleValue": number}, st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(lambda raw: {"bytesValue": base64.b64encode(raw).decode()}, st.binary(max_size=6)),
    st.just({}),
)


def _pairs(values: st.SearchStrategy[Any], keys: tuple[str, ...] = KEYS) -> st.SearchStrategy[list[dict[str, Any]]]:
    pair = st.fixed_dictionaries({"key": st.sampled_from(keys), "value": values})
    return st.lists(pair, max_size=6)


_values = st.recursive(
    _scalar,
    lambda inner: st.one_of(
        st.builds(lambda values: {"arrayValue": {"values": values}}, st.lists(inner, max_size=3)),
        st.builds(lambda values: {"kvlistValue": {"values": values}}, _pairs(inner)),
    ),
    max_leaves=4,
)


def _id(size: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


_time = st.integers(0, 2**63 - 1).map(str)
_event = st.fixed_dictionaries({}, optional={"name": _text, "timeUnixNano": _time, "attributes": _pairs(_values)})
_span = st.fixed_dictionaries(
    {"startTimeUnixNano": _time},
    optional={
        "traceId": _id(16) | st.just("0af7651916cd43dd8448eb211c80319c"),
        "spanId": _id(8),
        "parentSpanId": _id(8) | st.just(""),
        "name": _text,
        "kind": st.integers(0, 5),
        "endTimeUnixNano": _time,
        "attributes": _pairs(_values) | _pairs(_values, PLAIN_KEYS),
        "events": st.lists(_event, max_size=2),
        "links": st.lists(st.fixed_dictionaries({"traceId": _id(16), "spanId": _id(8)}), max_size=1),
        "status": st.fixed_dictionaries({}, optional={"code": st.integers(0, 2), "message": _text}),
        "flags": st.sampled_from([0, 1, 0x100, 0x301]),
    },
)
_scope_spans = st.fixed_dictionaries(
    {"spans": st.lists(_span, max_size=4)}, optional={"scope": st.fixed_dictionaries({}, optional={"name": _text})}
)
_resource_spans = st.fixed_dictionaries(
    {"scopeSpans": st.lists(_scope_spans, max_size=2)},
    optional={"resource": st.fixed_dictionaries({}, optional={"attributes": _pairs(_values, (*KEYS, "service.name"))})},
)
requests = st.fixed_dictionaries({"resourceSpans": st.lists(_resource_spans, min_size=1, max_size=3)})

fresh = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For a property that takes a folder: each example writes its files anew."""
"""Trace requests as OTLP/JSON, as valid as an exporter's."""


def spans_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The spans of a request, to look at or to change."""
    return [
        span for group in request["resourceSpans"] for inner in group["scopeSpans"] for span in inner.get("spans", ())
    ]


def message_of(request: dict[str, Any]) -> TracesData:
    """The same request as a message."""
    parsed = copy.deepcopy(request)
    for span in spans_of(parsed):
        for holder in (span, *span.get("links", ())):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in holder:
                    holder[key] = base64.b64encode(bytes.fromhex(holder[key])).decode()
    return json_format.ParseDict(parsed, TracesData())


def prefixed(*messages: bytes) -> bytes:
    """As the Collector's file exporter writes them."""
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


def delimited(*messages: bytes) -> bytes:
    """As `writeDelimitedTo` of protobuf writes them."""
    return b"".join(varint(len(message)) + message for message in messages)


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


_registry = DialectRegistry()


def facts(source: object) -> list[Record]:
    """What is read of the spans in a source; nothing may be wrong with it."""
    problems: list[Problem] = []
    read = list(_registry.facts(views(source, problems.append)))
    assert problems == []
    return read


def read_bytes(folder: Path, content: bytes, name: str = "traces") -> tuple[list[Record], list[Problem]]:
    """What is read of a file with this content, and its problems."""
    path = folder / name
    path.write_bytes(content)
    problems: list[Problem] = []
    return list(_registry.facts(read_files([path], problems.append))), problems


def as_line(request: dict[str, Any]) -> bytes:
    return json.dumps(request, ensure_ascii=False).encode() + b"\n"
