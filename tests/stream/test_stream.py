"""A stream of any number of partitions says what `goldspan score` says."""

from __future__ import annotations

import pytest

from goldspan.collector_processor.stream.stage_interface import StreamContext
from pipeline_rig import NAMES, bodies_of, cut_up, everything, files_of, said_by_replay
from stream_rig import Stream


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", NAMES)
def test_a_stream_says_what_a_replay_says(recording: str) -> None:
    stream = Stream(StreamContext.of(everything()), seed=len(recording))
    end = stream.put(cut_up(bodies_of(recording), seed=len(recording)))
    stream.run(end)
    assert stream.said() == said_by_replay(files_of(recording), everything())
