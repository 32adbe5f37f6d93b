"""The engine and the goldens are loaded when the first trace begins, and nobody notices but the clock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor import ToolParameterMatchExporter
from goldspan.collector_processor.in_process import setup
from goldspan.collector_processor.in_process.made_on_use import MadeOnUse
from rigs.in_process_rig import Inner, MakeRig, Rig
from rigs.scripted_agent import ROME
from rigs.waiting import until

TESTS = Path(__file__).resolve().parents[1]
GOLDENS = "golden_set: weather\ngoldens: [{session: wanted, turns: [{calls: [{name: get_weather}]}]}]\n"
MAKE = """
import os, sys, warnings
from goldspan.collector_processor import ToolParameterMatchExporter, ToolParameterMatchSpanProcessor
from opentelemetry.sdk.trace import TracerProvider
from rigs.in_process_rig import Inner, scores
from rigs.scripted_agent import PARIS, run_turn

ENGINE = "goldspan.collector_processor.engine.engine"
inner = Inner()
provider = TracerProvider(shutdown_on_exit=False)
door = ToolParameterMatchSpanProcessor(inner, goldens="goldens.yaml", settle=60.0)
provider.add_span_processor(door)

def turn():
    run_turn(provider.get_tracer("agent"), "wanted", [PARIS])
    provider.force_flush()
    return [score for span in inner.spans if (score := scores(span).get("tool_parameter_match.turn.score")) is not None]
"""


def said(script: str, folder: Path) -> str:
    """What a program prints that has made a door."""
    (folder / "goldens.yaml").write_text(GOLDENS)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", MAKE + script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_program_without_spans_never_loads_the_engine(tmp_path: Path) -> None:
    script = "assert provider.force_flush()\nprovider.shutdown()\nprint(ENGINE in sys.modules, inner.calls)"
    assert said(script, tmp_path) == "False ['force_flush', 'shutdown']\n"


def test_goldens_are_those_of_the_folder_in_which_the_door_was_made(tmp_path: Path) -> None:
    assert said("os.chdir('/')\nprint(turn())", tmp_path) == "[1.0]\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_loads_once_for_all_children(tmp_path: Path) -> None:
    script = """
warnings.simplefilter("ignore")
for _ in range(2):
    if (child := os.fork()) == 0:
        print(ENGINE in sys.modules, turn(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(turn())
"""
    assert said(script, tmp_path) == "True [1.0]\nTrue [1.0]\n[1.0]\n"


def test_what_cannot_start_lets_every_span_pass(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, warnings_logged: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(setup, "make_pipeline", lambda *_, **__: 1 / 0)
    rig = make_rig()
    rig.turn(calls=[ROME])
    rig.turn(calls=[ROME])
    assert len(rig.inner.spans) == 8
    assert rig.door.force_flush()
    assert warnings_logged() == ["goldspan cannot start: spans are exported without scores"]


def test_options_that_the_engine_checks_are_checked_at_once() -> None:
    with pytest.raises(Exception, match="no_such_metric"):
        ToolParameterMatchExporter(Inner(), metrics=["no_such_metric"])


def loading_slowly(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, threading.Event]:
    """A door whose engine loads, since a trace began, until an event is set."""
    loads, may_load, make = threading.Event(), threading.Event(), setup.make_pipeline

    def slow(*args: Any, **options: Any) -> Any:
        loads.set()
        assert may_load.wait(30)
        return make(*args, **options)

    monkeypatch.setattr(setup, "make_pipeline", slow)
    rig: Rig = make_rig()
    rig.door.root_started(rig.tracer.start_span("root", attributes={"gen_ai.conversation.id": "wanted"}))
    assert loads.wait(30)
    return rig, may_load


def test_an_engine_that_is_loaded_at_the_end_exports_everything_at_once(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, may_load = loading_slowly(make_rig, monkeypatch)
    rig.door.collect()
    may_load.set()
    until(lambda: not any(thread.name == "goldspan-start" for thread in threading.enumerate()))
    rig.turn()
    assert not rig.inner.spans
    assert rig.door.end_of_input()
    assert rig.inner.calls.count("export") == 1


def test_the_agent_does_not_wait_while_the_engine_loads(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, may_load = loading_slowly(make_rig, monkeypatch)
    span = rig.tracer.start_span("root", attributes={"gen_ai.conversation.id": "wanted"})
    rig.door.root_started(span)
    may_load.set()
    rig.turn(calls=[ROME])
    rig.door.force_flush()
    assert rig.score("execute_tool get_weather 0") == 0.5


def test_what_waits_is_done_in_order_and_no_more_than_so_much_waits() -> None:
    ready = threading.Event()
    seen: list[int] = []

    def make() -> Any:
        assert ready.wait(30)
        return seen

    pipeline = MadeOnUse(make, "nothing")
    for number in range(5000):
        pipeline.tell(lambda made, number=number: made.append(number))  # type: ignore[attr-defined, misc]
    ready.set()
    assert pipeline.get() == seen
    assert seen == list(range(5000 - 2048, 5000))
    pipeline.tell(lambda made: made.append(-1))  # type: ignore[attr-defined]
    assert seen[-1] == -1
