"""What the agent writes under goldspan's names does not stay on a span that goldspan scores."""

from __future__ import annotations

from typing import Any

import pytest

from rigs.in_process_rig import Inner, MakeRig, Rig, scores
from rigs.scripted_agent import golden, golden_set

CALL, TURN = "execute_tool get_weather 0", "invoke_agent weather"
FORGED: dict[str, Any] = {
    "tool_parameter_match": "right",
    "tool_parameter_match.score": 1.0,
    "tool_parameter_match.label": True,
    "tool_parameter_match.reason": ["none"],
    "tool_parameter_match.turn.score": "1.0",
    "tool_parameter_match.session.score": 1,
    "tool_parameter_match.verified.by": "me",
    "trajectory_recall.turn.score": 1.0,
}
OTHERS = {
    "tool_parameter_matching": 1,
    "Tool_Parameter_Match.score": 1,
    "trajectory_recall.mine": 2,
    "relevance.score": 1,
}


def turn_with(rig: Rig, forged: dict[str, Any], session: str = "wanted") -> None:
    tracer = rig.tracer
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}
    call = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": '{"city": "Rome", "unit": "kelvin"}',
    }
    with tracer.start_as_current_span(TURN, attributes={**agent, **forged}) as root:
        root.add_event("gen_ai.evaluation.result", {"gen_ai.evaluation.name": "tool_parameter_match"})
        with tracer.start_as_current_span(CALL, attributes={**call, **forged}):
            pass


def test_nothing_under_goldspan_s_names_stays_beside_its_own(make_rig: MakeRig) -> None:
    plain, forged = make_rig(metrics=["trajectory_recall"]), make_rig(inner=Inner(), metrics=["trajectory_recall"])
    turn_with(plain, OTHERS)
    turn_with(forged, {**OTHERS, **FORGED})
    for rig in (plain, forged):
        rig.door.force_flush()
    root, call = forged.exported()[TURN], forged.exported()[CALL]
    assert root.attributes == plain.exported()[TURN].attributes
    assert scores(call) == scores(plain.exported()[CALL])
    assert scores(call)["tool_parameter_match.score"] == 0.0
    assert OTHERS.items() <= dict(call.attributes or {}).items()
    assert [event.name for event in root.events] == ["gen_ai.evaluation.result"]
    assert forged.counted("goldspan.problems") == {"overwritten_score": 2}
    assert plain.counted("goldspan.problems") == {}


def test_a_forged_score_does_not_stay_where_nothing_could_be_evaluated(make_rig: MakeRig) -> None:
    rig = make_rig(goldens=golden_set(golden("wanted", [("get_weather", {"city": "Rome"})])))
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "wanted", **FORGED}
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", **FORGED}
    with (
        rig.tracer.start_as_current_span(TURN, attributes=agent),
        rig.tracer.start_as_current_span(CALL, attributes=call),
    ):
        pass
    rig.door.force_flush()
    found = scores(rig.exported()[CALL])
    assert found["tool_parameter_match.label"] == "not_evaluated"
    assert found["tool_parameter_match.reason"] == "arguments_not_captured"
    assert "tool_parameter_match.score" not in found


@pytest.mark.parametrize("hold", ["on", "off"])
def test_what_goldspan_writes_no_attributes_on_passes(make_rig: MakeRig, hold: str) -> None:
    rig = make_rig(hold=hold)
    forged = {key: tuple(value) if isinstance(value, list) else value for key, value in FORGED.items()}
    turn_with(rig, FORGED, "of nobody")
    rig.door.force_flush()
    for name in (CALL, TURN):
        assert forged.items() <= dict(rig.exported()[name].attributes or {}).items()
    assert rig.counted("goldspan.problems") == {}
