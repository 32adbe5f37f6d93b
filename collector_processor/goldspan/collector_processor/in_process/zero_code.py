"""The in-process door for agents whose code is not touched: set up by environment variables or a configuration file.

`opentelemetry-instrument` finds both parts by their entry points: the exporter `tool_parameter_match`
(`opentelemetry_traces_exporter`), chosen by `OTEL_TRACES_EXPORTER` or in the file of `OTEL_CONFIG_FILE`, and the
instrumentor `goldspan` (`opentelemetry_instrumentor`), which stamps sessions and sees to the end of the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from goldspan.collector_processor.in_process.environment import OPTIONS, options_of
from goldspan.collector_processor.in_process.session_scope import stamp_session
from goldspan.collector_processor.in_process.span_exporter import ToolParameterMatchExporter
from goldspan.scoring.errors import GoldspanError, SettingsError
from goldspan.scoring.goldens import load_criterion

# The exporter that sends what was scored: by its name, as `OTEL_TRACES_EXPORTER` would name it.

GROUP = "opentelemetry_traces_exporter"
OWN_NAME = "tool_parameter_match"

Chosen = str | Mapping[str, Mapping[str, object] | None]
"""A name; or in a configuration file, one name with what the exporter is made with."""


def make_exporter(chosen: Chosen, environment: Mapping[str, str]) -> SpanExporter:
    """Make the exporter of this name. Raises `SettingsError` where there is none, or where it cannot be made."""
    name, arguments = _name_and_arguments(chosen)
    if name == OWN_NAME:
        raise SettingsError(f"exporter: found {name!r}, which is this one; expected the one that sends the spans")
    entry = next(iter(entry_points(group=GROUP, name=_entry_name(name, environment))), None)
    if entry is None:
        known = sorted(one.name for one in entry_points(group=GROUP) if one.name != OWN_NAME)
        raise SettingsError(f"exporter: found {name!r}, expected one of {', '.join(known)}")
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


def _entry_name(name: str, environment: Mapping[str, str]) -> str:
    """`otlp` is one of two, by the protocol, as in the SDK's own set-up."""
    if name != "otlp":
        return name
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    return "otlp_proto_http" if protocol.strip() == "http/protobuf" else "otlp_proto_grpc"


# The exporter `tool_parameter_match` of zero-code set-ups.

_logger = logging.getLogger("goldspan")

NO_GOLDENS: dict[str, object] = {"golden_set": "none", "goldens": []}

doors: weakref.WeakSet[ToolParameterMatchExporter] = weakref.WeakSet()
"""The exporters made here that live, for what is to be done at the end of the process."""


class ZeroCodeExporter(ToolParameterMatchExporter):
    """`ToolParameterMatchExporter` around an exporter that is named, with options that come from outside the code.

    What stands in a configuration file comes first, then environment variables (`environment.OPTIONS`), then the
    defaults; the inner exporter is `otlp` where none is named. An option that is wrong is one warning, and the
    defaults are used: the agent starts, and its spans are exported.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of a configuration file; none when chosen by `OTEL_TRACES_EXPORTER`."""
        chosen = _chosen(options)
        name = chosen.pop("exporter", "otlp")
        inner = _inner(name)
        if "goldens" not in chosen:
            _logger.warning(
                "exporter %s: no goldens, so that nothing is scored. Set GOLDSPAN_GOLDENS to a golden file.", OWN_NAME
            )
            chosen["goldens"] = NO_GOLDENS
        try:
            if (criterion := chosen.get("criterion")) is not None:
                chosen["criterion"] = load_criterion(criterion)
            super().__init__(inner, **chosen)
        except (GoldspanError, TypeError) as error:
            _logger.warning("exporter %s: %s. Its defaults are used.", OWN_NAME, error)
            super().__init__(inner, goldens=chosen["goldens"])
        doors.add(self)
        _warn_of_double_route(name)


def _chosen(options: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        _logger.warning(
            "exporter %s: found %s, expected %s. The rest is used.", OWN_NAME, ", ".join(unknown), ", ".join(OPTIONS)
        )
    try:
        outside = options_of(os.environ)
    except SettingsError as error:
        _logger.warning("exporter %s: %s. No variable is used.", OWN_NAME, error)
        outside = {}
    return {**outside, **{name: value for name, value in options.items() if name in OPTIONS and value is not None}}


def _inner(name: Any) -> Any:
    try:
        return make_exporter(name, os.environ)
    except SettingsError as error:
        if name == "otlp":
            raise
        _logger.warning("exporter %s: %s. Spans are sent by otlp.", OWN_NAME, error)
        return make_exporter("otlp", os.environ)


def _warn_of_double_route(name: object) -> None:
    """Say so where both exporters are listed: each gets every span, one time as it came, one time with its score."""
    listed = [part.strip() for part in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")]
    if OWN_NAME in listed and name in listed:
        _logger.warning(
            "OTEL_TRACES_EXPORTER=%s sends every span twice: %s sends by %s itself. List only %s.",
            ",".join(listed),
            OWN_NAME,
            name,
            OWN_NAME,
        )


# What a zero-code set-up needs besides an exporter: sessions on spans as they start, and a good end.


SESSION_VARIABLE = "GOLDSPAN_SESSION"
"""The session of every span of this process that no `session_scope` names: for jobs that are one session."""


class GoldspanInstrumentor:
    """Stamps sessions on the spans of the global tracer provider, and flushes at exit before the providers close.

    `opentelemetry-instrument` calls `instrument` once the SDK is set up. It is an instrumentor by its methods alone:
    `BaseInstrumentor` would be a dependency for two lines.
    """

    def instrument(self, **_: object) -> None:
        """Add the processor that stamps, and register what is to be done at exit. Never raises."""
        try:
            add: Callable[[SpanProcessor], None] | None = getattr(
                trace.get_tracer_provider(), "add_span_processor", None
            )
            if add is not None:
                add(SessionStamp(os.environ.get(SESSION_VARIABLE, "").strip() or None))
            atexit.register(finish)
        except Exception:
            _logger.warning("sessions are not stamped", exc_info=True)

    def uninstrument(self, **_: object) -> None:
        """Do nothing at exit; a processor cannot be taken from its provider."""
        atexit.unregister(finish)


class SessionStamp(SpanProcessor):
    """Writes the session of the enclosing `session_scope`, or the given one, on each span as it starts."""

    def __init__(self, session: str | None = None) -> None:
        self._session = session

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp the span, unless it carries a session of goldspan's already."""
        try:
            stamp_session(span, parent_context, self._session)
        except Exception:
            _logger.debug("a session could not be stamped", exc_info=True)


def finish() -> None:
    """Get the last turn's spans, events and points out while the providers are open.

    Exit handlers run last in, first out: this one was registered after those of the providers.
    """
    if not (open_doors := list(doors)):
        return
    try:
        if (flush := getattr(trace.get_tracer_provider(), "force_flush", None)) is not None:
            flush()
    except Exception:
        _logger.debug("the tracer provider could not be flushed", exc_info=True)
    for door in open_doors:
        door.finish()
