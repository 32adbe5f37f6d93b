"""Which recordings are in doubt, and about what: those that are read right hardly ever, others about what is wrong."""

from __future__ import annotations

import pytest

from conformance import recordings

DOUBTED: dict[str, dict[str, set[str]]] = {"openai-agents-otel-genai-denied": {"calls": {"ran_in_another_turn"}}}
"""By recording the codes of its doubts by fact. Each is true: the first recording is a known gap, read wrongly."""
SILENT = {"py-langchain-monocle"}
"""Read wrongly, and not doubted: no turn is recognised, which is said."""


@pytest.mark.every_recording
@pytest.mark.parametrize("name", recordings.NAMES)
def test_a_reading_is_doubted_where_its_telemetry_contradicts_it(name: str) -> None:
    assert recordings.read(name).doubts == DOUBTED.get(name, {})


@pytest.mark.every_recording
@pytest.mark.parametrize("name", recordings.NAMES)
def test_no_wrong_reading_of_turns_is_silent(name: str) -> None:
    row = recordings.read(name)
    assert not row.wrong or row.doubts or name in SILENT or not all(map(bool, row.turns))
