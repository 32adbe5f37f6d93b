"""Where emitted telemetry says it comes from, and the span it points at."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from goldspan.scoring.sessions import SpanRef

SCOPE = "goldspan"
NO_SPAN = set_span_in_context(INVALID_SPAN, Context())
"""A context in which no span is current. An empty one would be taken for none given, and the current one used."""


def scope_version() -> str:
    """Return the installed version of goldspan; empty where it is not installed as a distribution."""
    try:
        return version("goldspan")
    except PackageNotFoundError:
        return ""


def judged_span(target: SpanRef | None) -> Context:
    """Return a context whose current span is the judged one, long ended as it may be.

    It is marked sampled, without which no exemplar would be kept. Without a target, or with ids that are none, no span
    is current: an evaluation never points at a span that merely happens to run when it is emitted.
    """
    try:
        trace_id, span_id = (int(part, 16) for part in target or ())
    except ValueError:
        return NO_SPAN
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span), Context())


@contextlib.contextmanager
def suppressed_instrumentation() -> Generator[None]:
    """Nothing that happens inside is traced by instrumentations, as in the SDK's own exporting threads."""
    # The key has no public name; every instrumentation and the SDK import this one.
    suppress = otel._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    token = otel.attach(otel.set_value(suppress, value=True))
    try:
        yield
    finally:
        otel.detach(token)
