"""`goldspan goldens`: golden sets made from traces, checked, compared and updated."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import click

from goldspan.collector_processor.cli.options import TRACES
from goldspan.collector_processor.cli.output import complain, end, plain_errors, write_json
from goldspan.collector_processor.golden_tools.files import name_of, write_golden_set
from goldspan.collector_processor.golden_tools.recording import record as record_sessions
from goldspan.collector_processor.report.progress import reading
from goldspan.collector_processor.trace_files import TraceFiles, trace_files
from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialects import DialectRegistry
from goldspan.scoring.goldens.schema import golden_set_schema
from goldspan.scoring.sessions import Session


@click.group()
def goldens() -> None:
    """Make golden sets from traces, check them, compare them and keep them up to date."""


@goldens.command()
@TRACES
@click.option("-o", "--output", metavar="FILE", help="Write to this .yaml, .yml, .json or .jsonl file.")
@click.option("--name", metavar="NAME", help="Name of the golden set; that of the file if not given.")
@click.option("--redact", multiple=True, metavar="ARG", help="Write only that this argument is present; repeatable.")
@click.option("--pattern", metavar="GLOB", help="Take sessions with such ids for recordings of one golden.")
@click.option("--session", "only", multiple=True, metavar="GLOB", help="Record only such sessions; repeatable.")
@click.option("--no-user-text", is_flag=True, help="Do not write what the user said.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def record(
    traces: tuple[str, ...],
    *,
    output: str | None,
    name: str | None,
    redact: tuple[str, ...],
    pattern: str | None,
    only: tuple[str, ...],
    no_user_text: bool,
    force: bool,
) -> None:
    """Write a golden set from traces of sessions that were right.

    TRACES are trace files, directories of them, or - for standard input. What could not be written, and where
    recordings of one session disagree, is said on standard error.

    Exit codes: 0 written; 1 no tool call was found; 2 wrong usage, or a named file holds no record.
    """
    if output is not None and Path(output).exists() and not force:
        raise click.UsageError(f"{output} is already there: `goldspan goldens update` changes it, --force replaces it")
    with plain_errors(), trace_files(traces) as files:
        sessions = [
            session for session in _sessions(files) if _wanted(session, (*only, *([pattern] if pattern else ())))
        ]
        set_name = name or name_of(output or traces[0])
        recorded = record_sessions(sessions, set_name, pattern=pattern, redact=redact, user_texts=not no_user_text)
        complain(f"note: {notice}" for notice in recorded.notices)
        if not recorded.document["goldens"]:
            complain(["no tool call was found: `goldspan inspect` shows what was recognised"])
            end(files.mistakes, 1)
        text = write_golden_set(output, recorded.document, recorded.comments)
        if text is not None:
            click.echo(text.encode("utf-8", "backslashreplace"), nl=False)
        end(files.mistakes, 0)


@goldens.command()
def schema() -> None:
    """Print the JSON Schema of golden files, by which editors complete and check them."""
    write_json(golden_set_schema())


def _sessions(files: TraceFiles) -> list[Session]:
    registry = DialectRegistry(on_problem=files.problems.append)
    with reading(files) as views:
        return assemble(registry.facts(views), on_problem=files.problems.append)


def _wanted(session: Session, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(session.id, glob) for glob in globs)
