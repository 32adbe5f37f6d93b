"""Programs of several prompts are read right, or the reading is in doubt."""

from __future__ import annotations

from collections import Counter

from conformance import pipelines
from conformance.variations import BLIND, RIGHT, SILENT


def test_no_program_of_several_prompts_is_silently_read_as_another() -> None:
    found = list(pipelines.cases())
    wrong = [(one.recording, one.transformation, one.silent) for one in found if one.outcome in (SILENT, BLIND)]
    assert wrong == []
    right = Counter(one.recording for one in found if one.outcome == RIGHT)
    assert min(right[name] for name in ("planner", "judge", "rewritten")) > len(pipelines.WRITERS)
