"""Recorded telemetry of every framework through the door, in whatever batches: the same results as by a replay."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from rigs.in_process_rig import Inner, Rig
from rigs.otlp_containers import as_sdk_spans, requests_of
from rigs.otlp_logs import LOGGED, as_sdk_records, log_documents
from rigs.pipeline_rig import EVERYTHING, files_of, newest, said_by_replay
from rigs.repository import RECORDING_NAMES

HALF = {
    **EVERYTHING,
    "goldens": [{**golden, "session_pattern": "*[02468ace]"} for golden in EVERYTHING["goldens"]],  # type: ignore[attr-defined]
}
GOLDENS = load_goldens(EVERYTHING), load_goldens(HALF)
BATCHES = (1, 1000)
"""Spans that end together: each alone, and all of them."""


def said_by_door(name: str, *, batch: int, seed: int, **options: Any) -> dict[str, dict[str, Any]]:
    """Export the spans of a recording out of order, its log records in between; return what is said in the end."""
    chances = Random(seed)
    records: list[Any] = [span for request in requests_of(name) for span in as_sdk_spans(request)]
    spans = len(records)
    for document in log_documents(name) if name in LOGGED else []:
        records += as_sdk_records(document)
    chances.shuffle(records)
    rig = Rig(Inner(), settle=3600, run_idle=3600, hold_timeout=3600, emit="all", **options)
    while records:
        some, records = records[:batch], records[batch:]
        for record in some:
            if hasattr(record, "log_record"):
                rig.door.add_log_record(record)
        rig.door.export([record for record in some if not hasattr(record, "log_record")])
    rig.close()
    assert len(rig.inner.spans) == spans
    return newest(
        {key: list(value) if isinstance(value, tuple) else value for key, value in event.attributes.items()}
        for event in rig.events()
    )


@pytest.mark.every_recording
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_results_are_those_of_a_replay(name: str) -> None:
    """One recording meets goldens for every session, the next for about half of them."""
    goldens = GOLDENS[RECORDING_NAMES.index(name) % 2]
    expected = without_places(said_by_replay(files_of(name), goldens))
    for seed, batch in enumerate(BATCHES):
        assert said_by_door(name, goldens=goldens, batch=batch, seed=seed) == expected


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_without_goldens_too(name: str) -> None:
    """Messages, definitions, results and answers are read from every dialect as a replay reads them."""
    scorer = scorer_of(metrics=WITHOUT_GOLDEN)
    sample = (1.0, 0.5)[RECORDING_NAMES.index(name) % 4 == 0]
    expected = without_places(said_by_replay(files_of(name), GoldenIndex(sample=sample), scorer))
    for seed, batch in enumerate(BATCHES):
        assert said_by_door(name, goldens=None, sample=sample, batch=batch, seed=seed) == expected


def without_places(said: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        result: {key: value for key, value in one.items() if key not in ("time", "context", "resource")}
        for result, one in said.items()
    }
