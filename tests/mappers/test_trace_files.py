"""Trace files: told apart by content, read as far as they are good, and named where they are not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers.readers.files import read_files
from goldspan.scoring.errors import Problem, TraceFileError
from rigs.repository import RECORDINGS

Write = Callable[[str | bytes], Path]


def span(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "traceId": "a" * 32, "spanId": format(sum(map(ord, name)), "016x"), **more}


def request(*spans: Any) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}]}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "traces.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(*paths: Path) -> tuple[list[str], list[Problem]]:
    problems: list[Problem] = []
    return [view.name for view in read_files(paths, problems.append)], problems


ONE, TWO = json.dumps(request(span("a"), span("b"))), json.dumps(request(span("c")))


@pytest.mark.parametrize(
    "content",
    [
        f"{ONE}\n{TWO}\n",
        f"\n\n{ONE}\n\n\n{TWO}",
        json.dumps(request(span("a"), span("b"), span("c"))),
        json.dumps(request(span("a"), span("b"), span("c")), indent=2),
        json.dumps([request(span("a"), span("b")), request(span("c"))]),
        json.dumps([span("a"), span("b"), span("c")], indent=1),
        f"[\n{json.dumps(span('a'))},\n{json.dumps(span('b'))},\n{json.dumps(span('c'))}\n]",
        "\n".join(json.dumps(span(name)) for name in "abc"),
        f"{json.dumps(request(span('a'), span('b')), indent=2)}\n{json.dumps(request(span('c')), indent=2)}",
        b"\xef\xbb\xbf" + f"{ONE}\n{TWO}".encode(),
        b"\xef\xbb\xbf" + json.dumps(request(span("a"), span("b"), span("c")), indent=2).encode(),
        gzip.compress(f"{ONE}\n{TWO}".encode()),
        f"{ONE}\r\n{TWO}\r\n",
    ],
    ids=[
        "lines",
        "blank lines",
        "document",
        "pretty document",
        "list of requests",
        "pretty list of spans",
        "list, a span a line",
        "spans as lines",
        "pretty documents in a row",
        "lines with a byte order mark",
        "document with a byte order mark",
        "gzip",
        "windows",
    ],
)
def test_every_layout_is_read(write: Write, content: str | bytes) -> None:
    assert read(write(content)) == (["a", "b", "c"], [])


@pytest.mark.parametrize(
    ("content", "names", "line"),
    [
        (f"{ONE}\n{TWO[:-40]}", ["a", "b"], 2),
        (f"{ONE}\nnot json\n{TWO}\n", ["a", "b", "c"], 2),
        (f"{ONE[:20]}\n{TWO}\n{ONE}\n", ["c", "a", "b"], 1),
        (f"a log line\n{ONE}\n", ["a", "b"], 1),
        (f"a log line\n\nanother\n{ONE}\n", ["a", "b"], 1),
        (f"{ONE}\n" + "[" * 100_000 + "\n" + TWO, ["a", "b", "c"], 2),
        (ONE.encode() + b'\n{"name": "\xff\xfe"}\n' + TWO.encode(), ["a", "b", "c"], 2),
    ],
    ids=["torn last line", "bad line", "torn first line", "a word before", "words before", "bottomless", "not UTF-8"],
)
def test_what_is_good_beside_a_bad_line_is_read(
    write: Write, content: str | bytes, names: list[str], line: int
) -> None:
    path = write(content)
    found, problems = read(path)
    assert found == names
    assert problems[0].code == "bad_json"
    assert problems[0].source == f"{path}:{line}"


@pytest.mark.parametrize("indent", [None, 2])
def test_whole_spans_of_a_truncated_document_are_read(write: Write, indent: int | None) -> None:
    text = json.dumps(request(span("a"), span("b"), span("c", events=[{"name": "cut here"}])), indent=indent)
    path = write(text[: text.index("cut here")])
    problems: list[Problem] = []
    views = list(read_files([path], problems.append))
    assert [view.name for view in views] == ["a", "b"]
    assert views[0].resource.attributes == {"service.name": "agent"}
    assert views[0].scope_name == "s"
    assert [problem.code for problem in problems] == ["bad_json"]


def test_text_that_looks_like_spans_inside_a_broken_line_is_not_read(write: Write) -> None:
    inner = {"key": "input", "value": {"stringValue": json.dumps(request(span("forged")))}}
    torn = json.dumps(request(span("a", attributes=[inner]), span("b")))[:-30]
    assert read(write(f"{ONE}\n{torn}"))[0] == ["a", "b", "a"]


@pytest.mark.parametrize("cut", range(0, 5000, 61))
def test_a_recording_cut_anywhere_yields_a_prefix_of_its_spans(write: Write, cut: int) -> None:
    whole = (RECORDINGS / "google-adk-v2-span.otlp.json").read_bytes()
    names, problems = read(RECORDINGS / "google-adk-v2-span.otlp.json")
    try:
        found, problems = read(write(whole[: len(whole) - 1 - cut * 9]))
    except TraceFileError:
        return
    assert found == names[: len(found)]
    assert problems or found == names


@pytest.mark.parametrize(
    "bad",
    [None, 3, "text", [], ["x"], True],
)
@pytest.mark.parametrize("place", ["span", "spans", "scopeSpans", "resourceSpans", "attributes"])
def test_a_wrong_type_anywhere_costs_no_other_span(write: Write, place: str, bad: Any) -> None:
    documents = {
        "span": request(span("a"), bad, span("b")),
        "spans": {"resourceSpans": [{"scopeSpans": [{"spans": bad}]}, *request(span("a"), span("b"))["resourceSpans"]]},
        "scopeSpans": {"resourceSpans": [{"scopeSpans": bad}, *request(span("a"), span("b"))["resourceSpans"]]},
        "resourceSpans": [{"resourceSpans": bad}, request(span("a"), span("b"))],
        "attributes": request(span("a", attributes=bad), span("b")),
    }
    found, problems = read(write(json.dumps(documents[place])))
    assert [name for name in found if name in ("a", "b")] == ["a", "b"]
    assert all(problem.source.endswith("traces.json:1") for problem in problems)
    harmless = bad in (None, []) or (place == "attributes" and isinstance(bad, list)) or place == "resourceSpans"
    assert problems or (harmless and not (place == "span" and bad != {}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected OTLP/JSON"),
        ("\n \n", "is empty; expected OTLP/JSON"),
        ("hello\n", "found text that starts with 'hello'; expected OTLP/JSON"),
        (b"\x0a\x82\x01\x00\x01binary", "found binary data; expected OTLP/JSON"),
        ("{}", "holds JSON without spans; expected OTLP/JSON"),
        ('{"level": "info"}\n{"level": "warn"}', "holds JSON without spans"),
        ('{"resourceSpans": [{"sco', "is not whole JSON: "),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x1f\x8b\x08 no gzip", "cannot be read further: "),
        (ONE.encode("utf-16"), "found UTF-16 text: save the file as UTF-8"),
        ("[" * 5000, "is not whole JSON: nested too deeply"),
    ],
)
def test_a_file_without_a_record_is_an_error_that_says_what_was_found(
    write: Write, content: str | bytes, message: str
) -> None:
    path = write(content)
    with pytest.raises(TraceFileError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_every_unreadable_file_is_named_before_anything_is_read(tmp_path: Path, write: Write) -> None:
    (tmp_path / "empty").mkdir()
    views = read_files([write(ONE), tmp_path / "empty", tmp_path / "missing"], lambda problem: None)
    with pytest.raises(TraceFileError) as error:
        next(views)
    assert len(error.value.mistakes) == 2
    assert "holds no trace file" in str(error.value)
    assert "missing: cannot be opened: No such file" in str(error.value)


def test_files_beside_an_empty_one_are_read_before_it_is_named(tmp_path: Path, write: Write) -> None:
    (tmp_path / "empty").write_bytes(b"")
    views = read_files([tmp_path / "empty", write(ONE)], lambda problem: None)
    assert [next(views).name, next(views).name] == ["a", "b"]
    with pytest.raises(TraceFileError, match="empty"):
        next(views)


def test_a_damaged_gzip_file_is_read_as_far_as_it_goes(write: Write) -> None:
    lines = "\n".join(json.dumps(request(span(f"{number}"))) for number in range(2000))
    found, problems = read(write(gzip.compress(lines.encode())[:-2000]))
    assert found
    assert [problem.code for problem in problems] == ["bad_stream", "bad_json"]
    assert problems[0].message.startswith("cannot be read further")


def test_logs_and_metrics_are_records_but_no_spans(write: Write) -> None:
    assert read(write('{"resourceLogs": []}\n{"resourceMetrics": []}')) == ([], [])


def test_lines_are_not_read_ahead(write: Write) -> None:
    path = write(f"{ONE}\n" + "not json\n" * 100)
    problems: list[Problem] = []
    views = read_files([path], problems.append)
    assert next(views).name == "a"
    assert problems == []
