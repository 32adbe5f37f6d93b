"""Sessions: how turns find each other, what missing and unexpected ones mean, and goldens for a whole session."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Capture,
    Content,
    Criterion,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Label,
    Reason,
    Session,
    SessionResult,
    SpanRef,
    ToolCall,
    Turn,
    load_goldens,
    score_session,
)
from goldspan.scoring.goldens.golden import Ambiguous

HALF = Fraction(1, 2)


def call(name: str, /, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def said(text: str | None, *calls: ToolCall, turn_id: str | None = None) -> Turn:
    content = Content() if text is None else Content(text, Capture.CAPTURED)
    return Turn(calls, user_text=content, turn_id=turn_id)


def joins(result: SessionResult) -> list[tuple[int | None, int | None]]:
    """Position in the golden and in the session of each turn of a result."""
    return [(turn.expected_index, turn.turn_index) for turn in result.turns]


F = ExpectedCall("f", {"x": 1})


def golden(*users: str | None, **criterion: Any) -> Golden:
    turns = tuple(GoldenTurn((F,), user=user) for user in users)
    return Golden("s", turns, criterion=Criterion.parse(criterion))


RIGHT, WRONG, LOST = ToolCall("f", {"x": 1}), ToolCall("f", {"x": 2}), ToolCall("f", None, Capture.NOT_CAPTURED)


def test_a_session_is_the_mean_of_its_turns() -> None:
    result = score_session(golden(None, None), Session("s", (Turn((RIGHT,)), Turn((WRONG,)))))
    assert result.verdict.exact == HALF
    assert result.verdict.label is Label.FAIL
    assert (result.turns_expected, result.turns_evaluated) == (2, 2)
    assert (result.calls_expected, result.calls_evaluated) == (2, 2)


def test_plain_lists_are_understood() -> None:
    by_turn = score_session([[call("f", x=1)], [call("g")]], [[call("f", x=1)], [call("h")]])
    assert by_turn.verdict.exact == HALF
    whole = score_session([call("f", x=1), call("g")], [[call("f", x=1)], [call("g")]])
    assert (whole.verdict.exact, len(whole.turns)) == (1, 1)
    with_keys = [{"user": "second", "calls": [call("g")]}, {"user": "first", "calls": [call("f", x=1)]}]
    assert (
        score_session(with_keys, Session("s", (said("first", RIGHT), said("second", ToolCall("g"))))).verdict.exact == 1
    )


@pytest.mark.parametrize("wrong", [["f"], [[3]], [{"user": "x", "call": []}]])
def test_what_is_no_golden_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        score_session(wrong, [])


def test_four_of_five_turns_pass_a_threshold_of_four_fifths() -> None:
    turns = tuple(Turn((RIGHT if number else WRONG,)) for number in range(5))
    result = score_session(golden(*[None] * 5, threshold=0.8), Session("s", turns))
    assert (result.verdict.exact, result.verdict.label) == (Fraction(4, 5), Label.PASS)
    assert score_session(golden(*[None] * 5), Session("s", turns)).verdict.label is Label.FAIL


class TestJoin:
    def test_without_keys_turns_join_by_their_position(self) -> None:
        result = score_session(golden(None, None), Session("s", (said("b", RIGHT), said("a", WRONG))))
        assert joins(result) == [(0, 0), (1, 1)]

    def test_with_keys_turns_join_by_user_text(self) -> None:
        session = Session("s", (said("b", WRONG), said("  a\n", RIGHT)))
        assert joins(score_session(golden("a", "b"), session)) == [(0, 1), (1, 0)]
        assert joins(score_session(golden("a", "b", turn_join="index"), session)) == [(0, 0), (1, 1)]

    def test_a_turn_id_beats_the_text(self) -> None:
        turns = (GoldenTurn((F,), user="a", turn_id="2"), GoldenTurn((F,), user="a", turn_id="1"))
        session = Session("s", (said("a", turn_id="1"), said("a", turn_id="2")))
        assert joins(score_session(Golden("s", turns), session)) == [(0, 1), (1, 0)]

    def test_repeated_texts_join_in_order(self) -> None:
        session = Session("s", (said("go"), said("other"), said("yes")))
        assert joins(score_session(golden("go", "yes", "other", "yes"), session)) == [
            (0, 0),
            (1, None),
            (2, 1),
            (3, 2),
        ]

    def test_texts_that_were_not_recorded_are_no_mismatch(self) -> None:
        session = Session("s", (said(None, RIGHT), said(None, RIGHT)))
        assert joins(score_session(golden("a", "b"), session)) == [(0, 0), (1, 1)]

    def test_what_has_no_key_joins_between_what_has(self) -> None:
        session = Session("s", (said("x"), said("b"), said(None), said("z")))
        assert joins(score_session(golden(None, "b", "c", None), session)) == [(0, 0), (1, 1), (2, 2), (3, 3)]

    def test_another_text_is_the_same_turn_where_the_counts_agree(self) -> None:
        result = score_session(golden("a"), Session("s", (said("b", RIGHT),)))
        assert joins(result) == [(0, 0)]
        assert result.verdict.exact == 1

    def test_another_text_is_another_turn_where_the_counts_differ(self) -> None:
        result = score_session(golden("a"), Session("s", (said("b", RIGHT), said("c", RIGHT))))
        assert (0, 0) not in joins(result)
        assert (0, 1) not in joins(result)
        assert result.verdict.exact == 0

    def test_by_key_alone_nothing_is_concluded_from_texts_that_were_not_recorded(self) -> None:
        strict = golden("a", "b", turn_join="key")
        result = score_session(strict, Session("s", (said("a", RIGHT), said(None, RIGHT))))
        assert joins(result) == [(0, 0), (1, None), (None, 1)]
        assert result.turns[1].verdict.reason is Reason.INPUT_MISSING
        assert result.verdict.label is Label.NOT_EVALUATED
        certain = score_session(strict, Session("s", (said("a", RIGHT), said("z", RIGHT))))
        assert certain.turns[1].verdict.label is Label.FAIL

    @given(
        st.lists(st.sampled_from([None, "a", "b"]), max_size=4), st.lists(st.sampled_from([None, "a", "b"]), max_size=5)
    )
    def test_joining_is_one_to_one_and_leaves_nothing_out(
        self, keys: list[str | None], texts: list[str | None]
    ) -> None:
        for how in ("auto", "key", "index"):
            wanted = golden(*keys, turn_join=how)
            found = joins(score_session(wanted, Session("s", tuple(map(said, texts)))))
            assert sorted(g for g, _ in found if g is not None) == list(range(len(keys)))
            assert sorted(t for _, t in found if t is not None) == list(range(len(texts)))


class TestMissingAndUnexpected:
    def test_a_turn_that_never_came_is_zero(self) -> None:
        result = score_session(golden(None, None), Session("s", (Turn((RIGHT,)),)))
        assert result.verdict.exact == HALF
        assert result.turns[1].turn is None
        assert result.turns[1].calls_missing == 1

    def test_or_not_evaluated_if_the_criterion_says_so(self) -> None:
        result = score_session(golden(None, None, missing_turns="not_evaluated"), Session("s", (Turn((RIGHT,)),)))
        assert (result.verdict.exact, result.verdict.label) == (1, Label.NOT_EVALUATED)
        assert result.verdict.reason is Reason.GOLDEN_NEVER_SEEN
        assert (result.turns_expected, result.turns_evaluated) == (2, 1)

    def test_or_left_out_while_turns_may_still_come(self) -> None:
        result = score_session(golden(None, None), Session("s", (Turn((RIGHT,)),)), final=False)
        assert joins(result) == [(0, 0)]
        assert result.verdict.label is Label.PASS

    def test_nothing_is_concluded_from_what_an_incomplete_session_lacks(self) -> None:
        result = score_session(golden(None, None), Session("s", (Turn(()),), incomplete=True))
        assert [turn.verdict.reason for turn in result.turns] == [Reason.INCOMPLETE, Reason.INCOMPLETE]
        assert result.verdict.reason is Reason.INCOMPLETE
        seen = score_session(golden(None), Session("s", (Turn((WRONG,)),), incomplete=True))
        assert seen.verdict.label is Label.FAIL

    def test_a_turn_the_golden_does_not_have_is_out_of_the_mean(self) -> None:
        result = score_session(golden(None), Session("s", (Turn((RIGHT,)), Turn((WRONG,)))))
        assert result.verdict.exact == 1
        assert result.turns[1].verdict.reason is Reason.TURN_NOT_EXPECTED
        assert [extra.verdict.reason for extra in result.turns[1].unexpected_calls] == [Reason.TURN_NOT_EXPECTED]

    def test_turns_of_which_nothing_is_expected_are_out_of_the_mean(self) -> None:
        wanted = Golden("s", (GoldenTurn((F,)), GoldenTurn(())))
        result = score_session(wanted, Session("s", (Turn((RIGHT,)), Turn((WRONG,)))))
        assert (result.verdict.exact, result.turns_expected) == (1, 1)
        nothing = score_session(Golden("s", (GoldenTurn(()),)), Session("s", (Turn((RIGHT,)),)))
        assert nothing.verdict.reason is Reason.NOTHING_EXPECTED

    def test_a_session_is_judged_by_what_its_unknown_calls_may_be(self) -> None:
        undecided = score_session(golden(None, None), Session("s", (Turn((RIGHT,)), Turn((LOST,)))))
        assert undecided.verdict.reason is Reason.ARGUMENTS_NOT_CAPTURED
        assert (undecided.verdict.exact, undecided.turns_evaluated) == (1, 1)
        failed = score_session(golden(None, None), Session("s", (Turn((WRONG,)), Turn((LOST,)))))
        assert (failed.verdict.exact, failed.verdict.label) == (0, Label.FAIL)


class TestWholeSession:
    TWO_TURNS = Session(
        "s",
        (
            Turn((RIGHT, ToolCall("g", batch=1)), SpanRef("t1", "r1"), ("t1",)),
            Turn((ToolCall("h", batch=1),), SpanRef("t2", "r2"), ("t2",), end=9),
        ),
    )

    def test_calls_of_all_turns_are_one_list(self) -> None:
        wanted = Golden("s", calls=(F, ExpectedCall("g"), ExpectedCall("h")))
        result = score_session(wanted, self.TWO_TURNS)
        assert result.verdict.exact == 1
        (turn,) = result.turns
        assert turn.turn is not None
        assert (turn.turn.root, turn.turn.trace_ids, turn.turn.end) == (SpanRef("t2", "r2"), ("t1", "t2"), 9)
        assert turn.calls[2].actual is self.TWO_TURNS.turns[1].calls[0]

    def test_batches_of_different_turns_are_different(self) -> None:
        wanted = Golden("s", calls=(F, ExpectedCall("h"), ExpectedCall("g")))
        assert score_session(wanted, self.TWO_TURNS).verdict.exact == Fraction(2, 3)

    def test_the_scope_may_flatten_a_golden_with_turns(self) -> None:
        turns = (GoldenTurn((F,)), GoldenTurn((ExpectedCall("g"), ExpectedCall("h"))))
        assert score_session(Golden("s", turns), self.TWO_TURNS).verdict.exact == Fraction(3, 4)
        flat = score_session(Golden("s", turns, criterion=Criterion(scope="session")), self.TWO_TURNS)
        assert (flat.verdict.exact, len(flat.turns)) == (1, 1)

    def test_it_is_not_judged_before_it_is_over(self) -> None:
        result = score_session(Golden("s", calls=(F,)), self.TWO_TURNS, final=False)
        assert result.turns == ()
        assert result.verdict.reason is Reason.INCOMPLETE

    def test_a_session_without_turns_lacks_everything(self) -> None:
        result = score_session(Golden("s", calls=(F,)), Session("s"))
        assert (result.verdict.exact, result.turns[0].turn) == (0, None)


class TestCriteria:
    def test_a_turn_and_a_call_may_be_judged_by_their_own(self) -> None:
        folded = Criterion(default_strategy="casefold_exact", threshold=0)  # type: ignore[arg-type]
        turns = (
            GoldenTurn((ExpectedCall("f", {"x": "a"}),), criterion=folded),
            GoldenTurn((ExpectedCall("f", {"x": "a"}, folded),)),
            GoldenTurn((ExpectedCall("f", {"x": "a"}),)),
        )
        session = Session("s", (Turn((ToolCall("f", {"x": "A"}),)),) * 3)
        result = score_session(Golden("s", turns), session)
        assert [turn.verdict.exact for turn in result.turns] == [1, 1, 0]

    def test_a_criterion_that_is_given_replaces_them_all(self) -> None:
        wanted = golden(None, default_strategy="contains", threshold=0)
        session = Session("s", (Turn((WRONG,)),))
        strict = score_session(wanted, session, {"threshold": 1})
        assert strict.verdict.label is Label.FAIL
        assert strict.criterion == Criterion.parse({"threshold": 1}).digest
        assert score_session(wanted, session).criterion == wanted.criterion.digest

    def test_the_goldens_threshold_judges_the_session_and_the_turns_own_its_turn(self) -> None:
        turns = (GoldenTurn((F, F), criterion=Criterion.parse({"threshold": 0.5})),)
        result = score_session(Golden("s", turns), Session("s", (Turn((RIGHT, WRONG)),)))
        assert (result.turns[0].verdict.label, result.verdict.label) == (Label.PASS, Label.FAIL)


def test_what_an_index_of_goldens_finds_is_understood() -> None:
    session = Session("s", (Turn((RIGHT,)),))
    assert score_session(None, session).verdict.reason is Reason.NO_GOLDEN
    assert score_session(Ambiguous((golden(), golden())), session).verdict.reason is Reason.AMBIGUOUS_GOLDEN
    confused = Session("t", (Turn((RIGHT,)),), ambiguous=True)
    assert score_session(None, confused).verdict.reason is Reason.SESSION_AMBIGUOUS


def test_a_golden_from_a_file_scores_like_one_made_in_code() -> None:
    index = load_goldens(
        {
            "format": 1,
            "golden_set": "g",
            "criterion": {"perArgStrategies": {"x": "numeric"}},
            "goldens": [{"session": "s", "turns": [{"calls": [{"name": "f", "args": {"x": "1"}}]}]}],
        }
    )
    found = index.find(Session("s"))
    assert score_session(found, Session("s", (Turn((RIGHT,)),))).verdict.exact == 1


PROGRAM = """
import json
from goldspan.scoring import score_sessions, Session, ToolCall, Turn
names = ["f", "g", "h"]
calls = tuple(ToolCall(names[n % 3], {"x": n % 2, "y": [n % 5, {"k": None}]}, batch=1 + n // 4) for n in range(12))
goldens = {"format": 1, "golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": [
    {"name": names[n % 3], "args": {"y": [(n + 1) % 5, {"k": None}], "x": n % 2}} for n in range(10)]}]}]}
for ordered in (True, False):
    criterion = {"ordered": ordered, "default_strategy": "contains"}
    result = score_sessions(goldens, [Session("s", (Turn(calls),))], criterion)
    print(json.dumps(result.to_json()), result)
"""


def test_the_same_input_gives_the_same_output_in_every_process() -> None:
    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout

    outputs = {run(seed) for seed in ("0", "1", "12345")}
    assert len(outputs) == 1
    assert '"aligned"' in outputs.pop()
