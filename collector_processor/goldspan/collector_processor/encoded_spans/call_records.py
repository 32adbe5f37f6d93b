"""Rows of the journal as bytes: what was read of spans and log records, and the results given for a session.

A call takes a few hundred bytes. Of facts only the fields that differ from their defaults are written.
`SCHEMA` is a hash of fields and encoding, so that records of another version are recognised and not misread.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from goldspan.collector_processor.compression import zlib_compress
from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Level
from goldspan.collector_processor.encoded_spans.kept_texts import DROPPED, KeptContent, Pieces, with_contents
from goldspan.collector_processor.engine.evaluations import INCOMPLETE, digest_of
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.mappers.span_facts import (
    ContextFacts,
    LazySpanFacts,
    LogFacts,
    ModelFacts,
    Record,
    ResourceFacts,
    SpanFacts,
    ToolFacts,
    ToolRequest,
)
from goldspan.scoring.sessions import Content, SpanRef

_KINDS = (SpanFacts, LogFacts, ToolFacts, ModelFacts, ToolRequest, ContextFacts, ResourceFacts, Content)
_ENCODING = "msgpack, defaults left out"
SCHEMA = hashlib.sha256(
    repr([_ENCODING, *((kind.__name__, kind.__struct_fields__) for kind in _KINDS)]).encode()
).hexdigest()[:16]
"""A hash of the fields of facts and of how they are encoded."""

_MSGPACK: Mapping[bytes, type[Record]] = {b"s": SpanFacts, b"l": LogFacts}
_JSON: Mapping[bytes, type[Record]] = {b"S": SpanFacts, b"L": LogFacts}
"""What is in a record and how it is encoded, by its first byte."""
FindPieces = Callable[[int, bytes], Pieces | None]
"""Finds the pieces of content by their kind and digests; None if they are gone."""
_encoder = msgspec.msgpack.Encoder(enc_hook=lambda value: value.encoded() if isinstance(value, Pieces) else repr(value))


def encode_record(facts: Record) -> bytes:
    """Return facts as bytes, with the digests of content that is kept in pieces."""
    facts = facts.read() if isinstance(facts, LazySpanFacts) else facts
    kind = b"l" if isinstance(facts, LogFacts) else b"s"
    try:
        return kind + _encoder.encode(facts)
    except (OverflowError, RecursionError, UnicodeEncodeError):  # a number of more than 64 bits, half a character
        return kind.upper() + json.dumps(msgspec.to_builtins(facts, enc_hook=_builtin), default=repr).encode()


def _builtin(value: object) -> object:
    return value.value() if isinstance(value, Pieces) else repr(value)


def decode_record(record: bytes, find: FindPieces = lambda _, __: None) -> Record:
    """Return the facts in these bytes; content whose pieces `find` does not find is `DROPPED`.

    Raises `ValueError` if there are none.
    """
    kind, content = record[:1], record[1:]
    in_pieces = False

    def found(code: int, digests: memoryview) -> object:
        nonlocal in_pieces
        in_pieces = True
        return find(code, bytes(digests)) or DROPPED

    def restored(content: Content) -> Content:
        if content.raw is DROPPED:
            return DROPPED
        return KeptContent(content.raw, content.capture) if isinstance(content.raw, Pieces) else content

    try:
        if kind in _JSON:
            return msgspec.convert(json.loads(content), _JSON[kind])
        facts = msgspec.msgpack.decode(content, type=_MSGPACK[kind], ext_hook=found)
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise ValueError(f"found a call record that cannot be read: {error}") from error
    return with_contents(facts, restored) if in_pieces else facts


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
    shared: dict[bytes, tuple[bytes, bytes]] = {}
    results: list[msgspec.Raw] = []
    before, session.written = session.written, {}
    for one in session.results.values():
        written = before.get(one.id)
        _, common, own = written if written is not None and written[0] is one else (one, *_encoded_result(one))
        number, common = shared.get(common) or shared.setdefault(common, (_encode(len(shared)), common))
        session.written[one.id] = one, common, own
        results.append(msgspec.Raw(_ARRAY_OF_8 + number + own))
    commons = list(map(msgspec.Raw, shared))
    return zlib_compress(_encode([session.dropped_until, sorted(session.complete_runs), commons, results]))


_encode = msgspec.msgpack.Encoder().encode
_ARRAY_OF_8 = b"\x98"
"""How MessagePack begins an array of 8 values."""


def _encoded_result(one: Evaluation) -> tuple[bytes, bytes]:
    """Return what a result may share with others, and the 7 values of its own."""
    digest = one.detail.digest if isinstance(one.detail, DetailDigest) else digest_of(one)
    target = None if one.target is None else [_hex_to_bytes(one.target.trace_id), _hex_to_bytes(one.target.span_id)]
    identity = (_hex_to_bytes(one.id), _hex_to_bytes(digest), one.revision)
    own = _encode((*identity, one.level.value, target, one.timestamp, one.turn_index))
    return _encode([getattr(one, name) for name in _SHARED]), own[1:]


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


def _hex_to_bytes(text: str) -> bytes | str:
    """Return lower-case hex digits as bytes; other text as it is."""
    try:
        return bytes.fromhex(text) if text and text == text.lower() else text
    except ValueError:
        return text


def _bytes_to_hex(short: bytes | str) -> str:
    return short if isinstance(short, str) else short.hex()
