"""The JSON Schema of the golden file, for editors: made from the models that also check the file."""

from __future__ import annotations

from typing import Any, get_args

from pydantic.alias_generators import to_camel

from goldspan.scoring.comparison import Strategy
from goldspan.scoring.criterion import ArgumentRule, Criterion
from goldspan.scoring.goldens.criteria_and_rules import CALL_LEVEL, GOLDEN_LEVEL, OF_RULE, SET_LEVEL, TURN_LEVEL
from goldspan.scoring.goldens.documents import JsonSchema
from goldspan.scoring.goldens.golden_file import GoldenSetEntry
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.matchers.reading import MATCHER_KINDS

_MATCHER: JsonSchema = {
    "anyOf": [
        {
            "description": kind.about,
            "type": "object",
            "properties": {kind.name: kind.schema, **kind.options},
            "required": [kind.name],
            "additionalProperties": False,
        }
        for kind in MATCHER_KINDS.values()
    ]
}
_OF_RULES: JsonSchema = {
    name: {"$ref": f"#/$defs/rule_fields/properties/{name}"} for name in (*OF_RULE, *ArgumentRule.model_fields)
}
_RULE_FIELDS: JsonSchema = {
    "optional": {"type": "boolean", "description": "the argument may be left out"},
    "always": {"type": "boolean", "description": "each expected call of the tool has the argument, named or not"},
}
_RULE: JsonSchema = {
    "anyOf": [
        {"enum": list(get_args(Strategy))},
        {"type": "object", "minProperties": 1, "properties": _OF_RULES, "additionalProperties": False},
        *(
            {
                "description": f"{kind.about}; true is the golden's own value",
                "type": "object",
                "properties": {
                    **_OF_RULES,
                    kind.name: {"anyOf": [{"const": True}, kind.schema]},
                    **kind.options,
                    **(
                        {"together": {"type": "array", "items": {"type": "string"}}}
                        if "together" in kind.options
                        else {}
                    ),
                },
                "required": [kind.name],
                "additionalProperties": False,
            }
            for kind in MATCHER_KINDS.values()
        ),
    ]
}
_VALUE: JsonSchema = {
    "anyOf": [
        {"type": ["null", "boolean", "number", "string"]},
        {"type": "array", "items": {"$ref": "#/$defs/value"}},
        {
            "type": "object",
            "propertyNames": {"not": {"pattern": "^\\$"}},
            "additionalProperties": {"$ref": "#/$defs/value"},
        },
        {"$ref": "#/$defs/matcher"},
    ]
}


def golden_set_schema() -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of a golden file in YAML or JSON.

    It checks less than the loader: it cannot see duplicate sessions, nor criteria that are wrong only together.
    """
    criterion = Criterion.model_json_schema()
    blocks = criterion.pop("$defs", {})
    rule = blocks["ArgumentRule"]["anyOf"][1]
    entries = _with_references(GoldenSetEntry.model_json_schema())
    levels = (SET_LEVEL, GOLDEN_LEVEL, TURN_LEVEL, CALL_LEVEL)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://json.schemastore.org/goldspan-golden-set.json",
        **entries,
        "title": "goldspan golden set",
        "description": "What the sessions of an agent should have done: expected tool calls and their arguments.",
        "$defs": {
            **entries["$defs"],
            "value": _VALUE,
            "matcher": _MATCHER,
            "rule": _RULE,
            "rule_fields": {"properties": {**_RULE_FIELDS, **rule["properties"]}},
            **{level.definition_name: level.definition() for level in levels},
            **{name: _as_in_files(block) for name, block in {"Criterion": criterion, **blocks}.items()},
        },
    }


def _with_references(schema: Any) -> Any:
    """Refer to definitions that pydantic does not make; leave out titles, and defaults that are never written."""
    if is_list(schema):
        return [_with_references(one) for one in schema]
    if not is_mapping(schema):
        return schema
    written = {name: _with_references(one) for name, one in schema.items() if name not in ("title", "default")}
    if "definition" in written:
        written["$ref"] = f"#/$defs/{written.pop('definition')}"
    return written


def _as_in_files(schema: JsonSchema) -> JsonSchema:
    """Allow what inheritance adds to a block's own schema: null for "the default", and fields in camelCase."""
    written = dict(schema)
    if "anyOf" in schema:
        written["anyOf"] = [_as_in_files(one) for one in schema["anyOf"]]
    if "properties" in schema:
        fields = {name: _or_null(_as_in_files(one)) for name, one in schema["properties"].items()}
        written["properties"] = {
            spelling: {**one, "title": spelling}
            for name, one in fields.items()
            for spelling in dict.fromkeys((name, to_camel(name)))
        }
    if is_mapping(schema.get("additionalProperties")):
        written["additionalProperties"] = _or_null(schema["additionalProperties"])
    return written


def _or_null(schema: JsonSchema) -> JsonSchema:
    about: JsonSchema = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in about}
    choices = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {**about, "anyOf": [*(one for one in choices if one != {"type": "null"}), {"type": "null"}]}
