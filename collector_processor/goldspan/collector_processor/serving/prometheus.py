"""`/metrics` in Prometheus' text format: names, help texts and rendering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

Sample = tuple[str, Mapping[str, str], float]
"""One sample of `/metrics`: name, labels, value.

A name that ends in `_total` is a counter. Names that differ only in `_bucket`, `_sum` and `_count` are one histogram,
as in Prometheus' text format. Any other name is a gauge.
"""

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of the text."""
HELP = {
    "goldspan_receiver_requests_total": "Received requests, by protocol, signal and outcome.",
    "goldspan_receiver_bytes_total": "Bytes of their bodies, as received.",
    "goldspan_receiver_dropped_items_total": "Spans, log records and metrics of OTLP/JSON that were invalid.",
    "goldspan_receiver_bad_fields_total": "Fields of OTLP/JSON that could not be read and were left out.",
    "goldspan_receiver_requests_in_flight": "Requests that are not in the journal yet.",
    "goldspan_receiver_bytes_in_flight": "Bytes of their bodies, compressed and decompressed.",
    "goldspan_receiver_connections": "Open connections of the HTTP receiver.",
    "goldspan_receiver_connections_turned_away_total": "Connections closed for being too many, too slow or idle.",
    "goldspan_goldens_reloads_total": "Reloads of golden files, by outcome: loaded or refused.",
    "goldspan_goldens_loaded_timestamp_seconds": "When the goldens in use were loaded.",
    "goldspan_received_requests_total": "Acknowledged requests.",
    "goldspan_received_bytes_total": "Bytes of their bodies, decompressed.",
    "goldspan_not_accepted_requests_total": "Requests that were refused or answered with Retry-After, by reason.",
    "goldspan_removed_scores_total": "What clients wrote under goldspan's names and `trust_scores: false` removed.",
    "goldspan_delivered_requests_total": "Requests that the back-end accepted.",
    "goldspan_refused_requests_total": "Requests that the back-end refused with a status that is not retryable.",
    "goldspan_rejected_items_total": "Items that the back-end rejected in a partial success.",
    "goldspan_delivery_attempts_total": "Attempts to send a request.",
    "goldspan_delivery_retries_total": "Failed attempts that are retried.",
    "goldspan_delivery_delay_seconds": "Time from when a request is ready to be sent until its delivery: a histogram.",
    "goldspan_delivery_stalled_seconds": "Time without a delivery while requests wait, by signal; 0 while none waits.",
    "goldspan_waiting_requests": "Requests that wait for delivery.",
    "goldspan_waiting_bytes": "Bytes of their bodies.",
    "goldspan_backlog_bytes": "Bytes that are acknowledged and not processed yet.",
    "goldspan_journal_bytes": "Size of the journal on disk.",
    "goldspan_journal_max_bytes": "Its limit. Beyond it requests are answered with Retry-After.",
    "goldspan_open_bodies": "Acknowledged requests that are not wholly delivered yet.",
    "goldspan_held_spans": "Spans that wait for the scores of their turn.",
    "goldspan_held_bytes": "Bytes of these spans.",
    "goldspan_unread_span_bytes": "Encoded spans of traces that no golden matches so far.",
    "goldspan_released_early_spans_total": "Spans that were sent without their scores, by reason.",
    "goldspan_text_bytes": "Messages, results and definitions of tools in memory, for metrics that ask for them.",
    "goldspan_tenants": "Tenants (sets of forwarded headers) in memory.",
    "goldspan_evicted_tenants_total": "Tenants that were scored and dropped, to free memory.",
    "goldspan_read_spans_total": "Spans that the engine read.",
    "goldspan_repeated_spans_total": "Spans that were received again.",
    "goldspan_late_records_total": "Records of runs that were already dropped.",
    "goldspan_evicted_sessions_total": "Sessions that were scored as incomplete and dropped, to free memory.",
    "goldspan_sessions_without_golden_total": "Sessions that no golden matches.",
    "goldspan_goldens_seen": "Goldens that matched a session since the start.",
    "goldspan_goldens_never_seen": "Goldens that matched none.",
    "goldspan_results_total": "First results, by metric, level and label.",
    "goldspan_doubted_turns_total": "Turns whose telemetry contradicts how they were read, by dialect and doubt.",
    "goldspan_calls_not_evaluated_total": "Calls without a score, by reason.",
    "goldspan_sink_waiting_scores": "Scores that wait to be sent to a back-end with its own API.",
    "goldspan_sink_scores_total": "Scores that such a back-end accepted, and those that were dropped, by outcome.",
    "goldspan_judge_waiting_sessions": "Sessions that wait for the model of `scoring.judge`.",
    "goldspan_judge_dropped_sessions_total": "Sessions that it was not asked about: too many waited, or the end came.",
    "goldspan_judge_calls_total": "Requests to the model.",
    "goldspan_judge_tokens_total": "Tokens of these.",
    "goldspan_problems_total": "Records that could not be used, by code.",
    "goldspan_failures_total": "Internal errors that were contained, by place. The log has the first of each.",
    "goldspan_threads": "Threads that the gateway needs, by name.",
    "goldspan_threads_running": "Those that run. One that failed runs again after a pause.",
    "goldspan_dead_letters_total": "Refused requests that were kept in files.",
    "goldspan_dead_letters_dropped_total": "Refused requests removed for newer ones, or not writable.",
}
"""The help text of each metric, by name."""
STREAM_HELP = {
    "goldspan_stream_partitions": "Partitions that this worker has, by stage.",
    "goldspan_stream_lag_records": "Records that wait to be read, by topic and partition.",
    "goldspan_stream_watermark_delay_seconds": "How far the event time of a partition is behind the clock.",
    "goldspan_stream_paused": "1 while spans and logs of a partition are paused, since its sessions wait.",
    "goldspan_stream_read_records_total": "Records that were read, by topic.",
    "goldspan_stream_sent_records_total": "Records that were written, by topic.",
    "goldspan_stream_dead_letters_total": "Records that could not be read, by the topic they came from.",
    "goldspan_stream_too_large_total": "Outputs that exceeded `kafka.max_message` and were dropped, by topic.",
    "goldspan_stream_open_traces": "Traces whose records are kept.",
    "goldspan_stream_open_sessions": "Sessions whose state is kept.",
    "goldspan_stream_spans_total": "Spans that were read; most are passed on unread.",
    "goldspan_stream_repeated_total": "Spans and log records that came again.",
    "goldspan_stream_late_total": "Records of traces and runs that were already dropped.",
    "goldspan_stream_held_past_timeout_total": "Spans that were passed on without scores after `scoring.hold_timeout`.",
    "goldspan_stream_sessions_without_golden_total": "Sessions that no golden matches.",
    "goldspan_stream_starts_total": "Starts, the first and those after failures of Kafka.",
    "goldspan_stream_recovery_seconds_total": "Time spent reading state from changelogs.",
    "goldspan_removed_scores_total": HELP["goldspan_removed_scores_total"],
    "goldspan_results_total": HELP["goldspan_results_total"],
    "goldspan_doubted_turns_total": HELP["goldspan_doubted_turns_total"],
    "goldspan_problems_total": HELP["goldspan_problems_total"],
}
"""The help text of each metric of a worker of `goldspan stream`."""

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0)
"""Seconds: from a fast network, over a retry or two, to a back-end that is down for an hour."""


class DurationHistogram:
    """A histogram of durations. Safe for use from any thread."""

    def __init__(self) -> None:
        self._histogram = Histogram("_", "", buckets=_BUCKETS, registry=None)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._histogram.observe(seconds)

    def samples(self, name: str) -> Iterator[Sample]:
        """Yield the samples of the histogram under this name."""
        for metric in self._histogram.collect():
            for sample in metric.samples:
                if sample.name != "__created":
                    yield name + sample.name.removeprefix("_"), sample.labels, sample.value


class MetricsPage(Collector):
    """The samples of all sources, gathered for each request."""

    def __init__(self, *sources: Callable[[], Iterable[Sample]], help_texts: Mapping[str, str] = HELP) -> None:
        self._sources = sources
        self._help = help_texts
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """Return the page."""
        return generate_latest(self._registry)

    def describe(self) -> Iterator[Metric]:
        """Name no metric, so that registering does not gather samples."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Gather the samples."""
        samples = [sample for source in self._sources for sample in source()]
        histograms = {name.removesuffix("_bucket") for name, _, _ in samples if name.endswith("_bucket")}
        metrics: dict[str, Any] = {}
        for name, labels, value in samples:
            base, kind = _base_and_kind(name, histograms)
            if base not in metrics:
                metrics[base] = Metric(base, self._help.get(name, self._help.get(base, "")), kind)
            metrics[base].add_sample(name, dict(labels), value)
        yield from metrics.values()


def _base_and_kind(name: str, histograms: set[str]) -> tuple[str, str]:
    if name.endswith("_total"):
        return name.removesuffix("_total"), "counter"
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in histograms:
            return base, "histogram"
    return name, "gauge"
