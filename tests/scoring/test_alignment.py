"""Alignment: what is best, by exhaustive search, and the traps that greedy ways fall into."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.scoring import Capture, ExpectedCall, ToolCall, score_turn
from goldspan.scoring.align import alignment
from goldspan.scoring.align.alignment import LIMIT, Alignment, Pair, align
from goldspan.scoring.align.groups import align_batches
from goldspan.scoring.comparison import ONE, exact

NAMES = "fg"
Scores = dict[tuple[int, int], Pair | None]


def by_exhaustion(
    expected: Sequence[str],
    actual: Sequence[str],
    pairs: Scores,
    ordered: bool,
    batches: Sequence[int] | None,
    groups: Sequence[int] | None = None,
    optional: Sequence[bool] | None = None,
) -> tuple[int | None, ...]:
    """The rule as it is worded, over every alignment there is."""
    rank: list[int] = []
    for index in range(len(actual)):
        batch = batches[index] if batches else 0
        rank.append(next((rank[i] for i in range(index) if batches and batch and batches[i] == batch), index))

    def together(row: int, other: int) -> bool:
        return groups is not None and len({*groups[row : other + 1]}) == 1 and groups[row] != 0

    def allowed(partners: list[int | None], column: int) -> bool:
        if column in partners:
            return False
        row = len(partners)
        return not ordered or all(
            partner is None or rank[partner] <= rank[column] or together(earlier, row)
            for earlier, partner in enumerate(partners)
        )

    def alignments(partners: list[int | None]) -> Iterator[list[int | None]]:
        row = len(partners)
        if row == len(expected):
            yield partners
            return
        yield from alignments([*partners, None])
        for column, name in enumerate(actual):
            if name == expected[row] and pairs[row, column] is not None and allowed(partners, column):
                yield from alignments([*partners, column])

    def worth(partners: list[int | None]) -> tuple[object, ...]:
        def of(may_lack: bool) -> list[object]:
            rows = [row for row in range(len(expected)) if (optional is not None and optional[row]) is may_lack]
            chosen = [pairs[row, column] for row in rows if (column := partners[row]) is not None]
            found = [pair for pair in chosen if pair is not None]
            return [
                -sum(pair.score for pair in found),
                -len(found),
                -sum(pair.known for pair in found),
                -sum(pair.successful for pair in found),
                -sum(pair.possible_gain for pair in found),
                -sum(pair.argument_score for pair in found),
            ]

        return (of(False), of(True), [len(actual) if partner is None else partner for partner in partners])

    return tuple(min(alignments([]), key=worth))


shares = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(1)])


def pair_of_means(share: Fraction, room: Fraction, successful: bool) -> Pair:
    room = min(room, 1 - share)
    return Pair(share, not room, successful, room, argument_score=share if room else Fraction(0))


def pair_of_all_or_nothing(share: Fraction, room: Fraction, successful: bool) -> Pair:
    room = Fraction(room == 1 and share < 1)
    return Pair(Fraction(share == 1), not room, successful, room, argument_score=share)


@st.composite
def problems(draw: st.DrawFn, most: int = 5) -> tuple[list[str], list[str], Scores, list[int]]:
    names = st.lists(st.sampled_from(NAMES), max_size=most)
    expected, actual = draw(names), draw(names)
    pairs: Scores = {}
    for row in range(len(expected)):
        make = draw(st.sampled_from([pair_of_means, pair_of_all_or_nothing]))
        for column in range(len(actual)):
            pairs[row, column] = draw(st.none() | st.builds(make, shares, shares, st.booleans()))
    batches: list[int] = []
    for _ in actual:
        joins = draw(st.booleans())
        previous = batches[-1] if batches else 0
        batches.append(draw(st.sampled_from([0, len(batches) + 1])) if not joins or not previous else previous)
    return expected, actual, pairs, batches


@given(problems(), st.booleans(), st.booleans())
def test_the_best_alignment_is_found_in_every_mode(
    problem: tuple[list[str], list[str], Scores, list[int]], ordered: bool, in_batches: bool
) -> None:
    expected, actual, pairs, numbers = problem
    batches = numbers if in_batches else None
    found = align(expected, actual, lambda row, column: pairs[row, column], ordered=ordered, batches=batches)
    assert found == Alignment(by_exhaustion(expected, actual, pairs, ordered, batches), approximate=False)


@st.composite
def turns_of_plain_calls(draw: st.DrawFn) -> tuple[list[ExpectedCall], list[ToolCall]]:
    """Calls of few tools and values; most actual ones are as expected, some are wrong, left out, added or swapped."""
    values = st.integers(0, draw(st.sampled_from([1, 3, 50])))
    arguments = st.fixed_dictionaries({"x": values, "y": values, "z": st.booleans()})
    expected = draw(st.lists(st.builds(ExpectedCall, st.sampled_from(NAMES), arguments), min_size=1, max_size=7))
    actual = [ToolCall(call.name, dict(call.args)) for call in expected]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(actual)))
        match draw(st.sampled_from(["wrong", "failed", "left out", "added", "swapped"])):
            case "added":
                actual.insert(place, ToolCall(draw(st.sampled_from(NAMES)), draw(arguments)))
            case "swapped":
                actual[place : place + 2] = reversed(actual[place : place + 2])
            case "left out":
                del actual[place : place + 1]
            case "failed":
                actual[place : place + 1] = [replace(call, error="timeout") for call in actual[place : place + 1]]
            case _:
                wrong = {draw(st.sampled_from("xyz")): draw(values)}
                actual[place : place + 1] = [
                    replace(call, arguments={**(call.args or {}), **wrong}) for call in actual[place : place + 1]
                ]
    return expected, actual


@pytest.mark.parametrize("few", [0, 150])
@given(turn=turns_of_plain_calls(), ordered=st.booleans())
@example(  # the call that is right was made twice: one of the two is free for the call that is wrong
    turn=(
        [ExpectedCall("f", {"x": 1, "y": y, "z": True}) for y in (1, 9)],
        [ToolCall("f", {"x": 1, "y": y, "z": True}) for y in (1, 1, 8)],
    ),
    ordered=False,
)
def test_pairs_that_are_not_scored_would_change_nothing(
    few: int, turn: tuple[list[ExpectedCall], list[ToolCall]], ordered: bool
) -> None:
    expected, actual = turn if ordered else (turn[0][:5], turn[1][:5])
    pairs: Scores = {}
    for row, wanted in enumerate(expected):
        for column, call in enumerate(actual):
            right = sum(exact(value, (call.args or {})[name]) for name, value in wanted.args.items())
            pairs[row, column] = Pair(Fraction(right, 3), successful=call.error is None)
    best = by_exhaustion([call.name for call in expected], [call.name for call in actual], pairs, ordered, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "_FEW", few)
        found = score_turn(expected, actual, {"ordered": ordered})
    assert tuple(call.actual_index if call.aligned else None for call in found.calls) == best


@given(problems(6), st.data(), st.booleans())
def test_groups_optional_calls_and_batches_together_are_aligned_as_the_rule_is_worded(
    problem: tuple[list[str], list[str], Scores, list[int]], data: st.DataObject, in_batches: bool
) -> None:
    expected, actual, pairs, numbers = problem
    batches = numbers if in_batches else None
    rows = len(expected)
    groups = data.draw(st.lists(st.sampled_from([0, 1, 1, 2]), min_size=rows, max_size=rows))
    optional = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    found = align(
        expected,
        actual,
        lambda row, column: pairs[row, column],
        batches=batches,
        groups=groups,
        optional=optional,
    )
    best = by_exhaustion(expected, actual, pairs, True, batches, groups, optional)
    assert found == Alignment(best, approximate=False)


@given(problems(6), st.data())
def test_where_too_much_is_free_of_order_what_is_found_is_allowed_and_flagged_unless_it_is_best(
    problem: tuple[list[str], list[str], Scores, list[int]], data: st.DataObject
) -> None:
    expected, actual, pairs, batches = problem
    groups = data.draw(st.lists(st.sampled_from([0, 1, 1, 2]), min_size=len(expected), max_size=len(expected)))

    def total(partners: Sequence[int | None]) -> Fraction:
        chosen = [pairs[row, column] for row, column in enumerate(partners) if column is not None]
        return sum((pair.score for pair in chosen if pair is not None), Fraction(0))

    best = by_exhaustion(expected, actual, pairs, True, batches, groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goldspan.scoring.align.groups._LARGEST", 0)
        found = align(expected, actual, lambda row, column: pairs[row, column], batches=batches, groups=groups)
    kept = {place: pair if found.partners[place[0]] == place[1] else None for place, pair in pairs.items()}
    assert by_exhaustion(expected, actual, kept, True, batches, groups) == found.partners
    assert total(found.partners) <= total(best)
    assert found.approximate or total(found.partners) == total(best)


@given(problems(6), st.data())
def test_in_any_order_and_in_one_group_the_order_of_actual_calls_changes_nothing(
    problem: tuple[list[str], list[str], Scores, list[int]], data: st.DataObject
) -> None:
    expected, actual, pairs, batches = problem
    order = data.draw(st.permutations(range(len(actual))))

    def total(columns: Sequence[int], **options: Any) -> tuple[Fraction, int]:
        found = align(
            expected, [actual[c] for c in columns], lambda row, column: pairs[row, columns[column]], **options
        )
        assert not found.approximate
        chosen = [pairs[row, columns[c]] for row, c in enumerate(found.partners) if c is not None]
        return sum((pair.score for pair in chosen if pair is not None), Fraction(0)), len(chosen)

    as_given = total(range(len(actual)), ordered=False)
    assert total(order, ordered=False) == as_given
    assert total(order, groups=[1] * len(expected), batches=batches) == as_given
    assert total(order, batches=[1] * len(actual)) == as_given


@given(st.data(), st.integers(0, 2))
def test_batches_of_many_calls_are_aligned_like_those_of_few(data: st.DataObject, few: int) -> None:
    """Beyond some calls a batch is matched as a whole: another algorithm, the same alignment, ties included."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    ends = list(accumulate(sizes))
    batches = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    weight = st.integers(0, data.draw(st.sampled_from([1, 2, 9])))
    row = st.lists(weight, min_size=ends[-1], max_size=ends[-1])
    weights = data.draw(st.lists(row, max_size=9))
    found = align_batches(weights, batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goldspan.scoring.align.groups._FEW", few)
        assert align_batches(weights, batches) == found


def aligned(table: list[list[int | None]], **options: object) -> tuple[int | None, ...]:
    """Align by a table of scores in quarters."""
    rows, columns = len(table), len(table[0])

    def judge(row: int, column: int) -> Pair | None:
        quarters = table[row][column]
        return None if quarters is None else Pair(Fraction(quarters, 4))

    return align(["f"] * rows, ["f"] * columns, judge, **options).partners  # type: ignore[arg-type]


def test_the_total_counts_before_the_number_of_pairs() -> None:
    # f1, f2, f3 against f2, f3, f9
    assert aligned([[0, 0, 0], [4, 0, 0], [0, 4, 0]]) == (None, 0, 1)


def test_in_any_order_the_first_partner_is_not_always_the_best() -> None:
    # f(1,1), f(1,2) against f(1,2), f(1,9)
    assert aligned([[2, 2], [4, 2]], ordered=False) == (1, 0)
    assert aligned([[2, 2], [4, 2]]) == (0, 1)


def test_a_retry_does_not_hide_the_call_that_was_right() -> None:
    assert aligned([[1, 4]]) == (1,)


def test_of_two_equal_calls_the_successful_one_is_chosen_else_the_first() -> None:
    def judge(row: int, column: int) -> Pair:
        return Pair(Fraction(1), successful=column != 0)

    assert align(["f"], ["f", "f", "f"], judge).partners == (1,)
    assert align(["f"], ["f", "f", "f"], lambda *_: Pair(Fraction(1))).partners == (0,)


def test_of_two_calls_with_unknown_arguments_the_successful_one_is_chosen() -> None:
    unknown = ToolCall("f", None, Capture.NOT_CAPTURED)
    result = score_turn([ExpectedCall("f", {"x": 1})], [replace(unknown, error="timeout"), unknown])
    assert result.calls[0].actual_index == 1


def test_unknown_arguments_come_after_known_ones() -> None:
    def judge(row: int, column: int) -> Pair:
        return Pair(Fraction(0), known=column == 1)

    assert align(["f"], ["f", "f"], judge).partners == (1,)


def test_order_is_free_inside_a_batch_only() -> None:
    swapped: list[list[int | None]] = [[None, 4], [4, None]]
    assert aligned(swapped, batches=[7, 7]) == (1, 0)
    assert aligned(swapped, batches=[7, 8]) == (1, None)
    assert aligned(swapped, batches=[0, 0]) == (1, None)


def test_order_is_free_inside_the_first_of_two_batches() -> None:
    half, third = Pair(Fraction(1, 2)), Pair(Fraction(1, 3))
    pairs = {(0, 1): half, (1, 0): half, (2, 2): half}
    found = align("fff", "fff", lambda row, column: pairs.get((row, column), third), batches=[1, 1, 2])
    assert found.partners == (1, 0, 2)


def test_inside_a_group_an_earlier_call_is_chosen_before_a_later_one() -> None:
    perfect = {(0, 1), (1, 0), (1, 2)}
    found = align("ff", "fff", lambda *pair: Pair(ONE if pair in perfect else Fraction(0)), groups=[1, 1])
    assert found.partners == (1, 0)


def test_beyond_the_limit_order_holds_too() -> None:
    found = align("f" * 200 + "g" * 5, "g" * 5 + "f" * 200, lambda _, __: Pair(ONE))
    assert found.approximate
    assert found.partners == (*range(5, 205), *[None] * 5)


def test_of_equal_calls_of_one_batch_the_first_is_chosen() -> None:
    assert align("f", "fff", lambda _, __: Pair(ONE), batches=[1, 1, 2]).partners == (0,)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_call_that_may_not_be_aligned_with_any_has_no_partner(ordered: bool) -> None:
    assert align("f", "fff", lambda _, __: None, ordered=ordered, batches=[1, 1, 2]).partners == (None,)


def test_right_calls_far_from_their_places_are_found_among_many_that_are_half_right() -> None:
    expected = [ExpectedCall("f", {"x": at, "y": 0, "z": 0}) for at in range(30)]
    actual = [ToolCall("f", {"x": at + 5, "y": 0, "z": 0}) for at in range(30)]
    assert score_turn(expected, actual).verdict.exact == Fraction(25, 30)  # 2/3 each where they stand


def test_batches_are_in_the_order_of_their_first_calls_whatever_their_tools() -> None:
    # g(batch 1), f(batch 2), f(batch 1): the second f was asked for first.
    def judge(row: int, column: int) -> Pair | None:
        return Pair(Fraction(1)) if (row, column) in {(0, 2), (1, 1)} else None

    assert align(["f", "f"], ["g", "f", "f"], judge, batches=[1, 2, 1]).partners == (2, 1)
    assert align(["f", "f"], ["g", "f", "f"], judge).partners == (2, None)


def pseudo_random(row: int, column: int) -> Fraction:
    return Fraction(hash((row, column)) % 1_009, 1_009)


ADVERSARIAL = {
    "few values": lambda row, column: Fraction((row * column) % 13, 12),
    "pseudo-random": pseudo_random,
    "product": lambda row, column: Fraction(row * column, LARGE * LARGE),
    "product against the order": lambda row, column: Fraction(row * (LARGE - column), LARGE * LARGE),
    "sum": lambda row, column: Fraction(row + column, 2 * LARGE),
    "all equal": lambda row, column: Fraction(1, 2),
}
LARGE = 200


@cache
def all_pairs(scores: Callable[[int, int], Fraction]) -> list[list[Pair]]:
    """All pairs, made once: that takes longer than to align them."""
    return [[Pair(scores(row, column)) for column in range(LARGE)] for row in range(LARGE)]


def in_a_whole_run(*values: int) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.exhaustive) for value in values]


@pytest.mark.parametrize("scores", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
@pytest.mark.parametrize("size", [0, 40, *in_a_whole_run(1, 7, 66, 200)], ids="batches_of_{}".format)
def test_two_hundred_by_two_hundred_is_exact_and_quick(size: int, scores: Callable[[int, int], Fraction]) -> None:
    batches = [1 + index // size if size else 0 for index in range(LARGE)]
    pairs = all_pairs(scores)
    started = time.process_time()
    found = align(["f"] * LARGE, ["f"] * LARGE, lambda row, column: pairs[row][column], batches=batches)
    assert not found.approximate
    assert time.process_time() - started < 5  # about 0.4 s at most on an idle machine


@pytest.mark.parametrize("groups", [5, *in_a_whole_run(0, 200)], ids="groups_of_{}".format)
@pytest.mark.parametrize("scores", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
def test_so_it_is_where_expected_calls_are_grouped(groups: int, scores: Callable[[int, int], Fraction]) -> None:
    numbers = [1 + index // groups if groups else 0 for index in range(LARGE)]
    pairs = all_pairs(scores)
    started = time.process_time()
    found = align(["f"] * LARGE, ["f"] * LARGE, lambda row, column: pairs[row][column], groups=numbers)
    assert not found.approximate
    assert time.process_time() - started < 10  # about a second at most on an idle machine


@pytest.mark.parametrize("groups", [5, 40], ids="groups_of_{}".format)
@pytest.mark.parametrize("size", [3, 40], ids="batches_of_{}".format)
def test_groups_and_batches_together_are_exact_while_small_and_bounded_beyond(groups: int, size: int) -> None:
    numbers = [1 + index // groups for index in range(LARGE)]
    batches = [1 + index // size for index in range(LARGE)]
    pairs = all_pairs(pseudo_random)
    started = time.process_time()
    found = align(["f"] * LARGE, ["f"] * LARGE, lambda row, column: pairs[row][column], batches=batches, groups=numbers)
    assert found.approximate is (max(size, groups) > 10)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("ordered", [True, False])
def test_beyond_the_limit_alignment_is_bounded_and_says_so(ordered: bool) -> None:
    calls = 1_000
    assert calls * calls > LIMIT
    names = [f"tool{index % 3}" for index in range(calls)]
    judged = 0

    def judge(row: int, column: int) -> Pair:
        nonlocal judged
        judged += 1
        return Pair(Fraction(row == column))

    found = align(names, names, judge, ordered=ordered)
    assert found.approximate
    assert found.partners == tuple(range(calls))
    assert judged < 10 * LIMIT


def test_calls_of_other_tools_never_count_towards_the_limit() -> None:
    actual = ["other"] * 100_000 + ["f"]
    assert align(["f"], actual, lambda *_: Pair(Fraction(1))) == Alignment((100_000,), approximate=False)


def test_scores_without_a_small_common_denominator_are_bounded_and_say_so() -> None:
    primes = [p for p in range(3, 6_000) if all(p % q for q in range(2, int(p**0.5) + 1))]
    rows = 30

    def judge(row: int, column: int) -> Pair:
        prime = primes[(row * rows + column) % len(primes)]
        return Pair(Fraction(prime - 1, prime))

    found = align(["f"] * rows, ["f"] * rows, judge, ordered=False)
    assert len(set(found.partners)) == rows
    assert found.approximate is True


@pytest.mark.parametrize(("actual", "approximate"), [(200, False), (201, True)])
def test_as_many_pairs_as_the_limit_are_exact_and_one_call_more_is_not(actual: int, approximate: bool) -> None:
    assert LIMIT == 200 * 200
    found = align(["f"] * 200, ["f"] * actual, lambda *_: Pair(Fraction(1)))
    assert found == Alignment(tuple(range(200)), approximate)


@pytest.mark.parametrize(("bits", "approximate"), [(4095, False), (4096, True)])
@pytest.mark.parametrize("field", ["score", "argument_score", "possible_gain"])
def test_the_largest_common_denominator_that_is_exact(field: str, bits: int, approximate: bool) -> None:
    smallest = replace(Pair(Fraction(1, 2)), **{field: Fraction(1, 1 << bits)})
    found = align(["f"] * 2, ["f"] * 3, lambda row, column: smallest if row == column else Pair(Fraction(1, 2)))
    assert found.approximate is approximate


def test_as_many_steps_as_the_limit_are_exact_for_groups_and_batches_and_one_more_is_not() -> None:
    groups, batches = [1, 1, 2, 2], [1, 1, 2, 2]
    scores = [[1, 2, 5, 1], [2, 1, 1, 5], [5, 1, 2, 1], [1, 5, 1, 2]]  # in any order more is possible
    steps = 4 * 6  # of each of two groups with each of two batches: so many ways to choose 2 of 4

    def found(most: int) -> Alignment:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("goldspan.scoring.align.groups._MOST_STEPS", most)
            return align(
                *(["f"] * 4, ["f"] * 4, lambda row, column: Pair(Fraction(scores[row][column], 10))),
                batches=batches,
                groups=groups,
            )

    assert not found(steps).approximate
    assert found(steps - 1).approximate
