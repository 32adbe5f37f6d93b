"""The exceptions of all packages.

    GoldspanError
    ├── FileError            a user's file cannot be used
    │   ├── GoldenFileError      a golden set has mistakes: all of the file at once
    │   ├── CriterionFileError   a criterion file, likewise
    │   └── TraceFileError       a trace file yields no record
    ├── CriterionError       a criterion given in code is wrong
    ├── MatcherError         a value of an expected call given in code is a wrong matcher
    ├── MetricError          a metric is named, made or registered wrongly
    ├── SettingsError        the settings are wrong
    └── DialectError         a dialect or its registration is wrong

Only configuration raises. What goes wrong with a record of telemetry is data: a `Problem` beside the result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a file: where it is, what was found, what was expected, and what to do."""

    file: str
    path: str
    """Where in the document, as in `goldens[2].turns[0].calls[1].args`; empty for the whole file."""
    message: str
    line: int | None = None
    """Line number, from 1; None if the file format has no lines."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the telemetry that could not be used. The rest was used."""

    code: str
    """One of a small set of words, for counting: `bad_json`, `bad_span`, `parent_cycle`, ..."""
    message: str
    source: str = ""
    """File and line, or trace and span, whichever is known."""

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


class GoldspanError(Exception):
    """Base class of all exceptions of goldspan."""


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
    """The settings of a span processor, the gateway, the engine or an exporter are wrong."""


class DialectError(GoldspanError, ValueError):
    """A dialect is declared or registered wrongly."""
