"""Which list of tools was in force for a call, and which agent made it.

Definitions belong to the model call that was given them: agents of one turn have different tools, two of them may have
two tools of one name, and a list may grow from one model call to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goldspan.mappers.assembly.trace_tree import TraceTree, time_order
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef

TreeOf = Callable[[SpanFacts], TraceTree]


def runner_of(span: SpanFacts, tree: TraceTree) -> SpanRef | None:
    """Return the agent that made a model call or ran a tool, or the tool that did: the first above; None: no one."""
    above = (one for one in tree.recognised_above(span.span_id) if one.role in (Role.AGENT, Role.TOOL))
    return next((one.ref for one in above), None)


class GivenTools:
    """The definitions of tools that the model calls of a turn were given, where they differ."""

    def __init__(self, spans: Sequence[SpanFacts], tree_of: TreeOf) -> None:
        """Take the recognised spans of a turn in the order of time."""
        self._tree_of = tree_of
        self._models: dict[SpanRef | None, list[SpanFacts]] = {}
        """Model calls with definitions, by who made them."""
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
