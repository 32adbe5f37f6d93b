"""Calls of a trace that no table reads, found by what its spans say: below the tables, reading by shape.

A model requested tools that no execution answers; or no table reads the trace's models and tools at all. Then spans
without a role are held against the requests: a span that has the call id, or the name and the arguments, of a request
is its execution. Nothing else is taken out of an envelope (R2), so that no call is invented. Where no request can be
read, a span that calls itself a tool's, and holds a name and an object of arguments, is a call as it stands.

    chat            (no table)    requests book("x") id=c1        MODEL by its messages
    call book       (no table)    c1, {"seat": 7}                 TOOL, `dialect: shape`
    add result      (no table)    c1, "done"                      begins later: no second execution
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple, TypeGuard

from msgspec.structs import replace

from goldspan.mappers.assembly.trace_tree import time_order
from goldspan.mappers.carrying_keys import is_tool_name, tool_in, words_of
from goldspan.mappers.span_facts import (
    SHAPE,
    LazySpanFacts,
    ModelFacts,
    Role,
    SpanFacts,
    SpanLook,
    ToolFacts,
    ToolRequest,
    ValuePlace,
    asks_unread,
    joined_context,
    joined_model,
    joined_tool,
    read_as_values,
    says_as_texts,
    value_digest,
)
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, ToolCall

_MOST_ANCESTORS = 64
_AGENT_NAME = frozenset({"agent", "name"})


def with_shapes(spans: Mapping[str, SpanFacts]) -> Mapping[str, SpanFacts]:
    """Return the spans of a tree with roles for those that only their shape tells: the same where tables tell all."""
    if not any(map(_may_be_looked_at, spans.values())) or not _is_of_agent(spans.values()):
        return spans
    reading = _ShapeReading(spans)
    return {**spans, **reading.agents, **reading.models, **reading.calls}


class LaterShapes:
    """The spans of a tree, which are read by shape only when the content of one of them is first used.

    Where tables tell the role of every span that is worth a look, no turn depends on shape. It adds to the content of
    spans of which the tables did not read all, and of these alone.
    """

    def __init__(self, spans: Mapping[str, SpanFacts]) -> None:
        self._spans = dict(spans)
        self._found: Mapping[str, SpanFacts] | None = None

    @property
    def are_used(self) -> bool:
        """The shape of the spans was read."""
        return self._found is not None

    def spans(self) -> Mapping[str, SpanFacts] | None:
        """Return the spans; none where their shape is to be read at once, since a span may have its role by it."""
        unread = {span_id: span for span_id, span in self._spans.items() if _is_unread(span)}
        read = (span for span_id, span in self._spans.items() if span_id not in unread)
        if not unread or any(map(_may_be_looked_at, read)):
            return None
        later = {span_id: span.read_by(partial(self._read, span_id)) for span_id, span in unread.items()}
        return {**self._spans, **later}

    def _read(self, span_id: str) -> SpanFacts:
        span = self._spans[span_id]
        if span.look is None:
            return span
        if self._found is None:
            self._found = with_shapes(self._spans)
        return self._found[span_id]


def _is_unread(span: SpanFacts) -> TypeGuard[LazySpanFacts]:
    return isinstance(span, LazySpanFacts) and span.role is not None and not span.is_read


def _as_agent(span: SpanFacts, look: SpanLook) -> SpanFacts:
    """Return a span as an agent's, with its name and what it was told."""
    agent = next((text for place, text in look.texts if words_of(place.key) >= _AGENT_NAME), None)
    return span.changed(role=Role.AGENT, dialect=SHAPE, agent=agent, model=None, context=look.context)


class Places(NamedTuple):
    """Which values of its span told a call."""

    name: ValuePlace | None
    """None for the span's name."""
    arguments: ValuePlace | None
    """None where only the request has them."""
    call_id: ValuePlace | None
    result: ValuePlace | None


class _Written(NamedTuple):
    """How the execution of a tool is written."""

    tool: str
    name: ValuePlace
    arguments: frozenset[ValuePlace]


def places_of(call: ToolCall, look: SpanLook) -> Places:
    """Return where the span of a call that was read by its shape has what the call is made of."""
    captured = call.capture is Capture.CAPTURED
    same = value_digest(call.arguments) if captured else ""
    equal = (place for place, value in look.objects if captured and value_digest(value) == same)
    arguments = next((place for place in equal if place.key), None)
    if arguments is None and look.own is not None and (look.own[1].raw == call.arguments or not captured):
        arguments = look.own[0]
    call_id = next((place for place, text in look.texts if text == call.call_id), None)
    return Places(_name_place(look, call.name), arguments, call_id, look.result_place)


def _may_be_looked_at(span: SpanFacts) -> bool:
    return (span.role is None and isinstance(span, LazySpanFacts)) or span.look is not None


def _is_of_agent(spans: Collection[SpanFacts]) -> bool:
    """Say whether a dialect knows a key of these spans, or they are an agent's by keys: doors read no trace without."""
    if any(span.role is not None for span in spans):
        return True
    return any(look.names_agent for span in spans if (look := span.look) is not None)


class _ShapeReading:
    """What the spans of one tree say by their shape."""

    def __init__(self, spans: Mapping[str, SpanFacts]) -> None:
        self._spans = spans
        self.models: dict[str, SpanFacts] = {}
        self.agents: dict[str, SpanFacts] = {}
        self.calls: dict[str, SpanFacts] = {}
        ordered = sorted(spans.values(), key=time_order)
        tools = [span for span in ordered if span.tool is not None]
        requests = _requests(ordered)
        self._asked = _unanswered(requests, tools)
        if requests and not self._asked and not any(span.look for span in ordered if span.role is not None):
            return
        self._looks = {span.span_id: look for span in ordered if (look := span.look) is not None}
        requests, written_apart = self._read_requests(ordered, requests)
        self._asked = _unanswered(requests, tools)
        only_divide = bool(tools) and not requests
        if only_divide:
            self.models = self._models_between()
        self._complete(tools)
        candidates = [span for span in ordered if self._may_be_call(span) and span.span_id not in written_apart]
        if self._asked:
            self._match(candidates)
        elif not requests:
            self._take_self_described(candidates, tools)
        self._read_failures_apart(candidates)
        self._read_agents()
        self._take_models_alike()
        if not only_divide:
            self._correct_models([call.start for call in (*tools, *self.calls.values())])

    def _read_requests(
        self, ordered: Sequence[SpanFacts], requests: list[ToolRequest]
    ) -> tuple[list[ToolRequest], Collection[str]]:
        """Return the requests of all models, given those that tables read, and the spans that are nothing but one."""
        for span in filter(asks_unread, ordered):
            self._complete_model(span)
        if self.models:
            requests = _requests(self.models.get(span.span_id, span) for span in ordered)
        written_apart = () if requests else self._read_requests_written_apart(ordered)
        if not (requests or written_apart) and all(span.look for span in ordered if span.role is Role.MODEL):
            self._read_models(ordered)
        return requests or _requests(self.models.values()), written_apart

    def _read_requests_written_apart(self, ordered: Sequence[SpanFacts]) -> Collection[str]:
        """Give models the requests that stand on spans of their own below theirs, and return these spans.

        Each looks like a tool's, but for a result; what executes it is another span.
        """
        found: dict[str, list[ToolRequest]] = defaultdict(list)
        apart: list[str] = []
        for span in ordered:
            above = next((one for one in self._ancestors(span) if one.role is not None), None)
            look = self._looks.get(span.span_id)
            if look is None or span.role is not None or not look.of_tool or look.result_place is not None:
                continue
            if above is None or above.model is None or above.model.requests or above.role is not Role.MODEL:
                continue
            tool = call.tool if (call := _self_described(span, look)) is not None else None
            if tool is not None and tool.named and not self._failed_by_itself(tool):
                found[above.span_id].append(ToolRequest(tool.name, tool.arguments, tool.call_id))
                apart.append(span.span_id)
        for span_id, requests in found.items():
            model = self._spans[span_id].model
            if model is not None:
                asking = replace(model, requests=tuple(requests), unseen_requests=False, without_output=False)
                self.models[span_id] = self._spans[span_id].changed(model=asking, dialect=SHAPE)
        return frozenset(apart)

    def _failed_by_itself(self, tool: ToolFacts) -> bool:
        """Say whether this failed, and no other span has its arguments: as an execution then, not as a request."""
        return bool(tool.error) and self._holders[value_digest(tool.arguments.raw)] < 2

    @cached_property
    def _holders(self) -> Counter[str]:
        """How many objects on these spans say the same, by their digest."""
        return Counter(value_digest(value) for look in self._looks.values() for _, value in look.objects)

    @cached_property
    def _of_agents(self) -> Collection[str]:
        """The spans whose kind says that they are an agent's."""
        return {span_id for span_id, look in self._looks.items() if look.of_agent}

    def _correct_models(self, started: Sequence[int]) -> None:
        """Leave out models that hold the agent's whole loop: without output, or an agent's by their kind.

        To a tool's own model nobody spoke.

        A loop with an output ends with results, whatever it began with.
        """
        for span_id, span in list(self.models.items()):
            model = span.model
            mute = model is not None and model.without_output and not model.unseen_requests
            around = any(span.start < at < span.end for at in started)
            if around and span_id in self._of_agents:
                self.agents[span_id] = _as_agent(self.models.pop(span_id), self._looks[span_id])
            elif mute and around:
                del self.models[span_id]
            elif around and model is not None and model.new_user_message is False:
                self.models[span_id] = span.changed(model=replace(model, new_user_message=None))
            elif model is not None and any(above.span_id in self.calls for above in self._ancestors(span)):
                unspoken = replace(model, new_user_message=None, user_messages=None)
                self.models[span_id] = span.changed(model=unspoken)

    def _read_agents(self) -> None:
        """Read the agents above what was read, or all where that is nothing: the outermost one is a turn."""
        read = [*self.models.values(), *self.calls.values()]
        alone = not read and all(span.role is None for span in self._spans.values())
        around = self._spans.values() if alone else (above for span in read for above in self._ancestors(span))
        for above in around:
            look = self._looks.get(above.span_id)
            of_agent = look is not None and (look.of_agent or (alone and look.of_transcript))
            if above.role is None and look is not None and of_agent and above.span_id not in self.models:
                self.agents[above.span_id] = _as_agent(above, look)

    # Models.

    def _read_models(self, ordered: Sequence[SpanFacts]) -> None:
        """Read the innermost spans with a conversation; of what one lacks, the only span around it may have it."""
        speaking = self._speaking(ordered)
        around = self._around([*speaking.values(), *(span for span in ordered if span.role is Role.AGENT)])
        read = [span for span in ordered if span.role is Role.MODEL]
        beside = {span.span_id for span in read} | self._around(read)
        for span_id, span in speaking.items():
            look = self._looks[span_id]
            if span.role is Role.MODEL:
                self._complete_model(span)
            elif span_id not in around and span_id not in beside and not look.of_tool:
                if any(above.role is Role.MODEL for above in self._ancestors(span)):
                    continue
                self.models[span_id] = span.changed(
                    role=Role.MODEL, dialect=SHAPE, model=look.model, context=look.context
                )

    def _take_models_alike(self) -> None:
        """Take spans as models that are named like models with answers, beside these: no answer of theirs is known."""
        speaking = [span for span in self.models.values() if span.model is not None and not span.model.silent]
        kinds = {
            (span.parent_id, look.scope, look.name) for span in speaking if (look := self._looks.get(span.span_id))
        }
        for span_id, look in self._looks.items() if kinds else ():
            span = self._spans[span_id]
            is_alike = (span.parent_id, look.scope, look.name) in kinds and not (look.of_tool or look.of_agent)
            if span.role is None and is_alike and not look.error:
                alike = span.changed(role=Role.MODEL, dialect=SHAPE, model=ModelFacts(untold=True))
                self.models.setdefault(span_id, alike)

    def _models_between(self) -> dict[str, SpanFacts]:
        """Return the models beside executions that a table read, which divide these into batches (R8).

        There are none where a table knows the trace's models, and one alone holds the agent's whole loop.
        """
        if any(span.role is Role.MODEL for span in self._spans.values()):
            return {}
        found = {
            span_id: span
            for span_id, span in self.models.items()
            if not any(above.tool is not None for above in self._ancestors(span))
        }
        return found if len(found) > 1 else {}

    def _complete_model(self, span: SpanFacts) -> None:
        """Add the requests that stand on a model's span and that its table did not read."""
        look = self._looks.get(span.span_id)
        if span.model is not None and look is not None and look.model is not None and look.model.requests:
            context = joined_context((span.context, look.context))
            self.models[span.span_id] = span.changed(model=joined_model((span.model, look.model)), context=context)

    def _speaking(self, ordered: Sequence[SpanFacts]) -> dict[str, SpanFacts]:
        """Return the spans with a conversation by id: those that have an output, where there are such."""
        speaking = {
            span.span_id: span
            for span in ordered
            if span.role in (None, Role.MODEL) and (look := self._looks.get(span.span_id)) and look.model is not None
        }
        speaking = {span_id: span for span_id, span in speaking.items() if not self._is_part(span)}
        tools = (span for span in ordered if span.tool is not None)
        loops = self._around(tools) & self._around(speaking.values())  # what is around a model and a tool is neither
        with_output = {
            span_id: span
            for span_id, span in speaking.items()
            if span_id not in loops and not _is_mute(self._looks[span_id])
        }
        return with_output or speaking

    def _is_part(self, span: SpanFacts) -> bool:
        """Say whether a span that was given nothing repeats requests of one above it, as a piece of its answer."""
        own = self._looks[span.span_id].model
        if own is None or own.new_user_message is not None or not own.requests:
            return False
        mine = {(one.call_id, one.name) for one in own.requests}
        models = (look.model for above in self._ancestors(span) if (look := self._looks.get(above.span_id)) is not None)
        return any(
            model is not None
            and model.new_user_message is not None
            and mine <= {(one.call_id, one.name) for one in model.requests}
            for model in models
        )

    # Executions.

    def _complete(self, tools: Sequence[SpanFacts]) -> None:
        """Give executions that a table read without arguments what stands on the span all the same.

        Or on the one below it that is named after the tool, as where a framework and its client both write one.
        """
        for span in tools:
            look, tool = self._looks.get(span.span_id), span.tool
            if look is None or tool is None or tool.arguments.capture is not Capture.NOT_CAPTURED or "(" in tool.name:
                continue
            captured = look.own if look.own is not None and look.own[1].capture is Capture.CAPTURED else None
            own = [] if captured is None else [_tool(look, tool.name, captured[1], None)]
            if own or (own := self._named_below(span, tool.name)):
                self.calls[span.span_id] = span.changed(tool=joined_tool((tool, *own)))

    def _named_below(self, span: SpanFacts, name: str) -> list[ToolFacts]:
        """Return what the only span below an execution says that no table reads, if its name is the tool's."""
        below = self._children.get(span.span_id, ())
        look = self._looks.get(below[0].span_id) if len(below) == 1 and below[0].role is None else None
        if look is None or tool_in(look.name) != name:
            return []
        return [_tool(look, name, NO_CONTENT if look.own is None else look.own[1], None)]

    @cached_property
    def _children(self) -> Mapping[str, Sequence[SpanFacts]]:
        children: dict[str, list[SpanFacts]] = defaultdict(list)
        for span in self._spans.values():
            children[span.parent_id].append(span)
        return children

    def _may_be_call(self, span: SpanFacts) -> bool:
        look = self._looks.get(span.span_id)
        return look is not None and span.role is None and span.span_id not in self.models and not look.of_other

    def _match(self, candidates: Sequence[SpanFacts]) -> None:
        """Find the executions of requests: by call id, else by name and arguments; each request has one."""
        by_id, by_print = self._asked_by_mark()
        found: dict[object, list[SpanFacts]] = defaultdict(list)
        for span in candidates:
            look = self._looks[span.span_id]
            ids = {text for text in self._texts(span) if text in by_id}
            if len(ids) > 1:
                continue  # it is about several calls
            for call_id in ids:
                asked = _nearest(look, by_id[call_id])
                found[_key_of(asked)].append(self._call(span, look, asked, call_id))
            if not ids and (same := self._same_arguments(look, by_print)) is not None:
                found[_key_of(same)].append(self._call(span, look, same, None))
        times = Counter(map(_key_of, self._asked))
        for key, calls in found.items():
            self.calls.update((span.span_id, span) for span in self._executions(calls, times[key]))
        self._take_alike([span for span in candidates if not any(text in by_id for text in self._texts(span))])

    def _asked_by_mark(self) -> tuple[Mapping[str, Sequence[ToolRequest]], Mapping[str, Sequence[ToolRequest]]]:
        """Return the requests by call id, and by the digest of their arguments."""
        by_id: dict[str, list[ToolRequest]] = defaultdict(list)
        by_print: dict[str, list[ToolRequest]] = defaultdict(list)
        for request in self._asked:
            if request.call_id:
                by_id[request.call_id].append(request)
            if request.arguments.capture is Capture.CAPTURED:
                by_print[value_digest(request.arguments.raw)].append(request)
        return by_id, by_print

    def _take_alike(self, candidates: Sequence[SpanFacts]) -> None:
        """Take the spans that are written like the executions of requests: not all that ran was asked for (R3).

        And those with the name of a request whose arguments cannot be held against its own: they are cut off.
        """
        found = list(self.calls.values())
        asked = {request.name for request in self._asked}
        ways = {_way(self._looks[span.span_id]) for span in found if span.span_id in self._looks}
        taken = self._around(found) | self.calls.keys()
        beside = self._places_beside(found)
        for span in candidates:
            look = self._looks[span.span_id]
            if span.span_id in taken or any(above.span_id in self.calls for above in self._ancestors(span)):
                continue
            call = _self_described(span, look) if look.of_tool else None
            is_known = call is not None and (_way(look) in ways or (_is_cut(look) and _tool_name(call) in asked))
            call = call if is_known else self._like_one_beside(span, look, beside.get((span.parent_id, look.scope), ()))
            if call is not None:
                self.calls[span.span_id] = call

    def _places_beside(self, found: Sequence[SpanFacts]) -> Mapping[tuple[str, str], Iterable[_Written]]:
        """Return by parent and scope how executions are written, each way once: many may be held against them."""
        written: dict[tuple[str, str], dict[_Written, None]] = defaultdict(dict)
        for span in found:
            tool, look = span.tool, self._looks.get(span.span_id)
            place = None if tool is None or look is None else _name_place(look, tool.name)
            if tool is not None and look is not None and place is not None:
                own = frozenset(_places_of_value(look, tool.arguments.raw))
                written[span.parent_id, look.scope][_Written(tool.name, place, own)] = None
        return written

    def _like_one_beside(self, span: SpanFacts, look: SpanLook, ways: Iterable[_Written]) -> SpanFacts | None:
        """Return the call of a span with a tool's name, and other arguments where an execution beside it has some."""
        for tool, name, places in ways:
            arguments = next((value for place, value in look.objects if place in places), None)
            is_alike = arguments is not None and name == _name_place(look, tool)
            # A second span of one execution has the same.
            if is_alike and arguments is not None and self._holders[value_digest(arguments)] == 1:
                call = _tool(look, tool, Content(dict(arguments), Capture.CAPTURED), None)
                return span.changed(role=Role.TOOL, dialect=SHAPE, tool=call, look=look)
        return None

    def _texts(self, span: SpanFacts) -> Iterator[str]:
        return (text for _, text in self._looks[span.span_id].texts)

    def _same_arguments(self, look: SpanLook, asked: Mapping[str, Sequence[ToolRequest]]) -> ToolRequest | None:
        """Return the request whose name and arguments a span has."""
        for _, value in look.objects:
            for request in asked.get(value_digest(value), ()):
                if _is_named(look, request.name):
                    return request
        read = {value_digest(read_as_values(value)) for _, value in look.objects}
        alike = [one for digest in read for one in self._asked_by_texts.get(digest, ())]
        for _, request in sorted(alike, key=lambda one: one[0]):
            if _is_named(look, request.name) and _holds_as_texts(look, request.arguments):
                return request
        return None

    @cached_property
    def _asked_by_texts(self) -> Mapping[str, Sequence[tuple[int, ToolRequest]]]:
        """The requests with their places, by the digest of what the texts among their arguments read as."""
        found: dict[str, list[tuple[int, ToolRequest]]] = defaultdict(list)
        for place, request in enumerate(self._asked):
            if request.arguments.capture is Capture.CAPTURED and is_mapping(request.arguments.raw):
                found[value_digest(read_as_values(request.arguments.raw))].append((place, request))
        return found

    def _call(self, span: SpanFacts, look: SpanLook, request: ToolRequest, call_id: str | None) -> SpanFacts:
        """Return the execution of this request, with the arguments that the span holds of it."""
        arguments = self._own_arguments(look, request)
        tool = _tool(look, request.name, arguments, call_id)
        return span.changed(role=Role.TOOL, dialect=SHAPE, tool=tool, look=look)

    def _own_arguments(self, look: SpanLook, request: ToolRequest) -> Content:
        """Return the arguments of a requested call on its span: what equals the request's, else shares keys with it."""
        wanted, own = request.arguments, look.own
        if wanted.capture is not Capture.CAPTURED or not is_mapping(wanted.raw):
            return NO_CONTENT if own is None else own[1]
        same, keys = value_digest(wanted.raw), wanted.raw.keys()
        if any(value_digest(value) == same for _, value in look.objects) or _holds_as_texts(look, wanted):
            return wanted  # some writers leave out what is null
        for value in (value for _, value in look.objects if value and value.keys() <= keys):
            return Content(dict(value), Capture.CAPTURED)
        found = None if own is None or own[1].capture is not Capture.CAPTURED else own[1].raw
        return Content(found, Capture.CAPTURED) if is_mapping(found) and not keys.isdisjoint(found) else NO_CONTENT

    def _executions(self, calls: Sequence[SpanFacts], most: int) -> list[SpanFacts]:
        """Return of the spans about a request those that execute it: the outermost, tools first, then the earliest."""
        ids = {call.span_id for call in calls}
        outer = [call for call in calls if not any(above.span_id in ids for above in self._ancestors(call))]
        outer.sort(key=lambda call: (not self._looks[call.span_id].of_tool, time_order(call)))
        return [self._with_inner(call, calls) for call in outer[:most]]

    def _with_inner(self, call: SpanFacts, calls: Sequence[SpanFacts]) -> SpanFacts:
        """Add what the spans inside an execution say of the same call: arguments, a failure."""
        tool = call.tool
        assert tool is not None
        for other in calls:
            inner = other.tool
            # Of requests without ids several may be equal, and run at once: only a parent tells them apart.
            within = bool(tool.call_id) and call.start <= other.start <= other.end <= call.end
            if inner is None or not (within or any(above.span_id == call.span_id for above in self._ancestors(other))):
                continue
            if tool.arguments.capture is not Capture.CAPTURED and inner.arguments.capture is Capture.CAPTURED:
                tool = replace(tool, arguments=inner.arguments)
            if not tool.error and inner.error:
                is_named = inner.error_is_named or inner.error in str(tool.result.raw)
                tool = replace(tool, error=inner.error, error_is_named=is_named)
        return call if tool is call.tool else call.changed(tool=tool)

    def _take_self_described(self, candidates: Sequence[SpanFacts], tools: Sequence[SpanFacts]) -> None:
        """Take spans as calls that say so themselves, where no model's request can be read.

        Beside executions that tables read, only those inside of one that lacks arguments, or around it.
        """
        bare = {one.span_id: one for one in tools if one.tool and one.tool.arguments.capture is Capture.NOT_CAPTURED}
        around = self._around(bare.values())
        for span in candidates:
            look = self._looks[span.span_id]
            inside = any(above.span_id in bare for above in self._ancestors(span))
            captured = look.own is not None and look.own[1].capture is Capture.CAPTURED
            if tools and not (captured and (inside or span.span_id in around)):
                continue
            call = _self_described(span, look) if look.of_tool else None
            if call is not None:
                self.calls[span.span_id] = call
        self._leave_out_failures_of_others()

    def _read_failures_apart(self, candidates: Sequence[SpanFacts]) -> None:
        """Add the failure that a later span tells of a call by its id: some write one as it begins, one as it ends."""
        open_calls = {
            tool.call_id: (span, tool)
            for span in self.calls.values()
            if (tool := span.tool) is not None and tool.call_id and not tool.error and tool.result == NO_CONTENT
        }
        for span in candidates if open_calls else ():
            look = self._looks[span.span_id]
            if look.error and look.call_id is not None and look.call_id[1] in open_calls:
                call, tool = open_calls[look.call_id[1]]
                if span.span_id not in self.calls and span.start >= call.end:
                    told = replace(tool, error=look.error, error_is_named=look.error_is_named)
                    self.calls[call.span_id] = call.changed(tool=told)

    def _leave_out_failures_of_others(self) -> None:
        for call in list(self.calls.values()):
            if self._looks[call.span_id].own is None and self._tells_failure_of_another(call):
                del self.calls[call.span_id]

    def _tells_failure_of_another(self, call: SpanFacts) -> bool:
        """Say whether a failed call without arguments is named after one beside it: `book_error`, beside `book`."""
        name = "" if call.tool is None or not call.tool.error else call.tool.name
        before = (one.tool for one in self.calls.values() if one.start <= call.start)
        return any(tool is not None and tool.error and name == f"{tool.name}_error" for tool in before)

    def _around(self, spans: Iterable[SpanFacts]) -> set[str]:
        return {above.span_id for span in spans for above in self._ancestors(span)}

    def _ancestors(self, span: SpanFacts) -> Iterator[SpanFacts]:
        for _ in range(_MOST_ANCESTORS):
            above = self._spans.get(span.parent_id)
            if above is None:
                return
            yield above
            span = above


def _self_described(span: SpanFacts, look: SpanLook) -> SpanFacts | None:
    """Return the call that a span describes; None where it names several tools."""
    name = look.tool_name[1] if look.tool_name is not None else tool_in(look.name)
    if "(" in name or name.startswith("<"):  # `<workflow>`, `<lambda>`: no name at all
        return None
    arguments = look.own[1] if look.own is not None else NO_CONTENT
    named = look.tool_name is not None or is_tool_name(name)
    call_id = None if look.call_id is None else look.call_id[1]
    tool = replace(_tool(look, name, arguments, call_id), named=named)
    return span.changed(role=Role.TOOL, dialect=SHAPE, tool=tool, look=look)


def _tool(look: SpanLook, name: str, arguments: Content, call_id: str | None) -> ToolFacts:
    return ToolFacts(
        name, arguments, call_id=call_id, result=look.result, error=look.error, error_is_named=look.error_is_named
    )


def _tool_name(call: SpanFacts) -> str:
    return "" if call.tool is None else call.tool.name


def _places_of_value(look: SpanLook, wanted: object) -> set[ValuePlace]:
    digest = value_digest(wanted)
    return {place for place, value in look.objects if value_digest(value) == digest}


def _way(look: SpanLook) -> tuple[str, ValuePlace | None]:
    """Return how a span is written: by whom, and where the tool's name stands."""
    return look.scope, None if look.tool_name is None else look.tool_name[0]


def _is_cut(look: SpanLook) -> bool:
    return look.own is not None and look.own[1].capture is Capture.TRUNCATED


def _is_mute(look: SpanLook) -> bool:
    return look.model is None or look.model.without_output


def _requests(spans: Iterable[SpanFacts]) -> list[ToolRequest]:
    return [request for span in spans if span.model is not None for request in span.model.requests]


def _unanswered(requests: Sequence[ToolRequest], tools: Sequence[SpanFacts]) -> list[ToolRequest]:
    """Return the requests that no execution answers: none has the call id, nor one more of its name."""
    ran = [span.tool for span in tools if span.tool is not None]
    ids = {tool.call_id for tool in ran if tool.call_id}
    left = [request for request in requests if not request.pseudo and request.call_id not in ids]
    names = Counter(
        tool.name for tool in ran if not tool.call_id or tool.call_id not in {one.call_id for one in requests}
    )
    free: list[ToolRequest] = []
    for request in left:
        if names[request.name] > 0:
            names[request.name] -= 1
        else:
            free.append(request)
    return _distinct(free)


def _distinct(requests: Sequence[ToolRequest]) -> list[ToolRequest]:
    """Return one of the requests that are equal and have a call id, and all without."""
    return list({_key_of(request) if request.call_id else id(request): request for request in requests}.values())


def _key_of(request: ToolRequest) -> object:
    """Return what equal requests share. Some models number the calls of each response anew, so that ids repeat."""
    return request.call_id, request.name, value_digest(request.arguments.raw)


def _nearest(look: SpanLook, asked: Sequence[ToolRequest]) -> ToolRequest:
    """Return of the requests with one id that whose arguments a span has, else the first."""
    if len(asked) == 1:
        return asked[0]
    held = {value_digest(value) for _, value in look.objects}
    return next((one for one in asked if value_digest(one.arguments.raw) in held), asked[0])


def _name_place(look: SpanLook, name: str) -> ValuePlace | None:
    """Return where a span holds this name by itself; None where it does not, or its own name has it."""
    if look.tool_name is not None and look.tool_name[1] == name:
        return look.tool_name[0]
    places = (place for place, text in look.texts if text == name)
    return min(places, key=lambda place: (len(place.path), place.event != "", place), default=None)


def _is_named(look: SpanLook, name: str) -> bool:
    return _name_place(look, name) is not None or _is_word_of(name, look.name)


def _holds_as_texts(look: SpanLook, arguments: Content) -> bool:
    wanted = arguments.raw if arguments.capture is Capture.CAPTURED else None
    return is_mapping(wanted) and any(says_as_texts(value, wanted) for _, value in look.objects)


def _is_word_of(name: str, span_name: str) -> bool:
    """Say whether a tool's name stands in its span's name by itself: `execute_tool f`, `f.call`, not `f_two`."""
    before, found, after = span_name.partition(name)
    apart = not before[-1:].isalnum() and not after[:1].isalnum() and "_" not in (before[-1:], after[:1])
    return bool(found) and apart
