"""Log records out of every container: the same records, whatever holds them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict, replace
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor

from goldspan.mappers.readers.files import read_documents, read_files, views
from goldspan.mappers.spans import LogView, LostSpan, ResourceView, SpanView
from goldspan.scoring.errors import Problem
from rigs.otlp_logs import LOGGED, SPAN, TRACE, as_logs_data, as_sdk_records, log, log_documents
from rigs.otlp_requests import delimited, prefixed

NO_RESOURCE = ResourceView({})

RECORD: dict[str, Any] = {
    "timeUnixNano": "1800000000000000001",
    "observedTimeUnixNano": "1800000000000000002",
    "traceId": TRACE,
    "spanId": SPAN,
    "eventName": "gen_ai.choice",
    "body": {
        "kvlistValue": {
            "values": [
                {"key": "index", "value": {"intValue": "0"}},
                {"key": "share", "value": {"doubleValue": 1.0}},
                {"key": "nothing", "value": {}},
                {"key": "list", "value": {"arrayValue": {"values": [{"boolValue": True}, {}]}}},
            ]
        }
    },
    "attributes": [{"key": "gen_ai.system", "value": {"stringValue": "openai"}}, {"key": "none", "value": {}}],
}
REQUEST: dict[str, Any] = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
            "scopeLogs": [{"scope": {"name": "scope"}, "logRecords": [RECORD]}],
        }
    ]
}
BODY = {"index": 0, "share": 1.0, "nothing": None, "list": [True, None]}
SPAN_OF_IT = {"traceId": TRACE, "spanId": SPAN, "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}


def message() -> LogsData:
    return as_logs_data(REQUEST)


def snake(value: Any) -> Any:
    names = {
        "resourceLogs": "resource_logs",
        "scopeLogs": "scope_logs",
        "logRecords": "log_records",
        "timeUnixNano": "time_unix_nano",
        "observedTimeUnixNano": "observed_time_unix_nano",
        "traceId": "trace_id",
        "spanId": "span_id",
        "eventName": "event_name",
        "kvlistValue": "kvlist_value",
        "intValue": "int_value",
        "stringValue": "string_value",
    }
    if isinstance(value, dict):
        return {names.get(key, key): snake(inner) for key, inner in value.items()}
    return [snake(inner) for inner in value] if isinstance(value, list) else value


def read(source: object) -> list[Any]:
    problems: list[Problem] = []
    found = list(views(source, problems.append))
    assert problems == []
    return found


def read_bytes(folder: Path, content: bytes) -> list[Any]:
    (folder / "logs").write_bytes(content)
    return read(folder / "logs")


WHOLE = {
    "JSON": lambda: REQUEST,
    "snake case": lambda: snake(REQUEST),
    "message": message,
    "SDK": lambda: as_sdk_records(REQUEST),
}
PARTS = {
    "resource logs": lambda: REQUEST["resourceLogs"][0],
    "scope logs": lambda: REQUEST["resourceLogs"][0]["scopeLogs"][0],
    "bare": lambda: RECORD,
    "resource logs message": lambda: message().resource_logs[0],
    "scope logs message": lambda: message().resource_logs[0].scope_logs[0],
    "bare message": lambda: message().resource_logs[0].scope_logs[0].log_records[0],
    "bare record of the SDK": lambda: as_sdk_records(REQUEST)[0].log_record,
}
FILES = {
    "document": lambda: json.dumps(REQUEST, indent=1).encode(),
    "line": lambda: json.dumps(REQUEST).encode() + b"\n",
    "prefixed": lambda: prefixed(message().SerializeToString()),
    "delimited": lambda: delimited(message().SerializeToString()),
    "message": lambda: message().SerializeToString(),
}


def check(view: Any) -> None:
    assert isinstance(view, LogView)
    assert (view.trace_id, view.span_id, view.time) == (TRACE, SPAN, 1_800_000_000_000_000_001)
    assert (view.event_name, view.body) == ("gen_ai.choice", BODY)
    assert dict(view.attributes) == {"gen_ai.system": "openai", "none": None}


@pytest.mark.parametrize("source", WHOLE)
def test_a_request_in_memory(source: str) -> None:
    (view,) = read(WHOLE[source]())
    check(view)
    assert (view.scope_name, dict(view.resource.attributes)) == ("scope", {"service.name": "agent"})


@pytest.mark.parametrize("source", PARTS)
def test_a_part_of_a_request(source: str) -> None:
    (view,) = read(PARTS[source]())
    check(view)


@pytest.mark.parametrize("source", FILES)
def test_a_file(source: str, tmp_path: Path) -> None:
    (view,) = read_bytes(tmp_path, FILES[source]())
    check(view)
    assert (view.scope_name, dict(view.resource.attributes)) == ("scope", {"service.name": "agent"})


def test_what_processors_are_given_is_read_too() -> None:
    found: list[Any] = []

    class Keeps(LogRecordProcessor):
        def on_emit(self, log_record: Any) -> None:
            found.extend(read([log_record]))

        def shutdown(self) -> None: ...

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return True

    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(Keeps())
    provider.get_logger("scope").emit(event_name="gen_ai.choice", body=BODY, attributes={"a": ["x", "y"]})
    (view,) = found
    assert (view.trace_id, view.span_id, view.event_name, view.body) == ("", "", "gen_ai.choice", BODY)
    assert view.time > 0
    assert view.scope_name == "scope"
    assert list(view.attributes["a"]) == ["x", "y"]


def test_the_older_form_of_the_sdk_with_the_resource_on_the_record() -> None:
    record = as_sdk_records(REQUEST)[0]
    older = SimpleNamespace(
        **{key: getattr(record.log_record, key) for key in ("timestamp", "observed_timestamp", "trace_id", "span_id")},
        body=record.log_record.body,
        attributes=record.log_record.attributes,
        resource=record.resource,
    )
    (view,) = read(SimpleNamespace(log_record=older, instrumentation_scope=record.instrumentation_scope))
    assert (view.event_name, view.scope_name, view.body) == ("", "scope", BODY)
    assert view.resource.attributes["service.name"] == "agent"


def test_a_view_is_handed_on_as_it_is() -> None:
    view = log("gen_ai.choice", BODY)
    assert read([view]) == [view] == read(view)


@pytest.mark.parametrize("as_file", [False, True])
def test_one_request_may_hold_both(as_file: bool, tmp_path: Path) -> None:
    both = {**REQUEST, "resourceSpans": [{"scopeSpans": [{"spans": [SPAN_OF_IT]}]}]}
    found = read_bytes(tmp_path, json.dumps(both).encode()) if as_file else read(both)
    assert [isinstance(view, SpanView) for view in found] == [True, False]
    check(found[1])


def test_one_file_may_hold_both(tmp_path: Path) -> None:
    spans = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN_OF_IT]}]}]}
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (REQUEST, spans, REQUEST))
    assert [isinstance(view, LogView) for view in read_bytes(tmp_path, lines)] == [True, False, True]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"timeUnixNano": "0", "observedTimeUnixNano": "7"}, 7),
        ({"timeUnixNano": None, "observedTimeUnixNano": 7}, 7),
        ({"timeUnixNano": "5", "observedTimeUnixNano": "7"}, 5),
        ({"timeUnixNano": "soon", "observedTimeUnixNano": [1]}, 0),
    ],
)
def test_where_a_record_has_no_time_the_observation_has_one(times: dict[str, Any], expected: int) -> None:
    problems: list[Problem] = []
    (view,) = views({**RECORD, **times}, problems.append)
    assert len(problems) == (2 if times["timeUnixNano"] == "soon" else 0)
    assert view.time == expected


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ({"traceId": ""}, "trace_id", ""),
        ({"traceId": "0" * 32}, "trace_id", ""),
        ({"spanId": SPAN.upper()}, "span_id", SPAN),
        ({"body": "bare"}, "body", "bare"),
        ({"body": {}}, "body", None),
        ({"body": {"stringValue": "x"}}, "body", "x"),
        ({"attributes": "bad"}, "attributes", {}),
    ],
)
def test_wrong_types_cost_only_themselves(change: dict[str, Any], field: str, expected: Any) -> None:
    (view,) = read({**RECORD, **change})
    assert getattr(view, field) == expected


def test_a_field_that_cannot_be_read_is_a_problem_and_an_id_costs_the_record() -> None:
    problems: list[Problem] = []
    bad = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{**RECORD, "eventName": 3}, {**RECORD, "spanId": 3}]}]}]}
    view, lost = views(bad, problems.append)
    assert isinstance(view, LogView)
    assert view.event_name == ""
    assert (type(lost), lost.trace_id) == (LostSpan, TRACE)
    assert [problem.message.partition(" ")[0] for problem in problems] == ["eventName", "spanId"]


def test_what_is_no_record_is_a_problem_and_its_neighbours_are_read() -> None:
    problems: list[Problem] = []
    bad = {"resourceLogs": [None, {"scopeLogs": [3, {"logRecords": [RECORD, "x"]}, {"logRecords": 5}]}]}
    (view,) = views(bad, problems.append)
    check(view)
    assert [problem.code for problem in problems] == ["bad_span"] * 4


def test_whole_records_of_a_torn_file_are_read(tmp_path: Path) -> None:
    request = {
        "resourceLogs": [{**REQUEST["resourceLogs"][0], "scopeLogs": [{"logRecords": [RECORD, RECORD, RECORD]}]}]
    }
    (tmp_path / "logs").write_text(json.dumps(request)[:-40])
    problems: list[Problem] = []
    found = list(read_files([tmp_path / "logs"], problems.append))
    assert len(found) == 2
    check(found[0])
    assert [problem.code for problem in problems] == ["bad_json"]


def test_broken_values_in_protobuf_cost_only_their_record(tmp_path: Path) -> None:
    good = message()
    bad = LogsData.FromString(good.SerializeToString())
    record = bad.resource_logs[0].scope_logs[0].log_records[0]
    record.body.string_value = "cut here"
    broken = bad.SerializeToString().replace(b"\x0a\x08cut here", b"\x0a\x88cut here")
    assert broken != bad.SerializeToString()
    (tmp_path / "logs").write_bytes(prefixed(broken, good.SerializeToString()))
    problems: list[Problem] = []
    found = list(read_files([tmp_path / "logs"], problems.append))
    check(found[-1])
    assert problems


@pytest.mark.parametrize("source", FILES)
def test_documents_hold_log_records_as_they_came(source: str, tmp_path: Path) -> None:
    (tmp_path / "logs").write_bytes(FILES[source]())
    (document,) = read_documents(tmp_path / "logs", pytest.fail)
    (view,) = read(document)
    check(view)


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", LOGGED)
def test_recorded_logs_are_the_same_in_every_container(recording: str, tmp_path: Path) -> None:
    documents = log_documents(recording)
    as_json = [asdict(view) for view in read(documents)]
    assert as_json
    assert [asdict(view) for view in read(map(as_logs_data, documents))] == as_json
    messages = [as_logs_data(document).SerializeToString() for document in documents]
    assert [asdict(view) for view in read_bytes(tmp_path, prefixed(*messages))] == as_json
    for mine, theirs in zip(read([r for d in documents for r in as_sdk_records(d)]), as_json, strict=True):
        assert asdict(replace(mine, resource=NO_RESOURCE)) == {**theirs, "resource": NO_RESOURCE}
