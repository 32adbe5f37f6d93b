"""The replay itself: the same result whatever the order, and what is forgotten on very long input."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.replay.replay import Replay, replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import load_goldens
from rigs.trace_requests import plain_request, turn_request, write_lines

GOLDENS = {
    "format": 1,
    "golden_set": "g",
    "goldens": [
        {
            "session_pattern": "sess-*",
            "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}, {"calls": [{"name": "g", "args": {"y": "a"}}]}],
        }
    ],
}


def replayed(
    requests: list[dict[str, Any]], goldens: dict[str, Any] = GOLDENS, **options: Any
) -> tuple[Replay, list[Problem]]:
    problems: list[Problem] = []
    found = replay(
        views(requests, problems.append), load_goldens(goldens), DialectRegistry(), problems=problems, **options
    )
    return found, problems


def conversation(number: int) -> list[dict[str, Any]]:
    name = f"sess-{number}"
    return [
        turn_request(name, ("f", {"x": number % 3}), turn=0, user="first"),
        turn_request(name, ("g", {"y": "a"}), ("h", {}), turn=1, user="second"),
    ]


def scores(found: Replay) -> dict[str, float | None]:
    return {result.session.id: result.verdict.score for result in found.result.sessions if result.session}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_input_changes_nothing(seed: int) -> None:
    requests = [request for number in range(12) for request in conversation(number)] + [plain_request()]
    expected, _ = replayed(requests)
    shuffled = [*requests, *requests[:5]]
    random.Random(seed).shuffle(shuffled)
    found, problems = replayed(shuffled)
    assert found.result.to_json() == expected.result.to_json()
    assert problems == []


def test_sessions_that_went_quiet_are_judged_as_well_as_any_other() -> None:
    requests = [request for number in range(200) for request in conversation(number)]
    expected, _ = replayed(requests)
    seen: list[Evaluation] = []
    found, problems = replayed(requests, quiet_spans=50, consumers=[seen.append])
    assert found.result.to_json() == expected.result.to_json()
    assert len(scores(found)) == 200
    assert problems == []
    assert {evaluation.revision for evaluation in seen} == {1}
    assert len({evaluation.id for evaluation in seen}) == len(seen)


def test_a_session_without_a_golden_is_one_session_however_many_traces_it_has() -> None:
    requests = [
        turn_request(f"other-{number}", ("f", {"x": 1}), turn=turn, user=f"{turn}")
        for number in range(100)
        for turn in range(3)
    ]
    found, problems = replayed(requests, quiet_spans=20)
    assert scores(found) == {f"other-{number}": None for number in range(100)}
    assert len(found.result.sessions) == 100
    assert problems == []


def test_what_comes_after_its_session_was_forgotten_is_counted() -> None:
    first, second = conversation(1)
    between = [request for number in range(100, 200) for request in conversation(number)]
    found, problems = replayed([first, *between, second], quiet_spans=50)
    assert [problem.code for problem in problems] == ["late"]
    assert "sort the input by time" in problems[0].message
    assert scores(found)["sess-1"] == 1.0
    [session] = [one for one in found.result.sessions if one.session is not None and one.session.id == "sess-1"]
    assert session.reason == "session_ambiguous"


def test_a_session_larger_than_what_may_be_open_is_judged_as_incomplete() -> None:
    found, problems = replayed([turn_request("sess-1", *[("f", {"x": 1})] * 200)], quiet_spans=20)
    assert "evicted" in [problem.code for problem in problems]
    assert any(result.session is not None and result.session.incomplete for result in found.result.sessions)


def test_spans_without_ids_are_calls_of_one_session() -> None:
    request = turn_request(None, ("f", {"x": 1}), ("f", {"x": 1}))
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            del span[key]
    wanted = {"session": "input", "calls": [{"name": "f", "args": {"x": 1}}]}
    found, _ = replayed([request], {"format": 1, "golden_set": "g", "goldens": [wanted]})
    [result] = found.result.sessions
    assert result.session is not None
    assert [call.name for turn in result.session.turns for call in turn.calls] == ["f", "f"]


def test_a_file_and_its_parts_give_one_result(tmp_path: Path) -> None:
    requests = [request for number in range(4) for request in conversation(number)]
    whole = write_lines(tmp_path / "whole.jsonl", *requests)
    parts = [write_lines(tmp_path / f"{at}.jsonl", request) for at, request in enumerate(reversed(requests))]
    registry, goldens = DialectRegistry(), load_goldens(GOLDENS)
    one, many = (
        replay(views(paths, print), goldens, registry, problems=[]).result.to_json() for paths in ([whole], parts)
    )
    assert json.dumps(one) == json.dumps(many)
