"""Two tiers of gateways: the first, by trace, stamps the session on every span; the second, by session, scores."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from goldspan.collector_processor.engine.settings import EngineSettings
from goldspan.collector_processor.gateway.attribute_key_scanner import KeyScanner
from goldspan.collector_processor.gateway.encoded_spans import SpanGroup, by_trace, join_request, split_request
from goldspan.collector_processor.gateway.first_tier import SESSION_ID
from goldspan.collector_processor.gateway.interfaces import Accepted, Request, Signal
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.loading import load_settings
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_messages import message_attributes
from goldspan.scoring.goldens import load_goldens
from markdown_pages import blocks
from otlp_containers import as_message
from otlp_logs import LOGGED
from pipeline_rig import NAMES, QUICK, Downstream, bodies_of, cut_up, everything, files_of, run, said_by_replay, until
from trace_requests import plain_request, turn_request

ASSEMBLE = PipelineSettings(tier="assemble", engine=QUICK)
SCANNER = KeyScanner(DialectRegistry())
NO_GOLDENS = load_goldens({"format": 1, "golden_set": "g", "goldens": []})


def which(key: bytes) -> int:
    """The gateway of two that a load balancer sends this key to."""
    return hashlib.sha256(key).digest()[0] % 2


def traces(document: object) -> Request:
    return Request(Signal.TRACES, as_message(document).SerializeToString())


def by_trace_id(requests: Iterable[Request]) -> list[list[Request]]:
    """What a load balancer makes of requests: those of each of two gateways."""
    routed: list[list[Request]] = [[], []]
    for request in requests:
        groups = split_request(request.body) or []
        for number in (0, 1):
            mine = [
                SpanGroup(
                    group.envelope,
                    [
                        span
                        for trace, spans in by_trace(group.spans).items()
                        if which(trace) == number
                        for span in spans
                    ],
                )
                for group in groups
            ]
            if body := join_request(mine):
                routed[number].append(Request(request.signal, body))
    return routed


def by_session(bodies: Iterable[bytes]) -> list[list[Request]]:
    """The same, by the attribute of the resource, as the Collector's load balancer reads it."""
    routed: list[list[Request]] = [[], []]
    for body in bodies:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            session = str(message_attributes(group.resource.attributes).get(SESSION_ID, ""))
            request = ExportTraceServiceRequest(resource_spans=[group])
            routed[which(session.encode())].append(Request(Signal.TRACES, request.SerializeToString()))
    return routed


def agents_first(requests: Sequence[Request]) -> list[Request]:
    """Requests in an order in which no trace begins with spans that no dialect marks: those would pass at once."""
    known: set[bytes] = set()
    waiting = list(requests)
    order: list[Request] = []
    while waiting:
        for request in waiting:
            found: dict[bytes, bool] = {}
            for group in split_request(request.body) or []:
                for trace, spans in by_trace(group.spans).items():
                    ours = SCANNER.reads_without_attributes(group.envelope.scope) or any(map(SCANNER.marked, spans))
                    found[trace] = found.get(trace, trace in known) or ours
            if all(found.values()):
                break
        else:
            return order + waiting
        known |= found.keys()
        order.append(request)
        waiting = [one for one in waiting if one is not request]
    return order


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", [name for name in NAMES if name not in LOGGED])
def test_two_tiers_say_what_a_replay_says(recording: str) -> None:
    sent = agents_first(cut_up(bodies_of(recording), seed=len(recording)))
    first = [run(some, NO_GOLDENS, ASSEMBLE) for some in by_trace_id(sent)]
    stamped = [body for one in first for body in one.of(Signal.TRACES)]
    assert not any(one.events() for one in first)
    assert ids(stamped) == ids(request.body for request in sent)
    random.Random(recording).shuffle(stamped)
    second = [run(some, everything()) for some in by_session(stamped)]
    said = {name: event for one in second for name, event in one.said().items()}
    assert sum(len(one.said()) for one in second) == len(said)
    assert said == said_by_replay(files_of(recording), everything())


def ids(bodies: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    return sorted((span.trace_id, span.span_id) for body in bodies for _, span in stamps(body))


def stamps(body: bytes) -> list[tuple[object, Span]]:
    """Each span with the session of its resource."""
    return [
        (message_attributes(group.resource.attributes).get(SESSION_ID), span)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for inner in group.scope_spans
        for span in inner.spans
    ]


def sessions(downstream: Downstream) -> set[tuple[object, object]]:
    """The session on the resource and on the span itself, of all spans."""
    return {
        (on_resource, message_attributes(span.attributes).get(SESSION_ID))
        for body in downstream.of(Signal.TRACES)
        for on_resource, span in stamps(body)
    }


def test_sessions_that_shared_a_resource_leave_apart() -> None:
    both = [traces(turn_request(name, ("get_weather", {"city": "Paris"}))) for name in ("one", "two")]
    body = join_request(group for request in both for group in split_request(request.body) or [])
    downstream = run([Request(Signal.TRACES, body)], NO_GOLDENS, ASSEMBLE)
    assert sessions(downstream) == {("one", "one"), ("two", "two")}
    assert len(downstream.spans()) == 4


def test_what_has_no_session_passes_unstamped_and_plain_traces_at_once() -> None:
    downstream = Downstream()
    slow = EngineSettings(settle=60.0, hold_timeout=60.0)
    pipeline = GatewayPipeline(NO_GOLDENS, downstream, PipelineSettings(tier="assemble", engine=slow))
    plain, nameless = traces(plain_request()), traces(turn_request(None, ("get_weather", {"city": "Paris"})))
    assert pipeline.accept(nameless) == pipeline.accept(plain) == Accepted()
    until(lambda: downstream.of(Signal.TRACES))
    assert downstream.of(Signal.TRACES) == [plain.body]
    assert pipeline.drain(10.0)
    assert sessions(downstream) == {(None, None)}
    assert not pipeline.failures


def test_spans_that_are_late_are_stamped_by_what_is_known_of_their_trace() -> None:
    document = turn_request("wanted", ("get_weather", {"city": "Paris"}))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    late = traces(document | {"resourceSpans": [{"scopeSpans": [{"spans": spans[1:]}]}]})
    del spans[1:]
    downstream = Downstream()
    pipeline = GatewayPipeline(NO_GOLDENS, downstream, ASSEMBLE)
    assert pipeline.accept(traces(document)) == Accepted()
    until(lambda: len(downstream.spans()) == 1)
    assert pipeline.accept(late) == Accepted()
    until(lambda: len(downstream.spans()) == 2)
    assert pipeline.drain(10.0)
    assert sessions(downstream) == {("wanted", "wanted")}


def test_a_span_that_waits_too_long_leaves_without_its_session() -> None:
    document = turn_request("wanted", ("get_weather", {"city": "Paris"}))
    del document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    downstream = Downstream()
    engine = EngineSettings(settle=0.05, hold_timeout=0.3)
    pipeline = GatewayPipeline(NO_GOLDENS, downstream, PipelineSettings(tier="assemble", engine=engine))
    assert pipeline.accept(traces(document)) == Accepted()
    until(lambda: len(downstream.spans()) == 1)
    assert sessions(downstream) == {(None, None)}
    assert pipeline.worker.released_early["hold_timeout"] == 1
    assert pipeline.drain(10.0)


def test_what_waits_is_bounded_and_survives_a_restart(tmp_path: Path) -> None:
    slow = EngineSettings(settle=60.0, hold_timeout=60.0)
    request = traces(turn_request("wanted", ("get_weather", {"city": "Paris"})))
    settings = PipelineSettings(tier="assemble", engine=slow, journal=tmp_path, max_held_bytes=3000)
    before = GatewayPipeline(NO_GOLDENS, Downstream(), settings)
    assert before.accept(request) == Accepted()
    until(lambda: sum(state.tenant.held_spans for state in before.worker.tenants) == 2)
    crash(before)
    downstream = Downstream()
    after = GatewayPipeline(NO_GOLDENS, downstream, settings)
    until(lambda: sum(state.tenant.held_spans for state in after.worker.tenants) == 2)
    for turn in range(1, 5):
        assert after.accept(traces(turn_request("wanted", ("get_weather", {"city": "Paris"}), turn=turn))) == Accepted()
    until(lambda: len(downstream.spans()) >= 6)
    assert sum(state.tenant.held_bytes for state in after.worker.tenants) <= 3000
    assert after.drain(10.0)
    assert len(downstream.spans()) == len({span.span_id for span in downstream.spans()}) == 10
    assert sessions(downstream) == {("wanted", "wanted")}


@pytest.mark.parametrize(("name", "tier"), [("first.yaml", "assemble"), ("second.yaml", "single")])
def test_the_settings_of_the_page_can_be_used(name: str, tier: str, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "scale-out.md"
    [block] = [one for one in blocks(page.read_text("utf-8")) if one.file == name]
    (tmp_path / name).write_text(block.text)
    settings = load_settings(tmp_path / name, {})
    assert settings.scoring.tier == settings.pipeline({}).tier == tier


def crash(pipeline: GatewayPipeline) -> None:
    """Leave everything as a killed process would."""
    pipeline._closing = True
    pipeline.worker.outbox.commit = lambda *_: 0  # type: ignore[method-assign]
    pipeline.dispatcher.close(5.0)
    pipeline._queue.put(None)
    pipeline._thread.join(5.0)
    if pipeline._journal is not None:
        pipeline._journal.close()
