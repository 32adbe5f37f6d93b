"""The traces a user names on a command line: files, directories of files, standard input, and what platforms store."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from goldspan.mappers.readers.compression import OnBytes
from goldspan.mappers.readers.file_ranges import FileRange
from goldspan.mappers.readers.files import read_documents, read_marked, reading_order, trace_files_in
from goldspan.mappers.readers.problems import ProblemList
from goldspan.mappers.spans import MarkedView, Markers
from goldspan.scoring.errors import Mistake, Problem, TraceFileError

STDIN = "-"
PLATFORMS = ("phoenix", "langfuse", "mlflow", "langsmith", "logfire", "tempo", "jaeger")
STORED = re.compile(rf"({'|'.join(PLATFORMS)})://")
"""How the name of traces begins that a platform stores."""

RangeFindings = tuple[ProblemList, int, str]
"""The problems of a range, its number of lines, and why it has no records; empty if it has any."""


@dataclass(slots=True)
class TraceFiles:
    """Trace files in the order they were named, and everything that was wrong with them."""

    paths: tuple[Path, ...]
    problems: ProblemList = field(default_factory=ProblemList)
    mistakes: list[Mistake] = field(default_factory=list[Mistake])
    """Named files that yielded no record, known once everything was read."""
    _found: frozenset[Path] = frozenset()
    _names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What files are called that the user did not name: by the beginning of their path."""

    def spans(self, on_bytes: OnBytes | None = None, markers: Markers | None = None) -> Iterator[MarkedView]:
        """Read every span, those without any of the `markers` perhaps together.

        Raises `TraceFileError` where not one could be read from a named file.
        """
        started = False
        try:
            for view in read_marked(self.paths, markers, self._on_problem, on_bytes):
                started = True
                yield view
        except TraceFileError as error:
            self._note_mistakes(error.mistakes, started=started)

    def ranges(self, size: int) -> list[FileRange]:
        """Cut the files into ranges of about so many bytes. Raises `TraceFileError` for files that cannot be opened."""
        try:
            return reading_order(self.paths, size)
        except TraceFileError as error:
            self._note_mistakes(error.mistakes, started=False)
            return []

    def note_readings(self, ranges: Sequence[FileRange], readings: Sequence[RangeFindings]) -> None:
        """Note what was found in `ranges`, as `spans` does for whole files.

        Raises `TraceFileError` where not one span could be read from a named file.
        """
        before: dict[Path, int] = {}
        reasons: dict[Path, list[str]] = {}
        for part, (problems, lines, nothing) in zip(ranges, readings, strict=True):
            first = before.get(part.path, 0)
            for problem in problems.listed():
                source = problem.source
                at = source.removeprefix(f"{part.path}:")
                if first and at != source and at.isdecimal():
                    source = f"{part.path}:{int(at) + first}"
                self._on_problem(replace(problem, source=source))
            self.problems.count_more(problems)
            before[part.path] = first + lines
            reasons.setdefault(part.path, []).append(nothing)
        empty = [path for path in self.paths if path in reasons and all(reasons[path])]
        mistakes = [Mistake(str(path), "", reasons[path][0]) for path in empty]
        self._note_mistakes(mistakes, started=len(empty) < len(reasons))

    def _note_mistakes(self, mistakes: Sequence[Mistake], *, started: bool) -> None:
        named: list[Mistake] = []
        for mistake in mistakes:
            if Path(mistake.file) in self._found:
                self.problems.append(Problem("no_record", mistake.message, mistake.file))
            else:
                named.append(replace(mistake, file=self._name(mistake.file)))
        if named and not started:
            raise TraceFileError(*named)
        self.mistakes += named

    def documents(self) -> Iterator[object]:
        """Read every JSON document once more, as it came; what is wrong in them is already known."""
        for path in self.paths:
            yield from read_documents(path, lambda _: None)

    def _on_problem(self, problem: Problem) -> None:
        self.problems.append(replace(problem, source=self._name(problem.source)))

    def _name(self, source: str) -> str:
        for path, name in self._names.items():
            source = source.replace(path, name)
        return source


@contextmanager
def trace_files(
    names: Sequence[str], stdin: IO[bytes] | None = None, download: Callable[[str, Path], Path] | None = None
) -> Generator[TraceFiles]:
    """Find the files behind these names; standard input is kept in a temporary file, since it may be read twice.

    A directory stands for every trace file under it. `download` reads the traces behind a URL into a folder, given a
    temporary one; without it a URL is a file's name. Raises `TraceFileError`, naming everything that is not there at
    once, before anything is downloaded.
    """
    paths: list[Path] = []
    found: set[Path] = set()
    missing: list[Mistake] = []
    downloads: dict[str, Callable[[str, Path], Path]] = {}
    called: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="goldspan-") as folder:
        for name in dict.fromkeys(names):
            path = Path(name)
            if download is not None and STORED.match(name):
                downloads[name] = download
            elif name == STDIN:
                spooled = Path(folder) / "stdin"
                with spooled.open("wb") as copy:
                    shutil.copyfileobj(stdin or sys.stdin.buffer, copy)
                called[str(spooled)] = "standard input"
                paths.append(spooled)
            elif path.is_dir():
                inside = trace_files_in(path)
                found.update(inside)
                paths += inside
                if not inside:
                    missing.append(Mistake(name, "", "holds no trace file; name another directory, or the files"))
            elif path.exists():
                paths.append(path)
            else:
                message = "no such file or directory; name a trace file, a directory, or - for standard input"
                if "://" in name:
                    message += f"; URLs of stored traces begin with {', '.join(f'{one}://' for one in PLATFORMS)}"
                missing.append(Mistake(name, "", message))
        if missing:
            raise TraceFileError(*missing)
        for name, read in downloads.items():
            downloaded = read(name, Path(folder))
            called[f"{downloaded}/"] = f"{name} "
            inside = trace_files_in(downloaded)
            found.update(inside)
            paths += inside
        yield TraceFiles(tuple(dict.fromkeys(paths)), _found=frozenset(found), _names=called)
