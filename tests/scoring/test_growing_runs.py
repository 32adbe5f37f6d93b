"""A run that is scored again with other turns has the same result as one that is scored for the first time."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from goldspan.scoring import Session, ToolCall, Turn, load_goldens
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics.registry import WITHOUT_GOLDEN
from goldspan.scoring.metrics.trajectory import TRAJECTORY_METRICS
from goldspan.scoring.run import KeptRun, scorer_of
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef, UserMessages
from goldspan.scoring.turn_join import SplitRuns, split_runs

TURNS = [
    {"user": "one", "calls": [{"name": "f", "args": {"x": 1}}]},
    {"user": "two", "calls": [{"name": "g", "args": {"x": 2}}, {"name": "f", "args": {"x": 1}}]},
    {"user": "one", "calls": [{"name": "f", "args": {"x": 3}}]},
]
WITHOUT_KEYS = [{"calls": turn["calls"]} for turn in TURNS]
GOLDENS: dict[str, Golden | None] = {
    "no golden": None,
    "by position": load_goldens(
        {"format": 1, "golden_set": "a", "goldens": [{"session": "s", "turns": WITHOUT_KEYS}]}
    ).goldens[0],
    "by text": load_goldens({"format": 1, "golden_set": "a", "goldens": [{"session": "s", "turns": TURNS}]}).goldens[0],
}
SCORER = scorer_of(metrics=[*WITHOUT_GOLDEN, *TRAJECTORY_METRICS])


def said(text: object) -> Content:
    return NO_CONTENT if text is None else Content(text, Capture.CAPTURED)


CALLS = st.builds(
    ToolCall,
    st.sampled_from(["f", "f", "g"]),
    st.sampled_from([{"x": 1}, {"x": 2}, {"x": 3}]),
    result=st.sampled_from(["found 3", "2", None]).map(said),
)
DEFINITIONS = (None, '[{"name": "f", "parameters": {"properties": {"x": {"enum": [1]}}}}]', '[{"name": "g"}]')
TIMES = st.sampled_from([0, 1, 50, 100, 150, 200]).map(lambda second: second * 1_000_000_000)
RUNS = st.lists(
    st.builds(
        Turn,
        st.lists(CALLS, max_size=4).map(tuple),
        root=st.integers(0, 9).map(lambda number: SpanRef("t", str(number))),
        user_text=st.sampled_from(["one", "two", "say 3", None]).map(said),
        answer=st.sampled_from(["2 it is", None]).map(said),
        tool_definitions=st.sampled_from(DEFINITIONS).map(said),
        start=TIMES,
        end=TIMES,
        user_messages=st.sampled_from([(), (UserMessages(0, 1),), (UserMessages(1, 2),)]),
    ),
    max_size=9,
)


EDITS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from("+++-=!")), max_size=6)


def growing(turns: list[Turn], others: list[Turn], edits: list[tuple[int, str]]) -> Iterator[Session]:
    """Yield a session that gets its turns one by one, and is then edited."""
    turns, others, run, session = [*turns], [*others], list[Turn](), Session("s")
    for at, edit in [*((len(turns), "+") for _ in turns), *edits]:
        spare = turns if turns and edit == "+" else others
        if edit in "+=" and spare:
            run[at : at + (edit == "=")] = [spare.pop(0)]
        elif edit == "-":
            del run[at : at + 1]
        elif edit == "!":
            session = replace(session, incomplete=not session.incomplete)
        session = replace(session, turns=tuple(run))
        yield session


@pytest.mark.parametrize("golden", GOLDENS.values(), ids=GOLDENS)
@given(turns=RUNS, others=RUNS, edits=EDITS)
def test_what_is_kept_changes_no_result(
    golden: Golden | None, turns: list[Turn], others: list[Turn], edits: list[tuple[int, str]]
) -> None:
    kept = KeptRun()
    for session in growing(turns, others, edits):
        for final in (False, True):
            assert SCORER.score(golden, session, final=final, kept=kept) == SCORER.score(golden, session, final=final)


@pytest.mark.parametrize("turns_of_golden", [TURNS[:1], WITHOUT_KEYS[:1], TURNS[:2]])
@given(turns=RUNS, others=RUNS, edits=EDITS)
def test_a_session_that_grows_is_split_as_one_that_is_read_whole(
    turns_of_golden: list[dict[str, object]], turns: list[Turn], others: list[Turn], edits: list[tuple[int, str]]
) -> None:
    goldens = [{"session": "s", "turns": turns_of_golden}]
    golden = load_goldens({"format": 1, "golden_set": "a", "goldens": goldens}).goldens[0]
    split = SplitRuns(golden)
    for session in growing(turns, others, edits):
        assert split.update(session) == split_runs(session, golden)
