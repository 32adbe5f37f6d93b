"""Several processes serve the turns of one session, as workers behind a load balancer do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

WORKER = Path(__file__).parent / "shared_session_worker.py"
TURNS: list[tuple[str, tuple[str, dict[str, Any]]]] = [
    ("Flights to Rome?", ("search", {"city": "Rome"})),
    ("And to Oslo?", ("search", {"city": "Oslo"})),
    ("Book two seats.", ("book", {"city": "Oslo", "seats": 2})),
]
WRONG = ("search", {"city": "Bergen"})


def goldens(folder: Path) -> Path:
    turns = [{"calls": [{"name": name, "args": args}]} for _, (name, args) in TURNS]
    path = folder / "goldens.json"
    path.write_text(json.dumps({"golden_set": "trips", "goldens": [{"session": "trip-1", "turns": turns}]}))
    return path


def served(folder: Path, order: str, content: str, version: int, *, wrong: int | None = None) -> list[str]:
    """Have the conversation, each turn in the process that `order` names; return each newest verdict as a line."""
    command = [sys.executable, str(WORKER), str(goldens(folder)), content, str(version)]
    workers = {
        name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in set(order)
    }
    history = ""
    for place, (name, (text, call)) in enumerate(zip(order, TURNS, strict=True)):
        worker = workers[name]
        assert worker.stdin is not None
        assert worker.stdout is not None
        made = WRONG if place == wrong else call
        worker.stdin.write(json.dumps({"text": text, "call": made, "history": history}) + "\n")
        worker.stdin.flush()
        history = worker.stdout.readline()
    lines: list[str] = []
    for name, worker in sorted(workers.items()):
        said, _ = worker.communicate(timeout=60)
        newest = {event["tool_parameter_match.result_id"]: event for event in map(json.loads, said.splitlines())}
        lines += sorted(
            f"{name} {line_of(event)}" for event in newest.values() if not event.get("tool_parameter_match.withdrawn")
        )
    return lines


def level_of(event: dict[str, Any]) -> str:
    return str(event["tool_parameter_match.level"])


def line_of(event: dict[str, Any]) -> str:
    index = event.get("tool_parameter_match.turn_index")
    label = event["gen_ai.evaluation.score.label"]
    why = next((value for key, value in event.items() if key.endswith("reason")), None)
    return " ".join(str(part) for part in (level_of(event), index, label, why) if part is not None)


RIGHT = {"on": "pass", "off": "not_evaluated arguments_not_captured"}
UNSEEN = "not_evaluated session_ambiguous"


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("content", ["on", "off"])
def test_two_processes_that_serve_a_session_in_turn_fail_nothing(tmp_path: Path, content: str, version: int) -> None:
    said = served(tmp_path, "ABA", content, version)
    assert not [line for line in said if "fail" in line]
    assert [line for line in said if " turn " in line] == [
        f"A turn 0 {RIGHT[content]}",
        f"A turn 1 {UNSEEN}",
        f"A turn 2 {RIGHT[content]}",
        f"B turn 0 {UNSEEN}",
        f"B turn 1 {RIGHT[content]}",
        f"B turn 2 {UNSEEN}",
    ]


def test_a_turn_that_was_wrong_in_one_of_two_processes_fails(tmp_path: Path) -> None:
    said = served(tmp_path, "ABA", "on", 5, wrong=1)
    assert [line for line in said if "fail" in line] == ["B call 1 fail", "B session fail", "B turn 1 fail"]


def test_one_process_judges_the_whole_session(tmp_path: Path) -> None:
    said = served(tmp_path, "AAA", "on", 5, wrong=2)
    assert [line for line in said if "call" not in line] == [
        "A session fail",
        "A turn 0 pass",
        "A turn 1 pass",
        "A turn 2 fail",
    ]
