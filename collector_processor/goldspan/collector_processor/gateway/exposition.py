"""`/metrics`: what was counted, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from goldspan.collector_processor.gateway.contract import Sample

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of the text."""

Source = Callable[[], Iterable[Sample]]

_TOTAL = "_total"
_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
_HELP = {
    "goldspan_receiver_requests": "Requests by receiver, signal and outcome.",
    "goldspan_receiver_bytes": "Bytes of request bodies, as they came.",
    "goldspan_receiver_dropped_items": "Spans, log records and data points of OTLP/JSON that could not be read.",
    "goldspan_receiver_requests_in_flight": "Requests on their way to the journal.",
    "goldspan_receiver_bytes_in_flight": "Their bytes.",
    "goldspan_receiver_connections": "Open connections of the HTTP receiver.",
    "goldspan_receiver_connections_turned_away": "Connections closed for being too many, too slow or idle.",
    "goldspan_export_attempts": "Attempts to deliver, by signal and outcome.",
    "goldspan_export_bytes": "Bytes of requests that were delivered, uncompressed.",
    "goldspan_export_rejected_items": "Items that the receiver did not take of requests it took.",
    "goldspan_goldens_reloads": "Golden files read anew, by outcome.",
    "goldspan_goldens_loaded_timestamp_seconds": "When the goldens in use were read.",
}


class Exposition:
    """Everything that sources count, gathered when it is asked for."""

    def __init__(self, *sources: Source) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Gathered(sources))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the text."""
        return generate_latest(self._registry)


class _Gathered(Collector):
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
                families[family] = Metric(family, _HELP.get(family, ""), kind)
            families[family].add_sample(name, dict(labels), value)
        yield from families.values()


def _family(name: str, histograms: set[str]) -> tuple[str, str]:
    if name.endswith(_TOTAL):
        return name.removesuffix(_TOTAL), "counter"
    for suffix in _OF_A_HISTOGRAM:
        base = name.removesuffix(suffix)
        if base != name and base in histograms:
            return base, "histogram"
    return name, "gauge"
