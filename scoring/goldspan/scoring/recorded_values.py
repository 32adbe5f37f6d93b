"""Values as instrumentations write them: JSON text, JSON within JSON, Python's reprs. Nothing is evaluated."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


def loads(text: str) -> Any:
    """Parse JSON like `json.loads`, with the same values and errors: `ValueError`, `RecursionError`."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return json.loads(text)  # it knows more: NaN, lone surrogates, numbers of any size


_LAYERS = 3
"""How often JSON text may be written as JSON text again."""
_REPR = re.compile(r"[A-Za-z_][\w.]*\((?:\w+=|\[|\{|'|\))|[A-Za-z_]\w*=(?:['\"\[{]|[A-Z][\w.]*\()")
"""How Python writes an object, with or without its class."""


def may_be_object(text: str) -> bool:
    """Say whether a text may be an object or an array: by how it begins."""
    start = text.lstrip()[:2] if text[:1].isspace() else text[:2]
    return start[:1] in {"{", "["} or start in {'"{', '"['}


def may_be_value(text: str) -> bool:
    """Say whether a text may be an object or an array, in JSON or as Python writes one."""
    return may_be_object(text) or _REPR.match(text) is not None


def read_value(value: Any) -> Any:
    """Return what a text stands for that is JSON, JSON within JSON or a Python repr; any other value as it is."""
    for _ in range(_LAYERS):
        if not isinstance(value, str):
            break
        text = value.strip()
        if text[:1] not in {"{", "[", '"', "("}:
            return python_value(text) or value if _REPR.match(text) else value
        try:
            inner = loads(text)
        except (ValueError, RecursionError):
            found = None if text[0] == '"' else python_value(text)
            return value if found is None else found
        if isinstance(inner, str) and not may_be_object(inner):
            return value
        value = inner
    return value


# Python's literals and reprs.

_MAX_LENGTH = 1_000_000
_LONGEST_REPR = 200_000
_DEEPEST = 60
_CLOSING = {"[": "]", "{": "}", "(": ")"}
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
        fields = {one.arg: _shown(one.value, below) for one in node.keywords if one.arg is not None}
        values = [_shown(one, below) for one in node.args]
        return {"__class__": ast.unparse(node.func), **fields, **({"__values__": values} if values else {})}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_shown(node.operand, below)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    raise ValueError("no value")


def _end_of_value(text: str, start: int) -> int:
    """Return the end of the value at `start`: of its bracket, its quotes or its word; 0 if it is not closed."""
    open_brackets: list[str] = []
    quote = ""
    position = start
    while position < min(len(text), start + _MAX_LENGTH):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote:
                quote = ""
                if not open_brackets:
                    return position + 1
        elif character in {"'", '"'}:
            quote = character
        elif character in _CLOSING:
            open_brackets.append(_CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return position + 1
        elif not open_brackets and character.isspace():
            return position
        position += 1
    return 0 if quote or open_brackets or text[start : start + 1] in _CLOSING else min(position, len(text))
