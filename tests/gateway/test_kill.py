"""`goldspan serve` killed between the turns of sessions. `make soak` does it fifty times."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak import DOWNSTREAMS, JUDGED, soak


@pytest.mark.parametrize(("protocol", "judged"), list(zip(DOWNSTREAMS, JUDGED, strict=True)))
def test_what_was_acknowledged_arrives_and_is_scored_as_by_a_replay(tmp_path: Path, protocol: str, judged: str) -> None:
    outcome = soak(tmp_path, 3, protocol, judged=judged, clients=3)
    assert outcome.acknowledged > 20
    assert outcome.lost == 0
    assert outcome.said == outcome.wanted
    assert outcome.said
    # A kill sends again what was on its way: a turn of each client is an eighth. Committed later it were a quarter.
    assert outcome.again < outcome.acknowledged / 5
    assert outcome.warnings == []
