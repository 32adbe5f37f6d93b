"""Writes evaluations as `gen_ai.evaluation.result` events, in the context of the evaluated span."""

from __future__ import annotations

from opentelemetry import context as otel
from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.instrumentation import SCOPE, evaluated_span, scope_version


class EventEmitter:
    """Writes events to a logger provider, the global one by default.

    The timestamp is the end of the evaluated span, so that a replay writes the same event. The SDK adds the observed
    timestamp.
    """

    def __init__(self, logger_provider: LoggerProvider | None = None) -> None:
        self._logger = get_logger(SCOPE, scope_version(), logger_provider)

    def emit(self, evaluation: Evaluation) -> None:
        """Write one event. Raises what the provider's processors raise."""
        context = evaluated_span(evaluation.target)
        # Exporting threads suppress instrumentation, and Logfire drops records that are written under it.
        token = otel.attach(context)
        try:
            self._logger.emit(
                event_name=names.EVALUATION_RESULT,
                timestamp=evaluation.timestamp,
                context=context,
                severity_number=SeverityNumber.INFO,
                attributes=event_attributes(evaluation),
            )
        finally:
            otel.detach(token)
