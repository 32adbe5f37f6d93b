"""Benchmarks' own files as golden sets: `goldspan goldens import`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from goldspan.scoring.errors import FileError, GoldenFileError, Mistake
from goldspan.scoring.goldens.benchmarks import Imported, import_bfcl, import_tau2, read_records
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable

SOURCES = ("bfcl", "tau2")
"""Whose files can be imported."""
_GZIP = b"\x1f\x8b"


def import_file(file: str, source: str, name: str, *, prefix: str = "", user_calls: bool = False) -> Imported:
    """Make a golden set of a benchmark's file, which may be compressed with gzip.

    Raises:
        GoldenFileError: everything wrong with the file, each mistake with its line and field.
        FileError: it cannot be read.

    """
    notes = MistakeCollector(file)
    imported = Imported({})
    try:
        records = read_records(_text(file), notes)
        if source == "bfcl":
            imported = import_bfcl(records, name, notes, prefix=prefix)
        else:
            imported = import_tau2(records, name, notes, prefix=prefix, user_calls=user_calls)
    except Unreadable:
        pass
    if notes.mistakes:
        raise GoldenFileError(*notes.in_order())
    return imported


def _text(file: str) -> str:
    try:
        content = Path(file).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(Mistake(file, "", "not UTF-8 text: save the file as UTF-8")) from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(Mistake(file, "", f"cannot be read: {why}")) from None
