"""`goldspan compare`: two runs of an agent, or two values of an attribute in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.cli import input_output
from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.replay.comparison_of_runs import Comparison, Side
from goldspan.collector_processor.replay.comparison_of_runs import compare as compare_sides
from goldspan.collector_processor.replay.replay import replay
from goldspan.collector_processor.replay.scored_runs import NamedRun, ScoredSession, is_scored_run, load_run
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of

_BY = {
    "model": ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "ai.model.id", "llm.request.model"),
    "version": ("service.version", "gen_ai.agent.version"),
}
"""The attributes behind the words that `--by` knows: the first that a session has."""
_TABLES = ("tool", "argument")
_REPORTS = ("markdown", "html")


def _report_file(written: str) -> tuple[str, Path]:
    kind, _, name = written.partition("=")
    if kind not in _REPORTS or not name:
        raise click.BadParameter(f"{written!r}: expected KIND=FILE, as in html=comparison.html, with {_REPORTS}")
    return kind, Path(name)


@click.command()
@input_output.TRACES
@input_output.options("compare")
@input_output.FORMAT
@input_output.options("compare reports", reports=_report_file)
@input_output.VERBOSE
@input_output.COLOR
def compare(
    traces: input_output.NamedTraces,
    *,
    golden_files: tuple[str, ...],
    metrics: tuple[str, ...],
    by: str | None,
    as_format: str,
    reports: tuple[tuple[str, Path], ...],
    verbose: bool,
    color: str,
) -> None:
    """Say what became better or worse from the first source to the second, and how sure that is.

    A source is what `goldspan score` takes, or what it wrote with --format json or --output. Sessions are paired by id,
    else by golden. Of two profiles (.yaml) it says in what the agent has changed beyond chance.

    Exit codes: 0 whatever differs (`goldspan score --baseline` fails a build); 2 wrong usage.
    """
    if traces.names and all(Path(name).suffix in (".yaml", ".yml") for name in traces.names):
        _show_drift(traces.names, as_format)
        return
    keys = _keys_of(by, traces.names)
    input_output.refuse_overwriting((("--report", path) for _, path in reports), (*traces.names, *golden_files))
    complaints: list[object] = []
    with input_output.file_errors():
        runs = [
            _scored(replace(traces, names=(name,)), golden_files, metrics, keys, complaints) for name in traces.names
        ]
        found = [_only(one, by) for one in _compared(runs, keys)]
        if as_format == "json":
            input_output.write_json(found[0].to_json() if len(runs) == 2 else [one.to_json() for one in found])
        _show(found, reports, color if as_format == "table" else None, verbose=verbose)
        input_output.end(complaints, 0)


def _keys_of(by: str | None, sources: Sequence[str]) -> tuple[str, ...]:
    """Return the attributes that split one source; none for two."""
    keys = () if by is None or by in _TABLES else _BY.get(by, (by,))
    if len(sources) > 2 or (len(sources) == 1 and not keys):
        raise click.UsageError("expected two sources, or one with --by model, --by version or --by ATTRIBUTE")
    return keys


def _show_drift(names: Sequence[str], as_format: str) -> None:
    """Say in what two profiles differ beyond chance."""
    # Imported when asked for: most comparisons are of scores.
    from goldspan.scoring.metrics.profile_file import drift, load_profile  # noqa: PLC0415

    if len(names) != len(("before", "after")):
        raise click.UsageError("expected two profiles")
    with input_output.file_errors():
        found = drift(*map(load_profile, names))
    if as_format == "json":
        input_output.write_json([one._asdict() for one in found])
    else:
        click.echo("\n".join(map(str, found)) or "nothing has changed beyond chance")


def _compared(runs: list[NamedRun], keys: tuple[str, ...]) -> list[Comparison]:
    """Compare two runs, or each other value of an attribute in one run with the first."""
    group_of = partial(_value, keys) if keys else None
    if group_of is not None and not any(group_of(one) for run in runs for one in run.run.sessions):
        raise click.BadParameter(_none_has(keys), param_hint="--by")
    if len(runs) == 2:
        before, after = (Side(run.name, run.run.sessions) for run in runs)
        return [compare_sides(before, after, group_of=group_of)]
    sides = list(_sides(runs[0], keys))
    if len(sides) < 2:
        raise click.BadParameter(f"all sessions have {sides[0].name}: nothing to compare", param_hint="--by")
    return [compare_sides(sides[0], side) for side in sides[1:]]


def _show(found: list[Comparison], reports: tuple[tuple[str, Path], ...], color: str | None, *, verbose: bool) -> None:
    # Imported where something is shown, as rich is.
    from goldspan.collector_processor.report.comparison_report import RENDERERS, comparison_page  # noqa: PLC0415

    for one in found if color is not None else ():
        input_output.show(color or "auto", partial(comparison_page, comparison=one, verbose=verbose))
    for kind, path in reports:
        write_text(str(path), "\n".join(map(RENDERERS[kind], found)))


def _scored(
    traces: input_output.NamedTraces,
    golden_files: tuple[str, ...],
    metrics: tuple[str, ...],
    keys: tuple[str, ...],
    complaints: list[object],
) -> NamedRun:
    """Read a scored run, or score traces: by the goldens, else by the metrics that need none."""
    [name] = traces.names
    if is_scored_run(Path(name)):
        return load_run(Path(name))
    goldens = load_goldens(*golden_files)
    names = metrics if golden_files else (*(metric.name for metric in WITHOUT_GOLDEN), *metrics)
    scorer = scorer_of(metrics=names, run=MetricWorkers())
    goldens = scorer.sampled(goldens, 1.0)
    with input_output.open_traces(traces) as files:
        joins = (*JOIN_ATTRIBUTES, *goldens.join_attributes, *keys)
        registry = DialectRegistry(join_attributes=joins, definitions=True, on_problem=files.problems.append)
        with input_output.read_with_progress(files, registry.markers) as views:
            result = replay(views, goldens, registry, problems=files.problems, scorer=scorer).result
        complaints += files.mistakes
    if not result.sessions:
        input_output.complain([f"{name}: no turn of an agent was found: see `goldspan inspect`"])
    return NamedRun.of(name, result.to_json())


def _value(keys: tuple[str, ...], session: ScoredSession) -> str | None:
    found = (session.attributes[key] for key in keys if session.attributes.get(key) is not None)
    value = next(found, None)
    return None if value is None else str(value)


def _sides(run: NamedRun, keys: tuple[str, ...]) -> Iterator[Side]:
    """Yield the sessions of each value, in the order in which values come first."""
    values = dict.fromkeys(value for one in run.run.sessions if (value := _value(keys, one)) is not None)
    for value in values:
        yield Side(value, [one for one in run.run.sessions if _value(keys, one) == value])


def _only(comparison: Comparison, by: str | None) -> Comparison:
    if by not in _TABLES:
        return comparison
    return replace(comparison, arguments=()) if by == "tool" else replace(comparison, tools=())


def _none_has(keys: tuple[str, ...]) -> str:
    return (
        f"no session has {' or '.join(keys)}; a scored run has the attributes that `goldspan score --attribute NAME` "
        "was given"
    )
