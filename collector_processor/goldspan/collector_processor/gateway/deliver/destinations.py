"""The exporters made for destinations, and the choice of exporter by signal."""

from __future__ import annotations

from collections.abc import Mapping

from goldspan.collector_processor.gateway.deliver.http_exporter import OtlpHttpExporter
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Exporter, ExportRequest
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.otlp_signals import Signal


def open_exporter(destination: Destination) -> Exporter:
    """Make an exporter; it sends nothing yet. Raises SettingsError if its certificates cannot be used."""
    if destination.protocol == "grpc":
        # Imported when needed: gRPC takes 15 MiB of memory.
        from goldspan.collector_processor.gateway.deliver.grpc_exporter import OtlpGrpcExporter  # noqa: PLC0415

        return OtlpGrpcExporter(destination)
    return OtlpHttpExporter(destination)


class ExporterBySignal:
    """Sends each signal through its own exporter. A signal with none is dropped."""

    def __init__(self, exporters: Mapping[Signal, Exporter | None]) -> None:
        self._exporters = exporters

    def deliver(self, request: ExportRequest) -> DeliveryResult:
        """Make one attempt."""
        exporter = self._exporters[request.signal]
        return Delivered() if exporter is None else exporter.deliver(request)

    def replace(self, exporters: Mapping[Signal, Exporter | None]) -> None:
        """Use these from now on, and close the others."""
        before, self._exporters = self._exporters, exporters
        _close(before)

    def close(self) -> None:
        """Close each exporter once."""
        _close(self._exporters)


def _close(exporters: Mapping[Signal, Exporter | None]) -> None:
    for exporter in set(exporters.values()):
        if exporter is not None:
            exporter.close()
