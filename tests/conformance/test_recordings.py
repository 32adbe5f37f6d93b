"""Recordings of real frameworks, read and held against the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import recordings
from conformance.known_gaps import or_known_gap
from conformance.transformations import REGISTRY
from goldspan.mappers.assembly import assemble
from goldspan.mappers.readers.files import views
from goldspan.scoring.sessions import ToolCall


@pytest.mark.parametrize("name", or_known_gap(recordings.NAMES, strict=True))
def test_recording_is_read_right(name: str) -> None:
    assert recordings.read(name).wrong == []


def read_of(name: str, *, content: bool) -> list[Any]:
    def of_call(call: ToolCall) -> tuple[Any, ...]:
        return call.name, call.arguments, call.capture, call.error, call.requested, call.rejected, call.batch

    facts = REGISTRY.facts(views(recordings.files_of(name), lambda problem: None), content=content)
    turns = ((session.id, turn) for session in assemble(facts) for turn in session.turns)
    return [(name, turn.doubts, turn.calls_visible, list(map(of_call, turn.calls))) for name, turn in turns]


@pytest.mark.every_recording
@pytest.mark.parametrize("name", recordings.NAMES)
def test_it_is_read_alike_where_texts_and_results_are_not_kept(name: str) -> None:
    """As a door reads it that judges nothing but calls: what decides about these is never the text itself."""
    assert read_of(name, content=False) == read_of(name, content=True)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, []),
        ({"session_id": "another"}, ["expected another"]),
        ({"session_from": "session.id"}, ["expected their ids from session.id"]),
        ({"arguments": "redacted"}, ["no get_weather", "no convert", "no get_weather", "no book_table"]),
        ({"arguments": "not_captured: calls are not visible"}, ["where none can be seen", "no turn says"]),
    ],
    ids=lambda value: next(iter(value), "right") if isinstance(value, dict) else "",
)
def test_another_folder_is_held_against_its_own_truth(
    changes: dict[str, Any], wrong: list[str], tmp_path: Path
) -> None:
    played = [[[call["name"], call["args"]] for call in turn] for turn in recordings.TRUTH["turns"]["standard"]]
    truth = {"session_id": "sess-weather-1", "arguments": "captured", "failed": 1, "session_from": "conversation.id"}
    (tmp_path / "truth.json").write_text(
        json.dumps({"_played": {"calls_by_turn": played}, "volt": {**truth, **changes}}), "utf-8"
    )
    recorded = (recordings.FOLDER / "js-voltagent.otlp.json").read_text("utf-8")
    (tmp_path / "volt.otlp.jsonl").write_text(recorded, "utf-8")
    (row,) = recordings.read_folder(tmp_path)
    assert len(row.wrong) >= len(wrong)
    assert all(any(text in line for line in row.wrong) for text in wrong)
    assert bool(row.wrong) is bool(wrong)
