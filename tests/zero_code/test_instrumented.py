"""An agent whose code knows nothing of goldspan, run by the real `opentelemetry-instrument`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rigs.otlp_receiver import OtlpReceiver, attributes, otlp_receiver

INSTRUMENT = Path(sys.executable).with_name("opentelemetry-instrument")
pytestmark = pytest.mark.skipif(
    not INSTRUMENT.exists(), reason="opentelemetry-distro is not in this environment (make test-zero-code)"
)

AGENT = """
from opentelemetry import trace
from goldspan.collector_processor import session_scope

tracer = trace.get_tracer("agent")
call = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.call.arguments": '{"city": "Paris", "unit": "fahrenheit"}',
}
def turn():
    with tracer.start_as_current_span("turn", attributes={"gen_ai.operation.name": "invoke_agent"}):
        with tracer.start_as_current_span("call", attributes=call):
            pass
"""
GOLDENS = """
golden_set: weather-agent
goldens:
  - session: sess-1
    turns:
      - calls:
          - {name: get_weather, args: {city: Paris, unit: celsius}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    return tmp_path


def run(folder: Path, last_line: str = "turn()", **variables: str) -> str:
    """Run the agent and return what it wrote to its standard error."""
    (folder / "agent.py").write_text(AGENT + last_line, "utf-8")
    mine = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "GOLDSPAN_"))}
    done = subprocess.run(
        [INSTRUMENT, sys.executable, "agent.py"],
        cwd=folder,
        env=mine | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


def exporting(receiver: OtlpReceiver, **variables: str) -> dict[str, str]:
    return {
        "OTEL_TRACES_EXPORTER": "tool_parameter_match",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "GOLDSPAN_GOLDENS": "goldens.yaml",
        **variables,
    }


def score(span: Any, key: str = "tool_parameter_match.score") -> Any:
    return attributes(span).get(key)


def test_a_short_script_loses_nothing(folder: Path) -> None:
    with otlp_receiver() as receiver:
        errors = run(folder, **exporting(receiver, GOLDSPAN_SESSION="sess-1"))
    spans = receiver.spans()
    assert (score(spans["call"]), score(spans["turn"], "tool_parameter_match.turn.score")) == (0.5, 0.5)
    levels = sorted(attributes(event)["tool_parameter_match.level"] for event in receiver.events())
    assert levels == ["call", "session", "turn"]
    assert sum(point.count for point in receiver.points("tool_parameter_match.score")) == 3
    assert errors == ""


def test_without_goldens_metrics_that_need_none_score_it(folder: Path) -> None:
    tools = [
        {"name": "get_weather", "parameters": {"properties": {"city": {}, "unit": {"enum": ["celsius", "kelvin"]}}}}
    ]
    (folder / "tools.json").write_text(json.dumps(tools), "utf-8")
    with otlp_receiver() as receiver:
        errors = run(
            folder,
            **exporting(
                receiver, GOLDSPAN_GOLDENS="", GOLDSPAN_TOOLS="tools.json", GOLDSPAN_SAMPLE="1", GOLDSPAN_EMIT="all"
            ),
        )
    assert score(receiver.spans()["call"], "tool_parameter_schema.score") == 0.5
    assert {attributes(event)["gen_ai.evaluation.name"] for event in receiver.events()} == {
        "tool_parameter_schema",
        "tool_parameter_grounding",
        "tool_call_repetition",
    }
    assert errors == ""


def test_a_session_scope_is_stamped(folder: Path) -> None:
    with otlp_receiver() as receiver:
        run(folder, "with session_scope('sess-1'):\n    turn()\nturn()\n", **exporting(receiver))
    calls = [span for span in receiver.all_spans() if span.name == "call"]
    assert sorted((attributes(one).get("goldspan.session.id"), score(one)) for one in calls if score(one)) == [
        ("sess-1", 0.5)
    ]
    assert len(calls) == 2


def test_options_are_variables(folder: Path) -> None:
    with otlp_receiver() as receiver:
        run(folder, **exporting(receiver, GOLDSPAN_SESSION="sess-1", GOLDSPAN_HOLD="off", GOLDSPAN_INCLUDE_VALUES="on"))
    assert score(receiver.spans()["call"]) is None
    assert any("fahrenheit" in attributes(event)["gen_ai.evaluation.explanation"] for event in receiver.events())


def test_a_configuration_file_sets_it_up(folder: Path) -> None:
    with otlp_receiver() as receiver:
        (folder / "otel.yaml").write_text(
            f"""
            file_format: "1.0"
            tracer_provider:
              processors:
                - batch:
                    exporter:
                      tool_parameter_match:
                        goldens: goldens.yaml
                        exporter: {{otlp_proto_http: {{endpoint: "{receiver.endpoint}/v1/traces"}}}}
            """,
            "utf-8",
        )
        run(folder, OTEL_CONFIG_FILE="otel.yaml", GOLDSPAN_SESSION="sess-1")
    assert score(receiver.spans()["call"]) == 0.5


def test_two_routes_are_noticed(folder: Path) -> None:
    with otlp_receiver() as receiver:
        errors = run(folder, **exporting(receiver, OTEL_TRACES_EXPORTER="otlp,tool_parameter_match"))
    assert "sends every span twice" in errors
    assert "List only tool_parameter_match" in errors


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GOLDSPAN_GOLDENS": "", "GOLDSPAN_METRICS": "trajectory_f1"}, "no goldens, and each metric chosen needs one"),
        ({"GOLDSPAN_SAMPLE": "0"}, "sample: found 0.0, expected a number above 0 and at most 1"),
        ({"GOLDSPAN_TOOLS": "nowhere.json"}, "nowhere.json"),
        ({"GOLDSPAN_GOLDENS": "nowhere.yaml"}, "nowhere.yaml"),
        ({"GOLDSPAN_SETTLE": "soon"}, "GOLDSPAN_SETTLE: found 'soon', expected seconds"),
        ({"GOLDSPAN_SETTLE": "0"}, "settle: found 0.0, expected a number above 0"),
        ({"GOLDSPAN_EXPORTER": "olpt"}, "exporter: found 'olpt', expected one of console, goldspan_file, otlp"),
        ({"GOLDSPAN_EXPORTER": "tool_parameter_match"}, "which is this one"),
        ({"GOLDSPAN_CRITERION": "nowhere.yaml"}, "nowhere.yaml"),
    ],
)
def test_the_agent_starts_and_its_spans_are_exported_whatever_is_set(
    folder: Path, variables: dict[str, str], said: str
) -> None:
    with otlp_receiver() as receiver:
        errors = run(folder, **exporting(receiver, **variables))
    assert said in errors
    assert sorted(receiver.spans()) == ["call", "turn"]
    assert "Traceback" not in errors
