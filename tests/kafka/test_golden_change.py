"""Goldens change while workers are killed: results and counters are those of a replay."""

from __future__ import annotations

import copy
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens
from kafka.broker import Broker
from kafka.stream_load import moved
from kafka.stream_workers import Worker, cluster
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import EVERYTHING, Said, counted_in, said_by_replay
from rigs.trace_requests import turn_request, write_lines
from rigs.waiting import until

LEVEL, LABEL = "tool_parameter_match.level", "gen_ai.evaluation.score.label"
CHANGED: dict[str, Any] = copy.deepcopy(EVERYTHING)
CHANGED["goldens"][0]["turns"][0]["calls"][0]["args"] = {"city": "Rome", "unit": "celsius"}


def turn_of(name: str, turn: int) -> dict[str, Any]:
    call = ("get_weather", {"city": "Paris" if hash_of(name) else "Rome", "unit": "celsius"})
    more = [("book_table", {"people": 2})] if turn else []
    return moved(turn_request(name, *([call] if not turn else more), turn=turn, user=f"turn {turn}"), -turn * 55)


def hash_of(name: str) -> int:
    return int(name.rpartition("-")[2]) % 2


def requests_of(documents: list[dict[str, Any]]) -> list[ExportRequest]:
    return [ExportRequest(Signal.TRACES, as_message(one).SerializeToString()) for one in documents]


def replayed(folder: Path, documents: list[dict[str, Any]], goldens: dict[str, Any]) -> Said:
    return said_by_replay([write_lines(folder / "replayed.jsonl", *documents)], load_goldens(goldens))


def test_two_of_three_workers_are_killed_while_goldens_change(kafka: Broker, tmp_path: Path) -> None:
    before = [turn_of(f"before-{number}", turn) for number in range(60) for turn in (0, 1)]
    first, second = ([turn_of(f"while-{number}", turn) for number in range(60)] for turn in (0, 1))
    done = replayed(tmp_path, before, EVERYTHING)
    expected = done | replayed(tmp_path, [*first, *second], CHANGED)

    def change(worker: Worker) -> None:
        (worker.folder / "goldens.json").write_text(json.dumps(CHANGED), "utf-8")

    with cluster(kafka.address, tmp_path, group="changed") as some:
        some.kafka["guarantee"] = "exactly-once"
        workers = [some.add() for _ in range(3)]
        until(lambda: any(worker.ready() for worker in workers), 120)
        some.send(requests_of(before))
        some.until_said(done, 120)
        some.send(requests_of(first))
        for worker in workers:
            change(worker)
        for worker in workers[:2]:
            worker.end(signal.SIGKILL)
        until(lambda: workers[2].number("goldspan_goldens_reloads_total") >= 1, 60)
        for worker in workers[:2]:
            worker.start()
        until(lambda: all(worker.get("/healthz")[0] == 200 for worker in workers), 60)
        some.send(requests_of(second), pause=0.05)
        took = some.until_said(expected, 240)
        wanted = Counter((event[LEVEL], event[LABEL]) for event in expected.values())

        def counted() -> Counter[tuple[str, str]]:
            found = Counter[tuple[str, str]]()
            for (name, *said), count in counted_in(some.bodies("metrics")).items():
                values = dict(one.partition("=")[::2] for one in said)
                if name == "score":
                    found[values[LEVEL], values["tool_parameter_match.label"]] += count
            return +found

        until(lambda: counted() == wanted, 60)
        for worker in workers:
            assert worker.end() == 0
    print(f"\ntwo of three killed: {len(expected)} results after {took:.0f} s, counters {dict(wanted)} as the replay's")
