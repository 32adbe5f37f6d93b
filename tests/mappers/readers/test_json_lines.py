"""Lazy reading of OTLP/JSON gives what plain reading gives, whatever a line holds."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.readers.json_documents import as_otlp
from goldspan.mappers.readers.otlp_json import JsonReader
from goldspan.mappers.readers.otlp_json_lazy import LazyRequest, loads
from goldspan.scoring.errors import Problem, TraceFileError
from rigs.otlp_requests import as_line, facts, fresh, read_bytes, requests, spans_of
from rigs.repository import RECORDINGS
from rigs.trace_requests import plain_request, turn_request

REGISTRY = DialectRegistry()
RECORDED = sorted(RECORDINGS.glob("*.otlp.json"))
TURN = turn_request("sess-1", ("get_weather", {"city": "Zürich"}))


def seen(view: Any) -> dict[str, Any]:
    """Everything a dialect could see of a span."""
    fields = ("trace_id", "span_id", "parent_id", "name", "start", "end", "kind", "parent_is_remote", "scope_name")
    return {
        **{field: getattr(view, field) for field in (*fields, "status_code", "status_message")},
        "attributes": dict(view.attributes),
        "events": [(event.name, dict(event.attributes)) for event in view.events],
        "resource": dict(view.resource.attributes),
    }


def read_plainly(content: bytes) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    problems: list[Problem] = []
    reader = JsonReader(problems.append)
    views = [view for line in content.splitlines() for view in reader.views(as_otlp(json.loads(line)))]
    return [seen(view) for view in views], [(problem.code, problem.message) for problem in problems]


def read_lazily(folder: Path, content: bytes) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    path = folder / "traces"
    path.write_bytes(content)
    problems: list[Problem] = []
    views: list[dict[str, Any]] = []
    try:
        views.extend(map(seen, read_files([path], problems.append)))
    except TraceFileError:
        assert views == []
    return views, [(problem.code, problem.message) for problem in problems]


@given(st.lists(requests, min_size=1, max_size=3), st.booleans())
@fresh
def test_valid_lines_are_read_lazily_and_alike(tmp_path: Path, sent: list[dict[str, Any]], ascii_only: bool) -> None:
    lines = [json.dumps(one, ensure_ascii=ascii_only).encode() for one in sent]
    assert all(isinstance(loads(line), LazyRequest) for line in lines)
    content = b"\n".join(lines)
    assert read_lazily(tmp_path, content) == read_plainly(content)


_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 2**64, "0", "1e3", "1.0", "\ud800", "null", " 12 ", "SPAN_KIND_CLIENT"])
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_FIELDS = (
    *("resourceSpans", "scopeSpans", "spans", "resource", "scope", "attributes", "key", "value", "name", "events"),
    *("traceId", "spanId", "parentSpanId", "kind", "startTimeUnixNano", "endTimeUnixNano", "status", "flags", "code"),
    *("trace_id", "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano", "stringValue"),
    *("intValue", "doubleValue", "boolValue", "arrayValue", "values", "resource_spans", "batches", "scope_spans"),
    *("instrumentationLibrary", "instrumentationLibrarySpans", "traceState", "droppedAttributesCount"),
)


def holders(value: Any) -> list[dict[str, Any]]:
    """Every object inside a JSON value, itself first."""
    if isinstance(value, dict):
        return [value, *(holder for inner in value.values() for holder in holders(inner))]
    return [holder for inner in value for holder in holders(inner)] if isinstance(value, list) else []


@given(requests, st.data())
@fresh
def test_lines_with_anything_anywhere_are_read_alike(tmp_path: Path, sent: dict[str, Any], data: st.DataObject) -> None:
    spoilt = copy.deepcopy(sent)
    for _ in range(data.draw(st.integers(1, 2))):
        holder = data.draw(st.sampled_from(holders(spoilt)))
        holder[data.draw(st.sampled_from(_FIELDS))] = data.draw(_json)
    content = json.dumps(spoilt).encode()
    assert repr(read_lazily(tmp_path, content)) == repr(read_plainly(content))


@pytest.mark.every_recording
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_recordings_are_read_alike(path: Path) -> None:
    try:
        parsed = [json.loads(path.read_text("utf-8"))]
    except ValueError:
        parsed = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    reader = JsonReader(pytest.fail)
    plain = [REGISTRY.read(view) for one in parsed for view in reader.views(one)]
    assert [REGISTRY.read(view) for view in read_files([path], pytest.fail)] == plain
    assert len(plain) > 1


@pytest.mark.parametrize(
    "line",
    [
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "k", "value": NaN}]}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}',
        b'{"resource_spans": [{"scope_spans": [{"spans": [{"span_id": "aaaaaaaaaaaaaaaa"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "aaaaaaaaaaaaaaaa", "trace_id": "bb"}]}]}]}',
        b'\xef\xbb\xbf{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}',
        b'[{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}]',
    ],
    ids=["NaN", "lone surrogate", "proto names", "one proto name", "byte order mark", "list"],
)
def test_what_is_refused_is_read_the_plain_way(tmp_path: Path, line: bytes) -> None:
    assert not isinstance(loads(line), LazyRequest)
    found, problems = read_lazily(tmp_path, line)
    assert repr((found, problems)) == repr(read_plainly(line))
    assert len(found) == 1


def test_bytes_that_are_no_utf_8_are_a_problem_even_where_nobody_looks(tmp_path: Path) -> None:
    bad = as_line(plain_request()).replace(b"GET", b"G\xffT")
    read, problems = read_bytes(tmp_path, as_line(TURN) + bad)
    assert read == [*facts(TURN), *read[2:]]
    assert [problem.message for problem in problems] == ["holds bytes that are not UTF-8"]


def test_values_of_spans_that_no_dialect_knows_are_never_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []
    monkeypatch.setattr("goldspan.mappers.readers.otlp_json_lazy._value", decoded.append)
    plain = plain_request()
    spans_of(plain)[0]["attributes"] = [{"key": "url.full", "value": {"stringValue": "x"}}]
    read_bytes(tmp_path, as_line(plain))
    assert decoded == []
    read_bytes(tmp_path, as_line(TURN))
    assert decoded != []


def test_who_hands_over_spans_of_the_sdk_pays_for_no_protobuf() -> None:
    code = (
        "import sys; import goldspan.mappers.readers; from goldspan.mappers import read_sessions; "
        "print({'google.protobuf', 'zstandard'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
