"""Values for people and for documents: whatever a sender wrote becomes text or JSON that can be printed.

Recorded values are read here too: JSON text, JSON within JSON, Python's reprs; nothing is evaluated. Nothing here
raises where it writes: nesting is cut at `DEEPEST`, numbers JSON cannot hold become strings that say so.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeGuard, cast

import msgspec

JsonValue = Any
"""None, bool, int, float, str, list of these, or dict from str to these."""

_NO_MAPPING = (str, type(None), list, int, float, bytes, tuple)
_NO_SEQUENCE = (str, dict, type(None), int, float, bytes)
# Abstract base classes are slow to check, so common types are checked first. `list | tuple` would be built each time.


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is an object: a dict, or a mapping such as the read-only ones of the SDK."""
    return isinstance(value, dict) or (not isinstance(value, _NO_MAPPING) and isinstance(value, Mapping))


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a dict; string keys are assumed."""
    return isinstance(value, dict)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is an array: a list, a tuple or another sequence, but no text."""
    return isinstance(value, (list, tuple)) or (not isinstance(value, _NO_SEQUENCE) and isinstance(value, Sequence))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list; a tuple is not."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; booleans, NaN and infinities are not."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and (isinstance(value, int) or isfinite(value))
    )


DEEPEST = 64
_JSON = json.JSONEncoder(ensure_ascii=False)
_ELLIPSIS = "…"
_LARGEST_BITS = 4_096


def plain(value: JsonValue, depth: int = DEEPEST) -> JsonValue:
    """Return the value as JSON that any parser reads."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return value if value.bit_length() <= _LARGEST_BITS else f"<integer of {value.bit_length()} bits>"
    if isinstance(value, float):
        return value if isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if depth <= 0:
        return _ELLIPSIS
    if isinstance(value, (list, tuple)):
        elements = cast("Sequence[JsonValue]", value)
        return [plain(element, depth - 1) for element in elements]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, JsonValue]", value)
        return {key if isinstance(key, str) else shown(key): plain(item, depth - 1) for key, item in items.items()}
    return f"<{type(value).__name__}>"


def shown(value: JsonValue, longest: int = 80) -> str:
    """Return the value as JSON text on one line, cut where it is long."""
    one = plain(value)
    text = repr(one) if type(one) in (int, float) else _JSON.encode(one)  # a number at a fifth of the cost
    return text if len(text) <= longest else text[: longest - 1] + _ELLIPSIS


def shown_name(name: str, longest: int = 80) -> str:
    """Return a name as it is where it can be printed on one line, else as JSON text."""
    text = name if name and name.isprintable() else json.dumps(plain(name))
    return text if len(text) <= longest else text[: longest - 1] + _ELLIPSIS


_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """Escape, in JSON text, what would control a terminal, end a line, or turn the reading direction."""
    return text if text.isascii() else _STEERING.sub(lambda one: f"\\u{ord(one.group()):04x}", text)


def json_text(document: object) -> str:
    """Return a document as commands print it."""
    text = escaped(json.dumps(document, ensure_ascii=False, allow_nan=False))
    try:
        return msgspec.json.format(text, indent=2)  # the same text as by `dumps` in a fifth of the time
    except UnicodeEncodeError:  # a lone surrogate
        return escaped(json.dumps(document, ensure_ascii=False, indent=2))


# JSON Pointers (RFC 6901): `/address/zip`, with `~1` for a `/` and `~0` for a `~` in a key.

Steps = tuple[str, ...]
"""The keys and indexes of a way into a value, as text."""

_STRAY = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


def steps_of(pointer: str) -> Steps:
    """Return the steps of a pointer; the empty one has none. Raises ValueError for what is no pointer."""
    if pointer and (not pointer.startswith("/") or _STRAY.search(pointer)):
        wanted = "a JSON Pointer such as /address/zip, with ~1 for a / and ~0 for a ~ in a key"
        raise ValueError(f"found {shown(pointer)}, expected {wanted}")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def pointer_to(steps: Sequence[str]) -> str:
    """Return the pointer with these steps."""
    return "".join([f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps])


def pointer_name(pointer: str) -> str:
    """Return a JSON Pointer as people write a place: `/items/0/id` is `items[0].id`."""
    if pointer[1:].isidentifier() and pointer[0] == "/":  # as most arguments are, at a tenth of the cost
        return pointer[1:]
    return "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps_of(pointer)).removeprefix(".")


def value_at(value: JsonValue, steps: Sequence[str]) -> JsonValue:
    """Return the value at these steps. Raises LookupError if there is none."""
    for step in steps:
        if is_mapping(value):
            value = value[step]
        elif is_sequence(value) and _INDEX.fullmatch(step):
            value = value[int(step)]
        else:
            raise LookupError(step)
    return value


def counted(number: int, thing: str) -> str:
    """Return `1 call` or `2 calls`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


_decode = msgspec.json.Decoder().decode


def loads(text: str) -> Any:
    """Parse JSON like `json.loads`, with the same values and errors: `ValueError`, `RecursionError`."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return json.loads(text)  # it knows more: NaN, lone surrogates, numbers of any size


_LAYERS = 3  # how often JSON text may be written as JSON text again
_REPR = re.compile(r"[A-Za-z_][\w.]*\((?:\w+=|\[|\{|'|\))|[A-Za-z_]\w*=(?:['\"\[{]|[A-Z][\w.]*\()")
"""How Python writes an object, with or without its class."""
_MARKED = re.compile(r"@?[\w.=/+-]{0,40}\bjson[:,](?=[\[{\"])")
"""What some writers put before JSON to say that it is: `json:`, `@ag.type=json:`, `application/json,`."""


def may_be_object(text: str) -> bool:
    """Say whether a text may be an object or an array: by how it begins."""
    start = text.lstrip()[:2] if text[:1].isspace() else text[:2]
    return start[:1] in {"{", "["} or start in {'"{', '"[', '"\\'} or _mark_before_json(text) is not None


def _mark_before_json(text: str) -> re.Match[str] | None:
    return _MARKED.match(text) if "json" in text[:48] else None


def may_be_value(text: str) -> bool:
    """Say whether a text may be an object or an array, in JSON or as Python writes one."""
    return may_be_object(text) or _REPR.match(text) is not None


def read_value(value: Any) -> Any:
    """Return what a text stands for that is JSON, JSON within JSON or a Python repr; any other value as it is."""
    for _ in range(_LAYERS):
        if not isinstance(value, str):
            break
        text = value.strip()
        if (mark := _mark_before_json(text)) is not None:
            text = text[mark.end() :]
        if text[:1] not in {"{", "[", '"', "("}:
            return python_value(text) or value if _REPR.match(text) else value
        try:
            inner = loads(text)
        except (ValueError, RecursionError):
            found = None if text[0] == '"' else python_value(text)
            return value if found is None else found
        if isinstance(inner, str) and not may_be_object(inner):
            return (python_value(inner) if _REPR.match(inner) else None) or value
        value = inner
    return value


# Python's literals and reprs.

_MAX_LENGTH = 1_000_000
_LONGEST_REPR = 200_000
_DEEPEST = 60
_CLOSING = {"[": "]", "{": "}", "(": ")"}
_QUOTES = ("'", '"')
_PARTS = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|['"\[\](){}\s]""", re.DOTALL)
"""Whole texts in quotes, quotes that nothing closes, brackets, and white space."""
_ENUM = re.compile(r"<[\w.]+: ('(?:[^'\\]|\\.)*'|-?\d+)>")
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)=")


def literal(text: str) -> Any:
    """Return the value of a Python literal; None if the text is not a literal or is too long."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def literal_at(text: str, start: int) -> tuple[Any, int]:
    """Return the value of the list, dict or tuple literal at this position of a longer repr, and where it ends."""
    end = _end_of_value(text, start)
    return (literal(text[start:end]), end) if end else (None, start)


def python_value(text: str) -> Any:
    """Return what a repr shows: an object as a dict of its fields, with its class under `__class__`.

    `ToolCall(name='x', arguments={'a': 1})` is `{"__class__": "ToolCall", "name": "x", "arguments": {"a": 1}}`, and so
    is `name='x' arguments={'a': 1}` without its class. None if the text is no repr, is cut, or is too long.
    """
    if len(text) > _LONGEST_REPR:
        return None
    if "=<" in text or " <" in text or "[<" in text:
        text = _ENUM.sub(r"\1", text)
    if _NAMED.match(text):
        return _fields(text)
    try:
        return _shown(ast.parse(text.strip(), mode="eval").body, _DEEPEST)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _fields(text: str) -> dict[str, Any] | None:
    """Return the fields of an object that is written without its class, divided by spaces."""
    found: dict[str, Any] = {}
    at = 0
    while (named := _NAMED.match(text, at)) is not None:
        at = _end_of_value(text, named.end())
        value = python_value(text[named.end() : at]) if at else None
        if not at or (value is None and text[named.end() : at] != "None"):
            return None
        found[named[1]] = value
    return found if not text[at:].strip() else None


def _shown(node: ast.expr, depth: int) -> Any:
    below = depth - 1
    if depth <= 0:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return [_shown(element, below) for element in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_shown(key, below)): _shown(value, below) for key, value in pairs if key is not None}
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        return _shown_object(node, below)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_shown(node.operand, below)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    raise ValueError("no value")


def _shown_object(node: ast.Call, below: int) -> dict[str, Any]:
    fields = {one.arg: _shown(one.value, below) for one in node.keywords if one.arg is not None}
    values = [_shown(one, below) for one in node.args]
    return {"__class__": ast.unparse(node.func), **fields, **({"__values__": values} if values else {})}


def _end_of_value(text: str, start: int) -> int:
    """Return the end of the value at `start`: of its bracket, its quotes or its word; 0 if it is not closed."""
    open_brackets: list[str] = []
    end = min(len(text), start + _MAX_LENGTH)
    for part in _PARTS.finditer(text, start, end):
        found = part[0]
        if found in _CLOSING:
            open_brackets.append(_CLOSING[found])
        elif found in _QUOTES:
            return 0
        elif len(found) > 1 or (open_brackets and found == open_brackets[-1]):
            if len(found) == 1:
                open_brackets.pop()
            if not open_brackets:
                return part.end()
        elif found.isspace() and not open_brackets:
            return part.start()
    return 0 if open_brackets else end
