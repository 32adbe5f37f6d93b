"""A real Collector at both ends: exporters -> Collector -> Kafka -> workers -> Kafka -> Collector -> file."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.collecting import BINARY
from goldspan.mappers import read_sessions
from kafka.broker import Broker
from kafka.stream_load import load_of, sessions
from kafka.stream_workers import cluster
from kafka.trying import collectors
from rigs.pipeline_rig import spans_in
from rigs.waiting import until


@pytest.mark.skipif(not BINARY.exists(), reason="no Collector here: `make collector` builds one (needs Go)")
def test_scores_come_back_through_collectors(kafka: Broker, tmp_path: Path) -> None:
    load = load_of(sessions(30, "collected", seed=5), seed=5)
    with cluster(kafka.address, tmp_path, group="collected") as some:
        workers = [some.add(), some.add()]
        until(lambda: all(worker.ready() for worker in workers), 120)
        with collectors(some, tmp_path) as ends:
            for request in load.requests:
                ends.send(request)
            some.until_said(load.expected, 90)
            given = {(one.trace_id.hex(), one.span_id.hex()) for one in spans_in(one.body for one in load.requests)}

            def arrived() -> set[tuple[str, str]]:
                spans = ends.records("resourceSpans", "scopeSpans", "spans")
                return {(span["traceId"], span["spanId"]) for span in spans}

            until(lambda: arrived() == given, 60)
            until(
                lambda: {event["tool_parameter_match.result_id"] for event in ends.events()} >= load.expected.keys(), 60
            )
            until(lambda: ends.records("resourceMetrics"), 60)
            scored = {
                (span["traceId"], span["spanId"])
                for span in ends.records("resourceSpans", "scopeSpans", "spans")
                if any(one["key"] == "tool_parameter_match.score" for one in span.get("attributes", ()))
            }
            assert len(scored) > 30
        # What the Collector wrote is read by goldspan again.
        found = {session.id for session in read_sessions([tmp_path / "scored.jsonl"])}
        assert {f"collected-{number}" for number in range(30)} <= found
        keys = {key for name in ("spans", "logs") for message in some.read(name) if (key := message.key()) is not None}
        assert {key.decode() for key in keys} == {trace for trace, _ in given}
