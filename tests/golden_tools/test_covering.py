"""What goldens exercise: tools, parameters, listed values, failures, and ways that no golden has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.collector_processor.golden_tools.suite_coverage import SuiteCoverage, suite_coverage
from goldspan.scoring import load_goldens
from goldspan.scoring.sessions import Session, ToolCall, Turn
from rigs.command_line import Run
from rigs.span_facts import captured

DAY = 86_400 * 10**9
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"anyOf": [{"enum": ["celsius", "fahrenheit", "kelvin"]}, {"type": "null"}]},
    },
    "required": ["city"],
}


def defined(**schemas: Any) -> str:
    return json.dumps([{"name": name, "parameters": schema} for name, schema in schemas.items()])


def session(name: str, *calls: ToolCall, day: int = 20_000, definitions: str = "") -> Session:
    tools = {"tool_definitions": captured(definitions)} if definitions else {}
    return Session(name, (Turn(calls, start=day * DAY, **tools),))


def covered(calls: list[Any], *sessions: Session) -> SuiteCoverage:
    return suite_coverage(load_goldens({"golden_set": "g", "goldens": [{"session": "s", "calls": calls}]}), sessions)


def gaps(found: SuiteCoverage) -> dict[str, list[str]]:
    return {tool.tool: list(tool.gaps()) for tool in found.tools if list(tool.gaps())}


USED = session("a", ToolCall("weather", {"city": "Oslo", "days": 3}), definitions=defined(weather=WEATHER, book={}))
BROKEN = session("b", ToolCall("weather", {"city": "Oslo"}, error="timeout"))
UNEXPECTED = "no golden calls it"


@pytest.mark.parametrize(
    ("calls", "weather"),
    [
        (
            [{"name": "weather", "args": {"city": "Oslo"}}],
            ["never expected: unit, days", 'unit is never "celsius", "fahrenheit", "kelvin"'],
        ),
        (
            [{"name": "weather", "args": {"city": "x", "days": 1, "unit": {"$any_of": ["celsius", "kelvin"]}}}],
            ['unit is never "fahrenheit"'],
        ),
        (
            [{"name": "weather", "args": {"city": "x", "days": 1, "unit": {"$present": True}}}],
            ['unit is never "celsius", "fahrenheit", "kelvin"'],
        ),
        ([{"name": "weather", "forbidden": True}, {"name": "wait"}], [UNEXPECTED]),
    ],
)
def test_what_no_golden_expects_is_told(calls: list[Any], weather: list[str]) -> None:
    assert gaps(covered(calls, USED)) == {"weather": weather, "book": [UNEXPECTED]}


def test_a_failure_wants_a_golden_that_says_how_a_call_ends() -> None:
    call: dict[str, Any] = {"name": "weather", "args": {"city": "Oslo"}}
    assert gaps(covered([call], BROKEN)) == {"weather": ["fails in 1 session, and no golden says how such a call ends"]}
    assert not gaps(covered([call, {"name": "*", "status": "unrecovered", "forbidden": True}], BROKEN))
    assert covered([call, {**call, "status": "failed"}], BROKEN).is_whole


def test_ways_that_no_golden_has_come_with_the_newest_session() -> None:
    both = [ToolCall("weather", {"city": "Oslo"}), ToolCall("book")]
    found = covered(
        [{"name": "weather"}], session("old", *both), session("new", *both, day=20_001), session("w", both[0])
    )
    assert [(one.tools, one.sessions) for one in found.ways] == [(("book", "weather"), ("new", "old"))]
    assert "  record one: goldspan goldens record TRACES --session new" in found.lines()
    assert not covered([{"name": "weather"}, {"name": "book", "optional": True}], session("x", *both)).ways


def test_a_definition_that_took_the_place_of_another_is_told() -> None:
    newer = {
        "properties": {
            "city": {"type": ["string", "null"]},
            "unit": {"enum": ["celsius", "rankine"]},
            "days": {"type": "integer"},
        },
        "required": ["days"],
    }
    early, late = (
        session(name, day=day, definitions=defined(weather=schema))
        for name, day, schema in (("a", 20_000, WEATHER), ("b", 20_009, newer))
    )
    [change] = covered([{"name": "weather"}], late, early).changed
    assert (change.tool, change.since) == ("weather", "2024-10-13")
    assert change.changes == (
        '~ city: "string" -> ["string", "null"]',
        "~ city: no longer required",
        '~ unit: + "rankine", - "fahrenheit", - "kelvin"',
        "+ days (required)",
    )
    in_use = session("c", day=20_010, definitions=defined(weather=WEATHER))
    assert not covered([{"name": "weather"}], early, late, in_use).changed


def test_the_command_takes_definitions_from_a_file(run: Run, tmp_path: Any) -> None:
    (tmp_path / "tools.json").write_text(defined(weather=WEATHER), "utf-8")
    (tmp_path / "g.json").write_text(
        json.dumps({"golden_set": "g", "goldens": [{"session": "s", "calls": [{"name": "weather"}]}]}), "utf-8"
    )
    done = run("coverage", "g.json", "--tools", "tools.json", "--format", "json")
    assert done.exit_code == 1
    [tool] = json.loads(done.stdout)["tools"]
    assert tool["parameters"] == {"city": False, "unit": False}
    assert tool["values_never_expected"] == {"unit": ["celsius", "fahrenheit", "kelvin"]}
    assert run("coverage", "g.json").exit_code == 2
