"""Real web servers with two workers that are told to stop under load: how many spans of answered requests are lost."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import FlushAtShutdown, ToolParameterMatchSpanProcessor
from goldspan.collector_processor.in_process import stop_signal
from rigs.downstream import http_downstream
from rigs.in_process_rig import Inner
from rigs.local_ports import free_port
from rigs.pipeline_rig import spans_in
from rigs.repository import ROOT
from rigs.scripted_agent import PARIS, run_turn
from rigs.waiting import until

WORKERS, CLIENTS, SECONDS = 2, 3, 2.0
SERVERS = {
    "uvicorn": "uvicorn rigs.served_agent:app --workers {workers} --port {port} --log-level error",
    "hypercorn": "hypercorn rigs.served_agent:app --workers {workers} --bind 127.0.0.1:{port} --log-level error",
    "gunicorn": "gunicorn rigs.served_agent:wsgi --workers {workers} --bind 127.0.0.1:{port} --log-level error",
    "gunicorn of threads": "gunicorn rigs.served_agent:wsgi --workers {workers} --threads 4 --bind 127.0.0.1:{port} "
    "--log-level error",
}
HOOK = "from goldspan.collector_processor import flush_at_worker_exit as worker_exit\n"


def lost_by(server: str, door: str, folder: Path, stops: str = "server") -> tuple[int, int, Counter[str]]:
    """Serve requests, stop the server, and return tool spans ended, those that did not arrive, and what arrived."""
    module = server.split(maxsplit=1)[0]
    pytest.importorskip(module, reason=f"{module} is not installed: make test installs it")
    port = free_port()
    command = SERVERS[server].format(workers=WORKERS, port=port)
    if module == "gunicorn":
        (folder / "gunicorn.conf.py").write_text(HOOK if door == "hooked" else "")
        command += f" --config {folder / 'gunicorn.conf.py'}"
    paths = os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])
    ended = 0
    with http_downstream() as downstream:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GOLDSPAN_"))}
        environment |= {"AGENT_DOOR": door, "AGENT_ENDPOINT": downstream.endpoint, "PYTHONPATH": paths}
        process = subprocess.Popen([sys.executable, "-m", *command.split()], env=environment, cwd=folder)
        answered = threading.Lock()
        stopped = threading.Event()

        def ask() -> bool:
            nonlocal ended
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", "/")
                if done := connection.getresponse().read() == b"done":
                    with answered:
                        ended += 1
            return done

        def ask_on() -> None:
            while not stopped.is_set():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    ask()
                time.sleep(0.02)

        def is_up() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return ask()
            return False

        try:
            until(is_up, 60.0)
            clients = [threading.Thread(target=ask_on) for _ in range(CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(SECONDS)
            told = [process.pid] if stops == "server" else workers_of(process.pid)
            for one in told:
                os.kill(one, signal.SIGTERM)
            time.sleep(0.5)
            stopped.set()
            for client in clients:
                client.join()
            process.wait(40)
        finally:
            process.kill()
        bodies = [one.body for one in downstream.received if one.signal == "traces"]
    arrived = Counter(span.name.split()[0] for span in spans_in(bodies))
    return ended, ended - arrived["execute_tool"], arrived


def workers_of(server: int) -> list[int]:
    """The processes of the workers. A spawned child that keeps track of shared memory ignores the signal."""
    return [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc, which Linux alone has")
def test_a_worker_that_is_ended_by_the_signal_loses_nothing(tmp_path: Path) -> None:
    """hypercorn ends those so that are still shutting down when the first one is gone."""
    ended, lost, _ = lost_by("hypercorn", "hooked", tmp_path, stops="workers")
    assert ended > 20
    assert lost <= 0


@pytest.mark.parametrize("server", SERVERS)
def test_a_worker_that_is_told_to_stop_loses_nothing_with_one_line(server: str, tmp_path: Path) -> None:
    ended, lost, _ = lost_by(server, "hooked", tmp_path)
    assert ended > 20
    assert lost <= 0  # a request whose answer did not arrive may have been traced


@pytest.mark.parametrize("knows_lifespan", [True, False])
def test_the_lifespan_of_the_application_stays_its_own(knows_lifespan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signal, "_is_watched", True)  # the signal of this process stays as it is
    seen: list[str] = []
    inner = Inner()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ToolParameterMatchSpanProcessor(inner, settle=60.0))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" and not knows_lifespan:
            raise ValueError(scope["type"])
        if scope["type"] == "http":
            run_turn(provider.get_tracer("agent"), "s", [PARIS])
            return
        for event in ("startup", "shutdown"):
            seen.append((await receive())["type"])
            await send({"type": f"lifespan.{event}.complete"})

    async def serve() -> list[str]:
        events = iter(["lifespan.startup", "lifespan.shutdown"])
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": next(events)}

        async def send(message: Any) -> None:
            sent.append(message["type"])

        app = FlushAtShutdown(application)
        await app({"type": "http"}, receive, send)
        await app({"type": "lifespan"}, receive, send)
        return sent

    assert asyncio.run(serve()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert seen == (["lifespan.startup", "lifespan.shutdown"] if knows_lifespan else [])
    assert len(inner.spans) == 4, "the processor's queue, and what it held"
    provider.shutdown()


@pytest.mark.parametrize("server", ["uvicorn", "gunicorn"])
def test_a_server_that_handles_the_signal_or_runs_exit_handlers_needs_no_line(server: str, tmp_path: Path) -> None:
    ended, lost, _ = lost_by(server, "goldspan", tmp_path)
    assert ended > 20
    assert lost <= ended // 10  # what ends in the last moment; the plain processor loses most of them with uvicorn


@pytest.fixture
def host_handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What happens, in order, once SIGTERM has a handler of the host's."""
    happened: list[str] = []
    monkeypatch.setattr(stop_signal, "_is_watched", False)

    def handle(number: int, frame: object) -> None:
        happened.append("host")

    before = signal.signal(signal.SIGTERM, handle)
    yield happened
    signal.signal(signal.SIGTERM, before)


def test_spans_are_flushed_before_the_handler_of_the_host_is_called(host_handler: list[str]) -> None:
    stop_signal.flush_when_stopped(lambda: host_handler.append("flush"))
    signal.raise_signal(signal.SIGTERM)
    assert host_handler[:2] == ["flush", "host"]
    until(lambda: host_handler.count("flush") > 1)  # of requests that are answered after the signal


def test_a_flush_that_hangs_delays_the_stop_by_a_second_at_most(
    host_handler: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_signal, "_told", SimpleQueue[None]())
    monkeypatch.setattr(stop_signal, "_flushed", SimpleQueue[None]())
    release = threading.Event()
    stop_signal.flush_when_stopped(release.wait)
    began = time.monotonic()
    signal.raise_signal(signal.SIGTERM)
    release.set()
    assert host_handler == ["host"]
    assert time.monotonic() - began < 5.0


def test_no_handler_is_added_where_the_host_has_none(host_handler: list[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stop_signal.flush_when_stopped(lambda: host_handler.append("flush"))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_plain_processor_loses_spans_where_no_exit_handler_runs(tmp_path: Path) -> None:
    """Else the test above shows nothing for uvicorn."""
    ended, lost, _ = lost_by("uvicorn", "plain", tmp_path)
    assert 0 < lost <= ended


if __name__ == "__main__":
    import tempfile

    for server in SERVERS:
        for door in ("plain", "goldspan", "hooked"):
            with tempfile.TemporaryDirectory() as folder:
                ended, lost, arrived = lost_by(server, door, Path(folder))
            print(f"{server:20} {door:10} {lost} of {ended} tool spans lost; arrived: {dict(arrived)}", flush=True)
