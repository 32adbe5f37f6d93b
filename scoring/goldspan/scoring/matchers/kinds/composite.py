"""Matchers that compare with values: `$any_of`, `$unordered`, `$common_keys`, `$casefold`, `$contains`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from goldspan.scoring.comparison import ONE, ZERO, ValueRule
from goldspan.scoring.json_values import Steps, is_mapping, is_sequence, shown
from goldspan.scoring.matchers.matcher import (
    ABSENT,
    MOST_ITEMS,
    VALUE,
    Asks,
    Expected,
    ListWithMatchers,
    Matcher,
    MatcherKind,
    MatcherReader,
    ObjectWithMatchers,
    Options,
    Part,
    ValuePath,
    asked_by,
    best_of,
    fields_of,
    holds_matchers,
    included,
    items_of,
    parts_of,
    score_of,
)
from goldspan.scoring.sessions import EarlierCalls, JsonValue


class AnyOf(Struct, Matcher, frozen=True):
    """Matches what one of its values matches."""

    values: tuple[Expected, ...]

    @property
    def may_be_absent(self) -> bool:
        """Whether one of its values may."""
        return any(isinstance(value, Matcher) and value.may_be_absent for value in self.values)

    @property
    def asks(self) -> Asks:
        """As much as its values."""
        return asked_by(*self.values)

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the best score; none where nothing is right and something is not known."""
        return best_of(score_of(value, actual, rule, earlier) for value in self.values)


def _read_any_of(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$any_of")
    if not is_sequence(value) or not value:
        reader.mistake(inside, f"found {shown(value)}, expected a list of at least one value")
        return None
    return AnyOf(tuple(reader.read(one, (*inside, index)) for index, one in enumerate(value)))


class Unordered(Struct, Matcher, frozen=True):
    """Matches a list whose elements can be paired with its own, one to one."""

    items: tuple[Expected, ...]
    together: Mapping[str, tuple[Expected, ...]]
    """Other arguments of the call whose elements belong to these, by position: one order holds for all of them."""

    @property
    def asks(self) -> Asks:
        """As much as its elements; of the call itself if others belong to them."""
        return max(asked_by(*self.items), Asks.CALLS if self.together else Asks.NOTHING)

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return 1 if all elements can be paired."""
        if not is_sequence(actual) or len(actual) != len(self.items):
            return ZERO
        items, found = self.items, actual
        if self.together:
            others = _lists_of(self.together, earlier, len(actual))
            if not isinstance(others, list):
                return others
            items = tuple(map(_row, zip(items, *self.together.values(), strict=True)))
            found = [list(row) for row in zip(actual, *others, strict=True)]
        scores = included(items, found, rule.element(), earlier)
        return ZERO if 0 in scores else None if None in scores else ONE

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List its elements; elements of the actual list without a partner are wrong parts."""
        if self.together:
            yield Part(place, self.score(actual, rule, earlier))
            return
        found: Sequence[JsonValue] = actual if is_sequence(actual) else ()
        scores = included(self.items, found, rule.element(), earlier)
        for index, score in enumerate(scores):
            yield Part((*place, str(index)), score)
        for index in range(len(self.items), len(found)):
            yield Part((*place, str(index)), ZERO, expected=False)
        if not is_sequence(actual):
            yield Part(place, ZERO)


def _lists_of(
    names: Iterable[str], earlier: EarlierCalls | None, length: int
) -> list[Sequence[JsonValue]] | Fraction | None:
    """Return the lists that a call passes for some arguments; 0 if one is no list of this length, none if unknown."""
    if earlier is None or earlier.call.arguments is None or any(map(earlier.call.argument_captures.get, names)):
        return None
    passed = [earlier.call.arguments.get(name) for name in names]
    lists = [one for one in passed if is_sequence(one) and len(one) == length]
    return lists if len(lists) == len(passed) else ZERO


def _row(items: tuple[Expected, ...]) -> Expected:
    return ListWithMatchers(items) if any(map(holds_matchers, items)) else list(items)


def _read_unordered(value: JsonValue, options: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$unordered")
    together: dict[str, tuple[Expected, ...]] = {}
    if not is_sequence(value):
        reader.mistake(inside, f"found {shown(value)}, expected a list")
        return None
    given = options.get("together", {})
    if not is_mapping(given):
        reader.mistake((*where, "together"), f"found {shown(given)}, expected {_TOGETHER}")
        return None
    by_keys = options.get("common_keys", False)
    if not isinstance(by_keys, bool):
        reader.mistake((*where, "common_keys"), f"found {shown(by_keys)}, expected true or false")
    items = _read_items(value, inside, reader)
    for name, others in given.items():
        if not is_sequence(others) or len(others) != len(items):
            expected = f"as many elements as the list that they belong to has: {len(items)}"
            reader.mistake((*where, "together", name), f"found {shown(others)}, expected {expected}")
        else:
            together[name] = _read_items(others, (*where, "together", name), reader)
    return Unordered(tuple(map(CommonKeys, items)) if by_keys else items, together)


def _read_items(value: Sequence[JsonValue], where: ValuePath, reader: MatcherReader) -> tuple[Expected, ...]:
    items = tuple(reader.read(one, (*where, index)) for index, one in enumerate(value))
    if len(items) > MOST_ITEMS and any(map(holds_matchers, items)):
        reader.mistake(where, f"found {len(items)} elements, expected at most {MOST_ITEMS} where some are matchers")
    return items


_TOGETHER = "an object of the other arguments, such as {quantities: [1, 2]}"


class _AroundValue(Struct, Matcher, frozen=True):
    value: Expected

    @property
    def asks(self) -> Asks:
        """As much as its value."""
        return asked_by(self.value)


class CommonKeys(_AroundValue, frozen=True):
    """Matches what its value matches, where every object is compared by the keys that its value has, at any depth."""

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the score without the keys that only the actual value has."""
        return score_of(self.value, _with_keys_of(self.value, actual), rule, earlier)

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List the parts of its value."""
        return parts_of(self.value, _with_keys_of(self.value, actual), rule, earlier, place)


def _with_keys_of(expected: Expected, actual: JsonValue) -> JsonValue:
    """Return the actual value without the keys of objects that the expected one does not have there."""
    if is_mapping(actual) and (isinstance(expected, ObjectWithMatchers) or is_mapping(expected)):
        fields = fields_of(expected)
        return {name: _with_keys_of(fields[name], value) for name, value in actual.items() if name in fields}
    if is_sequence(actual) and (isinstance(expected, ListWithMatchers) or is_sequence(expected)):
        items = items_of(expected)
        same = [_with_keys_of(mine, its) for mine, its in zip(items, actual, strict=False)]
        return [*same, *actual[len(same) :]]
    return actual


def _read_common_keys(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    inside = (*where, "$common_keys")
    if not is_mapping(value) and not is_sequence(value):
        reader.mistake(inside, f"found {shown(value)}, expected an object, or a list of objects")
        return None
    return CommonKeys(reader.read(value, inside))


class Not(_AroundValue, frozen=True):
    """Matches what was passed and its value does not match."""

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return 1 for another value."""
        score = ONE if actual is ABSENT else score_of(self.value, actual, rule, earlier)
        return None if score is None else ZERO if score == 1 else ONE


def _read_not(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
    return Not(reader.read(value, (*where, "$not")))


_Name = Literal["contains", "casefold_exact"]


class ByStrategy(_AroundValue, frozen=True):
    """Matches what its value matches by a strategy of its own."""

    strategy: _Name

    def score(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None) -> Fraction | None:
        """Return the score by that strategy."""
        return score_of(self.value, actual, rule.by(self.strategy), earlier)

    def parts(self, actual: JsonValue, rule: ValueRule, earlier: EarlierCalls | None, place: Steps) -> Iterator[Part]:
        """List the parts of its value."""
        return parts_of(self.value, actual, rule.by(self.strategy), earlier, place)


def _kind(name: str, strategy: _Name, about: str) -> MatcherKind:
    def read(value: JsonValue, _: Options, where: ValuePath, reader: MatcherReader) -> Expected:
        return ByStrategy(reader.read(value, (*where, name)), strategy)

    return MatcherKind(name, about, read, VALUE)


KINDS = (
    MatcherKind("$any_of", "one of these values", _read_any_of, {"type": "array", "minItems": 1, "items": VALUE}),
    MatcherKind("$not", "any other value than this one", _read_not, VALUE),
    _kind("$casefold", "casefold_exact", "this value, upper and lower case alike"),
    _kind(
        "$contains", "contains", "a value that contains this one: a substring, elements of a list, fields of an object"
    ),
    MatcherKind(
        "$unordered",
        "a list of these elements in any order, each as often as it stands here; `together`: other arguments whose "
        "elements belong to these; `common_keys`: objects in it are compared as by $common_keys",
        _read_unordered,
        {"type": "array", "items": VALUE},
        {
            "together": {"type": "object", "additionalProperties": {"type": "array", "items": VALUE}},
            "common_keys": {"type": "boolean"},
        },
    ),
    MatcherKind(
        "$common_keys",
        "this value, where objects are compared by the keys that stand here; other keys are free, at any depth",
        _read_common_keys,
        {"anyOf": [{"type": "object", "additionalProperties": VALUE}, {"type": "array", "items": VALUE}]},
    ),
)
