"""`goldspan dialects`: what can be read from traces, and a dialect for what cannot."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from goldspan.collector_processor.cli.input_output import (
    COLOR,
    FORMAT,
    complain,
    end,
    file_errors,
    read_with_progress,
    show,
    write_json,
)
from goldspan.collector_processor.cli.trace_sources import TRACES, NamedTraces, open_traces
from goldspan.collector_processor.replay.dialect_proposals import is_dialect_name, proposal
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.report.inspection_pages import dialects_json, dialects_page
from goldspan.collector_processor.whole_files import write_text
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.spans import LogView, RecordView, SpanView
from goldspan.scoring.errors import FileError, Mistake

_MOST_SPANS = 20_000
"""Spans that a proposal is compared with."""


@click.group(invoke_without_command=True)
@FORMAT
@COLOR
@click.pass_context
def dialects(context: click.Context, *, as_format: str, color: str) -> None:
    """List the dialects that goldspan reads, and what to switch on in each."""
    if context.invoked_subcommand is not None:
        return
    with file_errors():
        registry = DialectRegistry()
        if as_format == "json":
            write_json(dialects_json(registry))
        else:
            show(color, lambda page: dialects_page(page, registry))


@dialects.command()
@TRACES
@click.option("--name", metavar="NAME", help="Name the dialect; else it is named after its attributes.")
@click.option("-o", "--output", metavar="FOLDER", help="Write a package into this folder, for `pip install FOLDER`.")
def propose(traces: NamedTraces, *, name: str | None, output: str | None) -> None:
    """Write a dialect for tool calls that only the shape of their spans tells.

    TRACES are trace files, directories of them, - for standard input, or stored traces such as
    phoenix://PROJECT. The dialect is Python, as another package adds it. Exit code 1 if dialects read every tool call.
    """
    if name is not None and not is_dialect_name(name):
        raise click.BadParameter(f"found {name!r}, expected lower-case letters, digits and _", param_hint="--name")
    with file_errors(), open_traces(traces) as files:
        registry = DialectRegistry(on_problem=files.problems.append)
        kept: list[SpanView] = []
        with read_with_progress(files) as views:
            found = inspect_spans(_keeping(views, kept), registry, files.problems).shaped
        if not found:
            complain(["there is no tool call that no dialect reads"])
            end(files.mistakes, 1)
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
        end(files.mistakes, 0)


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
