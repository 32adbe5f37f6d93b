"""`goldspan doctor`: what keeps tool calls from being scored: in traces, in settings, or in the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from importlib.metadata import distributions, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from goldspan.collector_processor.cli import input_output
from goldspan.collector_processor.engine.reading_and_holding import SeenSession, join_sentence
from goldspan.collector_processor.golden_tools.writing import is_golden_file
from goldspan.collector_processor.replay.hints import Hint
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.replay.trace_files import trace_files
from goldspan.collector_processor.report.inspection_pages import count_rows
from goldspan.collector_processor.report.model import problem_texts
from goldspan.collector_processor.report.terminal import hint_rows, problem_rows
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.dialects.reading.protocol import Advice, built_in_advice
from goldspan.scoring.errors import GoldspanError, Mistake, Problem, SettingsError
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.documents import nearest
from goldspan.scoring.goldens.golden import Golden, joined_by
from goldspan.scoring.pages import INFORMS, RIGHT, WRONG, Page, counted, listed, printable

if TYPE_CHECKING:
    from goldspan.collector_processor.gateway.settings.sections import GatewaySettings

_LABEL = 16
_SETTINGS = (".yaml", ".yml")
_GOLDENS = "GOLDSPAN_GOLDENS"
_FILE_EXPORTER = "goldspan_file"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+")
_GOLDEN_SET = re.compile(r"^[\"']?golden_set[\"']?\s*:", re.MULTILINE)


class Row(NamedTuple):
    """One thing that was looked at."""

    label: str
    text: str
    right: bool | None = True
    """False if it keeps calls from being scored: a hint says what helps. None if it only informs."""


class Diagnosis:
    """What was looked at, and what to do."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.hints: list[Hint] = []
        self.problems: list[Problem] = []
        self.mistakes: list[Mistake] = []

    def add(self, label: str, text: str, *hints: tuple[str, str]) -> None:
        """Add a row; hints say what helps where it is not right."""
        self.rows.append(Row(label, printable(text), not hints))
        self.hints += [Hint(printable(seen), helps) for seen, helps in hints]

    def note(self, label: str, text: str) -> None:
        """Add a row that only informs."""
        self.rows.append(Row(label, printable(text), None))

    def to_json(self) -> dict[str, Any]:
        """Return the same as a document."""
        return {
            "rows": [row._asdict() for row in self.rows],
            "advice": [hint._asdict() for hint in self.hints],
            "problems": [asdict(problem) for problem in self.problems],
        }


@click.command()
@click.argument("paths", nargs=-1, metavar="[TRACES|SETTINGS|URL]...")
@input_output.options("doctor")
@input_output.FORMAT
@input_output.COLOR
def doctor(
    paths: tuple[str, ...], *, golden_files: tuple[str, ...], token_env: str, as_format: str, color: str
) -> None:
    """Say what keeps tool calls from being scored, and what to switch on.

    With trace files: what is recognised in them, and which goldens join. With the settings file of a gateway (.yaml):
    what it receives, scores and sends. With the URL of the admin pages of a gateway or a worker that runs
    (http://localhost:4319): what it receives, refuses, holds, sends and waits for, its goldens and teams. With nothing:
    what scoring in this environment's processes would do.

    Exit codes: 0 nothing is missing; 1 something is, and the page says what to do; 2 a file cannot be read or used.
    """
    diagnosis = Diagnosis()
    urls = [path for path in paths if path.startswith(("http://", "https://"))]
    settings_files, named_goldens, traces = _sorted_by_kind([path for path in paths if path not in urls])
    golden_files = (*golden_files, *named_goldens)
    with input_output.file_errors():
        if len(settings_files) > 1:
            raise SettingsError(f"found {len(settings_files)} settings files, expected one")
        for url in urls:
            _running(diagnosis, url, os.environ.get(token_env) or None)
        sources = golden_files or tuple(filter(None, os.environ.get(_GOLDENS, "").split(os.pathsep)))
        goldens: GoldenIndex | None = None
        if settings_files:
            goldens = _settings(diagnosis, settings_files[0])
        elif not paths:
            _environment(diagnosis, os.environ)
        if golden_files or (traces and sources and goldens is None):
            goldens = load_goldens(*sources)
        if traces:
            _traces(diagnosis, traces, goldens)
        elif goldens is not None and not settings_files:
            diagnosis.note("goldens", f"{counted(len(goldens.goldens), 'golden')}: name traces too, to see which join")
        if as_format == "json":
            input_output.write_json(diagnosis.to_json())
        else:
            input_output.show(color, lambda page: _page(page, diagnosis))
        input_output.end(diagnosis.mistakes, int(bool(diagnosis.hints)))


def _sorted_by_kind(paths: Sequence[str]) -> tuple[list[Path], list[str], list[str]]:
    """Return the settings files, the golden files and the traces among what a command line names."""
    settings_files = [Path(path) for path in paths if path.endswith(_SETTINGS) and not _names_a_golden_set(path)]
    goldens = [path for path in paths if is_golden_file(path) and Path(path) not in settings_files]
    return settings_files, goldens, [path for path in paths if Path(path) not in settings_files and path not in goldens]


def _names_a_golden_set(path: str) -> bool:
    """Whether a YAML file is a golden set; the settings of a gateway are the other YAML files."""
    try:
        return _GOLDEN_SET.search(Path(path).read_text("utf-8", "replace")) is not None
    except OSError:
        return False


def _page(page: Page, diagnosis: Diagnosis) -> None:
    marks = {True: (RIGHT, "green"), False: (WRONG, "red"), None: (INFORMS, "dim")}
    for row in diagnosis.rows:
        mark, style = marks[row.right]
        page.paragraph(row.text, label=((f"{mark} ", style), (f"{row.label:<{_LABEL}}", "bold")))
    problem_rows(page, problem_texts(diagnosis.problems), label=_LABEL + 2)
    hint_rows(page, dict.fromkeys(diagnosis.hints))
    page.blank()
    if not diagnosis.hints:
        page.paragraph("Nothing is missing.", style="green")


# Traces.


def _traces(diagnosis: Diagnosis, paths: Sequence[str], goldens: GoldenIndex | None) -> None:
    with trace_files(paths) as files:
        joins = () if goldens is None else goldens.join_attributes
        registry = DialectRegistry(join_attributes=(*JOIN_ATTRIBUTES, *joins), on_problem=files.problems.append)
        with input_output.read_with_progress(files) as views:
            found = inspect_spans(views, registry, files.problems)
        for label, text in count_rows(found):
            diagnosis.rows.append(Row(label, text, {"not recognised": None}.get(label, True)))
        if not found.dialects and not found.shaped:
            diagnosis.rows.append(Row("recognised", "no span of an agent, a model or a tool", right=False))
        diagnosis.hints += found.hints
        diagnosis.problems, diagnosis.mistakes = files.problems, files.mistakes
    if goldens is None:
        diagnosis.note("goldens", "none were named: with --goldens FILE, this says which of them join")
        return
    joined: list[Golden] = []
    others: list[SeenSession] = []
    for session in found.sessions:
        golden = goldens.find(session)
        if isinstance(golden, Golden):
            joined.append(golden)
        elif golden is None:
            others.append(SeenSession(session.id, session.id_source))
        else:
            names = listed(joined_by(one)[1] for one in golden.goldens)
            diagnosis.hints.append(Hint(f"several goldens match session {session.id}: {names}", "Make one narrower."))
    unseen = goldens.never_seen(joined)
    text = f"{len(goldens.goldens) - len(unseen)} of {len(goldens.goldens)} join a session of these traces"
    if joined:
        text += f": {listed(dict.fromkeys(joined_by(golden)[1] for golden in joined), 4)}"
    if not unseen:
        diagnosis.add("goldens", text)
    elif others:
        sentence = join_sentence(len(goldens.goldens) - len(unseen), goldens.goldens, others, len(others))
        seen, _, helps = sentence.partition(". ")
        diagnosis.add("goldens", text, (seen, helps))
    else:
        names = listed(" ".join(joined_by(golden)) for golden in unseen)
        diagnosis.add("goldens", text, (f"goldens without a session: {names}", "Record these sessions too."))


# A server that runs, and the settings of a gateway.


def _running(diagnosis: Diagnosis, url: str, token: str | None) -> None:
    # Imported when asked for, since it needs the extra `gateway`.
    input_output.refuse_without(("prometheus_client", "urllib3"), "`goldspan doctor URL`", "gateway")
    from goldspan.collector_processor.cli.running_server import examine  # noqa: PLC0415 - see above

    examine(diagnosis.add, diagnosis.note, url, token)


def _settings(diagnosis: Diagnosis, path: Path) -> GoldenIndex:
    # Imported when asked for, since it needs the extra `gateway`.
    from goldspan.collector_processor.cli.serve import refuse_without_libraries  # noqa: PLC0415 - see above

    refuse_without_libraries()
    from goldspan.collector_processor.gateway.server import check_gateway  # noqa: PLC0415 - see above
    from goldspan.collector_processor.gateway.settings.settings_file import (  # noqa: PLC0415 - see above
        load_settings,
        unknown_variables,
    )

    settings = load_settings(path, os.environ)
    check_gateway(settings, os.environ)
    goldens = load_goldens(*settings.goldens)
    unknown = unknown_variables(settings, os.environ)
    strange = [(f"no setting has the variables {', '.join(unknown)}", "Correct or remove them.")] if unknown else []
    diagnosis.add("settings", f"{path}: can be used", *strange)
    receivers = settings.receivers
    addresses = ", ".join(f"{name} {address}" for name, address in receivers.addresses())
    who = f"with one of {counted(len(receivers.tokens), 'token')}" if receivers.tokens else "without a token"
    diagnosis.add("receives", f"OTLP at {addresses}, {who}" if addresses else "nothing")
    headers = ", ".join(receivers.forward_headers)
    diagnosis.add("tenants", f"each set of values of {headers}" if headers else "one: all senders share their sessions")
    _add_goldens(diagnosis, goldens)
    diagnosis.add("sends", _destinations(settings))
    journal = (
        "on disk, nothing acknowledged is lost at a crash" if settings.journal.enabled else "off: a crash loses data"
    )
    diagnosis.add("journal", journal)
    admin = settings.admin.listen
    diagnosis.add("admin", f"{admin}: GET /coverage lists goldens and sessions that did not join" if admin else "off")
    return goldens


def _destinations(settings: GatewaySettings) -> str:
    from goldspan.collector_processor.otlp_signals import Signal  # noqa: PLC0415 - see `_settings`

    found: dict[str, list[str]] = {}
    for signal in Signal:
        destination = settings.export.destination(signal, os.environ)
        where = "nowhere" if destination is None else f"{destination.endpoint} by {destination.protocol}"
        found.setdefault(where, []).append(signal.value)
    return "; ".join(f"{', '.join(signals)} to {where}" for where, signals in found.items())


def _add_goldens(diagnosis: Diagnosis, goldens: GoldenIndex) -> None:
    count = len(goldens.goldens)
    if not count:
        diagnosis.note("goldens", "none: sessions are scored by metrics that need none")
        return
    sets = ", ".join(one.label for one in goldens.sets)
    wanted = listed((" ".join(joined_by(golden)) for golden in goldens.goldens), 4)
    diagnosis.add("goldens", f"{counted(count, 'golden')} ({sets}), for {wanted}")


# The environment of an agent's process.


def _environment(diagnosis: Diagnosis, environ: Mapping[str, str]) -> None:
    # Imported when asked for: it is the set-up of the agent's process.
    from goldspan.collector_processor.in_process import file_exporter, zero_code  # noqa: PLC0415 - see above

    exporters = [name for part in environ.get("OTEL_TRACES_EXPORTER", "").split(",") if (name := part.strip())]
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        diagnosis.add("SDK", "disabled", ("OTEL_SDK_DISABLED=true", "No span is written: remove the variable."))
    if file := environ.get("OTEL_CONFIG_FILE", "").strip():
        diagnosis.note("configuration", f"{file} of OTEL_CONFIG_FILE; it is not read here")
    elif zero_code.OWN_NAME in exporters:
        diagnosis.add("exporter", f"{zero_code.OWN_NAME}, from OTEL_TRACES_EXPORTER")
    elif _FILE_EXPORTER in exporters:
        path = environ.get(file_exporter.PATH_VARIABLE, "").strip() or file_exporter.DEFAULT_PATH
        diagnosis.note("exporter", f"{_FILE_EXPORTER}: writes spans to {path}, for `goldspan score`; scores nothing")
    else:
        found = ",".join(exporters)
        seen = f"OTEL_TRACES_EXPORTER={found}" if found else "OTEL_TRACES_EXPORTER is not set"
        helps = f"Set OTEL_TRACES_EXPORTER={zero_code.OWN_NAME}, or add ToolParameterMatchSpanProcessor in code."
        diagnosis.add("exporter", f"{found or 'the default'}: it does not score", (seen, helps))
    if find_spec("opentelemetry.instrumentation") is None:
        if exporters:
            seen = "opentelemetry-instrument is not installed, which reads OTEL_TRACES_EXPORTER"
            diagnosis.add("start", "in code only", (seen, "pip install opentelemetry-distro."))
        else:
            diagnosis.note("start", "in code only: opentelemetry-instrument is not installed")
    _goldens_of(diagnosis, environ)
    _options(diagnosis, environ)
    _sampling_and_limits(diagnosis, environ)
    _instrumentations(diagnosis, environ)


def _goldens_of(diagnosis: Diagnosis, environ: Mapping[str, str]) -> None:
    sources = [name for part in environ.get(_GOLDENS, "").split(os.pathsep) if (name := part.strip())]
    try:
        goldens = load_goldens(*sources) if sources else GoldenIndex()
    except GoldspanError as error:
        diagnosis.add("goldens", f"{os.pathsep.join(sources)}: cannot be used", (_GOLDENS, str(error)))
        return
    _add_goldens(diagnosis, goldens)


def _options(diagnosis: Diagnosis, environ: Mapping[str, str]) -> None:
    """Add the options that are set, the exporter that sends the spans, and variables that nothing knows."""
    from goldspan.collector_processor.in_process import file_exporter, zero_code  # noqa: PLC0415 - see `_environment`

    known = {zero_code.PREFIX + name.upper() for name in zero_code.OPTIONS}
    known |= {zero_code.SESSION_VARIABLE, file_exporter.PATH_VARIABLE}
    of_gateway = _gateway_variables()
    try:
        options = zero_code.options_of(environ)
    except SettingsError as error:
        diagnosis.add("options", "no GOLDSPAN_ variable is used", ("a variable is wrong", str(error)))
        options = {}
    others = sorted(set(options) - {"goldens", "exporter"})
    if others:
        diagnosis.add("options", ", ".join(f"{zero_code.PREFIX}{name.upper()}" for name in others))
    for name in sorted(environ):
        if name in of_gateway - known:
            diagnosis.note("variable", f"{name} is the gateway's")
        elif name.startswith(zero_code.PREFIX) and name not in known:
            near = nearest(name, sorted(known))
            helps = f"Did you mean {near}?" if near else f"Known are {', '.join(sorted(known))}."
            diagnosis.add(
                "variable", f"{name} is not known", (f"{name} is set, and nothing reads it in process", helps)
            )
    _sends_by(diagnosis, environ, str(options.get("exporter", "otlp")))
    session = environ.get(zero_code.SESSION_VARIABLE, "").strip()
    diagnosis.add(
        "session", f"{session}, from {zero_code.SESSION_VARIABLE}" if session else "the id that the spans carry"
    )


def _sends_by(diagnosis: Diagnosis, environ: Mapping[str, str], inner: str) -> None:
    """Add the exporter behind goldspan's own."""
    from goldspan.collector_processor.in_process import zero_code  # noqa: PLC0415 - see `_environment`

    group = entry_points(group=zero_code.GROUP)
    if inner == "otlp":
        endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        diagnosis.add("sends by", f"otlp to {endpoint or 'the default, localhost'}")
    elif any(one.name == inner for one in group):
        diagnosis.add("sends by", inner)
    else:
        names = ", ".join(sorted(one.name for one in group if one.name != zero_code.OWN_NAME))
        diagnosis.add(
            "sends by", f"{inner}: not installed", (f"GOLDSPAN_EXPORTER={inner}", f"Expected one of {names}.")
        )


def _gateway_variables() -> set[str]:
    from goldspan.collector_processor.cli.serve import refuse_without_libraries  # noqa: PLC0415 - see `_settings`

    try:
        refuse_without_libraries()
    except SettingsError:
        return set()
    from goldspan.collector_processor.gateway.settings.settings_file import variables  # noqa: PLC0415 - see `_settings`

    return {name for name, _ in variables()}


def _sampling_and_limits(diagnosis: Diagnosis, environ: Mapping[str, str]) -> None:
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip()
    if sampler not in {"", "always_on", "parentbased_always_on"}:
        helps = "What is not sampled is not scored: OTEL_TRACES_SAMPLER=always_on."
        diagnosis.add("sampler", sampler, (f"OTEL_TRACES_SAMPLER={sampler}", helps))
    for name in ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        if limit := environ.get(name, "").strip():
            helps = "Longer arguments are cut off and not scored: raise or remove it."
            diagnosis.add("length limit", limit, (f"{name}={limit}", helps))


def _instrumentations(diagnosis: Diagnosis, environ: Mapping[str, str]) -> None:
    """Add the installed distributions that write spans of agents, and how to have their arguments captured."""
    found: dict[str, tuple[str, Advice]] = {}
    for one in distributions():
        name = (one.name or "").lower().replace("_", "-")
        if (known := _advice_for(name)) is not None:
            found[f"{name} {one.version}"] = known
    if not found:
        helps = "Install the OpenTelemetry or OpenInference instrumentation of the framework: `goldspan dialects`."
        diagnosis.add("instrumentation", "none that is known", ("no instrumentation of agents is installed", helps))
        return
    diagnosis.add("instrumentation", ", ".join(f"{name} ({dialect})" for name, (dialect, _) in sorted(found.items())))
    texts = {(dialect, advice.arguments): None for _, (dialect, advice) in sorted(found.items())}
    for dialect, text in texts:
        if text and not any(name in environ for name in _VARIABLE.findall(text)):
            diagnosis.note("arguments", f"{dialect}: {text}")


def _advice_for(distribution: str) -> tuple[str, Advice] | None:
    every = ((dialect, one) for dialect, advice in built_in_advice().items() for one in advice)
    return next((pair for pair in every if any(fnmatchcase(distribution, own) for own in pair[1].distributions)), None)
