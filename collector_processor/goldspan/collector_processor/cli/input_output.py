"""What the commands share: options, TRACES in, pages and JSON out, and how a command ends.

TRACES are files, and what platforms store, which is downloaded first.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click

from goldspan.collector_processor.replay.trace_files import STORED, TraceFiles, trace_files
from goldspan.scoring.errors import FileError, GoldspanError, SettingsError
from goldspan.scoring.json_values import is_dict, json_text
from goldspan.scoring.lazy_names import texts_beside
from goldspan.scoring.pages import Page, printable

if TYPE_CHECKING:
    from goldspan.collector_processor.replay.stored_traces.download import Progress
    from goldspan.collector_processor.replay.trace_files import TraceFiles
    from goldspan.mappers.spans import MarkedView, Markers, RecordView

UNUSABLE = 2
"""The exit code of wrong usage, and of a named file that yields no record."""
_WORTH_A_BAR = 4_000_000  # bytes of input from which a progress bar is shown
_STEP = 250_000

_Command = TypeVar("_Command", bound=Callable[..., Any])


def options(group: str, **more: Any) -> Callable[[_Command], _Command]:
    """Add the options of a group in `options.toml`, which has the fields of `click.option` by parameter.

    `more` has what is no text, by parameter too: what reads the option's value, or further fields.
    """
    table = texts_beside("goldspan.collector_processor.cli", "options.toml")[group]

    def add(command: _Command) -> _Command:
        for parameter, fields in reversed(table.items()):
            own = more.get(parameter, {})
            given = fields | (own if is_dict(own) else {"type": own})
            names = given.pop("names", [f"--{parameter.replace('_', '-')}"])
            if "choices" in given:
                given["type"] = click.Choice(given.pop("choices"))
            command = click.option(*names, parameter, **given)(command)
        return command

    return add


FORMAT, VERBOSE, COLOR = options("format"), options("verbose"), options("color")


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


def refuse_overwriting(outputs: Iterable[tuple[str, Path | str | None]], inputs: Iterable[Path | str | None]) -> None:
    """Refuse outputs that would replace a file that is read, or one another. A device or a pipe may be named twice."""
    read = {Path(path).resolve() for path in inputs if path is not None}
    written = set[Path]()
    for option, named in outputs:
        if named is None:
            continue
        path = Path(named).resolve()
        if path in read:
            raise click.UsageError(f"{option} {named} is one of the files that are read; name another file")
        if path in written and (path.is_file() or not path.exists()):
            raise click.UsageError(f"{option} {named} is named for another output too; name another file")
        written.add(path)


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


@dataclass(frozen=True, slots=True)
class NamedTraces:
    """The traces that a command names, and which of those that a platform stores."""

    names: tuple[str, ...]
    since: str
    until: str
    download: Path | None

    @property
    def stored(self) -> list[str]:
        """The names that are URLs of traces that a platform stores."""
        return [name for name in self.names if STORED.match(name)]


def TRACES(command: Callable[..., None]) -> Callable[..., None]:  # noqa: N802 - it stands among the options
    """Add the argument TRACES and the options of stored traces; the command gets a `NamedTraces`."""

    @functools.wraps(command)
    def with_traces(
        traces: tuple[str, ...], since: str | None, until: str | None, download: Path | None, **options: Any
    ) -> None:
        named = NamedTraces(traces, since or "7d", until or "", download)
        if not named.stored and any(one is not None for one in (since, until, download)):
            raise click.UsageError("--since, --until and --download are for stored traces, such as phoenix://default")
        command(traces=named, **options)

    folder = click.Path(path_type=Path, file_okay=False)
    named = click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
    return named(options("stored traces", download=folder)(with_traces))


@contextlib.contextmanager
def open_traces(traces: NamedTraces) -> Generator[TraceFiles]:
    """Find the files behind TRACES, and download those that a platform stores, with a progress bar on a terminal."""
    with trace_files(traces.names, download=_downloading(traces) if traces.stored else None) as files:
        yield files


def sinks_of(traces: NamedTraces, *, write_back: bool) -> list[tuple[str, str]]:
    """Return the kind and the address of the platform that stores these traces; none without `write_back`."""
    if not write_back:
        return []
    if len(traces.names) != 1 or not traces.stored:
        raise click.UsageError("--write-back needs TRACES to be one source of stored traces, such as phoenix://default")
    with file_errors():
        _needs_urllib3(traces)
        # Imported when asked for: most traces are files.
        from goldspan.collector_processor.replay.stored_traces.sources import stored_traces  # noqa: PLC0415

        source = stored_traces(traces.names[0])
    if not source.sink:
        raise click.UsageError(
            f"--write-back: {source.platform} cannot store scores; --enriched FILE and --otlp-endpoint URL send them on"
        )
    return [(source.sink, source.address)]


def _needs_urllib3(traces: NamedTraces) -> None:
    if find_spec("urllib3") is None:
        raise SettingsError(f"{traces.stored[0]} needs urllib3: pip install 'goldspan[sinks]'")


def _downloading(traces: NamedTraces) -> Callable[[str, Path], Path]:
    _needs_urllib3(traces)
    # Imported when asked for: most traces are files.
    from goldspan.collector_processor.replay.stored_traces.sources import Downloads, read_time  # noqa: PLC0415

    now = datetime.now(UTC)
    for option, written in (("--since", traces.since), ("--until", traces.until)):
        try:
            read_time(written or "0s", now)
        except (ValueError, OverflowError):
            expected = "an age such as 24h or 7d, or a time such as 2026-11-20 or 2026-11-20T08:00Z"
            raise click.UsageError(f"{option} {written}: expected {expected}") from None
    downloads = Downloads(traces.since, traces.until, traces.download)

    def download(url: str, temporary: Path) -> Path:
        with _download_bar(url) as on_page:
            return downloads.read(url, temporary, now, on_page)

    return download


@contextlib.contextmanager
def _download_bar(url: str) -> Generator[Callable[[Progress], object]]:
    """Show on a terminal how much of the time was read; give what takes the progress."""
    # Imported where traces are downloaded, which takes longer.
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[read]}"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(url), total=1.0, read="")

        def on_page(page: Progress) -> None:
            bar.update(task, completed=page.done, read=f"{page.pages:,} pages, {page.bytes / 1e6:,.1f} MB")

        yield on_page
