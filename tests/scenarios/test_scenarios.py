"""What reaches the back-end from real processes: with goldspan no span less than with BatchSpanProcessor alone."""

from __future__ import annotations

import os

import pytest

from scenarios.measuring import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these processes fork, freeze and are killed")

EVENTS = {"short script": 6, "flush and freeze": 6, "prefork": 24, "SIGTERM": 6}
"""Of these scenarios all results are known: the calls, turns and sessions of their goldens."""


@pytest.mark.parametrize("scenario", [*EVENTS, "abandoned stream", "failing exporter", "at random"])
def test_nothing_is_lost_that_would_not_be_lost_without_goldspan(scenario: str) -> None:
    settings = {"SCENARIO_ROUNDS": "400"}
    plain, scored = run(scenario, "plain", **settings), run(scenario, "goldspan", **settings)
    assert (scored.ended, scored.spans, scored.twice) == (plain.ended, plain.spans, 0)
    assert scored.events == EVENTS.get(scenario, scored.events) > 0
    assert scored.scored > 0 or scenario == "failing exporter"


def test_a_long_turn_is_scored_late_and_holds_spans_no_longer_than_it_may() -> None:
    settings = {"SCENARIO_SECONDS": "4", "SCENARIO_HOLD_TIMEOUT": "0.5"}
    plain, scored = run("long turn", "plain", **settings), run("long turn", "goldspan", **settings)
    assert (scored.spans, scored.twice) == (plain.spans, 0)
    assert scored.events > 0


def test_a_killed_process_loses_what_it_had_not_sent() -> None:
    plain, scored = run("SIGKILL", "plain"), run("SIGKILL", "goldspan")
    assert (plain.spans, scored.spans) == (0, 0)
