"""goldspan's metrics in `uipath eval`, with the real uipath: a project with one traced agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("uipath") is None, reason="uipath is not installed here: `make test-adapters` runs this"
)

AGENT = """
from uipath.tracing import traced


@traced(name="get_weather", run_type="tool", span_type="tool")
def get_weather(city: str, unit: str) -> str:
    return "sunny"


@traced(name="agent")
def main(given: dict) -> dict:
    if "weather" in given["question"].lower():
        get_weather(city="Paris", unit="celsius")
    return {"answer": "Sunny."}
"""
EVALUATOR = "from goldspan.collector_processor.adapters.uipath import GoldspanUiPathEvaluator\n"
RIGHT = {"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}
WRONG = {"name": "get_weather", "args": {"city": "Paris", "unit": "fahrenheit"}}


def evaluate(
    folder: Path, metric: str, *criteria: dict[str, Any], question: str, **config: Any
) -> list[dict[str, Any]]:
    """Run `uipath eval` with one evaluation for each of the criteria, and return the result of each."""
    custom = folder / "evaluations/evaluators/custom"
    custom.mkdir(parents=True)
    (custom / "goldspan_evaluator.py").write_text(EVALUATOR, "utf-8")
    (folder / "main.py").write_text(AGENT, "utf-8")
    (folder / "evaluations/eval-sets").mkdir()
    documents = {
        "uipath.json": {"functions": {"agent": "main.py:main"}},
        "evaluations/evaluators/goldspan.json": {
            "version": "1.0",
            "id": "goldspan",
            "evaluatorTypeId": "goldspan",
            "evaluatorSchema": "file://goldspan_evaluator.py:GoldspanEvaluator",
            "evaluatorConfig": {"name": "goldspan", "metric": metric, **config},
        },
        "evaluations/eval-sets/weather.json": {
            "version": "1.0",
            "id": "weather",
            "name": "weather",
            "evaluatorRefs": ["goldspan"],
            "evaluations": [
                {
                    "id": str(number),
                    "name": str(number),
                    "inputs": {"question": question},
                    "evaluationCriterias": {"goldspan": one},
                }
                for number, one in enumerate(criteria)
            ],
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document), "utf-8")
    command = [Path(sys.executable).with_name("uipath"), "eval", "agent", "evaluations/eval-sets/weather.json"]
    ran = subprocess.run(
        [*command, "--no-report", "--output-file", "results.json"],
        cwd=folder,
        env=os.environ | {"UIPATH_TELEMETRY_ENABLED": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "results.json").exists(), ran.stdout + ran.stderr
    results = json.loads((folder / "results.json").read_text("utf-8"))["evaluationSetResults"]
    return [
        one["evaluationRunResults"][0]["result"] for one in sorted(results, key=lambda one: int(one["evaluationName"]))
    ]


def test_calls_are_compared_with_what_is_expected(tmp_path: Path) -> None:
    right, wrong, by_turn, none = evaluate(
        tmp_path,
        "tool_parameter_match",
        {"toolCalls": [RIGHT]},
        {"toolCalls": [WRONG]},
        {"toolCalls": [[WRONG]]},
        {"toolCalls": []},
        question="The weather in Paris?",
    )
    assert [one["score"] for one in (right, wrong, by_turn, none)] == [1.0, 0.5, 0.5, 1.0]
    assert 'unit (expected "fahrenheit", found "celsius")' in wrong["details"]["explanation"]
    assert wrong["details"]["actual"] == 'get_weather({"city": "Paris", "unit": "celsius"})'
    assert wrong["details"]["turns"][0]["calls"][0]["score"] == 0.5


def test_the_input_of_the_agent_is_what_values_may_come_from(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    [guessed] = evaluate(tmp_path / "a", "tool_parameter_grounding", {}, question="The weather in Paris?")
    [grounded] = evaluate(tmp_path / "b", "tool_parameter_grounding", {}, question="The weather in Paris, in celsius?")
    assert (guessed["score"], grounded["score"]) == (0.5, 1.0)
    [finding] = guessed["details"]["turns"][0]["calls"][0]["findings"]
    assert (finding["path"], finding["kind"]) == ("/unit", "none")


def test_values_can_be_left_out(tmp_path: Path) -> None:
    [result] = evaluate(tmp_path, "tool_parameter_grounding", {}, question="The weather in Paris?", includeValues=False)
    assert result["score"] == 0.5
    assert "celsius" not in json.dumps(result)


def test_what_cannot_be_evaluated_is_an_error_and_nothing_to_evaluate_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    [missing] = evaluate(tmp_path / "a", "tool_parameter_match", {}, question="The weather in Paris?")
    assert "no golden" in json.dumps(missing["details"])
    assert missing["score"] == 0.0
    [nothing] = evaluate(tmp_path / "b", "tool_parameter_grounding", {}, question="Hello?")
    assert nothing["score"] == 1.0


def test_the_package_is_named_where_it_is_missing() -> None:
    module = "goldspan.collector_processor.adapters.uipath"
    program = f"import sys; sys.modules['uipath'] = None; import {module}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'goldspan[uipath]'" in ran.stderr
