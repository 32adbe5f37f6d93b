"""Every report begins with the difference that explains most, and tells a wrong call once."""

from __future__ import annotations

import re
from xml.etree.ElementTree import fromstring

import pytest

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.html import html_report
from goldspan.collector_processor.report.junit import junit_report
from goldspan.collector_processor.report.markdown import markdown_report
from goldspan.collector_processor.report.model import Report, build_report
from goldspan.collector_processor.report.terminal import report_page
from goldspan.scoring import Session, ToolCall, Turn, score_sessions
from goldspan.scoring.pages import Page

GOLDEN = {
    "session": "s-1",
    "turns": [
        {"calls": [{"name": "lookup", "args": {"id": 7}}]},
        {"calls": [{"name": "send_email", "args": {"to": "a@example.com", "subject": "Hi", "body": "Dear A"}}]},
    ],
}
RIGHT = ToolCall("lookup", {"id": 7})
SENT = {"to": "a@example.com", "subject": "Hi", "body": "Dear A"}
CASES: dict[str, tuple[tuple[ToolCall, ...], str]] = {
    "an argument was not passed": (
        (ToolCall("send_email", {"subject": "Hi", "body": "Dear A"}),),
        "send_email.to (not passed)",
    ),
    "a value differs": (
        (ToolCall("send_email", SENT | {"subject": "Ho"}),),
        'send_email.subject (expected "Hi", found "Ho")',
    ),
    "a call was not made": ((), "send_email (not called)"),
    "a tool was renamed": ((ToolCall("mail", SENT),), "send_email (not called; same arguments as `mail`: renamed?"),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def told(request: pytest.FixtureRequest) -> tuple[Report, str]:
    calls, first = CASES[request.param]
    session = Session("s-1", (Turn((RIGHT,), start=1), Turn(calls, start=2)))
    result = score_sessions({"golden_set": "w", "goldens": [GOLDEN]}, session)
    decision = decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT)
    return build_report(result, decision), first


def test_the_table_and_its_summary(told: tuple[Report, str]) -> None:
    report, first = told
    page = Page(400)
    report_page(page, report)
    lines = str(page).splitlines()
    assert lines[0].startswith("✗ ")
    assert first in lines[0]
    [mistakes] = [line for line in lines if line.startswith("mistakes")]
    assert first.split(" (")[0] in mistakes
    assert "not expected" not in str(page)


def test_the_message_of_a_junit_failure(told: tuple[Report, str]) -> None:
    report, first = told
    [failure] = fromstring(junit_report(report)).iter("failure")
    assert failure.get("message", "").startswith(f"turn 2: {first}")


def test_the_second_line_and_the_column_of_a_comment(told: tuple[Report, str]) -> None:
    report, first = told
    text = re.sub(r"\\([`*_])", r"\1", markdown_report(report)).replace("&#8203;", "")
    assert f"First difference: <code>s-1, turn 2: {first}" in text
    [row] = [line for line in text.splitlines() if line.startswith("| ✗")]
    assert f"| turn 2: {first}" in row


def test_the_header_of_the_page(told: tuple[Report, str]) -> None:
    report, first = told
    [header] = re.findall("<header>.*?</header>", html_report(report).replace("&quot;", '"'), re.DOTALL)
    assert f"s-1, turn 2: {first}" in header
