"""The docstrings of a model's fields, read when a JSON Schema or a message asks for them.

pydantic's own option, `use_attribute_docstrings`, reads the source of every model when it is imported, which takes
longer than the import.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel


@cache
def field_docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return what is written below each field of a model, and of the models it extends, by the field's name."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if not issubclass(one, BaseModel) or one is BaseModel:
            continue
        [definition] = ast.parse(inspect.getsource(one)).body
        for field, text in pairwise(cast("ast.ClassDef", definition).body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(description))):
                    found[name] = inspect.cleandoc(description)
                case _:
                    pass
    return found


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the docstrings of a model's fields to its JSON Schema."""
    for name, description in field_docstrings(model).items():
        if name in schema.get("properties", {}):
            schema["properties"][name]["description"] = description
