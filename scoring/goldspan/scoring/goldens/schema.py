"""The JSON Schema of the golden file, for editors: made of the declaration that also checks the file."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

from goldspan.scoring.criterion import Criterion
from goldspan.scoring.goldens.criteria import OF_A_CALL, OF_A_GOLDEN, OF_A_SET, OF_A_TURN
from goldspan.scoring.goldens.documents import MATCHER_SCHEMA, VALUE_SCHEMA, JsonSchema
from goldspan.scoring.goldens.golden_file import CALL, GOLDEN, GOLDEN_SET, GROUP, REPEAT, TURN
from goldspan.scoring.type_guards import is_mapping


def golden_set_schema() -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of a golden file in YAML or JSON.

    It says less than the loader: duplicate sessions, and criteria that go wrong only together, it cannot see.
    """
    criterion = Criterion.model_json_schema()
    blocks = criterion.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "goldspan golden set",
        "description": "What the sessions of an agent should have done: expected tool calls and their arguments.",
        **GOLDEN_SET.definition(),
        "$defs": {
            **{shape.name: shape.definition() for shape in (GOLDEN, TURN, CALL, GROUP, REPEAT)},
            "value": VALUE_SCHEMA,
            "matcher": MATCHER_SCHEMA,
            **{shape.name: shape.definition() for shape in (OF_A_SET, OF_A_GOLDEN, OF_A_TURN, OF_A_CALL)},
            **{name: _as_in_files(block) for name, block in {"Criterion": criterion, **blocks}.items()},
        },
    }


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
