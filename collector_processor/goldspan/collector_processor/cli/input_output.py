"""What the commands share: options, traces in, pages and JSON out, and how a command ends."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import click

from goldspan.scoring.errors import FileError, GoldspanError, SettingsError
from goldspan.scoring.json_values import json_text
from goldspan.scoring.wording import Page, printable

if TYPE_CHECKING:
    from goldspan.collector_processor.replay.trace_files import TraceFiles
    from goldspan.mappers.spans import MarkedView, Markers, RecordView

UNUSABLE = 2
"""The exit code of wrong usage, and of a named file that yields no record."""
_WORTH_A_BAR = 4_000_000
"""Bytes of input from which a progress bar is shown."""
_STEP = 250_000

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


@contextlib.contextmanager
def file_errors() -> Generator[None]:
    """Turn errors that a user can mend into lines on standard error and exit code 2."""
    try:
        yield
    except FileError as error:
        complain(error.mistakes)
        sys.exit(UNUSABLE)
    except GoldspanError as error:
        complain([error])
        sys.exit(UNUSABLE)


def refuse_without(libraries: Iterable[str], what: str, extra: str) -> None:
    """Raise SettingsError if a library that something needs is not installed; `extra` brings them all."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise SettingsError(f"{what} needs {', '.join(missing)}: pip install 'goldspan[{extra}]'")


def complain(reasons: Iterable[object]) -> None:
    """Write a line for each on standard error."""
    for reason in reasons:
        click.echo(f"goldspan: {printable(str(reason))}", err=True)


def end(complaints: Sequence[object], exit_code: int) -> None:
    """Exit: with 2 where something could not be read, written or sent as asked, else with `exit_code`."""
    complain(complaints)
    sys.exit(UNUSABLE if complaints else exit_code)


def show(color: str, fill: Callable[[Page], None]) -> None:
    """Print a page on standard output, as wide and as colourful as this can be."""
    # Imported where a page is shown: `--format json` and `serve` show none.
    from rich.console import Console  # noqa: PLC0415

    from goldspan.collector_processor.report.terminal import page_width, print_page  # noqa: PLC0415 - as above

    console = Console(
        file=sys.stdout,
        highlight=False,
        force_terminal=True if color == "always" else None,
        color_system=None if color == "never" else "auto",
    )
    page = Page(page_width(console))
    fill(page)
    print_page(console, page)


def write_json(document: object) -> None:
    """Print one JSON document on standard output."""
    # JSON is UTF-8 whatever the terminal is; a lone surrogate, escaped, is JSON again.
    click.echo(json_text(document).encode("utf-8", "backslashreplace"))


@overload
def read_with_progress(files: TraceFiles) -> contextlib.AbstractContextManager[Iterator[RecordView]]: ...
@overload
def read_with_progress(
    files: TraceFiles, markers: Markers
) -> contextlib.AbstractContextManager[Iterator[MarkedView]]: ...
@contextlib.contextmanager
def read_with_progress(files: TraceFiles, markers: Markers | None = None) -> Generator[Iterator[Any]]:
    """Give the spans of these files, with a progress bar where a person waits for a long input.

    With `markers`, spans without any of them may come together, which is faster.
    """
    with progress_bar(files) as advance:
        yield files.spans(advance, markers=markers)


@contextlib.contextmanager
def progress_bar(files: TraceFiles) -> Generator[Callable[[int], object] | None]:
    """Show a progress bar where a person waits for a long input; give what takes the number of bytes just read."""
    if sum(path.stat().st_size for path in files.paths) < _WORTH_A_BAR:
        yield None
        return
    # Imported where it is shown: most runs are too short for it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import DownloadColumn, Progress  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(*Progress.get_default_columns(), DownloadColumn(), console=console, transient=True) as progress:
        task = progress.add_task("reading", total=sum(path.stat().st_size for path in files.paths))
        read = 0

        def advance(count: int) -> None:
            # The bar takes a lock each time: far too slow to be told of every line.
            nonlocal read
            read += count
            if read >= _STEP:
                progress.advance(task, read)
                read = 0

        yield advance
