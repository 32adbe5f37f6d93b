"""`goldspan inspect` and `goldspan dialects`: what is in traces, and what can be read from them."""

from __future__ import annotations

import click

from goldspan.collector_processor.cli.input_output import (
    COLOR,
    FORMAT,
    TRACES,
    VERBOSE,
    end,
    file_errors,
    read_with_progress,
    show,
    write_json,
)
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.replay.trace_files import trace_files
from goldspan.collector_processor.report.inspection_pages import dialects_json, dialects_page, inspect_page
from goldspan.mappers.dialect_registry import DialectRegistry


@click.command()
@TRACES
@FORMAT
@VERBOSE
@COLOR
def inspect(traces: tuple[str, ...], *, as_format: str, verbose: bool, color: str) -> None:
    """Show what goldspan finds in traces, what it does not recognise, and what to switch on.

    TRACES are trace files, directories of them, or - for standard input.
    """
    with file_errors(), trace_files(traces) as files:
        with read_with_progress(files) as views:
            found = inspect_spans(views, DialectRegistry(on_problem=files.problems.append), files.problems)
        if as_format == "json":
            write_json(found.to_json())
        else:
            show(color, lambda page: inspect_page(page, found, verbose=verbose))
        end(files.mistakes, 0)


@click.command()
@FORMAT
@COLOR
def dialects(*, as_format: str, color: str) -> None:
    """List the dialects that goldspan reads, and what to switch on in each."""
    with file_errors():
        registry = DialectRegistry()
        if as_format == "json":
            write_json(dialects_json(registry))
        else:
            show(color, lambda page: dialects_page(page, registry))
