"""The process of a server: logs, memory, open files and systemd; files that are loaded again when they change; threads.

Threads go on after a failure. Secrets that cannot be loaded change nothing: what was loaded stays in use.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NoReturn, TextIO

from google.protobuf.internal import api_implementation
from pydantic import BaseModel

from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.field_types import ClientTls, Secret, ServerTls
from goldspan.scoring.errors import FileError, Mistake, SettingsError
from goldspan.scoring.goldens.loading import golden_files_in
from goldspan.scoring.json_values import escaped, is_mapping, is_sequence

_logger = logging.getLogger("goldspan.gateway")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_HEAP_BUFFER = 32 << 20
"""The maximum that glibc allows for M_MMAP_THRESHOLD. Requests are smaller."""
_KEPT_BYTES = 64 << 20  # freed memory that glibc keeps for the next requests


def raise_open_files() -> None:
    """Raise the limit of open files to its hard limit: each connection is one file."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - not available on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_freed_memory() -> None:
    """Make glibc reuse the memory of large buffers.

    By default glibc maps and unmaps each buffer of more than 128 KiB, so that reading and writing a request of 600 KiB
    takes four times as long. And each thread has its own arena, which keeps memory that others could use. One arena is
    enough for threads of which one runs at a time.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_HEAP_BUFFER)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)


def warn_of_slow_protobuf() -> None:
    """Warn if another package replaced protobuf's C implementation with the pure Python one."""
    if (kind := api_implementation.Type()) != "upb":
        _logger.warning("protobuf uses its %s implementation, which is much slower: install protobuf's own wheel", kind)


def raise_all(*checks: tuple[str, Callable[[], object]]) -> None:
    """Make checks, each of a setting; raise one FileError with what is wrong in all of them."""
    mistakes: dict[str, Mistake] = {}
    for setting, check in checks:
        try:
            check()
        except FileError as error:
            mistakes.update((str(one), one) for one in error.mistakes)
        except SettingsError as error:
            # What is read for several settings is wrong once.
            mistakes.setdefault(str(error), Mistake("settings", setting, str(error)))
    if mistakes:
        raise FileError(*mistakes.values())


def notify_systemd(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send a state such as `READY=1` to systemd, if it asked for it (sd_notify(3))."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(state.encode())
    except OSError as error:
        _logger.warning("could not send %s to systemd: %s", state, error)


def end_process() -> NoReturn:
    """End with exit code 0, at once.

    The interpreter's own end takes seconds after large goldens, and aborts where a thread works in a library meanwhile,
    such as the one that reloads goldens.
    """
    # Those of an instrumentation of this process, and of logging.
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


_LIBRARIES = {
    "grpc": logging.WARNING,
    "uvicorn": logging.WARNING,
    "opentelemetry": logging.WARNING,
    "quixstreams": logging.WARNING,
    "urllib3": logging.ERROR,
}
"""What libraries log at least. urllib3 warns of malformed headers with all of them, whoever sent how many."""
_NOT_EXTRA = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(level: str, form: Literal["json", "text"]) -> None:
    """Log to standard error, as `json` or `text`. Of libraries, only what went wrong."""
    handler = _StandardError(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name, lowest in _LIBRARIES.items():
        logging.getLogger(name).setLevel(lowest)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes lines of the log, and loses those that cannot be written: there is no other place to say so."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in `logging`
        """Say nothing. The logging package would write a traceback to the same full disk."""


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False, default=str))


class TextLines(logging.Formatter):
    """The same as text, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        extra = "".join(f" {name}={value}" for name, value in _extra(record).items())
        text = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{extra}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        # A quoted text may come from a client: only the first line starts at the margin.
        return "\n  ".join(text.splitlines())


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _NOT_EXTRA}


OnFailure = Callable[[str, BaseException], object]
"""Called with the name of what failed, and the error. It must not block."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 10.0
"""Seconds after a failure, doubled after each further one that follows within the longest pause."""


class GuardedThread:
    """A thread that calls `loop` until it returns. If it raises, the error is reported and it is called again."""

    def __init__(self, name: str, loop: Callable[[], object], on_failure: OnFailure) -> None:
        """`name` is what the thread does, for metrics and logs; several threads may share one."""
        self.name = name
        self._loop = loop
        self._on_failure = on_failure
        self._in_loop = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"goldspan-{name}", daemon=True)

    @property
    def runs(self) -> bool:
        """Whether it is in its loop: false before its start, after its end, and in the pause after a failure."""
        return self._in_loop and self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """Whether its loop has returned, or was never begun."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Begin the loop."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the loop to return; after a failure it is not called again."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            self._in_loop = True
            try:
                self._loop()
            except BaseException as error:  # noqa: BLE001 - even SystemExit would end a thread that is needed
                self._in_loop = False
                with suppress(BaseException):
                    self._on_failure(self.name, error)
            else:
                return
            finally:
                self._in_loop = False
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            if self._closing.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)


def thread_metrics(threads: Iterable[GuardedThread]) -> Iterator[Sample]:
    """Yield how many threads there are and how many of them run, by name."""
    threads = list(threads)
    running = Counter(one.name for one in threads if one.runs)
    for name, number in Counter(one.name for one in threads).items():
        yield "goldspan_threads", {"thread": name}, number
        yield "goldspan_threads_running", {"thread": name}, running[name]


def why_not_running(threads: Iterable[GuardedThread]) -> str | None:
    """Return a sentence that names the threads that do not run; None if all do."""
    names = sorted({one.name for one in threads if not one.runs})
    return f"threads that failed and do not run now: {', '.join(names)}" if names else None


Fingerprint = tuple[tuple[str, int, int], ...]
"""Path, modification time and size of files. It differs when one of them has changed."""


def fingerprint(paths: Iterable[Path]) -> Fingerprint:
    """Return the fingerprint of these files, and of all golden files in these folders."""
    found: list[tuple[str, int, int]] = []
    for path in paths:
        files = [path]
        # What cannot be read or is missing changes the fingerprint, too.
        with suppress(OSError, FileError):
            files += golden_files_in(path) if path.is_dir() else []
        for one in files:
            with suppress(OSError):
                seen = one.stat()
                found.append((str(one), seen.st_mtime_ns, seen.st_size))
    return tuple(sorted(found))


class FileReloader:
    """Reloads files when one of them has changed, or when it is asked to."""

    def __init__(self, paths: Iterable[Path], load: Callable[[], bool], *, retry: bool = False) -> None:
        """Call `load` to read these files and folders; it returns whether they could be used.

        With `retry`, files that could not be used are read again at each check: perhaps one was not replaced yet.
        """
        self._retry = retry
        self._refused = False
        self._paths = tuple(paths)
        self._load = load
        self._seen = fingerprint(self._paths)
        self._lock = threading.Lock()

    def check(self) -> None:
        """Reload if a file has changed since the last time."""
        if fingerprint(self._paths) != self._seen or (self._retry and self._refused):
            self.reload()

    def reload(self) -> bool:
        """Reload the files. Return whether they could be used."""
        with self._lock:
            # Taken before reading, so that a change during reading is noticed by the next check.
            self._seen = fingerprint(self._paths)
            loaded = self._load()
            self._refused = not loaded
            return loaded


class FileWatch:
    """A thread that checks files now and then, and reloads them at once when it is asked to.

    It is no thread of the event loop's executor, which a shutdown waits for: a file system that hangs stops reloads
    and nothing else.
    """

    def __init__(self, interval: float | None, *, check: Callable[[], object], reload: Callable[[], object]) -> None:
        """Call `check` every `interval` seconds, or never if that is None; and `reload` after `reload_soon`."""
        self._interval = interval
        self._check = check
        self._reload = reload
        self._wake = threading.Event()
        self._asked = False
        self._stopped = False
        self.failures = 0
        self._thread = GuardedThread("reload", self._run, self._on_failure)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def reload_soon(self) -> None:
        """Reload in the thread. Returns at once."""
        self._asked = True
        self._wake.set()

    def stop(self) -> None:
        """Check no more. Does not wait for a check that is being made."""
        self._stopped = True
        self._wake.set()
        self._thread.join(0.0)

    def metrics(self) -> Iterator[Sample]:
        """Yield whether the thread runs, and how often it failed."""
        yield from thread_metrics([self._thread])
        if self.failures:
            yield "goldspan_failures_total", {"where": "reload"}, self.failures

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(self._interval)
            self._wake.clear()
            if self._stopped:
                return
            asked, self._asked = self._asked, False
            (self._reload if asked else self._check)()

    def _on_failure(self, _: str, error: BaseException) -> None:
        self.failures += 1
        if self.failures == 1:
            _logger.warning("files could not be checked for changes; later failures are counted", exc_info=error)


def credential_files(settings: BaseModel) -> Iterator[Path]:
    """Yield every file in the settings that holds a secret or a certificate."""
    holds_credentials = isinstance(settings, ClientTls | Secret | ServerTls)
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        for one in value.values() if is_mapping(value) else value if is_sequence(value) else (value,):
            if holds_credentials and isinstance(one, Path):
                yield one
            elif isinstance(one, BaseModel):
                yield from credential_files(one)
