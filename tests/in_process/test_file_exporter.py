"""A trace file that an agent writes: read as it was recorded, whole whoever writes to it, and bounded."""

from __future__ import annotations

import fcntl
import json
import logging
import multiprocessing
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from goldspan.collector_processor import FileSpanExporter
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.spans import LogView
from rigs.in_process_rig import Logged
from rigs.otlp_containers import as_message, as_sdk_spans, requests_of
from rigs.repository import RECORDING_NAMES
from rigs.scripted_agent import PARIS, run_turn


def seen(path: Path) -> list[Any]:
    """Everything that a reader sees of each span of a file."""
    problems: list[Any] = []
    views = list(read_files([path], problems.append))
    assert problems == []
    return sorted(
        (
            (
                view.trace_id, view.span_id, view.parent_id, view.name, view.start, view.end, view.kind,
                view.parent_is_remote, view.status_code, view.status_message, view.scope_name,
                repr(dict(view.attributes)), repr(view.events), repr(view.links), repr(view.resource.attributes),
            )
            for view in views
            if not isinstance(view, LogView)
        ),
        key=repr,
    )  # fmt: skip


def rich_spans() -> list[ReadableSpan]:
    """Spans with everything that OTLP has a field for."""
    provider = TracerProvider(
        resource=Resource({"service.name": "agent", "numbers": [1, 2]}, schema_url="https://example.test/resource"),
        span_limits=SpanLimits(max_attributes=8, max_events=2, max_links=1),
        shutdown_on_exit=False,
    )
    kept = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("agents", "1.2", schema_url="https://example.test/scope", attributes={"a": 1})
    remote = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")]))
    with tracer.start_as_current_span("parent \u00e9\u2028\U0001f600", kind=SpanKind.SERVER):
        span = tracer.start_span("child", kind=SpanKind.CLIENT, links=[Link(remote, {"x": 1}), Link(remote)])
        span.set_attributes({"text": 'a "b"\n\\', "yes": True, "n": -(2**62), "f": 0.1, "nan": float("nan")})
        span.set_attributes({"many": ["x", "y"], "none": [], "bytes": b"\x00\xff"})
        for number in range(4):
            span.set_attribute(f"dropped-{number}", number)
            span.add_event(f"event-{number}", {"n": number})
        span.set_status(Status(StatusCode.ERROR, "broken"))
        span.end()
    return list(kept.get_finished_spans())


def read_back(path: Path) -> Any:
    """The file as protobuf."""
    [line] = path.read_text("utf-8").splitlines()
    return as_message(json.loads(line))


def test_every_field_of_a_span_is_in_the_file(tmp_path: Path) -> None:
    spans = rich_spans()
    path = tmp_path / "traces.jsonl"
    assert FileSpanExporter(path).export(spans) is SpanExportResult.SUCCESS
    # Not a number is not equal to itself: the texts are compared.
    assert json_format.MessageToDict(read_back(path)) == json_format.MessageToDict(encode_spans(spans))
    assert {one[3] for one in seen(path)} == {"parent \u00e9\u2028\U0001f600", "child"}


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_a_recording_is_read_from_the_file_as_from_the_recording(name: str, tmp_path: Path) -> None:
    written = tmp_path / "written.jsonl"
    exporter = FileSpanExporter(written)
    for request in requests_of(name):
        spans = as_sdk_spans(request)
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        assert read_back_last(written) == encode_spans(spans)
    assert len(seen(written)) == sum(len(as_sdk_spans(request)) for request in requests_of(name))


def read_back_last(path: Path) -> Any:
    return as_message(json.loads(path.read_text("utf-8").splitlines()[-1]))


def _write(path: Path, name: str, batches: int) -> None:
    exporter = FileSpanExporter(path)
    for number in range(batches):
        exporter.export(
            [
                ReadableSpan(
                    f"{name}-{number}",
                    context=SpanContext(1 + number, 1, is_remote=False),
                    attributes={"x": "y" * 20_000},
                )
            ]
        )


def test_processes_that_share_a_file_do_not_tear_each_other_s_lines(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write, args=(path, f"p{number}", 50)) for number in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    names = [one[3] for one in seen(path)]
    assert sorted(names) == sorted(f"p{number}-{batch}" for number in range(6) for batch in range(50))


def test_a_line_that_a_killed_process_left_open_ends_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"resourceSpans":[{"scopeSp')
    FileSpanExporter(path).export(rich_spans())
    torn, whole = path.read_bytes().splitlines()
    assert torn == b'{"resourceSpans":[{"scopeSp'
    assert as_message(json.loads(whole))


def test_a_file_that_is_moved_away_is_made_anew_and_folders_are_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "traces.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(rich_spans())
    path.rename(tmp_path / "yesterday.jsonl")
    exporter.export(rich_spans())
    assert len(seen(path)) == len(seen(tmp_path / "yesterday.jsonl")) == 2


@pytest.mark.parametrize("what", ["folder", "pipe", "below a file", "read only"])
def test_a_file_that_cannot_be_written_is_one_warning(what: str, tmp_path: Path, warnings_logged: Logged) -> None:
    path = tmp_path / "traces.jsonl"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "below a file":
        path.write_text("")
        path = path / "traces.jsonl"
    else:
        path = Path("/proc/version")
    exporter = FileSpanExporter(path)
    for _ in range(3):
        assert exporter.export(rich_spans()) is SpanExportResult.FAILURE
    [warning] = warnings_logged()
    assert str(path) in warning


def test_a_full_disk_leaves_no_part_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings_logged: Logged
) -> None:
    path = tmp_path / "traces.jsonl"
    exporter = FileSpanExporter(path)
    exporter.export(rich_spans())
    before, real = path.read_bytes(), os.write

    def full(file: int, data: bytes) -> int:
        if path.stat().st_size > len(before):
            raise OSError(28, "No space left on device")
        return real(file, data[:100])

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        assert exporter.export(rich_spans()) is SpanExportResult.FAILURE
    assert path.read_bytes() == before
    assert exporter.export(rich_spans()) is SpanExportResult.SUCCESS
    assert len(seen(path)) == 4
    [warning] = warnings_logged()
    assert "No space left on device" in warning


def test_the_file_does_not_grow_beyond_its_bound(tmp_path: Path, warnings_logged: Logged) -> None:
    path = tmp_path / "traces.jsonl"
    exporter = FileSpanExporter(path, max_bytes=10_000)
    while exporter.export(rich_spans()) is SpanExportResult.SUCCESS:
        assert path.stat().st_size <= 10_000
    assert path.stat().st_size > 5_000
    exporter.export(rich_spans())
    [warning] = warnings_logged()
    assert "max_bytes, 10,000" in warning


def test_a_span_that_cannot_be_encoded_does_not_take_its_neighbours_along(
    tmp_path: Path, warnings_logged: Logged
) -> None:
    path = tmp_path / "traces.jsonl"
    broken = ReadableSpan("broken", context=None)
    for _ in range(2):
        FileSpanExporter(path).export([*rich_spans(), broken])
    assert len(seen(path)) == 4
    assert len(warnings_logged()) == 2  # two exporters


def test_after_a_shutdown_nothing_is_written(tmp_path: Path) -> None:
    exporter = FileSpanExporter(tmp_path / "traces.jsonl")
    exporter.shutdown()
    assert exporter.force_flush()
    assert exporter.export(rich_spans()) is SpanExportResult.FAILURE
    assert not (tmp_path / "traces.jsonl").exists()


def test_another_process_that_keeps_the_lock_blocks_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings_logged: Logged
) -> None:
    monkeypatch.setattr("goldspan.collector_processor.in_process.file_exporter._LOCK_TIMEOUT", 0.05)
    path = tmp_path / "traces.jsonl"
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert FileSpanExporter(path).export(rich_spans()) is SpanExportResult.FAILURE
    assert "another process has locked it" in warnings_logged()[0]
    assert FileSpanExporter(path).export(rich_spans()) is SpanExportResult.SUCCESS


@pytest.mark.parametrize(
    ("variables", "file"), [({}, "traces.jsonl"), ({"GOLDSPAN_TRACE_FILE": "a/b.jsonl"}, "a/b.jsonl")]
)
def test_the_exporter_is_found_by_its_name_and_takes_its_file_from_the_environment(
    variables: dict[str, str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    [entry] = entry_points(group="opentelemetry_traces_exporter", name="goldspan_file")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(entry.load()()))
    run_turn(provider.get_tracer("agent"), "sess-1", [PARIS])
    provider.force_flush()
    assert len(seen(tmp_path / file)) == 4
    provider.shutdown()


def test_a_traced_script_a_golden_made_of_it_and_its_score(tmp_path: Path) -> None:
    script = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from goldspan.collector_processor import FileSpanExporter
from rigs.scripted_agent import PARIS, run_turn
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter("traces.jsonl")))
run_turn(provider.get_tracer("agent"), "trip-1", [PARIS])
"""
    tests = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": tests}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)

    def goldspan(*arguments: str) -> str:
        command = [sys.executable, "-m", "goldspan.collector_processor.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    (tmp_path / "goldens.yaml").write_text(goldspan("goldens", "record", "traces.jsonl"), "utf-8")
    assert "passed" in goldspan("score", "traces.jsonl", "--goldens", "goldens.yaml")


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="goldspan")
