"""`goldspan inspect`: what is in traces."""

from __future__ import annotations

import click

from goldspan.collector_processor.cli.options import COLOR, FORMAT, TRACES, VERBOSE
from goldspan.collector_processor.cli.output import end, plain_errors, show, write_json
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.replay.trace_files import trace_files
from goldspan.collector_processor.report.dialects_page import dialects_json, dialects_page
from goldspan.collector_processor.report.inspect_page import inspect_page
from goldspan.collector_processor.report.progress import reading
from goldspan.mappers.dialect_registry import DialectRegistry


@click.command()
@TRACES
@FORMAT
@VERBOSE
@COLOR
def inspect(traces: tuple[str, ...], *, as_format: str, verbose: bool, color: str) -> None:
    """Show what is recognised in traces, what is not, and what to switch on.

    TRACES are trace files, directories of them, or - for standard input.
    """
    with plain_errors(), trace_files(traces) as files:
        with reading(files) as views:
            found = inspect_spans(views, DialectRegistry(on_problem=files.problems.append), files.problems)
        if as_format == "json":
            write_json(found.to_json())
        else:
            show(color, lambda page: inspect_page(page, found, verbose=verbose))
        end(files.mistakes, 0)


# `goldspan dialects`: what is read, and what to switch on.


@click.command()
@FORMAT
@COLOR
def dialects(*, as_format: str, color: str) -> None:
    """List the dialects that are read, and what to switch on in each."""
    with plain_errors():
        registry = DialectRegistry()
        if as_format == "json":
            write_json(dialects_json(registry))
        else:
            show(color, lambda page: dialects_page(page, registry))
