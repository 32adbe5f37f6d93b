"""The Collector that ships loses nothing while goldspan is away, nor while the backend is."""

from __future__ import annotations

from pathlib import Path

from collector.outage import outages


def test_what_was_taken_arrives_after_goldspan_and_then_the_backend_were_away(collector: Path, tmp_path: Path) -> None:
    found = list(outages(tmp_path, seconds=10, rate=100))
    assert [one.away for one in found] == ["goldspan", "backend"]
    assert all(one.sent == one.arrived == 1000 for one in found), found
    assert all(one.waited > 900 for one in found), found
