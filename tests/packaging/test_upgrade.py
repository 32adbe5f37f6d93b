"""This release reads what the last one left: a gateway's journal and golden files, and state of a stream."""

from __future__ import annotations

import json
from pathlib import Path

from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens
from rigs.downstream import Downstream, http_downstream
from rigs.gateway_process import process
from rigs.last_release import GOLDENS, RECORDINGS, TURNS, restored_gateway, restored_stream, send, settings_of
from rigs.pipeline_rig import Said, events_in, everything, files_of, newest, said_by_replay, spans_in
from rigs.trace_requests import write_lines
from rigs.waiting import until


def of(downstream: Downstream, signal: Signal) -> list[bytes]:
    return [one.body for one in downstream.received if one.signal is signal]


def said(downstream: Downstream) -> Said:
    return newest(events_in(of(downstream, Signal.LOGS)))


def labels(results: Said) -> dict[str, str]:
    return {name: event["gen_ai.evaluation.score.label"] for name, event in results.items()}


def test_a_gateway_goes_on_with_the_journal_and_the_goldens_of_the_last_release(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOLDENS, "utf-8")
    traces = write_lines(tmp_path / "traces.jsonl", *TURNS)
    wanted = said_by_replay([traces], load_goldens(tmp_path / "good.yaml"))
    [session] = [name for name, event in wanted.items() if event["tool_parameter_match.level"] == "session"]
    (tmp_path / "goldens.yaml").write_text("golden_set: [", "utf-8")
    restored_gateway(tmp_path)
    with http_downstream() as downstream, process(settings_of(downstream, "2s"), tmp_path) as gateway:
        send(gateway, 2)
        until(lambda: session in said(downstream), 20)
        files = json.loads(gateway.get("/coverage").data)["golden_files"]
        assert gateway.end() == 0
    # The first turn was delivered by the last release.
    assert labels(said(downstream)).items() <= labels(wanted).items()
    assert files["in_use"] == len(files["refused"]) == 1
    names = [span.name for span in spans_in(of(downstream, Signal.TRACES))]
    assert sorted(names) == ["execute_tool get_weather"] * 2 + ["invoke_agent weather_agent"] * 2
    assert [line["message"] for line in gateway.log if line["level"] == "error"] == []


def test_workers_go_on_with_the_state_of_the_last_release() -> None:
    stream = restored_stream()
    assert any(one.committed for one in stream.first)
    assert any(one.committed for one in stream.second)
    stream.run(max(record.time for one in stream.first for record in one.records))
    wanted = said_by_replay([path for name in RECORDINGS for path in files_of(name)], everything())
    assert labels(stream.said()) == labels(wanted)
    assert wanted
