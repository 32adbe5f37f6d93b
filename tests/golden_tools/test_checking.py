"""`goldspan goldens check`: what golden sets probably do not mean."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.golden_tools.checking import CODES, alike, common_text
from goldspan.scoring import Golden
from rigs.command_line import Run
from rigs.trace_requests import attribute, turn_request, write_lines

FINE = """\
golden_set: fine
goldens:
  - session: s-1
    turns:
      - {user: Weather?, calls: [{name: get_weather, args: {city: {$any_of: [Paris, paris]}, days: {$type: integer}}}]}
      - {user: Thanks}
  - session_pattern: nightly-*
    calls: [{name: ping, args: {id: {$present: true}, note: {$ignore: true}}}]
"""


def check(run: Run, folder: Path, text: str, *options: object) -> list[tuple[str, str, str]]:
    """Return code, line and path of each finding."""
    (folder / "goldens.yaml").write_text(text, "utf-8")
    result = run("check", "goldens.yaml", "--format", "json", *options)
    findings = json.loads(result.stdout)["findings"]
    assert result.exit_code == int(bool(findings))
    assert {one["code"] for one in findings} <= set(CODES)
    return [
        (one["code"], one["source"].removeprefix("goldens.yaml").removeprefix(":"), one["path"]) for one in findings
    ]


def test_nothing_is_found_in_a_good_set(run: Run, tmp_path: Path) -> None:
    assert check(run, tmp_path, FINE) == []
    assert run("check", "goldens.yaml").stdout == "2 goldens checked, 0 findings\n"


def sets(*goldens: str) -> str:
    return "golden_set: x\ngoldens:\n" + "".join(f"  - {{{golden}}}\n" for golden in goldens)


CALLS = "calls: [{name: f, args: {x: 1}}]"
UUID = "0b5ae5e2-5ad5-4c6f-9d6c-7d5e2c1b3a4f"
PROSE = "'Hello Ann, we have sent your order to Oslo today'"


def call_with(*values: str, rules: str = "") -> str:
    return (
        sets(*(f"session: s-{at}, calls: [{{name: f, args: {{x: {one}}}}}]" for at, one in enumerate(values))) + rules
    )


FINDINGS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "an id made anew": (call_with(UUID), [("generated_literal", "3", "goldens[0].calls[0].args.x")]),
    "an id with a rule": (call_with(UUID, rules="arguments: {f.x: {$generated: uuid}}\n"), []),
    "prose": (call_with(PROSE), [("prose_literal", "3", "goldens[0].calls[0].args.x")]),
    "many ids": (
        call_with("{$any_of: [A1, A2, A3, A4]}"),
        [("many_alternatives", "3", "goldens[0].calls[0].args.x")],
    ),
    "few values": (call_with("{$any_of: [red, green, blue, black]}"), []),
    "a list in two orders": (call_with("[a, b]", "[b, a]"), [("list_order", "4", "goldens[1].calls[0].args.x")]),
    "a list in one order": (call_with("[a, b]", "[a, b]", "[a, c]"), []),
    "patterns that overlap": (
        sets(f"session_pattern: nightly-*, {CALLS}", f"session_pattern: '*-weather', {CALLS}"),
        [("overlap", "4", "session_pattern")],
    ),
    "patterns that do not": (sets(f"session_pattern: a-*, {CALLS}", f"session_pattern: b-*, {CALLS}"), []),
    "a pattern that a session hides": (
        sets(f"session_pattern: s-1, {CALLS}", f"session: s-1, {CALLS}"),
        [("unreachable", "3", "session_pattern")],
    ),
    "a pattern of one session": (sets(f"session_pattern: s-1, {CALLS}"), [("no_wildcard", "3", "session_pattern")]),
    "a pattern of none": (sets(f"session_pattern: 'a[z-b]*', {CALLS}"), [("unreachable", "3", "session_pattern")]),
    "an id of one trace": (sets(f"session: {'0af7651916cd43dd' * 2}, {CALLS}"), [("trace_id", "3", "session")]),
    "an empty list": (
        sets("session: s, turns: [{user: Hi, calls: []}]"),
        [("empty_calls", "3", "goldens[0].turns[0].calls")],
    ),
    "names only": (sets("session: s, calls: [{name: f}, {name: g, forbidden: true}]"), [("names_only", "3", "")]),
    "a strategy of no argument": (
        f"criterion: {{per_arg_strategies: {{xx: numeric, x: numeric}}}}\n{sets(f'session: s, {CALLS}')}",
        [("unknown_in_criterion", "", "criterion.per_arg_strategies")],
    ),
    "rules of no tool": (
        f"criterion: {{tools: {{ff: {{args: {{x: numeric}}}}}}}}\n{sets(f'session: s, {CALLS}')}",
        [("unknown_in_criterion", "", "criterion.tools")],
    ),
    "an empty session": (sets("session: s, calls: []"), [("empty_calls", "3", "goldens[0].calls")]),
    "an ignored call": (
        sets("session: s, calls: [{name: f, args: {a: {$ignore: true}, b: {$ignore: true}}}]"),
        [("nothing_judged", "3", "goldens[0].calls[0].args")],
    ),
}


@pytest.mark.parametrize(("text", "findings"), FINDINGS.values(), ids=FINDINGS)
def test_what_is_probably_not_meant_is_found(run: Run, tmp_path: Path, text: str, findings: Any) -> None:
    assert check(run, tmp_path, text) == findings


MATCHERS: dict[str, bool] = {
    "{$regex: '.*'}": True,
    "{$regex: '.+'}": True,
    "{$regex: '(?s).*|x'}": True,
    "{$regex: '[a-z]+'}": False,
    "{$contains: ''}": True,
    "{$contains: []}": True,
    "{$contains: a}": False,
    "{$any_of: [a, {$present: true}]}": True,
    "{$any_of: [a, b]}": False,
    "{$approx: 0, tolerance: 10000000000000}": True,
    "{$approx: 1, tolerance: 0.5}": False,
    "{$literal: {$regex: '.*'}}": False,
    "{$type: string}": False,
    "[1, {deep: {$regex: '.*'}}]": True,
}


@pytest.mark.parametrize(("matcher", "anything"), MATCHERS.items())
def test_matchers_that_match_anything_are_found(run: Run, tmp_path: Path, matcher: str, anything: bool) -> None:
    found = check(run, tmp_path, sets(f"session: s, calls: [{{name: f, args: {{a: {matcher}}}}}]"))
    assert [code for code, _, _ in found] == ["matches_anything"] * anything


def declaring(request: dict[str, Any], *tools: dict[str, Any]) -> dict[str, Any]:
    root = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    root["attributes"].append(attribute("gen_ai.tool.definitions", json.dumps(tools)))
    return request


WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}


def test_traces_tell_what_is_not_there(run: Run, tmp_path: Path) -> None:
    seen = declaring(turn_request("s-1", ("get_weather", {"city": "Paris"}), user="Weather?"), WEATHER_TOOL)
    traces = write_lines(tmp_path / "traces.jsonl", seen)
    text = sets(
        "session: s-1, calls: [{name: get_weather, args: {citty: Paris}}, {name: getweather}, {name: book}]",
        "session: s-2, calls: [{name: get_weather, args: {city: Rome}}]",
        "session: s-3, calls: [{name: '*', forbidden: true}]",
    )
    found = check(run, tmp_path, text, "--traces", traces)
    assert found == [
        ("unknown_argument", "3", ""),
        ("unknown_tool", "3", ""),
        ("unknown_tool", "3", ""),
        ("never_seen", "4", ""),
        ("never_seen", "5", ""),
    ]
    said = run("check", "goldens.yaml", "--traces", traces).stdout
    assert "get_weather declares no argument citty: did you mean city?" in said
    assert "getweather is neither called nor declared in these traces: did you mean get_weather?" in said


def test_tools_that_take_anything_declare_anything(run: Run, tmp_path: Path) -> None:
    open_ended = {**WEATHER_TOOL, "parameters": {**WEATHER_TOOL["parameters"], "additionalProperties": True}}  # type: ignore[dict-item]
    seen = declaring(turn_request("s-1", ("get_weather", {"city": "Paris"}), user="Weather?"), open_ended)
    traces = write_lines(tmp_path / "traces.jsonl", seen)
    text = sets("session: s-1, calls: [{name: get_weather, args: {citty: Paris}}]")
    assert check(run, tmp_path, text, "--traces", traces) == []


def test_mistakes_come_before_findings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "goldens.yaml").write_text("golden_set: x\ngolden: []\n", "utf-8")
    result = run("check", "goldens.yaml")
    assert result.exit_code == 2
    assert "did you mean `goldens`?" in result.stderr


GLOBS = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[", "]", "-"]), max_size=6).map("".join)


@given(one=GLOBS, other=GLOBS)
def test_a_common_text_is_matched_by_both(one: str, other: str) -> None:
    text = common_text(one, other)
    assert text is None or (fnmatchcase(text, one) and fnmatchcase(text, other))


@given(one=GLOBS, other=GLOBS, text=st.text("ab[]-c", max_size=7))
def test_globs_without_a_common_text_have_none(one: str, other: str, text: str) -> None:
    if fnmatchcase(text, one) and fnmatchcase(text, other):
        assert common_text(one, other) is not None


def test_two_patterns_of_thousands_that_overlap_are_found(run: Run, tmp_path: Path) -> None:
    lines = [
        json.dumps({"session_pattern": f"s-{at}-*", "calls": [{"name": "f", "args": {"x": 1}}]}) for at in range(3000)
    ]
    lines.append(lines[7].replace("s-7-*", "s-7-?*"))
    (tmp_path / "g.jsonl").write_text("\n".join(('{"golden_set": "g"}', *lines)), "utf-8")
    [found] = json.loads(run("check", "g.jsonl", "--format", "json").stdout)["findings"]
    assert (found["code"], found["source"]) == ("overlap", "g.jsonl:3002")


@given(st.lists(st.text("ab*?[]!", max_size=4), min_size=2, max_size=5))
def test_patterns_that_are_not_compared_have_no_common_text(globs: list[str]) -> None:
    patterns = [Golden(calls=(), session_pattern=glob) for glob in globs]
    compared = list(alike(patterns))
    for pair in combinations(patterns, 2):
        if not any(one is pair[0] and other is pair[1] for one, other in compared):
            assert common_text(pair[0].session_pattern or "", pair[1].session_pattern or "") is None
