"""However a recording is written, its reading is right or says what is missing."""

from __future__ import annotations

import pytest

from conformance import variations
from conformance.recordings import NAMES
from quick_run import part_of_a_whole_run, quick_recordings

PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_reading_is_silently_different(part: int, request: pytest.FixtureRequest) -> None:
    whole = request.config.getoption("--all")
    every = part_of_a_whole_run(request.config)
    names = NAMES if whole else sorted(quick_recordings())
    known, table, new = variations.known_silent(), variations.Table(), list[variations.Case]()
    for name in names[part::PARTS]:
        for one in variations.cases_of(name, pairs=variations.PAIRS if whole else 0, every=every):
            table.add(one)
            if one.outcome == variations.SILENT and not variations.is_known(one, known):
                new.append(one)
    assert new == []
    assert table.share_of_false_doubts() <= variations.MOST_FALSE_DOUBTS
