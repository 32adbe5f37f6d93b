"""`goldspan goldens`: golden sets made from traces, checked, compared and updated."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.cli import input_output
from goldspan.collector_processor.golden_tools import golden_differences, writing
from goldspan.collector_processor.golden_tools.checking import check_goldens
from goldspan.collector_processor.golden_tools.inference.inferred_document import RuleQuestion
from goldspan.collector_processor.golden_tools.proposing import propose
from goldspan.collector_processor.golden_tools.recording import Recorded, recorded_set
from goldspan.collector_processor.golden_tools.recording import record as record_sessions
from goldspan.collector_processor.golden_tools.reviewing import Answer, Answered, markdown_of, review
from goldspan.collector_processor.golden_tools.suite_coverage import suite_coverage
from goldspan.collector_processor.golden_tools.trying import leave_one_out, try_goldens, try_recorded
from goldspan.collector_processor.golden_tools.updating import (
    AcceptableChange,
    AcceptableChanges,
    GoldenFile,
    acceptable_changes,
)
from goldspan.collector_processor.replay.trace_files import TraceFiles, trace_files
from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.errors import FileError, GoldenFileError, Mistake
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.benchmarks import Imported, import_bfcl, import_tau2, read_records
from goldspan.scoring.goldens.documents import MistakeCollector, Unreadable
from goldspan.scoring.goldens.json_schema import golden_set_schema
from goldspan.scoring.json_values import shown_name
from goldspan.scoring.pages import counted, listed, printable
from goldspan.scoring.sessions import JsonValue, Session
from goldspan.scoring.tool_definitions import load_tools

_GZIP = b"\x1f\x8b"


class _WholeSentences(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(1_000)) for name, one in sorted(self.commands.items())])


@click.group(cls=_WholeSentences)
def goldens() -> None:
    """Make golden sets from traces, check them, compare them and keep them up to date."""


@goldens.command()
@input_output.TRACES
@input_output.options("goldens written")
@input_output.options("goldens record")
def record(
    traces: input_output.NamedTraces,
    *,
    output: str | None,
    name: str | None,
    redact: tuple[str, ...],
    pattern: str | None,
    runs: str | None,
    only: tuple[str, ...],
    by_user_text: bool,
    no_user_text: bool,
    from_passing: bool,
    reviewed: bool,
    yes: bool,
    table: str | None,
    force: bool,
) -> None:
    """Record a golden set from traces whose calls were right.

    TRACES are trace files, directories of them, - for standard input, or stored traces such as
    phoenix://PROJECT. From several runs of a task, by session ids or the user's first message, rules for the whole set
    are inferred; one run is written as it was. Standard error says which values were left out.

    Exit codes: 0 written; 1 no tool call was found; 2 wrong usage, or a named file holds no record.
    """
    _refuse_to_replace(output, force=force)
    _refuse_together([("--review", reviewed), ("--yes", yes)], "the one asks about what the other takes")
    by_text = [("--by-user-text", by_user_text), ("--from-passing", from_passing)]
    _refuse_ways_to_find(pattern, runs, by_text, no_user_text=no_user_text)
    with input_output.file_errors(), input_output.open_traces(traces) as files:
        sessions = _sessions(files, *only, *([pattern] if pattern else ()))
        input_output.refuse_overwriting((("-o", output), ("--table", table)), files.paths)
        set_name = name or writing.name_of(output or traces.names[0])
        if from_passing:
            recorded, left = propose(sessions, set_name, redact=redact)
            input_output.complain(
                f"left out: {counted(number, 'session')}: {why}" for why, number in sorted(left.items())
            )
        else:
            recorded = record_sessions(
                sessions,
                set_name,
                pattern=pattern,
                runs=runs,
                redact=redact,
                user_texts=not no_user_text,
                by_user_text=by_user_text,
            )
        answered: Sequence[Answered] = [Answered(question, Answer.YES) for question in recorded.questions]
        if reviewed and recorded.inferred is not None:
            inferred, answered = review(recorded.inferred, _asked)
            recorded = recorded_set(inferred, set_name, recorded.notices)
        input_output.complain(f"note: {notice}" for notice in recorded.notices)
        if not recorded.document["goldens"]:
            input_output.complain(
                ["no tool call was found that a golden can expect: `goldspan inspect` shows what was recognised"]
            )
            input_output.end(files.mistakes, 1)
        if answered and not (reviewed or yes):
            input_output.complain(
                [f"note: {counted(len(answered), 'rule')} to confirm: --review asks about them, --yes takes them"]
            )
        if table is not None:
            write_text(table, "\n".join(markdown_of(answered)) + "\n")
        _write_recorded(output, recorded)
        input_output.end(files.mistakes, 0)


def _refuse_ways_to_find(
    pattern: str | None, runs: str | None, by_text: Sequence[tuple[str, bool]], *, no_user_text: bool
) -> None:
    """Refuse options that find goldens, or runs of a task, in several ways; `by_text` are those by what users said."""
    by_ids = [("--pattern", pattern is not None), ("--runs", runs is not None)]
    _refuse_together([*by_ids, by_text[0]], "each says how runs of a task are found")
    for option in (("--no-user-text", no_user_text), *by_ids):
        for other in by_text:
            _refuse_together([other, option], f"{other[0]} finds goldens by the user's first message")
    if runs is not None and "{run}" not in runs:
        raise click.UsageError("--runs needs {run} in the place where ids tell runs apart: '{task}-run-{run}'")


def _refuse_together(options: Sequence[tuple[str, bool]], why: str) -> None:
    """Refuse to take several of these options, each with whether it was given."""
    given = [name for name, is_given in options if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot stand together: {why}")


def _write_recorded(output: str | None, recorded: Recorded) -> None:
    """Write a recorded golden set, and say on standard error what was inferred."""
    header = _said_of(recorded)
    input_output.complain(f"note: {line}" for line in (header if recorded.inferred is not None else ()))
    _write(output, recorded.document, recorded.comments, header)


def _said_of(recorded: Recorded) -> Sequence[str]:
    """Return what stands at the top of a recorded file: what it was made of, and how it judges that."""
    if recorded.inferred is None:
        return writing.RECORDED
    trial, tasks = leave_one_out(recorded.inferred), recorded.inferred.tasks
    runs = sum(task.runs for task in tasks)
    made = f"Inferred by `goldspan goldens record` from {counted(runs, 'run')} of {counted(len(tasks), 'task')}."
    tried = f"Each of {counted(trial.right, 'run')} judged by goldens made without it: {trial.failed} fail."
    once = sum(task.runs == 1 for task in tasks)
    few = f"{counted(once, 'task')} with one run only, which says nothing of the next: record a second one."
    return (made, tried, *((few,) if once else ()))


def _asked(number: int, count: int, question: RuleQuestion) -> Answer:
    """Ask a person in the terminal, who answers with one key; the end of the input takes the rest as it is."""
    from rich.console import Console  # noqa: PLC0415 - where something is asked
    from rich.panel import Panel  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    shown = Text("\n".join(map(printable, question.evidence)), style="dim")
    shown.append("\n[y] right   [n] no: expect what was seen   [i] ignore it   [a] right, and all that follow", "bold")
    title = Text(f"{number} of {count}: {printable(question.text)}")
    Console(stderr=True, highlight=False).print(Panel(shown, title=title, title_align="left"))
    while True:
        try:
            key = click.getchar()
        except (EOFError, OSError):
            return Answer.REST
        if key in ("\x03", "\x04"):
            raise click.Abort
        with contextlib.suppress(ValueError):
            return Answer(key.casefold() if key not in "\r\n" else "y")


@goldens.command("try")
@click.argument("golden_files", nargs=1, metavar="GOLDENS")
@click.argument("recorded", nargs=-1, metavar="[RUNS]...")
@input_output.options("goldens try")
def try_(
    golden_files: str, *, recorded: tuple[str, ...], good: tuple[str, ...], bad: tuple[str, ...], as_format: str
) -> None:
    """Judge runs whose outcome is known, and say what would mend wrong judgements.

    GOLDENS is a golden set, RUNS are the runs that it was recorded from: each is judged by goldens that are made of
    the others. --good and --bad are other runs, judged by GOLDENS.

    Exit codes: 0 every run was judged rightly; 1 one was not; 2 wrong usage, or a file cannot be read.
    """
    if bool(recorded) == bool(good or bad):
        raise click.UsageError("name the runs that the goldens were recorded from, or others with --good and --bad")
    with input_output.file_errors():
        index = load_goldens(golden_files)
        (known, unread), (right, unread_right), (wrong, unread_wrong) = map(_read, (recorded, good, bad))
        trial = try_recorded(index, known) if recorded else try_goldens(index, right, wrong)
        _print(as_format, trial.to_json, trial.lines)
        mistakes = (*unread, *unread_right, *unread_wrong)
        input_output.end(mistakes, int(bool(trial.failed or trial.wrong > trial.caught)))


@goldens.command()
@click.argument("golden_files", nargs=-1, required=True, metavar="GOLDENS...")
@input_output.options("goldens check")
def check(golden_files: tuple[str, ...], *, traces: tuple[str, ...], as_format: str) -> None:
    """Find probable mistakes in golden sets.

    These are goldens that no session reaches, patterns that overlap, matchers that match anything and empty lists of
    calls; with --traces also goldens that were never seen, and tools and arguments that no tool declares.

    Exit codes: 0 nothing was found; 1 something was; 2 wrong usage, or a file is wrong or cannot be read.
    """
    with input_output.file_errors():
        index, (sessions, mistakes) = load_goldens(*golden_files), _read(traces)
        findings = check_goldens(index, sessions if traces else None)
        summary = f"{counted(len(index.goldens), 'golden')} checked, {counted(len(findings), 'finding')}"
        document = {"findings": [finding._asdict() for finding in findings]}
        _print(as_format, lambda: document, lambda: [*map(str, findings), summary])
        input_output.end(mistakes, int(bool(findings)))


@goldens.command()
@click.argument("golden_files", nargs=1, metavar="GOLDENS")
@click.argument("traces", nargs=-1, metavar="[TRACES]...")
@input_output.options("goldens coverage")
def coverage(golden_files: str, traces: tuple[str, ...], *, tools: str | None, as_format: str) -> None:
    """Say which tools, parameters, listed values and failures goldens exercise, and what they leave out.

    Tools are those that TRACES declare or call, or that --tools defines. With TRACES also what sessions did that no
    golden has, and definitions that changed meanwhile.

    Exit codes: 0 everything is exercised; 1 something is not; 2 wrong usage, or a file cannot be read.
    """
    if not (traces or tools):
        raise click.UsageError("name traces, or definitions with --tools")
    with input_output.file_errors():
        index, declared = load_goldens(golden_files), load_tools(tools) if tools else None
        sessions, mistakes = _read(traces)
        found = suite_coverage(index, sessions, declared)
        _print(as_format, found.to_json, found.lines)
        input_output.end(mistakes, int(not found.is_whole))


@goldens.command()
@click.argument("golden_files", nargs=1, metavar="GOLDENS")
@click.argument("others", nargs=-1, required=True, metavar="OTHER...")
@input_output.options("goldens diff")
@input_output.COLOR
def diff(golden_files: str, others: tuple[str, ...], *, as_format: str, color: str) -> None:
    """Compare a golden set with another one, or with traces.

    GOLDENS is a golden set, OTHER another one, or traces. With traces, a value that the criterion accepts is no
    difference.

    Exit codes: 0 nothing differs; 1 something does; 2 wrong usage, or a file cannot be read.
    """
    with input_output.file_errors():
        before = load_goldens(golden_files)
        notes: Sequence[str] = ()
        mistakes: Sequence[object] = ()
        if all(writing.is_golden_file(other) for other in others):
            changes = tuple(golden_differences.set_changes(before, load_goldens(*others)))
        else:
            sessions, mistakes = _read(others)
            difference = golden_differences.trace_difference(before, sessions)
            changes, notes = difference.changes, difference.notes
        if as_format == "json":
            input_output.write_json({"changes": [change.to_json() for change in changes], "notes": list(notes)})
        elif as_format == "markdown":
            click.echo(golden_differences.as_markdown(changes, notes), nl=False)
        else:
            _print_lines(golden_differences.as_text(changes, notes), color)
        input_output.end(mistakes, int(bool(changes)))


@goldens.command()
@click.argument("golden_file", metavar="GOLDENS")
@input_output.TRACES
@input_output.options("goldens update")
@input_output.COLOR
def update(
    golden_file: str,
    traces: input_output.NamedTraces,
    *,
    yes: bool,
    extra_calls: bool,
    pattern_goldens: bool,
    dry_run: bool,
    color: str,
) -> None:
    """Change a golden file to expect what traces show, one difference after the other.

    GOLDENS is one golden file; a YAML file keeps its comments and its layout. Only what a score depends on changes,
    and only goldens of one session, unless asked for more. Goldens and turns that were never seen stay. `goldspan
    goldens record` writes goldens for sessions that have none.

    Exit codes: 0 the file expects everything that a score depends on; 1 such differences are left; 2 wrong usage, or a
    file cannot be read or changed.
    """
    with input_output.file_errors(), input_output.open_traces(traces) as files:
        index, target = load_goldens(golden_file), GoldenFile(golden_file)
        difference = golden_differences.trace_difference(index, _sessions(files))
        possible = acceptable_changes(index, difference, extra_calls=extra_calls, pattern_goldens=pattern_goldens)
        accepted: list[AcceptableChange] = []
        for number, one in enumerate(possible.changes, 1):
            _print_lines((line for line in golden_differences.as_text([one.change]) if line.sign != "="), color)
            if not dry_run and (yes or _accepts(number, len(possible.changes))):
                accepted.append(one)
        input_output.complain((*difference.notes, *possible.by_hand))
        if accepted:
            write_text(golden_file, target.accept(accepted))
        click.echo(f"{len(accepted)} of {counted(len(possible.changes), 'difference')} accepted")
        for line in _left(possible):
            click.echo(line)
        declined = len(accepted) < len(possible.changes)
        input_output.end(files.mistakes, int(declined or bool(possible.by_hand or possible.pattern_goldens)))


def _left(possible: AcceptableChanges) -> Iterator[str]:
    """Say what an update left that may be asked for."""
    if extra := possible.extra_calls:
        names = listed(one.change.tool or f"turn {(one.change.turn or 0) + 1}" for one in extra)
        yield f"left: {counted(len(extra), 'extra call')} on which no score depends ({names}); --extra-calls adds them"
    if changes := possible.pattern_goldens:
        names = listed(dict.fromkeys(shown_name(one.change.golden) for one in changes))
        what = counted(len(changes), "difference")
        yield f"left: {what} in goldens of several sessions ({names}); --pattern-goldens accepts them"


@goldens.command("import")
@click.argument("file", metavar="FILE")
@input_output.options("goldens import")
@input_output.options("goldens written")
@input_output.options("goldens import how")
def import_(
    file: str, *, source: str, output: str | None, name: str | None, session_prefix: str, user_calls: bool, force: bool
) -> None:
    """Make a golden set from a benchmark's file.

    FILE holds tau2's tasks or BFCL's possible answers. Values are compared literally. The presets of these
    benchmarks score as their own checkers do.
    """
    _refuse_to_replace(output, force=force)
    with input_output.file_errors():
        set_name = name or writing.name_of(output or file)
        notes = MistakeCollector(file)
        imported = Imported({})
        # What cannot be read at all is among the mistakes.
        with contextlib.suppress(Unreadable):
            records = read_records(_benchmark_text(file), notes)
            if source == "bfcl":
                imported = import_bfcl(records, set_name, notes, prefix=session_prefix)
            else:
                imported = import_tau2(records, set_name, notes, prefix=session_prefix, user_calls=user_calls)
        if notes.mistakes:
            raise GoldenFileError(*notes.in_order())
        input_output.complain(f"note: {notice}" for notice in imported.notices)
        _write(output, imported.document, {})


def _benchmark_text(file: str) -> str:
    """Read a file that may be compressed with gzip."""
    try:
        content = Path(file).read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(Mistake(file, "", "not UTF-8 text: save the file as UTF-8")) from None
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(Mistake(file, "", f"cannot be read: {why}")) from None


@goldens.command()
def schema() -> None:
    """Print the JSON Schema of golden files."""
    input_output.write_json(golden_set_schema())


def _refuse_to_replace(output: str | None, *, force: bool) -> None:
    if output is not None and Path(output).exists() and not force:
        raise click.UsageError(f"{output} is already there: `goldspan goldens update` changes it, --force replaces it")


def _write(
    output: str | None, document: Mapping[str, JsonValue], comments: writing.Comments, header: Sequence[str] = ()
) -> None:
    """Write a golden set to a file, or as YAML to standard output."""
    text = writing.golden_set_text(output or "-.yaml", document, comments, header)
    if output is None:
        click.echo(text.encode("utf-8"), nl=False)
    else:
        write_text(output, text)


_COLOURS = {"-": "red", "+": "green", "?": "yellow"}
_FORCED = {"auto": None, "always": True, "never": False}


def _print_lines(lines: Iterable[golden_differences.Line], color: str) -> None:
    for line in lines:
        click.secho(str(line), fg=_COLOURS.get(line.sign), color=_FORCED[color])


def _accepts(number: int, count: int) -> bool:
    """Ask a person; the end of the input is a no."""
    try:
        return click.confirm(f"accept {number} of {count}?", default=False, err=True)
    except click.Abort:
        return False


def _print(as_format: str, document: Callable[[], JsonValue], lines: Callable[[], Iterable[str]]) -> None:
    if as_format == "json":
        input_output.write_json(document())
    else:
        for line in lines():
            click.echo(printable(line))


def _read(traces: Sequence[str]) -> tuple[list[Session], Sequence[object]]:
    """Return the sessions of these files, and what is wrong with the files; nothing where none are named."""
    if not traces:
        return [], ()
    with trace_files(traces) as files:
        return _sessions(files), files.mistakes


def _sessions(files: TraceFiles, *globs: str) -> list[Session]:
    """Return the sessions with an id that a glob matches; without any globs, all."""
    registry = DialectRegistry(on_problem=files.problems.append)
    with input_output.read_with_progress(files) as views:
        found = assemble(registry.facts(views), on_problem=files.problems.append)
    return [one for one in found if not globs or any(fnmatchcase(one.id, glob) for glob in globs)]
