"""The instrumentation scope of emitted telemetry, the context of the evaluated span, and suppressed instrumentation."""

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
"""A context without a current span. The SDK would replace an empty context by the current one."""


def scope_version() -> str:
    """Return the installed version of goldspan; empty if it is not installed as a distribution."""
    try:
        return version("goldspan")
    except PackageNotFoundError:
        return ""


def evaluated_span(target: SpanRef | None) -> Context:
    """Return a context whose current span is the evaluated one, which has ended.

    The span is marked as sampled: the SDK keeps no exemplar of others. Without a target, or with ids that are not
    hexadecimal, no span is current, so that an evaluation never refers to whatever span runs when it is emitted.
    """
    try:
        trace_id, span_id = (int(part, 16) for part in target or ())
    except ValueError:
        return NO_SPAN
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span), Context())


@contextlib.contextmanager
def suppressed_instrumentation() -> Generator[None]:
    """Switch instrumentations off for the block, as the SDK does in its exporting threads."""
    # The key has no public name. The SDK and every instrumentation import this one.
    suppress = otel._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    token = otel.attach(otel.set_value(suppress, value=True))
    try:
        yield
    finally:
        otel.detach(token)
