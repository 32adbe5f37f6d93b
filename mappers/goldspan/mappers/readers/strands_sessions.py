"""Sessions of Strands Evals, turned into OTLP/JSON: the objects, or what they look like as JSON.

    {"session_id", "traces": [{"trace_id", "spans": [{"span_info": {...}, "tool_call" | "messages" | "user_prompt"}]}]}

Such a session has no spans but those of agents, models and tools, so parents may be missing. A call then belongs to the
agent that Strands Evals found for it, and everything else to the first agent of its trace, or to the trace itself.
https://strandsagents.com/latest/documentation/docs/user-guide/evals-sdk/quickstart/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from goldspan.scoring.json_values import is_dict, is_list

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
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
    spans = [span for number, trace in traces for span in _spans(trace, number, session_id)]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": _SCOPE}, "spans": spans}]}]}


def _spans(trace: Mapping[str, Any], number_of_trace: int, session_id: str) -> Iterator[object]:
    spans: list[Any] = found if is_list(found := trace.get("spans")) else [found]
    trace_id = str(trace.get("trace_id") or f"{session_id}:{number_of_trace}")
    ids = {str(_info(span)["span_id"]) for span in spans if _info(span).get("span_id")}
    agents = [number for number, span in enumerate(spans) if is_dict(span) and "user_prompt" in span]
    first = min(agents, key=lambda at: (_parent(spans[at]) in ids, _nanos(spans[at], "start_time")), default=None)
    system: object = None if first is None else spans[first].get("system_prompt")
    root = _span_id(spans[first], trace_id, first) if first is not None else f"{trace_id}:trace"
    if first is None and any(map(is_dict, spans)):
        yield _root(spans, trace_id, root, session_id)
    for number, span in enumerate(spans):
        if not is_dict(span):
            yield span
            continue
        parents = (_parent(span), str(span.get("agent_span_id") or ""))
        parent = "" if number == first else next((one for one in parents if one in ids), root)
        yield {
            "traceId": trace_id,
            "spanId": _span_id(span, trace_id, number),
            "parentSpanId": parent,
            "startTimeUnixNano": str(_nanos(span, "start_time")),
            "endTimeUnixNano": str(_nanos(span, "end_time")),
            **_content(span, session_id, system),
        }


def _info(span: object) -> Mapping[str, Any]:
    info = span.get("span_info") if is_dict(span) else None
    return info if is_dict(info) else {}


def _parent(span: object) -> str:
    return str(_info(span).get("parent_span_id") or "")


def _span_id(span: object, trace_id: str, number: int) -> str:
    return str(_info(span).get("span_id") or f"{trace_id}:{number}")


def _nanos(span: object, field: str) -> int:
    """Return a time of a span; 0 if it has none. Without a zone it is UTC, as in Strands Evals."""
    written = _info(span).get(field)
    try:
        time = written if isinstance(written, datetime) else datetime.fromisoformat(str(written))
    except ValueError:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1000


def _root(spans: list[Any], trace_id: str, span_id: str, session_id: str) -> dict[str, Any]:
    """Return a span for a trace without an agent: its calls are one turn all the same."""
    starts = [start for span in spans if (start := _nanos(span, "start_time"))]
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": "invoke_agent",
        "startTimeUnixNano": str(min(starts, default=0)),
        "endTimeUnixNano": str(max((_nanos(span, "end_time") for span in spans), default=0)),
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
        given = [*_told(system), *given]
        own |= {"gen_ai.operation.name": "chat", "gen_ai.input.messages": given, "gen_ai.output.messages": answer}
    else:
        own |= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": [
                *_told(span.get("system_prompt")),
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


def _told(system: object) -> list[dict[str, Any]]:
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
