"""Eval sets of real projects, where they are at hand: what they expect arrives as it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.goldens import load_goldens

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
EVAL_SETS = sorted((DATA / "traces").glob("eval*set_*.json.gz"))
CASES = DATA / "adk-evalsets.jsonl.gz"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded data sets are not at hand")


def unpacked(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("path", EVAL_SETS, ids=lambda path: path.name)
def test_eval_sets_of_recorded_agents_load(path: Path, tmp_path: Path) -> None:
    (copy := tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    document = unpacked(path)
    [golden_set] = load_goldens(copy).sets
    assert golden_set.name == document["eval_set_id"]
    for golden, case in zip(golden_set.goldens, document["eval_cases"], strict=True):
        assert golden.session == case["eval_id"]
        for turn, invocation in zip(golden.turns, case["conversation"], strict=True):
            assert turn.user == invocation["user_content"]["parts"][0]["text"]
            uses = invocation["intermediate_data"]["tool_uses"]
            assert [(call.name, call.args) for call in turn.calls] == [(use["name"], use["args"]) for use in uses]


def as_eval_case(recorded: dict[str, Any]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = [
        {"user_content": {"parts": []}, "intermediate_data": {"tool_uses": []}} for _ in range(recorded["turns"])
    ]
    for call in recorded["expected"]:
        turns[call["turn"]]["intermediate_data"]["tool_uses"].append({"name": call["name"], "args": call["args"]})
    return {"eval_id": recorded["session_id"], "conversation": turns}


def test_calls_of_published_eval_cases_arrive_as_they_are(tmp_path: Path) -> None:
    recorded = [json.loads(line) for line in gzip.decompress(CASES.read_bytes()).splitlines()]
    document = {"eval_set_id": "published", "eval_cases": [as_eval_case(one) for one in recorded]}
    (path := tmp_path / "published.evalset.json").write_text(json.dumps(document), "utf-8")
    goldens = load_goldens(path).goldens
    assert len(goldens) == len(recorded)
    for golden, one in zip(goldens, recorded, strict=True):
        expected = [(call["turn"], call["name"], call["args"]) for call in one["expected"]]
        found = [(index, call.name, call.args) for index, turn in enumerate(golden.turns) for call in turn.calls]
        assert found == [call for call in expected if call[1] != "transfer_to_agent"]
    assert sum(len(turn.calls) for golden in goldens for turn in golden.turns) > 50
