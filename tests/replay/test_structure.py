"""What a person and a build see of forbidden calls, alternatives and repeated runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rigs.command_line import Run
from rigs.published_schemas import SCORE_SCHEMA
from rigs.trace_requests import turn_request, write_lines

RIGHT, WRONG = ("f", {"x": 1}), ("f", {"x": 2})
DANGER = ("delete_account", {"id": "7"})


def scored(
    run: Run, tmp_path: Path, golden: dict[str, Any], *requests: object, options: tuple[str, ...] = ()
) -> Result:
    write_lines(tmp_path / "traces.jsonl", *requests)
    (tmp_path / "goldens.json").write_text(json.dumps({"golden_set": "g", "goldens": [golden]}), "utf-8")
    return run("score", "traces.jsonl", "--goldens", "goldens.json", *options)


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    assert [error.message for error in SCORE_SCHEMA.iter_errors(found)] == []
    return found


FORBIDDEN = {
    "session": "s",
    "calls": [{"name": "f", "args": {"x": 1}}, {"name": "delete_account", "forbidden": True}],
}


def test_a_forbidden_call_fails_the_build_and_is_named(run: Run, tmp_path: Path) -> None:
    request = turn_request("s", RIGHT, DANGER)
    result = scored(run, tmp_path, FORBIDDEN, request, options=("--report", "html=r.html", "--report", "junit=r.xml"))
    assert result.exit_code == 1
    assert "forbidden, but called" in result.output
    assert "forbidden, but called" in (tmp_path / "r.html").read_text("utf-8")
    assert ET.parse(tmp_path / "r.xml").getroot().get("failures") == "1"
    found = document(scored(run, tmp_path, FORBIDDEN, request, options=("--format", "json")))
    [session] = found["sessions"]
    assert (session["score"], session["label"]) == (1, "fail")
    assert [call["forbidden"] for call in session["turns"][0]["calls"]] == [False, True]
    assert scored(run, tmp_path, FORBIDDEN, turn_request("s", RIGHT)).exit_code == 0


def test_nothing_but_prohibitions_passes_without_a_score(run: Run, tmp_path: Path) -> None:
    golden = {"session": "s", "turns": [{"calls": [{"name": "g*", "forbidden": True}]}]}
    assert scored(run, tmp_path, golden, turn_request("s", RIGHT)).exit_code == 0
    found = document(scored(run, tmp_path, golden, turn_request("s", RIGHT), options=("--format", "json")))
    [session] = found["sessions"]
    assert (session["score"], session["label"], session["reason"]) == (None, "pass", None)
    assert scored(run, tmp_path, golden, turn_request("s", ("g", {}))).exit_code == 1


def test_the_alternative_that_was_judged_is_named(run: Run, tmp_path: Path) -> None:
    golden = {
        "session": "s",
        "any_of": [[{"name": "g"}], [{"name": "f", "args": {"x": 1}}, {"name": "h", "optional": True}]],
    }
    result = scored(run, tmp_path, golden, turn_request("s", RIGHT, ("h", {})), options=("--format", "json"))
    [turn] = document(result)["sessions"][0]["turns"]
    assert (turn["alternative"], turn["score"], turn["expected_calls"]) == (1, 1, 1)
    assert [call["optional"] for call in turn["calls"]] == [False, True]


@pytest.mark.parametrize(
    ("runs", "exit_code", "says"),
    [
        ([RIGHT, WRONG, RIGHT], 0, "2 of 3 runs passed, 2 of 3 must"),
        ([RIGHT, WRONG, WRONG], 1, "golden run-*: 1 of 3 runs passed, 2 of 3 must"),
        ([RIGHT, RIGHT], 1, "2 of 2 runs passed, 2 of 3 must: too few were seen"),
    ],
)
def test_a_build_passes_when_enough_runs_do(
    run: Run, tmp_path: Path, runs: list[tuple[str, dict[str, Any]]], exit_code: int, says: str
) -> None:
    golden = {
        "session_pattern": "run-*",
        "repeat": {"runs": 3, "passes": 2},
        "calls": [{"name": "f", "args": {"x": 1}}],
    }
    requests = [turn_request(f"run-{number}", call) for number, call in enumerate(runs)]
    result = scored(run, tmp_path, golden, *requests, options=("--report", "junit=r.xml"))
    assert (result.exit_code, says in result.output) == (exit_code, True)
    assert says.removeprefix("golden run-*: ") in (tmp_path / "r.xml").read_text("utf-8")
    [repeat] = document(scored(run, tmp_path, golden, *requests, options=("--format", "json")))["repeats"]
    assert (repeat["label"] == "pass") is (exit_code == 0)
    assert (ET.parse(tmp_path / "r.xml").getroot().get("failures") == "0") is (repeat["label"] != "fail")
