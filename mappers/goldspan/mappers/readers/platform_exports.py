"""Spans of platforms, turned into OTLP/JSON: what their APIs give back, and what they export as files.

    Phoenix   {"data": [{"context": {"trace_id", "span_id"}, "span_kind", "attributes": {...}, ...}], "next_cursor"}
              the same with OTLP's spans in it (`/spans/otlpv1`), and a table's rows (`to_json` of a dataframe)
    Langfuse  {"data": [{"id", "traceId", "type", "input", "output", ...}], "meta"}, a trace with its `observations`
    MLflow    {"traces": [{"trace_info": {...}, "spans": [OTLP's spans]}]} (`/traces/batchGet`), {"trace": ...}
              (`/traces/get`), and one trace
    LangSmith {"runs": [{"id", "trace_id", "run_type", "inputs", "outputs", ...}], "cursors"}
    Logfire   {"data": [{"trace_id", "span_id", "start_timestamp", "attributes", ...}]}, rows of its table `records`
    Azure     rows of Application Insights with `customDimensions` (AppDependencies: `Properties`), and the tables that
              its query API answers: {"tables": [{"columns": [{"name"}], "rows": [[...]]}]}
    AWS       spans of CloudWatch's log group `aws/spans`, alone or as the `message` of log events: {"events":
              [{"message": "{...}"}]} (filter-log-events), {"results": [[{"field": "@message", "value"}]]} (Insights)
    Strands   {"session_id", "traces": [{"trace_id", "spans": [{"span_info": {...}, "tool_call" | "messages" |
    Evals     "user_prompt"}]}]}, the objects or what they look like as JSON

Each but the last also as one span, a list, or one a line. Phoenix and MLflow keep the attributes, Langfuse most
of them in `metadata`; none keeps everything of the resource and the scope.
https://arize.com/docs/phoenix/sdk-api-reference/rest-api/api-reference/spans , https://api.reference.langfuse.com ,
https://docs.langchain.com/langsmith/run-data-format , https://logfire.pydantic.dev/docs/reference/sql/ ,
https://learn.microsoft.com/azure/azure-monitor/reference/tables/appdependencies ,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Transaction-Search.html ,
https://strandsagents.com/latest/documentation/docs/user-guide/evals-sdk/quickstart/
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from goldspan.mappers.readers.otlp_json import encode_value
from goldspan.mappers.readers.span_tables import SpanTableReader, is_span_table, nanoseconds_of, otlp_of_span
from goldspan.mappers.spans import DecodedSpan
from goldspan.scoring.json_values import is_dict, is_list

_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_PAGE = frozenset(
    {"data", "next_cursor", "meta", "runs", "cursors", "columns", "tables", "events", "results", "status"}
)
_LISTS = ("data", "runs", "tables", "events", "results")
_MAX_DEPTH = 32
_ATTRIBUTES = "attributes."  # how a column of Phoenix's table begins that holds an attribute


def otlp_from_export(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a trace request with the spans of an export, in their order; none where `item` is something else.

    Anything else in the place of a span is passed on, and the OTLP reader reports it.
    """
    if _is_span(item):
        return _request([item])
    if (traces := _traces_of_mlflow(item)) is not None:
        return _request([span for trace in traces for span in _from_mlflow(trace)])
    data = next((found for name in _LISTS if is_list(found := item.get(name))), None)
    if data is not None and (rows := list(_rows(item, data))):
        return _request(rows)
    if is_list(data) and (any(is_dict(one) and _is_span(one) for one in data) or _PAGE.issuperset(item)):
        return _request(data)
    return None


def _request(items: list[Any]) -> dict[str, Any]:
    spans: list[Any] = []
    for item in items:
        spans += _spans(item) if is_dict(item) else [item]
    return {"resourceSpans": [span if not is_dict(span) else _alone(span) for span in spans]}


def _alone(span: dict[str, Any]) -> dict[str, Any]:
    resource, scope = span.pop("resource", {}), span.pop("scope", {})
    return {"resource": resource, "scopeSpans": [{"scope": scope, "spans": [span]}]}


def _is_span(item: Mapping[str, Any]) -> bool:
    return any(is_one(item) for is_one, _ in _SPANS) or _is_trace(item)


def _spans(item: dict[str, Any]) -> Iterator[Any]:
    if _is_trace(item):
        for one in item["observations"]:
            yield _from_langfuse(one, item) if is_dict(one) else one
    else:
        yield next((read(item) for is_one, read in _SPANS if is_one(item)), item)


def _from_otlp(span: Mapping[str, Any]) -> Any:
    """Return a span of OTLP, without nulls, and with lists of attributes where CloudWatch has objects."""
    found = _without_nulls(span)
    events = found.get("events")
    inside = (found, found.get("resource"), *(events if is_list(events) else ()))
    for one in inside:
        if is_dict(one) and is_dict(attributes := one.get("attributes")):
            one["attributes"] = _pairs(attributes)
    return found


def _without_nulls(value: Any, depth: int = 0) -> Any:
    """Return a value without fields that are null: Phoenix writes one for each type that a value has not."""
    if is_dict(value) and depth < _MAX_DEPTH:
        return {key: _without_nulls(inner, depth + 1) for key, inner in value.items() if inner is not None}
    if is_list(value) and depth < _MAX_DEPTH:
        return [_without_nulls(inner, depth + 1) for inner in value]
    return value


# Phoenix.


def _is_of_phoenix(item: Mapping[str, Any]) -> bool:
    context = item.get("context")
    return (is_dict(context) and "span_id" in context and "trace_id" in context) or "context.span_id" in item


def _is_otlp(item: Mapping[str, Any]) -> bool:
    """Say whether this is a span of OTLP/JSON outside of any request, as Phoenix's `/spans/otlpv1` lists them."""
    return ("span_id" in item and "start_time_unix_nano" in item) or ("spanId" in item and "startTimeUnixNano" in item)


def _from_phoenix(span: Mapping[str, Any]) -> dict[str, Any]:
    context = span.get("context")
    ids = context if is_dict(context) else {name: span.get(f"context.{name}") for name in ("trace_id", "span_id")}
    found = span.get("attributes")
    attributes = dict(_flat(found)) if is_dict(found) else {}
    for key, value in span.items():
        if key.startswith(_ATTRIBUTES) and value is not None:
            attributes |= dict(_flat({key[len(_ATTRIBUTES) :]: value}))
    attributes.setdefault("openinference.span.kind", span.get("span_kind"))
    events = span.get("events")
    return {
        "traceId": ids.get("trace_id"),
        "spanId": ids.get("span_id"),
        "parentSpanId": span.get("parent_id") or "",
        "name": span.get("name"),
        "startTimeUnixNano": str(_nanos(span.get("start_time"))),
        "endTimeUnixNano": str(_nanos(span.get("end_time"))),
        "attributes": _pairs(attributes),
        "events": [_event(event) for event in (events if is_list(events) else ()) if is_dict(event)],
        "status": {
            "code": _STATUS.get(str(span.get("status_code")), 0),
            "message": str(span.get("status_message") or ""),
        },
    }


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    attributes = event.get("attributes")
    return {
        "name": event.get("name"),
        "timeUnixNano": str(_nanos(event.get("timestamp"))),
        "attributes": _pairs(attributes if is_dict(attributes) else {}),
    }


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested attributes under the dotted names that they were written with; lists of objects by position."""
    waiting = [(f"{prefix}{key}", value) for key, value in reversed([*tree.items()])]
    while waiting:
        key, value = waiting.pop()
        if is_list(value) and value and all(map(is_dict, value)):
            value = {str(number): one for number, one in enumerate(value)}
        if is_dict(value) and value:
            waiting += [(f"{key}.{name}", inner) for name, inner in reversed([*value.items()])]
        else:
            yield key, value


# Langfuse.


def _is_observation(item: Mapping[str, Any]) -> bool:
    return "traceId" in item and "type" in item and "startTime" in item and "id" in item


def _is_trace(item: Mapping[str, Any]) -> bool:
    observations = item.get("observations")
    return "id" in item and is_list(observations) and any(is_dict(one) and _is_observation(one) for one in observations)


_INPUTS = (
    ("openinference.span.kind", "input.value", "output.value"),
    ("traceloop.span.kind", "traceloop.entity.input", "traceloop.entity.output"),
)
"""Where instrumentations that Langfuse takes spans from write what it keeps as input and output."""


def _from_langfuse(observation: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _object(observation.get("metadata"))
    recorded = _object(metadata.get("attributes"))
    attributes = dict(recorded)
    attributes["session.id"] = observation.get("sessionId") or trace.get("sessionId") or recorded.get("session.id")
    names = next((names for kind, *names in _INPUTS if kind in recorded), None)
    if names is None:
        attributes["langfuse.observation.type"] = str(observation.get("type")).lower()
        attributes["langfuse.observation.level"] = observation.get("level")
        names = ["langfuse.observation.input", "langfuse.observation.output"]
    for name, value in zip(names, (observation.get("input"), observation.get("output")), strict=True):
        attributes.setdefault(name, value if isinstance(value, str) or value is None else json.dumps(value))
    return {
        "traceId": observation.get("traceId"),
        "spanId": observation.get("id"),
        "parentSpanId": observation.get("parentObservationId") or "",
        "name": observation.get("name"),
        "startTimeUnixNano": str(_nanos(observation.get("startTime"))),
        "endTimeUnixNano": str(_nanos(observation.get("endTime"))),
        "attributes": _pairs(attributes),
        "status": {
            "code": 2 if observation.get("level") == "ERROR" else 0,
            "message": str(observation.get("statusMessage") or ""),
        },
        "resource": {"attributes": _pairs(_object(metadata.get("resourceAttributes")))},
        "scope": {"name": str(_object(metadata.get("scope")).get("name") or "")},
    }


def _object(value: object) -> dict[str, Any]:
    """Return an object, or the object that a text holds; exports write metadata as either."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if is_dict(value) else {}


# LangSmith.


def _is_run(item: Mapping[str, Any]) -> bool:
    return "run_type" in item and "trace_id" in item and "id" in item


def _from_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run with the attributes that LangSmith's own export by OpenTelemetry gives it."""
    extra, kind, name = _object(run.get("extra")), str(run.get("run_type")).lower(), run.get("name")
    metadata = {**_object(run.get("metadata")), **_object(extra.get("metadata"))}
    attributes: dict[str, Any] = {
        "langsmith.span.kind": kind,
        "langsmith.trace.name": name,
        "langsmith.metadata.thread_id": run.get("thread_id"),
        **{f"langsmith.metadata.{key}": value for key, value in metadata.items()},
        "gen_ai.prompt": _text_of(run.get("inputs")),
        "gen_ai.completion": _text_of(run.get("outputs")),
        "gen_ai.request.model": metadata.get("ls_model_name"),
        "gen_ai.tool.definitions": _object(extra.get("invocation_params")).get("tools"),
    }
    if kind == "tool":
        attributes["gen_ai.tool.name"] = name
        attributes["gen_ai.tool.call.id"] = extra.get("tool_call_id") or metadata.get("tool_call_id")
    parents = run.get("parent_run_ids")
    parent = run.get("parent_run_id") or (parents[-1] if is_list(parents) and parents else None)
    error = run.get("error")
    return {
        "traceId": str(run.get("trace_id")).replace("-", ""),
        "spanId": _half(run.get("id")),
        "parentSpanId": _half(parent) if parent else "",
        "name": name,
        "startTimeUnixNano": str(_nanos(run.get("start_time"))),
        "endTimeUnixNano": str(_nanos(run.get("end_time"))),
        "attributes": _pairs(attributes),
        "status": {"code": 2, "message": str(error)} if error else {},
    }


def _half(uuid: object) -> str:
    """Return the half of a UUID that is made by chance."""
    return str(uuid).replace("-", "")[16:]


def _text_of(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


# Rows of Logfire and of Application Insights, log events of CloudWatch.


def _rows(item: Mapping[str, Any], data: list[Any]) -> Iterator[Any]:
    """Yield the rows of an answer that holds them in another way than as objects."""
    for one in data:
        if is_dict(one) and is_list(columns := one.get("columns")) and is_list(rows := one.get("rows")):
            names = [str(column.get("name")) for column in filter(is_dict, columns)]
            yield from (dict(zip(names, row, strict=False)) for row in filter(is_list, rows))
        elif is_dict(one) and "events" in item:
            yield from _of_log(one.get("message"))
        elif is_list(one) and "results" in item:
            fields = {field.get("field"): field.get("value") for field in filter(is_dict, one)}
            yield from _of_log(fields.get("@message"))


def _of_log(message: object) -> Iterator[Any]:
    """Yield the span that is the message of a log event; other messages are no spans."""
    if _is_otlp(span := _object(message)):
        yield span


def _is_row(item: Mapping[str, Any]) -> bool:
    return is_span_table(item) and not is_dict(item.get("tags"))


def _from_row(row: Mapping[str, Any]) -> Any:
    """Return a row of a table of spans as a span; as it is if it cannot be read."""
    span = next(SpanTableReader(row, lambda _: None).rows([row]), None)
    if not isinstance(span, DecodedSpan):
        return row
    [request] = otlp_of_span(span)["resourceSpans"]
    [scoped] = request["scopeSpans"]
    [written] = scoped["spans"]
    return {**written, "attributes": _pairs(span.attributes), "resource": request["resource"], "scope": scoped["scope"]}


_INSIGHTS = {
    "trace_id": ("operation_Id", "OperationId"),
    "span_id": ("id", "Id"),
    "parent_id": ("operation_ParentId", "ParentId"),
    "name": ("name", "Name"),
    "timestamp": ("timestamp", "TimeGenerated", "time"),
    "milliseconds": ("duration", "DurationMs"),
    "attributes": ("customDimensions", "Properties"),
    "service_name": ("cloud_RoleName", "AppRoleName"),
    "success": ("success", "Success"),
}
"""The columns of `dependencies` and `requests`, and of the tables of a workspace."""


def _is_of_insights(item: Mapping[str, Any]) -> bool:
    return all(any(name in item for name in _INSIGHTS[field]) for field in ("trace_id", "span_id", "attributes"))


def _from_insights(item: Mapping[str, Any]) -> Any:
    row: dict[str, Any] = {
        field: next((item[name] for name in names if name in item), None) for field, names in _INSIGHTS.items()
    }
    milliseconds, failed = row.pop("milliseconds"), str(row.pop("success")).lower() == "false"
    with contextlib.suppress(TypeError, ValueError):
        row["duration"] = round(float(milliseconds) * 1_000_000)
    return _from_row({**row, "status_code": "ERROR" if failed else "UNSET"})


# MLflow.

_SESSION = "mlflow.trace.session"
_BY_SDK = "mlflow.trace_schema.version"
"""In the metadata of traces that MLflow's SDK wrote, and not of those that came by OTLP."""
_OWN = "mlflow."  # how the attributes begin that the SDK writes, and that the server adds to what came by OTLP


def _traces_of_mlflow(item: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return MLflow's traces in an answer; None if it is none."""
    traces = item.get("traces", [item.get("trace", item)])
    if not is_list(traces):
        return None
    found = [one for one in traces if is_dict(one) and is_dict(one.get("trace_info")) and is_list(one.get("spans"))]
    return found or None


def _from_mlflow(trace: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the spans of a trace as their SDK wrote them.

    MLflow keeps one session for the trace, of those that its spans name. It goes to the resource: the spans come first.
    """
    found = trace["trace_info"].get("trace_metadata")
    metadata = found if is_dict(found) else {}
    for span in trace["spans"]:
        attributes = span.get("attributes") if is_dict(span) else None
        if not is_dict(span) or not is_list(attributes):
            yield span
            continue
        others = [one for one in attributes if not is_dict(one) or not str(one.get("key")).startswith(_OWN)]
        kept = attributes if _BY_SDK in metadata else others or attributes
        written = [_as_written(one) if is_dict(one) else one for one in kept]
        resource = {"attributes": _pairs({_SESSION: metadata.get(_SESSION)})}
        yield {**span, "attributes": written, "resource": resource}


def _as_written(attribute: dict[str, Any]) -> dict[str, Any]:
    """Return an attribute with objects as text: MLflow parses every text that is JSON, and no instrumentation does."""
    value = attribute.get("value")
    plain = _plain(value) if is_dict(value) else None
    structured = is_dict(plain) or (is_list(plain) and any(is_dict(one) or is_list(one) for one in plain))
    return {**attribute, "value": {"stringValue": json.dumps(plain)}} if structured else attribute


def _plain(value: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value of OTLP/JSON, with field names as MLflow writes them, as JSON."""
    kind, inner = next(iter(value.items()), ("", None))
    values = inner.get("values", []) if is_dict(inner) else None
    if not is_list(values) or depth >= _MAX_DEPTH:
        return int(inner) if kind in ("int_value", "intValue") and isinstance(inner, str) else inner
    if kind in ("array_value", "arrayValue"):
        return [_plain(one, depth + 1) for one in values if is_dict(one)]
    return {str(one.get("key")): _plain(one.get("value") or {}, depth + 1) for one in values if is_dict(one)}


# Strands Evals.
#
# A session has no spans but those of agents, models and tools, so parents may be missing. A call then belongs to the
# agent that Strands Evals found for it, and everything else to the first agent of its trace, or to the trace itself.

_SCOPE = "strands_evals"


def is_strands_session(item: object) -> bool:
    """Return whether this is such a session, an object or parsed JSON, by its fields."""
    if is_dict(item):
        traces = item.get("traces")
        return "session_id" in item and is_list(traces) and all(is_dict(trace) and "spans" in trace for trace in traces)
    return all(hasattr(item, name) for name in ("traces", "session_id", "model_dump"))


def otlp_from_strands_session(session: Any) -> dict[str, Any]:
    """Return a trace request with the spans of a session, in their order.

    Anything else in the place of a span is passed on, and the OTLP reader reports it.
    """
    fields: dict[str, Any] = session if is_dict(session) else session.model_dump(mode="json")
    session_id = str(fields["session_id"])
    traces = enumerate(trace for trace in fields["traces"] if is_dict(trace))
    spans = [span for number, trace in traces for span in _spans_of_strands(trace, number, session_id)]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": _SCOPE}, "spans": spans}]}]}


def _spans_of_strands(trace: Mapping[str, Any], number_of_trace: int, session_id: str) -> Iterator[object]:
    spans: list[Any] = found if is_list(found := trace.get("spans")) else [found]
    trace_id = str(trace.get("trace_id") or f"{session_id}:{number_of_trace}")
    ids = {str(_info(span)["span_id"]) for span in spans if _info(span).get("span_id")}
    first = _first_agent(spans, ids)
    system: object = None if first is None else spans[first].get("system_prompt")
    root = _span_id(spans[first], trace_id, first) if first is not None else f"{trace_id}:trace"
    if first is None and any(map(is_dict, spans)):
        yield _root(spans, trace_id, root, session_id)
    for number, span in enumerate(spans):
        if not is_dict(span):
            yield span
            continue
        parents = (_parent(span), str(span.get("agent_span_id") or ""))
        yield {
            "traceId": trace_id,
            "spanId": _span_id(span, trace_id, number),
            "parentSpanId": "" if number == first else next((one for one in parents if one in ids), root),
            "startTimeUnixNano": str(_start(span)),
            "endTimeUnixNano": str(_end(span)),
            **_content(span, session_id, system),
        }


def _first_agent(spans: list[Any], ids: set[str]) -> int | None:
    """Return the position of the first agent, best one without a parent among the spans with these ids."""
    agents = [number for number, span in enumerate(spans) if is_dict(span) and "user_prompt" in span]
    return min(agents, key=lambda number: (_parent(spans[number]) in ids, _start(spans[number])), default=None)


def _info(span: object) -> Mapping[str, Any]:
    info = span.get("span_info") if is_dict(span) else None
    return info if is_dict(info) else {}


def _start(span: object) -> int:
    return _nanos(_info(span).get("start_time"))


def _end(span: object) -> int:
    return _nanos(_info(span).get("end_time"))


def _parent(span: object) -> str:
    return str(_info(span).get("parent_span_id") or "")


def _span_id(span: object, trace_id: str, number: int) -> str:
    return str(_info(span).get("span_id") or f"{trace_id}:{number}")


def _root(spans: list[Any], trace_id: str, span_id: str, session_id: str) -> dict[str, Any]:
    """Return a span for a trace without an agent: its calls are one turn all the same."""
    starts = [start for span in spans if (start := _start(span))]
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": "invoke_agent",
        "startTimeUnixNano": str(min(starts, default=0)),
        "endTimeUnixNano": str(max((_end(span) for span in spans), default=0)),
        "attributes": _attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session_id}),
    }


def _content(span: Mapping[str, Any], session_id: str, system: object) -> dict[str, Any]:
    """Return name, attributes and status; `system` is what the first agent of the trace was told."""
    own: dict[str, Any] = {"gen_ai.conversation.id": str(_info(span).get("session_id") or session_id)}
    status: dict[str, Any] = {}
    if is_dict(call := span.get("tool_call")):
        result = span.get("tool_result")
        result = result if is_dict(result) else {}
        own |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.get("name"),
            "gen_ai.tool.call.id": call.get("tool_call_id"),
            "gen_ai.tool.call.arguments": call.get("arguments"),
            "gen_ai.tool.call.result": result.get("content"),
        }
        if error := result.get("error"):
            status = {"code": 2, "message": str(error)}
    elif "messages" in span:
        given, answer = _messages(span["messages"])
        given = [*_system_message(system), *given]
        own |= {"gen_ai.operation.name": "chat", "gen_ai.input.messages": given, "gen_ai.output.messages": answer}
    else:
        own |= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": [
                *_system_message(span.get("system_prompt")),
                _message("user", [_text(span.get("user_prompt"))]),
            ],
            "gen_ai.output.messages": [_message("assistant", [_text(span.get("agent_response"))])],
            "gen_ai.tool.definitions": span.get("available_tools") or None,
        }
    return {"name": own["gen_ai.operation.name"], "attributes": _attributes(own), "status": status}


def _messages(messages: Any) -> tuple[list[Any], list[Any] | None]:
    """Return what a model was given, and what it answered if that was recorded."""
    read = [
        _message(str(message.get("role")), [_part(part) for part in message.get("content") or () if is_dict(part)])
        for message in (messages if is_list(messages) else ())
        if is_dict(message)
    ]
    return (read[:-1], read[-1:]) if read and read[-1]["role"] == "assistant" else (read, None)


def _message(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "parts": parts}


def _system_message(system: object) -> list[dict[str, Any]]:
    return [_message("system", [_text(system)])] if system else []


def _text(text: object) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if "arguments" in part:
        return {
            "type": "tool_call",
            "id": part.get("tool_call_id"),
            "name": part.get("name"),
            "arguments": part["arguments"],
        }
    if "text" in part:
        return _text(part["text"])
    return {"type": "tool_call_response", "id": part.get("tool_call_id"), "response": part.get("content")}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for key, value in values.items()
        if value is not None
    }
    return [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]


_SPANS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Any]], ...] = (
    (_is_of_phoenix, _from_phoenix),
    (_is_otlp, _from_otlp),
    (_is_observation, lambda one: _from_langfuse(one, {})),
    (_is_run, _from_run),
    (_is_of_insights, _from_insights),
    (_is_row, _from_row),
)
"""How the span of each platform is told, and read."""


# Values.


def _nanos(time: object) -> int:
    """Return a time in nanoseconds: ISO 8601, or milliseconds as a table's JSON has them; 0 if it is none."""
    if isinstance(time, int | float) and not isinstance(time, bool):
        return int(time * 1_000_000) if 0 < time < 1e16 else 0
    try:
        return nanoseconds_of(str(time))
    except ValueError:
        return 0


def _pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": str(key), "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: object) -> dict[str, Any]:
    if is_list(value):
        is_plain = all(isinstance(one, str | int | float) for one in value)
    else:
        is_plain = isinstance(value, str | int | float)
    return encode_value(value if is_plain else json.dumps(value))
