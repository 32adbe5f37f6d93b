"""Reports as files: which kinds there are, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from goldspan.collector_processor.report.html import html_page
from goldspan.collector_processor.report.junit import junit
from goldspan.collector_processor.report.markdown import markdown
from goldspan.collector_processor.report.scored import Scored
from goldspan.scoring.errors import Mistake

KINDS: dict[str, Callable[[Scored], str]] = {"junit": junit, "html": html_page, "markdown": markdown}
"""By the name used on the command line, what makes the report's text."""


class ReportFile(NamedTuple):
    """A report that is asked for: `junit=results.xml`."""

    kind: str
    path: Path


def report_file(text: str) -> ReportFile:
    """Read `kind=file`. Raises `ValueError` with a sentence for the user."""
    kind, equals, name = text.partition("=")
    kinds = ", ".join(KINDS)
    if kind not in KINDS:
        raise ValueError(f"{text!r}: {kind!r} is not a kind of report; expected KIND=FILE with one of {kinds}")
    if not equals or not name:
        raise ValueError(f"{text!r} names no file; expected KIND=FILE, as in {kind}={kind}-report")
    return ReportFile(kind, Path(name))


def write_reports(files: Iterable[ReportFile], scored: Scored) -> Iterator[Mistake]:
    """Write each report; yield a mistake for each that could not be written, whatever becomes of the others."""
    for kind, path in files:
        text = KINDS[kind](scored)
        try:
            # A lone surrogate has no place in UTF-8; whatever a sender wrote, the report is written.
            path.write_bytes(text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            yield Mistake(str(path), "", f"cannot be written: {error.strerror or error}")
