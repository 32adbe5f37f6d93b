"""Score back-ends that answer with what no server should send, or a byte at a time: their exporters stay bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from goldspan.collector_processor.sinks import LangfuseScores, MLflowScores, PhoenixScores
from goldspan.collector_processor.sinks.score_exporter import Score, ScoreExporter
from rigs.malformed_http import GOOD, NO_STATUS, OTHER, RETRIED, malformed, raw_downstream
from rigs.score_backend import score_backend

EXPORTERS: dict[str, Callable[[str], ScoreExporter]] = {
    "phoenix": PhoenixScores,
    "mlflow": MLflowScores,
    "langfuse": lambda endpoint: LangfuseScores(endpoint, public_key="pk", secret_key="sk"),
}


def scores(count: int) -> list[Score]:
    return [
        Score(f"r-{number}", "tool_parameter_match", "call", f"{number:032x}", "b" * 16, "s", 1.0, "pass", "", {})
        for number in range(count)
    ]


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_byte_at_a_time_does_not_prolong_a_flush_or_the_end(name: str) -> None:
    with raw_downstream() as downstream:
        slow = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
        downstream.answer, downstream.drip = (lambda: slow), True
        exporter = EXPORTERS[name](downstream.endpoint)
        exporter.put(scores(50))
        began = time.monotonic()
        exporter.force_flush(500)
        assert time.monotonic() - began < 1.5
        exporter.shutdown(500)
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("name", EXPORTERS)
def test_after_malformed_responses_a_good_one_delivers(name: str) -> None:
    random = Random(3)
    with raw_downstream() as downstream:
        exporter = EXPORTERS[name](downstream.endpoint)
        for statuses in [(*RETRIED, *NO_STATUS, *OTHER)] * 40:
            answer = malformed(random, statuses)
            downstream.answer = lambda answer=answer: answer
            exporter.put(scores(1))
            exporter.force_flush(2_000)
        downstream.answer = lambda: GOOD
        delivered = exporter.delivered
        exporter.put(scores(3))
        assert exporter.force_flush(5_000)
        assert exporter.delivered == delivered + 3
        exporter.shutdown()


@pytest.mark.parametrize(
    "errors",
    [1, "x", [1, None, "x", []], [{"id": [], "status": {}}], [{"id": 5, "status": 10**300}], {"a": 1}],
)
def test_errors_of_any_shape_from_langfuse_cost_no_other_scores(errors: Any) -> None:
    with score_backend() as server:
        server.answer = lambda path, body: (207, {"errors": json.loads(json.dumps(errors))})
        exporter = EXPORTERS["langfuse"](server.endpoint)
        exporter.put(scores(4))
        assert exporter.force_flush(5_000)
        exporter.shutdown()
    assert (exporter.delivered, exporter.dropped) == (4, 0)


def test_an_id_from_mlflow_cannot_lead_elsewhere_or_fill_the_memory() -> None:
    with score_backend() as server:
        server.answer = lambda path, body: (200, {"assessment": {"assessment_id": "../../admin?x=#"}})
        backend = EXPORTERS["mlflow"](server.endpoint)._backend
        backend.send(scores(1))
        backend.send(scores(1))
        assert server.requests[1][1].rpartition("/")[2] == "..%2F..%2Fadmin%3Fx%3D%23"
        server.answer = lambda path, body: (200, {"assessment": {"assessment_id": "x" * 50_000}})
        other = EXPORTERS["mlflow"](server.endpoint)._backend
        other.send(scores(1))
        other.send(scores(1))
        assert server.requests[-1][0] == "POST"
