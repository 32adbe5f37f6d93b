"""The golden files of a running gateway: read at the start, and again when they change or when it is told to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from goldspan.collector_processor.gateway.interfaces import Sample
from goldspan.collector_processor.gateway.settings.field_types import Secret
from goldspan.collector_processor.gateway.settings.sections import ClientCertificate, ServerCertificate
from goldspan.mappers.json_shapes import is_mapping, is_sequence
from goldspan.scoring.errors import FileError, SettingsError
from goldspan.scoring.goldens import GoldenIndex, load_criterion, load_goldens

_logger = logging.getLogger("goldspan.gateway")

_Print = tuple[tuple[str, int, int], ...]


def fingerprint(paths: Iterable[Path]) -> _Print:
    """Return what is another when one of these files, or a file in one of these folders, was changed."""
    found: list[tuple[str, int, int]] = []
    for path in paths:
        for one in [path, *(path.rglob("*") if path.is_dir() else ())]:
            try:
                seen = one.stat()
            except OSError:
                continue  # gone meanwhile, or not there: that is a difference as well
            found.append((str(one), seen.st_mtime_ns, seen.st_size))
    return tuple(sorted(found))


class GoldenFiles:
    """Golden files and folders, and the criterion they inherit."""

    def __init__(self, paths: Sequence[Path], criterion: Path | None = None) -> None:
        self._paths = tuple(paths)
        self._criterion = criterion

    def load(self) -> GoldenIndex:
        """Read all of them. Raises FileError, which names every mistake."""
        criterion = None if self._criterion is None else load_criterion(self._criterion)
        return load_goldens(*self._paths, criterion=criterion)

    def fingerprint(self) -> _Print:
        """Return what is another when one of them was changed."""
        return fingerprint(self._paths if self._criterion is None else (*self._paths, self._criterion))


class GoldenReloader:
    """Reads golden files anew; a file with a mistake is refused, and the goldens that were there stay."""

    def __init__(
        self, files: GoldenFiles, use: Callable[[GoldenIndex], object], *, loaded_at: float, now: Callable[[], float]
    ) -> None:
        """Give new goldens to `use`; `now` is in seconds since the epoch."""
        self._files = files
        self._use = use
        self._now = now
        self._seen = files.fingerprint()
        self._lock = threading.Lock()
        self._loaded_at = loaded_at
        self._outcomes = {"loaded": 0, "refused": 0}

    def check(self) -> None:
        """Read the files anew if one of them has changed since they were read, or refused, last."""
        if self._files.fingerprint() != self._seen:
            self.reload()

    def reload(self) -> bool:
        """Read the files anew; whether they could be used."""
        with self._lock:
            # Before they are read: what changes meanwhile is read again.
            self._seen = self._files.fingerprint()
            try:
                goldens = self._files.load()
                self._use(goldens)
            except FileError as error:
                self._outcomes["refused"] += 1
                mistakes = [str(mistake) for mistake in error.mistakes]
                _logger.warning("goldens are refused, the old ones stay", extra={"mistakes": mistakes})
                return False
            except Exception:
                self._outcomes["refused"] += 1
                _logger.exception("goldens could not be used, the old ones stay")
                return False
            self._outcomes["loaded"] += 1
            self._loaded_at = self._now()
        _logger.info("goldens were read anew", extra={"goldens": len(goldens.goldens)})
        return True

    def metrics(self) -> Iterator[Sample]:
        """Yield how often files were read anew."""
        for outcome, number in self._outcomes.items():
            yield "goldspan_goldens_reloads_total", {"outcome": outcome}, number
        yield "goldspan_goldens_loaded_timestamp_seconds", {}, self._loaded_at


# Secrets and certificates of a running gateway: read again when their files change, or when it is told to.


class CredentialReloader:
    """Calls `renew` when one of the files has changed; what cannot be used is refused, and the old stays in use."""

    def __init__(self, files: tuple[Path, ...], renew: Callable[[], None]) -> None:
        """Take `renew`, which raises SettingsError before it changes anything."""
        self._files = files
        self._renew = renew
        self._seen = fingerprint(files)
        self._lock = threading.Lock()

    def check(self) -> None:
        """Renew if one of the files has changed since they were read, or refused, last."""
        if self._files and fingerprint(self._files) != self._seen:
            self.reload()

    def reload(self) -> None:
        """Renew."""
        with self._lock:
            self._seen = fingerprint(self._files)
            try:
                self._renew()
            except SettingsError as error:
                _logger.warning("secrets and certificates are refused, the old ones stay: %s", error)
            else:
                _logger.info("secrets and certificates were read anew")


def credential_files(settings: BaseModel) -> Iterator[Path]:
    """Yield every file that settings name for a secret or a certificate."""
    of_secrets = isinstance(settings, ClientCertificate | Secret | ServerCertificate)
    for name in type(settings).model_fields:
        for one in _values(getattr(settings, name)):
            if of_secrets and isinstance(one, Path):
                yield one
            elif isinstance(one, BaseModel):
                yield from credential_files(one)


def _values(value: object) -> Iterable[object]:
    if is_mapping(value):
        return value.values()
    return value if is_sequence(value) else (value,)
