"""Log records behind the same door as spans: a record in, its facts out, or none where it says nothing (R11)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from goldspan.mappers.dialects.capture import plain
from goldspan.mappers.dialects.dialect import LogDialect, LogReading
from goldspan.mappers.dialects.identifiers import identifier
from goldspan.mappers.dialects.log_records import event_name
from goldspan.mappers.facts import NO_CONTEXT, ContextFacts, LogFacts, ToolFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.errors import DialectError
from goldspan.scoring.sessions import NO_CONTENT, Content

_EVALUATIONS = "gen_ai.evaluation.result"
"""Events, goldspan's own among them, that judge a span: no evidence of what ran."""
_NOTHING = LogReading()

OnFailure = Callable[[str, Exception, LogView], object]
"""Is told of a dialect that raised, and on what."""


class LogRegistry:
    """Reads log records by the dialects that know their events, and the session attributes of any record."""

    def __init__(self, dialects: Iterable[object], session_keys: Iterable[str], on_failure: OnFailure) -> None:
        """Take those of the dialects that read log records."""
        self._on_failure = on_failure
        self._readers: dict[str, tuple[LogDialect, ...]] = {}
        for dialect in dialects:
            if isinstance(dialect, LogDialect):
                for name in dialect.log_events:
                    self._readers[name] = (*self._readers.get(name, ()), dialect)
        self._session_keys = dict.fromkeys(session_keys)

    def may_tell(self, name: str, attributes: Mapping[str, Any]) -> bool:
        """Say, at little cost, whether a record of this event name is worth reading."""
        older = attributes.get("event.name")
        if name in self._readers or (isinstance(older, str) and older in self._readers):
            return True
        return name != _EVALUATIONS and not self._session_keys.keys().isdisjoint(attributes)

    def read(self, log: LogView, *, content: bool) -> LogFacts | None:
        """Return what is known of a record, or none. May raise whatever a broken view raises."""
        name = event_name(log)
        if not log.trace_id or name == _EVALUATIONS:
            return None
        dialect, reading = self._reading(name, log)
        found = ((key, identifier(log.attributes.get(key))) for key in self._session_keys)
        session_keys = (*((key, value) for key, value in found if value is not None), *reading.session_keys)
        context, results = self._content(dialect, reading, log, content=content)
        tools = (*reading.tools, *results)
        if reading.model is None and not tools and context == NO_CONTEXT and not reading.own_message:
            # All that is left is whose the span is, which many records repeat: they are one.
            if not session_keys and reading.turn_id is None:
                return None
            time: int = 0
            said: Sequence[object] = [*session_keys, reading.turn_id]
        else:
            time = log.time
            said = [name, log.scope_name, log.body, log.attributes]
        return LogFacts(
            log.trace_id,
            log.span_id,
            _digest((log.trace_id, log.span_id, time), said),
            time,
            dialect,
            reading.model,
            reading.whole,
            reading.own_message,
            tools,
            context,
            session_keys,
            reading.turn_id,
        )

    def _reading(self, name: str, log: LogView) -> tuple[str, LogReading]:
        for dialect in self._readers.get(name, ()):
            try:
                reading = dialect.read_log(log)
                if reading is not None and not isinstance(reading, LogReading):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise DialectError(f"read_log() returned a {type(reading).__name__}; expected a LogReading or none")
            except Exception as error:  # noqa: BLE001 - a dialect must not stop its neighbours, nor the agent
                self._on_failure(dialect.name, error, log)
                continue
            if reading is not None:
                return dialect.name, reading
        return "", _NOTHING

    def _content(
        self, dialect: str, reading: LogReading, log: LogView, *, content: bool
    ) -> tuple[ContextFacts, tuple[ToolFacts, ...]]:
        if content:
            try:
                results = reading.results() if reading.results is not None else ()
                if reading.context is not None:
                    return reading.context(), results
            except Exception as error:  # noqa: BLE001 - as above
                self._on_failure(dialect, error, log)
            else:
                return _only(reading.user_text), results
        return _only(reading.user_text), ()


def _only(user_text: Content) -> ContextFacts:
    return NO_CONTEXT if user_text is NO_CONTENT else ContextFacts(user_text)


def _digest(place: tuple[str, str, int], said: Sequence[object]) -> str:
    """Return what is the same for one record in any container, and differs between two."""
    try:
        text = json.dumps(plain((place, said)), sort_keys=True, default=repr)
    except (ValueError, RecursionError):  # a number of thousands of digits
        text = repr(place)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
