"""A turn's reading held against what its spans say by their content alone: contradictions are doubts.

    the models asked for      get_weather(id=1) and convert(id=2) in one response, book(id=3) in the next
    the turn was read as      get_weather(id=1), then convert(id=2), each in a batch of its own; no book
    doubts                    batch: get_weather, convert;  calls: book

A check speaks only where the telemetry itself is evidence, and of one thing only where both sides say something of it.
So what was not recorded, or what a dialect leaves out on purpose, is no contradiction. It never says who is right.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from goldspan.mappers.assembly.framework_tools import HAND_OFFS
from goldspan.mappers.assembly.tool_calls_and_batches import only_status_failed, same_tool
from goldspan.mappers.assembly.trace_tree import TreeOf, is_agent
from goldspan.mappers.assembly.turn_doubts import (
    Contradiction,
    of_agent_runs,
    of_conversations,
    of_flat_agents,
    of_hand_offs,
    of_lone_tools,
    of_resumed_agents,
    of_session,
    of_silent_agents,
    of_turns,
    of_units,
)
from goldspan.mappers.assembly.turn_fragments import Fragment
from goldspan.mappers.span_facts import (
    NO_EVIDENCE,
    SHAPE,
    RequestEvidence,
    ResultEvidence,
    Role,
    SpanFacts,
    ToolFacts,
    ToolRequest,
    value_digest,
)
from goldspan.scoring.json_values import is_mapping, may_be_object
from goldspan.scoring.patterns import regex
from goldspan.scoring.sessions import NO_CONTENT, Capture, Doubt, DoubtedFact, SpanRef, ToolCall


class _Asked(Struct, frozen=True, gc=False):
    """A request as the output of a model's span holds it."""

    request: RequestEvidence
    span: SpanFacts


def doubts_of(
    calls: Sequence[ToolCall],
    spans: Sequence[SpanFacts],
    tree_of: TreeOf,
    pseudo_tools: Collection[str],
    first: Fragment,
    *,
    calls_visible: bool,
    one_turn_id: bool,
    named_after_trace: bool,
) -> tuple[Doubt, ...]:
    """Return the doubts about a turn with these calls and recognised spans, which are in the order of time.

    `first` is its first fragment. `one_turn_id`: a dialect's own turn id says that these spans are one turn.
    `named_after_trace`: no session id was found. Where calls are not visible, nothing is said of them.
    """
    telling = [span for span in spans if span.evidence != NO_EVIDENCE]
    models = [span for span in telling if span.role is Role.MODEL]
    above = tree_of(spans[0]).ancestors(spans[0].span_id) if spans and named_after_trace else ()
    found = [*of_session([*telling, *above])] if named_after_trace else []
    alone = named_after_trace and not found and all(span.role is Role.MODEL for span in spans)
    if not one_turn_id:
        found += of_turns(models, tree_of, alone=alone)
        found += of_agent_runs(spans, tree_of)
        found += of_flat_agents(spans, tree_of)
        found += of_hand_offs(spans)
        found += of_resumed_agents(spans)
        found += of_conversations(models, tree_of)
        found += of_units(first, spans)
        found += of_lone_tools(first, spans)
    if not calls:
        found += of_silent_agents(first, spans, tree_of, calls_visible=calls_visible)
    found += _of_calls_without_arguments(calls)
    if calls_visible and telling:
        found += _of_calls(calls, spans, telling, tree_of, pseudo_tools)
    elif calls:
        found += _of_repeats(calls, _executed(spans), {}, tree_of)
    return _together(found, {span.ref: span.dialect for span in spans}) if found else ()


def _of_calls(
    calls: Sequence[ToolCall],
    spans: Sequence[SpanFacts],
    telling: Sequence[SpanFacts],
    tree_of: TreeOf,
    pseudo_tools: Collection[str],
) -> Iterator[Contradiction]:
    models = [span for span in telling if span.role is Role.MODEL]
    asked = _asked(models, tree_of)
    told = asked or _asked([span for span in telling if span.role is Role.AGENT and not calls], tree_of)
    times = Counter(one.request.call_id for one in asked)
    by_id = {call_id: one for one in asked if (call_id := one.request.call_id) and times[call_id] == 1}
    executed = _executed(spans)
    yield from _of_requests(calls, told, spans, pseudo_tools)
    yield from _of_unexecuted(calls, models)
    yield from _of_hand_offs_by_shape(calls)
    yield from _of_executions(calls, asked, spans)
    yield from _of_answers(calls, asked, spans, models)
    yield from _of_nameless_answers(calls, models, tree_of)
    yield from _of_rejections(calls, spans)
    yield from _of_repeats(calls, executed, by_id, tree_of, asked)
    yield from _of_arguments(calls, executed, asked, by_id)
    yield from _of_lost_arguments(calls, models)
    yield from _of_batches(calls, by_id, telling)
    yield from _of_order(calls, by_id, models)
    yield from _of_failures(calls, executed, models)
    yield from _of_denied_failures(calls, executed)


def _executed(spans: Sequence[SpanFacts]) -> dict[SpanRef, SpanFacts]:
    return {span.ref: span for span in spans if span.role is Role.TOOL}


def _together(found: Iterable[Contradiction], dialects: Mapping[SpanRef, str]) -> tuple[Doubt, ...]:
    """Return one doubt for all contradictions of one code, by code."""
    by_code: dict[str, list[Contradiction]] = {}
    for one in found:
        by_code.setdefault(one.code, []).append(one)
    doubts: list[Doubt] = []
    for code, same in sorted(by_code.items()):
        spans = tuple(dict.fromkeys(ref for one in same for ref in one.spans))
        names = tuple(dict.fromkeys(name for one in same for name in one.names))
        dialect = next(filter(None, map(dialects.get, spans)), next(iter(dialects.values()), ""))
        doubts.append(Doubt(code, same[0].fact, spans, names, dialect))
    return tuple(doubts)


def _asked(models: Sequence[SpanFacts], tree_of: TreeOf) -> list[_Asked]:
    """Return every request once: nested spans of one model call repeat it, and so do two instrumentations.

    Some models number the calls of each response anew, so that an id repeats with other arguments, or after the call
    with that id was answered. Of two instrumentations one may write no ids, so that requests that have them are noted
    first.
    """
    asked: list[_Asked] = []
    ids: set[tuple[str, str]] = set()
    seen: set[tuple[str, str]] = set()
    for span in sorted(models, key=lambda one: any(not request.call_id for request in one.evidence.requests)):
        requests = span.evidence.requests
        if not requests or any(above.evidence.requests for above in tree_of(span).models_around(span.span_id)):
            continue
        without = [(one.name, one.arguments) for one in requests if not one.call_id]
        repeated = bool(without) and seen.issuperset(without)
        seen.update((one.name, one.arguments) for one in requests)
        answered = {one.call_id for one in span.evidence.results}
        for one in requests:
            again = (one.call_id or "", one.arguments) in ids and one.call_id not in answered
            if again if one.call_id else repeated:
                continue
            ids.update([(one.call_id, one.arguments)] if one.call_id else ())
            asked.append(_Asked(one, span))
    return asked


# Calls.


def _of_requests(
    calls: Sequence[ToolCall], asked: Sequence[_Asked], spans: Sequence[SpanFacts], pseudo_tools: Collection[str]
) -> Iterator[Contradiction]:
    """Doubt that all calls were read where a model asked for one that is neither a call nor left out on purpose."""
    ids, left_out = _known_calls(calls, spans)
    unknown = [one for one in asked if one.request.call_id not in ids or not one.request.call_id]
    asked_ids = {one.request.call_id for one in asked if one.request.call_id}
    free = Counter(call.name for call in calls if call.call_id not in asked_ids)
    for one in unknown:
        name = one.request.name
        if any(same_tool(name, other) for other in (*left_out, *pseudo_tools)):
            continue
        taken = next((other for other, count in free.items() if count and same_tool(name, other)), None)
        if taken is None:
            yield Contradiction("requested_not_read", DoubtedFact.CALLS, [one.span.ref], [name])
        else:
            free[taken] -= 1


def _of_answers(
    calls: Sequence[ToolCall], asked: Sequence[_Asked], spans: Sequence[SpanFacts], models: Sequence[SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt that all calls were read where a model was shown results of more than were, within the turn."""
    later = [span for span in models if span.start >= models[0].end]
    ids, _ = _known_calls(calls, spans)
    ids.update(one.request.call_id for one in asked)
    ids.update(result.call_id for span in models if span not in later for result in span.evidence.results)
    shown = {one.call_id for span in later for one in span.evidence.results if one.call_id}
    # Hand-offs are answered too, each by another agent.
    others = sum(is_agent(span) or (span.tool is not None and span.tool.pseudo) for span in spans[1:])
    if len(shown - ids) > others + sum(call.call_id not in shown for call in calls):
        holders = [span for span in later if any(one.call_id not in ids for one in span.evidence.results)]
        yield Contradiction("answered_not_read", DoubtedFact.CALLS, [span.ref for span in holders])


def _of_calls_without_arguments(calls: Sequence[ToolCall]) -> Iterator[Contradiction]:
    """Doubt calls that may be none: a failure told by a span of its own, `book_error`; the other half of a request.

    Nothing is known of their arguments. The clocks of models and tools may differ, so that no request was before them.
    """
    waiting = {call.name for call in calls if call.requested and not call.rejected}
    for call in calls:
        if call.name in waiting and not call.requested and call.capture is Capture.NOT_CAPTURED:
            yield Contradiction("read_twice", DoubtedFact.CALLS, call.evidence, [call.name])
        if call.error and call.name.endswith(("_error", "_exception")) and call.capture is Capture.NOT_CAPTURED:
            yield Contradiction("read_twice", DoubtedFact.CALLS, call.evidence, [call.name])


def _of_unexecuted(calls: Sequence[ToolCall], models: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that what nobody executed is a call where others were executed, or had other tools.

    A request named like a hand-off may be one. What the last model asked for may be its answer in the form of a call,
    or wait for a person.
    """
    if all(call.requested and call.tool_definitions == NO_CONTENT for call in calls):
        return
    others_ran = not all(call.requested for call in calls)
    for call in (one for one in calls if one.requested and not one.rejected):
        if call.name.startswith(HAND_OFFS):
            yield Contradiction("handed_over", DoubtedFact.CALLS, call.evidence, [call.name])
        elif others_ran and call.error is None and any(span.ref in call.evidence for span in models[-1:]):
            yield Contradiction("never_ran", DoubtedFact.CALLS, call.evidence, [call.name])


def _of_hand_offs_by_shape(calls: Sequence[ToolCall]) -> Iterator[Contradiction]:
    """Doubt that executions without arguments are calls where no dialect knows them, and hand-offs are named so."""
    for call in calls:
        if call.dialect == SHAPE and call.name.startswith(HAND_OFFS) and not (call.requested or call.arguments):
            yield Contradiction("handed_over", DoubtedFact.CALLS, call.evidence, [call.name])


def _are_known(spans: Sequence[SpanFacts]) -> bool:
    """Say whether it is known of each model call what it asked for."""
    return not any(
        span.model is None or span.model.may_have_asked or span.model.silent or span.evidence == NO_EVIDENCE
        for span in spans
        if span.role is Role.MODEL
    )


def _of_executions(
    calls: Sequence[ToolCall], asked: Sequence[_Asked], spans: Sequence[SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt that what ran is a call of its own where models, all of whose answers are known, asked for fewer.

    A tool with arguments that no model asked for was run by the program: no contradiction.
    """
    if not asked or not _are_known(spans):
        return
    made, names = {call.call_id for call in calls}, {one.request.name for one in asked}
    ids = {one.request.call_id for one in asked if one.request.call_id}
    free = Counter(one.request.name for one in asked if one.request.call_id not in made)
    if made.isdisjoint(ids) or len(ids) < len(asked):  # without ids of their own, equal requests are told once
        free = Counter(dict.fromkeys(names, len(calls)))
    failed = ids.intersection(call.call_id for call in calls if call.error)  # what a framework may run again
    for call in (one for one in calls if one.span is not None and not one.requested):
        if call.call_id in ids:
            ids.discard(call.call_id)
        elif call.call_id in failed:
            continue
        elif (taken := _name_asked_for(call.name, free)) is not None:
            free[taken] -= 1
        elif (
            call.capture is not Capture.CAPTURED
            or (call.call_id and made & ids)
            or any(same_tool(name, call.name) for name in names)
        ):
            yield Contradiction("executed_not_requested", DoubtedFact.CALLS, call.evidence[:1], [call.name])


def _name_asked_for(tool: str, free: Mapping[str, int]) -> str | None:
    """Return the name by which models asked for a tool in requests that no call has taken."""
    if free.get(tool, 0) > 0:
        return tool
    return next((name for name, left in free.items() if left > 0 and same_tool(name, tool)), None)


def _of_order(
    calls: Sequence[ToolCall], by_id: Mapping[str, _Asked], models: Sequence[SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt the order of batches where the model that asked for the earlier one was given results of the later one."""
    placed = {call.call_id: call for call in calls if call.call_id and call.batch and not call.rejected}
    asked_by: dict[SpanRef, list[ToolCall]] = {}
    for call_id in by_id.keys() & placed.keys():
        asked_by.setdefault(by_id[call_id].span.ref, []).append(placed[call_id])
    for span in models:
        seen = [placed[one.call_id] for one in span.evidence.results if one.call_id in placed]
        last = max(seen, key=attrgetter("batch"), default=None)
        first = min(asked_by.get(span.ref, ()), key=attrgetter("batch"), default=None)
        if first is not None and last is not None and last.batch > first.batch:
            yield Contradiction("order_of_results", DoubtedFact.BATCH, [span.ref], [first.name, last.name])


def _of_nameless_answers(
    calls: Sequence[ToolCall], models: Sequence[SpanFacts], tree_of: TreeOf
) -> Iterator[Contradiction]:
    """Doubt that a request was rejected where models were given results without ids of more calls than were read."""
    rejected = [call for call in calls if call.rejected and not call.call_id]
    later = [span for span in models if span.start >= models[0].end and not tree_of(span).models_around(span.span_id)]
    shown = sum(not one.call_id for span in later for one in span.evidence.results)
    if rejected and shown > sum(not call.rejected for call in calls):
        refs = [ref for call in rejected for ref in call.evidence]
        yield Contradiction("answered_not_read", DoubtedFact.CALLS, refs, [call.name for call in rejected])


def _of_rejections(calls: Sequence[ToolCall], spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that a request was rejected where a model was called after it, and no results are recorded that models saw.

    The span of its execution may be lost. One that lacks an argument of those that ran was refused for that.
    """
    models = [span for span in spans if span.role is Role.MODEL]
    if not models or any(span.evidence.results for span in models):
        return
    ran = {(call.name, frozenset(call.arguments or ())) for call in calls if not call.rejected}
    last = models[-1]
    for call in filter(attrgetter("rejected"), calls):
        alike = (call.name, frozenset(call.arguments or ())) in ran
        if alike and last.start >= call.end and last.ref not in call.evidence:
            yield Contradiction("rejected_unseen", DoubtedFact.CALLS, call.evidence[:1], [call.name])


def _known_calls(calls: Sequence[ToolCall], spans: Sequence[SpanFacts]) -> tuple[set[str | None], set[str]]:
    """Return the call ids that were read, and the names of tools that are no calls in the user's eyes (R5)."""
    read: list[ToolFacts | ToolRequest] = [
        *(span.tool for span in spans if span.tool is not None),
        *(request for span in spans if span.model is not None for request in span.model.requests),
    ]
    ids = {call.call_id for call in calls} | {one.call_id for one in read}
    return ids, {one.name for one in read if one.pseudo}


def _of_repeats(
    calls: Sequence[ToolCall],
    executed: dict[SpanRef, SpanFacts],
    by_id: Mapping[str, _Asked],
    tree_of: TreeOf,
    asked: Sequence[_Asked] = (),
) -> Iterator[Contradiction]:
    """Doubt that one call was read as two: under two names, or from two spans within each other."""
    made = Counter(call.name for call in calls)
    several = [call for call in calls if made[call.name] > 1]
    yield from _of_equal_calls(several, executed, by_id, asked)
    yield from _of_calls_within(several, executed)
    waiting = [call for call in calls if call.requested and not call.rejected and call.arguments]
    of_span, around = _made_by_span(calls, executed), _calls_around(several)
    for call in calls:
        span = None if call.span is None else executed.get(call.span)
        if span is None or call.requested or (call.call_id or "") in by_id:
            continue
        twin = _with_arguments(span.evidence.arguments, waiting)
        if twin is not None:
            waiting.remove(twin)
            yield Contradiction("read_twice", DoubtedFact.CALLS, [span.ref, *twin.evidence], [call.name, twin.name])
            continue
        above = next(tree_of(span).recognised_above(span.span_id), None)
        if above is None or above.role is not Role.TOOL:
            outer = around.get(span.ref)
        else:
            outer = _repeated_by(call, of_span.get(above.ref))
        if outer is not None:
            yield Contradiction("read_twice", DoubtedFact.CALLS, [span.ref, *outer.evidence], [outer.name, call.name])


def _of_equal_calls(
    calls: Sequence[ToolCall],
    executed: Mapping[SpanRef, SpanFacts],
    by_id: Mapping[str, _Asked],
    asked: Sequence[_Asked],
) -> Iterator[Contradiction]:
    """Doubt that equal executions or requests are two calls where they have one id, or where one has no result.

    Of an id that models asked for again after it was answered there may be as many.
    """
    times = Counter((one.request.call_id, one.request.arguments) for one in asked)
    returned = {(call.name, value_digest(call.arguments)) for call in calls if _is_told(call, executed, result=True)}
    ran: Counter[tuple[str, str, str]] = Counter()
    for call in (one for one in calls if one.requested or one.span in executed):
        call_id, name, digest = mark = _mark(call)
        again = bool(call_id) and ran[mark] >= max(1, times[call_id, digest])
        alone = not (call.requested or call_id in by_id) and (name, digest) in returned
        if again or (alone and _is_told(call, executed, result=False)):
            yield Contradiction("read_twice", DoubtedFact.CALLS, call.evidence[:1], [call.name])
        if call.error is None:  # after a failure a framework may run it again
            ran[mark] += 1


def _mark(call: ToolCall) -> tuple[str, str, str]:
    return call.call_id or "", call.name, value_digest(call.arguments)


def _of_calls_within(calls: Sequence[ToolCall], executed: Mapping[SpanRef, SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that equal executions of one id are two calls where one ran during the other: no retry does."""
    first: dict[tuple[str, str, str], ToolCall] = {}
    for call in (one for one in calls if one.call_id and one.span in executed):
        outer = first.setdefault(_mark(call), call)
        if outer is not call and _ran_within(call, outer):
            yield Contradiction("read_twice", DoubtedFact.CALLS, call.evidence[:1], [call.name])


def _is_told(call: ToolCall, executed: Mapping[SpanRef, SpanFacts], *, result: bool) -> bool:
    """Say whether a call's span has its result, or no more than a request has, as one that waits for approval."""
    spans = [executed[ref] for ref in call.evidence if ref in executed]
    holds = any(span.evidence.failed is not None or span.evidence.names_error or span.evidence.status for span in spans)
    are_told = bool(call.arguments) or call.capture in (Capture.UNPARSABLE, Capture.TRUNCATED)
    return bool(spans) and are_told and holds is result


def _with_arguments(digests: Sequence[str], calls: Sequence[ToolCall]) -> ToolCall | None:
    """Return the first of the calls that has one of these arguments."""
    shown = set(digests)
    return next((one for one in calls if value_digest(one.arguments) in shown), None)


def _made_by_span(calls: Sequence[ToolCall], executed: Mapping[SpanRef, SpanFacts]) -> dict[SpanRef, ToolCall]:
    """Return by the spans of executions the calls that ran in them."""
    return {ref: call for call in calls if not call.requested for ref in call.evidence if ref in executed}


_MOST_OPEN = 8  # calls of a tool that are looked at for one that another ran in: those that began last before it


def _calls_around(calls: Sequence[ToolCall]) -> dict[SpanRef, ToolCall]:
    """Return by the spans of calls the call of the same tool during which each ran, and which says all that it says."""
    begun: dict[str, deque[ToolCall]] = {}
    found: dict[SpanRef, ToolCall] = {}
    for call in sorted(calls, key=lambda one: (one.start, -one.end)):
        latest = begun.setdefault(call.name, deque(maxlen=_MOST_OPEN))
        outer = next((one for one in latest if _ran_within(call, one) and _repeated_by(call, one, bare=True)), None)
        if outer is not None and call.span is not None:
            found[call.span] = outer
        latest.append(call)
    return found


def _ran_within(inner: ToolCall, outer: ToolCall) -> bool:
    if inner.span is None or outer.span is None or (inner.call_id and outer.call_id and inner.call_id != outer.call_id):
        return False
    apart = inner.span.trace_id != outer.span.trace_id or (inner.start, inner.end) != (outer.start, outer.end)
    return apart and outer.start <= inner.start <= inner.end <= outer.end


def _repeated_by(inner: ToolCall, outer: ToolCall | None, *, bare: bool = False) -> ToolCall | None:
    """Return the call around another if the inner one says nothing more; `bare`: one of them may say nothing.

    Of what one writer wrote without content, nothing tells that it is no parallel call.
    """
    if outer is None or outer is inner:
        return None
    if inner.arguments or bare:
        unknown = [one.capture is Capture.NOT_CAPTURED for one in (inner, outer)]
        bare = bare and (not inner.arguments or unknown[1]) and not (all(unknown) and inner.dialect == outer.dialect)
        return outer if bare or (inner.arguments and inner.arguments == outer.arguments) else None
    return outer if inner.error is not None and inner.error == outer.error else None


# Arguments, batches and failures of calls.


def _of_arguments(
    calls: Sequence[ToolCall],
    executed: dict[SpanRef, SpanFacts],
    asked: Sequence[_Asked],
    by_id: Mapping[str, _Asked],
) -> Iterator[Contradiction]:
    """Doubt arguments that were not read though they are recorded, or that are nothing of what the model asked for."""
    asked_by_name: dict[str, list[_Asked]] = {}
    for one in asked:
        asked_by_name.setdefault(one.request.name, []).append(one)
    made = Counter(call.name for call in calls)
    yield from _of_envelopes(calls)
    for call in calls:
        ask = by_id.get(call.call_id or "")
        if ask is None and made[call.name] == 1 and len(asked_by_name.get(call.name, ())) == 1:
            [ask] = asked_by_name[call.name]
        yield from _of_arguments_of(call, ask if ask is not None and ask.request.names else None, executed)
        if ask is None and call.dialect == SHAPE and _are_texts_of_values(call, asked):
            yield Contradiction("arguments_as_texts", DoubtedFact.ARGUMENTS, call.evidence[:1], [call.name])


def _of_lost_arguments(calls: Sequence[ToolCall], models: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that a request had no arguments where the next model call repeats it with some.

    Writers that read a stream may take a request's beginning for the whole.
    """
    repeated = {call_id: span.ref for span in models for call_id in span.evidence.with_arguments}
    for call in calls:
        if call.requested and call.arguments == {} and (holder := repeated.get(call.call_id or "")) is not None:
            yield Contradiction("arguments_in_request", DoubtedFact.ARGUMENTS, [holder], [call.name])


_MOST_ENVELOPES = 3


def _of_envelopes(calls: Sequence[ToolCall]) -> Iterator[Contradiction]:
    """Doubt arguments that are nothing but those of another call of the tool, in an object."""
    inside = [(call, inner) for call in calls for inner in _inside(call.arguments)]
    known = {(call.name, value_digest(call.arguments)) for call in calls if inside}
    for call, inner in inside:
        if (call.name, value_digest(inner)) in known:
            yield Contradiction("arguments_in_envelope", DoubtedFact.ARGUMENTS, call.evidence[:1], [call.name])


def _inside(arguments: object) -> Iterator[object]:
    """Yield objects that stand in an object and nothing beside them, and those that stand so in these."""
    for _ in range(_MOST_ENVELOPES):
        if not is_mapping(arguments) or len(arguments) != 1:
            return
        [arguments] = arguments.values()
        if is_mapping(arguments):
            yield arguments


def _of_arguments_of(
    call: ToolCall, ask: _Asked | None, executed: Mapping[SpanRef, SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt the arguments of one call, given the request for it that has arguments."""
    if call.capture in (Capture.NOT_CAPTURED, Capture.UNPARSABLE):
        holders = [ref for ref in call.evidence if ref in executed and executed[ref].evidence.arguments]
        if ask is not None:
            yield Contradiction("arguments_in_request", DoubtedFact.ARGUMENTS, [ask.span.ref], [call.name])
        elif holders and (call.capture is Capture.NOT_CAPTURED or call.dialect == SHAPE):
            yield Contradiction("arguments_on_span", DoubtedFact.ARGUMENTS, holders, [call.name])
    elif call.capture is Capture.CAPTURED:
        yield from _of_read_arguments(call, ask)


def _of_read_arguments(call: ToolCall, ask: _Asked | None) -> Iterator[Contradiction]:
    own = call.arguments or {}
    if ask is None:
        if _is_envelope(own):
            yield Contradiction("arguments_in_envelope", DoubtedFact.ARGUMENTS, call.evidence[:1], [call.name])
        return
    if own.keys().isdisjoint(ask.request.names):
        holders = [ask.span.ref, *call.evidence[:1]]
        yield Contradiction("other_arguments", DoubtedFact.ARGUMENTS, holders, [call.name])


def _is_envelope(arguments: Mapping[str, object]) -> bool:
    """Say whether this is how a call is handed on: its arguments as one object, beside others that are empty."""
    key = next((key for key in ("kwargs", "input", "arguments") if is_mapping(arguments.get(key))), "")
    others = [value for name, value in arguments.items() if name != key]
    return bool(key and (others or key == "kwargs")) and all(one in ([], {}, (), None, True, False) for one in others)


_TEXTS_OF_VALUES = regex(r"None|True|False|null|true|false|-?\d+\.\d+|\{.*\}|\[.*\]", re.DOTALL)


def _are_texts_of_values(call: ToolCall, asked: Sequence[_Asked]) -> bool:
    """Say whether all arguments are texts, one reads as the text of another value, and no model asked for it so."""
    arguments = call.arguments or {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if len(texts) < len(arguments) or not any(map(_TEXTS_OF_VALUES.fullmatch, texts)):
        return False
    return all(one.request.arguments != value_digest(arguments) for one in asked)


def _of_batches(
    calls: Sequence[ToolCall], by_id: Mapping[str, _Asked], spans: Sequence[SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt batches that divide what one response asked for, or join what several did (R8)."""
    yield from _of_steps(calls, spans)
    responses = _responses(by_id, spans)
    batches: dict[tuple[SpanRef, int], int] = {}
    first_of: dict[int, tuple[SpanRef, int]] = {}
    named: dict[int, str] = {}
    for call in calls:
        response = None if call.rejected else responses.get(call.call_id or "")
        if response is None or not call.batch:
            continue
        batch, other = batches.setdefault(response, call.batch), first_of.setdefault(call.batch, response)
        if batch != call.batch or other != response:
            before = named.get(batch if batch != call.batch else call.batch, call.name)
            yield Contradiction("batch_of_request", DoubtedFact.BATCH, [response[0], other[0]], [before, call.name])
        named.setdefault(call.batch, call.name)


def _of_steps(calls: Sequence[ToolCall], spans: Sequence[SpanFacts]) -> Iterator[Contradiction]:
    """Doubt that calls ran one after the other which a step of an agent, around its model, has in one answer."""
    steps = [span for span in spans[1:] if span.dialect == SHAPE and span.role is Role.AGENT]
    placed = {call.call_id: call for call in calls if call.call_id and not call.rejected} if steps else {}
    for span in steps:
        at_once = [placed[one.call_id] for one in span.evidence.requests if not one.response and one.call_id in placed]
        if len({call.batch for call in at_once}) > 1:
            names = [call.name for call in at_once]
            yield Contradiction("batch_of_request", DoubtedFact.BATCH, [span.ref], names)


def _responses(by_id: Mapping[str, _Asked], spans: Sequence[SpanFacts]) -> dict[str, tuple[SpanRef, int]]:
    """Return by call id the response that asked for the call: the span that has it, and its number there."""
    responses = {call_id: (one.span.ref, one.request.response) for call_id, one in by_id.items()}
    for span in spans:  # a transcript, with results between the responses, where no model's span has the requests
        if span.role is Role.AGENT and any(one.response for one in span.evidence.requests):
            for one in span.evidence.requests:
                if one.call_id:
                    responses.setdefault(one.call_id, (span.ref, one.response))
    return responses


def _shown_results(models: Sequence[SpanFacts]) -> dict[str, tuple[ResultEvidence, SpanRef]]:
    """Return by call id what a model was shown as a result, and by which span: the last that says whether it failed."""
    shown: dict[str, tuple[ResultEvidence, SpanRef]] = {}
    for span in models:
        for one in span.evidence.results:
            if one.call_id and (one.failed is not None or one.call_id not in shown):
                shown[one.call_id] = one, span.ref
    return shown


def _of_failures(
    calls: Sequence[ToolCall], executed: dict[SpanRef, SpanFacts], models: Sequence[SpanFacts]
) -> Iterator[Contradiction]:
    """Doubt a success whose result is an error, and a failure that another call's status and its own result deny."""
    shown = _shown_results(models)
    for call in calls:
        if call.requested:  # of what no span shows, nobody says that it succeeded
            continue
        own = [executed[ref] for ref in call.evidence if ref in executed]
        result, holder = shown.get(call.call_id or "", (None, None))
        seen = None if result is None else result.failed
        if call.error is None:
            says = [*_naming_error(own), *((holder,) if seen and holder is not None else ())]
            if says:
                yield Contradiction("result_is_error", DoubtedFact.FAILURE, says, [call.name])
        elif not seen and only_status_failed(own):
            yield Contradiction("failed_with_result", DoubtedFact.FAILURE, [one.ref for one in own], [call.name])


def _of_denied_failures(calls: Sequence[ToolCall], executed: Mapping[SpanRef, SpanFacts]) -> Iterator[Contradiction]:
    """Doubt a success with an error's status that another call has, too, if it gave a text where the tool gave objects.

    A status that was copied to all later spans hides that one of these failed as well.
    """
    own = ((call, executed[ref]) for call in calls if call.error is None for ref in call.evidence if ref in executed)
    denied = [(call, span) for call, span in own if not call.requested and span.evidence.status]
    gave_objects = {call.name for call in calls if denied and not _is_text(call.result.value)}
    for call, span in denied:
        if call.name in gave_objects and _is_text(call.result.value):
            yield Contradiction("result_is_error", DoubtedFact.FAILURE, [span.ref], [call.name])


def _is_text(result: object) -> bool:
    return not is_mapping(result) and not (isinstance(result, str) and may_be_object(result))


def _naming_error(spans: Sequence[SpanFacts]) -> Iterator[SpanRef]:
    return (span.ref for span in spans if span.evidence.failed or span.evidence.names_error)
