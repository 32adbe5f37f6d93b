"""A real Kafka broker as a process: one node in KRaft mode, whose folder stays when it is killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rigs.local_ports import free_port
from rigs.repository import ROOT

JARS = Path(os.environ.get("KAFKA_JARS", ROOT / ".kafka" / "lib"))
"""`make .kafka/.ready` fills it."""
_CLUSTER = "Z29sZHNwYW4tdGVzdHMtMA"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=8388608
"""


def why_no_broker() -> str | None:
    """Why a broker cannot be started here; None if it can."""
    if shutil.which("java") is None:
        return "no Kafka broker here: `java` (17 or newer) is missing"
    if not any(JARS.glob("kafka_2.13-*.jar")):
        tool = "" if shutil.which("mvn") else " (`mvn` is missing)"
        return f"no Kafka broker here: `make .kafka/.ready` copies its jars by Maven{tool}"
    return None


class Broker:
    """One broker. Its ports and its folder are the same after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(
            _PROPERTIES.format(port=self.port, controller=controller, folder=folder), "utf-8"
        )
        self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", "server.properties").wait()

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._process = self._java("kafka.Kafka", "server.properties")
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.folder / "broker.log").read_text("utf-8")[-3000:])
            time.sleep(0.1)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Stop it: gently, or by SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        # Its heap is small, and it compiles little: it shares the machine with what it serves.
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self.folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                ["java", *options, "-cp", f"{JARS}/*", *arguments], cwd=self.folder, stdout=log, stderr=log
            )


@contextlib.contextmanager
def broker(folder: Path | None = None) -> Iterator[Broker]:
    """A broker that listens; its folder goes at the end unless one is given."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="goldspan-kafka-")))
        one = Broker(folder)
        one.start()
        stack.callback(one.end, signal.SIGKILL)
        yield one
