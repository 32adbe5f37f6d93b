"""Where the session id of a turn is looked for (R6).

The places in order: the turn's root, its ancestors from the nearest, its subtree, the rest of the trace, the
resource, logs of the subtree, other logs. At each place the keys in their order of precedence. Two values for one key
at one place give none from there: batch runners put many sessions under one root, and a wrong session is worse than
none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from goldspan.mappers.assembly.trace_tree import TraceTree

DEFAULT_SESSION_KEYS: tuple[str, ...] = (
    "goldspan.session.id",
    "agentevals.eval.case.id",
    "gen_ai.conversation.id",
    "session.id",
    "gcp.vertex.agent.session_id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "ai.telemetry.metadata.sessionId",
    "ai.settings.context.sessionId",
    "mlflow.trace.session",
)
"""Session attributes in the order of precedence (R6). `mcp.session.id` is a transport's, never one of them."""

Pair = tuple[str, str]
"""Attribute and value."""
Pairs = Iterable[Pair]


class Beyond:
    """The session attributes of a trace beyond the tree of a turn."""

    def __init__(self, spans: Callable[[], Pairs] = tuple, logs: Callable[[], Pairs] = tuple) -> None:
        """`spans`: those of spans of other trees; `logs`: those of all log records."""
        self._spans = spans
        self._logs = logs
        self.used = False
        """A session was looked for there."""

    def places(self) -> tuple[Pairs, Pairs]:
        """Return the attributes of other spans, and those of all log records."""
        self.used = True
        return self._spans(), self._logs()


class FoundSession(Struct, frozen=True, gc=False):
    """A session id, and the attribute it came from or `trace_id`."""

    id: str
    source: str
    ambiguous: bool = False


def find_session(
    tree: TraceTree, root: str, members: Collection[str], keys: Sequence[str], beyond: Beyond
) -> FoundSession:
    """Find the session of the turn under `root`; fall back to the trace id, marked as such.

    `keys` are the session attributes in the order of precedence; keys that only a dialect knows come after them.
    """
    ranks = {key: rank for rank, key in enumerate(keys)}
    ambiguous = False
    for place in _places(tree, root, members, beyond):
        found, several = _only_value(place, ranks)
        if found is not None:
            return FoundSession(found[1], found[0])
        ambiguous = ambiguous or several
    trace_id = next(iter(tree.spans.values())).trace_id
    return FoundSession(trace_id, "trace_id", ambiguous)


def _places(tree: TraceTree, root: str, members: Collection[str], beyond: Beyond) -> Iterator[Iterable[Pairs]]:
    root_span = tree.spans.get(root)
    if root_span is not None:
        yield (root_span.session_keys,)
        for above in tree.ancestors(root):
            yield (above.session_keys,)
    inside = tree.below([root]).union(members)
    yield [span.session_keys for span_id, span in tree.spans.items() if span_id in inside]
    others, of_logs = beyond.places()
    yield [others, *(span.session_keys for span_id, span in tree.spans.items() if span_id not in inside)]
    yield [tree.spans[span_id].resource.session_keys for span_id in members]
    yield [keys for span_id, keys in tree.log_session_keys if span_id in inside]
    yield [of_logs]


def _only_value(place: Iterable[Pairs], ranks: dict[str, int]) -> tuple[tuple[str, str] | None, bool]:
    """Return the value of the first key at this place, or whether that key has several values."""
    values: dict[str, set[str]] = {}
    for pairs in place:
        for key, value in pairs:
            values.setdefault(key, set()).add(value)
    if not values:
        return None, False
    first = min(values, key=lambda key: (ranks.get(key, len(ranks)), key))
    if len(values[first]) > 1:
        return None, True
    return (first, next(iter(values[first]))), False
