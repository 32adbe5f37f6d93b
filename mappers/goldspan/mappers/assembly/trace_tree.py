"""The spans of one trace as a tree that survives anything a sender can do to it.

A parent that was never seen is a node all the same: its children are siblings. A cycle of parents is cut at its
earliest span. Nothing here recurses, so that a chain of ten thousand spans is only long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from goldspan.mappers.span_facts import Role, SpanFacts

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

    def models_around(self, span_id: str) -> list[SpanFacts]:
        """Return the spans above a model's that hold the same call: no tool or agent is in between.

        An agent that holds the requests of its models is such a span.
        """
        found: list[SpanFacts] = []
        for above in self.ancestors(span_id):
            if above.role is Role.MODEL or (above.role is Role.AGENT and above.model is not None):
                found.append(above)
            elif above.role is not None:
                break
        return found

    def outermost_agent(self, span: SpanFacts, besides: Collection[str] = ()) -> SpanFacts | None:
        """Return the highest agent invocation among the span and its ancestors, except those in `besides`."""
        found = span if is_agent(span) and span.span_id not in besides else None
        for above in self.ancestors(span.span_id):
            if is_agent(above) and above.span_id not in besides:
                found = above
        return found

    def below(self, roots: Iterable[str]) -> set[str]:
        """Return the ids of these spans and of everything under them."""
        children: dict[str, list[str]] = {}
        for span_id, parent_id in self._parents.items():
            children.setdefault(parent_id, []).append(span_id)
        found: set[str] = set()
        pending = list(roots)
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending.extend(children.get(node, ()))
        return found


def is_agent(span: SpanFacts) -> bool:
    """Say whether the span is an invocation of an agent, which may be a turn."""
    return span.role is Role.AGENT and not span.no_turn


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
