"""The journal: what must survive a crash of the gateway, on disk.

A received body is appended to the body log. Everything else is a table of one SQLite database in WAL mode and changes
in transactions: which bodies are done, which requests wait to be delivered, the call records of open runs, the results
given for each session, and tombstones. A body becomes done in the transaction that writes its call records: after a
crash either the body is read again or its call records are there.

A part of `max_bytes` is reserved for that database. While the disk is full, no body is accepted, the reserve is given
up, and changes that still cannot be written wait for the next commit.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from goldspan.collector_processor.encoded_spans.call_records import SCHEMA, is_readable
from goldspan.collector_processor.gateway.interfaces import ExportRequest, Headers
from goldspan.collector_processor.gateway.journal import body_log
from goldspan.collector_processor.gateway.journal.database import (
    COLUMNS,
    Database,
    Row,
    delete_from,
    insert_into,
    with_sum,
)
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.sessions import SpanRef

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: the folder is not guarded against a second process
    fcntl = None  # type: ignore[assignment]

_FILES = ("lock", "state.db*", "bodies-*", "reserve", "unreadable-rows.jsonl")
_LARGEST_RESERVE, _LARGEST_CHECKPOINT, _LARGEST_SEGMENT = 16 << 20, 16 << 20, 32 << 20
_PACKED = b"\x01"  # the first byte of ids of spans as they are encoded now
_ROOM_TO_DELETE = 32 << 10  # bytes of the database's log that deleting one row takes at most
_ASK_INTERVAL = 0.1  # seconds for which the answer holds how much of the disk is free
_CHECK_INTERVAL = 1.0  # seconds between two looks whether a full disk has room again


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
    outgoing: dict[int, ExportRequest] = field(default_factory=dict[int, ExportRequest])
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

    forgotten: set[str] = field(default_factory=set[str])
    """Tenants whose earlier records, sessions and tombstones are deleted."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def close(self, tenant: str, trace_id: str) -> None:
        """Delete the records of a trace."""
        self.records.pop((tenant, trace_id), None)
        self.closed.add((tenant, trace_id))

    def forget(self, tenant: str) -> None:
        """Delete everything of a tenant's engine."""
        for rows in (self.records, self.sessions, self.tombstones):
            for key in [key for key in rows if key[0] == tenant]:
                del rows[key]
        self.forgotten.add(tenant)

    def followed_by(self, newer: Changes) -> Changes:
        """Add later changes to these, and return these."""
        self.done |= newer.done
        self.parts.update(newer.parts)
        self.outgoing.update(newer.outgoing)
        self.delivered |= newer.delivered
        for tenant in newer.forgotten:
            self.forget(tenant)
        for key in newer.closed:
            self.close(*key)
        for key, rows in newer.records.items():
            self.records.setdefault(key, []).extend(rows)
        self.sessions.update(newer.sessions)
        self.tombstones.update(newer.tombstones)
        for number in self.delivered & self.outgoing.keys():  # none of them is on disk
            del self.outgoing[number]
            self.delivered.discard(number)
        return self


@dataclass(slots=True)
class RecoveredState:
    """What an earlier process left in the journal."""

    bodies: list[body_log.LogEntry] = field(default_factory=list[body_log.LogEntry])
    """Acknowledged and not done."""
    retained: list[body_log.LogEntry] = field(default_factory=list[body_log.LogEntry])
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
        body_log.make_private(folder, _FILES)
        self.folder = folder
        self._lock_file = _locked(folder / "lock")
        try:
            self._open(max_bytes, full_sync=full_sync)
        except BaseException:
            os.close(self._lock_file)
            raise

    def _open(self, max_bytes: int, *, full_sync: bool) -> None:
        folder = self.folder
        self._max_bytes = max_bytes
        sizes = sum(body_log.size_of(one) for pattern in _FILES for one in folder.glob(pattern))
        room = min(max_bytes, sizes + _free_bytes(folder))
        self._log = body_log.BodyLog(
            folder, max_bytes=max_bytes, sync=full_sync, segment_bytes=min(_LARGEST_SEGMENT, room // 16)
        )
        self._reserve = body_log.Reserve(folder / "reserve", min(_LARGEST_RESERVE, room // 32))
        self._reserved = self._reserve.size
        self._full: str | None = None  # why the disk takes nothing; None while it does
        self._over_bound = ""  # why no further body is accepted although the disk is not full; empty if one is
        self._is_behind = False  # the last changes could not be written
        self._checked_at = self._ask_again_at = 0.0
        self._known_room = 0
        self._deleted: list[int] = []  # bodies whose segments were deleted
        self._database_lock = threading.Lock()
        self._database = self._opened_database(min(_LARGEST_CHECKPOINT, room // 32), full_sync=full_sync)
        self._outgoing_sizes: dict[int, int] = {}
        self.next_outgoing = 1
        self.check_room(now=True)

    def _opened_database(self, checkpoint_bytes: int, *, full_sync: bool) -> Database:
        try:
            return Database(self.folder, full_sync=full_sync, checkpoint_bytes=checkpoint_bytes)
        except OSError:
            if not self._reserved:
                raise
            self._give_up_reserve("it could not be opened")
            return Database(self.folder, full_sync=full_sync, checkpoint_bytes=checkpoint_bytes)

    @property
    def size(self) -> int:
        """Bytes on disk: of bodies, of the database, and reserved ones."""
        return self._log.size + self._database.size + self._reserved

    @property
    def outgoing_rows(self) -> int:
        """Requests in the database that wait to be delivered."""
        return len(self._outgoing_sizes)

    @property
    def not_ready_reason(self) -> str | None:
        """Why no request can be accepted now, or None."""
        reason = self._full or self._over_bound
        return f"{self.folder}: {reason}" if reason else None

    @property
    def _is_tight(self) -> bool:
        """So much room is taken that done bodies are not kept."""
        return self._full is not None or self.size > self.bound // 3 * 2

    @property
    def bound(self) -> int:
        """Beyond this size no body is accepted: the rest is for the database, which may have to hold some of them."""
        return min(self._max_bytes, self._room()) // 4 * 3

    def _room(self) -> int:
        """Return how many bytes the journal may have on its disk: those that it has, and what is free.

        To ask the disk costs as much as to write a small body, and what the journal writes changes no sum.
        """
        now = time.monotonic()
        if now >= self._ask_again_at:
            self._ask_again_at = now + _ASK_INTERVAL
            self._known_room = self.size + _free_bytes(self.folder)
        return self._known_room

    def recover(self, before: float) -> RecoveredState:
        """Read what is there; call it once, first. Done bodies that were received `before` a time are left out."""
        found = RecoveredState()
        with self._database_lock:
            done = self._recover_tables(found)
            highest = max(done, default=0)
            if self._database.lost_requests:
                # What the lost requests had of them is in the bodies, as far as these are still there.
                self._database.execute([("delete from done", [()]), ("delete from parts", [()])])
                done.clear()
                found.parts.clear()
                found.problems.append(
                    "since requests that waited were damaged, every body in the log is delivered again"
                )
        for entry in self._log.read_all(highest):
            if entry.number not in done:
                found.bodies.append(entry)
            elif entry.received >= before:
                found.retained.append(entry)
        if self._database.is_new and found.bodies:
            found.problems.append(
                f"{self._database.path} was missing or empty: bodies not known to be delivered are delivered again"
            )
        if self._log.damaged:
            found.problems.append(
                f"{self._log.damaged} places in the log of received bodies were torn or damaged; what could be read "
                "was, and the files are kept as *.damaged when they are no longer needed"
            )
        found.problems += [f"{one}: read again at the next start" for one in self._log.unread]
        self._deleted += self._log.done(done, before)
        self._outgoing_sizes = {one.id: one.size for one in found.outgoing}
        self.next_outgoing = max(self._outgoing_sizes, default=0) + 1
        found.problems += self._take_problems()
        return found

    @property
    def unread_files(self) -> int:
        """Files of received bodies that could not be read to their end; the next start reads them."""
        return len(self._log.unread)

    def append(self, request: ExportRequest, received: float) -> body_log.LogEntry:
        """Write a received body; returns once it is durable. Raises `LogFullError` or `OSError`."""
        if self._full is not None:
            raise body_log.LogFullError(self._full)
        if self.size + len(request.body) > (bound := self.bound):
            self._over_bound = self._said_over(bound)
            raise body_log.LogFullError(self._over_bound)
        try:
            entry = self._log.append(request, received)
        except OSError as error:
            self._full = error.strerror or str(error)
            raise
        self._over_bound = ""
        return entry

    def _said_over(self, bound: int) -> str:
        limit = "`journal.max_bytes`" if bound == self._max_bytes // 4 * 3 else "free space on its disk"
        return f"the journal has {self.size:,} bytes, as many as its {limit} allows"

    def body(self, entry: body_log.LogEntry) -> bytes:
        """Read a body. Raises `BodyGoneError` if it is gone, or `OSError`: then try again."""
        return self._log.body(entry)

    def outgoing_body(self, number: int) -> bytes:
        """Read a request that waits to be delivered. Raises `BodyGoneError` if it is gone, or `OSError`."""
        with self._database_lock:
            return self._database.body(number)

    def commit(self, changes: Changes, retained_since: float) -> list[str]:
        """Write changes in one transaction, then delete bodies that are no longer needed.

        Returns what was found damaged. Raises `OSError` if nothing was written; keep the changes then.
        """
        with self._database_lock:
            try:
                self._write(changes)
            except OSError as error:
                self._give_up_reserve(error.strerror or str(error))
                try:
                    # Rows that are no longer needed go first, a few at a time. That takes little room, and gives some.
                    self._database.shrink(wholly=True)
                    delivered = sorted(changes.delivered)
                    few = max(1, self._reserve.size_wanted // _ROOM_TO_DELETE)
                    for start in range(0, len(delivered), few):
                        some = set(delivered[start : start + few])
                        self._database.execute(_statements(Changes(delivered=some), ()))
                        self._database.shrink(wholly=True)
                    self._write(changes)
                except OSError:
                    self._is_behind = True
                    if not self._make_room_without_database(changes):
                        raise
                    self._database.shrink(wholly=True)
                    self._write(changes)
        self._is_behind = False
        self._deleted.clear()
        self._outgoing_sizes.update((number, len(request.body)) for number, request in changes.outgoing.items())
        for number in changes.delivered:
            self._outgoing_sizes.pop(number, None)
        self._deleted += self._log.done(changes.done, retained_since, tight=self._is_tight)
        return self._take_problems()

    def check_room(self, *, now: bool = False) -> None:
        """Reserve room again once the disk has some, and note whether bodies can be accepted."""
        if self._over_bound and self.size <= self.bound // 8 * 7:
            self._over_bound = ""
        if not now and time.monotonic() - self._checked_at < _CHECK_INTERVAL:
            return
        self._checked_at = time.monotonic()
        try:
            self._restore()
        except OSError as error:
            self._full = error.strerror or str(error)
            return
        if self._is_tight:
            self._deleted += self._log.done(set(), 0.0, tight=True)
        with self._database_lock:
            self._database.shrink(wholly=self.not_ready_reason is not None)
        if self._is_behind or (self._full is None and self._reserved):
            return
        taken = self._reserve.take()
        self._reserved = self._reserve.size
        if not taken:
            self._full = self._full or "there is no room for what the database may have to write"
            return
        if self.size > (bound := self.bound):  # not ready yet: the next request would be refused
            self._over_bound = self._said_over(bound)
        self._full = None

    def _restore(self) -> None:
        """Write what is open again where its name is gone: a cleaner deleted it, or a volume was replaced.

        Raises `OSError` if the folder cannot be written, or now belongs to another process.
        """
        lock = self.folder / "lock"
        if not body_log.is_at(lock, body_log.identity(self._lock_file)):
            body_log.make_private(self.folder, ())
            before, self._lock_file = self._lock_file, _locked(lock)
            os.close(before)
        if not os.access(self.folder, os.W_OK):
            raise OSError(errno.EROFS, "cannot be written", str(self.folder))
        self._log.restore()
        with self._database_lock:
            self._database.restore()
        self._reserved = self._reserve.size

    def close(self) -> None:
        """Close all files. The next process recovers from them."""
        self._log.close()
        with self._database_lock:
            self._database.close()
        os.close(self._lock_file)

    def _make_room_without_database(self, changes: Changes) -> bool:
        """Delete bodies whose end the full disk does not let us note, if nothing of them waits to be written.

        A crash before that is noted costs call records of open runs, and no span.
        """
        if changes.outgoing.keys() - changes.delivered:
            return False
        deleted = self._log.done(changes.done, 0.0, tight=True)
        self._deleted += deleted
        return bool(deleted)

    def _write(self, changes: Changes) -> None:
        """Write changes, if there is room for them twice: in the log of the database, and then in its file.

        Half of the reserve is for rows that are deleted, without which a full disk would stay full.
        """
        statements = _statements(changes, self._deleted)
        size = sum(len(one) for _, rows in statements for row in rows for one in row if isinstance(one, (bytes, str)))
        free = self._room() - self.size - (0 if self._reserved else self._reserve.size_wanted // 2)
        if self._database.log_size + 2 * size > free:
            raise OSError(errno.ENOSPC, f"there is no room for {size:,} bytes in its database")
        self._database.execute(statements)

    def _give_up_reserve(self, reason: str) -> None:
        self._full = reason
        self._ask_again_at = 0.0
        self._reserve.give_up()
        self._reserved = 0

    def _take_problems(self) -> list[str]:
        problems, self._database.problems = self._database.problems, []
        return problems

    def _recover_tables(self, found: RecoveredState) -> set[int]:
        database = self._database
        found.parts = {number: (bool(rest), spans) for number, rest, spans in database.read("parts", "number")}
        unusable: list[int] = []
        for number, signal, headers, size in database.read("outgoing", "id"):
            try:
                found.outgoing.append(Outgoing(number, Signal(signal), _headers(headers), size))
            except (ValueError, msgspec.MsgspecError):
                unusable.append(number)
        database.set_aside("outgoing", unusable)
        found.records = list(database.read("records", "at, id"))
        found.sessions = list(database.read("sessions", "rowid"))
        found.tombstones = list(database.read("tombstones", "at"))
        for table in ("records", "sessions", "tombstones"):
            rows = getattr(found, table)
            if bad := {tenant for tenant in {row[0] for row in rows} if not _is_tenant(tenant)}:
                setattr(found, table, [row for row in rows if row[0] not in bad])
                database.problems.append(f"rows of the table `{table}` name no tenant and were left out")
        if not is_readable(database.meta("schema", SCHEMA) or SCHEMA):
            database.execute([("delete from records", [()])])
            if found.records:
                database.problems.append(
                    f"{len(found.records)} call records were written by another version of goldspan and were left "
                    "out: runs that were open are judged without their earlier turns"
                )
            found.records = []
        return {number for (number,) in database.read("done", "number")}


def _statements(changes: Changes, deleted: Iterable[int]) -> list[tuple[str, list[Row]]]:
    """Return what a transaction does for these changes: for each table, which rows go and which come."""
    done, delivered = changes.done, changes.delivered
    sessions = {(tenant, _text(session)): state for (tenant, session), state in changes.sessions.items()}
    removed: dict[str, Iterable[Row]] = {
        "done": _by_number(deleted),
        "parts": _by_number(done),
        "outgoing": _by_number(delivered),
        "records": changes.closed,
        "sessions": _gone(sessions),
        "tombstones": _gone(changes.tombstones),
    }
    added: dict[str, Iterable[Row]] = {
        "done": _by_number(done),
        "parts": ((one, int(rest), spans) for one, (rest, spans) in changes.parts.items() if one not in done),
        "outgoing": (
            (number, request.signal.value, json.dumps(request.headers), request.body)
            for number, request in changes.outgoing.items()
            if number not in delivered
        ),
        "records": ((*key, float(at), record) for key, rows in changes.records.items() for at, record in rows),
        "sessions": ((*key, state) for key, state in sessions.items() if state is not None),
        "tombstones": ((*key, float(one[0]), one[1]) for key, one in changes.tombstones.items() if one is not None),
    }
    statements: list[tuple[str, list[Row]]] = []
    forgotten = [(one,) for one in changes.forgotten]
    for table, columns in COLUMNS.items():
        if forgotten and "tenant" in dict(columns):
            statements.append((f"delete from {table} where tenant = ?", forgotten))
        if rows := list(removed[table]):
            statements.append((delete_from(table), rows))
        if rows := list(map(with_sum, added[table])):
            statements.append((insert_into(table), rows))
    return statements


def _by_number(numbers: Iterable[int]) -> Iterable[Row]:
    return ((number,) for number in numbers)


def _gone(changes: Mapping[tuple[str, str], object]) -> Iterable[Row]:
    return (key for key, value in changes.items() if value is None)


def _locked(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise OSError(f"{path.parent} is in use by another process; give each gateway a folder") from error
    return file


def encode_refs(refs: Iterable[SpanRef]) -> bytes:
    """Return the ids of spans as `Changes.parts` keeps them: those of the usual lengths, then the others."""
    usual: list[bytes] = []
    others: list[tuple[str, str]] = []
    for ref in refs:
        if len(ref.trace_id) == 32 and len(ref.span_id) == 16:
            usual.append(bytes.fromhex(ref.trace_id + ref.span_id))
        else:
            others.append((ref.trace_id, ref.span_id))
    return _PACKED + msgspec.msgpack.encode((b"".join(usual), others))


def decode_refs(encoded: bytes) -> set[SpanRef]:
    """Return the spans whose ids `encode_refs` wrote. Raises `ValueError` if they are none."""
    try:
        usual, others = msgspec.msgpack.decode(encoded[1:], type=tuple[bytes, list[tuple[str, str]]])
    except msgspec.MsgspecError as error:
        if len(encoded) % 24:
            raise ValueError(f"found no ids of spans: {error}") from error
        usual, others = encoded, []  # as earlier versions wrote them
    ids = {SpanRef(usual[at : at + 16].hex(), usual[at + 16 : at + 24].hex()) for at in range(0, len(usual), 24)}
    return ids | {SpanRef(*one) for one in others}


def _headers(text: str) -> Headers:
    return tuple(msgspec.json.decode(text, type=list[tuple[str, str]]))


def _text(text: str) -> str:
    """Return text that SQLite can store: half of a character becomes its escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _is_tenant(name: str) -> bool:
    try:
        _headers(name)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return True


def _free_bytes(folder: Path) -> int:
    try:
        disk = os.statvfs(folder)
    except (AttributeError, OSError):
        return 1 << 60
    return disk.f_bavail * disk.f_frsize
