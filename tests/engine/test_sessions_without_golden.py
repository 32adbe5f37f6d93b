"""The sessions that no golden wants are kept in bounded memory, the newest with where their ids come from."""

from __future__ import annotations

import tracemalloc

import pytest

from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.reading_and_holding import (
    MAX_LISTED,
    MAX_REMEMBERED,
    SeenSession,
    SessionsWithoutGolden,
)
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.span_facts import SpanFacts
from goldspan.scoring.goldens import load_goldens
from rigs.span_facts import agent, plain, tool


def test_a_session_counts_once_and_the_newest_are_listed_with_their_source() -> None:
    sessions = SessionsWithoutGolden()
    assert [sessions.add(f"trip-{number}", "session.id") for number in (1, 2, 1)] == [True, True, False]
    assert "trip-1" in sessions
    for number in range(3, 3 + MAX_LISTED):
        sessions.add(f"trip-{number}", "gen_ai.conversation.id")
    newest = sessions.newest()
    assert len(newest) == MAX_LISTED
    assert newest[-1] == SeenSession(f"trip-{2 + MAX_LISTED}", "gen_ai.conversation.id")
    assert newest[0].id == "trip-3"


def test_ids_of_any_number_and_length_take_bounded_memory() -> None:
    sessions = SessionsWithoutGolden()
    tracemalloc.start()
    for number in range(2 * MAX_REMEMBERED):
        sessions.add(f"{number}" + "x" * 10_000, "session.id")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 3_000_000
    assert "0" + "x" * 10_000 not in sessions
    assert all(len(one.id) == 200 for one in sessions.newest())


GOLDENS = load_goldens({"golden_set": "g", "goldens": [{"session": "wanted", "turns": [{"calls": [{"name": "f"}]}]}]})
TRACE = "1" * 32


@pytest.mark.parametrize(
    ("records", "counts"),
    [
        ([tool(TRACE, "t", "a"), agent(TRACE, "a", session="other")], [0, 1, 1]),
        ([tool(TRACE, "t", "gone", session="other")], [0, 0, 1]),
        ([plain(TRACE, "p"), agent(TRACE, "a", "p", session="other")], [0, 1, 1]),
        ([plain(TRACE, "p")], [0, 0, 0]),
        ([tool(TRACE, "t", "a"), agent(TRACE, "a", session="wanted")], [0, 0, 0]),
    ],
    ids=["with its root", "its caller may come", "below a plain root", "no agent", "wanted"],
)
def test_a_session_that_no_golden_wants_is_counted_once_its_trace_is_complete(
    records: list[SpanFacts], counts: list[int]
) -> None:
    engine = Engine(GOLDENS, EngineSettings(settle=1, caller_timeout=100))
    for record in records:
        engine.feed(record, 0.0)
    found: list[int] = []
    for now in (0.5, 2.0, 200.0):
        engine.poll(now)
        found.append(engine.stats.sessions_without_golden)
    assert found == counts
