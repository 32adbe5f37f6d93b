"""One trace cut into fragments: what it holds of turns (R7), each with the session it belongs to (R6).

Most fragments are a whole turn. Raw SDKs write one trace for each model call, so a turn of theirs is several.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter, is_

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from goldspan.mappers.assembly.trace_tree import TraceTree, is_agent, time_order, two_outermost_agents
from goldspan.mappers.span_facts import NO_RESOURCE, SHAPE, ResourceFacts, Role, SpanFacts, first_captured, first_known
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.sessions import Capture, Content, SpanRef


class Fragment(Struct, frozen=True, gc=False, eq=False):
    """The recognised spans of one turn that one trace holds, in the order of time."""

    root: SpanRef
    spans: tuple[SpanFacts, ...]
    tree: TraceTree
    session: FoundSession
    start: int
    end: int
    root_span: SpanFacts | None
    """The root as it was seen; none while it is only named as a parent."""
    waits_for_caller: bool = False
    """The local root names a parent in its own process that was not seen: an agent may still turn up above it."""
    waits_for_remote: bool = False
    """The local root was called from another process, whose spans may arrive later."""
    turn_id: str | None = None
    run_id: str | None = None
    agentless: bool = False
    """No agent span is above it, as with a raw SDK."""
    unit: SpanRef | None = None
    """A span above that has an output, and other agents below: read by shape, it may be the turn, or a program.

    Or one within, not the only one, that was given a text and gave one: it may be a turn.
    """
    around: SpanRef | None = None
    """What ran during its first span that is a part of other fragments, where its spans are agents and nothing else."""

    @property
    def starts_turn(self) -> bool:
        """It may be a turn, or begin one. An MCP server's own spans are part of a turn that called it, or of none."""
        return not all(span.no_turn for span in self.spans)

    def extent_within(self, silence: int) -> tuple[int, int]:
        """Return when it began and ended, by the times of its spans before a longer silence, in nanoseconds."""
        return _believed_extent(self.spans if self.root_span is None else (*self.spans, self.root_span), silence)

    @property
    def continues(self) -> bool:
        """Its first model call answers tool results, not a user: it carries on the turn before it.

        The outer one of two is the first: an SDK's own span inside of an instrumentation's may seem to begin earlier.
        """
        first = next((span for span in self.spans if span.role is not Role.TOOL and span.model is not None), None)
        models = {
            span.span_id: span for span in self.spans if span.role is Role.MODEL
        }  # what they say is not read here
        while (
            first is not None and (outer := models.pop(first.parent_id, None)) is not None and outer.model is not None
        ):
            first = outer
        return first is not None and first.model is not None and first.model.new_user_message is False

    @property
    def user_text(self) -> Content:
        """What the user said: of all copies the one that goes to other processes."""
        return first_captured(one.context.user_text for one in (self.root_span, *self.spans) if one is not None)

    @property
    def answer(self) -> Content:
        """What was answered: of all copies the one that goes to other processes."""
        return first_captured(one.context.answer for one in (self.root_span, *self.spans[::-1]) if one is not None)

    @property
    def order(self) -> tuple[int, int, str, str]:
        """The order of fragments in a session."""
        return (self.start, self.end, self.root.trace_id, self.root.span_id)

    @property
    def resource(self) -> ResourceFacts:
        """The source that the turn's root came from."""
        return self.spans[0].resource if self.spans else NO_RESOURCE


order_of: Callable[[Fragment], tuple[int, int, str, str]] = attrgetter("order")
"""The key that puts fragments in the order of a session."""


def take_out(fragments: list[Fragment], fragment: Fragment) -> int:
    """Remove a fragment from a list in this order, and return where it was."""
    at = bisect_left(fragments, fragment.order, key=order_of)
    while fragments[at] is not fragment:
        at += 1
    del fragments[at]
    return at


def fragments_of(tree: TraceTree, keys: Sequence[str], beyond: Beyond) -> list[Fragment]:
    """Cut a tree into fragments; none where nothing in it makes a turn."""
    recognised = sorted((span for span in tree.spans.values() if span.role is not None), key=time_order)
    over_several = _agents_over_several_turns(tree, recognised)
    units = _spans_by_turn_root(tree, recognised, over_several)
    if not units:
        return []
    members = {root: {span.span_id for span in spans} for root, spans in units.items()}
    fragments: list[Fragment] = []
    lookup = _SessionLookup(tree, keys, beyond)
    for root, spans in units.items():
        session = lookup.find(root, members[root])
        if session.source == "trace_id" and all(span.no_turn for span in spans):
            continue  # nothing joins it to the turn that it is part of
        fragments += [
            _fragment(tree, first, piece, session) for first, piece in _split_at_user_messages(tree, root, spans)
        ]
    return sorted(fragments, key=order_of)


def _agents_over_several_turns(tree: TraceTree, recognised: list[SpanFacts]) -> Collection[str]:
    """Return the agents that are no turn, but stand over several.

    These are agents without a session above agents of several sessions; and conversations, in which each agent below
    was given a user's next message. They call no model themselves. Agents that hand one task on are given its message,
    or one another's answers.
    """
    agents = [span for span in recognised if is_agent(span)]
    below: dict[str, dict[str, list[SpanFacts]]] = {}
    two_outermost = tree.inherited(two_outermost_agents)
    if not any((two_outermost(span.span_id) or ("", ""))[1] for span in agents):
        return ()  # none is within another
    found = _agents_over_several_sessions(tree, agents)
    if any(span.turn_id for span in agents):
        return found
    for span in recognised:
        root, agent = two_outermost(span.span_id) or ("", "")
        if root and root != span.span_id:
            below.setdefault(root, {}).setdefault(agent, []).append(span)
    return found | {root for root, units in below.items() if _are_turns(units)}


def _agents_over_several_sessions(tree: TraceTree, agents: list[SpanFacts]) -> set[str]:
    named = {span.span_id: dict(reversed(span.session_keys)) for span in agents if span.session_keys}
    if len(named) < 2:
        return set()
    found = _above_several_values(tree, named)
    named_above = tree.inherited(lambda span, above: bool(above or span.session_keys))
    return {span.span_id for span in agents if span.span_id in found and not named_above(span.span_id)}


def _are_turns(units: Mapping[str, list[SpanFacts]]) -> bool:
    """Say whether each unit of spans was given what users said before, and one message more.

    One that ends with requests is a step of its agent, whose results the next step was given in the user's name.
    """
    if any(span.role is not Role.AGENT for span in units.get("", ())):
        return False
    said: tuple[str, ...] = ()
    turns = [spans for agent, spans in units.items() if agent]
    for spans in turns:
        models = [span.evidence for span in spans if span.model is not None]
        users = models[0].users if models else None
        if users is None or len(users) <= len(said) or users[: len(said)] != said:
            return False
        if models[-1].requests and spans is not turns[-1]:
            return False
        said = users
    return len(turns) > 1


def _above_several_values(tree: TraceTree, named: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the spans below which agents, `named` with their session attributes, have several values for one key."""
    found: set[str] = set()
    below: dict[str, dict[str, str]] = {}
    """By span, the attributes of the agents below it, one value each."""
    for span_id in reversed([node for top in dict.fromkeys(map(tree.top, named)) for node in tree.below(top)]):
        above = tree.parent(span_id)
        if above is None:
            continue
        of_parent = below.setdefault(above.span_id, {})
        pairs = [*named.get(span_id, {}).items(), *below.pop(span_id, {}).items()]
        if span_id in found or any(of_parent.setdefault(key, value) != value for key, value in pairs):
            found.add(above.span_id)
    return found


def _spans_by_turn_root(
    tree: TraceTree, recognised: list[SpanFacts], excluded: Collection[str]
) -> dict[str, list[SpanFacts]]:
    """Group recognised spans by the root of their turn: the outermost agent, else the local root."""
    outermost_agent: Callable[[str], SpanFacts | None] = tree.inherited(
        lambda span, above: above or (span if is_agent(span) and span.span_id not in excluded else None)
    )
    under_agent: dict[str, list[SpanFacts]] = {}
    without_agent: dict[str, list[SpanFacts]] = {}
    agents_of_top: dict[str, list[SpanFacts]] = {}
    for span in recognised:
        if span.span_id in excluded:
            continue
        agent = outermost_agent(span.span_id)
        if agent is None:
            without_agent.setdefault(tree.top(span.span_id), []).append(span)
            continue
        if agent.span_id not in under_agent:
            under_agent[agent.span_id] = []
            agents_of_top.setdefault(tree.top(agent.span_id), []).append(agent)
        under_agent[agent.span_id].append(span)
    for top, spans in without_agent.items():
        agents = agents_of_top.get(top)
        if agents is None:
            if any(map(_may_be_of_turn, spans)):
                under_agent[top] = spans
            continue
        # A model or tool call outside the agents of its tree belongs to the agent before it. It is no turn of its own.
        for span in spans:
            before = [agent for agent in agents if agent.start <= span.start] or agents[:1]
            under_agent[before[-1].span_id].append(span)
    for agents in agents_of_top.values():
        _leave_out_steps(agents, under_agent)
    for spans in under_agent.values():
        spans.sort(key=time_order)
    return under_agent


def _leave_out_steps(agents: Sequence[SpanFacts], under_agent: dict[str, list[SpanFacts]]) -> None:
    """Leave out agents under which nothing ran, beside one that was told the same: steps, such as a graph's router."""
    steps = [one for one in agents if all(span.role is Role.AGENT for span in under_agent[one.span_id])]
    if not steps or len(steps) == len(agents):
        return
    idle = {one.span_id for one in steps}
    told = {str(one.context.user_text.raw) for one in agents if one.span_id not in idle}
    for one in steps:
        if one.context.user_text.raw is not None and str(one.context.user_text.raw) in told:
            del under_agent[one.span_id]


def _may_be_of_turn(span: SpanFacts) -> bool:
    return span.role is Role.TOOL or not span.no_turn


def _split_at_user_messages(
    tree: TraceTree, root: str, spans: list[SpanFacts]
) -> Iterable[tuple[str, list[SpanFacts]]]:
    """Split spans without an agent at each new user message, or by the dialect's turn id if there is one."""
    if any(map(is_agent, spans)):
        return [(root, spans)]
    copies = _copies_of_model_calls(tree, spans)
    in_tool: Callable[[str], bool | None] = tree.inherited(lambda span, above: bool(above or span.role is Role.TOOL))
    piece_of: dict[str, list[SpanFacts]] = {}
    pieces: list[list[SpanFacts]] = [[]]
    outer: list[SpanFacts] = []
    """Of the last piece: what the agents that a tool runs are told is no message of its user."""
    current: str | None = None
    for span in spans:
        if span.span_id in copies:
            continue
        is_inner = in_tool(span.span_id) if span.role is Role.MODEL else False
        asked = not is_inner and any(earlier.role is Role.MODEL for earlier in outer)
        if asked and _starts_turn(span, current, reversed(outer)):
            pieces.append([])
            outer = []
        pieces[-1].append(span)
        if not is_inner:
            outer.append(span)
        piece_of[span.span_id] = pieces[-1]
        current = span.turn_id or current
    for span in filter(lambda span: span.span_id in copies, spans):
        insort(piece_of[copies[span.span_id]], span, key=time_order)
    return [(root if position == 0 else piece[0].span_id, piece) for position, piece in enumerate(pieces)]


def _copies_of_model_calls(tree: TraceTree, spans: list[SpanFacts]) -> dict[str, str]:
    """Return the model spans within a model's, with the outermost one: copies of one call, which stay together."""
    among = {span.span_id for span in spans}
    copies: dict[str, str] = {}
    for span in spans:
        above = tree.models_around(span.span_id) if span.role is Role.MODEL else ()
        if known := [one.span_id for one in above if one.span_id in among]:
            copies[span.span_id] = known[-1]
    return copies


def is_injected(span: SpanFacts, before: Iterable[SpanFacts]) -> bool:
    """Say whether the message that a model's input ends with is a framework's, in the user's name (R7).

    The model was waiting for a tool then, so that of what users said nothing is new since the model calls before.
    """
    users, counts = span.evidence.users, None if span.model is None else span.model.user_messages
    if not users or counts is None or not counts.earlier:
        return False
    return next((one.evidence.users for one in before if one.evidence.users), None) == users


def is_told_again(span: SpanFacts, before: Iterable[SpanFacts]) -> bool:
    """Say whether a model is given results that another has answered: its user's message is not recorded."""
    given = {one.call_id for one in span.evidence.results}
    models = [one.evidence for one in before if one.role is Role.MODEL] if given else []
    if not models or not models[0].answers or models[0].requests or models[0].status is not None:
        return False
    return given <= {one.call_id for model in models for one in model.results if one.call_id}


def is_told_by_program(span: SpanFacts, before: Sequence[SpanFacts]) -> bool:
    """Say whether a model call is given what a model before it wrote, or found when it asked for a tool in its text.

    So is one beside the others. `before` are these, the last one first.
    """
    users = span.evidence.users or ()
    if users and any(users[-1] == one.evidence.wrote for one in before):
        return True
    last = next((one for one in before if one.role is Role.MODEL), None)
    asks = last is not None and last.evidence.asks_in_text and last.evidence.system == span.evidence.system
    return asks or is_beside(span, before)


def is_beside(span: SpanFacts, before: Iterable[SpanFacts]) -> bool:
    """Say whether a model call is given what users said to the calls before it, and is of their turn for that (R7).

    A guard, a router, a writer of titles: the system tells it something else. Or a call that failed is made again, or
    is written by two.

        system: Is this safe?        user: A table for two    -> yes
        system: You book tables.     user: A table for two    -> find_table(...)     of the same turn
    """
    users = span.evidence.users or ()
    found = False
    for one in before:
        said = one.evidence.users
        if not said or not users:
            continue
        goes_on = len(said) < len(users) and users[: len(said)] == said
        if one.evidence.system != span.evidence.system:
            if goes_on and len(said) > 1:
                return False  # the conversation goes on: what the system tells it has the time in it, for example
            found = found or _are_beside(span, one)
        elif users == said:
            is_streamed = span.evidence.answers and not one.evidence.answers  # Logfire writes its end on another span
            return found or is_streamed or one.evidence.status is not None or span.start < one.end
        elif goes_on or one.evidence.requests or span.evidence.requests:
            return False
    return found


def _are_beside(one: SpanFacts, other: SpanFacts) -> bool:
    """Say whether of two model calls with different tasks one is given what users said to the other."""
    if one.evidence.requests and other.evidence.requests:
        return False
    told_before = set(one.evidence.users or ()) <= set(other.evidence.users or ())
    return told_before or is_within(one.context.user_text.raw, other.context.user_text.raw)


def is_within(one: object, other: object) -> bool:
    """Say whether of two texts one holds the other: they are equal, or it is a transcript, or a task around it."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    shorter, longer = sorted((one.strip(), other.strip()), key=len)
    if not shorter or len(shorter) >= _SHORTEST_INSIDE:
        return bool(shorter) and shorter in longer
    return re.search(rf"(?:^|[:>\"'])\s*{re.escape(shorter)}\s*(?:$|[<\"'])", longer, re.MULTILINE) is not None


_SHORTEST_INSIDE = 12  # characters of a text that is in another one by no chance


def _starts_turn(span: SpanFacts, current: str | None, before: Iterable[SpanFacts]) -> bool:
    """Say whether a span after a model call begins another turn: by another turn id, else by a user's new message."""
    if span.turn_id is not None:
        return current is not None and span.turn_id != current
    if span.model is None:
        return False
    earlier = list(islice(before, MOST_BEFORE))
    if span.model.new_user_message is not True:
        return is_told_again(span, earlier)
    if is_injected(span, earlier) or is_told_by_program(span, earlier) or _is_handed_on(span, earlier):
        return False
    return not _is_told_the_same(span, earlier)


MOST_BEFORE = 256  # spans of a turn that are looked at for what the next one was given


def _is_handed_on(span: SpanFacts, before: Iterable[SpanFacts]) -> bool:
    """Say whether the message that a model's input ends with is what another model asked an agent for."""
    text = span.context.user_text.value
    asked = (request.arguments.raw for one in before if one.model is not None for request in one.model.requests)
    return bool(text) and any(text in arguments.values() for arguments in asked if is_mapping(arguments))


def _is_told_the_same(span: SpanFacts, before: Iterable[SpanFacts]) -> bool:
    """Say whether a model is told what the one before was, which asked for tools: the results are cut off its input."""
    last = next((one for one in before if one.role is Role.MODEL), None)
    text = span.context.user_text.value if span.evidence.users is None else None
    return bool(text) and last is not None and bool(last.evidence.requests) and last.context.user_text.value == text


def _fragment(tree: TraceTree, root: str, spans: list[SpanFacts], session: FoundSession) -> Fragment:
    root_span = tree.spans.get(root)
    top = tree.top(root)
    top_span = tree.spans.get(top)
    lowest = root_span or spans[0]
    highest = top_span or tree.highest(lowest.span_id) or lowest
    orphan = top_span is None
    extent = [*spans, root_span] if root_span is not None else spans
    # A tool's host may have another clock, by which it ran before its turn.
    start = min(span.start for span in ([one for one in extent if one.role is not Role.TOOL] or extent))
    end = max(span.end for span in extent)
    return Fragment(
        root=SpanRef(spans[0].trace_id, root),
        spans=tuple(spans),
        tree=tree,
        session=session,
        start=start,
        end=end if end - start <= _LONGEST_SILENCE else _believed_extent(extent, _LONGEST_SILENCE)[1] or end,
        root_span=root_span,
        waits_for_caller=orphan and not highest.entry,
        waits_for_remote=orphan and highest.entry,
        turn_id=(root_span.turn_id if root_span else None) or first_known(span.turn_id for span in spans),
        run_id=first_known(span.run_id or span.resource.run_id for span in extent),
        agentless=not any(map(is_agent, spans)),
        unit=_unit_of(tree, spans[0]) or _another_unit_in(tree, root, spans),
        around=tree.ran_within(spans[0]) if all(map(is_agent, spans)) else None,
    )


def _unit_of(tree: TraceTree, first: SpanFacts) -> SpanRef | None:
    top = tree.top(first.span_id)
    above = tree.spans.get(top) if first.dialect == SHAPE and tree.outermost_agents[top] > 1 else None
    if above is None or above.role is not None or above.look is None or above.look.result_place is None:
        return None
    return above.ref


def _another_unit_in(tree: TraceTree, root: str, spans: Sequence[SpanFacts]) -> SpanRef | None:
    """Return the second span below a silent root that was given a text and gave one, if all these are in such spans."""
    above = tree.spans.get(root)
    is_silent = above is not None and above.role is None and (above.look is None or above.look.result_place is None)
    if not is_silent or any(span.dialect != SHAPE for span in spans):
        return None
    below_root = tree.inherited(lambda span, found: span if span.parent_id == root else found)
    units = {unit.ref: unit for span in spans if (unit := below_root(span.span_id)) is not None}
    return next(islice(units, 1, None), None) if all(map(_answers_a_text, units.values())) else None


def _answers_a_text(span: SpanFacts) -> bool:
    look = span.look if span.role is None else None
    told = None if look is None or look.result_place is None or look.own is None else look.own[1]
    return told is not None and told.capture is Capture.UNPARSABLE


_LONGEST_SILENCE = 86_400_000_000_000
"""Nanoseconds that an agent may wait for a person or a tool, while no span of its turn begins or ends."""


def _believed_extent(spans: Iterable[SpanFacts], silence: int) -> tuple[int, int]:
    """Return the first and the last time of these spans before a longer silence; 0 if none of them has a start.

    What comes after it was written by a wrong clock: an end ten years ahead would make one run of all turns until then.
    """
    times = sorted(time for span in spans if span.start > 0 for time in (span.start, span.end) if time > 0)
    end = times[0] if times else 0
    for time in times:
        if time - end > silence:
            break
        end = time
    return times[0] if times else 0, end


def unchanged_fragments(fragments: Sequence[Fragment], before: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments of a trace that grew, with the objects of before for those that nothing new concerns."""
    known = {fragment.root: fragment for fragment in before}
    found: list[Fragment] = []
    for fragment in fragments:
        old = known.get(fragment.root)
        if old is not None and _is_unchanged(old, fragment):
            force_setattr(old, "tree", fragment.tree)  # which says the same of its spans, so that no old one is kept
            fragment = old  # noqa: PLW2901
        found.append(fragment)
    return found


def _is_unchanged(old: Fragment, new: Fragment) -> bool:
    """Whether a fragment has the same spans in the same places of the tree, and the same session."""
    if (
        len(old.spans) != len(new.spans)
        or old.root_span is not new.root_span
        or not all(map(is_, old.spans, new.spans))
    ):
        return False
    if any(getattr(old, name) != getattr(new, name) for name in _COMPARED):
        return False
    seen: set[str] = set()
    for span in new.spans if new.root_span is None else (*new.spans, new.root_span):
        node = span.span_id
        while node not in seen:
            seen.add(node)
            if old.tree.parent_id(node) != new.tree.parent_id(node):
                return False
            above = new.tree.parent(node)
            if above is not old.tree.parent(node):
                return False
            if above is None:
                break
            node = above.span_id
    return True


_COMPARED = (
    "session",
    "start",
    "end",
    "waits_for_caller",
    "waits_for_remote",
    "turn_id",
    "run_id",
    "agentless",
    "unit",
    "around",
)


def restored_fragment(
    root: str,
    spans: Sequence[SpanFacts],
    others: Iterable[SpanFacts],
    session: FoundSession,
    beside: Sequence[SpanRef | None],
) -> Fragment:
    """Return the fragment again that had this root, these spans and this session.

    `others` are the spans above them; `beside` is what was found in the rest of its trace: its `unit`, and `around`.
    """
    tree = TraceTree({span.span_id: span for span in (*others, *spans)})
    found = _fragment(tree, root, sorted(spans, key=time_order), session)
    return replace(found, unit=beside[0], around=beside[1])


def fragment_without_ids(tree: TraceTree, keys: Sequence[str], beyond: Beyond) -> list[Fragment]:
    """Make one fragment of spans that have no ids: nothing is known of them but the order they came in (R4)."""
    recognised = [span for span in tree.spans.values() if span.role is not None]
    if all(span.no_turn for span in recognised):
        return []
    root = recognised[0].span_id
    found = _SessionLookup(tree, keys, beyond).find(root, set(tree.spans))
    session = FoundSession("input", "input", found.ambiguous) if found.source == "trace_id" else found
    return [_fragment(tree, root, recognised, session)]


# Where the session id of a turn is looked for (R6).
#
# The places in order: the turn's root, its ancestors from the nearest, its subtree, the rest of the trace, the
# resource, logs of the subtree, other logs. The subtree of a tool comes after the rest of the trace. At each place the
# keys in their order of precedence. Two values for one key at one place give none from there: batch runners put many
# sessions under one root, and a wrong session is worse than none.

DEFAULT_SESSION_KEYS: tuple[str, ...] = (
    "goldspan.session.id",
    "agentevals.eval.case.id",
    "session.id",
    "respan.threads.thread_identifier",
    "gen_ai.conversation.id",  # which Pydantic AI makes up where it is given none
    "gcp.vertex.agent.session_id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.thread_id",
    "ai.telemetry.metadata.sessionId",
    "ai.settings.context.sessionId",
    "mlflow.trace.session",
    "microsoft.session.id",
    "nat.conversation.id",
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


class _SessionLookup:
    """Finds the sessions of the turns of one tree; each span is looked at for a few of them, however many there are."""

    def __init__(self, tree: TraceTree, keys: Sequence[str], beyond: Beyond) -> None:
        """`keys` are the session attributes in the order of precedence; those that only a dialect knows come after."""
        self._tree = tree
        self._ranks = {key: rank for rank, key in enumerate(keys)}
        self._beyond = beyond
        self._above = tree.inherited(self._found_from)
        self._all: CountedPairs | None = None  # those of the tree; None until they are asked for
        self._of_others: tuple[Sequence[Pair], Sequence[Pair]] = (), ()  # those of other trees, and of all log records

    def find(self, root: str, members: Collection[str]) -> FoundSession:
        """Find the session of the turn under `root`; fall back to the trace id, marked as such."""
        found, ambiguous = self._above(root) or (None, False)
        places = iter(()) if found is not None else self._places(root, members)
        for place in places:
            found, several = _only_value(place, self._ranks)
            if found is not None:
                break
            ambiguous = ambiguous or several
        if found is not None:
            return FoundSession(found[1], found[0])
        return FoundSession(next(iter(self._tree.spans.values())).trace_id, "trace_id", ambiguous)

    def _found_from(self, span: SpanFacts, above: tuple[Pair | None, bool] | None) -> tuple[Pair | None, bool] | None:
        """Return the session of a span or of its nearest ancestor that has one, and whether one before has several."""
        if not span.session_keys:
            return above
        found, several = _only_value((span.session_keys,), self._ranks)
        if found is not None or above is None:
            return found, several
        return above[0], several or above[1]

    def _places(self, root: str, members: Collection[str]) -> Iterator[Iterable[Pairs]]:
        spans = self._tree.spans
        inside = {*self._tree.below(root), *members}
        below = [spans[span_id].session_keys for span_id in inside if span_id in spans]
        is_called = root in spans and spans[root].role is Role.TOOL
        if not is_called:
            yield below
        if self._all is None:
            self._all = {}
            for span in spans.values():
                count_pairs(self._all, span.session_keys, 1)
            others, of_logs = self._beyond.places()
            self._of_others = tuple(others), tuple(of_logs)
        own = (pair for span_id in inside if span_id in spans for pair in spans[span_id].session_keys)
        yield [self._of_others[0], pairs_besides(self._all, own)]
        if is_called:  # an agent that a tool runs may have a session of its own
            yield below
        yield [spans[span_id].resource.session_keys for span_id in members]
        yield [keys for span_id, keys in self._tree.log_session_keys if span_id in inside]
        yield [self._of_others[1]]


CountedPairs = dict[str, Counter[str]]
"""Session attributes: the values of each, and how often it is there."""


def count_pairs(pairs: CountedPairs, more: Pairs, change: int) -> bool:
    """Count attributes that came, or went with a `change` of -1; tell whether a value is new, or gone."""
    differs = False
    for key, value in more:
        values = pairs.setdefault(key, Counter())
        values[value] += change
        differs = differs or values[value] in (0, change)
        if not values[value]:
            del values[value]
    return differs


def pairs_besides(pairs: CountedPairs, own: Pairs) -> Iterator[Pair]:
    """Yield the attributes but for `own` ones; of each no more values than tell that there are several."""
    counted = Counter(own)
    for key, values in pairs.items():
        left = (value for value, count in values.items() if count > counted[key, value])
        yield from ((key, value) for value in islice(left, 2))


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
