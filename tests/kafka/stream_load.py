"""What is written to Kafka in these tests: every recording, and sessions made by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import Said, bodies_of, cut_up, everything, files_of, said_by_replay
from rigs.repository import RECORDING_NAMES
from rigs.trace_requests import SECOND, plain_request, turn_request, write_lines


@dataclass(frozen=True)
class Load:
    """Requests in the order in which they are sent, and what is said of them in the end."""

    requests: Sequence[ExportRequest]
    expected: Said


def sessions(count: int, prefix: str, seed: int = 0) -> list[dict[str, Any]]:
    """Sessions of one to three turns, half of them with mistakes, among spans that no agent has to do with."""
    rng = random.Random(seed)
    documents: list[dict[str, Any]] = []
    for number in range(count):
        for turn in range(rng.randint(1, 3)):
            calls = [("get_weather", {"city": rng.choice(["Paris", "Rome"]), "unit": "celsius"})]
            if turn or rng.random() < 0.3:
                calls.append(("book_table", {"people": rng.randint(1, 3)}))
            document = turn_request(f"{prefix}-{number}", *calls, turn=turn, user=f"turn {turn}")
            documents.append(moved(document, -turn * 55))
            documents.append(plain_request(f"{prefix}-{number}-{turn}"))
    return documents


def moved(document: dict[str, Any], seconds: int) -> dict[str, Any]:
    """The same spans earlier or later."""
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("startTimeUnixNano", "endTimeUnixNano"):
            span[name] = str(int(span[name]) + seconds * SECOND)
    return document


def named(text: bytes, number: int) -> bytes:
    """Give a recording a conversation of its own: nearly all were made with one id."""
    return text.replace(b"sess-weather-1", b"sess-%09d" % number)


def load_of(documents: Sequence[dict[str, Any]], recordings: Sequence[str] = (), seed: int = 0) -> Load:
    """Shuffled requests of these documents and recordings, a few spans in each; half of the log records come last."""
    whole = [ExportRequest(Signal.TRACES, as_message(one).SerializeToString()) for one in documents]
    for number, recording in enumerate(recordings):
        whole += [replace(one, body=named(one.body, number)) for one in bodies_of(recording)]
    requests = cut_up(whole, seed)
    rng = random.Random(seed)
    late = [one for one in requests if one.signal is Signal.LOGS and rng.random() < 0.5]
    folder = Path(mkdtemp(prefix="goldspan-load-"))
    files = [write_lines(folder / "sessions.jsonl", *map(json.dumps, documents))] if documents else []
    for number, recording in enumerate(recordings):
        for path in files_of(recording):
            files.append(folder / path.name)
            files[-1].write_bytes(named(path.read_bytes(), number))
    chosen = [one for one in requests if one not in late]
    return Load([*chosen, *late], said_by_replay(files, everything()))


@cache
def everything_recorded() -> Load:
    """Every recording and 280 sessions."""
    return load_of(sessions(280, "made"), RECORDING_NAMES, seed=7)
