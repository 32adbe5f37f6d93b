"""A golden's value as it is written, read once: matchers are made, and everything wrong is noted with its place.

An object with a key that begins with `$` is a matcher: exactly one such key, a known one, and its options beside it.
Anything else with such a key is refused, since it may be a matcher misspelled; `{$literal: ...}` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from goldspan.scoring.comparison import is_list, is_object
from goldspan.scoring.errors import MatcherError
from goldspan.scoring.matchers import (
    alternatives,
    from_result,
    literal,
    numbers,
    presence,
    regular_expressions,
    strategies,
    types,
    unordered,
)
from goldspan.scoring.matchers.escaping import dollar_keys, has_dollar_keys
from goldspan.scoring.matchers.family import Family, Where
from goldspan.scoring.matchers.matcher import Expected, HoldingList, HoldingObject, holds_matchers
from goldspan.scoring.rendering import shown
from goldspan.scoring.sessions import JsonValue

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        alternatives.ANY_OF,
        regular_expressions.REGEX,
        numbers.APPROX,
        strategies.CONTAINS,
        strategies.CASEFOLD,
        types.TYPE,
        presence.PRESENT,
        presence.ABSENT_,
        presence.IGNORE,
        unordered.UNORDERED,
        from_result.FROM_RESULT,
        literal.LITERAL,
    )
}
"""By name, in the order in which they are documented."""

DEEPEST = 100
_LITERAL = "write {$literal: ...} around what is to be passed as it is"


@dataclass(slots=True)
class Reader:
    """Reads values and notes what is wrong with them."""

    note: Callable[[Where, str], None]
    count: int = field(default=0, init=False)
    """How many mistakes were noted."""

    def mistake(self, where: Where, message: str) -> None:
        """Note one."""
        self.count += 1
        self.note(where, message)

    def read(self, value: JsonValue, where: Where) -> Expected:
        """Return what a value means; plain JSON is returned as it is, and None after a mistake."""
        if len(where) > DEEPEST:
            if has_dollar_keys(value):
                self.mistake(where[:3], f"found a matcher more than {DEEPEST} levels deep")
            return value
        if is_list(value):
            items = tuple(self.read(item, (*where, index)) for index, item in enumerate(value))
            same = all(mine is its for mine, its in zip(items, value, strict=True))
            return value if same else HoldingList(items) if any(map(holds_matchers, items)) else list(items)
        if not is_object(value):
            return value
        if keys := dollar_keys(value):
            return self._matcher(value, keys, where)
        fields = {name: self.read(item, (*where, name)) for name, item in value.items()}
        if all(fields[name] is item for name, item in value.items()):
            return value
        return HoldingObject(fields) if any(map(holds_matchers, fields.values())) else fields

    def _matcher(self, value: Mapping[str, JsonValue], keys: list[str], where: Where) -> Expected:
        if len(keys) > 1:
            both = " and ".join(shown(key) for key in keys[:3])
            self.mistake(where, f"found the keys {both} in one object, expected one matcher: nest them, or {_LITERAL}")
            return None
        [name] = keys
        family = FAMILIES.get(name)
        if family is None:
            near = get_close_matches(name.casefold().replace("-", "_"), FAMILIES, n=1)
            known = f"did you mean `{near[0]}`? Otherwise" if near else f"there are {', '.join(FAMILIES)};"
            self.mistake((*where, name), f"unknown matcher: {known} {_LITERAL}")
            return None
        options: dict[str, JsonValue] = {}
        for option, setting in value.items():
            if option in family.options:
                options[option] = setting
            elif option != name:
                self.mistake((*where, option), _unknown_option(option, family))
        before = self.count
        expected = family.read(value[name], options, where, self)
        return None if self.count > before else expected


def read_arguments(tool: str, args: Mapping[str, JsonValue]) -> Mapping[str, Expected]:
    """Return the arguments of an expected call given in code as they are meant; they themselves if all are plain.

    Raises MatcherError, which names every mistake.
    """
    if not any(map(has_dollar_keys, args.values())):
        return args
    mistakes: list[str] = []
    reader = Reader(lambda where, message: mistakes.append(f"{_path(where)}: {message}"))
    values = {name: reader.read(value, (name,)) for name, value in args.items()}
    if mistakes:
        raise MatcherError("\n".join(f"args of {tool}: {mistake}" for mistake in mistakes))
    return values


def _path(where: Where) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")


def _unknown_option(option: str, family: Family) -> str:
    near = get_close_matches(option, family.options, n=1)
    if near:
        return f"unknown option of {family.name}: did you mean `{near[0]}`?"
    allowed = f"only {', '.join(family.options)}" if family.options else "nothing"
    return f"found it beside {family.name}, which takes {allowed}: {_LITERAL}"
