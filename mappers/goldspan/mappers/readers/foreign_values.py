"""What Jaeger and Zipkin have in common: microseconds, ids without leading zeros, and OTLP's fields put into tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goldspan.mappers.readers.anyvalue import integer

OTEL_FIELDS = frozenset(
    {
        "otel.status_code",
        "otel.status_description",
        "otel.scope.name",
        "otel.scope.version",
        "otel.library.name",
        "otel.library.version",
    }
)
"""Tags in which exporters of OpenTelemetry keep what the other format has no field for."""
_STATUS = {"OK": 1, "ERROR": 2}


def nanos(microseconds: object) -> int:
    """Return a time or a duration in nanoseconds; 0 for what is none."""
    number = integer(microseconds)
    return number * 1000 if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


def padded(identifier: object, length: int) -> str:
    """Return an id in its full length; `""` for what is no text."""
    if not isinstance(identifier, str) or not (text := identifier.strip()):
        return ""
    return text.zfill(length)


def scope_of(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return the instrumentation scope that an exporter of OpenTelemetry put into tags."""
    scope: dict[str, str] = {}
    for field in ("name", "version"):
        value = tags.get(f"otel.scope.{field}") or tags.get(f"otel.library.{field}")
        if value:
            scope[field] = str(value)
    return scope


def status_of(tags: Mapping[str, Any], *, failed: bool, message: str = "") -> dict[str, Any]:
    """Return the status that an exporter of OpenTelemetry put into tags; `failed` is what other tags say."""
    code = 2 if failed else _STATUS.get(str(tags.get("otel.status_code")).upper(), 0)
    message = str(tags.get("otel.status_description") or message)
    return ({"code": code} if code else {}) | ({"message": message} if message else {})


def any_value(value: object) -> dict[str, Any]:
    """Return a scalar as `AnyValue` of OTLP/JSON; null for anything else."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value} if isinstance(value, str) else {}
