"""Goldens that know no session id find their sessions by attributes and by what the user said first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.verdict import Reason
from rigs.in_process_rig import Inner, Rig
from rigs.scripted_agent import PARIS, ROME, run_turn
from rigs.trace_requests import turn_request

CALLS = [{"name": PARIS[0], "args": PARIS[1]}]


def goldens(**join: Any) -> dict[str, Any]:
    return {"golden_set": "g", "goldens": [{**join, "calls": CALLS}]}


BY_CASE = goldens(attribute={"my.case": "weather"})
BY_TEXT = goldens(first_user_text="Weather in  Paris?")


def said(text: str) -> str:
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])


@pytest.mark.parametrize("place", ["root", "above", "resource"])
@pytest.mark.parametrize(("case", "wanted"), [("weather", True), ("other", False)])
def test_a_session_is_found_by_an_attribute_wherever_it_stands(place: str, case: str, wanted: bool) -> None:
    rig = Rig(Inner(), goldens=BY_CASE)
    provider = TracerProvider(
        resource=Resource({"my.case": case} if place == "resource" else {}), shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(rig.door))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("test", attributes={"my.case": case} if place == "above" else {}):
        run_turn(tracer, None, [PARIS], attributes={"my.case": case} if place == "root" else {})
    rig.door.shutdown()
    assert (rig.score(f"execute_tool {PARIS[0]} 0") == 1) is wanted
    assert len(rig.inner.spans) >= 3


@pytest.mark.parametrize(("text", "score"), [("Weather in Paris?", 0.5), ("Weather?", None)])
def test_a_session_is_found_by_what_its_user_said_first(text: str, score: float | None) -> None:
    rig = Rig(Inner(), goldens=BY_TEXT)
    run_turn(rig.tracer, "any", [ROME], attributes={"gen_ai.input.messages": said(text)})
    rig.door.shutdown()
    assert rig.score(f"execute_tool {ROME[0]} 0") == score


def test_a_replay_finds_them_too_and_lists_the_others() -> None:
    requests = [turn_request(None, PARIS, user="Weather in Paris?"), turn_request("b", ROME, user="Weather?")]
    index = load_goldens(BY_TEXT)
    registry = DialectRegistry(join_attributes=index.join_attributes)
    found = replay(views(requests, lambda problem: None), index, registry, problems=[]).result
    assert [(one.verdict.score, one.verdict.reason) for one in found.sessions] == [(1, None), (None, Reason.NO_GOLDEN)]
    assert not found.never_seen
