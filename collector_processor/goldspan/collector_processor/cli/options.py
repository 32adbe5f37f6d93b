"""Arguments, options and their types that several commands share."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from goldspan.collector_processor.report.files import ReportFile, report_file


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
        try:
            return report_file(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
