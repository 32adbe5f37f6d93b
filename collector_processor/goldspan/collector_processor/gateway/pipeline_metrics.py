"""What the inside of the gateway counts, as samples for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from goldspan.collector_processor.gateway.contract import Sample

if TYPE_CHECKING:
    from goldspan.collector_processor.gateway.pipeline import GatewayPipeline

_NONE: Mapping[str, str] = {}


def samples(pipeline: GatewayPipeline) -> Iterator[Sample]:
    """Yield one sample after another; each name begins with `goldspan_`."""
    stage, dispatcher = pipeline.stage, pipeline.dispatcher
    for name, label, counter in (
        ("received_requests", "signal", pipeline.received),
        ("received_bytes", "signal", pipeline.received_bytes),
        ("turned_away_requests", "reason", pipeline.turned_away),
        ("delivered_requests", "signal", stage.outbox.delivered),
        ("refused_requests", "signal", stage.outbox.refused),
        ("rejected_items", "signal", stage.outbox.rejected),
        ("delivery_retries", "signal", dispatcher.retries),
        ("released_early_spans", "reason", stage.released_early),
        ("calls_not_evaluated", "reason", stage.coverage.reasons),
        ("problems", "code", stage.problems),
        ("failures", "where", pipeline.failures),
    ):
        for value, count in list(counter.items()):
            yield f"goldspan_{name}_total", {label: str(value)}, count
    for (level, result), count in list(stage.coverage.results.items()):
        yield "goldspan_results_total", {"level": level, "label": result}, count
    tenants = stage.tenants
    stats = [tenant.engine.stats for tenant in tenants]
    seen, never_seen = stage.coverage.counts()
    letters = stage.outbox.dead_letters
    for name, amount in (
        ("delivery_attempts_total", dispatcher.attempts),
        ("waiting_requests", dispatcher.waiting),
        ("waiting_bytes", dispatcher.waiting_bytes),
        ("backlog_bytes", pipeline.backlog),
        ("journal_bytes", pipeline.journal_bytes),
        ("journal_max_bytes", 0 if pipeline.settings.journal is None else pipeline.settings.journal_max_bytes),
        ("open_bodies", len(stage.ledger)),
        ("held_spans", sum(tenant.held_spans for tenant in tenants)),
        ("held_bytes", sum(tenant.held_bytes for tenant in tenants)),
        ("shelf_bytes", stage.shelf_bytes),
        ("tenants", len(tenants)),
        ("evicted_tenants_total", stage.evicted_tenants),
        ("read_spans_total", sum(one.spans for one in stats)),
        ("repeated_spans_total", sum(one.repeated for one in stats)),
        ("late_records_total", sum(one.late for one in stats)),
        ("evicted_sessions_total", sum(one.evicted_sessions for one in stats)),
        ("sessions_without_golden_total", stage.sessions_without_golden),
        ("goldens_seen", seen),
        ("goldens_never_seen", never_seen),
        ("dead_letters_total", 0 if letters is None else letters.written),
        ("dead_letters_dropped_total", 0 if letters is None else letters.dropped),
    ):
        yield f"goldspan_{name}", _NONE, amount
    for sink, exporter in pipeline.feed.exporters.items():
        yield "goldspan_sink_waiting_scores", {"sink": sink}, exporter.waiting
        yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "delivered"}, exporter.delivered
        yield "goldspan_sink_scores_total", {"sink": sink, "outcome": "dropped"}, exporter.dropped
    yield from dispatcher.delays.samples("goldspan_delivery_delay_seconds")
