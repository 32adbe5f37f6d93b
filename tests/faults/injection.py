"""Faults at the edge of a process: calls of the system, of SQLite and of the network that fail as they are told.

`Injector.install` replaces these calls in the whole process. A call is at a *site*: what it does, and which function of
goldspan does it for which other. Calls without a function of goldspan beneath them stay as they are.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import random
import re
import resource
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grpc

KINDS: dict[str, tuple[str, ...]] = {
    "open": ("EMFILE", "EIO", "descriptors used up"),
    "create": ("EMFILE", "ENOSPC", "EIO", "crash"),
    "read": ("EIO", "garbage", "cut off"),
    "write": ("ENOSPC", "EIO", "half written", "EIO after it", "crash", "crash after it", "no file grows"),
    "sync": ("ENOSPC", "EIO", "crash"),
    "look": ("EIO",),
    "list": ("EMFILE", "EIO"),
    "change": ("ENOSPC", "EIO", "EIO after it", "crash", "crash after it"),
    "lock": ("EIO",),
    "sqlite open": ("EMFILE", "EIO", "malformed"),
    "sqlite read": ("EIO", "locked", "malformed"),
    "sqlite row": ("EIO", "garbage", "malformed"),
    "sqlite write": (
        "ENOSPC",
        "EIO",
        "locked",
        "malformed",
        "EIO after it",
        "crash",
        "crash after it",
        "no file grows",
    ),
    "connect": ("EMFILE", "timeout", "reset"),
    "send": ("timeout", "reset", "timeout after it", "crash after it"),
    "receive": ("timeout", "reset", "garbage", "cut off"),
    "call": ("timeout", "reset", "timeout after it", "garbage", "closed", "crash after it"),
    "thread": ("no thread",),
}
"""What can happen to a call, by what it does."""
DAMAGE = {"garbage", "cut off", "malformed"}
"""Kinds after which what was stored cannot be told from what was not."""
SKIPPED = "skipped"
"""The call says that it was done, and was not: no gateway survives that, so it shows that a night can end badly."""
LIMITS = {"descriptors used up": "RLIMIT_NOFILE", "no file grows": "RLIMIT_FSIZE"}
"""Kinds that lower a limit of the process, so that the system itself refuses calls, those of libraries too."""

_UNSEEN = ("logging", "linecache", "traceback", "importlib", "warnings")
"""What these do on behalf of goldspan is not goldspan's."""
_LOOPS = {"run_gateway"}
"""Functions of goldspan that run an event loop, which has calls of its own."""
_CHANGES = {"insert", "delete", "update", "create", "begin", "commit", "vacuum", "alter", "drop"}


@dataclass(frozen=True)
class Fault:
    """What fails, and when."""

    site: str = ""
    kind: str = ""
    call: int = 1
    """The how-manieth call at the site."""
    seconds: float = 0.0
    """How long every call fails to which that can happen; 0: only this one fails."""
    begins: Literal["start", "end", "half"] | None = None
    """Every call fails to which that can happen, wherever it is: from the process' start, or once all was sent. Or
    no call fails: when half was sent, an operator does something to the journal's folder (`rigs/operator_acts.py`)."""
    storm: float = 0.0
    """The share of all calls, at any site, that fail in any way that is possible there, for `seconds`."""
    seed: int = 0


class Injector:
    """Counts calls by site, and lets some of them fail."""

    def __init__(self, fault: Fault | None) -> None:
        self.calls = Counter[str]()
        self.failed = 0
        self._fault = fault
        self._until = 0.0
        self._lock = threading.Lock()
        self._random = random.Random(0 if fault is None else fault.seed)
        if fault is not None and fault.begins == "start":
            self.begin()
        self._dup, self._start_thread = os.dup, threading.Thread.start

    def begin(self) -> None:
        """Let calls fail from now on."""
        if self._fault is not None:
            self._until = time.monotonic() + self._fault.seconds

    def call(self, does: str, act: Callable[..., Any], *args: Any, what: str = "", rollback: Any = None) -> Any:
        """Make a call, unless it has to fail."""
        site = _site(f"{does} {what}".strip())
        kind = None if site is None else self._kind(site, does)
        if kind is None:
            return act(*args)
        if kind == SKIPPED:
            return sum(map(len, args[-1])) if does == "write" else b""
        if kind in LIMITS:
            self._limit(kind)
            return act(*args)
        if kind == "ENOSPC" and _needs_no_room(does, what, args):
            return act(*args)
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind.endswith("after it"):
            act(*args)
            if kind == "crash after it":
                os.kill(os.getpid(), signal.SIGKILL)
        if kind in ("garbage", "cut off"):
            return _spoiled(act(*args), self._random, cut=kind == "cut off")
        if kind == "half written":
            return _half(act, args)
        if rollback is not None:
            rollback()
        raise _error(kind.removesuffix(" after it"), does)

    def _kind(self, site: str, does: str) -> str | None:
        fault = self._fault
        with self._lock:
            self.calls[site] += 1
            if fault is None:
                return None
            now = time.monotonic()
            kind: str | None = None
            if fault.storm:
                self._until = self._until or now + fault.seconds
                if now < self._until and self._random.random() < fault.storm:
                    kind = self._random.choice([one for one in KINDS[does] if not _is_special(one)])
            elif site == fault.site and self.calls[site] == fault.call:
                self._until = now + fault.seconds
                kind = fault.kind
            elif now < self._until and fault.kind in KINDS[does] and fault.kind not in LIMITS:
                kind = fault.kind
            self.failed += kind is not None
            return kind

    def _limit(self, kind: str) -> None:
        """Lower a limit of the process for a while."""
        assert self._fault is not None
        name: int = getattr(resource, LIMITS[kind])
        soft, hard = resource.getrlimit(name)
        free = self._dup(0)
        os.close(free)
        resource.setrlimit(name, (free if name == resource.RLIMIT_NOFILE else 0, hard))
        self._until = time.monotonic() + self._fault.seconds
        healing = threading.Timer(self._fault.seconds, resource.setrlimit, (name, (soft, hard)))
        self._start_thread(healing)

    def install(self) -> None:
        """Replace the calls in this process."""
        call = self.call
        for name, does in (
            ("read", "read"), ("pread", "read"),
            ("write", "write"), ("writev", "write"), ("pwrite", "write"), ("posix_fallocate", "write"),
            ("fsync", "sync"), ("fdatasync", "sync"),
            ("stat", "look"), ("lstat", "look"), ("fstat", "look"), ("statvfs", "look"), ("scandir", "list"),
            ("listdir", "list"), ("dup", "open"),
            ("mkdir", "change"), ("unlink", "change"), ("remove", "change"), ("replace", "change"),
            ("rename", "change"), ("ftruncate", "change"), ("chmod", "change"), ("fchmod", "change"),
        ):  # fmt: skip
            setattr(os, name, _wrapped(call, does, getattr(os, name), name))
        real_open = os.open

        def open_file(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            act = functools.partial(real_open, path, flags, *rest, **named)
            return call("create" if flags & os.O_CREAT and not Path(path).exists() else "open", act)

        os.open = open_file
        self._install_files()
        self._install_sqlite()
        self._install_network()
        real_start = threading.Thread.start
        threading.Thread.start = lambda thread: call("thread", real_start, thread)  # type: ignore[method-assign]
        try:
            import fcntl  # noqa: PLC0415 - not on Windows
        except ImportError:
            return
        fcntl.flock = _wrapped(call, "lock", fcntl.flock, "flock")

    def _install_files(self) -> None:
        call = self.call
        real = io.open

        class File(io.FileIO):
            def readinto(self, buffer: Any) -> int | None:
                data = call("read", super().read, len(buffer))
                buffer[: len(data)] = data
                return len(data)

            def readall(self) -> bytes:
                return call("read", super().readall)

            def write(self, data: Any) -> int | None:
                return call("write", super().write, data)

        def open_file(
            file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
            newline: Any = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            if _site("open") is None:
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            creates = bool(set(mode) & set("wxa"))
            plain = mode.replace("b", "").replace("t", "")
            raw = call("create" if creates else "open", File, file, plain, closefd, opener)
            buffered: Any = raw
            if buffering:
                buffered = (io.BufferedWriter if creates else io.BufferedReader)(raw)
                if "+" in mode:
                    buffered = io.BufferedRandom(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

        builtins.open = io.open = open_file

    def _install_sqlite(self) -> None:
        call = self.call
        real = sqlite3.connect

        class Cursor(sqlite3.Cursor):
            def _do(self, act: Callable[..., Any], sql: str, *rest: Any) -> Any:
                words = re.findall(r"\w+", sql.lower())[:3]
                changes = bool(words) and (words[0] in _CHANGES or "journal_mode" in words)
                if words[:1] == ["rollback"]:
                    return act(sql, *rest)
                does = "sqlite write" if changes else "sqlite read"
                return call(does, act, sql, *rest, what=" ".join(words), rollback=self._roll_back)

            def _roll_back(self) -> None:
                if self.connection.in_transaction:  # SQLite does that by itself after most errors
                    sqlite3.Connection.rollback(self.connection)

            def execute(self, sql: str, *rest: Any) -> Any:  # type: ignore[override]
                return self._do(super().execute, sql, *rest)

            def executemany(self, sql: str, *rest: Any) -> Any:  # type: ignore[override]
                return self._do(super().executemany, sql, *rest)

            def executescript(self, sql: str) -> Any:  # type: ignore[override]
                return self._do(super().executescript, sql)

            def fetchone(self) -> Any:
                return call("sqlite row", super().fetchone)

            def fetchall(self) -> Any:
                return call("sqlite row", super().fetchall)

            def __next__(self) -> Any:
                return call("sqlite row", super().__next__)

        class Connection(sqlite3.Connection):
            def cursor(self, *_: Any) -> Any:
                return super().cursor(Cursor)

            def execute(self, sql: str, *rest: Any) -> Any:  # type: ignore[override]
                return self.cursor().execute(sql, *rest)

            def executemany(self, sql: str, *rest: Any) -> Any:  # type: ignore[override]
                return self.cursor().executemany(sql, *rest)

            def executescript(self, sql: str) -> Any:  # type: ignore[override]
                return self.cursor().executescript(sql)

        def connect(*args: Any, **named: Any) -> sqlite3.Connection:
            if args[:1] == (":memory:",):
                return real(*args, **named)
            return call("sqlite open", functools.partial(real, *args, **{"factory": Connection, **named}))

        sqlite3.connect = connect  # type: ignore[assignment]

    def _install_network(self) -> None:
        call = self.call
        made = socket.socket.__init__

        def create(
            self: socket.socket, family: int = -1, kind: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            if fileno is not None:  # it is open already
                made(self, family, kind, proto, fileno)
            else:
                call("open", made, self, family, kind, proto, what="socket")

        socket.socket.__init__ = create  # type: ignore[method-assign]
        for name, does in (("connect", "connect"), ("send", "send"), ("sendall", "send"), ("recv", "receive")):
            setattr(socket.socket, name, _method(call, does, getattr(socket.socket, name)))

        def recv_into(self: socket.socket, buffer: Any, size: int = 0, flags: int = 0) -> int:
            data = call("receive", _recv, self, size or len(buffer), flags)
            buffer[: len(data)] = data
            return len(data)

        _recv = super(socket.socket, socket.socket).recv
        socket.socket.recv_into = recv_into  # type: ignore[method-assign, assignment]
        real_channel = grpc.insecure_channel

        class Channel:
            def __init__(self, *args: Any, **named: Any) -> None:
                self._channel = real_channel(*args, **named)  # it opens nothing yet

            def unary_unary(self, *args: Any, **named: Any) -> Callable[..., Any]:
                method = self._channel.unary_unary(*args, **named)
                return lambda *given, **options: call("call", functools.partial(method, *given, **options))

            def close(self) -> None:
                self._channel.close()

        grpc.insecure_channel = Channel


class CallFailed(grpc.RpcError):
    """What a gRPC call raises."""

    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__(code)
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "injected"

    def trailing_metadata(self) -> tuple[()]:
        return ()


def _needs_no_room(does: str, what: str, args: Sequence[Any]) -> bool:
    """Whether a full disk allows a change: nothing new is made."""
    return does == "change" and (what != "mkdir" or Path(args[0]).exists())


def _is_special(kind: str) -> bool:
    """Whether a storm leaves it out."""
    return kind.startswith("crash") or kind in LIMITS or kind in DAMAGE


def _site(does: str) -> str | None:
    """What is done, by which function of goldspan and for which of other modules; None if by none of goldspan's."""
    found: dict[str, str] = {}
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < 3:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("goldspan."):
            function = re.sub(r"\.<.*", "", frame.f_code.co_qualname)
            if not found and function in _LOOPS:
                return None
            found.setdefault(module.rpartition(".")[2], function)
        elif not found and module.partition(".")[0] in _UNSEEN:
            return None
        frame = frame.f_back
    return f"{does} in {' < '.join(map(':'.join, found.items()))}" if found else None


def _wrapped(call: Any, does: str, act: Callable[..., Any], name: str) -> Callable[..., Any]:
    def replaced(*args: Any, **named: Any) -> Any:
        return call(does, functools.partial(act, **named) if named else act, *args, what=name)

    return replaced


def _method(call: Any, does: str, act: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: call(does, act, self, *args)


def _spoiled(result: Any, rng: random.Random, *, cut: bool) -> Any:
    """Bytes or a row as a broken disk or peer gives them."""
    if isinstance(result, tuple):
        return tuple(_other(value, rng) for value in result)
    if isinstance(result, list):
        return [_spoiled(result[0], rng, cut=cut), *result[1:]] if result else result
    if isinstance(result, bytes):
        return result[: len(result) // 2] if cut else rng.randbytes(len(result))
    return result


def _other(value: Any, rng: random.Random) -> Any:
    return rng.randbytes(9) if isinstance(value, int | str | float) else "garbage"


def _half(act: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Write half of what was to be written, and say so, as at the end of a disk's room."""
    *before, data = args
    whole = b"".join(data) if isinstance(data, list) else bytes(data)
    if not whole:
        return act(*args)
    half = whole[: max(1, len(whole) // 2)]
    return act(*before, [half] if isinstance(data, list) else half)


def _error(kind: str, does: str) -> BaseException:
    if does.startswith("sqlite"):
        return _sqlite_error(kind)
    if does == "call":
        codes = {"timeout": grpc.StatusCode.DEADLINE_EXCEEDED, "reset": grpc.StatusCode.UNAVAILABLE}
        return CallFailed(codes[kind]) if kind in codes else ValueError("Cannot invoke RPC on closed channel!")
    if kind == "timeout":
        return TimeoutError("timed out")
    if kind == "no thread":
        return RuntimeError("can't start new thread")
    if kind == "reset":
        number = errno.ECONNREFUSED if does == "connect" else errno.ECONNRESET
    else:
        number = getattr(errno, kind)
    return OSError(number, os.strerror(number))


def _sqlite_error(kind: str) -> sqlite3.Error:
    message, name = {
        "EMFILE": ("unable to open database file", "SQLITE_CANTOPEN"),
        "ENOSPC": ("database or disk is full", "SQLITE_FULL"),
        "EIO": ("disk I/O error", "SQLITE_IOERR"),
        "locked": ("database is locked", "SQLITE_BUSY"),
        "malformed": ("database disk image is malformed", "SQLITE_CORRUPT"),
    }[kind]
    error = (sqlite3.DatabaseError if kind == "malformed" else sqlite3.OperationalError)(message)
    error.sqlite_errorname = name
    error.sqlite_errorcode = getattr(sqlite3, name)
    return error
