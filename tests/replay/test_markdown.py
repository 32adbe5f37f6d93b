"""The comment on a pull request: short, bounded, and nothing in it but what was meant."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, ExitDecision, decide_exit_code
from goldspan.collector_processor.report.markdown import LONGEST, markdown_report
from goldspan.collector_processor.report.model import build_report
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import Golden
from goldspan.scoring.results import ArgumentOutcome, SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session
from rigs.scored_sessions import EVERYTHING, FAILED, NOTHING, PASSED, argument, call, session, turn, verdict


def comment(result: ScoringResult, decision: ExitDecision | None = None) -> str:
    decision = decision or decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT)
    return markdown_report(build_report(result, decision, advice={"google_adk": "Set OTEL_CAPTURE."}.get))


def test_it_begins_with_the_verdict_and_a_table_worst_first() -> None:
    text = comment(EVERYTHING)
    assert text.startswith("### ✗ goldspan: failed\n")
    assert "\nFirst difference: <code>sess-weather-1, turn 1: get_weather.days (expected 1, found 3)</code>\n" in text
    assert [line for line in text.splitlines() if line.startswith("| ") and "<code>" in line] == [
        "| ✗ | 0.46 | <code>sess-weather-1</code> | 2 of 7 | turn 1: get_weather.days (expected 1, found 3) |",
        "| ? | - | <code>7c3d1a60-88a5-4f9e-a1f3-9f4c1f5e1f60</code> | 0 of 3 | arguments not captured |",
        "| ✓ | 1.00 | <code>sess-good</code> | 1 of 1 |  |",
    ]


def test_what_went_wrong_is_folded_away_and_what_passed_is_not_told() -> None:
    folded = re.findall(r"<details>\n<summary>(.*?)</summary>\n\n(.*?)\n\n</details>", comment(EVERYTHING), re.DOTALL)
    titles = [title for title, _ in folded]
    assert titles == [
        "What to do",
        "2 problems in the traces",
        "✗ 0.46 sess-weather-1",
        "? - 7c3d1a60-88a5-4f9e-a1f3-9f4c1f5e1f60",
    ]
    assert "days  expected 1, found 3" in dict(folded)["✗ 0.46 sess-weather-1"]


def test_regressions_come_before_the_table() -> None:
    text = comment(EVERYTHING, ExitDecision(1, ("1 regression",), ("sess-1: passed with 1.00 before, now 0.50",)))
    assert text.index("- sess-1: passed with 1.00 before, now 0.50") < text.index("| score |")


def test_a_long_list_is_cut_and_says_by_how_much() -> None:
    regressions = tuple(f"sess-{number}: lower" for number in range(1_000))
    text = comment(EVERYTHING, ExitDecision(1, ("1000 regressions",), regressions))
    listed = re.findall(r"^- sess-\d+: lower$", text, re.MULTILINE)
    assert 0 < len(listed) < len(regressions)
    assert f"\n- … and {len(regressions) - len(listed)} more\n" in text
    assert "- … and" not in comment(EVERYTHING, ExitDecision(1, ("1 regression",), regressions[:1]))


def test_nothing_is_still_a_comment() -> None:
    assert comment(NOTHING).startswith(
        "### ✗ goldspan: failed\n\nno turn of an agent was found: see `goldspan inspect`"
    )


def wrong(name: str, value: str, calls: int) -> SessionResult:
    one = call("f", argument("x", value, ArgumentOutcome.MISMATCHED, value + "!"), score=0)
    return session(name, verdict(0), turn(0, verdict(0), *[one] * calls))


@pytest.mark.parametrize(
    ("sessions", "calls", "length"), [(2_000, 1, 10), (1, 2_000, 10), (100, 20, 5_000), (100, 1, 100_000)]
)
def test_it_is_never_longer_than_a_comment_may_be(sessions: int, calls: int, length: int) -> None:
    many = tuple(wrong(f"sess-{index}", "é" * length, calls) for index in range(sessions))
    problems = tuple(Problem("bad", "p" * length, f"file:{index}") for index in range(sessions))
    text = comment(ScoringResult(many, problems=problems))
    assert len(text.encode()) <= LONGEST
    assert text.count("<details>") == text.count("</details>") > 1
    assert "more" in text


HOSTILE = st.text("`|<>@#\\\n\r*_[]~a1:/ \u202e") | st.sampled_from(
    ["@everyone", "#1", "http://x.example", "</details>"]
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_in_the_traces_becomes_markup(name: str, value: str, key: str) -> None:
    result = ScoringResult((wrong(name, value, 1), PASSED), (Golden(key),), (Problem("code", value, name),))
    text = comment(result)
    fenced = re.compile(r"^(`{3,})text\n.*?^\1$", re.DOTALL | re.MULTILINE)
    assert len(fenced.findall(text)) == 1
    outside = re.sub(r"(?<!\\)`[\w .:=-]+`", "", fenced.sub("", text))
    assert [line.count("|") for line in outside.splitlines() if line.startswith("|")] == [6] * 4
    tags = {f"<{slash}{name}>" for slash in ("", "/") for name in ("details", "summary", "code")}
    assert set(re.findall(r"<[^>]*>?", outside)) <= tags
    # Markdown ends at an HTML block: a title is HTML alone.
    prose = outside.replace("&#8203;", "\u200b").replace("&#124;", "\u2502")
    prose = re.sub(r"<summary>.*</summary>|&#\d+;|^### |\*\*\w+\*\*", "", prose, flags=re.MULTILINE)
    prose = prose.replace("**never seen in these traces**", "")
    assert not re.search(r"(?<![A-Za-z0-9_])@\w|#\d|://|(?<!\\)(?:\\\\)*[`*~]", prose)


@given(st.text(), st.text())
def test_no_text_is_too_odd(name: str, key: str) -> None:
    odd = SessionResult(FAILED.verdict, Session(name), Golden(key), FAILED.turns)
    assert len(comment(ScoringResult((odd,), (Golden(key),)))) <= LONGEST
