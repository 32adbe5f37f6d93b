"""The ways in which instrumentations vary, as functions from one recording to another.

Each takes documents of one record (`single_records`) and returns documents; none knows a dialect. A fact that is lost
cannot be read from what is left, whatever the reader. Everything else is still in the telemetry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from conformance.single_records import Document, changed, record_of
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import Role
from goldspan.mappers.spans import LogView

Span = dict[str, Any]
Value = dict[str, Any]
Change = Callable[[list[Document], Random], list[Document]]


@dataclass(frozen=True)
class Transformation:
    """One way to write the same thing differently."""

    name: str
    change: Change
    lost: frozenset[str] = frozenset()
    """Facts of which the evidence is gone: batch and order, turns, failure; calls that were only requested (requests);
    the names that users know (affixes). That other calls or arguments are gone is to be said."""
    lost_unless_requested: frozenset[str] = frozenset()
    """Facts that are lost where the recording does not hold what models asked for."""


TRANSFORMATIONS: dict[str, Transformation] = {}


def transformation(name: str, *lost: str, unless_requested: Sequence[str] = ()) -> Callable[[Change], Change]:
    """List a function under its name, with the facts that it takes away."""

    def listed(change: Change) -> Change:
        TRANSFORMATIONS[name] = Transformation(name, change, frozenset(lost), frozenset(unless_requested))
        return change

    return listed


# Records and values.


def is_span(document: Document) -> bool:
    return "resourceSpans" in document


def spans_of(documents: Sequence[Document]) -> list[Span]:
    return [record_of(document) for document in documents if is_span(document)]


def each_span(documents: list[Document], change: Callable[[Span], Span]) -> list[Document]:
    return [changed(one, change) if is_span(one) else one for one in documents]


def each_record(documents: list[Document], trace_of: Callable[[Span], str]) -> list[Document]:
    """Move each span, and each log record of it, into another trace."""
    return [changed(one, lambda record: {**record, "traceId": trace_of(record)}) for one in documents]


def each_attribute(span: Span, change: Callable[[str, Value], tuple[str, Value] | None]) -> Span:
    """Change the attributes of a span and of its events; those for which there is none are left out."""

    def attributes(holder: dict[str, Any]) -> dict[str, Any]:
        if not holder.get("attributes"):
            return holder
        made = (change(one["key"], one.get("value", {})) for one in holder["attributes"])
        return {**holder, "attributes": [{"key": key, "value": value} for key, value in filter(None, made)]}

    span = attributes(span)
    return {**span, "events": [attributes(event) for event in span["events"]]} if span.get("events") else span


def each_json(documents: list[Document], change: Callable[[str, Any, str], Value]) -> list[Document]:
    """Change each attribute that is the JSON text of an object or list: `change(key, value, text)`."""

    def one(key: str, value: Value) -> tuple[str, Value]:
        text = value.get("stringValue")
        decoded = json_in(text) if isinstance(text, str) else None
        return key, value if decoded is None else change(key, decoded, str(text))

    return each_span(documents, lambda span: each_attribute(span, one))


def json_in(text: str) -> Any:
    """Return the object or list that a text is the JSON of, else None."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def as_string(value: object) -> Value:
    return {"stringValue": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


REGISTRY = DialectRegistry()
"""One for all, since looking for dialects of other packages takes longer than reading a recording."""


_roles: tuple[Sequence[Document], list[Role | None]] = ([], [])
"""Of the records that were asked for last: a recording is, once for each way of writing."""


def roles_in(documents: Sequence[Document]) -> list[Role | None]:
    """Return what each record is read as: the only thing here that is asked of goldspan."""
    global _roles  # noqa: PLW0603 - a cache by identity
    if _roles[0] is not documents:
        _roles = documents, list(map(_role_of, documents))
    return _roles[1]


def _role_of(document: Document) -> Role | None:
    view = next(iter(views(document, lambda problem: None)), None)
    return None if view is None or isinstance(view, LogView) else REGISTRY.read(view).role


def without(documents: list[Document], role: Role, only: int | None = None) -> list[Document]:
    """Leave out the spans of one role, or one of these; what they hold belongs to their parents then."""
    gone: dict[str, str] = {}
    kept: list[Document] = []
    place = -1
    for document, its in zip(documents, roles_in(documents), strict=True):
        place += its is role
        if its is role and only in (None, place):
            span = record_of(document)
            gone[span["spanId"]] = span.get("parentSpanId", "")
        else:
            kept.append(document)

    def moved(span: Span) -> Span:
        parent = span.get("parentSpanId", "")
        while parent in gone:
            parent = gone[parent]
        return {**span, "parentSpanId": parent}

    return each_span(kept, moved) if gone else documents


def new_id(*parts: object, size: int = 8) -> str:
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=size).hexdigest()


# How values are written.


@transformation("JSON as a string")
def stringified(documents: list[Document], _: Random) -> list[Document]:
    return each_json(documents, lambda key, value, text: as_string(json.dumps(text, ensure_ascii=False)))


@transformation("JSON as a string of a string")
def stringified_twice(documents: list[Document], _: Random) -> list[Document]:
    return each_json(documents, lambda key, value, text: as_string(json.dumps(json.dumps(text))))


@transformation("JSON within JSON as strings")
def stringified_within(documents: list[Document], _: Random) -> list[Document]:
    """The members of an object or list that are objects or lists themselves become texts."""

    def inner(value: Any) -> Any:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value

    def change(_: str, value: Any, text: str) -> Value:
        if messages_like(value):
            return as_string([{key: inner(one) for key, one in message.items()} for message in value])
        return as_string(text)

    return each_json(documents, change)


@transformation("JSON as OTLP values")
def structured(documents: list[Document], _: Random) -> list[Document]:
    return each_json(documents, lambda key, value, text: otlp_value(value))


def otlp_value(value: Any) -> Value:
    match value:
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": otlp_value(one)} for key, one in value.items()]}}
        case list():
            return {"arrayValue": {"values": [otlp_value(one) for one in value]}}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {}


@transformation("JSON as a Python repr")
def as_repr(documents: list[Document], _: Random) -> list[Document]:
    return each_json(documents, lambda key, value, text: as_string(repr(value)))


def messages_like(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)


@transformation("messages wrapped in {messages, tools}")
def wrapped_messages(documents: list[Document], _: Random) -> list[Document]:
    def change(_: str, value: Any, text: str) -> Value:
        return as_string({"tools": [], "messages": value}) if messages_like(value) else as_string(text)

    return each_json(documents, change)


@transformation("inputs with nothing but the last message")
def last_messages(documents: list[Document], _: Random) -> list[Document]:
    """Conversations that the provider keeps: a model is given what is new."""

    def change(key: str, value: Any, text: str) -> Value:
        return as_string(value[-1:]) if messages_like(value) and "input" in key else as_string(text)

    return each_json(documents, change)


def wrapping_all(envelope: Callable[[Any], Any]) -> Change:
    """Each value as a whole, but for those of tools, and for arguments by themselves: nothing else may tell these."""

    def change(key: str, value: Any, text: str) -> Value:
        alone = are_arguments(key, value) or re.search(r"tool_calls?\.|function_call", key)
        return as_string(text if alone else envelope(value))

    return lambda documents, _: each_role(documents, lambda one: each_json([one], change)[0], tools=False)


transformation("JSON wrapped in {data}")(wrapping_all(lambda value: {"data": value}))
transformation("JSON wrapped in {data: {value}}")(wrapping_all(lambda value: {"data": {"value": value}}))


_ENVELOPES: dict[str, Callable[[Any], Any]] = {
    "{input}": lambda value: {"input": value},
    "{args, kwargs}": lambda value: {"args": [], "kwargs": value},
    "{input: {kwargs}}": lambda value: {"input": {"kwargs": value}},
}
_OF_MODELS = re.compile(r"tool_calls|messages?\b|completion|prompt|schema|definition|metadata|tools\b")


def are_arguments(key: str, value: Any) -> bool:
    held = isinstance(value, dict) and not {"role", "type", "messages", "properties"}.intersection(value)
    return held and re.search(r"arg|input|param", key) is not None and not _OF_MODELS.search(key)


def wrapping(envelope: Callable[[Any], Any]) -> Change:
    def change(key: str, value: Any, text: str) -> Value:
        return as_string(envelope(value) if are_arguments(key, value) else text)

    return lambda documents, _: each_role(documents, lambda one: each_json([one], change)[0])


for _name, _envelope in _ENVELOPES.items():
    transformation(f"arguments wrapped in {_name}", unless_requested=["arguments"])(wrapping(_envelope))


def each_role(
    documents: list[Document], change: Callable[[Document], Document], *, tools: bool = True
) -> list[Document]:
    """Change the spans of tools, or all others."""
    roles = roles_in(documents)
    return [change(one) if (its is Role.TOOL) is tools else one for one, its in zip(documents, roles, strict=True)]


def each_result(change: Callable[[str], Any]) -> Change:
    """Change the texts that tools returned, on their spans."""

    def one(key: str, value: Value) -> tuple[str, Value]:
        text = value.get("stringValue")
        result = re.search(r"output|result", key) and not _OF_MODELS.search(key)
        hidden = not isinstance(text, str) or "REDACTED" in text
        return key, as_string(change(str(text))) if result and not hidden else value

    def all_of_tools(document: Document) -> Document:
        return each_span([document], lambda span: each_attribute(span, one))[0]

    return lambda documents, _: each_role(documents, all_of_tools)


transformation("results wrapped in {output}")(each_result(lambda text: {"output": json_in(text) or text}))
transformation("results wrapped in {type, data: {content}}")(
    each_result(lambda text: {"type": "tool", "data": {"content": text, "status": "success"}})
)
transformation("results cut at 20 characters")(each_result(lambda text: text[:20]))


# How things are named.

_CONVENTIONS = re.compile(r"(gen_ai|error|exception|service|telemetry|server|http|mcp|rpc|code)\.")


def renaming(kept: re.Pattern[str]) -> Change:
    def rename(key: str, value: Value) -> tuple[str, Value]:
        return key if kept.match(key) else f"acme.{key}", value

    return lambda documents, _: each_span(documents, lambda span: each_attribute(span, rename))


transformation("keys outside the conventions renamed", "session")(renaming(_CONVENTIONS))
transformation("all keys renamed", "session", "affixes")(renaming(re.compile(r"(error|exception)\.")))


@transformation("scopes renamed", "affixes")
def without_scopes(documents: list[Document], _: Random) -> list[Document]:
    def change(document: Document) -> Document:
        if not is_span(document):
            return document
        (resource,) = document["resourceSpans"]
        (scope,) = resource["scopeSpans"]
        return {"resourceSpans": [{**resource, "scopeSpans": [{**scope, "scope": {"name": "acme"}}]}]}

    return [change(document) for document in documents]


_CALL_ID = re.compile(r"((call|tool|tool_use|use)[._]?id|tool_calls\.\d+\.id)$", re.IGNORECASE)
_IDS_WITHIN = {"id", "tool_call_id", "call_id", "tool_use_id", "toolCallId", "callId", "tool_id"}


@transformation("call ids left out", unless_requested=["batch"])
def without_call_ids(documents: list[Document], _: Random) -> list[Document]:
    ids = {value for span in spans_of(documents) for value in _call_ids(span)}

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(one) for key, one in value.items() if not (key in _IDS_WITHIN and one in list(ids))}
        return [strip(one) for one in value] if isinstance(value, list) else value

    def change(key: str, value: Value) -> tuple[str, Value] | None:
        text = value.get("stringValue")
        if not isinstance(text, str):
            return key, value
        decoded = json_in(text)
        call_id = text in ids and _CALL_ID.search(key)
        return None if call_id else (key, value if decoded is None else as_string(strip(decoded)))

    return each_span(documents, lambda span: each_attribute(span, change)) if ids else documents


def _call_ids(span: Span) -> Iterator[str]:
    for holder in (span, *span.get("events", ())):
        for one in holder.get("attributes", ()):
            text = one.get("value", {}).get("stringValue")
            if isinstance(text, str) and text:
                if _CALL_ID.search(one["key"]) and json_in(text) is None:
                    yield text
                yield from re.findall(r'"(?:tool_call_id|call_id|tool_use_id)": ?"([^"]+)"', text)


# What is among the messages, and what is copied.

_DEFINITION = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@transformation("definitions among the messages")
def definitions_among_messages(documents: list[Document], _: Random) -> list[Document]:
    """The tools follow a model's input, as messages of role `tool`."""

    def change(key: str, value: Any, text: str) -> Value:
        if messages_like(value) and re.search(r"input|prompt|message", key) and "output" not in key:
            return as_string([*value, {"role": "tool", "content": _DEFINITION}])
        return as_string(text)

    return each_json(documents, change)


@transformation("error status copied to later spans")
def copied_status(documents: list[Document], _: Random) -> list[Document]:
    failed: dict[str, tuple[int, dict[str, Any]]] = {}
    for span in spans_of(documents):
        if span.get("status", {}).get("code") == 2:
            at = int(span["startTimeUnixNano"])
            failed[span["traceId"]] = min(
                failed.get(span["traceId"], (at, span["status"])), (at, span["status"]), key=_at
            )

    def copy(span: Span) -> Span:
        at, status = failed.get(span["traceId"], (0, {}))
        return {**span, "status": status} if status and int(span["startTimeUnixNano"]) > at else span

    return each_span(documents, copy) if failed else documents


def _at(entry: tuple[int, dict[str, Any]]) -> int:
    return entry[0]


@transformation("error status copied to the spans below")
def status_below(documents: list[Document], _: Random) -> list[Document]:
    return _with_statuses(documents, lambda span, failed: failed.get(span.get("parentSpanId", "")))


@transformation("error status copied to the spans above", "failure")
def status_above(documents: list[Document], _: Random) -> list[Document]:
    """An exception that passes through all spans around it, up to the root: whether a tool around it failed is open."""
    above = {span["spanId"]: span.get("parentSpanId", "") for span in spans_of(documents)}

    def change(span: Span, failed: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        return next((status for inner, status in failed.items() if above.get(inner) == span["spanId"]), None)

    return _with_statuses(documents, change)


def _with_statuses(
    documents: list[Document], status_for: Callable[[Span, dict[str, dict[str, Any]]], dict[str, Any] | None]
) -> list[Document]:
    """Copy error statuses from span to span, until none is new."""
    failed = {span["spanId"]: span["status"] for span in spans_of(documents) if span.get("status", {}).get("code") == 2}
    more: dict[str, dict[str, Any]] = failed
    while more:
        found = ((span["spanId"], status_for(span, failed)) for span in spans_of(documents))
        more = {span_id: status for span_id, status in found if status is not None and span_id not in failed}
        failed |= more
    return each_span(
        documents, lambda span: {**span, "status": failed[span["spanId"]]} if span["spanId"] in failed else span
    )


@transformation("failing tool written twice, nested")
def nested_failure(documents: list[Document], _: Random) -> list[Document]:
    """A child span repeats each failed tool's span, as where a framework and its client both write one."""
    made = list(documents)
    for document, role in zip(documents, roles_in(documents), strict=True):
        span = record_of(document) if is_span(document) else {}
        if role is Role.TOOL and span.get("status", {}).get("code") == 2:
            start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
            inside = {
                "spanId": new_id("inner", span["spanId"]),
                "parentSpanId": span["spanId"],
                "startTimeUnixNano": str(min(start + 1, end)),
                "endTimeUnixNano": str(max(end - 1, start)),
            }
            made.append(changed(document, lambda one, inside=inside: {**one, **inside}))
    return made


# What is missing.


@transformation("no model spans", "batch", "turns", "requests")
def without_models(documents: list[Document], _: Random) -> list[Document]:
    return without(documents, Role.MODEL)


@transformation("no tool spans", "batch", unless_requested=["calls"])
def without_tools(documents: list[Document], _: Random) -> list[Document]:
    return without(documents, Role.TOOL)


@transformation("no agent spans", "turns", "session", unless_requested=["batch"])
def without_agents(documents: list[Document], _: Random) -> list[Document]:
    return without(documents, Role.AGENT)


def losing_one(role: Role) -> Change:
    """A span that its sender dropped, or that was sampled."""
    return lambda documents, random: without(documents, role, random.randrange(roles_in(documents).count(role) or 1))


transformation("one tool span lost", "batch", "failure", "order", unless_requested=["calls"])(losing_one(Role.TOOL))
transformation("one model span lost", "batch", "turns", "requests")(losing_one(Role.MODEL))


_CONTENT = re.compile(
    r"input|output|messages?\b|prompt|completion|arg|param|result|content|body|text|kwargs|response$|request$|event_data|state"
)
_FACTS_ABOUT_CONTENT = re.compile(r"tokens?\b|mime_type|usage|model|count|finish_reason")


@transformation("no content", "batch", "turns")
def without_content(documents: list[Document], _: Random) -> list[Document]:
    def change(key: str, value: Value) -> tuple[str, Value] | None:
        text = value.get("stringValue", "")
        content = _CONTENT.search(key) and not _FACTS_ABOUT_CONTENT.search(key)
        return None if content or text[:1] in ("{", "[") or "kvlistValue" in value else (key, value)

    spans = [document for document in documents if is_span(document)]
    return each_span(spans, lambda span: each_attribute(span, change))


def cutting(length: int) -> Change:
    def change(key: str, value: Value) -> tuple[str, Value]:
        text = value.get("stringValue")
        return key, {"stringValue": text[:length]} if isinstance(text, str) and len(text) > length else value

    return lambda documents, _: each_span(documents, lambda span: each_attribute(span, change))


transformation("values cut at 1,000 characters", "batch", "turns", "session")(cutting(1000))
transformation("values cut at 100 characters", "batch", "turns", "session")(cutting(100))


# How spans stand to each other.


def tops(spans: Sequence[Span]) -> dict[str, str]:
    """Return the outermost recorded ancestor of each span, by span id."""
    parents = {span["spanId"]: span.get("parentSpanId", "") for span in spans}

    def top(span_id: str) -> str:
        seen: set[str] = set()
        while parents.get(span_id) in parents and span_id not in seen:
            seen.add(span_id)
            span_id = parents[span_id]
        return span_id

    return {span_id: top(span_id) for span_id in parents}


@transformation("flattened under each root", unless_requested=["batch"])
def flattened(documents: list[Document], _: Random) -> list[Document]:
    roots = tops(spans_of(documents))

    def move(span: Span) -> Span:
        root = roots[span["spanId"]]
        return span if root == span["spanId"] else {**span, "parentSpanId": root}

    return each_span(documents, move)


@transformation("a plain span above each span")
def nested(documents: list[Document], _: Random) -> list[Document]:
    made: list[Document] = []
    for document in documents:
        if is_span(document) and record_of(document).get("parentSpanId"):
            above = new_id("above", record_of(document)["spanId"])
            made.append(
                changed(document, lambda span, above=above: {**_bare(span), "spanId": above, "name": "middleware"})
            )
            made.append(changed(document, lambda span, above=above: {**span, "parentSpanId": above}))
        else:
            made.append(document)
    return made


def _bare(span: Span) -> Span:
    kept = ("traceId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")
    return {"kind": 1, **{key: span[key] for key in kept if key in span}}


@transformation("times shuffled within each trace", "turns", "order", unless_requested=["batch"])
def shuffled_times(documents: list[Document], random: Random) -> list[Document]:
    """Every span at any time of its trace: clocks that have nothing to do with each other."""
    ends = [
        (span["traceId"], int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in spans_of(documents)
    ]
    windows = {
        trace: (min(start for one, start, _ in ends if one == trace), max(end for one, _, end in ends if one == trace))
        for trace, _, _ in ends
    }

    def move(span: Span) -> Span:
        start, end = sorted(random.randint(*windows[span["traceId"]]) for _ in range(2))
        return {**span, "startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}

    return each_span(documents, move)


def skewed(seconds: float) -> Change:
    """The clock of the tools' host is off."""

    def change(documents: list[Document], _: Random) -> list[Document]:
        def move(span: Span) -> Span:
            times = {key: str(int(span[key]) + int(seconds * 1e9)) for key in ("startTimeUnixNano", "endTimeUnixNano")}
            return {**span, **times}

        return each_role(documents, lambda document: changed(document, move))

    return change


transformation("clock of the tools 2 s ahead", unless_requested=["batch"])(skewed(2))
transformation("clock of the tools 2 s behind", unless_requested=["batch"])(skewed(-2))


@transformation("each span of a turn in a trace of its own", unless_requested=["batch", "turns"])
def split(documents: list[Document], _: Random) -> list[Document]:
    """The context is not passed on; as often then, the conversation's id is on every span."""
    session = named_session(documents)

    def move(span: Span) -> Span:
        alone = {key: value for key, value in span.items() if key != "parentSpanId"}
        own = {"key": "gen_ai.conversation.id", "value": {"stringValue": session}}
        attributes = [one for one in span.get("attributes", ()) if one["key"] != own["key"]]
        return {**alone, "attributes": [*attributes, own]}

    def trace_of(record: Span) -> str:
        return new_id("trace", record["spanId"], size=16) if record.get("spanId") else record.get("traceId", "")

    return each_record(each_span(documents, move), trace_of) if session else documents


_SESSION_KEY = re.compile(r"(session|conversation|thread|group)[._]?(id)?$")


def named_session(documents: Sequence[Document]) -> str:
    """Return the one session id that is written as an attribute, if there is one."""
    found = {
        one["value"]["stringValue"]
        for span in spans_of(documents)
        for one in span.get("attributes", ())
        if _SESSION_KEY.search(one["key"]) and "stringValue" in one.get("value", {})
    }
    return found.pop() if len(found) == 1 else ""


def joining(**attributes: str) -> Change:
    """All traces become one, under one new root."""

    def change(documents: list[Document], _: Random) -> list[Document]:
        spans = spans_of(documents)
        known = {span["spanId"] for span in spans}
        if len(known) < len(spans) or len({span["traceId"] for span in spans}) < 2:
            return documents
        trace, root = new_id("joined", *sorted(known), size=16), new_id("root", *sorted(known))

        def move(span: Span) -> Span:
            parent = span.get("parentSpanId", "")
            return {**span, "parentSpanId": parent if parent in known else root}

        first = next(document for document in documents if is_span(document))
        above = {
            "traceId": trace,
            "spanId": root,
            "name": "main",
            "kind": 1,
            "startTimeUnixNano": str(min(int(span["startTimeUnixNano"]) for span in spans) - 1),
            "endTimeUnixNano": str(max(int(span["endTimeUnixNano"]) for span in spans) + 1),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        return [*each_record(each_span(documents, move), lambda _: trace), changed(first, lambda _: above)]

    return change


transformation("turns joined under a plain root")(joining())
transformation("turns joined under a workflow")(joining(**{"gen_ai.operation.name": "invoke_workflow"}))
transformation("turns joined under an agent")(
    joining(**{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "all"})
)


@transformation("every record twice")
def twice(documents: list[Document], random: Random) -> list[Document]:
    return random.sample([*documents, *documents], 2 * len(documents))
