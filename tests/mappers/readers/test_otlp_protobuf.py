"""OTLP protobuf files give what the same request gives as JSON and in memory, whatever their framing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from goldspan.mappers.readers.files import read_documents, read_files
from goldspan.mappers.readers.otlp_json import JsonReader
from goldspan.scoring.errors import TraceFileError
from rigs.otlp_requests import (
    as_line,
    delimited,
    facts,
    fresh,
    message_of,
    prefixed,
    read_bytes,
    requests,
    spans_of,
    varint,
)
from rigs.trace_requests import plain_request, turn_request

FRAMINGS = {
    "bare": lambda *messages: b"".join(messages),
    "prefixed": prefixed,
    "prefixed, zstd": lambda *messages: prefixed(*map(zstandard.compress, messages)),
    "prefixed, gzip": lambda *messages: prefixed(*map(gzip.compress, messages)),
    "delimited": delimited,
    "bare, gzip": lambda *messages: gzip.compress(b"".join(messages)),
    "prefixed as a whole in zstd": lambda *messages: zstandard.compress(prefixed(*messages)),
}


@given(st.lists(requests, min_size=1, max_size=2), st.sampled_from(sorted(FRAMINGS)))
@fresh
def test_a_request_is_the_same_as_json_in_memory_and_as_a_file(
    tmp_path: Path, sent: list[dict[str, Any]], framing: str
) -> None:
    expected = facts(sent)
    assume(expected)
    assert facts(list(map(message_of, sent))) == expected
    content = FRAMINGS[framing](*(message_of(one).SerializeToString() for one in sent))
    assert read_bytes(tmp_path, content) == (expected, [])


@given(requests)
@fresh
def test_a_file_is_written_again_as_the_json_it_stands_for(tmp_path: Path, sent: dict[str, Any]) -> None:
    assume('"key": ""' not in json.dumps(sent))  # a default, which protobuf's JSON leaves out
    path = tmp_path / "traces"
    path.write_bytes(message_of(sent).SerializeToString())
    try:
        expected = facts([path])
    except TraceFileError:
        assume(False)
    assert facts(list(read_documents(path, pytest.fail))) == expected


def test_log_records_and_broken_values_are_written_again_too(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    path.write_bytes(prefixed(log_request().SerializeToString(), with_broken_values(TURN, "gen_ai.tool.name")))
    logs, traces = read_documents(path, pytest.fail)
    [record] = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (record["traceId"], record["spanId"], record["body"]) == (
        b"t".hex() * 16,
        b"s".hex() * 8,
        {"stringValue": "hello"},
    )
    assert [span["name"] for span in spans_of(traces)] == ["invoke_agent weather_agent"]


TURN = turn_request("sess-1", ("get_weather", {"city": "Paris"}), ("convert", {"value": 21.5}))
MESSAGE = message_of(TURN).SerializeToString()
SPANS = facts(TURN)


@pytest.mark.parametrize("framing", ["bare", "prefixed", "delimited"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.999])
def test_a_torn_tail_is_counted_and_every_whole_span_before_it_is_read(
    tmp_path: Path, framing: str, part: float
) -> None:
    whole = FRAMINGS[framing](MESSAGE, MESSAGE)
    second = len(FRAMINGS[framing](MESSAGE))
    cut = second + int((len(whole) - second) * part)
    read, problems = read_bytes(tmp_path, whole[:cut])
    assert read[: len(SPANS)] == SPANS
    torn = read[len(SPANS) :]
    assert torn == SPANS[: len(torn)]
    assert len(torn) < len(SPANS)
    assert len(torn) > 0 or part < 0.5
    assert [problem.code for problem in problems] == ["bad_protobuf"]
    assert f"{len(torn)} whole spans were read" in problems[0].message


def test_every_way_to_cut_a_file_reads_what_is_whole(tmp_path: Path) -> None:
    counts: list[int] = []
    for cut in range(8, len(MESSAGE)):
        try:
            read, problems = read_bytes(tmp_path, MESSAGE[:cut])
        except TraceFileError:
            assert counts == []  # nothing to read, as yet
            continue
        assert read == SPANS[: len(read)]
        assert problems != []
        counts.append(len(read))
    assert counts == sorted(counts)
    assert max(counts) == len(SPANS) - 1


def test_a_broken_span_does_not_lose_its_neighbours(tmp_path: Path) -> None:
    spans = spans_of(TURN)
    assert len(spans) == 3
    message = message_of(TURN)
    inside = message.resource_spans[0].scope_spans[0].spans[1].SerializeToString()
    broken = MESSAGE.replace(inside[:40], b"\xff" * 40)
    read, problems = read_bytes(tmp_path, prefixed(broken, MESSAGE))
    assert read == [SPANS[0], SPANS[2], *SPANS]
    assert [problem.message for problem in problems] == [
        "a message is broken; 2 whole spans were read from it, 1 were not"
    ]


def with_broken_values(request: dict[str, Any], key: str) -> bytes:
    """Encode a request and break the value of an attribute, so that only its own message does not parse."""
    message = message_of(request)
    for span in message.resource_spans[0].scope_spans[0].spans:
        for pair in span.attributes:
            if pair.key == key:
                pair.value.string_value = "BROKEN"
    encoded = message.SerializeToString()
    return encoded.replace(b"BROKEN", b"\xff\xfe\xfdKEN")  # no UTF-8


def test_values_of_spans_that_no_dialect_knows_are_never_decoded(tmp_path: Path) -> None:
    request = plain_request()
    spans_of(request)[0]["attributes"] = [{"key": "url.full", "value": {"stringValue": "x"}}]
    read, problems = read_bytes(tmp_path, with_broken_values(request, "url.full"))
    assert (len(read), problems) == (1, [])


def test_a_value_that_does_not_decode_is_counted_once_and_null(tmp_path: Path) -> None:
    read, problems = read_bytes(tmp_path, with_broken_values(TURN, "gen_ai.tool.call.arguments"))
    assert [fact.tool.name for fact in read if fact.tool] == ["get_weather", "convert"]
    assert [fact.tool.arguments.capture for fact in read if fact.tool] == ["not_captured"] * 2
    assert [problem.code for problem in problems] == ["bad_span"]


def test_a_key_given_twice_means_its_last_value(tmp_path: Path) -> None:
    request = plain_request()
    spans_of(request)[0]["attributes"] = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
    ]
    [read] = read_bytes(tmp_path, message_of(request).SerializeToString())[0]
    assert (read.role, read.version[1]) == ("tool", 1)


@pytest.mark.parametrize("framing", ["bare", "prefixed", "delimited"])
def test_a_length_that_lies_takes_no_memory_and_keeps_what_was_read(tmp_path: Path, framing: str) -> None:
    lie = {"bare": b"\x0a" + varint(2**40), "prefixed": b"\xf0\xff\xff\xff", "delimited": varint(2**40)}[framing]
    read, problems = read_bytes(tmp_path, FRAMINGS[framing](MESSAGE) + lie + b"\x0a\x00")
    assert read == SPANS
    assert [problem.code for problem in problems] == ["bad_protobuf"]
    assert "a length of" in problems[0].message


def test_lost_boundaries_end_the_reading(tmp_path: Path) -> None:
    read, problems = read_bytes(tmp_path, prefixed(MESSAGE) + prefixed(*[b"\x50\x01"] * 100_000))
    assert read == SPANS
    assert len(problems) == 1
    assert "in a row" in problems[0].message


def test_a_decompression_bomb_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.mappers.readers.files.MAX_MESSAGE", 1 << 20)
    bomb = zstandard.compress(bytes(1 << 24))
    read, problems = read_bytes(tmp_path, prefixed(zstandard.compress(MESSAGE), bomb, zstandard.compress(MESSAGE)))
    assert read == SPANS * 2
    assert "grows to more than" in problems[0].message


def test_json_in_compressed_messages(tmp_path: Path) -> None:
    messages = [zstandard.compress(as_line(TURN)), zstandard.compress(as_line(plain_request()))]
    assert read_bytes(tmp_path, prefixed(*messages)) == (SPANS + facts(plain_request()), [])


def log_request() -> LogsData:
    logs = LogsData()
    record = logs.resource_logs.add().scope_logs.add().log_records.add()
    record.time_unix_nano = record.observed_time_unix_nano = 1_800_000_000_000_000_000
    record.trace_id, record.span_id = b"t" * 16, b"s" * 8
    record.body.string_value = "hello"
    return logs


def test_log_records_are_told_from_spans(tmp_path: Path) -> None:
    read, problems = read_bytes(tmp_path, log_request().SerializeToString())
    assert (read, problems) == ([], [])


def test_metrics_are_told_from_spans(tmp_path: Path) -> None:
    metrics = MetricsData()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="http.duration", description="d" * 9)
    metric.sum.data_points.add().as_int = 5
    read, problems = read_bytes(tmp_path, metrics.SerializeToString())
    assert (read, problems) == ([], [])


def test_one_resource_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    path.write_bytes(prefixed(MESSAGE, MESSAGE))
    found = {id(view.resource): view.resource for view in read_files([path], pytest.fail)}
    assert len(found) == 1


def test_a_file_without_a_span_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="holds protobuf without spans"):
        read_bytes(tmp_path, message_of({"resourceSpans": [{"scopeSpans": []}]}).SerializeToString())


def test_the_plain_reader_agrees_about_ids(tmp_path: Path) -> None:
    reader = JsonReader(pytest.fail)
    [view] = reader.views(plain_request())
    [read] = read_bytes(tmp_path, message_of(plain_request()).SerializeToString())[0]
    assert (view.trace_id, view.span_id) == (read.trace_id, read.span_id)
