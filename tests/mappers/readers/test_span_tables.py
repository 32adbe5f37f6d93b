"""Tables of spans are read like the OTLP that they were made from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.readers.span_tables import SpanTableReader, attributes_of, is_span_table
from goldspan.mappers.spans import SpanView
from goldspan.scoring.errors import Problem, TraceFileError
from rigs.repository import ROOT
from rigs.span_tables import clickhouse_row, json_row, spans_of, write_table

pytest.importorskip("pyarrow", reason="needs pyarrow, the extra `parquet`")

RECORDINGS = sorted((ROOT / "tests/fixtures/recordings").glob("*.otlp.json"))
FIELDS = ("trace_id", "span_id", "parent_id", "name", "start", "end", "kind", "status_code", "status_message")
IDS = {"TraceId": "0a" * 16, "SpanId": "0b" * 8, "SpanAttributes": {}}


def read(path: Path) -> tuple[list[SpanView], list[Problem]]:
    problems: list[Problem] = []
    found = [view for view in read_files([path], problems.append) if isinstance(view, SpanView)]
    return found, problems


OF_ARGUMENTS = "honeyhive_inputs."
"""One attribute for each argument: a number is text in a table whose attributes are all texts."""


def calls(views: list[SpanView]) -> list[Any]:
    sessions = assemble(DialectRegistry().facts(views))
    return [
        (session.id, call.name, call.arguments, call.call_id, call.error, call.span)
        for session in sessions
        for turn in session.turns
        for call in turn.calls
    ]


@pytest.mark.every_recording
@pytest.mark.parametrize("make", [clickhouse_row, json_row])
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_a_recording_as_a_table_has_the_same_calls(path: Path, make: Any, tmp_path: Path) -> None:
    spans = spans_of(path)
    found, problems = read(write_table(tmp_path / "spans.parquet", map(make, spans), row_group_size=7))
    assert problems == []
    assert [[getattr(one, name) for name in FIELDS] for one in found] == [
        [getattr(one, name) for name in FIELDS] for one in spans
    ]
    if make is json_row or not any(key.startswith(OF_ARGUMENTS) for one in spans for key in one.attributes):
        assert calls(found) == calls(spans)
    if make is json_row:
        assert [one.attributes for one in found] == [dict(one.attributes) for one in spans]
        assert [(one.events, one.links) for one in found] == [(list(one.events), list(one.links)) for one in spans]


def span(**row: Any) -> SpanView:
    problems: list[Problem] = []
    [view] = SpanTableReader(list(IDS | row), problems.append).rows([IDS | row])
    assert problems == []
    return view


@pytest.mark.parametrize(
    "columns",
    [
        ("Timestamp", "TraceId", "SpanId", "SpanAttributes"),
        ("trace_id", "span_id", "start_time_unix_nano", "attributes"),
    ],
)
def test_names_of_columns_are_compared_loosely(columns: tuple[str, ...]) -> None:
    assert is_span_table(columns)
    assert not is_span_table(columns[1:])


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        (1_800_000_000_123_456_789, 1_800_000_000_123_456_789),
        (datetime(2027, 1, 15, 8, 0, 0, 123456, UTC), 1_800_000_000_123_456_000),
        (datetime(2027, 1, 15, 8, 0, 0, 123456), 1_800_000_000_123_456_000),
        ("2027-01-15 08:00:00.123456789", 1_800_000_000_123_456_789),
        ("2027-01-15T08:00:00Z", 1_800_000_000_000_000_000),
        (None, 0),
    ],
)
def test_times(written: Any, nanoseconds: int) -> None:
    assert span(Timestamp=written).start == nanoseconds


@pytest.mark.parametrize(
    ("row", "end"),
    [({"Duration": 7}, 107), ({"EndTimestamp": 109, "Duration": 7}, 109), ({"Duration": timedelta(0, 0, 2)}, 2100)],
)
def test_the_end_is_written_or_start_and_duration(row: dict[str, Any], end: int) -> None:
    assert span(Timestamp=100, **row).end == end


@pytest.mark.parametrize(
    "written",
    [
        {"a.b": 1, "c.d": "x"},
        [("a.b", 1), ("c.d", "x")],
        [{"key": "a.b", "value": 1}, {"key": "c.d", "value": "x"}],
        '{"a.b": 1, "c.d": "x"}',
    ],
)
def test_attributes_in_every_shape(written: Any) -> None:
    assert attributes_of(written) == {"a.b": 1, "c.d": "x"}


def test_a_map_of_texts_keeps_numbers_as_texts() -> None:
    assert attributes_of([("a", "true"), ("b", "7"), ("c", "True")]) == {"a": True, "b": "7", "c": "True"}


def test_a_field_of_a_struct_that_is_null_is_no_attribute() -> None:
    assert attributes_of({"a": None, "b": 1}) == {"b": 1}


def test_keys_that_became_nested_objects_are_there_both_ways() -> None:
    found = attributes_of(json.dumps({"gen_ai": {"tool": {"name": "f"}}, "n": 1}))
    assert (found["gen_ai.tool.name"], found["n"], found["gen_ai"]) == ("f", 1, {"tool": {"name": "f"}})


def test_an_object_beside_dotted_keys_is_a_value() -> None:
    assert attributes_of({"tool.args": {"x": 1}, "n": 1}) == {"tool.args": {"x": 1}, "n": 1}


def test_ids_may_be_bytes() -> None:
    view = span(TraceId=b"\x0c" * 16, SpanId=b"\x0d" * 8, Timestamp=1)
    assert (view.trace_id, view.span_id) == ("0c" * 16, "0d" * 8)


def test_spans_of_one_service_share_their_resource() -> None:
    row = IDS | {"Timestamp": 1, "ServiceName": "shop", "ResourceAttributes": [("host.name", "h")]}
    one, two = SpanTableReader(list(row), lambda _: None).rows([row, row])
    assert one.resource is two.resource
    assert one.resource.attributes == {"host.name": "h", "service.name": "shop"}


@pytest.mark.parametrize(
    "bad", [{"SpanAttributes": "{"}, {"SpanAttributes": "7"}, {"Timestamp": "soon"}, {"Timestamp": 0.5}]
)
def test_a_bad_row_is_a_problem_and_its_neighbours_are_read(bad: dict[str, Any]) -> None:
    problems: list[Problem] = []
    row = IDS | {"Timestamp": 1}
    views = list(SpanTableReader(list(row), problems.append).rows([row, row | bad, row], "t"))
    assert (len(views), [(one.code, one.source) for one in problems]) == (2, [("bad_span", "t: row 1")])


def test_another_table_is_named_for_what_it_lacks(tmp_path: Path) -> None:
    path = write_table(tmp_path / "other.parquet", [{"TraceId": "x"}])
    with pytest.raises(TraceFileError, match="no table of spans; expected the columns TraceId, SpanId"):
        read(path)


def test_a_table_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = write_table(tmp_path / "spans.parquet", [json_row(one) for one in spans_of(RECORDINGS[0])])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceFileError, match="cannot be read further"):
        read(path)


def test_a_folder_is_read_without_the_results_in_it(tmp_path: Path) -> None:
    write_table(tmp_path / "results.parquet", [{"session": "s", "metric": "m"}])
    write_table(tmp_path / "spans.parquet", [json_row(one) for one in spans_of(RECORDINGS[0])])
    found, problems = read(tmp_path)
    assert (len(found), problems) == (len(spans_of(RECORDINGS[0])), [])


def test_without_the_extra_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path / "spans.parquet", [json_row(one) for one in spans_of(RECORDINGS[0])])
    monkeypatch.setattr("goldspan.mappers.readers.span_tables.find_spec", lambda _: None)
    with pytest.raises(TraceFileError, match=r"pip install 'goldspan\[parquet\]'"):
        read(path)
