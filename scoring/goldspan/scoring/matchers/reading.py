"""A golden's value as it is written, read once: matchers are made, and everything wrong is noted with its place.

An object with a key that begins with `$` is a matcher: exactly one such key, a known one, and its options beside it.
Anything else with such a key is refused, since it may be a matcher misspelled; `{$literal: ...}` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from goldspan.scoring.comparison import Strategy, ValueRule, comparison
from goldspan.scoring.errors import MatcherError
from goldspan.scoring.json_values import is_mapping, is_sequence, shown
from goldspan.scoring.matchers import matcher
from goldspan.scoring.matchers.kinds import matcher_kinds
from goldspan.scoring.sessions import JsonValue

MATCHER_KINDS = matcher_kinds()
"""Every matcher by its name."""
NAMES = tuple(sorted(MATCHER_KINDS))
"""Their names, sorted."""

_LITERAL = "write {$literal: ...} around what is to be passed as it is"


@dataclass(slots=True)
class ValueReader:
    """Reads values and notes what is wrong with them."""

    note: Callable[[matcher.ValuePath, str], None]
    count: int = field(default=0, init=False)
    """How many mistakes were noted."""

    def mistake(self, where: matcher.ValuePath, message: str) -> None:
        """Note one."""
        self.count += 1
        self.note(where, message)

    def read(self, value: JsonValue, where: matcher.ValuePath) -> matcher.Expected:
        """Return what a value means; plain JSON is returned as it is, and None after a mistake."""
        if len(where) > matcher.DEEPEST:
            if matcher.has_dollar_keys(value):
                self.mistake(where[:3], f"found a matcher more than {matcher.DEEPEST} levels deep")
            return value
        if is_sequence(value):
            items = tuple(self.read(item, (*where, index)) for index, item in enumerate(value))
            same = all(mine is its for mine, its in zip(items, value, strict=True))
            return (
                value
                if same
                else matcher.ListWithMatchers(items)
                if any(map(matcher.holds_matchers, items))
                else list(items)
            )
        if not is_mapping(value):
            return value
        if keys := matcher.dollar_keys(value):
            return self._matcher(value, keys, where)
        fields = {name: self.read(item, (*where, name)) for name, item in value.items()}
        if all(fields[name] is item for name, item in value.items()):
            return value
        return matcher.ObjectWithMatchers(fields) if any(map(matcher.holds_matchers, fields.values())) else fields

    def _matcher(self, value: Mapping[str, JsonValue], keys: list[str], where: matcher.ValuePath) -> matcher.Expected:
        if len(keys) > 1:
            both = " and ".join(shown(key) for key in keys[:3])
            self.mistake(where, f"found the keys {both} in one object, expected one matcher: nest them, or {_LITERAL}")
            return None
        [name] = keys
        kind = MATCHER_KINDS.get(name)
        if kind is None:
            near = get_close_matches(name.casefold().replace("-", "_"), MATCHER_KINDS, n=1)
            known = f"did you mean `{near[0]}`? Otherwise" if near else f"there are {', '.join(MATCHER_KINDS)};"
            self.mistake((*where, name), f"unknown matcher: {known} {_LITERAL}")
            return None
        options: dict[str, JsonValue] = {}
        for option, setting in value.items():
            if option in kind.options:
                options[option] = setting
            elif option != name:
                self.mistake((*where, option), _unknown_option(option, kind))
        before = self.count
        expected = kind.read(value[name], options, where, self)
        return None if self.count > before else expected


def read_arguments(tool: str, args: Mapping[str, JsonValue]) -> Mapping[str, matcher.Expected]:
    """Return the arguments of an expected call given in code as they are meant; they themselves if all are plain.

    Raises MatcherError, which names every mistake.
    """
    if not any(map(matcher.has_dollar_keys, args.values())):
        return args
    mistakes: list[str] = []
    reader = ValueReader(lambda where, message: mistakes.append(f"{_path(where)}: {message}"))
    values = {name: reader.read(value, (name,)) for name, value in args.items()}
    if mistakes:
        raise MatcherError("\n".join(f"args of {tool}: {mistake}" for mistake in mistakes))
    return values


def _path(where: matcher.ValuePath) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".")


def _unknown_option(option: str, kind: matcher.MatcherKind) -> str:
    near = get_close_matches(option, kind.options, n=1)
    if near:
        return f"unknown option of {kind.name}: did you mean `{near[0]}`?"
    allowed = f"only {', '.join(kind.options)}" if kind.options else "nothing"
    return f"found it beside {kind.name}, which takes {allowed}: {_LITERAL}"


def matches(value: JsonValue, actual: JsonValue, *, casefold: bool = False) -> bool:
    """Return whether a golden's value, a matcher or plain, matches an actual one, or `ABSENT`, without a criterion.

    What cannot be told, such as where a result is meant, and what is no right matcher, is no match.
    """
    reader = ValueReader(lambda _where, _message: None)
    expected = reader.read(value, ())
    strategy: Strategy = "casefold_exact" if casefold else "exact"
    return not reader.count and matcher.score_of(expected, actual, ValueRule(strategy, comparison(strategy)), None) == 1
