"""Custom metrics of ADK on sessions and on recorded traces, with the real google-adk."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from goldspan.scoring import Capture, Content, Session, ToolCall, Turn, score_sessions
from goldspan.scoring.errors import MetricError
from goldspan.scoring.metrics import import_metric
from goldspan.scoring.metrics.session_metrics import needs_of
from goldspan.scoring.results import SessionResult
from rigs.adk_invocations import needs_adk
from rigs.command_line import runner
from rigs.repository import ROOT

pytestmark = needs_adk

OWN = '''
from google.adk.evaluation.eval_case import Invocation, get_all_tool_calls, get_all_tool_responses
from google.adk.evaluation.eval_metrics import EvalMetric, EvalStatus
from google.adk.evaluation.eval_rubrics import RubricScore
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult

SEEN = []


def _result(scores, actual, rationale=None):
    status = EvalStatus.PASSED if all(scores) else EvalStatus.FAILED
    return EvaluationResult(
        overall_score=sum(scores) / len(scores),
        overall_eval_status=status,
        overall_rubric_scores=[RubricScore(rubric_id="r", rationale=rationale)] if rationale else None,
        per_invocation_results=[
            PerInvocationResult(actual_invocation=one, score=score, eval_status=status)
            for one, score in zip(actual, scores)
        ],
    )


def same_names(eval_metric: EvalMetric, actual_invocations: list[Invocation],
               expected_invocations: list[Invocation], conversation_scenario=None) -> EvaluationResult:
    """Whether the tools of each invocation are the expected ones."""
    SEEN.append((eval_metric, actual_invocations, expected_invocations))
    names = [[call.name for call in get_all_tool_calls(one.intermediate_data)] for one in actual_invocations]
    wanted = [[call.name for call in get_all_tool_calls(one.intermediate_data)] for one in expected_invocations]
    return _result([float(a == b) for a, b in zip(names, wanted)], actual_invocations, f"called {names}")


async def answered(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    """The share of turns with a final response."""
    SEEN.append((eval_metric, actual_invocations, expected_invocations))
    return _result([float(one.final_response is not None) for one in actual_invocations], actual_invocations)


async def waits(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    import asyncio
    await asyncio.sleep(0)
    return EvaluationResult(overall_eval_status=EvalStatus.FAILED)


def nothing(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    return EvaluationResult()


def broken(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    raise ValueError("no model")


def a_number(eval_metric, actual_invocations, expected_invocations=None, conversation_scenario=None):
    return 1.0


def one_of_goldspan(session, golden):
    return 1.0
'''

EXAMPLES = ROOT / "examples"
PARIS = ToolCall("get_weather", {"city": "Paris"}, call_id="c1", result=Content('{"sky": "clear"}', Capture.CAPTURED))
ROME = ToolCall("get_weather", {"city": "Rome"}, call_id="c2", batch=1)
OSLO = ToolCall("get_time", {}, call_id="c3", batch=1, error="timeout")
SESSION = Session(
    "s",
    (
        Turn(
            (PARIS,),
            turn_id="e-1",
            user_text=Content("Paris?", Capture.CAPTURED),
            answer=Content("Clear.", Capture.CAPTURED),
        ),
        Turn((ROME, OSLO), user_text=Content("And Rome?", Capture.CAPTURED)),
    ),
)
GOLDENS: dict[str, Any] = {
    "golden_set": "g",
    "goldens": [
        {
            "session": "s",
            "turns": [
                {"user": "Paris?", "calls": [{"name": "get_weather", "args": {"city": "Paris"}}]},
                {"calls": [{"name": "get_weather", "args": {"city": "Rome"}}]},
            ],
        }
    ],
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "own_adk_metrics.py").write_text(OWN, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_adk_metrics", raising=False)
    import own_adk_metrics  # type: ignore[import-not-found] # noqa: PLC0415

    return own_adk_metrics


def scored(name: str, goldens: Any = GOLDENS, session: Session = SESSION) -> Any:
    [result] = score_sessions(goldens, session, metrics=[f"adk:own_adk_metrics:{name}"]).sessions
    assert isinstance(result, SessionResult)
    return result.metrics


def test_a_function_scores_turns_and_sessions(own: ModuleType) -> None:
    [result] = scored("same_names=0.8")
    assert (result.name, result.description) == (
        "same_names",
        "Whether the tools of each invocation are the expected ones.",
    )
    assert (result.score, result.label, result.verdict.explanation) == (0.5, "fail", "ADK: FAILED")
    assert result.verdict.detailed == "called [['get_weather'], ['get_weather', 'get_time']]"
    assert [turn.score for turn in result.turns] == [1, 0]


def test_the_function_gets_what_adk_passes(own: ModuleType) -> None:
    from google.adk.evaluation.eval_case import (  # noqa: PLC0415
        Invocation,
        get_all_tool_calls_with_responses,
    )

    scored("same_names")
    [(metric, actual, expected)] = own.SEEN
    assert (metric.metric_name, metric.threshold, metric.criterion.threshold) == ("same_names", None, 1)
    assert all(isinstance(one, Invocation) for one in (*actual, *expected))
    assert [one.user_content.parts[0].text for one in actual] == ["Paris?", "And Rome?"]
    assert [one.final_response and one.final_response.parts[0].text for one in actual] == ["Clear.", None]
    assert [one.invocation_id for one in actual] == ["e-1", ""]
    pairs = [
        (call.name, call.args, answer and answer.response)
        for one in actual
        for call, answer in get_all_tool_calls_with_responses(one.intermediate_data)
    ]
    assert pairs == [
        ("get_weather", {"city": "Paris"}, {"sky": "clear"}),
        ("get_weather", {"city": "Rome"}, None),
        ("get_time", {}, {"error": "timeout"}),
    ]
    assert [one.user_content.parts[0].text for one in expected] == ["Paris?", ""]
    assert [use.args for one in expected for use in one.intermediate_data.tool_uses] == [
        {"city": "Paris"},
        {"city": "Rome"},
    ]


@pytest.mark.filterwarnings("ignore")  # ADK warns of its own experiments
def test_the_conversion_is_the_inverse_of_the_other_adapter(own: ModuleType) -> None:
    from goldspan.collector_processor.adapters.adk import golden_of, session_of  # noqa: PLC0415

    scored("same_names")
    [(_, actual, expected)] = own.SEEN
    assert [[(one.name, one.args) for one in turn.calls] for turn in session_of(actual).turns] == [
        [("get_weather", {"city": "Paris"})],
        [("get_weather", {"city": "Rome"}), ("get_time", {})],
    ]
    batches = [call.batch for call in session_of(actual).turns[1].calls]
    assert batches[0] == batches[1] != 0
    assert [turn.user for turn in golden_of(expected).turns] == ["Paris?", None]


def test_sessions_without_golden_are_scored_where_the_function_allows_it(own: ModuleType) -> None:
    [result] = scored("answered", goldens=None)
    assert (result.score, own.SEEN[0][2]) == (0.5, None)
    assert scored("same_names", goldens=None) == ()
    assert needs_of(import_metric("adk:own_adk_metrics:same_names")) == {"golden", "context"}


def test_one_list_of_calls_for_the_session_is_one_invocation(own: ModuleType) -> None:
    calls = [{"name": "get_weather"}, {"name": "get_weather"}, {"name": "get_time"}]
    [result] = scored("same_names", {"golden_set": "g", "goldens": [{"session": "s", "calls": calls}]})
    assert (result.score, len(own.SEEN[0][1]), result.turns) == (1, 1, ())


@pytest.mark.usefixtures("own")
def test_a_status_alone_is_a_score_and_a_failure_is_the_metrics_own() -> None:
    from goldspan.collector_processor.adapters.adk_metrics import AdkMetric  # noqa: PLC0415

    metric = import_metric("adk:own_adk_metrics:waits")
    assert isinstance(metric, AdkMetric)

    async def wait() -> Any:
        return await metric(SESSION, None)  # type: ignore[misc]

    assert asyncio.run(wait()).score == 0
    assert (scored("nothing")[0].score, scored("nothing")[0].reason) == (None, "nothing_expected")
    assert scored("broken")[0].reason == "evaluator_error"
    assert "ValueError: no model" in scored("broken")[0].verdict.explanation
    assert "found a float, expected an EvaluationResult" in scored("a_number")[0].verdict.explanation


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn((ToolCall("f", None, Capture.REDACTED),)), "arguments_redacted"),
        (Turn(calls_visible=False), "calls_not_visible"),
    ],
)
def test_what_was_not_captured_is_not_evaluated(turn: Turn, reason: str) -> None:
    [result] = scored("answered", None, Session("s", (turn,)))
    assert (result.score, result.reason) == (None, reason)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("adk:own_adk_metrics:missing", "has no attribute 'missing'"),
        ("adk:no_such_module:f", "No module named 'no_such_module'"),
        ("adk:own_adk_metrics:one_of_goldspan", "expected a custom metric function of ADK"),
        ("deepeval:m:f", "nothing adapts metrics of `deepeval`; known are `adk:`"),
    ],
)
def test_a_wrong_path_says_what_is_wrong(path: str, said: str) -> None:
    with pytest.raises(MetricError, match=said):
        import_metric(path)


def test_traces_are_scored_on_the_command_line(
    own: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goldspan = runner(tmp_path, monkeypatch, "score")
    trace, metric = EXAMPLES / "traces/google-adk.otlp.json", "adk:own_adk_metrics:answered=0.5"
    ran = goldspan(trace, "--goldens", EXAMPLES / "goldens.yaml", "--metric", metric)
    assert "answered" in ran.output
    assert own.SEEN
