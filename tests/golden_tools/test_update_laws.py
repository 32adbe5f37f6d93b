"""The law of updating: a golden file that accepted everything that was seen differs from it in nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.golden_tools.golden_differences import trace_difference
from goldspan.collector_processor.golden_tools.recording import record
from goldspan.collector_processor.golden_tools.updating import GoldenFile, acceptable_changes
from goldspan.collector_processor.golden_tools.writing import yaml_text
from goldspan.scoring import load_goldens, score_sessions
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn

TOOLS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.sampled_from([0, 1, "x", "NO", None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "q", "$r"]), inner, max_size=2),
    max_leaves=4,
)
ARGS = st.dictionaries(st.sampled_from(["p", "q"]), VALUES, max_size=2)
CALLS = st.lists(st.builds(ToolCall, TOOLS, ARGS, batch=st.sampled_from([0, 0, 1, 2])), max_size=4)
USERS = (None, "Hi", "Bye")


@st.composite
def sessions(draw: st.DrawFn, turns: int | None = None, run: str = "") -> Session:
    """One session; calls of one batch stand together, as the mappers put them."""
    made: list[Turn] = []
    for index in range(draw(st.integers(1, 2)) if turns is None else turns):
        calls = sorted(draw(CALLS), key=lambda call: call.batch)
        user = USERS[index + 1]
        made.append(Turn(tuple(calls), user_text=Content(user, Capture.CAPTURED)))
    return Session("s", tuple(made), run=run)


def write(folder: Path, document: Any, suffix: str) -> Path:
    path = folder / f"goldens.{suffix}"
    path.write_text(yaml_text(document) if suffix == "yaml" else json.dumps(document), "utf-8")
    return path


@given(before=sessions(), after=sessions(), suffix=st.sampled_from(["yaml", "yaml", "json"]))
def test_what_was_accepted_is_no_difference_any_more(
    tmp_path_factory: pytest.TempPathFactory, before: Session, after: Session, suffix: str
) -> None:
    document = record([before], "x").document
    path = write(tmp_path_factory.mktemp("law"), document, suffix)
    index = load_goldens(path)
    possible = acceptable_changes(index, trace_difference(index, [after]), extra_calls=True)
    path.write_text(GoldenFile(str(path)).accept(possible.changes), "utf-8")
    again = trace_difference(load_goldens(path), [after]).changes
    assert [change for change in again if change.note != "never seen"] == []
    assert bool([change for change in again if change.note == "never seen"]) is bool(possible.by_hand)


def test_a_call_among_those_of_a_group_is_accepted_into_the_group(tmp_path: Path) -> None:
    def played(*calls: tuple[str, int]) -> Session:
        made = tuple(ToolCall(name, {}, batch=batch) for name, batch in calls)
        return Session("s", (Turn(made, user_text=Content("Hi", Capture.CAPTURED)),))

    path = write(tmp_path, record([played(("a", 1), ("c", 1))], "x").document, "yaml")
    index, seen = load_goldens(path), played(("a", 0), ("b", 0), ("c", 0))
    path.write_text(
        GoldenFile(str(path)).accept(
            acceptable_changes(index, trace_difference(index, [seen]), extra_calls=True).changes
        ),
        "utf-8",
    )
    [golden] = load_goldens(path).goldens
    assert [(call.name, bool(call.group)) for call in golden.turns[0].calls] == [("a", True), ("b", True), ("c", True)]
    assert trace_difference(load_goldens(path), [seen]).changes == ()


@given(runs=st.lists(sessions(turns=2), min_size=1, max_size=3) | st.lists(sessions(), min_size=1, max_size=3))
def test_every_recording_is_right_by_the_golden_of_all(runs: list[Session]) -> None:
    document = record(runs, "x").document
    result = score_sessions(document, runs)
    assert [one.verdict.score for one in result.sessions if one.verdict.score not in {1, None}] == [], (
        result,
        document,
    )


@given(golden=sessions(turns=1), runs=st.lists(sessions(turns=1), min_size=1, max_size=3), extra=st.booleans())
def test_after_an_update_by_several_runs_each_of_them_passes(
    tmp_path_factory: pytest.TempPathFactory, golden: Session, runs: list[Session], extra: bool
) -> None:
    path = write(tmp_path_factory.mktemp("law"), record([golden], "x").document, "yaml")
    index = load_goldens(path)
    possible = acceptable_changes(index, trace_difference(index, runs), extra_calls=extra)
    path.write_text(GoldenFile(str(path)).accept(possible.changes), "utf-8")
    result = score_sessions(load_goldens(path), runs)
    assert {one.verdict.score for one in result.sessions} <= {1, None}, (result, path.read_text("utf-8"))
