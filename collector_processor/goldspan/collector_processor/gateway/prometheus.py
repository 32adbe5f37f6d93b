"""`/metrics`: what was counted, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from goldspan.collector_processor.gateway.interfaces import Sample

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of the text."""

Source = Callable[[], Iterable[Sample]]

_TOTAL = "_total"
_HISTOGRAM_SUFFIXES = ("_bucket", "_sum", "_count")
HELP = {
    "goldspan_receiver_requests_total": "Requests, by receiver, signal and outcome.",
    "goldspan_receiver_bytes_total": "Bytes of their bodies, as they came.",
    "goldspan_receiver_dropped_items_total": "Spans, log records and data points of OTLP/JSON that could not be read.",
    "goldspan_receiver_requests_in_flight": "Requests on their way to the journal.",
    "goldspan_receiver_bytes_in_flight": "Bytes of their bodies, compressed and not.",
    "goldspan_receiver_connections": "Open connections of the HTTP receiver.",
    "goldspan_receiver_connections_turned_away_total": "Connections closed for being too many, too slow or idle.",
    "goldspan_goldens_reloads_total": "Golden files read anew, by outcome: loaded or refused.",
    "goldspan_goldens_loaded_timestamp_seconds": "When the goldens in use were read.",
    "goldspan_received_requests_total": "Requests that were acknowledged.",
    "goldspan_received_bytes_total": "Their bytes, uncompressed.",
    "goldspan_not_accepted_requests_total": "Requests that were told to come again, or refused, by reason.",
    "goldspan_delivered_requests_total": "Requests that the receiver downstream took.",
    "goldspan_refused_requests_total": "Requests that it refused for good.",
    "goldspan_rejected_items_total": "Items it did not take of requests that it took.",
    "goldspan_delivery_attempts_total": "Attempts to deliver.",
    "goldspan_delivery_retries_total": "Attempts that failed and are made again.",
    "goldspan_delivery_delay_seconds": "From when a request could leave to its delivery: a histogram.",
    "goldspan_waiting_requests": "Requests that wait to be delivered.",
    "goldspan_waiting_bytes": "Their bytes.",
    "goldspan_backlog_bytes": "Bytes that were acknowledged and not looked at yet.",
    "goldspan_journal_bytes": "Bytes on disk.",
    "goldspan_journal_max_bytes": "What may be there; beyond it senders are told to come again.",
    "goldspan_open_bodies": "Acknowledged requests of which something still waits.",
    "goldspan_held_spans": "Spans that wait for their turn's scores.",
    "goldspan_held_bytes": "Their bytes.",
    "goldspan_unread_span_bytes": "Encoded spans of traces that may turn out to be of interest.",
    "goldspan_released_early_spans_total": "Spans that left without their scores, by reason.",
    "goldspan_tenants": "Sets of forwarded headers with state.",
    "goldspan_evicted_tenants_total": "Tenants that were judged and dropped for others.",
    "goldspan_read_spans_total": "Spans that the engine read.",
    "goldspan_repeated_spans_total": "Spans that came again.",
    "goldspan_late_records_total": "Records of runs that were already dropped.",
    "goldspan_evicted_sessions_total": "Sessions that were judged as incomplete and dropped for others.",
    "goldspan_sessions_without_golden_total": "Sessions that no golden is for.",
    "goldspan_goldens_seen": "Goldens that were seen since the start.",
    "goldspan_goldens_never_seen": "Goldens that were not.",
    "goldspan_results_total": "First results, by level and label.",
    "goldspan_calls_not_evaluated_total": "Calls without a score, by reason.",
    "goldspan_sink_waiting_scores": "Scores that a back-end with an API of its own does not have yet.",
    "goldspan_sink_scores_total": "Scores that it took, and those that were given up, by outcome.",
    "goldspan_problems_total": "Records that could not be used, by code.",
    "goldspan_failures_total": "Errors of goldspan's own that were contained, by place; the log has the first of each.",
    "goldspan_dead_letters_total": "Refused requests that were kept.",
    "goldspan_dead_letters_dropped_total": "Refused requests dropped for newer ones, or that could not be written.",
}
"""What each number means, by its name."""


class MetricsPage:
    """Everything that sources count, gathered when it is asked for."""

    def __init__(self, *sources: Source) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_SamplesCollector(sources))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the text."""
        return generate_latest(self._registry)


class _SamplesCollector(Collector):
    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources

    def describe(self) -> Iterator[Metric]:
        """Promise no name: so the registry does not gather to learn them."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Gather."""
        samples = [sample for source in self._sources for sample in source()]
        histograms = {name.removesuffix("_bucket") for name, _, _ in samples if name.endswith("_bucket")}
        families: dict[str, Any] = {}
        for name, labels, value in samples:
            family, kind = _family(name, histograms)
            if family not in families:
                families[family] = Metric(family, HELP.get(name, HELP.get(family, "")), kind)
            families[family].add_sample(name, dict(labels), value)
        yield from families.values()


def _family(name: str, histograms: set[str]) -> tuple[str, str]:
    if name.endswith(_TOTAL):
        return name.removesuffix(_TOTAL), "counter"
    for suffix in _HISTOGRAM_SUFFIXES:
        base = name.removesuffix(suffix)
        if base != name and base in histograms:
            return base, "histogram"
    return name, "gauge"
