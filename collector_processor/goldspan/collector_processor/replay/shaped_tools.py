"""Which attributes carried the calls that were read by the shape of their spans, for `inspect`, `doctor`, `propose`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from goldspan.mappers.assembly.shaped_calls import Places, places_of
from goldspan.mappers.dialects.shape import names_session
from goldspan.mappers.span_facts import SHAPE, LazySpanFacts, LogFacts, ModelFacts, SpanFacts, ValuePlace
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import Capture, Session, SpanRef, ToolCall

_MOST_SPANS = 20_000
"""Spans whose session attributes are looked at."""
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class ShapedTools:
    """Calls of spans of one kind that were read by their shape."""

    scope: str
    """The instrumentation scope of the spans."""
    spans: tuple[SpanRef, ...]
    """In order of trace and span id."""
    requested: int
    """How many of them a model requested in the same trace."""
    tools: tuple[str, ...]
    """Names of the tools, in alphabetical order."""
    name: ValuePlace | None
    """None for the span's name."""
    arguments: ValuePlace | None
    """None where only requests have them."""
    result: ValuePlace | None
    call_id: ValuePlace | None
    session: str | None
    """The attribute with the session id, on any span of the same traces."""
    session_known: bool
    """That attribute is read as a session id in every dialect."""

    def to_json(self) -> dict[str, Any]:
        """Return it as in the document of `goldspan inspect`."""
        places = {name: getattr(self, name) for name in ("name", "arguments", "result", "call_id")}
        return {
            "scope": self.scope,
            "spans": len(self.spans),
            "requested": self.requested,
            "tools": list(self.tools),
            **{name: None if place is None else str(place) for name, place in places.items()},
            "session": self.session,
        }


_Shaped = tuple[SpanRef, ToolCall, Places]
"""The span that told a call, the call, and where it told it."""


class ShapedToolFinder:
    """Is shown records one by one, and then says which attributes carried the calls of the sessions made of them."""

    def __init__(self, session_keys: Iterable[str]) -> None:
        """Take the attributes that are known to hold session ids."""
        self._session_keys = frozenset(session_keys)
        self._facts: dict[SpanRef, SpanFacts] = {}
        self._sessions: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        """Values by trace and attribute."""
        self._spans_left = _MOST_SPANS
        self._models: dict[str, list[ModelFacts]] = defaultdict(list)

    def add(self, view: SpanView, facts: SpanFacts) -> None:
        """Take a span and what was read of it."""
        if isinstance(facts, LazySpanFacts) or facts.role is not None:
            self._facts[facts.ref] = facts
        if self._spans_left > 0:
            self._spans_left -= 1
            for key, value in view.attributes.items():
                is_id = isinstance(value, str) and 0 < len(value) <= _LONGEST_ID
                if is_id and (key in self._session_keys or names_session(key)):
                    self._sessions[facts.trace_id][key].add(value)

    def add_log(self, facts: LogFacts) -> None:
        """Take the requests that a log record holds."""
        if facts.model is not None:
            self._models[facts.trace_id].append(facts.model)

    def found(self, sessions: Iterable[Session]) -> tuple[ShapedTools, ...]:
        """Return the calls that were read by shape, by the kind of their spans."""
        kinds: dict[tuple[str, str], list[_Shaped]] = defaultdict(list)
        calls = (call for session in sessions for turn in session.turns for call in turn.calls)
        for call in calls:
            for fact in (self._facts.get(ref) for ref in call.evidence):
                if fact is not None and fact.look is not None and _is_shaped(call, fact):
                    places = places_of(call, fact.look)
                    kinds[fact.look.scope, str(places.name)].append((fact.ref, call, places))
                    break
        return tuple(self._kind(scope, kinds[scope, name]) for scope, name in sorted(kinds))

    def _kind(self, scope: str, calls: Sequence[_Shaped]) -> ShapedTools:
        refs = [ref for ref, _, _ in calls]
        session = self._session({ref.trace_id for ref in refs})
        places = [places for _, _, places in calls]
        return ShapedTools(
            scope,
            tuple(sorted(refs)),
            sum(self._is_requested(call) for _, call, _ in calls),
            tuple(sorted({call.name for _, call, _ in calls})),
            places[0].name,
            _most_frequent(one.arguments for one in places),
            _most_frequent(one.result for one in places),
            _most_frequent(one.call_id for one in places),
            session,
            session in self._session_keys,
        )

    def _is_requested(self, call: ToolCall) -> bool:
        trace = "" if call.span is None else call.span.trace_id
        return any(
            (request.call_id and request.call_id == call.call_id)
            or (request.name == call.name and request.arguments.raw == call.arguments)
            for model in (*self._models[trace], *self._models_of(trace))
            for request in model.requests
        )

    def _models_of(self, trace: str) -> Iterator[ModelFacts]:
        for ref, fact in self._facts.items():
            if ref.trace_id == trace:
                shaped = None if fact.look is None else fact.look.model
                yield from (model for model in (fact.model, shaped) if model is not None)

    def _session(self, traces: set[str]) -> str | None:
        """Return the attribute that names the session of these traces, best one with one value in each of them."""
        keys = {key for trace in traces for key in self._sessions.get(trace, ())}

        def rank(key: str) -> tuple[object, ...]:
            values = [self._sessions[trace][key] for trace in traces if key in self._sessions.get(trace, ())]
            return any(len(one) > 1 for one in values), -len(values), key not in self._session_keys, len(key), key

        return min(keys, key=rank, default=None)


def _is_shaped(call: ToolCall, fact: SpanFacts) -> bool:
    """Say whether the call, or the arguments of one that a table read, were told by the shape of this span."""
    if call.dialect == SHAPE:
        return True
    bare = fact.tool is None or fact.tool.arguments.capture is Capture.NOT_CAPTURED
    owned = fact.look is not None and fact.look.of_tool and fact.look.own is not None
    return bare and owned and call.capture is not Capture.NOT_CAPTURED


def _most_frequent(places: Iterable[ValuePlace | None]) -> ValuePlace | None:
    counts = Counter(place for place in places if place is not None)
    return min(counts, key=lambda place: (-counts[place], place), default=None)
