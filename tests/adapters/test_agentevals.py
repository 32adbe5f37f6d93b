"""goldspan's metrics as custom evaluators of agentevals: by its protocol, and with the real program."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.adapters.agentevals import evaluate
from goldspan.scoring import CriterionError
from goldspan.scoring.errors import MetricError

PARIS = {"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}, "id": "c1"}
KELVIN = {"name": "get_weather", "args": {"city": "Paris", "unit": "kelvin"}}
SCRIPT = "from goldspan.collector_processor.adapters.agentevals import run\n\nrun()\n"


def invocation(*calls: dict[str, Any], user: str = "Paris in celsius?", **steps: Any) -> dict[str, Any]:
    return {"user_content": user, "final_response": "Sunny.", "intermediate_steps": {"tool_calls": calls, **steps}}


def given(*invocations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"protocol_version": "1.1", "metric_name": "tool_parameter_match", "invocations": [*invocations], **fields}


@pytest.mark.parametrize(
    ("expected", "threshold", "score", "status"),
    [
        ([invocation(PARIS)], 1.0, 1.0, "PASSED"),
        ([invocation(KELVIN)], 0.8, 0.5, "FAILED"),
        ([invocation(KELVIN)], 0.5, 0.5, "PASSED"),
        ([invocation()], 1.0, 0.0, "NOT_EVALUATED"),
        (None, 1.0, 0.0, "NOT_EVALUATED"),
    ],
)
def test_calls_are_scored_against_the_expected_invocations(
    expected: Any, threshold: float, score: float, status: str
) -> None:
    result = evaluate(given(invocation(PARIS), expected_invocations=expected, threshold=threshold))
    assert (result["score"], result["status"]) == (score, status)
    assert result["details"]["explanation"]


def test_each_turn_has_a_score_of_its_own() -> None:
    rome = {"name": "get_weather", "args": {"city": "Rome"}}
    turns = [invocation(PARIS), invocation(rome, user="And Rome?")]
    result = evaluate(given(*turns, expected_invocations=[invocation(PARIS), invocation(KELVIN, user="And Rome?")]))
    assert result["per_invocation_scores"] == [1.0, 0.0]


def test_a_metric_without_golden_reads_what_users_and_tools_said() -> None:
    first = invocation(
        {"name": "find_city", "args": {}, "id": "f"},
        user="Weather where I live, in celsius?",
        tool_responses=[{"name": "find_city", "id": "f", "response": {"city": "Paris"}}],
    )
    grounded = evaluate(given(first, invocation(PARIS, user="Go on."), metric_name="tool_parameter_grounding"))
    assert (grounded["score"], grounded["status"]) == (1.0, "PASSED")
    alone = given(invocation(PARIS, user="Hello."), metric_name="x", config={"metric": "tool_parameter_grounding"})
    assert (evaluate(alone)["score"], evaluate(alone)["status"]) == (0.0, "FAILED")


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ([], TypeError, "expected an input of agentevals"),
        (given(config={"goldens": "x"}), TypeError, 'config has "goldens", expected criterion'),
        (given(config={"criterion": {"treshold": 1}}), CriterionError, "treshold"),
        (given(metric_name="no_such_metric"), MetricError, "no_such_metric"),
    ],
)
def test_what_is_wrong_is_said(wrong: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        evaluate(wrong)


def test_the_program_reads_standard_input_and_says_what_is_wrong_on_standard_error() -> None:
    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", SCRIPT], input=text, capture_output=True, text=True, check=False)

    result = run(json.dumps(given(invocation(PARIS), expected_invocations=[invocation(PARIS)])))
    assert json.loads(result.stdout)["status"] == "PASSED"
    wrong = run("{")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("goldspan: ")


@pytest.mark.skipif(
    find_spec("agentevals") is None or find_spec("agentevals.custom_evaluators") is None,
    reason="agentevals-cli is not installed here: `make test-integrations` runs this",
)
def test_the_real_program_runs_it(tmp_path: Path) -> None:
    def attributes(**values: str) -> list[dict[str, Any]]:
        return [{"key": f"gen_ai.{key.replace('__', '.')}", "value": {"stringValue": values[key]}} for key in values]

    trace, messages = "a" * 32, [{"role": "user", "parts": [{"type": "text", "content": "Paris in celsius?"}]}]
    spans = [
        {
            "spanId": "1" * 16,
            "name": "invoke_agent",
            "attributes": attributes(operation__name="invoke_agent", input__messages=json.dumps(messages)),
        },
        {
            "spanId": "2" * 16,
            "parentSpanId": "1" * 16,
            "name": "execute_tool get_weather",
            "attributes": attributes(
                operation__name="execute_tool",
                tool__name="get_weather",
                tool__call__arguments=json.dumps(PARIS["args"]),
            ),
        },
    ]
    times = {"traceId": trace, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000"}
    recorded = {"resourceSpans": [{"scopeSpans": [{"scope": {}, "spans": [{**span, **times} for span in spans]}]}]}
    turn = {
        "invocation_id": "1",
        "user_content": {"role": "user", "parts": [{"text": "Paris in celsius?"}]},
        "intermediate_data": {"tool_uses": [KELVIN]},
    }
    golden = {"eval_set_id": "w", "eval_cases": [{"eval_id": "paris", "conversation": [turn]}]}
    names = ("tool_parameter_match", "tool_parameter_grounding")
    evaluators = [{"name": name, "type": "code", "path": str(tmp_path / "goldspan_evaluator.py")} for name in names]
    written = {
        "goldspan_evaluator.py": SCRIPT,
        "trace.json": json.dumps(recorded),
        "golden.json": json.dumps(golden),
        "config.yaml": json.dumps({"evaluators": evaluators}),
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    program = str(Path(sys.executable).with_name("agentevals"))
    command = [program, "run", "trace.json", "--config", "config.yaml", "--eval-set", "golden.json"]
    table = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    scores = {row.split()[1]: float(row.split()[2]) for row in table.splitlines() if "tool_parameter" in row}
    assert scores == {"tool_parameter_match": 0.5, "tool_parameter_grounding": 1.0}
