"""`tool_parameter_grounding`: where the values of arguments come from, without a model and without a golden."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import Any
from weakref import ref

from goldspan.scoring.grounding.context import MAX_TEXT, KnownBeforeCall, SessionContext, local_days
from goldspan.scoring.grounding.conversation import Conversation, Passage
from goldspan.scoring.grounding.leaves import Kind, Leaf, Origin, argument_name, leaves
from goldspan.scoring.grounding.nearest import nearest_known, place_in
from goldspan.scoring.grounding.origins import OriginFinder
from goldspan.scoring.json_values import plain, shown
from goldspan.scoring.metrics.call_scores import CallMetric, CallScore, RunningScore
from goldspan.scoring.metrics.schema import DeclaredTools, declared_tools
from goldspan.scoring.sessions import Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding, MetricScore, Reason, arguments_of, why_not_known

UNJUDGED = frozenset((Kind.TRIVIAL, Kind.FREE_TEXT, Kind.UNKNOWN, Kind.ASSUMED))
"""Kinds of origin that say nothing for or against a call."""
GENERATED = "made by the agent, as its profile says"


class ToolParameterGrounding(CallMetric, frozen=True):
    """How many of the values that need an origin have one in what was said and returned before the call."""

    tools: Mapping[str, Mapping[str, Any]] | None = None
    """The schemas of all tools by name, as in `--tools`; None: those that telemetry declares."""
    generated: frozenset[str] = frozenset()
    """Arguments whose values the agent makes itself, as `refund.request_id`: they need no origin."""
    name: str = "tool_parameter_grounding"
    description: str = (
        "The share of argument values that come from the conversation, tool results or the tool's schema."
    )
    needs: frozenset[str] = frozenset(("context", "tool_definitions"))
    threshold: Fraction | None = Fraction(1)

    def running(self, beside: Mapping[str, RunningScore] | None = None) -> RunningScore:  # noqa: ARG002 - its face
        """Return what judges one run while it grows."""
        return _RunningGrounding(self.tools, self.generated)


class _RunningGrounding(RunningScore):
    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None, generated: frozenset[str]) -> None:
        super().__init__("value")
        self._tools = DeclaredTools(tools)
        self._generated = generated
        self._context: SessionContext | None = None  # None: it is read again for the next turn
        self._reading: SessionContext | None = None

    def __call__(self, session: Session) -> MetricScore:
        try:
            return super().__call__(session)
        finally:
            self._context, self._reading = self._reading, None
            _recent.keep(self, 0 if self._context is None else self._context.size)

    def forget_context(self) -> None:
        self._context = None

    def _begin(self, session: Session, same: int) -> int:
        context, self._context = self._context, None
        if context is None:
            context = SessionContext(session)
        else:
            context.go_on(session.turns, same)
        self._reading = context
        return same if self._tools.update(session.turns, same) else 0

    def _judged(self, index: int, turn: Turn) -> Sequence[CallScore]:
        assert self._reading is not None
        conversation, tools = self._reading.conversation, self._tools
        calls = zip(turn.calls, self._reading.calls[index], strict=True)
        return [
            _judged(call, turn, known, conversation, tools.schema_of(call, turn), self._generated)
            for call, known in calls
        ]


class _RecentContexts:
    """The runs that were judged last: of others only scores are kept, since an index is larger than its text."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[int, tuple[ref[_RunningGrounding], int]] = OrderedDict()
        self._total = 0

    def keep(self, running: _RunningGrounding, size: int) -> None:
        """Keep what was said in a run, so many characters, and forget what was said in those judged longest ago."""
        _, before = self._sizes.pop(id(running), (None, 0))
        self._sizes[id(running)] = (ref(running), size)
        self._total += size - before
        while len(self._sizes) > 1 and (self._total > _MOST_TEXT or len(self._sizes) > _MOST_RUNS):
            _, (oldest, length) = self._sizes.popitem(last=False)
            self._total -= length
            if (one := oldest()) is not None:
                one.forget_context()


_TOO_LONG = f"the conversation is longer than the {MAX_TEXT:,} characters that are read of one session"
_MOST_TEXT = MAX_TEXT // 2
_MOST_RUNS = 256
_recent = _RecentContexts()


def ground_arguments(
    arguments: Mapping[str, Any],
    passages: Sequence[Passage],
    schema: Mapping[str, Any] | None = None,
    *,
    clock: date | None = None,
) -> tuple[Finding, ...]:
    """Return where each value of a call's arguments came from: one finding a value, `failed` where from nowhere.

    Args:
        arguments: The arguments by name.
        passages: What was said and returned before the call, in order.
        schema: The JSON Schema of the tool's parameters.
        clock: The day of the call, for `tomorrow` and the like; without it such dates are unknown, not wrong.

    """
    conversation = Conversation(passages)
    known = KnownBeforeCall(len(conversation), complete=True, captured=True)
    days = () if clock is None else (clock,)
    return tuple(_finding(*one, conversation, known) for one in _origins(arguments, conversation, known, schema, days))


def why(
    session: Session, call: ToolCall, *, tools: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Finding, ...]:
    """Return where each value of a call came from, each in a sentence: one finding a value, in the order of arguments.

    `message` has no values: `literal, result of get_user (call 1)`. `detailed` adds the value, and the place in the
    result as a JSON Pointer. Empty if the arguments were not captured.

    Args:
        session: The session that the call is of.
        call: One of the calls of its turns.
        tools: The schemas of all tools by name; None: those that telemetry declares.

    Raises:
        ValueError: the session has no such call.

    """
    context = SessionContext(session)
    of_calls = [
        (turn, one, known)
        for turn, contexts in zip(session.turns, context.calls, strict=True)
        for one, known in zip(turn.calls, contexts, strict=True)
    ]
    found = next((one for one in of_calls if one[1] is call), None)
    found = found or next((one for one in of_calls if one[1] == call), None)
    if found is None:
        raise ValueError(f"the session {session.id} has no such call of {call.name}")
    turn, one, known = found
    schema = declared_tools(session, tools).schema_of(one, turn)
    origins = _origins(_visible(one), context.conversation, known, schema, local_days(one, turn))
    return tuple(_finding(*each, context.conversation, known, with_place=True) for each in origins)


def _judged(
    call: ToolCall,
    turn: Turn,
    known: KnownBeforeCall,
    conversation: Conversation,
    schema: Mapping[str, Any] | None,
    generated: frozenset[str],
) -> CallScore:
    if call.rejected:
        return CallScore(call, reason=Reason.NOTHING_EXPECTED)
    arguments = arguments_of(call)
    if arguments is None:
        return CallScore(call, reason=why_not_known(call))
    if not known.captured:
        return CallScore(call, reason=Reason.INPUT_MISSING)
    origins = _origins(_visible(call), conversation, known, schema, local_days(call, turn))
    findings = tuple(
        Finding(leaf.path, Kind.ASSUMED.value, GENERATED)
        if origin.kind is Kind.NONE and generated and argument_name(call.name, leaf.path) in generated
        else _finding(leaf, origin, conversation, known)
        for leaf, origin in origins
    )
    judged = sum(finding.kind not in UNJUDGED for finding in findings)
    if not judged:
        return CallScore(call, findings=findings, reason=Reason.NOTHING_EXPECTED)
    return CallScore(call, judged - sum(finding.failed for finding in findings), judged, findings)


def _visible(call: ToolCall) -> Mapping[str, Any]:
    arguments = arguments_of(call) or {}
    return {name: value for name, value in arguments.items() if name not in call.argument_captures}


def _origins(
    arguments: Mapping[str, Any],
    conversation: Conversation,
    known: KnownBeforeCall,
    schema: Mapping[str, Any] | None,
    days: Sequence[date],
) -> Iterator[tuple[Leaf, Origin]]:
    finder = OriginFinder(conversation, known.passages, days)
    for leaf in leaves(arguments, schema):
        origin = finder.origin(leaf)
        if origin.kind is Kind.NONE and not known.complete:
            origin = Origin(Kind.UNKNOWN, _TOO_LONG if known.cut else "part of the conversation was not captured")
        yield leaf, origin


def _found(leaf: Leaf, origin: Origin, conversation: Conversation, *, with_place: bool) -> Finding:
    """Return the finding for a leaf that has an origin."""
    passage = None if origin.passage is None else conversation.passages[origin.passage]
    message = ", ".join(part for part in (origin.rule, passage.where if passage else "") if part)
    detailed = ""
    if with_place:
        place = place_in(passage, leaf.value) if passage else ""
        detailed = f"{shown(leaf.value)}: {', '.join(part for part in (message or origin.kind, place) if part)}"
    return Finding(leaf.path, origin.kind.value, message, detailed)


def _finding(
    leaf: Leaf, origin: Origin, conversation: Conversation, known: KnownBeforeCall, *, with_place: bool = False
) -> Finding:
    if origin.kind is not Kind.NONE:
        return _found(leaf, origin, conversation, with_place=with_place)
    if origin.rule:
        message = (
            "a required choice that nothing before the call speaks of"
            if origin.rule == "choice"
            else "not the choice that was spoken of"
        )
        return Finding(leaf.path, Kind.NONE.value, message, f"{shown(leaf.value)} is {message}", failed=True)
    message = "comes from nowhere before the call"
    detailed = f"{shown(leaf.value)} {message}"
    near = nearest_known(str(plain(leaf.value)), conversation, known.passages)
    if near is not None:
        place = place_in(near.passage, near.text) if with_place else ""
        where = ", ".join(part for part in (near.passage.where, place) if part)
        message = f"{message}; a similar value is in {near.passage.where}"
        detailed = f"{detailed}: nearest is {near.text} in {where}"
    return Finding(leaf.path, Kind.NONE.value, message, detailed, failed=True)
