"""A journal whose disk refuses a call, or whose files an operator takes away: what it acknowledged is not lost."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.interfaces import Accepted, Busy, Delivered, ExportRequest, Retry
from goldspan.collector_processor.gateway.journal.body_log import BodyLog
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from rigs.operator_acts import ACTS, mount, unmount
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import QUICK, Downstream, everything, spans_in
from rigs.trace_requests import turn_request
from rigs.waiting import until

MEBIBYTE = 1 << 20


class PowerFails:
    """Calls of the system that fail as told, on a disk that keeps only what was synced.

    As on Linux, a sync that fails drops what it should have written and says so once.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, faults: dict[str, int], error: int) -> None:
        self._faults = faults
        self._error = error
        self._calls = Counter[str]()
        self._lock = threading.Lock()
        self._synced: dict[int, int] = defaultdict(int)
        self._dropped: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for name in ("writev", "ftruncate", "dup", "open", "fsync"):
            monkeypatch.setattr(os, name, self._replaced(name, getattr(os, name)))
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _fails(self, name: str) -> bool:
        with self._lock:
            self._calls[name] += 1
            return self._calls[name] == self._faults.get(name)

    def _replaced(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if self._fails(name):
                if name == "writev":
                    real(args[0], [b"torn"])
                raise OSError(self._error, os.strerror(self._error))
            result = real(*args, **named)
            if name == "open" and args[1] & os.O_TRUNC:
                with self._lock:
                    self._synced.pop(node := os.fstat(result).st_ino, None)
                    self._dropped.pop(node, None)
            return result

        return call

    def _sync(self, file: int) -> None:
        fails = self._fails("fdatasync")
        time.sleep(0.001)  # others begin to wait
        with self._lock:
            found = os.fstat(file)
            if fails and found.st_size > self._synced[found.st_ino]:  # else it was cut since, and nothing is new in it
                self._dropped[found.st_ino].append((self._synced[found.st_ino], found.st_size))
            self._synced[found.st_ino] = found.st_size
        if fails:
            raise OSError(self._error, os.strerror(self._error))

    def lose_power(self, folder: Path) -> None:
        for path in folder.glob("bodies-*.log"):
            content = bytearray(path.read_bytes())
            node = path.stat().st_ino
            for start, end in self._dropped[node]:
                content[start:end] = bytes(end - start)
            path.write_bytes(content[: self._synced[node]])


FAULTS: list[dict[str, int]] = [
    *(
        {name: call}
        for name, calls in {"fdatasync": 12, "writev": 6, "dup": 6, "open": 6, "fsync": 4}.items()
        for call in range(1, calls + 1)
    ),
    *({"writev": call, "ftruncate": 1} for call in range(1, 8)),
    *({"writev": call, "fdatasync": call} for call in range(1, 8)),
    *({"writev": call, "ftruncate": 1, "fdatasync": call} for call in range(1, 8)),
]


@pytest.mark.parametrize("number", [errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("faults", FAULTS, ids=str)
def test_what_no_sync_has_written_is_not_acknowledged_to_any_that_wait(
    faults: dict[str, int], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BodyLog(tmp_path, max_bytes=MEBIBYTE, sync=True, segment_bytes=900)
    list(log.read_all())
    disk = PowerFails(monkeypatch, faults, number)
    acknowledged: list[bytes] = []
    raised: list[BaseException] = []

    def send(client: int) -> None:
        for one in range(5):
            body = b"client %d request %d" % (client, one)
            try:
                log.append(ExportRequest(Signal.TRACES, body), 1.0)
            except BaseException as error:  # noqa: BLE001 - the test tells which are right
                raised.append(error)
            else:
                acknowledged.append(body)

    clients = [threading.Thread(target=send, args=(client,)) for client in range(6)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for _ in range(12):  # some calls fail only now
        send(7)
    assert len(acknowledged) >= 60
    assert all(type(error) is OSError for error in raised), raised
    monkeypatch.undo()
    disk.lose_power(tmp_path)
    after = BodyLog(tmp_path, max_bytes=MEBIBYTE)
    found = {after.body(entry) for entry in after.read_all()}
    assert found >= set(acknowledged)


# What an operator does to the folder of a gateway that runs.


def request(number: int) -> ExportRequest:
    message = as_message(turn_request(f"s-{number}", ("f", {"x": number})))
    return ExportRequest(Signal.TRACES, message.SerializeToString())


def ids(requests: list[ExportRequest]) -> set[bytes]:
    return {span.span_id for span in spans_in(one.body for one in requests)}


class Running:
    """A gateway whose back-end is away, and what it acknowledged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.away = [True]
        self.downstream = Downstream(lambda _: Retry(0.1, "away") if self.away else Delivered())
        self.settings = PipelineSettings(engine=QUICK, journal=folder, max_memory=1)
        self.pipeline = GatewayPipeline(everything(), self.downstream, self.settings)
        self.sent: list[ExportRequest] = []
        self.numbers = iter(range(10_000))

    def send(self) -> bool:
        one = request(next(self.numbers))
        accepted = self.pipeline.accept(one)
        assert isinstance(accepted, Accepted | Busy)
        if isinstance(accepted, Accepted):
            self.sent.append(one)
        return isinstance(accepted, Accepted)

    def send_many(self) -> None:
        for _ in range(10):
            assert self.send()
        until(lambda: self.pipeline.worker.outbox.undelivered >= 10)

    def arrives(self, pipeline: GatewayPipeline) -> None:
        self.away.clear()
        until(lambda: ids(self.sent) <= {span.span_id for span in self.downstream.spans()}, 30.0)
        assert pipeline.drain(20.0), pipeline.what_waits()


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("act", [one for one in ACTS if "deleted" in one or "folder" in one])
def test_what_was_acknowledged_outlives_its_files(act: str, kill: bool, tmp_path: Path) -> None:
    running = Running(tmp_path / "journal")
    running.send_many()
    ACTS[act](running.folder)
    until(running.send)  # refused until all of it is on the disk again
    until(lambda: (running.folder / "state.db").exists() and running.pipeline.not_ready_reason() is None)
    running.send_many()
    until(lambda: {one.name for one in running.folder.iterdir()} >= {"lock", "reserve", "state.db"})
    if not kill:
        running.arrives(running.pipeline)
        return
    shutil.copytree(running.folder, left := tmp_path / "left")
    after = GatewayPipeline(everything(), running.downstream, replace(running.settings, journal=left))
    running.arrives(after)
    running.pipeline.drain(5.0)


def test_a_folder_of_another_gateway_is_left_alone(tmp_path: Path) -> None:
    running = Running(tmp_path / "journal")
    running.send_many()
    running.folder.rename(tmp_path / "mine")
    other = Running(running.folder)
    until(lambda: not running.send())
    until(lambda: "in use by another process" in str(running.pipeline.not_ready_reason()))
    assert not running.send()
    running.arrives(running.pipeline)
    other.send_many()
    other.arrives(other.pipeline)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=64m", "none", folder):
        pytest.skip("only root on Linux can mount a file system")
    yield folder
    while unmount(folder):
        pass


def test_a_disk_that_becomes_read_only_is_not_ready_until_it_can_be_written(mounted: Path) -> None:
    running = Running(mounted / "journal")
    running.send_many()
    ACTS["read-only"](mounted)
    until(lambda: running.pipeline.not_ready_reason() is not None)
    assert not running.send()
    until(lambda: running.pipeline.not_ready_reason() is None)
    assert running.send()
    running.arrives(running.pipeline)


def test_a_volume_mounted_over_it_gets_what_was_acknowledged(mounted: Path) -> None:
    running = Running(mounted / "journal")
    running.send_many()
    ACTS["volume mounted over it"](mounted)
    until(running.send)
    running.send_many()
    shutil.copytree(running.folder, left := mounted.parent / "left")
    after = GatewayPipeline(everything(), running.downstream, replace(running.settings, journal=left))
    running.arrives(after)
    running.pipeline.drain(5.0)
