"""What Phoenix, MLflow and Langfuse give back of recordings is read like the recordings themselves.

The files of Phoenix and MLflow were downloaded from servers (20.26 and 3.17) that were sent the recordings. Those of
Langfuse are made here, by the schema of its API.
"""

from __future__ import annotations

import json
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
    return [
        _observation(span, scope["scope"]["name"], decode_attributes(span.get("attributes", [])))
        for request in requests_of(name)
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


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

    source = data.draw(st.sampled_from([*PHOENIX_PAGES, {"data": observations("langfuse-observe-agent")}]))
    problems: list[Problem] = []
    broken = {key: spoilt(value) for key, value in source.items()}  # a text in its place would be a path
    for view in views([broken], problems.append):
        assert isinstance(dict(view.attributes), dict)
    assert all(problem.message for problem in problems)


PHOENIX_PAGES = [{"data": spans_of(path)} for path in PHOENIX if path.name.startswith("mcp")]


def test_an_empty_page_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text('{"data": [], "next_cursor": null}')
    with pytest.raises(TraceFileError, match="holds JSON without spans"):
        list(read_files([path], lambda problem: None))
