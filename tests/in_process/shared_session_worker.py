"""One of several processes that serve a session: a Pydantic AI agent, scored by goldspan in this process.

python shared_session_worker.py GOLDENS CONTENT VERSION

Standard input has one turn a line: `{"text": ..., "call": ..., "history": ...}`. Standard output has the messages of
the conversation after each turn and, at the end, what goldspan said: one event a line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

goldens, content, version = sys.argv[1:]
events = InMemoryLogRecordExporter()
loggers = LoggerProvider(shutdown_on_exit=False)
loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
tracers = TracerProvider(shutdown_on_exit=False)
tracers.add_span_processor(
    ToolParameterMatchSpanProcessor(InMemorySpanExporter(), goldens=goldens, logger_provider=loggers)
)
steps: list[Any] = []


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    del messages, info
    return ModelResponse([steps.pop(0)])


agent = Agent(FunctionModel(scripted, model_name="scripted"), name="travel")
options: dict[str, Any] = {"include_content": content == "on", "version": int(version)}
agent.instrument = InstrumentationSettings(tracer_provider=tracers, **options)


@agent.tool_plain
def search(city: str) -> str:
    """Search flights to a city."""
    return f"2 flights to {city}"


@agent.tool_plain
def book(city: str, seats: int) -> str:
    """Book seats."""
    return f"{seats} seats to {city}"


for line in sys.stdin:
    turn = json.loads(line)
    name, arguments = turn["call"]
    steps[:] = [ToolCallPart(name, arguments), TextPart("Done.")]
    history = ModelMessagesTypeAdapter.validate_json(turn["history"]) if turn["history"] else None
    result = agent.run_sync(turn["text"], message_history=history, conversation_id="trip-1")
    print(result.all_messages_json().decode(), flush=True)
tracers.shutdown()
for event in events.get_finished_logs():
    print(json.dumps(dict(event.log_record.attributes or {}), default=str))
