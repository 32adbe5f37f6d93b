"""The journal: what must survive a crash of the gateway, on disk.

A received body is appended to the body log. Everything else is a table of one SQLite database in WAL mode and changes
in transactions: which bodies are done, which requests wait to be delivered, the call records of open runs, the results
given for each session, and tombstones. A body becomes done in the transaction that writes its call records: after a
crash either the body is read again or its call records are there.

A damaged database is renamed and a new one begun. If the disk is full, the changes wait for the next commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from goldspan.collector_processor.gateway.interfaces import Headers, Request, Signal
from goldspan.collector_processor.gateway.journal.body_log import BodyLog, LogEntry, LogFullError
from goldspan.collector_processor.gateway.journal.records import SCHEMA
from goldspan.scoring.sessions import SpanRef

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: the folder is not guarded against a second process
    fcntl = None  # type: ignore[assignment]

_TABLES = """
create table if not exists meta (key text primary key, value text) without rowid;
create table if not exists done (number integer primary key);
create table if not exists parts (number integer primary key, rest integer, spans blob);
create table if not exists outgoing (id integer primary key, signal text, headers text, body blob);
create table if not exists records (id integer primary key, tenant text, trace text, at real, record blob);
create index if not exists records_by_trace on records (tenant, trace);
create table if not exists sessions (tenant text, session text, state blob, primary key (tenant, session));
create table if not exists tombstones (tenant text, trace text, at real, spans blob, primary key (tenant, trace));
"""
_CACHE_KIB = 8192
_CHECKPOINT_PAGES = 4096


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request that the gateway made, which waits to be delivered."""

    id: int
    signal: Signal
    headers: Headers
    size: int


@dataclass(slots=True)
class Changes:
    """What the next commit writes. A tenant is named by its headers as JSON."""

    done: set[int] = field(default_factory=set[int])
    """Numbers of bodies that were delivered, or are replaced by rows of `outgoing` and `records`."""
    parts: dict[int, tuple[bool, bytes]] = field(default_factory=dict[int, tuple[bool, bytes]])
    """Of partly delivered bodies: whether the part that is not held still waits, and span ids. If it waits, these are
    the held spans that were delivered; else those that were not."""
    outgoing: dict[int, Request] = field(default_factory=dict[int, Request])
    delivered: set[int] = field(default_factory=set[int])
    records: dict[tuple[str, str], list[tuple[float, bytes]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[float, bytes]]]
    )
    """Times and call records, by tenant and trace id."""
    closed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Traces whose earlier records are deleted."""
    sessions: dict[tuple[str, str], bytes | None] = field(default_factory=dict[tuple[str, str], bytes | None])
    tombstones: dict[tuple[str, str], tuple[float, bytes] | None] = field(
        default_factory=dict[tuple[str, str], tuple[float, bytes] | None]
    )

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def close(self, tenant: str, trace_id: str) -> None:
        """Delete the records of a trace."""
        self.records.pop((tenant, trace_id), None)
        self.closed.add((tenant, trace_id))

    def followed_by(self, newer: Changes) -> Changes:
        """Add later changes to these, and return these."""
        self.done |= newer.done
        self.parts.update(newer.parts)
        self.outgoing.update(newer.outgoing)
        self.delivered |= newer.delivered
        for key in newer.closed:
            self.close(*key)
        for key, rows in newer.records.items():
            self.records.setdefault(key, []).extend(rows)
        self.sessions.update(newer.sessions)
        self.tombstones.update(newer.tombstones)
        return self


@dataclass(slots=True)
class RecoveredState:
    """What an earlier process left in the journal."""

    bodies: list[LogEntry] = field(default_factory=list[LogEntry])
    """Acknowledged and not done."""
    retained: list[LogEntry] = field(default_factory=list[LogEntry])
    """Done, and kept for spans that may still turn out to be wanted."""
    parts: dict[int, tuple[bool, bytes]] = field(default_factory=dict[int, tuple[bool, bytes]])
    outgoing: list[Outgoing] = field(default_factory=list[Outgoing])
    records: list[tuple[str, str, float, bytes]] = field(default_factory=list[tuple[str, str, float, bytes]])
    sessions: list[tuple[str, str, bytes]] = field(default_factory=list[tuple[str, str, bytes]])
    tombstones: list[tuple[str, str, float, bytes]] = field(default_factory=list[tuple[str, str, float, bytes]])
    problems: list[str] = field(default_factory=list[str])
    """What was damaged, as sentences for the log."""


class Journal:
    """The journal in one folder. `append`, `body` and `outgoing_body` are thread-safe; the rest is for one thread."""

    def __init__(self, folder: Path, *, max_bytes: int, full_sync: bool = False) -> None:
        """Open a folder. Raises `OSError` if another process uses it or it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock_file = _locked(folder / "lock")
        self._full_sync = full_sync
        self._max_bytes = max_bytes
        self._log = BodyLog(folder, max_bytes=max_bytes, sync=full_sync)
        self._database_lock = threading.Lock()
        self._outgoing_sizes: dict[int, int] = {}
        self._outgoing_bytes = 0
        self._problems: list[str] = []
        self._database = self._open()
        self.next_outgoing = 1

    @property
    def size(self) -> int:
        """Bytes of bodies and of requests that wait to be delivered."""
        return self._log.size + self._outgoing_bytes

    def recover(self, before: float) -> RecoveredState:
        """Read what is there; call it once, first. Done bodies that were received `before` a time are left out."""
        found = RecoveredState()
        try:
            done = self._recover_tables(found)
        except sqlite3.DatabaseError as error:
            found = RecoveredState()
            self._begin_anew(error)
            done = set[int]()
        for entry in self._log.read_all(max(done, default=0)):
            if entry.number not in done:
                found.bodies.append(entry)
            elif entry.received >= before:
                found.retained.append(entry)
        if self._log.damaged:
            self._problems.append(
                f"{self._log.damaged} places in the log of received bodies were torn or damaged; what could be read "
                "was, and the files are kept as *.damaged when they are no longer needed"
            )
        self._log.done(done, before)
        self._outgoing_sizes = {one.id: one.size for one in found.outgoing}
        self._outgoing_bytes = sum(self._outgoing_sizes.values())
        self.next_outgoing = max(self._outgoing_sizes, default=0) + 1
        found.problems, self._problems = self._problems, []
        return found

    def append(self, request: Request, received: float) -> LogEntry:
        """Write a received body; returns once it is durable. Raises `LogFullError` or `OSError`."""
        if self.size + len(request.body) > self._max_bytes:
            raise LogFullError
        return self._log.append(request, received)

    def body(self, entry: LogEntry) -> bytes:
        """Read a body. Raises `OSError` if it is gone."""
        return self._log.body(entry)

    def outgoing_body(self, number: int) -> bytes | None:
        """Read a request that waits to be delivered; None if it is gone."""
        with self._database_lock:
            try:
                row = self._database.execute("select body from outgoing where id = ?", (number,)).fetchone()
            except sqlite3.Error:
                return None
        return None if row is None else bytes(row[0])

    def commit(self, changes: Changes, retained_since: float) -> list[str]:
        """Write changes in one transaction, then delete bodies that are no longer needed.

        Returns what was found damaged. Raises `OSError` if nothing was written; keep the changes then.
        """
        with self._database_lock:
            try:
                self._write(changes)
            except sqlite3.OperationalError as error:
                raise OSError(f"the journal's database cannot be written: {error}") from error
            except sqlite3.DatabaseError as error:
                self._begin_anew(error)
                self._write(changes)
        self._outgoing_sizes.update((number, len(request.body)) for number, request in changes.outgoing.items())
        for number in changes.delivered:
            self._outgoing_sizes.pop(number, None)
        self._outgoing_bytes = sum(self._outgoing_sizes.values())
        if deleted := self._log.done(changes.done, retained_since):
            with self._database_lock, contextlib.suppress(sqlite3.Error):
                self._database.executemany("delete from done where number = ?", ((one,) for one in deleted))
        problems, self._problems = self._problems, []
        return problems

    def close(self) -> None:
        """Close all files. The next process recovers from them."""
        self._log.close()
        with self._database_lock:
            self._database.close()
        os.close(self._lock_file)

    def _write(self, changes: Changes) -> None:
        run = self._database.executemany
        self._database.execute("begin immediate")
        try:
            run("insert or ignore into done values (?)", _rows(changes.done))
            run(
                "insert or replace into parts values (?, ?, ?)",
                [(number, *part) for number, part in changes.parts.items() if number not in changes.done],
            )
            run("delete from parts where number = ?", _rows(changes.done))
            run(
                "insert or replace into outgoing values (?, ?, ?, ?)",
                [
                    (number, request.signal.value, json.dumps(request.headers), request.body)
                    for number, request in changes.outgoing.items()
                    if number not in changes.delivered
                ],
            )
            run("delete from outgoing where id = ?", _rows(changes.delivered))
            run("delete from records where tenant = ? and trace = ?", list(changes.closed))
            run(
                "insert into records (tenant, trace, at, record) values (?, ?, ?, ?)",
                [(*key, *row) for key, rows in changes.records.items() for row in rows],
            )
            run(
                "insert or replace into sessions values (?, ?, ?)",
                [(*key, state) for key, state in changes.sessions.items() if state is not None],
            )
            run(
                "delete from sessions where tenant = ? and session = ?",
                [key for key, state in changes.sessions.items() if state is None],
            )
            run(
                "insert or replace into tombstones values (?, ?, ?, ?)",
                [(*key, *stone) for key, stone in changes.tombstones.items() if stone is not None],
            )
            run(
                "delete from tombstones where tenant = ? and trace = ?",
                [key for key, stone in changes.tombstones.items() if stone is None],
            )
            self._database.execute("commit")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("rollback")
            raise

    def _recover_tables(self, found: RecoveredState) -> set[int]:
        rows = self._database.execute
        found.outgoing = [
            Outgoing(number, Signal(signal), _headers(headers), size)
            for number, signal, headers, size in rows(
                "select id, signal, headers, length(body) from outgoing order by id"
            )
        ]
        found.parts = {number: (bool(rest), spans) for number, rest, spans in rows("select * from parts")}
        found.records = list(rows("select tenant, trace, at, record from records order by at, id"))
        found.sessions = list(rows("select tenant, session, state from sessions"))
        found.tombstones = list(rows("select tenant, trace, at, spans from tombstones order by at"))
        return {number for (number,) in rows("select number from done")}

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError as error:
            raise OSError(f"{self._path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._rename_damaged(error)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            run = database.execute
            run("pragma journal_mode = wal")
            run(f"pragma synchronous = {'full' if self._full_sync else 'normal'}")
            run(f"pragma cache_size = -{_CACHE_KIB}")
            run(f"pragma wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            database.executescript(_TABLES)
            row = run("select value from meta where key = 'schema'").fetchone()
            if row is not None and row[0] != SCHEMA:
                run("delete from records")
                self._problems.append(
                    "the call records were written by another version of goldspan and were left out: runs that were "
                    "open are judged without their earlier turns"
                )
            run("insert or replace into meta values ('schema', ?)", (SCHEMA,))
        except BaseException:
            database.close()
            raise
        return database

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        self._database.close()
        self._rename_damaged(error)
        self._database = self._connect()

    def _rename_damaged(self, error: sqlite3.DatabaseError) -> None:
        kept = self._path.with_suffix(".db.damaged")
        for ending in ("", "-wal", "-shm"):
            part = self._path.with_name(self._path.name + ending)
            if part.exists():
                part.replace(kept.with_name(kept.name + ending))
        self._problems.append(
            f"{self._path} is damaged ({error}); it was kept as {kept.name} and begun anew. Runs that were open are "
            "judged without their earlier turns, and bodies not known to be delivered are delivered again"
        )

    @property
    def _path(self) -> Path:
        return self._folder / "state.db"


def _locked(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise OSError(f"{path.parent} is in use by another process; give each gateway a folder") from error
    return file


def _rows(numbers: Iterable[int]) -> list[tuple[int]]:
    return [(number,) for number in numbers]


def encode_refs(refs: Iterable[SpanRef]) -> bytes:
    """Return the ids of spans as `Changes.parts` keeps them; spans with ids of another length are left out."""
    ids = (ref.trace_id + ref.span_id for ref in refs)
    return b"".join([bytes.fromhex(both) for both in ids if len(both) == 48])


def decode_refs(ids: bytes) -> set[SpanRef]:
    """Return the spans whose ids `encode_refs` wrote."""
    return {SpanRef(ids[at : at + 16].hex(), ids[at + 16 : at + 24].hex()) for at in range(0, len(ids), 24)}


def _headers(text: str) -> Headers:
    return tuple((name, value) for name, value in json.loads(text))
