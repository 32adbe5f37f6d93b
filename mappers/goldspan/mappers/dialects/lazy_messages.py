"""Messages that are decoded one by one, when they are looked at: mostly only the last few are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

Held = TypeVar("Held")


class LazyMessages(Sequence[Mapping[str, Any]], Generic[Held]):
    """Messages as they are held, and how one of them is read."""

    def __init__(self, held: Sequence[Held], read: Callable[[Held], Mapping[str, Any]]) -> None:
        self._held = held
        self._read = read

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return LazyMessages(self._held[index], self._read)
        return self._read(self._held[index])
