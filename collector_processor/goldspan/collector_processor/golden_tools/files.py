"""Golden files as documents: read with their comments, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import IO

from goldspan.collector_processor.golden_tools.yaml_writing import Comments, yaml_text
from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.sessions import JsonValue

RECORDED = ("Recorded by `goldspan goldens record`: read it before you rely on it.",)
"""What stands at the top of a file that was recorded."""
_OF_GOLDENS = frozenset(
    {"attribute", "calls", "evalCases", "eval_cases", "first_user_text", "golden_set", "goldens", "session"}
    | {"session_pattern", "turns", "version"}
)
"""Fields at the top of golden sets, of goldens in JSON lines and of ADK's eval sets."""
_OF_OLD_EVAL_SETS = frozenset({"data", "query"})
_ENDS = (".evalset.json", ".test.json", ".otlp.json")


def name_of(file: str) -> str:
    """Return what to call a golden set that is made of a file, or written to it."""
    name = PurePath(file).name
    for end in _ENDS:
        if name.endswith(end) and name != end:
            return name.removesuffix(end)
    return name.partition(".")[0].strip("-") or "goldens"


def is_golden_file(file: str) -> bool:
    """Whether a file, or any file in a directory, is meant as a golden set and not as traces.

    YAML never holds traces; JSON holds goldens if its first object has a field that only these have.
    """
    path = Path(file)
    if path.is_dir():
        return any(_is_golden_file(one) for one in sorted(path.rglob("*")) if not one.name.startswith("."))
    return _is_golden_file(path)


def _is_golden_file(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in {".json", ".jsonl"}:
        return suffix in {".yaml", ".yml"}
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            first = next((line for line in stream if line.strip()), "")
            document = _first_document(first, stream)
    except (OSError, ValueError, RecursionError):
        return False
    if is_list(document) and document:
        return is_object(document[0]) and not _OF_OLD_EVAL_SETS.isdisjoint(document[0])
    return is_object(document) and not _OF_GOLDENS.isdisjoint(document)


def _first_document(first: str, rest: IO[str]) -> JsonValue:
    """Parse the first line, where it is a document of its own, else all of the text."""
    try:
        return json.loads(first)
    except ValueError:
        return json.loads(first + rest.read())


def golden_set_text(
    file: str, document: Mapping[str, JsonValue], comments: Comments | None = None, header: Sequence[str] = ()
) -> str:
    """Return a golden set as the text of a file of this name: YAML, JSON or JSON lines.

    Raises:
        FileError: no golden file has such a name.

    """
    suffix = PurePath(file).suffix.lower()
    if suffix in {".yaml", ".yml"}:
        return yaml_text(document, comments, header)
    if suffix == ".json":
        return _safe(json.dumps(document, ensure_ascii=False, indent=2)) + "\n"
    if suffix == ".jsonl":
        top = {name: value for name, value in document.items() if name != "goldens"}
        return "".join(_safe(json.dumps(line, ensure_ascii=False)) + "\n" for line in (top, *document["goldens"]))
    raise FileError(Mistake(file, "", "expected a file whose name ends in .json, .jsonl, .yaml or .yml"))


def write_text(file: str, text: str) -> None:
    """Put text in the place of a file at once, so that a fault never leaves half of it.

    Raises:
        FileError: the file cannot be written.

    """
    path = Path(file)
    target = path.resolve()
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode("utf-8"))
            Path(temporary).chmod(mode)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(Mistake(file, "", f"cannot be written: {error.strerror or error}")) from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _safe(text: str) -> str:
    """Escape halves of characters, which UTF-8 cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
