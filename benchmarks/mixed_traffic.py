"""Traffic of a whole system: one span in ten is an agent's model call or tool, the others are plain HTTP spans.

About two thirds of these stand in the traces of agents, under their tools and, for every other turn, above the agent;
the rest in traces of their own. Spans of many sessions end beside each other, and each line holds those of one batch
by source and scope, as a Collector writes them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from opentelemetry import trace

from benchmarks.traffic import FIRST_NANOSECOND, SCOPE, SessionPlan, SpanPlan, golden_set, http_plan, otlp_spans
from benchmarks.traffic import plan_sessions as plan_agents

AT_ONCE = 24
"""Sessions that are active at once."""
HTTP_SCOPE = "opentelemetry.instrumentation.httpx"
_UNDER_TOOL = 6
_TRACES_BESIDE = 12
_SPANS_BESIDE = 8


def sessions_for(spans: int) -> int:
    """Return how many sessions give about so many spans."""
    return max(spans // 163, 1)


def plan_mixed(sessions: int) -> Iterator[tuple[SessionPlan, ...]]:
    """Plan so many sessions, those together that are active at once."""
    for start in range(0, sessions, AT_ONCE):
        ids = [f"s-{number}" for number in range(start, min(start + AT_ONCE, sessions))]
        yield tuple(_among_http(plan, Random(plan.id)) for plan in plan_agents(ids, seed=start))


def mixed_golden_set(sessions: int, *, every: int = 10) -> dict[str, Any]:
    """Goldens for some of so many sessions."""
    planned = (plan for group in plan_mixed(sessions) for plan in group)
    return golden_set(list(itertools.islice(planned, 0, None, every)))


def mixed_json_lines(sessions: int, *, spans_per_line: int = 128) -> Iterator[str]:
    """Yield the spans of so many sessions, and plain traces beside them, as OTLP/JSON lines."""
    random = Random(sessions)
    clock = itertools.count(FIRST_NANOSECOND, 1_000_000)
    batch: list[tuple[str, dict[str, Any]]] = []
    for group in plan_mixed(sessions):
        active = [stream for plan in group for stream in _streams(plan, clock, random)]
        while active:
            stream = random.choice(active)
            span = next(stream, None)
            if span is None:
                active.remove(stream)
                continue
            batch.append(span)
            if len(batch) == spans_per_line:
                yield _line(batch)
                batch = []
    if batch:
        yield _line(batch)


def _among_http(plan: SessionPlan, random: Random) -> SessionPlan:
    turns: list[SpanPlan] = []
    for number, turn in enumerate(plan.turns):
        children = tuple(_with_http(child, random) for child in turn.children)
        agent = replace(turn, children=children)
        above = SpanPlan("POST /chat", trace.SpanKind.SERVER, http_plan(random).attributes, (agent,))
        turns.append(above if number % 2 else agent)
    return replace(plan, turns=tuple(turns))


def _with_http(span: SpanPlan, random: Random) -> SpanPlan:
    if not span.name.startswith("execute_tool"):
        return span
    return replace(span, children=tuple(http_plan(random) for _ in range(_UNDER_TOOL)))


def _streams(plan: SessionPlan, clock: Iterator[int], random: Random) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    agents = [
        one for turn in plan.turns for one in otlp_spans(turn, f"{random.getrandbits(128):032x}", "", clock, random)
    ]
    yield (("travel", span) for span in agents)
    beside: list[dict[str, Any]] = []
    for _ in range(_TRACES_BESIDE):
        inner = tuple(http_plan(random) for _ in range(_SPANS_BESIDE - 1))
        root = SpanPlan("GET /", trace.SpanKind.SERVER, http_plan(random).attributes, inner)
        beside += otlp_spans(root, f"{random.getrandbits(128):032x}", "", clock, random)
    yield (("shop", span) for span in beside)


def _line(batch: list[tuple[str, dict[str, Any]]]) -> str:
    groups: list[dict[str, Any]] = []
    for source in ("travel", "shop"):
        by_scope: dict[str, list[dict[str, Any]]] = {}
        for service, span in batch:
            if service == source:
                plain = span["name"].startswith(("GET", "POST"))
                by_scope.setdefault(HTTP_SCOPE if plain else SCOPE, []).append(span)
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": source}}]}
        scopes = [{"scope": {"name": scope}, "spans": spans} for scope, spans in by_scope.items()]
        if scopes:
            groups.append({"resource": resource, "scopeSpans": scopes})
    return json.dumps({"resourceSpans": groups}, separators=(",", ":"))
