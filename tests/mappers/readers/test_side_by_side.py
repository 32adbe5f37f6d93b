"""Files of log records beside files of spans: read at one pace, whatever holds them."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files, starts_with_logs
from goldspan.mappers.spans import LogView
from goldspan.scoring import load_goldens
from goldspan.scoring.verdict import Label
from rigs.otlp_containers import as_message
from rigs.otlp_logs import as_logs_data
from rigs.otlp_requests import prefixed

COUNT = 2_500
NOISE = random.Random(1)


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def padding() -> dict[str, Any]:
    """Something that does not get smaller when it is compressed."""
    return text("padding", NOISE.randbytes(200).hex())


def turn(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Requests of an agent's spans and of its log records: what it passed to its tool is in the latter only."""
    trace = f"{number + 1:032x}"

    def span(own: str, parent: str, start: int, *attributes: dict[str, Any]) -> dict[str, Any]:
        times = {"startTimeUnixNano": str(number * 100 + start), "endTimeUnixNano": str(number * 100 + start + 5)}
        ids = {"traceId": trace, "spanId": own * 16, "parentSpanId": parent * 16}
        return {**ids, **times, "name": own, "attributes": [*attributes, padding()]}

    operation = "gen_ai.operation.name"
    session = text("gen_ai.conversation.id", f"s-{number}")
    tool = (text("gen_ai.tool.name", "f"), text("gen_ai.tool.call.id", "c"))
    spans = [
        span("b", "a", 10, text(operation, "chat")),
        span("c", "a", 20, text(operation, "execute_tool"), *tool),
        span("a", "", 1, text(operation, "invoke_agent"), session),
    ]
    call = {"id": "c", "function": {"name": "f", "arguments": json.dumps({"x": 1})}}
    record = {
        "traceId": trace,
        "spanId": "b" * 16,
        "observedTimeUnixNano": str(number * 100 + 15),
        "eventName": "gen_ai.choice",
        "body": {"stringValue": json.dumps({"message": {"tool_calls": [call]}})},
        "attributes": [padding()],
    }
    return (
        [{"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]} for one in spans],
        [{"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}],
    )


TURNS = [turn(number) for number in range(COUNT)]
SPANS = [request for spans, _ in TURNS for request in spans]
LOGS = [request for _, logs in TURNS for request in logs]


def lines(requests: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def protobuf(requests: list[dict[str, Any]]) -> bytes:
    kind = as_message if "resourceSpans" in requests[0] else as_logs_data
    return prefixed(*(kind(request).SerializeToString() for request in requests))


FORMATS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "lines": lines,
    "gzip": lambda requests: gzip.compress(lines(requests), 1),
    "protobuf": protobuf,
}


def written(folder: Path, kind: str, rotated: bool) -> tuple[list[Path], list[Path]]:
    write = FORMATS[kind]
    half = len(SPANS) // 2
    parts = {"spans-1": SPANS[:half], "spans-2": SPANS[half:]} if rotated else {"spans": SPANS}
    for name, requests in {**parts, "logs": LOGS}.items():
        (folder / name).write_bytes(write(requests))
    return [folder / name for name in parts], [folder / "logs"]


def trace_number(view: Any) -> int:
    return int(view.trace_id, 16)


@pytest.mark.parametrize("logs_first", [False, True])
@pytest.mark.parametrize(("kind", "rotated"), [("lines", False), ("lines", True), ("gzip", False), ("protobuf", False)])
def test_what_belongs_together_comes_together(tmp_path: Path, kind: str, rotated: bool, logs_first: bool) -> None:
    spans, logs = written(tmp_path, kind, rotated)
    read = 0

    def on_bytes(count: int) -> None:
        nonlocal read
        read += count

    paths = [*logs, *spans] if logs_first else [*spans, *logs]
    newest = {True: 0, False: 0}
    apart = 0
    views = list(read_files(paths, pytest.fail, on_bytes))
    for view in views:
        newest[isinstance(view, LogView)] = trace_number(view)
        apart = max(apart, abs(newest[True] - newest[False]))
    assert len(views) == len(SPANS) + len(LOGS)
    assert apart < COUNT // 2
    assert read == sum(path.stat().st_size for path in paths)


def test_a_directory_is_read_so_too(tmp_path: Path) -> None:
    written(tmp_path, "lines", rotated=True)
    kinds = [isinstance(view, LogView) for view in read_files([tmp_path], pytest.fail)]
    assert (kinds.count(True), kinds.count(False)) == (len(LOGS), len(SPANS))
    in_the_first_half = kinds[: len(kinds) // 2].count(True)
    assert COUNT // 4 < in_the_first_half < COUNT * 3 // 4


@pytest.mark.parametrize("logs_first", [False, True])
def test_memory_for_a_part_of_it_is_enough(tmp_path: Path, logs_first: bool) -> None:
    """A session of which nothing came for a while is judged and forgotten: its log records must have come by then."""
    spans, logs = written(tmp_path, "lines", rotated=False)
    golden = {"session_pattern": "s-*", "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}]}
    goldens = load_goldens({"format": 1, "golden_set": "g", "goldens": [golden]})
    paths = [*logs, *spans] if logs_first else [*spans, *logs]
    views = read_files(paths, pytest.fail)
    found = replay(views, goldens, DialectRegistry(), problems=[], quiet_spans=COUNT)
    assert len(found.result.sessions) == COUNT
    assert {one.verdict.label for one in found.result.sessions} == {Label.PASS}


def test_a_file_is_only_looked_at_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, [logs]) = written(tmp_path, "lines", rotated=False)
    monkeypatch.setattr("goldspan.mappers.readers.files._holds_logs", pytest.fail)
    assert [isinstance(view, LogView) for view in read_files([logs], pytest.fail)] == [True] * len(LOGS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_can_be_read_only_once_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "logs").write_bytes(lines(LOGS[:10]))
    writer = threading.Thread(target=lambda: pipe.write_bytes(lines(SPANS[:30])))
    writer.start()
    views = list(read_files([pipe, tmp_path / "logs"], pytest.fail))
    writer.join()
    assert len(views) == 40


@pytest.mark.parametrize(
    ("head", "logs"),
    [
        (b'{"resourceLogs": [', True),
        (b'{"resource_logs" :[', True),
        (b'{"scopeLogs":[{"logRecords":[', True),
        (b'[{"logRecords":[', True),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"value":"\\"resourceLogs\\":"', False),
        (b'{"resourceSpans":[],"resourceLogs":[', False),
        (b'{"data":[{"spans":[', False),
        (b'{"batches":[', False),
        (b"", False),
        (b"resourceLogs", False),
    ],
)
def test_files_of_logs_are_told_by_how_they_start(head: bytes, logs: bool) -> None:
    assert starts_with_logs(head) is logs
