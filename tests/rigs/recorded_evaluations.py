"""What is said of recorded agents: every evaluation of a recording, by goldens and by all metrics."""

from __future__ import annotations

from conformance.recordings import files_of
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of

WRONG = load_goldens(
    {
        "format": 1,
        "golden_set": "wrong",
        "goldens": [
            {"session_pattern": "*", "turns": [{"calls": [{"name": "get_weather", "args": {"city": "Paris", "x": 2}}]}]}
        ],
    }
)
"""Wants of every session what none did."""


def evaluations_of(recording: str, goldens: GoldenIndex) -> list[Evaluation]:
    found: list[Evaluation] = []
    registry = DialectRegistry(join_attributes=goldens.join_attributes, definitions=True)
    scorer = scorer_of(metrics=WITHOUT_GOLDEN)
    views = read_files(files_of(recording), lambda _: None)
    replay(views, goldens, registry, problems=[], consumers=[found.append], scorer=scorer)
    return found
