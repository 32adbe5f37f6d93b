"""`goldspan goldens record --from-passing`: which sessions of production are proposed as goldens, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.golden_tools.proposing import propose
from goldspan.scoring import score_sessions
from goldspan.scoring.sessions import Session, ToolCall, Turn
from rigs.command_line import Run
from rigs.span_facts import captured
from rigs.trace_requests import turn_request, write_lines

WEATHER = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
DAY = 86_400 * 10**9


def session(key: str, text: str, *calls: ToolCall, day: int = 1, **more: Any) -> Session:
    turn = Turn(calls, user_text=captured(text), start=day * DAY, tool_definitions=captured(json.dumps([WEATHER])))
    return Session(key, (turn,), **more)


def weather(city: object, **more: Any) -> ToolCall:
    return ToolCall("get_weather", {"city": city}, result=captured('"sunny"'), **more)


def proposed(*sessions: Session) -> tuple[list[Any], dict[str, int]]:
    recorded, left = propose(sessions, "x")
    goldens: Any = recorded.document["goldens"]
    return list(goldens), dict(left)


def test_the_newest_of_sessions_that_begin_alike_stands_for_all() -> None:
    old = session("s-1", "What is the weather in Oslo on day 3?", weather("Oslo"), day=1)
    new = session("s-2", "What is the weather in Paris on day 4?", weather("Paris"), day=2)
    other = session("s-3", "Please check Rome for me", weather("Rome"), day=3)
    recorded, left = propose([old, other, new], "x")
    goldens: Any = recorded.document["goldens"]
    assert [golden["first_user_text"] for golden in goldens] == [
        "Please check Rome for me",
        "What is the weather in Paris on day 4?",
    ]
    assert recorded.comments["goldens", 1] == [
        "Proposed from session s-2 of 1970-01-03; 1 older session began alike, 1 with the same tools."
    ]
    assert not left


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (session("s", "Weather in Oslo?", weather("Rome")), "arguments that come from nowhere: get_weather.city"),
        (
            session("s", "Weather 7 in Oslo?", weather(7)),
            "arguments that the tool's schema does not allow: get_weather.city",
        ),
        (
            session("s", "Book Oslo?", ToolCall("book", {"to": "Oslo"}), ToolCall("book", {"to": "Oslo"})),
            "calls repeated without change: book",
        ),
        (session("s", "Rain in Oslo?", weather("Oslo", error="Timeout")), "a call failed: get_weather"),
        (session("s", "Hello"), "no tool was called"),
        (session("s", "", weather("Oslo")), "the user's first message was not captured"),
        (
            session("s", "Weather in Oslo?", weather("Oslo"), incomplete=True),
            "recorded incompletely, or with several session ids",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_proves_nothing_is_left_out_and_said(wrong: Session, why: str) -> None:
    right = session("s-1", "Weather in Oslo?", weather("Oslo"))
    goldens, left = proposed(right, wrong)
    assert [golden["first_user_text"] for golden in goldens] == ["Weather in Oslo?"]
    assert left == {why: 1}


@given(st.lists(st.sampled_from(["Oslo", "Rome", "Paris", "Lima"]), min_size=1, max_size=8), st.randoms())
def test_each_proposed_session_scores_one_against_what_is_proposed(cities: list[str], chance: Any) -> None:
    sessions = [
        session(f"s-{number}", f"Weather in {city}, visit {number}?", weather(city), day=number + 1)
        for number, city in enumerate(cities)
    ]
    chance.shuffle(sessions)
    recorded, _ = propose(sessions, "x")
    [result] = [one for one in score_sessions(recorded.document, sessions).sessions if one.golden is not None]
    assert result.passed
    assert result.session is not None
    assert result.session.id == f"s-{len(cities) - 1}"


def test_the_command_writes_what_it_proposes(run: Run, tmp_path: Path) -> None:
    requests = [
        turn_request("s-1", ("search", {"city": "Oslo"}), user="Search Oslo"),
        turn_request("s-2", ("search", {"city": "Lima"}), user="Find me something"),
    ]
    traces = write_lines(tmp_path / "traces.jsonl", *requests)
    found = run("record", "--from-passing", str(traces), "-o", str(tmp_path / "g.yaml"))
    assert found.exit_code == 0, found.stderr
    assert "left out: 1 session: arguments that come from nowhere" in found.stderr
    text = (tmp_path / "g.yaml").read_text("utf-8")
    assert "first_user_text: Search Oslo" in text
    assert "# Proposed from session s-1" in text
    assert "Lima" not in text
