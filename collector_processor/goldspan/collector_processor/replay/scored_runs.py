"""A scored run as a file: the JSON document of `goldspan score`, or its table as Parquet or Arrow.

Only the little that is compared is read; what later versions add is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from goldspan.collector_processor.engine.result_table import ARGUMENT_LEVEL, TABLE_SUFFIXES
from goldspan.scoring.errors import FileError, Mistake, SettingsError
from goldspan.scoring.json_values import is_dict
from goldspan.scoring.verdict import MAIN_METRIC

_MOST_MISTAKES = 10
_HINT = "expected the document of an earlier `goldspan score --format json`"
_TABLE_HINT = "expected the table of an earlier `goldspan score --output`"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class ScoredPart(_Part):
    """What every level has."""

    score: float | None
    label: str
    reason: str | None


class ScoredArgument(_Part):
    """An argument that the golden expects, as it was passed."""

    name: str
    outcome: str
    actual: Any = None
    is_known: bool = True
    """Whether the value is there: a table has values only if they were asked for."""


class ScoredCall(ScoredPart):
    """A call that was expected, made, or both."""

    tool: str
    expected_index: int | None
    expected_arguments: dict[str, Any] | None
    arguments: list[ScoredArgument] = []


class ScoredTurn(_Part):
    """A turn and its calls."""

    expected_index: int | None
    calls: list[ScoredCall]


class ScoredMetric(_Part):
    """What a metric beside the goldens says of a session."""

    name: str
    threshold: float | None
    score: float | None
    label: str | None
    reason: str | None


class ScoredSession(ScoredPart):
    """One run of a session."""

    id: str | None
    golden: str | None
    golden_set: str | None
    metric: str
    criterion: str
    turns: list[ScoredTurn]
    metrics: list[ScoredMetric] = []
    """None in documents of versions that had no other metrics."""
    attributes: dict[str, Any] = {}
    """None in documents of versions that had no `--attribute`."""


class NamedGolden(_Part):
    """A golden by name."""

    golden: str
    golden_set: str


class ScoredRepeat(NamedGolden, ScoredPart):
    """A golden with `repeat`, over its runs."""


class ScoredRun(_Part):
    """Everything of a run that is compared."""

    sessions: list[ScoredSession]
    never_seen: list[NamedGolden]
    repeats: list[ScoredRepeat] = []
    """None in documents of versions that had no golden with `repeat`."""


def set_name(label: str | None) -> str:
    """Return the name of a golden set without its version."""
    return (label or "").rpartition("@")[0] or label or ""


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A scored run, and what people call it."""

    name: str
    run: ScoredRun

    @classmethod
    def of(cls, name: str, document: object, hint: str = _HINT) -> NamedRun:
        """Take a document that was parsed already. Raises `FileError` with everything that is wrong with it."""
        try:
            return cls(name, ScoredRun.model_validate(document))
        except ValidationError as error:
            places = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()[:_MOST_MISTAKES]]
            raise FileError(*(Mistake(name, at, f"{message}; {hint}") for at, message in places)) from None


def load_run(path: Path) -> NamedRun:
    """Read the document or the table of an earlier run. Raises `FileError` with everything that is wrong with it."""
    if path.suffix in TABLE_SUFFIXES:
        return NamedRun.of(str(path), _document_of_table(path), _TABLE_HINT)
    try:
        # Whatever is not a number JSON knows must not pass for one.
        document = json.loads(path.read_bytes(), parse_constant=_refuse)
    except OSError as error:
        raise FileError(Mistake(str(path), "", f"cannot be read: {error.strerror or error}; {_HINT}")) from None
    except (ValueError, RecursionError):
        raise FileError(Mistake(str(path), "", f"is not a JSON document; {_HINT}")) from None
    return NamedRun.of(str(path), document)


def is_scored_run(path: Path) -> bool:
    """Say whether a file is a scored run: a table by its name, a JSON document by its first key."""
    if path.suffix in TABLE_SUFFIXES:
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().removeprefix(b"{").lstrip().startswith(b'"passed"')


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _document_of_table(path: Path) -> dict[str, Any]:
    """Return a table's rows as a document: what it has no column for is left out."""
    try:
        dataset = import_module("pyarrow.dataset")
    except ImportError:
        raise SettingsError(f"{path} needs pyarrow: pip install 'goldspan[parquet]'") from None
    try:
        kind = "parquet" if path.suffix == ".parquet" else "ipc"
        rows: list[dict[str, Any]] = dataset.dataset(str(path), format=kind).to_table().to_pylist()
        return _document(rows)
    except (OSError, ValueError, KeyError) as error:
        raise FileError(Mistake(str(path), "", f"cannot be read as a table: {error}; {_TABLE_HINT}")) from None


def _document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sessions: dict[tuple[object, ...], dict[str, Any]] = {}
    turns: dict[tuple[object, ...], dict[str, Any]] = {}
    calls: dict[tuple[object, ...], dict[str, Any]] = {}
    never_seen: list[dict[str, Any]] = []
    for row in rows:
        if row["session"] is None:
            never_seen.append(row)
            continue
        own = row["metric"] == MAIN_METRIC or row["preset"] is not None
        of_session = (row["golden_set"], row["golden"], row["session"], row["run"])
        session = sessions.setdefault(of_session, _new_session(row))
        if row["level"] == "session":
            if own:
                session.update({name: row[name] for name in ("metric", "score", "label", "reason")})
            else:
                session["metrics"].append(row | {"threshold": None})
        if not own or row["level"] == "session":
            continue
        of_turn = (*of_session, row["turn"])
        if of_turn not in turns:
            turns[of_turn] = {"expected_index": row["turn"], "calls": []}
            session["turns"].append(turns[of_turn])
        of_call = (*of_turn, row["expected_call"], row["call"], row["tool"])
        if row["level"] == "call":
            calls[of_call] = _call(row)
            turns[of_turn]["calls"].append(calls[of_call])
        elif row["level"] == ARGUMENT_LEVEL and of_call in calls:
            known = {"actual": _value(row.get("actual")), "is_known": row.get("expected") is not None}
            calls[of_call]["arguments"].append({"name": row["argument"], "outcome": row["outcome"], **known})
    return {"sessions": list(sessions.values()), "never_seen": never_seen}


def _new_session(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "id": row["session"],
        "criterion": row["criterion"] or "",
        "attributes": _attributes(row),
        **dict[str, Any](turns=[], metrics=[], score=None, label="not_evaluated", reason=None),
    }


def _call(row: Mapping[str, Any]) -> dict[str, Any]:
    index = row["expected_call"]
    return {**row, "tool": row["tool"] or "", "expected_index": index, "expected_arguments": None, "arguments": []}


def _attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    found = _value(row.get("attributes"))
    named = {"service.name": row["service"], "service.version": row["service_version"]}
    own = {name: value for name, value in named.items() if value is not None}
    return own | (found if is_dict(found) else {})


def _value(written: str | None) -> Any:
    return None if written is None else json.loads(written)
