"""Arguments, options and their types."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

REPORT_KINDS = ("junit", "html", "markdown")
_SINK_KINDS = ("phoenix", "mlflow", "langfuse")


class ReportFile(NamedTuple):
    """A report that is asked for: `junit=results.xml`."""

    kind: str
    path: Path


class ScoreType(click.ParamType[Fraction]):
    """A number from 0 to 1, exactly as written."""

    name = "score"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """Read a decimal."""
        try:
            number = Fraction(str(value))
        except (ValueError, ZeroDivisionError):
            number = Fraction(-1)
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is not a number from 0 to 1", param, ctx)
        return number


class ReportType(click.ParamType[ReportFile]):
    """A kind of report and the file to write it to."""

    name = "report"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ReportFile:
        """Read KIND=FILE."""
        if isinstance(value, ReportFile):  # click converts what it has converted
            return value
        text = str(value)
        kind, _, name = text.partition("=")
        if kind not in REPORT_KINDS:
            kinds = ", ".join(REPORT_KINDS)
            self.fail(f"{text!r}: {kind!r} is not a kind of report; expected KIND=FILE with one of {kinds}", param, ctx)
        if not name:
            self.fail(f"{text!r} names no file; expected KIND=FILE, as in {kind}={kind}-report", param, ctx)
        return ReportFile(kind, Path(name))


class SinkType(click.ParamType[tuple[str, str]]):
    """A kind of back-end and its address."""

    name = "sink"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Read KIND=URL."""
        if isinstance(value, tuple):  # click converts what it has converted
            return cast("tuple[str, str]", value)
        kind, _, endpoint = str(value).partition("=")
        if kind not in _SINK_KINDS or not endpoint.startswith(("http://", "https://")):
            kinds = ", ".join(_SINK_KINDS)
            self.fail(f"{value!r}: expected KIND=URL, as in phoenix=http://localhost:6006, one of {kinds}", param, ctx)
        return kind, endpoint


class PresetOptionType(click.ParamType[tuple[str, Any]]):
    """An option of a preset: a value that is JSON is what it says, any other is text."""

    name = "option"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Read NAME=VALUE."""
        if isinstance(value, tuple):  # click converts what it has converted
            return cast("tuple[str, Any]", value)
        name, equals, written = str(value).partition("=")
        if not equals or not name:
            self.fail(f"{value!r}: expected NAME=VALUE, as in strict_order=true", param, ctx)
        try:
            return name, json.loads(written)
        except ValueError:
            return name, written


TRACES = click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
FORMAT = click.option(
    "--format", "as_format", type=click.Choice(["table", "json"]), default="table", help="Table (default) or JSON."
)
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show every session, turn and call.")
COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the table: auto (default) does on a terminal unless NO_COLOR is set.",
)
