"""`goldspan goldens update`: a golden file accepts what was seen, and keeps everything else as it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.goldens import load_goldens
from rigs.command_line import Run
from rigs.trace_requests import turn_request, write_lines

GOLDENS = """\
# kept by hand
golden_set: weather
goldens:
  - session: s-1   # the first
    turns:
      - user: Weather?
        calls:
          - {name: get_weather, args: {city: 'Paris', days: 3}}   # three days
          # in Fahrenheit
          - {name: convert, args: {to: F}}
      - user: Thanks
"""
FIRST = "          - {name: get_weather, args: {city: 'Paris', days: 3}}   # three days\n"
SECOND = "          - {name: convert, args: {to: F}}\n"
AGREED = ("get_weather", {"city": "Paris", "days": 3}), ("convert", {"to": "F"})


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    return tmp_path / "goldens.yaml"


def traces(folder: Path, *turns: Any) -> Path:
    """Write turns; each is a tuple of calls, its user asks for the weather."""
    requests = [turn_request("s-1", *calls, turn=100 * index, user="Weather?") for index, calls in enumerate(turns)]
    return write_lines(folder / "traces.jsonl", *requests)


def test_what_agrees_is_left_alone(run: Run, goldens: Path, tmp_path: Path) -> None:
    result = run("update", goldens, traces(tmp_path, AGREED), "--yes")
    assert goldens.read_text("utf-8") == GOLDENS
    assert "0 of 0 differences accepted" in result.stdout
    assert result.exit_code == 0


CHANGES: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "a value": ((("get_weather", {"city": "Lyon", "days": 3}), AGREED[1]), "'Paris'", "Lyon"),
    "an argument left out": ((("get_weather", {"city": "Paris"}), AGREED[1]), ", days: 3", ""),
    "a call left out": (AGREED[:1], "          # in Fahrenheit\n          - {name: convert, args: {to: F}}\n", ""),
    "a call more": (
        (*AGREED, ("book", {"when": "12:30"})),
        "{to: F}}\n",
        '{to: F}}\n          - {name: book, args: {when: "12:30"}}\n',
    ),
    "a call before all": ((("ping", {}), *AGREED), "calls:\n", "calls:\n          - {name: ping}\n"),
    "a call in between": (
        (AGREED[0], ("ping", {}), AGREED[1]),
        "# three days\n",
        "# three days\n          - {name: ping}\n",
    ),
    "the other order": (
        AGREED[::-1],
        FIRST + "          # in Fahrenheit\n" + SECOND,
        SECOND + FIRST,
    ),
    "what looks like a matcher": (
        (("get_weather", {"city": {"$regex": "a|b"}, "days": 3}), AGREED[1]),
        "'Paris'",
        '{$literal: {$regex: "a|b"}}',
    ),
}


@pytest.mark.parametrize(("calls", "before", "after"), CHANGES.values(), ids=CHANGES)
def test_what_was_seen_is_expected_afterwards(
    run: Run, goldens: Path, tmp_path: Path, calls: Any, before: str, after: str
) -> None:
    seen = traces(tmp_path, calls)
    assert run("update", goldens, seen, "--yes", "--extra-calls").exit_code == 0
    updated = goldens.read_text("utf-8")
    assert updated == GOLDENS.replace(before, after, 1)
    result = run("diff", goldens, seen)
    assert (result.exit_code, result.stdout) == (0, "= no differences\n")


def test_only_what_is_accepted_changes(run: Run, goldens: Path, tmp_path: Path) -> None:
    seen = traces(tmp_path, (("get_weather", {"city": "Lyon", "days": 5}), AGREED[1]))
    result = run("update", goldens, seen, stdin="n\ny\n")
    assert goldens.read_text("utf-8") == GOLDENS.replace("days: 3", "days: 5")
    assert "1 of 2 differences accepted" in result.stdout
    assert result.exit_code == 1


def test_the_end_of_the_answers_is_a_no(run: Run, goldens: Path, tmp_path: Path) -> None:
    seen = traces(tmp_path, (("get_weather", {"city": "Lyon", "days": 5}), AGREED[1]))
    assert run("update", goldens, seen, stdin="").exit_code == 1
    assert goldens.read_text("utf-8") == GOLDENS


def test_a_dry_run_writes_nothing(run: Run, goldens: Path, tmp_path: Path) -> None:
    result = run("update", goldens, traces(tmp_path, AGREED[:1]), "--yes", "--dry-run")
    assert goldens.read_text("utf-8") == GOLDENS
    assert "-     {name: convert, args: {to: F}}" in result.stdout
    assert result.exit_code == 1


def test_runs_that_differ_make_a_choice(run: Run, goldens: Path, tmp_path: Path) -> None:
    lyon = (("get_weather", {"city": "Lyon", "days": 3}), AGREED[1])
    rome = (("get_weather", {"city": "Rome", "days": 3}), AGREED[1])
    seen = traces(tmp_path, lyon, rome, AGREED)
    assert run("update", goldens, seen, "--yes").exit_code == 0
    assert goldens.read_text("utf-8") == GOLDENS.replace("'Paris'", "{$any_of: [Paris, Lyon, Rome]}")
    assert run("diff", goldens, seen).exit_code == 0


@pytest.mark.parametrize(
    ("other", "after"),
    [
        ((*AGREED, ("ping", {})), SECOND + "          - {name: ping, optional: true}\n"),
        (AGREED[:1], SECOND.replace("{to: F}", "{to: F}, optional: true")),
    ],
    ids=["a call more", "a call left out"],
)
def test_what_only_some_runs_did_may_be_left_out(
    run: Run, goldens: Path, tmp_path: Path, other: Any, after: str
) -> None:
    seen = traces(tmp_path, AGREED, other)
    assert run("update", goldens, seen, "--yes", "--extra-calls").exit_code == 0
    assert goldens.read_text("utf-8") == GOLDENS.replace(SECOND, after)
    assert run("diff", goldens, seen).exit_code == 0


def test_runs_that_differ_in_parts_and_as_a_whole_make_a_choice_of_wholes(run: Run, tmp_path: Path) -> None:
    text = "golden_set: w\ngoldens:\n  - session: s-1\n    calls:\n      - {name: book, args: {at: {name: A, id: 1}}}\n"
    (path := tmp_path / "goldens.yaml").write_text(text, "utf-8")
    seen = traces(tmp_path, [("book", {"at": "anywhere"})], [("book", {"at": {"name": "B", "id": 1}})])
    assert run("update", path, seen, "--yes").exit_code == 0
    assert path.read_text("utf-8") == text.replace("{name: A, id: 1}", "{$any_of: [anywhere, {name: B, id: 1}]}")
    assert run("diff", path, seen).exit_code == 0


GROUPS = """\
golden_set: w
goldens:
  - session: s-1
    calls:
      - parallel:
          - {name: a, args: {x: 1}}   # first
          - {name: b}
      - {name: c}
"""


@pytest.mark.parametrize(
    ("calls", "before", "after"),
    [
        ([("a", {"x": 2}), ("b", {}), ("c", {})], "x: 1", "x: 2"),
        ([("b", {}), ("a", {"x": 1}), ("c", {})], "", ""),
        ([("a", {"x": 1}), ("c", {})], "          - {name: b}\n", ""),
        ([("a", {"x": 1}), ("b", {}), ("d", {}), ("c", {})], "- {name: b}\n", "- {name: b}\n      - {name: d}\n"),
        ([("a", {"x": 1}), ("b", {})], "      - {name: c}\n", ""),
    ],
)
def test_groups_are_changed_inside_and_around(run: Run, tmp_path: Path, calls: Any, before: str, after: str) -> None:
    (path := tmp_path / "goldens.yaml").write_text(GROUPS, "utf-8")
    seen = traces(tmp_path, calls)
    assert run("update", path, seen, "--yes", "--extra-calls").exit_code == 0
    assert path.read_text("utf-8") == GROUPS.replace(before, after, 1)
    assert run("diff", path, seen).exit_code == 0


def test_the_alternative_that_was_nearest_is_changed(run: Run, tmp_path: Path) -> None:
    text = (
        "golden_set: w\ngoldens:\n  - session: s-1\n    any_of:\n      - [{name: a, args: {x: 1}}]\n"
        "      - [{name: b, args: {x: 1, y: 2}}, {name: c}]\n"
    )
    (path := tmp_path / "goldens.yaml").write_text(text, "utf-8")
    seen = traces(tmp_path, [("b", {"x": 1, "y": 3}), ("c", {})])
    assert run("update", path, seen, "--yes").exit_code == 0
    assert path.read_text("utf-8") == text.replace("y: 2", "y: 3")


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_what_no_golden_file_can_hold_is_left_to_a_person(run: Run, tmp_path: Path, suffix: str) -> None:
    calls = [{"name": "get_weather", "args": {"city": "Paris", "days": 3}}, {"name": "convert"}]
    document = {"golden_set": "w", "goldens": [{"session": "s-1", "turns": [{"calls": calls}]}]}
    (path := tmp_path / f"goldens.{suffix}").write_text(json.dumps(document), "utf-8")
    seen = traces(tmp_path, [("get_weather", {"city": "Lyon", "days": float("nan")}), ("\u2028", {})])
    result = run("update", path, seen, "--yes", "--extra-calls")
    assert "calls[0].name: " in result.stderr
    assert "expected text that is not blank: change that by hand" in result.stderr
    assert "args.days: found a value that JSON cannot hold: change that by hand" in result.stderr
    assert result.exit_code == 1
    [expected] = load_goldens(path).goldens[0].turns[0].calls
    assert dict(expected.args) == {"city": "Lyon", "days": 3}


def test_line_breaks_of_windows_stay(run: Run, goldens: Path, tmp_path: Path) -> None:
    goldens.write_bytes(GOLDENS.replace("\n", "\r\n").encode())
    seen = traces(tmp_path, (("get_weather", {"city": "Lyon", "days": 3}), AGREED[1]))
    assert run("update", goldens, seen, "--yes").exit_code == 0
    assert goldens.read_bytes() == GOLDENS.replace("'Paris'", "Lyon").replace("\n", "\r\n").encode()


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_json_keeps_its_indentation(run: Run, tmp_path: Path, indent: int | None) -> None:
    calls = [{"name": "get_weather", "args": {"city": "Paris"}}]
    document = {"golden_set": "w", "goldens": [{"session": "s-1", "turns": [{"calls": calls}]}]}
    (path := tmp_path / "goldens.json").write_text(json.dumps(document, indent=indent), "utf-8")
    run("update", path, traces(tmp_path, [("get_weather", {"city": "Chez Léa"})]), "--yes")
    calls[0]["args"] = {"city": "Chez Léa"}
    assert path.read_text("utf-8") == json.dumps(document, indent=indent, ensure_ascii=False)


def test_json_lines_stay_lines(run: Run, tmp_path: Path) -> None:
    golden = {"session": "s-1", "calls": [{"name": "get_weather", "args": {"city": "Paris"}}]}
    (path := tmp_path / "goldens.jsonl").write_text(
        json.dumps({"golden_set": "w"}) + "\n" + json.dumps(golden), "utf-8"
    )
    assert run("update", path, traces(tmp_path, [("get_weather", {"city": "Lyon"})]), "--yes").exit_code == 0
    first, second = path.read_text("utf-8").splitlines()
    assert json.loads(first) == {"golden_set": "w"}
    assert json.loads(second)["calls"] == [{"name": "get_weather", "args": {"city": "Lyon"}}]


def test_an_eval_set_of_adk_is_not_touched(run: Run, tmp_path: Path) -> None:
    (path := tmp_path / "a.evalset.json").write_text('{"eval_set_id": "x", "eval_cases": []}', "utf-8")
    result = run("update", path, traces(tmp_path, AGREED), "--yes")
    assert result.exit_code == 2
    assert "ADK's own tools" in result.stderr


def test_what_cannot_be_changed_in_place_is_refused_whole(run: Run, tmp_path: Path) -> None:
    text = GOLDENS.replace("{city: 'Paris', days: 3}", "&a {city: Paris, days: 3}").replace("{to: F}", "*a")
    (path := tmp_path / "goldens.yaml").write_text(text, "utf-8")
    seen = traces(tmp_path, (("get_weather", {"city": "Lyon", "days": 3}), ("convert", {"city": "Paris", "days": 3})))
    result = run("update", path, seen, "--yes")
    assert result.exit_code == 2
    assert "cannot be changed in place" in result.stderr
    assert path.read_text("utf-8") == text


def test_what_was_never_seen_stays(run: Run, tmp_path: Path) -> None:
    text = GOLDENS.replace("- user: Thanks", "- {user: Book it, calls: [{name: book}]}")
    (path := tmp_path / "goldens.yaml").write_text(text, "utf-8")
    result = run("update", path, traces(tmp_path, AGREED), "--yes")
    assert path.read_text("utf-8") == text
    assert "turn 2 was never seen: remove it by hand" in result.stderr
    assert result.exit_code == 1


def test_a_turn_more_is_put_behind_the_others(run: Run, goldens: Path, tmp_path: Path) -> None:
    first = turn_request("s-1", *AGREED, user="Weather?")
    more = turn_request("s-1", ("book", {"people": 2}), turn=1, user="Book it")
    seen = write_lines(tmp_path / "traces.jsonl", first, more)
    result = run("update", goldens, seen, "--yes")
    assert (result.exit_code, goldens.read_text("utf-8")) == (0, GOLDENS)
    assert "left: 1 extra call on which no score depends (turn 2); --extra-calls adds them" in result.stdout
    assert run("update", goldens, seen, "--yes", "--extra-calls").exit_code == 0
    assert goldens.read_text("utf-8").startswith(GOLDENS)
    [golden] = load_goldens(goldens).goldens
    assert [(turn.user, len(turn.calls)) for turn in golden.turns] == [("Weather?", 2), ("Thanks", 0), ("Book it", 1)]


EXTRA: dict[str, tuple[Any, ...]] = {
    "in every run": ((*AGREED, ("ping", {})), (*AGREED, ("ping", {}))),
    "in some runs": (AGREED, (*AGREED, ("ping", {}), ("book", {"when": "12:30"}))),
    "beside a wrong value": (((AGREED[0][0], {"city": "Lyon", "days": 3}), AGREED[1], ("ping", {})),),
}


@pytest.mark.parametrize("runs", EXTRA.values(), ids=EXTRA)
def test_calls_on_which_no_score_depends_are_left(run: Run, goldens: Path, tmp_path: Path, runs: Any) -> None:
    result = run("update", goldens, traces(tmp_path, *runs), "--yes")
    assert result.exit_code == 0
    assert not {"ping", "book", "optional"} & set(goldens.read_text("utf-8").replace(":", " ").split())
    assert "on which no score depends (ping" in result.stdout
    assert "--extra-calls adds them" in result.stdout


def test_extra_calls_that_lower_the_score_are_accepted(run: Run, goldens: Path, tmp_path: Path) -> None:
    penalized = GOLDENS.replace("goldens:", "criterion: {extra_calls: penalize}\ngoldens:", 1)
    goldens.write_text(penalized, "utf-8")
    assert run("update", goldens, traces(tmp_path, (*AGREED, ("ping", {}))), "--yes").exit_code == 0
    assert goldens.read_text("utf-8") == penalized.replace("{to: F}}\n", "{to: F}}\n          - {name: ping}\n")


@pytest.mark.parametrize(
    "calls", [AGREED[::-1], (AGREED[0], ("to_unit", {"to": "F"}))], ids=["another order", "another name"]
)
def test_a_call_that_replaces_a_missing_one_is_no_extra_call(
    run: Run, goldens: Path, tmp_path: Path, calls: Any
) -> None:
    result = run("update", goldens, traces(tmp_path, calls), "--yes")
    [golden] = load_goldens(goldens).goldens
    assert [call.name for call in golden.turns[0].calls] == [name for name, _ in calls]
    assert "left" not in result.stdout


JOINED = {
    "session_pattern": "s-*",
    "first_user_text": "Weather?",
}


@pytest.mark.parametrize(("join", "text"), JOINED.items(), ids=JOINED)
def test_a_golden_of_several_sessions_changes_only_on_request(
    run: Run, goldens: Path, tmp_path: Path, join: str, text: str
) -> None:
    before = GOLDENS.replace("session: s-1 ", f"{join}: {text!r} ")
    goldens.write_text(before, "utf-8")
    seen = traces(tmp_path, (("get_weather", {"city": "Lyon", "days": 3}), AGREED[1]), AGREED)
    result = run("update", goldens, seen, "--yes")
    assert (result.exit_code, goldens.read_text("utf-8")) == (1, before)
    assert (
        f"left: 1 difference in goldens of several sessions ({text}); --pattern-goldens accepts them" in result.stdout
    )
    assert run("update", goldens, seen, "--yes", "--pattern-goldens").exit_code == 0
    assert goldens.read_text("utf-8") == before.replace("'Paris'", "{$any_of: [Paris, Lyon]}")


def test_another_text_of_the_user_at_one_place_is_told_and_accepted(run: Run, goldens: Path, tmp_path: Path) -> None:
    one_turn = GOLDENS.replace("      - user: Thanks\n", "")
    goldens.write_text(one_turn.replace("Weather?", "Is it warm?"), "utf-8")
    seen = traces(tmp_path, AGREED)
    told = run("diff", goldens, seen)
    assert '-     user: "Is it warm?"\n+     user: "Weather?"\n' in told.stdout
    assert told.exit_code == 1
    assert run("update", goldens, seen, "--yes").exit_code == 0
    assert goldens.read_text("utf-8").replace('"Weather?"', "Weather?") == one_turn
    assert run("diff", goldens, seen).exit_code == 0
