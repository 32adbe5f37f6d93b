"""Golden files as values: names, sources, directories, and what a level inherits."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens import ExpectedCall, Golden, GoldenSet, GoldenTurn, load_goldens

TEXT = """\
format: 1
golden_set: weather-agent
version: "3"
description: What the weather agent should do.
criterion: {ordered: true, per_arg_strategies: {temperature: numeric}, numeric_tolerance: 0.5, threshold: 0.8}
goldens:
  - session: sess-weather-1
    description: Two turns.
    turns:
      - user: What's the weather in Paris?
        calls:
          - {name: get_weather, args: {city: Paris, unit: celsius, days: 3}}
          - {name: ping}
      - turn_id: t-2
  - session_pattern: nightly-*
    calls:
      - {name: convert, args: {value: 21.5}}
"""


def test_a_file_becomes_values(tmp_path: Path) -> None:
    (path := tmp_path / "goldens.yml").write_text(TEXT, "utf-8")
    [golden_set] = load_goldens(path).sets
    assert (golden_set.name, golden_set.version, golden_set.label) == ("weather-agent", "3", "weather-agent@3")
    assert golden_set.source == str(path)
    assert golden_set.criterion.numeric_tolerance == Decimal("0.5")
    first, second = golden_set.goldens
    assert first.turns == (
        GoldenTurn(
            (ExpectedCall("get_weather", {"city": "Paris", "unit": "celsius", "days": 3}), ExpectedCall("ping", {})),
            user="What's the weather in Paris?",
        ),
        GoldenTurn(turn_id="t-2"),
    )
    assert (first.key, first.calls, first.source) == ("sess-weather-1", None, f"{path}:7")
    assert (second.key, second.calls, second.source) == (
        "nightly-*",
        (ExpectedCall("convert", {"value": 21.5}),),
        f"{path}:15",
    )
    assert first.criterion is second.criterion is golden_set.criterion
    assert {golden.golden_set for golden in golden_set.goldens} == {"weather-agent@3"}


def test_a_set_without_version_is_called_by_its_name() -> None:
    assert load_goldens({"golden_set": "x", "goldens": []}).sets[0].label == "x"


def test_goldens_made_in_code_are_sources_too() -> None:
    made = GoldenSet("mine", goldens=(Golden("s", calls=()),))
    assert load_goldens(made, {"golden_set": "x", "goldens": []}).goldens == made.goldens
    assert made.goldens[0].criterion == Criterion()


def test_a_directory_stands_for_the_golden_files_in_it(tmp_path: Path) -> None:
    def write(name: str, session: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        golden_set = {"golden_set": session, "goldens": [{"session": session, "calls": []}]}
        path.write_text(json.dumps(golden_set), "utf-8")

    for name, session in (("b.json", "b"), ("a/deep/x.yaml", "a"), (".git/x.json", "hidden"), (".x.yml", "hidden2")):
        write(name, session)
    (tmp_path / "test_config.json").write_text('{"criteria": {}}', "utf-8")
    (tmp_path / "notes.txt").write_text("no golden set", "utf-8")
    (tmp_path / "empty.yaml").mkdir()
    assert [golden.key for golden in load_goldens(str(tmp_path)).goldens] == ["a", "b"]


def criteria_of(base: object, own: list[object], **given: Any) -> tuple[Criterion, ...]:
    """The criteria that hold for a golden, its turn and its call; `...` says nothing on a level."""
    levels = [{} if one is ... else {"criterion": one} for one in (base, *own)]
    call = {"name": "f", **levels[3]}
    golden = {"session": "s", "turns": [{"calls": [call], **levels[2]}], **levels[1]}
    [found] = load_goldens({"golden_set": "x", "goldens": [golden], **levels[0]}, **given).goldens
    turn = found.turns[0].criterion or found.criterion
    return found.criterion, turn, found.turns[0].calls[0].criterion or turn


STRATEGIES = {"a": "numeric", "b": "contains"}
INHERITANCE: dict[str, tuple[object, list[object], list[dict[str, Any]]]] = {
    "nothing said": (..., [..., ..., ...], [{}, {}, {}]),
    "set for all": ({"threshold": 0.5}, [..., ..., ...], [{"threshold": 0.5}] * 3),
    "scalars replace": (
        {"numeric_tolerance": 1},
        [{"numeric_tolerance": 2}, ..., {"numeric_tolerance": 3}],
        [{"numeric_tolerance": 2}, {"numeric_tolerance": 2}, {"numeric_tolerance": 3}],
    ),
    "other fields stay": (
        {"threshold": 0.5},
        [{"ordered": False}, {"threshold": 0.6}, ...],
        [{"threshold": 0.5, "ordered": False}, *[{"threshold": 0.6, "ordered": False}] * 2],
    ),
    "mappings merge by key": (
        {"per_arg_strategies": {"a": "numeric"}},
        [{"perArgStrategies": {"b": "contains"}}, ..., {"per_arg_strategies": {"a": "exact"}}],
        [*[{"per_arg_strategies": STRATEGIES}] * 2, {"per_arg_strategies": {**STRATEGIES, "a": "exact"}}],
    ),
    "null resets a field": (
        {"threshold": 0.5, "ordered": False},
        [{"threshold": None}, {"ordered": None}, ...],
        [{"ordered": False}, {}, {}],
    ),
    "null resets a key": (
        {"per_arg_strategies": STRATEGIES},
        [{"per_arg_strategies": {"a": None}}, {"per_arg_strategies": None}, ...],
        [{"per_arg_strategies": {"b": "contains"}}, {}, {}],
    ),
    "null resets everything": ({"threshold": 0.5}, [None, ..., {"call_score": "all"}], [{}, {}, {"call_score": "all"}]),
    "null in a set is the default": ({"threshold": None, "tools": None}, [..., ..., ...], [{}, {}, {}]),
    "rules of tools merge to the last field": (
        {"tools": {"f": {"args": {"a": "numeric", "b": {"weight": 2}}}}},
        [{"tools": {"f": {"args": {"a": {"relativeTolerance": 0.1}, "b": None}}}}, ..., ...],
        [{"tools": {"f": {"args": {"a": {"strategy": "numeric", "relative_tolerance": 0.1}}}}}] * 3,
    ),
    "a field is right beside what it inherits": (
        {"per_arg_strategies": {"a": "numeric"}},
        [..., {"tools": {"f": {"args": {"a": {"tolerance": 1}}}}}, ...],
        [
            {"per_arg_strategies": {"a": "numeric"}},
            *[{"per_arg_strategies": {"a": "numeric"}, "tools": {"f": {"args": {"a": {"tolerance": 1}}}}}] * 2,
        ],
    ),
}


@pytest.mark.parametrize(("base", "own", "expected"), INHERITANCE.values(), ids=INHERITANCE)
def test_levels_inherit(base: object, own: list[object], expected: list[dict[str, Any]]) -> None:
    assert criteria_of(base, own) == tuple(Criterion.parse(one) for one in expected)


def test_a_level_that_says_nothing_shares_the_criterion_above() -> None:
    golden = {"session": "s", "turns": [{"calls": [{"name": "f"}]}]}
    [found] = load_goldens({"golden_set": "x", "goldens": [golden]}).goldens
    assert found.turns[0].criterion is None
    assert found.turns[0].calls[0].criterion is None


@pytest.mark.parametrize(
    "given", [{"threshold": 0.5, "ordered": False}, Criterion(threshold=Decimal("0.5"), ordered=False)]
)
def test_sets_inherit_from_a_criterion_given_in_code(given: Any) -> None:
    golden, *_ = criteria_of({"threshold": 0.6}, [..., ..., ...], criterion=given)
    assert golden == Criterion(threshold=Decimal("0.6"), ordered=False)
    golden, *_ = criteria_of({"ordered": None}, [..., ..., ...], criterion=given)
    assert golden == Criterion(threshold=Decimal("0.5"))


def test_a_wrong_criterion_given_in_code_is_refused() -> None:
    with pytest.raises(CriterionError, match="did you mean `threshold`"):
        load_goldens(criterion={"treshold": 1})


def test_arguments_is_another_name_of_args() -> None:
    def loaded(name: str) -> ExpectedCall:
        call = {"name": "f", name: {"city": {"$any_of": ["Paris", "Rome"]}}}
        [golden] = load_goldens({"golden_set": "x", "goldens": [{"session": "s", "calls": [call]}]}).goldens
        assert golden.calls is not None
        return golden.calls[0]

    assert loaded("arguments") == loaded("args")
    assert loaded("arguments").args == {"city": {"$any_of": ["Paris", "Rome"]}}
