"""Finding attribute keys in encoded telemetry: which spans a dialect may read, and which sessions they name.

An attribute key is encoded as `0A length key 12`. One compiled regular expression finds all known keys without
decoding, at about a nanosecond a byte. A match may also be text that looks the same; decoding the span shows that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.value_parsing import identifier
from goldspan.mappers.readers.otlp_protobuf import message_class, message_value
from goldspan.mappers.readers.protobuf_framing import varint
from goldspan.mappers.spans import alternatives

_VALUE, _TEXT = b"\x12", 0x0A
"""Tags of `KeyValue.value` and `AnyValue.string_value`."""
_LONGEST_KEY = 0x7F
"""Bytes; a longer key has a two-byte length. No dialect has one."""


class KeyScanner:
    """Searches bytes for the attribute keys of one dialect registry."""

    def __init__(self, registry: DialectRegistry, session_keys: Iterable[str] = DEFAULT_SESSION_KEYS) -> None:
        """Search for the dialects' markers, and for session ids under `session_keys` and the dialects' own keys."""
        scopes = [getattr(one, "bare_scopes", frozenset[str]()) for one in registry.dialects]
        events = {name for one in registry.dialects for name in getattr(one, "log_events", ())}
        sessions = registry.session_keys.union(session_keys)
        self.marked = _keys(frozenset[str]().union(*(one.markers for one in registry.dialects))).search
        """Searches for a key that makes a dialect read the span."""
        unknown = registry.opaque_markers
        self.opaque = _keys(unknown).search
        """Searches for the marker of a dialect that does not name its session keys."""
        self._session = _keys(sessions, _VALUE)
        self._opaque_keys = frozenset(key.encode() for key in unknown)
        self._of_interest = _keys(sessions | unknown, _VALUE)
        self._scopes_without_attributes = tuple(scope.encode() for scope in sorted(frozenset[str]().union(*scopes)))
        event_names = "|".join(sorted(map(re.escape, events))) or "(?!)"
        self._log_events = re.compile(event_names.encode())
        self._log_sessions = _keys(sessions).search

    def reads_without_attributes(self, scope: bytes) -> bool:
        """Tell whether a dialect may read spans of this encoded scope that have no attributes."""
        return any(name in scope for name in self._scopes_without_attributes)

    def may_concern_spans(self, logs: bytes) -> bool:
        """Tell whether encoded log records may hold content or the session of a span."""
        return self._log_events.search(logs) is not None or self._log_sessions(logs) is not None

    def sessions(self, encoded: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield every session id in an encoded span or resource, each with the attribute that holds it."""
        for found in self._session.finditer(encoded):
            start, end = found.span()
            if (session_id := _session_id(encoded, end)) is not None:
                yield session_id, encoded[start + 2 : end - 1]

    def of_interest(self, encoded: bytes, wants: Callable[[str], bool]) -> list[int]:
        """Return the byte offsets of wanted session ids and of opaque markers, in one pass over a request."""
        offsets: list[int] = []
        checked: dict[bytes, bool] = {}
        for found in self._of_interest.finditer(encoded):
            start, at = found.span()
            size = encoded[at] if at < len(encoded) else 0
            value = encoded[at : at + 1 + size]
            wanted = checked.get(value) if size < 0x80 else None  # a longer value is not all in `value`
            if wanted is None:
                session_id = _session_id(encoded, at)
                wanted = checked[value] = session_id is not None and wants(session_id)
            if wanted or encoded[start + 2 : at - 1] in self._opaque_keys:
                offsets.append(start)
        return offsets


def _session_id(encoded: bytes, at: int) -> str | None:
    """Return the session id in the `AnyValue` whose length is at this offset."""
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
    """Compile a search for any of these keys in the position of an attribute key, followed by `tail`."""
    encoded = sorted(key.encode() for key in keys if 0 < len(key.encode()) <= _LONGEST_KEY)
    if not encoded:
        return re.compile(rb"(?!)")
    lengths = b"".join(re.escape(bytes([size])) for size in sorted({len(key) for key in encoded}))
    return re.compile(rb"\n[" + lengths + rb"](?:" + alternatives(encoded) + rb")" + tail, re.DOTALL)
