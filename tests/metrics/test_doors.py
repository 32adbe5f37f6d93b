"""Metrics and presets through the doors: events, span attributes and metric points under names of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.scoring import Golden, Session
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.metrics import MetricScore, metric
from rigs.in_process_rig import Inner, MakeRig, Rig
from rigs.scripted_agent import CONVERT, PARIS, ROME, golden, golden_set

GOLDENS = golden_set(golden("wanted", [PARIS, CONVERT]))
MAIN = "tool_parameter_match"


@pytest.fixture
def make_rig() -> Iterator[MakeRig]:
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        made.append(Rig(Inner(), **{"goldens": GOLDENS, **options}))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


def played(rig: Rig) -> Rig:
    """One turn with a wrong argument, judged to the end."""
    rig.turn(calls=[ROME, CONVERT])
    rig.door.end_of_input()
    return rig


def events(rig: Rig, name: str) -> list[dict[str, Any]]:
    found = [dict(record.attributes) for record in rig.events()]
    return [one for one in found if one["gen_ai.evaluation.name"] == name]


def test_a_companion_metric_has_events_attributes_and_points_of_its_own(make_rig: MakeRig) -> None:
    rig = played(make_rig(metrics=["trajectory_recall", "trajectory_f1=0.6"]))
    turn, session = events(rig, "trajectory_recall")
    assert (turn["trajectory_recall.level"], session["trajectory_recall.level"]) == ("turn", "session")
    assert turn["gen_ai.evaluation.score.value"] == 0.5
    assert "gen_ai.evaluation.score.label" not in turn, "it only informs"
    assert turn["gen_ai.evaluation.explanation"] == "1 of 2 expected calls match, 2 were made"
    assert turn["trajectory_recall.result_id"] != session["trajectory_recall.result_id"]
    assert [one["gen_ai.evaluation.score.label"] for one in events(rig, "trajectory_f1")] == ["fail", "fail"]

    root = dict(rig.exported()["invoke_agent weather"].attributes or {})
    assert root["trajectory_recall.turn.score"] == 0.5
    assert root["trajectory_f1.turn.label"] == "fail"
    assert root[f"{MAIN}.turn.score"] == 0.75, "the main one is what it was"
    (by_turn, by_session) = rig.points("trajectory_f1.score")
    assert by_turn.attributes["trajectory_f1.label"] == "fail"
    assert by_session.sum == 0.5
    assert len(events(rig, MAIN)) == 4


def test_own_metrics_run_beside_it_and_what_they_say_stays_here(make_rig: MakeRig) -> None:
    @metric(range=(0, 10))
    async def calls(session: Session, golden: Golden) -> MetricScore:
        return MetricScore(sum(len(turn.calls) for turn in session.turns), "a secret")

    def raises(session: Session, golden: Golden) -> float:
        raise RuntimeError("a secret")

    rig = played(make_rig(metrics=[calls, raises]))
    (event,) = events(rig, "calls")
    assert event["gen_ai.evaluation.score.value"] == 2
    (broken,) = events(rig, "raises")
    assert broken["raises.reason"] == broken["error.type"] == "evaluator_error"
    assert "secret" not in str([dict(record.attributes) for record in rig.events()])
    (point,) = rig.points("calls.score")
    assert list(point.explicit_bounds)[-1] == 10, "the boundaries are those of its range"
    (count,) = rig.points("raises.not_evaluated")
    assert count.attributes["raises.reason"] == "evaluator_error"
    assert rig.score("execute_tool get_weather 0") == 0.5

    (event,) = events(played(make_rig(metrics=[calls], include_values=True)), "calls")
    assert event["gen_ai.evaluation.explanation"] == "a secret"


def test_one_that_hangs_does_not_hold_the_agent_up(make_rig: MakeRig) -> None:
    free = threading.Event()

    def hangs(session: Session, golden: Golden) -> float:
        free.wait(30)
        return 1.0

    rig = played(make_rig(metrics=[hangs, "trajectory_recall"], metric_timeout=0.1))
    assert events(rig, "hangs")[0]["hangs.reason"] == "evaluator_error"
    assert len(events(rig, "trajectory_recall")) == 2
    free.set()


def test_own_metrics_see_more_than_calls(make_rig: MakeRig) -> None:
    seen: list[Session] = []

    def looks(session: Session, golden: Golden) -> float:
        seen.append(session)
        return 1.0

    played(make_rig(metrics=[looks]))
    assert [call.name for turn in seen[0].turns for call in turn.calls] == ["get_weather", "convert"]


def test_a_preset_scores_in_its_place_and_says_so(make_rig: MakeRig) -> None:
    rig = played(make_rig(preset={"name": "adk_parameter_match", "threshold": 0.5}))
    turn, session = events(rig, MAIN)
    assert {turn[f"{MAIN}.preset"], session[f"{MAIN}.preset"]} == {"adk_parameter_match"}
    assert (turn["gen_ai.evaluation.score.value"], turn["gen_ai.evaluation.score.label"]) == (0.75, "pass")
    assert turn["gen_ai.evaluation.explanation"] == "scored by preset adk_parameter_match: PASSED"
    root = dict(rig.exported()["invoke_agent weather"].attributes or {})
    assert root[f"{MAIN}.turn.preset"] == "adk_parameter_match"
    assert {point.attributes[f"{MAIN}.preset"] for point in rig.points(f"{MAIN}.score")} == {"adk_parameter_match"}


def test_a_preset_of_whole_sessions_waits_for_the_end(make_rig: MakeRig) -> None:
    rig = make_rig(preset="axion", goldens=golden_set(golden("wanted", [PARIS], [CONVERT])))
    rig.turn(calls=[PARIS])
    rig.door.force_flush()
    assert events(rig, MAIN) == []
    rig.turn(calls=[CONVERT])
    rig.door.end_of_input()
    assert [one["gen_ai.evaluation.score.value"] for one in events(rig, MAIN)] == [1.0, 1.0]


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": ["trajectory_f2"]},
        {"metrics": ["nowhere_at_all:f"]},
        {"metrics": [3]},
        {"preset": "axiom"},
        {"preset": {"name": "axion", "strict": 1}},
        {"metric_timeout": 0},
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        ToolParameterMatchExporter(Inner(), goldens=GOLDENS, **options)
