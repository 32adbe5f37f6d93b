"""What scoring works out of an expected call, or of a golden, once, and keeps with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_Criterion = TypeVar("_Criterion")
_MOST = 8
"""For how many criteria something is kept."""


class Keeper:
    """A base for frozen values with slots: a place for what follows from the value and a criterion.

    It is no part of the value: neither compared nor copied nor pickled.
    """

    __slots__ = ("_kept",)
    _kept: dict[int, tuple[Any, Any]]

    def kept(self, criterion: _Criterion, make: Callable[[Self, _Criterion], _T]) -> _T:
        """Return what `make` makes of this value under a criterion: made once, if `make` is the same always."""
        try:
            kept = self._kept
        except AttributeError:
            kept = {}
            object.__setattr__(self, "_kept", kept)
        # By identity: criteria are compared by a digest. The entry holds the criterion, so that its id stays its own.
        found = kept.get(id(criterion))
        if found is None:
            if len(kept) >= _MOST:
                kept.clear()
            found = kept[id(criterion)] = criterion, make(self, criterion)
        made: _T = found[1]
        return made
