"""Criteria in files of their own: goldspan's fields, ADK's `criteria` and the block of ADK issue 5643."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import CriterionFileError, GoldenFileError
from goldspan.scoring.goldens import load_criterion, load_goldens

ISSUE = {
    "metric": "tool_parameter_match",
    "criterion": {
        "threshold": 0.8,
        "matchMode": "name_only",
        "defaultStrategy": "exact",
        "perArgStrategies": {"temperature": "numeric"},
        "numericTolerance": 0.5,
        "ordered": True,
    },
}
SAME = Criterion(
    threshold=Decimal("0.8"),
    match_mode="name_only",
    per_arg_strategies={"temperature": "numeric"},
    numeric_tolerance=Decimal("0.5"),
)
FORMS: dict[str, tuple[Any, Criterion]] = {
    "the fields": (ISSUE["criterion"], SAME),
    "the issue's block": (ISSUE, SAME),
    "ADK's criteria": (
        {"criteria": {"tool_parameter_match": ISSUE["criterion"], "response_match_score": 0.8}, "customMetrics": {}},
        SAME,
    ),
    "a threshold alone": ({"criteria": {"tool_parameter_match": 0.7}}, Criterion(threshold=Decimal("0.7"))),
    "nothing but the metric": ({"metric": "tool_parameter_match"}, Criterion()),
    "nothing": ({}, Criterion()),
    "null for the default": ({"threshold": None}, Criterion()),
}


@pytest.mark.parametrize(("document", "expected"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ["criterion.json", "criterion.yaml", None])
def test_every_form_is_read(tmp_path: Path, name: str | None, document: Any, expected: Criterion) -> None:
    if name is None:
        assert load_criterion(document) == expected
        return
    (tmp_path / name).write_text(json.dumps(document), "utf-8")
    assert load_criterion(tmp_path / name) == expected
    assert load_criterion(str(tmp_path / name)) == expected


IN_ADK = "criteria.tool_parameter_match"
MISTAKES = {
    "unknown field": ("threshold: 1\norderd: 1", 2, "orderd", "did you mean `ordered`?"),
    "wrong value": ("match_mode: fuzzy", 1, "match_mode", "expected `name_only`"),
    "rule without numbers": (
        "tools:\n  a.b:\n    args:\n      c.d: {tolerance: -1}",
        4,
        'tools["a.b"].args["c.d"].tolerance',
        "expected 0 or more",
    ),
    "in ADK's criteria": (
        "criteria:\n  tool_parameter_match:\n    treshold: 1",
        3,
        "criteria.tool_parameter_match.treshold",
        "threshold",
    ),
    "ADK's criteria without the metric": ("criteria: {other: 1}", 1, "criteria", "with tool_parameter_match"),
    "ADK's threshold": (
        "criteria: {tool_parameter_match: 8}",
        1,
        f"{IN_ADK}.threshold",
        "from 0 to 1",
    ),
    "another metric": ("metric: other\ncriterion: {}", 1, "metric", "expected tool_parameter_match"),
    "beside the metric": (
        "metric: tool_parameter_match\nthreshold: 1",
        2,
        "threshold",
        "only `criterion` goes with `metric`",
    ),
    "a list": ("- threshold: 1", 1, "", "expected an object with the fields of a criterion"),
    "twice": ("threshold: 1\nthreshold: 1", 2, "threshold", "first on line 1"),
    "NaN": ("threshold: .nan", 1, "threshold", "expected a finite number"),
}


@pytest.mark.parametrize(("text", "line", "field", "words"), MISTAKES.values(), ids=MISTAKES)
def test_one_mistake_is_reported_once_where_it_stands(
    tmp_path: Path, text: str, line: int, field: str, words: str
) -> None:
    (path := tmp_path / "criterion.yaml").write_text(text, "utf-8")
    with pytest.raises(CriterionFileError) as caught:
        load_criterion(path)
    [mistake] = caught.value.mistakes
    assert (mistake.file, mistake.line, mistake.path) == (str(path), line, field)
    assert words in mistake.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CriterionFileError, match=r"none\.yaml: there is no such file"):
        load_criterion(tmp_path / "none.yaml")


@pytest.mark.parametrize("document", [ISSUE, {"criteria": {"tool_parameter_match": 0.5}}], ids=["metric", "criteria"])
def test_a_level_of_a_golden_file_has_fields_alone(document: dict[str, Any]) -> None:
    golden_set = {"golden_set": "s", "criterion": document, "goldens": [{"session": "s", "turns": []}]}
    with pytest.raises(GoldenFileError, match="unknown field"):
        load_goldens(golden_set)
