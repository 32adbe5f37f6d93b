"""What `goldspan score --jobs 2` costs beside one process: CPU of all processes together, and time on the clock.

`python -m benchmarks.jobs 1000000` says how many spans of mixed traffic are scored.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import Comparison, Subject, compare, print_tables
from benchmarks.mixed import written

SPANS = 200_000
ROUNDS = 5


def children_cpu() -> int:
    """Return the nanoseconds of CPU, user and system, of all processes that this one waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def run(spans: int = SPANS) -> Iterator[Comparison]:
    """Measure the command as whole processes, on all cores there are."""
    with tempfile.TemporaryDirectory() as folder:
        traces, goldens = written(Path(folder), spans)
        one, two = (Subject(f"--jobs {jobs}", partial(score, traces, goldens, jobs)) for jobs in (1, 2))
        assert one.slice() == two.slice(), "two processes give other results than one"
        for what, clock in (("CPU of all processes", children_cpu), ("time on the clock", time.perf_counter_ns)):
            yield compare(
                f"score of {spans:,} spans of mixed traffic, {what}",
                item="span",
                items=spans,
                reference=one,
                control=one,
                candidates=[two],
                clock=clock,
                rounds=ROUNDS,
            )


def score(traces: Path, goldens: Path, jobs: int) -> bytes:
    """Return the document that the command writes."""
    command = [sys.executable, "-m", "goldspan.collector_processor.cli", "score", str(traces)]
    command += ["--goldens", str(goldens), "--format", "json", "--jobs", str(jobs)]
    return subprocess.run(command, check=False, capture_output=True).stdout


if __name__ == "__main__":
    print_tables(run(*map(int, sys.argv[1:])))
