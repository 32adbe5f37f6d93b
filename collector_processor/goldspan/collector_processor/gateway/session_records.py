"""What was said of a session, as bytes: which results, in which revision, and a digest of each."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from goldspan.collector_processor.evaluation import Evaluation, Level, Remembered
from goldspan.collector_processor.evaluations import INCOMPLETE, digest_of
from goldspan.collector_processor.gateway.compression import deflated
from goldspan.collector_processor.store import SessionState
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

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


def packed_session(session: SessionState) -> bytes:
    """Return what must be known of a session to go on with it after a restart, beside its records."""
    shared: dict[str, int] = {}
    commons: list[Any] = []
    results: list[Any] = []
    for one in session.results.values():
        common = [_plain(getattr(one, name)) for name in _SHARED]
        text = repr(common)
        if text not in shared:
            shared[text] = len(commons)
            commons.append(common)
        target = None if one.target is None else [_short(one.target.trace_id), _short(one.target.span_id)]
        digest = _short(_digest(one))
        place = (one.level.value, target, one.timestamp, one.turn_index)
        results.append([shared[text], _short(one.id), digest, one.revision, *place])
    return deflated(msgspec.msgpack.encode([session.dropped_until, sorted(session.over), commons, results]))


def unpacked_session(session_id: str, state: bytes, now: float) -> SessionState:
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
                detail=Remembered(_long(digest)),
                explanation="",
                turn_index=turn_index,
                **common,
            )
            session.results[evaluation.id] = evaluation
    except (msgspec.MsgspecError, zlib.error, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"found a session that cannot be read: {error}") from error
    return session


def _digest(evaluation: Evaluation) -> str:
    return evaluation.detail.digest if isinstance(evaluation.detail, Remembered) else digest_of(evaluation)


def _short(text: str) -> bytes | str:
    """Return hex as the bytes it stands for; other text as it is."""
    try:
        return bytes.fromhex(text) if text and text == text.lower() else text
    except ValueError:
        return text


def _long(short: bytes | str) -> str:
    return short if isinstance(short, str) else short.hex()


def _plain(value: object) -> object:
    return msgspec.to_builtins(value)
