"""Expected values after reading: plain JSON, matchers, and objects and lists that hold matchers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, IntEnum, auto
from fractions import Fraction
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec import Struct

from goldspan.scoring.comparison import ONE, ZERO, ValueRule, canonical
from goldspan.scoring.json_values import Steps, is_mapping, is_sequence, pointer_to, value_at
from goldspan.scoring.sessions import EarlierCalls, JsonValue

Expected = Any
"""A JSON value, in which nothing is a matcher any more; a Matcher, a HoldingObject or a HoldingList."""


class Absence(Enum):
    """The type of `ABSENT`."""

    ABSENT = auto()


ABSENT: Final = Absence.ABSENT
"""In place of the actual value where none was passed."""


class Part(NamedTuple):
    """A part of an expected value that is right or wrong by itself."""

    place: Steps
    """The way to it from the argument."""
    score: Fraction | None
    """0 to 1; None where it is not known."""
    weight: Fraction | None = None
    """Where a rule gives it one."""
    expected: bool = True
    """False for what the actual value has and the expected one has not."""


class Asks(IntEnum):
    """How much of a session an expected value needs beside the value that was passed."""

    NOTHING = 0
    CALLS = 1
    """Its calls: their arguments, and when they were made."""
    CONTENT = 2
    """What its calls returned and its user said, too."""


class Matcher:
    """An expected value that matches more than itself. It is made when a golden is read and knows no criterion.

    A matcher is a frozen value: a dataclass, or a `Struct` of msgspec, which takes less time to define.
    """

    __slots__ = ()

    @property
    def asks(self) -> Asks:
        """How much of the session it needs."""
        return Asks.NOTHING

    @property
    def may_be_absent(self) -> bool:
        """Whether it is satisfied where nothing was passed."""
        return False

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return how good an actual value, or `ABSENT`, is: 0 to 1, none where that is not known.

        `rule` holds at this place: plain values inside the matcher are compared by its strategy.
        """
        raise NotImplementedError

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List what counts by itself where an argument is scored by its parts; most matchers are one part."""
        yield Part(place, self.score(actual, rule, earlier))


class ObjectWithMatchers(Struct, frozen=True):
    """An object with a matcher somewhere in it."""

    fields: Mapping[str, Expected]


class ListWithMatchers(Struct, frozen=True):
    """A list with a matcher somewhere in it."""

    items: tuple[Expected, ...]


def holds_matchers(expected: Expected) -> bool:
    """Whether a value that was read is a matcher or holds one."""
    return isinstance(expected, (Matcher, ObjectWithMatchers, ListWithMatchers))


def asked_by(*values: Expected) -> Asks:
    """Return how much of a session these values need."""
    most = Asks.NOTHING
    for value in values:
        if isinstance(value, Matcher):
            most = max(most, value.asks)
        elif isinstance(value, ObjectWithMatchers):
            most = max(most, asked_by(*value.fields.values()))
        elif isinstance(value, ListWithMatchers):
            most = max(most, asked_by(*value.items))
    return most


# How a matcher is written in a golden.

ValuePath = tuple[str | int, ...]
"""The way to a value: keys and indexes."""
Options = Mapping[str, JsonValue]
"""The other keys of the object, by name."""
JsonSchema = dict[str, Any]

VALUE: JsonSchema = {"$ref": "#/$defs/value"}
"""The JSON Schema of a value that may hold matchers."""


class MatcherReader(Protocol):
    """Reads the values inside a matcher, and notes mistakes."""

    def read(self, value: JsonValue, where: ValuePath) -> Expected:
        """Return what a value inside the matcher means."""
        ...

    def mistake(self, where: ValuePath, message: str) -> None:
        """Note one."""
        ...


class MatcherKind(NamedTuple):
    """One matcher of the golden file."""

    name: str
    about: str
    """What it matches: the description an editor shows."""
    read: Callable[[JsonValue, Options, ValuePath, MatcherReader], Expected]
    """Takes the value under the `$` key, the options, and the path of the object; returns the expected value."""
    schema: JsonSchema
    """The schema of the value under the `$` key."""
    options: Mapping[str, JsonSchema] = {}
    """The schemas of options beside it, by name."""


LITERAL = "$literal"


def dollar_keys(value: JsonValue) -> list[str]:
    """Return the keys of an object that begin with `$`; a golden means a matcher by them, rightly or wrongly."""
    keys = cast("Iterable[object]", value) if is_mapping(value) else ()
    return [key for key in keys if isinstance(key, str) and key.startswith("$")]


def escape_literal(value: JsonValue) -> JsonValue:
    """Return what to write in a golden for a value that an argument should have, so that nothing in it is a matcher.

    Every outermost object with a key that begins with `$` is wrapped in `{$literal: ...}`; other values stay as they
    are. The value is JSON, not nested deeper than Python can recurse.
    """
    if is_sequence(value):
        return [escape_literal(item) for item in value]
    if not is_mapping(value):
        return value
    if dollar_keys(value):
        return {LITERAL: value}
    return {key: escape_literal(item) for key, item in value.items()}


def has_dollar_keys(value: JsonValue) -> bool:
    """Whether an object with a key that begins with `$` stands anywhere in a value."""
    if value is None or isinstance(value, (str, int, float)):
        return False
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if is_sequence(item):
            waiting.extend(item)
        elif is_mapping(item):
            if dollar_keys(item):
                return True
            waiting.extend(item.values())
    return False


# The score of an actual value: objects and lists part by part, matchers by themselves. A plain value without rules for
# its parts does not come here: its strategy compares it as a whole.
#
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
        actual = part_at(actual, (step,))
    return actual is ABSENT and not (isinstance(expected, Matcher) and expected.may_be_absent)


def part_at(actual: JsonValue, steps: Steps) -> JsonValue:
    """Return what stands at the end of these keys and indexes, else `ABSENT`."""
    try:
        return value_at(actual, steps)
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
    weighted: list[tuple[Fraction, Fraction | None]] = []
    rest: list[Fraction | None] = []
    for _, score, weight, _ in parts:
        if weight is None and not by_leaf:
            rest.append(score)
        else:
            weighted.append((ONE if weight is None else weight, score))
    if rest:
        least = min((score for score in rest if score is not None), default=None)
        weighted.append((ONE, None if None in rest and least != 0 else least))
    total, points = ZERO, ZERO
    for weight, score in weighted:
        if score is None:
            return None
        total += weight
        points += weight * score
    return ONE if points == total else points / total if points else ZERO


def best_of(scores: Iterable[Fraction | None]) -> Fraction | None:
    """Return the best score of several possibilities; none where nothing is right and something is not known."""
    best, known = ZERO, True
    for score in scores:
        if score is None:
            known = False
        elif score > best:
            best = score
    return best if known or best == 1 else None
