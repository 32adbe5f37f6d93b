"""All dialects behind one door: a span in, its facts out (R1). Never raises, whatever the span holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from goldspan.mappers.assembly.settings import DEFAULT_SESSION_KEYS
from goldspan.mappers.dialects.dialect import Dialect, Reading
from goldspan.mappers.dialects.discovery import built_in_dialects, third_party_dialects
from goldspan.mappers.facts import (
    NO_CONTEXT,
    NO_RESOURCE,
    ContextFacts,
    ModelFacts,
    ResourceFacts,
    Role,
    SpanFacts,
    ToolFacts,
)
from goldspan.mappers.spans import ResourceView, SpanView
from goldspan.scoring.errors import DialectError, Problem
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content

RUN_ID_KEYS = ("goldspan.run.id", "cicd.pipeline.run.id")
"""Attributes of a span or a resource that declare a run."""
JOIN_ATTRIBUTES = ("test.case.name", "test.suite.name")
"""Attributes that goldens join on, unless others are named."""
_SCORED = frozenset(
    f"tool_parameter_match.{level}{what}" for level in ("", "turn.", "session.") for what in ("score", "label")
)
_MAX_RESOURCES = 256
_SERVER, _CONSUMER = 2, 5


def _ignore(_: Problem) -> None:
    pass


class DialectRegistry:
    """Reads spans by every dialect that knows them and puts together what they say.

    The order of `dialects` is their precedence: the first that recognises a span's role names the dialect, and what
    it lacks is filled from the others. Default: those of the entry-point group `goldspan.dialects`, then goldspan's.
    """

    def __init__(
        self,
        dialects: Iterable[Dialect] | None = None,
        *,
        session_keys: Iterable[str] = DEFAULT_SESSION_KEYS,
        join_attributes: Iterable[str] = JOIN_ATTRIBUTES,
        on_problem: Callable[[Problem], object] = _ignore,
    ) -> None:
        self._on_problem = on_problem
        self.failures: Counter[str] = Counter()
        """How often each dialect raised."""
        self.dialects = tuple(dialects) if dialects is not None else default_dialects(on_problem)
        for dialect in self.dialects:
            if not isinstance(dialect, Dialect):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may err
                raise DialectError(f"found a {type(dialect).__name__}; a dialect has a name, markers and read(span)")
        self._session_keys = tuple(session_keys)
        self._session_set = frozenset(self._session_keys)
        self._join_attributes = tuple(join_attributes)
        self._extra = self._session_set.union(RUN_ID_KEYS, self._join_attributes, _SCORED)
        self._readers = tuple((1 << number, dialect.read) for number, dialect in enumerate(self.dialects))
        self._masks: dict[str, int] = dict.fromkeys(self._extra, 0)
        for number, dialect in enumerate(self.dialects):
            for key in dialect.markers:
                self._masks[key] = self._masks.get(key, 0) | 1 << number
        self._keys = frozenset(self._masks)
        self._resources: dict[int, tuple[ResourceView, ResourceFacts]] = {}

    def read(self, view: SpanView, *, content: bool = True) -> SpanFacts:
        """Return what is known of a span; a skeleton, if nothing is.

        Without `content`, results, answers, messages and tool definitions are left out: they are what costs memory,
        and scoring arguments needs none of them.
        """
        try:
            attributes = view.attributes
            hits = self._keys.intersection(attributes)
        except Exception as error:  # noqa: BLE001 - a reader's or a sender's fault must never reach the agent
            self._failed("reader", error, view)
            return SpanFacts("", "", "", 0, 0)
        if not hits:
            return self._skeleton(view, attributes)
        return self._facts(view, attributes, hits, content=content)

    def _skeleton(self, view: SpanView, attributes: Mapping[str, Any]) -> SpanFacts:
        end = view.end
        return SpanFacts(
            view.trace_id,
            view.span_id,
            view.parent_id,
            view.start,
            end,
            (end, len(attributes), ""),
            entry=view.parent_is_remote or view.kind in (_SERVER, _CONSUMER),
            resource=self._resource(view.resource),
        )

    def _facts(
        self, view: SpanView, attributes: Mapping[str, Any], hits: frozenset[str], *, content: bool
    ) -> SpanFacts:
        readings = self._readings(view, hits)
        main = next(((name, reading) for name, reading in readings if reading.role is not None), None)
        name, first = main if main is not None else ("", Reading())
        same = [reading for _, reading in readings if reading.role is first.role] if main is not None else []
        end = view.end
        return SpanFacts(
            view.trace_id,
            view.span_id,
            view.parent_id,
            view.start,
            end,
            (end, len(attributes), ""),
            role=first.role,
            dialect=name,
            agent=next((reading.agent for reading in same if reading.agent), None),
            tool=_tool([reading.tool for reading in same if reading.tool is not None], content=content),
            model=_model([reading.model for reading in same if reading.model is not None]),
            context=_context(same, content=content),
            session_keys=self._sessions(attributes, hits, readings),
            turn_id=next((reading.turn_id for _, reading in readings if reading.turn_id), None),
            run_id=_identifier(attributes, RUN_ID_KEYS),
            join_attributes=self._joins(attributes, hits),
            no_turn=first.no_turn,
            hides_calls=any(reading.hides_calls for reading in same),
            entry=view.parent_is_remote or view.kind in (_SERVER, _CONSUMER),
            scored=not _SCORED.isdisjoint(hits),
            resource=self._resource(view.resource),
        )

    def _readings(self, view: SpanView, hits: frozenset[str]) -> list[tuple[str, Reading]]:
        mask = 0
        for key in hits:
            mask |= self._masks[key]
        found: list[tuple[str, Reading]] = []
        for number, (bit, read) in enumerate(self._readers):
            if mask & bit:
                name = self.dialects[number].name
                try:
                    reading = read(view)
                    if reading is not None and _is_whole(reading):
                        found.append((name, reading))
                except Exception as error:  # noqa: BLE001 - a dialect must not stop its neighbours, nor the agent
                    self._failed(name, error, view)
        return found

    def _failed(self, dialect: str, error: Exception, view: SpanView) -> None:
        self.failures[dialect] += 1
        try:
            source = f"{view.trace_id}/{view.span_id}"
        except Exception:  # noqa: BLE001 - the view itself may be what is broken
            source = ""
        message = f"the dialect {dialect!r} raised {type(error).__name__}: {error}"
        self._on_problem(Problem("dialect_failed", message, source))

    def _sessions(
        self, attributes: Mapping[str, Any], hits: frozenset[str], readings: list[tuple[str, Reading]]
    ) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        if not self._session_set.isdisjoint(hits):
            present = ((key, _identifier(attributes, (key,))) for key in self._session_keys if key in hits)
            found += [(key, value) for key, value in present if value is not None]
        for _, reading in readings:
            found += [pair for pair in reading.session_keys if pair not in found]
        return tuple(found)

    def _joins(self, attributes: Mapping[str, Any], hits: frozenset[str]) -> Mapping[str, Any] | None:
        joins = {key: attributes[key] for key in self._join_attributes if key in hits}
        return joins or None

    def _resource(self, view: ResourceView) -> ResourceFacts:
        known = self._resources.get(id(view))
        if known is not None and known[0] is view:
            return known[1]
        facts = self._resource_facts(view.attributes)
        if len(self._resources) >= _MAX_RESOURCES:
            self._resources.clear()
        self._resources[id(view)] = (view, facts)
        return facts

    def _resource_facts(self, attributes: Mapping[str, Any]) -> ResourceFacts:
        facts = ResourceFacts(
            _identifier(attributes, ("service.name",)),
            _identifier(attributes, ("deployment.environment.name", "deployment.environment")),
            tuple((key, value) for key in self._session_keys if (value := _identifier(attributes, (key,))) is not None),
            _identifier(attributes, RUN_ID_KEYS),
        )
        return NO_RESOURCE if facts == NO_RESOURCE else facts


def default_dialects(on_problem: Callable[[Problem], object] = _ignore) -> tuple[Dialect, ...]:
    """Return the installed dialects in their order of precedence: third parties' first, then goldspan's."""
    return (*third_party_dialects(on_problem), *built_in_dialects())


def _is_whole(reading: Reading) -> bool:
    if not isinstance(reading, Reading):  # pyright: ignore[reportUnnecessaryIsInstance] - third parties may err
        raise DialectError(f"read() returned a {type(reading).__name__}; expected a Reading or none")
    if (reading.role is Role.TOOL) is not (reading.tool is not None):
        raise DialectError("read() must return tool facts with the role `tool`, and only with it")
    return True


def _identifier(attributes: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """Return the first id among these attributes; numbers become text, blank texts and other types are none."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str):
            if value and not value.isspace():
                return value
        elif isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return None


def _tool(tools: list[ToolFacts], *, content: bool) -> ToolFacts | None:
    if not tools:
        return None
    first = tools[0]
    if len(tools) == 1 and (content or first.result is NO_CONTENT):
        return first
    speaking = next((tool for tool in tools if tool.arguments.capture is Capture.CAPTURED), None) or next(
        (tool for tool in tools if tool.arguments.capture is not Capture.NOT_CAPTURED), first
    )
    return ToolFacts(
        first.name,
        speaking.arguments,
        speaking.argument_captures,
        next((tool.call_id for tool in tools if tool.call_id), None),
        _best([tool.result for tool in tools]) if content else NO_CONTENT,
        next((tool.error for tool in tools if tool.error), None),
        any(tool.pseudo for tool in tools),
        any(tool.merged for tool in tools),
    )


def _model(models: list[ModelFacts]) -> ModelFacts | None:
    if len(models) < 2:
        return models[0] if models else None
    return ModelFacts(
        next((model.requests for model in models if model.requests), ()),
        next((model.answered for model in models if model.answered), None),
        next((model.new_user_message for model in models if model.new_user_message is not None), None),
    )


def _context(readings: list[Reading], *, content: bool) -> ContextFacts:
    user_text = _best([reading.user_text for reading in readings])
    read = [reading.context() for reading in readings if reading.context is not None] if content else []
    if not read and user_text is NO_CONTENT:
        return NO_CONTEXT
    return ContextFacts(
        user_text,
        _best([one.answer for one in read]),
        _best([one.messages for one in read]),
        _best([one.tool_definitions for one in read]),
    )


def _best(contents: list[Content]) -> Content:
    known = NO_CONTENT
    for content in contents:
        if content.capture is Capture.CAPTURED:
            return content
        if known.capture is Capture.NOT_CAPTURED:
            known = content
    return known
