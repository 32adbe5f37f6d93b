"""From acknowledged requests to what leaves: the same results as a replay, and every span once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.mappers import dialect_registry
from goldspan.mappers.dialects.reading.protocol import Reading
from goldspan.mappers.installed_dialects import built_in_dialects
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import Capture, Content
from rigs.pipeline_rig import Downstream, bodies_of, cut_up, everything, files_of, run, said_by_replay, spans_in
from rigs.repository import RECORDING_NAMES
from rigs.stream_rig import Stream

STRANDS = "strands-default"


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_final_results_are_those_of_a_replay_however_the_records_come(recording: str) -> None:
    wanted = said_by_replay(files_of(recording), everything())
    requests = bodies_of(recording)
    for seed, sent in enumerate([requests, cut_up(requests, 1)]):
        downstream = run(sent, everything())
        assert downstream.said() == wanted, seed
        ids = sorted(span.span_id for span in downstream.spans())
        assert ids == sorted(span.span_id for span in spans_in(r.body for r in sent if r.signal is Signal.TRACES))


def test_nothing_is_held_with_hold_off() -> None:
    requests = bodies_of(RECORDING_NAMES[0])
    downstream = run(requests, everything(), PipelineSettings(hold="off"))
    # Several threads deliver, in no order.
    assert sorted(downstream.of(Signal.TRACES)) == sorted(one.body for one in requests if one.signal is Signal.TRACES)
    assert downstream.said() == said_by_replay(files_of(RECORDING_NAMES[0]), everything())


class Foreign:
    """A dialect of another package, for every span that names its operation, that does the wrong thing."""

    name = "foreign"
    markers = frozenset({"gen_ai.operation.name"})

    def __init__(self, does: Callable[[], Any]) -> None:
        self._does = does

    def read(self, span: SpanView) -> Reading | None:
        del span
        return self._does()  # type: ignore[no-any-return]


WRONG: dict[str, Callable[[], Any]] = {
    "exits": lambda: sys.exit(3),
    "a name that is no text": lambda: Reading(Role.TOOL, tool=ToolFacts(5)),  # type: ignore[arg-type]
    "arguments that are no mapping": lambda: Reading(Role.TOOL, tool=ToolFacts("f", Content(5, Capture.CAPTURED))),
    "a turn that cannot be looked up": lambda: Reading(Role.AGENT, turn_id=["t"]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_dialect_of_another_package_costs_nothing_but_what_it_would_have_read(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the spans of a request nor the results of other sessions, at the gateway and in a stream."""
    requests, wanted = bodies_of(STRANDS), said_by_replay(files_of(STRANDS), everything())
    dialects = (Foreign(WRONG[wrong]), *built_in_dialects())
    monkeypatch.setattr(dialect_registry, "default_dialects", lambda on_problem: dialects)
    downstream = Downstream()
    pipeline = GatewayPipeline(everything(), downstream)
    for request in requests:
        pipeline.accept(request)
    assert pipeline.drain(30.0)
    assert downstream.said() == wanted
    assert len(downstream.spans()) == len(spans_in(r.body for r in requests if r.signal is Signal.TRACES))
    assert not pipeline.failures
    assert pipeline.worker.problems["dialect_failed"]
    stream = Stream(StreamContext.of(everything()), 0, faults=0.0)
    stream.run(stream.put(requests))
    assert stream.said() == wanted
    assert stream.context.with_goldens(everything()).problems["dialect_failed"]
