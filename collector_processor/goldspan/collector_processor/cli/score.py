"""`goldspan score`: recorded traces against goldens."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click

from goldspan.collector_processor.cli.options import (
    COLOR,
    FORMAT,
    TRACES,
    VERBOSE,
    PresetOptionType,
    ReportType,
    ScoreType,
)
from goldspan.collector_processor.cli.output import complain, end, plain_errors, show, write_json
from goldspan.collector_processor.cli.sinks import Sink, SinkType, scoring_in
from goldspan.collector_processor.emit.enriched_traces import ScoreAttributes, write_enriched
from goldspan.collector_processor.metric_workers import MetricWorkers
from goldspan.collector_processor.replay.baseline import judge_against, load_baseline
from goldspan.collector_processor.replay.hints import argument_advice
from goldspan.collector_processor.replay.replay import Outlet, replay
from goldspan.collector_processor.replay.trace_files import TraceFiles, trace_files
from goldspan.collector_processor.report.files import KINDS, ReportFile, write_reports
from goldspan.collector_processor.report.progress import reading
from goldspan.collector_processor.report.score_page import score_page
from goldspan.collector_processor.report.scored import Scored
from goldspan.collector_processor.report.totals import Coverage, judge
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.errors import FileError, Mistake
from goldspan.scoring.goldens import load_criterion, load_goldens
from goldspan.scoring.goldens.loading import load_metrics
from goldspan.scoring.metrics.registry import find_metric
from goldspan.scoring.metrics.session_metrics import ChosenMetric, MetricSource
from goldspan.scoring.presets.session_preset import choose_preset
from goldspan.scoring.run import Scorer, scorer_of


@click.command()
@TRACES
@click.option(
    "--goldens", "golden_files", multiple=True, required=True, metavar="FILE", help="A golden set; repeatable."
)
@click.option("--criterion", "criterion_file", metavar="FILE", help="The criterion that golden sets inherit.")
@click.option("--preset", "preset_name", metavar="NAME", help="Score as another system does: axion, uipath, ...")
@click.option(
    "--option",
    "preset_options",
    type=PresetOptionType(),
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the preset; repeatable.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME[=THRESHOLD]",
    help="Judge by this metric too: a name, or module:function of your own; repeatable.",
)
@FORMAT
@click.option(
    "--report",
    "reports",
    type=ReportType(),
    multiple=True,
    metavar="KIND=FILE",
    help=f"Write a report: {', '.join(KINDS)}; repeatable.",
)
@click.option("--enriched", metavar="FILE", help="Write the spans again, with their scores as attributes.")
@click.option("--otlp-endpoint", metavar="URL", help="Send an event for each result to this OTLP/HTTP endpoint.")
@click.option("--metrics", "send_metrics", is_flag=True, help="Send metrics to the endpoint as well.")
@click.option(
    "--sink",
    "sinks",
    type=SinkType(),
    multiple=True,
    metavar="KIND=URL",
    help="Send scores to a phoenix, mlflow or langfuse at this address; repeatable.",
)
@click.option("--fail-under", type=ScoreType(), metavar="SCORE", help="Fail if the mean session score is lower.")
@click.option(
    "--coverage",
    type=click.Choice([one.value for one in Coverage]),
    default=Coverage.STRICT.value,
    help="Whether what could not be evaluated, and goldens never seen, fail: strict (default), or lenient.",
)
@click.option(
    "--baseline",
    "baseline_file",
    metavar="FILE",
    help="Fail only on what got worse since this earlier --format json document.",
)
@VERBOSE
@COLOR
def score(
    traces: tuple[str, ...],
    *,
    golden_files: tuple[str, ...],
    criterion_file: str | None,
    preset_name: str | None,
    preset_options: tuple[tuple[str, Any], ...],
    metrics: tuple[str, ...],
    as_format: str,
    reports: tuple[ReportFile, ...],
    enriched: str | None,
    otlp_endpoint: str | None,
    send_metrics: bool,
    sinks: tuple[Sink, ...],
    fail_under: Fraction | None,
    coverage: str,
    baseline_file: str | None,
    verbose: bool,
    color: str,
) -> None:
    """Score traces against goldens.

    TRACES are trace files, directories of them, or - for standard input.

    Exit codes: 0 all passed; 1 a session failed, something could not be evaluated, a golden was never seen, or nothing
    was recognised; 2 wrong usage, or a named file holds no record.
    """
    _refuse_contradictions(preset_name, preset_options, criterion_file)
    if send_metrics and otlp_endpoint is None:
        raise click.UsageError("--metrics needs --otlp-endpoint URL to send them to")
    if otlp_endpoint is not None and not otlp_endpoint.startswith(("http://", "https://")):
        raise click.UsageError(f"--otlp-endpoint {otlp_endpoint}: expected a URL such as http://localhost:4318")
    with plain_errors(), trace_files(traces) as files:
        criterion = None if criterion_file is None else load_criterion(criterion_file)
        goldens = load_goldens(*golden_files, criterion=criterion)
        scorer = _scorer(preset_name, preset_options, metrics, criterion_file)
        baseline = None if baseline_file is None else load_baseline(Path(baseline_file))
        registry = DialectRegistry(
            join_attributes=(*JOIN_ATTRIBUTES, *goldens.join_attributes),
            definitions=True,
            on_problem=files.problems.append,
        )
        stamps = ScoreAttributes()
        outlets: list[Outlet] = []
        complaints: list[str] = []
        for report in reports:
            _refuse_input_as_output("--report", report.path, files)
        if enriched is not None:
            _refuse_input_as_output("--enriched", Path(enriched), files)
            outlets.append(stamps.take)
        sending = _sending(otlp_endpoint, outlets, complaints, metrics=send_metrics)
        with sending, scoring_in(sinks, outlets, complaints), reading(files, registry.markers) as views:
            found = replay(views, goldens, registry, problems=files.problems, outlets=outlets, scorer=scorer)
        covered = Coverage(coverage)
        rule = judge if baseline is None else partial(judge_against, baseline)
        judgement = rule(found.result, recognised=found.recognised, coverage=covered, fail_under=fail_under)
        advice = argument_advice(registry)
        if as_format == "json":
            write_json(found.result.to_json())
            complain(f"regressed: {regression}" for regression in judgement.regressions or ())
        else:
            show(color, lambda page: score_page(page, found.result, judgement, advice, verbose=verbose))
        unwritten = list(write_reports(reports, Scored(found.result, judgement, covered, advice)))
        if enriched is not None:
            _write_enriched(enriched, files, stamps)
        end([*files.mistakes, *complaints, *unwritten], judgement.exit_code)


def _refuse_contradictions(
    preset: str | None, options: tuple[tuple[str, Any], ...], criterion_file: str | None
) -> None:
    if preset is not None and criterion_file is not None:
        raise click.UsageError("--preset scores by the rules of another system, --criterion by goldspan's: use one")
    if options and preset is None:
        raise click.UsageError("--option needs --preset NAME, whose option it is")


def _scorer(
    preset: str | None, options: tuple[tuple[str, Any], ...], metrics: tuple[str, ...], criterion_file: str | None
) -> Scorer:
    if any(":" in metric for metric in metrics) and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where a metric of one's own lies
    choices = () if criterion_file is None else load_metrics(criterion_file)
    chosen: list[MetricSource] = [ChosenMetric(find_metric(choice.name), choice.threshold) for choice in choices]
    return scorer_of(
        preset=None if preset is None else choose_preset(preset, dict(options)),
        metrics=[*chosen, *metrics],
        run=MetricWorkers(),
    )


def _refuse_input_as_output(option: str, output: Path, files: TraceFiles) -> None:
    if output.resolve() in {path.resolve() for path in files.paths}:
        raise click.UsageError(f"{option} {output} is one of the traces that are read; name another file")


def _write_enriched(name: str, files: TraceFiles, stamps: ScoreAttributes) -> None:
    try:
        write_enriched(Path(name), files.documents(), stamps)
    except OSError as error:
        raise FileError(Mistake(name, "", f"cannot be written: {error.strerror or error}")) from None


@contextlib.contextmanager
def _sending(endpoint: str | None, outlets: list[Outlet], complaints: list[str], *, metrics: bool) -> Generator[None]:
    """Send evaluations to an endpoint, where one was named; what it did not take is a complaint."""
    if endpoint is None:
        yield
        return
    # Imported when asked for: the exporters take longer to import than most traces take to score.
    from goldspan.collector_processor.replay.otlp_results import OtlpResults  # noqa: PLC0415

    results = OtlpResults(endpoint, metrics=metrics)
    outlets.append(results.take)
    try:
        yield
    finally:
        results.close()
    lost = [f"{results.lost} of {results.sent + results.lost} events"] if results.lost else []
    lost += ["the metrics"] if results.points_lost else []
    if lost:
        complaints.append(f"{endpoint} did not take {' and '.join(lost)}; expected an OTLP/HTTP receiver there")
