"""The metric points of evaluations as OTLP requests."""

from __future__ import annotations

import time
from collections.abc import Iterable

from goldspan.collector_processor.emit import names
from goldspan.collector_processor.emit.emitters import MetricEmitter
from goldspan.collector_processor.emit.encoded_points import EncodedPoints
from goldspan.collector_processor.emit.evaluation import Evaluation

_SERVICE = "goldspan-gateway"


class TenantMetrics:
    """The metric points of one tenant, cumulative since the start of the process.

    Each request contains all points, so of several that wait to be delivered only the newest is needed.
    """

    def __init__(self, instance: str, service: str = _SERVICE) -> None:
        """`instance` distinguishes the points of this process from those of others of this service."""
        resource = {names.SERVICE_NAME.name: service, "service.instance.id": instance}
        self._points = EncodedPoints(resource, time.time_ns)
        self._emitter = MetricEmitter(self._points)

    def record(self, evaluations: Iterable[Evaluation]) -> None:
        """Count evaluations."""
        self._emitter.record(evaluations)

    def record_without_golden(self, sessions: int) -> None:
        """Count sessions that no golden wants."""
        self._emitter.record_no_golden(sessions)

    def encoded(self) -> bytes:
        """Return an `ExportMetricsServiceRequest` with every point; empty without points."""
        return self._points.encoded()
