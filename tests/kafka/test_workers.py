"""Workers on a real broker say what `goldspan score` says, whatever the partitions and however many there are."""

from __future__ import annotations

import random
import subprocess
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from goldspan.collector_processor.otlp_signals import Signal
from kafka.broker import Broker
from kafka.stream_load import everything_recorded, load_of, sessions
from kafka.stream_workers import COMMAND, cluster
from rigs.pipeline_rig import events_in, spans_in
from rigs.waiting import until


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize(("partitions", "workers"), [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_workers_say_what_a_replay_says(
    kafka: Broker, tmp_path: Path, partitions: int, workers: int, guarantee: str
) -> None:
    if guarantee == "exactly-once" and (partitions, workers) != (4, 3):
        pytest.skip("once is enough")
    load = everything_recorded()
    rng = random.Random(partitions * workers)
    group = f"equal-{partitions}-{workers}-{guarantee}"
    settings: dict[str, Any] = {"partitions": partitions, "group": group, "kafka": {"guarantee": guarantee}}
    with cluster(kafka.address, tmp_path, scoring={}, **settings) as some:
        # Half an hour ago by the time of the records, so that every timeout is over once they were read.
        some.create_topics()
        times = count(time.time() - 1800, 0.003)
        sent = some.send(load.requests, repeat=lambda: rng.random() < 0.05, times=times)
        for _ in range(workers):
            some.add()
        took = some.until_said(load.expected, 400)
        has = {name: len(some.bodies(name)) for name in some.topics}
        repeated = len(events_in(some.bodies("events"))) - len(load.expected)
        print(f"\n{group}: {sent} records, {len(load.expected)} results in {took:.0f} s, {repeated} more events; {has}")
        assert not some.read("dead_letters")
        assert all(worker.running for worker in some.workers)
        # Each span is passed on: the ones that were sent, no other ones.
        traces = [one.body for one in load.requests if one.signal is Signal.TRACES]
        given = {(one.trace_id, one.span_id) for one in spans_in(traces)}
        until(lambda: {(one.trace_id, one.span_id) for one in spans_in(some.bodies("scored"))} == given, 60)
        assert [worker.end() for worker in some.workers] == [0] * workers


def test_check_says_what_would_be_read_and_written(kafka: Broker, tmp_path: Path) -> None:
    with cluster(kafka.address, tmp_path, group="checked") as some:
        worker = some.add()
        until(worker.ready, 60)
        assert worker.end() == 0
        ended = subprocess.run([*COMMAND, "--check", str(worker.config)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "goldspan: goldens: 1" in ended.stdout
    assert "reads checked.spans: 4 partitions" in ended.stdout
    assert "writes checked.events: 4 partitions" in ended.stdout


def test_only_its_user_reads_the_state_and_the_log_tells_what_a_worker_had(kafka: Broker, tmp_path: Path) -> None:
    with cluster(kafka.address, tmp_path, group="private") as some:
        worker = some.add()
        until(worker.ready, 90)
        assert worker.end() == 0
        modes = {
            path.stat().st_mode & 0o077 for path in (worker.folder / "state", *(worker.folder / "state").rglob("*"))
        }
        log = worker.log()
    assert modes == {0}
    changes = [(line["taken"], line["lost"]) for line in log if "taken" in line]
    assert changes == [([0, 1, 2, 3], []), ([], [0, 1, 2, 3])]
    assert log[-1]["message"].startswith("shut down: what was read is committed")


def test_a_poison_message_goes_to_the_dead_letters(kafka: Broker, tmp_path: Path) -> None:
    load = load_of(sessions(20, "poisoned"))
    with cluster(kafka.address, tmp_path, group="poison") as some:
        worker = some.add()
        until(worker.ready, 60)
        producer = Producer({"bootstrap.servers": kafka.address})
        for topic in ("spans", "logs", "notes", "sessions"):
            for body in (b"\xff\xff no message", b"", None):
                producer.produce(some.topics[topic], body, key=b"k")
        producer.flush(30)
        some.send(load.requests)
        some.until_said(load.expected, 90)
        letters = some.read("dead_letters")
        found = {dict(letter.headers() or ())["topic"].decode() for letter in letters}
        assert {some.topics[name] for name in ("spans", "logs", "sessions")} <= found
        assert all(dict(letter.headers() or ())["error"] for letter in letters)
        assert worker.number("goldspan_stream_dead_letters_total") == len(letters)
        assert worker.end() == 0
