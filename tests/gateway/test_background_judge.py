"""The judge of the gateway: it asks a model about sessions that are over, and nothing waits for it."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.interfaces import Accepted
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.judge import Judge, Question
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.run import Scorer, scorer_of
from rigs.pipeline_rig import QUICK, Downstream, bodies_of, everything, run
from rigs.waiting import until

RECORDING = "pydantic-ai-v5"
NAME = "gen_ai.evaluation.name"
ACCURACY = "tool_parameter_accuracy"


def settings(judge: Judge, **changes: Any) -> PipelineSettings:
    scorer = dataclasses.replace(scorer_of(), later=choose_metrics([judge]))
    return PipelineSettings(engine=dataclasses.replace(QUICK, scorer=scorer, **changes))


def judged(downstream: Downstream) -> list[dict[str, Any]]:
    return [event for event in downstream.events() if event[NAME] == ACCURACY]


def labels(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((event[f"{ACCURACY}.level"], event["gen_ai.evaluation.score.label"]) for event in events)


def test_sessions_that_are_over_are_judged_without_golden_and_with() -> None:
    asked: list[Question] = []

    def model(question: Question) -> bool:
        asked.append(question)
        return False

    without = run(bodies_of(RECORDING), load_goldens(), settings(Judge(model)))
    events = judged(without)
    assert asked
    assert [label for _, label in labels(events)] == ["fail"] * len(events)
    assert {level for level, _ in labels(events)} == {"call", "turn", "session"}
    assert len([event for event in events if event[f"{ACCURACY}.level"] == "call"]) == len(asked)
    assert "User" in asked[0].prompt or "user" in asked[0].prompt
    assert not any("Yes" in str(event) for event in events)

    beside = run(bodies_of(RECORDING), everything(), settings(Judge(model)))
    assert labels(judged(beside)) == labels(events)
    assert len({event[NAME] for event in beside.events()}) == 2


def test_no_span_and_no_other_result_waits_for_the_model() -> None:
    answer, began = threading.Event(), threading.Event()

    def model(question: Question) -> bool:
        began.set()
        return not answer.wait(20)  # it finds fault: what passes has no event

    downstream = Downstream()
    pipeline = GatewayPipeline(everything(), downstream, settings(Judge(model)))
    for request in bodies_of(RECORDING):
        assert pipeline.accept(request) == Accepted()
    try:
        assert began.wait(10)
        until(lambda: [event for event in downstream.events() if event[NAME] == "tool_parameter_match"])
        until(downstream.spans)
        assert judged(downstream) == []
        assert pipeline.not_ready_reason() is None
    finally:
        answer.set()
    until(lambda: judged(downstream))
    assert pipeline.drain(10.0)
    assert downstream.points()[f"{ACCURACY}.score"] == len(judged(downstream))
    assert not pipeline.failures


def test_a_model_that_fails_costs_only_its_own_results() -> None:
    def model(question: Question) -> bool:
        raise RuntimeError("no")

    downstream = run(bodies_of(RECORDING), everything(), settings(Judge(model, attempts=1)))
    assert {label for _, label in labels(judged(downstream))} == {"not_evaluated"}
    assert {event["gen_ai.evaluation.explanation"] for event in judged(downstream)} >= {"RuntimeError raised"}
    assert [event for event in downstream.events() if event[NAME] == "tool_parameter_match"]


def test_a_shutdown_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.gateway.pipeline._JUDGE_CLOSE_TIMEOUT", 0.2)
    answer = threading.Event()
    downstream = Downstream()
    asked = Judge(lambda _: answer.wait(20), timeout=30)
    pipeline = GatewayPipeline(everything(), downstream, settings(asked))
    for name in (RECORDING, "pydantic-ai-v4", "strands-latest"):
        for request in bodies_of(name):
            pipeline.accept(request)
    try:
        assert pipeline.drain(10.0)
        assert judged(downstream) == []
        counts = {name: value for name, _, value in pipeline.metrics()}
        assert counts["goldspan_judge_dropped_sessions_total"] > 0
    finally:
        answer.set()


@pytest.fixture
def options(tmp_path: Path) -> Path:
    path = tmp_path / "judge.yaml"
    path.write_text("model: m\nbase_url: http://localhost:1/v1\n")
    return path


def test_the_settings_name_a_file_of_options(options: Path, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"export: {{endpoint: 'http://localhost:1'}}\nscoring: {{judge: '{options}', metrics: []}}\n")
    scorer: Scorer = load_settings(file, {}).scorer()
    assert [one.metric.name for one in scorer.later] == [ACCURACY]
    assert scorer.scores_every_session
    assert scorer.reads_content(())
    options.write_text("model: m\n")
    with pytest.raises(FileError, match="base_url"):
        load_settings(file, {}).scorer()
