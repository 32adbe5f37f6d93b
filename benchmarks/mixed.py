"""Replay of mixed traffic: what it costs beside parsing the same lines, and how much memory it takes as input grows.

`python -m benchmarks.mixed 1000000` says how many spans the largest input has.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import ROUNDS, Comparison, Subject, pin, print_tables
from benchmarks.mixed_traffic import mixed_golden_set, mixed_json_lines, sessions_for
from benchmarks.replay import beside_loads, loads, parse
from goldspan.collector_processor.replay.replay import Replay, replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_marked
from goldspan.scoring import GoldenIndex, load_goldens

SMALL = 20_000
LARGE = 1_000_000


def score(traces: Path, goldens: GoldenIndex) -> Replay:
    """Do what `goldspan score` does but for printing."""
    registry = DialectRegistry()
    views = read_marked([traces], registry.markers, lambda problem: None)
    return replay(views, goldens, registry, problems=[])


def orjson_loads(traces: Path) -> None:
    """Parse every line by orjson, where it is installed."""
    parse_line: Callable[[bytes], object] = importlib.import_module("orjson").loads
    with traces.open("rb") as lines:
        for line in lines:
            parse_line(line)


def written(folder: Path, spans: int) -> tuple[Path, Path]:
    """Write about so many spans, and goldens for a tenth of their sessions."""
    sessions = sessions_for(spans)
    path, goldens = folder / f"{spans}.jsonl", folder / f"{spans}.goldens.json"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in mixed_json_lines(sessions))
    goldens.write_text(json.dumps(mixed_golden_set(sessions)), "utf-8")
    return path, goldens


def run() -> Iterator[Comparison]:
    """Measure on one file that fits into the page cache, then say how time and memory grow with the input."""
    pin()
    with tempfile.TemporaryDirectory() as folder:
        traces, golden_file = written(Path(folder), SMALL)
        goldens = load_goldens(golden_file)
        spans = score(traces, goldens).spans
        candidates = [
            Subject("goldspan: score", lambda: score(traces, goldens)),
            Subject("json_format.Parse of each line", lambda: parse(traces)),
        ]
        if importlib.util.find_spec("orjson") is not None:
            candidates.insert(1, Subject("orjson.loads of each line", lambda: orjson_loads(traces)))
        size = traces.stat().st_size / spans
        yield beside_loads(
            f"replay of mixed traffic, {size:,.0f} bytes a span, goldens for a tenth of it",
            traces,
            spans,
            candidates,
            rounds=max(5, ROUNDS // 3),
        )
    print_growth()


class Taken(NamedTuple):
    """What one process took to read a file."""

    spans: int
    seconds: float
    cpu: float
    peak: int
    """Bytes of memory."""


def print_growth(largest: int = LARGE) -> None:
    """Replay inputs of growing size, each in a process of its own, beside `json.loads` of their lines."""
    print("\nreplay of mixed traffic in a process of its own, beside json.loads of each line in one of its own")
    print(f"  {'spans':>11}{'spans/s':>13}{'json.loads':>13}{'ratio':>8}{'of CPU':>8}{'peak memory':>14}")
    with tempfile.TemporaryDirectory() as folder:
        for spans in (largest // 10, largest):
            path, goldens = written(Path(folder), spans)
            parsed, scored = _in_a_process("loads", path, goldens), _in_a_process("score", path, goldens)
            rate, reference = scored.spans / scored.seconds, scored.spans / parsed.seconds
            print(
                f"  {scored.spans:>11,}{rate:>13,.0f}{reference:>13,.0f}{rate / reference:>8.2f}"
                f"{parsed.cpu / scored.cpu:>8.2f}{scored.peak / (1 << 20):>10,.0f} MiB",
                flush=True,
            )
            path.unlink()


def _in_a_process(what: str, path: Path, goldens: Path) -> Taken:
    command = [sys.executable, "-m", "benchmarks.mixed", what, str(path), str(goldens)]
    spans, seconds, cpu, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Taken(spans, seconds, cpu, peak)


def _take(what: str, path: Path, golden_file: Path) -> Taken:
    gc.set_threshold(1_000_000, 20, 100)  # as the command line does
    began, cpu = time.perf_counter(), time.process_time()
    spans = 0
    if what == "loads":
        loads(path)
    else:
        spans = score(path, load_goldens(golden_file)).spans
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Taken(spans, time.perf_counter() - began, time.process_time() - cpu, peak)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [("loads" | "score") as what, path, goldens]:
            print(json.dumps(_take(what, Path(path), Path(goldens))))
        case [spans]:
            print_growth(int(spans))
        case _:
            print_tables(run())
