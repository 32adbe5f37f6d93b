"""`goldspan goldens import`: tasks of tau2 and possible answers of BFCL as golden sets, literal."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring import load_goldens, score_session, score_turn
from goldspan.scoring.sessions import Session, ToolCall, Turn
from rigs.command_line import Run

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded data sets are not at hand")

TASKS = [
    {
        "id": "7",
        "description": {"purpose": "Books a flight."},
        "evaluation_criteria": {
            "actions": [
                {"action_id": "7_0", "name": "get_user", "arguments": {"id": "012"}, "info": None},
                {
                    "name": "book",
                    "arguments": {"to": "NO", "where": {"$regex": "x"}, "on": 3},
                    "compare_args": ["to", "where"],
                },
                {"name": "transfer", "arguments": {"summary": "..."}, "compare_args": []},
                {"name": "toggle", "arguments": {}, "requestor": "user"},
            ]
        },
    },
    {"id": 8, "evaluation_criteria": {"actions": []}},
    {"id": "9", "evaluation_criteria": None},
]
ANSWERS = [
    {
        "id": "simple_0",
        "ground_truth": [{"area": {"base": [10], "unit": ["units", ""], "note": [""], "ids": [[1, 2], [3]]}}],
    },
    {"id": "simple_1", "ground_truth": [{"find": {"filter": [{"year": [1990, 1991], "make": [""], "op": ["$gt"]}]}}]},
    {"id": "multi_0", "ground_truth": [["cd(folder='a b')", "sort('x')", "mean(numbers=[1, -2.5], by=name)"], []]},
    {"id": "search_0", "ground_truth": ["1871"]},
]


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_actions_of_tau2_are_calls_in_any_order(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS, indent=2), "utf-8")
    result = run("import", "tasks.json", "--from", "tau2", "-o", "tau.yaml", "--session-prefix", "tau2/airline/")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "goldspan: note: 1 call of the simulated user left out",
        "goldspan: note: 2 tasks without calls left out",
    ]
    [golden] = load_goldens(tmp_path / "tau.yaml").goldens
    assert (golden.session, golden.golden_set, golden.criterion.ordered) == ("tau2/airline/7", "tau", False)
    assert "description: Books a flight." in (tmp_path / "tau.yaml").read_text("utf-8")
    assert golden.calls is not None
    assert [(call.name, call.args) for call in golden.calls] == [
        ("get_user", {"id": "012"}),
        ("book", {"to": "NO", "where": {"$literal": {"$regex": "x"}}}),
        ("transfer", {}),
    ]


def test_calls_of_the_user_are_taken_when_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(TASKS), "utf-8")
    assert run("import", "tasks.json", "--from", "tau2", "--user-calls", "-o", "t.json").exit_code == 0
    [golden] = load_goldens(tmp_path / "t.json").goldens
    assert [call.name for call in golden.calls or ()] == ["get_user", "book", "transfer", "toggle"]


def test_answers_of_bfcl_are_alternatives(run: Run, tmp_path: Path) -> None:
    result = run("import", written(tmp_path / "BFCL_v4.json", *ANSWERS), "--from", "bfcl", "-o", "b.yaml")
    assert result.stderr.splitlines() == [
        "goldspan: note: 1 answer without calls left out",
        "goldspan: note: 1 argument passed by position left out: the answers do not name them",
        "goldspan: note: 1 argument left out, since no plain value",
    ]
    goldens = load_goldens(tmp_path / "b.yaml").goldens
    assert [golden.key for golden in goldens] == ["simple_0", "simple_1", "multi_0"]
    first, second, third = goldens
    assert (first.calls or ())[0].args == {
        "base": 10,
        "unit": {"$any_of": ["units", "", {"$absent": True}]},
        "ids": {"$any_of": [[1, 2], [3]]},
    }
    assert (second.calls or ())[0].args == {
        "filter": {
            "year": {"$any_of": [1990, 1991]},
            "make": {"$any_of": ["", {"$absent": True}]},
            "op": "$gt",
        }
    }
    assert [[(call.name, call.args) for call in turn.calls] for turn in third.turns] == [
        [("cd", {"folder": "a b"}), ("sort", {}), ("mean", {"numbers": [1, -2.5]})],
        [],
    ]


PASSED: list[tuple[dict[str, Any], float]] = [
    ({"base": 10, "unit": "Units", "ids": [3]}, 1.0),
    ({"base": 10, "ids": [1, 2]}, 1.0),
    ({"base": 10.0, "unit": "", "note": "x", "ids": [3]}, 0.75),
    ({"base": 10, "unit": "feet", "ids": [3]}, 2 / 3),
]


@pytest.mark.parametrize(("passed", "score"), PASSED)
def test_what_may_be_left_out_may_be_left_out(run: Run, tmp_path: Path, passed: dict[str, Any], score: float) -> None:
    run("import", written(tmp_path / "a.json", ANSWERS[0]), "--from", "bfcl", "-o", "b.json")
    [golden] = load_goldens(tmp_path / "b.json").goldens
    found = score_turn(golden.calls or (), [{"name": "area", "args": passed}], golden.criterion)
    assert found.verdict.score == pytest.approx(score)


def answers(first: str) -> str:
    return f'{{"id": "a", "ground_truth": [{first}]}}\n{{"id": "b", "ground_truth": []}}'


def task(action: str) -> str:
    return f'[{{"id": "a", "evaluation_criteria":\n {{"actions": [{action}]}}}}]'


MISTAKES: dict[str, tuple[str, str, int, str]] = {
    "no JSON": ("bfcl", '{"id": "a", "ground_truth": []}\n{"id"', 2, "not JSON"),
    "no object": ("bfcl", "[1]", 1, "found 1, expected an object"),
    "no id": ("tau2", '[{"evaluation_criteria": {"actions": []}}]', 1, "`id` is missing"),
    "no name": ("tau2", task('{"arguments": {}}'), 2, "`name` is missing"),
    "no arguments": (
        "tau2",
        task('{"name": "f",\n "arguments": [1]}'),
        3,
        "found [1], expected an object of arguments",
    ),
    "no names": ("tau2", task('{"name": "f", "compare_args": 1}'), 2, "expected a list of names"),
    "no alternatives": ("bfcl", "\n" + answers('{"f": {"x": 1}}'), 2, "expected a list"),
    "no answers": ("bfcl", answers('{"f": 1}'), 1, "expected an object of alternatives"),
    "no call": ("bfcl", answers('["f("]'), 1, "expected a call"),
    "NaN": ("bfcl", answers('{"f": {"x": [NaN]}}'), 1, "JSON value"),
}


@pytest.mark.parametrize(("source", "text", "line", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_with_their_lines(
    run: Run, tmp_path: Path, source: str, text: str, line: int, words: str
) -> None:
    (tmp_path / "in.json").write_text(text, "utf-8")
    result = run("import", "in.json", "--from", source, "-o", "out.yaml")
    assert result.exit_code == 2
    [said] = [one for one in result.stderr.splitlines() if words in one]
    assert said.startswith(f"goldspan: in.json:{line}: ")
    assert not (tmp_path / "out.yaml").exists()


def test_a_file_that_is_there_is_not_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out.yaml").write_text("mine", "utf-8")
    source = written(tmp_path / "a.json", *ANSWERS)
    assert run("import", source, "--from", "bfcl", "-o", "out.yaml").exit_code == 2
    assert (tmp_path / "out.yaml").read_text("utf-8") == "mine"
    assert run("import", source, "--from", "bfcl", "-o", "out.yaml", "--force").exit_code == 0


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((DATA / name).read_bytes()).splitlines()]


@needs_data
def test_every_task_of_tau2_is_met_by_its_own_actions(run: Run, tmp_path: Path) -> None:
    assert run("import", DATA / "tau2-goldens.jsonl.gz", "--from", "tau2", "-o", "t.json").exit_code == 0
    goldens = {golden.session: golden for golden in load_goldens(tmp_path / "t.json").goldens}
    calls = 0
    for task in lines_of("tau2-goldens.jsonl.gz"):
        own = [one for one in task["expected"] if one.get("requestor") != "user"]
        assert (task["session_id"] in goldens) is bool(own)
        if own:
            made = tuple(ToolCall(one["name"], one["args"]) for one in reversed(own))
            golden = goldens[task["session_id"]]
            assert score_session(golden, Session(task["session_id"], (Turn(made),))).verdict.score == 1
            calls += len(own)
    assert (len(goldens) > 150, calls > 800) == (True, True)


def first(value: Any) -> Any:
    """One alternative as it is passed: in objects each key has alternatives again."""
    if isinstance(value, list):
        return [first(item) if isinstance(item, dict) else item for item in value]
    if isinstance(value, dict) and all(isinstance(one, list) for one in value.values()):
        return {name: of[0] for name, of in value.items() if of and of[0] != ""}
    return value


@needs_data
def test_every_answer_of_bfcl_is_met_by_its_first_alternatives(run: Run, tmp_path: Path) -> None:
    assert run("import", DATA / "bfcl-goldens.jsonl.gz", "--from", "bfcl", "-o", "b.json").exit_code == 0
    goldens = {golden.session: golden for golden in load_goldens(tmp_path / "b.json").goldens}
    wrong: list[str] = []
    for answer in lines_of("bfcl-goldens.jsonl.gz"):
        if not answer["expected"] or "any_of" not in answer["expected"][0]:
            continue
        made = tuple(
            ToolCall(one["name"], {name: first(value) for name, value in one["args"].items()})
            for one in answer["expected"]
        )
        found = score_session(goldens[answer["session_id"]], Session(answer["session_id"], (Turn(made),)))
        if found.verdict.score != 1:
            wrong.append(answer["session_id"])
    assert wrong == []
    assert len(goldens) > 2_000
