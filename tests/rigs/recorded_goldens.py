"""Goldens made of what recorded agents did."""

from __future__ import annotations

from typing import Any

from conformance.recordings import files_of
from goldspan.mappers import read_sessions
from goldspan.scoring.goldens import GoldenIndex, load_goldens


def goldens_of(*recordings: str) -> GoldenIndex:
    """What every second session did, as what it should do; the others have no golden."""
    goldens: dict[str, dict[str, Any]] = {}
    for recording in recordings:
        for session in read_sessions(files_of(recording))[::2]:
            turns = [
                {"calls": [{"name": call.name, "args": dict(call.arguments or {})} for call in turn.calls]}
                for turn in session.turns
            ]
            goldens.setdefault(session.id, {"session": session.id, "turns": turns})
    return load_goldens({"format": 1, "golden_set": "recorded", "goldens": list(goldens.values())})
