"""A run that is scored again with other turns has the same result as one that is scored for the first time."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from goldspan.scoring import Session, ToolCall, Turn, load_goldens
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.metrics.trajectory import TRAJECTORY_METRICS
from goldspan.scoring.results import TurnResult
from goldspan.scoring.run import KeptRun, Scorer, scorer_of
from goldspan.scoring.session_score import IncrementalScore, InStep, in_step, joined_in_step
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef, UserMessages
from goldspan.scoring.turn_join import SplitRuns, TurnJoin, golden_keys, join_turns, split_runs

TURNS = 4
Keys = Callable[[int], dict[str, Any]]


def golden(keys: Keys = lambda _: {}, calls: Keys = lambda _: {}, aliases: Any = None, **more: Any) -> Golden:
    """A golden whose turns call f with their numbers; `keys` and `calls` say what else a turn and its call have."""
    turns = [{"calls": [{"name": "f", "args": {"x": at}, **calls(at)}], **keys(at)} for at in range(1, TURNS + 1)]
    document = {"format": 1, "golden_set": "a", "goldens": [{"session": "s", "turns": turns, **more}]}
    return load_goldens(document if aliases is None else {**document, "aliases": aliases}).goldens[0]


def text(number: int) -> dict[str, Any]:
    return {"user": f"message {number}"}


GOLDENS: dict[str, Golden | None] = {
    "no golden": None,
    "place": golden(),
    "place, optional calls": golden(calls=lambda number: {"optional": number != 2}),
    "text": golden(text),
    "text that repeats": golden(lambda number: text(min(number, 2))),
    "text of some": golden(lambda number: text(number) if number in {1, TURNS} else {}),
    "id": golden(lambda number: {"turn_id": str(number)}),
    "key alone": golden(text, criterion={"turn_join": "key"}),
    "order alone": golden(criterion={"turn_join": "index"}),
    "results": golden(calls=lambda number: {"args": {"x": {"$from_result": {"call": "f"}}}} if number == 3 else {}),
    "aliases": golden(text, aliases={"f": ["g"]}),
}
SCORERS = [scorer_of(), scorer_of(metrics=[*WITHOUT_GOLDEN, *TRAJECTORY_METRICS])]
DEFINITIONS = (None, '[{"name": "f", "parameters": {"properties": {"x": {"enum": [1]}}}}]', '[{"name": "g"}]')


def said(text: str | None) -> Content:
    return NO_CONTENT if text is None else Content(text, Capture.CAPTURED)


class Shape(NamedTuple):
    """How a turn differs from the one that the golden has at its place."""

    is_another: int
    tells_place: bool | None
    """None: a wrong one."""
    tells_key: bool
    calls: tuple[ToolCall, ...] | None
    """None: those of the golden."""
    pause: int
    tool_definitions: str | None


CALLS = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["f", "f", "g", "book"]),  # a call of the last is not to be made twice in a session
        st.sampled_from([{"x": 1}, {"x": 2}, {"x": 3}]),
        result=st.sampled_from(["found 3", "2", None]).map(said),
        error=st.sampled_from([None, None, "refused"]),
        tool_definitions=st.sampled_from([None, *DEFINITIONS]).map(said),
    ),
    max_size=3,
)
SHAPES = st.builds(
    Shape,
    st.sampled_from([0, 0, 0, 0, 1, 2, -1]),
    st.sampled_from([True, True, True, False, False, None]),
    st.sampled_from([True, True, True, False]),
    st.none() | st.none() | CALLS.map(tuple),
    st.sampled_from([1, 1, 100]),
    st.sampled_from(DEFINITIONS),
)
EXAMPLES = settings(max_examples=min(settings().max_examples, 100))
"""Each example is a whole session."""
Edit = tuple[str, int, Shape]
EDITS = st.lists(st.tuples(st.sampled_from("+++++i==--!"), st.integers(0, 12), SHAPES), min_size=8, max_size=16)


def turn_of(shape: Shape, at: int, before: Turn | None) -> Turn:
    """The turn at a position; a session has the golden's conversation again and again."""
    number, place = (at + shape.is_another) % TURNS + 1, at % TURNS
    start = (before.end if before else 10**9) + shape.pause * 10**9
    calls = (ToolCall("f", {"x": number}, result=said(str(number))),) if shape.calls is None else shape.calls
    counts = () if shape.tells_place is False else (UserMessages(place, place + 1),)
    return Turn(
        calls,
        root=SpanRef("t", str(start)),
        turn_id=str(number) if shape.tells_key else None,
        user_text=said(f"message {number}" if shape.tells_key else None),
        answer=said("2 it is" if number == 2 else None),
        tool_definitions=said(shape.tool_definitions),
        start=start,
        end=start + 10**9,
        user_messages=(UserMessages(0, 1),) if shape.tells_place is None else counts,
    )


def growing(edits: list[Edit]) -> Iterator[Session]:
    """Yield a session that grows, is inserted into, shrinks, or changes; mostly its last turns change."""
    run, session = list[Turn](), Session("s")
    for edit, back, shape in edits:
        at = len(run) if edit == "+" else max(len(run) - 1 - back // 2, 0)
        turn = turn_of(shape, at, run[at - 1] if at else None)
        if edit in "+i=":
            run[at : at + (edit == "=")] = [turn]
        elif edit == "-":
            del run[at : at + 1 + back % 2]
        else:
            session = replace(session, incomplete=not session.incomplete)
        session = replace(session, turns=tuple(run))
        yield session


@pytest.mark.parametrize("name", ["place", "text", "id", "order alone", "aliases"])
@pytest.mark.parametrize("final", [True, False])
def test_results_of_turns_that_stay_are_the_same_objects(name: str, final: bool) -> None:
    score = IncrementalScore()
    before: tuple[TurnResult, ...] = ()
    turns: list[Turn] = []
    for at in range(TURNS):
        turns.append(turn_of(Shape(0, True, True, None, 1, None), at, turns[-1] if turns else None))
        result = score.score(GOLDENS[name], Session("s", tuple(turns)), final=final)
        assert all(map(operator.is_, before[:at], result.turns[:at]))
        before = result.turns
    assert len(before) == TURNS


@pytest.mark.parametrize("golden", GOLDENS.values(), ids=GOLDENS)
@EXAMPLES
@given(edits=EDITS, scorer=st.sampled_from(SCORERS))
def test_what_is_kept_changes_no_result(golden: Golden | None, edits: list[Edit], scorer: Scorer) -> None:
    kept = KeptRun()
    for session in growing(edits):
        for final in (False, True):
            assert scorer.score(golden, session, final=final, kept=kept) == scorer.score(golden, session, final=final)


@pytest.mark.parametrize(
    "golden", [one for one in GOLDENS.values() if one], ids=[name for name in GOLDENS if GOLDENS[name]]
)
@EXAMPLES
@given(edits=EDITS)
def test_a_session_id_that_is_used_again_is_split_and_scored_as_one_that_is_read_whole(
    golden: Golden, edits: list[Edit]
) -> None:
    split, kept = SplitRuns(golden), defaultdict[str, KeptRun](KeptRun)
    for session in growing(edits):
        runs = split_runs(session, golden)
        assert split.update(session) == runs
        for run in runs:
            assert SCORERS[0].score(golden, run, kept=kept[run.run]) == SCORERS[0].score(golden, run)


JOINS: tuple[TurnJoin, ...] = ("auto", "key", "index")


@pytest.mark.parametrize(
    "golden", [one for one in GOLDENS.values() if one], ids=[name for name in GOLDENS if name[:2] != "no"]
)
@EXAMPLES
@given(edits=EDITS)
def test_a_run_in_step_with_its_golden_is_joined_as_any_run_is(golden: Golden, edits: list[Edit]) -> None:
    keys = golden_keys(golden.turns)
    for session in growing(edits):
        for turns in (session.turns, tuple(replace(turn, root=None) for turn in session.turns)):
            so_far: list[InStep] = []
            for index in range(len(turns)):
                so_far.append(in_step(so_far[-1] if so_far else None, keys, turns, index))
            for how in JOINS:
                joined, plain = joined_in_step(keys, turns, how, so_far), join_turns(keys, turns, how)
                if joined is not None:
                    assert list(joined.partners) == list(plain.partners)
                    assert (set(joined.unsure), set(joined.unknown)) == (set(plain.unsure), set(plain.unknown))
                    assert joined.complete == plain.complete
