"""Evaluation events as native scores, against servers that answer as the real ones do."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.retrying_queue import SendResult
from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import JsonApi, Score, ScoreExporter
from rigs.in_process_rig import Inner
from rigs.local_http import Quiet, serving
from rigs.score_backend import Reply, Server, score_backend
from rigs.scripted_agent import PARIS, ROME, Call, golden, golden_set, run_turn
from rigs.waiting import until


@pytest.fixture
def server() -> Iterator[Server]:
    with score_backend() as found:
        yield found


def judge(sink: ScoreExporter, calls: Sequence[Call] = (ROME,)) -> None:
    """Score one turn of an agent that should have asked for Paris; the sink is closed before this returns."""
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(sink))
    tracers = TracerProvider(shutdown_on_exit=False)
    goldens = golden_set(golden("wanted", [PARIS]))
    tracers.add_span_processor(ToolParameterMatchSpanProcessor(Inner(), goldens=goldens, logger_provider=loggers))
    run_turn(tracers.get_tracer("agent"), "wanted", calls)
    tracers.shutdown()
    loggers.shutdown()


def test_phoenix_gets_annotations_of_spans_traces_and_sessions(server: Server) -> None:
    judge(PhoenixScores(server.endpoint, api_key="secret"))
    [[call], [turn], [session]] = [
        body["data"] for level in ("span", "trace", "session") for body in server.bodies(f"/v1/{level}_annotations")
    ]
    assert call["name"] == "tool_parameter_match"
    assert call["result"] == {"label": "fail", "score": 0.5, "explanation": "1 of 2 arguments match; mismatched: city"}
    assert (call["annotator_kind"], len(call["span_id"]), len(turn["trace_id"])) == ("CODE", 16, 32)
    assert (session["session_id"], session["name"]) == ("wanted", "tool_parameter_match.session")
    assert len({call["identifier"], turn["identifier"], session["identifier"]}) == 3
    assert call["metadata"]["gen_ai.tool.name"] == "get_weather"
    assert all(headers["Authorization"] == "Bearer secret" for *_, headers in server.requests)
    assert all(path.endswith("?sync=true") for _, path, *_ in server.requests)


def test_a_span_that_phoenix_does_not_know_yet_is_tried_again(server: Server) -> None:
    known: list[str] = []

    def answer(path: str, body: Any) -> Reply:
        if "span" in path and path not in known:
            known.append(path)
            return 404, "Spans with IDs ... do not exist."
        return 200, {}

    server.answer = answer
    sink = PhoenixScores(server.endpoint)
    judge(sink)
    assert len(server.bodies("/v1/span_annotations")) == 2
    assert (sink.delivered, sink.dropped) == (3, 0)


def test_mlflow_gets_feedback(server: Server) -> None:
    server.answer = lambda path, body: (200, {"assessment": {"assessment_id": "a-1"}})
    sink = MLflowScores(server.endpoint)
    judge(sink)
    assessments = [body["assessment"] for _, _, body, _ in server.requests]
    by_name = {one["assessment_name"]: one for one in assessments}
    assert sorted(by_name) == ["tool_parameter_match", "tool_parameter_match.session", "tool_parameter_match.turn"]
    call = by_name["tool_parameter_match"]
    assert (call["feedback"], len(call["span_id"])) == ({"value": 0.5}, 16)
    assert call["source"] == {"source_type": "CODE", "source_id": "goldspan"}
    assert "span_id" not in by_name["tool_parameter_match.turn"]
    assert {path for _, path, *_ in server.requests} == {f"/api/3.0/mlflow/traces/{call['trace_id']}/assessments"}
    assert call["trace_id"].startswith("tr-")


def test_mlflow_corrections_replace_what_they_correct(server: Server) -> None:
    server.answer = lambda path, body: (200, {"assessment": {"assessment_id": "a-1"}})
    backend = MLflowScores(server.endpoint)._backend
    score = a_score("r-1", 0.5)
    backend.send([score])
    backend.send([a_score("r-1", 1.0)])
    assert [(method, path.rpartition("/")[2]) for method, path, *_ in server.requests] == [
        ("POST", "assessments"),
        ("PATCH", "a-1"),
    ]
    assert server.requests[1][2]["assessment"]["feedback"] == {"value": 1.0}


def test_langfuse_gets_scores_each_answered_for_itself(server: Server) -> None:
    def answer(path: str, body: Any) -> Reply:
        errors = [
            {"id": one["id"], "status": 400, "message": "no such type"}
            for one in body["batch"]
            if "sessionId" in one["body"]
        ]
        return 207, {"successes": [], "errors": errors}

    server.answer = answer
    sink = LangfuseScores(server.endpoint, public_key="pk", secret_key="sk")
    judge(sink)
    events = [event for body in server.bodies("/api/public/ingestion") for event in body["batch"]]
    scores = {event["body"]["name"]: event["body"] for event in events}
    call = scores["tool_parameter_match"]
    assert (call["value"], call["dataType"], len(call["observationId"])) == (0.5, "NUMERIC", 16)
    assert "observationId" not in scores["tool_parameter_match.turn"]
    assert scores["tool_parameter_match.session"]["sessionId"] == "wanted"
    assert (sink.delivered, sink.dropped) == (2, 1)
    assert server.requests[0][3]["authorization"] == "Basic cGs6c2s="


def test_what_was_not_evaluated_has_a_label_and_no_number(server: Server) -> None:
    backend = LangfuseScores(server.endpoint)._backend
    backend.send([a_score("r-1", None, label="not_evaluated")])
    [body] = [event["body"] for body in server.bodies("/api/public/ingestion") for event in body["batch"]]
    assert (body["name"], body["value"], body["dataType"]) == (
        "tool_parameter_match.label",
        "not_evaluated",
        "CATEGORICAL",
    )


@pytest.mark.parametrize(
    ("sink", "status", "outcome"),
    [
        *((sink, 200, "taken") for sink in (PhoenixScores, MLflowScores, LangfuseScores)),
        *((sink, 400, "rejected") for sink in (PhoenixScores, MLflowScores, LangfuseScores)),
        *((sink, 503, "retry") for sink in (PhoenixScores, MLflowScores, LangfuseScores)),
        (PhoenixScores, 404, "retry"),  # these two know a span only after they have taken it in
        (MLflowScores, 404, "retry"),
        (LangfuseScores, 404, "rejected"),
    ],
)
def test_what_may_go_through_later_is_kept_and_what_is_refused_is_not(
    server: Server, sink: Callable[[str], ScoreExporter], status: int, outcome: str
) -> None:
    server.answer = lambda path, body: (status, {})
    score = a_score("r-1", 0.5)
    answer = sink(server.endpoint)._backend.send([score])
    found = {"retry": list(answer.retry), "rejected": list(answer.rejected)}
    assert {kind: scores for kind, scores in found.items() if scores} == (
        {} if outcome == "taken" else {outcome: [score]}
    )


def test_what_langfuse_has_no_time_for_among_others_is_kept(server: Server) -> None:
    server.answer = lambda path, body: (207, {"errors": [{"id": body["batch"][1]["id"], "status": 500}]})
    scores = [a_score("r-1", 0.5), a_score("r-2", 0.5)]
    answer = LangfuseScores(server.endpoint)._backend.send(scores)
    assert (list(answer.retry), list(answer.rejected), answer.reason) == (scores[1:], [], "500 None")


@pytest.mark.parametrize(
    ("variables", "authorization"),
    [
        ({}, None),
        ({"MLFLOW_TRACKING_TOKEN": "t", "MLFLOW_TRACKING_USERNAME": "u"}, "Bearer t"),
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic dTpw"),
    ],
)
def test_mlflow_s_own_variables_say_who_sends(
    server: Server, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], authorization: str | None
) -> None:
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    MLflowScores(server.endpoint)._backend.send([a_score("r-1", 0.5)])
    [(*_, headers)] = server.requests
    assert {name.lower(): value for name, value in headers.items()}.get("authorization") == authorization


def a_score(identity: str, value: float | None, label: str = "fail") -> Score:
    return Score(identity, "tool_parameter_match", "call", "ab" * 16, "cd" * 8, "s", value, label, "", {})


class Scripted:
    """A back-end that answers as the test says."""

    name = "Scripted"

    def __init__(self, answer: Callable[[Sequence[Score]], SendResult[Score]]) -> None:
        self._answer = answer
        self.sent: list[list[Score]] = []

    def send(self, scores: Sequence[Score]) -> SendResult[Score]:
        self.sent.append(list(scores))
        return self._answer(scores)

    def close(self) -> None:
        """Nothing is open."""


def test_a_back_end_that_is_away_delays_nobody_and_is_given_up_in_the_end() -> None:
    backend = Scripted(lambda scores: SendResult(retry=scores, reason="away"))
    sink = ScoreExporter(backend, patience=0.0)
    before = time.monotonic()
    judge(sink)
    assert time.monotonic() - before < 5
    assert (sink.delivered, sink.dropped) == (0, 3)


def test_a_back_end_that_raises_costs_only_its_scores(caplog: pytest.LogCaptureFixture) -> None:
    def fail(scores: Sequence[Score]) -> SendResult[Score]:
        raise KeyError("assessment")

    sink = ScoreExporter(Scripted(fail))
    judge(sink)
    assert (sink.delivered, sink.dropped) == (0, 3)
    assert "KeyError" in caplog.text


def test_scores_leave_without_being_asked_to() -> None:
    sink = ScoreExporter(Scripted(lambda scores: SendResult()))
    sink.put([a_score("r-1", 1.0)])
    until(lambda: sink.delivered == 1)


def test_what_waits_is_bounded() -> None:
    gate = threading.Event()

    def wait(scores: Sequence[Score]) -> SendResult[Score]:
        gate.wait(10)
        return SendResult()

    sink = ScoreExporter(Scripted(wait), max_waiting=5)
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(sink))
    goldens = golden_set(*(golden(f"s-{number}", [PARIS]) for number in range(10)))
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(ToolParameterMatchSpanProcessor(Inner(), goldens=goldens, logger_provider=loggers))
    for number in range(10):
        run_turn(tracers.get_tracer("agent"), f"s-{number}", [PARIS])
    tracers.shutdown()
    assert sink.dropped >= 20
    gate.set()
    loggers.shutdown()
    assert sink.delivered + sink.dropped == 30


def test_a_newer_result_takes_the_place_of_one_that_waits() -> None:
    began, gate = threading.Event(), threading.Event()

    def wait(scores: Sequence[Score]) -> SendResult[Score]:
        began.set()
        gate.wait(10)
        return SendResult()

    backend = Scripted(wait)
    sink = ScoreExporter(backend, patience=60)
    sink.put([a_score("first", 0.0)])
    assert began.wait(10)
    for value in (0.5, 1.0):
        sink.put([a_score("r-1", value)])
    assert sink.waiting == 2
    gate.set()
    assert sink.force_flush()
    assert [[one.value for one in batch] for batch in backend.sent] == [[0.0], [1.0]]
    assert (sink.delivered, sink.dropped) == (2, 0)
    sink.shutdown(0)


def test_a_newer_result_takes_the_place_of_one_that_is_sent_again() -> None:
    began, gate = threading.Event(), threading.Event()

    def wait(scores: Sequence[Score]) -> SendResult[Score]:
        began.set()
        gate.wait(10)
        return SendResult(retry=[one for one in scores if one.value == 0.5], reason="unknown")

    backend = Scripted(wait)
    sink = ScoreExporter(backend, patience=60)
    sink.put([a_score("r-1", 0.5)])
    assert began.wait(10)
    sink.put([a_score("r-1", 1.0)])
    gate.set()
    assert sink.force_flush()
    until(lambda: sink.delivered == 1)
    assert [[one.value for one in batch] for batch in backend.sent] == [[0.5], [1.0]]
    assert (sink.waiting, sink.dropped) == (0, 0)
    sink.shutdown(0)


def test_a_score_that_is_unknown_yet_delays_no_other() -> None:
    backend = Scripted(lambda scores: SendResult([one for one in scores if one.id == "unknown"], reason="HTTP 404"))
    sink = ScoreExporter(backend, patience=60)
    sink.put([a_score("unknown", 0.0)])
    until(lambda: len(backend.sent) == 1)
    sink.put([a_score("known", 1.0)])
    until(lambda: sink.delivered == 1)
    assert [[one.id for one in batch] for batch in backend.sent] == [["unknown"], ["known"]]
    sink.shutdown(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_leaves_its_parents_scores_alone() -> None:
    backend = Scripted(lambda scores: SendResult(retry=scores, reason="away"))
    sink = ScoreExporter(backend)
    sink.put([a_score("r-1", 1.0)])
    until(lambda: len(backend.sent) == 1)
    if (child := os.fork()) == 0:
        os._exit(sink.waiting)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sink.waiting == 1
    backend._answer = lambda scores: SendResult()
    assert sink.force_flush()
    until(lambda: sink.delivered == 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_opens_connections_of_its_own() -> None:
    ports: dict[str, list[int]] = {"parent": [], "child": []}

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"  # connections are kept

        def do_POST(self) -> None:
            process = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ports[process].append(self.client_address[1])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as endpoint:
        api = JsonApi(endpoint, {})
        assert api.request("POST", "/", "parent").status == 200
        if (child := os.fork()) == 0:
            try:
                os._exit(0 if api.request("POST", "/", "child").status == 200 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert api.request("POST", "/", "parent").status == 200
        api.close()
    [of_the_child] = ports["child"]
    [of_the_parent] = set(ports["parent"])
    assert of_the_child != of_the_parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_looks_up_names_that_its_parent_waits_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    release, asked, real = threading.Event(), threading.Event(), socket.getaddrinfo

    def hanging(*arguments: Any, **options: Any) -> Any:
        asked.set()
        release.wait(30)
        return real(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    api = JsonApi(server.endpoint, {})
    waiting_for_the_name = threading.Thread(target=api.request, args=("POST", "/", "parent"), daemon=True)
    waiting_for_the_name.start()
    assert asked.wait(10)
    if (child := os.fork()) == 0:
        try:
            socket.getaddrinfo = real
            os._exit(0 if api.request("POST", "/", "child").status == 200 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    release.set()
    waiting_for_the_name.join()
    api.close()
    assert [body for _, _, body, _ in server.requests] == ["child", "parent"]
