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

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.model import build_report
from goldspan.collector_processor.report.terminal import print_page, report_page
from goldspan.scoring.goldens import Golden
from goldspan.scoring.pages import Page
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import Reason
from rigs.scored_sessions import (
    CRITERION,
    EVERYTHING,
    FAILED,
    NO_GOLDEN,
    NOTHING,
    ODD,
    PASSED,
    UNKNOWN,
    Score,
    call,
    session,
    turn,
    unknown,
    verdict,
)

PAGES = Path(__file__).parent / "pages"
ADVICE = {"google_adk": "Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY."}


def page_of(result: ScoringResult, width: int = 80, *, verbose: bool = False, recognised: int = 1) -> str:
    page = Page(width)
    decision = decide_exit_code(result, recognised=recognised, coverage=CoverageMode.STRICT)
    report_page(page, build_report(result, decision, advice=ADVICE.get), verbose=verbose)
    return f"{page}\n"


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
    result = ScoringResult((session(name, verdict(1)),), never_seen=(Golden(f"golden-{name}", criterion=CRITERION),))
    file = io.StringIO()
    page = Page(40)
    report_page(page, build_report(result, decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT)))
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
    many = ScoringResult(tuple(session(f"sess-{n}", verdict(1), turn(0, verdict(1), call("f"))) for n in range(25)))
    assert page_of(many).splitlines()[9:11] == ["✓ 1.00  sess-9", "… and 15 more sessions passed; -v shows all"]
    assert page_of(many, verbose=True).count("✓ 1.00  f") == 25


def test_the_mean_is_not_taken_over_different_criteria() -> None:
    def using(name: str, score: Score, criterion: str) -> SessionResult:
        golden = Golden(name, criterion=CRITERION)
        return SessionResult(verdict(score), Session(name), golden, criterion=criterion)

    mixed = ScoringResult((using("a", 1, "one"), using("b", 0.8, "other")))
    assert "mean" not in page_of(mixed)
    assert (
        decide_exit_code(mixed, recognised=1, coverage=CoverageMode.STRICT, fail_under=Fraction(9, 10)).exit_code == 1
    )
    assert (
        decide_exit_code(mixed, recognised=1, coverage=CoverageMode.STRICT, fail_under=Fraction(8, 10)).exit_code == 0
    )


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("coverage", CoverageMode)
def test_what_was_not_evaluated_fails_by_its_reason(reason: Reason, coverage: CoverageMode) -> None:
    result = ScoringResult((PASSED, session("s", verdict(None, reason))))
    harmless = coverage is CoverageMode.LENIENT or reason in {Reason.NOTHING_EXPECTED, Reason.NO_GOLDEN}
    assert decide_exit_code(result, recognised=1, coverage=coverage).exit_code == (0 if harmless else 1)


GOLDEN_GONE = Golden("sess-gone", criterion=CRITERION)
GONE = SessionResult(verdict(None, Reason.GOLDEN_NEVER_SEEN), None, GOLDEN_GONE)
PARTLY = session("sess-partly", verdict(1), turn(0, verdict(1), call("f"), unknown("g")))
EMPTY_TURN = session("sess-empty", verdict(1), turn(0, verdict(None, Reason.NOTHING_EXPECTED)))
RESULTS = st.builds(
    ScoringResult,
    st.lists(st.sampled_from([FAILED, UNKNOWN, PASSED, NO_GOLDEN, GONE, PARTLY, EMPTY_TURN]), max_size=3).map(tuple),
    st.sampled_from([(), (GOLDEN_GONE,)]),
)


@given(RESULTS, st.sampled_from(CoverageMode))
def test_the_exit_code_is_what_the_result_says_and_never_without_a_reason(
    result: ScoringResult, coverage: CoverageMode
) -> None:
    decision = decide_exit_code(result, recognised=1, coverage=coverage)
    assert (decision.exit_code == 0) is result.passes(coverage.value)
    assert (decision.reasons == ()) is (decision.exit_code == 0)


def test_nothing_recognised_fails_whatever_else_is_true() -> None:
    assert decide_exit_code(ScoringResult((PASSED,)), recognised=0, coverage=CoverageMode.LENIENT).exit_code == 1


def test_a_golden_that_was_never_seen_is_counted_once() -> None:
    for result in (
        ScoringResult((PASSED,), (GOLDEN_GONE,)),
        ScoringResult((PASSED, GONE)),
        ScoringResult((PASSED, GONE), (GOLDEN_GONE,)),
    ):
        assert decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT).reasons == (
            "1 golden was never seen (sess-gone)",
        )
