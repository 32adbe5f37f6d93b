"""Where each signal is sent: destinations, the exporters made for them, and the choice of exporter by signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from goldspan.collector_processor.gateway.deliver.http_exporter import OtlpHttpExporter
from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Exporter, Request, Signal
from goldspan.collector_processor.gateway.tls import ClientTls
from goldspan.scoring.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Destination:
    """One endpoint, and how requests are sent to it."""

    endpoint: str
    """A URL. For HTTP `/v1/traces` and so on are added, as exporters do with OTEL_EXPORTER_OTLP_ENDPOINT."""
    protocol: str = "http/protobuf"
    """Or `grpc`."""
    compression: str = "gzip"
    """Or `zstd` (HTTP only), or `none`."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    tls: ClientTls = field(default_factory=ClientTls)
    connections: int = 8
    """Open at once, over HTTP."""


def open_exporter(destination: Destination) -> Exporter:
    """Make an exporter; it sends nothing yet. Raises SettingsError if its certificates cannot be used."""
    encoding = "identity" if destination.compression == "none" else destination.compression
    headers = {name.lower(): value for name, value in destination.headers.items()}
    if destination.protocol == "grpc":
        # Imported when needed: gRPC takes 15 MiB of memory.
        from goldspan.collector_processor.gateway.deliver.grpc_exporter import OtlpGrpcExporter  # noqa: PLC0415

        if encoding == "zstd":
            raise SettingsError("compression: found zstd, expected gzip or none: gRPC has no zstd")
        scheme, _, target = destination.endpoint.rstrip("/").rpartition("://")
        return OtlpGrpcExporter(
            target,
            secure=scheme == "https",
            headers=headers,
            encoding=encoding,
            timeout=destination.timeout,
            tls=destination.tls,
        )
    base = destination.endpoint.rstrip("/")
    for signal in Signal:
        base = base.removesuffix(f"/v1/{signal}")
    return OtlpHttpExporter(
        {signal: f"{base}/v1/{signal}" for signal in Signal},
        headers=headers,
        encoding=encoding,
        timeout=destination.timeout,
        tls=destination.tls,
        connections=destination.connections,
    )


class DiscardingExporter:
    """Drops a signal that is disabled in the settings."""

    def deliver(self, request: Request) -> DeliveryResult:  # noqa: ARG002 - the interface has it
        """Drop a request."""
        return Delivered()

    def close(self) -> None:
        """Do nothing."""


class ExporterBySignal:
    """Sends each signal through its own exporter."""

    def __init__(self, exporters: Mapping[Signal, Exporter]) -> None:
        self._exporters = exporters

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt."""
        return self._exporters[request.signal].deliver(request)

    def replace(self, exporters: Mapping[Signal, Exporter]) -> None:
        """Use these from now on, and close the others."""
        before, self._exporters = self._exporters, exporters
        _close(before)

    def close(self) -> None:
        """Close each exporter once."""
        _close(self._exporters)


def _close(exporters: Mapping[Signal, Exporter]) -> None:
    for exporter in {id(one): one for one in exporters.values()}.values():
        exporter.close()
