"""What is written down comes back, also from files that were torn, damaged, or had no room."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from goldspan.collector_processor.encoded_spans.call_records import (
    decode_record,
    decode_session,
    encode_record,
    encode_session,
)
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.journal.body_log import BodyLog, LogFullError
from goldspan.collector_processor.gateway.journal.journal import Changes, Journal
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import LogFacts, ModelFacts, Role, SpanFacts, ToolFacts, ToolRequest
from goldspan.scoring.sessions import Capture, Content
from rigs import evaluation_examples as examples
from rigs.repository import RECORDINGS

REQUEST = ExportRequest(Signal.TRACES, b"body", (("x-tenant", "a"), ("x-other", "é")))
MEBIBYTE = 1 << 20
TENANT = '[["x-tenant", "a"]]'


def bodies(log: BodyLog) -> list[tuple[Signal, bytes]]:
    return [(entry.signal, log.body(entry)) for entry in log.read_all()]


@pytest.mark.parametrize("sync", [False, True])
def test_bodies_are_there_for_the_next_process(tmp_path: Path, sync: bool) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE, sync=sync)
    assert list(log.read_all()) == []
    entry = log.append(REQUEST, 5.0)
    log.append(ExportRequest(Signal.LOGS, b""), 6.0)
    assert log.body(entry) == b"body"
    # not closed: the process is gone
    after = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    found = list(after.read_all())
    assert [(one.signal, one.headers, one.received) for one in found] == [
        (Signal.TRACES, REQUEST.headers, 5.0),
        (Signal.LOGS, (), 6.0),
    ]
    assert after.body(found[0]) == b"body"
    assert after.append(REQUEST, 7.0).number > found[1].number
    assert after.damaged == 0


def test_a_segment_goes_when_all_of_it_was_dealt_with_and_is_old(tmp_path: Path) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE, segment_bytes=200)
    entries = [log.append(REQUEST, float(number)) for number in range(6)]
    before = len(list(tmp_path.iterdir()))
    assert log.done({entries[0].number}, 100.0) == []
    assert log.done({one.number for one in entries}, 1.5) == [entries[0].number, entries[1].number]
    deleted = log.done(set(), 100.0)
    assert entries[2].number in deleted
    assert len(list(tmp_path.iterdir())) < before
    assert log.size < 300


def test_a_full_log_takes_nothing_more_and_makes_room_of_what_is_only_kept(tmp_path: Path) -> None:
    log = BodyLog(tmp_path, max_bytes=400, segment_bytes=150)
    entries = [log.append(REQUEST, 1.0) for _ in range(4)]
    with pytest.raises(LogFullError):
        log.append(REQUEST, 1.0)
    assert log.done({entries[0].number, entries[1].number}, 0.0) != []
    log.append(REQUEST, 1.0)


@pytest.mark.parametrize("cut", [1, 3, 40, 60])
def test_a_torn_end_loses_only_itself(tmp_path: Path, cut: int) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    for body in (b"first", b"second", b"third" * 20):
        log.append(ExportRequest(Signal.TRACES, body), 1.0)
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    after = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    assert bodies(after) == [(Signal.TRACES, b"first"), (Signal.TRACES, b"second")]
    assert after.damaged == 1
    after.done({1, 2, 3}, 100.0)
    assert [one.suffix for one in tmp_path.iterdir()] == [".damaged"]


@given(st.integers(0, 400), st.binary(min_size=1, max_size=20))
def test_damage_anywhere_loses_at_most_what_it_touches(at: int, noise: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = BodyLog(folder, max_bytes=MEBIBYTE)
        sent = [bytes([number]) * 30 for number in range(6)]
        entries = [log.append(ExportRequest(Signal.TRACES, body), 1.0) for body in sent]
        log.close()
        [file] = folder.iterdir()
        content = bytearray(file.read_bytes())
        at %= len(content)
        content[at : at + len(noise)] = noise[: len(content) - at]
        file.write_bytes(content)
        found = [body for _, body in bodies(BodyLog(folder, max_bytes=MEBIBYTE))]
        starts = [entry.offset + entry.size for entry in entries]
        whole = [
            body
            for index, body in enumerate(sent)
            if starts[index] <= at or (starts[index - 1] if index else 0) >= at + len(noise)
        ]
        assert [body for body in found if body in whole] == whole
        assert all(body in sent for body in found)


def test_a_disk_without_room_leaves_the_log_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    log.append(ExportRequest(Signal.TRACES, b"before"), 1.0)
    real = os.writev

    def half(file: int, parts: Sequence[bytes]) -> int:
        real(file, [parts[0]])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "writev", half)
    with pytest.raises(OSError, match="no space"):
        log.append(REQUEST, 1.0)
    monkeypatch.undo()
    log.append(ExportRequest(Signal.TRACES, b"after"), 1.0)
    after = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    assert bodies(after) == [(Signal.TRACES, b"before"), (Signal.TRACES, b"after")]
    assert after.damaged == 0


def test_a_write_that_is_cut_short_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    monkeypatch.setattr(os, "writev", lambda file, parts: os.write(file, b"".join(parts)[:17]))
    log.append(REQUEST, 1.0)
    assert bodies(BodyLog(tmp_path, max_bytes=MEBIBYTE)) == [(Signal.TRACES, b"body")]


def opened(folder: Path, **more: int) -> Journal:
    return Journal(folder, max_bytes=more.get("max_bytes", MEBIBYTE))


def test_everything_comes_back_until_it_is_taken_away(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.recover(0.0).bodies == []
    first, second = journal.append(REQUEST, 5.0), journal.append(REQUEST, 6.0)
    changes = Changes(
        done={first.number},
        parts={second.number: (True, b"i" * 24)},
        outgoing={1: REQUEST, 2: REQUEST},
        records={(TENANT, "trace"): [(5.0, b"record")], (TENANT, "other"): [(4.0, b"earlier")]},
        sessions={(TENANT, "s"): b"state"},
        tombstones={(TENANT, "old"): (3.0, b"spans")},
    )
    journal.commit(changes, 0.0)
    journal.close()
    journal = opened(tmp_path)
    found = journal.recover(1.0)
    assert [one.number for one in found.bodies] == [second.number]
    assert [one.number for one in found.retained] == [first.number]
    assert found.parts == {second.number: (True, b"i" * 24)}
    assert [(one.id, one.headers) for one in found.outgoing] == [(1, REQUEST.headers), (2, REQUEST.headers)]
    assert journal.outgoing_body(2) == b"body"
    assert journal.next_outgoing == 3
    assert found.records == [(TENANT, "other", 4.0, b"earlier"), (TENANT, "trace", 5.0, b"record")]
    assert found.sessions == [(TENANT, "s", b"state")]
    assert found.tombstones == [(TENANT, "old", 3.0, b"spans")]
    assert found.problems == []

    closed = Changes(
        done={second.number}, delivered={1, 2}, sessions={(TENANT, "s"): None}, tombstones={(TENANT, "old"): None}
    )
    closed.close(TENANT, "trace")
    closed.close(TENANT, "other")
    journal.commit(closed, 0.0)
    journal.close()
    found = opened(tmp_path).recover(100.0)
    assert not any(
        (found.bodies, found.retained, found.parts, found.outgoing, found.records, found.sessions, found.tombstones)
    )


def test_numbers_never_come_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.recover(0.0)
    entry = journal.append(REQUEST, 5.0)
    journal.commit(Changes(done={entry.number}), 0.0)
    journal.close()
    for file in tmp_path.glob("bodies-*"):
        file.unlink()
    journal = opened(tmp_path)
    journal.recover(0.0)
    new = journal.append(REQUEST, 5.0)
    journal.close()
    assert [one.number for one in opened(tmp_path).recover(0.0).bodies] == [new.number]


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(OSError, match="in use by another process"):
        opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def scribble(path: Path) -> None:
    path.write_bytes(b"this is no database" * 500)


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100 : len(content)] = os.urandom(len(content) - 100)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [scribble, tear, overwrite])
def test_a_damaged_database_is_set_aside_and_the_bodies_stay(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    journal = opened(tmp_path)
    journal.recover(0.0)
    journal.append(REQUEST, 5.0)
    journal.commit(Changes(sessions={(TENANT, str(number)): b"state" * 100 for number in range(200)}), 0.0)
    journal.close()
    damage(tmp_path / "state.db")
    journal = opened(tmp_path)
    found = journal.recover(0.0)
    assert [one.headers for one in found.bodies] == [REQUEST.headers]
    assert any("damaged" in problem for problem in found.problems)
    assert (tmp_path / "state.db.unreadable-1").exists()
    assert len(found.sessions) <= 200
    journal.commit(Changes(sessions={(TENANT, "new"): b"state"}), 0.0)
    journal.close()
    assert (TENANT, "new", b"state") in opened(tmp_path).recover(0.0).sessions


@pytest.mark.parametrize("fails", [False, True], ids=["at once", "at the second try"])
def test_a_process_that_ends_while_it_replaces_a_damaged_database_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """The folder is opened as it was at each call of a start that replaces it."""
    folder, rows = tmp_path / "journal", [(TENANT, str(number), b"state" * 20) for number in range(20)]
    journal = opened(folder)
    journal.recover(0.0)
    journal.commit(Changes(sessions={(tenant, session): state for tenant, session, state in rows}), 0.0)
    journal.close()
    with contextlib.closing(sqlite3.connect(folder / "state.db")) as database:
        database.execute("pragma user_version = 99")  # damaged, with all rows in it
    met = dict[tuple[tuple[str, bytes], ...], int]()
    connect, times = sqlite3.connect, Counter[Any]()

    def connected(path: Any, **options: Any) -> sqlite3.Connection:
        times[path] += 1
        if fails and path == folder / "state.db" and times[path] == 2:
            raise sqlite3.OperationalError("disk I/O error")
        return connect(path, **options)

    def look(_: object, event: str, __: object) -> None:
        if event == "c_call":
            met.setdefault(tuple((one.name, one.read_bytes()) for one in sorted(folder.iterdir())), len(met))

    monkeypatch.setattr(sqlite3, "connect", connected)
    sys.setprofile(look)
    try:
        opened(folder).close()
    finally:
        sys.setprofile(None)
    assert times[folder / "state.db"] == (4 if fails else 2)
    assert any("state.db" not in dict(files) and "state.db.part" in dict(files) for files in met)
    for files, at in met.items():
        left = tmp_path / str(at)
        left.mkdir()
        for name, content in files:
            (left / name).write_bytes(content)
        after = opened(left)
        found = after.recover(0.0)
        assert sorted(found.sessions) == sorted(rows), (at, [name for name, _ in files], found.problems)
        after.close()
        assert not list(left.glob("*.part*"))


def test_a_commit_that_finds_no_room_is_all_there_for_the_next(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.recover(0.0)
    connection = journal._database._connection
    assert connection is not None
    connection.execute("pragma max_page_count = 20")
    changes = Changes(sessions={(TENANT, str(number)): b"x" * 4000 for number in range(50)})
    with pytest.raises(OSError, match="full"):
        journal.commit(changes, 0.0)
    connection.execute("pragma max_page_count = 10000")
    journal.commit(changes, 0.0)
    journal.close()
    assert len(opened(tmp_path).recover(0.0).sessions) == 50


def test_results_of_a_session_are_written_alike_however_often() -> None:
    first, second = (examples.evaluation(examples.ALIGNED, id=f"{number:032x}") for number in (1, 2))
    session = SessionState("s", 0.0, results={first.id: first})
    encode_session(session)
    newer = replace(first, revision=2, run="another run")
    session.results = {first.id: newer, second.id: second}
    encoded = encode_session(session)
    assert encoded == encode_session(session)
    assert encoded == encode_session(SessionState("s", 0.0, results=dict(session.results)))
    found = decode_session("s", encoded, 0.0).results
    assert [(one.id, one.revision, one.run) for one in found.values()] == [
        (one.id, one.revision, one.run) for one in (newer, second)
    ]
    del session.results[first.id]
    assert decode_session("s", encode_session(session), 0.0).results.keys() == {second.id}


def test_records_of_another_version_are_left_out(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.recover(0.0)
    journal.commit(Changes(records={(TENANT, "trace"): [(5.0, b"record")]}), 0.0)
    journal.close()
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("update meta set value = 'other' where key = 'schema'")
    database.close()
    found = opened(tmp_path).recover(0.0)
    assert found.records == []
    assert "another version" in found.problems[0]


def test_what_waits_counts_against_the_limit(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.recover(0.0)
    journal.commit(Changes(outgoing={1: ExportRequest(Signal.LOGS, b"x" * 900_000)}), 0.0)
    with pytest.raises(LogFullError):
        journal.append(ExportRequest(Signal.TRACES, b"y" * 200_000), 1.0)
    assert "max_bytes" in str(journal.not_ready_reason)
    journal.commit(Changes(delivered={1}), 0.0)
    for _ in range(20):  # some pages are given back each time
        journal.check_room(now=True)
    journal.append(ExportRequest(Signal.TRACES, b"y" * 200_000), 1.0)
    assert journal.not_ready_reason is None


@pytest.mark.parametrize("content", [False, True])
def test_records_of_every_recording_are_read_as_they_were(content: bool) -> None:
    registry = DialectRegistry()
    for path in sorted(RECORDINGS.glob("*.otlp.json")) + sorted(RECORDINGS.glob("*.logs.json")):
        for fact in registry.facts(read_files([path], lambda _: None), content=content):
            assert decode_record(encode_record(fact)) == fact


@pytest.mark.parametrize(
    "value", [{"x": 1 << 80}, {"x": float("inf")}, {"x": "half \ud800"}, {"x": [b"\xff"]}, [], "text"]
)
def test_records_hold_any_arguments(value: object) -> None:
    fact = SpanFacts(
        "a" * 32, "b" * 16, "", 1, 2, role=Role.TOOL, tool=ToolFacts("f", Content(value, Capture.CAPTURED))
    )
    again = decode_record(encode_record(fact))
    assert isinstance(again, SpanFacts)
    assert again == fact


def test_records_of_log_facts_are_told_from_those_of_spans() -> None:
    asked = ModelFacts((ToolRequest("f", Content({"x": 1}, Capture.CAPTURED), "id"),), answered={"id": True})
    fact = LogFacts("a" * 32, "", "identity", 5, model=asked, tools=(ToolFacts("f"), ToolFacts("")))
    assert decode_record(encode_record(fact)) == fact


@pytest.mark.parametrize("record", [b"", b"s", b"S", b"x", b"s\x93", b"S[1]", b"l\x80", b"s" + b"\x92\xc2\x92\x63\x01"])
def test_what_is_no_record_is_a_value_error(record: bytes) -> None:
    with pytest.raises(ValueError, match=r"record that cannot be read|Expecting|index|unpack"):
        decode_record(record)
