"""Score recorded traces of three frameworks, then a live agent, and show what a dashboard would receive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.sdk.metrics.export import HistogramDataPoint
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

import live_agent

HERE = Path(__file__).parent
OURS = "tool_parameter_match"


def main() -> None:
    """Run both halves. The recorded half fails on purpose: its goldens differ from what the agents did."""
    console = Console(width=120 if not sys.stdout.isatty() else None)
    console.rule("[bold]1. Recorded traces of Google ADK, Strands and LangChain[/]")
    traces = sorted((HERE / "traces").iterdir())
    command = ["score", *map(str, (trace.relative_to(Path.cwd()) for trace in traces))]
    command += ["--goldens", str((HERE / "goldens.yaml").relative_to(Path.cwd()))]
    console.print("[dim]$ goldspan " + " ".join(command) + "[/]\n", soft_wrap=True)
    sys.stdout.flush()
    ended = subprocess.run([sys.executable, "-m", "goldspan.collector_processor.cli", *command], check=False)
    if ended.returncode != 1:
        raise SystemExit(f"expected exit code 1 (some goldens differ on purpose), got {ended.returncode}")
    console.print(f"\n[dim]exit code {ended.returncode}: the goldens differ from these recordings on purpose[/]\n")

    console.rule("[bold]2. A live Pydantic AI agent, scored in its own process[/]")
    telemetry = live_agent.run()
    console.print(spans_table(telemetry))
    console.print(events_table(telemetry))
    console.print(metrics_table(telemetry))


def spans_table(telemetry: live_agent.Telemetry) -> Table:
    """Show the attributes that the exported spans carry now."""
    table = Table(title="Span attributes, as exported", title_justify="left", show_lines=True)
    table.add_column("span")
    table.add_column("attributes of goldspan")
    for span in telemetry.spans.get_finished_spans():
        mine = {key: value for key, value in (span.attributes or {}).items() if key.startswith(OURS)}
        if mine:
            table.add_row(span.name, "\n".join(f"{key} = {value!r}" for key, value in mine.items()))
    return table


def events_table(telemetry: live_agent.Telemetry) -> Table:
    """Show the events, each in the context of the span it judges."""
    table = Table(title="gen_ai.evaluation.result events", title_justify="left")
    for column in ("span id", "level", "tool", "score", "label", "explanation"):
        table.add_column(column, overflow="fold")
    for log in telemetry.events.get_finished_logs():
        attributes = log.log_record.attributes or {}
        table.add_row(
            f"{log.log_record.span_id or 0:016x}",
            str(attributes.get(f"{OURS}.level", "")),
            str(attributes.get("gen_ai.tool.name", "")),
            str(attributes.get("gen_ai.evaluation.score.value", "")),
            str(attributes.get("gen_ai.evaluation.score.label", "")),
            str(attributes.get("gen_ai.evaluation.explanation", "")),
        )
    return table


def metrics_table(telemetry: live_agent.Telemetry) -> Table:
    """Show the points a dashboard draws from."""
    table = Table(title="Metric points", title_justify="left")
    for column in ("metric", "attributes", "value"):
        table.add_column(column, overflow="fold")
    for name, attributes, value in _points(telemetry):
        table.add_row(name, attributes, value)
    return table


def _points(telemetry: live_agent.Telemetry) -> Iterator[tuple[str, str, str]]:
    data = telemetry.metrics.get_metrics_data()
    for resource_metrics in data.resource_metrics if data else ():
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                for point in metric.data.data_points:
                    attributes = ", ".join(f"{key}={value}" for key, value in (point.attributes or {}).items())
                    if isinstance(point, HistogramDataPoint):
                        yield metric.name, attributes, f"count {point.count}, sum {point.sum:g}"
                    else:
                        yield metric.name, attributes, f"{point.value}"


if __name__ == "__main__":
    main()
