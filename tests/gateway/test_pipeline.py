"""From acknowledged requests to what leaves: the same results as a replay, and every span once."""

from __future__ import annotations

import pytest

from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from rigs.pipeline_rig import bodies_of, cut_up, everything, files_of, run, said_by_replay, spans_in
from rigs.repository import RECORDING_NAMES


@pytest.mark.every_recording
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
