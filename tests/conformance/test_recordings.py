"""Recordings of real frameworks, read and held against the truth."""

from __future__ import annotations

from typing import Any

import pytest

from conformance import recordings


def recorded(name: str) -> Any:
    gap = recordings.TRUTH["files"][name].get("known_gap")
    return pytest.param(name, marks=pytest.mark.xfail(reason=gap)) if gap else name


@pytest.mark.parametrize("name", [recorded(name) for name in recordings.NAMES])
def test_recording_is_read_right(name: str) -> None:
    assert recordings.read(name).wrong == []
