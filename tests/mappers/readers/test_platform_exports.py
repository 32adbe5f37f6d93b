"""What platforms give back and export of recordings is read like the recordings themselves.

The files of Phoenix and MLflow were downloaded from servers (20.26 and 3.17) that were sent the recordings. Those of
the others are made here, by the schemas of their APIs and exports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers import read_sessions
from goldspan.mappers.readers.files import read_files, views
from goldspan.mappers.readers.otlp_json import decode_attributes
from goldspan.scoring.errors import Problem, TraceFileError
from goldspan.scoring.sessions import Session
from rigs.otlp_containers import requests_of
from rigs.repository import FIXTURES, RECORDINGS

PHOENIX = sorted((FIXTURES / "phoenix").glob("*.json"))
MLFLOW = sorted((FIXTURES / "mlflow").glob("*.json"))
DOWNLOADS = [*PHOENIX, *MLFLOW]
IDS = [path.name for path in DOWNLOADS]


def conversation(sessions: list[Session]) -> Any:
    """Calls by session and turn. Langfuse and Phoenix keep other times than the recording, but their order."""
    return [
        (
            session.id,
            [
                [(call.name, call.arguments, call.capture, call.call_id, bool(call.error), call.batch) for call in one]
                for one in (turn.calls for turn in session.turns)
            ],
        )
        for session in sorted(sessions, key=lambda session: session.id)
    ]


def recorded(name: str) -> Any:
    return conversation(read_sessions(RECORDINGS / f"{name}.otlp.json"))


@pytest.mark.parametrize("path", DOWNLOADS, ids=IDS)
def test_a_download(path: Path) -> None:
    name = path.name.partition(".")[0]
    assert conversation(read_sessions(path, on_problem=pytest.fail)) == recorded(name)


@pytest.mark.parametrize("path", MLFLOW, ids=lambda path: path.name)
def test_traces_of_mlflow_by_themselves(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "traces"
    traces = json.loads(path.read_text())["traces"]
    file.write_text("\n".join([json.dumps({"trace": traces[0]}), *map(json.dumps, traces[1:])]))
    assert conversation(read_sessions(file, on_problem=pytest.fail)) == recorded(path.name.partition(".")[0])


def mlflow_trace(metadata: dict[str, str], *spans: dict[str, Any]) -> dict[str, Any]:
    """A trace as MLflow gives it, of spans with these attributes and nothing between them."""
    return {
        "trace_info": {"trace_metadata": metadata},
        "spans": [
            {
                "trace_id": "JErK+1lfG/G/Iy5aMbBIkw==",
                "span_id": f"AAAAAAAAAA{number}=",
                "name": "execute_tool get_weather",
                "start_time_unix_nano": 10 + number,
                "end_time_unix_nano": 20,
                "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
            }
            for number, attributes in enumerate(spans, 1)
        ],
    }


@pytest.mark.parametrize(("own", "session"), [({"session.id": {"string_value": "a"}}, "a"), ({}, "b")])
def test_mlflow_s_session_is_that_of_a_trace_whose_spans_name_none(
    tmp_path: Path, own: dict[str, Any], session: str
) -> None:
    tool = {"gen_ai.operation.name": {"string_value": "execute_tool"}, "gen_ai.tool.name": {"string_value": "f"}}
    file = tmp_path / "trace"
    file.write_text(json.dumps(mlflow_trace({"mlflow.trace.session": "b"}, tool, tool | own)))
    assert [one.id for one in read_sessions(file)] == [session]


def test_spans_of_mlflow_s_sdk_keep_what_it_wrote_beside_a_user_s_attributes(tmp_path: Path) -> None:
    inputs = {"kvlist_value": {"values": [{"key": "city", "value": {"string_value": "Paris"}}, {"key": "note"}]}}
    span = {"mlflow.spanType": {"string_value": "TOOL"}, "mlflow.spanInputs": inputs, "mine": {"int_value": 1}}
    file = tmp_path / "trace"
    file.write_text(json.dumps(mlflow_trace({"mlflow.trace_schema.version": "3"}, span)))
    [session] = read_sessions(file)
    assert session.turns[0].calls[0].arguments == {"city": "Paris", "note": None}


def spans_of(path: Path) -> list[dict[str, Any]]:
    return [span for line in path.read_text().splitlines() for span in json.loads(line)["data"]]


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the table that `get_spans_dataframe` returns, as `to_json(orient="records")` writes them."""
    return [
        {
            **{key: value for key, value in span.items() if key not in {"context", "attributes", "start_time"}},
            "start_time": datetime.fromisoformat(span["start_time"]).timestamp() * 1000,
            **{f"context.{key}": value for key, value in span["context"].items()},
            **{f"attributes.{key}": value for key, value in span["attributes"].items()},
            "attributes.never.set": None,
        }
        for span in spans_of(path)
    ]


@pytest.mark.parametrize("shape", ["list", "lines", "rows"])
@pytest.mark.parametrize("path", [path for path in PHOENIX if path.name.endswith(".spans.json")], ids=lambda p: p.name)
def test_spans_of_phoenix_by_themselves(path: Path, shape: str, tmp_path: Path) -> None:
    spans = rows(path) if shape == "rows" else spans_of(path)
    file = tmp_path / "spans"
    file.write_text(json.dumps(spans) if shape == "list" else "\n".join(map(json.dumps, spans)))
    found = conversation(read_sessions(file, on_problem=pytest.fail))
    assert found == recorded(path.name.partition(".")[0])


def observations(name: str) -> list[dict[str, Any]]:
    """What Langfuse's API returns for the spans of a recording; spans of its own SDK have no attributes in metadata."""
    return [_observation(*one) for one in spans_with_scopes(name)]


def _observation(span: dict[str, Any], scope: str, attributes: dict[str, Any]) -> dict[str, Any]:
    given, answer = (attributes.pop(f"langfuse.observation.{key}", None) for key in ("input", "output"))
    if scope != "langfuse-sdk":
        given, answer = attributes.pop("input.value", None), attributes.pop("output.value", None)
    failed = span.get("status", {}).get("code") == 2
    return {
        "id": span["spanId"],
        "traceId": span["traceId"],
        "parentObservationId": span.get("parentSpanId") or None,
        "type": attributes.get("langfuse.observation.type", "span").upper(),
        "name": span["name"],
        "startTime": _iso(span["startTimeUnixNano"]),
        "endTime": _iso(span["endTimeUnixNano"]),
        "input": _parsed(given),
        "output": _parsed(answer),
        "level": "ERROR" if failed else "DEFAULT",
        "statusMessage": span.get("status", {}).get("message"),
        "sessionId": attributes.get("session.id"),
        "metadata": {"scope": {"name": scope}, **({} if scope == "langfuse-sdk" else {"attributes": attributes})},
    }


def _iso(nanoseconds: str) -> str:
    return datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC).isoformat()


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


LANGFUSE = ["langfuse-observe", "langfuse-observe-agent", "langfuse-observe-nocontent", "langchain-openinference"]


@pytest.mark.parametrize("name", LANGFUSE)
def test_observations_of_langfuse(name: str) -> None:
    page = {"data": observations(name), "meta": {"page": 1, "totalPages": 1}}
    assert conversation(read_sessions([page], on_problem=pytest.fail)) == recorded(name)


@pytest.mark.parametrize("name", LANGFUSE)
def test_traces_of_langfuse_with_their_observations(name: str) -> None:
    traces: dict[str, dict[str, Any]] = {}
    for one in observations(name):
        session = one.pop("sessionId")
        trace = traces.setdefault(one["traceId"], {"id": one["traceId"], "observations": []})
        trace["sessionId"] = session or trace.get("sessionId")
        trace["observations"].append(one)
    found = read_sessions(list(traces.values()), on_problem=pytest.fail)
    assert conversation(found) == recorded(name)


def spans_with_scopes(name: str) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """The spans of a recording, each with the name of its scope and its attributes."""
    for request in requests_of(name):
        for resource in request["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield span, scope["scope"]["name"], decode_attributes(span.get("attributes", []))


def logfire_row(span: dict[str, Any], scope: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """A row of `records`."""
    status = span.get("status", {})
    return {
        "trace_id": span["traceId"],
        "span_id": span["spanId"],
        "parent_span_id": span.get("parentSpanId") or None,
        "span_name": span["name"],
        "kind": "span",
        "start_timestamp": _iso(span["startTimeUnixNano"]).replace("+00:00", "Z"),
        "end_timestamp": _iso(span["endTimeUnixNano"]).replace("+00:00", "Z"),
        "otel_status_code": {1: "OK", 2: "ERROR"}.get(status.get("code", 0)),
        "otel_status_message": status.get("message"),
        "attributes": {key: _parsed(value) for key, value in attributes.items()},
        "otel_resource_attributes": {"service.name": "agent"},
        "otel_scope_name": scope,
        "otel_events": [],
    }


def cloudwatch_span(span: dict[str, Any], scope: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """A span as the log group `aws/spans` has it."""
    return {
        **{name: span[name] for name in ("traceId", "spanId", "name")},
        "parentSpanId": span.get("parentSpanId", ""),
        "resource": {"attributes": {"service.name": "agent"}},
        "scope": {"name": scope},
        "kind": "INTERNAL",
        "startTimeUnixNano": int(span["startTimeUnixNano"]),
        "endTimeUnixNano": int(span["endTimeUnixNano"]),
        "attributes": attributes,
        "status": {"code": {2: "ERROR"}.get(span.get("status", {}).get("code"), "UNSET")},
    }


def insights_row(span: dict[str, Any], scope: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """A row of `dependencies`, which has no scope."""
    duration = (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e6
    return {
        "timestamp": _iso(span["startTimeUnixNano"]).replace("+00:00", "0Z"),  # seven digits
        "id": span["spanId"],
        "operation_Id": span["traceId"],
        "operation_ParentId": span.get("parentSpanId", ""),
        "name": span["name"],
        "duration": duration,
        "success": str(span.get("status", {}).get("code") != 2),
        "customDimensions": json.dumps({key: str(value) for key, value in attributes.items()}),
        "cloud_RoleName": "agent",
    }


def of_insights_query(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = [{"name": name, "type": "string"} for name in rows[0]]
    return {"tables": [{"name": "PrimaryResult", "columns": columns, "rows": [list(row.values()) for row in rows]}]}


def of_workspace(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {
        "timestamp": "TimeGenerated",
        "id": "Id",
        "operation_Id": "OperationId",
        "operation_ParentId": "ParentId",
        "duration": "DurationMs",
        "customDimensions": "Properties",
        "cloud_RoleName": "AppRoleName",
    }
    return [{names.get(key, key.capitalize()): value for key, value in row.items()} for row in rows]


def log_events(spans: list[dict[str, Any]]) -> dict[str, Any]:
    return {"events": [{"message": json.dumps(one)} for one in spans] + [{"message": "START RequestId"}]}


def insights_of_logs(spans: list[dict[str, Any]]) -> dict[str, Any]:
    fields = [[{"field": "@ptr", "value": "x"}, {"field": "@message", "value": json.dumps(one)}] for one in spans]
    return {"results": fields, "status": "Complete", "statistics": {"recordsMatched": 1.0}}


EXPORTS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[list[dict[str, Any]]], Any]]] = {
    "Logfire, a page": (logfire_row, lambda rows: {"data": rows, "columns": []}),
    "Logfire, rows": (logfire_row, lambda rows: rows),
    "CloudWatch, spans": (cloudwatch_span, lambda rows: rows),
    "CloudWatch, log events": (cloudwatch_span, log_events),
    "CloudWatch, Logs Insights": (cloudwatch_span, insights_of_logs),
    "Application Insights, rows": (insights_row, lambda rows: rows),
    "Application Insights, a query": (insights_row, of_insights_query),
    "Azure Monitor, a workspace": (insights_row, of_workspace),
}


@pytest.mark.parametrize("name", ["langchain-openinference", "google-adk-v2-span", "agent-framework-native"])
@pytest.mark.parametrize(("row", "written"), EXPORTS.values(), ids=EXPORTS)
def test_spans_of_logfire_cloudwatch_and_azure(name: str, row: Any, written: Any) -> None:
    document = written([row(*one) for one in spans_with_scopes(name)])
    documents = document if isinstance(document, list) else [document]
    assert conversation(read_sessions(documents, on_problem=pytest.fail)) == recorded(name)


def test_runs_of_langsmith() -> None:
    """What LangSmith's own export writes as attributes, as the runs that it made them of."""

    def uuid(span_id: str) -> str:
        return f"018e4c7e-a9fb-7ef0-{span_id[:4]}-{span_id[4:]}"

    def run(span: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
        before = "langsmith.metadata."
        metadata = {key.removeprefix(before): value for key, value in attributes.items() if key.startswith(before)}
        tools = _parsed(attributes.get("gen_ai.tool.definitions"))
        return {
            "id": uuid(span["spanId"]),
            "trace_id": uuid(span["traceId"][16:]).replace("018e4c7e-a9fb-7ef0", span["traceId"][:16]),
            "parent_run_id": uuid(span["parentSpanId"]) if span.get("parentSpanId") else None,
            "run_type": attributes["langsmith.span.kind"],
            "name": attributes["langsmith.trace.name"],
            "inputs": _parsed(attributes.get("gen_ai.prompt")),
            "outputs": _parsed(attributes.get("gen_ai.completion")),
            "extra": {
                "metadata": metadata,
                "tool_call_id": attributes.get("gen_ai.tool.call.id"),
                "invocation_params": {"tools": tools} if tools else {},
            },
            "error": span.get("status", {}).get("message") or None,
            "start_time": _iso(span["startTimeUnixNano"]).removesuffix("+00:00"),
            "end_time": _iso(span["endTimeUnixNano"]).removesuffix("+00:00"),
        }

    name = "langchain-langsmith"
    page = {"runs": [run(span, attributes) for span, _, attributes in spans_with_scopes(name)], "cursors": {}}
    assert conversation(read_sessions([page], on_problem=pytest.fail)) == recorded(name)


_junk = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


@given(st.data())
def test_anything_anywhere_never_raises(data: st.DataObject) -> None:
    chance = data.draw(st.randoms(use_true_random=False))

    def spoilt(value: Any) -> Any:
        if chance.random() < 0.02:
            return data.draw(_junk)
        if isinstance(value, dict):
            return {key: spoilt(inner) for key, inner in value.items()}
        return [spoilt(inner) for inner in value] if isinstance(value, list) else value

    exports = [written([row(*one) for one in spans_with_scopes("google-adk-v2-span")]) for row, written in PAGES]
    langfuse = {"data": observations("langfuse-observe-agent")}
    source = data.draw(st.sampled_from([*PHOENIX_PAGES, langfuse, *exports]))
    problems: list[Problem] = []
    broken = {key: spoilt(value) for key, value in source.items()}  # a text in its place would be a path
    for view in views([broken], problems.append):
        assert isinstance(dict(view.attributes), dict)
    assert all(problem.message for problem in problems)


PAGES = [way for name, way in EXPORTS.items() if not name.endswith(("rows", "spans", "workspace"))]
PHOENIX_PAGES = [{"data": spans_of(path)} for path in PHOENIX if path.name.startswith("mcp")]


@pytest.mark.parametrize("page", ['{"data": [], "next_cursor": null}', '{"runs": [], "cursors": {"next": null}}'])
def test_an_empty_page_is_no_record(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text(page)
    with pytest.raises(TraceFileError, match="holds JSON without spans"):
        list(read_files([path], lambda problem: None))
