"""What replay pays a span, beside reading the same lines and doing nothing with them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.harness import PROCESS_CPU, ROUNDS, Comparison, Subject, compare, pin, print_tables
from benchmarks.traffic import golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.replay.replay import Replay, replay
from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.scoring import GoldenIndex, Label, load_goldens

SESSIONS = 24


def score(traces: Path, goldens: GoldenIndex) -> Replay:
    """Do what `goldspan score` does but for printing."""
    return replay(read_files([traces], lambda problem: None), goldens, DialectRegistry(), problems=[])


def loads(traces: Path) -> None:
    """Parse every line."""
    with traces.open("rb") as lines:
        for line in lines:
            json.loads(line)


def parse(traces: Path) -> None:
    """Parse every line into OTLP messages (whose ids would still have to be mended: OTLP/JSON writes them in hex)."""
    with traces.open("rb") as lines:
        for line in lines:
            json_format.Parse(line, ExportTraceServiceRequest())


def beside_loads(title: str, traces: Path, spans: int, candidates: Sequence[Subject], rounds: int) -> Comparison:
    """Compare what is done with a file of JSON lines to parsing every line."""
    reference = Subject("json.loads of each line", lambda: loads(traces))
    return compare(
        title,
        item="span",
        items=spans,
        reference=reference,
        control=reference,
        candidates=candidates,
        clock=PROCESS_CPU,
        rounds=rounds,
    )


def run() -> Iterator[Comparison]:
    """Measure on one file that fits into the page cache."""
    pin()
    with tempfile.TemporaryDirectory() as folder:
        sessions = plan_sessions([f"s-{number}" for number in range(SESSIONS)])
        spans = sum(map(len, sessions))
        traces = Path(folder, "traces.jsonl")
        traces.write_text("".join(f"{line}\n" for line in otlp_json_lines(sessions)), "utf-8")
        goldens = load_goldens(golden_set(sessions[::2]))

        found = score(traces, goldens)
        judged = [one for one in found.result.sessions if one.verdict.label is not Label.NOT_EVALUATED]
        assert (found.spans, len(judged)) == (spans, len(sessions[::2])), "the benchmark does not score what it should"

        size = traces.stat().st_size / spans
        yield beside_loads(
            f"replay of OTLP/JSON lines, {size:,.0f} bytes a span, half of the sessions with goldens, process CPU",
            traces,
            spans,
            [
                Subject("goldspan: read_sessions", lambda: read_sessions(traces)),
                Subject("goldspan: score", lambda: score(traces, goldens)),
                Subject("json_format.Parse of each line", lambda: parse(traces)),
            ],
            rounds=max(5, ROUNDS // 2),
        )


if __name__ == "__main__":
    print_tables(run())
