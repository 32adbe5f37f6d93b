"""Frozen values of which a part is made when somebody first asks for it.

Who scores many sessions often reads verdicts only. What lies beneath one, calls and arguments and what became of them,
is known by then, and made into values once it is looked at. Nobody can tell, but by the time it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

_set = object.__setattr__


class Late:
    """A base for frozen dataclasses with slots: fields that are empty are taken from the whole, made at that moment."""

    __slots__ = ("_whole",)
    _whole: Callable[[], Self]

    @classmethod
    def later(cls, whole: Callable[[], Self], **known: Any) -> Self:
        """Return the value that `whole` makes, of which these fields are known already.

        `whole` is called when another field is first read, perhaps by several threads at once; it always says the same.
        """
        late = object.__new__(cls)
        _set(late, "_whole", whole)
        for name, value in known.items():
            _set(late, name, value)
        return late

    if not TYPE_CHECKING:  # checkers know all fields

        def __getattr__(self, name: str) -> Any:  # reached only where a slot is empty
            names = [field.name for field in fields(self)]
            if name not in names:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            whole = self._whole()
            for one in names:
                _set(self, one, getattr(whole, one))
            return getattr(whole, name)
