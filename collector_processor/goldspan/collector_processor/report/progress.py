"""How far the reading of long input is, on standard error and only where a person sits in front of it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any, overload

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from goldspan.collector_processor.replay.trace_files import TraceFiles
from goldspan.mappers.spans import MarkedView, Markers, RecordView

_WORTH_A_BAR = 4_000_000
_STEP = 250_000


@overload
def reading(files: TraceFiles) -> contextlib.AbstractContextManager[Iterator[RecordView]]: ...
@overload
def reading(files: TraceFiles, markers: Markers) -> contextlib.AbstractContextManager[Iterator[MarkedView]]: ...
@contextlib.contextmanager
def reading(files: TraceFiles, markers: Markers | None = None) -> Generator[Iterator[Any]]:
    """Give the spans of these files, under a progress bar where they take more than a moment to read.

    With `markers`, spans without any of them may come together, which is faster.
    """
    console = Console(stderr=True)
    total = sum(path.stat().st_size for path in files.paths)
    if not console.is_terminal or total < _WORTH_A_BAR:
        yield files.spans(markers=markers)
        return
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=total)
        waiting = 0

        def advance(count: int) -> None:
            # The bar takes a lock each time: far too slow to be told of every line.
            nonlocal waiting
            waiting += count
            if waiting >= _STEP:
                progress.advance(task, waiting)
                waiting = 0

        yield files.spans(advance, markers=markers)
