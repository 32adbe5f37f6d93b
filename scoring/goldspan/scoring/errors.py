"""The exceptions of every room.

    GoldspanError
    ├── FileError            a file the user named cannot be used
    │   ├── GoldenFileError      a golden set: every mistake of the file at once
    │   ├── CriterionFileError   a criterion file, likewise
    │   └── TraceFileError       a trace file yields no record
    ├── CriterionError       a criterion given in code is wrong
    ├── MatcherError         a value of an expected call given in code is a wrong matcher
    ├── MetricError          a metric is named, made or registered wrongly
    ├── SettingsError        a door is set up wrongly
    └── DialectError         a dialect or its registration is wrong

Only configuration raises. What goes wrong with a record of telemetry is data: a `Problem` beside the result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a file: where it is, what was found, what was expected and what to do about it."""

    file: str
    path: str
    """Where in the document, as in `goldens[2].turns[0].calls[1].args`; empty for the whole file."""
    message: str
    line: int | None = None
    """Counted from 1; none where the file has no lines to speak of."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the telemetry that could not be used; everything good beside it was."""

    code: str
    """One of a small set of words, for counting: `bad_json`, `bad_span`, `parent_cycle`, ..."""
    message: str
    source: str = ""
    """File and line, or trace and span, whichever is known."""

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


class GoldspanError(Exception):
    """The base of every exception goldspan raises on purpose."""


class FileError(GoldspanError):
    """A file the user named cannot be used; `mistakes` holds every reason found in one reading."""

    def __init__(self, *mistakes: Mistake) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(map(str, mistakes)))


class GoldenFileError(FileError):
    """A golden set is wrong."""


class CriterionFileError(FileError):
    """A criterion file is wrong."""


class TraceFileError(FileError):
    """A trace file cannot be read or yields no record."""


class CriterionError(GoldspanError, ValueError):
    """A criterion given in code has an unknown field or a wrong value; `mistakes` holds path and message of each."""

    def __init__(self, message: str, mistakes: tuple[tuple[str, str], ...] = ()) -> None:
        self.mistakes = mistakes
        super().__init__(message)


class MetricError(GoldspanError, ValueError):
    """A metric is named, made or registered wrongly, or cannot be imported."""


class MatcherError(GoldspanError, ValueError):
    """An argument of an expected call given in code holds a wrong matcher; the message has a line for each."""


class SettingsError(GoldspanError, ValueError):
    """A door, the engine or an exporter is set up wrongly."""


class DialectError(GoldspanError, ValueError):
    """A dialect is declared or registered wrongly."""
