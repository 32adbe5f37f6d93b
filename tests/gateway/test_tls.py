"""Certificates: who is let in, by both protocols."""

from __future__ import annotations

import datetime
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme

from goldspan.collector_processor.gateway.deliver.exporters import open_exporter
from goldspan.collector_processor.gateway.interfaces import Delivered, ExportRequest, Retry
from goldspan.collector_processor.gateway.settings.sections import Destination
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.field_types import ClientTls, ServerTls
from goldspan.collector_processor.serving.http_server import RequestLimits
from goldspan.scoring.errors import SettingsError
from rigs.gateway_rig import Gateway, gateway, one_span, post, read_all, status

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPAN = one_span().SerializeToString()
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


class Certificates:
    """An authority, another one, and the files of what they issued."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.stranger = trustme.CA(), trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.server = self.issue("server", "127.0.0.1", "localhost")
        self.clients = {
            "known": self.issue("known", "client@example.com"),
            "expired": self.issue("expired", "client@example.com", not_after=YESTERDAY),
            "strange": self.issue("strange", "client@example.com", authority=self.stranger),
        }

    def issue(
        self,
        name: str,
        *identities: str,
        not_after: datetime.datetime | None = None,
        authority: trustme.CA | None = None,
    ) -> tuple[Path, Path]:
        made = (authority or self.authority).issue_cert(*identities, not_after=not_after)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return certificate, key


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def running(certificates: Certificates) -> Iterator[Gateway]:
    tls = ServerTls(certificate=certificates.server[0], key=certificates.server[1], client_ca=certificates.ca)
    with gateway(limits=RequestLimits(handshake_timeout=1.0), tls=tls) as running:
        yield running


def over_http(running: Gateway, context: ssl.SSLContext) -> int:
    """The status of a request, 0 where the connection was refused."""
    try:
        with (
            socket.create_connection(("127.0.0.1", running.http_port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(post(SPAN))
            return status(read_all(secure))  # type: ignore[arg-type]
    except (ssl.SSLError, ConnectionResetError):
        return 0


def over_grpc(running: Gateway, ca: Path, client: tuple[Path, Path] | None) -> grpc.StatusCode:
    certificate, key = client or (None, None)
    credentials = grpc.ssl_channel_credentials(
        ca.read_bytes(), key and key.read_bytes(), certificate and certificate.read_bytes()
    )
    with grpc.secure_channel(f"127.0.0.1:{running.grpc_port}", credentials) as channel:
        try:
            channel.unary_unary(EXPORT, None, None)(SPAN, timeout=5)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("client", "let_in"), [("known", True), ("expired", False), ("strange", False), (None, False)])
def test_only_a_valid_certificate_of_the_authority_is_let_in(
    running: Gateway, certificates: Certificates, client: str | None, let_in: bool
) -> None:
    files = certificates.clients[client] if client else None
    context = ssl.create_default_context(cafile=certificates.ca)
    if files:
        context.load_cert_chain(*files)
    assert over_http(running, context) == (200 if let_in else 0)
    wanted = grpc.StatusCode.OK if let_in else grpc.StatusCode.UNAVAILABLE
    assert over_grpc(running, certificates.ca, files) == wanted


def test_old_versions_of_tls_are_refused(running: Gateway, certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(*certificates.clients["known"])
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert over_http(running, context) == 0


def test_a_handshake_that_never_ends_is_cut_off(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        began = time.monotonic()
        assert read_all(connection) == b""
    assert time.monotonic() - began < 8


def test_plain_text_is_no_way_in(running: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", running.http_port), timeout=10) as connection:
        connection.sendall(post(SPAN))
        assert status(read_all(connection)) == 0


def test_an_expired_server_is_noticed_by_its_clients(certificates: Certificates, tmp_path: Path) -> None:
    expired = certificates.issue("server-expired", "127.0.0.1", not_after=YESTERDAY)
    with gateway(tls=ServerTls(certificate=expired[0], key=expired[1])) as running:
        assert over_http(running, ssl.create_default_context(cafile=certificates.ca)) == 0


@pytest.mark.parametrize("damaged", [0, 1])
def test_a_new_pair_is_used_as_it_was_read_whatever_happens_to_its_files(
    certificates: Certificates, damaged: int
) -> None:
    files = certificates.issue(f"renewed-{damaged}", "127.0.0.1")
    trusting = ssl.create_default_context(cafile=certificates.ca)
    trusting.set_alpn_protocols(["h2", "http/1.1"])

    def serials() -> set[str]:
        found: set[str] = set()
        for port in (running.http_port, running.grpc_port):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
                trusting.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
            ):
                found.add(str((secure.getpeercert() or {})["serialNumber"]))
        return found

    with gateway(tls=ServerTls(certificate=files[0], key=files[1])) as running:
        before = serials()
        certificates.issue(f"renewed-{damaged}", "127.0.0.1")
        use = [running.http.reload_certificate(), running.grpc.reload_certificate()]
        files[damaged].write_text("damaged")
        for one in use:
            one()
        after = serials()
        assert len(before) == len(after) == 1
        assert before != after
        for door in (running.http, running.grpc):
            with pytest.raises(SettingsError):
                door.reload_certificate()
        assert serials() == after


@pytest.mark.parametrize("tls", [ServerTls, ClientTls])
def test_files_that_do_not_fit_are_named_at_the_start(
    certificates: Certificates, tls: type[ServerTls | ClientTls]
) -> None:
    certificate, key = certificates.server[0], certificates.clients["known"][1]
    with pytest.raises(SettingsError, match=r"server\.pem"):
        tls(certificate=certificate, key=key).pem()
    with pytest.raises(SettingsError, match=r"absent\.pem"):
        tls(certificate=certificate.with_name("absent.pem"), key=key).pem()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize(("client", "delivered"), [("known", True), ("expired", False), (None, False)])
def test_an_exporter_shows_its_certificate(
    running: Gateway, certificates: Certificates, protocol: str, client: str | None, delivered: bool
) -> None:
    """The receiver downstream is another gateway, which wants one."""
    port = running.grpc_port if protocol == "grpc" else running.http_port
    certificate, key = certificates.clients[client] if client else (None, None)
    tls = ClientTls(ca=certificates.ca, certificate=certificate, key=key)
    exporter = open_exporter(Destination(f"https://127.0.0.1:{port}", protocol, tls=tls, timeout=5))
    outcome = exporter.deliver(ExportRequest(Signal.TRACES, SPAN))
    exporter.close()
    if delivered:
        assert outcome == Delivered()
    else:
        assert isinstance(outcome, Retry)  # nothing is lost by a certificate that somebody forgot to renew


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_an_exporter_trusts_no_stranger(running: Gateway, tmp_path: Path, protocol: str) -> None:
    port = running.grpc_port if protocol == "grpc" else running.http_port
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    before = list(running.intake.requests)
    for tls in (ClientTls(), ClientTls(ca=tmp_path / "other.pem")):
        exporter = open_exporter(Destination(f"https://127.0.0.1:{port}", protocol, tls=tls, timeout=5))
        assert isinstance(exporter.deliver(ExportRequest(Signal.TRACES, SPAN)), Retry)
        exporter.close()
    assert running.intake.requests == before
