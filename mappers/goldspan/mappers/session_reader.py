"""`read_sessions`: spans in, sessions out."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.runs import DEFAULT_ASSEMBLY, AssemblySettings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Session


class TelemetryWarning(UserWarning):
    """Part of the telemetry could not be read."""


def read_sessions(
    source: object,
    *,
    settings: AssemblySettings = DEFAULT_ASSEMBLY,
    registry: DialectRegistry | None = None,
    on_problem: Callable[[Problem], object] | None = None,
) -> list[Session]:
    """Rebuild the sessions in `source`, one value for each run, in the order of time.

    `source` is a path of a trace file or of a folder with trace files, a span or log record of the SDK, an OTLP
    message, an OTLP/JSON object, a `Session` of Strands Evals, or an iterable of these. Log records are joined to the
    spans they were written in.
    The order of records never matters; those delivered twice count once. Spans without ids are calls of their own, in
    the order of the input, and form one session.

    What cannot be read is left out, and everything good beside it is read. `on_problem` is called with each such
    problem; without it, one `TelemetryWarning` says how many there were.
    Raises `TraceFileError` if a named file cannot be opened or holds no record.
    """
    problems: list[Problem] = []
    report = on_problem or problems.append
    dialects = registry or DialectRegistry(on_problem=report)
    sessions = assemble(dialects.facts(views(source, report)), settings, report)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
        message = f"{count} in the telemetry, the first: {problems[0]}; pass on_problem=... to get each of them"
        warnings.warn(message, TelemetryWarning, stacklevel=2)
    return sessions
