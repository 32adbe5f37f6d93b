"""Where turns begin and end, and of which session they are, held against what their spans say by content alone.

And the turns of a run against one another: one may have the other half of another's call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from goldspan.mappers.assembly.framework_tools import TO_AN_AGENT
from goldspan.mappers.assembly.trace_tree import (
    TraceTree,
    TreeOf,
    is_agent,
    models_around_any,
    runner_of,
    time_order,
    two_outermost_agents,
)
from goldspan.mappers.assembly.turn_fragments import Fragment, is_injected
from goldspan.mappers.span_facts import SHAPE, Role, SpanEvidence, SpanFacts, value_digest
from goldspan.scoring.json_values import is_mapping
from goldspan.scoring.messages import read_messages
from goldspan.scoring.sessions import NO_CONTENT, Capture, Doubt, DoubtedFact, SpanRef, ToolCall, Turn


class Contradiction(NamedTuple):
    """One place where the telemetry contradicts the reading."""

    code: str
    fact: DoubtedFact
    spans: Iterable[SpanRef]
    names: Iterable[str] = ()


def of_turns(models: Sequence[SpanFacts], tree_of: TreeOf, *, alone: bool) -> Iterator[Contradiction]:
    """Doubt a turn that holds several messages of a user, or that begins with the results of tools.

    The latter is no contradiction where it stands `alone`: that nothing joins its trace to others is known.
    """
    # Where a model call says that results end its input, those around it took these for a user's words.
    around = models_around_any((span for span in models if span.evidence.continues), tree_of)
    own = [span for span in models if span.ref not in around and not _is_inside_tool(span, tree_of)]
    if own and not alone and own[0].evidence.continues and _answers_others(own):
        yield Contradiction("begins_with_results", DoubtedFact.TURNS, [own[0].ref])
    several = next(_several_messages(own), None)
    if several is not None:
        yield Contradiction("several_user_messages", DoubtedFact.TURNS, several)
        return
    unclear = [span.ref for span in own[1:] if span.evidence.may_be_user] or list(_injected_once(own))
    if unclear:
        yield Contradiction("several_user_messages", DoubtedFact.TURNS, unclear)
    yield from _after_an_answer(own, tree_of)


def _several_messages(models: Sequence[SpanFacts]) -> Iterator[list[SpanRef]]:
    """Yield two model calls of which the later was told more by users; a guard is told otherwise by the system.

    What another model wrote is none of a user's messages.
    """
    wrote = {span.evidence.wrote for span in models}
    observed = {span.ref for earlier, span in pairwise(models) if earlier.evidence.asks_in_text}
    told = [span for span in models if span.evidence.users and span.evidence.users[-1] not in wrote]
    told = [span for span in told if span.ref not in observed]
    for index, span in enumerate(told):
        alike = (one for one in told[index + 1 :] if one.evidence.system == span.evidence.system)
        yield from ([span.ref, one.ref] for one in alike if _goes_on(span.evidence.users or (), one.evidence))


def _injected_once(own: Sequence[SpanFacts]) -> Iterator[SpanRef]:
    """Yield model calls that are told, behind the result of a tool, what none of the others is: a user may say so.

    A framework says the same again.
    """
    told: dict[str, list[SpanRef]] = {}
    latest: tuple[str, ...] = ()
    for span in own:
        users, text = span.evidence.users, span.context.user_text.value
        if users and users == latest and isinstance(text, str) and is_injected(span, (span,)):
            told.setdefault(value_digest(text.strip()), []).append(span.ref)
        latest = users or latest
    known = _said_elsewhere(own) if told else ()
    yield from (refs[0] for text, refs in told.items() if len(refs) == 1 and text not in known)


def _said_elsewhere(own: Sequence[SpanFacts]) -> set[str]:
    """Return digests of what users said in other places of the models' inputs, and of what the turn begins with."""
    said = {one for span in own for one in span.evidence.users or ()}
    begun = own[0].context.user_text.value
    return said | {value_digest(begun.strip())} if isinstance(begun, str) else said


def _after_an_answer(own: Sequence[SpanFacts], tree_of: TreeOf) -> Iterator[Contradiction]:
    """Doubt a turn in which a model answered, and the next of its agent was told something by a user.

    Only where it is not recorded what users said before: else that tells whether it is a new message.
    """
    answered: dict[SpanRef | None, SpanFacts] = {}
    tasks: dict[SpanRef | None, str] = {}
    for span in own:
        runner, evidence = runner_of(span, tree_of(span)), span.evidence
        earlier = answered.get(runner)
        begins = bool(evidence.system) and evidence.continues is None  # the system alone says what to do
        is_other = begins and tasks.setdefault(runner, evidence.system) != evidence.system
        if earlier is not None and evidence.users is None and (evidence.continues is False or is_other):
            yield Contradiction("several_user_messages", DoubtedFact.TURNS, [earlier.ref, span.ref])
            return
        if evidence.answers and not evidence.requests and not evidence.asks_in_text and evidence.status is None:
            answered[runner] = span


def of_agent_runs(spans: Sequence[SpanFacts], tree_of: TreeOf) -> Iterator[Contradiction]:
    """Doubt a turn in which one agent was told different things by a user, one after the other.

    The agent above was told nothing, and calls no model itself: a script may run under its span. So it may where no
    model is recorded, and nothing tells what the agent was told.
    """
    root = spans[0] if is_agent(spans[0]) else next(filter(is_agent, spans), None)
    if root is None or sum(map(is_agent, spans)) < 3 or root.context.user_text != NO_CONTENT:  # which reads content
        return
    tree = tree_of(root)
    runs = _by_inner_agent(spans, tree)
    if any(span.role is Role.MODEL for span in runs.pop("", ())):
        return
    before: dict[tuple[str | None, ...], tuple[SpanFacts, str]] = {}
    are_recorded = any(span.role is Role.MODEL for span in spans)
    for agent, below in runs.items():
        run = next(span for span in below if span.span_id == agent)
        told = _told(below)
        if _goes_on_with_results(below) or (not told and are_recorded):
            continue
        earlier, was_told = before.setdefault(_agents_of(run, below, tree), (run, told))
        if run is not earlier and earlier.end <= run.start and _may_differ(told, was_told):
            yield Contradiction("several_agent_runs", DoubtedFact.TURNS, [earlier.ref, run.ref])
            return


def _goes_on_with_results(run: Sequence[SpanFacts]) -> bool:
    """Say whether a run's first model is given results of tools: the run is told nothing new."""
    first = _first_model(run)
    return first is not None and bool(first.evidence.continues)


def _first_model(run: Sequence[SpanFacts]) -> SpanFacts | None:
    return next((span for span in run if span.role is Role.MODEL), None)


def _agents_of(run: SpanFacts, below: Sequence[SpanFacts], tree: TraceTree) -> tuple[str | None, ...]:
    """Return the names of a run's agents. Crews of others may have one: those around the first model are among them."""
    first = _first_model(below) or run
    return (run.agent, *(one.agent for one in tree.recognised_above(first.span_id) if is_agent(one)))


def of_flat_agents(spans: Sequence[SpanFacts], tree_of: TreeOf) -> Iterator[Contradiction]:
    """Doubt a turn all of which ran during runs of one agent with nothing below them: each may be a turn.

    A sub-agent whose inside is not recorded runs while its caller's models do not. A run may as well be resumed: its
    first model is given results, though the tool that was approved runs before that.
    """
    empty = _empty_agents(spans, tree_of)
    for earlier, later in pairwise(empty):
        if earlier.end > later.start or earlier.agent != later.agent:
            return
    first = _first_during(empty, [one for one in spans if one.role is not Role.AGENT])
    if first is not None and sum(not one.evidence.continues for one in first) > 1:
        yield Contradiction("ran_beside_agents", DoubtedFact.TURNS, [one.ref for one in empty])


def _first_during(agents: Sequence[SpanFacts], ran: Sequence[SpanFacts]) -> Collection[SpanFacts] | None:
    """Return what ran first during each of these agents, models before tools; none where something ran during none."""
    starts = [one.start for one in agents]
    first: dict[int, SpanFacts] = {}
    for span in ran if starts else ():
        place = bisect_right(starts, span.start) - 1
        if place < 0 or span.start > agents[place].end:
            return None
        if place not in first or (span.role is Role.MODEL and first[place].role is not Role.MODEL):
            first[place] = span
    return first.values()


def _empty_agents(spans: Sequence[SpanFacts], tree_of: TreeOf) -> list[SpanFacts]:
    agents = [span for span in spans if is_agent(span)]
    if len(agents) < 2:
        return []
    above = {next((one.ref for one in tree_of(span).recognised_above(span.span_id)), None) for span in spans}
    return [span for span in agents if span.ref not in above]


def of_hand_offs(spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt a turn that ends where its model handed over to an agent: what that did is part of it, and elsewhere."""
    last = max((span for span in spans if span.role is Role.MODEL), key=time_order, default=None)
    asked = () if last is None else last.evidence.requests
    if last is None or not asked or not all(one.name in TO_AN_AGENT for one in asked):
        return
    if not any(span.start > last.end and span.role in (Role.MODEL, Role.AGENT) for span in spans):
        yield Contradiction("ends_with_hand_off", DoubtedFact.TURNS, [last.ref])


def _may_differ(told: str, other: str) -> bool:
    """Say whether two runs were told different things, or nobody knows what either was told."""
    return told != other if told and other else told == other


def _by_inner_agent(spans: Sequence[SpanFacts], tree: TraceTree) -> dict[str, list[SpanFacts]]:
    """Return the spans by the outermost agent below the root that they are in; "" for none."""
    two_outermost = tree.inherited(two_outermost_agents)
    runs: dict[str, list[SpanFacts]] = {}
    for span in spans:
        _, agent = two_outermost(span.span_id) or ("", "")
        runs.setdefault(agent, []).append(span)
    return runs


def of_units(first: Fragment, spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that an agent's run is a turn where other agents run below one span with them, which has an output.

    That span may be the turn: a crew's. It may as well be a program that holds a conversation, if a user's message
    tells nothing.
    """
    if first.unit is None or any(span.evidence.users for span in spans):
        return
    is_within = not first.agentless or first.root == first.unit
    code = "within_another_turn" if is_within else "several_user_messages"
    yield Contradiction(code, DoubtedFact.TURNS, [first.spans[0].ref, first.unit])


def of_lone_tools(first: Fragment, spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that a tool is a turn, if nothing is around it and nothing but its shape tells it: no turn is recorded."""
    if first.spans[0].ref == first.root and all(one.role is Role.TOOL and one.dialect == SHAPE for one in spans):
        yield Contradiction("tool_alone", DoubtedFact.TURNS, [first.spans[0].ref])


def of_resumed_agents(spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt a turn of an agent that was given results of tools and nothing else, if no model tells more."""
    if not spans or not is_agent(spans[0]) or any(span.role is Role.MODEL for span in spans):
        return
    told = read_messages(spans[0].context.messages)
    if told and all(one.results for one in told):
        yield Contradiction("begins_with_results", DoubtedFact.TURNS, [spans[0].ref])


def _told(run: Sequence[SpanFacts]) -> str:
    """Return a digest of what an agent was told first."""
    for span in run:
        if (text := span.context.user_text.value) is not None:
            return value_digest(text.strip() if isinstance(text, str) else text)
        if span.evidence.users:
            return span.evidence.users[0]
    return ""


def _answers_others(own: Sequence[SpanFacts]) -> bool:
    """Return whether the first model call is given results of calls that no model call of the turn asked for."""
    asked = {one.call_id for span in own for one in span.evidence.requests}
    return any(one.call_id not in asked for one in own[0].evidence.results)


def _goes_on(earlier: tuple[str, ...], evidence: SpanEvidence) -> bool:
    """Say whether users said something more. The order of messages is unknown where nothing tells how an input ends."""
    later = evidence.users or ()
    begins = later[: len(earlier)] == earlier or (evidence.continues is None and not Counter(earlier) - Counter(later))
    return len(later) > len(earlier) and begins


def _is_inside_tool(span: SpanFacts, tree_of: TreeOf) -> bool:
    return any(above.role is Role.TOOL for above in tree_of(span).recognised_above(span.span_id))


def of_session(spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that a turn has no session where one attribute of its spans is named as if it held the session's id."""
    values: dict[str, set[str]] = {}
    holders: dict[str, list[SpanRef]] = {}
    for span in spans:
        for key, value in span.evidence.sessions:
            values.setdefault(key, set()).add(value)
            holders.setdefault(key, []).append(span.ref)
    for key, found in sorted(values.items()):
        if len(found) == 1:
            yield Contradiction("session_id_unread", DoubtedFact.SESSION, holders[key][:1], [key])
            return


def of_silent_agents(
    first: Fragment, spans: Sequence[SpanFacts], tree_of: TreeOf, *, calls_visible: bool
) -> Iterator[Contradiction]:
    """Doubt a turn without calls whose model was called again, and no answer tells what for, or that ran around others.

    The latter is an agent's span and nothing else, while models or tools of its trace ran that are no part of it.
    """
    before: dict[SpanRef | None, SpanFacts] = {}
    models = [span for span in spans if span.role is Role.MODEL and not tree_of(span).models_around(span.span_id)]
    for span in models if calls_visible else ():
        earlier = before.setdefault(runner_of(span, tree_of(span)), span)
        unknown = earlier.evidence.asks_in_text or not earlier.evidence.answers or span.evidence.continues
        if earlier.end <= span.start and unknown and not _is_its_answer(span, earlier):
            yield Contradiction("called_again", DoubtedFact.CALLS, [earlier.ref, span.ref])
            return
    if first.around is not None and all(map(is_agent, spans)):
        yield Contradiction("others_within", DoubtedFact.TURNS, [first.spans[0].ref, first.around])


def _is_its_answer(span: SpanFacts, call: SpanFacts) -> bool:
    """Say whether a span of another kind holds the answer of a model call that has none, and was told the same."""
    is_twin = span.dialect != call.dialect and span.evidence.answers and not call.evidence.answers
    return is_twin and bool(span.evidence.users) and span.evidence.users == call.evidence.users


def of_conversations(models: Sequence[SpanFacts], tree_of: TreeOf) -> Iterator[Contradiction]:
    """Doubt that one agent's model calls with requests are one turn where their histories begin and end differently.

    A history that is trimmed or summarised on the way begins anew, and ends with the same message of the user.
    """
    before: dict[SpanRef | None, SpanFacts] = {}
    handed_on: set[str] | None = None
    for span in models:
        ends = span.evidence.first_and_last_user
        if not span.evidence.requests or not ends:
            continue
        earlier = before.setdefault(runner_of(span, tree_of(span)), span)
        if not set(ends).isdisjoint(earlier.evidence.first_and_last_user):
            continue
        handed_on = set(_handed_on(models)) if handed_on is None else handed_on
        if handed_on.isdisjoint(ends):
            yield Contradiction("several_conversations", DoubtedFact.TURNS, [earlier.ref, span.ref])
            return


def _handed_on(models: Sequence[SpanFacts]) -> Iterator[str]:
    """Yield digests of what models answered, or passed to tools: another agent is told it as if by a user."""
    yield from (span.evidence.wrote for span in models if span.evidence.wrote)
    asked = (request.arguments.raw for span in models if span.model is not None for request in span.model.requests)
    for arguments in filter(is_mapping, asked):
        yield from (value_digest(text.strip()) for text in arguments.values() if isinstance(text, str))


_MOST_AROUND = 8  # turns, and in each so many calls of a tool, that are looked at for one that another ran in


def _last_by_name(calls: Sequence[ToolCall]) -> Mapping[str, Sequence[ToolCall]]:
    found = defaultdict[str, deque[ToolCall]](lambda: deque(maxlen=_MOST_AROUND))
    for call in calls:
        if not call.requested:
            found[call.name].append(call)
    return found


class RunMarks:
    """What the turns of a run asked for and ran: a later turn may have the other half of a call, or a called agent."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], int] = {}
        """By kind, id or arguments, and tool, the place of the first turn that has it."""
        self._ends: list[int] = []
        self._calls: list[Mapping[str, Sequence[ToolCall]]] = []
        """Of each turn, the last calls of each tool."""

    def keep(self, turns: int) -> None:
        """Forget all but the first so many turns."""
        while len(self._ends) > turns:
            self._ends.pop()
            self._calls.pop()
            while self._first and next(reversed(self._first.values())) >= len(self._ends):
                self._first.popitem()

    def held_against(self, turn: Turn) -> Turn:
        """Note the next turn, and return it: in doubt where the execution of a request is in another turn."""
        calls = [call for call in turn.calls if not call.rejected]
        apart = [call for call in calls if self._is_of_another(call, turn)]
        again = [call for call in calls if self._ran_before(call)]
        found = (("ran_in_another_turn", apart), ("read_twice", again))
        doubts = [_doubt(code, DoubtedFact.CALLS, doubted) for code, doubted in found if doubted]
        caller = self._first.get(("calls", "", turn.agent or ""))
        if caller is not None and turn.start < self._ends[caller]:
            refs = () if turn.root is None else (turn.root,)
            doubts.append(Doubt("within_another_turn", DoubtedFact.TURNS, refs, (turn.agent or "",)))
        place = len(self._ends)
        for call in calls:
            self._first.setdefault(("calls", "", call.name), place)
            for key in _halves(call):
                self._first.setdefault(key, place)
        self._ends.append(turn.end)
        self._calls.append(_last_by_name(calls))
        return replace(turn, doubts=tuple(sorted((*turn.doubts, *doubts)))) if doubts else turn

    def _ran_before(self, call: ToolCall) -> bool:
        """Say whether another turn has this call: it has its id, or this one ran within it and says nothing more."""
        if call.requested:
            return False
        if call.call_id and _as_it_ran(call) in self._first:
            return True
        if call.capture is not Capture.NOT_CAPTURED:
            return False
        around = chain.from_iterable(turn.get(call.name, ()) for turn in self._calls[-_MOST_AROUND:])
        return any(one.start <= call.start and call.end <= one.end for one in around)

    def _is_of_another(self, call: ToolCall, turn: Turn) -> bool:
        """Say whether another turn has the other half of a call; or, before it ended, the same request.

        An execution may have another id than its request.
        """
        if any(key in self._first for key in _other_halves(call)):
            return True
        mark = call.call_id if call.requested else value_digest(call.arguments)
        asked = self._first.get(("asked", mark, call.name)) if mark and _is_marked(call) else None
        return asked is not None and turn.start < self._ends[asked]


def _doubt(code: str, fact: DoubtedFact, calls: Sequence[ToolCall]) -> Doubt:
    refs = tuple(ref for call in calls for ref in call.evidence[:1])
    return Doubt(code, fact, refs, tuple(sorted({call.name for call in calls})), calls[0].dialect)


def _halves(call: ToolCall) -> Iterator[tuple[str, str, str]]:
    """Yield what a call is noted under: as asked for, as begun without a result, as ran."""
    mark = call.call_id or value_digest(call.arguments)
    if call.requested:
        yield "asked", mark, call.name
        yield "asked", value_digest(call.arguments), call.name
    elif call.error is None and call.result.capture is Capture.NOT_CAPTURED and _is_marked(call):
        yield "begun", mark, call.name
    if not call.requested:
        yield _as_it_ran(call)
        if _is_marked(call):
            yield "ran", mark, call.name


def _as_it_ran(call: ToolCall) -> tuple[str, str, str]:
    """Return what an execution is noted under with its arguments: one that runs again is written again, perhaps."""
    return f"as {call.call_id}", value_digest(call.arguments), call.name


def _is_marked(call: ToolCall) -> bool:
    """Say whether something tells a call from others of its tool; what could not be read may be the same."""
    return bool(call.call_id or call.arguments) or call.capture in (Capture.TRUNCATED, Capture.UNPARSABLE)


def _other_halves(call: ToolCall) -> Iterator[tuple[str, str, str]]:
    mark = call.call_id or value_digest(call.arguments)
    if call.requested:
        yield "ran", mark, call.name
        yield "ran", value_digest(call.arguments), call.name  # its execution may have no id
        return
    yield "asked", mark, call.name
    if call.result.capture is Capture.CAPTURED:
        yield "begun", mark, call.name
