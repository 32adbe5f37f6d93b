"""A replay decodes the content of sessions that a golden wants, and of others no more than tells where turns begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.traffic import golden_set, otlp_json_lines, plan_sessions
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_marked
from goldspan.mappers.span_facts import SpanFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.goldens import load_goldens


class Counting(DialectRegistry):
    """Counts the spans whose content is read."""

    def __init__(self) -> None:
        super().__init__()
        self.contents = 0

    def read_content(self, view: SpanView) -> SpanFacts:
        self.contents += 1
        return super().read_content(view)


@pytest.mark.parametrize(("wanted", "most"), [(0, 0), (1, 40)])
def test_content_is_read_of_wanted_sessions_alone(wanted: int, most: int, tmp_path: Path) -> None:
    sessions = plan_sessions([f"s-{number}" for number in range(20)], turns=2, rounds=4)
    traces = tmp_path / "traces.jsonl"
    traces.write_text("".join(f"{line}\n" for line in otlp_json_lines(sessions)), "utf-8")
    goldens = load_goldens(golden_set(sessions[:wanted] or plan_sessions(["nobody's"])))
    registry, others = Counting(), len(sessions) - wanted

    found = replay(read_marked([traces], registry.markers, lambda problem: None), goldens, registry, problems=[])

    assert len(found.result.sessions) == 20
    # Whether its first model call answers a tool is read of the second turn of a session.
    assert registry.contents <= others + most
