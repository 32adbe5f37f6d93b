"""`goldspan score`: recorded traces against goldens."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from msgspec import structs

from goldspan.collector_processor.atomic_files import whole_file, writing
from goldspan.collector_processor.cli import input_output
from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.emit.enriched_traces import ScoreAttributes, write_enriched
from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.result_table import (
    TABLE_SUFFIXES,
    ResultRow,
    arrow_batch,
    arrow_schema,
    run_rows,
)
from goldspan.collector_processor.replay.replay import Consumer, Replay, replay
from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, ExitDecision, decide_exit_code
from goldspan.collector_processor.replay.trace_files import STDIN, TraceFiles
from goldspan.collector_processor.report.report_files import REPORT_KINDS, write_report
from goldspan.collector_processor.server_urls import check_url
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError, FileError, Mistake
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.loading import CriterionFile
from goldspan.scoring.metrics import session_metrics
from goldspan.scoring.presets.session_preset import choose_preset
from goldspan.scoring.ranked_findings import failing_rare, rank_findings, with_own_profile
from goldspan.scoring.run import Scorer, ScoringResult, scorer_of
from goldspan.scoring.tool_definitions import load_tools

if TYPE_CHECKING:
    from goldspan.collector_processor.judge.judging import Judge
    from goldspan.collector_processor.report.model import Report

_ROWS_A_GROUP = 50_000  # rows that are in memory at once, and in one row group of the file
_SINK_KINDS = ("phoenix", "mlflow", "langfuse")


def _score(written: str) -> Decimal:
    """Read a number from 0 to 1, exactly as written."""
    try:
        number = Criterion(threshold=Decimal(written)).threshold
    except (InvalidOperation, CriterionError):
        raise click.BadParameter(f"{written!r} is not a number from 0 to 1, such as 0.8") from None
    return number


def _share(written: str) -> float:
    """Read the share of a sample, above 0 and at most 1."""
    number = float(_score(written))
    if not number:
        raise click.BadParameter("0 is no sample; expected a number above 0 and at most 1, such as 0.1")
    return number


def _report_file(written: str) -> tuple[str, Path]:
    """Read a kind of report and the file to write it to."""
    kind, _, name = written.partition("=")
    if kind not in REPORT_KINDS:
        kinds = ", ".join(REPORT_KINDS)
        raise click.BadParameter(
            f"{written!r}: {kind!r} is not a kind of report; expected KIND=FILE with one of {kinds}"
        )
    if not name:
        raise click.BadParameter(f"{written!r} names no file; expected KIND=FILE, as in {kind}={kind}-report")
    return kind, Path(name)


def _table_file(written: str) -> Path:
    """Read the file to write the table of results to."""
    path = Path(written)
    if path.suffix not in TABLE_SUFFIXES:
        raise click.BadParameter(f"{written!r}: expected a name that ends with {' or '.join(TABLE_SUFFIXES)}")
    return path


def _sink(written: str) -> tuple[str, str]:
    """Read a kind of back-end and its address."""
    kind, _, endpoint = written.partition("=")
    kinds = ", ".join(_SINK_KINDS)
    if kind not in _SINK_KINDS:
        raise click.BadParameter(f"{written!r}: expected KIND=URL, as in phoenix=http://localhost:6006, one of {kinds}")
    try:
        return kind, check_url(endpoint, "KIND=URL, as in phoenix=http://localhost:6006", "variables have the keys")
    except ValueError as error:
        raise click.BadParameter(f"{kind}: {error}") from None


def _preset_option(written: str) -> tuple[str, Any]:
    """Read an option of a preset: a value that is JSON is what it says, any other is text."""
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{written!r}: expected NAME=VALUE, as in strict_order=true")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _beginning(names: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes an option in a shell: the names that begin as it does."""
    return lambda _context, _option, typed: [name for name in names() if name.startswith(typed)]


def _preset_names() -> Iterable[str]:
    # Imported when a shell asks: most runs need no preset.
    names: Iterable[str] = import_module("goldspan.scoring.presets.preset_registry").PRESETS
    return names


@click.command()
@input_output.TRACES
@input_output.options(
    "score",
    threshold=_score,
    preset_name={"shell_complete": _beginning(_preset_names)},
    preset_options=_preset_option,
    metrics={"shell_complete": _beginning(session_metrics.metric_names)},
    sample=_share,
)
@input_output.FORMAT
@input_output.options(
    "score output",
    reports={
        "type": _report_file,
        "shell_complete": _beginning(lambda: [f"{kind}=" for kind in REPORT_KINDS]),
        "help": f"Write a report: {', '.join(REPORT_KINDS)}; repeatable.",
    },
    output=_table_file,
    enriched=Path,
    sinks=_sink,
    jobs=click.IntRange(min=1),
    fail_under=_score,
)
@input_output.VERBOSE
@input_output.COLOR
def score(
    traces: input_output.NamedTraces,
    *,
    golden_files: tuple[str, ...],
    criterion_file: str | None,
    threshold: Decimal | None,
    preset_name: str | None,
    preset_options: tuple[tuple[str, Any], ...],
    metrics: tuple[str, ...],
    sample: float,
    tools_file: str | None,
    judge_file: str | None,
    named_attributes: tuple[str, ...],
    as_format: str,
    reports: tuple[tuple[str, Path], ...],
    output: Path | None,
    include_values: bool,
    enriched: Path | None,
    otlp_endpoint: str | None,
    otlp_metrics: bool,
    events: str,
    sinks: tuple[tuple[str, str], ...],
    write_back: bool,
    jobs: int,
    fail_on: str | None,
    profile_file: str | None,
    fail_under: Decimal | None,
    coverage: str,
    baseline_file: str | None,
    verbose: bool,
    color: str,
) -> None:
    """Score traces against goldens, and by metrics that need none.

    TRACES are trace files, directories of them, - for standard input, or what a platform stores:
    phoenix://PROJECT, langfuse://, mlflow://EXPERIMENT, langsmith://PROJECT, logfire://[SERVICE], tempo://[SERVICE],
    jaeger://SERVICE.

    Without goldens findings are shown, the rarest and worst first; they fail nothing unless --fail-on says so.

    Exit codes: 0 all passed; 1 a session failed, something could not be evaluated, a golden was never seen, or nothing
    was recognised; 2 wrong usage, or a named file holds no record.
    """
    _refuse_contradictions(preset_name, preset_options, criterion_file, threshold)
    _refuse_endpoint(otlp_endpoint, otlp_metrics=otlp_metrics)
    _refuse_values(output, include_values=include_values)
    sinks = (*sinks, *input_output.sinks_of(traces, write_back=write_back))
    with input_output.file_errors(), input_output.open_traces(traces) as files:
        criterion = None if criterion_file is None else CriterionFile(criterion_file)
        goldens = _goldens(golden_files, criterion, threshold)
        judge = _judge(judge_file, jobs)
        scorer = _scorer(
            preset_name, preset_options, _metrics(golden_files, metrics, fail_on, profile_file), criterion, judge
        )
        scorer = scorer if tools_file is None else scorer.with_tools(load_tools(tools_file))
        goldens = scorer.sampled(goldens, sample)
        decide = _decide_against(baseline_file)
        registry = DialectRegistry(
            join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes, *named_attributes),
            definitions=True,
            on_problem=files.problems.append,
        )
        input_output.refuse_overwriting(
            [*(("--report", path) for _, path in reports), ("--output", output), ("--enriched", enriched)],
            [*files.paths, *golden_files, criterion_file, tools_file, judge_file, profile_file],
        )
        if output is not None:
            arrow_schema()  # says before the work, not after it, that the extra is missing
        attributes = ScoreAttributes()
        complaints: list[object] = []
        destinations = _sending(otlp_endpoint, sinks, complaints, otlp_metrics=otlp_metrics)
        with destinations as consumers:
            if enriched is not None:
                consumers.append(attributes.take)
            found = _replay(files, goldens, registry, scorer, consumers, Events(events), jobs)
        found = replace(found, result=_ranked(found.result, fail_on))
        if judge is not None:
            input_output.complain([f"judge: {judge.usage}"])
        decision = decide(
            found.result,
            recognised=found.recognised,
            coverage=CoverageMode(coverage),
            fail_under=None if fail_under is None else Fraction(fail_under),
        )
        if as_format == "json":
            _write_document(found, decision)
        if as_format == "table" or reports:
            report = _report(found, decision, CoverageMode(coverage), registry)
            if as_format == "table":
                from goldspan.collector_processor.report.terminal import report_page  # noqa: PLC0415 - see _report

                step = _next_step(golden_files, traces.names) if decision.exit_code else ""
                input_output.show(color, lambda page: report_page(page, report, verbose=verbose, next_step=step))
            complaints += _write_reports(reports, report, found)
        if output is not None:
            with writing(output):
                write_results(output, run_rows(found.result, include_values=include_values))
        if enriched is not None:
            with writing(enriched):
                write_enriched(enriched, files.documents(), attributes)
        input_output.end([*files.mistakes, *complaints], decision.exit_code)


def _next_step(goldens: Sequence[str], traces: Sequence[str]) -> str:
    """Return what to do where sessions fail: with the command that changes the goldens, if they are one file."""
    if len(goldens) != 1 or not Path(goldens[0]).is_file() or STDIN in traces:
        return ""
    return f"Fix the agent, or accept what it did: {shlex.join(['goldspan', 'goldens', 'update', *goldens, *traces])}"


def _goldens(names: tuple[str, ...], criterion: CriterionFile | None, threshold: Decimal | None) -> GoldenIndex:
    goldens = load_goldens(*names, criterion=None if criterion is None else criterion.criterion())
    if criterion is not None:
        criterion.criterion(goldens)  # for names that no golden has
    return goldens if threshold is None else goldens.with_threshold(threshold)


def _replay(
    files: TraceFiles,
    goldens: GoldenIndex,
    registry: DialectRegistry,
    scorer: Scorer,
    consumers: Sequence[Consumer],
    events: Events,
    jobs: int,
) -> Replay:
    if jobs > 1:
        # Imported when asked for: one process needs no `multiprocessing`.
        from goldspan.collector_processor.replay import parallel  # noqa: PLC0415

        if parallel.can_run_in_parallel():
            return parallel.replay_in_parallel(
                files,
                goldens,
                registry,
                scorer,
                jobs=jobs,
                progress=partial(input_output.progress_bar, files),
                consumers=consumers,
                events=events,
            )
    with input_output.read_with_progress(files, registry.markers) as views:
        return replay(
            views, goldens, registry, problems=files.problems, consumers=consumers, scorer=scorer, events=events
        )


def _refuse_contradictions(
    preset: str | None, options: tuple[tuple[str, Any], ...], criterion_file: str | None, threshold: Decimal | None
) -> None:
    if preset is not None and criterion_file is not None:
        raise click.UsageError("--preset scores by the rules of another system, --criterion by goldspan's: use one")
    if preset is not None and threshold is not None:
        message = "--threshold is for goldspan's own score: set a preset's with --option, or use --fail-under"
        raise click.UsageError(message)
    if options and preset is None:
        raise click.UsageError("--option sets an option of a preset: add --preset NAME")


def _refuse_endpoint(otlp_endpoint: str | None, *, otlp_metrics: bool) -> None:
    if otlp_metrics and otlp_endpoint is None:
        raise click.UsageError("--otlp-metrics needs --otlp-endpoint URL to send them to")
    try:
        if otlp_endpoint is not None:
            check_url(otlp_endpoint, "a URL such as http://localhost:4318", "OTEL_EXPORTER_OTLP_HEADERS has secrets")
    except ValueError as error:
        raise click.UsageError(f"--otlp-endpoint: {error}") from None


def _metrics(
    golden_files: tuple[str, ...], named: tuple[str, ...], fail_on: str | None, profile: str | None
) -> tuple[session_metrics.MetricSource, ...]:
    """Return the metrics that were named, and without goldens all that need none: these inform, or fail a run."""
    if fail_on not in (None, "rare", "any") and "=" not in fail_on:
        raise click.UsageError(f"--fail-on: found {fail_on!r}, expected rare, any, or METRIC=SCORE")
    named = named if fail_on in (None, "rare", "any") else (*named, fail_on)
    by = () if profile is None else (f"{session_metrics.PROFILE_METRIC}:{profile}{'=1' if fail_on == 'any' else ''}",)
    names = {one.partition("=")[0] for one in named}
    own = () if golden_files else tuple(one for one in session_metrics.WITHOUT_GOLDEN if one.name not in names)
    return (*(own if fail_on == "any" else map(session_metrics.informing, own)), *named, *by)


def _ranked(result: ScoringResult, fail_on: str | None) -> ScoringResult:
    """Judge sessions without golden by the profile of them all too, and let rare findings fail, if that is wanted."""
    sessions = with_own_profile(result.sessions)
    ranked = rank_findings(sessions)
    sessions = failing_rare(sessions, ranked) if fail_on == "rare" else sessions
    return structs.replace(result, sessions=sessions, ranked=ranked)


def _refuse_values(output: Path | None, *, include_values: bool) -> None:
    if include_values and output is None:
        raise click.UsageError("--include-values needs --output FILE: JSON and reports have values anyway")


def _scorer(
    preset: str | None,
    options: tuple[tuple[str, Any], ...],
    metrics: tuple[session_metrics.MetricSource, ...],
    criterion: CriterionFile | None,
    judge: Judge | None,
) -> Scorer:
    if any(isinstance(metric, str) and ":" in metric for metric in metrics) and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where a user's own metric is
    choices = () if criterion is None else criterion.metrics()
    chosen: list[session_metrics.MetricSource] = [
        session_metrics.ChosenMetric(session_metrics.find_metric(choice.name), choice.threshold) for choice in choices
    ]
    scorer = scorer_of(
        preset=None if preset is None else choose_preset(preset, dict(options)),
        metrics=[*chosen, *metrics],
        run=MetricWorkers(),
    )
    return scorer if judge is None else replace(scorer, later=session_metrics.choose_metrics([judge]))


def _decide_against(baseline_file: str | None) -> Callable[..., ExitDecision]:
    if baseline_file is None:
        return decide_exit_code
    # Imported when asked for: reading an earlier document takes models of its own.
    from goldspan.collector_processor.replay.baseline import decide_against  # noqa: PLC0415
    from goldspan.collector_processor.replay.scored_runs import load_run  # noqa: PLC0415

    return partial(decide_against, load_run(Path(baseline_file)))


def _judge(file: str | None, jobs: int) -> Judge | None:
    if file is None:
        return None
    if jobs > 1:
        raise click.UsageError("--judge asks one model within one budget: use it without --jobs")
    # Imported when asked for: most traces are scored without a model.
    from goldspan.collector_processor.judge.judging import Judge  # noqa: PLC0415

    return Judge.from_file(file)


def _sending(
    otlp_endpoint: str | None, sinks: Sequence[tuple[str, str]], complaints: list[object], *, otlp_metrics: bool
) -> AbstractContextManager[list[Consumer]]:
    if otlp_endpoint is None and not sinks:
        return nullcontext([])
    # Imported when asked for: the exporters take longer to import than most traces take to score.
    from goldspan.collector_processor.replay.sending import sending  # noqa: PLC0415

    return sending(otlp_endpoint, sinks, complaints, otlp_metrics=otlp_metrics)


def _report(found: Replay, decision: ExitDecision, coverage: CoverageMode, registry: DialectRegistry) -> Report:
    # Imported where a report is made: `--format json` needs none.
    from goldspan.collector_processor.replay.hints import argument_advice  # noqa: PLC0415
    from goldspan.collector_processor.report.model import build_report  # noqa: PLC0415

    return build_report(found.result, decision, coverage=coverage, advice=argument_advice(registry, found.stacks))


def _write_document(found: Replay, decision: ExitDecision) -> None:
    """Write the results to standard output, and on standard error what became worse."""
    input_output.write_json(found.result.to_json())
    input_output.complain(f"regressed: {regression}" for regression in decision.regressions or ())


def _write_reports(files: Iterable[tuple[str, Path]], report: Report, found: Replay) -> Iterator[Mistake]:
    """Write each report; yield a mistake for each that cannot be written, whatever becomes of the others."""
    for kind, path in files:
        try:
            write_report(kind, str(path), report, found.result)
        except FileError as error:
            yield from error.mistakes


def write_results(path: Path, rows: Iterable[ResultRow]) -> int:
    """Write rows to a Parquet or Arrow file, by its suffix, some at a time; return how many.

    The file has another name until it is whole. Raises OSError, and SettingsError without the extra `parquet`.
    """
    schema = arrow_schema()
    written, rows = 0, iter(rows)
    with whole_file(path) as file, _writer(file, path.suffix, schema) as writer:
        while group := list(islice(rows, _ROWS_A_GROUP)):
            writer.write_batch(arrow_batch(group))
            written += len(group)
    return written


def _writer(file: IO[bytes], suffix: str, schema: Any) -> Any:
    if suffix == ".parquet":
        return import_module("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd")
    return import_module("pyarrow").ipc.new_file(file, schema)
