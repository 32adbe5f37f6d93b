"""The little a dialect may read of a span or of a log record, whatever holds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from goldspan.mappers.carrying_keys import may_carry
from goldspan.scoring.sessions import SpanRef

Attributes = Mapping[str, Any]
"""Attributes of a span, a log record or a resource, by key."""
NO_ATTRIBUTES: Attributes = MappingProxyType({})
STATUS_ERROR = 2
"""`STATUS_CODE_ERROR` of OTLP; 0 is unset, 1 is ok."""
ENTRY_KINDS = frozenset({2, 5})
"""Kinds of span whose parent is in another process: server and consumer."""


class EventView(Struct, frozen=True, gc=False):
    """A span event: its name and attributes."""

    name: str
    attributes: Mapping[str, Any]


class ResourceView(Struct, frozen=True, gc=False):
    """The resource that the spans of one source share."""

    attributes: Mapping[str, Any]


@runtime_checkable
class SpanView(Protocol):
    """A finished span. Readers make these; they are read once, in the order of the input, and not kept.

    Ids are lower-case hex without prefix, `""` where the span has none. Times are nanoseconds since the epoch,
    0 where unknown. Attribute values are plain Python: str, bool, int, float, None, bytes, list (or tuple), dict
    with str keys (or another mapping), or anything else a hostile sender managed to write: a dialect checks types
    before it believes them.
    """

    @property
    def trace_id(self) -> str: ...
    @property
    def span_id(self) -> str: ...
    @property
    def parent_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def kind(self) -> int:
        """`SpanKind` as in OTLP: 1 internal, 2 server, 3 client, 4 producer, 5 consumer, 0 unspecified."""
        ...

    @property
    def parent_is_remote(self) -> bool:
        """The parent is known to be in another process: OTLP's `CONTEXT_IS_REMOTE` flag."""
        ...

    @property
    def status_code(self) -> int: ...
    @property
    def status_message(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...
    @property
    def events(self) -> Sequence[EventView]: ...
    @property
    def links(self) -> Sequence[SpanRef]:
        """Spans elsewhere that this one is causally related to."""
        ...

    @property
    def scope_name(self) -> str: ...
    @property
    def resource(self) -> ResourceView:
        """One object for all spans of a source, so that it can be compared by identity."""
        ...


class DecodedSpan(Struct, frozen=True, gc=False):
    """A `SpanView` that holds every value as it is read."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str = ""
    start: int = 0
    end: int = 0
    kind: int = 0
    parent_is_remote: bool = False
    status_code: int = 0
    status_message: str = ""
    attributes: Mapping[str, Any] = NO_ATTRIBUTES
    events: Sequence[EventView] = ()
    links: Sequence[SpanRef] = ()
    scope_name: str = ""
    resource: ResourceView = ResourceView(NO_ATTRIBUTES)


class LostSpan(DecodedSpan, frozen=True, gc=False):
    """Stands for a span that cannot be read: its trace id, or else the attributes that may name its session."""


class EncodedSpan(Struct, frozen=True, gc=False):
    """A span as bytes, without the request around it. It is read when someone asks for its content."""

    encoded: bytes
    decode: Callable[[bytes, str, ResourceView], SpanView]
    """Reads the bytes, with the scope's name and the resource."""
    scope_name: str
    resource: ResourceView

    def view(self) -> SpanView:
        """Read the span."""
        return self.decode(self.encoded, self.scope_name, self.resource)


class Encodable:
    """A span view that can be kept as bytes when its request is gone."""

    __slots__ = ()

    def encode(self) -> EncodedSpan | None:
        """Return the span as bytes; None if they are too many to keep."""
        raise NotImplementedError


class LogView(Struct, frozen=True, gc=False):
    """A log record. Its values have the same types as attributes of spans.

    A value that was recorded as null is there, as None: in typed values it is one without any content.
    """

    trace_id: str
    """`""` where the record was written outside of any span; it can then be joined to nothing."""
    span_id: str
    time: int
    """The record's time, or else the time it was observed."""
    event_name: str
    """The record's EventName field. Older writers put the name into the attribute `event.name` instead."""
    body: Any
    attributes: Mapping[str, Any]
    scope_name: str
    resource: ResourceView


RecordView = SpanView | LogView
"""What readers yield."""


class Markers:
    """What makes a span worth reading: any of the attribute keys, one of the scopes, or a key that may carry a call."""

    __slots__ = ("_search", "_searches", "keys", "plain", "scopes")

    def __init__(self, keys: frozenset[str], scopes: frozenset[str] = frozenset()) -> None:
        self.keys = keys
        """Attribute keys that a dialect knows."""
        self.scopes = scopes
        """Names of instrumentation scopes whose spans are always read."""
        self.plain: set[str] = set()
        """Keys seen so far that are none of these: what has no other key is plain, at the cost of one look-up a key."""
        self._search: tuple[int, Search] = 0, re.compile(rb'"key"').search
        self._searches = 0

    def are_plain(self, attributes: Iterable[str]) -> bool:
        """Say whether none of these keys is known to a dialect or may carry a call."""
        if self.plain.issuperset(attributes):
            return True
        for key in attributes:
            if key in self.keys or (isinstance(key, str) and may_carry(key)):  # pyright: ignore
                return False
        if len(self.plain) > _MOST_PLAIN_KEYS:
            self.plain.clear()
        self.plain.update(attributes)
        return True

    def other_keys(self) -> Search:
        """Return a search of OTLP/JSON for a key that is not among the `plain` ones, at a tenth of a look-up a key."""
        known, search = self._search
        if known < len(self.plain) <= _MOST_SEARCHED_KEYS and self._searches < _MOST_SEARCHES:
            words = alternatives(sorted(key.encode("utf-8", "surrogatepass") + b'"' for key in self.plain))
            search = re.compile(rb'"key"\s*:\s*"(?!' + words + b")").search
            self._search = len(self.plain), search
            self._searches += 1
        return search


_MOST_PLAIN_KEYS = 1 << 14
_MOST_SEARCHED_KEYS = 512
_MOST_SEARCHES = 32  # how often a search is compiled anew, which takes milliseconds, as more plain keys are seen
Search = Callable[[bytes], re.Match[bytes] | None]


def alternatives(words: list[bytes]) -> bytes:
    """Return an expression that branches at every byte, so that most mismatches end at the first one."""
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
            branches.append(re.escape(first) + b"(?:" + alternatives(rests) + b")")
    return b"|".join(branches)


SpanOutline = tuple[str, str, int, int, bool]
"""A plain span's id, parent id, start, end, and whether its parent is in another process.

A tuple, since there is one for most spans that exist.
"""


UndecodedSpan = tuple[Any, ...]
"""A plain span as its container holds it, with its id first. Few of them are ever decoded."""


class PlainSpans(Struct, frozen=True, gc=False):
    """Spans of one source without any marker, all of them with ids."""

    by_trace: Mapping[str, Sequence[UndecodedSpan]]
    """By trace id."""
    skeleton: Callable[[UndecodedSpan], SpanOutline]
    """Reads one of them."""
    resource: ResourceView

    def __len__(self) -> int:
        return sum(map(len, self.by_trace.values()))


MarkedView = RecordView | PlainSpans
"""What readers yield if they know the markers."""


# Attribute values are decoded one by one, on first use. Most are never used.

Raw = TypeVar("Raw")


class UndecodedAttributes(Mapping[str, Any], Generic[Raw]):
    """Attributes by key. Each value stays encoded until its first use.

    The keys alone tell whether a dialect knows the span.
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
        """Return a value or the default. Most keys that a dialect asks for are missing."""
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
