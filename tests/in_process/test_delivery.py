"""What a backend receives by OTLP/HTTP: spans, events and points of a process that just ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from rigs.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

TESTS = Path(__file__).resolve().parents[1]

GOLDENS = """
golden_set: weather
version: "3"
goldens:
  - session: sess-1
    turns:
      - calls:
          - {name: get_weather, args: {city: Paris, unit: celsius}}
          - {name: convert, args: {value: 21.5}}
"""

SCRIPT = """
from opentelemetry import metrics, trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from rigs.scripted_agent import PARIS, ROME, run_turn

resource = Resource({"service.name": "shop", "deployment.environment.name": "test"})

def traces(**options):
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter()
    provider.add_span_processor(ToolParameterMatchSpanProcessor(exporter, goldens="goldens.yaml", **options))
    trace.set_tracer_provider(provider)

def logs():
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    set_logger_provider(provider)

def points():
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider([reader], resource=resource))
"""


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


def run(script: str, folder: Path, receiver: OtlpReceiver) -> subprocess.CompletedProcess[str]:
    (folder / "goldens.yaml").write_text(GOLDENS)
    (folder / "agent.py").write_text(SCRIPT + textwrap.dedent(script))
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "agent.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("order", ["traces(); logs(); points()", "points(); logs(); traces()"])
def test_a_script_that_just_ends_delivers_its_last_turn(tmp_path: Path, receiver: OtlpReceiver, order: str) -> None:
    done = run(f"{order}\nrun_turn(trace.get_tracer('agent'), 'sess-1', [ROME])\n", tmp_path, receiver)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    spans = receiver.spans()
    assert set(spans) == {"chat test-model", "GET 0", "execute_tool get_weather 0", "invoke_agent weather"}
    tool, root = spans["execute_tool get_weather 0"], spans["invoke_agent weather"]
    assert attributes(tool)["tool_parameter_match.score"] == 0.5
    assert attributes(tool)["tool_parameter_match.mismatched_arguments"] == ["city"]
    assert attributes(tool)["gen_ai.tool.call.id"] == "call-0"
    assert attributes(root)["tool_parameter_match.turn.score"] == 0.25
    assert attributes(root)["tool_parameter_match.turn.missing_calls"] == 1

    events = {
        (attributes(event)["tool_parameter_match.level"], attributes(event).get("gen_ai.tool.name")): event
        for event in receiver.events()
    }
    assert set(events) == {("call", "get_weather"), ("call", "convert"), ("turn", None), ("session", None)}
    assert {event.event_name for event in events.values()} == {"gen_ai.evaluation.result"}
    for key, span in {("call", "get_weather"): tool, ("call", "convert"): root, ("turn", None): root}.items():
        assert (events[key].trace_id, events[key].span_id) == (span.trace_id, span.span_id)
    assert events["call", "get_weather"].time_unix_nano == tool.end_time_unix_nano
    assert attributes(events["call", "get_weather"])["gen_ai.conversation.id"] == "sess-1"

    [point] = [
        point
        for point in receiver.points("tool_parameter_match.score")
        if attributes(point).get("gen_ai.tool.name") == "get_weather"
    ]
    assert list(point.explicit_bounds) == [0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1]
    assert attributes(point)["service.name"] == "shop"
    assert attributes(point)["deployment.environment.name"] == "test"
    [exemplar] = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (tool.trace_id, tool.span_id)
    [missing] = receiver.points("tool_parameter_match.missing")
    assert (missing.as_int, attributes(missing)["gen_ai.tool.name"]) == (1, "convert")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_process_leaves_its_parent_s_spans_to_the_parent(tmp_path: Path, receiver: OtlpReceiver) -> None:
    script = """
    import os, time, warnings
    traces(schedule_delay_millis=20, settle=60.0); logs(); points()
    tracer = trace.get_tracer('agent')
    run_turn(tracer, 'sess-1', [PARIS], name='in the parent')
    time.sleep(2)
    warnings.simplefilter('ignore')
    child = os.fork()
    if child == 0:
        run_turn(tracer, 'sess-1', [ROME], name='in the child')
    else:
        assert os.waitpid(child, 0)[1] == 0
    """
    done = run(script, tmp_path, receiver)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = [span.name for span in receiver.all_spans()]
    assert sorted(names) == sorted(
        ["in the parent", "in the child", *2 * ["chat test-model", "GET 0", "execute_tool get_weather 0"]]
    )
    turns = {span.name: attributes(span) for span in receiver.all_spans() if span.name.startswith("in the")}
    assert turns["in the parent"]["tool_parameter_match.turn.score"] == 0.5
    assert turns["in the child"]["tool_parameter_match.turn.score"] == 0.25
