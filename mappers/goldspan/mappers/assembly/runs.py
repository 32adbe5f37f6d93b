"""Fragments of many traces joined to the turns and runs of their sessions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from msgspec.structs import replace

from goldspan.mappers.assembly.doubts import doubts_of
from goldspan.mappers.assembly.framework_tools import HAND_OFFS, PSEUDO_TOOLS, hands_over
from goldspan.mappers.assembly.tool_calls_and_batches import calls_of
from goldspan.mappers.assembly.trace_tree import TraceTree, is_agent, other_lists, time_order, with_repeated_requests
from goldspan.mappers.assembly.turn_doubts import RunMarks
from goldspan.mappers.assembly.turn_fragments import (
    DEFAULT_SESSION_KEYS,
    MOST_BEFORE,
    Fragment,
    is_injected,
    is_told_again,
    is_told_by_program,
    is_within,
    order_of,
    take_out,
)
from goldspan.mappers.span_facts import (
    NO_CONTEXT,
    NO_EVIDENCE,
    ContextFacts,
    ModelFacts,
    Role,
    SpanEvidence,
    SpanFacts,
    ToolFacts,
    first_captured,
    first_known,
)
from goldspan.scoring.sessions import (
    NO_CONTENT,
    Doubt,
    DoubtedFact,
    Session,
    ToolCall,
    Turn,
    UserMessages,
    unchanged_start,
)
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


class _JoinedTurn:
    """The fragments of one turn, and what was made of them."""

    __slots__ = ("attributes", "beside_others", "fragments", "index", "turn")

    def __init__(self, index: int) -> None:
        self.index = index
        self.fragments: list[Fragment] = []
        self.turn: Turn | None = None
        self.beside_others: Turn | None = None
        """Of an agent alone: the turn in a run whose other turns show calls. It has none, as far as its spans go."""
        self.attributes: tuple[Mapping[str, Any], ...] = ()


class _Run:
    """The turns of one run, and what was made of them together."""

    __slots__ = ("_alone", "_made", "_marks", "_session", "_shown", "_together", "turns")

    def __init__(self) -> None:
        self.turns: list[_JoinedTurn] = []
        self._made: list[Turn] = []
        self._together: list[tuple[dict[str, object], bool, bool]] = []
        """Of the first so many turns: attributes that goldens may join on, whether a session id is ambiguous, and
        whether one has calls."""
        self._marks = RunMarks()
        self._alone: list[int] = []  # the places of turns of an agent alone
        self._shown = False  # a turn has calls, by which these were made
        self._session: Session | None = None

    def append(self, turn: _JoinedTurn) -> None:
        self.turns.append(turn)
        self._session = None

    def pop(self) -> None:
        self.turns.pop()
        kept = max(len(self.turns) - 1, 0)  # the last one may have been in doubt for the one that goes
        del self._made[kept:], self._together[kept:]
        self._marks.keep(kept)
        while self._alone and self._alone[-1] >= kept:
            self._alone.pop()
        self._session = None

    def session(self, build: Callable[[TurnFragments], Turn]) -> Session:
        """Return the session, the same object until its turns change."""
        if self._session is None:
            first = max(len(self._made) - 1, 0)
            for joined in self.turns[len(self._made) :]:
                if joined.turn is None:
                    joined.turn, joined.beside_others = build(tuple(joined.fragments)), None
                    joined.attributes = tuple(_join_attributes(joined.fragments[0]))
                known, ambiguous, shown = self._together[-1] if self._together else ({}, False, False)
                for found in joined.attributes:
                    if not found.keys() <= known.keys():
                        known = {**known, **{name: value for name, value in found.items() if name not in known}}
                ambiguous = ambiguous or any(fragment.session.ambiguous for fragment in joined.fragments)
                turn = self._marks.held_against(joined.turn)
                if self._made and (cut := _cut_between(self.turns[len(self._made) - 1].fragments, joined.fragments)):
                    self._made[-1], turn = (
                        replace(one, doubts=tuple(sorted({*one.doubts, cut}))) for one in (self._made[-1], turn)
                    )
                self._together.append((known, ambiguous, shown or bool(turn.calls)))
                if _is_agent_alone(joined):
                    joined.beside_others = joined.beside_others or replace(turn, calls_visible=True)
                    self._alone.append(len(self._made))
                self._made.append(turn)
            attributes, ambiguous, shown = self._together[-1]
            for place in self._alone[bisect_left(self._alone, first) if shown is self._shown else 0 :]:
                joined = self.turns[place]
                self._made[place] = (joined.beside_others if shown else joined.turn) or self._made[place]
            self._shown = shown
            self._session = self._with(attributes, ambiguous)
        return self._session

    def _with(self, attributes: dict[str, object], ambiguous: bool) -> Session:  # noqa: FBT001
        fragments = self.turns[0].fragments
        first, source = fragments[0], fragments[0].resource
        resource = {
            "service.name": source.service_name,
            "service.version": source.service_version,
            "deployment.environment.name": source.environment,
        }
        return Session(
            id=first.session.id,
            turns=tuple(self._made),
            id_source=first.session.source,
            run=first_known(fragment.run_id for fragment in fragments) or f"{first.root.trace_id}-{first.root.span_id}",
            ambiguous=ambiguous,
            resource={key: value for key, value in resource.items() if value is not None},
            attributes=attributes,
        )


def _is_agent_alone(joined: _JoinedTurn) -> bool:
    """Return whether an agent is all that was seen of a turn, and its calls are not visible only for that (R10)."""
    if joined.turn is None or joined.turn.calls_visible or joined.turn.calls:
        return False
    spans = chain.from_iterable((*one.spans, *filter(None, [one.root_span])) for one in joined.fragments)
    return not any(span.hides_calls or span.model is not None or span.tool is not None for span in spans)


class SessionTurns:
    """The fragments of one session, joined to turns, and its turns cut into runs.

    Fragments may be put in at any time. What was made of those before the first one that changed is kept, so that a
    session which grows is not joined again.

    A dialect's turn id joins (ADK's sub-agents may be siblings without a common root). What begins with a model call
    that answers tool results, not a user, carries on the turn before: the next call of a raw SDK, an agent that goes
    on after a person's approval. Where no agent stands over them, so do tools called outside any model. A run ends at
    another declared run id, or at a gap longer than `session_gap`.
    """

    def __init__(
        self, settings: AssemblySettings, build: Callable[[TurnFragments, AssemblySettings], Turn] | None = None
    ) -> None:
        """`build` makes a turn; by default `build_turn`."""
        self._settings = settings
        make = build or build_turn
        self._build: Callable[[TurnFragments], Turn] = lambda fragments: make(fragments, settings)
        self._by_trace: dict[str, Sequence[Fragment]] = {}
        self._fragments: list[Fragment] = []
        self._joined: list[_JoinedTurn] = []  # the turn of each fragment, as far as these are joined
        self._by_turn_id: dict[str, _JoinedTurn] = {}
        self._turns: list[_JoinedTurn] = []
        self._before: list[tuple[str | None, tuple[_Run, int] | None]] = []
        """For each turn its run id, and the run that had this id before it, with its end."""
        self._by_run_id: dict[str | None, tuple[_Run, int]] = {}
        self._runs: list[_Run] = []

    def put(self, trace_id: str, fragments: Sequence[Fragment]) -> None:
        """Replace what a trace holds of the session."""
        first = len(self._joined)
        before = self._by_trace.pop(trace_id, ())
        same = unchanged_start(before, fragments)
        stays = set(map(id, before[same:])).intersection(map(id, fragments[same:]))
        for fragment in before[same:]:
            if id(fragment) not in stays:
                first = min(first, take_out(self._fragments, fragment))
        for fragment in fragments[same:]:
            if id(fragment) not in stays:
                at = bisect_left(self._fragments, fragment.order, key=order_of)
                self._fragments.insert(at, fragment)
                first = min(first, at)
        if fragments:
            self._by_trace[trace_id] = fragments
        self._join_from(first)

    def runs(self) -> list[tuple[Fragment, Session]]:
        """Return the runs in the order of their first turns, each with its first fragment."""
        return [(run.turns[0].fragments[0], run.session(self._build)) for run in self._runs]

    def _join_from(self, first: int) -> None:
        """Join the fragments from `first` on, after all that were joined before is taken back from the end."""
        made: dict[TurnFragments, tuple[Turn | None, tuple[Mapping[str, Any], ...]]] = {}
        changed = len(self._turns)

        def change(turn: _JoinedTurn) -> None:
            if turn.turn is not None:
                made[tuple(turn.fragments)] = (turn.turn, turn.attributes)
                turn.turn = None

        while len(self._joined) > first:
            turn = self._joined.pop()
            change(turn)
            fragment = turn.fragments.pop()
            if (turn_id := _own_turn_id(fragment)) and all(one.turn_id != turn_id for one in turn.fragments):
                self._by_turn_id.pop(turn_id, None)
            changed = min(changed, turn.index)
            if not turn.fragments and turn.index < len(self._turns):
                self._turns.pop()
        for fragment in self._fragments[first:]:
            same = self._by_turn_id.get(fragment.turn_id) if fragment.turn_id else None
            same = same or self._turn_with(fragment)
            change(same)
            changed = min(changed, same.index)
            same.fragments.append(fragment)
            self._joined.append(same)
            if turn_id := _own_turn_id(fragment):
                self._by_turn_id.setdefault(turn_id, same)
        for turn in self._turns[changed:]:
            turn.turn, turn.attributes = made.get(tuple(turn.fragments), (turn.turn, turn.attributes))
        self._cut_runs_from(changed)

    def _turn_with(self, fragment: Fragment) -> _JoinedTurn:
        """Return the last turn, if this carries it on, or begin one; what may be no turn by itself is left out."""
        if self._turns and _carries_on(self._turns[-1].fragments, fragment):
            return self._turns[-1]
        turn = _JoinedTurn(len(self._turns))
        if fragment.starts_turn:
            self._turns.append(turn)
        return turn

    def _cut_runs_from(self, first: int) -> None:
        while len(self._before) > first:
            run_id, before = self._before.pop()
            run, _ = self._by_run_id[run_id]
            run.pop()
            if not run.turns:
                self._runs.remove(run)
            if before is None:
                del self._by_run_id[run_id]
            else:
                self._by_run_id[run_id] = before
        for turn in self._turns[first:]:
            run_id = first_known(fragment.run_id for fragment in turn.fragments)
            start, end = turn.fragments[0].start, max(fragment.end for fragment in turn.fragments)
            before = self._by_run_id.get(run_id)
            run, last_end = before or (_Run(), 0)
            if not run.turns or (start and last_end and start - last_end > self._settings.session_gap_ns):
                run = _Run() if run.turns else run
                self._runs.append(run)
            run.append(turn)
            self._by_run_id[run_id] = run, max(last_end, end)
            self._before.append((run_id, before))


def _own_turn_id(fragment: Fragment) -> str | None:
    return fragment.turn_id if fragment.starts_turn else None


def _carries_on(turn: list[Fragment], fragment: Fragment) -> bool:
    if not fragment.starts_turn:
        return any(one.start <= fragment.start <= fragment.end <= one.end for one in turn)
    if _ran_within(turn, fragment) or _is_handed_over(turn, fragment):
        return True
    goes_on = _are_tools_alone(turn, fragment) or _runs_what_was_asked(turn, fragment)
    goes_on = goes_on or (fragment.continues and not _is_told_more(turn, fragment))
    goes_on = goes_on or (_is_told_unseen(turn, fragment) and _asked_before(turn))
    if not goes_on and not _says_nothing_new(turn, fragment):
        return False
    return any(span.model is not None for earlier in turn for span in earlier.spans) or _have_one_call(turn, fragment)


def _have_one_call(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether a call of a turn has the id of one before: it waited for an approval, and its model is unknown."""
    calls, others = (
        {(span.tool.name, span.tool.call_id) for one in some for span in one.spans if span.tool and span.tool.call_id}
        for some in (turn, [fragment])
    )
    return not calls.isdisjoint(others)


def _are_tools_alone(turn: list[Fragment], fragment: Fragment) -> bool:
    agentless = fragment.agentless and all(earlier.agentless for earlier in turn)
    return agentless and fragment.spans[0].ref == fragment.root and all(one.role is Role.TOOL for one in fragment.spans)


_ACTS = (Role.TOOL, Role.MODEL)


def _is_told_unseen(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether a raw model call comes after a tool, and no table reads what it was told: it may be the result."""
    last = _last_act(turn) if all(one.agentless for one in (*turn, fragment)) else None
    first = fragment.spans[0]
    if last is None or last.role is not Role.TOOL or first.role is not Role.MODEL:  # the rest reads content
        return False
    if first.model is not None and first.model.new_user_message is not None:
        return False
    return first.evidence.continues is not False and first.evidence.users is None


def _asked_before(turn: list[Fragment]) -> bool:
    """Say whether the last model of a turn asked for tools, as its finish reason tells where nothing else does."""
    last = next(_models_before(turn), None)
    return last is not None and last.model is not None and bool(last.model.requests or last.model.unseen_requests)


def _runs_what_was_asked(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether an agent begins with tools, where the turn before ended with a model that asked for some unseen."""
    first = next((span for span in fragment.spans if span.role in _ACTS), None)
    if first is None or first.role is not Role.TOOL:  # the rest reads content
        return False
    last = _last_act(turn)
    return last is not None and last.model is not None and last.model.unseen_requests


def _is_handed_over(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether the turn before ended with a hand-off to this agent: the runtime may begin a trace for each agent."""
    last = _last_act(turn)
    if last is None or _have_one_agent(turn, [fragment]):  # the rest reads content
        return False
    agents = [one for one in (*fragment.spans, fragment.root_span) if one is not None and one.agent]
    acts = [last.tool] if last.tool is not None else last.model.requests[:1] if last.model is not None else ()
    return any(one.name.startswith(HAND_OFFS) and hands_over(one.name, agents) for one in acts)


def _last_act(turn: list[Fragment]) -> SpanFacts | None:
    return next((span for earlier in reversed(turn) for span in reversed(earlier.spans) if span.role in _ACTS), None)


def _first_model(fragment: Fragment) -> SpanFacts | None:
    return next((span for span in fragment.spans if span.role is Role.MODEL), None)


def _models_before(turn: list[Fragment]) -> Iterator[SpanFacts]:
    """Yield the model calls of a turn, the last one first."""
    return (span for earlier in reversed(turn) for span in reversed(earlier.spans) if span.role is Role.MODEL)


def _is_told_more(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether what is given results is told more: an agent by a user, whose text is beside them (R7)."""
    text = NO_CONTENT if fragment.agentless else fragment.user_text
    if text.value and all(one.user_text != text for one in turn):
        return True
    first = _first_model(fragment)
    return first is not None and is_told_again(first, _models_before(turn))


def _cut_between(turn: list[Fragment], later: list[Fragment]) -> Doubt | None:
    """Doubt where one of two turns ends, if nothing that users said before is said in the later one.

    Its model may have another task in the same turn, one of a pipeline's: the system tells it something else, or the
    model before asked for a tool and never saw the result. So may one that is told the same as a model before. And what
    a program runs between an answer and the next message may be of either. An agent, too, may be told by the program
    what another answered, by itself or in a prompt of the program's, or what the user said to that one. And what a
    model is told about the conversation, to sum it up for example, is no part of the history afterwards.
    """
    first, last = _first_model(later[0]), next(_models_before(turn), None)
    with_agents = not all(one.agentless for one in (*turn, *later))
    if first is None or last is None:
        return None
    is_cut = _is_forgotten(turn, first)
    if with_agents and _have_one_agent(turn, later) and not is_cut and not _one_asks_for_nothing(turn, later):
        return None
    before = [one.evidence for one in islice(_models_before(turn), MOST_BEFORE)]
    if not first.evidence.users:
        is_cut = _is_told_unseen(turn, later[0])
    elif is_cut or _is_quoted(turn, later[0], first):
        is_cut = True
    elif with_agents:
        is_cut = any(_is_told_with(first.evidence, one) for one in before) or _quotes_user(turn, later[0])
    elif (tool := _ran_after_answer(last, turn[-1].spans[-1])) is not None:
        is_cut = all(tool.name != request.name for one in before for request in one.requests)
    else:
        is_cut = _may_be_task_of(first, last, [one for one in before if one.users], later[0])
    return Doubt("another_task", DoubtedFact.TURNS, (last.ref, first.ref), dialect=first.dialect) if is_cut else None


def _one_asks_for_nothing(turn: list[Fragment], later: list[Fragment]) -> bool:
    """Say whether the models of just one of two turns ask for tools: the other may be a guard, or write a title."""
    return all(map(_asks_for_nothing, turn)) is not all(map(_asks_for_nothing, later))


def _have_one_agent(turn: list[Fragment], later: list[Fragment]) -> bool:
    """Say whether two turns have agents of the same names, all known: that agent goes on."""
    names, others = (
        {span.agent for one in some for span in (*one.spans, *filter(None, [one.root_span])) if is_agent(span)}
        for some in (turn, later)
    )
    return names == others and None not in names


def _is_told_with(given: SpanEvidence, other: SpanEvidence) -> bool:
    """Say whether a model is given what another wrote, or with another task what users said to that one.

    One of the two, which sorts messages or writes titles, may be given the last message alone.
    """
    users, said = given.users or (), other.users or ()
    goes_on = users[: len(said)] == said
    is_same = users == said or (users[-1:] == said[-1:] and 1 in (len(users), len(said)) and not goes_on)
    return users[-1:] == (other.wrote,) or (is_same and given.system != other.system)


def _is_forgotten(turn: list[Fragment], first: SpanFacts) -> bool:
    """Say whether a turn without calls was told last what the next one's history has not, which has all before that.

    A user may have changed that message. Or a program asked about the conversation.

        user: A table for two                           -> find_table(...)
        user: A table for two    user: Sum this up      -> You want a table.
        user: A table for two    user: For tomorrow     -> find_table(...)     does not know of the second
    """
    if not all(map(_asks_for_nothing, turn)):  # the rest reads content
        return False
    said, users = _said_last(turn), first.evidence.users or ()
    place = len(said) - 1
    return 0 < place < len(users) and users[:place] == said[:place] and users[place] != said[place]


def _said_last(turn: list[Fragment]) -> tuple[str, ...]:
    """Return what users said, as the last model call of a turn tells of which this is known."""
    return first_known(one.evidence.users for one in islice(_models_before(turn), MOST_BEFORE)) or ()


def _is_quoted(turn: list[Fragment], later: Fragment, first: SpanFacts) -> bool:
    """Say whether a model is told one message only, and that has in it all that the turn before answered.

    Or a part of that, a step of a plan, and not what users said in the turn before.
    """
    answer, text, users = turn[-1].answer.raw, later.user_text.raw, first.evidence.users or ()
    if not (isinstance(answer, str) and answer.strip() and isinstance(text, str)):
        return False
    if len(users) == 1 and answer.strip() in text:
        return True
    said = _said_last(turn)
    return bool(said) and said[-1] not in users and len(text) < len(answer) and is_within(text, answer)


def _quotes_user(turn: list[Fragment], later: Fragment) -> bool:
    """Say whether one of two runs is told one message only, with what the user said to the other in it."""
    text = later.user_text
    quoting = [one.user_text for one in turn[-MOST_BEFORE:] if _is_told_once(one) or _is_told_once(later)]
    return any(other != text and is_within(text.value, other.value) for other in quoting)


def _is_told_once(fragment: Fragment) -> bool:
    first = _first_model(fragment)
    return first is not None and len(first.evidence.users or ()) == 1


def _ran_after_answer(model: SpanFacts, end: SpanFacts) -> ToolFacts | None:
    said = model.evidence
    is_answer = said.answers and not said.requests and not said.asks_in_text
    return end.tool if is_answer and model.end <= end.start else None


def _may_be_task_of(first: SpanFacts, last: SpanFacts, told: Sequence[SpanEvidence], turn: Fragment) -> bool:
    """Say whether the first model of a turn may do a task of the turn before, whose models were told this."""
    task = first.evidence
    said = set(chain.from_iterable(one.evidence.users or () for one in turn.spans[:MOST_BEFORE]))
    if said.isdisjoint(chain.from_iterable(one.users or () for one in told)):
        return bool(last.evidence.requests) or all(one.system != task.system for one in told)
    if last.evidence.users == task.users and last.context.user_text == first.context.user_text:
        return True
    return any(one.system != task.system for one in told if one.users == task.users and one.requests)


def _ran_within(turn: list[Fragment], fragment: Fragment) -> bool:
    if any(_are_agent_and_tools(one, fragment) for one in turn):
        return True
    may_be_part = fragment.agentless or _is_lone(fragment)
    around = [one for one in turn if may_be_part or one.root.trace_id == fragment.root.trace_id]
    if not any(_is_lone(one) and _encloses(one, fragment) for one in around):
        return False
    return may_be_part or _goes_on_beside(turn, fragment)


def _goes_on_beside(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether models tell that an agent's run within another, which nothing links to it, is of that one's turn.

    It begins what the other was told, or goes on with results of tools; without a model it goes on, too.
    """
    first, last = _first_model(fragment), next(_models_before(turn), None)
    if last is None:
        return first is not None and first.evidence.users is not None
    return bool(last.evidence != NO_EVIDENCE if first is None else first.evidence.continues)


def _are_agent_and_tools(one: Fragment, fragment: Fragment) -> bool:
    """Say whether the second is an agent around what the first has, or its tools alone, in a trace of their own."""
    if _is_lone(fragment) and one.agentless:
        return _encloses(fragment, one)
    are_tools = fragment.agentless and all(span.role is Role.TOOL for span in fragment.spans)
    has_none = not one.agentless and all(span.role is not Role.TOOL for span in one.spans)
    return are_tools and has_none and _encloses(one, fragment)


def _is_lone(fragment: Fragment) -> bool:
    """Say whether it is an agent's span and nothing of what the agent did: its context was not passed on."""
    return not fragment.agentless and all(span.role is Role.AGENT for span in fragment.spans)


def _encloses(agent: Fragment, fragment: Fragment) -> bool:
    last = agent.end if fragment.agentless else agent.end - 1  # of two agents that end at once, none ran the other
    # The clock of the tools' host may be off, that of a root is the agent's.
    own = [span for span in fragment.spans if span.role is not Role.TOOL] or fragment.spans
    return (
        agent.start <= min(span.start for span in own)
        and max(span.end for span in own) <= last
        and (fragment.run_id is None or fragment.run_id == agent.run_id)
    )


def _says_nothing_new(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether users said nothing to a fragment that the turn does not have.

    A model call beside an agent is in a trace of its own: before the agent's, or after it.
    """
    first = _first_model(fragment)
    if first is None or not first.evidence.users:
        return False
    before = list(islice(_models_before(turn), MOST_BEFORE))
    is_part = len(fragment.spans) == 1 or first.ref == fragment.root or fragment.root.trace_id == turn[-1].root.trace_id
    if is_part and fragment.agentless and all(earlier.agentless for earlier in turn) and is_injected(first, before):
        return True
    is_alone = first.ref == fragment.root or all(map(_is_model_call, turn)) or _is_aside(turn, fragment)
    first = first.changed(context=ContextFacts(fragment.user_text)) if is_alone else first
    return is_alone and is_told_by_program(first, _models_told(turn))


def _models_told(turn: list[Fragment]) -> list[SpanFacts]:
    models = ((span, one) for one in reversed(turn) for span in reversed(one.spans) if span.role is Role.MODEL)
    return [span.changed(context=ContextFacts(one.user_text)) for span, one in islice(models, MOST_BEFORE)]


def _is_aside(turn: list[Fragment], fragment: Fragment) -> bool:
    """Say whether agents ran at once, one of which asked for nothing, as a writer of titles does."""
    overlaps = fragment.start < max(one.end for one in turn)
    return overlaps and (_asks_for_nothing(fragment) or all(map(_asks_for_nothing, turn)))


def _asks_for_nothing(fragment: Fragment) -> bool:
    if any(span.role is Role.TOOL for span in fragment.spans):  # the rest reads content
        return False
    return not any(span.evidence.requests for span in fragment.spans)


def _is_model_call(fragment: Fragment) -> bool:
    """Say whether it is a model call that asked for no tool."""
    return all(span.role is Role.MODEL and not span.evidence.requests for span in fragment.spans)


def _join_attributes(fragment: Fragment) -> Iterator[Mapping[str, object]]:
    """Yield the attributes that goldens may join on: of the root, its ancestors, its descendants, the resource."""
    if found := fragment.tree.join_attributes(fragment.root.span_id):
        yield found
    for span in fragment.spans:
        if span.join_attributes:
            yield span.join_attributes
    if fragment.resource.join_attributes:
        yield dict(fragment.resource.join_attributes)


def outline_turn(fragments: TurnFragments) -> Turn:
    """Return a turn with its place and times, and without content."""
    first = fragments[0]
    own = (one for one in fragments if not one.agentless or any(span.evidence.requests for span in one.spans))
    return Turn(
        root=next(own, first).root,  # a guard may have been asked before
        trace_ids=tuple(dict.fromkeys(fragment.root.trace_id for fragment in fragments)),
        start=first.start,
        end=max(fragment.end for fragment in fragments),
    )


def build_turn(fragments: TurnFragments, settings: AssemblySettings) -> Turn:
    """Make the turn of these fragments."""
    tree = fragments[0].tree
    trees = {span.ref: fragment.tree for fragment in fragments[1:] for span in fragment.spans}

    def tree_of(span: SpanFacts) -> TraceTree:
        return trees.get(span.ref, tree) if trees else tree

    spans = with_repeated_requests(_spans_of(fragments), tree_of)
    roots = [fragment.root_span for fragment in fragments if fragment.root_span is not None]
    calls = calls_of(spans, tree_of, settings.pseudo_tools)
    hidden = any(span.hides_calls for span in [*roots, *spans]) or _unseen(spans, tree_of) or _unnamed(calls, spans)
    content = _content_of(roots, spans)
    doubts = doubts_of(
        calls,
        spans,
        tree_of,
        settings.pseudo_tools,
        fragments[0],
        calls_visible=not hidden,
        one_turn_id=len({span.turn_id for span in spans if span.role is not Role.TOOL}) == 1 and bool(spans[0].turn_id),
        named_after_trace=fragments[0].session.source == "trace_id",
    )
    return replace(
        outline_turn(fragments),
        calls=calls,
        turn_id=first_known(fragment.turn_id for fragment in fragments),
        turn_number=first_known(span.turn_number for span in roots),
        user_messages=_user_messages(spans),
        agent=first_known(span.agent for span in [*roots, *spans]),
        calls_visible=not hidden,
        user_text=content.user_text,
        answer=content.answer,
        messages=content.messages,
        tool_definitions=content.tool_definitions,
        doubts=doubts,
        more_definitions=other_lists(spans, content.tool_definitions),
    )


def _spans_of(fragments: TurnFragments) -> Sequence[SpanFacts]:
    """Return the spans of a turn in the order of time; those without ids have only that of the input (R4)."""
    if len(fragments) == 1 or not fragments[0].root.trace_id:
        return fragments[0].spans
    return sorted((span for fragment in fragments for span in fragment.spans), key=time_order)


def _content_of(roots: Sequence[SpanFacts], spans: Sequence[SpanFacts]) -> ContextFacts:
    """Return a turn's content: what was asked first, and what was said last, best by the turn's root."""
    context = [span.context for span in [*roots, *spans] if span.context is not NO_CONTEXT]
    return ContextFacts(
        first_captured(one.user_text for one in context),
        first_captured(one.answer for one in [*(span.context for span in reversed(roots)), *reversed(context)]),
        first_captured(one.messages for one in reversed(context)),
        first_captured(one.tool_definitions for one in context),
    )


def _user_messages(spans: Sequence[SpanFacts]) -> tuple[UserMessages, ...]:
    counts = [span.model.user_messages for span in spans if span.role is Role.MODEL and span.model is not None]
    return tuple(count for count in counts if count is not None) if counts and counts[0] is not None else ()


def _unseen(spans: Sequence[SpanFacts], tree_of: Callable[[SpanFacts], TraceTree]) -> bool:
    """Return whether models requested tools, or may have, and neither request nor execution can be read.

    An agent of which neither a model call nor a tool was seen may have done anything.
    """
    if any(_ran(span) for span in spans):
        return _lost(spans)
    return not any(span.model is not None for span in spans) or any(
        span.model.unseen_requests
        or (span.model.silent and not tree_of(span).models_around(span.span_id))
        or _goes_on(span, span.model, tree_of(span))
        for span in spans
        if span.model is not None
    )


def _goes_on(span: SpanFacts, model: ModelFacts, tree: TraceTree) -> bool:
    """Return whether this model call is inside another without output: a streamed answer goes on after its tools."""
    if not model.without_output:
        return False
    return any(one.model is not None and one.model.without_output for one in tree.recognised_above(span.span_id))


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
    return any(map(_is_called_again, siblings.values()))


def _is_called_again(siblings: Sequence[SpanFacts]) -> bool:
    """Return whether one of these models requested tools, or may have, and the next was called before any tool ran."""
    runs = [span.start for span in siblings if _ran(span)]
    models = [span for span in siblings if span.model is not None]
    starts = [span.start for span in models]
    for span in models if runs else ():
        later = bisect_left(starts, span.end)
        asked = span.model is not None and (span.model.unseen_requests or span.model.silent)
        if asked and span.evidence.status is None and later < len(starts):
            first = bisect_left(runs, span.start)
            if first == len(runs) or runs[first] > starts[later]:
                return True
    return False


def _unnamed(calls: Sequence[ToolCall], spans: Sequence[SpanFacts]) -> bool:
    """Return whether a tool ran whose name is neither on its span nor in a readable request."""
    classes = {span.ref: span.tool.name for span in spans if span.tool is not None and not span.tool.named}
    return any(call.span is not None and classes.get(call.span) == call.name for call in calls)
