"""Sessions without golden in the gateway: the same results as a replay, whatever happens on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.otlp_protobuf import message_attributes
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import Downstream, bodies_of, cut_up, files_of, run, said_by_replay, spans_in
from rigs.repository import RECORDING_NAMES
from rigs.trace_requests import attribute, turn_request

NO_GOLDENS = GoldenIndex()
SCORER = scorer_of(metrics=WITHOUT_GOLDEN)
ENGINE = EngineSettings(scorer=SCORER, events=Events.ALL)
SETTINGS = PipelineSettings(engine=ENGINE)
TOOLS = [
    {
        "type": "function",
        "name": "look",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    }
]


def turn(session: str, said: str, looked_at: Any, number: int = 0) -> dict[str, Any]:
    """A turn in which a user says something, and an agent with one tool looks at something."""
    document = turn_request(session, ("look", {"at": looked_at}), turn=number, user=said)
    root, tool = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    root["attributes"].append(attribute("gen_ai.tool.definitions", json.dumps(TOOLS)))
    tool["attributes"].append(attribute("gen_ai.tool.call.result", f"nothing at {looked_at}"))
    return document


def request(document: dict[str, Any]) -> ExportRequest:
    return ExportRequest(Signal.TRACES, as_message(document).SerializeToString())


def written(folder: Path, *documents: dict[str, Any]) -> list[Path]:
    """The same spans as files, for a replay."""
    paths = [folder / f"{number}.otlp.json" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document))
    return paths


def attributes(downstream: Downstream, prefix: str) -> list[dict[str, Any]]:
    """The attributes of each span that begin with a prefix, of spans that have any."""
    every = (message_attributes(span.attributes) for span in downstream.spans())
    found = [{key: value for key, value in one.items() if key.startswith(prefix)} for one in every]
    return [one for one in found if one]


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_final_results_are_those_of_a_replay_however_the_records_come(recording: str) -> None:
    wanted = said_by_replay(files_of(recording), NO_GOLDENS.with_sample(1.0), SCORER)
    requests = bodies_of(recording)
    for seed, sent in enumerate([requests, cut_up(requests, 1)]):
        downstream = run(sent, NO_GOLDENS, SETTINGS)
        assert downstream.said() == wanted, seed
        ids = sorted(span.span_id for span in downstream.spans())
        assert ids == sorted(span.span_id for span in spans_in(r.body for r in sent if r.signal is Signal.TRACES))


def test_a_session_in_order_leaves_as_it_came() -> None:
    by_exception = PipelineSettings(engine=EngineSettings(scorer=SCORER))
    downstream = run([request(turn("s", "look at the pier", "the pier"))], NO_GOLDENS, by_exception)
    assert (downstream.events(), attributes(downstream, "tool_parameter"), attributes(downstream, "tool_call_")) == (
        [],
        [],
        [],
    )
    downstream = run([request(turn("s", "look at the pier", "the harbour"))], NO_GOLDENS, by_exception)
    assert {one["gen_ai.evaluation.name"] for one in downstream.events()} == {"tool_parameter_grounding"}
    assert attributes(downstream, "tool_parameter_grounding")


def test_scores_leave_as_attributes_events_and_points() -> None:
    downstream = run([request(turn("s", "look at the harbour", "the pier"))], NO_GOLDENS, SETTINGS)
    tool, root = sorted(attributes(downstream, "tool_"), key=len, reverse=True)
    assert tool["tool_parameter_grounding.score"] == 0.0
    assert tool["tool_parameter_grounding.label"] == "fail"
    assert tool["tool_parameter_grounding.ungrounded"] == ["at"]
    assert tool["tool_parameter_schema.label"] == "pass"
    assert root["tool_parameter_grounding.turn.label"] == "fail"
    assert {event["gen_ai.evaluation.name"] for event in downstream.events()} == {one.name for one in WITHOUT_GOLDEN}
    points = downstream.points()
    assert points["tool_parameter_grounding.failed_arguments"] == 1
    assert not [name for name in (*tool, *root, *points) if name.startswith("tool_parameter_match")]


def test_the_sample_is_that_of_a_replay(tmp_path: Path) -> None:
    documents = [turn(f"session-{number}", "look at the harbour", "the harbour", number) for number in range(60)]
    settings = PipelineSettings(engine=ENGINE, sample=0.3)
    downstream = run(map(request, documents), NO_GOLDENS, settings)
    said = downstream.said()
    assert said == said_by_replay(written(tmp_path, *documents), NO_GOLDENS.with_sample(0.3), SCORER)
    sampled = {event["gen_ai.conversation.id"] for event in said.values()}
    wants = NO_GOLDENS.with_sample(0.3).wants
    assert sampled == {f"session-{number}" for number in range(60) if wants(f"session-{number}")}
    assert 5 < len(sampled) < 40


def test_beside_goldens_other_sessions_are_scored_and_the_sample_stays_after_a_reload() -> None:
    golden = {"session": "known", "turns": [{"calls": [{"name": "look", "args": {"at": "the harbour"}}]}]}
    goldens = load_goldens({"format": 1, "golden_set": "g", "goldens": [golden]})
    downstream = Downstream()
    pipeline = GatewayPipeline(goldens, downstream, SETTINGS)
    pipeline.reload_goldens(load_goldens({"format": 1, "golden_set": "h", "goldens": [golden]}))
    for session in ("known", "other"):
        pipeline.accept(request(turn(session, "look at the harbour", "the harbour")))
    assert pipeline.drain(10.0)
    names = {(event["gen_ai.conversation.id"], event["gen_ai.evaluation.name"]) for event in downstream.events()}
    free = {one.name for one in WITHOUT_GOLDEN}
    assert names == {(session, name) for session in ("known", "other") for name in free} | {
        ("known", "tool_parameter_match")
    }
    document = pipeline.coverage()
    assert document["goldens"] == {"total": 1, "seen": 1, "never_seen": 0}
    assert document["seen"][0]["sessions"] == {"pass": 1}
    assert document["sessions_without_golden"] == 1
    assert document["metrics"]["tool_parameter_grounding"] == {"sessions": {"pass": 2}, "calls_not_evaluated": {}}


def test_without_goldens_no_session_lacks_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "goldspan.gateway")
    pipeline = GatewayPipeline(NO_GOLDENS, Downstream(), SETTINGS)
    pipeline.accept(request(turn("s", "look at the harbour", "the harbour")))
    assert pipeline.not_ready_reason() is None
    assert pipeline.drain(10.0)
    document = pipeline.coverage()
    assert document["goldens"] == {"total": 0, "seen": 0, "never_seen": 0}
    assert document["sessions_without_golden"] == 0
    assert document["metrics"]["tool_parameter_schema"]["sessions"] == {"pass": 1}
    assert not [one for one in caplog.records if "goldens seen" in one.getMessage()]


def test_sessions_outside_the_sample_stay_unread() -> None:
    sample = NO_GOLDENS.with_sample(0.2)
    documents = [turn(f"session-{number}", "look", "there", number) for number in range(50)]
    requests = [request(document) for document in documents]
    unsampled = [
        one
        for number, one in enumerate(requests)
        if not sample.wants(f"session-{number}")
        and not sample.wants(documents[number]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"])
    ]
    downstream = Downstream()
    pipeline = GatewayPipeline(NO_GOLDENS, downstream, PipelineSettings(engine=ENGINE, sample=0.2))
    for one in unsampled:
        pipeline.accept(one)
    assert pipeline.drain(10.0)
    assert len(unsampled) > 20
    assert {name: value for name, _, value in pipeline.metrics()}["goldspan_read_spans_total"] == 0
    assert sorted(downstream.of(Signal.TRACES)) == sorted(one.body for one in unsampled)
