"""Removes what a client wrote under goldspan's names from encoded requests, where clients are not trusted with scores.

    traces    attributes of resources, scopes, spans, span events and links; span events that are evaluations
    logs      attributes of resources, scopes and records; records that are evaluations
    metrics   attributes of resources and scopes; metrics

Nearly every request holds none of the names: then a search is all it costs. Of the others only attributes and names
are parsed. Evaluations of other metrics stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from goldspan.collector_processor.emit.names import EVALUATION_NAME, is_own
from goldspan.collector_processor.encoded_spans.span_groups import is_score
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.otlp_protobuf import message_class
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.metric_registry import BUILT_IN_METRICS
from goldspan.scoring.run import Scorer

_EVALUATION_NAME = EVALUATION_NAME.name.encode()


class ForeignScores:
    """The names of some metrics; gives requests without them. For any number of threads."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = frozenset(metrics)
        self._encoded = {name.encode() for metric in self._metrics for name in (metric, metric.replace(".", "_"))}
        self._clean = {
            Signal.TRACES: self._clean_span,
            Signal.LOGS: self._clean_record,
            Signal.METRICS: self._clean_metric,
        }

    @classmethod
    def of(cls, goldens: GoldenIndex, scorer: Scorer) -> ForeignScores:
        """Name the metrics that are built in, and those that the scorer or a golden asks for."""
        chosen = {choice.metric.name for choice in (*scorer.metrics, *scorer.later)}
        of_goldens = {choice.name for golden in goldens.goldens for choice in golden.metrics}
        return cls({*BUILT_IN_METRICS, *chosen, *of_goldens})

    def remove(self, signal: Signal, body: bytes) -> tuple[bytes, int] | None:
        """Return a request without foreign scores, and how many attributes, events, records and metrics were removed.

        A span, a record or a metric that is broken and may hold one is removed whole. None: the body is no request.
        """
        if not self._may_hold(body):
            return body, 0
        try:
            request = message_class("AnyRequest").FromString(body)
        except DecodeError:
            return None
        removed = 0
        for resource in request.resources:
            removed += self._clean_attributes(resource.resource)
            for scope in resource.scopes:
                removed += self._clean_attributes(scope.scope)
                removed += self._clean_all(scope.items, signal)
        return (bytes(request.SerializeToString()), removed) if removed else (body, 0)

    def _may_hold(self, encoded: bytes) -> bool:
        return any(name in encoded for name in self._encoded)

    def _clean_all(self, items: Any, signal: Signal) -> int:
        """Replace the spans, records or metrics of a scope by clean ones. Returns how much was removed."""
        removed = 0
        kept: list[bytes] = []
        for item in items:
            clean, count = item, 0
            if self._may_hold(item):
                try:
                    clean, count = self._clean[signal](item)
                except DecodeError:
                    clean, count = None, 1
            removed += count
            if clean is not None:
                kept.append(clean)
        if removed:
            del items[:]
            items.extend(kept)
        return removed

    def _clean_span(self, encoded: bytes) -> tuple[bytes | None, int]:
        span = message_class("Span").FromString(encoded)
        removed = self._clean_attributes(span)
        for parts, kind in ((span.events, "EventParts"), (span.links, "LinkParts")):
            kept: list[bytes] = []
            for part in parts:
                message = message_class(kind).FromString(part)
                if self._is_evaluation(message):
                    removed += 1
                elif count := self._clean_attributes(message):
                    removed += count
                    kept.append(message.SerializeToString())
                else:
                    kept.append(part)
            del parts[:]
            parts.extend(kept)
        return (span.SerializeToString() if removed else encoded), removed

    def _clean_record(self, encoded: bytes) -> tuple[bytes | None, int]:
        record = message_class("RecordParts").FromString(encoded)
        if self._is_evaluation(record):
            return None, 1
        removed = self._clean_attributes(record)
        return (record.SerializeToString() if removed else encoded), removed

    def _clean_metric(self, encoded: bytes) -> tuple[bytes | None, int]:
        name = str(message_class("MetricParts").FromString(encoded).name, "utf-8", "replace")
        return (None, 1) if is_own(name, self._metrics) else (encoded, 0)

    def _clean_attributes(self, holder: Any) -> int:
        kept = [raw for raw in holder.attributes if not is_score(raw, self._metrics)]
        removed = len(holder.attributes) - len(kept)
        if removed:
            del holder.attributes[:]
            holder.attributes.extend(kept)
        return removed

    def _is_evaluation(self, event: Any) -> bool:
        """Tell whether a log record or a span event is the evaluation of one of these metrics."""
        for raw in event.attributes:
            if _EVALUATION_NAME in raw:
                attribute = message_class("TextAttribute").FromString(raw)
                if attribute.key == _EVALUATION_NAME and attribute.value.string_value in self._encoded:
                    return True
        return False
