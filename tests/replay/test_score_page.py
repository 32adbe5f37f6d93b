"""The score page as a person reads it: whole pages against files, and what they must never do."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from goldspan.collector_processor.report.layout import Page, print_page
from goldspan.collector_processor.report.score_page import score_page
from goldspan.collector_processor.report.totals import Coverage, judge
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import ExpectedCall, Golden
from goldspan.scoring.results import (
    ArgumentResult,
    CallResult,
    Label,
    Outcome,
    Reason,
    RunResult,
    SessionResult,
    TurnResult,
    Verdict,
)
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn

PAGES = Path(__file__).parent / "pages"
ADVICE = {"google_adk": "Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY."}
CRITERION = Criterion()
Score = int | float | Fraction


def verdict(score: Score | None, reason: Reason | None = None) -> Verdict:
    if reason is not None:
        return Verdict(None if score is None else Fraction(score), Label.NOT_EVALUATED, reason)
    exact = Fraction(score or 0)
    return Verdict(exact, Label.PASS if exact >= Fraction(8, 10) else Label.FAIL)


def argument(
    name: str, expected: Any, outcome: Outcome = Outcome.MATCHED, actual: Any = None, **more: Any
) -> ArgumentResult:
    found = expected if outcome is Outcome.MATCHED else actual
    score = Fraction(outcome is Outcome.MATCHED) if outcome is not Outcome.UNKNOWN else None
    return ArgumentResult(name, outcome, more.get("score", score), more.get("strategy", "exact"), expected, found)


def call(
    name: str, *arguments: ArgumentResult, score: Score = 1, made: ToolCall | None = None, **more: Any
) -> CallResult:
    expected = ExpectedCall(name, {one.name: one.expected for one in arguments})
    actual = made or ToolCall(name, {one.name: one.actual for one in arguments})
    fields: dict[str, Any] = {
        "verdict": verdict(score if score == 1 else min(score, Fraction(7, 10))),
        "aligned": True,
    } | more
    return CallResult(expected=expected, actual=actual, arguments=arguments, **fields)


def missing(
    name: str, *arguments: ArgumentResult, near: ToolCall | None = None, extra: tuple[str, ...] = ()
) -> CallResult:
    expected = ExpectedCall(name, {one.name: one.expected for one in arguments})
    return CallResult(verdict(0), expected, actual=near, arguments=arguments if near else (), extra_arguments=extra)


def unknown(name: str, capture: Capture = Capture.NOT_CAPTURED) -> CallResult:
    reason = Reason(f"arguments_{capture}")
    made = ToolCall(name, None, capture, dialect="google_adk")
    return call(name, argument("city", "Paris", Outcome.UNKNOWN), made=made, verdict=verdict(None, reason))


def turn(index: int, score: Verdict, *calls: CallResult, user: str = "", **more: Any) -> TurnResult:
    said = Content(user, Capture.CAPTURED) if user else Content()
    evaluated = sum(one.verdict.exact is not None for one in calls)
    fields: dict[str, Any] = {"turn": Turn(user_text=said), "expected": len(calls), "evaluated": evaluated} | more
    return TurnResult(score, calls, turn_index=index, expected_index=index, **fields)


def session(name: str, score: Verdict, *turns: TurnResult, **more: Any) -> SessionResult:
    golden = Golden(more.get("golden", name), criterion=CRITERION, golden_set="weather@1")
    seen = Session(name, run=more.get("run", ""), id_source=more.get("id_source", "gen_ai.conversation.id"))
    return SessionResult(score, seen, golden, turns, len(turns), len(turns), criterion="c")


def page_of(result: RunResult, width: int = 80, *, verbose: bool = False, recognised: int = 1) -> str:
    page = Page(width)
    score_page(page, result, judge(result, recognised=recognised, coverage=Coverage.STRICT), ADVICE, verbose=verbose)
    return f"{page}\n"


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
            argument("days", 1, Outcome.MISMATCHED, 3),
            score=Fraction(1, 2),
            extra_arguments=("locale",),
        ),
        missing(
            "convert",
            argument("value", 21.5, Outcome.MISMATCHED, 70.7),
            argument("to_unit", "F"),
            near=ToolCall("convert", {"value": 70.7, "to_unit": "F"}),
        ),
        user="What's the weather in Paris in celsius, and convert 21.5 C to F? And then Lyon.",
        unexpected=(CallResult(verdict(None, Reason.NOTHING_EXPECTED), actual=ToolCall("lookup", {"city": "Paris"})),),
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
                Outcome.MISMATCHED,
                {"id": 42, "address": ADDRESS | {"zip": "75002"}},
            ),
            argument("people", 2),
            argument("when", "2026-12-01T20:00", Outcome.MISSING),
            argument("temperature", 21.5, Outcome.MISMATCHED, 24, strategy="numeric"),
            argument(
                "message",
                LONG.format("first"),
                Outcome.MISMATCHED,
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
    TurnResult(verdict(0), (missing("sum_up"),), expected_index=3, expected=1, evaluated=1),
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
EVERYTHING = RunResult(
    (FAILED, UNKNOWN, PASSED, NO_GOLDEN),
    never_seen=(Golden("sess-gone", criterion=CRITERION),),
    problems=(
        Problem("bad_json", "is not whole JSON: Expecting value at character 12", "traces.jsonl:12"),
        Problem("bad_span", "found null in spans; expected an object", "traces.jsonl:14"),
    ),
    golden_sets={"weather@1": "0123456789abcdef"},
)
ODD = RunResult(
    (
        session(
            "sess-odd",
            verdict(0.2),
            turn(
                0,
                verdict(0.2),
                missing("f", argument("x", 1), near=ToolCall("f", {"x": 1})),
                missing("g", argument("x", 1), near=ToolCall("g", {"x": 1}, error="Timeout")),
                missing("h", argument("x", 1), near=ToolCall("h", {"x": 1, "y": 2}), extra=("y",)),
                missing("i", argument("x", 1, Outcome.UNKNOWN), near=ToolCall("i", None, Capture.REDACTED)),
                call(
                    "j",
                    argument("token", "t", Outcome.UNKNOWN),
                    argument("x", 1, Outcome.MISMATCHED, 2),
                    made=ToolCall("j", {"token": "***", "x": 2}, argument_captures={"token": Capture.REDACTED}),
                    verdict=verdict(None, Reason.ARGUMENTS_REDACTED),
                ),
                call("k", argument("x", [1, 2], Outcome.MISMATCHED, {"a": 1}), score=0),
                call("l", argument("x", {"a": 1}, Outcome.MISMATCHED, {"a": 1, "b": 2}), score=0),
                call("m", argument("x", 1, Outcome.MISMATCHED, True), score=0),
                approximate=True,
            ),
            golden="sess-*",
            id_source="trace_id",
        ),
        session("sess-twice", verdict(1), turn(0, verdict(1), call("f")), run="a"),
        session("sess-twice", verdict(1), turn(0, verdict(1), call("f")), run="b"),
    )
)
NOTHING = RunResult()
SNAPSHOTS = {
    "everything": (EVERYTHING, 80, False),
    "everything-verbose-100": (EVERYTHING, 100, True),
    "odd": (ODD, 80, False),
    "nothing": (NOTHING, 80, False),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_page_reads_as_in_its_file(name: str) -> None:
    result, width, verbose = SNAPSHOTS[name]
    shown = page_of(result, width, verbose=verbose, recognised=len(result.sessions))
    assert shown == (PAGES / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert [line for line in page_of(EVERYTHING, width).splitlines() if len(line) > width] == []


def test_ids_are_never_broken() -> None:
    name = "session-" + "0123456789" * 12
    result = RunResult((session(name, verdict(1)),), never_seen=(Golden(f"golden-{name}", criterion=CRITERION),))
    file = io.StringIO()
    page = Page(40)
    score_page(page, result, judge(result, recognised=1, coverage=Coverage.STRICT), {}, verbose=False)
    print_page(Console(file=file, width=40, force_terminal=True, color_system=None), page)
    assert f"1.00  {name}" in file.getvalue()
    assert f"golden-{name}" in file.getvalue()


def test_colours_are_the_terminals_only() -> None:
    def printed(**console: Any) -> str:
        file = io.StringIO()
        page = Page(80)
        page.line(("✗ 0.46", "red"), "  sess")
        print_page(Console(file=file, highlight=False, **console), page)
        return file.getvalue()

    assert printed() == "✗ 0.46  sess\n"
    assert "\x1b[31m" in printed(force_terminal=True, color_system="standard")


def test_marks_are_plain_where_the_terminal_is() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    page = Page(80)
    page.line(("✓ 1.00", "green"), "  sess-é …")
    print_page(Console(file=file), page)
    file.flush()
    assert raw.getvalue().decode().splitlines() == ["P 1.00  sess-\\xe9 ..."]


def test_passed_sessions_are_a_line_each_and_long_lists_are_cut() -> None:
    many = RunResult(tuple(session(f"sess-{n}", verdict(1), turn(0, verdict(1), call("f"))) for n in range(25)))
    assert page_of(many).splitlines()[9:11] == ["✓ 1.00  sess-9", "… and 15 more sessions passed; -v shows all"]
    assert page_of(many, verbose=True).count("✓ 1.00  f") == 25


def test_the_mean_is_not_taken_over_different_criteria() -> None:
    def using(name: str, score: Score, criterion: str) -> SessionResult:
        golden = Golden(name, criterion=CRITERION)
        return SessionResult(verdict(score), Session(name), golden, criterion=criterion)

    mixed = RunResult((using("a", 1, "one"), using("b", 0.8, "other")))
    assert "mean" not in page_of(mixed)
    assert judge(mixed, recognised=1, coverage=Coverage.STRICT, fail_under=Fraction(9, 10)).exit_code == 1
    assert judge(mixed, recognised=1, coverage=Coverage.STRICT, fail_under=Fraction(8, 10)).exit_code == 0


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("coverage", Coverage)
def test_what_was_not_evaluated_fails_by_its_reason(reason: Reason, coverage: Coverage) -> None:
    result = RunResult((PASSED, session("s", verdict(None, reason))))
    harmless = coverage is Coverage.LENIENT or reason in {Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN}
    assert judge(result, recognised=1, coverage=coverage).exit_code == (0 if harmless else 1)


GOLDEN_GONE = Golden("sess-gone", criterion=CRITERION)
GONE = SessionResult(verdict(None, Reason.GOLDEN_NEVER_SEEN), None, GOLDEN_GONE)
PARTLY = session("sess-partly", verdict(1), turn(0, verdict(1), call("f"), unknown("g")))
EMPTY_TURN = session("sess-empty", verdict(1), turn(0, verdict(None, Reason.NOTHING_EXPECTED)))
RESULTS = st.builds(
    RunResult,
    st.lists(st.sampled_from([FAILED, UNKNOWN, PASSED, NO_GOLDEN, GONE, PARTLY, EMPTY_TURN]), max_size=3).map(tuple),
    st.sampled_from([(), (GOLDEN_GONE,)]),
)


@given(RESULTS, st.sampled_from(Coverage))
def test_the_exit_code_is_what_the_result_says_and_never_without_a_reason(
    result: RunResult, coverage: Coverage
) -> None:
    judgement = judge(result, recognised=1, coverage=coverage)
    assert (judgement.exit_code == 0) is result.passes(coverage.value)
    assert (judgement.because == ()) is (judgement.exit_code == 0)


def test_nothing_recognised_fails_whatever_else_is_true() -> None:
    assert judge(RunResult((PASSED,)), recognised=0, coverage=Coverage.LENIENT).exit_code == 1


def test_a_golden_that_was_never_seen_is_counted_once() -> None:
    for result in (
        RunResult((PASSED,), (GOLDEN_GONE,)),
        RunResult((PASSED, GONE)),
        RunResult((PASSED, GONE), (GOLDEN_GONE,)),
    ):
        assert judge(result, recognised=1, coverage=Coverage.STRICT).because == ("1 golden was never seen (sess-gone)",)
