"""Where traces come from: compressed files, directories, rotated files, pipes, standard input."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
import zstandard

from goldspan.mappers import TelemetryWarning, read_sessions
from goldspan.mappers.readers.files import read_files, trace_files_in
from goldspan.scoring.errors import Problem, TraceFileError
from goldspan.scoring.sessions import Session
from rigs.otlp_requests import as_line, facts, message_of, prefixed, read_bytes
from rigs.trace_requests import turn_request

TURNS = [turn_request("sess-1", ("get_weather", {"turn": turn}), turn=turn) for turn in range(3)]
LINES = b"".join(map(as_line, TURNS))
SPANS = facts(TURNS)
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip members": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "zstd": zstandard.compress,
    "zstd frames": lambda data: zstandard.compress(data[:100]) + zstandard.compress(data[100:]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["traces.json", "traces.gz", "traces.zst", "traces"])
def test_content_says_what_a_file_is_and_its_name_does_not(tmp_path: Path, form: str, name: str) -> None:
    assert read_bytes(tmp_path, FORMS[form](LINES), name) == (SPANS, [])


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_compressed_file_that_breaks_off_is_read_up_to_there(tmp_path: Path, form: str) -> None:
    noise = b"".join(as_line(turn_request(f"sess-{n}", ("f", {"n": os.urandom(40).hex()}))) for n in range(3000))
    whole = FORMS[form](LINES + noise)
    read, problems = read_bytes(tmp_path, whole[: len(whole) // 2])
    assert read[: len(SPANS)] == SPANS
    assert len(read) > 1000
    assert [problem.code for problem in problems] == ["bad_stream", "bad_json"]


@pytest.mark.parametrize("magic", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
def test_what_only_starts_like_a_compressed_file_is_an_error(tmp_path: Path, magic: bytes) -> None:
    with pytest.raises(TraceFileError, match="cannot be read further"):
        read_bytes(tmp_path, magic + b"nonsense" * 9)


def without_zstandard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)


@pytest.mark.parametrize("content", [zstandard.compress(LINES), prefixed(zstandard.compress(LINES))])
def test_zstd_without_its_extra_names_the_extra_and_reads_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "a.zst").write_bytes(content)
    (tmp_path / "b.jsonl").write_bytes(LINES)
    without_zstandard(monkeypatch)
    views = read_files([tmp_path / "a.zst", tmp_path / "b.jsonl"], pytest.fail)
    assert [next(views).span_id for _ in SPANS] == [fact.span_id for fact in SPANS]
    with pytest.raises(TraceFileError, match=r"a\.zst: .*pip install 'goldspan\[zstd\]'") as error:
        next(views)
    assert len(error.value.mistakes) == 1


def test_zstd_without_its_extra_in_a_directory_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.zst").write_bytes(zstandard.compress(LINES))
    (tmp_path / "b.jsonl").write_bytes(LINES)
    without_zstandard(monkeypatch)
    problems: list[Problem] = []
    assert len(list(read_files([tmp_path], problems.append))) == len(SPANS)
    assert [(problem.code, Path(problem.source).name) for problem in problems] == [("no_record", "a.zst")]


def rotated(folder: Path) -> list[Path]:
    """A Collector's files as its rotation leaves them, of one conversation."""
    names = ("traces-2026-02-16T10-00-00.000.json", "traces-2026-02-16T11-00-00.000.json.gz", "traces.json")
    contents = (as_line(TURNS[0]), gzip.compress(as_line(TURNS[1])), as_line(TURNS[2]))
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    return [folder / name for name in names]


def turns_of(sessions: list[Session]) -> list[list[object]]:
    return [[turn.calls[0].arguments for turn in session.turns] for session in sessions]


def test_rotated_files_are_one_conversation_in_any_order(tmp_path: Path) -> None:
    expected = [[{"turn": 0}, {"turn": 1}, {"turn": 2}]]
    for order in permutations(rotated(tmp_path)):
        assert turns_of(read_sessions(order)) == expected
    assert turns_of(read_sessions(tmp_path)) == expected


def test_problems_that_nobody_collects_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(as_line(TURNS[0]) + b"{torn\n" + b"[]]\n" + as_line(TURNS[1]))
    problems: list[Problem] = []
    collected = read_sessions(path, on_problem=problems.append)
    assert len(problems) == 2
    with pytest.warns(TelemetryWarning) as caught:
        assert read_sessions([path]) == collected
    [warning] = caught
    assert str(warning.message).startswith(f"2 problems in the telemetry, the first: {problems[0]}; ")
    assert "on_problem=" in str(warning.message)
    assert warning.filename == __file__


def test_what_holds_no_spans_is_said_to_be_none() -> None:
    with pytest.warns(TelemetryWarning, match=r"1 problem .*expected a span or log record, an OTLP .* or a path"):
        assert read_sessions(42) == []


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    [first, *_] = rotated(tmp_path)
    assert len(list(read_files([first, first], pytest.fail))) == 2


def test_a_directory_is_every_trace_file_in_it_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "b/traces.pb": message_of(TURNS[0]).SerializeToString(),
        "a.log": LINES,
        "c/d/e.json.zst": zstandard.compress(LINES),
        ".hidden/traces.json": LINES,
        "c/.traces.json.swp": LINES,
        "notes.txt": b"weather agent\n",
        "goldens.yaml": b"format: 1\n",
        "image.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
        "empty": b"",
        "settings.json": b'{"format": 1}',
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = [str(path.relative_to(tmp_path)) for path in trace_files_in(tmp_path)]
    assert found == ["a.log", "b/traces.pb", "c/d/e.json.zst", "settings.json"]
    problems: list[Problem] = []
    assert len(list(read_files([tmp_path], problems.append))) == 2 * len(SPANS) + 2
    assert [Path(problem.source.partition(":")[0]).name for problem in problems] == ["settings.json"] * 2
    assert [problem.code for problem in problems] == ["bad_record", "no_record"]


def test_a_directory_without_a_trace_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(TraceFileError, match="holds no trace file; expected OTLP/JSON"):
        next(read_files([tmp_path], pytest.fail))


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FORMS[form](LINES))))
    assert facts("-") == SPANS


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are not there")
def test_a_pipe_is_opened_once_and_read_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for start in range(0, len(LINES), 7):
                file.write(LINES[start : start + 7])

    writer = threading.Thread(target=write)
    writer.start()
    assert facts(pipe) == SPANS
    writer.join()


@pytest.mark.parametrize("form", FORMS)
def test_progress_adds_up_to_the_size_of_the_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "traces"
    path.write_bytes(FORMS[form](LINES))
    read: list[int] = []
    assert len(list(read_files([path], pytest.fail, read.append))) == len(SPANS)
    assert sum(read) == path.stat().st_size


def test_a_document_and_its_line_are_alike(tmp_path: Path) -> None:
    for indent in (None, 2):
        assert read_bytes(tmp_path, json.dumps(TURNS[0], indent=indent).encode()) == (SPANS[:2], [])
    documents = "\n".join(json.dumps(turn, indent=2) for turn in TURNS)
    assert read_bytes(tmp_path, documents.encode()) == (SPANS, [])
