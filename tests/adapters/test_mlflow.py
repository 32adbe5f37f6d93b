"""goldspan's metrics as scorers of MLflow, with the real package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring import CriterionError

pytestmark = [
    pytest.mark.filterwarnings("default"),  # MLflow's own libraries warn
    pytest.mark.skipif(
        find_spec("mlflow") is None, reason="mlflow is not installed here: `make test-integrations` runs this"
    ),
]
CALLS = [{"name": "get_weather", "arguments": {"city": "Paris", "unit": "kelvin"}}]
GOLDENS = {"format": 1, "golden_set": "g", "goldens": [{"session": "s1", "turns": [{"calls": CALLS}]}]}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A trace of session s1: a call with the city that the user named, and a unit that nobody did."""
    import mlflow  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)  # artifacts
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'store.db'}")

    @mlflow.trace(span_type="TOOL")
    def get_weather(city: str, unit: str) -> str:
        return f"{city}: 20 {unit}"

    @mlflow.trace(span_type="AGENT")
    def agent(question: str) -> str:
        mlflow.update_current_trace(metadata={"mlflow.trace.session": "s1"})
        return get_weather(city="Paris", unit="celsius")

    agent("Weather in Paris?")
    mlflow.flush_trace_async_logging()
    yield mlflow.get_trace(mlflow.get_last_active_trace_id())
    mlflow.set_tracking_uri(None)


def test_a_trace_is_scored_against_its_expectations_or_the_golden_of_its_session(trace: Any) -> None:
    from goldspan.collector_processor.adapters.mlflow_scorer import GoldspanScorer  # noqa: PLC0415

    [expected] = GoldspanScorer()(trace=trace, expectations={"expected_tool_calls": CALLS})
    assert (expected.name, expected.value, expected.metadata) == ("tool_parameter_match", 0.5, {"label": "fail"})
    assert 'expected "kelvin", found "celsius"' in expected.rationale
    assert expected.source.source_id == "goldspan"
    [golden] = GoldspanScorer(goldens=GOLDENS, criterion={"threshold": 0.5}, include_values=False)(trace=trace)
    assert (golden.value, golden.metadata) == (0.5, {"label": "pass"})
    assert "kelvin" not in golden.rationale
    [grounding] = GoldspanScorer("tool_parameter_grounding", name="grounded")(trace=trace)
    assert (grounding.name, grounding.value) == ("grounded", 0.5)
    assert GoldspanScorer()(trace=trace) == [], "nothing is expected"


def test_what_was_not_captured_is_an_error(trace: Any) -> None:
    from goldspan.collector_processor.adapters.mlflow_scorer import GoldspanScorer  # noqa: PLC0415

    document = trace.to_dict()
    for span in document["data"]["spans"]:
        del span["attributes"]["mlflow.spanInputs"]
    [feedback] = GoldspanScorer(goldens=GOLDENS)(trace=type(trace).from_dict(document))
    assert feedback.value is None
    assert "not captured" in feedback.error.error_message


def test_mlflow_evaluates_traces_with_it(trace: Any) -> None:
    import mlflow  # noqa: PLC0415

    from goldspan.collector_processor.adapters.mlflow_scorer import GoldspanScorer  # noqa: PLC0415

    scorers = [GoldspanScorer(goldens=GOLDENS), GoldspanScorer("tool_parameter_grounding=0.9")]
    result = mlflow.genai.evaluate(data=[trace], scorers=scorers)
    assert result.metrics == {"tool_parameter_match/mean": 0.5, "tool_parameter_grounding/mean": 0.5}
    with pytest.raises(CriterionError):
        GoldspanScorer(criterion={"treshold": 1})


def test_without_the_package_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['mlflow'] = None; import goldspan.collector_processor.adapters.mlflow_scorer"
    failed = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert "pip install 'goldspan[mlflow]'" in failed.stderr
