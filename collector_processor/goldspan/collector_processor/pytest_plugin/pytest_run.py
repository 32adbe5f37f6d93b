"""What one run of pytest collects: spans, results, goldens that were used or are to be written; and how it says so.

With pytest-xdist each worker has one, and the controller one of all workers. The spans and log records are those that
start during a test, from any number of tracer providers. `pytest --goldspan-update` makes golden files accept what
tests saw.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import shutil
import weakref
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from opentelemetry import _logs, trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.emit.names import SESSION_ID
from goldspan.collector_processor.golden_tools.golden_differences import as_text, trace_difference
from goldspan.collector_processor.golden_tools.recording import record
from goldspan.collector_processor.golden_tools.updating import GoldenFile, acceptable_changes
from goldspan.collector_processor.golden_tools.writing import golden_set_text
from goldspan.collector_processor.in_process.session_scope import stamp_session
from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.model import Report, build_report
from goldspan.collector_processor.report.report_files import write_report
from goldspan.collector_processor.report.terminal import scoreboard
from goldspan.mappers import read_sessions
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.dialects.reading.protocol import Dialect
from goldspan.mappers.installed_dialects import default_dialects
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import FileError, GoldspanError, Problem
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.documents import READERS, MistakeCollector
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.pages import WRONG, Page, printable
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import RepeatResult, ScoringResult
from goldspan.scoring.sessions import Session


def global_tracer_provider() -> object:
    """Return the global tracer provider; where there is none, one of the SDK is set up.

    Raises pytest.UsageError if the global one has no span processors, and cannot be replaced.
    """
    if not _takes_processors(trace.get_tracer_provider()):
        trace.set_tracer_provider(TracerProvider())
    provider = trace.get_tracer_provider()
    if not _takes_processors(provider):
        raise pytest.UsageError(
            f"goldspan: the global tracer provider is a {type(provider).__name__}, which takes no span processor: "
            "override the fixture `goldspan_tracer_provider`"
        )
    return provider


def _takes_processors(provider: object) -> bool:
    return hasattr(provider, "add_span_processor")


@dataclass(slots=True)
class RecordedSpans:
    """Ended spans of a test, or of one run of its agent, and the log records written in them."""

    spans: list[ReadableSpan] = field(default_factory=list[ReadableSpan])
    logs: list[ReadWriteLogRecord] = field(default_factory=list[ReadWriteLogRecord])

    def sessions(self, name: str, join_attributes: Sequence[str], problems: list[Problem]) -> list[Session]:
        """Rebuild the sessions; spans that name none belong to the session `name`."""
        dialects, registered_wrongly = _dialects()
        problems += registered_wrongly
        registry = DialectRegistry(
            dialects, join_attributes=(*JOIN_ATTRIBUTES, *join_attributes), definitions=True, on_problem=problems.append
        )
        resources: dict[int, Resource] = {}
        for span in self.spans:
            resources.setdefault(id(span.resource), _naming(span.resource, name))
        spans = [_with_resource(span, resources[id(span.resource)]) for span in self.spans]
        return read_sessions([*spans, *self.logs], registry=registry, on_problem=problems.append)

    @property
    def scopes(self) -> list[str]:
        """The instrumentation scopes of the spans, sorted."""
        return sorted({span.instrumentation_scope.name for span in self.spans if span.instrumentation_scope})


@cache
def _dialects() -> tuple[tuple[Dialect, ...], list[Problem]]:
    """Return the installed dialects, and what is wrong with others: finding them takes longer than reading a test."""
    problems: list[Problem] = []
    return default_dialects(problems.append), problems


def _naming(resource: Resource, session: str) -> Resource:
    """Return the resource with a session id: it is the last place where one is looked for (R6)."""
    if not resource.attributes.keys().isdisjoint(DEFAULT_SESSION_KEYS):
        return resource
    return Resource({**resource.attributes, SESSION_ID: session})


def _with_resource(span: ReadableSpan, resource: Resource) -> ReadableSpan:
    copied = copy.copy(span)
    copied._resource = resource  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return copied


class Recorder(SpanProcessor, LogRecordProcessor):
    """Records what starts while a test runs. A span that ends after its test is dropped."""

    def __init__(self) -> None:
        self._into: RecordedSpans | None = None
        self._started: dict[tuple[int, int], RecordedSpans] = {}
        self._providers: list[weakref.ref[Any]] = []

    @contextmanager
    def recording(self) -> Generator[RecordedSpans]:
        """Record what starts in this block, and in no block inside it."""
        outer, self._into = self._into, RecordedSpans()
        try:
            yield self._into
        finally:
            self._into = outer
            if outer is None:
                self._started = {}

    def attach(self, provider: Any) -> None:
        """Record the spans of this provider, and the log records of the global logger provider if there is one.

        Raises pytest.UsageError if this is no tracer provider of the SDK.
        """
        if not _takes_processors(provider):
            raise pytest.UsageError(
                f"goldspan: found a {type(provider).__name__}, expected a TracerProvider of the SDK"
            )
        if self._is_new(provider):
            provider.add_span_processor(self)
        logger_provider: Any = _logs.get_logger_provider()
        if hasattr(logger_provider, "add_log_record_processor") and self._is_new(logger_provider):
            logger_provider.add_log_record_processor(self)

    def _is_new(self, provider: object) -> bool:
        self._providers = [known for known in self._providers if known() is not None]
        if any(known() is provider for known in self._providers):
            return False
        self._providers.append(weakref.ref(provider))
        return True

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note which test the span belongs to."""
        if self._into is not None:
            stamp_session(span, parent_context)
            context = span.get_span_context()
            self._started[context.trace_id, context.span_id] = self._into

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the span."""
        if span.context and (into := self._started.get((span.context.trace_id, span.context.span_id))):
            into.spans.append(span)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Keep a log record that was written in a span of the test."""
        record = log_record.log_record
        if into := self._started.get((record.trace_id or 0, record.span_id or 0)):
            into.logs.append(log_record)


_HEADER = ("Recorded by `pytest --goldspan-update`: read it before you rely on it.",)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an assertion saw that its golden file does not expect."""

    file: Path
    golden_set: str
    """The name of the golden set, if the file is new."""
    sessions: tuple[Session, ...]
    """The id of each finds its golden, or is that of a new one."""
    criterion: Criterion | None
    """Replaces the criteria of the goldens."""


@dataclass(frozen=True, slots=True)
class Updated:
    """The text of a golden file that expects what was seen."""

    text: str
    new: tuple[str, ...]
    """Names of goldens that were added."""
    changed: tuple[str, ...]
    notes: tuple[str, ...]
    """What could not be written, and what a person has to decide."""
    differences: tuple[str, ...] = ()
    """What changes in goldens, as lines of a diff."""

    def goldens(self, file: Path) -> GoldenIndex:
        """Return the goldens that the file holds with this text."""
        document = READERS[file.suffix.lower()](self.text, MistakeCollector(str(file)))
        return load_goldens(document)  # pyright: ignore[reportArgumentType] - a golden set was read from it before


def updated(file: Path, seen: Sequence[Seen]) -> Updated:
    """Return the file as it expects what was seen; it is not written.

    Missing goldens are recorded at its end. Existing goldens change where a score depends on it. Comments, matchers
    and criteria stay. Raises FileError if the file cannot be read, or changed in place.
    """
    sessions = [session for one in seen for session in one.sessions]
    if not file.exists():
        recorded = record(sessions, seen[0].golden_set)
        text = golden_set_text(str(file), recorded.document, recorded.comments, _HEADER)
        return Updated(text, _session_names(recorded.document["goldens"]), (), tuple(map(str, recorded.notices)))
    target, index = GoldenFile(str(file)), load_goldens(file)
    index = _with_criteria(index, seen)
    difference = trace_difference(index, [session for session in sessions if index.find(session) is not None])
    possible = acceptable_changes(index, difference)
    recorded = record([session for session in sessions if index.find(session) is None], index.sets[0].name)
    added = recorded.document["goldens"]
    changed = dict.fromkeys(index.goldens[one.golden].key for one in possible.changes)
    left = [f"{one.change.golden}: stands for several sessions: not changed" for one in possible.pattern_goldens]
    notes = dict.fromkeys((*map(str, recorded.notices), *possible.by_hand, *left))
    lines = tuple(str(line) for line in as_text([one.change for one in possible.changes]) if line.sign != "=")
    text = target.accept(possible.changes, added)
    return Updated(text, _session_names(added), tuple(changed), tuple(notes), lines)


def _session_names(goldens: Sequence[dict[str, str]]) -> tuple[str, ...]:
    return tuple(golden["session"] for golden in goldens)


def _with_criteria(index: GoldenIndex, seen: Sequence[Seen]) -> GoldenIndex:
    """Return the goldens, each with the criterion that a test compared it by."""
    by = {session.id: one.criterion for one in seen for session in one.sessions if one.criterion is not None}
    return GoldenIndex(
        dataclasses.replace(one, goldens=tuple(with_criterion(golden, by.get(golden.key)) for golden in one.goldens))
        for one in index.sets
    )


def with_criterion(golden: Golden, criterion: Criterion | None) -> Golden:
    """Return the golden with this criterion in the place of all of its own."""
    if criterion is None:
        return golden
    turns = tuple(
        dataclasses.replace(
            turn, criterion=None, calls=tuple(dataclasses.replace(call, criterion=None) for call in turn.calls)
        )
        for turn in golden.turns
    )
    return dataclasses.replace(golden, criterion=criterion, turns=turns)


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
        self.review = bool(config.getoption("--goldspan-review"))
        self.tests: Iterable[pytest.Item] = ()
        """Those collected, and those deselected: set at the end."""
        self._config = config
        self._goldens: dict[Path, GoldenIndex] = {}
        self._judged: list[tuple[_Place, ScoringResult]] = []
        self._seen: dict[tuple[_Place, Path, str], Seen] = {}  # the last assertion of a test about a golden counts
        self._used: dict[Path, set[str]] = {}  # names of goldens, by file
        self._names: set[str] = set()  # of goldens that a test may use, whether it ran or not
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
                if self.update:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_text(str(file), update.text)
                    self._goldens[file] = load_goldens(file)
            except (FileError, OSError) as error:
                self._said.append(("error", printable(str(error))))
                yield False
                continue
            would = "" if self.update else "would be "
            for word, names in (("new", update.new), ("changed", update.changed)):
                if names:
                    self._said.append((would + word, f"{self.shown(file)}: {', '.join(map(printable, names))}"))
            self._said += [("", line) for line in update.differences]
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
            if name:
                page.paragraph(text, label=f"{name:<12} " if len(name) > 11 else f"{name:<12}")
            else:
                page.line(text, indent=2)
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
