"""The spans and log records that start during a test, from any number of tracer providers."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from opentelemetry import _logs, trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from goldspan.collector_processor.emit.names import SESSION_ID
from goldspan.collector_processor.in_process.session_scope import stamp_session
from goldspan.mappers import read_sessions
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import JOIN_ATTRIBUTES, DialectRegistry
from goldspan.mappers.dialects.reading.protocol import Dialect
from goldspan.mappers.installed_dialects import default_dialects
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Session


def global_tracer_provider() -> object:
    """Return the global tracer provider; where there is none, one of the SDK is set up.

    Raises:
        pytest.UsageError: the global one has no span processors, and cannot be replaced.

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
            dialects,
            join_attributes=(*JOIN_ATTRIBUTES, *join_attributes),
            definitions=True,
            on_problem=problems.append,
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

        Raises:
            pytest.UsageError: this is no tracer provider of the SDK.

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

    def shutdown(self) -> None:
        """Do nothing: there is nothing to export."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: there is nothing to export."""
        del timeout_millis
        return True
