"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """Write a file that takes its name, and the place of the one before, when it is complete.

    Permissions stay, and so does a symbolic link. A device or a pipe, such as /dev/stdout, is written as it is.
    Raises OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".goldspan-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
