"""Results as JSON: sessions, turns, calls, arguments, each with score, label and reason.

Every object has all of its keys, always in the same order; what there is nothing to say of is null or empty. Scores
become floats here and nowhere before.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.json_values import plain
from goldspan.scoring.metric_results import MetricResult, MetricVerdict, PresetResult
from goldspan.scoring.results import ArgumentResult, CallResult, Outcome, SessionResult, TurnResult, explain
from goldspan.scoring.sessions import SpanRef, ToolCall
from goldspan.scoring.verdict import Verdict

Document = dict[str, Any]


def session_document(result: SessionResult) -> Document:
    """Return one run of a session with everything below it."""
    session, golden = result.session, result.golden
    return {
        "id": None if session is None else plain(session.id),
        "id_source": None if session is None else plain(session.id_source),
        "run": None if session is None else plain(session.run),
        "incomplete": session is not None and session.incomplete,
        "golden": None if golden is None else plain(golden.key),
        "golden_set": None if golden is None else golden.golden_set,
        "metric": result.metric,
        "criterion": result.criterion,
        "preset": result.preset,
        **verdict_document(result.verdict),
        "expected_turns": result.turns_expected,
        "evaluated_turns": result.turns_evaluated,
        "explanation": explain(result),
        "answer": _answer(result.answer),
        "metrics": [_metric(metric) for metric in result.metrics],
        "turns": [_turn(turn) for turn in result.turns],
    }


def golden_document(golden: Golden) -> Document:
    """Return a golden by its name and place."""
    return {"golden": plain(golden.key), "golden_set": golden.golden_set, "source": plain(golden.source)}


def _turn(result: TurnResult) -> Document:
    turn = result.turn
    return {
        "index": result.turn_index,
        "expected_index": result.expected_index,
        "seen": turn is not None,
        "trace_ids": [] if turn is None else list(turn.trace_ids),
        "root": None if turn is None else _span(turn.root),
        **verdict_document(result.verdict),
        "expected_calls": result.calls_expected,
        "evaluated_calls": result.calls_evaluated,
        "matched_calls": result.calls_matched,
        "missing_calls": result.calls_missing,
        "unexpected_calls": len(result.unexpected_calls),
        "approximate": result.approximate,
        "alternative": result.alternative,
        "explanation": explain(result),
        "answer": _answer(result.answer),
        "calls": [_call(call) for call in (*result.calls, *result.unexpected_calls)],
        "rejected": [_actual(call, None) for call in result.rejected],
    }


def _answer(answer: PresetResult | None) -> Document | None:
    return None if answer is None else cast("Document", plain(answer.to_json()))


def _metric(result: MetricResult) -> Document:
    least, most = result.range
    return {
        "name": result.name,
        "description": plain(result.description),
        "range": [_end(least), _end(most)],
        "threshold": None if result.threshold is None else float(result.threshold),
        **_metric_verdict(result.verdict),
        "turns": [
            {"index": turn.turn_index, "expected_index": turn.expected_index, **_metric_verdict(turn.verdict)}
            for turn in result.turns
        ],
    }


def _end(bound: float) -> float | None:
    """JSON has no infinity: null stands for a range without end."""
    return float(bound) if isfinite(bound) else None


def _metric_verdict(verdict: MetricVerdict) -> Document:
    return {
        "score": verdict.score,
        "label": None if verdict.label is None else verdict.label.value,
        "reason": None if verdict.reason is None else verdict.reason.value,
        "explanation": plain(verdict.explanation),
    }


def _call(result: CallResult) -> Document:
    return {
        "tool": plain(_tool(result)),
        "status": "unexpected" if result.unexpected else "missing" if result.missing else "aligned",
        **verdict_document(result.verdict),
        "expected_index": result.expected_index,
        "expected_arguments": None if result.expected is None else plain(dict(result.expected.args)),
        "actual": None if result.actual is None else _actual(result.actual, result.actual_index),
        "near_miss": result.missing and result.actual is not None,
        "optional": result.optional,
        "forbidden": result.violates is not None,
        "arguments": [_argument(argument) for argument in result.arguments],
        "extra_arguments": [plain(name) for name in result.extra_arguments],
        "explanation": explain(result),
    }


def _tool(result: CallResult) -> str:
    if result.expected is not None:
        return result.expected.name
    return "" if result.actual is None else result.actual.name


def _actual(call: ToolCall, index: int | None) -> Document:
    return {
        "name": plain(call.name),
        "index": index,
        "arguments": plain(dict(call.arguments)) if isinstance(call.arguments, Mapping) else None,
        "capture": str(call.capture),
        "call_id": plain(call.call_id),
        "error": plain(call.error),
        "requested": call.requested,
        "rejected": call.rejected,
        "span": _span(call.span),
    }


def _argument(argument: ArgumentResult) -> Document:
    return {
        "name": plain(argument.name),
        "outcome": argument.outcome.value,
        "score": argument.score,
        "strategy": argument.strategy,
        "weight": float(argument.weight),
        "expected": plain(argument.expected),
        "actual": plain(argument.actual) if argument.outcome in _PASSED_ARGUMENTS else None,
        "differing": [plain(part) for part in argument.differing],
    }


_PASSED_ARGUMENTS = (Outcome.MATCHED, Outcome.MISMATCHED)


def verdict_document(verdict: Verdict) -> Document:
    """Return score, label and reason."""
    reason = verdict.reason
    return {"score": verdict.score, "label": verdict.label.value, "reason": None if reason is None else reason.value}


def _span(span: SpanRef | None) -> Document | None:
    return None if span is None else {"trace_id": span.trace_id, "span_id": span.span_id}
