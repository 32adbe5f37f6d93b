"""Scores an actual value against an expected one: objects and lists part by part, matchers by themselves.

A plain value without rules for its parts does not come here: its strategy compares it as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

from goldspan.scoring.comparison import ONE, ZERO, canonical
from goldspan.scoring.json_values import Steps, is_mapping, is_sequence, pointer_to, value_at
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    Expected,
    ListWithMatchers,
    Matcher,
    ObjectWithMatchers,
    Part,
    holds_matchers,
)
from goldspan.scoring.sessions import JsonValue

if TYPE_CHECKING:
    from goldspan.scoring.argument_rules import ValueRule
    from goldspan.scoring.call_context import EarlierCalls


# Plain elements are counted, in linear time; where there are matchers, elements are paired as a bipartite matching.

MOST_ITEMS = 200
LONGEST_ACTUAL = 10_000


def included(
    expected: Sequence[Expected], actual: Sequence[JsonValue], rule: ValueRule, earlier: EarlierCalls | None
) -> list[Fraction | None]:
    """Return for each expected element whether it has a partner of its own in the actual list: 1, 0 or unknown."""
    if not any(map(holds_matchers, expected)):
        casefold = rule.strategy == "casefold_exact"
        left = Counter(canonical(item, casefold=casefold) for item in actual)
        found: list[Fraction | None] = []
        for item in expected:
            key = canonical(item, casefold=casefold)
            found.append(ONE if left[key] > 0 else ZERO)
            left[key] -= 1
        return found
    if len(actual) > LONGEST_ACTUAL:
        return [ZERO] * len(expected)
    return _matched(expected, actual, rule, earlier)


def _matched(
    expected: Sequence[Expected], actual: Sequence[JsonValue], rule: ValueRule, earlier: EarlierCalls | None
) -> list[Fraction | None]:
    sure: list[list[int]] = []
    possible: list[list[int]] = []
    for item in expected:
        yes: list[int] = []
        maybe: list[int] = []
        for index, value in enumerate(actual):
            score = score_of(item, value, rule, earlier)
            if score is None:
                maybe.append(index)
            elif score == 1:
                yes.append(index)
            if len(yes) >= len(expected):
                break  # one of so many is always left for it
        sure.append(yes)
        possible.append(yes + maybe)
    paired = _pair(sure)
    if len(paired) == len(expected) or sure == possible:
        return [ONE if row in paired else ZERO for row in range(len(expected))]
    perhaps = _pair(possible)
    return [None if row in perhaps else ZERO for row in range(len(expected))]


def _pair(candidates: Sequence[Sequence[int]]) -> set[int]:
    """Return rows that can be paired at once, each with its own candidate: as many as possible, early ones first."""
    owner: dict[int, int] = {}
    paired: set[int] = set()

    def free(row: int, seen: set[int]) -> bool:
        for column in candidates[row]:
            if column not in seen:
                seen.add(column)
                if column not in owner or free(owner[column], seen):
                    owner[column] = row
                    return True
        return False

    for row in range(len(candidates)):
        if free(row, set()):
            paired.add(row)
    return paired


MOST_DIFFERING = 10
DEEPEST = 100
"""How deep rules reach into a value; what is deeper is compared as a whole."""


def score_of(expected: Expected, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
    """Return how good an actual value, or `ABSENT`, is for an expected one; none where that is not known."""
    if isinstance(expected, Matcher) and not rule.by_leaf:
        return expected.score(actual, rule, earlier)
    if not has_parts(expected, rule):
        return ZERO if actual is ABSENT else rule.compare(expected, actual)
    return _combined(parts_of(expected, actual, rule, earlier), by_leaf=rule.by_leaf)


def has_parts(expected: Expected, rule: ValueRule) -> bool:
    """Whether a value is more than plain JSON to be compared as a whole."""
    if holds_matchers(expected):
        return True
    return bool((rule.parts or rule.by_leaf) and (is_mapping(expected) or is_sequence(expected)) and expected)


def parts_of(
    expected: Expected, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps = ()
) -> Iterator[Part]:
    """List what in a value is right or wrong by itself, in the order of the expected value."""
    if rule.counts and place:
        score = score_of(expected, actual, rule._replace(counts=False), earlier)
        yield Part(place, score, rule.weight)
    elif isinstance(expected, Matcher):
        yield from expected.parts(actual, rule, earlier, place)
    elif len(place) >= DEEPEST or not has_parts(expected, rule):
        yield Part(place, ZERO if actual is ABSENT else rule.compare(expected, actual))
    elif isinstance(expected, ObjectWithMatchers) or is_mapping(expected):
        yield from _of_object(fields_of(expected), actual, rule, earlier, place)
    elif rule.strategy == "contains":
        yield from _of_contained(items_of(expected), actual, rule, earlier, place)
    else:
        yield from _of_list(items_of(expected), actual, rule, earlier, place)


def differing(expected: Expected, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> tuple[str, ...]:
    """Return JSON Pointers to the first `MOST_DIFFERING` parts of an expected value that differ.

    None where it has no parts, or differs as a whole. What only the actual value has is not named: its keys are data.
    """
    by_leaf = rule._replace(by_leaf=True)
    if not has_parts(expected, by_leaf):
        return ()
    wrong = (
        part.place
        for part in parts_of(expected, actual, by_leaf, earlier)
        if part.expected and part.score != 1 and part.place
    )
    return tuple(map(pointer_to, islice(wrong, MOST_DIFFERING)))


def lacks(expected: Expected, actual: JsonValue, way: Steps) -> bool:
    """Whether a part that is expected, and not satisfied by absence, is not there."""
    for step in way:
        if isinstance(expected, ObjectWithMatchers) or is_mapping(expected):
            expected = fields_of(expected).get(step, ABSENT)
        elif isinstance(expected, ListWithMatchers) or is_sequence(expected):
            items = items_of(expected)
            expected = items[int(step)] if step.isdecimal() and int(step) < len(items) else ABSENT
        else:
            return False  # a matcher, or nothing that has parts
        if expected is ABSENT:
            return False
        actual = part_at(actual, step)
    return actual is ABSENT and not (isinstance(expected, Matcher) and expected.may_be_absent)


def part_at(actual: JsonValue, step: str) -> JsonValue:
    """Return what stands at a key or an index, else `ABSENT`."""
    try:
        return value_at(actual, (step,))
    except LookupError:
        return ABSENT


def fields_of(expected: Expected) -> Mapping[str, Expected]:
    """Return what an expected object holds."""
    return expected.fields if isinstance(expected, ObjectWithMatchers) else expected


def items_of(expected: Expected) -> Sequence[Expected]:
    """Return what an expected list holds."""
    return expected.items if isinstance(expected, ListWithMatchers) else expected


def rule_at(rule: ValueRule, step: str) -> ValueRule:
    """Return the rule for a part: its own, else what the one around it means for parts."""
    own = rule.parts.get(step)
    return rule.inside() if own is None else own


def _of_object(
    fields: Mapping[str, Expected], actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps
) -> Iterator[Part]:
    found: Mapping[Any, JsonValue] = actual if is_mapping(actual) else {}
    steps = ((name, value, found.get(name, ABSENT), rule_at(rule, name)) for name, value in fields.items())
    yield from _of_steps(steps, earlier, place, is_there=is_mapping(actual))
    if rule.strategy != "contains":
        for name in found:
            if name not in fields:
                yield Part((*place, str(name)), ZERO, expected=False)


def _of_list(
    items: Sequence[Expected], actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps
) -> Iterator[Part]:
    found: Sequence[JsonValue] = actual if is_sequence(actual) else ()
    steps = (
        (str(index), value, found[index] if index < len(found) else ABSENT, rule_at(rule, str(index)))
        for index, value in enumerate(items)
    )
    yield from _of_steps(steps, earlier, place, is_there=is_sequence(actual))
    for index in range(len(items), len(found)):
        yield Part((*place, str(index)), ZERO, expected=False)


def _of_steps(
    steps: Iterable[tuple[str, Expected, JsonValue, ValueRule]],
    earlier: EarlierCalls | None,
    place: Steps,
    *,
    is_there: bool,
) -> Iterator[Part]:
    wrong = False
    for step, expected, actual, rule in steps:
        for part in parts_of(expected, actual, rule, earlier, (*place, step)):
            wrong = wrong or part.score == 0
            yield part
    if not (is_there or wrong):
        yield Part(place, ZERO)  # nothing in it is missed, but it is no object or list itself


def _of_contained(
    items: Sequence[Expected], actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps
) -> Iterator[Part]:
    found: Sequence[JsonValue] = actual if is_sequence(actual) else ()
    for index, score in enumerate(included(items, found, rule.element(), earlier)):
        yield Part((*place, str(index)), score)
    if not is_sequence(actual):
        yield Part(place, ZERO)


def _combined(parts: Iterable[Part], *, by_leaf: bool) -> Fraction | None:
    """Return the score of a value from those of its parts.

    By leaf, that is their weighted mean. Otherwise parts with a weight count for so much beside the rest, which counts
    1 and is worth as little as the least of it.
    """
    total, points = ZERO, ZERO
    rest: Fraction | None = None
    known, has_rest, unknown_rest = True, False, False
    for _, score, weight, _ in parts:
        if weight is None and not by_leaf:
            has_rest = True
            if score is None:
                unknown_rest = True
            elif rest is None or score < rest:
                rest = score
            continue
        share = ONE if weight is None else weight
        total += share
        if score is None:
            known = False
        else:
            points += share * score
    if has_rest:
        total += 1
        if unknown_rest and rest != 0:
            known = False
        else:
            points += rest or ZERO
    if not known:
        return None
    return ONE if points == total else points / total if points else ZERO
