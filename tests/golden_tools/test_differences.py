"""`goldspan goldens diff`: what differs between two golden sets, or a golden set and traces, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from goldspan.collector_processor.golden_tools.writing import is_golden_file
from rigs.command_line import Run
from rigs.trace_requests import turn_request, write_lines


def golden(session: str = "s-1", *calls: Any, **more: Any) -> dict[str, Any]:
    return {"session": session, "turns": [{"user": "Weather?", "calls": list(calls)}], **more}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def golden_set(*goldens: Any) -> dict[str, Any]:
    return {"golden_set": "weather", "goldens": list(goldens)}


WEATHER = call("get_weather", city="Paris", days=3)
BOOK = call("book", restaurant={"name": "Chez Léa", "id": 42}, when="19:30")
BASE = golden_set(golden("s-1", WEATHER, BOOK))


@pytest.fixture
def diff(run: Run, tmp_path: Path) -> Callable[..., Result]:
    def compare(before: Any, after: Any, *options: str) -> Result:
        (tmp_path / "before.json").write_text(json.dumps(before), "utf-8")
        (tmp_path / "after.json").write_text(json.dumps(after), "utf-8")
        return run("diff", "before.json", "after.json", *options)

    return compare


def signed(result: Result) -> list[str]:
    return [line for line in result.stdout.splitlines() if line[0] in "-+"]


def test_a_set_is_like_itself(diff: Callable[..., Result]) -> None:
    result = diff(BASE, BASE)
    assert (result.exit_code, result.stdout) == (0, "= no differences\n")


SETS: dict[str, tuple[Any, list[str]]] = {
    "one argument": (
        golden_set(golden("s-1", call("get_weather", city="Lyon", days=3), BOOK)),
        ["-       city: Paris", "+       city: Lyon"],
    ),
    "a type": (
        golden_set(golden("s-1", call("get_weather", city="Paris", days="3"), BOOK)),
        ["-       days: 3", '+       days: "3"'],
    ),
    "deep inside": (
        golden_set(golden("s-1", WEATHER, call("book", restaurant={"name": "Chez Léa", "id": 43}, when="19:30"))),
        ["-       restaurant.id: 42", "+       restaurant.id: 43"],
    ),
    "an argument more": (
        golden_set(golden("s-1", call("get_weather", city="Paris", days=3, unit=None), BOOK)),
        ["+       unit: null"],
    ),
    "an argument less": (golden_set(golden("s-1", call("get_weather", city="Paris"), BOOK)), ["-       days: 3"]),
    "a call less": (golden_set(golden("s-1", BOOK)), ["-     {name: get_weather, args: {city: Paris, days: 3}}"]),
    "a call more": (golden_set(golden("s-1", WEATHER, BOOK, {"name": "ping"})), ["+     {name: ping}"]),
    "another tool": (
        golden_set(golden("s-1", WEATHER, {"name": "ping"})),
        [
            '-     {name: book, args: {restaurant: {name: Chez Léa, id: 42}, when: "19:30"}}',
            "+     {name: ping}",
        ],
    ),
    "a golden more": (
        golden_set(golden("s-1", WEATHER, BOOK), golden("s-2", WEATHER)),
        ["+   golden of 1 turn and 1 call"],
    ),
    "another golden": (
        golden_set(golden("s-3", WEATHER)),
        ["-   golden of 1 turn and 2 calls", "+   golden of 1 turn and 1 call"],
    ),
    "a turn more": (
        golden_set({"session": "s-1", "turns": [*golden("s-1", WEATHER, BOOK)["turns"], {"calls": [WEATHER]}]}),
        ["+     turn", "+       {name: get_weather, args: {city: Paris, days: 3}}"],
    ),
    "what the user says": (
        golden_set({"session": "s-1", "turns": [{"user": "Sun?", "calls": [WEATHER, BOOK]}]}),
        ['-     user: "Weather?"', '+     user: "Sun?"'],
    ),
    "a criterion": (
        golden_set(golden("s-1", WEATHER, BOOK, criterion={"ordered": False})),
        ["+   criterion.ordered: false"],
    ),
}


@pytest.mark.parametrize(("after", "lines"), SETS.values(), ids=SETS)
def test_what_differs_between_sets_is_shown(diff: Callable[..., Result], after: Any, lines: list[str]) -> None:
    result = diff(BASE, after)
    assert signed(result) == lines
    assert result.exit_code == 1


@pytest.mark.parametrize(("after", "lines"), SETS.values(), ids=SETS)
def test_the_other_way_round_the_signs_change(diff: Callable[..., Result], after: Any, lines: list[str]) -> None:
    turned = [line.translate(str.maketrans("-+", "+-")) if line[0] in "-+" else line for line in lines]
    assert sorted(signed(diff(after, BASE))) == sorted(turned)


def test_a_difference_is_shown_in_its_place(diff: Callable[..., Result]) -> None:
    after = golden_set(golden("s-1", call("get_weather", city="Lyon", days=3), BOOK))
    assert diff(BASE, after).stdout.splitlines() == [
        "  s-1 (before.json:1)",
        '    turn 1: "Weather?"',
        "      get_weather, call 1",
        "-       city: Paris",
        "+       city: Lyon",
        "= 1 difference in 1 golden",
    ]
    assert "\n**s-1** (before.json:1)\n" in diff(BASE, after, "--format", "markdown").stdout


def test_text_over_lines_differs_by_lines(diff: Callable[..., Result]) -> None:
    before, after = (golden_set(golden("s-1", call("mail", body=f"Hi\n{word}\nBye"))) for word in ("one", "two"))
    assert [line.split() for line in signed(diff(before, after))] == [["-", "one"], ["+", "two"]]


def test_markdown_is_for_a_pull_request(diff: Callable[..., Result]) -> None:
    after = golden_set(golden("s-1", call("get_weather", city="```", days=3), BOOK))
    text = diff(BASE, after, "--format", "markdown").stdout
    assert text.startswith("### Goldens: 1 difference in 1 golden\n")
    assert "````diff\n" in text
    assert text.count("````") == 2


def test_json_is_for_programs(diff: Callable[..., Result]) -> None:
    after = golden_set(golden("s-1", call("get_weather", city="Paris", days=None), BOOK))
    [change] = json.loads(diff(BASE, after, "--format", "json").stdout)["changes"]
    assert (change["golden"], change["turn"], change["tool"], change["field"]) == ("s-1", 0, "get_weather", "args.days")
    assert (change["before"], change["after"]) == (3, None)


def with_traces(run: Run, folder: Path, document: Any, *requests: Any) -> Result:
    (folder / "goldens.json").write_text(json.dumps(document), "utf-8")
    write_lines(folder / "traces.jsonl", *requests)
    return run("diff", "goldens.json", "traces.jsonl")


def test_traces_that_agree_do_not_differ(run: Run, tmp_path: Path) -> None:
    seen = turn_request("s-1", ("get_weather", WEATHER["args"]), ("book", BOOK["args"]), user="Weather?")
    result = with_traces(run, tmp_path, BASE, seen)
    assert (result.exit_code, result.stdout) == (0, "= no differences\n")


TRACES: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "one argument": (
        (("get_weather", {"city": "Lyon", "days": 3}), ("book", BOOK["args"])),
        ["-       city: Paris", "+       city: Lyon"],
    ),
    "deep inside": (
        (
            ("get_weather", WEATHER["args"]),
            ("book", {"restaurant": {"name": "Chez Léa", "id": 43}, "when": "19:30"}),
        ),
        ["-       restaurant.id: 42", "+       restaurant.id: 43"],
    ),
    "one key in the place of another": (
        (
            ("get_weather", WEATHER["args"]),
            ("book", {"restaurant": {"name": "Chez Léa", "number": 42}, "when": "19:30"}),
        ),
        ["-       restaurant.id: 42", "+       restaurant.number: 42"],
    ),
    "left out": ((("get_weather", {"city": "Paris"}), ("book", BOOK["args"])), ["-       days: 3"]),
    "a call missing": (
        (("book", BOOK["args"]),),
        ["-     {name: get_weather, args: {city: Paris, days: 3}}  # missing"],
    ),
    "a call more": (
        (("get_weather", WEATHER["args"]), ("ping", {}), ("book", BOOK["args"])),
        ["+     {name: ping}  # not expected"],
    ),
    "another order": (
        (("book", BOOK["args"]), ("get_weather", WEATHER["args"])),
        [
            '-     {name: book, args: {restaurant: {name: Chez Léa, id: 42}, when: "19:30"}}  # missing',
            '+     {name: book, args: {restaurant: {name: Chez Léa, id: 42}, when: "19:30"}}  # not expected',
        ],
    ),
    "not captured": ((("get_weather", WEATHER["args"]), ("book", None)), []),
}


@pytest.mark.parametrize(("calls", "lines"), TRACES.values(), ids=TRACES)
def test_what_traces_did_otherwise_is_shown(run: Run, tmp_path: Path, calls: Any, lines: list[str]) -> None:
    result = with_traces(run, tmp_path, BASE, turn_request("s-1", *calls, user="Weather?"))
    assert signed(result) == lines
    assert result.exit_code == int(bool(lines))
    assert ("? s-1: the arguments of 1 call are not known" in result.stdout) is (not lines)


def test_what_the_criterion_lets_pass_is_no_difference(run: Run, tmp_path: Path) -> None:
    lenient = {**BASE, "criterion": {"default_strategy": "casefold_exact", "ordered": False}}
    seen = (("book", BOOK["args"]), ("get_weather", {"city": "PARIS", "days": 3}))
    assert with_traces(run, tmp_path, lenient, turn_request("s-1", *seen, user="Weather?")).exit_code == 0


def test_what_a_value_may_hold_besides_is_no_difference_beside_one(run: Run, tmp_path: Path) -> None:
    lenient = {**BASE, "criterion": {"default_strategy": "contains"}}
    table = {"restaurant": {"name": "Chez Léa", "id": 43, "floor": 1}, "when": "19:30"}
    seen = turn_request("s-1", ("get_weather", WEATHER["args"]), ("book", table), user="Weather?")
    result = with_traces(run, tmp_path, lenient, seen)
    assert signed(result) == ["-       restaurant.id: 42", "+       restaurant.id: 43"]


def test_the_same_difference_in_several_runs_is_shown_once(run: Run, tmp_path: Path) -> None:
    calls = (("get_weather", {"city": "Lyon", "days": 3}), ("book", BOOK["args"]))
    seen = [turn_request("s-1", *calls, user="Weather?", turn=100 * number) for number in range(3)]
    assert signed(with_traces(run, tmp_path, BASE, *seen)) == ["-       city: Paris", "+       city: Lyon"]


def test_what_cannot_be_compared_is_said(run: Run, tmp_path: Path) -> None:
    seen = turn_request("s-9", ("get_weather", {}), user="Weather?")
    result = with_traces(run, tmp_path, BASE, seen)
    assert result.stdout.splitlines() == [
        "? never seen: s-1 (goldens.json:1)",
        "? no golden for 1 session with tool calls: `goldspan goldens record` writes them",
        "= no differences",
    ]


@pytest.mark.parametrize(
    ("name", "text", "goldens"),
    [
        ("a.yaml", "", True),
        ("a.yml", "resourceSpans: []", True),
        ("a.json", json.dumps(BASE, indent=1), True),
        ("a.jsonl", '{"golden_set": "w"}\n{"session": "s"}\n', True),
        ("a.jsonl", '\n{"session": "s", "calls": []}\n', True),
        ("a.evalset.json", '{"eval_set_id": "w", "eval_cases": []}', True),
        ("a.test.json", '[{"query": "Hi"}]', True),
        ("a.json", '{"resourceSpans": []}', False),
        ("a.jsonl", '{"resourceSpans": []}\n', False),
        ("a.json", '[{"traceId": "ab"}]', False),
        ("a.json", "[]", False),
        ("a.json", "[1]", False),
        ("a.json", '{"goldens": ', False),
        ("a.pb", "", False),
    ],
)
def test_goldens_are_told_from_traces(tmp_path: Path, name: str, text: str, goldens: bool) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert is_golden_file(str(tmp_path / name)) is goldens
    assert is_golden_file(str(tmp_path)) is goldens


def test_files_that_are_not_there_are_wrong_usage(run: Run, tmp_path: Path) -> None:
    (tmp_path / "goldens.json").write_text(json.dumps(BASE), "utf-8")
    assert run("diff", "goldens.json", "none.yaml").exit_code == 2
    assert run("diff", "goldens.json", "none.jsonl").exit_code == 2
    assert run("diff", "none.yaml", "goldens.json").exit_code == 2
