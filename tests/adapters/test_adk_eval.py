"""`adk eval` itself, with an agent whose model is a script: what it prints and how it exits."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rigs.adk_invocations import Said, eval_set, needs_adk, write_json
from rigs.markdown_pages import blocks

# ADK and what it brings warn of their own experiments and deprecations.
pytestmark = [needs_adk, pytest.mark.filterwarnings("ignore")]

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/adk.md"
PARIS, BOTH, HEATING = "What's the weather in Paris?", "And in Lyon and Nice?", "Set the heating to 21.6"

RIGHT: Said = [
    (PARIS, [("get_weather", {"city": "Paris", "unit": "celsius"})]),
    (BOTH, [("get_weather", {"city": "Nice", "unit": "celsius"}), ("get_weather", {"city": "Lyon"})]),
]
PARTLY: Said = [(PARIS, [("get_weather", {"city": "Paris", "unit": "fahrenheit"})])]
WRONG: Said = [(PARIS, [("book_table", {"people": 2})])]
NEARLY: Said = [(HEATING, [("set_temperature", {"celsius": 21.5})])]
NOTHING: Said = [(PARIS, [])]


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "weather_agent", tmp_path / "weather_agent"))


class Ran(NamedTuple):
    """What a command printed and logged, and its exit code."""

    code: int
    printed: str
    logged: str


AdkEval = Callable[..., Ran]


def process(*command: str | Path, folder: Path) -> Ran:
    """Run Python in a process of its own."""
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def command_line(agent: Path, cases: dict[str, Said], criteria: dict[str, Any], **config: Any) -> list[str]:
    goldens = write_json(agent / "weather.evalset.json", eval_set(cases))
    write_json(agent / "test_config.json", {"criteria": criteria, **config})
    return ["eval", str(agent), str(goldens), "--print_detailed_results"]


@pytest.fixture
def adk_eval(
    agent: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> AdkEval:
    """ADK's command inside this process: importing all that google-adk brings takes many seconds."""
    monkeypatch.chdir(agent.parent)

    def run(cases: dict[str, Said], criteria: dict[str, Any], **config: Any) -> Ran:
        from google.adk.cli import main  # noqa: PLC0415 - google-adk is not there in every environment

        with pytest.raises(SystemExit) as exited:
            main(command_line(agent, cases, criteria, **config))
        return Ran(int(exited.value.code or 0), capsys.readouterr().out, caplog.text)

    return run


def verdicts(printed: str, name: str = "tool_parameter_match") -> dict[str, str]:
    """The line of the metric for each eval case."""
    return dict(re.findall(rf"^Eval Id: (\S+)\n(?:.*\n)*?Metric: {name}, (.*)$", printed, re.MULTILINE))


def test_a_criterion_by_name_from_the_command_line(agent: Path) -> None:
    arguments = command_line(agent, {"right": RIGHT, "partly": PARTLY, "wrong": WRONG}, {"tool_parameter_match": 0.8})
    ran = process("-m", "google.adk.cli", *arguments, folder=agent.parent)
    assert verdicts(ran.printed) == {
        "right": "Status: PASSED, Score: 1.0, Threshold: 0.8",
        "partly": "Status: FAILED, Score: 0.5, Threshold: 0.8",
        "wrong": "Status: FAILED, Score: 0.0, Threshold: 0.8",
    }, ran.logged
    assert "Tests passed: 1\n  Tests failed: 2" in ran.printed
    assert ran.code == 1


def test_a_right_agent_passes(adk_eval: AdkEval) -> None:
    ran = adk_eval({"right": RIGHT}, {"tool_parameter_match": 0.8})
    assert verdicts(ran.printed) == {"right": "Status: PASSED, Score: 1.0, Threshold: 0.8"}, ran.logged
    assert ran.code == 0


def test_what_was_found_is_printed(adk_eval: AdkEval) -> None:
    printed = adk_eval({"partly": PARTLY}, {"tool_parameter_match": 0.8}).printed
    reasoning = "turn 1: get_weather.unit (wrong); 1 of 1 turns evaluated; below the threshold: turn 1"
    assert f"Rubric: session, Score: 0.5, Reasoning: {reasoning}" in printed
    assert 'mismatched: unit (expected "fahrenheit", found "celsius")' in " ".join(printed.split())


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        ({"threshold": 0.5}, PARTLY),
        ({"threshold": 0.9, "tools": {"get_weather": {"args": {"unit": {"weight": 0.1}}}}}, PARTLY),
        ({"threshold": 1.0, "defaultStrategy": "numeric", "numericTolerance": 0.1}, NEARLY),
        ({"threshold": 1.0, "default_strategy": "numeric", "numeric_tolerance": 0.1}, NEARLY),
    ],
    ids=["threshold", "tools", "camelCase", "snake_case"],
)
def test_the_criterion_of_the_config_judges(adk_eval: AdkEval, criterion: dict[str, Any], said: Said) -> None:
    ran = adk_eval({"case": said}, {"tool_parameter_match": criterion})
    assert verdicts(ran.printed)["case"].startswith("Status: PASSED"), ran.printed + ran.logged
    assert ran.code == 0
    assert adk_eval({"case": said}, {"tool_parameter_match": 1.0}).code == 1


def test_an_unknown_field_is_named_and_nothing_passes(adk_eval: AdkEval) -> None:
    ran = adk_eval({"right": RIGHT}, {"tool_parameter_match": {"threshold": 0.8, "machMode": "name_only"}})
    assert verdicts(ran.printed) == {"right": "Status: NOT_EVALUATED, Score: None, Threshold: 0.8"}
    assert "criteria.tool_parameter_match.machMode: unknown field; did you mean `match_mode`" in ran.logged
    assert ran.code == 1


def test_a_case_that_expects_nothing_is_not_evaluated(adk_eval: AdkEval) -> None:
    ran = adk_eval({"nothing": NOTHING}, {"tool_parameter_match": 0.8})
    assert verdicts(ran.printed) == {"nothing": "Status: NOT_EVALUATED, Score: None, Threshold: 0.8"}
    assert "Reasoning: not evaluated: nothing is expected" in ran.printed
    assert ran.code == 1


def test_a_custom_metric_does_the_same(agent: Path, adk_eval: AdkEval) -> None:
    lines = (agent / "agent.py").read_text("utf-8").splitlines()
    without = [line for line in lines if not line.startswith("import goldspan")]
    assert len(without) < len(lines)
    (agent / "agent.py").write_text("\n".join(without), "utf-8")
    function = "goldspan.collector_processor.adapters.adk.tool_parameter_match"
    ran = adk_eval(
        {"right": RIGHT, "partly": PARTLY},
        {"arguments": {"threshold": 0.5, "defaultStrategy": "casefold_exact"}},
        custom_metrics={"arguments": {"code_config": {"name": function}}},
    )
    assert verdicts(ran.printed, "arguments") == {
        "right": "Status: PASSED, Score: 1.0, Threshold: 0.5",
        "partly": "Status: PASSED, Score: 0.5, Threshold: 0.5",
    }, ran.logged
    assert ran.code == 0


def test_agent_evaluator_in_a_test(agent: Path) -> None:
    folder = agent.parent
    test = next(block.text for block in blocks(PAGE.read_text("utf-8")) if "AgentEvaluator" in block.text)
    for name, said in {"right": RIGHT, "partly": PARTLY}.items():
        write_json(folder / f"{name}.test.json", eval_set({"case": said}))
        (folder / f"test_{name}.py").write_text(test.replace("weather.test.json", f"{name}.test.json"), "utf-8")
    write_json(folder / "test_config.json", {"criteria": {"tool_parameter_match": {"threshold": 0.8}}})
    tests = [folder / "test_right.py", folder / "test_partly.py"]
    ran = process("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, *tests, folder=folder)
    assert "1 failed, 1 passed" in ran.printed, ran.printed + ran.logged
    assert "tool_parameter_match for weather_agent Failed. Expected 0.8, but got 0.5." in ran.printed


def test_the_dev_server_lists_it(agent: Path) -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415 - google-adk is not there in every environment
    from google.adk.cli.fast_api import get_fast_api_app  # noqa: PLC0415

    import goldspan.collector_processor.adapters.adk  # noqa: F401, PLC0415 - as the agent's module does

    client = TestClient(get_fast_api_app(agents_dir=str(agent.parent), web=True))
    metrics = client.get("/dev/apps/weather_agent/metrics-info").json()["metricsInfo"]
    listed = {metric["metricName"]: metric for metric in metrics}["tool_parameter_match"]
    interval = listed["metricValueInfo"]["interval"]
    assert (interval["minValue"], interval["maxValue"]) == (0.0, 1.0)


def test_the_page_shows_criteria_that_work(adk_eval: AdkEval) -> None:
    shown = [json.loads(block.text) for block in blocks(PAGE.read_text("utf-8")) if block.language == "json"]
    assert len(shown) == 2
    for config in shown:
        (name,) = config["criteria"]
        ran = adk_eval({"right": RIGHT, "partly": PARTLY}, **config)
        assert verdicts(ran.printed, name) == {
            "right": "Status: PASSED, Score: 1.0, Threshold: 0.8",
            "partly": "Status: FAILED, Score: 0.5, Threshold: 0.8",
        }, ran.logged
