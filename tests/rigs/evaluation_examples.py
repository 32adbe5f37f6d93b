"""Evaluations made by hand, for tests of what is emitted."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import Evaluation, Level
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult
from goldspan.scoring.sessions import Doubt, DoubtedFact, SpanRef, ToolCall, Turn
from goldspan.scoring.verdict import Label, Reason, Verdict

TRACE = "0af7651916cd43dd8448eb211c80319c"
TOOL_SPAN = SpanRef(TRACE, "b7ad6b7169203331")
ROOT_SPAN = SpanRef(TRACE, "00f067aa0ba902b7")
OTHER_SPAN = SpanRef(TRACE, "1111111111111111")
END = 1_700_000_000_000_000_000

PASS = Verdict(Fraction(1), Label.PASS)
FAIL = Verdict(Fraction(1, 3), Label.FAIL)
UNKNOWN = Verdict(None, Label.NOT_EVALUATED, Reason.ARGUMENTS_REDACTED)


def argument(name: str, outcome: ArgumentOutcome) -> ArgumentResult:
    return ArgumentResult(
        name, outcome, Fraction(outcome is ArgumentOutcome.MATCHED), "exact", expected_value="x", actual_value="y"
    )


ARGUMENTS = (
    argument("city", ArgumentOutcome.MATCHED),
    argument("unit", ArgumentOutcome.MISMATCHED),
    argument("days", ArgumentOutcome.MISSING),
)
ACTUAL = ToolCall("get_weather", {"city": "x", "unit": "y", "lang": "fr"}, call_id="call-1", span=TOOL_SPAN)
ALIGNED = CallResult(
    FAIL,
    expected=ExpectedCall("get_weather", {"city": "x", "unit": "x", "days": "x"}),
    expected_index=1,
    actual=ACTUAL,
    actual_index=0,
    arguments=ARGUMENTS,
    extra_arguments=("lang",),
    aligned=True,
)
MISSING = replace(ALIGNED, verdict=Verdict(Fraction(0), Label.FAIL), aligned=False, extra_arguments=())
UNEXPECTED = CallResult(
    Verdict(None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED), actual=ACTUAL, actual_index=0, extra_arguments=()
)
TURN = TurnResult(
    FAIL,
    calls=(ALIGNED, MISSING),
    unexpected_calls=(UNEXPECTED,),
    turn=Turn((ACTUAL,), root=ROOT_SPAN, trace_ids=(TRACE,), doubts=(Doubt("result_is_error", DoubtedFact.FAILURE),)),
    turn_index=0,
    expected_index=0,
    calls_expected=2,
    calls_evaluated=2,
    calls_aligned=1,
)
SESSION = SessionResult(FAIL, session=None, golden=None, turns=(TURN,), turns_expected=1, turns_evaluated=1)

_LEVELS = {CallResult: Level.CALL, TurnResult: Level.TURN, SessionResult: Level.SESSION}


def evaluation(detail: CallResult | TurnResult | SessionResult, **changes: Any) -> Evaluation:
    """An evaluation of this detail, on the span it is about."""
    target = TOOL_SPAN if isinstance(detail, CallResult) and not detail.missing else ROOT_SPAN
    values: dict[str, Any] = {
        "id": "00112233445566778899aabbccddeeff",
        "revision": 1,
        "level": _LEVELS[type(detail)],
        "metric": "tool_parameter_match",
        "verdict": detail.verdict,
        "target": target,
        "timestamp": END,
        "session_id": "sess-1",
        "run": "run-1",
        "golden": "sess-*",
        "golden_set": "weather@3",
        "criterion": "abc",
        "preset": None,
        "detail": detail,
        "explanation": "1 of 3 arguments match",
        "turn_index": 0,
        "agent": "weather_agent",
        "resource": ResourceFacts(service_name="shop", environment="test"),
    }
    return Evaluation(**{**values, **changes})
