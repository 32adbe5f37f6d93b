"""Record what two models of one agent do with the cases of goldens.yaml, each in a file of spans.

The models are scripted: each makes the mistakes of its list, wherever a customer uses the words. Ids and times are
fixed, so the files stay the same.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, set_span_in_context

from goldspan.collector_processor import FileSpanExporter
from goldspan.scoring import load_goldens

HERE = Path(__file__).parent
START = 1_793_613_600_000_000_000  # 2 November 2026, 10:00 UTC
SECOND = 1_000_000_000

Call = tuple[str, dict[str, Any]]
Mistake = tuple[str, str, str, Any]
"""Expression for what the customer says; tool; argument, or `*` for the whole call; what the model passes instead: a
value, a function of the right value, or None to leave it out."""


def a_week_early(day: str) -> str:
    return (date.fromisoformat(day) - timedelta(weeks=1)).isoformat()


MODELS: dict[str, list[Mistake]] = {
    "model-2026-05": [
        ("[Nn]ext ", "move_delivery", "date", a_week_early),
        ("after work", "move_delivery", "window", None),
        ("arrived broken", "refund", "reason", "other"),
        ("a-10", "find_order", "order_id", str.lower),
        ("while you are at it", "refund", "*", None),
    ],
    "model-2026-11": [
        ("next Wednesday", "move_delivery", "date", a_week_early),
        ("Tuesday after work", "move_delivery", "window", None),
        # Here the customer names no currency, and the model takes dollars.
        ("lamp|vase|boots|kettle|jacket", "refund", "currency", "USD"),
    ],
}


class FixedIds(IdGenerator):
    """Random ids that are the same each time."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64)

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128)


def made(model: str, user: str, right: list[Call]) -> Iterator[Call]:
    """Yield the calls that a model makes where `right` would be right."""
    for tool, right_args in right:
        args: dict[str, Any] | None = dict(right_args)
        for words, where, argument, wrong in MODELS[model]:
            if where != tool or not re.search(words, user) or args is None:
                continue
            value = wrong(args[argument]) if callable(wrong) else wrong
            if argument == "*":
                args = None
            elif value is None:
                del args[argument]
            else:
                args[argument] = value
        if args is not None:
            yield tool, args


def record(model: str, path: Path) -> None:
    """Write a session for each golden, by the GenAI semantic conventions."""
    path.unlink(missing_ok=True)
    memory, file = InMemorySpanExporter(), FileSpanExporter(path)
    resource = Resource({"service.name": "shop-assistant", "service.version": "4.2.0"})
    provider = TracerProvider(resource=resource, id_generator=FixedIds(model))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("shop.assistant")

    def span(name: str, start: int, parent: Span | None = None, **attributes: Any) -> Span:
        context = None if parent is None else set_span_in_context(parent)
        names = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
        return tracer.start_span(name, context, attributes=names, start_time=start)

    for number, golden in enumerate(load_goldens(HERE / "goldens.yaml").goldens):
        now, (turn,) = START + 60 * SECOND * number, golden.turns
        user = turn.user or ""
        agent = span(
            "invoke_agent shop-assistant",
            now,
            operation__name="invoke_agent",
            agent__name="shop-assistant",
            conversation__id=golden.session,
            input__messages=json.dumps([{"role": "user", "parts": [{"type": "text", "content": user}]}]),
        )
        for tool, args in made(model, user, [(call.name, dict(call.args)) for call in turn.calls]):
            chat = span(f"chat {model}", now, agent, operation__name="chat", request__model=model)
            chat.end(now + SECOND)
            run = span(
                f"execute_tool {tool}",
                now + SECOND,
                agent,
                operation__name="execute_tool",
                tool__name=tool,
                tool__call__id=f"call_{agent.get_span_context().span_id:016x}_{tool}",
                tool__call__arguments=json.dumps(args),
            )
            now += 2 * SECOND
            run.end(now)
        agent.end(now)
        file.export(memory.get_finished_spans())
        memory.clear()


if __name__ == "__main__":
    for name in MODELS:
        record(name, HERE / f"{name}.jsonl")
