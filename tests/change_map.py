"""Which tests see a change: the map from sources to test files, and a run of the tests of what git says has changed.

`make test-map` runs the quick tests, notes which lines of each module a test file executes and which data files it
opens, and writes `tests_of_sources.toml`: for each source the test files that tell most about it, best first.
`make test-change` reads that map and runs, within a budget, the tests of each source that differs from `main`.

    [seconds]
    "tests/scoring/test_alignment.py" = 2.1

    [tests]
    "scoring/goldspan/scoring/align/alignment.py" = ["tests/scoring/test_alignment.py", "tests/scoring/test_laws.py"]
    "tests/fixtures/recordings" = ["tests/conformance/test_recordings.py"]     # data counts by its folder

A test file tells much about a module if it executes many lines of it that no better file does, little else, and is
quick: `ranked` is that rule. The map is a choice and no proof: `make test` remains the test of a change.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAP = ROOT / "tests/tests_of_sources.toml"
ROOMS = ("scoring", "mappers", "collector_processor")
NOTES = "CHANGE_MAP_NOTES"
"""The variable with the folder into which each process of a run writes what it saw."""
MOST = 6
"""Test files that the map keeps of a source."""
START = 0.3
"""Seconds that a test file costs before its first test."""
BUDGET = 24.0
"""Seconds of tests that a run takes by default; two processes share them."""
PYTEST = (sys.executable, "-m", "pytest", "-q")


# What a run of the tests sees.


class Seen:
    """What the tests of one process executed and opened, by test file; a plugin of pytest."""

    def __init__(self, folder: Path) -> None:
        from coverage import Coverage  # noqa: PLC0415 - only the environment that writes the map has it

        self._folder = folder
        self._file = ""
        self._seconds = defaultdict[str, float](float)
        self._opened = defaultdict[str, set[str]](set)
        self._coverage = Coverage(data_file=None, config_file=False, source=[str(ROOT / room) for room in ROOMS])
        self._coverage.start()
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self._file and isinstance(path := arguments[0], str) and path.startswith(f"{ROOT}/"):
            self._opened[self._file].add(os.path.normpath(path).removeprefix(f"{ROOT}/"))

    def _at(self, path: Path | None) -> None:
        self._file = path.relative_to(ROOT).as_posix() if path is not None else ""
        self._coverage.switch_context(self._file)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        self._at(collector.path if isinstance(collector, pytest.Module) else None)
        try:
            return (yield)
        finally:
            self._at(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._at(item.path)
        try:
            return (yield)
        finally:
            self._at(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = defaultdict[str, dict[str, list[int]]](dict)
        for source in filter(os.path.isfile, data.measured_files()):
            inside = lines_in_functions(Path(source).read_text("utf-8"))
            for line, files in data.contexts_by_lineno(source).items():
                for file in filter(None, files if line in inside else ()):  # threads run on between two tests
                    lines[file].setdefault(Path(source).relative_to(ROOT).as_posix(), []).append(line)
        note = {"seconds": self._seconds, "lines": lines, "opened": {k: sorted(v) for k, v in self._opened.items()}}
        (self._folder / f"{os.getpid()}.json").write_text(json.dumps(note), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Take notes in a process that runs tests: a worker of pytest-xdist, or the only one."""
    if (folder := os.environ.get(NOTES)) and (hasattr(config, "workerinput") or not config.getoption("numprocesses")):
        config.pluginmanager.register(Seen(Path(folder)))


def lines_in_functions(source: str) -> set[int]:
    """Return the lines of the bodies of functions: what an import executes says nothing about a test."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    bodies = (node.body for node in functions)
    return {line for body in bodies for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1)}


# The map.


class TestMap(NamedTuple):
    """The committed map."""

    __test__ = False  # pytest would take it for tests

    seconds: Mapping[str, float]
    """How long a test file takes, by its path."""
    tests: Mapping[str, Sequence[str]]
    """Test files by source, best first."""

    @classmethod
    def read(cls) -> TestMap:
        """Read the file; an empty map if there is none."""
        read = tomllib.loads(MAP.read_text("utf-8")) if MAP.exists() else {}
        return cls(read.get("seconds", {}), read.get("tests", {}))

    def text(self) -> str:
        """Return the content of the file."""
        seconds = [f'"{file}" = {seconds:.1f}' for file, seconds in sorted(self.seconds.items())]
        tests = [
            f'"{source}" = [' + "".join(f'\n  "{file}",' for file in files) + "\n]"
            for source, files in sorted(self.tests.items())
        ]
        head = "# Made by `make test-map`: see tests/change_map.py."
        return "\n".join([head, "\n[seconds]", *seconds, "\n[tests]", *tests, ""])


def source_of(path: str) -> str | None:
    """Return the key of a file in the map: modules and files of the root by themselves, data by its folder, or None."""
    folder, _, name = path.rpartition("/")
    if path.startswith(ROOMS) or not folder:
        return path if not name.endswith(".pyc") else None
    is_data = folder.startswith(("tests", "config", "docs", "examples")) and not name.endswith((".py", ".pyc"))
    return folder if is_data and exists(path) and path != MAP.relative_to(ROOT).as_posix() else None


def ranked(lines: Mapping[str, set[int]], seconds: Mapping[str, float], everywhere: Mapping[str, int]) -> list[str]:
    """Return the test files that tell most about one source, best first.

    Args:
        lines: What each test file executes of it.
        seconds: How long each takes.
        everywhere: How many lines each executes of all sources.
    """
    left = dict(lines)
    seen = set[int]()
    chosen: list[str] = []

    def worth(file: str) -> tuple[float, str]:
        new = len(left[file] - seen) + len(left[file]) / 100
        return new * len(left[file]) / everywhere[file] / (seconds.get(file, 0.0) + START), file

    while left and len(chosen) < MOST:
        best = max(left, key=worth)
        chosen.append(best)
        seen |= left.pop(best)
    return chosen


def map_of(notes: Iterable[Mapping[str, Any]]) -> TestMap:
    """Return the map that the notes of one run give."""
    seconds = defaultdict[str, float](float)
    lines = defaultdict[str, dict[str, set[int]]](lambda: defaultdict(set))
    everywhere = defaultdict[str, int](lambda: 1)
    for note in notes:
        for file, took in note["seconds"].items():
            seconds[file] += took
        for file, by_source in note["lines"].items():
            for source, executed in by_source.items():
                lines[source][file].update(executed)
        for file, paths in note["opened"].items():
            for number, source in enumerate(sorted({one for path in paths if (one := source_of(path))})):
                lines[source][file].add(number)  # a folder that is read counts as one line
    for by_file in lines.values():
        for file, executed in by_file.items():
            everywhere[file] += len(executed)
    tests = {source: ranked(by_file, seconds, everywhere) for source, by_file in lines.items() if exists(source)}
    return TestMap(seconds, tests)


def exists(path: str) -> bool:
    """Whether the repository still has a file or folder."""
    return (ROOT / path).exists()


def modules() -> list[str]:
    """Return the path of each module, in the repository."""
    return sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@cache
def texts_of_tests() -> Mapping[str, str]:
    """Return the source of each test file by its path."""
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}


@cache
def texts_of_modules() -> Mapping[str, str]:
    """Return the source of each module by its path."""
    return {path: (ROOT / path).read_text("utf-8") for path in modules()}


def tests_naming(path: str, seconds: Mapping[str, float]) -> list[str]:
    """Return the test files that import a module, or what imports it: the quickest first."""
    if not path.endswith(".py"):
        return []
    inside = path.partition("/")[2] if path.startswith((*ROOMS, "tests/")) else path
    name = inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, last = name.rpartition(".")
    # Each pattern begins with a text, which costs little to search for.
    naming = re.compile(rf"{re.escape(name)}\b"), re.compile(rf"from {re.escape(parent)} import .*\b{last}\b")
    found = [file for file, text in texts_of_tests().items() if any(one.search(text) for one in naming)]
    return sorted(found, key=lambda file: (seconds.get(file, 0.0), file))


def updated(old: TestMap, new: TestMap) -> TestMap:
    """Return the map after a run of some test files: what was just seen comes first, what is gone goes.

    A module of which tests execute no function, as a table, has the test files that import it, or those of the modules
    that do, or of its package.
    """
    seconds = {file: took for file, took in {**old.seconds, **new.seconds}.items() if exists(file)}
    tests: dict[str, list[str]] = {}
    for source in filter(exists, {*old.tests, *new.tests}):
        kept = [file for file in old.tests.get(source, ()) if file not in new.seconds]
        tests[source] = list(filter(exists, [*new.tests.get(source, ()), *kept]))[:MOST]
    executed = {source: files for source, files in tests.items() if files}
    for module in modules():
        if module not in executed:
            package = f"{module.rpartition('/')[0]}/__init__.py"
            named = (
                tests_naming(module, seconds) or tests_of_importers(module, executed) or tests_naming(package, seconds)
            )
            executed[module] = named[:MOST]
    return TestMap(seconds, executed)


def tests_of_importers(module: str, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the best test file of each module that imports one."""
    name = module.partition("/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    importing = [one for one, text in texts_of_modules().items() if f"from {name} import" in text]
    return list(dict.fromkeys(known[one][0] for one in importing if known.get(one)))


def write_map(arguments: Sequence[str]) -> int:
    """Run the tests that pytest's arguments name, all by default, and put what they show into the map."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, NOTES: folder, "PYTHONPATH": str(ROOT / "tests")}
        command = [*PYTEST, "-p", "change_map", "-n", "2", "--dist", "loadfile", *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        notes = [json.loads(path.read_text("utf-8")) for path in Path(folder).iterdir()]
    MAP.write_text(updated(TestMap.read(), map_of(notes)).text(), "utf-8")
    return code


# A run of the tests of a change.


def changed_files(since: str) -> list[str]:
    """Return the files that differ from a commit, and those that git does not know yet."""

    def lines_of(*command: str) -> list[str]:
        return subprocess.run(
            ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    base = lines_of("merge-base", since, "HEAD")[0]
    return [*lines_of("diff", "--name-only", base), *lines_of("ls-files", "--others", "--exclude-standard")]


def is_test_file(path: str) -> bool:
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_") and path.endswith(".py")


def chosen_tests(changed: Sequence[str], known: TestMap, budget: float) -> tuple[list[str], list[str]]:
    """Return the test files to run, and the changed sources of which the map knows nothing.

    Changed tests come first, then the best file of each source, then the second best, as long as the budget lasts.
    """
    files = [path for path in changed if is_test_file(path) and exists(path)]
    sources = dict.fromkeys(path if path.endswith(".py") else source_of(path) for path in changed if path not in files)
    tests = {source: known.tests.get(source) or tests_naming(source, known.seconds) for source in sources if source}
    spent = sum(known.seconds.get(file, 0.0) + START for file in files)
    for rank in range(MOST):
        for source in tests:
            for file in tests[source][rank : rank + 1]:
                cost = known.seconds.get(file, 0.0) + START
                if file not in files and exists(file) and (spent + cost <= budget or not files):
                    files.append(file)
                    spent += cost
    return files, [source for source, of_it in tests.items() if not of_it and exists(source)]


def run_change(since: str, budget: float, arguments: Sequence[str]) -> int:
    """Run the tests of what differs from a commit, and say what they are."""
    changed = changed_files(since)
    files, unknown = chosen_tests(changed, TestMap.read(), budget)
    for source in unknown:
        print(f"no test file is known for {source}: make test-map", file=sys.stderr)
    if not files:
        print(f"nothing that a test reads differs from {since}")
        return 0
    print("\n".join(files), flush=True)
    recordings = [f"--recording={name.partition('.')[0]}" for name in changed_recordings(changed)]
    return subprocess.run([*PYTEST, "-n", "2", *recordings, *arguments, *files], cwd=ROOT, check=False).returncode


def changed_recordings(changed: Iterable[str]) -> list[str]:
    """Return the files of recordings among what changed."""
    return sorted(
        name for path in changed for folder, _, name in [path.rpartition("/")] if folder.startswith("tests/fixtures/")
    )


def main() -> int:
    """Do what the command line says: `map` or `run`; further arguments go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["map", "run"])
    parser.add_argument("--since", default="main", help="run: the commit to compare with")
    parser.add_argument("--budget", type=float, default=BUDGET, help="run: seconds of tests, on all processes together")
    chosen, arguments = parser.parse_known_args()
    return write_map(arguments) if chosen.what == "map" else run_change(chosen.since, chosen.budget, arguments)


if __name__ == "__main__":
    sys.exit(main())
