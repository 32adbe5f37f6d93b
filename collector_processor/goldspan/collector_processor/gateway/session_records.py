"""What was said of a session, as bytes: which results, in which revision, and a digest of each."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec

from goldspan.collector_processor.evaluation import Evaluation, Level, Remembered
from goldspan.collector_processor.evaluations import INCOMPLETE, digest_of
from goldspan.collector_processor.store import SessionState
from goldspan.mappers.facts import ResourceFacts
from goldspan.scoring.sessions import SpanRef

_LEFT_OUT = {"verdict", "detail", "explanation", "session_id"}
_KEPT = tuple(column.name for column in fields(Evaluation) if column.name not in _LEFT_OUT)


def packed_session(session: SessionState) -> bytes:
    """Return what must be known of a session to go on with it after a restart, beside its records."""
    results = [
        [_digest(evaluation), *(_plain(getattr(evaluation, name)) for name in _KEPT)]
        for evaluation in session.results.values()
    ]
    return msgspec.msgpack.encode([session.dropped_until, sorted(session.over), results])


def unpacked_session(session_id: str, state: bytes, now: float) -> SessionState:
    """Return the session in these bytes. Raises `ValueError` where there is none."""
    try:
        dropped_until, over, results = msgspec.msgpack.decode(state)
        session = SessionState(session_id, last=now, over=set(over), dropped_until=dropped_until)
        for digest, *values in results:
            said: dict[str, Any] = dict(zip(_KEPT, values, strict=True))
            said["level"] = Level(said["level"])
            said["target"] = None if said["target"] is None else SpanRef(*said["target"])
            said["resource"] = msgspec.convert(said["resource"], ResourceFacts)
            evaluation = Evaluation(
                **said, verdict=INCOMPLETE, detail=Remembered(digest), explanation="", session_id=session_id
            )
            session.results[evaluation.id] = evaluation
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ValueError(f"found a session that cannot be read: {error}") from error
    return session


def _digest(evaluation: Evaluation) -> str:
    return evaluation.detail.digest if isinstance(evaluation.detail, Remembered) else digest_of(evaluation)


def _plain(value: object) -> object:
    return msgspec.to_builtins(value)
