"""Outlets made of what the settings say, and one for each signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from goldspan.collector_processor.gateway.interfaces import Delivered, DeliveryResult, Exporter, Request, Signal
from goldspan.collector_processor.gateway.tls import ClientTls
from goldspan.scoring.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one outlet sends to, and how."""

    endpoint: str
    """A URL; `/v1/traces` and so on are added for HTTP, as exporters do with OTEL_EXPORTER_OTLP_ENDPOINT."""
    protocol: str = "http/protobuf"
    """Or `grpc`."""
    compression: str = "gzip"
    """Or `zstd` (over HTTP), or `none`."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    tls: ClientTls = field(default_factory=ClientTls)
    connections: int = 8
    """Over HTTP, at once."""


def open_exporter(destination: Destination) -> Exporter:
    """Make an outlet; nothing is sent yet. Raises SettingsError where its certificates cannot be used."""
    # Imported when asked for: who sends over HTTP alone needs no gRPC for it.
    encoding = "identity" if destination.compression == "none" else destination.compression
    headers = {name.lower(): value for name, value in destination.headers.items()}
    if destination.protocol == "grpc":
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
    from goldspan.collector_processor.gateway.deliver.http_exporter import OtlpHttpExporter  # noqa: PLC0415

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
    """Takes what nobody downstream wants."""

    def deliver(self, request: Request) -> DeliveryResult:  # noqa: ARG002 - the protocol's
        """Drop a request."""
        return Delivered()

    def close(self) -> None:
        """Do nothing."""


class ExporterBySignal:
    """Delivers each signal through the outlet that is its own."""

    def __init__(self, outlets: Mapping[Signal, Exporter]) -> None:
        self._outlets = outlets

    def deliver(self, request: Request) -> DeliveryResult:
        """Make one attempt."""
        return self._outlets[request.signal].deliver(request)

    def replace(self, outlets: Mapping[Signal, Exporter]) -> None:
        """Deliver through these from now on, and close the others."""
        before, self._outlets = self._outlets, outlets
        _close(before)

    def close(self) -> None:
        """Close each outlet once."""
        _close(self._outlets)


def _close(outlets: Mapping[Signal, Exporter]) -> None:
    for outlet in {id(one): one for one in outlets.values()}.values():
        outlet.close()
