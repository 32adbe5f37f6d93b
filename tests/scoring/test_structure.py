"""What may be left out, what must not be done, what is free of order, and what else would do as well."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import (
    Capture,
    Criterion,
    ExpectedCall,
    Golden,
    GoldenTurn,
    Label,
    Reason,
    ScoringResult,
    Session,
    SessionResult,
    ToolCall,
    Turn,
    TurnResult,
    explain,
    score_session,
    score_turn,
)

HALF = Fraction(1, 2)


def must(name: str, /, **args: Any) -> ExpectedCall:
    return ExpectedCall(name, args)


def may(name: str, /, **args: Any) -> ExpectedCall:
    return ExpectedCall(name, args, optional=True)


def never(name: str, /, **args: Any) -> ExpectedCall:
    return ExpectedCall(name, args, forbidden=True)


def together(*names: str) -> list[ExpectedCall]:
    return [ExpectedCall(name, group=1) for name in names]


def did(name: str, /, **args: Any) -> ToolCall:
    return ToolCall(name, args)


def hidden(name: str) -> ToolCall:
    return ToolCall(name, None, Capture.NOT_CAPTURED)


def partly_hidden(name: str, /, **args: Any) -> ToolCall:
    captures = {argument: Capture.REDACTED for argument, value in args.items() if value is ...}
    return ToolCall(name, args, argument_captures=captures)


def verdict(result: TurnResult | SessionResult) -> tuple[object, ...]:
    return result.verdict.exact, result.verdict.label, result.verdict.reason


def in_turns(*turns: Sequence[ExpectedCall], **criterion: Any) -> Golden:
    return Golden("s", tuple(GoldenTurn(tuple(calls)) for calls in turns), criterion=Criterion(**criterion))


def session(*turns: Sequence[ToolCall]) -> Session:
    return Session("s", tuple(Turn(tuple(calls)) for calls in turns))


class TestOptional:
    def test_left_out_it_is_no_loss(self) -> None:
        result = score_turn([must("f"), may("g")], [did("f")])
        assert verdict(result) == (1, Label.PASS, None)
        assert (result.calls_expected, result.calls_aligned, result.calls_missing, len(result.calls)) == (1, 1, 0, 1)

    def test_made_it_is_scored_outside_the_mean_and_not_unexpected(self) -> None:
        result = score_turn([must("f"), may("g", x=1, y=2)], [did("f"), did("g", x=1, y=3)])
        assert verdict(result) == (1, Label.PASS, None)
        assert result.calls[1].verdict.exact == HALF
        assert result.calls[1].optional
        assert result.unexpected_calls == ()
        assert "optional and wrong: g" in explain(result)

    def test_it_saves_a_call_from_the_penalty_on_unexpected_ones(self) -> None:
        actual, criterion = [did("f"), did("g")], {"extra_calls": "penalize"}
        assert score_turn([must("f")], actual, criterion).verdict.exact == HALF
        assert score_turn([must("f"), may("g")], actual, criterion).verdict.exact == 1

    def test_it_never_takes_a_call_from_a_required_one(self) -> None:
        result = score_turn([may("f", x=1), must("f", x=2)], [did("f", x=1)])
        assert [(call.optional, call.aligned) for call in result.calls] == [(False, True)]
        assert result.verdict.exact == 0

    def test_it_keeps_its_place_in_the_order(self) -> None:
        result = score_turn([must("f"), may("g"), must("h")], [did("f"), did("h"), did("g")])
        assert verdict(result) == (1, Label.PASS, None)
        assert [call.actual.name for call in result.unexpected_calls if call.actual] == ["g"]

    def test_alone_nothing_is_expected(self) -> None:
        assert verdict(score_turn([may("f")], [did("f")])) == (None, Label.NOT_EVALUATED, Reason.NOTHING_EXPECTED)

    def test_a_session_that_leaves_it_out_passes_whole(self) -> None:
        result = score_session(in_turns([must("f"), may("g")], [may("g")]), session([did("f")], []))
        assert ScoringResult((result,)).passed


class TestForbidden:
    @pytest.mark.parametrize(
        ("forbidden", "violated"),
        [
            (never("f"), True),
            (never("*"), True),
            (never("f", x=1), True),
            (never("*", x=1), True),
            (never("f", x=1, y="b"), True),
            (never("f", x=2), False),
            (never("f", z=1), False),
            (never("g"), False),
            (never("*", x=2), False),
        ],
    )
    def test_a_violation_fails_the_turn_and_leaves_the_score(self, forbidden: ExpectedCall, violated: bool) -> None:
        result = score_turn([must("h"), forbidden], [did("h"), did("f", x=1, y="b")])
        assert verdict(result) == (1, Label.FAIL if violated else Label.PASS, None)
        assert [call.violates for call in result.violations] == [forbidden] * violated
        assert result.calls_expected == 1

    def test_without_arguments_it_means_calls_beside_the_expected_ones(self) -> None:
        expected = [must("f", x=1), may("g"), never("*")]
        assert score_turn(expected, [did("f", x=2), did("g")]).verdict.exact == 0
        assert score_turn(expected, [did("f", x=2), did("g")]).violations == ()
        assert score_turn(expected, [did("f", x=1), did("f", x=1)]).verdict.label is Label.FAIL

    def test_with_arguments_it_means_expected_calls_too(self) -> None:
        result = score_turn([must("pay", to="shop"), never("pay", amount=100)], [did("pay", to="shop", amount=100)])
        assert verdict(result) == (1, Label.FAIL, None)
        assert (result.calls[0].verdict.exact, result.calls[0].verdict.label) == (1, Label.FAIL)

    def test_the_criterion_decides_which_arguments_are_the_forbidden_ones(self) -> None:
        expected, actual = [never("f", city="PARIS")], [did("f", city="Paris")]
        assert score_turn(expected, actual).verdict.label is Label.PASS
        assert score_turn(expected, actual, {"default_strategy": "casefold_exact"}).verdict.label is Label.FAIL

    def test_an_argument_that_does_not_count_tells_forbidden_calls_apart_all_the_same(self) -> None:
        ignored = {"tools": {"f": {"args": {"city": {"weight": 0}}}}}
        assert score_turn([never("f", city="Rome")], [did("f", city="Paris")], ignored).verdict.label is Label.PASS
        assert score_turn([never("f", city="Rome")], [did("f", city="Rome")], ignored).verdict.label is Label.FAIL

    def test_alone_it_is_judged_without_a_score(self) -> None:
        assert verdict(score_turn([never("*")], [])) == (None, Label.PASS, None)
        assert verdict(score_turn([never("*")], [did("f")])) == (None, Label.FAIL, None)

    def test_it_fails_the_session_whatever_the_mean(self) -> None:
        golden = in_turns([must("f")], [must("f"), never("g")])
        result = score_session(golden, session([did("f")], [did("f"), did("g")]))
        assert verdict(result) == (1, Label.FAIL, None)
        assert not ScoringResult((result,)).passed

    def test_a_session_of_prohibitions_alone_passes_when_they_are_kept(self) -> None:
        golden = in_turns([never("*")], [never("g")])
        kept, broken = score_session(golden, session([], [did("f")])), score_session(golden, session([], [did("g")]))
        assert verdict(kept) == (None, Label.PASS, None)
        assert ScoringResult((kept,)).passed
        assert verdict(broken) == (None, Label.FAIL, None)

    @pytest.mark.parametrize(
        ("forbidden", "call", "label"),
        [
            (never("f", x=1), hidden("f"), Label.NOT_EVALUATED),
            (never("f"), hidden("f"), Label.FAIL),
            (never("f", x=1), partly_hidden("f", x=...), Label.NOT_EVALUATED),
            (never("f", x=1, y=1), partly_hidden("f", x=..., y=2), Label.PASS),
            (never("f", x=1), partly_hidden("f", x=1, y=...), Label.FAIL),
            (never("g", x=1), hidden("f"), Label.PASS),
        ],
    )
    def test_what_is_not_known_decides_only_where_it_matters(
        self, forbidden: ExpectedCall, call: ToolCall, label: Label
    ) -> None:
        result = score_turn([must("h"), forbidden], [did("h"), call])
        assert (result.verdict.exact, result.verdict.label) == (1, label)
        assert (result.verdict.reason is not None) is (label is Label.NOT_EVALUATED)

    def test_calls_that_could_not_be_seen_may_be_forbidden_ones(self) -> None:
        blind = Turn((did("h"),), calls_visible=False)
        assert verdict(score_turn([must("h"), never("f")], blind)) == (
            1,
            Label.NOT_EVALUATED,
            Reason.CALLS_NOT_VISIBLE,
        )
        assert score_turn([must("h"), never("f", x=1)], [did("h")]).verdict.label is Label.PASS

    def test_a_refused_request_is_no_call_unless_it_counts_as_one(self) -> None:
        refused = ToolCall("f", {}, requested=True, rejected=True)
        assert score_turn([never("f")], Turn((refused,))).verdict.label is Label.PASS

    def test_it_is_named_with_its_values_only_where_they_are_asked_for(self) -> None:
        result = score_turn([must("h"), never("pay", to="thief")], [did("h"), did("pay", to="thief", amount=1)])
        assert "forbidden: pay" in explain(result)
        assert explain(result.violations[0]) == "forbidden"
        session_result = score_session(in_turns([never("pay", to="thief")]), session([did("pay", to="thief")]))
        text = str(ScoringResult((session_result,)))
        assert '✗  -    pay  forbidden, but called  to="thief"' in text


class TestGroups:
    def test_order_is_free_inside_and_kept_outside(self) -> None:
        expected = [must("a"), *together("b", "c"), must("d")]
        assert score_turn(expected, [did(name) for name in "acbd"]).verdict.exact == 1
        assert score_turn(expected, [did(name) for name in "bacd"]).verdict.exact == Fraction(3, 4)
        assert score_turn(expected, [did(name) for name in "abdc"]).verdict.exact == Fraction(3, 4)

    def test_groups_of_different_turns_stay_apart_when_the_session_is_one_list(self) -> None:
        golden = in_turns(together("a", "b"), together("c", "d"), scope="session")
        assert score_session(golden, session([did("b"), did("a")], [did("d"), did("c")])).verdict.exact == 1
        assert score_session(golden, session([did("c"), did("d")], [did("a"), did("b")])).verdict.exact == HALF


def either(*alternatives: Sequence[ExpectedCall], **criterion: Any) -> Golden:
    first, *others = map(tuple, alternatives)
    return Golden("s", (GoldenTurn(first, alternatives=tuple(others)),), criterion=Criterion(**criterion))


class TestAlternatives:
    @pytest.mark.parametrize(
        ("actual", "chosen", "score"),
        [
            ([did("a")], 0, 1),
            ([did("b"), did("c")], 1, 1),
            ([did("b")], 1, HALF),
            ([did("x")], 0, 0),
            ([did("a"), did("b"), did("c")], 1, 1),
        ],
    )
    def test_the_best_counts_and_of_equals_the_one_with_more_pairs_then_the_first(
        self, actual: list[ToolCall], chosen: int, score: Fraction
    ) -> None:
        golden = either([must("a")], [must("b"), must("c")])
        whole = Golden("s", calls=(must("a"),), alternatives=((must("b"), must("c")),))
        for one in (golden, whole):
            [turn] = score_session(one, session(actual)).turns
            assert (turn.alternative, turn.verdict.exact) == (chosen, score)

    def test_of_two_that_are_right_the_one_that_leaves_fewer_calls_unexpected_counts(self) -> None:
        lists = [must("a")], [must("a"), may("b")]
        actual = [did("a"), did("b")]
        for index, golden in enumerate((either(*reversed(lists)), either(*lists))):
            [turn] = score_session(golden, session(actual)).turns
            assert (turn.alternative, turn.verdict.exact, turn.unexpected_calls) == (index, 1, ())

    def test_one_that_passes_beats_one_that_scores_more_and_is_forbidden(self) -> None:
        golden = either([must("a"), never("b")], [must("b"), must("c")], threshold=0.5)
        result = score_session(golden, session([did("a"), did("b")]))
        assert (result.turns[0].alternative, verdict(result)) == (1, (HALF, Label.PASS, None))

    def test_unknown_is_not_wrong_here_either(self) -> None:
        golden = either([must("a", x=1)], [must("b")])
        assert score_session(golden, session([hidden("a")])).verdict.label is Label.NOT_EVALUATED
        assert score_session(golden, session([hidden("a"), did("b")])).verdict.label is Label.PASS

    def test_turns_of_a_whole_session_combine(self) -> None:
        turns = (
            GoldenTurn((must("a"),), alternatives=((must("b"),),)),
            GoldenTurn((must("c"),), alternatives=((must("d"),),)),
        )
        golden = Golden("s", turns, criterion=Criterion(scope="session"))
        result = score_session(golden, session([did("b")], [did("c")]))
        assert (result.verdict.exact, result.turns[0].alternative) == (1, 2)

    @given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
    def test_the_order_of_alternatives_and_worse_ones_never_change_the_score(
        self, alternatives: list[list[str]], data: st.DataObject
    ) -> None:
        lists = [[must(name) for name in names] for names in alternatives]
        actual = session([did(name) for name in data.draw(st.lists(st.sampled_from("abc"), max_size=4))])
        best = score_session(either(*lists), actual)
        assert best.verdict.exact == max(score_session(either(one), actual).verdict.exact or 0 for one in lists)
        shuffled = score_session(either(*data.draw(st.permutations(lists))), actual)
        assert (shuffled.verdict, shuffled.turns[0].calls_aligned) == (best.verdict, best.turns[0].calls_aligned)


def test_plain_mappings_say_all_of_it() -> None:
    expected: list[dict[str, Any]] = [
        {"parallel": [{"name": "a"}, {"name": "b"}]},
        {"name": "c", "optional": True},
        {"name": "d", "forbidden": True},
    ]
    result = score_turn(expected, [{"name": "b"}, {"name": "a"}, {"name": "c"}])
    assert (verdict(result), len(result.calls)) == ((1, Label.PASS, None), 3)
    assert score_turn(expected, [{"name": "b"}, {"name": "a"}, {"name": "d"}]).verdict.label is Label.FAIL
    assert score_session(expected, [[{"name": "b"}, {"name": "a"}]]).verdict.exact == 1
