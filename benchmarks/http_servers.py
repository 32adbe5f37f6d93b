"""Which HTTP server the gateway is built on: server CPU and latency of several, at the same work.

    python -m benchmarks.http_servers [SECONDS]

Each server runs in a process of its own, takes OTLP-sized bodies on kept connections, hands each to a worker thread as
the gateway does, and answers with nothing. Servers that are not installed are left out. CPU is of the server's process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

SIZES = {"16 spans, 19 kB": 19_000, "512 spans, 610 kB": 610_000}
CONNECTIONS = 8
ROUNDS = 3
_workers = ThreadPoolExecutor(16)


def work(body: bytes) -> bytes:
    """What is done with a body: one look through it."""
    return b"" if body.find(b"gen_ai.") < 0 else b"x"


async def application(scope: Any, receive: Any, send: Any) -> None:
    body, more = bytearray(), True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            return
        body += event.get("body", b"")
        more = event.get("more_body", False)
    answer = await asyncio.get_running_loop().run_in_executor(_workers, work, bytes(body))
    headers = [(b"content-type", b"application/x-protobuf"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def run_uvicorn(port: int, http: str, loop: str) -> None:
    import uvicorn  # noqa: PLC0415

    uvicorn.run(application, port=port, http=http, loop=loop, lifespan="off", access_log=False, log_level="error")


def run_goldspan(port: int) -> None:
    import uvloop  # noqa: PLC0415

    from goldspan.collector_processor.serving.field_types import ListenAddress  # noqa: PLC0415
    from goldspan.collector_processor.serving.http_server import HttpServer, RequestLimits  # noqa: PLC0415

    async def main() -> None:
        await HttpServer(application, ListenAddress("127.0.0.1", port), RequestLimits()).start()
        await asyncio.Event().wait()

    uvloop.run(main())


def run_granian(port: int) -> None:
    from granian.server.embed import Server  # noqa: PLC0415

    async def main() -> None:
        await Server(application, address="127.0.0.1", port=port, interface="asginl", log_enabled=False).serve()

    import uvloop  # noqa: PLC0415

    uvloop.run(main())


def run_hypercorn(port: int) -> None:
    import uvloop  # noqa: PLC0415
    from hypercorn.asyncio import serve  # noqa: PLC0415
    from hypercorn.config import Config  # noqa: PLC0415

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    uvloop.run(serve(application, config))


def run_aiohttp(port: int) -> None:
    import uvloop  # noqa: PLC0415
    from aiohttp import web  # noqa: PLC0415

    async def export(request: Any) -> Any:
        body = await request.read()
        answer = await asyncio.get_running_loop().run_in_executor(_workers, work, body)
        return web.Response(body=answer, content_type="application/x-protobuf")

    served = web.Application(client_max_size=1 << 30)
    served.router.add_post("/v1/traces", export)
    loop = uvloop.new_event_loop()
    web.run_app(served, host="127.0.0.1", port=port, access_log=None, print=None, loop=loop)


SERVERS: dict[str, tuple[str, Callable[[int], None]]] = {
    "uvicorn, h11, asyncio": ("h11", lambda port: run_uvicorn(port, "h11", "asyncio")),
    "uvicorn, httptools, asyncio": ("httptools", lambda port: run_uvicorn(port, "httptools", "asyncio")),
    "uvicorn, httptools, uvloop": ("uvloop", lambda port: run_uvicorn(port, "httptools", "uvloop")),
    "the same with goldspan's bounds": ("uvloop", run_goldspan),
    "aiohttp, uvloop": ("aiohttp", run_aiohttp),
    "granian, embedded": ("granian", run_granian),
    "hypercorn, uvloop": ("hypercorn", run_hypercorn),
}


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, body: bytes, seconds: float) -> list[float]:
    """Latencies in seconds of requests over several connections, one after another on each."""
    request = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
    request += b"content-length: %d\r\n\r\n" % len(body) + body
    latencies: list[float] = []

    def client() -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            end = time.perf_counter() + seconds
            while (began := time.perf_counter()) < end:
                connection.sendall(request)
                while not connection.recv(65_536).endswith(b"\r\n\r\n"):
                    pass
                latencies.append(time.perf_counter() - began)

    threads = [threading.Thread(target=client) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def measure(name: str, seconds: float) -> dict[str, tuple[float, float, float]]:
    """By size: microseconds of server CPU per request, requests per second, p99 in milliseconds; the best of rounds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.http_servers", "serve", name, str(port)])
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        found: dict[str, tuple[float, float, float]] = {}
        for size, length in SIZES.items():
            rounds: list[tuple[float, float, float]] = []
            load(port, bytes(length), 0.3)
            for _ in range(ROUNDS):
                before = cpu_seconds(server.pid)
                latencies = load(port, bytes(length), seconds)
                used = cpu_seconds(server.pid) - before
                p99 = statistics.quantiles(latencies, n=100)[98]
                rounds.append((used / len(latencies) * 1e6, len(latencies) / seconds, p99 * 1e3))
            found[size] = min(rounds)
        return found
    finally:
        server.kill()
        server.wait()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    print(f"| server | {' | '.join(f'{size}: CPU us, requests/s, p99 ms' for size in SIZES)} |")
    print("|---|" + "---|" * len(SIZES))
    for name, (module, _) in SERVERS.items():
        if find_spec(module) is None:
            continue
        rows = measure(name, seconds)
        cells = [f"{cpu:,.0f}, {rate:,.0f}, {p99:.1f}" for cpu, rate, p99 in rows.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        SERVERS[sys.argv[2]][1](int(sys.argv[3]))
    else:
        main()
