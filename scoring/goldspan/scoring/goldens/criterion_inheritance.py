"""Criteria in golden files: what each level may set, and what it inherits.

Set, golden, turn and call inherit in this order: mappings merge by key, scalars and lists replace, null resets to the
default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel, to_snake

from goldspan.scoring.criterion import ArgumentRule, Block, Criterion
from goldspan.scoring.errors import CriterionError
from goldspan.scoring.goldens.documents import JsonSchema, ValuePath, found
from goldspan.scoring.json_values import is_mapping
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
