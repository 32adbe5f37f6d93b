"""OTLP/JSON requests as protobuf ones: equal for what is right, and nothing lost beside what is wrong."""

from __future__ import annotations

import base64
import copy
import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from goldspan.collector_processor.gateway.receive import otlp_json_requests
from goldspan.collector_processor.gateway.receive.otlp_json_requests import (
    MAX_DEPTH,
    ConvertedRequest,
    InvalidRequest,
    json_to_protobuf,
)
from goldspan.collector_processor.otlp_signals import Signal
from rigs.otlp_containers import as_message, requests_of
from rigs.otlp_logs import LOGGED, as_logs_data, log_documents
from rigs.otlp_requests import message_of, requests
from rigs.repository import RECORDING_NAMES

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(params=["whole", "in parts"], autouse=True)
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Requests are converted as a whole, or in the smallest parts."""
    if request.param == "in parts":
        monkeypatch.setattr(otlp_json_requests, "_PART_BYTES", 1)
        monkeypatch.setattr(otlp_json_requests, "_PART_ITEMS", 1)
    return request.param


def traces(document: Any) -> ExportTraceServiceRequest:
    converted = json_to_protobuf(
        Signal.TRACES, document if isinstance(document, bytes) else json.dumps(document).encode()
    )
    assert (converted.rejected, converted.bad_fields, converted.message) == (0, 0, "")
    return ExportTraceServiceRequest.FromString(converted.body)


def request_of(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def the_span(document: Any) -> Any:
    [span] = traces(request_of(document)).resource_spans[0].scope_spans[0].spans
    return span


@given(requests)
def test_what_an_exporter_writes_is_the_same_message(request: dict[str, Any]) -> None:
    assert traces(request).SerializeToString(deterministic=True) == message_of(request).SerializeToString(
        deterministic=True
    )


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_what_was_recorded_is_the_same_message(recording: str) -> None:
    for request in requests_of(recording):
        assert traces(request) == as_message(request)
    for document in log_documents(recording) if recording in LOGGED else []:
        converted = json_to_protobuf(Signal.LOGS, json.dumps(document).encode())
        expected = ExportLogsServiceRequest.FromString(as_logs_data(document).SerializeToString())
        assert ExportLogsServiceRequest.FromString(converted.body) == expected


METRICS = {
    "resourceMetrics": [
        {
            "scopeMetrics": [
                {
                    "metrics": [
                        {"name": "g", "gauge": {"dataPoints": [{"asDouble": -0.5, "timeUnixNano": "7"}]}},
                        {
                            "name": "s",
                            "sum": {
                                "aggregationTemporality": 2,
                                "isMonotonic": True,
                                "dataPoints": [
                                    {"asInt": "-9223372036854775808", "exemplars": [{"traceId": TRACE, "asInt": "1"}]}
                                ],
                            },
                        },
                        {
                            "name": "h",
                            "histogram": {
                                "dataPoints": [
                                    {
                                        "count": "3",
                                        "sum": 0,
                                        "bucketCounts": ["1", 2],
                                        "explicitBounds": [0.5],
                                        "min": 0,
                                    }
                                ]
                            },
                        },
                        {
                            "name": "e",
                            "exponentialHistogram": {
                                "dataPoints": [{"scale": -3, "positive": {"offset": -7, "bucketCounts": ["1", "0"]}}]
                            },
                        },
                        {"name": "q", "summary": {"dataPoints": [{"quantileValues": [{"quantile": 0.9, "value": 2}]}]}},
                    ]
                }
            ]
        }
    ]
}


def test_every_kind_of_metric_is_the_same_message() -> None:
    as_json_format = copy.deepcopy(METRICS)
    exemplar = as_json_format["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][1]["sum"]["dataPoints"][0][
        "exemplars"
    ][0]
    exemplar["traceId"] = base64.b64encode(bytes.fromhex(TRACE)).decode()
    expected = json_format.ParseDict(as_json_format, ExportMetricsServiceRequest())
    converted = json_to_protobuf(Signal.METRICS, json.dumps(METRICS).encode())
    assert ExportMetricsServiceRequest.FromString(converted.body) == expected
    assert converted.rejected == 0


@pytest.mark.parametrize(
    ("name", "written", "field", "value"),
    [
        ("traceId", TRACE, "trace_id", bytes.fromhex(TRACE)),
        ("traceId", TRACE.upper(), "trace_id", bytes.fromhex(TRACE)),
        ("traceId", base64.b64encode(bytes.fromhex(TRACE)).decode(), "trace_id", bytes.fromhex(TRACE)),
        ("trace_id", TRACE, "trace_id", bytes.fromhex(TRACE)),
        ("spanId", SPAN, "span_id", bytes.fromhex(SPAN)),
        ("parentSpanId", "", "parent_span_id", b""),
        ("startTimeUnixNano", "18446744073709551615", "start_time_unix_nano", 2**64 - 1),
        ("startTimeUnixNano", 1_750_000_000_000_000_001, "start_time_unix_nano", 1_750_000_000_000_000_001),
        ("startTimeUnixNano", 3.0, "start_time_unix_nano", 3),
        ("kind", 3, "kind", 3),
        ("kind", "SPAN_KIND_CLIENT", "kind", 3),
        ("flags", "257", "flags", 257),
        ("name", "Zürich \ud83d\ude00", "name", "Zürich 😀"),
        ("name", None, "name", ""),
        ("droppedAttributesCount", 4_294_967_295, "dropped_attributes_count", 2**32 - 1),
        ("unheardOf", {"a": [1]}, "name", ""),
    ],
)
def test_how_a_field_may_be_written(name: str, written: Any, field: str, value: Any) -> None:
    assert getattr(the_span({name: written}), field) == value


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ({"stringValue": ""}, "string_value", ""),
        ({"boolValue": False}, "bool_value", False),
        ({"intValue": "0"}, "int_value", 0),
        ({"intValue": -5}, "int_value", -5),
        ({"doubleValue": 0}, "double_value", 0.0),
        ({"doubleValue": "-Infinity"}, "double_value", -math.inf),
        ({"bytesValue": "-_8="}, "bytes_value", b"\xfb\xff"),
        ({}, None, None),
    ],
)
def test_values_keep_their_kind_even_where_they_are_zero(written: Any, kind: str | None, value: Any) -> None:
    [attribute] = the_span({"attributes": [{"key": "k", "value": written}]}).attributes
    assert attribute.value.WhichOneof("value") == kind
    assert kind is None or getattr(attribute.value, kind) == value


def test_not_a_number_is_a_number_of_doubles() -> None:
    for text in (b'{"doubleValue": "NaN"}', b'{"doubleValue": NaN}'):
        document = json.dumps(request_of({"attributes": [{"key": "k", "value": "HERE"}]})).encode()
        span = traces(document.replace(b'"HERE"', text)).resource_spans[0].scope_spans[0].spans[0]
        assert math.isnan(span.attributes[0].value.double_value)


GOOD = {"name": "good", "traceId": TRACE, "spanId": SPAN}


def converted_between(bad: Any) -> tuple[ConvertedRequest, list[Any]]:
    """Convert a request with this span between two good ones."""
    document = request_of(GOOD, bad, GOOD)
    converted = json_to_protobuf(Signal.TRACES, json.dumps(document).encode())
    spans = ExportTraceServiceRequest.FromString(converted.body).resource_spans[0].scope_spans[0].spans
    assert (spans[0].name, spans[-1].name) == ("good", "good")
    return converted, list(spans[1:-1])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"traceId": "xyz"}, '.traceId: found "xyz", expected 32 hex digits'),
        ({"traceId": 5}, ".traceId: found 5, expected 32 hex digits"),
        ({"spanId": TRACE}, "expected 16 hex digits"),
        ("span", ': found "span", expected an object'),
    ],
)
def test_a_bad_span_is_left_out_and_its_neighbours_are_not(bad: Any, message: str) -> None:
    converted, spans = converted_between(bad)
    assert (converted.rejected, converted.bad_fields, spans) == (1, 0, [])
    assert converted.message.startswith("resourceSpans[0].scopeSpans[0].spans[1]")
    assert message in converted.message


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"name": 5}, "name: found 5, expected text"),
        ({"startTimeUnixNano": -1}, "found -1, expected an integer from 0 to 18446744073709551615"),
        ({"startTimeUnixNano": "1" * 30}, "expected an integer"),
        ({"kind": True}, "kind: found true, expected an integer"),
        ({"kind": []}, "kind: found [], expected an integer"),
        ({"kind": "FOO"}, 'kind: found "FOO", expected one of SPAN_KIND_UNSPECIFIED'),
        ({"attributes": 5}, "attributes: found 5, expected a list"),
        ({"attributes": [5]}, "attributes[0]: found 5, expected an object"),
        ({"status": {"code": []}}, "code: found [], expected an integer"),
        ({"links": [{"traceId": 5}]}, "links[0].traceId: found 5, expected 32 hex digits"),
    ],
)
def test_a_bad_field_is_left_out_and_its_span_is_not(bad: Any, message: str) -> None:
    converted, [span] = converted_between({**GOOD, **bad})
    assert (converted.rejected, converted.bad_fields) == (0, 1)
    assert (span.trace_id.hex(), span.span_id.hex()) == (TRACE, SPAN)
    assert converted.message.startswith("resourceSpans[0].scopeSpans[0].spans[1].")
    assert message in converted.message


def test_what_is_wrong_around_spans_costs_none_that_can_be_read() -> None:
    document = request_of({"name": "a"}, {"name": "b"})
    document["resourceSpans"].append({"resource": {"attributes": 5}, "scopeSpans": [{"spans": [{}, {}, {}]}]})
    document["resourceSpans"].append({"scopeSpans": 5})
    converted = json_to_protobuf(Signal.TRACES, json.dumps(document).encode())
    assert (converted.rejected, converted.bad_fields) == (1, 1)
    groups = ExportTraceServiceRequest.FromString(converted.body).resource_spans
    assert [len(group.scope_spans[0].spans) for group in groups] == [2, 3]


def test_a_bad_field_costs_no_data_point() -> None:
    points = [{"asInt": "1"}, {"asInt": "2"}]
    document = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": 5, "gauge": {"dataPoints": points}}]}]}]}
    converted = json_to_protobuf(Signal.METRICS, json.dumps(document).encode())
    assert (converted.rejected, converted.bad_fields) == (0, 1)
    [metric] = ExportMetricsServiceRequest.FromString(converted.body).resource_metrics[0].scope_metrics[0].metrics
    assert [point.as_int for point in metric.gauge.data_points] == [1, 2]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "core"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return request_of({"attributes": [{"key": "k", "value": value}]}, {"name": "good"})


def test_nesting_ends_before_protobuf_readers_do() -> None:
    allowed = (MAX_DEPTH - 6) // 2
    assert json_to_protobuf(Signal.TRACES, json.dumps(nested(allowed)).encode()).rejected == 0
    for levels in (allowed + 1, 150):
        converted = json_to_protobuf(Signal.TRACES, json.dumps(nested(levels)).encode())
        assert converted.rejected == 1
        [span] = ExportTraceServiceRequest.FromString(converted.body).resource_spans[0].scope_spans[0].spans
        assert span.name == "good"


@pytest.mark.parametrize("text", [b"", b"nonsense", b"[]", b"5", b'{"resourceSpans": {}}', b"[" * 200_000])
def test_what_is_no_request_is_refused_as_a_whole(text: bytes) -> None:
    with pytest.raises(InvalidRequest):
        json_to_protobuf(Signal.TRACES, text)


def test_an_empty_request_is_one() -> None:
    assert json_to_protobuf(Signal.TRACES, b"{}").body == b""


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_names = st.sampled_from(["name", "traceId", "kind", "attributes", "events", "status", "startTimeUnixNano", "links"])


@given(st.dictionaries(_names, _json), st.sampled_from(list(Signal)))
def test_nothing_that_can_be_written_breaks_it(span: dict[str, Any], signal: Signal) -> None:
    document = request_of(span, {"name": "good"})
    document |= {"resourceLogs": [{"scopeLogs": [{"logRecords": [span]}]}]}
    document |= {"resourceMetrics": [{"scopeMetrics": [{"metrics": [span]}]}]}
    converted = json_to_protobuf(signal, json.dumps(document).encode())
    assert converted.rejected in {0, 1}
    if signal is Signal.TRACES:
        spans = ExportTraceServiceRequest.FromString(converted.body).resource_spans[0].scope_spans[0].spans
        assert spans[-1].name == "good"
