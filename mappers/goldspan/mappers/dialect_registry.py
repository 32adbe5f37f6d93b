"""Reads spans and log records by all dialects and merges what they found (R1). Never raises, whatever a span holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from types import UnionType
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from goldspan.mappers.assembly.framework_tools import says_handed_over
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS
from goldspan.mappers.carrying_keys import OWN_RESULTS, tool_in
from goldspan.mappers.dialects.reading.dialect_table import DialectTable
from goldspan.mappers.dialects.reading.evidence_reading import evidence_of
from goldspan.mappers.dialects.reading.log_records import EVALUATIONS, digest, event_name
from goldspan.mappers.dialects.reading.protocol import (
    LANGUAGE,
    OWN_KEYS,
    Dialect,
    LogDialect,
    LogReading,
    Reading,
    Stack,
    language_of,
    writer_of,
)
from goldspan.mappers.dialects.reading.value_parsing import first_identifier, session_identifiers
from goldspan.mappers.dialects.shape import look_at
from goldspan.mappers.installed_dialects import built_in_dialects, default_dialects
from goldspan.mappers.normalized_spans import RENAMING_KEYS, may_be_renamed, with_original_names
from goldspan.mappers.span_facts import (
    NO_CONTEXT,
    NO_EVIDENCE,
    NO_RESOURCE,
    SHAPE,
    ContextFacts,
    LazySpanFacts,
    LogFacts,
    PlainSpanFacts,
    Record,
    ResourceFacts,
    Role,
    SpanFacts,
    ToolFacts,
    asks_unread,
    first_captured,
    first_known,
    joined_context,
    joined_model,
    joined_tool,
)
from goldspan.mappers.spans import (
    ENTRY_KINDS,
    Encodable,
    EncodedSpan,
    LogView,
    LostSpan,
    Markers,
    PlainSpans,
    RecordView,
    ResourceView,
    SpanView,
)
from goldspan.scoring.errors import DialectError, Problem
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef

_NOTHING = Reading()
_NO_LOG_READING = LogReading()

ViewT = TypeVar("ViewT", bound=RecordView)
ReadT = TypeVar("ReadT")

SessionKeys = tuple[tuple[str, str], ...]


def merge_readings(readings: Sequence[tuple[str, Reading]]) -> tuple[str, Reading, SessionKeys, str | None]:
    """Return the dialect's name, one reading made of all, every dialect's own session keys, and the turn id."""
    if len(readings) == 1:
        name, only = readings[0]
        return (name if only.role is not None else ""), only, only.session_keys, only.turn_id
    session_keys = tuple(dict.fromkeys(pair for _, reading in readings for pair in reading.session_keys))
    turn_id = first_known(reading.turn_id for _, reading in readings)
    name, first = next((pair for pair in readings if pair[1].role is not None), ("", _NOTHING))
    same = [reading for _, reading in readings if reading.role is not None and reading.role is first.role]
    return name, (first if len(same) < 2 else _joined(same)), session_keys, turn_id


def _joined(readings: Sequence[Reading]) -> Reading:
    """Return one reading made of several that give a span the same role."""
    first = readings[0]
    tools = [reading.tool for reading in readings if reading.tool is not None]
    models = [reading.model for reading in readings if reading.model is not None]
    contexts = [reading.context for reading in readings if reading.context is not None]
    user_text = first_captured([reading.user_text for reading in readings])
    return Reading(
        first.role,
        first_known(reading.agent for reading in readings),
        _joined_tool(tools) if tools else None,
        joined_model(models) if models else None,
        user_text,
        (lambda: replace(joined_context([read() for read in contexts]), user_text=user_text)) if contexts else None,
        (lambda: first_captured(map(_declared, readings))) if contexts else None,
        turn_number=first_known(reading.turn_number for reading in readings),
        no_turn=first.no_turn,
        hides_calls=any(reading.hides_calls for reading in readings),
    )


def _declared(reading: Reading | LogReading) -> Content:
    """Return the definitions of tools, and read no more than these where the dialect can."""
    if reading.tool_definitions is not None:
        return reading.tool_definitions()
    return NO_CONTENT if reading.context is None else reading.context().tool_definitions


def _joined_tool(tools: Sequence[ToolFacts]) -> ToolFacts:
    """Return what dialects say together of a span; one of them is enough to tell that it is no call (R5)."""
    pseudo, merged = any(tool.pseudo for tool in tools), any(tool.merged for tool in tools)
    bare = tool_in(tools[0].name)  # a dialect without the attribute that has the name has the span's
    name = bare if any(tool.name == bare for tool in tools) else tools[0].name
    return replace(joined_tool(tools), name=name, pseudo=pseudo, merged=merged, evidence=())


# The registry turns a span into its facts by all dialects (R1). It never raises, whatever the span holds.

RUN_ID_KEYS = ("goldspan.run.id", "cicd.pipeline.run.id")
"""Attributes of a span or a resource that declare a run."""
JOIN_ATTRIBUTES = ("test.case.name", "test.suite.name")
"""Attributes that goldens join on, unless others are named."""
_SCORED = frozenset(
    f"tool_parameter_match.{level}{what}" for level in ("", "turn.", "session.") for what in ("score", "label")
)
_SCALARS = (str, int, float)
_MAX_RESOURCES = 256
_LOST = "lost"
"""The id of all spans of a trace that cannot be read."""
_MAX_PLANS = 4096
_BUILT_IN = frozenset(map(id, built_in_dialects()))
_BUILT_IN_TABLES = frozenset(id(one) for one in built_in_dialects() if type(one) is DialectTable)
"""These never raise, so their reading may be deferred."""


class _Plan(NamedTuple):
    """How to read all spans that have the same scope and the same of the keys that any table names."""

    marked: bool  # one of the keys is a marker
    may_be_renamed: bool
    readers: tuple[tuple[str, Callable[[SpanView], Reading | None]], ...]
    session_keys: tuple[str, ...]
    run_keys: tuple[str, ...]
    join_keys: tuple[str, ...]
    tables: tuple[DialectTable, ...] = ()
    """The same readers, if they can outline a span without its content and never raise."""


def _ignore(_: Problem) -> None:
    pass


class UnreadSpan:
    """The content of a recognised span, which is read when it is called."""

    __slots__ = ("_registry", "span")

    def __init__(self, registry: DialectRegistry, span: EncodedSpan) -> None:
        self._registry = registry
        self.span = span

    def __call__(self) -> SpanFacts:
        """Read the span by the dialects that know its attributes."""
        return self._registry.read_content(self.span.view())


class DialectRegistry:
    """Reads spans by every dialect that recognises them, and merges the results.

    The order of `dialects` is their precedence: the first that recognises a span's role names the dialect, and what
    it lacks is filled from the others. Default: the entry-point group `goldspan.dialects`, then goldspan's own.
    """

    def __init__(
        self,
        dialects: Iterable[Dialect] | None = None,
        *,
        session_keys: Iterable[str] = DEFAULT_SESSION_KEYS,
        join_attributes: Iterable[str] = JOIN_ATTRIBUTES,
        definitions: bool = False,
        on_problem: Callable[[Problem], object] = _ignore,
    ) -> None:
        """Take the dialects in order. An object that is not a dialect raises `DialectError`.

        With `definitions`, tool definitions are read even without other content: they declare default arguments.
        """
        self._definitions = definitions
        self._on_problem = on_problem
        self.failures: Counter[str] = Counter()
        """How often each dialect raised."""
        self.dialects = tuple(dialects) if dialects is not None else default_dialects(on_problem)
        for dialect in self.dialects:
            if not isinstance(dialect, (DialectTable, Dialect)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DialectError(f"found a {type(dialect).__name__}; a dialect has a name, markers and read(span)")
        self._session_keys = dict.fromkeys(session_keys)
        self._join_attributes = tuple(dict.fromkeys(join_attributes))
        known = {*self._session_keys, *self._join_attributes, *RUN_ID_KEYS, *_SCORED}
        self._of_dialects = frozenset[str]().union(*(dialect.markers for dialect in self.dialects))
        self._keys = self._of_dialects.union(known)
        self._named_keys = self._keys.union(
            RENAMING_KEYS,
            OWN_KEYS,
            *(dialect.named_keys for dialect in self.dialects if isinstance(dialect, DialectTable)),
        )
        self._bare_scopes = frozenset[str]().union(*(_bare_scopes(dialect) for dialect in self.dialects))
        self.markers = Markers(self._keys, self._bare_scopes)
        """Attribute keys and scopes of spans in which `read` may find a role."""
        own = (getattr(dialect, "session_keys", ()) for dialect in self.dialects)
        self.session_keys = frozenset(self._session_keys).union(*own)
        """Attribute keys that hold session ids."""
        opaque = (dialect.markers for dialect in self.dialects if not hasattr(dialect, "session_keys"))
        tables = (dialect for dialect in self.dialects if isinstance(dialect, DialectTable))
        inside = (source.key for table in tables for source in table.sessions_inside)
        self.opaque_markers = frozenset[str]().union(inside, *opaque)
        """Markers of dialects that find session ids in their own way, or describe other traces."""
        self._plans: dict[tuple[frozenset[str], str], _Plan] = {}
        self._scopes: set[tuple[str, str]] = set()
        self._languages: set[str] = set()
        self._resources: dict[int, tuple[ResourceView, ResourceFacts]] = {}
        """By identity; the view is kept too, so that its identity stays its own."""
        self._log_readers = _log_readers(self.dialects)  # by the names of events that they know

    def read(self, view: SpanView, *, content: bool = True, defer: bool = True) -> SpanFacts:
        """Return the facts of a span; only ids and times if no dialect recognises it.

        Without `content`, results, answers, messages and tool definitions are left out: they are what costs memory,
        and scoring arguments needs none of them. What is left may be read when it is first used: `defer` says that
        most of it never is.
        """
        try:
            is_lost = isinstance(view, LostSpan)
            view, plan = self._planned(view)
            if is_lost:
                sessions = () if view.trace_id else self._facts(view, plan, content=False).session_keys
                return SpanFacts(view.trace_id, _LOST, "", 0, 0, session_keys=sessions, lost=True)
            if not plan.marked:
                facts = self._skeleton(view)
                is_plain = self.markers.are_plain(view.attributes)
                return facts if is_plain else self._to_look_at(facts, view, content=content)
            if defer and not content and plan.tables and isinstance(view, Encodable):
                return self._lazy_facts(view, plan, view.encode)
            return self._to_look_at(self._facts(view, plan, content=content), view, content=content)
        except BaseException as error:  # noqa: BLE001 - a broken view must never reach the agent
            self._failed("reader", error, view)
            return SpanFacts("", "", "", 0, 0)

    def read_content(self, view: SpanView) -> SpanFacts:
        """Return the facts of a span with its content."""
        view, plan = self._planned(view)
        return self._looked_at(self._facts(view, plan, content=False), view, content=False)

    def _to_look_at(self, facts: SpanFacts, view: SpanView, *, content: bool) -> SpanFacts:
        """Return facts whose shape is read when it is used: first, only a trace with unread calls asks for it."""
        if facts.role is not None:
            return self._looked_at(facts, view, content=content)
        read: Callable[[], SpanFacts] = partial(self._looked_at, facts, view, content=content)
        if not content and isinstance(view, Encodable) and (encoded := view.encode()) is not None:
            read = UnreadSpan(self, encoded)
        return LazySpanFacts(*[getattr(facts, name) for name in SpanFacts.__struct_fields__], content=read)

    def _looked_at(self, facts: SpanFacts, view: SpanView, *, content: bool) -> SpanFacts:
        """Return facts with what the span says by its shape, where tables read nothing of it, or not all."""
        tool, model = facts.tool, facts.model
        lacks_arguments = tool is not None and tool.arguments.capture is Capture.NOT_CAPTURED
        says_nothing = model is not None and (model.may_have_asked or model.silent)
        lacks_requests = (facts.role is Role.MODEL and says_nothing) or asks_unread(facts)
        if not (lacks_arguments or lacks_requests or facts.role is None):
            return facts
        try:
            look = look_at(view, content=content, is_marked=not self._of_dialects.isdisjoint(view.attributes))
        except BaseException as error:  # noqa: BLE001 - as above
            self._failed(SHAPE, error, view)
            return facts
        if look is None:
            return facts
        if facts.role is not None:
            return facts.changed(look=look)
        seen_as = Role.MODEL if look.model is not None else Role.TOOL if look.of_tool else None
        return facts.changed(look=look, evidence=evidence_of(view, seen_as))

    def outline(self, view: SpanView) -> Role | None:
        """Return a span's role. This costs far less than `read`."""
        try:
            view, plan = self._planned(view)
            if plan.tables:
                outlines = (table.outline(view) for table in plan.tables)
                return next((one.role for one in outlines if one is not None and one.role is not None), None)
            return self._facts(view, plan, content=False).role
        except BaseException as error:  # noqa: BLE001 - as above
            self._failed("reader", error, view)
            return None

    def skeletons(self, plain: PlainSpans) -> Iterator[PlainSpanFacts]:
        """Yield spans without any of the `markers`, grouped by trace."""
        resource = self.resource(plain.resource)
        for trace_id, undecoded in plain.by_trace.items():
            yield PlainSpanFacts(trace_id, undecoded, plain.skeleton, resource)

    def read_log(self, view: LogView, *, content: bool = True) -> LogFacts | None:
        """Return what a log record adds to its span; None if it adds nothing."""
        try:
            return self._log_facts(view, event_name(view), content=content)
        except BaseException as error:  # noqa: BLE001 - as above
            self._failed("reader", error, view)
            return None

    def resource(self, view: ResourceView) -> ResourceFacts:
        """Return the facts of a resource."""
        known = self._resources.get(id(view))
        if known is not None:
            return known[1]
        facts = self._resource_facts(view.attributes)
        if len(self._resources) >= _MAX_RESOURCES:
            self._resources.clear()
        self._resources[id(view)] = (view, facts)
        return facts

    def stacks(self) -> frozenset[tuple[str, Stack]]:
        """Return what may have written the spans until now, each with a dialect that knows it."""
        languages = set(map(language_of, self._languages)) or {""}
        return frozenset((name, Stack(language, scope)) for name, scope in self._scopes for language in languages)

    def facts(self, views: Iterable[RecordView], *, content: bool = True) -> Iterator[Record]:
        """Yield the facts of each span, and of each log record that has any."""
        for view in views:
            if not isinstance(view, LogView):
                yield self.read(view, content=content)
            elif (fact := self.read_log(view, content=content)) is not None:
                yield fact

    def may_tell(self, event_name: str, attributes: Mapping[str, Any]) -> bool:
        """Return, at little cost, whether `read_log` may find facts in a record with this event name."""
        older = attributes.get("event.name")
        if event_name in self._log_readers or (isinstance(older, str) and older in self._log_readers):
            return True
        return event_name != EVALUATIONS and not self._session_keys.keys().isdisjoint(attributes)

    def _skeleton(self, view: SpanView) -> SpanFacts:
        end = view.end
        return SpanFacts(
            view.trace_id,
            view.span_id,
            view.parent_id,
            view.start,
            end,
            (end, 0, ""),
            entry=view.parent_is_remote or view.kind in ENTRY_KINDS,
            resource=self.resource(view.resource),
        )

    def _facts(self, view: SpanView, plan: _Plan, *, content: bool) -> SpanFacts:
        readings = [
            (name, reading)
            for name, read in plan.readers
            if (reading := self._reading(name, read, view, _check_reading)) is not None
        ]
        dialect, first, session_keys, turn_id = merge_readings(readings)
        tool, end = first.tool, view.end
        if tool is not None and says_handed_over(tool):
            tool = replace(tool, pseudo=True)
        if tool is not None and not content and tool.result is not NO_CONTENT:
            tool = replace(tool, result=NO_CONTENT)
        run_id, join_attributes, resource = self._surroundings(view, plan)
        return SpanFacts(
            view.trace_id,
            view.span_id,
            view.parent_id,
            view.start,
            end,
            (end, len(view.attributes), ""),
            first.role,
            dialect,
            first.agent,
            tool,
            first.model,
            self._context(dialect, first, view, content=content, definitions=self._definitions),
            (*session_identifiers(view.attributes, plan.session_keys), *session_keys)
            if plan.session_keys
            else session_keys,
            turn_id,
            first.turn_number,
            run_id,
            join_attributes,
            first.no_turn,
            first.hides_calls,
            view.parent_is_remote or view.kind in ENTRY_KINDS,
            resource,
            _notes(readings, view),
            evidence_of(view, first.role, tool) if first.role is not None else NO_EVIDENCE,
        )

    def _surroundings(self, view: SpanView, plan: _Plan) -> tuple[str | None, Mapping[str, Any] | None, ResourceFacts]:
        """Return the declared run, the attributes that goldens may join on, and the resource."""
        attributes = view.attributes
        return (
            first_identifier(attributes, plan.run_keys) if plan.run_keys else None,
            {key: attributes[key] for key in plan.join_keys} if plan.join_keys else None,
            self.resource(view.resource),
        )

    def _lazy_facts(self, view: SpanView, plan: _Plan, encode: Callable[[], EncodedSpan | None]) -> SpanFacts:
        """Read what a span is, and defer its content to the first use, unless it is too large to keep."""
        outlines = [(table.name, outline) for table in plan.tables if (outline := table.outline(view)) is not None]
        _, first, session_keys, turn_id = merge_readings(outlines)
        encoded = None if first.role in (None, Role.AGENT) else encode()  # an agent's span holds little
        if encoded is None:
            return self._to_look_at(self._facts(view, plan, content=False), view, content=False)
        run_id, join_attributes, resource = self._surroundings(view, plan)
        end = view.end
        return LazySpanFacts(
            view.trace_id,
            view.span_id,
            view.parent_id,
            view.start,
            end,
            (end, len(view.attributes), ""),
            first.role,
            session_keys=(*session_identifiers(view.attributes, plan.session_keys), *session_keys),
            turn_id=turn_id,
            run_id=run_id,
            join_attributes=join_attributes,
            no_turn=first.no_turn,
            entry=view.parent_is_remote or view.kind in ENTRY_KINDS,
            resource=resource,
            content=UnreadSpan(self, encoded),
        )

    def _planned(self, view: SpanView) -> tuple[SpanView, _Plan]:
        """Return the span under the names that its instrumentation wrote, and how to read it."""
        attributes, scope = view.attributes, view.scope_name
        plan = self._plan(self._named_keys.intersection(attributes), scope)
        if plan.may_be_renamed:
            view = with_original_names(view)
            attributes = view.attributes
            plan = self._plan(self._named_keys.intersection(attributes), scope)
        if (
            not plan.readers
            and scope in self._bare_scopes
            and (plan.marked or not attributes)
            and all(map(_is_own_result, attributes))
        ):
            # A session or a score that goldspan wrote on a bare span does not change how it is read.
            readers = tuple((one.name, _checked(one, one.read)) for one in self.dialects if scope in _bare_scopes(one))
            plan = plan._replace(marked=True, readers=readers)
        return view, plan

    def _plan(self, keys: frozenset[str], scope: str) -> _Plan:
        plan = self._plans.get((keys, scope))
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[keys, scope] = self._new_plan(keys, scope)
        return plan

    def _new_plan(self, keys: frozenset[str], scope: str) -> _Plan:
        knowing = [one for one in self.dialects if not one.markers.isdisjoint(keys)]
        readers: list[tuple[str, Callable[[SpanView], Reading | None]]] = []
        tables: list[DialectTable] = []
        for one in knowing:
            reader: Dialect | None = one
            if isinstance(one, DialectTable):
                if not one.knows(keys, scope):
                    continue
                reader = one.narrowed(keys, scope)
            if len(self._scopes) < _MAX_PLANS:
                self._scopes.add((one.name, writer_of(keys, scope)))
            if reader is not None:
                readers.append((one.name, _checked(one, reader.read)))
                tables += (reader,) if isinstance(reader, DialectTable) else ()
        has = keys.__contains__
        return _Plan(
            not self._keys.isdisjoint(keys),
            may_be_renamed(keys, scope),
            tuple(readers),
            tuple(filter(has, self._session_keys)),
            tuple(filter(has, RUN_ID_KEYS)),
            tuple(filter(has, self._join_attributes)),
            tuple(tables) if _BUILT_IN_TABLES.issuperset(map(id, knowing)) else (),
        )

    def _log_facts(self, log: LogView, name: str, *, content: bool) -> LogFacts | None:
        if not log.trace_id or name == EVALUATIONS:
            return None
        dialect, reading = self._log_reading(name, log)
        session_keys = (*session_identifiers(log.attributes, self._session_keys), *reading.session_keys)
        context = self._context(dialect, reading, log, content=content, definitions=self._definitions)
        tools = (*reading.tools, *self._results(dialect, reading, log)) if content else reading.tools
        time, identity_parts = log.time, [name, log.scope_name, log.body, log.attributes]
        says = reading.model or tools or reading.own_message or reading.system or reading.wrote
        if not says and context == NO_CONTEXT:
            # Only session and turn ids are left. Many records repeat them, so equal ones count once.
            if not session_keys and reading.turn_id is None:
                return None
            time, identity_parts = 0, [*session_keys, reading.turn_id]
        return LogFacts(
            log.trace_id,
            log.span_id,
            digest((log.trace_id, log.span_id, time), identity_parts),
            time,
            dialect,
            reading.model,
            reading.whole,
            reading.own_message,
            tools,
            context,
            session_keys,
            reading.turn_id,
            users=reading.users,
            system=reading.system,
            wrote=reading.wrote,
        )

    def _log_reading(self, name: str, log: LogView) -> tuple[str, LogReading]:
        """Return what the first dialect that reads a record finds, with the dialect's name."""
        for dialect in self._log_readers.get(name, ()):
            reading = self._reading(dialect.name, _checked(dialect, dialect.read_log), log, _check_log_reading)
            if reading is not None:
                return dialect.name, reading
        return "", _NO_LOG_READING

    def _results(self, dialect: str, reading: LogReading, log: LogView) -> tuple[ToolFacts, ...]:
        try:
            return () if reading.results is None else reading.results()
        except BaseException as error:  # noqa: BLE001 - as below
            self._failed(dialect, error, log)
            return ()

    def _reading(
        self, name: str, read: Callable[[ViewT], ReadT | None], view: ViewT, check: Callable[[ReadT], None]
    ) -> ReadT | None:
        try:
            reading = read(view)
            if reading is not None:
                check(reading)
        except BaseException as error:  # noqa: BLE001 - a dialect must not stop its neighbours, nor the agent
            self._failed(name, error, view)
            return None
        return reading

    def _context(
        self, name: str, reading: Reading | LogReading, view: SpanView | LogView, *, content: bool, definitions: bool
    ) -> ContextFacts:
        declared = NO_CONTENT
        try:
            if content and reading.context is not None:
                if not isinstance(context := reading.context(), ContextFacts):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise DialectError(f"context() returned a {type(context).__name__}; expected ContextFacts")
                return context
            declared = _declared(reading) if definitions else NO_CONTENT
        except BaseException as error:  # noqa: BLE001 - as above
            self._failed(name, error, view)
        alone = reading.user_text is NO_CONTENT and declared is NO_CONTENT
        return NO_CONTEXT if alone else ContextFacts(reading.user_text, tool_definitions=declared)

    def _failed(self, dialect: str, error: BaseException, view: SpanView | LogView) -> None:
        if isinstance(error, KeyboardInterrupt):
            raise error
        self.failures[dialect] += 1
        try:
            source = f"{view.trace_id}/{view.span_id}"
        except Exception:  # noqa: BLE001 - the view itself may be what is broken
            source = ""
        message = f"the dialect {dialect!r} raised {type(error).__name__}: {error}"
        self._on_problem(Problem("dialect_failed", message, source))

    def _resource_facts(self, attributes: Mapping[str, Any]) -> ResourceFacts:
        if len(self._languages) < _MAX_RESOURCES:
            self._languages.add(said if isinstance(said := attributes.get(LANGUAGE), str) else "")
        facts = ResourceFacts(
            first_identifier(attributes, ("service.name",)),
            first_identifier(attributes, ("deployment.environment.name", "deployment.environment")),
            tuple(session_identifiers(attributes, self._session_keys)),
            first_identifier(attributes, RUN_ID_KEYS),
            tuple((key, value) for key in self._join_attributes if isinstance(value := attributes.get(key), _SCALARS)),
            first_identifier(attributes, ("service.version",)),
        )
        return NO_RESOURCE if facts == NO_RESOURCE else facts


def _notes(readings: list[tuple[str, Reading]], view: SpanView) -> tuple[LogFacts, ...]:
    notes: tuple[LogFacts, ...] = ()
    for _, reading in readings:
        if reading.notes:
            ref = SpanRef(view.trace_id, view.span_id)
            notes += tuple(replace(note, said_by=ref) for note in reading.notes)
    return notes


def _is_own_result(key: object) -> bool:
    return isinstance(key, str) and OWN_RESULTS.match(key) is not None


def _log_readers(dialects: Iterable[object]) -> dict[str, tuple[LogDialect, ...]]:
    found: dict[str, tuple[LogDialect, ...]] = {}
    for dialect in dialects:
        if isinstance(dialect, LogDialect):
            for name in dialect.log_events:
                found[name] = (*found.get(name, ()), dialect)
    return found


def _bare_scopes(dialect: Dialect) -> frozenset[str]:
    scopes = getattr(dialect, "bare_scopes", None)
    return scopes if isinstance(scopes, frozenset) else frozenset()  # pyright: ignore[reportUnknownVariableType]


def _check_reading(reading: Reading) -> None:
    if not isinstance(reading, Reading):  # pyright: ignore[reportUnnecessaryIsInstance] - third parties may err
        raise DialectError(f"read() returned a {type(reading).__name__}; expected a Reading or none")
    if (reading.role is Role.TOOL) is not (reading.tool is not None):
        raise DialectError("read() must return tool facts with the role `tool`, and only with it")


def _check_log_reading(reading: LogReading) -> None:
    if not isinstance(reading, LogReading):  # pyright: ignore[reportUnnecessaryIsInstance] - third parties may err
        raise DialectError(f"read_log() returned a {type(reading).__name__}; expected a LogReading or none")


def _checked(dialect: object, read: Callable[[ViewT], ReadT | None]) -> Callable[[ViewT], ReadT | None]:
    """Return what reads by a dialect. What one of another package read is checked whole: engines believe it."""
    return read if id(dialect) in _BUILT_IN else partial(_read_checked, read)


def _read_checked(read: Callable[[ViewT], ReadT | None], view: ViewT) -> ReadT | None:
    reading = read(view)
    if isinstance(reading, Reading | LogReading):
        _check_types(reading)
        tools = reading.tools if isinstance(reading, LogReading) else (reading.tool,) if reading.tool else ()
        for tool in tools:
            if tool.arguments.capture is Capture.CAPTURED and not isinstance(tool.arguments.raw, Mapping):
                raise DialectError(f"captured arguments are a {type(tool.arguments.raw).__name__}; expected a mapping")
    return reading


def _check_types(facts: Struct) -> None:
    for name, hint in _hints_of(type(facts)).items():
        if not _fits(value := getattr(facts, name), hint):
            raise DialectError(f"{type(facts).__name__}.{name} is a {type(value).__name__}; expected {hint}")


@cache
def _hints_of(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type as facts have it; subclasses of texts and numbers may do anything."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        kinds = repeat(inner[0]) if inner[-1] is Ellipsis else inner
        return type(value) is tuple and all(map(_fits, cast("tuple[object, ...]", value), kinds))
    if origin is not None or hint is object:  # a mapping, or something to call
        return origin is None or isinstance(value, origin)
    if isinstance(value, hint) and isinstance(value, Struct):
        _check_types(value)
        return True
    return type(value) is hint
