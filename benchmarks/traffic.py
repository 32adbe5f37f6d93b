"""Made-up but realistic traffic of an agent: the same seed gives the same spans.

A turn is an `invoke_agent` span over rounds of one `chat`, one `execute_tool` and two HTTP client spans, by
OpenTelemetry's GenAI conventions: a quarter model calls, a quarter tools, half plain spans, about 1 kB a span.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace

AttributeValue = str | int | float | tuple[str, ...]

SCOPE = "benchmarks.agent"
FIRST_NANOSECOND = 1_750_000_000_000_000_000
SYSTEM = (
    "You are a travel assistant. Look things up with the tools you have, never guess, and answer in two sentences. " * 4
)
CITIES = ("Paris", "Tokyo", "Nairobi", "Lima", "Oslo", "Hanoi", "Quito", "Perth")
PARAMETERS = {
    "get_weather": {"city": "string", "unit": "string", "days": "integer"},
    "search_flights": {
        "origin": "string",
        "destination": "string",
        "date": "string",
        "max_price": "integer",
        "tags": "array",
    },
    "convert_currency": {"amount": "number", "from": "string", "to": "string"},
    "book_hotel": {"city": "string", "check_in": "string", "guests": "object", "stars": "integer"},
}
DEFINITIONS = json.dumps(
    [
        {
            "type": "function",
            "name": name,
            "description": "Look something up for a trip, and return what was found. " * 3,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": word} for key, word in types.items()},
                "required": list(types),
            },
        }
        for name, types in PARAMETERS.items()
    ]
)
TOOLS = ("get_weather", "search_flights", "convert_currency", "book_hotel")


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """A span that will be written, with the spans below it."""

    name: str
    kind: trace.SpanKind
    attributes: dict[str, AttributeValue]
    children: tuple[SpanPlan, ...] = ()

    def __len__(self) -> int:
        return 1 + sum(map(len, self.children))


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The turns of one session, and the calls made in each as (tool, arguments)."""

    id: str
    turns: tuple[SpanPlan, ...]
    calls: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = field(repr=False)

    def __len__(self) -> int:
        return sum(map(len, self.turns))


def plan_sessions(
    ids: Sequence[str],
    *,
    seed: int = 1,
    turns: int = 2,
    rounds: int = 4,
    agent: bool = True,
    content: bool = False,
    told: bool = False,
) -> tuple[SessionPlan, ...]:
    """Plan sessions of these ids; without `agent` only plain HTTP spans, as many of them.

    With `content` every model call holds the whole history of its turn and the definitions of the tools, and half of
    the calls use what the user said; all of them if they are `told`.
    """
    random = Random(seed)
    return tuple(_plan_session(one, random, turns, rounds, agent=agent, content=content, told=told) for one in ids)


def _plan_session(
    session_id: str, random: Random, turns: int, rounds: int, *, agent: bool, content: bool, told: bool
) -> SessionPlan:
    planned: list[SpanPlan] = []
    made: list[tuple[tuple[str, dict[str, Any]], ...]] = []
    for turn in range(turns):
        calls = tuple((tool := random.choice(TOOLS), _arguments(tool, random)) for _ in range(rounds))
        if agent:
            planned.append(_agent_turn(session_id, turn, calls, random, content=content, told=told))
        else:
            planned.append(SpanPlan("GET /", trace.SpanKind.SERVER, _http(random), _http_spans(4 * rounds, random)))
        made.append(calls if agent else ())
    return SessionPlan(session_id, tuple(planned), tuple(made))


def _arguments(tool: str, random: Random) -> dict[str, Any]:
    city, other = random.sample(CITIES, 2)
    day = f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    if tool == "get_weather":
        return {"city": city, "unit": random.choice(("celsius", "fahrenheit")), "days": random.randint(1, 7)}
    if tool == "search_flights":
        return {
            "origin": city,
            "destination": other,
            "date": day,
            "max_price": random.randint(200, 900),
            "tags": ["eco"],
        }
    if tool == "convert_currency":
        return {"amount": random.randint(1, 10_000) / 100, "from": "EUR", "to": random.choice(("KES", "JPY", "NOK"))}
    return {"city": city, "check_in": day, "guests": {"adults": random.randint(1, 4), "children": 0}, "stars": 3}


def _agent_turn(
    session_id: str,
    turn: int,
    calls: tuple[tuple[str, dict[str, Any]], ...],
    random: Random,
    *,
    content: bool,
    told: bool,
) -> SpanPlan:
    conversation = {"gen_ai.conversation.id": session_id, "gen_ai.agent.name": "travel"}
    question = f"Question {turn} of {session_id}: please plan the next leg of my trip."
    if content:
        question += " " + " ".join(json.dumps(arguments) for _, arguments in calls[:: 1 if told else 2])
    history: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
    definitions: dict[str, AttributeValue] = {"gen_ai.tool.definitions": DEFINITIONS} if content else {}
    spans: list[SpanPlan] = []
    for tool, arguments in calls:
        call_id = f"call_{random.getrandbits(64):016x}"
        request = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        answer = {"role": "assistant", "parts": [request], "finish_reason": "tool_call"}
        result = {"status": "ok", "items": [{"id": random.getrandbits(32), "note": "as found " * 5} for _ in range(5)]}
        spans.append(
            SpanPlan(
                "chat gpt-5",
                trace.SpanKind.CLIENT,
                {
                    **conversation,
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "gpt-5",
                    "gen_ai.response.id": f"resp_{random.getrandbits(64):016x}",
                    "gen_ai.response.finish_reasons": ("tool_call",),
                    "gen_ai.usage.input_tokens": random.randint(200, 2000),
                    "gen_ai.usage.output_tokens": random.randint(20, 200),
                    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM}]),
                    "gen_ai.input.messages": json.dumps(history if content else history[-3:]),
                    "gen_ai.output.messages": json.dumps([answer]),
                    **definitions,
                },
            )
        )
        spans.append(
            SpanPlan(
                f"execute_tool {tool}",
                trace.SpanKind.INTERNAL,
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool,
                    "gen_ai.tool.type": "function",
                    "gen_ai.tool.call.id": call_id,
                    "gen_ai.tool.call.arguments": json.dumps(arguments),
                    "gen_ai.tool.call.result": json.dumps(result),
                },
                _http_spans(2, random),
            )
        )
        history.append(answer)
        history.append({"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": result}]})
    root = {**conversation, "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai"}
    return SpanPlan("invoke_agent travel", trace.SpanKind.INTERNAL, root, tuple(spans))


def _http_spans(count: int, random: Random) -> tuple[SpanPlan, ...]:
    return tuple(http_plan(random) for _ in range(count))


def http_plan(random: Random) -> SpanPlan:
    """Plan a call of an HTTP client."""
    return SpanPlan("GET", trace.SpanKind.CLIENT, _http(random))


def _http(random: Random) -> dict[str, AttributeValue]:
    return {
        "http.request.method": "GET",
        "url.full": f"https://api.example.com/v2/items/{random.getrandbits(32)}",
        "server.address": "api.example.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "network.protocol.version": "1.1",
    }


def play(tracer: trace.Tracer, plan: SpanPlan, parent: context_api.Context | None = None) -> None:
    """Start and end a planned span and those below it, as an instrumentation would."""
    span = tracer.start_span(plan.name, parent, kind=plan.kind, attributes=plan.attributes)
    if plan.children:
        inside = trace.set_span_in_context(span, parent or context_api.Context())
        for child in plan.children:
            play(tracer, child, inside)
    span.end()


def golden_set(sessions: Sequence[SessionPlan]) -> dict[str, Any]:
    """Goldens for these sessions as a document: every fourth with a wrong argument, every eighth with one call more."""
    goldens: list[dict[str, Any]] = []
    for index, session in enumerate(sessions):
        turns = [[{"name": name, "args": dict(args)} for name, args in calls] for calls in session.calls]
        if index % 4 == 3:
            args = turns[0][0]["args"]
            args[next(iter(args))] = "somewhere else"
        if index % 8 == 7:
            turns[-1].append({"name": "send_receipt", "args": {"to": "ann@example.com"}})
        goldens.append({"session": session.id, "turns": [{"calls": calls} for calls in turns]})
    return {"format": 1, "golden_set": "travel", "version": "1", "goldens": goldens}


def otlp_json_lines(sessions: Sequence[SessionPlan], *, seed: int = 1, spans_per_request: int = 64) -> Iterator[str]:
    """Yield the sessions as OTLP/JSON trace requests, one a line, as a Collector's file exporter writes them."""
    random = Random(seed)
    clock = iter(range(FIRST_NANOSECOND, FIRST_NANOSECOND * 2, 1_000_000))
    spans: list[dict[str, Any]] = []
    for session in sessions:
        for turn in session.turns:
            spans += otlp_spans(turn, f"{random.getrandbits(128):032x}", "", clock, random)
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "travel"}}]}
    for start in range(0, len(spans), spans_per_request):
        scope_spans = [{"scope": {"name": SCOPE}, "spans": spans[start : start + spans_per_request]}]
        yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]}, separators=(",", ":"))


def otlp_spans(
    plan: SpanPlan, trace_id: str, parent_id: str, clock: Iterator[int], random: Random
) -> Iterator[dict[str, Any]]:
    """Yield a planned span and those below it as OTLP/JSON, in the order in which they end."""
    span_id = f"{random.getrandbits(64):016x}"
    start = next(clock)
    for child in plan.children:
        yield from otlp_spans(child, trace_id, span_id, clock, random)
    yield {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": plan.name,
        "kind": plan.kind.value + 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(next(clock)),
        "attributes": [{"key": key, "value": _otlp_value(value)} for key, value in plan.attributes.items()],
        "status": {},
    }


def _otlp_value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
