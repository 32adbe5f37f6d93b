"""What one run of pytest collects: results, golden files to write, goldens that were used; and how it says so.

With pytest-xdist each worker has one, and the controller one of all workers.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from goldspan.collector_processor.pytest_plugin.recorded_spans import Recorder
from goldspan.collector_processor.pytest_plugin.snapshots import Seen, updated
from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.model import Report, build_report
from goldspan.collector_processor.report.report_files import write_report
from goldspan.collector_processor.report.terminal import scoreboard
from goldspan.collector_processor.whole_files import write_text
from goldspan.scoring.errors import FileError, GoldspanError
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import RepeatResult, ScoringResult
from goldspan.scoring.wording import WRONG, Page, printable


class _Place(NamedTuple):
    """A test, in the order of files and lines, whatever the order of running."""

    file: str
    line: int
    test: str


def _place(node: pytest.Item) -> _Place:
    return _Place(node.location[0], node.location[1] or 0, node_id(node))


def _names(test: pytest.Item) -> list[str]:
    return [one.name for one in test.listchain() if isinstance(one, pytest.Class | pytest.Item)]


def node_id(test: pytest.Item) -> str:
    """Return the id of a test, without the group that pytest-xdist may put behind it."""
    return "::".join([test.nodeid.partition("::")[0], *_names(test)])


def golden_name(test: pytest.Item) -> str:
    """Return the name of a test's golden: `TestTrips.test_book[paris]`."""
    return ".".join(_names(test))


class PytestRun:
    """Everything that goldspan knows of one run of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.recorder = Recorder()
        self.update = bool(config.getoption("--goldspan-update"))
        self.tests: Iterable[pytest.Item] = ()
        """Those collected, and those deselected: set at the end."""
        self._config = config
        self._goldens: dict[Path, GoldenIndex] = {}
        self._judged: list[tuple[_Place, ScoringResult]] = []
        self._seen: dict[tuple[_Place, Path, str], Seen] = {}
        """The last assertion of a test about a golden counts."""
        self._used: dict[Path, set[str]] = {}
        """Names of goldens, by file."""
        self._names: set[str] = set()
        """Of goldens that a test may use, whether it ran or not."""
        self._said: list[tuple[str, str]] = []

    def goldens(self, file: Path) -> GoldenIndex:
        """Return the goldens of a file as it was when it was first used; none if it is not there."""
        if file not in self._goldens:
            self._goldens[file] = load_goldens(file) if file.exists() else GoldenIndex()
        return self._goldens[file]

    def shown(self, file: Path) -> str:
        """Return a path as a user would type it."""
        return os.path.relpath(file, self._config.invocation_params.dir)

    def judge(self, node: pytest.Item, file: Path | None, result: ScoringResult) -> None:
        """Keep the result of an assertion for reports, and as properties of the test in `--junitxml`."""
        self._judged.append((_place(node), result))
        if file is not None:
            names = (one.golden.key for one in result.sessions if one.golden is not None)
            self._used.setdefault(file, set()).update(names)
        judged: list[SessionResult | RepeatResult] = [*result.repeats]
        judged += [one for one in result.sessions if not one.repeated]
        for one in judged:
            about: dict[str, object] = {"golden": None if one.golden is None else one.golden.key}
            if isinstance(one, SessionResult):
                about["session"] = None if one.session is None else one.session.id
                for metric in one.metrics:
                    about |= {f"{metric.name}.score": metric.score, f"{metric.name}.label": metric.label}
            if one.golden is not None:
                about |= {"score": one.score, "label": one.label}
            node.user_properties += [
                (f"goldspan.{name}", str(value)) for name, value in about.items() if value is not None
            ]

    def see(self, node: pytest.Item, name: str, seen: Seen) -> None:
        """Keep what a golden file is to expect."""
        self._seen[_place(node), seen.file, name] = seen

    def to_bytes(self) -> bytes:
        """Return what the controller of pytest-xdist needs of its worker."""
        return pickle.dumps((self._judged, self._seen, self._used, self._golden_names()))

    def add(self, worker: bytes) -> None:
        """Take what a worker of this run of pytest returned."""
        judged, seen, used, names = pickle.loads(worker)
        self._judged += judged
        self._seen |= seen
        self._names |= names
        for file, keys in used.items():
            self._used.setdefault(file, set()).update(keys)

    def _golden_names(self) -> set[str]:
        marked = (marker.kwargs.get("session") for test in self.tests for marker in test.iter_markers("golden"))
        return {*map(golden_name, self.tests), *filter(None, marked)}

    def finish(self) -> bool:
        """Write golden files and reports; return whether all could be written."""
        self._names |= self._golden_names()
        self._judged.sort(key=lambda one: one[0])
        written = [*self._write_goldens(), *self._write_reports()]
        for file, names in self._unused():
            self._said.append(("unused", f"{self.shown(file)}: {', '.join(names)}"))
        return all(written)

    def _write_goldens(self) -> Iterable[bool]:
        by_file: dict[Path, list[Seen]] = {}
        for (_, file, _), one in sorted(self._seen.items(), key=lambda one: one[0]):
            by_file.setdefault(file, []).append(one)
        for file, seen in by_file.items():
            try:
                update = updated(file, seen)
                file.parent.mkdir(parents=True, exist_ok=True)
                write_text(str(file), update.text)
                self._goldens[file] = load_goldens(file)
            except (FileError, OSError) as error:
                self._said.append(("error", printable(str(error))))
                yield False
                continue
            for word, names in (("new", update.new), ("changed", update.changed)):
                if names:
                    self._said.append((word, f"{self.shown(file)}: {', '.join(map(printable, names))}"))
            self._said += [("note", printable(note)) for note in update.notes]

    def _unused(self) -> Iterable[tuple[Path, list[str]]]:
        """Yield goldens that no test of this run can use: of a module's own file, of others in whole runs only."""
        if any("::" in argument for argument in self._config.args):
            return
        whole = self._config.args_source is not pytest.Config.ArgsSource.ARGS
        for file, used in sorted(self._used.items()):
            if whole or file.parent.name == "__goldens__":
                names = [golden.key for golden in self.goldens(file).goldens]
                if unused := [printable(name) for name in names if name not in used and name not in self._names]:
                    yield file, unused

    @property
    def result(self) -> ScoringResult:
        """The results of all assertions; a session has the name of its test.

        Each assertion about a golden with `repeat` is a result of its own: runs of several tests are not added up.
        """
        uses = Counter(one.golden.key for _, result in self._judged for one in result.repeats)
        before = Counter[tuple[str, str]]()
        sessions: list[SessionResult] = []
        for place, result in self._judged:
            names: dict[str, str] = {}
            for key in (one.golden.key for one in result.repeats if uses[one.golden.key] > 1):
                before[place.test, key] += 1
                number = before[place.test, key]
                names[key] = f"{key} of {place.test}" + (f" ({number})" if number > 1 else "")
            sessions += [_of_test(one, place.test, names) for one in result.sessions]
        return ScoringResult(
            tuple(sessions),
            problems=tuple(problem for _, result in self._judged for problem in result.problems),
            golden_sets={name: digest for _, result in self._judged for name, digest in result.golden_sets.items()},
        )

    def _report(self) -> Report:
        result = self.result
        decision = decide_exit_code(result, recognised=len(result.sessions), coverage=CoverageMode.STRICT)
        report = build_report(result, decision)
        return replace(report, summary=tuple(row for row in report.summary if row[0] != "goldens"))  # all were seen

    def _write_reports(self) -> Iterable[bool]:
        for option in self._config.getoption("--goldspan-report") or ():
            kind, _, file = option.partition("=")
            try:
                write_report(kind, file, self._report(), self.result)
            except GoldspanError as error:
                self._said.append(("error", str(error)))
                yield False
            else:
                self._said.append(("report", file))

    def print(self, terminal: pytest.TerminalReporter) -> None:
        """Print the scoreboard and what was written."""
        page = Page(shutil.get_terminal_size().columns)
        if self._judged:
            scoreboard(page, self._report(), verbose=self._config.get_verbosity() > 0)
        for name, text in self._said:
            page.paragraph(text, label=f"{name:<12}")
        if page.lines:
            terminal.section("goldspan")
            for line in str(page).splitlines():
                terminal.write_line(line, red=line.startswith((WRONG, "error")))


def _of_test(result: SessionResult, test: str, goldens: Mapping[str, str]) -> SessionResult:
    """Return the result with the test as the name of its session; without a golden, with the metrics.

    `goldens` has other names of goldens with `repeat`.
    """
    if result.session is None:
        return result
    golden = result.golden
    if golden is not None and result.repeated and golden.key in goldens:
        golden = dataclasses.replace(golden, session=goldens[golden.key])
    metrics = ", ".join(metric.name for metric in result.metrics)
    name = test if golden is not None else f"{test} [{metrics}]"
    return replace(result, session=replace(result.session, id=name), golden=golden)
