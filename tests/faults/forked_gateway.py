"""Gateways in processes of their own, within milliseconds: forked from one that has everything imported.

    python -m faults.forked_gateway SOCKET

reads from the socket which settings to serve by, and which call fails. Each gateway is `run_gateway`, with its real
receivers, files and exporters; only the failing calls are replaced.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc.aio  # noqa: F401 - imported before the fork, as the two exporters below
import uvloop  # noqa: F401

import faults
from faults.injection import Fault, Injector
from goldspan.collector_processor.gateway.deliver import exporters, grpc_exporter  # noqa: F401
from goldspan.collector_processor.gateway.journal.body_log import BodyLog
from goldspan.collector_processor.gateway.receive import grpc_receiver  # noqa: F401
from goldspan.collector_processor.gateway.server import run_gateway
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.serving.process import configure_logs
from goldspan.scoring.errors import FileError, SettingsError

_SEGMENT_BYTES = 4096
"""Of the log of bodies, so that a small load begins and deletes some."""


class Nursery:
    """The process that is forked. Thread-safe."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = os.pathsep.join([*(path for path in sys.path if path), str(Path(faults.__path__[0]).parent)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.forked_gateway", str(other.fileno())],
            pass_fds=[other.fileno()],
            env={name: value for name, value in os.environ.items() if not name.startswith(("GOLDSPAN_", "OTEL_"))}
            | {"PYTHONPATH": paths},
        )
        other.close()
        self._lock = threading.Lock()

    def fork(self, order: dict[str, Any], control: int, errors: int) -> None:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], [control, errors])

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


class Gateway:
    """One gateway process, seen from outside."""

    def __init__(self, nursery: Nursery, settings: Path, fault: Fault | None) -> None:
        mine, other = socket.socketpair()
        self._control = Connection(mine.detach())
        self._errors = settings.with_name("stderr.txt")
        self._began_at = self._errors.stat().st_size if self._errors.exists() else 0
        self.addresses: dict[str, str] = {}
        self.log: list[dict[str, Any]] = []
        self.sites: dict[str, int] = {}
        self.failed = 0
        self.dead: list[str] = []
        """Threads that an exception ended."""
        self.outcome: str | None = None
        """How the process ended by itself; None if it was killed."""
        self.ended = threading.Event()
        self._pid = 0
        self._answers = queue.SimpleQueue[Any]()
        with self._errors.open("ab") as errors, other:
            order = {"settings": str(settings), "fault": None if fault is None else dataclasses.asdict(fault)}
            nursery.fork(order, other.fileno(), errors.fileno())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def listens(self, seconds: float = 20.0) -> bool:
        """Wait until it listens, or has ended."""
        end = time.monotonic() + seconds
        while len(self.addresses) < 3 and not self.ended.is_set() and time.monotonic() < end:
            time.sleep(0.005)
        return len(self.addresses) == 3

    def ask(self, question: str, *rest: Any) -> Any:
        """The names of its `threads`; how often each site was passed until now (`sites`); to `begin` with its fault."""
        try:
            self._control.send((question, *rest))
            return self._answers.get(timeout=10)
        except (OSError, queue.Empty):
            return None

    def send_signal(self, number: signal.Signals) -> None:
        if not self.ended.is_set():
            os.kill(self._pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.ended.wait(10)

    @property
    def complaints(self) -> list[str]:
        """What stands on standard error and is no line of the log."""
        text = self._errors.read_bytes()[self._began_at :].decode(errors="replace")
        return [line for line in text.splitlines() if line and not line.startswith("{")]

    def _read(self) -> None:
        try:
            while True:
                match self._control.recv():
                    case ("pid", pid):
                        self._pid = pid
                    case ("log", record):
                        self.log.append(record)
                        if record["message"] == "listening":
                            self.addresses[record["server"]] = record["address"]
                    case ("dead", name):
                        self.dead.append(name)
                    case ("ended", outcome):
                        self.outcome = outcome
                    case ("sites", sites, failed):
                        self.sites, self.failed = sites, failed
                    case ("answer", answer):
                        self._answers.put(answer)
        except (EOFError, OSError):
            self.ended.set()


# In the forked process.


class _Control:
    """The gateway's end of the connection to the test."""

    def __init__(self, connection: Connection, injector: Injector) -> None:
        self._connection = connection
        self._injector = injector
        self._lock = threading.Lock()

    def send(self, *message: Any) -> None:
        with self._lock:
            self._connection.send(message)

    def listen(self) -> None:
        try:
            while True:
                match self._connection.recv():
                    case ("threads",):
                        self.send("answer", sorted(one.name for one in threading.enumerate()))
                    case ("begin",):
                        self._injector.begin()
                        self.send("answer", True)
                    case ("sites",):
                        self.send_sites()
                        self.send("answer", True)
        except (EOFError, OSError):
            os._exit(1)  # the test is gone

    def send_sites(self) -> None:
        self.send("sites", dict(self._injector.calls), self._injector.failed)


class _Forward(logging.Handler):
    def __init__(self, control: _Control) -> None:
        super().__init__()
        self._control = control

    def emit(self, record: logging.LogRecord) -> None:
        said = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            said["exception"] = repr(record.exc_info[1])
        said |= {name: getattr(record, name) for name in ("server", "address") if hasattr(record, name)}
        self._control.send("log", said)


def _serve(order: dict[str, Any], control_fd: int, errors: int) -> None:

    os.dup2(errors, 2)
    injector = Injector(None if order["fault"] is None else Fault(**order["fault"]))
    control = _Control(Connection(control_fd), injector)
    control.send("pid", os.getpid())
    threading.Thread(target=control.listen, name="test", daemon=True).start()
    threading.excepthook = lambda died: control.send("dead", f"{died.thread and died.thread.name}: {died.exc_value!r}")
    settings = load_settings(Path(order["settings"]), {})
    configure_logs("info", "json")
    logging.getLogger().addHandler(_Forward(control))
    injector.install()
    try:
        outcome = f"drained {run_gateway(settings, {})}"
    except (SettingsError, FileError) as error:
        outcome = f"refused to start: {error}"
    except BaseException as error:  # noqa: BLE001 - the test judges it
        outcome = f"raised {error!r}"
    control.send_sites()
    control.send("ended", outcome)


def _main(commands: socket.socket) -> None:
    assert BodyLog.__init__.__kwdefaults__ is not None
    BodyLog.__init__.__kwdefaults__["segment_bytes"] = _SEGMENT_BYTES
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        order, descriptors, _, _ = socket.recv_fds(commands, 1 << 16, 2)
        if not order:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            commands.close()
            try:
                _serve(json.loads(order), *descriptors)
            finally:
                os._exit(0)
        for one in descriptors:
            os.close(one)


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
