"""Goldens that find their sessions by attributes of one's own, in the gateway as in a replay."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from goldspan.collector_processor.gateway.interfaces import Accepted, ExportRequest
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import QUICK, Downstream
from rigs.trace_requests import turn_request
from rigs.waiting import until


def goldens(**attribute: str) -> GoldenIndex:
    turn = {"calls": [{"name": "get_weather", "args": {"city": "Paris"}}]}
    return load_goldens({"format": 1, "golden_set": "g", "goldens": [{"attribute": attribute, "turns": [turn]}]})


def turn(session: str, number: int, *, on_resource: bool = False, **attributes: str) -> ExportRequest:
    document: dict[str, Any] = turn_request(session, ("get_weather", {"city": "Paris"}), turn=number)
    listed = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()]
    group = document["resourceSpans"][0]
    if on_resource:
        group["resource"] = {"attributes": [*group.get("resource", {}).get("attributes", []), *listed]}
    else:
        group["scopeSpans"][0]["spans"][0]["attributes"] += listed
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString())


@contextmanager
def running(index: GoldenIndex) -> Generator[tuple[GatewayPipeline, Downstream]]:
    downstream = Downstream()
    pipeline = GatewayPipeline(index, downstream, PipelineSettings(engine=QUICK))
    yield pipeline, downstream
    pipeline.drain(10.0)
    assert not pipeline.failures


def judged(downstream: Downstream) -> set[str]:
    return {event["gen_ai.conversation.id"] for event in downstream.events()}


@pytest.mark.parametrize("on_resource", [False, True])
def test_a_golden_finds_its_session_by_an_attribute_of_ones_own(on_resource: bool) -> None:
    with running(goldens(**{"shop.case": "refund"})) as (pipeline, downstream):
        assert pipeline.accept(turn("one", 0, on_resource=on_resource, shop__case="refund")) == Accepted()
        assert pipeline.accept(turn("other", 1, on_resource=on_resource, shop__case="return")) == Accepted()
        until(lambda: judged(downstream))
    assert judged(downstream) == {"one"}


def test_goldens_read_anew_bring_the_attributes_they_join_by() -> None:
    with running(goldens(**{"shop.case": "refund"})) as (pipeline, downstream):
        assert pipeline.accept(turn("before", 0, desk__ticket="T-1")) == Accepted()
        until(lambda: len(downstream.spans()) == 2)
        pipeline.reload_goldens(goldens(**{"desk.ticket": "T-1"}))
        assert pipeline.accept(turn("after", 1, desk__ticket="T-1")) == Accepted()
        assert pipeline.accept(turn("old", 2, shop__case="refund")) == Accepted()
        until(lambda: judged(downstream))
    assert judged(downstream) == {"after"}
