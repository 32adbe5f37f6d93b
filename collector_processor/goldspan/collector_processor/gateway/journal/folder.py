"""A folder that only its owner may read, and room in it for what must be written when the disk is full."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

_logger = logging.getLogger("goldspan.gateway")


def make_private(folder: Path, patterns: Iterable[str]) -> None:
    """Create a folder if needed; only the owner may read it and the files of these patterns. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = [(path, 0o600) for pattern in patterns for path in folder.glob(pattern) if path.is_file()]
    for path, mode in [(folder, 0o700), *files]:
        try:
            if path.stat().st_mode & 0o777 != mode:
                path.chmod(mode)
        except OSError as error:
            _logger.warning("%s: others may be able to read it, and that could not be changed: %s", path, error)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read: all of it or none. Raises `OSError`."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise


class Reserve:
    """A file that takes up room. It is given up when the disk is full, and taken again when there is room."""

    def __init__(self, path: Path, size: int) -> None:
        """Keep so many bytes in this file, once `take` was called."""
        self._path = path
        self.size_wanted = size

    @property
    def size(self) -> int:
        """Bytes that are reserved now."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def take(self) -> bool:
        """Reserve the room; return whether it is reserved and as much is free besides."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        before = self.size
        try:
            _allocate(file, 2 * self.size_wanted)
        except OSError:
            return False
        else:
            before = self.size_wanted
            return True
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(file, before)
            os.close(file)
            if not before:
                self.give_up()

    def give_up(self) -> None:
        """Free the room."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # pragma: no cover - a folder that became read-only
            _logger.warning("%s: the room that it reserves could not be freed: %s", self._path, error)


def _allocate(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    for at in range(0, size, 1 << 20):  # pragma: no cover - macOS and Windows
        os.pwrite(file, b"\1" * min(1 << 20, size - at), at)
