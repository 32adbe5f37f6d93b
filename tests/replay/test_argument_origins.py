"""`goldspan inspect --why CALL`: where each value of a call came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rigs.command_line import Run
from rigs.published_schemas import INSPECT_SCHEMA
from rigs.repository import ROOT
from rigs.trace_requests import digits, turn_request, write_lines

TRACES = ROOT / "examples/traces"
ASKED = "What is the weather in Paris?"
CALLS = [("get_weather", {"city": "Paris", "verbose": True, "station": "XQ-77"}), ("convert", {"value": 3})]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    own = turn_request("s#1", *CALLS, user=ASKED), turn_request("s#1", ("get_weather", None), turn=1, user="And now?")
    return write_lines(tmp_path / "traces.jsonl", *own)


def origins(run: Run, *arguments: object) -> list[dict[str, Any]]:
    result = run("inspect", *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout_bytes)
    INSPECT_SCHEMA.validate(document)
    found: list[dict[str, Any]] = document["origins"]
    return found


def test_each_value_has_its_kind_and_where_it_came_from(run: Run, traces: Path) -> None:
    [call] = origins(run, traces, "--why", "s#1#1")
    assert [(one["path"], one["kind"], one["failed"]) for one in call["values"]] == [
        ("/city", "user", False),
        ("/verbose", "trivial", False),
        ("/station", "none", True),
    ]
    assert "user message 1" in call["values"][0]["message"]
    assert call["values"][2]["value"] == "XQ-77"
    page = run("inspect", traces, "--why", "s#1#1").output
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert lines[0] == "get_weather turn 1, call 1 of s#1"
    assert any(line.startswith("✓ city user") and "user message 1" in line for line in lines)
    assert any(line.startswith("✗ station no origin") for line in lines)
    assert any(line.startswith("· verbose trivial") for line in lines)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("s#1#1", [(0, 0)]),
        ("s#1#2", [(0, 1)]),
        ("s#1#3", [(1, 0)]),
        ("convert", [(0, 1)]),
        ("get_weather", [(0, 0), (1, 0)]),
        (digits(f"s#1/0/{ASKED}/{tuple(CALLS)}/1", 16), [(0, 1)]),
    ],
)
def test_a_call_is_named_by_session_and_number_by_span_or_by_tool(
    run: Run, traces: Path, wanted: str, found: list[tuple[int, int]]
) -> None:
    assert [(one["turn_index"], one["call_index"]) for one in origins(run, traces, "--why", wanted)] == found


def test_a_call_is_named_by_its_id(run: Run) -> None:
    [call] = origins(run, TRACES / "langchain.otlp.json", "--why", "call_4")
    assert (call["name"], call["call_id"]) == ("book_table", "call_4")
    kinds = {one["path"]: one["kind"] for one in call["values"]}
    assert kinds["/people"] == "derived"
    assert kinds["/when"] == "none"


def test_a_result_is_named_as_where_a_value_came_from(run: Run, tmp_path: Path) -> None:
    asked = turn_request("s", ("find_user", {"name": "Ada"}), ("get_orders", {"user": "U-4711"}), user="I am Ada")
    result = {"key": "gen_ai.tool.call.result", "value": {"stringValue": '{"users": [{"id": "U-4711"}]}'}}
    asked["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["attributes"].append(result)
    [call] = origins(run, write_lines(tmp_path / "traces.jsonl", asked), "--why", "get_orders")
    [value] = call["values"]
    assert value["kind"] == "tool_result"
    assert "result of find_user" in value["message"]
    assert "/users/0/id" in value["message"]


def test_definitions_of_tools_may_come_from_a_file(run: Run, traces: Path, tmp_path: Path) -> None:
    station = {"type": "string", "default": "XQ-77"}
    tools = [{"name": "get_weather", "parameters": {"type": "object", "properties": {"station": station}}}]
    (tmp_path / "tools.json").write_text(json.dumps(tools), "utf-8")
    [call] = origins(run, traces, "--why", "s#1#1", "--tools", tmp_path / "tools.json")
    assert {one["path"]: one["kind"] for one in call["values"]}["/station"] == "schema"


def test_arguments_that_were_not_captured_are_told(run: Run, traces: Path) -> None:
    assert "arguments not captured" in run("inspect", traces, "--why", "s#1#3").output
    assert origins(run, traces, "--why", "s#1#3")[0]["values"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--why", "get_wether"), "did you mean get_weather?"),
        (("--why", "s#1#9"), "expected a call id, a span id, SESSION#N"),
        (("--tools", "t.json"), "--tools is for --why CALL"),
    ],
)
def test_what_names_no_call_is_refused(run: Run, traces: Path, arguments: tuple[str, ...], says: str) -> None:
    result = run("inspect", traces, *arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_a_call_that_the_scoreboard_names_can_be_asked_for(run: Run) -> None:
    text = " ".join(run("score", TRACES).output.split())
    wanted = text.partition("goldspan inspect --why ")[2].split(" ")[0]
    assert any(one["failed"] for one in origins(run, TRACES, "--why", wanted)[0]["values"])


def test_the_first_calls_of_a_tool_are_shown_and_the_others_counted(run: Run, tmp_path: Path) -> None:
    many = [turn_request(f"s-{one:02}", ("get_weather", {"city": "Paris"}), user=ASKED) for one in range(25)]
    traces = write_lines(tmp_path / "traces.jsonl", *many)
    page = run("inspect", traces, "--why", "get_weather").output
    assert page.count("user message 1") == 20
    assert "5 more calls; -v shows all" in page
    assert run("inspect", traces, "--why", "get_weather", "-v").output.count("user message 1") == 25
    assert all(one["values"] for one in origins(run, traces, "--why", "get_weather"))
