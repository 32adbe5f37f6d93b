"""Where goldspan sends spans and events itself, as the variables of OTLP exporters say.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opentelemetry.util.re import parse_env_headers

from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.server_urls import check_url
from goldspan.scoring.errors import SettingsError

if TYPE_CHECKING:
    import ssl

TIMEOUT = 10.0
"""Seconds for one request."""
_MAX_TIMEOUT = 1e6
COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@dataclass(frozen=True, slots=True)
class RecordKind:
    """What is sent, and what differs for it."""

    name: str
    """Of the records, in the log."""
    option: str
    """Of the door, which says where they are sent."""
    expected: str
    """What that option may be."""
    signal: Signal
    """Its name, in capitals, is a part of the names of variables."""


EVENTS = RecordKind(
    "events",
    "events",
    "'provider', 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    Signal.LOGS,
)
SPANS = RecordKind(
    "spans",
    "exporter",
    "an exporter, 'otlp' or the URL of an OTLP/HTTP receiver such as http://localhost:4318",
    Signal.TRACES,
)


@dataclass(frozen=True, slots=True)
class OtlpReceiver:
    """Where records are sent, and how."""

    endpoint: str
    """The URL for records of this signal."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float = TIMEOUT
    compression: str = ""
    """`gzip` or `deflate`; empty: none."""
    certificate: str = ""
    """A file of CAs; empty: those of the system."""
    client_certificate: str = ""
    client_key: str = ""

    @classmethod
    def of(cls, kind: RecordKind, chosen: str, environment: Mapping[str, str]) -> OtlpReceiver:
        """Read the variables of OTLP exporters. `chosen` is `otlp`, or the URL of a receiver in place of theirs.

        Raises SettingsError.
        """
        if find_spec("urllib3") is None:
            raise SettingsError(f"{kind.option}: {chosen!r} needs urllib3: pip install 'goldspan[sinks]'")
        own = f"OTEL_EXPORTER_OTLP_{kind.signal.upper()}_"

        def variable(name: str) -> tuple[str, str]:
            """Return the variable that counts, and its value; an empty one does not count."""
            of_all = f"OTEL_EXPORTER_OTLP_{name}"
            place = f"{own}{name}" if environment.get(f"{own}{name}", "").strip() else of_all
            return place, environment.get(place, "").strip()

        def refused(place: str, value: object, expected: str) -> SettingsError:
            return SettingsError(f"{place}: found {value!r}, expected {expected}")

        place, base = kind.option, chosen
        if chosen == "otlp":
            place, protocol = variable("PROTOCOL")
            if protocol not in ("", "http/protobuf"):
                raise SettingsError(
                    f"{kind.option}: found the protocol {protocol!r} in {place}, expected http/protobuf; "
                    "or name an OTLP/HTTP receiver: 'http://localhost:4318'"
                )
            place, base = variable("ENDPOINT")
        try:
            check_url(base or "http://localhost:4318", kind.expected, "OTEL_EXPORTER_OTLP_HEADERS takes secrets")
        except ValueError as error:
            raise SettingsError(f"{place}: {error}") from None
        endpoint = base if place.startswith(own) else kind.signal.url(base or "http://localhost:4318")
        place, compression = variable("COMPRESSION")
        if compression.lower() not in ("", "none", *COMPRESS):
            raise refused(place, compression, "none, gzip or deflate")
        place, seconds = variable("TIMEOUT")
        try:
            timeout = float(seconds or TIMEOUT)
        except ValueError:
            raise refused(place, seconds, "seconds") from None
        if not 0 < timeout < _MAX_TIMEOUT:
            raise refused(place, seconds, "seconds, more than 0")
        place, pairs = variable("HEADERS")
        receiver = cls(
            endpoint,
            _headers_of(place, pairs),
            timeout,
            compression.lower().removeprefix("none"),
            variable("CERTIFICATE")[1],
            variable("CLIENT_CERTIFICATE")[1],
            variable("CLIENT_KEY")[1],
        )
        receiver.tls()
        return receiver

    def tls(self) -> ssl.SSLContext | None:
        """Return how servers are verified; None for the defaults. Raises SettingsError if a file cannot be used."""
        if not (self.certificate or self.client_certificate):
            return None
        import ssl  # noqa: PLC0415 - where there are certificates

        try:
            context = ssl.create_default_context(cafile=self.certificate or None)
            if self.client_certificate:
                context.load_cert_chain(self.client_certificate, self.client_key or None)
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (self.certificate, self.client_certificate, self.client_key)))
            raise SettingsError(f"the certificates of OTEL_EXPORTER_OTLP_* ({files}) cannot be used: {error}") from None
        return context


def _headers_of(place: str, pairs: str) -> Mapping[str, str]:
    """Read the headers of a variable. Raises SettingsError."""
    headers = parse_env_headers(pairs, liberal=True)
    if bad := [name for name, value in headers.items() if not (name + value).isascii() or not value.isprintable()]:
        raise SettingsError(f"{place}: {bad[0]!r} has characters that no header can have, expected printable ASCII")
    return headers
