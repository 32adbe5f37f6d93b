"""A session that no golden wants is told of: its id, where the id comes from, and what the goldens are for."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rigs.in_process_rig import Logged, MakeRig
from rigs.scripted_agent import PARIS, golden, golden_set

FOUR = golden_set(*(golden(f"trip-{number}", [PARIS]) for number in (1, 3, 4, 5)))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[int, str]]]:
    caplog.set_level(logging.INFO, logger="goldspan")
    return lambda: [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "goldspan"]


def test_a_flush_warns_once_of_a_session_that_no_golden_wants(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(goldens=FOUR)
    rig.turn("trip-2")
    rig.door.force_flush()
    [warning] = warnings_logged()
    assert warning.startswith("0 of 4 goldens seen; sessions seen: trip-2 (from gen_ai.conversation.id). ")
    assert "session trip-1, session trip-3, session trip-4, session trip-5. " in warning
    rig.turn("trip-2")
    rig.door.force_flush()
    rig.door.shutdown()
    assert len(warnings_logged()) == 1


def test_a_trace_without_a_session_is_told_by_its_trace_id(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(goldens=FOUR)
    rig.turn(None)
    rig.door.force_flush()
    trace_id = format(rig.inner.spans[0].context.trace_id, "032x")
    [warning] = warnings_logged()
    assert f"sessions seen: {trace_id} (a trace id: no span names a session)" in warning


def test_a_session_joined_by_what_the_user_said_is_told_at_the_end(make_rig: MakeRig, warnings_logged: Logged) -> None:
    by_text = {"golden_set": "s", "goldens": [{"first_user_text": "Weather in Oslo?", "turns": [{"calls": []}]}]}
    rig = make_rig(goldens=by_text)
    rig.turn("trip-2")
    rig.door.shutdown()
    [warning] = warnings_logged()
    assert "0 of 1 goldens seen; sessions seen: trip-2 (from gen_ai.conversation.id). " in warning
    assert "first user text" in warning


def test_where_goldens_are_seen_it_is_no_warning(make_rig: MakeRig, lines: Callable[[], list[tuple[int, str]]]) -> None:
    rig = make_rig(goldens=FOUR)
    rig.turn("trip-1")
    rig.turn("trip-2")
    rig.door.force_flush()
    [(level, said)] = lines()
    assert level == logging.INFO
    assert said.startswith("1 of 4 goldens seen; sessions seen: trip-2 (from ")


def test_flushes_after_each_of_many_sessions_say_less_and_less(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(goldens=FOUR)
    for number in range(10, 310):
        rig.turn(f"trip-{number}", calls=())
        rig.door.force_flush()
    assert 20 < len(warnings_logged()) < 60
    assert "trip-10 (" in warnings_logged()[0]
    rig.door.shutdown()
    assert "trip-309 (from gen_ai.conversation.id) and 295 more. " in warnings_logged()[-1]


def test_an_id_cannot_break_the_line(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(goldens=FOUR)
    rig.turn("trip\n2026 ERROR all is lost\x1b[31m" + "x" * 10_000)
    rig.door.force_flush()
    [warning] = warnings_logged()
    assert warning.isprintable()
    assert len(warning) < 1_000


def test_spans_of_no_agent_are_told_at_the_end(make_rig: MakeRig, warnings_logged: Logged) -> None:
    rig = make_rig(goldens=FOUR)
    rig.tracer.start_span("GET /").end()
    rig.door.force_flush()
    assert warnings_logged() == []
    rig.door.shutdown()
    [warning] = warnings_logged()
    assert warning.startswith("0 of 4 goldens seen; spans seen: 1, none of an agent, a model or a tool ")


def test_nothing_is_said_of_a_process_without_spans_or_without_goldens(
    make_rig: MakeRig, warnings_logged: Logged
) -> None:
    make_rig(goldens=FOUR).door.shutdown()
    rig = make_rig(goldens=golden_set())
    rig.turn("trip-2")
    rig.door.shutdown()
    assert warnings_logged() == []


def test_a_script_that_only_ends_is_told_as_well() -> None:
    script = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from rigs.scripted_agent import PARIS, golden, golden_set, run_turn
provider = TracerProvider()
goldens = golden_set(golden("trip-1", [PARIS]))
provider.add_span_processor(ToolParameterMatchSpanProcessor(InMemorySpanExporter(), goldens=goldens))
run_turn(provider.get_tracer("agent"), "trip-2", [PARIS])
"""
    here = Path(__file__).parent.parent
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=here, check=True)
    assert ended.stderr.count("0 of 1 goldens seen; sessions seen: trip-2 (from gen_ai.conversation.id)") == 1
