"""Fragments of many traces joined to the turns and runs of their sessions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from goldspan.mappers.assembly.session_id import DEFAULT_SESSION_KEYS
from goldspan.mappers.assembly.tool_calls_and_batches import PSEUDO_TOOLS, calls_of
from goldspan.mappers.assembly.trace_tree import TraceTree, time_order
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import NO_CONTEXT, ModelFacts, Role, SpanFacts, first_captured
from goldspan.scoring.sessions import Session, ToolCall, Turn, UserMessages
from goldspan.scoring.turn_join import DEFAULT_RUN_IDLE


@dataclass(frozen=True, slots=True)
class AssemblySettings:
    """How spans become sessions; the defaults suit every dialect that goldspan knows."""

    session_keys: tuple[str, ...] = DEFAULT_SESSION_KEYS
    session_gap: float = 3600.0
    """Seconds without a turn after which a session id used again is a new run."""
    run_idle: float = DEFAULT_RUN_IDLE
    """Seconds without a turn after which a session id used again is a new run, if the run saw its whole golden."""
    pseudo_tools: frozenset[str] = PSEUDO_TOOLS

    @property
    def session_gap_ns(self) -> int:
        """The gap in nanoseconds, the unit of span times."""
        return int(self.session_gap * 1_000_000_000)


DEFAULT_ASSEMBLY = AssemblySettings()
"""What applies where nothing is set."""

TurnFragments = tuple[Fragment, ...]
"""The fragments of one turn, in the order of time."""


def turns_of(fragments: Iterable[Fragment]) -> list[TurnFragments]:
    """Join the fragments of one session that belong to one turn.

    A dialect's turn id joins (ADK's sub-agents may be siblings without a common root). What begins with a model call
    that answers tool results, not a user, carries on the turn before: the next call of a raw SDK, an agent that goes
    on after a person's approval. Where no agent stands over them, so do tools called outside any model.
    """
    by_turn_id: dict[str, list[Fragment]] = {}
    turns: list[list[Fragment]] = []
    for fragment in sorted(fragments, key=lambda fragment: fragment.order):
        same = by_turn_id.get(fragment.turn_id) if fragment.turn_id else None
        if same is None and turns and _carries_on(turns[-1], fragment):
            same = turns[-1]
        if same is None:
            same = [fragment]
            turns.append(same)
        else:
            same.append(fragment)
        if fragment.turn_id:
            by_turn_id.setdefault(fragment.turn_id, same)
    return [tuple(turn) for turn in turns]


def _carries_on(turn: list[Fragment], fragment: Fragment) -> bool:
    agentless = fragment.agentless and all(earlier.agentless for earlier in turn)
    only_tools = all(span.role is Role.TOOL for span in fragment.spans) and fragment.spans[0].ref == fragment.root
    if not (agentless and only_tools) and not fragment.continues:
        return False
    return any(span.model is not None for earlier in turn for span in earlier.spans)


def runs_of(turns: Sequence[TurnFragments], settings: AssemblySettings) -> list[list[TurnFragments]]:
    """Cut the turns of one session id into runs: at another declared run id, or at a gap longer than `session_gap`."""
    runs: list[list[TurnFragments]] = []
    by_run_id: dict[str | None, tuple[list[TurnFragments], int]] = {}
    for turn in turns:
        run_id = next((fragment.run_id for fragment in turn if fragment.run_id), None)
        start, end = turn[0].start, max(fragment.end for fragment in turn)
        run, last_end = by_run_id.get(run_id, (None, 0))
        if run is None or (start and last_end and start - last_end > settings.session_gap_ns):
            run = [turn]
            runs.append(run)
        else:
            run.append(turn)
        by_run_id[run_id] = (run, max(last_end, end))
    return runs


def build_session(run: Sequence[TurnFragments], turn_of: Callable[[TurnFragments], Turn]) -> Session:
    """Make the session value of one run; `turn_of` makes (or remembers) its turns."""
    first = run[0][0]
    source = first.resource
    attributes: dict[str, object] = {}
    for turn in run:
        for found in _join_attributes(turn[0]):
            for name, value in found.items():
                attributes.setdefault(name, value)
    return Session(
        id=first.session.id,
        turns=tuple(turn_of(turn) for turn in run),
        id_source=first.session.source,
        run=next((fragment.run_id for fragment in run[0] if fragment.run_id), None)
        or f"{first.root.trace_id}-{first.root.span_id}",
        ambiguous=any(fragment.session.ambiguous for turn in run for fragment in turn),
        resource={
            key: value
            for key, value in (
                ("service.name", source.service_name),
                ("service.version", source.service_version),
                ("deployment.environment.name", source.environment),
            )
            if value is not None
        },
        attributes=attributes,
    )


def _join_attributes(fragment: Fragment) -> Iterator[Mapping[str, object]]:
    """Yield the attributes that goldens may join on: of the root, its ancestors, its descendants, the resource."""
    root = fragment.root_span
    above = [] if root is None else [root, *fragment.tree.ancestors(root.span_id)]
    for span in [*above, *fragment.spans]:
        if span.join_attributes:
            yield span.join_attributes
    yield dict(fragment.resource.join_attributes)


def outline_turn(fragments: TurnFragments) -> Turn:
    """Return a turn with its place and times, and without content."""
    first = fragments[0]
    return Turn(
        root=first.root,
        trace_ids=tuple(dict.fromkeys(fragment.root.trace_id for fragment in fragments)),
        start=first.start,
        end=max(fragment.end for fragment in fragments),
    )


def build_turn(fragments: TurnFragments, settings: AssemblySettings) -> Turn:
    """Make the turn of these fragments."""
    spans: Sequence[SpanFacts] = fragments[0].spans
    if len(fragments) > 1 and fragments[0].root.trace_id:
        spans = sorted((span for fragment in fragments for span in fragment.spans), key=time_order)
    trees = {fragment.root.trace_id: fragment.tree for fragment in fragments}

    def tree_of(span: SpanFacts) -> TraceTree:
        return trees[span.trace_id]

    roots = [fragment.root_span for fragment in fragments if fragment.root_span is not None]
    context = [span.context for span in [*roots, *spans] if span.context is not NO_CONTEXT]
    calls = calls_of(spans, tree_of, settings.pseudo_tools)
    hidden = any(span.hides_calls for span in [*roots, *spans]) or _unseen(spans, tree_of) or _unnamed(calls, spans)
    return replace(
        outline_turn(fragments),
        calls=calls,
        turn_id=next((fragment.turn_id for fragment in fragments if fragment.turn_id), None),
        turn_number=next((span.turn_number for span in roots if span.turn_number), None),
        user_messages=_user_messages(spans),
        agent=next((span.agent for span in [*roots, *spans] if span.agent), None),
        calls_visible=not hidden,
        user_text=first_captured(one.user_text for one in context),
        answer=first_captured(one.answer for one in [*(span.context for span in reversed(roots)), *reversed(context)]),
        messages=first_captured(one.messages for one in reversed(context)),
        tool_definitions=first_captured(one.tool_definitions for one in context),
    )


def _user_messages(spans: Sequence[SpanFacts]) -> tuple[UserMessages, ...]:
    counts = [span.model.user_messages for span in spans if span.role is Role.MODEL and span.model is not None]
    return tuple(count for count in counts if count is not None) if counts and counts[0] is not None else ()


def _unseen(spans: Sequence[SpanFacts], tree_of: Callable[[SpanFacts], TraceTree]) -> bool:
    """Return whether models requested tools, or may have, and neither request nor execution can be read."""
    if any(_ran(span) for span in spans):
        return _lost(spans)
    agentless = not any(span.role is Role.AGENT for span in spans)  # an agent's framework writes spans of its tools
    return any(
        span.model.unseen_requests
        or (agentless and span.model.silent and not tree_of(span).models_around(span.span_id))
        or _goes_on(span, span.model, tree_of(span))
        for span in spans
        if span.model is not None
    )


def _goes_on(span: SpanFacts, model: ModelFacts, tree: TraceTree) -> bool:
    """Return whether this model call is inside another without output: a streamed answer goes on after its tools."""
    if not model.without_output:
        return False
    above = (one for one in tree.ancestors(span.span_id) if one.role is not None)
    return any(one.model is not None and one.model.without_output for one in above)


def _ran(span: SpanFacts) -> bool:
    return span.tool is not None and not span.tool.merged


def _lost(spans: Sequence[SpanFacts]) -> bool:
    """Return whether a model requested tools and was called again, and no tool ran in between.

    Some instrumentations write no span for a tool that throws. This holds where tools run beside the model calls.
    """
    siblings: dict[tuple[str, str], list[SpanFacts]] = {}
    for span in spans:
        if span.parent_id and (span.model is not None or _ran(span)):
            siblings.setdefault((span.trace_id, span.parent_id), []).append(span)
    for group in siblings.values():
        runs = [span.start for span in group if _ran(span)]
        models = [span for span in group if span.model is not None]
        starts = [span.start for span in models]
        for span in models if runs else ():
            later = bisect_left(starts, span.end)
            if span.model is not None and span.model.unseen_requests and later < len(starts):
                first = bisect_left(runs, span.start)
                if first == len(runs) or runs[first] >= starts[later]:
                    return True
    return False


def _unnamed(calls: Sequence[ToolCall], spans: Sequence[SpanFacts]) -> bool:
    """Return whether a tool ran whose name is neither on its span nor in a readable request."""
    classes = {span.ref: span.tool.name for span in spans if span.tool is not None and not span.tool.named}
    return any(call.span is not None and classes.get(call.span) == call.name for call in calls)
