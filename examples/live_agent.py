"""A Pydantic AI agent with a scripted model, scored in its own process while it runs.

What makes it so is `scored_telemetry`: the span exporter the agent would use anyway, inside
`ToolParameterMatchSpanProcessor`. The agent itself knows nothing of goldspan.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from goldspan.collector_processor import ToolParameterMatchSpanProcessor

GOLDENS = {
    "golden_set": "thermostat-agent",
    "version": "2",
    "criterion": {"per_arg_strategies": {"celsius": "numeric"}, "numeric_tolerance": 0.5},
    "goldens": [
        {
            "session": "home-42",
            "turns": [
                {"calls": [{"name": "read_sensor", "args": {"room": "kitchen"}}]},
                {
                    "calls": [
                        {"name": "set_temperature", "args": {"room": "kitchen", "celsius": 21.5}},
                        {"name": "set_temperature", "args": {"room": "hall", "celsius": 18}},
                    ]
                },
            ],
        }
    ],
}

SCRIPT = [
    [ToolCallPart("read_sensor", {"room": "kitchen"})],
    [TextPart("It is 19.8 degrees in the kitchen.")],
    [
        ToolCallPart("set_temperature", {"room": "kitchen", "celsius": 21.6}),  # within the tolerance
        ToolCallPart("set_temperature", {"room": "bath", "celsius": 18}),  # the wrong room
    ],
    [TextPart("Done.")],
]


@dataclass
class Telemetry:
    """The three signals as a back-end would receive them."""

    tracer_provider: TracerProvider
    spans: InMemorySpanExporter
    events: InMemoryLogRecordExporter
    metrics: InMemoryMetricReader


def scored_telemetry() -> Telemetry:
    """Set up OpenTelemetry as any agent does; one line of it is goldspan's."""
    resource = Resource({"service.name": "thermostat", "deployment.environment.name": "demo"})
    spans, events, metrics = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryMetricReader()
    logger_provider = LoggerProvider(resource=resource)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(events))
    meter_provider = MeterProvider([metrics], resource=resource)
    tracer_provider = TracerProvider(resource=resource)
    tracer_provider.add_span_processor(
        ToolParameterMatchSpanProcessor(
            spans, goldens=GOLDENS, logger_provider=logger_provider, meter_provider=meter_provider
        )
    )
    return Telemetry(tracer_provider, spans, events, metrics)


def thermostat_agent(tracer_provider: TracerProvider) -> Agent[None, str]:
    """Build the agent, instrumented by Pydantic AI's own OpenTelemetry support."""
    replies = iter(SCRIPT)

    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return ModelResponse(next(replies))

    agent = Agent(FunctionModel(scripted, model_name="scripted"), name="thermostat")
    agent.instrument = InstrumentationSettings(tracer_provider=tracer_provider)

    @agent.tool_plain
    def read_sensor(room: str) -> str:
        """Read the temperature of a room."""
        return f"{room}: 19.8"

    @agent.tool_plain
    def set_temperature(room: str, celsius: float) -> str:
        """Set the temperature of a room."""
        return f"{room} is set to {celsius}"

    return agent


def converse(tracer_provider: TracerProvider) -> None:
    """Have a conversation of two turns."""
    agent = thermostat_agent(tracer_provider)

    async def conversation() -> None:
        first = await agent.run("How warm is it in the kitchen?", conversation_id="home-42")
        await agent.run(
            "Make it 21.5, and the hall 18.", message_history=first.all_messages(), conversation_id="home-42"
        )

    asyncio.run(conversation())


def run() -> Telemetry:
    """Have the conversation and return what was recorded of it."""
    telemetry = scored_telemetry()
    converse(telemetry.tracer_provider)
    telemetry.tracer_provider.shutdown()
    return telemetry
