"""The golden files of a server. A file that is wrong costs itself: what it last said when it was good stays in use.

That is kept in the state folder, with a digest, so that a restart has it too. `load` is strict, for `--check`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from goldspan.collector_processor.atomic_files import whole_file
from goldspan.collector_processor.serving.admin import Sample
from goldspan.collector_processor.serving.process import FileReloader
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import FileError, GoldenFileError, Mistake
from goldspan.scoring.goldens import GoldenIndex, load_criterion, load_goldens
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable, read_document, regular_text
from goldspan.scoring.goldens.golden import GoldenSet, duplicates_in
from goldspan.scoring.goldens.loading import golden_files_in, load_golden_set
from goldspan.scoring.json_values import is_mapping

_logger = logging.getLogger("goldspan.gateway")
_Mistakes = dict[Path, Sequence[Mistake]]  # what is wrong with files as they are


class RefusedFile(NamedTuple):
    """A golden file, a folder of them or a criterion that cannot be used as it is."""

    file: str
    mistakes: tuple[str, ...]
    in_use: str | None
    """The digest of its last good state, which is in use; None: nothing of it is."""


class GoldenFiles:
    """Golden files and folders, and the criterion they inherit. For one thread."""

    def __init__(self, paths: Sequence[Path], criterion: Path | None = None, kept: Path | None = None) -> None:
        """Read these; `kept` is a folder for last good states, without which this process alone remembers them."""
        self.paths = tuple(paths) if criterion is None else (*paths, criterion)
        """All of them, to be watched."""
        self.refused: tuple[RefusedFile, ...] = ()
        """What could not be used as it was when it was last read."""
        self.in_use = 0
        """Golden files that are in use, as they are or as they last were when they were good."""
        self._goldens, self._criterion, self._folder = tuple(paths), criterion, kept
        self._good: dict[Path, str] = {}  # what each file last said when it was good
        self._sets: dict[tuple[Path, str, str], GoldenSet] = {}
        """What was made of texts, by the criterion's digest: most files do not change."""
        self._restore()

    def load(self) -> GoldenIndex:
        """Read all files as they are. Raises FileError, which names every mistake."""
        criterion = None if self._criterion is None else load_criterion(self._criterion)
        return load_goldens(*self._goldens, criterion=criterion)

    def load_each(self) -> GoldenIndex:
        """Read each file, or use its last good state.

        Raises:
            FileError: nothing of any file can be used, or nothing of the criterion.

        """
        wrong: _Mistakes = {}
        good: dict[Path, str] = {}
        criterion = self._read_criterion(wrong, good)
        texts = dict(self._texts(wrong))
        for path in texts.keys() - wrong.keys():
            self._set(path, texts[path], criterion, wrong)
        sets = self._usable(texts, criterion, wrong)
        good |= {path: text for path, (text, _) in sets.items()}
        if wrong and self._goldens and not sets:
            raise GoldenFileError(*(mistake for mistakes in wrong.values() for mistake in mistakes))
        self._sets = {(path, text, _of(criterion)): one for path, (text, one) in sets.items()}
        self._keep(good)
        self.in_use = len(sets)
        self._say(wrong, good)
        return GoldenIndex(sets[path][1] for path in texts if path in sets)

    def _usable(
        self, texts: Mapping[Path, str], criterion: Criterion | None, wrong: _Mistakes
    ) -> dict[Path, tuple[str, GoldenSet]]:
        """Return text and golden set of each file, as it is or as it was when it was last good."""
        sets: dict[Path, tuple[str, GoldenSet]] = {}
        taken: dict[tuple[str, str], str] = {}
        # What is in use goes first: a golden that another file has already costs the file that changed.
        for path in sorted(texts, key=lambda path: path not in wrong and texts[path] != self._good.get(path)):
            for text in (None if path in wrong else texts[path], self._good.get(path)):
                read = None if text is None else self._set(path, text, criterion, wrong)
                if read is None or text is None:
                    continue
                names = taken.copy()
                if again := duplicates_in([read], names):
                    wrong.setdefault(path, again)
                    continue
                sets[path], taken = (text, read), names
                break
        return sets

    def samples(self) -> Iterator[Sample]:
        """Yield how many files are in use, and how many are refused as they are."""
        yield "goldspan_golden_files", {"state": "in_use"}, self.in_use
        yield "goldspan_golden_files", {"state": "refused"}, len(self.refused)

    def document(self) -> Mapping[str, Any]:
        """Return the same with every mistake, as JSON values."""
        return {"in_use": self.in_use, "refused": [one._asdict() for one in self.refused]}

    def warning(self) -> str | None:
        """Say how many files are refused, on a page that needs no token; None if none is."""
        count = len(self.refused)
        return f"golden files that are refused: {count}; /coverage and the log name them" if count else None

    def _read_criterion(self, wrong: _Mistakes, good: dict[Path, str]) -> Criterion | None:
        path = self._criterion
        if path is None:
            return None
        try:
            read = load_criterion(path)
        except FileError as error:
            if (kept := self._good.get(path)) is None:
                raise
            wrong[path], good[path] = error.mistakes, kept
            document = read_document(path, MistakeCollector(str(path)), kept)
            return load_criterion(document if is_mapping(document) else {})
        with suppress(Unreadable):
            good[path] = regular_text(path, MistakeCollector(str(path)))
        return read

    def _texts(self, wrong: _Mistakes) -> Iterator[tuple[Path, str]]:
        """Yield what each file says; nothing of one that cannot be read."""
        for source in self._goldens:
            files = [source]
            if source.is_dir():
                try:
                    files = golden_files_in(source)
                except GoldenFileError as error:
                    wrong[source] = error.mistakes
                    files = []
                if not files:  # taken away all at once, it is rather a folder that is not mounted
                    wrong.setdefault(source, (Mistake(str(source), "", "holds no golden files"),))
                    files = [path for path in self._good if source in path.parents]
            for path in files:
                notes = MistakeCollector(str(path))
                text = ""
                with suppress(Unreadable):
                    text = regular_text(path, notes)
                if notes.mistakes:
                    wrong[path] = notes.mistakes
                yield path, text

    def _set(self, path: Path, text: str, criterion: Criterion | None, wrong: _Mistakes) -> GoldenSet | None:
        """Return the golden set that a text is; None if it is none."""
        key = path, text, _of(criterion)
        if (known := self._sets.get(key)) is None:
            try:
                known = self._sets[key] = load_golden_set(path, criterion, text)
            except GoldenFileError as error:
                wrong.setdefault(path, error.mistakes)
        return known

    def _say(self, wrong: _Mistakes, good: Mapping[Path, str]) -> None:
        """Log what is refused now and was not before."""
        before, self.refused = (
            set(self.refused),
            tuple(
                RefusedFile(str(path), tuple(map(str, mistakes)), _digest(good[path]) if path in good else None)
                for path, mistakes in sorted(wrong.items())
            ),
        )
        for one in self.refused:
            if one not in before:
                stays = "its last good state stays in use" if one.in_use else "nothing of it is in use"
                extra = {"file": one.file, "mistakes": list(one.mistakes), "in_use": one.in_use}
                _logger.warning("a golden file is refused: %s", stays, extra=extra)

    # Last good states.

    def _keep(self, good: dict[Path, str]) -> None:
        """Remember what is in use, and forget files that are gone."""
        changed = {path: text for path, text in good.items() if self._good.get(path) != text}
        gone = self._good.keys() - good.keys()
        self._good = good
        if self._folder is None or not (changed or gone):
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path, text in changed.items():
                content = json.dumps({"file": str(path), "digest": _digest(text), "text": text})
                with whole_file(self._file_of(path)) as file:
                    file.write(content.encode())
                self._file_of(path).chmod(0o600)
            for path in gone:
                self._file_of(path).unlink(missing_ok=True)
        except OSError as error:
            _logger.warning("a restart will not know golden files as they are now: %s: %s", self._folder, error)

    def _restore(self) -> None:
        """Read what an earlier process kept; what is damaged is as if it were not there."""
        for file in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            with suppress(OSError, ValueError, KeyError, TypeError):
                kept = json.loads(file.read_bytes())
                path, text = Path(kept["file"]), kept["text"]
                if kept["digest"] == _digest(text) and not {path, *path.parents}.isdisjoint(self.paths):
                    self._good[path] = text

    def _file_of(self, path: Path) -> Path:
        return (self._folder or Path()) / f"{_digest(str(path))}.json"


def _of(criterion: Criterion | None) -> str:
    return "" if criterion is None else criterion.digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class GoldenReloader(FileReloader):
    """Reloads golden files."""

    def __init__(
        self, files: GoldenFiles, use: Callable[[GoldenIndex], object], *, loaded_at: float, now: Callable[[], float]
    ) -> None:
        """Pass new goldens to `use`. `now` and `loaded_at` are in seconds since the epoch."""
        super().__init__(files.paths, self._reload)
        self._files = files
        self._use = use
        self._now = now
        self._loaded_at = loaded_at
        self._outcomes = {"loaded": 0, "refused": 0}

    def _reload(self) -> bool:
        try:
            goldens = self._files.load_each()
            self._use(goldens)
        except Exception as error:
            self._outcomes["refused"] += 1
            if isinstance(error, FileError | OSError):  # a disk that fails is no failure of goldspan
                mistakes = [str(mistake) for mistake in getattr(error, "mistakes", (error,))]
                _logger.warning("golden files refused, the loaded ones stay in use", extra={"mistakes": mistakes})
            else:
                _logger.exception("golden files could not be reloaded, the loaded ones stay in use")
            return False
        self._outcomes["refused" if self._files.refused else "loaded"] += 1
        self._loaded_at = self._now()
        extra = {"goldens": len(goldens.goldens), "refused_files": len(self._files.refused)}
        _logger.info("golden files reloaded", extra=extra)
        return True

    def metrics(self) -> Iterator[Sample]:
        """Yield how many files are in use, how often they were reloaded, and when last."""
        yield from self._files.samples()
        for outcome, number in self._outcomes.items():
            yield "goldspan_goldens_reloads_total", {"outcome": outcome}, number
        yield "goldspan_goldens_loaded_timestamp_seconds", {}, self._loaded_at
