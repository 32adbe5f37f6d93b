"""Rows of the journal as bytes: what was read of spans and log records, and the results given for a session.

A call takes a few hundred bytes. Of facts only the fields that differ from their defaults are written, by position.
`SCHEMA` is a hash of the field names, so that records of another version of goldspan are recognised and not misread.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec.structs import FieldInfo, fields

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Level
from goldspan.collector_processor.engine.judge import INCOMPLETE, digest_of
from goldspan.collector_processor.engine.store import SessionState
from goldspan.collector_processor.gateway.compression import zlib_compress
from goldspan.mappers.facts import (
    ContextFacts,
    LazySpanFacts,
    LogFacts,
    ModelFacts,
    Record,
    Request,
    ResourceFacts,
    SpanFacts,
    ToolFacts,
)
from goldspan.scoring.sessions import Content, SpanRef

_INNER: dict[type[msgspec.Struct], dict[str, type[msgspec.Struct]]] = {
    SpanFacts: {
        "tool": ToolFacts,
        "model": ModelFacts,
        "context": ContextFacts,
        "resource": ResourceFacts,
        "notes": LogFacts,
    },
    LogFacts: {"model": ModelFacts, "tools": ToolFacts, "context": ContextFacts},
    ToolFacts: {"arguments": Content, "result": Content},
    ModelFacts: {"requests": Request},
    Request: {"arguments": Content},
    ContextFacts: {"user_text": Content, "answer": Content, "messages": Content, "tool_definitions": Content},
    ResourceFacts: {},
    Content: {},
}
"""Fields that hold facts themselves, alone or in a tuple."""

SCHEMA = hashlib.sha256(
    repr([(kind.__name__, [column.name for column in fields(kind)]) for kind in _INNER]).encode()
).hexdigest()[:16]
"""A hash of the fields of facts."""

_MSGPACK, _JSON = b"m", b"j"
_encoder = msgspec.msgpack.Encoder(enc_hook=repr)


def encode_record(facts: Record) -> bytes:
    """Return facts as bytes."""
    sparse = [isinstance(facts, LogFacts), _sparse(facts.read() if isinstance(facts, LazySpanFacts) else facts)]
    try:
        return _MSGPACK + _encoder.encode(sparse)
    except (OverflowError, RecursionError, UnicodeEncodeError):  # a number of more than 64 bits, half a character
        return _JSON + json.dumps(sparse, default=repr).encode()


def decode_record(record: bytes) -> Record:
    """Return the facts in these bytes. Raises `ValueError` if there are none."""
    try:
        is_log, sparse = json.loads(record[1:]) if record[:1] == _JSON else msgspec.msgpack.decode(record[1:])
        if is_log:
            return msgspec.convert(_by_name(LogFacts, sparse), LogFacts)
        return msgspec.convert(_by_name(SpanFacts, sparse), SpanFacts)
    except (msgspec.MsgspecError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"found a call record that cannot be read: {error}") from error


def _sparse(facts: object) -> list[Any]:
    """Return positions and values of the fields that differ from their defaults, in turn."""
    sparse: list[Any] = []
    read, defaults = _getter_and_defaults(type(facts).__name__)
    for position, (item, default) in enumerate(zip(read(facts), defaults, strict=True)):
        if item is default:
            continue
        if type(item) in _INNER:  # comparing facts takes longer than writing them
            sparse += (position, _sparse(item))
        elif item != default:
            sparse += (position, _plain(item))
    return sparse


def _sparse_items(items: tuple[object, ...]) -> list[Any]:
    return [_sparse(item) if type(item) in _INNER else _plain(item) for item in items]


def _plain(item: object) -> object:
    return _sparse_items(cast("tuple[object, ...]", item)) if isinstance(item, tuple) else item


def _by_name(kind: type[msgspec.Struct], sparse: list[Any]) -> dict[str, Any]:
    columns, inner = _columns(kind.__name__), _INNER[kind]
    named: dict[str, Any] = {}
    for position, item in zip(sparse[::2], sparse[1::2], strict=True):
        name, _ = columns[int(position)]
        of = inner.get(name)
        if of is None or item is None:
            named[name] = item
        elif item and isinstance(item[0], list):
            named[name] = [_by_name(of, one) for one in item]
        else:
            named[name] = _by_name(of, item)
    return named


@cache
def _getter_and_defaults(name: str) -> tuple[Callable[[object], tuple[object, ...]], tuple[object, ...]]:
    """Return a getter of all fields, and their defaults."""
    columns = _columns(name)
    return attrgetter(*(name for name, _ in columns)), tuple(default for _, default in columns)


@cache
def _columns(name: str) -> tuple[tuple[str, Any], ...]:
    kind = next(kind for kind in _INNER if kind.__name__ == name)
    return tuple((column.name, _default(column)) for column in fields(kind))


def _default(column: FieldInfo) -> Any:
    if column.default is not msgspec.NODEFAULT:
        return column.default
    return msgspec.NODEFAULT if column.default_factory is msgspec.NODEFAULT else column.default_factory()


# Sessions: which results were given, in which revision, and a digest of each.

_SHARED = (
    "metric",
    "run",
    "golden",
    "golden_set",
    "criterion",
    "preset",
    "agent",
    "resource",
    "incomplete",
    "withdrawn",
)
"""Fields that are the same in most results of a session; each combination is written once."""


def encode_session(session: SessionState) -> bytes:
    """Return the state of a session that is needed after a restart, besides its call records."""
    shared: dict[str, int] = {}
    shared_values: list[Any] = []
    results: list[Any] = []
    for one in session.results.values():
        common = [msgspec.to_builtins(getattr(one, name)) for name in _SHARED]
        text = repr(common)
        if text not in shared:
            shared[text] = len(shared_values)
            shared_values.append(common)
        target = None if one.target is None else [_hex_to_bytes(one.target.trace_id), _hex_to_bytes(one.target.span_id)]
        digest = _hex_to_bytes(_digest(one))
        place = (one.level.value, target, one.timestamp, one.turn_index)
        results.append([shared[text], _hex_to_bytes(one.id), digest, one.revision, *place])
    return zlib_compress(
        msgspec.msgpack.encode([session.dropped_until, sorted(session.complete_runs), shared_values, results])
    )


def decode_session(session_id: str, state: bytes, now: float) -> SessionState:
    """Return the session in these bytes. Raises `ValueError` if there is none."""
    try:
        dropped_until, complete_runs, shared_values, results = msgspec.msgpack.decode(zlib.decompress(state))
        session = SessionState(session_id, last=now, complete_runs=set(complete_runs), dropped_until=dropped_until)
        for number, result_id, digest, revision, level, target, timestamp, turn_index in results:
            common: dict[str, Any] = dict(zip(_SHARED, shared_values[number], strict=True))
            common["resource"] = msgspec.convert(common["resource"], ResourceFacts)
            evaluation = Evaluation(
                id=_bytes_to_hex(result_id),
                revision=revision,
                level=Level(level),
                verdict=INCOMPLETE,
                target=None if target is None else SpanRef(*map(_bytes_to_hex, target)),
                timestamp=timestamp,
                session_id=session_id,
                detail=DetailDigest(_bytes_to_hex(digest)),
                explanation="",
                turn_index=turn_index,
                **common,
            )
            session.results[evaluation.id] = evaluation
    except (msgspec.MsgspecError, zlib.error, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"found a session that cannot be read: {error}") from error
    return session


def _digest(evaluation: Evaluation) -> str:
    return evaluation.detail.digest if isinstance(evaluation.detail, DetailDigest) else digest_of(evaluation)


def _hex_to_bytes(text: str) -> bytes | str:
    """Return lower-case hex digits as bytes; other text as it is."""
    try:
        return bytes.fromhex(text) if text and text == text.lower() else text
    except ValueError:
        return text


def _bytes_to_hex(short: bytes | str) -> str:
    return short if isinstance(short, str) else short.hex()
