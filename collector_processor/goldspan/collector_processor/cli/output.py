"""What every command says on standard output and standard error, and how it ends."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence

import click
from rich.console import Console

from goldspan.collector_processor.report.layout import Page, page_width, print_page
from goldspan.collector_processor.report.values import printable
from goldspan.scoring.errors import FileError, GoldspanError

UNUSABLE = 2
"""The exit code of wrong usage, and of a named file that yields no record."""


@contextlib.contextmanager
def plain_errors() -> Generator[None]:
    """Turn what a user can mend into a sentence on standard error and exit code 2."""
    try:
        yield
    except FileError as error:
        complain(error.mistakes)
        sys.exit(UNUSABLE)
    except GoldspanError as error:
        complain([error])
        sys.exit(UNUSABLE)


def complain(reasons: Iterable[object]) -> None:
    """Write a line for each on standard error."""
    for reason in reasons:
        click.echo(f"goldspan: {printable(str(reason))}", err=True)


def end(complaints: Sequence[object], exit_code: int) -> None:
    """Exit; what could not be read or sent as asked is wrong usage, whatever the rest was worth."""
    complain(complaints)
    sys.exit(UNUSABLE if complaints else exit_code)


def show(color: str, fill: Callable[[Page], None]) -> None:
    """Print a page on standard output, as wide and as colourful as this can be."""
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
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    # JSON is UTF-8 whatever the terminal is; a lone surrogate, escaped, is JSON again.
    click.echo(text.encode("utf-8", "backslashreplace"))
