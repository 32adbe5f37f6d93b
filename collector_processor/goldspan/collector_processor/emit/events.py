"""Evaluations as `gen_ai.evaluation.result` log records, in the context of the span they judge."""

from __future__ import annotations

from opentelemetry import context as otel
from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.attributes import event_attributes
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.instrumentation import SCOPE, judged_span, scope_version


class EventEmitter:
    """Writes events through a logger provider, the global one unless another is given.

    The record's time is the end of the judged span, so that a replay gives the same record; the SDK adds the time of
    observation.
    """

    def __init__(self, logger_provider: LoggerProvider | None = None) -> None:
        self._logger = get_logger(SCOPE, scope_version(), logger_provider)

    def emit(self, evaluation: Evaluation) -> None:
        """Write one event. Raises whatever the provider's processors raise."""
        context = judged_span(evaluation.target)
        # Exporting threads suppress instrumentation, and Logfire's processors drop what is logged meanwhile.
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
