"""A whole gateway: doors, admin pages, goldens read anew, the end."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from goldspan.collector_processor.gateway.interfaces import Accepted, Delivered, ExportRequest, RequestStatus
from goldspan.collector_processor.gateway.receive.http_receiver import ReceivedRequest, RequestHandler
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.serving.golden_files import GoldenFiles, GoldenReloader
from goldspan.collector_processor.serving.http_server import RequestLimits
from goldspan.scoring.errors import FileError, SettingsError
from rigs.downstream import Downstream, grpc_downstream
from rigs.gateway_rig import one_span, read_all
from rigs.served_gateway import ANY_PORT, Served, serving
from rigs.waiting import until

SPAN = one_span().SerializeToString()
GOLDENS = "golden_set: g\ngoldens:\n  - {session: SESSION, calls: [{name: f}]}\n"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

Serve = Callable[..., Served]


@pytest.fixture
def settings(http: Downstream) -> str:
    return ANY_PORT + f"export: {{endpoint: '{http.endpoint}'}}\n"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts gateways with these settings, and stops them at the end."""
    with ExitStack() as running:

        def start(settings_text: str, **environ: str) -> Served:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            return running.enter_context(serving(settings_text, folder, environ))

        yield start


def samples(served: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = served.get("/metrics").data.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_comes_in_by_either_door_leaves_downstream(serve: Serve, settings: str, http: Downstream) -> None:
    served = serve(settings)
    assert served.post(SPAN).status == 200
    with grpc.insecure_channel(served.server.addresses["grpc"]) as channel:
        assert channel.unary_unary(EXPORT, None, None)(SPAN, timeout=10) == b""
    assert [one.body for one in http.received] == [SPAN, SPAN]
    assert served.intake.deliveries == [Delivered(), Delivered()]


def test_signals_go_where_the_settings_send_them(serve: Serve, settings: str, http: Downstream) -> None:
    with grpc_downstream() as other:
        own = f"  logs: {{endpoint: '{other.endpoint}', protocol: grpc}}\n  metrics: {{enabled: false}}\n"
        served = serve(ANY_PORT + f"export:\n  endpoint: '{http.endpoint}'\n{own}")
        for signal in Signal:
            assert served.post(b"", f"/v1/{signal}").status == 200
        served.stop()
        assert [one.signal for one in other.received] == [Signal.LOGS]
    assert [one.signal for one in http.received] == [Signal.TRACES]


def test_health_metrics_and_coverage(serve: Serve, settings: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GOLDENS.replace("SESSION", "s-1"))
    served = serve(settings + f"goldens: '{tmp_path / 'g.yaml'}'\n")
    assert served.get("/healthz").data == b"ok\n"
    assert (served.get("/readyz").status, served.get("/readyz").data) == (200, b"ready\n")
    assert served.get("/coverage").json()["goldens"] == ["s-1"]
    served.post(SPAN)
    served.post(b"\xff")
    found = samples(served)
    by_outcome = {
        dict(labels).get("outcome"): n for (name, labels), n in found.items() if "receiver_requests_t" in name
    }
    assert by_outcome == {"accepted": 1, "malformed": 1}
    assert found["goldspan_test_total", (("of", "a"),)] == 2
    assert found["score_bucket", (("le", "1.0"),)] == 3
    assert found["process_open_fds", ()] > 0
    assert found["goldspan_goldens_loaded_timestamp_seconds", ()] > 1.7e9


def test_histograms_and_counters_have_their_types(serve: Serve, settings: str) -> None:
    text = serve(settings).get("/metrics").data.decode()
    for line in ("# TYPE score histogram", "# TYPE goldspan_test_total counter", "# TYPE goldspan_open gauge"):
        assert line in text


def test_other_pages_and_methods_are_refused(serve: Serve, settings: str) -> None:
    served = serve(settings)
    assert served.get("/../etc/passwd").status == 404
    assert served.get("/debug").status == 404
    assert served.post(b"", "/metrics").status == 404


def test_beyond_loopback_metrics_and_coverage_want_the_token(serve: Serve, http: Downstream) -> None:
    text = (
        "receivers: {grpc: null, http: '127.0.0.1:0', tokens: [{env: SENDER}]}\n"
        "admin: {listen: '0.0.0.0:0', tokens: [{env: READER}]}\n"
        f"export: {{endpoint: '{http.endpoint}'}}\n"
    )
    served = serve(text, SENDER="sender", READER="reader")
    for page, expected in {"/healthz": 200, "/readyz": 200, "/metrics": 401, "/coverage": 401}.items():
        assert served.get(page).status == expected
    for page in ("/metrics", "/coverage"):
        assert served.get(page, authorization="Bearer sender").status == 401
        assert served.get(page, authorization="Bearer reader").status == 200
    assert served.post(SPAN).status == 401
    assert served.post(SPAN, authorization="Bearer sender").status == 200


def test_without_tokens_of_their_own_the_pages_take_those_of_senders(serve: Serve, http: Downstream) -> None:
    text = (
        "receivers: {grpc: null, http: '127.0.0.1:0', tokens: [{env: SENDER}]}\n"
        f"admin: {{listen: '0.0.0.0:0'}}\nexport: {{endpoint: '{http.endpoint}'}}\n"
    )
    served = serve(text, SENDER="sender")
    assert served.get("/metrics").status == 401
    assert served.get("/metrics", authorization="Bearer sender").status == 200


def test_a_secret_that_is_not_there_stops_the_start(serve: Serve, http: Downstream) -> None:
    text = f"receivers: {{tokens: [{{env: ABSENT}}]}}\nexport: {{endpoint: '{http.endpoint}'}}\n"
    with pytest.raises(SettingsError, match="the variable ABSENT"):
        serve(text)


def test_headers_of_the_settings_are_sent(serve: Serve, http: Downstream, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k-1\n")
    headers = f"{{x-api-key: {{file: '{tmp_path / 'key'}'}}, x-plain: text}}"
    served = serve(ANY_PORT + f"export: {{endpoint: '{http.endpoint}', headers: {headers}}}\n")
    served.post(SPAN)
    assert (http.received[0].headers["x-api-key"], http.received[0].headers["x-plain"]) == ("k-1", "text")


def test_changed_goldens_are_read_anew_and_bad_ones_refused(
    serve: Serve, settings: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "goldens"
    folder.mkdir()
    (folder / "g.yaml").write_text(GOLDENS.replace("SESSION", "s-1"))
    served = serve(settings + f"goldens: ['{folder}']\nwatch_files: 50ms\n")
    assert served.get("/coverage").json()["goldens"] == ["s-1"]

    (folder / "h.yaml").write_text(GOLDENS.replace("SESSION", "s-2").replace(": g\n", ": h\n"))
    until(lambda: served.get("/coverage").json()["goldens"] == ["s-1", "s-2"])

    (folder / "h.yaml").write_text("golden_set: h\ngoldens: [{session: s-3, turn: []}]\n")
    reloads = ("goldspan_goldens_reloads_total", (("outcome", "refused"),))
    until(lambda: samples(served)[reloads] >= 1)
    assert served.get("/coverage").json()["goldens"] == ["s-1", "s-2"]
    refusal = next(record for record in caplog.records if "a golden file is refused" in record.message)
    assert "did you mean `turns`?" in str(refusal.mistakes)

    (folder / "h.yaml").unlink()
    until(lambda: served.get("/coverage").json()["goldens"] == ["s-1"])


@pytest.mark.parametrize(("error", "level"), [(RuntimeError("not these"), "ERROR"), (OSError(5, "EIO"), "WARNING")])
def test_goldens_that_break_what_uses_them_are_refused_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(GOLDENS)
    used: list[Any] = []

    def use(goldens: Any) -> None:
        used.append(goldens)
        if len(used) == 1:
            raise error

    reloader = GoldenReloader(GoldenFiles([path]), use, loaded_at=1.0, now=lambda: 2.0)
    assert not reloader.reload()
    assert [record.levelname for record in caplog.records] == [level]
    assert reloader.reload()
    counted = {(name, *labels.values()): value for name, labels, value in reloader.metrics()}
    assert counted == {
        ("goldspan_golden_files", "in_use"): 1,
        ("goldspan_golden_files", "refused"): 0,
        ("goldspan_goldens_reloads_total", "loaded"): 1,
        ("goldspan_goldens_reloads_total", "refused"): 1,
        ("goldspan_goldens_loaded_timestamp_seconds",): 2.0,
    }


def test_goldens_that_are_wrong_stop_the_start(serve: Serve, settings: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("golden_set: g\n")
    with pytest.raises(FileError, match="goldens"):
        serve(settings + f"goldens: '{tmp_path / 'g.yaml'}'\n")


def test_the_end_lets_requests_finish_and_drains(serve: Serve, settings: str, http: Downstream) -> None:
    served = serve(settings + "shutdown_timeout: 10s\njournal: {sync: full}\n")  # so that others wait for no disk
    served.intake.open.clear()
    body = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: %d\r\n\r\n"
    host, _, port = served.server.addresses["http"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall((body % len(SPAN) + SPAN) * 2)
        time.sleep(0.2)
        served.loop.call_soon_threadsafe(served.server.stop)
        time.sleep(0.3)
        assert served.get("/readyz").status == 503
        served.intake.open.set()
        answers = read_all(connection)
    assert answers.startswith(b"HTTP/1.1 200")  # it was taken before, and the one behind it was not
    assert answers.count(b"HTTP/1.1 503") == answers.count(b"HTTP/1.1") - 1 == 1
    assert served.ended.wait(10)
    assert served.outcome == [True]
    assert 0 < served.intake.drained_within <= 10
    assert [one.body for one in http.received] == [SPAN]
    with pytest.raises(OSError):  # noqa: PT011 - refused or reset
        socket.create_connection((host, int(port)), timeout=1).close()


@pytest.mark.parametrize(
    ("body", "encoding", "waits", "at_once"),
    [
        (SPAN, "identity", False, True),
        (SPAN, "identity", True, False),
        (gzip.compress(SPAN), "gzip", False, False),
        (SPAN * (1 + (16 << 10) // len(SPAN)), "identity", False, False),
        (b"\n{}", "identity", False, False),
    ],
    ids=["small", "waits for a disk", "compressed", "large", "JSON"],
)
def test_what_may_take_long_is_not_done_by_the_event_loop(
    body: bytes, encoding: str, waits: bool, at_once: bool
) -> None:
    threads: list[threading.Thread] = []

    def accept(_: ExportRequest) -> Accepted:
        threads.append(threading.current_thread())
        return Accepted()

    with ThreadPoolExecutor(1) as workers:
        handler = RequestHandler(accept, RequestLimits(), workers, accept_waits=waits)
        protocol = "http/json" if body.endswith(b"{}") else "http/protobuf"
        request = ReceivedRequest(protocol, Signal.TRACES, body, encoding, (), handler.in_flight.reserve(""))
        assert asyncio.run(handler.process(request)).status is RequestStatus.OK
    assert (threads == [threading.current_thread()]) is at_once
    assert handler.in_flight.requests == 0


def test_an_address_in_use_ends_with_a_reason(serve: Serve, settings: str) -> None:
    first = serve(settings)
    for door in ("http", "grpc", "admin"):
        address = first.server.addresses[door]
        text = settings.replace("127.0.0.1:0", address, 1) if door == "grpc" else settings
        if door == "http":
            text = settings.replace("http: '127.0.0.1:0'", f"http: '{address}'")
        if door == "admin":
            text = settings.replace("listen: '127.0.0.1:0'", f"listen: '{address}'")
        second = serve(text)
        assert second.ended.wait(10)
        assert isinstance(second.outcome[0], SettingsError)
        assert address in str(second.outcome[0])
        assert second.intake.drained_within is not None


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="systemd is Linux's")
def test_systemd_is_told(serve: Serve, settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        served = serve(settings)
        assert channel.recv(100) == b"READY=1"
        served.stop()
        assert channel.recv(100) == b"STOPPING=1"


def test_a_token_in_a_file_may_change_while_it_runs(serve: Serve, http: Downstream, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    (tmp_path / "key").write_text("k-1")
    text = (
        f"receivers: {{grpc: null, http: '127.0.0.1:0', tokens: [{{file: '{tmp_path / 'token'}'}}]}}\n"
        "admin: {listen: null}\nwatch_files: 50ms\n"
        f"export: {{endpoint: '{http.endpoint}', headers: {{x-key: {{file: '{tmp_path / 'key'}'}}}}}}\n"
    )
    served = serve(text)
    assert served.post(SPAN, authorization="Bearer first").status == 200
    (tmp_path / "key").write_text("k-2")
    (tmp_path / "token").write_text("other")
    until(lambda: served.post(SPAN, authorization="Bearer first").status == 401)
    assert served.post(SPAN, authorization="Bearer other").status == 200
    (tmp_path / "token").write_text("")
    time.sleep(0.3)
    assert served.post(SPAN, authorization="Bearer other").status == 200
    until(
        lambda: (
            served.post(SPAN, authorization="Bearer other").status == 200
            and http.received[-1].headers["x-key"] == "k-2"
        )
    )


def test_a_certificate_may_change_while_it_runs(serve: Serve, http: Downstream, tmp_path: Path) -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    trusting.set_alpn_protocols(["h2", "http/1.1"])

    def issue(name: str) -> None:
        made = authority.issue_cert("127.0.0.1", common_name=name)
        made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
        made.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate.pem"))

    def shown(door: str) -> str:
        host, _, port = served.server.addresses[door].rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=10) as plain,
            trusting.wrap_socket(plain, server_hostname=host) as secure,
        ):
            subject: Any = (secure.getpeercert() or {})["subject"]
        return str({name: value for ((name, value),) in subject}["commonName"])

    issue("first")
    files = f"certificate: '{tmp_path / 'certificate.pem'}', key: '{tmp_path / 'key.pem'}'"
    receivers = f"receivers: {{grpc: '127.0.0.1:0', http: '127.0.0.1:0', tls: {{{files}}}}}\n"
    served = serve(f"{receivers}admin: {{listen: null}}\nwatch_files: 50ms\nexport: {{endpoint: '{http.endpoint}'}}\n")
    assert (shown("http"), shown("grpc")) == ("first", "first")
    (tmp_path / "key.pem").write_text("damaged")
    time.sleep(0.3)
    assert (shown("http"), shown("grpc")) == ("first", "first")
    issue("second")
    until(lambda: (shown("http"), shown("grpc")) == ("second", "second"))
