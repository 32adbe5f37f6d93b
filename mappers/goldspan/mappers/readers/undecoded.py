"""Attributes whose values are decoded one by one, when someone asks for them: of most spans nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

Raw = TypeVar("Raw")


class UndecodedAttributes(Mapping[str, Any], Generic[Raw]):
    """Attributes by key, each value still as it stands in its container.

    A look at the keys tells whether a dialect knows the span; a plain HTTP span is never looked at further.
    """

    __slots__ = ("_decode", "_decoded", "_raw")

    def __init__(self, raw: Mapping[str, Raw], decode: Callable[[Raw], Any]) -> None:
        self._raw = raw
        self._decode = decode
        self._decoded: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        raw = self._raw[key]
        decoded = self._decoded
        if decoded is None:
            decoded = self._decoded = {}
        elif key in decoded:
            return decoded[key]
        value = decoded[key] = self._decode(raw)
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default where there is none: most keys that a dialect asks for are not there."""
        if key not in self._raw:
            return default
        decoded = self._decoded
        return decoded[key] if decoded is not None and key in decoded else self[key]

    def __contains__(self, key: object) -> bool:
        return key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)
