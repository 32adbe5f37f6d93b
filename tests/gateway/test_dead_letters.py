"""Dead letters: which requests are kept, and which are deleted when there are too many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goldspan.collector_processor.gateway.deliver.outbox import DeadLetters
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal


def bodies(folder: Path) -> list[bytes]:
    """The kept bodies, oldest first; each has its reason beside it."""
    kept = sorted(folder.glob("*.pb"))
    assert [path.with_suffix(".json") for path in kept] == sorted(folder.glob("*.json"))
    return [path.read_bytes() for path in kept]


def test_beyond_the_bound_in_bytes_the_oldest_are_deleted(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path, max_files=100, max_bytes=10)
    for number, body in enumerate((b"aaaa", b"bbbb", b"cc", b"d")):
        letters.put(ExportRequest(Signal.TRACES, body), "refused", float(number))
    assert bodies(tmp_path) == [b"bbbb", b"cc", b"d"]
    letters.put(ExportRequest(Signal.TRACES, b"eeeeeeeee"), "refused", 9.0)
    assert bodies(tmp_path) == [b"d", b"eeeeeeeee"]
    assert (letters.written, letters.dropped) == (5, 3)


def test_exactly_the_bound_in_bytes_may_be_kept(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path, max_files=100, max_bytes=8)
    for number, body in enumerate((b"aaaa", b"bbbb")):
        letters.put(ExportRequest(Signal.LOGS, body), "refused", float(number))
    assert bodies(tmp_path) == [b"aaaa", b"bbbb"]
    assert letters.dropped == 0


def test_a_request_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path, max_files=100, max_bytes=3)
    letters.put(ExportRequest(Signal.TRACES, b"four"), "refused", 0.0)
    assert bodies(tmp_path) == []
    assert (letters.written, letters.dropped) == (1, 1)


def test_beyond_the_bound_in_requests_the_oldest_are_deleted(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path, max_files=2, max_bytes=1000)
    for number in range(4):
        letters.put(ExportRequest(Signal.TRACES, b"%d" % number), "refused", 1.0)
    assert bodies(tmp_path) == [b"2", b"3"]


def test_the_reason_names_headers_without_their_values(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path, max_files=2, max_bytes=1000)
    letters.put(ExportRequest(Signal.METRICS, b"body", (("authorization", "secret"),)), "not ours", 1.0)
    [path] = tmp_path.glob("*.json")
    assert json.loads(path.read_text("utf-8")) == {
        "signal": "metrics",
        "bytes": 4,
        "headers": ["authorization"],
        "reason": "not ours",
    }


def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    letters = DeadLetters(tmp_path / "file", max_files=2, max_bytes=1000)
    with pytest.raises(OSError, match="exists"):
        letters.put(ExportRequest(Signal.TRACES, b"body"), "refused", 1.0)
    assert letters.written == 0
