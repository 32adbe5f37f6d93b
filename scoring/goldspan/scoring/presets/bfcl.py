"""BFCL's `ast_checker` for Python functions (bfcl-eval 2026.3.23): valid or not.

Each expected call in turn takes the first that fits, without going back, so that overlapping alternatives can take
the wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pydantic import field_validator

from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.presets.inputs import InputMissingError, PlainCall, PresetOptions, checked_arguments, plain_calls
from goldspan.scoring.verdict import PresetResult, Reason, judged, not_evaluated

# Types are exact (`True` is no integer), but an integer passes for a float, and a value of the type of the golden's own
# alternatives passes whatever was declared: BFCL takes it for a variable's name.

TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
"""The Python type of each type a Python function may declare."""

NESTED = frozenset({"array", "tuple"})
"""Declared types whose items are checked too."""

_PUNCTUATION = re.compile(r"[ \,\.\/\-\_\*\^]")


class Fault(NamedTuple):
    """Why a value, a call or a list of calls is not valid, in BFCL's words."""

    error_type: str
    errors: list[Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a function declares of a parameter."""

    declared: str
    item: type | None = None
    """The type of the items, where they are checked."""


def check_argument(name: str, value: Any, alternatives: Sequence[Any], parameter: Parameter) -> Fault | None:
    """Find what is wrong with a passed argument; none if it is valid.

    Raises KeyError if the declared type is no type of a Python function. Raises TypeError if the alternatives do not
    have the form the type asks for; BFCL fails on them too.
    """
    expected: Any = TYPES[parameter.declared]
    if parameter.declared == "tuple" and type(value) is tuple:
        value = [*value]
    if parameter.declared == "float" and type(value) is int:
        value = float(value)
    if fault := _check_type(name, value, alternatives, parameter, expected):
        return fault
    own = type_of(alternatives)
    is_variable = type(value) is not expected or (own is not None and own is not expected)
    if not is_variable and expected is dict:
        return _check_object(value, alternatives)
    if not is_variable and expected is list and parameter.item is dict:
        return _check_objects(value, alternatives)
    return _check_value(name, value, alternatives, None if is_variable else expected)


def _check_value(name: str, value: Any, alternatives: Sequence[Any], kind: Any) -> Fault | None:
    """Find whether a value is one of the alternatives: as text and as a list with what BFCL compares, else as it is."""
    text = f"Invalid value for parameter {name!r}: {value!r}. Expected one of {alternatives}."
    if kind is str:
        fits = _plain(value) in [_plain(one) for one in alternatives if type(one) is str]
        return None if fits else Fault("value_error:string", [f"{text} Case insensitive."])
    if kind is list:
        fits = [_plain(one) for one in value] in [[_plain(one) for one in alternative] for alternative in alternatives]
        return None if fits else Fault("value_error:list/tuple", [text])
    return None if value in alternatives else Fault("value_error:others", [text])


def type_of(alternatives: Sequence[Any]) -> type | None:
    """Find the type of the first alternative that is more than the mark of an optional argument."""
    first: list[object] = [one for one in alternatives if one != ""][:1]
    return type(first[0]) if first else None


def _check_type(
    name: str, value: Any, alternatives: Sequence[Any], parameter: Parameter, expected: Any
) -> Fault | None:
    errors: list[Any] = []
    if type(value) is expected:
        if parameter.item is None or any(_items_fit(value, one, parameter.item) for one in alternatives):
            return None
        errors.append(
            f"Nested type checking failed for parameter {name!r}. Expected outer type {parameter.declared} "
            f"with inner type {parameter.item}. Parameter value: {value!r}."
        )
    if type(value) is type_of(alternatives):
        return Fault("type_error:nested", errors) if errors else None
    errors.append(
        f"Incorrect type for parameter {name!r}. Expected type {parameter.declared}, got {type(value).__name__}. "
        f"Parameter value: {value!r}."
    )
    return Fault("type_error:simple", errors)


def _items_fit(items: Sequence[Any], alternative: Any, item: type) -> bool:
    """Every item has the declared type or that of the alternative's items; an alternative that is no list fits all."""
    if not is_list(alternative):
        return True
    own = type_of(alternative)
    return all(type(one) in {item, own} for one in items)


def _check_object(value: Mapping[str, Any], alternatives: Sequence[Any]) -> Fault | None:
    """One level: for each key alternatives of its own."""
    fault: Fault | None = Fault("dict_checker:unclear", [])
    for alternative in alternatives:
        if alternative == "":
            continue
        fault = _object_fault(value, alternative)
        if fault is None:
            return None
    return fault


def _object_fault(value: Mapping[str, Any], alternative: Mapping[str, Sequence[Any]]) -> Fault | None:
    """Find a wrong key or value, and a missing key; of two both messages are kept and the type of the latter."""
    faults: list[Fault] = []
    for key, passed in value.items():
        if key not in alternative:
            faults.append(Fault("value_error:dict_key", [f"Unexpected dict key parameter: '{key}'."]))
            break
        allowed = [_plain(one) for one in alternative[key]]
        if _plain(passed) not in allowed:
            text = f"Invalid value for parameter {key!r}: {passed!r}. Expected one of {allowed}."
            faults.append(Fault("value_error:dict_value", [text]))
            break
    missing = next((key for key, allowed in alternative.items() if key not in value and "" not in allowed), None)
    if missing is not None:
        faults.append(Fault("value_error:dict_key", [f"Missing dict key parameter: '{missing}'."]))
    return Fault(faults[-1].error_type, [text for fault in faults for text in fault.errors]) if faults else None


def _check_objects(value: Sequence[Any], alternatives: Sequence[Any]) -> Fault | None:
    fault: Fault | None = Fault("list_dict_checker:unclear", [])
    for alternative in alternatives:
        if len(value) != len(alternative):
            fault = Fault("value_error:list_dict_count", ["Wrong number of dictionaries in the list."])
            continue
        faults = (_check_object(one, [wanted]) for one, wanted in zip(value, alternative, strict=True))
        fault = next((found for found in faults if found is not None), None)
        if fault is None:
            return None
    return fault


def _plain(value: Any) -> Any:
    """Reduce a string to what BFCL compares; anything else stays as it is."""
    return _PUNCTUATION.sub("", value).lower().replace("'", '"') if type(value) is str else value


NAME = "bfcl"


class BfclOptions(PresetOptions):
    """The arguments of `ast_checker` that decide."""

    func_description: list[Mapping[str, Any]] | None = None
    """The functions' documentation in BFCL's format; not needed where each expected call has its `types`."""
    test_category: str | None = None
    """BFCL's name of the category (`parallel`, `live_multiple`, ...); told by the number of expected calls if null."""
    language: Literal["python", "java", "javascript"] = "python"
    """Java and JavaScript are not reproduced: their results are not evaluated."""
    underscore_to_dot: bool = False
    """The model cannot have dots in names: each is expected as `_`."""

    @field_validator("language", mode="before")
    @classmethod
    def _in_lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("func_description", mode="before")
    @classmethod
    def _as_list(cls, value: object) -> object:
        return [value] if is_mapping(value) else value


@dataclass(frozen=True, slots=True)
class _Expected:
    """One possible answer with what its function declares."""

    name: str
    answer: Mapping[str, Sequence[Any]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    required: Sequence[str] = ()


_Output = Mapping[str, Any]  # a passed call as BFCL writes it: `{name: arguments}`


def score(expected: object, actual: object, options: BfclOptions) -> PresetResult:
    """Score calls against goldens.

    An expected call is `{"name", "any_of", "required", "types"}`, BFCL's `{name: {argument: alternatives}}`, or a call
    with plain arguments, each the only alternative. Raises InputMissingError if neither types nor documentation of a
    function was given. Raises IndexError, KeyError or TypeError as BFCL for a golden or a documentation that is not in
    its form.
    """
    if options.language != "python":
        return not_evaluated(NAME, Reason.EVALUATOR_ERROR, f"BFCL's checker for {options.language} is not reproduced")
    wanted = [_read_expected(plain, options) for plain in plain_calls(expected)]
    called = [(plain.get("name"), plain) for plain in plain_calls(actual)]
    outputs: list[_Output] = [
        {name: plain.get("args", {})} if isinstance(name, str) else plain for name, plain in called
    ]
    fault = _check(wanted, outputs, options)
    explanation: dict[str, Any] = {"valid": fault is None, "error": [] if fault is None else fault.errors}
    if fault is not None:
        explanation["error_type"] = fault.error_type
    return PresetResult(NAME, float(fault is None), label=judged(passed=fault is None), explanation=explanation)


def _check(wanted: list[_Expected], outputs: list[_Output], options: BfclOptions) -> Fault | None:
    category = options.test_category or ("parallel" if len(wanted) > 1 else "simple")
    if "parallel" in category:
        return _check_any_order(wanted, outputs, options)
    checker = "multiple_function_checker" if "multiple" in category else "simple_function_checker"
    if len(outputs) != (len(wanted) if "multiple" in category else 1):
        return Fault(f"{checker}:wrong_count", ["Wrong number of functions."])
    return _check_call(wanted[0], outputs[0], options)


def _check_any_order(wanted: list[_Expected], outputs: list[_Output], options: BfclOptions) -> Fault | None:
    checker = "parallel_function_checker_no_order"
    if len(outputs) != len(wanted):
        return Fault(f"{checker}:wrong_count", ["Wrong number of functions."])
    left = list(range(len(outputs)))
    for position, want in enumerate(wanted):
        errors: list[Any] = []
        for index in left:
            fault = _check_call(want, outputs[index], options)
            if fault is None:
                left.remove(index)
                break
            errors.append(
                {
                    f"Model Result Index {index}": {
                        "sub_error": fault.errors,
                        "sub_error_type": fault.error_type,
                        "model_output_item": outputs[index],
                        "possible_answer_item": {want.name: want.answer},
                    }
                }
            )
        else:
            text = (
                f"Could not find a matching function among index {left} of model output "
                f"for index {position} of possible answers."
            )
            return Fault(f"{checker}:cannot_find_match", [text, *errors])
    return None


def _check_call(want: _Expected, output: _Output, options: BfclOptions) -> Fault | None:
    checker = "simple_function_checker"
    name = re.sub(r"\.", "_", want.name) if options.underscore_to_dot else want.name
    if name not in output:
        return Fault(f"{checker}:wrong_func_name", [f"Function name {name!r} not found in model output."])
    passed = checked_arguments(name, output[name])
    for key in want.required:
        if key not in passed:
            return Fault(f"{checker}:missing_required", [f"Missing required parameter: {key!r}."])
    for key, value in passed.items():
        if key not in want.parameters or key not in want.answer:
            return Fault(f"{checker}:unexpected_param", [f"Unexpected parameter: {key!r}."])
        if fault := check_argument(key, value, want.answer[key], want.parameters[key]):
            return fault
    for key, alternatives in want.answer.items():
        if key not in passed and "" not in alternatives:
            text = f"Optional parameter {key!r} not provided and not marked as optional."
            return Fault(f"{checker}:missing_optional", [text])
    return None


def _read_expected(plain: PlainCall, options: BfclOptions) -> _Expected:
    name = plain.get("name")
    if not isinstance(name, str):
        name, answer = next(iter(plain.items()))
        plain = {}
    elif "any_of" in plain:
        answer = plain["any_of"]
    else:
        answer = {key: [value] for key, value in checked_arguments(name, plain.get("args", {})).items()}
    answer = checked_arguments(name, answer)
    if options.func_description is not None:
        return _documented(name, answer, options.func_description)
    if "types" not in plain:
        raise InputMissingError(f"tool schemas: nothing tells the types of the arguments of {name!r}")
    types: Mapping[str, str] = checked_arguments(name, plain["types"])
    parameters = {
        key: Parameter(declared, _item_type(declared, answer.get(key, []))) for key, declared in types.items()
    }
    return _Expected(name, answer, parameters, plain.get("required") or ())


def _documented(name: str, answer: Mapping[str, Sequence[Any]], functions: list[Mapping[str, Any]]) -> _Expected:
    function = next((one for one in functions if one["name"] == name), None)
    if function is None:
        raise InputMissingError(f"tool schemas: none of the functions described is {name!r}")
    declared = function["parameters"]
    parameters = {
        key: Parameter(one["type"], TYPES[one["items"]["type"]] if one["type"] in NESTED else None)
        for key, one in declared["properties"].items()
        if key in answer
    }
    return _Expected(name, answer, parameters, declared["required"])


def _item_type(declared: str, alternatives: Sequence[Any]) -> type | None:
    """Find the type of a list's items, told by the alternatives where the golden does not say what is declared."""
    if declared not in NESTED:
        return None
    return next((type_of(one) for one in alternatives if is_list(one) and type_of(one)), None)
