"""The same recordings through each protocol, and by a replay: the same results, and every span once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.otlp_signals import Signal
from rigs.downstream import http_downstream
from rigs.gateway_process import Process, process, settings_for
from rigs.otlp_containers import requests_of
from rigs.otlp_logs import LOGGED, log_documents
from rigs.otlp_receiver import attributes
from rigs.pipeline_rig import (
    EVERYTHING,
    bodies_of,
    events_in,
    everything,
    files_of,
    newest,
    said_by_replay,
    spans_in,
)
from rigs.repository import RECORDING_NAMES

SOME = RECORDING_NAMES[::4]


def ids(spans: list[Any]) -> set[tuple[bytes, bytes]]:
    return {(span.trace_id, span.span_id) for span in spans}


def sent_over(protocol: str, gateway: Process) -> None:
    """Send every recording."""
    for name in SOME:
        if protocol == "http/json":
            for document in requests_of(name):
                assert gateway.post(json.dumps(document).encode(), content_type="application/json") == 200
            for document in log_documents(name) if name in LOGGED else []:
                assert gateway.post(json.dumps(document).encode(), "/v1/logs", "application/json") == 200
            continue
        for request in bodies_of(name):
            if protocol == "grpc":
                assert gateway.call(request.body, request.signal) == b""
            else:
                assert gateway.post(request.body, f"/v1/{request.signal}") == 200


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf", "http/json"])
def test_results_are_those_of_a_replay_whatever_the_protocol(tmp_path: Path, protocol: str) -> None:
    (tmp_path / "goldens.json").write_text(json.dumps(EVERYTHING))
    more = "goldens: goldens.json\njournal: {enabled: false}\n"
    with http_downstream() as http, process(settings_for(http, more), tmp_path) as gateway:
        sent_over(protocol, gateway)
        assert gateway.end() == 0
    bodies = {signal: [one.body for one in http.received if one.signal is signal] for signal in Signal}
    replayed = said_by_replay([path for name in SOME for path in files_of(name)], everything())
    assert len(replayed) > 100
    assert newest(events_in(bodies[Signal.LOGS])) == replayed
    came = [one.body for name in SOME for one in bodies_of(name) if one.signal is Signal.TRACES]
    assert ids(spans_in(bodies[Signal.TRACES])) == ids(spans_in(came))
    scored = [span for span in spans_in(bodies[Signal.TRACES]) if "tool_parameter_match.score" in attributes(span)]
    assert len(scored) > 10  # the others were sent on before their turn was whole: results of theirs are events
