"""The spans of one trace as a tree that survives anything a sender can do to it.

A parent that was never seen is a node all the same: its children are siblings. A cycle of parents is cut at its
earliest span. Nothing here recurses, so that a chain of ten thousand spans is only long.

Which list of tools was in force for a call is told by its place in the tree. Definitions belong to the model call that
was given them: agents of one turn have different tools, two of them may have two tools of one name, and a list may grow
from one model call to the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from goldspan.mappers.span_facts import ModelFacts, Role, SpanFacts, value_digest
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef

InheritedT = TypeVar("InheritedT")

time_order: Callable[[SpanFacts], tuple[int, int, str]] = attrgetter("start", "end", "span_id")
"""The key that puts spans in the order of start, end, span id (R8)."""


class TraceTree:
    """The parents and children of one trace."""

    def __init__(
        self, spans: Mapping[str, SpanFacts], log_session_keys: Sequence[tuple[str, tuple[tuple[str, str], ...]]] = ()
    ) -> None:
        """Take the spans of one trace by span id, one version of each, and the session attributes of logs by span."""
        self.spans = spans
        self.log_session_keys = log_session_keys
        self.cut: list[str] = []
        """Ids of spans whose parent was ignored, because it would close a cycle."""
        self._parents = self._without_cycles()
        self._tops: dict[str, str] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return TraceTree, (self.spans, self.log_session_keys)

    def _without_cycles(self) -> dict[str, str]:
        parents = {span_id: span.parent_id for span_id, span in self.spans.items() if span.parent_id}
        settled: set[str] = set()
        for start in self.spans:
            path: dict[str, None] = {}
            node = start
            while node in parents and node not in settled and node not in path:
                path[node] = None
                node = parents[node]
            if node in path:
                nodes = list(path)
                cycle = nodes[nodes.index(node) :]
                first = min(cycle, key=lambda span_id: time_order(self.spans[span_id]))
                del parents[first]
                self.cut.append(first)
            settled.update(path)
        return parents

    def parent_id(self, span_id: str) -> str | None:
        """Return the id of the parent, seen or only named; None for a root."""
        return self._parents.get(span_id)

    def parent(self, span_id: str) -> SpanFacts | None:
        """Return the parent, if it was seen."""
        return self.spans.get(self._parents.get(span_id, ""))

    def ancestors(self, span_id: str) -> Iterator[SpanFacts]:
        """Walk upwards from the parent to the local root."""
        spans, parents = self.spans, self._parents
        while (node := spans.get(parents.get(span_id, ""))) is not None:
            yield node
            span_id = node.span_id

    def top(self, span_id: str) -> str:
        """Return the id of the local root: the highest ancestor, seen or only named as a parent."""
        path: list[str] = []
        node = span_id
        while node not in self._tops:
            path.append(node)
            above = self._parents.get(node)
            if above is None:
                self._tops[node] = node
            else:
                node = above
        top = self._tops[node]
        for below in path:
            self._tops[below] = top
        return top

    def inherited(
        self, own: Callable[[SpanFacts, InheritedT | None], InheritedT | None]
    ) -> Callable[[str], InheritedT | None]:
        """Return what a span, by its id, has by itself and its ancestors; None for one that was not seen.

        `own` is asked once for each span, with what its parent has: to walk up from each would take n * n steps for a
        chain of n spans.
        """
        spans, parents = self.spans, self._parents
        known: dict[str, InheritedT | None] = {}

        def has(span_id: str) -> InheritedT | None:
            path: list[SpanFacts] = []
            while span_id not in known and (span := spans.get(span_id)) is not None:
                path.append(span)
                span_id = parents.get(span_id, "")
            found = known.get(span_id)
            while path:
                span = path.pop()
                found = known[span.span_id] = own(span, found)
            return found

        return has

    @cached_property
    def highest(self) -> Callable[[str], SpanFacts | None]:
        """Returns the highest span that was seen among a span, by its id, and its ancestors."""
        return self.inherited(lambda span, above: above or span)

    @cached_property
    def join_attributes(self) -> Callable[[str], Mapping[str, object] | None]:
        """Returns what goldens may join on of a span, by its id, and its ancestors: of each attribute the nearest."""
        return self.inherited(
            lambda span, above: {**(above or {}), **span.join_attributes} if span.join_attributes else above
        )

    @cached_property
    def _recognised(self) -> Callable[[str], SpanFacts | None]:
        """Returns the nearest span with a role among a span, by its id, and its ancestors."""
        return self.inherited(lambda span, above: above if span.role is None else span)

    @cached_property
    def outermost_agents(self) -> Counter[str]:
        """How many agents without one above are below each local root."""
        two_outermost = self.inherited(two_outermost_agents)
        agents = (span.span_id for span in self.spans.values() if is_agent(span))
        return Counter(self.top(one) for one in agents if two_outermost(one) == (one, ""))

    @cached_property
    def _models_and_tools(self) -> Mapping[str, Sequence[SpanFacts]]:
        """The calls of models and the executions of tools below each local root, in the order of time."""
        found: dict[str, list[SpanFacts]] = {}
        for span in sorted(self.spans.values(), key=time_order):
            if span.role in (Role.MODEL, Role.TOOL):
                found.setdefault(self.top(span.span_id), []).append(span)
        return found

    def ran_within(self, span: SpanFacts) -> SpanRef | None:
        """Return the ids of the first model call or execution below its local root that ran during this span."""
        beside = self._models_and_tools.get(self.top(span.span_id), ())
        later = islice(beside, bisect_left(beside, span.start, key=attrgetter("start")), None)
        ran = takewhile(lambda one: one.start <= span.end, later)
        return next((one.ref for one in ran if one.start <= one.end <= span.end), None)

    def recognised_above(self, span_id: str) -> Iterator[SpanFacts]:
        """Walk upwards over the ancestors with a role."""
        while (node := self._recognised(self._parents.get(span_id, ""))) is not None:
            yield node
            span_id = node.span_id

    def models_around(self, span_id: str) -> list[SpanFacts]:
        """Return the spans above a model's that hold the same call: no tool or agent is in between.

        An agent that holds the requests of its models is such a span.
        """
        found: list[SpanFacts] = []
        for above in self.recognised_above(span_id):
            if above.role is not Role.MODEL and (above.role is not Role.AGENT or above.model is None):
                break
            found.append(above)
        return found

    @cached_property
    def _children(self) -> Mapping[str, Sequence[str]]:
        children: dict[str, list[str]] = {}
        for span_id, parent_id in self._parents.items():
            children.setdefault(parent_id, []).append(span_id)
        return children

    def below(self, root: str) -> list[str]:
        """Return the id of this span and those of everything under it, each after its parent."""
        found = [root]
        for node in found:
            found.extend(self._children.get(node, ()))
        return found


def is_agent(span: SpanFacts) -> bool:
    """Say whether the span is an invocation of an agent, which may be a turn."""
    return span.role is Role.AGENT and not span.no_turn


def with_loops_as_agents(tree: TraceTree) -> TraceTree:
    """Return the tree with a model's span around the calls of several models as an agent's: it holds their loop."""
    inside: dict[str, list[SpanFacts]] = {}
    for span in tree.spans.values():
        for above in tree.models_around(span.span_id) if span.role is Role.MODEL else ():
            inside.setdefault(above.span_id, []).append(span)
    loops = (tree.spans[span_id] for span_id, models in inside.items() if _repeats(tree.spans[span_id], models))
    found = {span.span_id: span.changed(role=Role.AGENT, model=None) for span in loops if span.role is Role.MODEL}
    return TraceTree({**tree.spans, **found}, tree.log_session_keys) if found else tree


def _repeats(outer: SpanFacts, models: Sequence[SpanFacts]) -> bool:
    """Say whether a span repeats what several of these models asked for, and none of them alone."""
    own, asked = _asked_by(outer), [requests for requests in map(_asked_by, models) if requests]
    return bool(own) and own not in asked and own <= set[tuple[str, str]]().union(*asked)


def _asked_by(span: SpanFacts) -> set[tuple[str, str]]:
    requests = () if span.model is None else span.model.requests
    return {(one.name, value_digest(one.arguments.raw)) for one in requests}


def two_outermost_agents(span: SpanFacts, above: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return the ids of the two highest agents among a span and its ancestors, given those of its parent."""
    if not is_agent(span) or (above is not None and above[1]):
        return above
    return (span.span_id, "") if above is None else (above[0], span.span_id)


def with_ancestors(spans: Mapping[str, SpanFacts], named: Collection[str]) -> dict[str, SpanFacts]:
    """Return the spans of one trace that have a role or a session, their ancestors and the `named` spans.

    No turn, call or session depends on any other span.
    """
    relevant = [span for span in spans.values() if span.role is not None or span.session_keys]
    if len(relevant) == len(spans):
        return dict(spans)
    found: dict[str, SpanFacts] = {}
    for span in (*relevant, *(spans[span_id] for span_id in named if span_id in spans)):
        above: SpanFacts | None = span
        while above is not None and above.span_id not in found:
            found[above.span_id] = above
            above = spans.get(above.parent_id)
    return found


TreeOf = Callable[[SpanFacts], TraceTree]


def runner_of(span: SpanFacts, tree: TraceTree) -> SpanRef | None:
    """Return the agent that made a model call or ran a tool, or the tool that did: the first above; None: no one."""
    above = (one for one in tree.recognised_above(span.span_id) if one.role in (Role.AGENT, Role.TOOL))
    return next((one.ref for one in above), None)


def told_by_runner(
    spans: Sequence[SpanFacts], tree_of: TreeOf
) -> dict[SpanRef | None, list[tuple[int, Mapping[str, bool]]]]:
    """Return by agent when its model calls that were given results began, and these, with whether they are errors."""
    told: dict[SpanRef | None, list[tuple[int, Mapping[str, bool]]]] = {}
    for span in spans:
        if span.model is not None and span.model.answered:
            told.setdefault(runner_of(span, tree_of(span)), []).append((span.start, span.model.answered))
    return told


def with_repeated_requests(spans: Sequence[SpanFacts], tree_of: TreeOf) -> Sequence[SpanFacts]:
    """Give a model call that answered nothing readable the requests that the next one of its agent was given again.

    What the input of an agent's first model call repeats was asked for before these spans.
    """
    models = [span for span in spans if span.role is Role.MODEL]
    if not any(_model(span).repeated for span in models):
        return spans
    known = {one.call_id for span in models for one in _model(span).requests}
    before: dict[SpanRef | None, SpanFacts] = {}
    found: dict[SpanRef, SpanFacts] = {}
    for span in models:
        runner = runner_of(span, tree_of(span))
        earlier = before.get(runner)
        before[runner] = span
        asked = [one for one in _model(span).repeated if one.call_id not in known]
        known.update(one.call_id for one in asked)
        if earlier is not None and asked and _may_have_asked_before(earlier, span):
            asking = replace(_model(earlier), requests=tuple(asked), unseen_requests=False, silent=False, untold=False)
            found[earlier.ref] = earlier.changed(model=asking, evidence=replace(earlier.evidence, requests=()))
    return [found.get(span.ref, span) for span in spans]


def _model(span: SpanFacts) -> ModelFacts:
    return ModelFacts() if span.model is None else span.model


def _may_have_asked_before(model: SpanFacts, later: SpanFacts) -> bool:
    """Say whether neither a text nor a request of a model's answer can be read, and it ended before another began."""
    answers_nothing = not _model(model).requests and not model.evidence.speaks
    return bool(model.span_id) and model.end <= later.start and answers_nothing


# Which tool calls of a turn ran in parallel (R8).
#
# Calls that one model response requested are a batch. Without a visible request, executions are a batch if a merged
# span repeats them, else if they follow the same model call that requested tools unseen, else if they are siblings that
# overlap in time.


def overlapping_siblings(executions: Iterable[SpanFacts], tree_of: TreeOf) -> dict[SpanRef, SpanRef]:
    """Return the first span of its batch for each execution: siblings that overlap in time, transitively (R8).

    Plain spans above them are none of their family.
    """
    batches: dict[SpanRef, SpanRef] = {}
    open_until: dict[tuple[str, str], tuple[int, SpanRef]] = {}
    for span in sorted(executions, key=time_order):
        above = next(tree_of(span).recognised_above(span.span_id), None)
        siblings = (span.trace_id, above.span_id if above is not None else span.parent_id or span.span_id)
        until, batch = open_until.get(siblings, (0, span.ref))
        if span.start >= until:
            batch = span.ref
        open_until[siblings] = (max(until, span.end), batch)
        batches[span.ref] = batch
    return batches


def next_beside(spans: Iterable[SpanFacts], others: Iterable[SpanFacts]) -> dict[SpanRef, SpanRef]:
    """Return which of `others` begins next below the parent of each span, not before it."""
    waiting = sorted(others, key=time_order)
    following: dict[str, SpanRef] = {}
    found: dict[SpanRef, SpanRef] = {}
    for span in sorted(spans, key=attrgetter("start"), reverse=True):
        while waiting and waiting[-1].start >= span.start:
            other = waiting.pop()
            following[other.parent_id] = other.ref
        if span.parent_id in following:
            found[span.ref] = following[span.parent_id]
    return found


def after_unseen_requests(
    executions: Iterable[SpanFacts], spans: Iterable[SpanFacts], tree_of: TreeOf
) -> dict[SpanRef, SpanRef]:
    """Return the model call that requested each execution, if the latest one of its agent may have asked unseen (R8).

    A nested agent's executions and model calls are below the tool or agent that runs it; an agent that runs no tool may
    be a step of the one above. OpenTelemetry for JavaScript begins spans on whole milliseconds, so that a tool may
    begin with the model call that was given its result.
    """
    recorded = [span for span in spans if span.model is not None and span.role is Role.MODEL]
    if not any(map(_may_have_asked, recorded)):
        return {}
    run_by = [(span, runner_of(span, tree_of(span))) for span in executions]
    models = _models_by_runner(recorded, {runner for _, runner in run_by}, tree_of)
    asked: dict[SpanRef, SpanRef] = {}
    for span, runner in run_by:
        began = span.start, span.end
        before = [one for one in models.get(runner, ()) if (one.start, one.end) <= began]
        latest = max(before, key=time_order, default=None)
        if latest is not None and _may_have_asked(latest, span.start):
            asked[span.ref] = latest.ref
    return asked


def models_around_any(spans: Iterable[SpanFacts], tree_of: TreeOf) -> set[SpanRef]:
    """Return the model calls that are around one of these spans."""
    return {outer.ref for span in spans for outer in tree_of(span).models_around(span.span_id)}


def _models_by_runner(
    recorded: Sequence[SpanFacts], runners: Collection[SpanRef | None], tree_of: TreeOf
) -> dict[SpanRef | None, list[SpanFacts]]:
    """Return the model calls by what runs their tools; each once where some may have asked unseen.

    A second instrumentation's span of the same call may have less to tell, and a span around several calls has.
    """
    asking = {span.ref: span for span in recorded if _may_have_asked(span)}
    around = models_around_any(asking.values(), tree_of)
    models: dict[SpanRef | None, list[SpanFacts]] = {}
    for span in recorded:
        outer = tree_of(span).models_around(span.span_id)
        if span.ref in asking or not (span.ref in around or any(one.ref in asking for one in outer)):
            models.setdefault(_runner_of_tools(span, tree_of(span), runners), []).append(span)
    return models


def _runner_of_tools(span: SpanFacts, tree: TraceTree, runners: Collection[SpanRef | None]) -> SpanRef | None:
    """Return what runs the tools that a model asks for: its agent, or the one above an agent that runs none."""
    runner = runner_of(span, tree)
    step = None if runner in runners or runner is None else tree.spans.get(runner.span_id)
    return runner if step is None else runner_of(step, tree)


def _may_have_asked(span: SpanFacts, before: int | None = None) -> bool:
    """Say whether a model may have asked unseen `before` then; where nothing tells, its span may be of a whole loop."""
    model = span.model
    if model is None or model.requests:
        return False
    tells_nothing = model.untold or model.silent
    return model.may_have_asked or (tells_nothing and (before is None or span.end <= before))


class GivenTools:
    """The definitions of tools that the model calls of a turn were given, where they differ."""

    def __init__(self, spans: Sequence[SpanFacts], tree_of: TreeOf) -> None:
        """Take the recognised spans of a turn in the order of time."""
        self._tree_of = tree_of
        self._models: dict[SpanRef | None, list[SpanFacts]] = {}  # model calls with definitions, by who made them
        self._inside: dict[SpanRef, Content] = {}
        """The definitions in a second span of a model call, by the spans around it."""
        given = [span for span in spans if _has_definitions(span)]
        first = given[0].context.tool_definitions if given else NO_CONTENT
        self._differ = any(span.context.tool_definitions != first for span in given)
        for span in given if self._differ else ():
            if span.role is Role.MODEL:
                tree = tree_of(span)
                self._models.setdefault(runner_of(span, tree), []).append(span)
                for outer in tree.models_around(span.span_id):
                    self._inside.setdefault(outer.ref, span.context.tool_definitions)

    def of(self, span: SpanFacts) -> Content:
        """Return the definitions in force for a call, by the model call that requested it, else by its execution.

        They are those of that model call, else of the last one before it under the same agent, else of the agents
        above. Nothing where none is known, or where the whole turn has one list.
        """
        if not self._differ:
            return NO_CONTENT
        if span.role is Role.MODEL and (_has_definitions(span) or span.ref in self._inside):
            return span.context.tool_definitions if _has_definitions(span) else self._inside[span.ref]
        tree = self._tree_of(span)
        before = [one for one in self._models.get(runner_of(span, tree), ()) if one.start <= span.start]
        above = (one for one in tree.ancestors(span.span_id) if _has_definitions(one))
        found = max(before, key=time_order, default=None) or next(above, None)
        return NO_CONTENT if found is None else found.context.tool_definitions

    def agent_of(self, span: SpanFacts) -> str | None:
        """Return the name of the agent that made a model call or ran a tool: on its span, else on the nearest above."""
        if span.agent:
            return span.agent
        above = self._tree_of(span).recognised_above(span.span_id)
        return next((one.agent for one in above if one.role is Role.AGENT and one.agent), None)


def other_lists(spans: Sequence[SpanFacts], first: Content) -> tuple[Content, ...]:
    """Return the lists of tools that spans of a turn have beside the first, each once."""
    found = [first]
    for span in spans:
        if _has_definitions(span) and span.context.tool_definitions not in found:
            found.append(span.context.tool_definitions)
    return tuple(found[1:])


def _has_definitions(span: SpanFacts) -> bool:
    return span.context.tool_definitions.capture is Capture.CAPTURED
