"""What every recording becomes: a golden set by which the recording itself is right, and by which a change shows."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from conformance import recordings
from conformance.known_gaps import or_known_gap
from conformance.recordings import files_of
from goldspan.collector_processor.cli import main
from goldspan.collector_processor.golden_tools.writing import yaml_text
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml
from goldspan.scoring.goldens.json_schema import golden_set_schema

CAPTURED = [name for name in recordings.NAMES if recordings.TRUTH["files"][name]["arguments"].startswith("captured")]
VALIDATOR = Draft202012Validator(golden_set_schema())
"""Made once: `jsonschema.validate` would check the schema itself each time, which takes longer than all the rest."""


def goldspan(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def recorded(name: str, folder: Path) -> Path:
    assert goldspan("goldens", "record", *files_of(name), "-o", folder / "goldens.yaml").exit_code == 0
    return folder / "goldens.yaml"


@pytest.mark.every_recording
@pytest.mark.parametrize("name", or_known_gap(CAPTURED))
def test_a_recording_is_right_by_its_own_golden(name: str, tmp_path: Path) -> None:
    goldens = recorded(name, tmp_path)
    VALIDATOR.validate(read_yaml(goldens.read_text("utf-8"), MistakeCollector("")))
    result = goldspan("score", *files_of(name), "--goldens", goldens, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    judged = [session for session in document["sessions"] if session["golden"] is not None]
    assert judged
    assert {session["score"] for session in judged} == {1.0}
    assert document["problems"] == []
    turns = [turn for session in judged for turn in session["turns"]]
    assert sum(turn["unexpected_calls"] + turn["missing_calls"] for turn in turns) == 0
    assert [call["extra_arguments"] for turn in turns for call in turn["calls"] if call["extra_arguments"]] == []
    assert goldspan("goldens", "diff", goldens, *files_of(name)).stdout == "= no differences\n"


def expected_calls(document: Any) -> list[Any]:
    found: list[Any] = []
    for golden in document["goldens"]:
        for turn in golden["turns"]:
            for item in turn.get("calls", ()):
                found += item.get("parallel", [item])
    return found


@pytest.mark.every_recording
@pytest.mark.parametrize("name", or_known_gap(CAPTURED))
def test_one_changed_argument_is_all_that_differs(name: str, tmp_path: Path) -> None:
    goldens = recorded(name, tmp_path)
    document = read_yaml(goldens.read_text("utf-8"), MistakeCollector(""))
    changed = copy.deepcopy(document)
    call = next(call for call in expected_calls(changed) if "city" in call.get("args", {}))
    seen, call["args"]["city"] = call["args"]["city"], "Atlantis"
    goldens.write_text(yaml_text(changed), "utf-8")
    result = goldspan("goldens", "diff", goldens, *files_of(name))
    signed = [line.split() for line in result.stdout.splitlines() if line[0] in "-+"]
    assert signed == [["-", "city:", "Atlantis"], ["+", "city:", seen]]
    assert result.exit_code == 1
    assert goldspan("goldens", "update", goldens, *files_of(name), "--yes").exit_code == 0
    assert read_yaml(goldens.read_text("utf-8"), MistakeCollector("")) == document


@pytest.mark.every_recording
@pytest.mark.parametrize("name", [name for name in recordings.NAMES if name not in CAPTURED])
def test_what_was_not_captured_is_said_and_not_invented(name: str, tmp_path: Path) -> None:
    result = goldspan("goldens", "record", *files_of(name), "-o", tmp_path / "goldens.json")
    if result.exit_code == 1:  # requests of models that were not captured at all
        assert "no tool call was found" in result.stderr
        assert not any(turn.calls for session in recordings.read(name).sessions for turn in session.turns)
        return
    assert result.exit_code == 0
    document = json.loads((tmp_path / "goldens.json").read_text("utf-8"))
    sessions = recordings.read(name).sessions
    passed = [
        call.arguments for one in sessions for turn in one.turns for call in turn.calls if call.arguments is not None
    ]
    assert all(call["args"] in passed for call in expected_calls(document) if "args" in call)
    if recordings.TRUTH["files"][name]["arguments"] in {"not_captured", "redacted", "truncated"}:
        assert "arguments were not captured in " in result.stderr
