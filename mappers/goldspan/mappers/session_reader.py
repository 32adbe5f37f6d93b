"""From whatever holds spans to sessions, in one call."""

from __future__ import annotations

from collections.abc import Callable

from goldspan.mappers.assembly import DEFAULT_ASSEMBLY, AssemblySettings, assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers import views
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Session


def read_sessions(
    source: object,
    *,
    settings: AssemblySettings = DEFAULT_ASSEMBLY,
    registry: DialectRegistry | None = None,
    on_problem: Callable[[Problem], object] | None = None,
) -> list[Session]:
    """Rebuild the sessions in `source`, one value for each run, in the order of time.

    `source` is a path of a trace file, a span or log record of the SDK, an OTLP message, an OTLP/JSON object, or an
    iterable of these. Log records are joined to the spans they were written in. The order of records never matters;
    those delivered twice count once. Spans without ids are calls of their own, in the order of the input, and form one
    session.

    What cannot be read is left out, and everything good beside it is read: `on_problem` is told of each.
    Raises `TraceFileError` where a named file cannot be opened or yields no record.
    """
    report = on_problem or _ignore
    dialects = registry or DialectRegistry(on_problem=report)
    return assemble(dialects.facts(views(source, report)), settings, report)


def _ignore(problem: Problem) -> None:
    del problem
