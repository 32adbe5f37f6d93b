"""Scored sessions made by hand, with everything in them that can become of a call: for tests of reports."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import ExpectedCall, Golden
from goldspan.scoring.metrics import MetricResult, MetricVerdict, Range
from goldspan.scoring.results import ArgumentOutcome, ArgumentResult, CallResult, SessionResult, TurnResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.verdict import Label, Reason, Verdict

CRITERION = Criterion(threshold=Decimal("0.8"))
Score = int | float | Fraction


def verdict(score: Score | None, reason: Reason | None = None) -> Verdict:
    if reason is not None:
        return Verdict(None if score is None else Fraction(score), Label.NOT_EVALUATED, reason)
    exact = Fraction(score or 0)
    return Verdict(exact, Label.PASS if exact >= Fraction(8, 10) else Label.FAIL)


def argument(
    name: str, expected: Any, outcome: ArgumentOutcome = ArgumentOutcome.MATCHED, actual: Any = None, **more: Any
) -> ArgumentResult:
    found = expected if outcome is ArgumentOutcome.MATCHED else actual
    score = Fraction(outcome is ArgumentOutcome.MATCHED) if outcome is not ArgumentOutcome.UNKNOWN else None
    return ArgumentResult(name, outcome, more.get("score", score), more.get("strategy", "exact"), expected, found)


def call(
    name: str, *arguments: ArgumentResult, score: Score = 1, made: ToolCall | None = None, **more: Any
) -> CallResult:
    expected = ExpectedCall(name, {one.name: one.expected_value for one in arguments})
    actual = made or ToolCall(name, {one.name: one.actual_value for one in arguments})
    fields: dict[str, Any] = {
        "verdict": verdict(score if score == 1 else min(score, Fraction(7, 10))),
        "aligned": True,
    } | more
    return CallResult(expected=expected, actual=actual, arguments=arguments, **fields)


def missing(
    name: str, *arguments: ArgumentResult, near: ToolCall | None = None, extra: tuple[str, ...] = (), **more: Any
) -> CallResult:
    expected = ExpectedCall(name, {one.name: one.expected_value for one in arguments})
    compared = arguments if near else ()
    return CallResult(verdict(0), expected, actual=near, arguments=compared, extra_arguments=extra, **more)


def unknown(name: str, capture: Capture = Capture.NOT_CAPTURED) -> CallResult:
    reason = Reason(f"arguments_{capture}")
    made = ToolCall(name, None, capture, dialect="google_adk")
    return call(name, argument("city", "Paris", ArgumentOutcome.UNKNOWN), made=made, verdict=verdict(None, reason))


def turn(index: int, score: Verdict, *calls: CallResult, user: str = "", **more: Any) -> TurnResult:
    said = Content(user, Capture.CAPTURED) if user else Content()
    evaluated = sum(one.verdict.exact is not None for one in calls)
    fields: dict[str, Any] = {
        "turn": Turn(user_text=said),
        "calls_expected": len(calls),
        "calls_evaluated": evaluated,
    } | more
    return TurnResult(score, calls, turn_index=index, expected_index=index, **fields)


def session(name: str, score: Verdict, *turns: TurnResult, **more: Any) -> SessionResult:
    golden = Golden(more.get("golden", name), criterion=CRITERION, golden_set="weather@1")
    seen = Session(name, run=more.get("run", ""), id_source=more.get("id_source", "gen_ai.conversation.id"))
    return SessionResult(score, seen, golden, turns, len(turns), len(turns), criterion="c")


LONG = "Dear Sir or Madam, I would like to book a table for two on the {} of December, at seven thirty, please"
ADDRESS = {"street": "12 rue de Rivoli", "zip": "75001"}
PASSED = session("sess-good", verdict(1), turn(0, verdict(1), call("get_weather", argument("city", "Paris"))))
FAILED = session(
    "sess-weather-1",
    verdict(0.46),
    turn(
        0,
        verdict(Fraction(5, 9)),
        call("get_weather", argument("city", "Paris"), argument("days", 3)),
        call(
            "get_weather",
            argument("city", "Lyon"),
            argument("days", 1, ArgumentOutcome.MISMATCHED, 3),
            score=Fraction(1, 2),
            extra_arguments=("locale",),
        ),
        missing(
            "convert",
            argument("value", 21.5, ArgumentOutcome.MISMATCHED, 70.7),
            argument("to_unit", "F"),
            near=ToolCall("convert", {"value": 70.7, "to_unit": "F"}),
        ),
        user="What's the weather in Paris in celsius, and convert 21.5 C to F? And then Lyon.",
        unexpected_calls=(
            CallResult(verdict(None, Reason.NOTHING_EXPECTED), actual=ToolCall("lookup", {"city": "Paris"})),
        ),
        rejected=(ToolCall("get_weather", {"town": "Lyon"}, requested=True, rejected=True),),
    ),
    turn(
        1,
        verdict(0.3),
        call(
            "book_table",
            argument(
                "restaurant",
                {"id": 42, "address": ADDRESS},
                ArgumentOutcome.MISMATCHED,
                {"id": 42, "address": ADDRESS | {"zip": "75002"}},
            ),
            argument("people", 2),
            argument("when", "2026-12-01T20:00", ArgumentOutcome.MISSING),
            argument("temperature", 21.5, ArgumentOutcome.MISMATCHED, 24, strategy="numeric"),
            argument(
                "message",
                LONG.format("first"),
                ArgumentOutcome.MISMATCHED,
                LONG.format("second"),
                strategy="similarity",
                score=Fraction(96, 100),
            ),
            score=Fraction(3, 10),
            made=ToolCall("book_table", {}, error="ToolError: closed"),
        ),
        missing("pay_bill", argument("amount", 12), argument("currency", "EUR")),
        user="Book a table",
    ),
    turn(2, verdict(1), call("say_goodbye"), user="Thanks"),
    TurnResult(verdict(0), (missing("sum_up"),), expected_index=3, calls_expected=1, calls_evaluated=1),
)
UNKNOWN = session(
    "7c3d1a60-88a5-4f9e-a1f3-9f4c1f5e1f60",
    verdict(None, Reason.ARGUMENTS_NOT_CAPTURED),
    turn(
        0,
        verdict(None, Reason.ARGUMENTS_NOT_CAPTURED),
        unknown("get_weather"),
        unknown("get_weather"),
        unknown("convert"),
    ),
    TurnResult(verdict(None, Reason.TURN_NOT_EXPECTED), turn=Turn((ToolCall("f"), ToolCall("g"))), turn_index=1),
)
NO_GOLDEN = SessionResult(verdict(None, Reason.NO_GOLDEN), Session("sess-other"), None)
EVERYTHING = ScoringResult(
    (FAILED, UNKNOWN, PASSED, NO_GOLDEN),
    never_seen=(Golden("sess-gone", criterion=CRITERION),),
    problems=(
        Problem("bad_json", "is not whole JSON: Expecting value at character 12", "traces.jsonl:12"),
        Problem("bad_span", "found null in spans; expected an object", "traces.jsonl:14"),
    ),
    golden_sets={"weather@1": "0123456789abcdef"},
)
ODD = ScoringResult(
    (
        session(
            "sess-odd",
            verdict(0.2),
            turn(
                0,
                verdict(0.2),
                missing("f", argument("x", 1), near=ToolCall("f", {"x": 1}), out_of_order=True),
                missing("g", argument("x", 1), near=ToolCall("g", {"x": 1}, error="Timeout")),
                missing(
                    "h",
                    argument("x", 1),
                    near=ToolCall("h", {"x": 1, "y": 2}),
                    extra=("y",),
                    extra_arguments_count=True,
                ),
                missing("i", argument("x", 1, ArgumentOutcome.UNKNOWN), near=ToolCall("i", None, Capture.REDACTED)),
                call(
                    "j",
                    argument("token", "t", ArgumentOutcome.UNKNOWN),
                    argument("x", 1, ArgumentOutcome.MISMATCHED, 2),
                    made=ToolCall("j", {"token": "***", "x": 2}, argument_captures={"token": Capture.REDACTED}),
                    verdict=verdict(None, Reason.ARGUMENTS_REDACTED),
                ),
                call("k", argument("x", [1, 2], ArgumentOutcome.MISMATCHED, {"a": 1}), score=0),
                call("l", argument("x", {"a": 1}, ArgumentOutcome.MISMATCHED, {"a": 1, "b": 2}), score=0),
                call("m", argument("x", 1, ArgumentOutcome.MISMATCHED, True), score=0),
                approximate=True,
            ),
            golden="sess-*",
            id_source="trace_id",
        ),
        session("sess-twice", verdict(1), turn(0, verdict(1), call("f")), run="a"),
        session("sess-twice", verdict(1), turn(0, verdict(1), call("f")), run="b"),
    )
)
NOTHING = ScoringResult()
METRICS = (
    MetricResult(
        "trajectory_f1",
        "The harmonic mean of trajectory precision and recall.",
        Range(0, 1),
        MetricVerdict(Fraction(1, 2), Label.FAIL, None, "1 of 2 expected calls match, 2 were made"),
        threshold=Fraction(9, 10),
    ),
    MetricResult("tools_used", "How many tools were used.", Range(0, 100), MetricVerdict(Fraction(12))),
    MetricResult(
        "a_metric_with_a_name_that_is_longer_than_most",
        "What cannot be said.",
        Range(0, 1),
        MetricVerdict(None, Label.NOT_EVALUATED, Reason.EVALUATOR_ERROR, "ZeroDivisionError: division by zero"),
    ),
)
"""One that failed, one that only informs, and one that broke."""
