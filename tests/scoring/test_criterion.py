"""The criterion: both spellings, every mistake by name, and rules that are resolved from specific to general."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from goldspan.scoring import Criterion, CriterionError, score_session

OF_ADK_ISSUE_5643 = {
    "matchMode": "name_and_required_args",
    "defaultStrategy": "exact",
    "perArgStrategies": {"temperature": "numeric"},
    "numericTolerance": 0.5,
    "ordered": True,
    "threshold": 0.8,
}
DIFFERENT: dict[str, Any] = {
    "match_mode": "name_only",
    "default_strategy": "contains",
    "per_arg_strategies": {"x": "numeric"},
    "tools": {"f": {"args": {"x": {"strategy": "numeric", "relative_tolerance": 0.1}}}},
    "numeric_tolerance": 0.5,
    "ordered": False,
    "parallel_calls": "in_order",
    "scope": "session",
    "argument_score": "mean",
    "call_score": "all",
    "turn_score": "all",
    "extra_arguments": "penalize",
    "extra_calls": "penalize",
    "failed_calls": "ignore",
    "rejected_requests": "count",
    "other_writes": "forbid",
    "repeated_writes": "report",
    "reads": ("get_*",),
    "writes": ("book",),
    "missing_turns": "not_evaluated",
    "turn_join": "key",
    "threshold": 0.5,
}
"""A value for each field that is not its default; `equality` has one value only."""


def test_the_defaults_are_those_of_the_definition() -> None:
    assert Criterion().model_dump(mode="json") == {
        "match_mode": "name_and_required_args",
        "default_strategy": "exact",
        "per_arg_strategies": {},
        "tools": {},
        "numeric_tolerance": 0.0,
        "ordered": True,
        "parallel_calls": "any_order",
        "scope": "turn",
        "argument_score": "all",
        "call_score": "mean",
        "turn_score": "mean",
        "extra_arguments": "report",
        "extra_calls": "report",
        "other_writes": "report",
        "repeated_writes": "fail",
        "reads": [],
        "writes": [],
        "failed_calls": "count",
        "rejected_requests": "report",
        "missing_turns": "zero",
        "turn_join": "auto",
        "equality": "json",
        "threshold": 1.0,
    }
    assert Criterion.parse(None) == Criterion.parse({}) == Criterion()
    assert DIFFERENT.keys() == Criterion.model_fields.keys() - {"equality"}


@pytest.mark.parametrize("field", DIFFERENT)
def test_each_field_is_understood_in_both_spellings_and_matters_to_the_digest(field: str) -> None:
    snake = Criterion.parse({field: DIFFERENT[field]})
    camel = Criterion.parse({to_camel(field): DIFFERENT[field]})
    assert snake == camel
    assert snake.digest == camel.digest != Criterion().digest
    assert getattr(snake, field) != getattr(Criterion(), field)


def test_adks_own_example_is_understood() -> None:
    criterion = Criterion.parse(OF_ADK_ISSUE_5643)
    assert criterion.per_arg_strategies == {"temperature": "numeric"}
    assert (criterion.numeric_tolerance, criterion.threshold) == (Decimal("0.5"), Decimal("0.8"))
    said = {"per_arg_strategies": {"temperature": "numeric"}, "numeric_tolerance": Decimal("0.5")}
    assert criterion == Criterion(**said, threshold=Decimal("0.8"))


def test_argument_names_are_never_respelled() -> None:
    criterion = Criterion.parse(
        {"perArgStrategies": {"maxResults": "numeric"}, "tools": {"doIt": {"args": {"aB": "contains"}}}}
    )
    assert set(criterion.per_arg_strategies) == {"maxResults"}
    assert criterion.rules("doIt")["aB"].strategy == "contains"


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"matchMod": "name_only"}, "matchMod", "did you mean `match_mode` (`name_only` or `name_and_required_args`"),
        ({"per_args_strategies": {}}, "per_args_strategies", "did you mean `per_arg_strategies`?"),
        ({"zzz": 1}, "zzz", "unknown field; known are `match_mode`, `default_strategy`"),
        ({"match_mode": "name"}, "match_mode", 'found "name", expected `name_only`, `name_and_required_args` or'),
        ({"default_strategy": None}, "default_strategy", "found null, expected `exact`"),
        ({"per_arg_strategies": {"x": "fuzzy"}}, "per_arg_strategies.x", 'found "fuzzy", expected `exact`'),
        ({"per_arg_strategies": ["x"]}, "per_arg_strategies", 'found ["x"], expected a mapping'),
        ({"numeric_tolerance": -1}, "numeric_tolerance", "found -1, expected 0 or more"),
        ({"numeric_tolerance": "0.5"}, "numeric_tolerance", 'found "0.5", expected a number'),
        ({"numeric_tolerance": True}, "numeric_tolerance", "found true, expected a number"),
        ({"numeric_tolerance": float("nan")}, "numeric_tolerance", "expected a finite number"),
        ({"numeric_tolerance": Decimal("1e99999")}, "numeric_tolerance", "expected a finite number"),
        ({"ordered": "yes"}, "ordered", 'found "yes", expected true or false'),
        ({"ordered": 1}, "ordered", "found 1, expected true or false"),
        ({"threshold": 1.01}, "threshold", "expected a number from 0 to 1"),
        ({"equality": "python"}, "equality", 'found "python", expected `json`'),
        ({"tools": {"f": {"arg": {}}}}, "tools.f.arg", "did you mean `args`?"),
        ({"tools": {"f": []}}, "tools.f", "expected a mapping"),
        ({"tools": {"f": {"args": {"x": {"wieght": 2}}}}}, "tools.f.args.x.wieght", "did you mean `weight`?"),
        ({"tools": {"f": {"args": {"x": {"weight": -1}}}}}, "tools.f.args.x.weight", "expected 0 or more"),
        ({"tools": {"f": {"args": {"x": 5}}}}, "tools.f.args.x", "found 5, expected a mapping"),
        ({"tools": {"f": {"args": {"/a~b": "exact"}}}}, "tools.f.args", 'found "/a~b", expected a JSON Pointer'),
        (
            {"tools": {"f": {"args": {"a": "exact", "/a": {}}}}},
            "tools.f.args",
            '"a" and "/a" are one argument: leave one of them',
        ),
        ({"tools": {"f": {"args": {"x": {"tolerance": 1}}}}}, "", "tools.f.args.x.tolerance: the strategy is `exact`"),
        ({"match_mode": "name_only", "matchMode": "name_only"}, "", "`match_mode` is given twice"),
    ],
)
def test_a_mistake_names_the_field_and_what_may_stand_there(given: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(CriterionError) as caught:
        Criterion.parse(given)
    assert [place for place, _ in caught.value.mistakes] == [path]
    assert said in str(caught.value)
    if path:
        assert str(caught.value).startswith(f"{path}: ")


DOCUMENTS: dict[str, Any] = {
    "the issue's document": {"metric": "tool_parameter_match", "criterion": OF_ADK_ISSUE_5643},
    "ADK's criteria": {"criteria": {"tool_parameter_match": OF_ADK_ISSUE_5643, "response_match_score": 0.8}},
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_with_the_metric_is_the_criterion_in_it(document: dict[str, Any]) -> None:
    assert Criterion.parse(document) == Criterion.parse(OF_ADK_ISSUE_5643)
    expected = [{"name": "f", "args": {"x": 1}}]
    assert score_session(expected, expected, document).criterion == Criterion.parse(OF_ADK_ISSUE_5643).digest


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"metric": "tool_parameter_match"}, Criterion()),
        ({"metric": "tool_parameter_match", "criterion": None}, Criterion()),
        ({"metric": "tool_parameter_match", "criterion": 0.5}, Criterion(threshold=Decimal("0.5"))),
        ({"criteria": {"tool_parameter_match": 0.5}}, Criterion(threshold=Decimal("0.5"))),
    ],
)
def test_a_number_is_the_threshold_and_nothing_the_default(document: dict[str, Any], expected: Criterion) -> None:
    assert Criterion.parse(document) == expected


@pytest.mark.parametrize(
    ("document", "paths", "said"),
    [
        (
            {"metric": "other", "threshold": 1, "criterion": {"orderd": 1}},
            ["metric", "threshold", "criterion.orderd"],
            "criterion.orderd: unknown field; did you mean `ordered`?",
        ),
        ({"metric": "tool_parameter_match", "criterion": []}, ["criterion"], "found [], expected a mapping"),
        ({"criteria": {"other": 1}}, ["criteria"], "expected an object with tool_parameter_match"),
        ({"criteria": {"tool_parameter_match": True}}, ["criteria.tool_parameter_match"], "found true"),
    ],
)
def test_a_mistake_in_a_document_names_its_place_there(document: Any, paths: list[str], said: str) -> None:
    with pytest.raises(CriterionError) as caught:
        Criterion.parse(document)
    assert [path for path, _ in caught.value.mistakes] == paths
    assert said in str(caught.value)


def test_every_mistake_is_named_in_one_go() -> None:
    with pytest.raises(CriterionError) as caught:
        Criterion(match_mode="x", ordered=1, zzz=0)  # type: ignore[arg-type, call-arg]
    assert [path for path, _ in caught.value.mistakes] == ["match_mode", "ordered", "zzz"]


@pytest.mark.parametrize("given", [[], "exact", 3])
def test_what_is_no_mapping_is_refused(given: Any) -> None:
    with pytest.raises(CriterionError, match="expected a mapping of the fields of a criterion"):
        Criterion.parse(given)


def test_the_more_specific_rule_wins() -> None:
    criterion = Criterion.parse(
        {
            "default_strategy": "casefold_exact",
            "per_arg_strategies": {"x": "numeric", "y": "contains"},
            "numeric_tolerance": 1,
            "tools": {"f": {"args": {"x": {"tolerance": 2, "weight": 1.5}, "y": "exact", "z": {"required": False}}}},
        }
    )
    f, g = criterion.rules("f"), criterion.rules("g")
    assert [f[name].strategy for name in "xyzw"] == ["numeric", "exact", "casefold_exact", "casefold_exact"]
    assert [g[name].strategy for name in "xyzw"] == ["numeric", "contains", "casefold_exact", "casefold_exact"]
    assert (f["x"].compare(1, 3), g["x"].compare(1, 3), g["x"].compare(1, 2)) == (1, 0, 1)
    assert (f["x"].weight, g["x"].weight) == (Fraction(3, 2), 1)
    assert (f["x"].required, f["z"].required) == (True, False)


def test_criteria_that_say_the_same_are_equal() -> None:
    same = [
        Criterion(),
        Criterion(threshold=Decimal("1.0")),
        Criterion.parse({"threshold": 1, "tools": {}}),
        Criterion.parse({"perArgStrategies": {}}),
    ]
    assert len({criterion.digest for criterion in same}) == len(set(same)) == 1
    short = Criterion.parse({"tools": {"f": {"args": {"x": "numeric"}}}})
    assert short == Criterion.parse({"tools": {"f": {"args": {"x": {"strategy": "numeric"}}}}})
    assert Criterion() != Criterion(ordered=False)
    assert Criterion() != "Criterion()"


def test_a_digest_stays_the_same_from_version_to_version() -> None:
    assert Criterion(threshold=Decimal("0.8")).digest == "44136fa355b3"
    assert Criterion().digest == Criterion(threshold=Decimal(1)).digest == "f7cabde6d7f5"
    assert Criterion.parse(OF_ADK_ISSUE_5643).digest == "2e1d33b38857"


def test_a_criterion_survives_a_round_trip_through_json() -> None:
    criterion = Criterion.parse(DIFFERENT)
    assert Criterion.parse(json.loads(criterion.model_dump_json())) == criterion


def test_a_changed_copy_is_another_criterion() -> None:
    criterion = Criterion(per_arg_strategies={"x": "numeric"})
    assert criterion.rules("f")["x"].strategy == "numeric"
    copy = criterion.model_copy(update={"per_arg_strategies": {}, "ordered": False})
    assert copy == Criterion(ordered=False)
    assert copy.digest != criterion.digest
    assert copy.rules("f")["x"].strategy == "exact"
    with pytest.raises(CriterionError, match="threshold: found 2"):
        criterion.model_copy(update={"threshold": 2})


def test_nobody_changes_a_criterion() -> None:
    criterion = Criterion.parse({"per_arg_strategies": {"x": "exact"}})
    with pytest.raises(ValueError, match="frozen"):
        criterion.ordered = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        criterion.per_arg_strategies["x"] = "numeric"  # type: ignore[index]


def test_similarity_is_refused_early_where_rapidfuzz_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.scoring.criterion.similarity_is_available", lambda: False)
    with pytest.raises(CriterionError, match=r"install goldspan\[similarity\]"):
        Criterion(default_strategy="similarity")
    with pytest.raises(CriterionError, match=r"install goldspan\[similarity\]"):
        Criterion.parse({"tools": {"f": {"args": {"x": "similarity"}}}})
    assert Criterion(default_strategy="exact").default_strategy == "exact"


def test_the_schema_holds_for_what_is_accepted() -> None:
    schema = Criterion.model_json_schema()
    assert schema["properties"].keys() == Criterion.model_fields.keys()
    assert schema["properties"]["threshold"]["default"] == 1
    assert schema["additionalProperties"] is False
