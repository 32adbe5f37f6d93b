"""Matchers in golden files: read the same from YAML and JSON, and every mistake with its line."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from goldspan.scoring import GoldenFileError, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.json_schema import golden_set_schema
from goldspan.scoring.matchers import escape_literal

VALIDATOR = Draft202012Validator(golden_set_schema())
ARGS = """\
city: {$any_of: [Paris, "Paris, France"]}
code: {$regex: '[A-Z]{2}\\d+'}
temperature: {$approx: 21.5, tolerance: 0.1}
share: {$approx: 200, relative: 0.05}
begin: {$datetime: 2026-03-01T09:00:00Z, tolerance: 60s}
text: {$contains: rain}
unit: {$casefold: celsius}
kind: {$type: [string, "null"]}
when: {$present: true}
zone: {$absent: true}
note: {$ignore: true}
tags: {$unordered: [a, {$regex: 'b+'}]}
order: {$from_result: {call: create_order, path: /id}}
query: {$literal: {$regex: ^a, $options: i}}
place: {zip: {$any_of: [{$type: integer}, "75001"]}, list: [1, {$present: true}]}
"""
PASSED = {
    "city": "Paris",
    "code": "AB12",
    "temperature": 21.6,
    "share": 190,
    "begin": 1772355660000,
    "text": "it will rain",
    "unit": "CELSIUS",
    "kind": None,
    "when": "now",
    "tags": ["bb", "a"],
    "order": 7,
    "query": {"$regex": "^a", "$options": "i"},
    "place": {"zip": 1, "list": [1, None]},
}


def in_yaml(args: str) -> str:
    head = "golden_set: x\ngoldens:\n  - session: s\n    calls:\n      - name: f\n        args:\n"
    return head + "".join(f"          {line}\n" for line in args.splitlines())


def document(args: Any) -> dict[str, Any]:
    return {"golden_set": "x", "goldens": [{"session": "s", "calls": [{"name": "f", "args": args}]}]}


def test_yaml_json_and_mappings_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(in_yaml(ARGS), "utf-8")
    [from_yaml] = load_goldens(tmp_path / "a.yaml").goldens
    assert from_yaml.calls is not None
    written = document(dict(from_yaml.calls[0].args))
    (tmp_path / "b.json").write_text(json.dumps(written), "utf-8")
    for source in (tmp_path / "b.json", written):
        [golden] = load_goldens(source).goldens
        assert golden.calls == from_yaml.calls
    assert [error.message for error in VALIDATOR.iter_errors(written)] == []
    session = Session("s", (Turn((ToolCall("f", PASSED),)),))
    [result] = score_sessions(tmp_path / "a.yaml", session).sessions
    outcomes = {one.name: one.outcome.value for one in result.turns[0].calls[0].arguments}
    assert outcomes.pop("note") == "ignored"
    assert outcomes.pop("order") == "mismatched"  # nothing called create_order
    assert set(outcomes.values()) == {"matched"}


def test_ten_mistakes_are_ten_with_their_lines(tmp_path: Path) -> None:
    args = """\
    a: {$any_of: []}
    b:
      c:
        - 1
        - {$regx: x}
    d: {$approx: 1, tolerence: 2}
    e: {$approx: 1, relative: -2}
    f: {$regex: '('}
    g: {$type: str}
    h: {$present: yes}
    i: {$regex: a, $options: i}
    j: {$from_result: {call: f, path: id}}
    k:
      $unordered:
        - 1
        - {$absent: false}
    """
    (path := tmp_path / "wrong.yaml").write_text(in_yaml(dedent(args)), "utf-8")
    with pytest.raises(GoldenFileError) as caught:
        load_goldens(path)
    where = "goldens[0].calls[0].args."
    assert [(one.line, one.path.removeprefix(where)) for one in caught.value.mistakes] == [
        (7, 'a["$any_of"]'),
        (11, 'b.c[1]["$regx"]'),
        (12, "d.tolerence"),
        (13, "e.relative"),
        (14, 'f["$regex"]'),
        (15, 'g["$type"]'),
        (16, 'h["$present"]'),
        (17, "i"),
        (18, 'j["$from_result"].path'),
        (22, 'k["$unordered"][1]["$absent"]'),
    ]


@pytest.mark.parametrize(
    "args",
    [
        {"x": {"$any_of": "a"}},
        {"x": {"$any_of": [{"$zzz": 1}]}},
        {"x": {"$regex": 5}},
        {"x": {"$approx": "1"}},
        {"x": {"$approx": 1, "tolerance": -1}},
        {"x": {"$approx": 1, "other": 1}},
        {"x": {"$datetime": True}},
        {"x": {"$datetime": "2026-03-01", "tolerance": "1 week"}},
        {"x": {"$datetime": "2026-03-01", "tolerance": -1}},
        {"x": {"$type": "str"}},
        {"x": {"$absent": False}},
        {"x": {"$unordered": 1}},
        {"x": {"$from_result": {"path": "/a"}}},
        {"x": {"$from_result": {"call": "f", "path": "a"}}},
        {"x": [{"y": {"$casefold": "a", "b": 1}}]},
        {"x": {"$regex": "a", "$options": "i"}},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses_what_the_loader_refuses(args: Any) -> None:
    assert not VALIDATOR.is_valid(document(args))
    with pytest.raises(GoldenFileError):
        load_goldens(document(args))


def test_a_number_that_is_none_is_found_in_matchers_too() -> None:
    with pytest.raises(GoldenFileError, match="expected a JSON value"):
        load_goldens(document({"x": {"$any_of": [float("inf")]}}))


keys = st.sampled_from(["a", "$regex", "$any_of", "$literal", "$x", "tolerance", "$approx", "$absent"])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@given(values)
def test_any_value_is_read_or_refused_and_the_schema_agrees(value: Any) -> None:
    given_set = document({"x": value})
    try:
        loaded = bool(load_goldens(given_set))
    except GoldenFileError:
        loaded = False
    if loaded:  # the schema may let pass what only the loader can tell, such as a pattern RE2 does not know
        assert VALIDATOR.is_valid(given_set)


@given(values)
def test_what_is_escaped_is_read_back_as_it_was(value: Any) -> None:
    [golden] = load_goldens(document({"x": escape_literal(value)})).goldens
    assert golden.calls is not None
    assert json.dumps(golden.calls[0].values["x"]) == json.dumps(value)
    assert VALIDATOR.is_valid(document({"x": escape_literal(value)}))
