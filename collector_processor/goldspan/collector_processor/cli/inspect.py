"""`goldspan inspect`: what is in traces."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches

import click

from goldspan.collector_processor.cli.input_output import (
    COLOR,
    FORMAT,
    VERBOSE,
    end,
    file_errors,
    read_with_progress,
    show,
    write_json,
)
from goldspan.collector_processor.cli.trace_sources import TRACES, NamedTraces, open_traces
from goldspan.collector_processor.replay.inspection import MOST_CALLS_EXPLAINED, Inspection, inspect_spans, origins_of
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.tool_definitions import load_tools
from goldspan.scoring.wording import listed, printable


@click.command()
@TRACES
@FORMAT
@click.option(
    "--why",
    "wanted",
    metavar="CALL",
    help="Show where each value of a call came from: a call id, a span id, SESSION#N, or a tool for all its calls.",
)
@click.option(
    "--tools",
    "tools_file",
    metavar="FILE",
    help="With --why: the definitions of the agent's tools as JSON, in place of those in the traces.",
)
@VERBOSE
@COLOR
def inspect(
    traces: NamedTraces, *, as_format: str, wanted: str | None, tools_file: str | None, verbose: bool, color: str
) -> None:
    """Show what goldspan finds in traces, what it does not recognise, and what to switch on.

    TRACES are trace files, directories of them, - for standard input, or stored traces such as
    phoenix://PROJECT.
    """
    if tools_file is not None and wanted is None:
        raise click.UsageError("--tools is for --why CALL")
    with file_errors(), open_traces(traces) as files:
        tools = None if tools_file is None else load_tools(tools_file)
        explains = wanted is not None
        registry = DialectRegistry(definitions=explains, on_problem=files.problems.append)
        with read_with_progress(files) as views:
            found = inspect_spans(views, registry, files.problems, content=explains)
        most = None if verbose or as_format == "json" else MOST_CALLS_EXPLAINED
        calls = () if wanted is None else origins_of(found.sessions, wanted, tools, most=most)
        if wanted is not None and not calls:
            raise click.BadParameter(_no_such_call(wanted, found), param_hint="--why")
        if as_format == "json":
            origins = {} if wanted is None else {"origins": [one.to_json() for one in calls]}
            write_json(found.to_json() | origins)
        else:
            # Imported where a page is shown, as rich is.
            from goldspan.collector_processor.report.inspection_pages import inspect_page, origins_page  # noqa: PLC0415

            if wanted is None:
                show(color, lambda page: inspect_page(page, found, verbose=verbose))
            else:
                show(color, lambda page: origins_page(page, calls, verbose=verbose))
        end(files.mistakes, 0)


def _no_such_call(wanted: str, found: Inspection) -> str:
    counts = Counter(call.name for call in found.calls)
    tools = listed(counts.elements()) or "none"
    near = get_close_matches(wanted, counts, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return printable(
        f"{wanted!r} is no call of these traces; {meant}"
        f"expected a call id, a span id, SESSION#N (its N-th call, from 1), or a tool: {tools}"
    )
