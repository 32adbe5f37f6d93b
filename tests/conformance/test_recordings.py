"""Recordings of real frameworks, read and held against the truth."""

from __future__ import annotations

import pytest

from conformance import recordings
from conformance.known_gaps import or_known_gap


@pytest.mark.parametrize("name", or_known_gap(recordings.NAMES, strict=True))
def test_recording_is_read_right(name: str) -> None:
    assert recordings.read(name).wrong == []
