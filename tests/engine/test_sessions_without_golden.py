"""The sessions that no golden wants are kept in bounded memory, the newest with where their ids come from."""

from __future__ import annotations

import tracemalloc

from goldspan.collector_processor.engine.sessions_without_golden import (
    MAX_LISTED,
    MAX_REMEMBERED,
    SeenSession,
    SessionsWithoutGolden,
)


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
