"""Making many frozen values fast.

A frozen dataclass sets each field through `object.__setattr__`, which makes a value of twenty fields cost two
microseconds, on every span. A twin with the same slots that is not frozen costs a quarter; at the end of its
`__init__` the object takes the frozen class, and from then on is in every respect one of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def quick_constructor(cls: Callable[P, T]) -> Callable[P, T]:
    """Return a constructor of a frozen dataclass with slots; it takes the same arguments."""

    def become_frozen(made: Any) -> None:
        made.__class__ = cls

    columns: list[tuple[str, Any, Any]] = []
    for column in fields(cast("Any", cls)):
        if column.default is not MISSING:
            columns.append((column.name, Any, field(default=column.default)))
        elif column.default_factory is not MISSING:
            columns.append((column.name, Any, field(default_factory=column.default_factory)))
        else:
            columns.append((column.name, Any, field()))
    name = cast("type", cls).__name__
    return cast("Callable[P, T]", make_dataclass(name, columns, slots=True, namespace={"__post_init__": become_frozen}))
