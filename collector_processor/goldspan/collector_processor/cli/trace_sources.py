"""TRACES of a command line: files, and what platforms store, which is downloaded first."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from goldspan.collector_processor.cli.input_output import file_errors
from goldspan.collector_processor.replay.trace_files import STORED, TraceFiles, trace_files
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.wording import printable

if TYPE_CHECKING:
    from goldspan.collector_processor.replay.stored_traces.download import Progress


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


_OF_TRACES = (
    click.argument("traces", nargs=-1, required=True, metavar="TRACES..."),
    click.option("--since", metavar="TIME", help="Stored traces from this time on, as in 24h; 7d by default."),
    click.option("--until", metavar="TIME", help="Stored traces before this time, as in 2026-11-20; now by default."),
    click.option(
        "--download",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Keep stored traces in this folder; an interrupted run goes on there.",
    ),
)


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

    wrapped: Callable[..., None] = with_traces
    for option in reversed(_OF_TRACES):
        wrapped = option(wrapped)
    return wrapped


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
