"""Values of a golden file's fields: what is read from each, its JSON Schema, and what is said of a wrong one."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from goldspan.scoring.errors import CriterionError, MetricError
from goldspan.scoring.goldens.criteria_and_rules import Note
from goldspan.scoring.goldens.documents import JsonSchema, ValuePath, check_finite, found
from goldspan.scoring.goldens.golden import CallCount, MetricChoice, Operator, PresetChoice
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.matchers.reading import ValueReader
from goldspan.scoring.metrics.session_metrics import find_metric, metric_names, nearest_metric, threshold_of
from goldspan.scoring.presets.session_preset import choose_preset
from goldspan.scoring.sessions import JsonValue
from goldspan.scoring.verdict import MAIN_METRIC


def refused(message: str) -> PydanticCustomError:
    """Return the error that says why pydantic has to refuse a value."""
    return PydanticCustomError("mistake", "{message}", {"message": message})


class FieldMistakes(list[tuple[ValuePath, str]]):
    """The mistakes in one value; the ways begin there."""

    def add(self, path: ValuePath, message: str) -> None:
        """Note one."""
        self.append((path, message))

    def refuse(self) -> None:
        """Raise ValidationError if there are any."""
        if self:
            errors = [InitErrorDetails(type=refused(message), loc=path, input=None) for path, message in self]
            raise ValidationError.from_exception_data("golden file", errors)


def _arguments(value: JsonValue) -> JsonValue:
    if not is_mapping(value):
        raise refused(f"{found(value)}, expected an object of arguments by name, such as {{city: Paris}}")
    mistakes = FieldMistakes()
    reader = ValueReader(mistakes.add)
    for name, argument in value.items():
        check_finite(argument, (name,), mistakes.add)
        reader.read(argument, (name,))
    mistakes.refuse()
    return value


def _result(value: JsonValue) -> JsonValue:
    if value is None:
        raise refused("found null, expected a value: leave it out where nothing is expected")
    return _finite(value)


def _scalar(value: JsonValue) -> JsonValue:
    if not isinstance(value, str | int | float):
        raise refused(f"{found(value)}, expected text, a number, true or false")
    return _finite(value)


def _finite(value: JsonValue) -> JsonValue:
    mistakes = FieldMistakes()
    check_finite(value, (), mistakes.add)
    mistakes.refuse()
    return value


_COUNT = re.compile(r"(==|=|!=|<=|>=|<|>)\s*([0-9]{1,9})", re.ASCII)


def _count(value: JsonValue) -> CallCount:
    if type(value) is int and value >= 0:
        return CallCount("==", value)
    match = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise refused(f'{found(value)}, expected a number of calls, or text such as ">= 1"')
    operator = match.group(1)
    return CallCount("==" if operator == "=" else cast("Operator", operator), int(match.group(2)))


def read_aliases(value: JsonValue) -> dict[str, str]:
    """Return the tool of each alias."""
    if not is_mapping(value) or not value:
        raise refused(f"{found(value)}, expected an object such as {{get_weather: [weather.get]}}")
    mistakes, tools = FieldMistakes(), dict[str, str]()
    for tool, names in value.items():
        entries = [((tool, index), name) for index, name in enumerate(names)] if is_list(names) else [((tool,), names)]
        for path, alias in entries:
            if not isinstance(alias, str):
                quotes = ": put it in quotes" if isinstance(alias, bool | int | float) else ""
                mistakes.add(path, f"{found(alias)}, expected text{quotes}")
            elif not alias.strip():
                mistakes.add(path, f"{found(alias)}, expected text that is not blank")
            elif alias in value:
                mistakes.add(path, f"found {alias}, which has aliases itself: a tool has one name in goldens")
            elif tools.setdefault(alias, tool) != tool:
                mistakes.add(path, f"found {alias}, which is an alias of {tools[alias]} already")
    mistakes.refuse()
    return tools


def read_metrics(value: JsonValue, note: Note) -> tuple[MetricChoice, ...]:
    """Read a list of metrics, or thresholds by metric. Code is never imported: only names that are known count."""
    if is_list(value):
        entries: list[tuple[str | int, Any, Any]] = [(index, name, None) for index, name in enumerate(value)]
    elif is_mapping(value):
        entries = [(name, name, threshold) for name, threshold in value.items()]
    else:
        message = "expected a list of metrics such as [trajectory_f1], or thresholds by name: {trajectory_f1: 0.9}"
        note((), f"{found(value)}, {message}")
        return ()
    chosen: dict[str, MetricChoice] = {}
    for step, name, threshold in entries:
        if not isinstance(name, str):
            note((step,), f"{found(name)}, expected the name of a metric")
        elif ":" in name:
            advice = f"name a metric that is registered, or use `--metric {name}`"
            note((step,), f"{found(name)}: goldens are data and import nothing: {advice}")
        elif name == MAIN_METRIC:
            note((step,), f"{MAIN_METRIC} is always scored: set its threshold in `criterion`")
        elif name not in metric_names():
            note((step,), f"no metric is called {name}; {nearest_metric(name)}")
        else:
            least = None if threshold is None else _threshold(name, threshold, (step,), note)
            chosen[name] = MetricChoice(name, least)
    return tuple(chosen.values())


def _threshold(metric: str, value: JsonValue, path: ValuePath, note: Note) -> Fraction | None:
    if is_mapping(value):
        for name in value.keys() - {"threshold"}:
            note((*path, name), "unknown field: a metric has `threshold` alone")
        if "threshold" not in value:
            return None
        path, value = (*path, "threshold"), value["threshold"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        note(path, f"{found(value)}, expected a number: the least score that passes")
        return None
    try:
        return threshold_of(find_metric(metric), repr(value))
    except MetricError as error:
        note(path, str(error))
        return None


def _metrics(value: JsonValue) -> tuple[MetricChoice, ...]:
    mistakes = FieldMistakes()
    chosen = read_metrics(value, mistakes.add)
    mistakes.refuse()
    return chosen


def _preset(value: JsonValue) -> PresetChoice | None:
    if value is None:
        return None
    name = value.get("name") if is_mapping(value) else value
    if not isinstance(name, str):
        raise refused(f"{found(value)}, expected a preset's name, or an object of `name` and its options")
    options = {option: setting for option, setting in value.items() if option != "name"} if is_mapping(value) else {}
    try:
        choose_preset(name, options)
    except CriterionError as error:
        raise refused(str(error)) from None
    return PresetChoice(name, options)


Text = Annotated[str, Field(pattern=r"\S")]
Whole = Annotated[int, Field(ge=1)]
Arguments = Annotated[
    dict[str, Any],
    BeforeValidator(_arguments),
    WithJsonSchema({"type": "object", "additionalProperties": {"definition": "value"}}),
]
Result = Annotated[Any, BeforeValidator(_result), WithJsonSchema({"not": {"type": "null"}})]
Scalar = Annotated[Any, BeforeValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]
_OPERATION = {"type": "string", "pattern": r"^\s*(==|=|!=|<=|>=|<|>)\s*[0-9]{1,9}\s*$"}
_NUMBER_OF_CALLS: JsonSchema = {"anyOf": [{"type": "integer", "minimum": 0}, _OPERATION]}
Count = Annotated[CallCount, PlainValidator(_count), WithJsonSchema(_NUMBER_OF_CALLS)]
_TEXT = {"type": "string", "pattern": r"\S"}
_TEXTS: JsonSchema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
Aliases = Annotated[
    dict[str, str],
    PlainValidator(read_aliases),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _TEXTS}),
]
_METRIC = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
_OWN_THRESHOLD = {"type": "object", "properties": {"threshold": {"type": "number"}}, "additionalProperties": False}
_THRESHOLDS: JsonSchema = {
    "type": "object",
    "propertyNames": _METRIC,
    "additionalProperties": {"anyOf": [{"type": ["null", "number"]}, _OWN_THRESHOLD]},
}
Metrics = Annotated[
    tuple[MetricChoice, ...],
    PlainValidator(_metrics),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _METRIC}, _THRESHOLDS]}),
]
_OPTIONS: JsonSchema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
Preset = Annotated[
    PresetChoice | None, PlainValidator(_preset), WithJsonSchema({"anyOf": [{"type": ["null", "string"]}, _OPTIONS]})
]


def _globs(value: JsonValue) -> tuple[str, ...]:
    if not is_list(value) or not all(isinstance(one, str) and one.strip() for one in value):
        raise refused(f"{found(value)}, expected a list of tools such as [get_weather, search_*]")
    return tuple(value)


Globs = Annotated[tuple[str, ...], PlainValidator(_globs), WithJsonSchema({"type": "array", "items": _TEXT})]
OtherWrites = Literal["report", "forbid"]
Rules = Annotated[
    dict[str, Any],
    Field(min_length=1),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": {"definition": "rule"}}),
]
