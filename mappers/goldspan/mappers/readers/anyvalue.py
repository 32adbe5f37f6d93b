"""Attribute values of OTLP/JSON (`AnyValue`), decoded to plain Python without ever raising.

The encoding is that of the OTLP specification, "JSON Protobuf Encoding": int64 as strings or numbers, bytes as
base64, an empty value for null. Values that a sloppy writer left bare are taken as they are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from goldspan.mappers.json_shapes import is_list, is_object

_MAX_DEPTH = 100
"""Protobuf's own limit of nesting."""


def decode_attributes(raw: object) -> dict[str, Any]:
    """Decode a list of key-value pairs; of a key given twice the last wins, as in the SDK. Bare objects pass."""
    if is_object(raw):
        return raw
    attributes: dict[str, Any] = {}
    if not is_list(raw):
        return attributes
    for pair in raw:
        if not is_object(pair):
            continue
        if type(key := pair.get("key")) is str:
            attributes[key] = decode_value(pair.get("value"))
    return attributes


def decode_value(value: object, depth: int = 0) -> Any:
    """Decode one `AnyValue`; an empty one, or one of no known kind, is null."""
    if not is_object(value):
        return value
    text = value.get("stringValue")
    if type(text) is str:
        return text  # most values are
    for kind, inner in value.items():
        decode = _KINDS.get(kind)
        if decode is not None:
            return decode(inner, depth) if depth < _MAX_DEPTH else None
    return None


def _string(inner: Any, _: int) -> Any:
    return inner


def _integer(inner: Any, _: int) -> Any:
    return integer(inner)


def integer(inner: object) -> Any:
    """Decode an int64, which JSON writers put as a string or as a number; anything else passes as it is.

    Protobuf's JSON mapping accepts `1.0` and `1e3` for integers, in quotes and without.
    """
    if type(inner) is not str and type(inner) is not float:
        return inner
    try:
        return int(inner)
    except (ValueError, OverflowError):
        pass
    try:
        number = float(inner)
        return int(number) if number.is_integer() else inner
    except (ValueError, OverflowError):
        return inner


def _double(inner: Any, _: int) -> Any:
    # "NaN", "Infinity" and "-Infinity" are the protobuf spellings; float() knows all three.
    if isinstance(inner, str | int) and not isinstance(inner, bool):
        try:
            return float(inner)
        except (ValueError, OverflowError):
            return inner
    return inner


def _bytes(inner: Any, _: int) -> Any:
    if isinstance(inner, str):
        try:
            return base64.b64decode(inner.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            return inner
    return inner


def _array(inner: Any, depth: int) -> Any:
    values = inner.get("values") if is_object(inner) else inner
    return [decode_value(value, depth + 1) for value in values] if is_list(values) else []


def _kvlist(inner: Any, depth: int) -> Any:
    pairs = inner.get("values") if is_object(inner) else inner
    decoded: dict[str, Any] = {}
    for pair in pairs if is_list(pairs) else ():
        if is_object(pair) and isinstance(key := pair.get("key"), str):
            decoded[key] = decode_value(pair.get("value"), depth + 1)
    return decoded


_KINDS: dict[str, Callable[[Any, int], Any]] = {
    "stringValue": _string,
    "intValue": _integer,
    "doubleValue": _double,
    "boolValue": _string,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes,
    # The proto spelling, which json_format writes when told to preserve field names.
    "string_value": _string,
    "int_value": _integer,
    "double_value": _double,
    "bool_value": _string,
    "array_value": _array,
    "kvlist_value": _kvlist,
    "bytes_value": _bytes,
}
