"""The exporter that sends what was scored: by its name, as `OTEL_TRACES_EXPORTER` would name it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import cast

from opentelemetry.sdk.trace.export import SpanExporter

from goldspan.scoring.errors import SettingsError

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
