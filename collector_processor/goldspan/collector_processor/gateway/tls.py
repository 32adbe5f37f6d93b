"""Certificates: what the gateway shows to clients, and asks of them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from goldspan.scoring.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files of a server; with `client_ca`, only clients with a certificate of that authority are let in."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Make what the HTTP server needs. Raises SettingsError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(context)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """Read the files into a context. Raises SettingsError."""
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"TLS: {self.certificate}, {self.key}, {self.client_ca}: {error}") from None

    def pem(self) -> ServerPem:
        """Read what the gRPC server needs. Raises SettingsError."""
        # Made and thrown away: gRPC says nothing of a key that does not fit.
        self.context()
        return ServerPem(_read(self.key), _read(self.certificate), _read_if(self.client_ca))


@dataclass(frozen=True, slots=True)
class ServerPem:
    """The same files, read."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What an outlet trusts, and shows of itself."""

    ca: Path | None = None
    """Authorities to trust instead of the system's."""
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Make what an HTTP client needs. Raises SettingsError."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"TLS: {self.ca}, {self.certificate}, {self.key}: {error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def pem(self) -> ClientPem:
        """Read what a gRPC client needs. Raises SettingsError."""
        self.context()
        return ClientPem(_read_if(self.ca), _read_if(self.key), _read_if(self.certificate))


@dataclass(frozen=True, slots=True)
class ClientPem:
    """The same files, read."""

    ca: bytes | None
    key: bytes | None
    certificate: bytes | None


def _read_if(path: Path | None) -> bytes | None:
    return None if path is None else _read(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"TLS: {path}: {error.strerror or error}") from None
