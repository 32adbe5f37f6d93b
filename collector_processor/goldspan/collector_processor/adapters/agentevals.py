"""goldspan's metrics as a custom evaluator of agentevals, which calls a program with JSON on its standard input.

A file `goldspan_evaluator.py`, named by `path` in the configuration of agentevals:

    from goldspan.collector_processor.adapters.agentevals import run

    run()

Nothing of agentevals' is imported: the protocol, version 1.1, is JSON.
https://github.com/agentevals-dev/agentevals
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from goldspan.collector_processor.adapters.session_metric import MetricAnswer, SessionMetric, content_of
from goldspan.scoring.errors import GoldspanError
from goldspan.scoring.goldens.golden import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.json_values import is_mapping, shown
from goldspan.scoring.sessions import Session, ToolCall, Turn
from goldspan.scoring.verdict import MAIN_METRIC

__all__ = ["run"]

_SETTINGS = frozenset({"metric", "criterion", "include_values"})


def run() -> None:
    """Read one input from standard input, and write its result to standard output.

    What is wrong with the input or the configuration goes to standard error, with the exit code 1.
    """
    try:
        result = evaluate(msgspec.json.decode(sys.stdin.buffer.read()))
    except (GoldspanError, msgspec.DecodeError, TypeError) as error:
        sys.stderr.write(f"goldspan: {error}\n")
        raise SystemExit(1) from error
    sys.stdout.write(msgspec.json.encode(result).decode())


def evaluate(given: object) -> dict[str, Any]:
    """Return the result of an input. Its `config` has `metric`, `criterion` and `include_values`.

    The metric is the evaluator's own name where the configuration names none; its threshold is the evaluator's.
    Raises TypeError if it is no such input; CriterionError and MetricError for what is wrong with the settings.
    """
    if not is_mapping(given) or not isinstance(given.get("invocations"), list):
        raise TypeError(f"found {shown(given)}, expected an input of agentevals: an object with `invocations`")
    settings: Mapping[str, Any] = given.get("config") or {}
    if unknown := settings.keys() - _SETTINGS:
        raise TypeError(f"config has {shown(min(unknown))}, expected {', '.join(sorted(_SETTINGS))}")
    name, threshold = settings.get("metric") or given.get("metric_name") or MAIN_METRIC, given.get("threshold", 0.5)
    criterion = settings.get("criterion")
    metric = SessionMetric(
        name if name == MAIN_METRIC or "=" in name else f"{name}={threshold}",
        criterion={"threshold": threshold, **(criterion or {})} if name == MAIN_METRIC else criterion,
        include_values=settings.get("include_values", True),
    )
    expected = given.get("expected_invocations")
    golden = None if expected is None else Golden(turns=tuple(map(_golden_turn, expected)))
    return _result(metric.score(Session("", tuple(map(_turn, given["invocations"]))), golden))


def _result(answer: MetricAnswer) -> dict[str, Any]:
    status = "NOT_EVALUATED" if answer.score is None else "PASSED" if answer.passed else "FAILED"
    return {
        "score": answer.score or 0.0,
        "status": status,
        "per_invocation_scores": [turn["score"] for turn in answer.details.get("turns", ())],
        "details": {**answer.details, "explanation": answer.explanation},
    }


def _turn(invocation: Mapping[str, Any]) -> Turn:
    answers = _steps(invocation, "tool_responses")
    calls = tuple(_call(call, _answer_to(call, answers)) for call in _steps(invocation, "tool_calls"))
    return Turn(
        calls,
        user_text=content_of(invocation.get("user_content") or None),
        answer=content_of(invocation.get("final_response")),
    )


def _steps(invocation: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    steps: Mapping[str, Any] = invocation.get("intermediate_steps") or {}
    return list(steps.get(kind) or ())


def _answer_to(call: Mapping[str, Any], answers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Take the answer to a call from a list: by its id, else the first without an id of this tool."""
    key = "id" if call.get("id") else "name"
    same = (one for one in answers if one.get(key) == call[key] and (key == "id" or not one.get("id")))
    found = next(same, None)
    if found is None:
        return {}
    answers.remove(found)
    return found


def _call(call: Mapping[str, Any], answer: Mapping[str, Any]) -> ToolCall:
    result = answer.get("response")
    return ToolCall(
        call["name"],
        call.get("args") or {},
        call_id=call.get("id"),
        error="error" if answer.get("status") == "error" else None,
        result=content_of(answer.get("output") or None if result is None else result),
    )


def _golden_turn(invocation: Mapping[str, Any]) -> GoldenTurn:
    calls = _steps(invocation, "tool_calls")
    return GoldenTurn(
        tuple(ExpectedCall(call["name"], call.get("args") or {}, literal=True) for call in calls),
        invocation.get("user_content") or None,
    )
