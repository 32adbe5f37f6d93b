"""Annotations: at the line of each golden, as workflow commands of GitHub and as Code Quality of GitLab."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode, decide_exit_code
from goldspan.collector_processor.report.annotations import annotate, github_report, gitlab_report
from goldspan.collector_processor.report.model import Report, build_report
from goldspan.scoring import Session, ToolCall, Turn, load_goldens, score_sessions
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.sessions import Capture

GOLDENS = """\
golden_set: w
goldens:
  - session: wrong
    turns: [{calls: [{name: look, args: {id: 7}}]}]
  - session: hidden
    turns: [{calls: [{name: look, args: {id: 7}}]}]
  - session: unseen
    turns: [{calls: [{name: look}]}]
  - session: right
    turns: [{calls: [{name: look, args: {id: 7}}]}]
  - session_pattern: "run-*"
    repeat: {runs: 2, passes: 2}
    turns: [{calls: [{name: look, args: {id: 7}}]}]
"""
HIDDEN = ToolCall("look", {}, capture=Capture.NOT_CAPTURED)
RIGHT, WRONG = ToolCall("look", {"id": 7}), ToolCall("look", {"id": 8})


def session(name: str, call: ToolCall) -> Session:
    return Session(name, (Turn((call,)),))


SESSIONS = [session("wrong", WRONG), session("hidden", HIDDEN), session("right", RIGHT), session("run-1", WRONG)]


@pytest.fixture
def goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoldenIndex:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a, b.yaml").write_text(GOLDENS, "utf-8")
    return load_goldens("a, b.yaml")


def report_of(goldens: GoldenIndex, sessions: list[Session], coverage: CoverageMode) -> Report:
    result = score_sessions(goldens, sessions)
    return build_report(result, decide_exit_code(result, recognised=9, coverage=coverage), coverage=coverage)


@pytest.mark.parametrize("coverage", list(CoverageMode))
def test_what_failed_and_what_is_missing_is_at_its_golden(goldens: GoldenIndex, coverage: CoverageMode) -> None:
    report = report_of(goldens, SESSIONS, coverage)
    found = list(annotate(report))
    strict = coverage is CoverageMode.STRICT
    assert {one.file for one in found} == {"a, b.yaml"}
    assert [(one.line, one.error, one.title) for one in found] == [
        (3, True, "wrong: failed 0.00"),
        (5, strict, "hidden: not evaluated"),
        (11, True, "golden run-*: failed"),
        (7, strict, "golden unseen: never seen in these traces"),
    ]
    assert found[0].message == "turn 1: look.id (expected 7, found 8)"
    assert "not captured" in found[1].message
    first, *_ = github_report(report).splitlines()
    assert first == f"::error file=a%2C b.yaml,line=3,title=wrong%3A failed 0.00::{found[0].message}"


def test_a_run_that_passed_has_no_errors(goldens: GoldenIndex) -> None:
    found = list(annotate(report_of(goldens, SESSIONS[1:3], CoverageMode.LENIENT)))
    assert [one.error for one in found] == [False] * len(found)
    assert found


def test_code_quality(goldens: GoldenIndex) -> None:
    report = report_of(goldens, SESSIONS, CoverageMode.LENIENT)
    issues = json.loads(gitlab_report(report))
    assert [(one["severity"], one["location"]["lines"]["begin"]) for one in issues] == [
        ("major", 3),
        ("minor", 5),
        ("major", 11),
        ("minor", 7),
    ]
    assert len({one["fingerprint"] for one in issues}) == len(issues)
    assert {one["location"]["path"] for one in issues} == {"a, b.yaml"}
    moved = Path("a, b.yaml")
    moved.write_text(f"# A line more.\n{GOLDENS}", "utf-8")
    again = json.loads(gitlab_report(report_of(load_goldens(moved), SESSIONS, CoverageMode.LENIENT)))
    assert [one["fingerprint"] for one in again] == [one["fingerprint"] for one in issues]


def unescaped(text: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


@given(st.text(min_size=1, max_size=20).filter(str.strip), st.text(max_size=20))
def test_no_text_ends_a_workflow_command(name: str, value: str) -> None:
    golden = {"session": name, "turns": [{"calls": [{"name": "look", "args": {"id": 7}}]}]}
    result = score_sessions({"golden_set": "w", "goldens": [golden]}, session(name, ToolCall("look", {"id": value})))
    report = build_report(result, decide_exit_code(result, recognised=1, coverage=CoverageMode.STRICT))
    [line] = github_report(report).split("\n")[:-1]
    [(title, message)] = re.findall(r"^::error file=[^:,]*,title=([^:,]*)::(.*)$", line)
    [one] = annotate(report)
    assert (unescaped(title), unescaped(message)) == (one.title, one.message)
