"""Log records joined to the spans they belong to, by span id and by call id (R11).

What a span holds itself is believed first: instrumentations write the same content to both. Records that hold one
message each are put in order by their times. Where those do not tell, only what is true in any order is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from goldspan.mappers.span_facts import (
    NO_CONTEXT,
    ContextFacts,
    LogFacts,
    ModelFacts,
    RequestEvidence,
    ResultEvidence,
    Role,
    SpanEvidence,
    SpanFacts,
    ToolFacts,
    ToolRequest,
    first_captured,
    first_known,
    joined_context,
    joined_model,
    joined_tool,
    value_digest,
)
from goldspan.scoring.json_values import is_list, is_mapping
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, SpanRef, UserMessages


def with_logs(spans: Mapping[str, SpanFacts], logs: Iterable[LogFacts]) -> dict[str, SpanFacts]:
    """Return the spans of one trace with what its log records add to them."""
    by_span: dict[str, list[LogFacts]] = {}
    for log in sorted(logs, key=_order):
        by_span.setdefault(log.span_id, []).append(log)
    joined = dict(spans)
    by_call_id: dict[str, list[str]] = {}
    for span in spans.values():
        if span.tool is not None and span.tool.call_id:
            by_call_id.setdefault(span.tool.call_id, []).append(span.span_id)
    current = {span_id: _since_the_model_spoke(records) for span_id, records in by_span.items()}
    for span_id, records in by_span.items():
        if (target := spans.get(span_id)) is not None:
            joined[span_id] = _with_records(target, records, current[span_id])
    for log in sorted((log for records in current.values() for log in records), key=_order):
        for tool in log.tools:
            for span_id in _executions_in_log(log, by_call_id.get(tool.call_id or "", ()), spans):
                span = joined[span_id]
                if span.tool is not None:
                    joined[span_id] = span.changed(tool=_tool_with_log(span.tool, tool, log.evidence))
    return joined


def _order(log: LogFacts) -> tuple[int, str]:
    return log.time, log.identity


def _with_records(span: SpanFacts, records: Sequence[LogFacts], current: Sequence[LogFacts]) -> SpanFacts:
    model = span.model
    if span.role in (Role.MODEL, None) and any(log.model is not None for log in records):
        model = _model_with_logs(span.model or ModelFacts(), records, current)
    recognised = span.role is None and model is not None
    return span.changed(
        role=Role.MODEL if recognised else span.role,
        dialect=next(log.dialect for log in records if log.model is not None) if recognised else span.dialect,
        model=model,
        context=_context_with_logs(span.context, records, current),
        evidence=span.evidence if model is None or model is span.model else _evidence(span, model, records),
        turn_id=span.turn_id or next((log.turn_id for log in records if log.turn_id), None),
    )


def _evidence(span: SpanFacts, model: ModelFacts, records: Sequence[LogFacts]) -> SpanEvidence:
    """Return what a span says, with what its log records say where no attribute holds messages."""
    own = span.evidence
    if own.requests or own.results or own.users:
        return own
    requests = tuple(
        RequestEvidence(one.name, one.call_id, value_digest(found), tuple(found) if is_mapping(found) else ())
        for one in model.requests
        for found in (one.arguments.raw,)
    )
    answered = sorted((model.answered or {}).items())
    results = tuple(ResultEvidence(call_id, failed=failed or None) for call_id, failed in answered)
    wrote = "" if requests else first_known(log.wrote for log in records) or own.wrote
    says = {"answers": bool(requests or wrote), "wrote": wrote, "speaks": bool(wrote)}
    said = replace(own, requests=requests, results=results, **says)
    return _with_input(said, model.new_user_message, records)


def _with_input(said: SpanEvidence, new_user_message: bool | None, records: Sequence[LogFacts]) -> SpanEvidence:  # noqa: FBT001
    users = _users(records) if new_user_message else None
    if new_user_message is None:  # the order of messages is not known, only their number
        users = tuple(sorted(_users(records))) or None
    continues = None if new_user_message is None else not new_user_message
    system = first_known(log.system for log in records) or said.system
    return replace(said, continues=continues, users=users, system=system)


def _users(records: Sequence[LogFacts]) -> tuple[str, ...]:
    """Return digests of what users said: of one record of the whole input, else of those of single messages."""
    whole = next((log.users for log in records if log.whole and log.users is not None), None)
    return tuple(one for log in records for one in log.users or ()) if whole is None else whole


def _since_the_model_spoke(records: Sequence[LogFacts]) -> list[LogFacts]:
    """Leave out the history: the input before the model's own last message."""
    last = max((log.time for log in records if log.own_message), default=0)
    return [log for log in records if log.time >= last and not log.own_message]


def _model_with_logs(own: ModelFacts, records: Sequence[LogFacts], current: Sequence[LogFacts]) -> ModelFacts:
    told = [log.model.answered for log in current if log.model is not None and log.model.answered]
    answered = dict(own.answered or {})
    if set[str]().union(*told) > answered.keys():  # some writers join the results of several calls under one id
        answered.clear()
    for one in told:
        for call_id, failed in one.items():
            answered[call_id] = answered.get(call_id, False) or failed  # of several answers to one id an error wins
    ends = _ends_with_user(current)
    asks = ends if own.new_user_message is None else own.new_user_message
    counts = _user_messages(records, current) if asks else None
    said = ModelFacts(_requests(records), None, ends, user_messages=counts)
    return joined_model((replace(own, answered=answered or None), said))


def _user_messages(records: Sequence[LogFacts], current: Sequence[LogFacts]) -> UserMessages | None:
    """Return the count that one record of the whole input has, or count the records of single messages."""

    def counts(logs: Iterable[LogFacts]) -> list[UserMessages]:
        return [log.model.user_messages for log in logs if log.model is not None and log.model.user_messages]

    if whole := counts(log for log in records if log.whole):
        return whole[0]
    total, latest = len(counts(records)), len(counts(current))
    return UserMessages(total - latest, total) if latest else None


def _requests(records: Sequence[LogFacts]) -> tuple[ToolRequest, ...]:
    """Return the model's tool requests. Some writers record them twice: in one record, and one per record."""
    said = [log for log in records if log.model is not None and log.model.requests]
    found: list[tuple[ToolRequest, ...]] = []
    for log in [log for log in said if log.whole] or said:
        if log.model is not None and log.model.requests not in found:
            found.append(log.model.requests)
    return tuple(request for requests in found for request in requests)


def _ends_with_user(current: Sequence[LogFacts]) -> bool | None:
    """Return whether the input ends with a user message, not with tool results; None if unknown."""
    ends = [(log.time, log.model.new_user_message) for log in current if log.model is not None]
    ends = [end for end in ends if end[1] is not None]
    if not ends:
        return None
    last = {by_user for time, by_user in ends if time == ends[-1][0]}
    if len(last) == 1:
        return last.pop()
    # Both have the same time. Results follow a user message, so a single user message came first.
    return False if sum(by_user is True for _, by_user in ends) == 1 else None


def _context_with_logs(own: ContextFacts, records: Sequence[LogFacts], current: Sequence[LogFacts]) -> ContextFacts:
    if all(log.context is NO_CONTEXT for log in records):
        return own
    said = joined_context([log.context for log in records])
    return joined_context((own, replace(said, user_text=_user_text(current), messages=_messages(records))))


def _user_text(current: Sequence[LogFacts]) -> Content:
    """Return the newest user message; nothing if several share its time, or if tool results follow it."""
    said = [log for log in current if log.context.user_text != NO_CONTENT]
    if not said or _ends_with_user(current) is False:
        return NO_CONTENT
    newest = [log.context.user_text for log in said if log.time == said[-1].time]
    return newest[0] if all(text == newest[0] for text in newest) else NO_CONTENT


def _messages(records: Sequence[LogFacts]) -> Content:
    """Return the recorded input, or build it from single messages in the order of their times."""
    said = [log for log in records if log.context.messages != NO_CONTENT]
    if whole := [log.context.messages for log in said if log.whole]:
        return first_captured(whole)
    if len({log.time for log in said}) < len(said):
        return NO_CONTENT
    raw = [log.context.messages.raw for log in said if log.context.messages.capture is Capture.CAPTURED]
    together = [message for messages in raw if is_list(messages) for message in messages]
    return Content(together, Capture.CAPTURED) if together else NO_CONTENT


def _executions_in_log(log: LogFacts, named: Sequence[str], spans: Mapping[str, SpanFacts]) -> Sequence[str]:
    """Return the execution that a record describes, among those with its call id: the last one started by then."""
    if log.span_id in named:
        return (log.span_id,)
    started = [span_id for span_id in named if spans[span_id].start <= log.time]
    if len(named) < 2 or not started:
        return named
    return (max(started, key=lambda span_id: (spans[span_id].start, span_id)),)


def _tool_with_log(tool: ToolFacts, from_log: ToolFacts, log_evidence: tuple[SpanRef, ...]) -> ToolFacts:
    joined = joined_tool((tool, from_log))
    # A result adds no evidence: most callers do not keep results.
    adds_evidence = joined.arguments is not tool.arguments or joined.error != tool.error
    return replace(joined, evidence=(*tool.evidence, *log_evidence)) if adds_evidence else joined
