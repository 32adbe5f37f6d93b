"""`goldspan inspect`: what is in traces. `goldspan dialects`: what is read from them, and a dialect for the rest."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

import click

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.cli import input_output
from goldspan.collector_processor.replay.dialect_proposals import is_dialect_name, proposal
from goldspan.collector_processor.replay.inspection import MOST_CALLS_EXPLAINED, Inspection, inspect_spans, origins_of
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.spans import LogView, RecordView, SpanView
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.pages import listed, printable
from goldspan.scoring.tool_definitions import load_tools


@click.command()
@input_output.TRACES
@input_output.FORMAT
@input_output.options("inspect")
@input_output.VERBOSE
@input_output.COLOR
def inspect(
    traces: input_output.NamedTraces,
    *,
    as_format: str,
    wanted: str | None,
    tools_file: str | None,
    verbose: bool,
    color: str,
) -> None:
    """Show what goldspan finds in traces, what it does not recognise, and what to switch on.

    TRACES are trace files, directories of them, - for standard input, or stored traces such as
    phoenix://PROJECT.
    """
    if tools_file is not None and wanted is None:
        raise click.UsageError("--tools is for --why CALL")
    with input_output.file_errors(), input_output.open_traces(traces) as files:
        tools = None if tools_file is None else load_tools(tools_file)
        explains = wanted is not None
        registry = DialectRegistry(definitions=explains, on_problem=files.problems.append)
        with input_output.read_with_progress(files) as views:
            found = inspect_spans(views, registry, files.problems, content=explains)
        most = None if verbose or as_format == "json" else MOST_CALLS_EXPLAINED
        calls = () if wanted is None else origins_of(found.sessions, wanted, tools, most=most)
        if wanted is not None and not calls:
            raise click.BadParameter(_no_such_call(wanted, found), param_hint="--why")
        if as_format == "json":
            origins = {} if wanted is None else {"origins": [one.to_json() for one in calls]}
            input_output.write_json(found.to_json() | origins)
        else:
            # Imported where a page is shown, as rich is.
            from goldspan.collector_processor.report.inspection_pages import inspect_page, origins_page  # noqa: PLC0415

            if wanted is None:
                input_output.show(color, lambda page: inspect_page(page, found, verbose=verbose))
            else:
                input_output.show(color, lambda page: origins_page(page, calls, verbose=verbose))
        input_output.end(files.mistakes, 0)


def _no_such_call(wanted: str, found: Inspection) -> str:
    counts = Counter(call.name for call in found.calls)
    tools = listed(counts.elements()) or "none"
    near = get_close_matches(wanted, counts, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return printable(
        f"{wanted!r} is no call of these traces; {meant}"
        f"expected a call id, a span id, SESSION#N (its N-th call, from 1), or a tool: {tools}"
    )


_MOST_SPANS = 20_000  # spans that a proposal is compared with


@click.group(invoke_without_command=True)
@input_output.FORMAT
@input_output.COLOR
@click.pass_context
def dialects(context: click.Context, *, as_format: str, color: str) -> None:
    """List the dialects that goldspan reads, and what to switch on in each."""
    if context.invoked_subcommand is not None:
        return
    with input_output.file_errors():
        # Imported when asked for: `inspect --format json` needs no page.
        from goldspan.collector_processor.report.inspection_pages import dialects_json, dialects_page  # noqa: PLC0415

        registry = DialectRegistry()
        if as_format == "json":
            input_output.write_json(dialects_json(registry))
        else:
            input_output.show(color, lambda page: dialects_page(page, registry))


@dialects.command()
@input_output.TRACES
@input_output.options("dialects propose")
def propose(traces: input_output.NamedTraces, *, name: str | None, output: str | None) -> None:
    """Write a dialect for tool calls that only the shape of their spans tells.

    TRACES are trace files, directories of them, - for standard input, or stored traces such as
    phoenix://PROJECT. The dialect is Python, as another package adds it. Exit code 1 if dialects read every tool call.
    """
    if name is not None and not is_dialect_name(name):
        raise click.BadParameter(f"found {name!r}, expected lower-case letters, digits and _", param_hint="--name")
    with input_output.file_errors(), input_output.open_traces(traces) as files:
        registry = DialectRegistry(on_problem=files.problems.append)
        kept: list[SpanView] = []
        with input_output.read_with_progress(files) as views:
            found = inspect_spans(_keeping(views, kept), registry, files.problems).shaped
        if not found:
            input_output.complain(["there is no tool call that no dialect reads"])
            input_output.end(files.mistakes, 1)
        proposed = proposal(found, kept, name)
        if output is None:
            click.echo(proposed.module.encode("utf-8"), nl=False)
        else:
            _write_package(
                Path(output), {f"{proposed.module_name}.py": proposed.module} | {"pyproject.toml": proposed.pyproject}
            )
            # Without a slash it would be the name of a package in a registry.
            folder = shlex.quote(os.path.join(".", output))  # noqa: PTH118 - a Path drops the dot
            click.echo(f"wrote {proposed.module_name}.py and pyproject.toml: check them, then `pip install {folder}`")
        input_output.end(files.mistakes, 0)


def _keeping(views: Iterable[RecordView], kept: list[SpanView]) -> Iterator[RecordView]:
    """Yield records, and keep spans of them, up to a bound."""
    for view in views:
        if len(kept) < _MOST_SPANS and not isinstance(view, LogView):
            kept.append(view)
        yield view


def _write_package(folder: Path, files: dict[str, str]) -> None:
    for name in files:
        if (folder / name).exists():
            raise FileError(Mistake(str(folder / name), "", "is already there; name another folder"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(Mistake(str(folder), "", f"cannot be made: {error.strerror or error}")) from None
    for name, text in files.items():
        write_text(str(folder / name), text)
