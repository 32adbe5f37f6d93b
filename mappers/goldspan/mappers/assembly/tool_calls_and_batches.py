"""The tool calls of one turn, from its executions and from what its models asked for (R3, R4, R5, R8, R10).

Each call may be seen twice: as an execution, the span of a tool, and as a request in a model's output. So executions
are collected first (spans that are nested in each other and are one execution count once), then requests, and each
request is matched to the execution that answers it. What stays is a call of its own: an execution that nobody asked
for, and a request that was never executed.

    model 1 asks    search("a") id=1, search("b") id=2        spans of the turn, by start:
    model 2 asks    book("x") id=3, drop("y") id=4            model 1, search#2, search#1, model 2, book#3

    by call id      search#1 -> request 1 of response 1, search#2 -> request 2 of response 1, book#3 -> response 2
    unmatched       drop: no execution has its name, so that it counts as a call, `requested`
    batches         1: search("a"), search("b") in the order of requests, whatever ran first; 2: book("x"), drop("y")

Without call ids the same matches are found by name, arguments and order. Without requests, the batch of an execution is
told by what ran around it (`trace_tree`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import ChainMap, Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from goldspan.mappers.assembly.framework_tools import HAND_OFFS, hands_over, is_of_framework
from goldspan.mappers.assembly.trace_tree import (
    GivenTools,
    TraceTree,
    TreeOf,
    after_unseen_requests,
    next_beside,
    overlapping_siblings,
    runner_of,
    time_order,
    told_by_runner,
)
from goldspan.mappers.span_facts import (
    SHAPE,
    ModelFacts,
    Role,
    SpanFacts,
    ToolFacts,
    ToolRequest,
    joined_tool,
    says_as_texts,
    value_digest,
)
from goldspan.scoring.json_values import is_mapping, read_value
from goldspan.scoring.sessions import Capture, Content, SpanRef, ToolCall


class Batches:
    """The calls of a turn by batch, each at the place of the model call that requested it, else of what ran first."""

    def __init__(self) -> None:
        self._order: dict[object, tuple[int, int, str]] = {}
        self._calls: dict[object, list[tuple[int, ToolCall]]] = {}

    def add(self, batch: object, moment: tuple[int, int, str], position: int, call: ToolCall) -> None:
        """Add a call at a position of a batch: executions in the order of time, and then what was only requested."""
        self._order.setdefault(batch, moment)
        self._calls.setdefault(batch, []).append((position, call))

    def numbered(self) -> tuple[ToolCall, ...]:
        """Return all calls in order, each with the number of its batch."""
        ordered = sorted(self._calls, key=self._order.__getitem__)
        return tuple(
            replace(call, batch=number)
            for number, batch in enumerate(ordered, start=1)
            for _, call in sorted(self._calls[batch], key=lambda item: item[0])
        )


@dataclass(slots=True, eq=False)
class _Execution:
    """One execution of a tool, read from the outermost span and from those nested in it."""

    layers: Sequence[SpanFacts]  # outermost first
    tool: ToolFacts
    """What all layers say together; `name` is that of the outermost, unless it is only the name of the tool's class."""
    batch: int | SpanRef | None = None
    """The model response that requested it, by position among the turn's model calls; or a span that repeats it."""
    position: int = 0  # which of that batch's requests it is
    asked: _ModelRequest | None = None

    @property
    def span(self) -> SpanFacts:
        """The outermost span."""
        return self.layers[0]

    @property
    def name(self) -> str:
        """The tool's name, from its request if no span has it."""
        return self.tool.name if self.tool.named or self.asked is None else self.asked.request.name


def _execution(layers: Sequence[SpanFacts]) -> _Execution:
    tools = [_tool(layer) for layer in layers]
    if len(tools) == 1:
        return _Execution(layers, tools[0])
    named = next((tool for tool in tools if tool.named), tools[0])
    evidence = tuple(ref for tool in tools for ref in tool.evidence)
    return _Execution(layers, replace(joined_tool(tools), name=named.name, named=named.named, evidence=evidence))


class _ModelRequest(Struct, frozen=True, gc=False):
    """One tool request, with its place in a model response."""

    response: int
    position: int
    request: ToolRequest
    model: SpanFacts
    until: int | None
    """Start of the next model call of the turn. Tools that this response requested started before it."""

    @property
    def response_id(self) -> str | None:
        return None if self.model.model is None else self.model.model.response_id


def calls_of(spans: Sequence[SpanFacts], tree_of: TreeOf, pseudo_tools: Collection[str]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn in the order of their requests.

    `spans` are the turn's recognised spans in the order of time, `tree_of` gives the trace of each.
    """
    executions = _without_superseded_attempts(_executions(spans, tree_of))
    asked = _requests(spans, tree_of)
    unmatched = _match_requests(executions, asked)
    answered, own = _answered_calls(spans), _own_answers(asked, spans, tree_of)
    _tell_failures(executions, answered, own, spans)
    executed_names = {execution.name for execution in executions if execution.tool.executed}
    batch_of = _batches_without_requests(executions, spans, tree_of)
    batches, given = Batches(), GivenTools(spans, tree_of)
    requested = all(execution.asked is not None for execution in executions)  # else two clocks would be compared
    for execution in executions:
        if execution.tool.pseudo or _is_named_failure(execution.tool):
            continue
        call = _executed_call(execution, given)
        if is_of_framework(call, pseudo_tools, spans):
            continue
        if not execution.tool.executed:
            call = _only_requested(call, executed_names, answered)
        batch = batch_of[execution.span.ref] if execution.batch is None else execution.batch
        first = execution.asked.model if requested and execution.asked is not None else execution.span
        batches.add(batch, time_order(first), execution.position, call)
    later, shown = _given_results(spans), _shown_results(spans) | answered
    for ask in _not_executed(unmatched, executions, spans):
        call = _requested_call(ask, given, _nameless_error(ask, later, executions))
        if is_of_framework(call, pseudo_tools, spans):
            continue
        call = _only_requested(call, executed_names, ChainMap(own.get(ask.response, {}), shown))
        moment = time_order(ask.model) if requested else (ask.model.end, ask.model.end, ask.model.span_id)
        batches.add(ask.response, moment, ask.position, call)
    return batches.numbered()


def _shown_results(spans: Iterable[SpanFacts]) -> dict[str, str | None]:
    """Return the ids of the calls whose results models were shown; whether they failed is not said by their shape."""
    return {one.call_id: None for span in spans for one in span.evidence.results if one.call_id}


def _not_executed(
    unmatched: Iterable[_ModelRequest],
    executions: Sequence[_Execution],
    spans: Sequence[SpanFacts],
) -> Iterator[_ModelRequest]:
    """Yield the requests that are calls though none was executed: no hand-offs, and none that another span repeats."""
    ran = {one.asked.request.call_id: one.asked.request for one in executions if one.asked is not None}
    for ask in unmatched:
        request = ask.request
        if request.call_id and ran.get(request.call_id) == request:
            continue
        pseudo = request.pseudo or request.name.startswith(HAND_OFFS)
        if not (pseudo and hands_over(request.name, spans)):
            yield ask


def _batches_without_requests(
    executions: Sequence[_Execution], spans: Sequence[SpanFacts], tree_of: TreeOf
) -> dict[SpanRef, SpanRef]:
    """Return the batch of each execution that is in none by a request, or because a merged span repeats it (R8)."""
    if all(execution.batch is not None for execution in executions):
        return {}
    _join_repeated(executions, spans)
    unasked = [one.span for one in executions if one.batch is None]
    asked_by = after_unseen_requests(unasked, spans, tree_of)
    return asked_by | overlapping_siblings((span for span in unasked if span.ref not in asked_by), tree_of)


def _only_requested(call: ToolCall, executed: Collection[str], answered: Mapping[str, str | None]) -> ToolCall:
    """Mark a call that was not executed: it counts if its tool was not executed in the turn or it was answered (R3)."""
    call_id = call.call_id or ""
    ran = call.name in executed or any(same_tool(call.name, name) for name in executed)
    counts = not ran or call.error is not None or call_id in answered
    return replace(call, requested=True, rejected=not counts, error=call.error or answered.get(call_id))


def _tool(span: SpanFacts) -> ToolFacts:
    assert span.tool is not None
    return span.tool


def _executions(spans: Sequence[SpanFacts], tree_of: TreeOf) -> list[_Execution]:
    """Collapse nested spans of one execution along a direct chain, one descendant for each wrapper (R4).

    Where their parents do not link them, they are told by their times.
    """
    tools = [span for span in spans if span.tool is not None and not span.tool.merged]
    inner_of: dict[SpanRef, list[SpanFacts]] = {}
    for span in tools:
        if (outer := _tool_directly_above(span, tree_of(span))) is not None:
            inner_of.setdefault(outer.ref, []).append(span)
    nested: dict[SpanRef, SpanFacts] = {}
    for span in tools:
        below = inner_of.get(span.ref, [])
        if len(below) == 1 and (_same_execution(_tool(span), _tool(below[0])) or _tells_failure(span, below[0])):
            nested[span.ref] = below[0]
    nested.update(_nested_in_time(tools, {span.ref for below in inner_of.values() for span in below} | inner_of.keys()))
    inside = {inner.ref for inner in nested.values()}
    executions: list[_Execution] = []
    for span in tools:
        layers = [span]
        while (inner := nested.get(layers[-1].ref)) is not None:
            layers.append(inner)
        if span.ref not in inside:
            executions.append(_execution(layers))
    return executions


_MOST_OPEN = 8  # executions that are looked at for one that another span ran in


def _nested_in_time(tools: Sequence[SpanFacts], linked: Collection[SpanRef]) -> dict[SpanRef, SpanFacts]:
    """Return the spans that ran within one of the same call, by the outer one: only one of the two tells the call.

    They have one call id; or two writers named one tool, and only one of them knows of arguments. An execution that
    several of the latest ran around is no one's.
    """
    nested: dict[SpanRef, SpanFacts] = {}
    begun: dict[str, list[SpanFacts]] = {}
    for span in tools:
        tool = _tool(span)
        if span.ref in linked or not span.trace_id:
            continue
        found: set[SpanRef] = set()
        for key in filter(None, (tool.call_id, tool.name)):
            earlier = begun.setdefault(key, [])
            found.update(one.ref for one in earlier[-_MOST_OPEN:] if _ran_in(one, span))
            earlier.append(span)
        if len(found) == 1 and (outer := found.pop()) not in nested:
            nested[outer] = span
    return nested


def _ran_in(outer: SpanFacts, inner: SpanFacts) -> bool:
    """Say whether a span ran within another, and is about the same call."""
    one, other = _tool(outer), _tool(inner)
    if not outer.start <= inner.start < outer.end:
        return False
    if one.call_id and other.call_id:
        return one.call_id == other.call_id and (other.pseudo or outer.dialect != inner.dialect)
    if not inner.start < inner.end <= outer.end:
        return False
    captured = one.arguments.capture is Capture.CAPTURED, other.arguments.capture is Capture.CAPTURED
    return outer.dialect != inner.dialect and captured[0] is not captured[1] and same_tool(one.name, other.name)


def _without_superseded_attempts(executions: list[_Execution]) -> list[_Execution]:
    """Drop attempts that a later execution or attempt replaces: a person's decision makes a second span.

    They match by call id, or else by the tool's name and equal arguments. A tool that is suspended within its execution
    leaves neither a result nor an error there, and runs again by the same id.
    """
    suspended = _suspended(executions)
    kept = [one for one in executions if one.tool.executed and one.span.ref not in suspended]
    free, refs = list(kept), {one.span.ref for one in kept}
    for attempt in sorted((one for one in executions if one.span.ref not in refs), key=lambda one: -one.span.start):
        later = next((one for one in free if _is_superseded_by(attempt, one)), None)
        if later is None:
            kept.append(attempt)
            free.append(attempt)
        elif not attempt.tool.call_id:
            free.remove(later)
    return sorted(kept, key=lambda one: time_order(one.span))


def _suspended(executions: Sequence[_Execution]) -> set[SpanRef]:
    told = {one.tool.call_id for one in executions if one.tool.call_id and _tells_outcome(one.tool)}
    return {one.span.ref for one in executions if one.tool.call_id in told and not _tells_outcome(one.tool)}


def _tells_outcome(tool: ToolFacts) -> bool:
    return tool.error is not None or tool.result.capture is not Capture.NOT_CAPTURED


def _is_superseded_by(attempt: _Execution, later: _Execution) -> bool:
    if later.span.start < attempt.span.end:
        return False
    mine, theirs = attempt.tool, later.tool
    if mine.call_id and theirs.call_id:
        return mine.call_id == theirs.call_id
    equal = mine.arguments.capture is Capture.CAPTURED and mine.arguments.raw == theirs.arguments.raw
    return equal and same_tool(_tool(attempt.span).name, _tool(later.span).name)


def _tool_directly_above(span: SpanFacts, tree: TraceTree) -> SpanFacts | None:
    above = next(tree.recognised_above(span.span_id), None)
    return above if above is not None and above.role is Role.TOOL else None


def _same_execution(outer: ToolFacts, inner: ToolFacts) -> bool:
    if outer.call_id and inner.call_id:
        return outer.call_id == inner.call_id
    return not outer.named or inner.pseudo or same_tool(outer.name, inner.name)


def _tells_failure(outer: SpanFacts, inner: SpanFacts) -> bool:
    """Say whether a span inside a failed call's only tells its failure: by its name, or with the call's arguments."""
    call, other = _tool(outer), _tool(inner)
    if not call.error or not other.error:
        return False
    captured = call.arguments.capture is Capture.CAPTURED
    same = captured and value_digest(call.arguments.raw) in inner.evidence.arguments
    return same or _is_named_failure(other)


def _is_named_failure(tool: ToolFacts) -> bool:
    """Say whether this tells a failure, and is no call: no tool has such a name."""
    return bool(tool.error) and tool.name.lower() in {"error", "exception", "failure"}


def same_tool(one: str, other: str) -> bool:
    """Compare tool names; one of them may have a server's or plugin's prefix."""
    if one == other:
        return True
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return bool(shorter) and longer.endswith(shorter) and not longer[: -len(shorter)][-1].isalnum()


def _requests(spans: Sequence[SpanFacts], tree_of: TreeOf) -> list[_ModelRequest]:
    """List the tool requests of the turn's models. Of nested model spans, the outermost counts.

    Where an agent, or a span that only its shape tells, repeats what models asked for in other traces, these count.
    """
    models = [
        span
        for span in spans
        if span.model is not None and span.model.requests and not _inside_speaking_model(span, tree_of(span))
    ]
    models = _without_repeated(models)
    if len({_rank_of(span) for span in models}) > 1:
        models = _without_copies(models)
    asked: list[_ModelRequest] = []
    for number, span in enumerate(models):
        until = models[number + 1].start if number + 1 < len(models) else None
        requests = _requests_on(span)
        asked += [_ModelRequest(number, position, request, span, until) for position, request in enumerate(requests)]
    return asked


def _requests_on(span: SpanFacts) -> Sequence[ToolRequest]:
    return () if span.model is None else span.model.requests


def _rank_of(span: SpanFacts) -> int:
    return 2 if span.role is not Role.MODEL else 1 if span.dialect == SHAPE else 0


def _without_copies(models: Sequence[SpanFacts]) -> list[SpanFacts]:
    """Leave out spans all of whose requests are on spans of a lower rank, by call id, else by name and arguments."""
    kept: list[SpanFacts] = []
    known: set[tuple[str | None, str]] = set()
    for rank in range(3):
        asked: list[tuple[str | None, str]] = []
        for span in models:
            if _rank_of(span) != rank:
                continue
            own = [(one.call_id, f"{one.name} {value_digest(one.arguments.raw)}") for one in _requests_on(span)]
            if not all((call_id, key) in known or (None, key) in known for call_id, key in own):
                kept.append(span)
                asked += own
        known.update(asked)
    return sorted(kept, key=time_order)


def _without_repeated(models: Sequence[SpanFacts]) -> list[SpanFacts]:
    """Leave out a second span of one model call: a framework's and an SDK's need not be nested."""
    kept: list[SpanFacts] = []
    latest: dict[tuple[str | None, ...], SpanFacts] = {}
    for span in models:
        requests = _requests_on(span)
        ids = tuple(request.call_id for request in requests)
        other = latest.get(ids)
        if other is not None and None not in ids and _is_same_model_call(other, span):
            continue
        latest[ids] = span
        kept.append(span)
    return kept


def _is_same_model_call(earlier: SpanFacts, later: SpanFacts) -> bool:
    requests = [] if later.model is None else [(one.name, one.arguments.raw) for one in later.model.requests]
    known = [] if earlier.model is None else [(one.name, one.arguments.raw) for one in earlier.model.requests]
    return later.trace_id == earlier.trace_id and later.start < earlier.end and requests == known


def _inside_speaking_model(span: SpanFacts, tree: TraceTree) -> bool:
    return any(above.model is not None and above.model.requests for above in tree.models_around(span.span_id))


def _match_requests(executions: list[_Execution], asked: list[_ModelRequest]) -> list[_ModelRequest]:
    """Match requests to executions by call id, else by name, arguments and order. Return the unmatched requests."""
    free = dict.fromkeys(executions)

    def match(ask: _ModelRequest, run: _Execution) -> None:
        run.batch, run.position, run.asked = ask.response, ask.position, ask
        del free[run]

    def match_in_order(
        asks: list[_ModelRequest],
        among: Callable[[_ModelRequest], Iterable[_Execution]],
        fits: Callable[[_ModelRequest, _Execution], bool],
    ) -> list[_ModelRequest]:
        unmatched: list[_ModelRequest] = []
        for ask in asks:
            if (run := next((run for run in among(ask) if run in free and fits(ask, run)), None)) is not None:
                match(ask, run)
            else:
                unmatched.append(ask)
        return unmatched

    unmatched = _match_ids(executions, asked, match)
    if not unmatched:
        return unmatched
    by_arguments: dict[str, deque[_Execution]] = {}
    for run in free:
        for digest in _digests_within(run.tool.arguments):
            by_arguments.setdefault(digest, deque()).append(run)

    def alike(ask: _ModelRequest) -> Iterable[_Execution]:
        found = by_arguments.get(value_digest(ask.request.arguments.raw), deque())
        while found and found[0] not in free:
            found.popleft()
        return found

    unmatched = match_in_order(unmatched, alike, lambda ask, run: _can_match(ask, run) and _equal_arguments(ask, run))
    # The clock of the tools' host may be behind: what says the same is one call.
    unmatched = match_in_order(unmatched, alike, lambda ask, run: _same_name(ask, run) and _equal_arguments(ask, run))
    return match_in_order(
        unmatched,
        lambda _: free,
        lambda ask, run: (
            _can_match(ask, run)
            and (run.tool.named or run.tool.arguments.capture is not Capture.CAPTURED)
            and (ask.until is None or run.span.start < ask.until)
        ),
    )


def _match_ids(
    executions: Sequence[_Execution], asked: Iterable[_ModelRequest], match: Callable[[_ModelRequest, _Execution], None]
) -> list[_ModelRequest]:
    """Match by call id, and what a framework runs again to the same request. Return the other requests."""
    by_call_id: dict[str, deque[_Execution]] = {}
    for run in executions:
        if run.tool.call_id:
            by_call_id.setdefault(run.tool.call_id, deque()).append(run)
    unmatched: list[_ModelRequest] = []
    asked_by_id: dict[str, _ModelRequest] = {}
    for ask in asked:
        call_id = ask.request.call_id or ""
        if runs := by_call_id.get(call_id):
            asked_by_id[call_id] = ask
            match(ask, runs.popleft())
        else:
            unmatched.append(ask)
    for call_id, ask in asked_by_id.items():
        for run in by_call_id[call_id]:
            match(ask, run)
    return unmatched


def _digests_within(arguments: Content) -> Iterator[str]:
    """Yield the digests of what these arguments may equal: themselves, or what an envelope holds."""
    inner = arguments.raw if arguments.capture is Capture.CAPTURED else None
    for _ in range(_DEEPEST_ENVELOPE + 1):
        if inner is None:
            return
        yield value_digest(inner)
        held = [value for value in map(read_value, inner.values()) if is_mapping(value)] if is_mapping(inner) else []
        yield from map(value_digest, held[1:])
        inner = held[0] if held else None


def _join_repeated(executions: Sequence[_Execution], spans: Sequence[SpanFacts]) -> None:
    """Put calls that no request was seen for into the batch and the order in which a merged span repeats them (R8)."""
    merged = [(span, span.tool.repeats) for span in spans if span.tool is not None and span.tool.merged]
    places: dict[str | None, tuple[SpanRef | None, int]] = {
        call_id: (span.ref, position) for span, ids in merged for position, call_id in enumerate(ids)
    }
    # Without content it names none of them: it repeats those that ran before it, in one model call's span.
    models = {span.span_id for span in spans if span.role is Role.MODEL}
    unnamed = [span for span, ids in merged if not ids and span.parent_id in models]
    following = next_beside([one.span for one in executions], unnamed)
    for one in executions:
        if one.batch is None:
            one.batch, one.position = places.get(one.tool.call_id) or (following.get(one.span.ref), 0)


def _can_match(ask: _ModelRequest, run: _Execution) -> bool:
    return _same_name(ask, run) and run.span.start >= ask.model.start


def _same_name(ask: _ModelRequest, run: _Execution) -> bool:
    return not run.tool.named or same_tool(ask.request.name, run.name)


_DEEPEST_ENVELOPE = 3


def _wraps(arguments: Content, requested: Content) -> bool:
    """Return whether recorded arguments are an envelope around those that were requested, or their texts (R2)."""
    if arguments.capture is not Capture.CAPTURED or requested.capture is not Capture.CAPTURED or not requested.raw:
        return False
    wanted, inner = requested.raw, arguments.raw
    if is_mapping(inner) and is_mapping(wanted) and says_as_texts(inner, wanted):
        return True
    for _ in range(_DEEPEST_ENVELOPE):
        if inner == wanted or not is_mapping(inner):
            return False
        held = [value for value in map(read_value, inner.values()) if is_mapping(value)]
        if wanted in held:
            return True
        inner = held[0] if len(held) == 1 else None
    return False


def _equal_arguments(ask: _ModelRequest, run: _Execution) -> bool:
    mine, theirs = ask.request.arguments, run.tool.arguments
    both = mine.capture is Capture.CAPTURED and theirs.capture is Capture.CAPTURED
    return both and (mine.raw == theirs.raw or _wraps(theirs, mine))


def _answered_calls(spans: Iterable[SpanFacts]) -> dict[str, str | None]:
    """Return the call ids for which a model input holds a result, each with its error or None."""
    answered: dict[str, str | None] = {}
    for span in spans:
        model: ModelFacts | None = span.model
        for call_id, failed in (model.answered or {}).items() if model is not None else ():
            answered[call_id] = "error" if failed else None
    return answered


def _own_answers(
    asked: Sequence[_ModelRequest], spans: Sequence[SpanFacts], tree_of: TreeOf
) -> dict[int, dict[str, str | None]]:
    """Return by response what its agent's next model call was told of ids that several responses share.

    Some models number the calls of each response anew: results that come later, or within the tool, have these ids.
    """
    times = Counter(one.request.call_id for one in asked)
    shared = [(one, call_id) for one in asked if (call_id := one.request.call_id) and times[call_id] > 1]
    # A run that goes on repeats its requests, and these are no others.
    others = Counter(call_id for call_id, _ in {(key, value_digest(one.request.arguments.raw)) for one, key in shared})
    told = told_by_runner(spans, tree_of) if shared else {}
    found: dict[int, dict[str, str | None]] = {}
    for one, call_id in shared:
        later = told.get(runner_of(one.model, tree_of(one.model)), [])
        place = bisect_left(later, one.model.end, key=itemgetter(0))
        if others[call_id] > 1 and place < len(later) and call_id in later[place][1]:
            found.setdefault(one.response, {})[call_id] = "error" if later[place][1][call_id] else None
    return found


def _tell_failures(
    executions: Sequence[_Execution],
    answered: dict[str, str | None],
    own: Mapping[int, Mapping[str, str | None]],
    spans: Iterable[SpanFacts],
) -> None:
    """Tell failures by the status, by what a span names itself, and by what the next model saw (R12).

    Some processors copy a failed span's status to those that come later: such an execution returned a result, or names
    no error where the first one does. Some writers join the results of a batch, its failures too, under one id of it.
    """
    failed = _first_failures(spans)
    joined = {one.batch for one in executions if answered and one.tool.error and one.tool.call_id not in answered}
    for one in executions:
        call_id = one.tool.call_id or (one.asked.request.call_id if one.asked else None) or ""
        if one.batch in joined and call_id in answered and all(layer.evidence.failed is False for layer in one.layers):
            answered[call_id] = None
        told = own.get(one.asked.response, answered) if one.asked is not None else answered
        error = _error_of(one, told.get(call_id, answered.get(call_id)), failed)
        if error != one.tool.error:
            one.tool = replace(one.tool, error=error)


def _first_failures(spans: Iterable[SpanFacts]) -> dict[str, SpanFacts]:
    """Return by error status the span that ended first with it."""
    failed: dict[str, SpanFacts] = {}
    for span in spans:
        status = span.evidence.status
        if status is not None and (status not in failed or span.end < failed[status].end):
            failed[status] = span
    return failed


def _error_of(one: _Execution, told: str | None, failed: Mapping[str, SpanFacts]) -> str | None:
    """Return why a call failed, given what the next model was `told`, and the first that `failed` with each status."""
    if one.tool.error is None:
        return "error" if any(layer.evidence.names_error for layer in one.layers) else told
    first = failed.get(one.span.evidence.status or "")
    if told or first is None or not first.end <= one.span.start < one.span.end:
        return one.tool.error
    return None if _has_status_of(first, one) else one.tool.error


def _has_status_of(first: SpanFacts, later: _Execution) -> bool:
    if only_status_failed(later.layers):
        return True
    is_named = first.tool is not None and (first.tool.error_is_named or first.evidence.names_error)
    return is_named and not any(map(_names_failure, later.layers))


def _names_failure(span: SpanFacts) -> bool:
    return _tool(span).error_is_named or span.evidence.names_error or bool(span.evidence.failed)


def only_status_failed(layers: Collection[SpanFacts]) -> bool:
    """Say whether nothing but the status says that a call failed, and its result is none of a failure."""
    if all(one.evidence.status is None for one in layers):
        return False
    returned = [one for one in layers if one.evidence.failed is False]
    return any(_tool(one).result.capture is not Capture.REDACTED for one in returned) and not any(
        map(_names_failure, layers)
    )


def _executed_call(execution: _Execution, given: GivenTools) -> ToolCall:
    span, tool = execution.span, execution.tool
    arguments, hidden, call_id = tool.arguments, tool.argument_captures, tool.call_id or None
    evidence = [*(layer.ref for layer in execution.layers), *tool.evidence]
    if execution.asked is not None:
        model, request = execution.asked.model, execution.asked.request
        uses_requested = (
            arguments.capture is not Capture.CAPTURED and request.arguments.capture is not Capture.NOT_CAPTURED
        ) or _wraps(arguments, request.arguments)
        if uses_requested:
            arguments, hidden = request.arguments, request.argument_captures
        if uses_requested or (call_id is None and request.call_id):
            evidence.append(model.ref)
        call_id = call_id or request.call_id
    return ToolCall(
        name=execution.name,
        arguments=_argument_dict(arguments),
        capture=arguments.capture,
        argument_captures=hidden or {},
        call_id=call_id,
        start=span.start,
        end=span.end,
        error=tool.error or None,
        span=evidence[0],
        evidence=tuple(dict.fromkeys(evidence)),
        dialect=span.dialect,
        agent=given.agent_of(span),
        result=tool.result,
        raw_arguments=arguments,
        response_id=None if execution.asked is None else execution.asked.response_id,
        tool_definitions=given.of(span if execution.asked is None else execution.asked.model),
    )


def _given_results(spans: Iterable[SpanFacts]) -> list[SpanFacts]:
    return [span for span in spans if span.role is Role.MODEL and span.evidence.results]


def _nameless_error(ask: _ModelRequest, later: Sequence[SpanFacts], executions: Iterable[_Execution]) -> str | None:
    """Say whether a call failed whose result has no id: by its place among the results the next model was given.

    If just that was executed and failed, the result is of that call: several spans may repeat its request.
    """
    if ask.request.failed:
        return "error"
    if not _failed_in_its_place(ask, later):
        return None
    ran = ((one.tool.name, one.tool.arguments) for one in executions if one.tool.error)
    return None if (ask.request.name, ask.request.arguments) in ran else "error"


def _failed_in_its_place(ask: _ModelRequest, later: Sequence[SpanFacts]) -> bool:
    """Say whether the result in a request's place failed, where no result has the id of one: OpenLLMetry has others."""
    model, following = ask.model, bisect_left(later, ask.model.end, key=attrgetter("start"))
    following += later[following : following + 1] == [model]  # a log of an answer ends when it begins
    if model.model is None or following == len(later):
        return False
    results, requests = later[following].evidence.results, model.model.requests
    told = results[ask.position] if len(results) == len(requests) else None
    if told is None or not told.failed or (told.call_id and told.call_id == requests[ask.position].call_id):
        return False
    return {one.call_id for one in requests if one.call_id}.isdisjoint(one.call_id for one in results)


def _requested_call(ask: _ModelRequest, given: GivenTools, error: str | None) -> ToolCall:
    arguments = ask.request.arguments
    return ToolCall(
        name=ask.request.name,
        arguments=_argument_dict(arguments),
        capture=arguments.capture,
        argument_captures=ask.request.argument_captures or {},
        call_id=ask.request.call_id,
        start=ask.model.end,
        end=ask.model.end,
        evidence=(ask.model.ref,),
        error=error,
        dialect=ask.model.dialect,
        agent=given.agent_of(ask.model),
        raw_arguments=arguments,
        response_id=ask.response_id,
        tool_definitions=given.of(ask.model),
    )


def _argument_dict(arguments: Content) -> dict[str, object] | None:
    """Return captured arguments. The reader of arguments makes them a dict."""
    return cast("dict[str, object]", arguments.raw) if arguments.capture is Capture.CAPTURED else None
