"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from goldspan.scoring.errors import FileError, Mistake


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
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        os.umask(umask := os.umask(0))
        mode = 0o666 & ~umask
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".goldspan-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn an OSError into a FileError that says which file cannot be written."""
    try:
        yield
    except OSError as error:
        raise FileError(Mistake(str(path), "", f"cannot be written: {error.strerror or error}")) from None


def write_text(file: str, text: str) -> None:
    """Put text in the place of a file at once. Halves of characters, which UTF-8 cannot hold, are escaped.

    Raises:
        FileError: the file cannot be written.

    """
    with writing(Path(file)), whole_file(Path(file)) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
