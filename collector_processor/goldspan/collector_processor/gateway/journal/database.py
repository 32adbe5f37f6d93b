"""The SQLite database of the journal: its tables, a check sum for each row, and what is saved of a damaged file.

SQLite recognises damage of its own structure only. So each row has a check sum: a row that is not as it was written is
left out, kept in `unreadable-rows.jsonl` and named in the log. A damaged database is renamed `state.db.unreadable-N`,
and every row that can still be read is copied into a new one.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from goldspan.collector_processor.gateway.journal import body_log

_FORMAT = 1
"""The version of the tables, in `pragma user_version`. Version 0 had no check sums."""
_PAGE = 4096
_CACHE_KIB = 8192
_MAX_CHECKED = 256 << 20  # bytes of a database whose structure is checked at the start
_MAX_QUERIES = 20_000  # queries for the rows of one table of a damaged database
_MAX_SET_ASIDE = 16 << 20
"""Bytes of the file of rows that were set aside. Further ones are only counted."""
_KEPT_DATABASES = 3  # the newest damaged databases are kept
_SMALLEST, _LARGEST = -(1 << 63), (1 << 62) - 1

_FREE_PAGES, _CHECKPOINT_PAGES = 64, 4096  # pages of the file that may be free, and those that are given back at once

Row = tuple[Any, ...]

COLUMNS: Mapping[str, tuple[tuple[str, type], ...]] = {
    "done": (("number", int),),
    "parts": (("number", int), ("rest", int), ("spans", bytes)),
    "outgoing": (("id", int), ("signal", str), ("headers", str), ("body", bytes)),
    "records": (("tenant", str), ("trace", str), ("at", float), ("record", bytes)),
    "sessions": (("tenant", str), ("session", str), ("state", bytes)),
    "tombstones": (("tenant", str), ("trace", str), ("at", float), ("spans", bytes)),
}
"""The columns of each table with their types, without `sum`."""
_TABLES = """
create table meta (key text primary key, value text) without rowid;
create table done (number integer primary key, sum integer);
create table parts (number integer primary key, rest integer, spans blob, sum integer);
create table outgoing (id integer primary key, signal text, headers text, body blob, sum integer);
create table records (id integer primary key, tenant text, trace text, at real, record blob, sum integer);
create index records_by_trace on records (tenant, trace);
create table sessions (tenant text, session text, state blob, sum integer, primary key (tenant, session));
create table tombstones (tenant text, trace text, at real, spans blob, sum integer, primary key (tenant, trace));
"""


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def with_sum(row: Row) -> Row:
    """Return a row with its check sum."""
    return (*row, _sum(row))


def _sum(values: Row) -> int:
    check = 0
    for value in values:
        check = body_log.crc32(
            value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass"), check
        )
    return check


def _is_whole(table: str, row: Row) -> bool:
    """Tell whether a row with its check sum is as it was written; one of version 0 has None for it."""
    *values, check = row
    kinds = [kind for _, kind in COLUMNS[table]]
    if not all(type(value) is kind for value, kind in zip(values, kinds, strict=True)):
        return False
    if any(not _SMALLEST <= value <= _LARGEST for value in values if isinstance(value, int)):
        return False
    return check is None or check == _sum(tuple(values))


_ENDINGS = ("", "-wal", "-shm")  # of the names of SQLite's files


class Database:
    """The tables in one file. Not thread-safe. Methods raise `OSError` if the file cannot be read or written."""

    def __init__(self, folder: Path, *, full_sync: bool, checkpoint_bytes: int) -> None:
        """Open the file or create it; a damaged one is renamed, and its rows are saved."""
        self.path = folder / "state.db"
        self._parts = {ending: folder / f"state.db{ending}" for ending in _ENDINGS}
        self._copy = folder / "state.db.part"
        """A new database. It is whole when `path` is gone, and takes its name."""
        self.problems: list[str] = []
        """What was found damaged since the caller emptied this list, as sentences for the log."""
        self._set_aside_path = folder / "unreadable-rows.jsonl"
        self._full_sync = full_sync
        self._checkpoint_pages = max(16, checkpoint_bytes // _PAGE)
        self._connection: sqlite3.Connection | None = None
        self._log = b""  # the log of transactions before SQLite opened it: it deletes what it does not recognise
        self._open_files: dict[Path, body_log.Identity] = {}
        """Those that SQLite has open; it would go on with them when their names are gone."""
        self.size = 0
        """Bytes of all files of the database, as of the last transaction."""
        self.is_new = False
        """There was no database, or an empty one."""
        self.lost_requests = False
        """Requests that waited to be delivered were damaged."""
        self._opened()

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def read(self, table: str, order: str) -> list[Row]:
        """Return the rows of a table without their check sums; of `outgoing` the size instead of the body.

        Rows that are not as they were written are set aside.
        """
        query = f"select {_names(table)}, sum, rowid from {table} order by {order}"
        try:
            return self._read(table, query)
        except sqlite3.DatabaseError as error:
            self._recover_from(error)
            return self._read(table, query)

    def _read(self, table: str, query: str) -> list[Row]:
        found: list[Row] = []
        damaged: list[int] = []
        for row in self._run(query):
            if not _is_whole(table, row[:-1]):
                damaged.append(row[-1])
            elif table == "outgoing":
                found.append((*row[:-3], len(row[-3])))
            else:
                found.append(row[:-2])
        self.set_aside(table, damaged)
        return found

    def body(self, number: int) -> bytes:
        """Return the body of a request that waits. Raises `BodyGoneError` if there is none, or it was damaged."""
        try:
            row = self._run("select id, signal, headers, body, sum from outgoing where id = ?", (number,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(f"the journal's database cannot be read: {error}") from error
        if row is None:
            raise body_log.BodyGoneError("it is not in the journal's database")
        if not _is_whole("outgoing", row):
            self.set_aside("outgoing", [number])
            raise body_log.BodyGoneError(
                f"it was damaged in the journal's database, and kept in {self._set_aside_path.name}"
            )
        return bytes(row[3])

    def meta(self, key: str, value: str) -> str | None:
        """Set a value and return the earlier one."""
        row = self._run("select value from meta where key = ?", (key,)).fetchone()
        if row is None or row[0] != value:
            self._run("insert or replace into meta values (?, ?)", (key, value))
        return None if row is None else str(row[0])

    def execute(self, statements: Sequence[tuple[str, Sequence[Row]]]) -> None:
        """Run these statements with their rows in one transaction; all of them or none."""
        if self._connection is None:
            self._opened()
        try:
            self._transaction(statements)
        except sqlite3.OperationalError as error:
            raise OSError(f"the journal's database cannot be written: {error}") from error
        except sqlite3.DatabaseError as error:
            self._recover_from(error)
            self._transaction(statements)
        self._measure()

    @property
    def log_size(self) -> int:
        """Bytes of the log of transactions. The file may have to grow by as many before they are free again."""
        return body_log.size_of(self._parts["-wal"])

    def shrink(self, *, wholly: bool) -> None:
        """Give free pages back to the disk: some where there are many, or with `wholly` all, and the log too."""
        if (connection := self._connection) is None:
            return
        try:
            if wholly:
                self._checkpoint(connection)
            free, pages = (connection.execute(f"pragma {one}_count").fetchone()[0] for one in ("freelist", "page"))
            some = free if wholly else min(max(_FREE_PAGES, free // 4), _CHECKPOINT_PAGES)
            if free > (0 if wholly else max(_FREE_PAGES, pages // 4)):
                # A page that moves is written to the log first: in steps, the log stays small.
                for done in range(0, some, self._checkpoint_pages):
                    before, step = self.log_size, min(self._checkpoint_pages, some - done)
                    try:
                        connection.executescript(f"pragma incremental_vacuum({step})")
                    except sqlite3.Error:
                        self._cut_log(before)
                        break
                    self._checkpoint(connection)
        except sqlite3.Error:
            pass  # the disk is full or broken, as the next transaction will say
        self._measure()

    @staticmethod
    def _checkpoint(connection: sqlite3.Connection) -> None:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def set_aside(self, table: str, rowids: Sequence[int]) -> None:
        """Move rows that cannot be read from a table to the file of rows that were set aside, and say so."""
        if not rowids:
            return
        self.lost_requests |= table == "outgoing"
        kept = 0
        try:
            for rowid in rowids:
                row = self._run(f"select * from {table} where rowid = ?", (rowid,)).fetchone()
                self._keep_row(table, row)
                self._run(f"delete from {table} where rowid = ?", (rowid,))
                kept += 1
        except (sqlite3.Error, OSError):
            pass  # they stay where they are, and are left out
        self.problems.append(
            f"{len(rowids)} rows of the table `{table}` in {self.path} are not as they were written and were left out"
            + (f"; {self._set_aside_path.name} has them" if kept else "")
        )

    def _keep_row(self, table: str, row: Row | None) -> None:
        values = [{"base64": base64.b64encode(one).decode()} if isinstance(one, bytes) else one for one in row or ()]
        line = json.dumps({"table": table, "row": values}, default=repr).encode() + b"\n"
        file = os.open(self._set_aside_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(file).st_size + len(line) <= _MAX_SET_ASIDE:
                os.write(file, line)
        finally:
            os.close(file)

    def _run(self, query: str, values: Row = ()) -> sqlite3.Cursor:
        if self._connection is None:
            raise OSError("the journal's database is not open")
        return self._connection.execute(query, values)

    def _transaction(self, statements: Sequence[tuple[str, Sequence[Row]]]) -> None:
        connection = self._connection
        assert connection is not None
        before, may_be_done = self.log_size, False
        connection.execute("begin immediate")
        try:
            for query, rows in statements:
                connection.executemany(query, rows)
            may_be_done = True
            connection.execute("commit")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("rollback")
            # A commit for which there was no room is not done. After another error it may be, and is left in the log.
            if isinstance(error, sqlite3.Error) and (not may_be_done or _is_full(error)):
                self._cut_log(before)
            raise

    def _cut_log(self, size: int) -> None:
        """Give back what a failed transaction wrote to the log, which was of this size: SQLite would keep it.

        All that is committed is in these first bytes, since SQLite overwrites the log only when it is in the file.
        """
        if self._connection is not None and not self._connection.in_transaction and self.log_size > size:
            with contextlib.suppress(OSError):
                os.truncate(self._parts["-wal"], size)

    def _measure(self) -> None:
        self.size = sum(map(body_log.size_of, self._parts.values()))

    def _note_files(self) -> None:
        for part in (self._parts[""], self._parts["-wal"]):
            if part not in self._open_files:
                with contextlib.suppress(OSError):
                    self._open_files[part] = body_log.identity(part)

    def restore(self) -> None:
        """Write the database again if the name of a file of it is gone or means another file. Raises `OSError`."""
        self._note_files()
        gone = [part for part, wanted in self._open_files.items() if not body_log.is_at(part, wanted)]
        if not gone or self._connection is None:
            return
        if other := next((part for part in gone if part.exists()), None):
            raise OSError(errno.EEXIST, "is another file now", str(other))
        try:
            with contextlib.closing(self._new_copy()) as target:
                self._connection.backup(target)
            self.close()
            self._take_copy()
        except sqlite3.Error as error:
            self._drop_copy()
            raise OSError(f"{self.path} was deleted and cannot be written again: {error}") from error
        self._opened()

    def _new_copy(self) -> sqlite3.Connection:
        self._drop_copy()
        os.close(os.open(self._copy, os.O_RDWR | os.O_CREAT, 0o600))
        return sqlite3.connect(self._copy, isolation_level=None)

    def _drop_copy(self) -> None:
        for ending in ("", "-journal"):
            self._copy.with_name(self._copy.name + ending).unlink(missing_ok=True)

    def _take_copy(self) -> None:
        for ending in _ENDINGS[1:]:  # SQLite would apply the log to another database, too
            self._parts[ending].unlink(missing_ok=True)
        self._copy.replace(self.path)
        body_log.sync_folder(self.path.parent)

    # Opening.

    def _opened(self) -> None:
        try:
            self._connection = self._connect()
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._recover_from(error, self._log)
        self._log = b""
        self._note_files()
        self._measure()

    def _connect(self) -> sqlite3.Connection:
        """Open the file as it is. Raises `sqlite3.DatabaseError` if it is damaged."""
        if self.path.exists():
            self._drop_copy()
        elif self._copy.exists():  # the process ended while it replaced a damaged database
            self._take_copy()
            self.lost_requests = True  # it may have found some damaged
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's other files get the same mode
        with contextlib.suppress(OSError):
            self._parts["-shm"].unlink()  # of a version that shared the database
        self._log = _content(self._parts["-wal"])
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            run = connection.execute
            connection.text_factory = _text
            # The folder is this process's alone, and without shared memory nothing but the two files takes room.
            run("pragma locking_mode = exclusive")
            if not body_log.size_of(self.path):  # an existing file keeps its own, and would be written
                run("pragma auto_vacuum = incremental")
            run("pragma journal_mode = wal")
            run(f"pragma synchronous = {'full' if self._full_sync else 'normal'}")
            run("pragma secure_delete = fast")  # Debian's default writes freed pages: a full disk has no room for that
            run(f"pragma cache_size = -{_CACHE_KIB}")
            run("pragma temp_store = memory")
            run(f"pragma wal_autocheckpoint = {self._checkpoint_pages}")
            run(f"pragma journal_size_limit = {self._checkpoint_pages * _PAGE}")
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._open_files.clear()
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the tables in a new file, change those of version 0, and refuse a damaged file."""
        run = connection.execute
        version = run("pragma user_version").fetchone()[0]
        tables = {name for (name,) in run("select name from sqlite_master where type = 'table'")}
        if not tables and not version:
            self.is_new = True
            _set_up(connection, _TABLES.split(";\n"))
            return
        self._check_structure(connection)
        if version == 0 and tables == {"meta", *COLUMNS}:
            _set_up(connection, [f"alter table {table} add column sum integer" for table in COLUMNS])
        elif version != _FORMAT:
            raise sqlite3.DatabaseError(f"found version {version} of the tables, expected {_FORMAT}")
        for table, columns in COLUMNS.items():
            try:
                run(f"select {', '.join(name for name, _ in columns)}, sum from {table} limit 0")
            except sqlite3.OperationalError as error:
                raise sqlite3.DatabaseError(str(error)) from error

    def _check_structure(self, connection: sqlite3.Connection) -> None:
        if body_log.size_of(self.path) <= _MAX_CHECKED:
            result = connection.execute("pragma quick_check(1)").fetchone()[0]
            if result != "ok":
                raise sqlite3.DatabaseError(result)
        try:
            checkpoint = connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except sqlite3.OperationalError:  # the disk is full
            return
        if _lost_transactions(self._log, max(0, checkpoint[1])):
            raise sqlite3.DatabaseError("transactions in the log of the database are damaged")

    # Damage.

    def _recover_from(self, error: sqlite3.Error, log: bytes = b"") -> None:
        """Rename the damaged database, and copy what can be read of it, and of its log, into a new one."""
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"the journal's database cannot be read: {error}") from error
        log = log or _content(self._parts["-wal"])
        self.close()
        number = 1 + max(map(body_log.number_of, self._damaged()), default=0)
        kept = self.path.with_name(f"{self.path.name}.unreadable-{number}")
        saved, lost = _saved_rows(self.path, log)
        try:
            self._replace(kept, log, saved)
        except (sqlite3.Error, OSError) as why:
            raise OSError(f"{self.path} is damaged ({error}) and cannot be replaced: {why}") from why
        self.is_new = False
        self.lost_requests |= any("outgoing" in one for one in lost) or not saved["outgoing"]
        for old in sorted(self._damaged(), key=body_log.number_of)[:-_KEPT_DATABASES]:
            for ending in _ENDINGS:
                old.with_name(old.name + ending).unlink(missing_ok=True)
        counts = ", ".join(f"{len(rows)} of {table}" for table, rows in saved.items() if rows) or "none"
        self.problems.append(
            f"{self.path} was damaged ({error}) and is kept as {kept.name}. Rows that could be read: {counts}."
            + (f" Not readable: {', '.join(lost)}." if lost else "")
            + " Bodies not known to be delivered are delivered again; open runs may be judged without earlier turns"
        )

    def _replace(self, kept: Path, log: bytes, saved: Mapping[str, Sequence[Row]]) -> None:
        """Write a new database with these rows, rename the damaged one and its log, and give its name to the new one.

        All of that or nothing. A process that ends meanwhile leaves the damaged one in its place, or the new one whole.
        """
        moved: list[tuple[Path, Path]] = []
        try:
            with contextlib.closing(self._new_copy()) as new:
                new.execute("pragma auto_vacuum = incremental")
                _set_up(new, _TABLES.split(";\n"))
                new.execute("begin immediate")
                for table, rows in saved.items():
                    new.executemany(insert_into(table), rows)
                new.execute("commit")
            for ending, part in self._parts.items():
                if part.exists():
                    target = kept.with_name(kept.name + ending)
                    part.replace(target)
                    moved.append((part, target))
            if log:
                body_log.write_private(kept.with_name(f"{kept.name}-wal"), log)
            self._take_copy()
            self._connection = self._connect()
        except (sqlite3.Error, OSError):
            self.close()
            if moved and self.path.exists():
                self.path.replace(self._copy)
            for part, target in reversed(moved):
                part.unlink(missing_ok=True)
                target.replace(part)
            self._drop_copy()
            raise

    def _damaged(self) -> list[Path]:
        return [one for one in self.path.parent.glob(f"{self.path.name}.unreadable-*") if body_log.number_of(one)]


def _set_up(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    """Make the tables those of this version."""
    for statement in ("begin immediate", *statements, f"pragma user_version = {_FORMAT}", "commit"):
        connection.execute(statement)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _names(table: str) -> str:
    return ", ".join(name for name, _ in COLUMNS[table])


_KEYS = {"records": 2, "sessions": 2, "tombstones": 2}
"""How many columns name the rows that are deleted together, where it is not the first alone."""


@cache
def delete_from(table: str) -> str:
    """Return the statement that deletes the rows of a key from a table."""
    keys = [name for name, _ in COLUMNS[table][: _KEYS.get(table, 1)]]
    return f"delete from {table} where {' and '.join(f'{key} = ?' for key in keys)}"


@cache
def insert_into(table: str) -> str:
    """Return the statement that puts a row with its check sum into a table."""
    marks = ", ".join("?" * (len(COLUMNS[table]) + 1))
    return f"insert or replace into {table} ({_names(table)}, sum) values ({marks})"


def _empty() -> sqlite3.Connection:
    """Return an empty database in memory, whose first page is that of every file of this version."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("pragma auto_vacuum = incremental")
    connection.executescript(_TABLES)
    connection.execute(f"pragma user_version = {_FORMAT}")
    return connection


_WAL_HEADER, _FRAME_HEADER = 32, 24


def _frames(wal: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames of SQLite's write-ahead log, damaged or not: page number, size at a commit or 0, page."""
    salt = wal[16:24]
    for at in range(_WAL_HEADER, len(wal) - _FRAME_HEADER - _PAGE + 1, _FRAME_HEADER + _PAGE):
        if wal[at + 8 : at + 16] == salt:
            page, size = int.from_bytes(wal[at : at + 4], "big"), int.from_bytes(wal[at + 4 : at + 8], "big")
            yield page, size, wal[at + _FRAME_HEADER : at + _FRAME_HEADER + _PAGE]


def _lost_transactions(log: bytes, known: int) -> bool:
    """Tell whether the log has transactions behind the frames that SQLite knows: damage cut them off."""
    return any(size for number, (_, size, _) in enumerate(_frames(log)) if number >= known)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _saved_rows(path: Path, log: bytes) -> tuple[dict[str, list[Row]], list[str]]:
    """Return the whole rows of each table of a damaged database, and what could not be read.

    The pages of the log are put in their places, whether SQLite would recognise them or not: the check sums of rows
    tell which are whole. The first page, which names the tables, is that of an empty database where it is damaged.
    """
    saved: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    lost: list[str] = []
    try:
        images = _images(path, log)
    except (OSError, MemoryError) as error:
        return saved, [str(error)]
    for table in COLUMNS:
        damaged = 0
        readable = False
        for image in images:
            try:
                rows, stretches = _readable_rows(image, table)
            except sqlite3.Error:
                continue
            whole = [row for row in rows if _is_whole(table, row)]
            readable, damaged = True, len(rows) - len(whole) + stretches
            saved[table] = whole
            if whole or not rows:
                break
        if not readable:
            lost.append(f"the table {table}")
        elif damaged:
            lost.append(f"{damaged} places of {table}")
    for image in images:
        image.close()
    return saved, lost


def _images(path: Path, log: bytes) -> list[sqlite3.Connection]:
    """Return the database and its log in memory: with its own first page, and with that of an empty database."""
    content = bytearray(path.read_bytes())
    frames = list(_frames(log))
    last = max((number for number, (_, size, _) in enumerate(frames) if size), default=-1)
    limit = len(content) // _PAGE + len(frames) + 1
    for page, _, data in frames[: last + 1]:
        if 0 < page <= limit:
            content.extend(bytes(max(0, page * _PAGE - len(content))))
            content[(page - 1) * _PAGE : page * _PAGE] = data
    content.extend(bytes(-len(content) % _PAGE))
    with contextlib.closing(_empty()) as empty:
        first = bytearray(empty.serialize()[:_PAGE])
    pages = (len(content) // _PAGE).to_bytes(4, "big")
    images: list[sqlite3.Connection] = []
    for own in (True, False):
        image = bytearray(content[:_PAGE] if own else first).ljust(_PAGE, b"\0")
        image[:24], image[28:32], image[32:40] = first[:24], pages, bytes(8)
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.text_factory = _text
        connection.deserialize(bytes(image + content[_PAGE:]))
        images.append(connection)
    return images


def _readable_rows(database: sqlite3.Connection, table: str) -> tuple[list[Row], int]:
    """Return the rows of a table that can be read, and how many stretches of it cannot."""
    names = {row[1] for row in database.execute(f"pragma table_info({table})")}
    columns = _names(table) + (", sum" if "sum" in names else ", null")
    query = f"select {columns} from {table} not indexed where rowid between ? and ? order by rowid"
    database.execute(query, (1, 0)).fetchall()
    rows: list[Row] = []
    stretches = queries = 0
    waiting = [(_SMALLEST, (1 << 63) - 1)]
    while waiting:
        low, high = waiting.pop()
        queries += 1
        try:
            rows += database.execute(query, (low, high)).fetchall()
        except sqlite3.Error:
            middle = (low + high) // 2
            if low == high or queries > _MAX_QUERIES:
                stretches += 1
            else:
                waiting += [(middle + 1, high), (low, middle)]
    return rows, stretches
