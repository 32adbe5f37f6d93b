"""Events, spans and attributes as bytes, beside what the SDK encodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from conformance.known_gaps import or_known_gap
from conformance.recordings import files_of
from goldspan.collector_processor.emit.emitters import EventEmitter
from goldspan.collector_processor.emit.evaluation import Evaluation, event_attributes, source_attributes
from goldspan.collector_processor.emit.otlp_encoding import (
    SPAN_ATTRIBUTES,
    encoded_attributes,
    encoded_events,
    encoded_span,
    export_request,
    span_source,
)
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import ResourceFacts
from goldspan.mappers.spans import SpanView
from goldspan.scoring.sessions import SpanRef
from rigs import evaluation_examples as given
from rigs.otlp_containers import as_sdk_spans, requests_of
from rigs.recorded_evaluations import WRONG, evaluations_of
from rigs.recorded_goldens import goldens_of
from rigs.repository import RECORDING_NAMES

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
@pytest.mark.parametrize("recording", or_known_gap(RECORDING_NAMES))
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


def encoded(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(
        export_request([(span_source(one), encoded_span(one)) for one in spans])
    )


OF_NONE = ReadableSpan("none", SpanContext(1, 1, is_remote=False), attributes={"none": cast("Any", None)})
ENCODES_NONE = len(encode_spans([OF_NONE]).resource_spans[0].scope_spans[0].spans[0].attributes) == 1
"""The encoder of SDK 1.39 leaves such an attribute out; later ones write an empty value, as goldspan does."""


def leave_out_none(request: ExportTraceServiceRequest) -> None:
    for source in request.resource_spans:
        for span in (span for scope in source.scope_spans for span in scope.spans):
            for attributes in (span.attributes, *(event.attributes for event in span.events)):
                kept = [one for one in attributes if one.value.WhichOneof("value") is not None]
                del attributes[:]
                attributes.extend(kept)


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", sorted(RECORDING_NAMES))
def test_encoded_spans_are_those_of_the_sdk(recording: str) -> None:
    spans = [span for request in requests_of(recording) for span in as_sdk_spans(request)]
    assert spans
    ours, theirs = encoded(spans), encode_spans(spans)
    if not ENCODES_NONE:
        leave_out_none(ours)
    assert ours == theirs


def test_spans_beyond_the_limits_of_the_sdk_are_those_of_the_sdk() -> None:
    memory = InMemorySpanExporter()
    limits = SpanLimits(max_attributes=2, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1)
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    attributes = {"a": "1", "b": (True, False), "c": 3.5}
    links = [Link(SpanContext(1, number, is_remote=True), attributes) for number in (1, 2)]
    for tracer in (provider.get_tracer("one", "1", "https://example.com/schema", {"x": 1}), provider.get_tracer("two")):
        with tracer.start_as_current_span("parent", attributes=attributes, links=links) as parent:
            tracer.start_span("child", kind=SpanKind.CLIENT).end()
            parent.add_event("first", attributes)
            parent.add_link(SpanContext(1, 3, is_remote=False), attributes)
            parent.record_exception(ValueError("no"))
            parent.set_status(StatusCode.ERROR, "no")
    provider.shutdown()
    spans = memory.get_finished_spans()
    assert encoded(spans) == encode_spans(spans)
    [_, parent_of_one] = encoded(spans).resource_spans[0].scope_spans[0].spans
    assert (parent_of_one.dropped_attributes_count, parent_of_one.dropped_events_count) == (1, 1)
    assert (parent_of_one.dropped_links_count, parent_of_one.links[0].dropped_attributes_count) == (2, 2)
    assert parent_of_one.status.message


utf8 = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
nested = st.recursive(
    st.one_of(utf8, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=9)),
    lambda one: st.one_of(st.lists(one, max_size=3).map(tuple), st.dictionaries(utf8, one, max_size=3)),
    max_leaves=8,
)
"""Values that the encoder of every SDK takes."""
refused = st.one_of(
    st.sampled_from([2**63, -(2**63) - 1, object(), {1, 2}, (object(),)]), st.sets(utf8), st.complex_numbers()
)
"""Values that none takes: the attribute is left out."""
bags = st.dictionaries(utf8, st.one_of(nested, refused), max_size=4)
contexts = st.builds(
    SpanContext,
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.booleans(),
    trace_state=st.sampled_from([TraceState(), TraceState([("vendor", "1"), ("other", "x y")])]),
)
times = st.one_of(st.none(), st.integers(0, 2**64 - 1))
counts = st.integers(0, 2**31)
sdk_resources = st.builds(Resource, st.dictionaries(utf8.filter(bool), utf8, max_size=1), utf8)
sdk_scopes = st.one_of(st.none(), st.builds(InstrumentationScope, utf8, st.one_of(st.none(), utf8), utf8))
sources = st.lists(st.tuples(sdk_resources, sdk_scopes), min_size=1, max_size=3)
statuses = st.one_of(
    st.builds(Status, st.sampled_from([StatusCode.UNSET, StatusCode.OK])),
    st.builds(Status, st.just(StatusCode.ERROR), st.one_of(st.none(), utf8)),
)


@for_all(st.data(), sources)
def test_spans_of_any_shape_are_those_of_the_sdk(data: st.DataObject, places: list[tuple[Any, Any]]) -> None:
    spans: list[ReadableSpan] = []
    for _ in range(data.draw(st.integers(1, 3))):
        resource, scope = data.draw(st.sampled_from(places))
        events = st.lists(st.builds(Event, utf8, bags, st.integers(1, 2**64 - 1)), max_size=2)
        links = st.lists(st.builds(Link, contexts, bags), max_size=2)
        spans.append(
            ReadableSpan(
                data.draw(utf8),
                data.draw(contexts),
                data.draw(st.one_of(st.none(), contexts)),
                resource,
                data.draw(st.one_of(st.none(), bags)),
                data.draw(events),
                data.draw(links),
                data.draw(st.sampled_from(SpanKind)),
                status=data.draw(statuses),
                start_time=data.draw(times),
                end_time=data.draw(times),
                instrumentation_scope=scope,
            )
        )
    assert encoded(spans) == encode_spans(spans)


def test_an_attribute_that_is_left_out_is_logged_once_without_its_value(caplog: pytest.LogCaptureFixture) -> None:
    for value in (1 << 63, 1 << 64):
        assert encoded_attributes({"card": value, "kept": 1}, SPAN_ATTRIBUTES).count(b"kept") == 1
    [logged] = [record.getMessage() for record in caplog.records if record.name == "goldspan"]
    assert "attribute card is left out" in logged
    assert str(1 << 63) not in logged


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
