"""Each option of the in-process door does what its page says."""

from __future__ import annotations

import gc
import inspect
import re
import runpy
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from goldspan.collector_processor import ToolParameterMatchExporter, ToolParameterMatchSpanProcessor
from goldspan.collector_processor.in_process.span_exporter import ExporterOptions
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import SettingsError
from goldspan.scoring.goldens import ExpectedCall, Golden, load_goldens
from rigs.in_process_rig import Inner, MakeRig, Rig
from rigs.repository import ROOT
from rigs.scripted_agent import PARIS, ROME, golden, golden_set, run_turn
from rigs.waiting import until

OF_AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "wanted"}
OF_TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": PARIS[0]}
YAML = """
golden_set: weather
goldens:
  - session: wanted
    turns: [{calls: [{name: get_weather, args: {city: paris}}]}]
"""


def levels(rig: Rig) -> list[object]:
    return [record.attributes["tool_parameter_match.level"] for record in rig.events()]


@pytest.fixture
def golden_file(tmp_path: Path) -> Path:
    file = tmp_path / "goldens.yaml"
    file.write_text(YAML)
    return file


def sources(file: Path) -> dict[str, Any]:
    return {
        "a path": file,
        "its text": str(file),
        "a directory": file.parent,
        "several": [file],
        "an index": load_goldens(file),
        "a set": load_goldens(file).sets[0],
        "a mapping": {
            "golden_set": "weather",
            "goldens": [{"session": "wanted", "turns": [{"calls": [{"name": "get_weather"}]}]}],
        },
    }


@pytest.mark.parametrize("kind", ["a path", "its text", "a directory", "several", "an index", "a set", "a mapping"])
def test_goldens_come_from_wherever_they_are(make_rig: MakeRig, golden_file: Path, kind: str) -> None:
    rig = make_rig(goldens=sources(golden_file)[kind])
    rig.turn(calls=[PARIS])
    rig.door.force_flush()
    assert "call" in levels(rig)


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collects: bool, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(gc.enable)
    (gc.enable if collects else gc.disable)()
    ToolParameterMatchExporter(Inner()).shutdown()
    assert gc.isenabled() is collects


def test_a_criterion_is_what_a_file_inherits(make_rig: MakeRig, golden_file: Path) -> None:
    rig = make_rig(goldens=golden_file, criterion=Criterion(default_strategy="casefold_exact"))
    rig.turn(calls=[PARIS])
    rig.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 1.0


@pytest.mark.parametrize("include", [False, True])
def test_values_are_in_explanations_only_where_asked_for(make_rig: MakeRig, include: bool) -> None:
    rig = make_rig(include_values=include)
    rig.turn(calls=[ROME])
    rig.door.force_flush()
    explanations = " ".join(str(record.attributes["gen_ai.evaluation.explanation"]) for record in rig.events())
    assert "city" in explanations
    assert ("Rome" in explanations) is include


def test_agents_are_named_in_metrics_only_where_allowed(make_rig: MakeRig) -> None:
    named, unnamed = make_rig(agent_names=["weather"]), make_rig()
    for rig, expected in ((named, {"weather"}), (unnamed, {None})):
        rig.turn()
        rig.door.force_flush()
        points = rig.points("tool_parameter_match.argument_mismatches")
        assert {point.attributes.get("gen_ai.agent.name") for point in points} == expected


def test_a_session_that_went_quiet_is_judged_as_a_whole(make_rig: MakeRig) -> None:
    rig = make_rig(run_idle=1.0, goldens=golden_set(golden("wanted", [ROME], [PARIS])))
    rig.turn()
    until(lambda: "turn" in levels(rig))
    assert "session" not in levels(rig)
    until(lambda: "session" in levels(rig))
    until(lambda: rig.points("tool_parameter_match.missing") != [])  # recorded after the events
    [missing] = rig.points("tool_parameter_match.missing")
    assert missing.value == 1


def test_a_golden_for_the_whole_session_is_judged_when_that_is_over(make_rig: MakeRig) -> None:
    whole = Golden("wanted", calls=(ExpectedCall(*PARIS), ExpectedCall(*ROME)), golden_set="weather@3")
    rig = make_rig(run_idle=1.0, goldens=golden_set(whole))
    rig.turn()
    until(lambda: len(rig.inner.spans) == 4)
    assert (rig.events(), rig.score("execute_tool get_weather 0")) == ([], None)
    until(lambda: "session" in levels(rig))
    until(lambda: len(rig.points("tool_parameter_match.score")) >= 2)  # recorded after the events


def test_a_flush_in_the_middle_misses_nothing_and_shutdown_does(make_rig: MakeRig) -> None:
    rig = make_rig(goldens=golden_set(golden("wanted", [ROME], [PARIS])))
    rig.turn()
    rig.door.force_flush()
    assert sorted(levels(rig), key=str) == ["call", "turn"]
    rig.door.shutdown()
    assert sorted(levels(rig), key=str) == ["call", "call", "session", "turn", "turn"]
    assert rig.points("tool_parameter_match.missing")[0].value == 1


def test_a_gap_makes_another_run(make_rig: MakeRig) -> None:
    runs: list[set[object]] = []
    for gap in (3600.0, 0.05):
        rig = make_rig(session_gap=gap, goldens=golden_set(golden("wanted", [ROME])))
        run_turn(rig.tracer, "wanted", [ROME])
        time.sleep(0.2)
        run_turn(rig.tracer, "wanted", [ROME])
        rig.door.shutdown()
        runs.append({record.attributes["tool_parameter_match.run"] for record in rig.events()})
    assert [len(found) for found in runs] == [1, 2]


def test_the_page_lists_every_option_with_its_default() -> None:
    page = runpy.run_path(str(ROOT / "docs/generate_options.py"))["page"]()
    listed = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+?)`? \| \S", page, re.MULTILINE))
    parameters = inspect.signature(ToolParameterMatchExporter.__init__).parameters
    options = [name for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]
    words = {inspect.Parameter.empty: "required", None: "none", (): "none"}
    assert list(listed) == options
    for name, shown in listed.items():
        default = parameters[name].default
        expected = "the global one" if name.endswith("_provider") else words.get(default, default)
        assert shown == (f"{expected:g}" if isinstance(expected, float) else str(expected)), name


def test_the_processor_takes_the_same_options() -> None:
    parameters = inspect.signature(ToolParameterMatchExporter.__init__).parameters
    options = {name for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    assert ExporterOptions.__optional_keys__ == options - {"goldens"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: BatchSpanProcessor(Inner()), "found a BatchSpanProcessor, expected the exporter that it was given"),
        (lambda: Inner, r"found the class Inner, expected an exporter: call it, Inner\(\)"),
        (lambda: None, "found None, expected an exporter such as"),
        (lambda: 5, "found a int, expected an exporter such as"),
    ],
)
@pytest.mark.parametrize("door", [ToolParameterMatchExporter, ToolParameterMatchSpanProcessor])
def test_what_is_no_exporter_is_refused(door: Any, wrong: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=f"exporter: {said}"):
        door(wrong())


@pytest.mark.parametrize("door", [ToolParameterMatchExporter, ToolParameterMatchSpanProcessor])
def test_a_wrong_name_of_an_option_is_answered_with_the_right_one(door: Any) -> None:
    wrong: dict[str, Any] = {"golden": "goldens.yaml"}
    with pytest.raises(SettingsError, match=r"golden: unknown option; did you mean `goldens`\?"):
        door(Inner(), **wrong)


def test_content_capture_that_is_off_is_said_once(make_rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    rig = make_rig(goldens=golden_set(golden("wanted", [PARIS], [PARIS])))
    for _ in range(2):
        with rig.tracer.start_as_current_span("turn", attributes=OF_AGENT):
            rig.tracer.start_span("tool", attributes=OF_TOOL).end()
        rig.door.force_flush()
    said = [record.getMessage() for record in caplog.records if "CAPTURE_MESSAGE_CONTENT" in record.getMessage()]
    assert len(said) == 1
    assert "switch the capture of content on" in said[0]
