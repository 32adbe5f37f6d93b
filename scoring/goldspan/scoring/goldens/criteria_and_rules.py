"""What a golden set lays down for its expected calls: criteria that they inherit, and rules for arguments.

Set, golden, turn and call inherit in this order: mappings merge by key, scalars and lists replace, null resets to the
default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

from goldspan.scoring.criterion import ArgumentRule, Block, Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.documents import JsonSchema, ValuePath, found, nearest
from goldspan.scoring.json_values import is_list, is_mapping, pointer_to
from goldspan.scoring.matchers.matcher import dollar_keys, has_dollar_keys
from goldspan.scoring.matchers.reading import MATCHER_KINDS, ValueReader
from goldspan.scoring.sessions import JsonValue

CriterionMapping = Mapping[str, JsonValue]
"""What a level and those above it set, in snake_case, without nulls: other fields have their default."""

_OF_A_CALL = (
    "match_mode",
    "default_strategy",
    "per_arg_strategies",
    "tools",
    "numeric_tolerance",
    "argument_score",
    "call_score",
    "extra_arguments",
    "failed_calls",
    "rejected_requests",
    "equality",
)
OF_WRITES = ("other_writes", "repeated_writes", "reads", "writes")
_OF_A_TURN = (*_OF_A_CALL, "ordered", "parallel_calls", "turn_score", "extra_calls", "threshold", *OF_WRITES)


Note = Callable[[ValuePath, str], None]
"""Takes the way to a value and what is wrong with it."""


class CriterionLevel(NamedTuple):
    """What `criterion` may set on one level: the fields that apply there or below."""

    name: str
    """With its article: `a turn`."""
    fields: tuple[str, ...]

    @property
    def definition_name(self) -> str:
        """Its name among the definitions of the JSON Schema."""
        return f"criterion of {self.name}".replace(" ", "_")

    def definition(self) -> JsonSchema:
        """Return its JSON Schema, with both spellings of each field."""
        properties: JsonSchema = {}
        for name in self.fields:
            one = {"$ref": f"#/$defs/Criterion/properties/{name}"}
            properties |= {name: one, to_camel(name): one}
        return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


SET_LEVEL = CriterionLevel("a golden set", tuple(Criterion.model_fields))
GOLDEN_LEVEL = CriterionLevel("a golden", tuple(Criterion.model_fields))
TURN_LEVEL = CriterionLevel("a turn", _OF_A_TURN)
CALL_LEVEL = CriterionLevel("a call", _OF_A_CALL)


def check_turn_of_whole_session(own: JsonValue, where: ValuePath, note: Note) -> None:
    """Note what a turn may not set where its golden is scored as a whole (`scope: session`): it has no turns."""
    if is_mapping(own):
        for name in own:
            if to_snake(name) in _OF_A_TURN and to_snake(name) not in _OF_A_CALL:
                note((*where, name), "does not apply to a turn with `scope: session`: set it for the golden")


def inherit(
    above: CriterionMapping, own: JsonValue, level: CriterionLevel, where: ValuePath, note: Note
) -> CriterionMapping:
    """Merge what a level sets into what it inherits, and note what is wrong with its own part.

    A value may be right or wrong only beside an inherited one, so the merged criterion is what is checked.
    """
    if own is None:
        return {}
    if not is_mapping(own):
        note(where, f"{found(own)}, expected an object such as {{ordered: false}}, or null for the default")
        return above
    for name in own:
        snake = to_snake(name)
        if snake in Criterion.model_fields and snake not in level.fields:
            note((*where, name), f"does not apply to {level.name}: set it for the golden or the golden set")
    merged = _merged(above, _in_full(own))
    inherited = set(_mistakes(above))
    for path, message in _mistakes(merged):
        if (path, message) not in inherited:
            note((*where, *_steps(own, path)), message)
    return merged


def criterion_mapping(criterion: Criterion | Mapping[str, Any] | None) -> CriterionMapping:
    """Return what a criterion given in code sets, for golden sets to inherit. Raises CriterionError."""
    return Criterion.parse(criterion).model_dump(exclude_unset=True)


def _mistakes(said: CriterionMapping) -> tuple[tuple[str, str], ...]:
    try:
        Criterion(**said)
    except CriterionError as error:
        return error.mistakes
    return ()


def _merged(above: CriterionMapping, own: CriterionMapping) -> CriterionMapping:
    result = dict(above)
    for name, value in own.items():
        inherited = result.pop(name, None)
        if is_mapping(value):
            result[name] = _merged(inherited if is_mapping(inherited) else {}, value)
        elif value is not None:
            result[name] = value
    return result


def _in_full(given: CriterionMapping) -> CriterionMapping:
    """Spell every field in snake_case and every short rule in full, so that levels can be merged by key."""
    fields = _in_snake_case(given, Criterion)
    tools = fields.get("tools")
    if is_mapping(tools):
        fields["tools"] = {tool: _rules_in_full(rules) for tool, rules in tools.items()}
    return fields


def _rules_in_full(rules: JsonValue) -> JsonValue:
    if not is_mapping(rules) or not is_mapping(arguments := rules.get("args")):
        return rules
    return {**rules, "args": {name: _rule_in_full(rule) for name, rule in arguments.items()}}


def _rule_in_full(rule: JsonValue) -> JsonValue:
    if isinstance(rule, str):
        return {"strategy": rule}
    return _in_snake_case(rule, ArgumentRule) if is_mapping(rule) else rule


def _in_snake_case(given: CriterionMapping, block: type[Block]) -> dict[str, JsonValue]:
    """Rename what is a field in camelCase; a field there in both spellings stays so, and is a mistake."""

    def name_of(key: str) -> str:
        snake = to_snake(key)
        is_field = snake in block.model_fields and to_camel(snake) == key
        return snake if is_field and snake not in given else key

    return {name_of(key): value for key, value in given.items()}


def _steps(value: JsonValue, path: str) -> ValuePath:
    """Find a dotted path of snake_case names in the value as it was written; keys may hold dots themselves."""
    if is_mapping(value):
        for name in sorted(value, key=len, reverse=True):
            for spelling in (name, to_snake(name)):
                if path == spelling or path.startswith(f"{spelling}."):
                    return (name, *_steps(value[name], path[len(spelling) + 1 :]))
    return ()


# Rules of a golden set for `tool.argument`: they are written into the expected calls when the set is read.
#
#     arguments: {refund.request_id: {$generated: uuid}, tag.tags: {$unordered: true}, send.body: {$key_facts: true}}
#
# makes `{name: tag, args: {tags: [a, b]}}` the same as `{name: tag, args: {tags: {$unordered: [a, b]}}}`: `true` is
# the golden's own value. So a rule costs nothing when sessions are scored, and every door has it.

_SAMPLES: tuple[JsonValue, ...] = ("2026-03-01", "a", 1, [], {}, ["a"])
"""Values that a golden may have: a rule is wrong if it fits none of them."""
_EVERY = "*"
OF_RULE = ("optional", "always")
"""Fields of a rule that are no matcher, and not the criterion's."""
_OF_CRITERION = tuple(ArgumentRule.model_fields)


class SetRule(NamedTuple):
    """A rule for an argument of a tool, or for a part of it."""

    tool: str
    argument: str
    path: tuple[str, ...]
    """The way to the part; `*` is every element of a list, or every field of an object."""
    matcher: Mapping[str, JsonValue]
    """The matcher and its options; empty: the golden's value."""
    optional: bool
    """The argument may be left out."""
    always: bool = False
    """Every expected call of the tool has the argument, whether its golden names it or not."""

    def written(self, value: JsonValue, args: Mapping[str, JsonValue]) -> JsonValue:
        """Return what to write in place of a golden's value at the place of the rule; itself if the rule fits not."""
        if has_dollar_keys(value):
            return value
        compared = with_value(self.matcher, value, args) if self.matcher else value
        mistakes: list[tuple[ValuePath, str]] = []
        _read(compared, mistakes)
        if mistakes:
            return value
        return {"$any_of": [compared, {"$absent": True}]} if self.optional else compared


def with_value(matcher: Mapping[str, JsonValue], value: JsonValue, args: Mapping[str, JsonValue]) -> JsonValue:
    """Return the matcher of a rule for a golden's value: it stands where the rule has `true`, and is one of `$any_of`.

    `args` has the other arguments of the call, which `together` names.
    """
    names = dollar_keys(matcher)
    if len(names) != 1 or names[0] not in MATCHER_KINDS:
        return matcher
    given, kind = matcher[names[0]], MATCHER_KINDS[names[0]]
    if names[0] == "$any_of" and is_list(given):
        given = [value, *(one for one in given if one != value)]
    elif given is True and kind.schema != {"const": True}:
        given = value
    together = matcher.get("together")
    others = {"together": {one: args.get(one) for one in together}} if is_list(together) else {}
    return {**matcher, names[0]: given, **others}


def _read(value: JsonValue, mistakes: list[tuple[ValuePath, str]]) -> None:
    ValueReader(lambda where, message: mistakes.append((where, message))).read(value, ())


class ArgumentRules:
    """The rules of a golden set, for its expected calls."""

    def __init__(self, rules: Sequence[SetRule] = ()) -> None:
        self._of_tool: dict[str, list[SetRule]] = {}
        for rule in rules:
            self._of_tool.setdefault(rule.tool, []).append(rule)
            for name in rule.matcher.get("together") or ():  # their order is free as well; the rule joins them
                other = rule._replace(argument=name, path=(), matcher={"$unordered": True})
                self._of_tool[rule.tool].append(other)

    def applied(self, tool: str, args: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the arguments of an expected call of a tool as the rules have them; matchers in them stay."""
        rules = self._of_tool.get(tool)
        if not rules:
            return args
        written = dict(args)
        for rule in sorted(rules, key=lambda one: -len(one.path)):
            if rule.always:
                _name(written, (rule.argument, *rule.path))
            if rule.argument in written:
                written[rule.argument] = _at(written[rule.argument], rule.path, rule, args)
        return written


def _name(args: dict[str, JsonValue], path: tuple[str, ...]) -> None:
    """Put null where a golden does not name an argument, or a field of an object that it names."""
    step, rest = path[0], path[1:]
    if not rest:
        args.setdefault(step, None)
    elif is_mapping(inner := args.get(step, {})) and not dollar_keys(inner):
        args[step] = inner = dict(inner)
        _name(inner, rest)


def _at(value: JsonValue, path: tuple[str, ...], rule: SetRule, args: Mapping[str, JsonValue]) -> JsonValue:
    """Return a value with what stands at the end of a path written as a rule has it."""
    if not path:
        return rule.written(value, args)
    step, rest = path[0], path[1:]
    if is_list(value):
        steps = range(len(value)) if step == _EVERY else [int(step)] if step.isdecimal() else []
        return [_at(one, rest, rule, args) if at in steps else one for at, one in enumerate(value)]
    if is_mapping(value) and not dollar_keys(value):
        return {name: _at(one, rest, rule, args) if step in (name, _EVERY) else one for name, one in value.items()}
    return value


# Reading.


class RulesOfSet(NamedTuple):
    """What a set's `arguments` say."""

    rules: ArgumentRules
    tools: Mapping[str, JsonValue]
    """What of them belongs in the criterion's `tools`."""
    keys: Mapping[tuple[str, str], str]
    """By tool and name in there, the key of the rule."""


NO_RULES = RulesOfSet(ArgumentRules(), {}, {})


def read_rules(
    given: Mapping[str, JsonValue], goldens: JsonValue, aliases: Mapping[str, str], note: Note
) -> RulesOfSet:
    """Read the rules of a set. One whose tool or argument no golden has is a mistake."""
    known = _arguments_in(goldens, aliases)
    rules: list[SetRule] = []
    tools: dict[str, dict[str, JsonValue]] = {}
    keys: dict[tuple[str, str], str] = {}
    for key, value in given.items():
        always = is_mapping(value) and value.get("always") is True
        place = _place_of(key, known, aliases, note, always=always)
        parts = _parts_of_rule(value, key, note)
        if place is None or parts is None:
            continue
        matcher, optional, of_criterion = parts
        tool, argument, path = place
        if matcher or optional:
            rules.append(SetRule(tool, argument, path, matcher, optional, always))
        if of_criterion:
            if _EVERY in path:
                note((key,), "`*` goes with a matcher alone: name an element by its index, or the whole argument")
            name = pointer_to((argument, *path)) if path or argument.startswith("/") else argument
            tools.setdefault(tool, {})[name] = of_criterion
            keys[tool, name] = key
    return RulesOfSet(ArgumentRules(rules), {tool: {"args": args} for tool, args in tools.items()}, keys)


def _parts_of_rule(
    value: JsonValue, key: str, note: Note
) -> tuple[Mapping[str, JsonValue], bool, Mapping[str, JsonValue]] | None:
    """Return the matcher of a rule, whether its argument is optional, and what belongs in the criterion."""
    if isinstance(value, str):
        return {}, False, {"strategy": value}
    if not is_mapping(value) or not value:
        note(
            (key,), f"{found(value)}, expected a matcher such as {{$unordered: true}}, or a rule such as {{weight: 2}}"
        )
        return None
    names = dollar_keys(value)
    kind = MATCHER_KINDS.get(names[0]) if len(names) == 1 else None
    of_criterion = {
        name: one for name, one in value.items() if name in _OF_CRITERION and not (kind and name in kind.options)
    }
    matcher = {name: one for name, one in value.items() if name not in OF_RULE and name not in of_criterion}
    mistakes = _mistakes_in_rule(value, matcher, names)
    for path, message in mistakes:
        note((key, *path), message)
    return None if mistakes else (matcher, value.get("optional") is True, of_criterion)


def _mistakes_in_rule(
    value: Mapping[str, JsonValue], matcher: Mapping[str, JsonValue], names: Sequence[str]
) -> list[tuple[ValuePath, str]]:
    """Return what is wrong with a rule; `names` are those that begin with `$` in its matcher."""
    mistakes = _mistakes_in(matcher) if names else []
    mistakes += [
        ((name,), f"{found(value[name])}, expected true or false")
        for name in OF_RULE
        if not isinstance(value.get(name, False), bool)
    ]
    if value.get("always") is True and not (names and matcher[names[0]] is not True):
        mistakes.append((("always",), "goes with a matcher that has its own value, such as {$generated: uuid}"))
    for name in () if names else matcher:
        near = nearest(name, [*OF_RULE, *_OF_CRITERION])
        known = ", ".join((*OF_RULE, *_OF_CRITERION))
        advice = f"did you mean `{near}`?" if near else f"a rule has a matcher, {known}"
        mistakes.append(((name,), f"unknown field: {advice}"))
    return mistakes


def _mistakes_in(matcher: Mapping[str, JsonValue]) -> list[tuple[ValuePath, str]]:
    """Return what is wrong with a matcher with the value that it fits best."""
    names = matcher.get("together")
    if "together" in matcher and not (is_list(names) and all(isinstance(one, str) for one in names)):
        return [(("together",), f"{found(names)}, expected a list of other arguments of the tool")]
    fewest: list[tuple[ValuePath, str]] | None = None
    for sample in _SAMPLES:
        mistakes: list[tuple[ValuePath, str]] = []
        value = with_value(matcher, sample, dict.fromkeys(names or (), sample))
        _read(value, mistakes)
        if fewest is None or len(mistakes) < len(fewest):
            fewest = mistakes
    return fewest or []


def _arguments_in(goldens: JsonValue, aliases: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the arguments that goldens name, by tool, at any depth of turns, groups and alternatives."""
    known: dict[str, set[str]] = {}
    waiting: list[Any] = [goldens]
    while waiting:
        one = waiting.pop()
        if is_list(one):
            waiting += one
        elif is_mapping(one):
            name = one.get("name")
            if isinstance(name, str):
                args = one.get("args", one.get("arguments"))
                known.setdefault(aliases.get(name, name), set()).update(args if is_mapping(args) else ())
            waiting += [one[field] for field in ("turns", "calls", "any_of", "parallel") if field in one]
    return known


_SURELY_MEANT = 0.8
"""How alike a name in a criterion is to one that goldens have, if it is that one misspelt: a set need not have each."""


def misspelt(criterion: JsonValue, goldens: JsonValue, aliases: Mapping[str, str], note: Note) -> None:
    """Note a tool or an argument in a set's criterion that no golden has, where one that goldens have was meant."""
    known = _arguments_in(goldens, aliases) if is_mapping(criterion) else {}
    every = {name for of_tool in known.values() for name in of_tool}
    for field in ("per_arg_strategies", "perArgStrategies"):
        for name in _inside(criterion, field):
            _check_name(name, every, (field, name), note)
    tools = _inside(criterion, "tools")
    for tool, rules in tools.items():
        _check_name(tool, {*known, *aliases}, ("tools", tool), note)
        for name in _inside(rules, "args"):
            _check_name(name, known.get(aliases.get(tool, tool), set()), ("tools", tool, "args", name), note)


def _inside(value: JsonValue, key: str) -> Mapping[str, JsonValue]:
    inside: JsonValue = value.get(key) if is_mapping(value) else None
    return inside if is_mapping(inside) else {}


def _check_name(name: JsonValue, known: set[str], where: ValuePath, note: Note) -> None:
    written = isinstance(name, str) and name not in known and name[:1] != "/"
    near = get_close_matches(name, known, n=1, cutoff=_SURELY_MEANT) if written else ()
    if near:
        note(where, f"no golden has {name}: did you mean `{near[0]}`?")


def _place_of(
    key: str, known: Mapping[str, set[str]], aliases: Mapping[str, str], note: Note, *, always: bool
) -> tuple[str, str, tuple[str, ...]] | None:
    """Return the tool, the argument and the path of a rule's key; the longest names that goldens have count."""
    names = {name: name for name in known} | dict(aliases)
    tools = [name for name in names if key.startswith(f"{name}.")]
    if not tools:
        tool = key.partition(".")[0]
        near = nearest(tool, sorted(names))
        advice = f"did you mean `{near}{key[len(tool) :]}`?" if near else "a rule has the key tool.argument"
        note((key,), f"no golden of this set calls {tool}: {advice}")
        return None
    tool = max(tools, key=len)
    rest, of_tool = key[len(tool) + 1 :], known.get(names[tool], set())
    arguments = [name for name in of_tool if rest == name or rest.startswith(f"{name}.")]
    argument = rest.partition(".")[0]
    if always and argument:
        arguments.append(argument)
    if not arguments:
        near = nearest(argument, sorted(of_tool))
        advice = f"did you mean `{tool}.{near}`?" if near else f"there are {', '.join(sorted(of_tool)) or 'none'}"
        note((key,), f"no golden of this set expects an argument {argument} of {tool}: {advice}")
        return None
    argument = max(arguments, key=len)
    path = rest[len(argument) + 1 :]
    return names[tool], argument, tuple(path.split(".")) if path else ()
