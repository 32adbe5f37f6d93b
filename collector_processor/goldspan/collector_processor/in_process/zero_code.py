"""Scoring without a change of code, set up by `opentelemetry-instrument` and environment variables or a file.

OpenTelemetry finds both parts by entry points: the exporter `tool_parameter_match` (`opentelemetry_traces_exporter`),
named in `OTEL_TRACES_EXPORTER` or in the file of `OTEL_CONFIG_FILE`, and the instrumentor `goldspan`
(`opentelemetry_instrumentor`), which stamps sessions and flushes at the end of the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from goldspan.collector_processor.in_process.otlp_span_exporter import OtlpSpanExporter
from goldspan.collector_processor.in_process.session_scope import stamp_session
from goldspan.collector_processor.in_process.span_exporter import SHUTDOWN_TIMEOUT, ToolParameterMatchExporter
from goldspan.scoring.errors import GoldspanError, SettingsError

PREFIX = "GOLDSPAN_"
SESSION_VARIABLE = "GOLDSPAN_SESSION"
"""The session of every span without a `session_scope`, for processes that are one session."""


@dataclass(frozen=True, slots=True)
class Option:
    """How the text of an option is read, and what a message says is expected."""

    read: Callable[[str], object]
    expected: str


def _switch(text: str) -> bool:
    known = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
    return known[text.lower()]


def _names(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(name for part in text.split(separator) if (name := part.strip()))


OPTIONS: Mapping[str, Option] = {
    "goldens": Option(
        partial(_names, separator=os.pathsep), f"golden files or directories, with {os.pathsep!r} between them"
    ),
    "criterion": Option(str, "a file with a criterion"),
    "preset": Option(str, "the name of a preset"),
    "metrics": Option(_names, "names of metrics, with commas between them"),
    "metric_timeout": Option(float, "seconds"),
    "sample": Option(float, "a number above 0 and at most 1"),
    "tools": Option(str, "a JSON file with definitions of tools"),
    "profile": Option(str, "the file of a profile"),
    "exporter": Option(
        str, "the exporter that sends the spans, such as otlp or console, or the URL of an OTLP/HTTP receiver"
    ),
    "hold": Option(_switch, "on or off"),
    "hold_timeout": Option(float, "seconds"),
    "settle": Option(float, "seconds"),
    "run_idle": Option(float, "seconds"),
    "session_gap": Option(float, "seconds"),
    "max_held_spans": Option(int, "a number of spans"),
    "max_held_bytes": Option(int, "a number of bytes"),
    "include_values": Option(_switch, "on or off"),
    "agent_names": Option(_names, "names of agents, with commas between them"),
    "events": Option(str, "provider, otlp or the URL of an OTLP/HTTP receiver"),
    "emit": Option(str, "findings, failures or all"),
}
"""Every option that a variable or a configuration file can set. The others are Python objects."""


def options_of(environment: Mapping[str, str]) -> dict[str, object]:
    """Return the options whose variables are set and not empty.

    Raises `SettingsError` that names every invalid variable, what was found and what was expected.
    """
    found: dict[str, object] = {}
    mistakes: list[str] = []
    for name, option in OPTIONS.items():
        variable = PREFIX + name.upper()
        if not (text := environment.get(variable, "").strip()):
            continue
        try:
            found[name] = option.read(text)
        except (ValueError, KeyError):
            mistakes.append(f"{variable}: found {text!r}, expected {option.expected}")
    if mistakes:
        raise SettingsError("; ".join(mistakes))
    return found


_logger = logging.getLogger("goldspan")

GROUP = "opentelemetry_traces_exporter"
OWN_NAME = "tool_parameter_match"

_exporters: weakref.WeakSet[ToolParameterMatchExporter] = weakref.WeakSet()
"""The exporters to flush at the end of the process."""

NamedExporter = str | Mapping[str, Mapping[str, object] | None]
"""The name of an exporter; in a configuration file, also one name with the exporter's arguments."""


class ZeroCodeExporter(ToolParameterMatchExporter):
    """`ToolParameterMatchExporter` whose inner exporter has a name, and whose options come from outside the code.

    The configuration file comes first, then environment variables (`OPTIONS`), then defaults. The inner
    exporter is `otlp` by default. An invalid option is one warning, and the defaults are used: the agent starts, and
    its spans are exported.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of a configuration file; none if `OTEL_TRACES_EXPORTER` names this exporter."""
        chosen = _all_options(options)
        name = chosen.pop("exporter", "otlp")
        inner = _inner_exporter(name)
        try:
            if (criterion := chosen.get("criterion")) is not None:
                from goldspan.scoring.goldens import load_criterion  # noqa: PLC0415 - only where there is one

                chosen["criterion"] = load_criterion(criterion)
            super().__init__(inner, **chosen)
        except (GoldspanError, TypeError) as error:
            _logger.warning("exporter %s: %s. Its defaults are used.", OWN_NAME, error)
            super().__init__(inner, goldens=chosen.get("goldens"))
        _exporters.add(self)
        _warn_of_both_exporters(name)


def _all_options(options: dict[str, Any]) -> dict[str, Any]:
    """Add the options of environment variables to those of a configuration file."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        _logger.warning(
            "exporter %s: found %s, expected %s. The rest is used.", OWN_NAME, ", ".join(unknown), ", ".join(OPTIONS)
        )
    try:
        of_environment = options_of(os.environ)
    except SettingsError as error:
        _logger.warning("exporter %s: %s. No variable is used.", OWN_NAME, error)
        of_environment = {}
    of_file = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    return {**of_environment, **of_file}


def _inner_exporter(name: Any) -> Any:
    try:
        return make_exporter(name)
    except SettingsError as error:
        if name == "otlp":
            raise
        _logger.warning("exporter %s: %s. Spans are sent by otlp.", OWN_NAME, error)
        return make_exporter("otlp")


def make_exporter(chosen: NamedExporter) -> SpanExporter:
    """Make the exporter of this name, or goldspan's own to this URL.

    Raises `SettingsError` if there is none, or if it cannot be made.
    """
    name, arguments = _name_and_arguments(chosen)
    if name.startswith(("http://", "https://")):
        return OtlpSpanExporter(name)
    if name == OWN_NAME:
        raise SettingsError(f"exporter: found {name!r}, which is this one; expected the one that sends the spans")
    entry = next(iter(entry_points(group=GROUP, name=_entry_name(name))), None)
    if entry is None:
        known = sorted(one.name for one in entry_points(group=GROUP) if one.name != OWN_NAME)
        raise SettingsError(f"exporter: found {name!r}, expected one of {', '.join(known)} or the URL of a receiver")
    try:
        exporter = entry.load()(**arguments)
    except Exception as error:
        raise SettingsError(f"exporter: {name} could not be made: {error}") from error
    if not isinstance(exporter, SpanExporter):
        raise SettingsError(f"exporter: {name} is a {type(exporter).__name__}, expected a span exporter")
    return exporter


def _name_and_arguments(chosen: object) -> tuple[str, Mapping[str, object]]:
    if isinstance(chosen, str):
        return chosen, {}
    if isinstance(chosen, Mapping) and len(named := cast("Mapping[object, object]", chosen)) == 1:
        [(name, arguments)] = named.items()
        if isinstance(name, str) and (arguments is None or isinstance(arguments, Mapping)):
            return name, cast("Mapping[str, object]", arguments or {})
    raise SettingsError(f"exporter: found {chosen!r}, expected a name, or one name with its options below it")


def _entry_name(name: str) -> str:
    """Resolve `otlp` by the protocol, as the SDK does."""
    if name != "otlp":
        return name
    variables = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(os.environ.get, variables)), "grpc")
    return "otlp_proto_http" if protocol.strip() == "http/protobuf" else "otlp_proto_grpc"


def _warn_of_both_exporters(name: object) -> None:
    """Warn if `OTEL_TRACES_EXPORTER` has the inner exporter too: it would get every span a second time."""
    listed = [part.strip() for part in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")]
    if OWN_NAME in listed and name in listed:
        _logger.warning(
            "OTEL_TRACES_EXPORTER=%s sends every span twice: %s sends by %s itself. List only %s.",
            ",".join(listed),
            OWN_NAME,
            name,
            OWN_NAME,
        )


class GoldspanInstrumentor:
    """Stamps sessions on the spans of the global tracer provider, and flushes at exit before the providers close.

    `opentelemetry-instrument` calls `instrument` when the SDK is set up. The class has an instrumentor's methods only:
    `BaseInstrumentor` would be a dependency for two lines.
    """

    def instrument(self, **_: object) -> None:
        """Add the processor that stamps sessions, and register the flush at exit. Never raises."""
        try:
            add: Callable[[SpanProcessor], None] | None = getattr(
                trace.get_tracer_provider(), "add_span_processor", None
            )
            if add is not None:
                add(SessionStampProcessor(os.environ.get(SESSION_VARIABLE, "").strip() or None))
            atexit.register(flush_at_exit)
        except Exception:
            _logger.warning("sessions are not stamped", exc_info=True)

    def uninstrument(self, **_: object) -> None:
        """Do nothing at exit. A processor cannot be removed from its provider."""
        atexit.unregister(flush_at_exit)


class SessionStampProcessor(SpanProcessor):
    """Sets the session of the enclosing `session_scope`, or `session`, on each span that starts."""

    def __init__(self, session: str | None = None) -> None:
        self._session = session

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp the span, unless it has a session of goldspan's."""
        try:
            stamp_session(span, parent_context, self._session)
        except Exception:
            _logger.debug("could not stamp the session", exc_info=True)


def flush_at_exit() -> None:
    """Export the last turn's spans, events and points while the providers are open.

    Exit handlers run last in, first out: this one was registered after those of the providers.
    """
    if not (exporters := list(_exporters)):
        return
    end = time.monotonic() + SHUTDOWN_TIMEOUT
    flush: Callable[[], bool] | None = getattr(trace.get_tracer_provider(), "force_flush", None)
    for call in ([] if flush is None else [flush]) + [exporter.end_of_input for exporter in exporters]:
        try:
            exporters[0].run_within(end - time.monotonic(), call)
        except BaseException:
            _logger.debug("could not flush at exit", exc_info=True)
