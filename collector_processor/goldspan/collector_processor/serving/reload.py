"""Reloading at run time: golden files, and the files of tokens, secrets and TLS certificates.

Both are checked for changes every `watch_files` seconds and reloaded at a SIGHUP. Invalid files are refused as a whole,
and what was loaded before stays in use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.field_types import ClientTls, Secret, ServerTls
from goldspan.collector_processor.serving.process import GuardedThread, thread_metrics
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import GoldenIndex, load_criterion, load_goldens
from goldspan.scoring.goldens.loading import golden_files_in
from goldspan.scoring.json_values import is_mapping, is_sequence

_logger = logging.getLogger("goldspan.gateway")

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


@dataclass(frozen=True, slots=True)
class GoldenFiles:
    """Golden files and folders, and the criterion they inherit."""

    paths: Sequence[Path]
    criterion: Path | None = None

    def load(self) -> GoldenIndex:
        """Read all of them. Raises FileError, which names every mistake."""
        return load_goldens(*self.paths, criterion=None if self.criterion is None else load_criterion(self.criterion))


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


class GoldenReloader(FileReloader):
    """Reloads golden files."""

    def __init__(
        self, files: GoldenFiles, use: Callable[[GoldenIndex], object], *, loaded_at: float, now: Callable[[], float]
    ) -> None:
        """Pass new goldens to `use`. `now` and `loaded_at` are in seconds since the epoch."""
        super().__init__(files.paths if files.criterion is None else (*files.paths, files.criterion), self._reload)
        self._files = files
        self._use = use
        self._now = now
        self._loaded_at = loaded_at
        self._outcomes = {"loaded": 0, "refused": 0}

    def _reload(self) -> bool:
        try:
            goldens = self._files.load()
            self._use(goldens)
        except Exception as error:
            self._outcomes["refused"] += 1
            if isinstance(error, FileError):
                mistakes = [str(mistake) for mistake in error.mistakes]
                _logger.warning("golden files refused, the loaded ones stay in use", extra={"mistakes": mistakes})
            else:
                _logger.exception("golden files could not be reloaded, the loaded ones stay in use")
            return False
        self._outcomes["loaded"] += 1
        self._loaded_at = self._now()
        _logger.info("golden files reloaded", extra={"goldens": len(goldens.goldens)})
        return True

    def metrics(self) -> Iterator[Sample]:
        """Yield how often files were reloaded, and when last."""
        for outcome, number in self._outcomes.items():
            yield "goldspan_goldens_reloads_total", {"outcome": outcome}, number
        yield "goldspan_goldens_loaded_timestamp_seconds", {}, self._loaded_at


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
