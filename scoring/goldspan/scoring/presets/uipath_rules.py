"""UiPath's four tool-call evaluators (uipath 2.14.44), with the layout of their justifications.

A call that does not cover the expected one is tried again for the next. Both sides empty is 1.0, one of them 0.0.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from goldspan.scoring.goldens.golden import ExpectedCall
from goldspan.scoring.json_values import is_dict, is_mapping, is_sequence
from goldspan.scoring.presets.inputs import InputMissingError, PresetOptions, items, plain_call, plain_calls
from goldspan.scoring.verdict import PresetResult

# The models bear UiPath's names because their `repr` and their validation errors are part of what is reproduced.

_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


class UiPathToolCall(BaseModel):
    """UiPath's tool call; an expected one must state its arguments."""

    model_config = ConfigDict(title="ToolCall")

    name: str
    args: dict[str, Any]
    id: str | None = None

    def __repr_name__(self) -> str:
        """Name it as UiPath's explanations do."""
        return "ToolCall"


class ToolOutput(BaseModel):
    """UiPath's tool output."""

    name: str
    output: str
    id: str | None = None


class EvaluationCriteria(BaseModel):
    """The ancestor of the four kinds of criteria."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ToolCallArgsEvaluationCriteria(EvaluationCriteria):
    """Calls with their arguments."""

    tool_calls: list[UiPathToolCall]


class ToolCallOrderEvaluationCriteria(EvaluationCriteria):
    """Names or ids in order."""

    tool_calls_order: list[str]


class ToolCallCountEvaluationCriteria(EvaluationCriteria):
    """For each name or id an operator and a number."""

    tool_calls_count: dict[str, tuple[str, int]]


class ToolCallOutputEvaluationCriteria(EvaluationCriteria):
    """Outputs by tool."""

    tool_outputs: list[ToolOutput]


def sanitized(name: str) -> str:
    """Reduce a tool name to what UiPath compares: white space to `_`, letters, digits, `_` and `-`, 64 characters."""
    return _DISALLOWED.sub("", "_".join(name.split()))[:_LONGEST_NAME]


def key_matches(name: str, tool_id: str | None, expected: str) -> bool:
    """Say whether a call is the one a criterion names: by id alone where the call has one, else by sanitised name."""
    if tool_id is not None:
        return expected == tool_id
    return sanitized(expected) == sanitized(name)


def tool_spans(actual: Sequence[object]) -> list[Mapping[str, Any]]:
    """List the attributes of what UiPath takes for tool calls, in the order given.

    Read are spans (anything with `attributes`), and calls as if they were spans. Spans without a `tool.name` and
    synthesized ones are no tool calls. Raises TypeError if something is neither.
    """
    found = [_attributes(one) for one in actual]
    return [attrs for attrs in found if attrs and not attrs.get("tool.synthesized") and attrs.get("tool.name")]


def read_call(attrs: Mapping[str, Any], *, with_args: bool) -> UiPathToolCall:
    """Read the call of a span. Raises ValidationError if an argument has a name that is no string."""
    args = _parse_args(attrs.get("input.value", {})) if with_args else {}
    return UiPathToolCall(name=str(attrs["tool.name"]), args=args, id=_tool_id(attrs))


def read_output(attrs: Mapping[str, Any]) -> ToolOutput:
    """Read the output of a span: of a JSON object its `content` alone, anything else as text."""
    output = _content(attrs.get("output.value", ""))
    return ToolOutput(name=str(attrs["tool.name"]), output=str(output) if output else "", id=_tool_id(attrs))


def _attributes(one: object) -> Mapping[str, Any]:
    attributes = one.get("attributes") if is_mapping(one) else getattr(one, "attributes", None)
    if is_mapping(attributes):
        return attributes
    call = plain_call(one)
    return {
        "tool.name": call.get("name"),
        "tool.id": call.get("id"),
        "input.value": call.get("args"),
        "output.value": call.get("output", ""),
    }


def _tool_id(attrs: Mapping[str, Any]) -> str | None:
    tool_id = attrs.get("tool.id")
    return None if tool_id is None else str(tool_id)


def _parse_args(value: object) -> dict[Any, Any]:
    """JSON, else a Python literal; whatever is no object counts as no arguments."""
    for parse in (json.loads, ast.literal_eval) if isinstance(value, str) else ():
        with suppress(SyntaxError, ValueError):
            value = parse(str(value))
            break
    return value if is_dict(value) else {}


def _content(output: object) -> object:
    if isinstance(output, str):
        try:
            parsed = json.loads(output)
        except ValueError:
            return output
        return parsed.get("content", "") if is_dict(parsed) else output
    return output.get("content", "") if is_dict(output) else str(output)


NAME = "uipath"

_Evaluator = Literal["args", "order", "count", "output"]
_Criteria = (
    ToolCallArgsEvaluationCriteria
    | ToolCallOrderEvaluationCriteria
    | ToolCallCountEvaluationCriteria
    | ToolCallOutputEvaluationCriteria
)
_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


class UiPathEvaluationError(Exception):
    """What UiPath raises over criteria."""


class UiPathOptions(PresetOptions):
    """Which evaluator, and its `evaluatorConfig`."""

    evaluator: _Evaluator = "args"
    """UiPath's own ids are accepted: `tool-call-args`, `uipath-tool-call-args`."""
    strict: bool = False
    subset: bool = False
    """Of `args`; has no effect, as in UiPath: extra arguments pass either way."""
    default_evaluation_criteria: Mapping[str, Any] | None = None
    criteria: Mapping[str, Any] | None = None
    """Evaluation criteria as UiPath writes them, instead of `expected`."""

    @field_validator("evaluator", mode="before")
    @classmethod
    def _by_id(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        kind = value.lower().replace("_", "-").removeprefix("uipath-").removeprefix("tool-call-")
        return kind if kind in _CRITERIA else value


class _Attempt(NamedTuple):
    """One comparison, with the key it has in the justification."""

    key: str
    actual: object
    expected: object
    score: float

    def __str__(self) -> str:
        return f"Actual: {self.actual}, Expected: {self.expected}, Score: {self.score}"


def score(expected: object, actual: object, options: UiPathOptions) -> PresetResult:
    """Score calls, or spans, against expected calls or criteria; what goes wrong with the spans scores 0.0.

    Raises InputMissingError for `output` without expected outputs, and UiPathEvaluationError where UiPath raises it.
    """
    criteria = _criteria(expected, options)
    try:
        evaluated, justification, attempts = _evaluate(criteria, tool_spans(items(actual)), strict=options.strict)
    except Exception as problem:  # noqa: BLE001 - UiPath makes a result of whatever an evaluator raises
        text = f"Exception thrown by evaluator: {problem}"
        return PresetResult(NAME, 0.0, status="ERROR", per_call=(), explanation=text, error=text)
    per_call = tuple({"key": attempt.key, "score": attempt.score} for attempt in attempts)
    return PresetResult(NAME, evaluated, status="NUMERICAL", per_call=per_call, explanation=justification)


_Evaluated = tuple[float, dict[str, Any], list[_Attempt]]


def _evaluate(criteria: _Criteria, spans: list[Mapping[str, Any]], *, strict: bool) -> _Evaluated:
    if isinstance(criteria, ToolCallArgsEvaluationCriteria):
        calls = [read_call(span, with_args=True) for span in spans]
        return _by_value(calls, criteria.tool_calls, outputs=False, strict=strict)
    if isinstance(criteria, ToolCallOutputEvaluationCriteria):
        made = [read_output(span) for span in spans]
        return _by_value(made, criteria.tool_outputs, outputs=True, strict=strict)
    calls = [read_call(span, with_args=False) for span in spans]
    if isinstance(criteria, ToolCallOrderEvaluationCriteria):
        return _order(calls, criteria.tool_calls_order, strict=strict)
    return _count(calls, criteria.tool_calls_count, strict=strict)


_OF_ARGUMENTS = ("explained_tool_calls_args", "tool calls")
_OF_OUTPUTS = ("explained_tool_calls_outputs", "tool calls outputs")


def _by_value(
    made: Sequence[UiPathToolCall | ToolOutput],
    wanted: Sequence[UiPathToolCall | ToolOutput],
    *,
    outputs: bool,
    strict: bool,
) -> _Evaluated:
    """Compare arguments, or outputs, of which the strict evaluator stops at the first that is wrong."""
    explained, what = _OF_OUTPUTS if outputs else _OF_ARGUMENTS
    if not wanted or not made:
        return _empty(wanted, made, explained, what)
    attempts: list[_Attempt] = []
    used: set[int] = set()
    tries: dict[str, int] = {}
    for want in wanted:
        for index, one in enumerate(made):
            if index in used or not _same_tool(one, want):
                continue
            found, value = _value(one), _value(want)
            right = found == value if outputs else _covers(found, value)
            attempts.append(_Attempt(_next_key(one.name, tries), found, value, float(right)))
            if right:
                used.add(index)
                break
            if outputs and strict:
                return 0.0, _justification(wanted, made, explained, attempts[-1:]), attempts[-1:]
        else:
            if outputs and strict:
                none = {"_result": f"No matching actual tool call found for expected {want.name}"}
                return 0.0, {**_justification(wanted, made, explained, []), explained: none}, []
    share = float(len(used) == len(wanted)) if strict else len(used) / len(wanted)
    return share, _justification(wanted, made, explained, attempts), attempts


def _covers(args: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(key in args and args[key] == value for key, value in wanted.items())


def _value(one: UiPathToolCall | ToolOutput) -> Any:
    return one.output if isinstance(one, ToolOutput) else one.args


def _order(calls: list[UiPathToolCall], wanted: list[str], *, strict: bool) -> _Evaluated:
    def found(common: list[str], value: float) -> _Evaluated:
        justification = {"expected": str(wanted), "actual": str([_own_key(call) for call in calls]), "lcs": common}
        return value, justification, []

    if not wanted or not calls:
        return found([], 0.0 if wanted or calls else 1.0)
    if strict:
        same = len(calls) == len(wanted) and all(map(_is_named, calls, wanted))
        return found(wanted if same else [], float(same))
    common = _longest_common(calls, wanted)
    return found(common, len(common) / len(wanted))


def _longest_common(calls: list[UiPathToolCall], wanted: list[str]) -> list[str]:
    """Find a longest common subsequence: of several the one UiPath finds, which on a tie drops an expected key."""
    lengths = [[0] * (len(wanted) + 1) for _ in range(len(calls) + 1)]
    for i, call in enumerate(calls):
        for j, key in enumerate(wanted):
            lengths[i + 1][j + 1] = (
                lengths[i][j] + 1 if _is_named(call, key) else max(lengths[i][j + 1], lengths[i + 1][j])
            )
    common: list[str] = []
    i, j = len(calls), len(wanted)
    while i and j:
        if _is_named(calls[i - 1], wanted[j - 1]):
            common.append(wanted[j - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common[::-1]


def _count(calls: list[UiPathToolCall], wanted: dict[str, tuple[str, int]], *, strict: bool) -> _Evaluated:
    explained = "explained_tool_calls_count"
    counts = dict(Counter(map(_own_key, calls)))
    if not wanted or not counts:
        return _empty(wanted, counts, explained, "tool calls")
    attempts: list[_Attempt] = []
    total = 0.0
    for tool, (comparison, number) in wanted.items():
        count = counts[tool] if tool in counts else counts.get(sanitized(tool), 0)
        attempts.append(_Attempt(tool, count, number, float(_OPERATORS[comparison](count, number))))
        if strict and not attempts[-1].score:
            return 0.0, _justification(wanted, counts, explained, attempts[-1:]), attempts[-1:]
        total += attempts[-1].score
    return total / len(wanted), _justification(wanted, counts, explained, attempts), attempts


def _same_tool(actual: UiPathToolCall | ToolOutput, want: UiPathToolCall | ToolOutput) -> bool:
    wanted_id = want.name if want.id is None else want.id
    return key_matches(actual.name, actual.id, want.name if actual.id is None else wanted_id)


def _is_named(call: UiPathToolCall, key: str) -> bool:
    return key_matches(call.name, call.id, key)


def _own_key(call: UiPathToolCall) -> str:
    return call.name if call.id is None else call.id


def _next_key(name: str, tries: dict[str, int]) -> str:
    """`name_N`: N counts the comparisons with calls of that name, not the expected calls."""
    tries[name] = tries.get(name, -1) + 1
    return f"{name}_{tries[name]}"


def _justification(wanted: object, actual: object, explained: str, attempts: list[_Attempt]) -> dict[str, Any]:
    return {
        "expected": str(wanted),
        "actual": str(actual),
        explained: {attempt.key: str(attempt) for attempt in attempts},
    }


def _empty(wanted: object, actual: object, explained: str, what: str) -> _Evaluated:
    both = not wanted and not actual
    result = f"{'Both expected and' if both else 'Either expected or'} actual {what} are empty"
    justification = {**_justification(wanted, actual, explained, []), explained: {"_result": result}}
    return float(both), justification, []


_CRITERIA: dict[_Evaluator, tuple[type[_Criteria], str]] = {
    "args": (ToolCallArgsEvaluationCriteria, "tool_calls"),
    "order": (ToolCallOrderEvaluationCriteria, "tool_calls_order"),
    "count": (ToolCallCountEvaluationCriteria, "tool_calls_count"),
    "output": (ToolCallOutputEvaluationCriteria, "tool_outputs"),
}


def _criteria(expected: object, options: UiPathOptions) -> _Criteria:
    model, field = _CRITERIA[options.evaluator]
    default = None
    if options.default_evaluation_criteria is not None:
        default = _validated(model, dict(options.default_evaluation_criteria))
    given = expected if options.criteria is None else dict(options.criteria)
    if given is not None:
        return _validated(model, _as_criteria(given, field, options.evaluator))
    if default is not None:
        return default
    raise UiPathEvaluationError("No evaluation criteria provided and no default evaluation criteria configured")


def _validated(model: type[_Criteria], given: object) -> _Criteria:
    try:
        return model.model_validate(given)
    except ValidationError as invalid:
        raise UiPathEvaluationError(f"Error: {invalid}") from invalid


def _check_results(expected: Sequence[object]) -> None:
    if any(isinstance(one, ExpectedCall) and one.result is None for one in expected):
        raise InputMissingError("expected outputs: the `result` of each of the golden's calls")


def _as_criteria(given: object, field: str, evaluator: _Evaluator) -> object:
    """Turn expected calls into the criteria the evaluator wants; criteria, and what is neither, stay as they are."""
    if is_mapping(given):
        bare = evaluator == "count" and not {"tool_calls_count", "toolCallsCount"} & given.keys()
        return {field: dict(given)} if bare else dict(given)
    if not is_sequence(given):
        return given
    entries = list(given)
    if evaluator == "output":
        _check_results(entries)
    keys = [one for one in entries if isinstance(one, str)]
    calls = [] if keys else plain_calls(entries)
    if evaluator in {"args", "output"} and not keys:
        return {field: calls}
    keys += [cast("str", call.get("name")) for call in calls]
    return {field: keys if evaluator == "order" else {key: ("==", keys.count(key)) for key in keys}}
