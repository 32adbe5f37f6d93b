"""Finds exporters that send the same spans to the same place a second time.

Neither processors nor exporters say publicly what they hold. What is read here of their insides only ever decides
whether a warning is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.sdk.trace import Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter


def target(exporter: SpanExporter) -> str | None:
    """Return where an exporter sends to. The OTLP ones all keep it under one name; of others it is not known."""
    endpoint = getattr(exporter, "_endpoint", None)
    return endpoint if isinstance(endpoint, str) else None


def same_target(one: SpanExporter, other: SpanExporter) -> bool:
    """Tell whether what both are given arrives twice."""
    to = target(other)
    return one is other or (to is not None and type(one) is type(other) and target(one) == to)


def sends_too(span: Span, inner: SpanExporter) -> SpanExporter | None:
    """Return an exporter on the span's tracer provider, beside goldspan's, that sends where `inner` sends."""
    found = _exporters([getattr(span, "_span_processor", None)])
    return next((exporter for exporter in found if same_target(exporter, inner)), None)


def _exporters(parts: list[object]) -> Iterator[SpanExporter]:
    """Walk through processors inside processors: Logfire has six around each."""
    seen: dict[int, object] = {}  # holds what it numbers, lest a number be given again
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, SpanExporter):
            yield part  # not what it wraps: there goldspan's own would find itself
        elif isinstance(part, (tuple, list)):
            parts += part
        elif isinstance(part, SpanProcessor):
            parts += vars(part).values()
            parts.append(getattr(getattr(part, "_batch_processor", None), "_exporter", None))
