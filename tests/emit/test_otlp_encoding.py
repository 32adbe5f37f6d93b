"""Events and attributes as bytes, beside what the SDK encodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

import evaluation_examples as given
from conformance.recordings import files_of
from goldspan.collector_processor.emit.attributes import event_attributes, source_attributes
from goldspan.collector_processor.emit.emitters import EventEmitter
from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.emit.otlp_encoding import (
    SPAN_ATTRIBUTES,
    encoded_attributes,
    encoded_event,
    encoded_events,
    events_request,
)
from goldspan.mappers.readers import read_files
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import SpanRef
from recorded_evaluations import NAMES, WRONG, evaluations_of
from recorded_goldens import goldens_of

OBSERVED = 1_800_000_000_000_000_000


def by_the_sdk(evaluations: Sequence[Evaluation]) -> ExportLogsServiceRequest:
    """Emit events through logger providers with the resources of what was judged, and encode the records."""
    exporter = InMemoryLogRecordExporter()
    emitters: dict[ResourceFacts, EventEmitter] = {}
    for evaluation in evaluations:
        if evaluation.resource not in emitters:
            resource = Resource(source_attributes(evaluation.resource))
            provider = LoggerProvider(resource, shutdown_on_exit=False)
            provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
            emitters[evaluation.resource] = EventEmitter(provider)
        emitters[evaluation.resource].emit(evaluation)
    return encode_logs(exporter.get_finished_logs())


def observed_at_once(request: ExportLogsServiceRequest) -> ExportLogsServiceRequest:
    """Give all records one observed time, and no body in place of an empty one."""
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                record.observed_time_unix_nano = OBSERVED
                assert not record.body.WhichOneof("value")
                record.ClearField("body")
    return request


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", NAMES)
def test_encoded_events_are_those_of_the_sdk(recording: str) -> None:
    for goldens in (goldens_of(recording), WRONG):
        evaluations = evaluations_of(recording, goldens)
        assert evaluations
        encoded = ExportLogsServiceRequest.FromString(encoded_events(evaluations, OBSERVED))
        assert encoded == observed_at_once(by_the_sdk(evaluations))


@pytest.mark.parametrize("recording", ["raw-openai-otel-genai-responses", "vercel-ai-v5-stream"])
def test_an_event_of_a_call_names_the_response_that_requested_it(recording: str) -> None:
    requesting = {
        str(view.attributes[key]): str(dict(view.attributes))
        for view in read_files(files_of(recording), lambda _: None)
        if isinstance(view, SpanView)
        for key in ("gen_ai.response.id", "ai.response.id")
        if key in view.attributes
    }
    events = [event_attributes(one) for one in evaluations_of(recording, goldens_of(recording))]
    calls = [one for one in events if one.get("tool_parameter_match.level") == "call"]
    assert calls
    for call in calls:
        assert str(call["gen_ai.tool.call.id"]) in requesting[str(call["gen_ai.response.id"])]
    assert not any("gen_ai.response.id" in one for one in events if "gen_ai.tool.name" not in one)


@pytest.mark.parametrize(
    "evaluation",
    [
        given.evaluation(given.MISSING, explanation="x" * 200_000, session_id="Zürich ☃", incomplete=True),
        given.evaluation(given.UNEXPECTED, revision=300, agent="", preset="adk", golden="", golden_set=""),
        given.evaluation(given.SESSION, target=None, withdrawn=True, resource=ResourceFacts()),
        given.evaluation(given.TURN, target=SpanRef("", ""), turn_index=None, timestamp=0),
        given.evaluation(given.TURN, target=SpanRef("none", "at all"), verdict=given.UNKNOWN),
    ],
)
def test_unusual_events_are_those_of_the_sdk(evaluation: Evaluation) -> None:
    encoded = ExportLogsServiceRequest.FromString(encoded_events([evaluation], OBSERVED))
    assert encoded == observed_at_once(by_the_sdk([evaluation]))


def test_events_of_several_resources_are_one_request() -> None:
    shops = [given.evaluation(given.TURN, resource=ResourceFacts(name)) for name in ("a", "b", "a")]
    request = ExportLogsServiceRequest.FromString(encoded_events(shops, OBSERVED))
    counts = [
        (one.resource.attributes[0].value.string_value, len(one.scope_logs[0].log_records))
        for one in request.resource_logs
    ]
    assert counts == [("a", 2), ("b", 1)]
    parts = {one: [encoded_event(given.evaluation(given.TURN), OBSERVED)] for one in (ResourceFacts("c"),)}
    assert len(ExportLogsServiceRequest.FromString(events_request(parts)).resource_logs) == 1


def value_of(value: Any) -> Any:
    if value.WhichOneof("value") == "array_value":
        return tuple(map(value_of, value.array_value.values))
    return getattr(value, value.WhichOneof("value"))


texts = st.text(st.characters(), max_size=300)
values = st.one_of(
    texts,
    st.text("x", min_size=120, max_size=140),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(texts, max_size=3).map(tuple),
)


@for_all(st.dictionaries(texts, values, max_size=6))
def test_every_attribute_can_be_read_again(attributes: Mapping[str, Any]) -> None:
    span = Span.FromString(encoded_attributes(attributes, SPAN_ATTRIBUTES))
    read = [(pair.key, value_of(pair.value)) for pair in span.attributes]
    assert read == [(_readable(key), _readable(value)) for key, value in attributes.items()]
    assert [type(value) for _, value in read] == [type(value) for value in attributes.values()]


def _readable(value: Any) -> Any:
    """Text with its lone surrogates escaped."""
    if isinstance(value, tuple):
        return tuple(_readable(one) for one in cast("tuple[str, ...]", value))
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
