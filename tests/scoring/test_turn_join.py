"""Turns of a session that several processes serve find their places in the golden; a session id is used again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goldspan.scoring.api import score_session, score_sessions
from goldspan.scoring.goldens import ExpectedCall, Golden, GoldenTurn
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, Session, SpanRef, ToolCall, Turn, UserMessages
from goldspan.scoring.turn_join import SplitRuns, places_of, split_runs

Counts = tuple[int, int] | None


def turn(
    number: int,
    counts: Counts = None,
    *,
    x: int | None = None,
    text: str = "",
    begin: int = 0,
    own: int | None = None,
) -> Turn:
    """A turn of a conversation, read from spans: it calls f with its number, unless `x` says otherwise."""
    begin = begin or number * 10
    return Turn(
        (ToolCall("f", {"x": number if x is None else x}),),
        root=SpanRef("t", str(begin)),
        start=begin * 10**9,
        end=(begin + 5) * 10**9,
        turn_number=own,
        user_text=Content(text, Capture.CAPTURED) if text else NO_CONTENT,
        user_messages=() if counts is None else (UserMessages(*counts),),
    )


def golden(turns: int = 3, *, keyed: bool = False, **more: Any) -> Golden:
    return Golden(
        "s",
        tuple(
            GoldenTurn((ExpectedCall("f", {"x": number}),), user=f"message {number}" if keyed else None)
            for number in range(1, turns + 1)
        ),
        **more,
    )


def labels(golden: Golden, *turns: Turn, final: bool = True) -> dict[str, str]:
    """The label, or the reason for none, of each golden turn and of each turn that is left."""
    result = score_session(golden, Session("s", turns))
    return {
        (
            f"golden {one.expected_index + 1}"
            if one.expected_index is not None
            else f"turn {turns[one.turn_index or 0].calls[0].args}"
        ): str(one.reason or one.label)
        for one in result.turns
    }


@pytest.mark.parametrize(
    ("counts", "places"),
    [
        ([(0, 1), (1, 2), (2, 3)], [1, 2, 3]),
        ([(0, 1), (2, 3)], [1, 3]),
        ([(1, 2)], [2]),
        ([(0, 1), None, (2, 3)], [1, 2, 3]),
        ([(0, 1), None, (3, 4)], [1, None, 4]),
        ([None, (1, 2)], [1, 2]),
        ([None, None], [None, None]),
        ([(0, 1), (0, 1)], [None, None]),
        ([(0, 1), (1, 2), (1, 2)], [None, None, None]),
        ([(0, 2), (2, 4)], [None, None]),
        ([(0, 1), (0, 2), (2, 3)], [1, 2, 3]),
    ],
    ids=str,
)
def test_the_number_of_user_messages_is_the_place_of_a_turn(counts: list[Counts], places: list[int | None]) -> None:
    turns = [turn(number, of_turn) for number, of_turn in enumerate(counts, start=1)]
    assert places_of(turns) == places


def test_user_messages_that_a_framework_adds_inside_a_turn_are_no_turns() -> None:
    first = Turn(root=SpanRef("t", "1"), user_messages=(UserMessages(0, 1), UserMessages(1, 2)))
    assert places_of([first, turn(2, (2, 3))]) == [1, None]
    assert places_of([first, turn(3, (3, 4))]) == [1, 4]


def test_a_dialects_own_number_is_the_place_of_a_turn() -> None:
    assert places_of([turn(2, own=2), turn(4, own=4)]) == [2, 4]


def test_turns_given_by_code_are_all_there() -> None:
    missing = score_session(golden(), Session("s", (Turn((ToolCall("f", {"x": 1}),)),)))
    assert [one.label for one in missing.turns] == ["pass", "fail", "fail"]


AMBIGUOUS = "session_ambiguous"


@given(st.lists(st.none() | st.integers(1, 5).map(lambda place: (place - 1, place)), min_size=1, max_size=5))
@example([(0, 1), (0, 1), (2, 3)])
@example([(0, 1), (0, 1), (1, 2)])
@example([(1, 2), None, (1, 2)])
def test_only_places_that_leave_nothing_out_prove_that_a_turn_never_came(counts: list[Counts]) -> None:
    turns = [turn(number, of_turn, text=f"message {number}") for number, of_turn in enumerate(counts, start=1)]
    places = places_of(turns)
    proven = places == list(range(1, len(turns) + 1))
    assert labels(golden(12), *turns)["golden 12"] == ("fail" if proven else AMBIGUOUS)
    left_out = any(place not in (None, number) for number, place in enumerate(places, start=1))
    assert labels(golden(12, keyed=True), *turns)["golden 12"] == (AMBIGUOUS if left_out else "fail")


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([turn(1, (0, 1)), turn(3, (2, 3))], ["pass", AMBIGUOUS, "pass"]),
        ([turn(2, (1, 2))], [AMBIGUOUS, "pass", AMBIGUOUS]),
        ([turn(2, (1, 2)), turn(3, (2, 3))], [AMBIGUOUS, "pass", "pass"]),
        ([turn(2, (1, 2), x=9)], [AMBIGUOUS, "fail", AMBIGUOUS]),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_turns_of_one_process_of_several_are_judged_at_their_places(
    turns: list[Turn], expected: list[str], *, keyed: bool
) -> None:
    assert list(labels(golden(keyed=keyed), *turns).values()) == expected


@pytest.mark.parametrize(
    ("seen", "expected"), [([1, 3], ["pass", AMBIGUOUS, "pass"]), ([2], [AMBIGUOUS, "pass", AMBIGUOUS])]
)
def test_a_turn_before_one_that_is_found_by_its_text_may_be_elsewhere(seen: list[int], expected: list[str]) -> None:
    turns = [turn(number, text=f"message {number}") for number in seen]
    assert list(labels(golden(keyed=True), *turns).values()) == expected


@pytest.mark.parametrize("seen", [[1, 3], [2], [2, 3], [3], [1, 2]], ids=str)
@pytest.mark.parametrize("counts", [None, (0, 1)], ids=["no content", "the history is kept elsewhere"])
def test_without_a_place_a_right_turn_never_fails(seen: list[int], counts: Counts) -> None:
    found = labels(golden(), *(turn(number, counts) for number in seen))
    assert "fail" not in found.values()


@pytest.mark.parametrize(
    "counts", [[None] * 3, [(0, 1)] * 3, [(0, 1), (1, 2), (2, 3)], [(2, 3), (3, 4), (4, 5)]], ids=str
)
def test_a_whole_conversation_is_judged_as_it_is(counts: list[Counts]) -> None:
    turns = [turn(number, of_turn, x=x) for number, of_turn, x in zip((1, 2, 3), counts, (1, 3, 2), strict=True)]
    assert list(labels(golden(), *turns).values()) == ["pass", "fail", "fail"]


def test_a_turn_that_never_came_fails_where_nothing_was_left_out() -> None:
    assert list(labels(golden(), turn(1, (0, 1)), turn(2, (1, 2))).values()) == ["pass", "pass", "fail"]
    never_asked = [turn(1, (0, 1), text="message 1"), turn(3, (1, 2), text="message 3")]
    assert list(labels(golden(keyed=True), *never_asked).values()) == ["pass", "fail", "pass"]
    keyed = [turn(1, text="message 1"), turn(2, text="message 2")]
    assert list(labels(golden(keyed=True), *keyed).values()) == ["pass", "pass", "fail"]


def test_calls_of_turns_elsewhere_are_not_missing_in_a_golden_for_the_whole_session() -> None:
    whole = Golden("s", calls=(ExpectedCall("f", {"x": 1}), ExpectedCall("f", {"x": 2})))
    assert score_session(whole, Session("s", (turn(2, (1, 2)),))).reason == AMBIGUOUS
    assert score_session(whole, Session("s", (turn(1, (0, 1)),))).label == "fail"


def conversation(begin: int, *, pause: int = 10, count: int = 3) -> list[Turn]:
    return [turn(number, begin=begin + (number - 1) * (5 + pause)) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("turns", "runs"),
    [
        ([*conversation(100), *conversation(1000)], [3, 3]),
        ([*conversation(100), *conversation(150)], [6]),
        ([*conversation(100, count=2), *conversation(1000)], [5]),
        ([*conversation(100, pause=100), *conversation(1000)], [3, 3]),
        ([*conversation(100), *conversation(1000), *conversation(2000)], [3, 3, 3]),
    ],
)
def test_a_pause_after_every_turn_of_the_golden_starts_a_run(turns: list[Turn], runs: list[int]) -> None:
    found = split_runs(Session("s", tuple(turns), run="r"), golden(), 60)
    assert [len(run.turns) for run in found] == runs
    assert [run.used_again for run in found] == [False] + [True] * (len(runs) - 1)
    assert len({run.run for run in found}) == len(runs)


def test_a_pause_that_shows_later_ends_the_run_before_it() -> None:
    turns, split = [*conversation(100, count=5), *conversation(1000)], SplitRuns(golden(), 60)
    assert [len(run.turns) for run in split.update(Session("s", tuple(turns)))] == [5, 3]
    turns[3] = turn(4, begin=300)
    assert [len(run.turns) for run in split.update(Session("s", tuple(turns)))] == [3, 5]


def test_a_pause_in_one_of_several_processes_starts_no_run() -> None:
    turns = [turn(number, (number - 1, number), begin=number * 100) for number in (1, 3, 5, 7)]
    assert len(split_runs(Session("s", tuple(turns)), golden(), 60)) == 1


def test_a_conversation_that_goes_on_after_a_pause_starts_no_run() -> None:
    told = [turn(number, (number - 1, number), begin=begin) for number, begin in ((1, 10), (2, 20), (3, 30), (4, 1000))]
    assert len(split_runs(Session("s", tuple(told)), golden(), 60)) == 1
    keyed = [turn(number, text=f"message {number}", begin=begin) for number, begin in ((1, 10), (2, 20), (3, 1000))]
    assert len(split_runs(Session("s", tuple(keyed)), golden(2, keyed=True), 60)) == 1


def test_a_later_run_says_that_its_session_id_was_used_again() -> None:
    again = [turn(at, (at - 1, at), begin=begin + at * 10) for begin in (0, 1000) for at in (1, 2, 3)]
    first, second = (score_session(golden(), run) for run in split_runs(Session("s", tuple(again)), golden(), 60))
    assert (first.passed, second.passed) == (True, True)
    assert "session id used again" not in str(first)
    assert "session id used again" in str(second)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from([None, (0, 1), (1, 2), (2, 3), (4, 5)]), st.integers(0, 200)),
        max_size=9,
    )
)
def test_splitting_loses_no_turn(drawn: list[tuple[int, Counts, int]]) -> None:
    at, turns = 100, list[Turn]()
    for number, counts, pause in drawn:
        turns.append(turn(number, counts, begin=at))
        at += 5 + pause
    runs = split_runs(Session("s", tuple(turns), run="r"), golden(), 60)
    assert [one for run in runs for one in run.turns] == turns
    assert all(split_runs(run, golden(), 60) == [run] for run in runs[:1])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["b", "x"], ["pass", "pass"]),
        (["x", "c"], ["pass", "pass"]),
        (["x", "y"], ["pass", "pass"]),
        (["x"], ["fail", "fail"]),
        (["x", "y", "z"], ["fail", "fail"]),
    ],
)
def test_turns_with_other_user_texts_are_those_at_their_positions_if_there_are_as_many(
    said: list[str], expected: list[str]
) -> None:
    golden = {
        "golden_set": "g",
        "goldens": [{"session": "s", "turns": [{"user": text, "calls": [{"name": "f"}]} for text in "bc"]}],
    }
    turns = tuple(Turn((ToolCall("f"),), user_text=Content(text, Capture.CAPTURED)) for text in said)
    [result] = score_sessions(golden, Session("s", turns)).sessions
    assert [str(one.label) for one in result.turns if one.expected_index is not None] == expected
    other = sum(text not in "bc" for text in said) if expected[0] == "pass" else 0
    assert str(result).count("the user text differs; the golden has") == 0
    assert ("other user text" in str(result)) is bool(other)


def test_a_turn_whose_user_text_was_changed_names_the_nearest_one() -> None:
    texts = ["Book a flight to Oslo", "And a hotel near the station"]
    golden = {
        "golden_set": "g",
        "goldens": [{"session": "s", "turns": [{"user": text, "calls": [{"name": "f"}]} for text in texts]}],
    }
    said = ["Hello", "Book a flight to Oslo please", "And a hotel near the station"]
    turns = tuple(Turn((ToolCall("f"),), user_text=Content(text, Capture.CAPTURED)) for text in said)
    [result] = score_sessions(golden, Session("s", turns)).sessions
    shown = " ".join(str(result).split())
    assert 'no turn has the user text "Book a flight to Oslo"; nearest: "Book a flight to Oslo please"' in shown
    assert shown.count("nearest: ") == 1
