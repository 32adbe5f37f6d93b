"""The judge of the gateway: it asks a model about sessions that are over, and nothing waits for it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from goldspan.collector_processor.emit.evaluation import Events, Level
from goldspan.collector_processor.gateway.background_judge import BackgroundJudge
from goldspan.collector_processor.gateway.interfaces import Accepted
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.settings.settings_file import load_settings
from goldspan.collector_processor.judge import Judge, Question
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.results import SessionResult
from goldspan.scoring.run import Scorer, scorer_of
from goldspan.scoring.sessions import Session, ToolCall, Turn
from goldspan.scoring.verdict import Label, Verdict
from rigs.model_server import ModelServer, Response, model_server, rated
from rigs.pipeline_rig import QUICK, Downstream, bodies_of, everything, run
from rigs.span_facts import captured
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


# Many sessions, and a model that is slow, away or asks to wait.


@dataclasses.dataclass
class Flaky:
    """A model that fails now and then, was away for a while, and takes so many requests a second."""

    faults: float
    away: tuple[float, float]
    a_second: int
    began: float = dataclasses.field(default_factory=time.monotonic)
    answered: int = 0
    turned_away: int = 0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    recent: deque[float] = dataclasses.field(default_factory=deque)
    random: Random = dataclasses.field(default_factory=lambda: Random(1))

    def answer(self, _: dict[str, Any]) -> Response:
        now = time.monotonic()
        while self.recent and self.recent[0] < now - 1:
            self.recent.popleft()
        if len(self.recent) >= self.a_second:
            self.turned_away += 1
            return Response(status=429, headers={"Retry-After": "1"})
        self.recent.append(now)
        if self.away[0] <= now - self.began < self.away[1]:
            return Response(status=503)
        if self.random.random() < self.faults:
            return Response(status=500)
        self.answered += 1
        return rated("No")


def judged_by(
    server: ModelServer, sessions: int, seconds: float, **options: Any
) -> tuple[BackgroundJudge, Counter[str], float, int]:
    """Let a judge judge so many sessions of two calls; return it, the labels of calls, the time, and what was open."""
    judge = Judge("scripted", base_url=server.url, **options)
    [chosen] = choose_metrics([judge])
    background = BackgroundJudge(
        chosen, include_values=False, events=Events.ALL, on_failure=lambda where, error: failures.append(error)
    )
    failures: list[BaseException] = []
    began, most = time.monotonic(), 0
    for number in range(sessions):
        calls = tuple(ToolCall("get_weather", {"city": f"city {number}.{index}"}) for index in range(2))
        session = Session(f"s-{number}", (Turn(calls, user_text=captured("Weather, please")),))
        background.put("[]", SessionResult(verdict=Verdict(None, Label.NOT_EVALUATED), session=session, golden=None))
    for thread in background.threads:
        thread.start()
    found: dict[str, str] = {}
    given = 0
    while time.monotonic() < began + seconds and given < sessions:
        for _, evaluations in background.results():
            given += 1
            assert {one.revision for one in evaluations} == {1}
            for one in evaluations:
                if one.level is Level.CALL and one.verdict.label is not None:
                    found[one.id] = one.verdict.label.value
        most = max(most, next(value for name, _, value in background.samples() if name.endswith("in_progress")))
        time.sleep(0.01)
    took = time.monotonic() - began
    background.close(1.0)
    assert not failures
    return background, Counter(found.values()), took, int(most)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as found:
        yield found


def test_faults_an_outage_and_a_limit_cost_time_and_no_answer(server: ModelServer) -> None:
    flaky = Flaky(faults=0.3, away=(0.3, 1.3), a_second=100)
    server.answer = flaky.answer
    background, labels, _, most = judged_by(server, 60, 60.0, concurrency=8, longest_wait=5)
    assert labels == {"fail": 120}
    assert flaky.answered == 120
    assert background.given_up == background.dropped == 0
    assert 2 <= most <= 8
    assert server.most_at_once <= 8


@pytest.mark.exhaustive
def test_more_sessions_than_a_limit_lets_through_at_once(server: ModelServer) -> None:
    flaky = Flaky(faults=0.3, away=(1.0, 4.0), a_second=40)
    server.answer = flaky.answer
    background, labels, took, most = judged_by(server, 100, 300.0, concurrency=16, requests_per_minute=2280)
    print(
        f"answered {labels} of 200 questions in {took:.0f} s, {most} sessions at once, {server.most_at_once} requests "
        f"at once, {len(server.requests)} requests, {flaky.turned_away} turned away by the limit"
    )
    assert labels == {"fail": 200}
    assert background.given_up == background.dropped == 0


def test_sessions_are_judged_side_by_side(server: ModelServer) -> None:
    server.answer = lambda _: dataclasses.replace(rated("No"), delay=0.2)
    _, labels, took, _ = judged_by(server, 16, 20.0, concurrency=16)
    assert labels == {"fail": 32}
    assert took < 16 * 0.2  # one after another would take that long at least


def test_what_is_not_answered_in_time_is_said_once(server: ModelServer) -> None:
    server.answer = lambda _: Response(status=500)
    background, labels, _, _ = judged_by(server, 2, 20.0, concurrency=4, attempts=1, ask_again_for=0.5)
    assert labels == {"not_evaluated": 4}
    assert background.given_up == 2


def test_what_cannot_be_answered_is_not_asked_again(server: ModelServer) -> None:
    server.answer = lambda _: Response(status=401)
    background, labels, _, _ = judged_by(server, 2, 20.0, concurrency=4)
    assert labels == {"not_evaluated": 4}
    assert len(server.requests) == 4
    assert background.given_up == 0


def test_a_budget_that_comes_back_is_waited_for(server: ModelServer) -> None:
    server.answer = lambda _: rated("No")
    _, labels, _, _ = judged_by(server, 4, 30.0, concurrency=2, budget={"calls": 3, "every": 1.0})
    assert labels == {"fail": 8}
    background, labels, _, _ = judged_by(server, 4, 30.0, concurrency=2, budget={"calls": 3})
    assert labels == {"fail": 3, "not_evaluated": 5}
    assert background.given_up == 0


def test_a_rate_is_kept(server: ModelServer) -> None:
    server.answer = lambda _: rated("No")
    _, labels, took, _ = judged_by(server, 10, 30.0, concurrency=8, requests_per_minute=1200)
    assert labels == {"fail": 20}
    assert took >= 19 * 0.05


def test_while_a_model_is_away_it_is_asked_now_and_then(server: ModelServer) -> None:
    server.answer = lambda _: Response(status=500)
    background, _, _, _ = judged_by(server, 50, 3.0, concurrency=4, attempts=1)
    assert len(server.requests) <= 5 + 3 + 4
    assert ("goldspan_judge_paused", {}, 1) in list(background.samples())
