"""TLS of the receivers, the admin pages and the exporters: settings, and the contexts made from the files they name."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import model_validator

from goldspan.collector_processor.serving.field_types import Section
from goldspan.scoring.errors import SettingsError

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Pem:
    """The content of PEM files, as gRPC takes it."""

    ca: bytes | None
    key: bytes | None
    certificate: bytes | None


class ServerTls(Section):
    """The certificate of the server, and whether clients need one."""

    certificate: Path
    """The certificate chain, as PEM."""
    key: Path
    """The private key, as PEM."""
    client_ca: Path | None = None
    """The CA of client certificates, as PEM. With it, clients must present a certificate of this CA (mTLS)."""

    def context(self) -> ssl.SSLContext:
        """Make the context of an HTTP server. Raises SettingsError."""
        return self._load()[0]

    def pem(self) -> Pem:
        """Read the files for a gRPC server. Raises SettingsError."""
        return self._load()[1]  # gRPC does not report a key that does not match its certificate

    def _load(self) -> tuple[ssl.SSLContext, Pem]:
        """Return the files as a context and as bytes, both of the same content, in which key and certificate match.

        Whoever renews a certificate replaces one file after the other, perhaps while they are read.
        """
        for _ in range(_ATTEMPTS):
            pem = self._read_files()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_cert_chain(self.certificate, self.key)
                if self.client_ca is not None:
                    context.load_verify_locations(self.client_ca)
                    context.verify_mode = ssl.CERT_REQUIRED
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(f"TLS: {self.certificate}, {self.key}, {self.client_ca}: {error}") from None
            if self._read_files() == pem:
                return context, pem
        raise SettingsError(f"TLS: {self.certificate}, {self.key}, {self.client_ca}: they change while they are read")

    def _read_files(self) -> Pem:
        return Pem(_read(self.client_ca), _read(self.key), _read(self.certificate))


class ClientTls(Section):
    """The CA to trust, and the client certificate."""

    ca: Path | None = None
    """CA certificates to trust instead of the system's, as PEM."""
    certificate: Path | None = None
    """The client certificate to present (mTLS), as PEM."""
    key: Path | None = None
    """Its private key, as PEM."""

    def context(self) -> ssl.SSLContext:
        """Make the context of an HTTP client. Raises SettingsError."""
        _check(self.ca, self.certificate, self.key)
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"TLS: {self.ca}, {self.certificate}, {self.key}: {error}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def pem(self) -> Pem:
        """Read the files for a gRPC client. Raises SettingsError."""
        self.context()
        return Pem(_read(self.ca), _read(self.key), _read(self.certificate))

    @model_validator(mode="after")
    def _both_or_none(self) -> ClientTls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("expected `certificate` and `key` together")
        return self


def _check(*paths: Path | None) -> None:
    """Raise SettingsError for what is no file: reading a pipe may never end."""
    for path in filter(None, paths):
        with suppress(OSError):
            if path.exists() and not path.is_file():
                raise SettingsError(f"TLS: {path} is a pipe, a device or a folder, expected a regular file")


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise SettingsError(f"TLS: {path}: {error.strerror or error}") from None
