"""goldspan's metrics in an Experiment of Strands Evals, with the real package."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

import pytest

from goldspan.mappers import read_sessions
from goldspan.scoring import CriterionError
from goldspan.scoring.errors import MetricError

needs_strands = pytest.mark.skipif(
    find_spec("strands_evals") is None,
    reason="strands-agents-evals is not installed here: `make test-adapters` runs this",
)
pytestmark = needs_strands

START = datetime(2026, 1, 1, tzinfo=UTC)
RIGHT = [{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}]


def trajectory(unit: str = "celsius", *, session_id: str = "s", error: str | None = None) -> Any:
    """A session of one turn, as Strands' mappers make them: the parents of calls are not in it."""
    from strands_evals.types import trace as types  # noqa: PLC0415

    def info(span_id: str, second: int, parent: str | None) -> Any:
        return types.SpanInfo(
            trace_id="t",
            span_id=span_id,
            session_id=session_id,
            parent_span_id=parent,
            start_time=START + timedelta(seconds=second),
            end_time=START + timedelta(seconds=second + 1),
        )

    parameters = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}}}
    spans = [
        types.AgentInvocationSpan(
            span_info=info("a", 0, None),
            user_prompt="Weather in Paris?",
            agent_response="Sunny.",
            available_tools=[types.ToolConfig(name="get_weather", parameters=parameters)],
        ),
        types.ToolExecutionSpan(
            span_info=info("x", 1, "loop"),
            tool_call=types.ToolCall(name="get_weather", arguments={"city": "Paris", "unit": unit}, tool_call_id="c"),
            tool_result=types.ToolResult(content="sunny", error=error, tool_call_id="c"),
        ),
    ]
    made = types.Trace(spans=spans, trace_id="t", session_id=session_id)
    return types.Session(traces=[made], session_id=session_id)


def outputs(given: Any, expected: Any = None, metric: Any = "tool_parameter_match", **settings: Any) -> Any:
    """What an Experiment reports for one case."""
    from strands_evals import Case, Experiment  # noqa: PLC0415

    from goldspan.collector_processor.adapters.strands_evals import GoldspanStrandsEvaluator  # noqa: PLC0415

    case: Any = Case(name="paris", session_id="s", input="Weather in Paris?", expected_trajectory=expected)
    evaluator = GoldspanStrandsEvaluator(metric, **settings)
    report = Experiment([case], evaluators=[evaluator]).run_evaluations(
        lambda _: {"output": "Sunny.", "trajectory": given}
    )
    assert report.cases[0]["evaluator"] == evaluator.name
    assert report.detailed_results[0], report.reasons
    [[output]] = report.detailed_results
    assert (report.scores[0], report.test_passes[0]) == (output.score, output.test_pass)
    return output


def test_a_session_object_is_read() -> None:
    [session] = read_sessions(trajectory())
    assert (session.id, [call.arguments for call in session.turns[0].calls]) == (
        "s",
        [{"city": "Paris", "unit": "celsius"}],
    )


@pytest.mark.parametrize(
    ("unit", "score", "passed"), [("celsius", 1.0, True), ("fahrenheit", 0.5, False)], ids=["right", "wrong"]
)
def test_calls_are_compared_with_the_expected_trajectory(unit: str, score: float, *, passed: bool) -> None:
    for expected in (RIGHT, [RIGHT], [{"calls": RIGHT}], trajectory(), [trajectory()]):
        output = outputs(trajectory(unit), expected)
        assert (output.score, output.test_pass, output.label) == (score, passed, "pass" if passed else "fail")
    assert ('unit (expected "celsius", found "fahrenheit")' in output.reason) is not passed
    assert output.metadata["turns"][0]["calls"][0]["score"] == score


def test_names_of_tools_and_the_tool_uses_of_the_extractor_are_taken() -> None:
    assert outputs(trajectory(), ["get_weather"]).score == 1
    assert outputs(trajectory(), ["get_time"]).score == 0
    uses = [
        {"name": "get_weather", "input": {"city": "Paris", "unit": "kelvin"}, "tool_result": None, "is_error": False}
    ]
    assert outputs(uses, RIGHT).score == 0.5


def test_the_criterion_and_goldens_decide() -> None:
    document = {"metric": "tool_parameter_match", "criterion": {"threshold": 0.5}}
    assert outputs(trajectory("kelvin"), RIGHT, criterion=document).test_pass
    goldens = {"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": RIGHT}]}]}
    assert outputs(trajectory("kelvin"), goldens=goldens).score == 0.5
    with pytest.raises(CriterionError, match="matchMod"):
        outputs(trajectory(), RIGHT, criterion={"matchMod": "name_only"})
    with pytest.raises(MetricError, match="did you mean"):
        outputs(trajectory(), metric="tool_parameter_groundin")


def test_metrics_without_golden_judge_every_case() -> None:
    grounded = outputs(trajectory("celsius"), metric="tool_parameter_grounding")
    assert (grounded.score, grounded.label) == (1, "pass")
    invalid = outputs(trajectory("parsec"), metric="tool_parameter_schema")
    assert (invalid.test_pass, invalid.label) == (False, "fail")
    [finding] = invalid.metadata["turns"][0]["calls"][0]["findings"]
    assert finding["path"] == "/unit"
    assert outputs(trajectory(), metric="tool_call_repetition").label == "scored"
    hidden = outputs(trajectory("parsec"), metric="tool_parameter_grounding", include_values=False)
    assert "parsec" not in hidden.model_dump_json()


async def waiting(session: Any) -> float:
    """A metric that waits."""
    import asyncio  # noqa: PLC0415

    await asyncio.sleep(0)
    return 0.25 if session.turns else 0


def test_a_metric_of_ones_own_may_wait() -> None:
    assert outputs(trajectory(), metric=waiting).score == 0.25


def test_a_case_that_expects_nothing_is_left_out_and_one_without_trajectory_fails() -> None:
    nothing = outputs(trajectory())
    assert (nothing.label, nothing.test_pass) == ("not_applicable", True)
    missing = outputs(None, RIGHT)
    assert (missing.label, missing.test_pass) == ("not_applicable", False)


def test_the_package_is_named_where_it_is_missing() -> None:
    program = (
        "import sys; sys.modules['strands_evals'] = None; import goldspan.collector_processor.adapters.strands_evals"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'goldspan[strands-evals]'" in ran.stderr
