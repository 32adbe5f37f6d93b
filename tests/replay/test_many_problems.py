"""A replay of what is mostly no telemetry: memory and the list of problems do not grow with it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from goldspan.mappers.readers.problems import MAX_LISTED, ProblemList, number_of_problems
from goldspan.scoring.errors import Problem
from rigs.trace_requests import turn_request

MAIN = "from goldspan.collector_processor.cli import main; main({!r}, standalone_mode=False)"
PEAK = "\nimport resource, sys; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"


def log_of(lines: int, path: Path) -> Path:
    """One request, then lines of an application's log: text, and JSON that is no span."""
    with path.open("w") as file:
        file.write(json.dumps(turn_request("s", ("f", {"x": 1}))) + "\n")
        for line in range(lines):
            file.write(
                f"INFO request {line} is done\n" if line % 2 else json.dumps({"level": "info", "at": line}) + "\n"
            )
    return path


def scored(path: Path, *more: str) -> tuple[str, int]:
    """What is printed, and the peak of memory in KiB."""
    arguments = ["score", str(path), "--format", "json", *more]
    code = f"try:\n    {MAIN.format(arguments)}\nexcept SystemExit:\n    pass{PEAK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, int(done.stderr.split()[-1])


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="this system tells no peak of memory")
def test_ten_times_the_log_takes_no_more_memory(tmp_path: Path) -> None:
    (small, before), (large, after) = (scored(log_of(lines, tmp_path / f"{lines}.jsonl")) for lines in (6000, 60_000))
    assert after < 1.1 * before
    problems = json.loads(large)["problems"]
    assert [one["message"] for one in problems if number_of_problems(one["message"]) > 1] == [
        "29,000 more of these are not listed"
    ] * 2
    assert len(problems) == len(json.loads(small)["problems"]) == 2 * (MAX_LISTED + 1)


def test_several_processes_list_the_same(tmp_path: Path) -> None:
    path = log_of(6000, tmp_path / "app.jsonl")
    one, two = (scored(path, *jobs)[0] for jobs in ((), ("--jobs", "2")))
    assert one == two


def test_lists_of_parts_are_the_list_of_the_whole() -> None:
    found = [Problem(("bad_json", "bad_span")[number % 7 == 0], f"number {number}") for number in range(9000)]
    whole, joined = ProblemList(), ProblemList()
    for problem in found:
        whole.append(problem)
    for start in range(0, len(found), 1300):
        part = ProblemList()
        for problem in found[start : start + 1300]:
            part.append(problem)
        copied = part.copy()
        for problem in copied.listed():
            joined.append(problem)
        joined.count_more(copied)
    assert whole == joined
    assert sum(number_of_problems(str(one)) for one in joined) == len(found)
