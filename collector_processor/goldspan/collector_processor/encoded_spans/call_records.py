"""Rows of the journal as bytes: what was read of spans and log records, and the results given for a session.

A call takes a few hundred bytes. Of facts only the fields that differ from their defaults are written.
`SCHEMA` lists fields and encoding: records of a version that had fewer fields are read, others are not misread.

Messages, results and tool definitions, where a metric asks for them, are kept in `KeptTexts`: a tenant keeps each text
once, and bounded. The span of a model call repeats the conversation so far, and most traces of an agent repeat the
definitions of its tools. So longer content is kept in pieces, which all records that hold the same text share. Text is
cut between the elements of JSON lists: two conversations that begin alike have the same pieces up to where they differ.
Call records name pieces by their digests, and in the journal each piece is a row of its own. Content that does not fit
into the bounds becomes `DROPPED`, and the results of its run are incomplete.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from goldspan.collector_processor.emit.evaluation import DetailDigest, Evaluation, Level, counted_of, tool_name
from goldspan.collector_processor.engine.result_revisions import INCOMPLETE, digest_of
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.mappers.readers.compression import zlib_library
from goldspan.mappers.span_facts import (
    NO_CONTEXT,
    ContextFacts,
    LazySpanFacts,
    LogFacts,
    ModelFacts,
    Record,
    RequestEvidence,
    ResourceFacts,
    ResultEvidence,
    SpanEvidence,
    SpanFacts,
    SpanLook,
    ToolFacts,
    ToolRequest,
)
from goldspan.scoring.json_values import is_list
from goldspan.scoring.sessions import Capture, Content, SpanRef

_BETWEEN_ELEMENTS = re.compile(rb"\},(?=\s*\{)")
_LEAST = 200  # bytes of a piece; content of fewer characters stays in its record
_MOST_BEGUN = 16  # texts of a trace that others may go on from
_PACKED_FROM = 256
_LOOKED_AT = 64  # traces that are looked at to make room
_DIGEST = 16
_TEXT, _LIST = 1, 2
"""How content is made of its pieces: joined text, or a list with an element in each. They are codes in the journal."""
_ROW = "text "
MAX_OF_TRACE = 1 << 20
"""Bytes of text that are kept of one trace."""

DROPPED = Content(None, Capture.TRUNCATED)
"""Content that did not fit into the bounds. Telemetry that was truncated holds what is left of it."""


class Piece:
    """A part of recorded content."""

    __slots__ = ("_stored", "digest", "users", "written")

    def __init__(self, digest: bytes, content: bytes, *, written: bool = False) -> None:
        self.digest = digest
        self._stored = (content, False)
        """Bytes, and whether they are compressed: one value, since metrics read it in threads of their own."""
        self.users = 0
        """Traces that hold it."""
        self.written = written
        """It is in the journal."""

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return len(self._stored[0])

    @property
    def key(self) -> str:
        """Its place in the journal, where call records have their trace id."""
        return _ROW + self.digest.hex()

    def read(self) -> bytes:
        """Return its bytes."""
        stored, packed = self._stored
        return zlib.decompress(stored) if packed else stored

    def stands_in(self, text: bytes, at: int) -> bool:
        """Whether it stands at a place of a text; never once it is compressed."""
        stored, packed = self._stored
        return not packed and text.startswith(stored, at)

    def pack(self) -> None:
        """Compress it."""
        stored, packed = self._stored
        if not packed and len(stored) >= _PACKED_FROM:
            self._stored = zlib.compress(stored, 1), True


class Pieces:
    """Recorded content in pieces."""

    __slots__ = ("kind", "parts")

    def __init__(self, kind: int, parts: tuple[Piece, ...]) -> None:
        self.kind = kind
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pieces) and self.encoded() == other.encoded()

    def __hash__(self) -> int:
        return hash(self.encoded().data)

    def value(self) -> object:
        """Return the content as it was recorded."""
        if self.kind == _LIST:
            return [msgspec.msgpack.decode(part.read()) for part in self.parts]
        return b"".join(part.read() for part in self.parts).decode("utf-8", "surrogatepass")

    def encoded(self) -> msgspec.msgpack.Ext:
        """Return the digests of the pieces, as they are in call records."""
        return msgspec.msgpack.Ext(self.kind, b"".join(part.digest for part in self.parts))


class KeptContent(Content, frozen=True, gc=False):
    """Content whose `raw` is put together from pieces whenever it is used."""

    @property
    def pieces(self) -> Pieces:
        """The pieces."""
        return _raw_slot(self)

    def __repr__(self) -> str:
        return repr(Content(self.raw, self.capture))


_raw_slot: Callable[[Content], Pieces] = vars(Content)["raw"].__get__
KeptContent.raw = property(lambda content: content.pieces.value())  # pyright: ignore[reportAttributeAccessIssue]


class KeptTexts:
    """The pieces of one tenant, by the traces that hold them. For one thread."""

    def __init__(self, on_gone: Callable[[str], object], max_bytes: int = 256 << 20) -> None:
        """Keep at most `max_bytes`; `on_gone` gets the key of each piece in the journal that no trace holds now."""
        self.max_bytes = max_bytes
        self.size = 0
        """Bytes in memory."""
        self._on_gone = on_gone
        self._pieces: dict[bytes, Piece] = {}
        self._of_trace: OrderedDict[str, dict[bytes, int]] = OrderedDict()
        """The pieces of each trace with their sizes; the trace that got one last is the last."""
        self._sizes: dict[str, int] = {}
        self._begun: dict[str, dict[int, tuple[Piece, ...]]] = {}
        """The pieces of the latest texts of each trace, by how they begin: a text that goes on is cut from there."""
        self._refused = False

    def kept(self, fact: Record) -> Record:
        """Return a record with its longer content in pieces; content that does not fit is `DROPPED`."""
        trace = fact.trace_id
        return with_contents(fact, lambda content: self._kept(content, trace))

    def hold(self, fact: Record) -> None:
        """Note that the record's trace holds the pieces in it, after a restart."""
        for piece in pieces_of(fact):
            self._add(piece, fact.trace_id)

    def find(self, kind: int, digests: bytes) -> Pieces | None:
        """Return the pieces with these digests; None if one of them is gone."""
        found = [self._pieces.get(digests[at : at + _DIGEST]) for at in range(0, len(digests), _DIGEST)]
        parts = tuple(piece for piece in found if piece is not None)
        return Pieces(kind, parts) if len(parts) == len(found) else None

    def restore(self, key: str, content: bytes) -> None:
        """Restore a piece of the journal; `drop_unused` drops it again if no record holds it."""
        piece = Piece(bytes.fromhex(key.removeprefix(_ROW)), content, written=True)
        if piece.digest not in self._pieces:
            self._pieces[piece.digest] = piece
            self.size += piece.size

    def drop_unused(self) -> None:
        """Drop restored pieces that no trace holds."""
        for piece in [one for one in self._pieces.values() if not one.users]:
            self._drop(piece)

    def release(self, trace_id: str) -> None:
        """Drop the pieces that only this trace holds."""
        self._sizes.pop(trace_id, None)
        self._begun.pop(trace_id, None)
        for digest in self._of_trace.pop(trace_id, ()):
            piece = self._pieces[digest]
            piece.users -= 1
            if not piece.users:
                self._drop(piece)

    def pack(self, trace_id: str) -> None:
        """Compress the pieces of a quiet trace."""
        self._begun.pop(trace_id, None)
        for digest in self._of_trace.get(trace_id, ()):
            piece = self._pieces[digest]
            self.size -= piece.size
            piece.pack()
            self.size += piece.size

    @property
    def is_full(self) -> bool:
        """So much is kept that room should be made."""
        return self._refused or self.size > self.max_bytes // 8 * 7

    def make_room(self, quiet: Container[bytes]) -> None:
        """Drop the pieces of quiet traces, of those first that got none for longest.

        A record that comes for such a trace later makes its run incomplete.
        """
        self._refused = False
        for trace_id in list(islice(self._of_trace, _LOOKED_AT)):
            if self.size <= self.max_bytes // 4 * 3:
                break
            if bytes.fromhex(trace_id) in quiet:
                self.release(trace_id)

    def _kept(self, content: Content, trace_id: str) -> Content:
        if content.capture is not Capture.CAPTURED or isinstance(content, KeptContent):
            return content
        begun = self._begun.get(trace_id, {})
        pieces = _cut(content.raw, begun)
        if pieces is None:
            return content
        kind, known, parts = pieces
        digests = [blake2b(part, digest_size=_DIGEST).digest() for part in parts]
        rest = dict(zip(digests, parts, strict=True))
        of_trace = self._of_trace.get(trace_id, {})
        new = sum(len(part) for digest, part in rest.items() if digest not in of_trace)
        if new and self.size + new > self.max_bytes:
            self._refused = True
            return DROPPED
        if self._sizes.get(trace_id, 0) + new > MAX_OF_TRACE:
            return DROPPED
        found = {
            digest: self._add(self._pieces.get(digest) or Piece(digest, part), trace_id, len(part))
            for digest, part in rest.items()
        }
        every = (*known, *(found[digest] for digest in digests))
        if kind == _TEXT and len(every) > 1:
            if len(begun) >= _MOST_BEGUN:
                begun.clear()
            begun[hash(every[0].read()[:_LEAST])] = every
            self._begun[trace_id] = begun
        return KeptContent(Pieces(kind, every), content.capture)

    def _add(self, piece: Piece, trace_id: str, length: int | None = None) -> Piece:
        known = self._pieces.setdefault(piece.digest, piece)
        if known is piece and not piece.users and not piece.written:
            self.size += piece.size
        of_trace = self._of_trace.setdefault(trace_id, {})
        if piece.digest not in of_trace:
            self._of_trace.move_to_end(trace_id)
            of_trace[piece.digest] = length = len(known.read()) if length is None else length
            self._sizes[trace_id] = self._sizes.get(trace_id, 0) + length
            known.users += 1
        return known

    def _drop(self, piece: Piece) -> None:
        del self._pieces[piece.digest]
        self.size -= piece.size
        if piece.written:
            self._on_gone(piece.key)


def is_piece(key: str) -> bool:
    """Tell whether this is the key of a piece in the journal, and no trace id."""
    return key.startswith(_ROW)


def with_contents(fact: Record, change: Callable[[Content], Content]) -> Record:
    """Return a record with other content in the place of messages, results and definitions."""

    def of_tool(tool: ToolFacts) -> ToolFacts:
        result = change(tool.result)
        return tool if result is tool.result else replace(tool, result=result)

    changes: dict[str, Any] = {}
    if (context := fact.context) is not NO_CONTEXT:
        every = (context.user_text, context.answer, context.messages, context.tool_definitions)
        changes["context"] = ContextFacts(*map(change, every))
    if isinstance(fact, LogFacts):
        if fact.tools:
            changes["tools"] = tuple(map(of_tool, fact.tools))
        return replace(fact, **changes) if changes else fact
    if (tool := fact.tool) is not None and (kept := of_tool(tool)) is not tool:
        changes["tool"] = kept
    return fact.changed(**changes) if changes else fact


def contents_of(fact: Record) -> Iterator[Content]:
    """Yield messages, results and definitions of a record."""
    context = fact.context
    if context is not NO_CONTEXT:
        yield from (context.user_text, context.answer, context.messages, context.tool_definitions)
    tools = fact.tools if isinstance(fact, LogFacts) else () if fact.tool is None else (fact.tool,)
    yield from (tool.result for tool in tools)


def pieces_of(fact: Record) -> Iterator[Piece]:
    """Yield the pieces in a record."""
    for content in contents_of(fact):
        if isinstance(content, KeptContent):
            yield from content.pieces.parts


def lost_text(fact: Record) -> bool:
    """Tell whether content of a record did not fit into the bounds."""
    return any(content.capture is Capture.TRUNCATED and content.raw is None for content in contents_of(fact))


def _cut(raw: object, begun: Mapping[int, Sequence[Piece]]) -> tuple[int, Sequence[Piece], Sequence[bytes]] | None:
    """Return how recorded content is made of parts: the pieces that it begins with as a text before it, and the others.

    None for content that stays in its record.
    """
    if isinstance(raw, str):
        if len(raw) < _LEAST:
            return None
        text = raw.encode("utf-8", "surrogatepass")
        known, at = _pieces_at_start(text, begun.get(hash(text[:_LEAST]), ()))
        return _TEXT, known, [*_parts(text, at)]
    if is_list(raw):
        try:
            parts = [msgspec.msgpack.encode(element) for element in raw]
        except (TypeError, OverflowError, RecursionError, UnicodeEncodeError):  # as rarely as in `encode_record`
            return None
        return (_LIST, (), parts) if sum(map(len, parts)) >= _LEAST else None
    return None


def _pieces_at_start(text: bytes, pieces: Sequence[Piece]) -> tuple[Sequence[Piece], int]:
    """Return those of a text's pieces that another text is cut into, too, and where they end in it."""
    at = count = 0
    for piece in pieces[:-1]:  # the last one ended with its text
        if not piece.stands_in(text, at):
            break
        at += piece.size
        count += 1
    if count and _BETWEEN_ELEMENTS.match(text, at - 2) is None:
        count -= 1
        at -= pieces[count].size
    return pieces[:count], at


def _parts(text: bytes, start: int) -> Iterator[bytes]:
    for found in _BETWEEN_ELEMENTS.finditer(text, start):
        if found.end() - start >= _LEAST:
            yield text[start : found.end()]
            start = found.end()
    yield text[start:]


_KINDS = (
    *(SpanFacts, LogFacts, ToolFacts, ModelFacts, ToolRequest, ContextFacts, ResourceFacts, Content),
    *(SpanEvidence, RequestEvidence, ResultEvidence, SpanLook),
)
_ENCODING = "msgpack"
SCHEMA = " ".join([_ENCODING, *(f"{kind.__name__}.{name}" for kind in _KINDS for name in kind.__struct_fields__)])
"""The encoding of records, and the fields of facts. Fields with their defaults are left out of a record."""
_READABLE_HASHES = frozenset({"390ed21c8deca76e"})
"""Schemas of journals that stand as hashes, from before fields were listed, whose fields are all among today's."""


def is_readable(schema: str) -> bool:
    """Whether records of this schema can be read: each of their fields is known; those that they lack have defaults."""
    return schema in _READABLE_HASHES or {_ENCODING} <= set(schema.split()) <= set(SCHEMA.split())


_MSGPACK: Mapping[bytes, type[Record]] = {b"s": SpanFacts, b"l": LogFacts}
_JSON: Mapping[bytes, type[Record]] = {b"S": SpanFacts, b"L": LogFacts}
"""What is in a record and how it is encoded, by its first byte."""
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


def decode_record(record: bytes, find: Callable[[int, bytes], Pieces | None] = lambda _, __: None) -> Record:
    """Return the facts in these bytes; content whose pieces `find` does not find, by kind and digests, is `DROPPED`.

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
    "has_event",
    "golden_digest",
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
    encoded = _encode([session.dropped, sorted(session.complete_runs), commons, results])
    return cast("bytes", zlib_library().compress(encoded, 1))


_encode = msgspec.msgpack.Encoder().encode
_shared = attrgetter(*_SHARED)
_ARRAY_OF_8 = b"\x98"  # how MessagePack begins an array of 8 values


def _encoded_result(one: Evaluation) -> tuple[bytes, bytes]:
    """Return what a result may share with others, and the 7 values of its own."""
    digest = one.detail.digest if isinstance(one.detail, DetailDigest) else digest_of(one)
    target = None if one.target is None else [_hex_to_bytes(one.target.trace_id), _hex_to_bytes(one.target.span_id)]
    identity = (_hex_to_bytes(one.id), _hex_to_bytes(digest), one.revision)
    own = _encode((*identity, one.level.value, target, one.timestamp, one.turn_index))
    return _encode((*_shared(one), tool_name(one.detail), counted_of(one))), own[1:]


def decode_session(session_id: str, state: bytes, now: float) -> SessionState:
    """Return the session in these bytes. Raises `ValueError` if there is none."""
    try:
        dropped, complete_runs, shared_values, results = msgspec.msgpack.decode(zlib.decompress(state))
        session = SessionState(session_id, last=now, complete_runs=set(complete_runs))
        session.dropped = () if isinstance(dropped, int) else tuple((began, ended) for began, ended in dropped)
        for number, result_id, digest, revision, level, target, timestamp, turn_index in results:
            # The last release wrote fewer values.
            common: dict[str, Any] = dict(zip((*_SHARED, "tool", "counted"), shared_values[number], strict=False))
            tool, counts = common.pop("tool", None), common.pop("counted", ())
            counted = tuple([(name, label, kind) for name, label, kind in counts])
            common["resource"] = msgspec.convert(common["resource"], ResourceFacts)
            evaluation = Evaluation(
                id=_bytes_to_hex(result_id),
                revision=revision,
                level=Level(level),
                verdict=INCOMPLETE,
                target=None if target is None else SpanRef(*map(_bytes_to_hex, target)),
                timestamp=timestamp,
                session_id=session_id,
                detail=DetailDigest(_bytes_to_hex(digest), tool, counted),
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
