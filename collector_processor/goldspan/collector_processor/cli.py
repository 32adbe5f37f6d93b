"""The command line: `goldspan score`, `goldspan inspect`, `goldspan dialects`."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from goldspan.collector_processor.baseline import judge_against, load_baseline
from goldspan.collector_processor.enriched import Stamps, write_enriched
from goldspan.collector_processor.hints import argument_advice
from goldspan.collector_processor.inspection import inspect_spans
from goldspan.collector_processor.replay import Outlet, replay
from goldspan.collector_processor.report.dialects_page import dialects_json, dialects_page
from goldspan.collector_processor.report.files import KINDS, ReportFile, report_file, write_reports
from goldspan.collector_processor.report.inspect_page import inspect_page
from goldspan.collector_processor.report.layout import Page, page_width, print_page
from goldspan.collector_processor.report.progress import reading
from goldspan.collector_processor.report.score_page import score_page
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.totals import Coverage, judge
from goldspan.collector_processor.report.values import printable
from goldspan.collector_processor.trace_files import TraceFiles, trace_files
from goldspan.mappers.dialects import DialectRegistry
from goldspan.scoring.errors import FileError, GoldspanError, Mistake
from goldspan.scoring.goldens import load_criterion, load_goldens

UNUSABLE = 2
"""The exit code of wrong usage, and of a named file that yields no record."""


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


_TRACES = click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
_FORMAT = click.option(
    "--format", "as_format", type=click.Choice(["table", "json"]), default="table", help="Table (default) or JSON."
)
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Show every session, turn and call.")
_COLOR = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the table: auto (default) does on a terminal unless NO_COLOR is set.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="goldspan", message="goldspan %(version)s")
def main() -> None:
    """Score the arguments an agent passes to its tools, from the OpenTelemetry spans it already emits."""
    # Spans are kept as many small values without cycles: looking for cycles so often only takes time.
    gc.set_threshold(200_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@main.command()
@_TRACES
@click.option(
    "--goldens", "golden_files", multiple=True, required=True, metavar="FILE", help="A golden set; repeatable."
)
@click.option("--criterion", "criterion_file", metavar="FILE", help="The criterion that golden sets inherit.")
@_FORMAT
@click.option(
    "--report",
    "reports",
    type=ReportType(),
    multiple=True,
    metavar="KIND=FILE",
    help=f"Write a report: {', '.join(KINDS)}; repeatable.",
)
@click.option("--enriched", metavar="FILE", help="Write the spans again, with their scores as attributes.")
@click.option("--otlp-endpoint", metavar="URL", help="Send an event for each result to this OTLP/HTTP endpoint.")
@click.option("--metrics", is_flag=True, help="Send metrics to the endpoint as well.")
@click.option("--fail-under", type=ScoreType(), metavar="SCORE", help="Fail if the mean session score is lower.")
@click.option(
    "--coverage",
    type=click.Choice([one.value for one in Coverage]),
    default=Coverage.STRICT.value,
    help="Whether what could not be evaluated, and goldens never seen, fail: strict (default), or lenient.",
)
@click.option(
    "--baseline",
    "baseline_file",
    metavar="FILE",
    help="Fail only on what got worse since this earlier --format json document.",
)
@_VERBOSE
@_COLOR
def score(
    traces: tuple[str, ...],
    *,
    golden_files: tuple[str, ...],
    criterion_file: str | None,
    as_format: str,
    reports: tuple[ReportFile, ...],
    enriched: str | None,
    otlp_endpoint: str | None,
    metrics: bool,
    fail_under: Fraction | None,
    coverage: str,
    baseline_file: str | None,
    verbose: bool,
    color: str,
) -> None:
    """Score traces against goldens.

    TRACES are trace files, directories of them, or - for standard input.

    Exit codes: 0 all passed; 1 a session failed, something could not be evaluated, a golden was never seen, or nothing
    was recognised; 2 wrong usage, or a named file holds no record.
    """
    if metrics and otlp_endpoint is None:
        raise click.UsageError("--metrics needs --otlp-endpoint URL to send them to")
    if otlp_endpoint is not None and not otlp_endpoint.startswith(("http://", "https://")):
        raise click.UsageError(f"--otlp-endpoint {otlp_endpoint}: expected a URL such as http://localhost:4318")
    with _plain_errors(), trace_files(traces) as files:
        criterion = None if criterion_file is None else load_criterion(criterion_file)
        goldens = load_goldens(*golden_files, criterion=criterion)
        baseline = None if baseline_file is None else load_baseline(Path(baseline_file))
        registry = DialectRegistry(on_problem=files.problems.append)
        stamps = Stamps()
        outlets: list[Outlet] = []
        complaints: list[str] = []
        for report in reports:
            _refuse_input_as_output("--report", report.path, files)
        if enriched is not None:
            _refuse_input_as_output("--enriched", Path(enriched), files)
            outlets.append(stamps.take)
        with _sending(otlp_endpoint, outlets, complaints, metrics=metrics), reading(files) as views:
            found = replay(views, goldens, registry, problems=files.problems, outlets=outlets)
        covered = Coverage(coverage)
        rule = judge if baseline is None else partial(judge_against, baseline)
        judgement = rule(found.result, recognised=found.recognised, coverage=covered, fail_under=fail_under)
        advice = argument_advice(registry)
        if as_format == "json":
            _write_json(found.result.to_json())
            _complain(f"regressed: {regression}" for regression in judgement.regressions or ())
        else:
            _print(color, lambda page: score_page(page, found.result, judgement, advice, verbose=verbose))
        unwritten = list(write_reports(reports, Scored(found.result, judgement, covered, advice)))
        if enriched is not None:
            _write_enriched(enriched, files, stamps)
        _end([*files.mistakes, *complaints, *unwritten], judgement.exit_code)


@main.command()
@_TRACES
@_FORMAT
@_VERBOSE
@_COLOR
def inspect(traces: tuple[str, ...], *, as_format: str, verbose: bool, color: str) -> None:
    """Show what is recognised in traces, what is not, and what to switch on.

    TRACES are trace files, directories of them, or - for standard input.
    """
    with _plain_errors(), trace_files(traces) as files:
        with reading(files) as views:
            found = inspect_spans(views, DialectRegistry(on_problem=files.problems.append), files.problems)
        if as_format == "json":
            _write_json(found.to_json())
        else:
            _print(color, lambda page: inspect_page(page, found, verbose=verbose))
        _end(files.mistakes, 0)


@main.command()
@_FORMAT
@_COLOR
def dialects(*, as_format: str, color: str) -> None:
    """List the dialects that are read, and what to switch on in each."""
    with _plain_errors():
        registry = DialectRegistry()
        if as_format == "json":
            _write_json(dialects_json(registry))
        else:
            _print(color, lambda page: dialects_page(page, registry))


@contextlib.contextmanager
def _plain_errors() -> Generator[None]:
    """Turn what a user can mend into a sentence on standard error and exit code 2."""
    try:
        yield
    except FileError as error:
        _complain(error.mistakes)
        sys.exit(UNUSABLE)
    except GoldspanError as error:
        _complain([error])
        sys.exit(UNUSABLE)


def _complain(reasons: Iterable[object]) -> None:
    for reason in reasons:
        click.echo(f"goldspan: {printable(str(reason))}", err=True)


def _end(complaints: Sequence[object], exit_code: int) -> None:
    """Exit; what could not be read or sent as asked is wrong usage, whatever the rest was worth."""
    _complain(complaints)
    sys.exit(UNUSABLE if complaints else exit_code)


def _print(color: str, fill: Callable[[Page], None]) -> None:
    console = Console(
        file=sys.stdout,
        highlight=False,
        force_terminal=True if color == "always" else None,
        color_system=None if color == "never" else "auto",
    )
    page = Page(page_width(console))
    fill(page)
    print_page(console, page)


def _write_json(document: object) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    # JSON is UTF-8 whatever the terminal is; a lone surrogate, escaped, is JSON again.
    click.echo(text.encode("utf-8", "backslashreplace"))


def _refuse_input_as_output(option: str, output: Path, files: TraceFiles) -> None:
    if output.resolve() in {path.resolve() for path in files.paths}:
        raise click.UsageError(f"{option} {output} is one of the traces that are read; name another file")


def _write_enriched(name: str, files: TraceFiles, stamps: Stamps) -> None:
    try:
        write_enriched(Path(name), files.documents(), stamps)
    except OSError as error:
        raise FileError(Mistake(name, "", f"cannot be written: {error.strerror or error}")) from None


@contextlib.contextmanager
def _sending(endpoint: str | None, outlets: list[Outlet], complaints: list[str], *, metrics: bool) -> Generator[None]:
    """Send evaluations to an endpoint, where one was named; what it did not take is a complaint."""
    if endpoint is None:
        yield
        return
    # Imported when asked for: the exporters take longer to import than most traces take to score.
    from goldspan.collector_processor.otlp_results import OtlpResults  # noqa: PLC0415

    results = OtlpResults(endpoint, metrics=metrics)
    outlets.append(results.take)
    try:
        yield
    finally:
        results.close()
    lost = [f"{results.lost} of {results.sent + results.lost} events"] if results.lost else []
    lost += ["the metrics"] if results.points_lost else []
    if lost:
        complaints.append(f"{endpoint} did not take {' and '.join(lost)}; expected an OTLP/HTTP receiver there")


if __name__ == "__main__":
    main()
