"""`goldspan doctor`: what is recognised, what joins, and what to do, for traces, settings and the environment."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from goldspan.collector_processor.cli import doctor
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.protocol import built_in_advice
from rigs.command_line import Run, runner
from rigs.trace_requests import turn_request, write_lines

GOLDENS = """
golden_set: weather
goldens:
  - {session: s-1, calls: [{name: get_weather, args: {city: Paris}}]}
  - {session: s-2, calls: [{name: get_weather, args: {city: Lyon}}]}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in os.environ:
        if name.startswith(("OTEL_", "GOLDSPAN_")):
            monkeypatch.delenv(name)
    (tmp_path / "goldens.yaml").write_text(GOLDENS, "utf-8")
    return runner(tmp_path, monkeypatch, "doctor")


def traces(folder: Path, *sessions: str, captured: bool = True) -> Path:
    arguments = {"city": "Paris"} if captured else None
    return write_lines(folder / "traces.jsonl", *(turn_request(one, ("get_weather", arguments)) for one in sessions))


def lines(text: str) -> dict[str, str]:
    """The rows by their label, each with its mark."""
    found = re.findall(r"^([✓✗·]) (\S+(?: \S+)?) {2,}(.*(?:\n {18}.*)*)", text, re.MULTILINE)
    return {label: f"{mark} {' '.join(said.split())}" for mark, label, said in found}


def test_traces_whose_goldens_all_join_are_right(run: Run, tmp_path: Path) -> None:
    result = run(traces(tmp_path, "s-1", "s-2"), "goldens.yaml")
    rows = lines(result.stdout)
    assert rows["recognised"] == "✓ 4 of 4 spans: otel_genai 4"
    assert rows["goldens"] == "✓ 2 of 2 join a session of these traces: s-1, s-2"
    assert "Nothing is missing." in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize("how", ["positional", "option", "variable"])
def test_a_session_that_no_golden_is_for_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    seen = traces(tmp_path, "trip-2")
    if how == "variable":
        monkeypatch.setenv("GOLDSPAN_GOLDENS", "goldens.yaml")
    named = {"positional": ["goldens.yaml"], "option": ["--goldens", "goldens.yaml"], "variable": []}[how]
    result = run(seen, *named)
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "0 of 2 goldens seen; sessions seen: trip-2 (from gen_ai.conversation.id)" in said
    assert "The goldens are for: session s-1, session s-2" in said


def test_what_must_be_switched_on_comes_from_inspection(run: Run, tmp_path: Path) -> None:
    result = run(traces(tmp_path, "s-1", captured=False))
    assert result.exit_code == 1
    assert "arguments not captured in 1 of 1 calls (otel_genai)" in result.stdout


def test_traces_without_an_agent_are_told(run: Run, tmp_path: Path) -> None:
    request = turn_request(None)
    request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = []
    result = run(write_lines(tmp_path / "traces.jsonl", request))
    assert lines(result.stdout)["recognised"] == "✗ no span of an agent, a model or a tool"
    assert result.exit_code == 1


def test_json_has_the_same(run: Run, tmp_path: Path) -> None:
    document = json.loads(run(traces(tmp_path, "trip-2"), "goldens.yaml", "--format", "json").stdout)
    assert [row["label"] for row in document["rows"] if row["right"] is False] == ["goldens"]
    assert "trip-2" in document["advice"][0]["seen"]
    assert document["problems"] == []


@pytest.mark.parametrize("name", ["nowhere.json", "nowhere.yaml"])
def test_a_file_that_is_not_there_is_wrong_usage(run: Run, name: str) -> None:
    result = run(name)
    assert result.exit_code == 2
    assert name in result.stderr


# The environment.


def test_an_environment_in_which_nothing_is_set_up(run: Run) -> None:
    result = run()
    rows = lines(result.stdout)
    assert rows["exporter"] == "✗ the default: it does not score"
    assert rows["goldens"] == "· none: sessions are scored by metrics that need none"
    assert "Set OTEL_TRACES_EXPORTER=tool_parameter_match" in result.stdout
    assert result.exit_code == 1


def find_anything(name: str) -> str:
    """Stands for `find_spec` where everything is installed."""
    return name


def test_an_environment_that_is_set_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "tool_parameter_match")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
    monkeypatch.setenv("GOLDSPAN_GOLDENS", "goldens.yaml")
    monkeypatch.setenv("GOLDSPAN_HOLD_TIMEOUT", "5")
    monkeypatch.setenv("GOLDSPAN_SESSION", "s-1")
    monkeypatch.setattr(doctor, "find_spec", find_anything)
    result = run()
    rows = lines(result.stdout)
    assert rows["exporter"] == "✓ tool_parameter_match, from OTEL_TRACES_EXPORTER"
    assert rows["goldens"] == "✓ 2 goldens (weather), for session s-1, session s-2"
    assert rows["options"] == "✓ GOLDSPAN_HOLD_TIMEOUT"
    assert rows["sends by"] == "✓ otlp to http://collector:4317"
    assert rows["session"] == "✓ s-1, from GOLDSPAN_SESSION"


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "a misspelt variable": ({"GOLDSPAN_GOLDEN": "x"}, "Did you mean GOLDSPAN_GOLDENS?"),
    "a value": ({"GOLDSPAN_HOLD": "maybe"}, "GOLDSPAN_HOLD: found 'maybe', expected on or off"),
    "goldens that are not there": ({"GOLDSPAN_GOLDENS": "gone.yaml"}, "gone.yaml"),
    "a sampler": ({"OTEL_TRACES_SAMPLER": "traceidratio"}, "OTEL_TRACES_SAMPLER=always_on"),
    "a length limit": ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "64"}, "raise or remove it"),
    "an exporter": ({"GOLDSPAN_EXPORTER": "otlpp"}, "Expected one of "),
    "a disabled SDK": ({"OTEL_SDK_DISABLED": "true"}, "No span is written"),
}


@pytest.mark.parametrize(("variables", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_the_environment_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = run()
    assert said in " ".join(result.stdout.split())
    assert result.exit_code == 1


def test_variables_of_the_gateway_are_no_mistakes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOLDSPAN_EXPORT_ENDPOINT", "http://localhost:4320")
    assert lines(run().stdout)["variable"] == "· GOLDSPAN_EXPORT_ENDPOINT is the gateway's"


def test_every_known_instrumentation_is_read_by_a_dialect_that_there_is() -> None:
    dialects = {dialect.name for dialect in DialectRegistry().dialects}
    written = {dialect for dialect, advice in built_in_advice().items() for one in advice if one.distributions}
    assert "openllmetry" in written
    assert written <= dialects


# The settings of a gateway.

SETTINGS = """
goldens: [goldens.yaml]
receivers: {http: "127.0.0.1:4318", grpc: null, forward_headers: [x-tenant], tokens: [{env: TOKEN}]}
export: {endpoint: "http://localhost:4320"}
journal: {folder: journal}
"""


def test_settings_are_read_and_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t" * 32)
    (tmp_path / "goldspan.yaml").write_text(SETTINGS, "utf-8")
    result = run("goldspan.yaml")
    rows = lines(result.stdout)
    assert rows["receives"] == "✓ OTLP at http 127.0.0.1:4318, with one of 1 token"
    assert rows["tenants"] == "✓ each set of values of x-tenant"
    assert rows["goldens"] == "✓ 2 goldens (weather), for session s-1, session s-2"
    assert rows["sends"] == "✓ traces, logs, metrics to http://localhost:4320 by http/protobuf"
    assert result.exit_code == 0


def test_the_goldens_of_settings_are_held_against_traces(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t" * 32)
    (tmp_path / "goldspan.yaml").write_text(SETTINGS, "utf-8")
    assert "✗ goldens         1 of 2 join" in run("goldspan.yaml", traces(tmp_path, "s-1")).stdout


def test_settings_that_cannot_be_used_are_as_wrong_as_for_serve(run: Run, tmp_path: Path) -> None:
    (tmp_path / "goldspan.yaml").write_text(SETTINGS.replace("endpoint", "endpoimt"), "utf-8")
    result = run("goldspan.yaml")
    assert result.exit_code == 2
    assert "did you mean `endpoint`?" in result.stderr
