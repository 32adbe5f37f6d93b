"""Facts of spans and log records as bytes: what the journal keeps of open runs, a few hundred bytes a call.

Only what is not at its default is written, by the positions of the fields: `SCHEMA` names the fields, so that records
of another version of goldspan are recognised and not misread.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache
from operator import attrgetter
from typing import Any, cast

import msgspec

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Level
from goldspan.collector_processor.engine.judge import INCOMPLETE, digest_of
from goldspan.collector_processor.engine.store import SessionState
from goldspan.collector_processor.gateway.compression import zlib_compress
from goldspan.mappers.facts import (
    ContextFacts,
    LogFacts,
    ModelFacts,
    Record,
    Request,
    ResourceFacts,
    SpanFacts,
    ToolFacts,
)
from goldspan.scoring.sessions import Content, SpanRef

_INNER: dict[type, dict[str, type]] = {
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
"""Which fields hold facts in their turn, alone or in a tuple."""

SCHEMA = hashlib.sha256(
    repr([(kind.__name__, [column.name for column in fields(kind)]) for kind in _INNER]).encode()
).hexdigest()[:16]
"""Changes with the fields of facts."""

_MSGPACK, _JSON = b"m", b"j"
_encoder = msgspec.msgpack.Encoder(enc_hook=repr)


def encode_record(facts: Record) -> bytes:
    """Return facts as bytes."""
    _ = facts.dialect  # of a span that was not read yet, all is read now
    lean = [isinstance(facts, LogFacts), _lean(facts)]
    try:
        return _MSGPACK + _encoder.encode(lean)
    except (OverflowError, RecursionError, UnicodeEncodeError):  # a number of more than 64 bits, half a character
        return _JSON + json.dumps(lean, default=repr).encode()


def decode_record(record: bytes) -> Record:
    """Return the facts in these bytes. Raises `ValueError` where they are none."""
    try:
        is_log, lean = json.loads(record[1:]) if record[:1] == _JSON else msgspec.msgpack.decode(record[1:])
        if is_log:
            return msgspec.convert(_named(LogFacts, lean), LogFacts)
        return msgspec.convert(_named(SpanFacts, lean), SpanFacts)
    except (msgspec.MsgspecError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise ValueError(f"found a call record that cannot be read: {error}") from error


def _lean(facts: object) -> list[Any]:
    lean: list[Any] = []
    read, defaults = _reading(type(facts).__name__)
    for position, (item, default) in enumerate(zip(read(facts), defaults, strict=True)):
        if item is default:
            continue
        if type(item) in _INNER:  # to compare facts takes longer than to write them
            lean += (position, _lean(item))
        elif item != default:
            lean += (position, _plain(item))
    return lean


def _leaner(items: tuple[object, ...]) -> list[Any]:
    return [_lean(item) if type(item) in _INNER else _plain(item) for item in items]


def _plain(item: object) -> object:
    return _leaner(cast("tuple[object, ...]", item)) if isinstance(item, tuple) else item


def _named(kind: type, lean: list[Any]) -> dict[str, Any]:
    columns, inner = _columns(kind.__name__), _INNER[kind]
    named: dict[str, Any] = {}
    for position, item in zip(lean[::2], lean[1::2], strict=True):
        name, _ = columns[int(position)]
        of = inner.get(name)
        if of is None or item is None:
            named[name] = item
        elif item and isinstance(item[0], list):
            named[name] = [_named(of, one) for one in item]
        else:
            named[name] = _named(of, item)
    return named


@cache
def _reading(name: str) -> tuple[Callable[[object], tuple[object, ...]], tuple[object, ...]]:
    """Return what reads all fields at once, and their defaults."""
    columns = _columns(name)
    return attrgetter(*(name for name, _ in columns)), tuple(default for _, default in columns)


@cache
def _columns(name: str) -> tuple[tuple[str, Any], ...]:
    kind = next(kind for kind in _INNER if kind.__name__ == name)
    return tuple((column.name, _default(column)) for column in fields(kind))


def _default(column: Field[Any]) -> Any:
    if column.default is not MISSING:
        return column.default
    return MISSING if column.default_factory is MISSING else column.default_factory()


# What was said of a session, as bytes: which results, in which revision, and a digest of each.

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
"""What most results of a session have in common."""


def encode_session(session: SessionState) -> bytes:
    """Return what must be known of a session to go on with it after a restart, beside its records."""
    shared: dict[str, int] = {}
    commons: list[Any] = []
    results: list[Any] = []
    for one in session.results.values():
        common = [_plain_session_records(getattr(one, name)) for name in _SHARED]
        text = repr(common)
        if text not in shared:
            shared[text] = len(commons)
            commons.append(common)
        target = None if one.target is None else [_short(one.target.trace_id), _short(one.target.span_id)]
        digest = _short(_digest(one))
        place = (one.level.value, target, one.timestamp, one.turn_index)
        results.append([shared[text], _short(one.id), digest, one.revision, *place])
    return zlib_compress(msgspec.msgpack.encode([session.dropped_until, sorted(session.over), commons, results]))


def decode_session(session_id: str, state: bytes, now: float) -> SessionState:
    """Return the session in these bytes. Raises `ValueError` where there is none."""
    try:
        dropped_until, over, commons, results = msgspec.msgpack.decode(zlib.decompress(state))
        session = SessionState(session_id, last=now, over=set(over), dropped_until=dropped_until)
        for number, result_id, digest, revision, level, target, timestamp, turn_index in results:
            common: dict[str, Any] = dict(zip(_SHARED, commons[number], strict=True))
            common["resource"] = msgspec.convert(common["resource"], ResourceFacts)
            evaluation = Evaluation(
                id=_long(result_id),
                revision=revision,
                level=Level(level),
                verdict=INCOMPLETE,
                target=None if target is None else SpanRef(*map(_long, target)),
                timestamp=timestamp,
                session_id=session_id,
                detail=DetailDigest(_long(digest)),
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


def _short(text: str) -> bytes | str:
    """Return hex as the bytes it stands for; other text as it is."""
    try:
        return bytes.fromhex(text) if text and text == text.lower() else text
    except ValueError:
        return text


def _long(short: bytes | str) -> str:
    return short if isinstance(short, str) else short.hex()


def _plain_session_records(value: object) -> object:
    return msgspec.to_builtins(value)
