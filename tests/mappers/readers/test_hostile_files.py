"""Whatever is in a file, reading it raises nothing but that the file holds no span, in bounded memory."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.readers.files import read_documents, read_files
from goldspan.scoring.errors import Problem, TraceFileError
from rigs.otlp_requests import as_line, delimited, fresh, message_of, prefixed, read_bytes, varint
from rigs.repository import FIXTURES
from rigs.trace_requests import turn_request

FOLDER = FIXTURES / "containers"
TURN = turn_request("sess-1", ("get_weather", {"city": "Paris"}))
MESSAGE = message_of(TURN).SerializeToString()
LINES = as_line(TURN) * 2
WHOLE = {
    **{path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())},
    "lines": LINES,
    "lines, gzip": gzip.compress(LINES),
    "lines, zstd": zstandard.compress(LINES),
    "bare": MESSAGE,
    "prefixed": prefixed(MESSAGE, MESSAGE),
    "prefixed, zstd": prefixed(zstandard.compress(MESSAGE), zstandard.compress(MESSAGE)),
    "delimited": delimited(MESSAGE, MESSAGE),
}
STARTS = (
    b"",
    b"{",
    b"[",
    b"\x0a",
    b"\x00\x00\x00\x05",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\x0a\x10\x12",
    b"\xef\xbb\xbf{",
)


def survives(folder: Path, content: bytes) -> tuple[int, list[Problem]]:
    try:
        read, problems = read_bytes(folder, content)
    except TraceFileError:
        return 0, []
    for _ in read_documents(folder / "traces", lambda _: None):
        pass
    return len(read), problems


@given(st.sampled_from(STARTS), st.binary(max_size=200))
@fresh
def test_random_bytes(tmp_path: Path, start: bytes, rest: bytes) -> None:
    survives(tmp_path, start + rest)


@given(st.sampled_from(sorted(WHOLE)), st.data())
@fresh
def test_files_that_were_damaged(tmp_path: Path, name: str, data: st.DataObject) -> None:
    damaged = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if how == "flip":
            damaged[at] ^= data.draw(st.integers(1, 255))
        elif how == "cut":
            del damaged[at + 1 :]
        elif how == "drop":
            del damaged[at : at + data.draw(st.integers(1, 9))]
            damaged = damaged or bytearray(b"x")
        else:
            damaged[at:at] = data.draw(st.binary(min_size=1, max_size=9))
    survives(tmp_path, bytes(damaged))


@pytest.mark.parametrize("name", WHOLE)
def test_files_cut_off_anywhere(tmp_path: Path, name: str) -> None:
    whole, problems = survives(tmp_path, WHOLE[name])
    assert (whole > 1, problems) == (True, [])
    for cut in range(1, len(WHOLE[name]), max(1, len(WHOLE[name]) // 60)):
        read, problems = survives(tmp_path, WHOLE[name][:cut])
        assert read <= whole
        assert problems or read in (0, whole // 2, whole)


def nested(depth: int) -> bytes:
    """An attribute value of lists in lists, as a message."""
    value = b"\x0a\x01x"
    for _ in range(depth):
        inner = b"\x0a" + varint(len(value)) + value
        value = b"\x2a" + varint(len(inner)) + inner
    return value


def attribute(key: bytes, value: bytes) -> bytes:
    pair = b"\x0a" + varint(len(key)) + key + b"\x12" + varint(len(value)) + value
    return b"\x4a" + varint(len(pair)) + pair


def request_of(span: bytes) -> bytes:
    for tag in (b"\x12", b"\x12", b"\x0a"):
        span = tag + varint(len(span)) + span
    return span


def test_deep_nesting_of_a_message_costs_that_value_alone(tmp_path: Path) -> None:
    span = b"\x0a\x10" + b"t" * 16 + b"\x12\x08" + b"s" * 8
    span += attribute(b"gen_ai.operation.name", b"\x0a\x0cexecute_tool") + attribute(b"gen_ai.tool.name", b"\x0a\x01f")
    span += attribute(b"gen_ai.tool.call.arguments", nested(2_000))
    [read], problems = read_bytes(tmp_path, request_of(span))
    assert (read.tool and read.tool.name, [problem.code for problem in problems]) == ("f", ["bad_span"])


@pytest.mark.parametrize("depth", [90, 900, 100_000])
def test_deep_nesting_of_json(tmp_path: Path, depth: int) -> None:
    deep = '{"arrayValue": {"values": [' * depth + '{"intValue": 1}' + "]}}" * depth
    text = as_line(TURN).decode().replace('{"stringValue": "get_weather"}', deep)
    read, problems = survives(tmp_path, text.encode() + as_line(TURN))
    assert read >= 3
    assert bool(problems) == (depth > 300)


@pytest.mark.parametrize(
    "content",
    [
        b"\x0a" + varint(2**62) + b"\x12",
        prefixed(MESSAGE) + b"\x08\xff\xff\xff" + b"\x0a\x00",
        delimited(MESSAGE) + varint(2**27) + b"\x0a\x00",
        MESSAGE + b"\x0a" + varint(2**27) + b"\x12",
        MESSAGE + b"\x12" + varint(2**27) + b"\x12",
        prefixed(*[zstandard.compress(bytes(30 << 20))] * 4),
        zstandard.compress(bytes(500 << 20)),
    ],
    ids=["all of it", "prefixed", "delimited", "bare", "unknown field", "messages of zeros", "file of zeros"],
)
def test_lengths_that_lie_take_no_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "traces"
    path.write_bytes(content)
    problems: list[Problem] = []
    tracemalloc.start()
    try:
        read = len(list(read_files([path], problems.append)))
    except TraceFileError:
        read = 0
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert read in (0, 2)
    assert peak < 100 << 20


def test_a_flood_of_broken_parts_is_counted_once_a_message(tmp_path: Path) -> None:
    span = b"\x12\x08" + b"s" * 8 + b"".join(attribute(b"gen_ai.%d" % n, b"\xff") for n in range(1_000))
    broken = span + b"".join(b"\x4a\x02\xff\xff" for _ in range(1_000))
    read, problems = read_bytes(tmp_path, prefixed(request_of(broken), request_of(broken)))
    assert len(read) == 2
    assert [problem.code for problem in problems] == ["bad_span"] * 2


def test_numbers_that_no_machine_has(tmp_path: Path) -> None:
    text = as_line(TURN).decode().replace('"stringValue": "get_weather"', f'"intValue": {10**4000}, "x": 1e999')
    read, problems = survives(tmp_path, text.encode())
    assert (read, problems) == (2, [])
    assert json.loads(text)


def test_a_line_without_an_end_takes_no_memory_and_no_other_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goldspan.mappers.readers.json_documents._MAX_TEXT", len(as_line(TURN)))
    monkeypatch.setattr("goldspan.mappers.readers.json_documents._CHUNK", 100)
    for endless in (b"x", b"[", b'{"a":'):
        content = as_line(TURN) + endless * 9_999 + b"\n" + as_line(TURN)
        read, problems = read_bytes(tmp_path, content)
        assert len(read) == 4
        assert [problem.source.rpartition(":")[2] for problem in problems] == ["2"]
        assert "longer than" in problems[0].message


def test_a_document_without_an_end_is_read_as_far_as_it_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps([TURN, TURN, TURN], indent=1)
    monkeypatch.setattr("goldspan.mappers.readers.json_documents._MAX_TEXT", len(text) // 2)
    read, problems = read_bytes(tmp_path, text.encode())
    assert 2 <= len(read) < 6
    assert [problem.code for problem in problems] == ["bad_json", "bad_json"]
