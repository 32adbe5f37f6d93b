"""A disk that is full, that cannot be read for a while, or that changes bits: nothing acknowledged is lost silently."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.deliver.outbox import DeadLetters
from goldspan.collector_processor.gateway.interfaces import Accepted, Delivered, ExportRequest, Retry
from goldspan.collector_processor.gateway.journal.body_log import BodyGoneError, BodyLog, LogFullError
from goldspan.collector_processor.gateway.journal.journal import Changes, Journal, decode_refs, encode_refs
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.sessions import SpanRef
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import QUICK, Downstream, everything, spans_in
from rigs.trace_requests import plain_request, turn_request
from rigs.waiting import until

MEBIBYTE = 1 << 20
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def request(number: int, size: int = 0) -> ExportRequest:
    message = as_message(turn_request(f"s-{number}", ("f", {"x": number})))
    if size:
        span = message.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="ballast").value.bytes_value = random.Random(number).randbytes(size)
    return ExportRequest(Signal.TRACES, message.SerializeToString())


def ids(requests: list[ExportRequest]) -> set[bytes]:
    return {span.span_id for span in spans_in(one.body for one in requests)}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)]
    if sys.platform != "linux" or not ROOT or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root on Linux can mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - anything else is a failure


@pytest.mark.parametrize("by", ["journal", "other program"])
@pytest.mark.parametrize("crash", [False, True])
def test_what_was_acknowledged_leaves_a_full_disk(by: str, crash: bool, small_disk: Path) -> None:
    away = [True]
    downstream = Downstream(lambda request: Retry(0.1, "away") if away else Delivered())
    settings = PipelineSettings(engine=QUICK, journal=small_disk / "journal", max_memory=MEBIBYTE)
    pipeline = GatewayPipeline(everything(), downstream, settings)
    sent: list[ExportRequest] = []
    for number in range(3000):
        if by == "other program" and number == 100:
            fill(small_disk / "other")
        one = request(number, 20_000)
        if not isinstance(pipeline.accept(one), Accepted):
            break
        sent.append(one)
    until(lambda: pipeline.not_ready_reason() is not None)
    if crash:
        pipeline.drain(5.0)
        assert f"wait in {small_disk / 'journal'}" in pipeline.what_waits()
        pipeline = GatewayPipeline(everything(), downstream, settings)
    away.clear()
    until(lambda: ids(sent) <= {span.span_id for span in downstream.spans()}, 60.0)
    (small_disk / "other").unlink(missing_ok=True)
    until(lambda: pipeline.not_ready_reason() is None, 30.0)
    assert pipeline.accept(request(9999)) == Accepted()
    assert pipeline.drain(30.0), pipeline.what_waits()
    assert len(sent) >= 100


def test_changes_without_room_leave_room_for_rows_to_be_deleted(small_disk: Path) -> None:
    folder = small_disk / "journal"
    journal = Journal(folder, max_bytes=64 * MEBIBYTE)
    journal.recover(0.0)
    kept = {number: request(number, 200_000) for number in range(5)}
    journal.commit(Changes(outgoing=dict(kept)), 0.0)
    fill(small_disk / "other")
    for _ in range(3):
        with pytest.raises(OSError, match=r"room|full"):
            journal.commit(Changes(outgoing={100: request(100, 2_000_000)}), 0.0)
    assert os.statvfs(small_disk).f_bavail
    shutil.copytree(folder, small_disk.parent / "left")  # as a kill leaves it
    for number in kept:
        journal.commit(Changes(delivered={number}), 0.0)
    journal.close()
    for where, rows in ((folder, {}), (small_disk.parent / "left", kept)):
        after = Journal(where, max_bytes=64 * MEBIBYTE)
        found = after.recover(0.0)
        assert {one.id: after.outgoing_body(one.id) for one in found.outgoing} == {
            number: one.body for number, one in rows.items()
        }
        assert not found.problems
        after.close()


@pytest.mark.parametrize("size", [0, 20_000, 1_000_000])
def test_a_disk_that_was_full_is_ready_once_a_request_would_be_accepted(size: int, small_disk: Path) -> None:
    journal = Journal(small_disk / "journal", max_bytes=64 * MEBIBYTE)
    journal.recover(0.0)
    one, kept = request(1, size), set[int]()
    with pytest.raises(OSError, match=r"room|full"):  # noqa: PT012 - how many have room is not known
        for start in itertools.count(step=(several := 1 + 100_000 // (size + 400))):
            some = range(start, start + several)
            journal.commit(Changes(outgoing=dict.fromkeys(some, one)), 0.0)
            kept.update(some)
    journal.commit(Changes(), 0.0)
    journal.check_room(now=True)
    assert journal.not_ready_reason
    with pytest.raises(LogFullError):
        journal.append(one, 1.0)
    for half in (0, 1):  # the first leaves gaps everywhere
        journal.commit(Changes(delivered={number for number in kept if number % 2 == half}), 0.0)
        journal.check_room(now=True)
        journal.check_room(now=True)
    assert journal.not_ready_reason is None
    journal.append(one, 1.0)
    journal.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ENOMEM])
def test_a_body_that_cannot_be_read_is_tried_again(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, broken = [True], [True]
    real = os.pread
    downstream = Downstream(lambda request: Retry(0.1, "away") if away else Delivered())
    settings = PipelineSettings(engine=QUICK, journal=tmp_path, max_memory=1)
    pipeline = GatewayPipeline(everything(), downstream, settings)

    def fails(file: int, size: int, offset: int) -> bytes:
        if broken:
            raise OSError(number, os.strerror(number))
        return real(file, size, offset)

    monkeypatch.setattr(os, "pread", fails)
    sent = [
        ExportRequest(Signal.TRACES, as_message(plain_request(f"p-{one}")).SerializeToString()) for one in range(20)
    ]
    for one in sent:
        assert pipeline.accept(one) == Accepted()
    away.clear()
    until(lambda: pipeline.failures["journal"] > 3)
    broken.clear()
    until(lambda: ids(sent) <= {span.span_id for span in downstream.spans()})
    assert pipeline.drain(20.0)
    assert pipeline.worker.outbox.refused.total() == 0


@pytest.mark.parametrize("fails", [3, 10**9])
def test_bodies_that_cannot_be_read_at_the_start_are_read_soon_or_said_to_wait(
    fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PipelineSettings(engine=QUICK, journal=tmp_path)
    before = GatewayPipeline(everything(), Downstream(lambda _: Retry(0.1, "away")), settings)
    assert before.accept(request(1)) == Accepted()
    assert not before.drain(0.5)
    log_class: Any = BodyLog
    real, left = log_class._read, [fails]

    def read(log: object, segment: object) -> Iterator[Any]:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(log, segment)

    monkeypatch.setattr(log_class, "_read", read)
    downstream = Downstream()
    after = GatewayPipeline(everything(), downstream, settings)
    until(lambda: fails > 3 or bool(downstream.requests))
    assert after.drain(10.0) is (fails == 3)
    assert ("1 requests wait" in after.what_waits()) is (fails > 3)


def test_only_a_body_that_was_cut_off_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path, max_bytes=MEBIBYTE)
    journal.recover(0.0)
    entry = journal.append(request(1), 1.0)
    content = entry.segment.read_bytes()
    entry.segment.write_bytes(
        content[: entry.offset] + bytes([content[entry.offset] ^ 1]) + content[entry.offset + 1 :]
    )
    with pytest.raises(OSError, match="other bytes"):
        journal.body(entry)
    entry.segment.write_bytes(content)
    assert journal.body(entry) == request(1).body
    entry.segment.write_bytes(content[: entry.offset])
    with pytest.raises(BodyGoneError, match="shorter"):
        journal.body(entry)
    with pytest.raises(BodyGoneError):
        journal.outgoing_body(7)


@pytest.mark.parametrize("lengths", [(32, 16), (16, 16), (32, 8), (14, 6), (0, 16), (600, 16), (15, 3)])
def test_ids_of_any_length_are_kept(lengths: tuple[int, int]) -> None:
    refs = {SpanRef("a" * lengths[0], "b" * lengths[1]), SpanRef("c" * 32, "d" * 16)}
    assert decode_refs(encode_refs(refs)) == refs
    assert decode_refs(bytes(range(24))) == {SpanRef(bytes(range(16)).hex(), bytes(range(16, 24)).hex())}


def test_only_the_owner_may_read_what_was_received(tmp_path: Path) -> None:
    folder, letters = tmp_path / "journal", tmp_path / "letters"
    for one in (folder, letters):
        one.mkdir(mode=0o755)
    (folder / "state.db").touch(mode=0o644)
    journal = Journal(folder, max_bytes=MEBIBYTE)
    journal.recover(0.0)
    journal.append(request(1), 1.0)
    journal.commit(Changes(outgoing={1: request(2)}), 0.0)
    DeadLetters(letters, max_files=2, max_bytes=1000).put(request(1), "refused", 1.0)
    assert {path.stat().st_mode & 0o777 for path in (folder, letters)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in (*folder.iterdir(), *letters.iterdir())} == {0o600}


def left_behind(folder: Path) -> set[bytes]:
    """Keep 40 requests in a journal, as rows and as bodies, and let it go as by a kill; return the bodies."""
    journal = Journal(folder / "live", max_bytes=64 * MEBIBYTE)
    journal.recover(0.0)
    kept: set[bytes] = set()
    for number in range(40):
        entry = journal.append(request(number, 2000), 1.0)
        kept.add(request(number, 2000).body)
        if number % 2:
            journal.commit(Changes(done={entry.number}, outgoing={number: request(number, 2000)}), 0.0)
    shutil.copytree(folder / "live", folder / "left")
    journal.close()
    return kept


@pytest.mark.parametrize("files", ["state.db-wal", "state.db*", "*"])
@pytest.mark.parametrize("seed", range(12))
def test_flipped_bits_stop_no_start_and_what_is_lost_is_said(files: str, seed: int, tmp_path: Path) -> None:
    kept = left_behind(tmp_path)
    rng = random.Random(seed)
    changed = [
        path for path in sorted((tmp_path / "left").glob(files)) if path.stat().st_size and path.name != "reserve"
    ]
    for path in rng.choices(changed, [path.stat().st_size for path in changed], k=3):
        content = bytearray(path.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    journal = Journal(tmp_path / "left", max_bytes=64 * MEBIBYTE)
    found = journal.recover(0.0)
    waits = {journal.body(one) for one in found.bodies} | {journal.outgoing_body(one.id) for one in found.outgoing}
    assert waits <= kept
    assert waits == kept or (files == "*" and len(kept - waits) <= 3)
    assert waits == kept or found.problems


ODD = [
    "update outgoing set signal = 'trace'",
    "update outgoing set headers = '[[1]]'",
    "update outgoing set body = null",
    "update outgoing set body = 'text'",
    "update done set sum = 1",
    "insert into parts values (4, 'x', null, null)",
    "insert into records values (1, null, 5, 'x', 'y', null)",
    "insert into sessions values ('{', 's', x'00', null)",
    "insert into tombstones values ('[]', 't', 'never', x'00', 5)",
    "insert into outgoing values (9223372036854775807, 'traces', '[]', x'', null)",
    "pragma user_version = 7",
    "drop table sessions",
    "alter table outgoing rename to other",
]


@pytest.mark.parametrize("change", ODD)
def test_an_odd_value_stops_no_start_and_no_other_row(change: str, tmp_path: Path) -> None:
    kept = left_behind(tmp_path)
    with sqlite3.connect(tmp_path / "left" / "state.db") as database:
        database.execute(change)
    database.close()
    journal = Journal(tmp_path / "left", max_bytes=64 * MEBIBYTE)
    found = journal.recover(0.0)
    waits = {journal.body(one) for one in found.bodies} | {journal.outgoing_body(one.id) for one in found.outgoing}
    assert waits == kept
    assert found.problems
    journal.commit(
        Changes(done={one.number for one in found.bodies}, outgoing={journal.next_outgoing: request(1)}), 0.0
    )
    journal.close()


def test_an_empty_database_beside_bodies_is_said(tmp_path: Path) -> None:
    kept = left_behind(tmp_path)
    (tmp_path / "left" / "state.db-wal").unlink()
    (tmp_path / "left" / "state.db").write_bytes(b"")
    journal = Journal(tmp_path / "left", max_bytes=64 * MEBIBYTE)
    found = journal.recover(0.0)
    assert {journal.body(one) for one in found.bodies} == kept
    assert "missing or empty" in found.problems[0]
