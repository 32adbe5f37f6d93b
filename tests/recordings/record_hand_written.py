# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "opentelemetry-exporter-otlp-proto-common==1.45.2",
#   "opentelemetry-sdk==1.45.2",
# ]
# ///
"""A loop without any framework, whose author writes spans with the OpenTelemetry API, each time by other names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import scenario
from opentelemetry import trace
from recorder import Recorder, main, recording
from scenario import Call, Turn

Attributes = Mapping[str, Any]
Written = Callable[[Call], tuple[str, Attributes]]
"""A tool span's name and attributes."""


def loop(
    recorder: Recorder, written: Written, turn_attributes: Attributes, turns: Iterable[Turn] = scenario.STANDARD
) -> None:
    tracer = recorder.trace().get_tracer("weather_app")
    for turn in turns:
        with tracer.start_as_current_span(
            "handle message", attributes={"session.id": scenario.SESSION} | turn_attributes
        ):
            for step in turn.steps:
                for call in () if isinstance(step, str) else step:
                    run(tracer, call, written)


def run(tracer: trace.Tracer, call: Call, written: Written) -> None:
    name, attributes = written(call)
    with tracer.start_as_current_span(name, attributes=attributes) as span:
        try:
            result = scenario.run_tool(call.name, call.arguments)
        except scenario.NoTable as error:
            span.record_exception(error)
            span.set_status(trace.StatusCode.ERROR, str(error))
        else:
            span.set_attribute("output", json.dumps(result))
            # What a tool does inside is no tool.
            with tracer.start_as_current_span("POST", attributes={"http.request.method": "POST", "tool.name": "curl"}):
                pass


def by_attribute(call: Call) -> tuple[str, Attributes]:
    return "run", {"tool.name": call.name, "tool.arguments": call.json, "tool.call_id": call.id}


def by_span_name(call: Call) -> tuple[str, Attributes]:
    return f"tool: {call.name}", {"input": call.json}


def by_kind(call: Call) -> tuple[str, Attributes]:
    return call.name, {"span.type": "tool", "input": call.json}


def by_kind_without_content(call: Call) -> tuple[str, Attributes]:
    return call.name, {"span.type": "tool"}


def as_function(call: Call) -> tuple[str, Attributes]:
    return "function_call", {"function.name": call.name, "function.arguments": call.json}


for name, written, turn_attributes in (
    ("hand-written-tool-name", by_attribute, {}),
    ("hand-written-span-name", by_span_name, {}),
    ("hand-written-kind", by_kind, {"span.type": "agent"}),
    ("hand-written-kind-nocontent", by_kind_without_content, {"span.type": "agent"}),
    ("hand-written-function", as_function, {}),
):
    recording(name)(
        lambda recorder, written=written, turn_attributes=turn_attributes: loop(recorder, written, turn_attributes)
    )


main(__file__)
