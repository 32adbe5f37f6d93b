"""The published JSON Schema: what it accepts and refuses is what the loader accepts and refuses."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml
from rigs.markdown_pages import blocks
from rigs.repository import ROOT

PUBLISHED = ROOT / "config/golden-set.schema.json"
VALIDATOR = Draft202012Validator(json.loads(PUBLISHED.read_text("utf-8")))


def documents() -> dict[str, Any]:
    """Every golden set that the pages and the examples show."""
    texts = {
        f"{page.name}:{block.line}": block.text
        for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
        for block in blocks(page.read_text("utf-8"))
        if block.language == "yaml" and re.search(r"^golden_set:", block.text, re.MULTILINE)
    }
    texts |= {path.name: path.read_text("utf-8") for path in (ROOT / "examples").glob("*goldens*.yaml")}
    return {name: read_yaml(text, MistakeCollector(name)) for name, text in texts.items()}


DOCUMENTS = documents()


def test_the_published_schema_is_the_generated_one() -> None:
    generated = runpy.run_path(str(ROOT / "docs/generate_golden_schema.py"))["page"]()
    assert json.loads(generated) == json.loads(PUBLISHED.read_text("utf-8")), (
        "run: python docs/generate_golden_schema.py > config/golden-set.schema.json"
    )


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)


def test_every_reference_leads_to_a_definition() -> None:
    text = PUBLISHED.read_text("utf-8")
    for path in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        place = json.loads(text)
        for step in path.split("/"):
            place = place[step]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_accepts_every_example(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(DOCUMENTS[name])] == []


def test_there_are_examples() -> None:
    assert DOCUMENTS


def a_set(**more: Any) -> dict[str, Any]:
    return {"golden_set": "x", "goldens": [a_golden()], **more}


def a_golden(**more: Any) -> dict[str, Any]:
    return {"session": "s", "calls": [{"name": "f", "args": {"a": 1}}], **more}


def with_call(**more: Any) -> dict[str, Any]:
    return a_set(goldens=[a_golden(calls=[{"name": "f", **more}])])


EITHER = [[{"name": "f"}], [{"name": "g"}, {"name": "*", "forbidden": True}]]
RIGHT: dict[str, Any] = {
    "arguments": with_call(arguments={"a": {"$regex": "x"}}),
    "optional": with_call(optional=True, result={"a": 1}),
    "forbidden": with_call(forbidden=True),
    "group": a_set(goldens=[a_golden(calls=[{"name": "f"}, {"parallel": [{"name": "g"}, {"name": "h"}]}])]),
    "alternatives": a_set(
        goldens=[{"session": "s", "any_of": EITHER}, {"session": "t", "turns": [{"any_of": EITHER}]}]
    ),
    "repeat": a_set(
        goldens=[a_golden(repeat={"runs": 5, "passes": 4}), {**a_golden(repeat={"runs": 2}), "session": "t"}]
    ),
    "counts": a_set(goldens=[a_golden(call_counts={"f": 2, "g": ">= 1"})]),
    "attribute": a_set(goldens=[{"attribute": {"test.case.name": "x", "n": 1, "b": True}, "calls": []}]),
    "first user text": a_set(goldens=[{"first_user_text": "Hi", "calls": []}]),
    "aliases": a_set(aliases={"f": ["x.f", "y-f"], "g": "z"}),
    "small": a_set(goldens=[]),
    "everything": a_set(format=1, version="1", description="d", criterion={"perArgStrategies": {"a": "numeric"}}),
    "null criterion": a_set(criterion=None),
    "nulls in a criterion": a_set(criterion={"threshold": None, "tools": {"f": {"args": {"a": None}}}}),
    "rules": a_set(criterion={"tools": {"f": {"args": {"a": "exact", "b": {"weight": 2, "relativeTolerance": None}}}}}),
    "pattern": a_set(goldens=[{"session_pattern": "s-*", "turns": [{}, {"user": "Hi", "calls": []}]}]),
    "criterion of a call": with_call(criterion={"callScore": "all", "default_strategy": "casefold_exact"}),
    "rules of the set": a_set(
        reads=["get_*"],
        writes=["f"],
        other_writes="forbid",
        arguments={
            "f.a": {"$unordered": True, "together": ["b"], "optional": True},
            "f.a.b": {"strategy": "numeric", "tolerance": 1, "weight": 0},
        },
    ),
    "a strategy as a rule": a_set(arguments={"f.a": "casefold_exact"}),
    "writes of a golden": a_set(goldens=[a_golden(other_writes="forbid")]),
    "choice": a_set(goldens=[a_golden(calls=[{"name": "f"}, {"any_of": [[{"name": "g"}], []]}])]),
    "any JSON": with_call(args={"a": [None, True, 1, 1.5, "x", {"b": {}}], "$filter": {"a$": 1, "b": {}}}),
}
WRONG: dict[str, Any] = {
    "no name": {"goldens": []},
    "no goldens": {"golden_set": "x"},
    "unknown field": a_set(verzion="1"),
    "number for text": a_set(version=3),
    "blank text": a_set(golden_set=" "),
    "another format": a_set(format=2),
    "turns and calls": a_set(goldens=[a_golden(turns=[])]),
    "neither": a_set(goldens=[{"session": "s"}]),
    "two keys": a_set(goldens=[a_golden(session_pattern="x")]),
    "no key": a_set(goldens=[{"calls": []}]),
    "turn with an unknown field": a_set(goldens=[{"session": "s", "turns": [{"call": []}]}]),
    "nameless call": a_set(goldens=[a_golden(calls=[{"args": {}}])]),
    "args as a list": with_call(args=[1]),
    "args and arguments": with_call(args={}, arguments={}),
    "wrong matcher in arguments": with_call(arguments={"a": {"$any_of": []}}),
    "wrong matcher": with_call(args={"a": {"$any_of": []}}),
    "option of another matcher": with_call(args={"a": {"$any_of": [1], "tolerance": 1}}),
    "two matchers": with_call(args={"a": {"$any_of": [1], "$type": "string"}}),
    "matcher deep inside": with_call(args={"a": [{"b": {"$x": 1}}]}),
    "optional and forbidden": with_call(optional=True, forbidden=True),
    "optional in words": with_call(optional="yes"),
    "group of no list": a_set(goldens=[a_golden(calls=[{"parallel": {"name": "f"}}])]),
    "name and group": a_set(goldens=[a_golden(calls=[{"parallel": [], "name": "f"}])]),
    "one alternative": a_set(goldens=[{"session": "s", "any_of": [[{"name": "f"}]]}]),
    "empty alternative": a_set(goldens=[{"session": "s", "any_of": [[{"name": "f"}], []]}]),
    "calls and alternatives": a_set(goldens=[{"session": "s", "turns": [{"calls": [], "any_of": EITHER}]}]),
    "repeat without runs": a_set(goldens=[a_golden(repeat={"passes": 1})]),
    "no attributes": a_set(goldens=[{"attribute": {}, "calls": []}]),
    "list as an attribute": a_set(goldens=[{"attribute": {"a": []}, "calls": []}]),
    "count in words": a_set(goldens=[a_golden(call_counts={"f": "twice"})]),
    "alias of no name": a_set(aliases={"f": [1]}),
    "unknown criterion field": a_set(criterion={"orderd": True}),
    "wrong strategy": a_set(criterion={"per_arg_strategies": {"a": "near"}}),
    "threshold beyond": a_set(criterion={"threshold": 8}),
    "criterion as text": a_set(criterion="strict"),
    "rule of nothing": a_set(arguments={"f.a": {}}),
    "rule with an unknown field": a_set(arguments={"f.a": {"wait": 1}}),
    "rule with a wrong matcher": a_set(arguments={"f.a": {"$date": []}}),
    "reads as text": a_set(reads="get_*"),
    "other writes as a flag": a_set(other_writes=True),
    "one choice": a_set(goldens=[a_golden(calls=[{"any_of": [[{"name": "g"}]]}])]),
    "criterion of a call too wide": with_call(criterion={"turn_join": "key"}),
}


def loads(document: Any) -> bool:
    try:
        load_goldens(document)
    except GoldenFileError:
        return False
    return True


@pytest.mark.parametrize("accepts", [loads, VALIDATOR.is_valid], ids=["loader", "schema"])
@pytest.mark.parametrize(
    ("document", "right"),
    [*((one, True) for one in RIGHT.values()), *((one, False) for one in WRONG.values())],
    ids=[*RIGHT, *WRONG],
)
def test_loader_and_schema_agree(accepts: Callable[[Any], bool], document: Any, right: bool) -> None:
    assert accepts(document) is right


def test_the_schema_wants_an_object() -> None:
    assert not VALIDATOR.is_valid([])
