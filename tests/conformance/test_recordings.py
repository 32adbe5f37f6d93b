"""Recordings of real frameworks, read and held against the truth."""

from __future__ import annotations

import pytest

from conformance import recordings


@pytest.mark.parametrize("name", recordings.NAMES)
def test_recording_is_read_right(name: str) -> None:
    assert recordings.read(name).wrong == []
