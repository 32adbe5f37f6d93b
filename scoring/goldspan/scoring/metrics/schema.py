"""`tool_parameter_schema`: the arguments of calls against the declared JSON Schema of the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec import Struct

from goldspan.scoring.json_values import is_mapping, is_sequence, plain, pointer_to, shown
from goldspan.scoring.metrics.call_scores import CallMetric, CallScore, RunningScore
from goldspan.scoring.sessions import NO_CONTENT, Capture, Session, ToolCall, Turn
from goldspan.scoring.tool_definitions import ToolsInForce, lists_of, schema_of, schemas_of
from goldspan.scoring.verdict import Finding, Reason, arguments_of, why_not_known

_TYPES = {
    "dict": "object", "float": "number", "double": "number", "tuple": "array", "list": "array", "str": "string",
    "int": "integer", "long": "integer", "bool": "boolean", "none": "null", "hashtable": "object", "char": "string",
}  # fmt: skip
"""Words for types: BFCL's, and Python's. Gemini writes JSON Schema's in capitals."""
_JSON_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_MOST_ERRORS = 20
_DEEPEST = 32


class ToolParameterSchema(CallMetric, frozen=True):
    """How many of the arguments that are present or required are valid by the tool's schema."""

    tools: Mapping[str, Mapping[str, Any]] | None = None
    """The schemas of all tools by name, as in `--tools`; None: those that telemetry declares."""
    name: str = "tool_parameter_schema"
    description: str = "The share of present and required arguments that are valid by the tool's JSON Schema."
    needs: frozenset[str] = frozenset(("tool_definitions",))
    threshold: Fraction | None = Fraction(1)

    def running(self, beside: Mapping[str, RunningScore] | None = None) -> RunningScore:  # noqa: ARG002 - its face
        """Return what judges one run while it grows."""
        return _RunningSchema(self.tools)


class _RunningSchema(RunningScore):
    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None) -> None:
        super().__init__("argument")
        self._everything = tools is not None
        self._tools = DeclaredTools(tools)

    def _begin(self, session: Session, same: int) -> int:
        return same if self._tools.update(session.turns, same) else 0

    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:  # noqa: ARG002
        tools, everything = self._tools, self._everything
        return [_judged(call, tools.schema_of(call, turn), len(tools.by_name), everything) for call in turn.calls]


class DeclaredTools:
    """The schemas that telemetry declares in a run that grows: in force for a call, and anywhere in the run."""

    def __init__(self, given: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """`given` schemas are all there are, whatever telemetry declares."""
        self._given = given
        self._in_force: tuple[Turn, ToolsInForce] | None = None
        self._found: dict[str, Mapping[str, Any]] = {}
        self._before: list[int] = []  # how many tools the turns before each turn declare
        self._last = NO_CONTENT

    @property
    def by_name(self) -> Mapping[str, Mapping[str, Any]]:
        """The schema of each tool that is declared anywhere; the first of a name counts."""
        return self._found if self._given is None else self._given

    def schema_of(self, call: ToolCall, turn: Turn) -> Mapping[str, Any] | None:
        """Return the schema of a call's tool by the list in force, else by any list of the run; None if none has it."""
        if self._given is None:
            if self._in_force is None or self._in_force[0] is not turn:
                self._in_force = turn, ToolsInForce(turn)
            if (schema := self._in_force[1].schema_of(call)) is not None:
                return schema
        return schema_of(call.alias or call.name, self.by_name)

    def update(self, turns: Sequence[Turn], same: int) -> bool:
        """Take in the turns, of which the first `same` are known. Return whether the schemas stayed what they were."""
        if self._given is not None:
            return True
        old = list(self._found.items())
        if same < len(self._before):
            while len(self._found) > self._before[same]:
                self._found.popitem()
            del self._before[same:]
            self._last = NO_CONTENT
        for turn in turns[same:]:
            self._before.append(len(self._found))
            for definitions in lists_of((turn,)):
                if definitions is not self._last:
                    self._last = definitions
                    for name, schema in schemas_of(definitions).items():
                        self._found.setdefault(name, schema)
        return old == list(self._found.items())


def declared_tools(session: Session, given: Mapping[str, Mapping[str, Any]] | None = None) -> DeclaredTools:
    """Return the tools that telemetry declares in a session, or those that are given in their place."""
    tools = DeclaredTools(given)
    tools.update(session.turns, 0)
    return tools


def _judged(call: ToolCall, schema: Mapping[str, Any] | None, declared: int, everything: bool) -> CallScore:  # noqa: FBT001
    if call.rejected:
        return CallScore(call, reason=Reason.NOTHING_EXPECTED)
    if call.capture is Capture.UNPARSABLE:
        finding = Finding("", "unparsable", "its arguments are no JSON object", failed=True)
        return CallScore(call, 0, 1, (finding,))
    arguments = arguments_of(call)
    if arguments is None:
        return CallScore(call, reason=why_not_known(call))
    if schema is None:
        never_ran = call.requested or call.error is not None
        if not declared or not (everything or never_ran):
            return CallScore(call, reason=Reason.INPUT_MISSING)
        message = f"no tool has this name among the {declared} declared ones"
        return CallScore(call, 0, max(1, len(arguments)), (Finding("", "unknown_tool", message, failed=True),))
    return _by_schema(call, arguments, schema)


def _by_schema(call: ToolCall, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> CallScore:
    rules = _rules_of(schema)
    if arguments and rules.closed and not rules.properties:
        return CallScore(call, reason=Reason.INPUT_MISSING)  # some instrumentations write no parameters
    findings = tuple(violations(arguments, schema, hidden=call.argument_captures))
    names = rules.required.union(arguments)
    wrong = {finding.path.split("/")[1] if finding.path else "" for finding in findings}
    if wrong:
        wrong &= {*(pointer_to([str(name)])[1:] for name in names), ""}
    judged = max(len(names), int(bool(wrong)))
    if not judged:
        return CallScore(call, reason=Reason.NOTHING_EXPECTED)
    return CallScore(call, judged - min(len(wrong), judged), judged, findings)


class _Rules(Struct, frozen=True):
    """What is looked up in a schema for each call."""

    schema: Mapping[str, Any]
    validator: Any
    properties: Mapping[str, Any]
    closed: bool  # it declares parameters, and says nothing of others: these are wrong
    required: frozenset[str]


_rules: dict[int, _Rules] = {}
"""By the schema's identity, which the value keeps alive. Telemetry's schemas are the same objects for the same text."""
_MOST_RULES = 512


def _rules_of(schema: Mapping[str, Any]) -> _Rules:
    found = _rules.get(id(schema))
    if found is None:
        properties, required = schema.get("properties"), schema.get("required")
        found = _Rules(
            schema,
            _validator_of(schema),
            properties if is_mapping(properties) else {},
            is_mapping(properties) and not any(key in schema for key in _OPEN),
            frozenset(name for name in (required if is_sequence(required) else ()) if isinstance(name, str)),
        )
        if len(_rules) >= _MOST_RULES:
            _rules.clear()
        _rules[id(schema)] = found
    return found


def violations(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], *, hidden: Mapping[str, Capture] | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with arguments by a schema, at most 20 findings; `hidden` arguments are not looked into.

    An argument that the schema does not declare is wrong, unless it says `additionalProperties`. A part of a schema
    that cannot be compiled, or refers to another document, finds nothing. Arguments of any shape are judged: what JSON
    cannot hold counts as text.
    """
    rules = _rules_of(schema)
    declared = rules.properties
    if rules.closed:
        for name in islice([name for name in arguments if name not in declared], _MOST_ERRORS):
            yield Finding(pointer_to([str(name)]), "unknown", _unknown(str(name), declared), failed=True)
    for error in () if rules.validator is None else _errors(rules.validator, arguments):
        path = pointer_to([str(step) for step in error.instance_path])
        kind = type(error.kind).__name__.removeprefix("ValidationErrorKind_")
        looked_into = path.split("/")[1] in hidden if path and hidden else False
        of_all_values = bool(hidden) and not path and kind not in ("Required", *_UNEXPECTED)
        if not looked_into and not of_all_values:
            yield from _findings(path, kind, error, declared)


_OPEN = ("additionalProperties", "patternProperties", "unevaluatedProperties", "anyOf", "oneOf", "allOf", "$ref")
_UNEXPECTED = ("AdditionalProperties", "UnevaluatedProperties")


def _errors(validator: Any, arguments: Mapping[str, Any]) -> list[Any]:
    try:
        return list(islice(validator.iter_errors(dict(arguments)), _MOST_ERRORS))
    except (ValueError, TypeError, OverflowError, RecursionError):  # no JSON: odd types, lone surrogates, nesting
        return list(islice(validator.iter_errors(plain(arguments)), _MOST_ERRORS))


def _findings(path: str, kind: str, error: Any, declared: Mapping[str, Any]) -> Iterator[Finding]:
    if kind == "Required":
        name = str(error.kind.property)
        yield Finding(f"{path}{pointer_to([name])}", "missing", "required, and not passed", failed=True)
    elif kind in _UNEXPECTED:
        for unexpected in islice(error.kind.unexpected, _MOST_ERRORS):
            words = _unknown(unexpected, {} if path else declared)
            yield Finding(f"{path}{pointer_to([unexpected])}", "unknown", words, failed=True)
    else:
        word = {"Type": "type", "Enum": "enum", "Constant": "enum", "Format": "format"}.get(kind, "value")
        rule, value = _rule(kind, error), shown(error.instance)
        yield Finding(path, word, rule, f"{rule}, found {value}", failed=True)


def _rule(kind: str, error: Any) -> str:
    if kind == "Type":
        return f"expected {' or '.join(error.kind.types)}"
    if kind == "Enum":
        return f"expected one of {shown(error.kind.options)}"
    if kind == "Format":
        return f"expected the format {error.kind.format}"
    if kind == "FalseSchema":
        return "the schema allows no value here"
    keyword = error.schema_path[-1] if error.schema_path else "schema"
    return f"the schema's rule `{keyword}` does not hold"


def _unknown(name: str, declared: Mapping[str, Any]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for failures only

    near = get_close_matches(name[:100], [str(one) for one in declared], n=1)
    return f"the schema has no such parameter: did you mean {near[0]}?" if near else "the schema has no such parameter"


def _validator_of(schema: Mapping[str, Any]) -> Any:
    try:
        return _validator(json.dumps(schema, default=str))
    except (TypeError, ValueError, RecursionError):  # nested too deep, or keys that are no names
        return None


@lru_cache(maxsize=512)
def _validator(text: str) -> Any:
    schema = plain_schema(json.loads(text))
    whole = _compiled(schema)
    if whole is not None or not is_mapping(schema.get("properties")):
        return whole
    named = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    sound = {
        name: part if _compiled({**named, **part} if is_mapping(part) else part) is not None else True
        for name, part in schema["properties"].items()
    }
    return _compiled({**schema, "properties": sound})


def _compiled(schema: Any) -> Any:
    from jsonschema_rs import Draft202012Validator, ValidationError  # noqa: PLC0415 - slow to load; with this metric only

    try:
        return Draft202012Validator(schema, validate_formats=True, retriever=_refuse)
    except (ValueError, TypeError, ValidationError, RecursionError):
        return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is another document, which is not read")


def plain_schema(schema: Any, depth: int = _DEEPEST) -> Any:
    """Return a schema in JSON Schema's own words: BFCL's and Gemini's types, `nullable` as a type."""
    if is_sequence(schema):
        return [plain_schema(one, depth - 1) for one in schema] if depth else []
    if not is_mapping(schema) or not depth:
        return schema if not is_mapping(schema) else True
    said: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _LITERAL:
            said[key] = value
        elif key in _NAMED and is_mapping(value):
            said[key] = {name: plain_schema(one, depth - 1) for name, one in value.items()}
        else:
            said[key] = plain_schema(value, depth - 1)
    if words := _types_of(said.pop("type", None)):
        said["type"] = words[0] if len(words) == 1 else words
    _drop_old_keywords(said)
    return _with_null(said) if said.pop("nullable", False) is True else said


def _drop_old_keywords(schema: dict[str, Any]) -> None:
    """Remove what earlier drafts meant otherwise: `required` and exclusive bounds that are booleans."""
    if not is_sequence(schema.get("required", ())):
        del schema["required"]
    for bound in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(schema.get(bound), bool):
            del schema[bound]


def _types_of(types: Any) -> list[str]:
    """Return the types that a schema names, in JSON Schema's words; none for `any` or a word that nobody knows."""
    named = [one.lower() for one in (types if is_sequence(types) else [types]) if isinstance(one, str)]
    words = [_TYPES.get(word, word) for word in named]
    return words if all(word in _JSON_TYPES for word in words) else []


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    types = schema.get("type")
    if types is None:
        return {"anyOf": [schema, {"type": "null"}]}
    schema["type"] = list(dict.fromkeys([*([types] if isinstance(types, str) else types), "null"]))
    if is_sequence(schema.get("enum")):
        schema["enum"] = [*schema["enum"], None]
    return schema


_LITERAL = ("enum", "const", "default", "examples", "example", "required", "dependentRequired", "description", "title")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values are schemas by name, so that a name is no keyword."""
