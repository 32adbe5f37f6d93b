"""What to look for in encoded telemetry: the attribute keys that dialects know, found without decoding anything.

A key stands in the bytes as `0A length key 12`. One compiled expression finds all of them at about a nanosecond a
byte; what it finds may still be text of a message that happens to look so, which decoding shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from goldspan.mappers.assembly.session_id import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.recorded_values import identifier
from goldspan.mappers.readers.otlp_messages import message_value
from goldspan.mappers.readers.otlp_protobuf import message_class
from goldspan.mappers.readers.protobuf_framing import varint

_VALUE, _TEXT = b"\x12", 0x0A
"""Tags of the value of a `KeyValue` and of the text of an `AnyValue`."""
_LONGEST_KEY = 0x7F
"""A longer key has a length of two bytes; no dialect has one."""


class KeyScanner:
    """The keys of one registry."""

    def __init__(self, registry: DialectRegistry, session_keys: Iterable[str] = DEFAULT_SESSION_KEYS) -> None:
        """Look for the markers of the registry's dialects, and for session ids under these keys and the dialects'."""
        scopes = [getattr(one, "bare_scopes", frozenset[str]()) for one in registry.dialects]
        events = {name for one in registry.dialects for name in getattr(one, "log_events", ())}
        sessions = registry.session_keys.union(session_keys)
        self.marked = _keys(frozenset[str]().union(*(one.markers for one in registry.dialects))).search
        """Finds what makes a span worth reading."""
        unknown = registry.opaque_markers
        self.opaque = _keys(unknown).search
        """Finds the marker of a dialect of which nobody knows where it takes session ids from."""
        self._session = _keys(sessions, _VALUE)
        self._opaque_keys = frozenset(key.encode() for key in unknown)
        self._of_interest = _keys(sessions | unknown, _VALUE)
        self._bare_scopes = tuple(scope.encode() for scope in sorted(frozenset[str]().union(*scopes)))
        told = "|".join(sorted(map(re.escape, events))) or "(?!)"
        self._told = re.compile(told.encode())
        self._sessions_of_logs = _keys(sessions).search

    def bare(self, scope: bytes) -> bool:
        """Tell whether spans of this encoded scope may be worth reading even without any attribute."""
        return any(name in scope for name in self._bare_scopes)

    def may_tell(self, logs: bytes) -> bool:
        """Tell whether encoded log records may say something of a span."""
        return self._told.search(logs) is not None or self._sessions_of_logs(logs) is not None

    def session_ids(self, encoded: bytes) -> Iterator[str]:
        """Yield every session id in an encoded span or resource."""
        for found in self._session.finditer(encoded):
            if (session_id := _session_id(encoded, found.end())) is not None:
                yield session_id

    def of_interest(self, encoded: bytes, wants: Callable[[str], bool]) -> list[int]:
        """Return where session ids stand that are wanted, and opaque markers, in one pass over a request."""
        places: list[int] = []
        known: dict[bytes, bool] = {}
        for found in self._of_interest.finditer(encoded):
            start, at = found.span()
            size = encoded[at] if at < len(encoded) else 0
            value = encoded[at : at + 1 + size]
            wanted = known.get(value) if size < 0x80 else None  # else this is not all of it
            if wanted is None:
                session_id = _session_id(encoded, at)
                wanted = known[value] = session_id is not None and wants(session_id)
            if wanted or encoded[start + 2 : at - 1] in self._opaque_keys:
                places.append(start)
        return places


def _session_id(encoded: bytes, at: int) -> str | None:
    """Return the id in the `AnyValue` here."""
    size = encoded[at] if at < len(encoded) else 0x80
    if 2 < size < 0x80 and encoded[at + 1 : at + 3] == bytes([_TEXT, size - 2]):
        return identifier(str(encoded[at + 3 : at + 1 + size], "utf-8", "replace"))
    return identifier(_value(encoded, at))


def _value(encoded: bytes, at: int) -> Any:
    size, start = varint(encoded, at)
    if size < 0:
        return None
    try:
        return message_value(message_class("AnyValue").FromString(encoded[start : start + size]))
    except DecodeError:
        return None


def _keys(keys: Iterable[str], tail: bytes = b"") -> re.Pattern[bytes]:
    """Compile what finds any of these keys where a key may stand, followed by `tail`."""
    encoded = sorted(key.encode() for key in keys if 0 < len(key.encode()) <= _LONGEST_KEY)
    if not encoded:
        return re.compile(rb"(?!)")
    lengths = b"".join(re.escape(bytes([size])) for size in sorted({len(key) for key in encoded}))
    return re.compile(rb"\n[" + lengths + rb"](?:" + _alternatives(encoded) + rb")" + tail, re.DOTALL)


def _alternatives(words: list[bytes]) -> bytes:
    """Write words as an expression that branches at every letter, so that a miss is known by the first ones."""
    by_first: dict[bytes, list[bytes]] = {}
    for word in words:
        by_first.setdefault(word[:1], []).append(word[1:])
    branches: list[bytes] = []
    for first, rests in by_first.items():
        if not first:
            branches.append(b"")
        elif len(rests) == 1:
            branches.append(re.escape(first + rests[0]))
        else:
            branches.append(re.escape(first) + b"(?:" + _alternatives(rests) + b")")
    return b"|".join(branches)
