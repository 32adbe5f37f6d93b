"""What crosses the topic by session, and the rows of both stages, as bytes.

A fragment is the part of a turn that one trace holds: its recognised spans, with what log records add to them, the
spans above them, and its session. It is encoded without anything that no turn, call or score is made of, so that the
same fragment has the same bytes, whatever came around it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from goldspan.collector_processor.compression import zlib_compress
from goldspan.collector_processor.encoded_spans.call_records import (
    KeptContent,
    Piece,
    decode_record,
    decode_session,
    encode_record,
    encode_session,
    with_contents,
)
from goldspan.collector_processor.engine.session_scorer import SessionState
from goldspan.mappers.assembly.trace_tree import time_order
from goldspan.mappers.assembly.turn_fragments import FoundSession, Fragment, restored_fragment
from goldspan.mappers.span_facts import NO_CONTEXT, ContextFacts, LogFacts, SpanFacts, first_captured
from goldspan.scoring.sessions import NO_CONTENT, Content

FORMAT = 1
"""Of messages and rows; those of another format are refused."""


# Messages from the first stage to the second.


class SessionMessage(Struct, frozen=True, gc=False, array_like=True):
    """What the first stage tells a session, or the watermark alone, told to each partition of the second."""

    format: int
    source: int
    """The partition of the first stage that it comes from."""
    watermark: float
    """Event time up to which that partition has sent everything, in seconds since the epoch."""
    trace: str = ""
    changes: tuple[tuple[str, bytes | None], ...] = ()
    """Fragments of that trace by the span id of their root; None: it does not belong to this session any longer."""
    held: bytes = b""
    """An `ExportTraceServiceRequest` with spans that get their scores now."""
    epoch: int = 0
    """How often the partition has begun with a worker: a later one continues at the last commit and says all anew."""


_messages = msgspec.msgpack.Decoder(SessionMessage)
_encode = msgspec.msgpack.Encoder().encode


def session_message(
    source: int,
    watermark: float,
    trace: str = "",
    changes: Iterable[tuple[str, bytes | None]] = (),
    held: bytes = b"",
    *,
    epoch: int = 0,
) -> bytes:
    """Return a message of the first stage as bytes."""
    return _encode(SessionMessage(FORMAT, source, watermark, trace, tuple(changes), held, epoch))


def decode_message(body: bytes) -> SessionMessage:
    """Return the message in these bytes. Raises `ValueError` if there is none."""
    try:
        message = _messages.decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"found no message of the first stage: {error}") from error
    if message.format != FORMAT:
        raise ValueError(f"found a message of format {message.format}, expected {FORMAT}: it is of another version")
    return message


# Fragments.


def encode_fragment(fragment: Fragment, *, incomplete: bool) -> bytes:
    """Return a fragment as bytes; `incomplete`: records of its trace were dropped."""
    taken = _taken_contents(fragment)
    others = _spans_above(fragment)
    session = fragment.session
    spans = [*(_needed(span, taken) for span in fragment.spans), *(_needed(span, taken, above=True) for span in others)]
    same = _same_definitions(spans)
    for at, _ in same:
        spans[at] = _with_definitions(spans[at], NO_CONTENT)
    records, members = list(map(encode_record, spans)), len(fragment.spans)
    content = (
        fragment.root.span_id,
        (session.id, session.source, session.ambiguous),
        incomplete,
        records[:members],
        records[members:],
        same,
    )
    return zlib_compress(_encode(content))


def _same_definitions(spans: Sequence[SpanFacts]) -> list[tuple[int, int]]:
    """Return the places of spans with the definitions of tools of an earlier one, and the place of that one."""
    first: list[int] = []
    same: list[tuple[int, int]] = []
    for at, span in enumerate(spans):
        if (own := span.context.tool_definitions) != NO_CONTENT:
            before = next((one for one in first if spans[one].context.tool_definitions == own), None)
            if before is None:
                first.append(at)
            else:
                same.append((at, before))
    return same


def _with_definitions(span: SpanFacts, definitions: Content) -> SpanFacts:
    return span.changed(context=replace(span.context, tool_definitions=definitions))


def _spans_above(fragment: Fragment) -> list[SpanFacts]:
    """Return the spans above those of a fragment, in the order of time."""
    ids = {span.span_id for span in fragment.spans}
    above = {} if fragment.root_span is None else {fragment.root.span_id: fragment.root_span}
    for span_id in (fragment.root.span_id, *ids):
        for span in fragment.tree.ancestors(span_id):
            if span.span_id in above:
                break
            above[span.span_id] = span
    return sorted((span for span_id, span in above.items() if span_id not in ids), key=time_order)


def decode_fragment(encoded: bytes) -> tuple[Fragment, bool]:
    """Return the fragment in these bytes, and whether records of its trace were dropped. Raises `ValueError`."""
    try:
        root, session, incomplete, members, others, same = msgspec.msgpack.decode(zlib.decompress(encoded))
        spans = _spans([*members, *others])
        places: list[tuple[int, int]] = same
        for at, before in places:
            spans[at] = _with_definitions(spans[at], spans[before].context.tool_definitions)
        fragment = restored_fragment(root, spans[: len(members)], spans[len(members) :], FoundSession(*session))
    except (msgspec.MsgspecError, zlib.error, TypeError, IndexError) as error:
        raise ValueError(f"found a part of a turn that cannot be read: {error}") from error
    return fragment, incomplete


def _spans(encoded: Sequence[bytes]) -> list[SpanFacts]:
    return [fact for one in encoded if not isinstance(fact := decode_record(one), LogFacts)]


def _needed(span: SpanFacts, contents: Sequence[Content], *, above: bool = False) -> SpanFacts:
    """Return a span with what its turn is made of.

    The version tells only which delivery is kept, and the session is known. Of messages and the like only those in
    `contents` stay, and the definitions of tools. What a tool `above` a fragment did is not a part of it.
    """
    resource = span.resource if not span.resource.session_keys else replace(span.resource, session_keys=())
    context = span.context
    if context is not NO_CONTEXT:
        own = context.user_text, context.answer, context.messages
        taken = [one if one is chosen else NO_CONTENT for one, chosen in zip(own, contents, strict=True)]
        context = ContextFacts(taken[0], taken[1], taken[2], context.tool_definitions)
    tool = None if above else span.tool
    needed = span.changed(version=(0, 0, ""), session_keys=(), notes=(), resource=resource, context=context, tool=tool)
    return needed if (whole := with_contents(needed, _whole)) is needed or isinstance(whole, LogFacts) else whole


def _whole(content: Content) -> Content:
    return Content(content.raw, content.capture) if isinstance(content, KeptContent) else content


def _taken_contents(fragment: Fragment) -> tuple[Content, ...]:
    """Return the contents of a fragment that its turn may take: the first or the last copy that was captured.

    Each model call repeats the messages so far.
    """
    root = [fragment.root_span.context] if fragment.root_span is not None else []
    own = [span.context for span in fragment.spans]
    return (
        first_captured(one.user_text for one in [*root, *own]),
        first_captured(one.answer for one in [*root, *reversed(own)]),
        first_captured(one.messages for one in [*reversed(own), *root]),
    )


def digest(encoded: bytes) -> bytes:
    """Return 8 bytes that differ where the encoded fragments do."""
    return blake2b(encoded, digest_size=8).digest()


# Rows.

TraceRow = tuple[list[tuple[str, bytes]], list[bytes]]
"""Pieces of text by their keys, and encoded records that name them."""


def encode_trace_row(pieces: Iterable[Piece], records: Sequence[bytes]) -> bytes:
    """Return encoded records of a trace, and the pieces of text that no earlier row of it has, as one row."""
    return zlib_compress(_encode(([(piece.key, piece.read()) for piece in pieces], records)))


def decode_trace_row(row: bytes) -> TraceRow:
    """Return what is in a row of a trace. Raises `ValueError`."""
    try:
        found: TraceRow = msgspec.msgpack.decode(zlib.decompress(row), type=TraceRow)
    except (msgspec.MsgspecError, zlib.error) as error:
        raise ValueError(f"found a row that cannot be read: {error}") from error
    return found


def encode_head(state: SessionState, *, incomplete: bool) -> bytes:
    """Return the state of a session without its fragments."""
    return _encode((FORMAT, state.due, state.last, state.is_scored, incomplete, state.id, encode_session(state)))


def due_of(head: bytes) -> float | None:
    """Return when a session is looked at next."""
    due: float | None = _decoded(head)[0]
    return due


def decode_head(head: bytes) -> tuple[SessionState, bool]:
    """Return the state of a session without its fragments, and whether it is incomplete. Raises `ValueError`."""
    due, last, is_scored, incomplete, session_id, encoded = _decoded(head)
    state = decode_session(session_id, encoded, last)
    state.due, state.is_scored = due, is_scored
    return state, incomplete


def _decoded(row: bytes) -> list[Any]:
    try:
        found: list[Any] = msgspec.msgpack.decode(row)
    except msgspec.MsgspecError as error:
        raise ValueError(f"found a row that cannot be read: {error}") from error
    if not found or found[0] != FORMAT:
        raise ValueError(f"found a row of format {found[0] if found else None}, expected {FORMAT}")
    return found[1:]


Item = TypeVar("Item")

_MAX_BYTES = 400_000
"""Of a row and of a message, about; a broker takes a megabyte unless it is told otherwise."""


def chunks(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield lists of items, each as long as one row or message may be; an item that is larger is alone."""
    some: list[Item] = []
    total = 0
    for item in items:
        more = size(item)
        if some and total + more > _MAX_BYTES:
            yield some
            some, total = [], 0
        some.append(item)
        total += more
    if some:
        yield some
