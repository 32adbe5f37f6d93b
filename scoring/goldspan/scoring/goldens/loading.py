"""Files, directories and mappings as goldens and criteria: read whole, or refused with every mistake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from goldspan.scoring.criterion import Criterion, criterion_in
from goldspan.scoring.errors import CriterionFileError, GoldenFileError, Mistake
from goldspan.scoring.goldens.benchmarks import read_eval_set
from goldspan.scoring.goldens.criteria_and_rules import (
    SET_LEVEL,
    CriterionMapping,
    criterion_mapping,
    inherit,
    misspelt,
)
from goldspan.scoring.goldens.documents import READERS, MistakeCollector, Unreadable, found, json_copy, read_document
from goldspan.scoring.goldens.golden import GoldenIndex, GoldenSet, MetricChoice, duplicates_in
from goldspan.scoring.goldens.golden_file import read_golden_set
from goldspan.scoring.goldens.golden_file_values import read_metrics
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.metrics.session_metrics import metric_names
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.verdict import MAIN_METRIC

GIVEN_IN_CODE = "<in code>"
"""The file name of what came from no file."""

_MAX_ENTRIES = 100_000
_COMPANIONS = frozenset({"test_config.json"})  # files that ADK keeps beside its eval sets and that hold no goldens

Source = str | Path | Mapping[str, Any] | GoldenSet


def load_goldens(*sources: Source, criterion: Criterion | Mapping[str, Any] | None = None) -> GoldenIndex:
    """Read golden sets and ADK eval sets and index their goldens by session.

    A source is a `.yaml`, `.yml`, `.json` or `.jsonl` file (one golden a line), a directory (every such file in it and
    below, hidden ones and ADK's `test_config.json` left out), a mapping that looks like a file, or a golden set made in
    code. A set in a file or a mapping inherits from `criterion` what its own criterion leaves out.

    Raises:
        GoldenFileError: everything wrong with all of the sources, each mistake with file, line and field.
        CriterionError: `criterion` is wrong.

    """
    defaults = criterion_mapping(criterion)
    mistakes: list[Mistake] = []
    sets: list[GoldenSet] = []
    for source in _expanded(sources, mistakes):
        read = source if isinstance(source, GoldenSet) else _read_set(source, defaults, mistakes)
        sets += () if read is None else (read,)
    if mistakes := mistakes + duplicates_in(sets):
        raise GoldenFileError(*sorted(mistakes, key=lambda mistake: (mistake.file, mistake.line or 0)))
    return GoldenIndex(sets)


def load_golden_set(file: Path, criterion: Criterion | None = None, text: str | None = None) -> GoldenSet:
    """Read one golden file as `load_goldens` does; with `text`, as if that stood in it.

    Raises GoldenFileError: everything wrong with it.
    """
    mistakes: list[Mistake] = []
    read = _read_set(file, criterion_mapping(criterion), mistakes, text)
    if read is None or mistakes:
        raise GoldenFileError(*mistakes)
    return read


def _read_set(
    source: Path | Mapping[str, Any], defaults: CriterionMapping, mistakes: list[Mistake], text: str | None = None
) -> GoldenSet | None:
    notes = MistakeCollector(GIVEN_IN_CODE if isinstance(source, Mapping) else str(source))
    found = None
    with suppress(Unreadable):
        document = _document(source, notes, text)
        read = read_eval_set if is_eval_set(document) else read_golden_set
        found = read(document, notes, defaults)
    mistakes += _mistakes(notes)
    return found


def is_eval_set(document: JsonValue) -> bool:
    """Whether a document is meant as an ADK eval set, or as a file of ADK from before eval sets."""
    if is_list(document):
        return any(is_mapping(item) and item.keys() & {"data", "query"} for item in document)
    return is_mapping(document) and ("eval_cases" in document or "evalCases" in document)


def index_of(
    goldens: Source | Iterable[Source] | GoldenIndex | None, criterion: Criterion | Mapping[str, Any] | None = None
) -> GoldenIndex:
    """Return goldens given in any form: a source or several of `load_goldens`, its result, or None for none."""
    if goldens is None or isinstance(goldens, GoldenIndex):
        return GoldenIndex() if goldens is None else goldens
    one = isinstance(goldens, str | Path | Mapping | GoldenSet)
    return load_goldens(*cast("Iterable[Source]", (goldens,) if one else goldens), criterion=criterion)


def load_criterion(source: str | Path | Mapping[str, Any], goldens: GoldenIndex | None = None) -> Criterion:
    """Read a criterion from a `.yaml`, `.yml` or `.json` file, or a mapping that looks like one.

    It may have every form that `Criterion.parse` takes; other metrics of ADK's `criteria` are passed over. Raises
    CriterionFileError: everything wrong with it, each mistake with file, line and field. So is a tool or an argument
    that none of `goldens` has, if one that they have was meant.
    """
    return CriterionFile(source).criterion(goldens)


class CriterionFile:
    """A criterion file, or a mapping that looks like one, which is read once.

    Raises CriterionFileError: everything wrong with what is asked for, each mistake with file, line and field.
    """

    def __init__(self, source: str | Path | Mapping[str, Any]) -> None:
        """Read it."""
        self._notes = MistakeCollector(GIVEN_IN_CODE if isinstance(source, Mapping) else str(source))
        self._document: JsonValue = {}
        with suppress(Unreadable):
            self._document = _document(source, self._notes)
            if not is_mapping(self._document):
                expected = "expected an object with the fields of a criterion"
                raise self._notes.unreadable(f"{found(self._document)}, {expected}")
        self._refuse()

    def criterion(self, goldens: GoldenIndex | None = None) -> Criterion:
        """Return its criterion, as `load_criterion`."""
        notes = self._notes
        where, value, wrong = criterion_in(self._document)
        for path, message in wrong:
            notes.add(path, message)
        said = inherit({}, value, SET_LEVEL, where, notes.add)
        judged = () if goldens is None else goldens.goldens
        aliases = {alias: tool for golden in judged for alias, tool in golden.aliases.items()}
        calls: JsonValue = [{"name": call.name, "args": call.args} for golden in judged for call in golden.all_calls()]
        misspelt(value, calls, aliases, lambda way, message: notes.add((*where, *way), message))
        self._refuse()
        return Criterion.parse(said)

    def metrics(self) -> tuple[MetricChoice, ...]:
        """Return which of goldspan's metrics ADK's `{criteria: {...}}` has; ADK's own are passed over."""
        notes = self._notes
        metrics = self._document.get("criteria") if is_mapping(self._document) else None
        if not is_mapping(metrics):
            return ()
        known = {name: metrics[name] for name in metrics if name in metric_names() and name != MAIN_METRIC}
        chosen = read_metrics(known, lambda path, message: notes.add(("criteria", *path), message))
        self._refuse()
        return chosen

    def _refuse(self) -> None:
        if self._notes.mistakes:
            raise CriterionFileError(*_mistakes(self._notes))


_OF_A_LINK = (
    "is a link that leads out of its folder, and what it leads to is no file as expected here. What is wrong with it "
    "is not shown, since it may hold anything: put the file itself here"
)


def _leads_out(path: Path) -> bool:
    """Tell whether a link on the way leads out of the folder, or of the working directory if the path is in that."""
    try:
        if not path.is_file():
            return False  # nothing was read
        named, here = path.absolute(), Path.cwd()
        inside = here if named.is_relative_to(here) else named.parent
        return not named.resolve().is_relative_to(inside.resolve())
    except OSError:
        return False  # as the mistake says, which was made by reading it


def _mistakes(notes: MistakeCollector) -> list[Mistake]:
    """List the mistakes in a file from its top; those of a file that a link leads to would quote it."""
    if notes.mistakes and _leads_out(Path(notes.file)):
        return [Mistake(notes.file, "", _OF_A_LINK)]
    return notes.in_order()


def golden_files_in(folder: Path) -> list[Path]:
    """Return the golden files in a folder and below it, sorted; hidden ones and companions are left out.

    Folders below that cannot be read are left out, too, and links to folders are not followed. Raises GoldenFileError
    if the folder cannot be read, or holds more than 100,000 files and folders.
    """
    found: list[Path] = []
    entries = 0
    waiting = [folder]
    while waiting:
        below = waiting.pop()
        try:
            inside = list(below.iterdir())
        except OSError as error:
            if below == folder:
                raise GoldenFileError(Mistake(str(folder), "", f"cannot be read: {error.strerror or error}")) from None
            continue
        if (entries := entries + len(inside)) > _MAX_ENTRIES:
            message = f"holds more than {_MAX_ENTRIES:,} files: name the folder of the golden files alone"
            raise GoldenFileError(Mistake(str(folder), "", message))
        for one in inside:
            if one.name.startswith("."):
                continue
            if _is_folder(one):
                waiting += [] if one.is_symlink() else [one]
            elif one.suffix.lower() in READERS and one.name not in _COMPANIONS:
                found.append(one)
    return sorted(found)


def _expanded(sources: Iterable[Source], mistakes: list[Mistake]) -> Iterable[Path | Mapping[str, Any] | GoldenSet]:
    for source in sources:
        if isinstance(source, GoldenSet | Mapping):
            yield source
        elif _is_folder(path := Path(source)):
            try:
                inside = golden_files_in(path)
            except GoldenFileError as error:
                mistakes += error.mistakes
                continue
            if not inside:
                message = f"holds no golden files ({', '.join(sorted(READERS))})"
                mistakes.append(Mistake(str(path), "", message))
            yield from inside
        else:
            yield path


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # reading it as a file says why it cannot be read


def _document(source: str | Path | Mapping[str, Any], notes: MistakeCollector, text: str | None = None) -> JsonValue:
    return json_copy(source, notes) if isinstance(source, Mapping) else read_document(Path(source), notes, text)
