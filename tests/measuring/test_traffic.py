"""The benchmarks' traffic is what it says: both ways of writing it give the sessions that were planned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.mixed_traffic import mixed_golden_set, mixed_json_lines, plan_mixed
from benchmarks.traffic import SessionPlan, golden_set, otlp_json_lines, plan_sessions, play
from goldspan.mappers import read_sessions
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.spans import LogView
from goldspan.scoring import Session, score_sessions

IDS = [f"s-{number}" for number in range(8)]
PLANS = plan_sessions(IDS)


def as_planned(plans: tuple[SessionPlan, ...]) -> dict[str, list[list[tuple[str, dict[str, object]]]]]:
    return {plan.id: [[(name, dict(args)) for name, args in calls] for calls in plan.calls] for plan in plans}


def as_read(sessions: list[Session]) -> dict[str, list[list[tuple[str, dict[str, object]]]]]:
    return {
        session.id: [[(call.name, dict(call.arguments or {})) for call in turn.calls] for turn in session.turns]
        for session in sessions
    }


def test_otlp_json_holds_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(otlp_json_lines(PLANS)), "utf-8")
    assert as_read(read_sessions(path)) == as_planned(PLANS)


def test_sdk_spans_hold_the_plan() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for plan in PLANS:
        for turn in plan.turns:
            play(provider.get_tracer("test"), turn)
    spans = exporter.get_finished_spans()
    assert as_read(read_sessions(spans)) == as_planned(PLANS)
    kinds = Counter(span.name.split()[0] for span in spans)
    assert kinds["chat"] == kinds["execute_tool"] == kinds["GET"] / 2
    provider.shutdown()


def test_the_same_seed_gives_the_same_traffic() -> None:
    assert list(otlp_json_lines(plan_sessions(IDS))) == list(otlp_json_lines(PLANS))
    assert list(otlp_json_lines(plan_sessions(IDS, seed=2))) != list(otlp_json_lines(PLANS))


@pytest.mark.parametrize("count", [1, 8])
def test_traffic_without_agents_has_as_many_spans_and_no_session(count: int, tmp_path: Path) -> None:
    plain = plan_sessions(IDS[:count], agent=False)
    assert abs(sum(map(len, plain)) - sum(map(len, PLANS[:count]))) <= 4 * count
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(otlp_json_lines(plain)), "utf-8")
    assert read_sessions(path) == []


def test_the_goldens_differ_where_they_say(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(otlp_json_lines(PLANS)), "utf-8")
    scores = [result.verdict.score for result in score_sessions(golden_set(PLANS), read_sessions(path)).sessions]
    assert [score == 1 for score in scores] == [True, True, True, False, True, True, True, False]
    assert scores[7] is not None
    assert scores[3] is not None
    assert scores[7] < scores[3] < 1


def test_mixed_traffic_is_an_agents_to_a_tenth_and_holds_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(mixed_json_lines(30)), "utf-8")
    planned = tuple(plan for group in plan_mixed(30) for plan in group)
    assert as_read(read_sessions(path)) == as_planned(planned)
    names = Counter(view.name.split()[0] for view in read_files([path], id) if not isinstance(view, LogView))
    share = {name: count / names.total() for name, count in names.items()}
    assert share["chat"] == share["execute_tool"] == pytest.approx(0.05, abs=0.005)
    assert share["GET"] + share["POST"] == pytest.approx(0.89, abs=0.01)
    results = score_sessions(mixed_golden_set(30), read_sessions(path)).sessions
    assert sum(result.golden is not None for result in results) == 3
