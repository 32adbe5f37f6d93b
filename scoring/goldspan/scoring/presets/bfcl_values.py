"""How BFCL's `ast_checker` judges one argument: its type first, then its value among the alternatives.

Types are exact (`True` is no integer), with two ways round: an integer passes for a float, and a value of the type the
golden's own alternatives have passes whatever was declared (BFCL takes it for a variable's name). Strings are equal
after dropping blanks and `,./-_*^`, in lower case, with one kind of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from goldspan.scoring.presets.shapes import is_list, kind_of

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

    Raises:
        KeyError: the declared type is no type of a Python function.
        TypeError: the alternatives do not have the form the type asks for; BFCL fails on them too.

    """
    expected: Any = TYPES[parameter.declared]
    if parameter.declared == "tuple" and type(value) is tuple:
        value = [*value]
    if parameter.declared == "float" and type(value) is int:
        value = float(value)
    if fault := _check_type(name, value, alternatives, parameter, expected):
        return fault
    own = type_of(alternatives)
    if type(value) is not expected or (own is not None and own is not expected):  # a variable
        return _one_of(name, value, alternatives)
    if expected is dict:
        return _check_object(value, alternatives)
    if expected is list and parameter.item is dict:
        return _check_objects(value, alternatives)
    if expected is str:
        return _check_string(name, value, alternatives)
    if expected is list:
        return _check_list(name, value, alternatives)
    return _one_of(name, value, alternatives)


def type_of(alternatives: Sequence[Any]) -> type | None:
    """Find the type of the first alternative that is more than the mark of an optional argument."""
    return next((kind_of(one) for one in alternatives if one != ""), None)


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


def _one_of(name: str, value: Any, alternatives: Sequence[Any]) -> Fault | None:
    if value in alternatives:
        return None
    text = f"Invalid value for parameter {name!r}: {value!r}. Expected one of {alternatives}."
    return Fault("value_error:others", [text])


def _check_string(name: str, value: str, alternatives: Sequence[Any]) -> Fault | None:
    if _plain(value) in [_plain(one) for one in alternatives if type(one) is str]:
        return None
    text = f"Invalid value for parameter {name!r}: {value!r}. Expected one of {alternatives}. Case insensitive."
    return Fault("value_error:string", [text])


def _check_list(name: str, value: list[Any], alternatives: Sequence[Any]) -> Fault | None:
    if [_plain(one) for one in value] in [[_plain(one) for one in alternative] for alternative in alternatives]:
        return None
    text = f"Invalid value for parameter {name!r}: {value!r}. Expected one of {alternatives}."
    return Fault("value_error:list/tuple", [text])


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
