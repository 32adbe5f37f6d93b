"""A whole gateway in this process, around an intake that forwards at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from goldspan.collector_processor.gateway.interfaces import Accepted, AcceptResult, Exporter, ExportRequest
from goldspan.collector_processor.gateway.server import GatewayServer
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from rigs.gateway_rig import Kept, event_loop


class Forwarding(Kept):
    """Delivers what it accepts before it says so."""

    def __init__(self, outlet: Exporter, goldens: Any) -> None:
        super().__init__()
        self.outlet = outlet
        self.goldens = goldens
        self.deliveries: list[Any] = []
        self.drained_within: float | None = None

    def accept(self, request: ExportRequest) -> AcceptResult:
        receipt = super().accept(request)
        if isinstance(receipt, Accepted):
            self.deliveries.append(self.outlet.deliver(request))
        return receipt

    def drain(self, timeout_seconds: float) -> bool:
        self.drained_within = timeout_seconds
        return True

    def reload_goldens(self, goldens: Any) -> None:
        self.goldens = goldens

    def metrics(self) -> list[Any]:
        buckets = [("0.5", 1), ("1.0", 3), ("+Inf", 3)]
        return [
            ("goldspan_test_total", {"of": "a"}, 2),
            *(("score_bucket", {"le": le}, number) for le, number in buckets),
            ("score_sum", {}, 2.5),
            ("score_count", {}, 3),
            ("goldspan_open", {}, 1),
        ]

    def coverage(self) -> dict[str, Any]:
        return {"goldens": sorted(golden.session or "" for golden in self.goldens.goldens)}


@dataclass
class Served:
    """A gateway that runs."""

    server: GatewayServer
    intake: Forwarding
    loop: asyncio.AbstractEventLoop
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: list[Any] = field(default_factory=list)

    def url(self, door: str, path: str) -> str:
        return f"http://{self.server.addresses[door]}{path}"

    def get(self, path: str, **headers: str) -> Any:
        return urllib3.request("GET", self.url("admin", path), headers=headers, retries=False, timeout=10)

    def post(self, body: bytes, path: str = "/v1/traces", **headers: str) -> Any:
        given = {"content-type": "application/x-protobuf"} | headers
        return urllib3.request("POST", self.url("http", path), body=body, headers=given, retries=False, timeout=10)

    def stop(self) -> bool:
        self.loop.call_soon_threadsafe(self.server.stop)
        assert self.ended.wait(20)
        return self.outcome[0]


ANY_PORT = "receivers: {grpc: '127.0.0.1:0', http: '127.0.0.1:0'}\nadmin: {listen: '127.0.0.1:0'}\n"


@contextmanager
def serving(settings_text: str, folder: Path, environ: dict[str, str]) -> Iterator[Served]:
    path = folder / "goldspan.yaml"
    path.write_text(settings_text, "utf-8")
    environ = {"XDG_STATE_HOME": str(folder / "state"), **environ}
    settings = load_settings(path, environ)
    with event_loop() as loop:
        made: list[Forwarding] = []

        def new_intake(_settings: Any, _environ: Any, outlet: Exporter, goldens: Any) -> Forwarding:
            made.append(Forwarding(outlet, goldens))
            return made[0]

        server = GatewayServer(settings, environ, new_intake)
        served = Served(server, made[0], loop)
        started = threading.Event()

        async def run() -> None:
            try:
                served.outcome.append(await server.run(lambda _: started.set()))
            except Exception as error:  # noqa: BLE001 - it is the test's to look at
                served.outcome.append(error)
            finally:
                started.set()
                served.ended.set()

        asyncio.run_coroutine_threadsafe(run(), loop)
        assert started.wait(20)
        try:
            yield served
        finally:
            if not served.ended.is_set():
                served.stop()
