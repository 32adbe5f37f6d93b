"""Goldens inferred from several runs of each task: what they accept, what they catch, what they ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.golden_tools.inference.inferred_document import golden_document
from goldspan.collector_processor.golden_tools.inference.run_groups import group_runs
from goldspan.collector_processor.golden_tools.recording import Recorded, record
from goldspan.collector_processor.golden_tools.reviewing import Answer, Answered, markdown_of, review
from goldspan.collector_processor.golden_tools.trying import leave_one_out
from goldspan.scoring import load_goldens, score_sessions
from goldspan.scoring.sessions import Session, ToolCall, Turn
from goldspan.scoring.verdict import Label
from rigs.command_line import Run
from rigs.more_simulated_agents import MORE_AGENTS
from rigs.simulated_agents import AGENTS
from rigs.span_facts import captured

DAY = 86_400 * 10**9
FIRST = 20_000 * DAY + DAY // 2


def book(*, result: Any = None, name: str = "book", **args: Any) -> ToolCall:
    return ToolCall(name, args, result=captured(json.dumps(result)), start=FIRST)


def runs_of(task: int, *lists: Sequence[ToolCall]) -> list[Session]:
    """Runs of one task, each a list of calls."""
    text = captured(f"Please do task {task} for me")
    return [
        Session(f"task-{task}-run-{number}", (Turn(tuple(calls), user_text=text, start=FIRST),))
        for number, calls in enumerate(lists)
    ]


def tasks_of(make: Callable[[int, int], Sequence[ToolCall]], tasks: int = 4, runs: int = 3) -> list[Session]:
    """Runs of several tasks: `make` takes the numbers of the task and of the run."""
    return [one for task in range(tasks) for one in runs_of(task, *[make(task, run) for run in range(runs)])]


def rules(recorded: Recorded) -> Any:
    return recorded.document.get("arguments", {})


def failed(recorded: Recorded, *sessions: Session) -> list[bool]:
    results = score_sessions(recorded.document, sessions).sessions
    assert all(one.golden is not None for one in results)
    return [one.verdict.label is not Label.PASS for one in results]


UUIDS = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(100)]

OPENINGS = ("Hello, your", "Good day! The", "Dear all, this")

RULES: dict[str, tuple[Callable[[int, int], Any], Any]] = {
    "ids made anew": (lambda task, run: UUIDS[10 * task + run], {"$generated": "uuid", "always": True}),
    "lists in any order": (lambda task, run: [f"a{task}", "b", "c"][:: 1 if run else -1], {"$unordered": True}),
    "days from today": (lambda _task, _run: "2024-10-07", {"$date": {"days": 3}, "always": True}),
    "case and punctuation": (
        lambda task, run: (f"Late {task}.", f"late {task}", f"LATE, {task}")[run],
        {"$alphanumeric": True},
    ),
    "numbers as text": (lambda task, run: str(task) if run else task, {"$alphanumeric": True}),
    "left out at times": (
        lambda _task, run: "low" if run else ...,
        {"$any_of": ["low", {"$absent": True}], "always": True},
    ),
    "prose": (
        lambda task, run: f"{OPENINGS[run]} order ORD-{task}42 is on its way",
        {"$key_facts": True},
    ),
    "constant": (lambda task, _run: f"x{task}", None),
    "numbers with noise": (
        lambda task, run: 10.0 * task + 100.25 + 0.004 * run,
        {"$approx": True, "tolerance": 0.01},
    ),
    "money in any notation": (
        lambda task, run: (1200.5 + task, f"1,20{task}.50", f"USD 120{task}.50")[run],
        {"$key_facts": True},
    ),
    "a time of the day": (
        lambda task, run: f"1{task}:30{':00' * (run % 2)}",
        {"$datetime": True},
    ),
    "a day in several notations": (
        lambda _task, run: ("2024-10-07", "October 7, 2024", "7.10.2024")[run],
        {"$date": {"days": 3}, "always": True},
    ),
    "a value or a list of it": (lambda task, run: [f"a{task}"] if run == 1 else f"a{task}", None),
    "objects with ids of their own": (
        lambda task, run: [{"id": UUIDS[10 * task + run], "sku": f"a{task}"}],
        {"$unordered": True, "common_keys": True},
    ),
}


@pytest.mark.parametrize(("make", "rule"), RULES.values(), ids=RULES)
def test_a_rule_for_the_whole_set_is_inferred(make: Callable[[int, int], Any], rule: Any) -> None:
    def calls(task: int, run: int) -> Sequence[ToolCall]:
        value = make(task, run)
        return [book(order=f"o{task}", **({} if value is ... else {"x": value}))]

    found = record(tasks_of(calls), "set")
    written = rules(found).get("book.x")
    assert (None if written is None else {key: one for key, one in written.items() if key != "optional"}) == rule
    assert not any(failed(found, *tasks_of(calls)))


def test_prose_has_to_say_what_all_runs_said() -> None:
    found = record(
        tasks_of(lambda task, run: [book(text=f"{OPENINGS[run]} order ORD-{task}42 is on its way today")]), "set"
    )
    fresh = runs_of(1, [book(text="We have news: ORD-142 was sent")], [book(text="We have news: ORD-242 was sent")])
    assert failed(found, *fresh) == [False, True]


def test_values_of_a_result_and_of_other_calls_are_followed() -> None:
    def calls(task: int, run: int) -> Sequence[ToolCall]:
        number = f"B{task}{run}7"
        text = ("Thanks! Booked as", "Your booking is", "All done, see")[run] + f" {number}, order o{task} for you"
        return [
            book(order=f"o{task}", result={"id": number}),
            book(name="send_ticket", booking=number, text=text),
        ]

    found = record(tasks_of(calls, tasks=6), "set")
    assert rules(found)["send_ticket.booking"] == {"$from_result": {"call": "book", "path": "/id"}, "always": True}
    assert {"call": "book", "path": "/id"} in rules(found)["send_ticket.text"]["$mentions"] or "booking" in rules(
        found
    )["send_ticket.text"]["$mentions"]
    right = [
        book(order="o1", result={"id": "N99"}),
        book(name="send_ticket", booking="N99", text="N99 is yours, for o1"),
    ]
    wrong = [right[0], book(name="send_ticket", booking="N98", text="N99 is yours, for o1")]
    silent = [right[0], book(name="send_ticket", booking="N99", text="It is yours, for o1")]
    assert failed(found, *runs_of(1, right, wrong, silent)) == [False, True, True]


def test_writing_calls_are_judged_and_reading_calls_are_free() -> None:
    found = record(
        tasks_of(lambda task, run: [*[book(name="search_seats", day=run)] * run, book(order=f"o{task}")], tasks=2),
        "set",
    )
    assert found.document["other_writes"] == "forbid"
    right, read = book(order="o1"), book(name="get_weather", city="Oslo")
    lists = [right], [read, right], [right, book(name="cancel", order="o1")], [read], [right, right]
    assert failed(found, *runs_of(1, *lists)) == [False, False, True, True, True]


def test_a_task_that_changes_nothing_expects_what_its_runs_read_where_they_agree() -> None:
    def calls(task: int, run: int) -> Sequence[ToolCall]:
        looked = [book(name="get_order", order=f"o{task}"), *[book(name="get_news")] * (run % 2)]
        return [*looked[: 1 if task == 1 else None], *[book(order=f"o{task}")] * (task > 1)]

    found = record(tasks_of(calls), "set")
    other, hand_over = book(name="get_order", order="o9"), book(name="transfer_to_human", order="o1")
    assert failed(found, *runs_of(1, calls(1, 0), [*calls(1, 0), other], [other], [])) == [False, False, True, True]
    assert failed(found, *runs_of(0, calls(0, 0), [], [book()])) == [False, False, True]  # its runs differ
    handing = record([*tasks_of(calls), *runs_of(8, [hand_over], [hand_over])], "set")
    assert failed(handing, *runs_of(1, calls(1, 0), [hand_over], [])) == [False, False, True]


def test_a_list_that_runs_divide_unevenly_may_be_passed_in_two_parts() -> None:
    def calls(task: int, run: int) -> Sequence[ToolCall]:
        made = [f"{letter}{task}" for letter in "abcd"]
        parts = [made[:1], made[1:]] if run == task == 1 else [made]
        return [book(x=task, tags=part) for part in parts]

    def tags(*lists: str) -> list[ToolCall]:
        return [book(x=2, tags=[f"{letter}2" for letter in one]) for one in lists]

    fresh = tags("dcba"), tags("bd", "ca"), tags("dca", "b"), tags("a", "b", "c", "d")
    wrong = tags("bd", "c"), tags("bd", "cd"), tags("abcd", "a")
    assert failed(record(tasks_of(calls), "set"), *runs_of(2, *fresh, *wrong)) == [False] * 4 + [True] * 3


def test_the_hint_of_an_mcp_server_says_which_tools_read() -> None:
    tools = [
        {"name": "order", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
        {"name": "get_lock", "inputSchema": {}, "annotations": {"readOnlyHint": False}},
    ]
    sessions = [
        Session(one.id, (Turn(one.turns[0].calls, start=FIRST, tool_definitions=captured(json.dumps(tools))),))
        for one in tasks_of(lambda task, run: [*[book(name="order", x=run)] * run, book(name="get_lock", x=task)])
    ]
    found = record(sessions, "set")
    assert (found.document["reads"], found.document["writes"]) == (["order"], ["get_lock"])
    right = [book(name="get_lock", x=1)]
    lists = right, [*right, book(name="order", x=9)], [], [*right, book(name="get_lock", x=2)]
    assert failed(found, *runs_of(1, *lists)) == [False, False, True, True]


def test_ways_that_runs_took_are_alternatives() -> None:
    found = record(runs_of(1, [book(x=1), book(name="pay", y=1)], [book(x=1)], [book(x=1)]), "set")
    [golden] = found.document["goldens"]
    assert golden["calls"] == [
        {"name": "book", "args": {"x": 1}},
        {"any_of": [[], [{"name": "pay", "args": {"y": 1}}]]},
    ]
    wrong = [book(x=1), book(name="pay", y=2)]
    assert failed(found, *runs_of(1, [book(x=1)], wrong)) == [False, True]


def test_a_tool_that_right_runs_call_or_not_proves_nothing_and_is_asked_about() -> None:
    found = record(
        tasks_of(lambda task, run: [book(x=task), *[book(name="add_note", text=str(run))] * (run % 2)]), "set"
    )
    assert "add_note" in found.document["reads"]
    [question] = [one for one in found.questions if one.tool]
    assert question.text.startswith("add_note changes something")
    assert failed(found, *runs_of(1, [book(x=1)], [book(x=1), book(name="add_note", text="9")])) == [False, False]


def test_failed_tries_are_not_expected() -> None:
    broken = ToolCall("book", {"x": 1}, error="timeout", start=FIRST)
    found = record(runs_of(1, [broken, book(x=1)], [book(x=1)]), "set")
    assert failed(found, *runs_of(1, [book(x=1)], [broken, book(x=1)], [broken])) == [False, False, True]


def test_one_run_promises_nothing_and_says_so(run: Run, tmp_path: Path) -> None:
    agent = AGENTS["support"]
    for count, words in ((1, "from one run"), (2, "judged by goldens made without it")):
        traces = tmp_path / f"runs{count}.jsonl"
        traces.write_text("".join(json.dumps(one.to_request()) + "\n" for one in agent.good(count)), "utf-8")
        assert run("record", traces, "-o", f"g{count}.yaml").exit_code == 0
        head = (tmp_path / f"g{count}.yaml").read_text("utf-8").partition("golden_set")[0]
        assert words in head


ALL_AGENTS = {**AGENTS, **MORE_AGENTS}


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_goldens_of_simulated_agents_judge_fresh_runs(name: str) -> None:
    agent = ALL_AGENTS[name]
    found = record([one.to_session() for one in agent.good(3)], name)
    fresh = failed(found, *[one.to_session() for one in agent.good(5, first=1000)])
    bad = failed(found, *[one.to_session() for one in agent.bad(30)])
    assert (len(fresh), len(bad)) == (50, 30)
    assert sum(fresh) <= 1
    assert sum(bad) >= 25
    assert len(found.questions) <= 15
    assert found.inferred is not None
    assert abs(leave_one_out(found.inferred).failed / 30 - sum(fresh) / 50) <= 0.05


def test_dates_follow_the_calendar_where_they_do_in_the_other_tasks() -> None:
    days = [20_000, 20_003, 20_011]  # a Thursday, a Sunday, a Monday
    mondays = ["2024-10-07", "2024-10-07", "2024-10-21"]
    firsts = ["2024-11-01", "2024-11-01", "2024-11-01"]
    for dates, words in ((mondays, "monday"), (firsts, "start of next month")):
        sessions = [
            Session(f"task-{task}-run-{run}", (Turn((ToolCall("book", {"day": dates[run]}, start=days[run] * DAY),)),))
            for task in range(4)
            for run in range(3)
        ]
        assert rules(record(sessions, "set")) == {"book.day": {"$date": words, "always": True}}


def test_a_list_may_be_divided_among_calls() -> None:
    def calls(task: int, run: int) -> Sequence[ToolCall]:
        made = ["a", "b"] if task else ["c", "d"]
        return [book(x=task, tags=[one]) for one in made] if run + task == 1 else [book(x=task, tags=made)]

    found = record(tasks_of(calls), "set")
    whole, parts = [book(x=2, tags=["b", "a"])], [book(x=2, tags=["b"]), book(x=2, tags=["a"])]
    wrong = [parts[0]], [*parts, book(x=2, tags=["c"])], [book(x=2, tags=["a", "c"])]
    assert failed(found, *runs_of(2, whole, parts, *wrong)) == [False, False, True, True, True]


def test_a_writing_tool_that_runs_rarely_leave_out_may_be_left_out_but_is_judged() -> None:
    found = record(
        tasks_of(lambda task, run: [book(x=task), *[book(name="tag", y=task)] * (run > 0 or task > 2)], tasks=10),
        "set",
    )
    assert [one.text for one in found.questions if one.tool] == ["tag may be left out"]
    lists = [book(x=7), book(name="tag", y=7)], [book(x=7)], [book(x=7), book(name="tag", y=8)]
    assert failed(found, *runs_of(7, *lists)) == [False, False, True]
    assert found.inferred is not None
    strict, _ = review(found.inferred, lambda *_: Answer.NO)
    assert failed(Recorded(golden_document(strict, "set").document, {}, ()), *runs_of(7, *lists)) == [False, True, True]


def test_an_answer_of_no_expects_what_was_seen() -> None:
    found = record(tasks_of(lambda task, run: [book(tags=[f"a{task}", "b"][:: 1 if run else -1])]), "set")
    assert found.inferred is not None
    asked: list[str] = []

    def ask(number: int, count: int, question: Any) -> Answer:
        asked.append(f"{number} of {count}: {question.text}")
        return Answer.NO

    inferred, answered = review(found.inferred, ask)
    assert asked == ["1 of 1: book.tags has the same elements in any order"]
    assert inferred.rules["book", ("tags",)].form == "exact"
    assert list(markdown_of(answered))[-1].endswith("| no: as seen |")
    ignored, _ = review(found.inferred, lambda *_: Answer.IGNORE)
    assert ignored.rules["book", ("tags",)].form == "ignored"
    everything, _ = review(found.inferred, lambda *_: Answer.REST)
    assert everything == found.inferred
    assert Answered(found.questions[0], Answer.YES).answer == "y"


GROUPS: dict[str, tuple[list[tuple[str, str]], dict[str, Any], list[tuple[str, int]]]] = {
    "one id": ([("s-1", "a"), ("s-1", "b"), ("s-2", "a")], {}, [("session", 2), ("session", 1)]),
    "what the user said": (
        [("x1", "Refund my order"), ("x2", "Refund my order"), ("x3", "Book a flight"), ("x4", "Book a flight")],
        {},
        [("first_user_text", 2), ("first_user_text", 2)],
    ),
    "a word in the id": (
        [("t1-run-1", "Hello a"), ("t1-run-2", "Hello b"), ("t2-run-1", "Hello c"), ("t2-run-2", "Hello d")],
        {},
        [("session_pattern", 2), ("session_pattern", 2)],
    ),
    "a greeting says nothing": (
        [("t1/trial=1", "Hi"), ("t1/trial=2", "Hi"), ("t2/trial=1", "Hi"), ("t2/trial=2", "Hi")],
        {},
        [("session_pattern", 2), ("session_pattern", 2)],
    ),
    "one task in several words": (
        [
            (f"t{task}-run-{run}", text)
            for task, said in enumerate((("Refund my order", "Money back"), ("Book me a flight", "A flight, please")))
            for run, text in enumerate((*said, said[0]))
        ],
        {},
        [("session_pattern", 3), ("session_pattern", 3)],
    ),
    "different tasks": ([("a", "Refund my order"), ("b", "Book a flight")], {}, [("session", 1), ("session", 1)]),
    "a template": (
        [("7x1x", "p"), ("8x1x", "q"), ("7x2x", "r")],
        {"runs": "{run}x{task}x"},
        [("session_pattern", 2), ("session_pattern", 1)],
    ),
    "a glob": ([("n-1", "p"), ("n-2", "q")], {"pattern": "n-*"}, [("session_pattern", 2)]),
}


@pytest.mark.parametrize(("given", "options", "groups"), GROUPS.values(), ids=GROUPS)
def test_runs_of_one_task_are_found(given: Any, options: Any, groups: Any) -> None:
    sessions = [Session(key, (Turn((book(x=1),), user_text=captured(text)),)) for key, text in given]
    found = group_runs(sessions, **options)
    assert [(*one.join, len(one.sessions)) for one in found] == groups


def test_production_is_proposed_by_what_users_ask(run: Run, tmp_path: Path) -> None:
    traces_of(tmp_path, good=AGENTS["support"].good(5), other=AGENTS["support"].bad(12))
    done = run("record", "--from-passing", "good.jsonl", "-o", "g.yaml")
    assert done.exit_code == 0, done.stderr
    assert len(load_goldens(tmp_path / "g.yaml").goldens) == 10
    assert "left out" not in done.stderr


def traces_of(folder: Path, **runs: Any) -> None:
    for name, found in runs.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one.to_request()) + "\n" for one in found), "utf-8")


def test_the_command_records_tries_and_says_what_would_mend(run: Run, tmp_path: Path) -> None:
    agent = AGENTS["support"]
    traces_of(tmp_path, runs=agent.good(3), good=agent.good(2, first=50), bad=agent.bad(12))
    done = run("record", "runs.jsonl", "-o", "g.yaml", "--table", "rules.md")
    assert done.exit_code == 0
    assert "rules to confirm" in done.stderr
    assert "| create_refund.request_id is generated anew |" in (tmp_path / "rules.md").read_text("utf-8")
    assert load_goldens(tmp_path / "g.yaml").goldens
    tried = run("try", "g.yaml", "--good", "good.jsonl", "--bad", "bad.jsonl")
    assert tried.stdout == "false failures: 0 of 20 runs that were right\ncaught: 12 of 12 runs that were wrong\n"
    assert run("try", "g.yaml", "runs.jsonl").stdout == "false failures: 0 of 30 runs that were right\n"
    text = (tmp_path / "g.yaml").read_text("utf-8").replace("{$unordered: true}", "{weight: 1}")
    (tmp_path / "g.yaml").write_text(text, "utf-8")
    tried = run("try", "g.yaml", "--good", "good.jsonl")
    assert tried.exit_code == 1
    assert "tag_order.tags is wrong" in tried.stdout
    assert (
        '"tag_order.tags": {$unordered: true}' in tried.stdout or "tag_order.tags: {$unordered: true}" in tried.stdout
    )
    assert run("try", "g.yaml").exit_code == 2


def test_the_command_asks_with_one_key_a_question(run: Run, tmp_path: Path) -> None:
    traces_of(tmp_path, runs=AGENTS["support"].good(3))
    done = run("record", "runs.jsonl", "-o", "g.yaml", "--review", stdin="nya")
    assert done.exit_code == 0, done.stderr
    assert "1 of 6" in done.stderr
    assert "[y] right" in done.stderr
    assert "create_refund.request_id: {$generated" not in (tmp_path / "g.yaml").read_text("utf-8")
    assert run("record", "runs.jsonl", "--review", "--yes").exit_code == 2


@pytest.mark.parametrize("name", ["filter.status", "", "*", "a..b"])
def test_an_argument_that_no_key_of_a_rule_can_name_has_its_matcher_in_the_golden(name: str) -> None:
    def made(_task: int, run: int) -> Sequence[ToolCall]:
        return [ToolCall("book", {name: UUIDS[run], **({name * 2 + "x": True} if run else {})}, start=FIRST)]

    sessions = tasks_of(made)
    recorded = record(sessions, "set")
    assert not any(failed(recorded, *sessions)), recorded.document
