"""What fails while workers run costs no result: lost 0, wrong 0. Repeated events have the ids of the first ones."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kafka.broker import Broker, broker
from kafka.stream_load import Load, load_of, sessions
from kafka.stream_workers import Background, Cluster, cluster
from rigs.pipeline_rig import events_in, spans_in
from rigs.waiting import until


def balance(name: str, some: Cluster, load: Load, took: float) -> None:
    """Hold what arrived against what was sent, and say so."""
    said = events_in(some.bodies("events"))
    given = {(one.trace_id, one.span_id) for one in spans_in(one.body for one in load.requests)}

    def passed() -> set[tuple[bytes, bytes]]:
        return {(one.trace_id, one.span_id) for one in spans_in(some.bodies("scored"))}

    until(lambda: passed() == given, 60)
    spans = len(spans_in(some.bodies("scored")))
    print(
        f"\n{name}: {len(load.expected)} results and {len(given)} spans after {took:.0f} s: lost 0, wrong 0, "
        f"{len(said) - len(load.expected)} further events (corrections and repeats), {spans - len(given)} spans again"
    )
    assert not some.read("dead_letters")


def test_workers_killed_under_load(kafka: Broker, tmp_path: Path) -> None:
    load = load_of(sessions(300, "killed"), seed=1)
    rng = random.Random(1)
    with cluster(kafka.address, tmp_path, group="killed") as some:
        for _ in range(3):
            some.add()
        until(lambda: any(worker.ready() for worker in some.workers), 120)
        sending = Background(lambda: some.send(load.requests, pause=0.15))
        kills = 0
        while sending.running:
            time.sleep(rng.uniform(4, 8))
            victim = rng.choice(some.workers)
            victim.end(signal.SIGKILL)
            kills += 1
            if rng.random() < 0.5:  # as on another machine: all state comes from the changelog
                shutil.rmtree(victim.folder / "state", ignore_errors=True)
            victim.start()
        sending.join()
        took = some.until_said(load.expected, 240)
        balance(f"{kills} workers killed", some, load, took)
        assert kills >= 3


def test_a_rebalance_while_sessions_are_open(kafka: Broker, tmp_path: Path) -> None:
    documents = sessions(60, "rebalanced", seed=2)
    load = load_of(documents, seed=2)
    half = len(load.requests) // 2
    with cluster(kafka.address, tmp_path, group="rebalanced") as some:
        first = some.add()
        until(first.ready, 90)
        some.send(load.requests[:half])
        second, third = some.add(), some.add()
        until(lambda: second.ready() or third.ready(), 120)
        some.send(load.requests[half : half + half // 2])
        assert first.end() == 0
        some.send(load.requests[half + half // 2 :])
        took = some.until_said(load.expected, 180)
        balance("two rebalances", some, load, took)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_broker_is_away_for_30_seconds(tmp_path: Path, number: int) -> None:
    load = load_of(sessions(120, f"away-{number}"), seed=3)
    third = len(load.requests) // 3
    with broker(tmp_path / "kafka") as own, cluster(own.address, tmp_path, group="away") as some:
        workers = [some.add(), some.add()]
        until(lambda: all(worker.ready() for worker in workers), 120)
        some.send(load.requests[:third])
        sending = Background(lambda: some.send(load.requests[third : 2 * third], pause=0.2))
        time.sleep(2)
        own.end(number)
        time.sleep(30)
        own.start()
        sending.join()
        some.send(load.requests[2 * third :])
        took = some.until_said(load.expected, 240)
        balance(f"broker away for 30 s, {signal.Signals(number).name}", some, load, took)
        starts = [worker.number("goldspan_stream_starts_total") for worker in workers]
        print(f"starts of the workers: {starts}")
        assert all(worker.running for worker in workers)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"\0" * 4096)


def test_a_full_disk_ends_a_worker_and_another_one_takes_over(kafka: Broker, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    load = load_of(sessions(120, "full"), seed=4)
    half = len(load.requests) // 2
    try:
        with cluster(kafka.address, tmp_path, group="full") as some:
            worker = some.add(state=disk / "state")
            until(worker.ready, 90)
            some.send(load.requests[:half])
            until(lambda: some.bodies("events"), 60)
            fill(disk / "filler")
            some.send(load.requests[half:])
            until(lambda: not worker.running, 120)
            last = worker.log()[-1]["message"]
            print(f"\nexit code {worker.end()}: {last}")
            assert worker.end() == 2
            assert "the disk is full" in last
            assert "Free space" in last
            some.add()
            took = some.until_said(load.expected, 180)
            balance("full disk", some, load, took)
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
