"""Requests taken apart and put together: every byte of every span stays, and only what was asked for is added."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from goldspan.collector_processor.encoded_spans.span_groups import (
    Envelope,
    KeyScanner,
    SpanGroup,
    join_request,
    ref_of,
    split_request,
    trace_id_of,
    traces_at,
    with_scores,
)
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.otlp_protobuf import ProtobufReader, message_attributes
from goldspan.mappers.spans import LogView
from rigs.otlp_containers import as_message, requests_of
from rigs.otlp_requests import message_of, requests
from rigs.repository import RECORDING_NAMES

REGISTRY = DialectRegistry()
SCANNER = KeyScanner(REGISTRY)
Placed = tuple[bytes, bytes, bytes]
"""A span with its resource and scope, all encoded."""


def apart(body: bytes) -> list[SpanGroup]:
    groups = split_request(body)
    assert groups is not None
    return groups


def placed(body: bytes) -> list[Placed]:
    return sorted(
        (group.resource.SerializeToString(), inner.scope.SerializeToString(), span.SerializeToString())
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for inner in group.scope_spans
        for span in inner.spans
    )


@given(requests, st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_parts_of_a_request_are_its_spans_with_their_resources_and_scopes(
    request_: dict[str, Any], rng: random.Random, many: int
) -> None:
    body = message_of(request_).SerializeToString()
    parts: list[list[SpanGroup]] = [[] for _ in range(many)]
    for group in apart(body):
        for span in group.spans:
            parts[rng.randrange(many)].append(SpanGroup(group.envelope, [span]))
    bodies = [join_request(part) for part in parts]
    assert sorted(one for part in bodies for one in placed(part)) == placed(body)
    again = join_request(apart(body))
    assert placed(again) == placed(body)
    assert join_request(apart(again)) == again


@given(requests, st.randoms(use_true_random=False))
def test_a_place_in_a_request_is_known_to_be_in_the_trace_of_its_span(
    request_: dict[str, Any], rng: random.Random
) -> None:
    body = message_of(request_).SerializeToString()
    groups, starts, at = apart(body), list[tuple[int, bytes]](), 0
    for span in (span for group in groups for span in group.spans if span):
        at = body.index(span, at)
        starts.append((at, span))
        at += len(span)
    some = sorted(rng.sample(starts, min(3, len(starts))))
    places = [start + rng.randrange(len(span)) for start, span in some]
    assert traces_at(body, groups, places) == {trace_id_of(span) for _, span in some}
    assert traces_at(body, groups, [*places, len(body)]) is None
    assert not body or traces_at(body, groups, [0, *places]) is None


@given(st.lists(st.sampled_from(["a", "b", "é" * 80, 7, 8]), min_size=1, max_size=12))
def test_a_session_id_is_found_where_it_stands_and_only_if_it_is_wanted(ids: list[str | int]) -> None:
    request_ = ExportTraceServiceRequest()
    spans = request_.resource_spans.add().scope_spans.add().spans
    for one in ids:
        value = spans.add(name="gen_ai.conversation.id").attributes.add(key="session.id").value
        if isinstance(one, str):
            value.string_value = one
        else:
            value.int_value = one
    body = request_.SerializeToString()
    for wanted in {"a", "b", "é" * 80, "7", "other"}:
        places = SCANNER.of_interest(body, wanted.__eq__)
        assert places == sorted(places)
        assert len(places) == [str(one) for one in ids].count(wanted)
        assert {next(SCANNER.sessions(body[place:]))[0] for place in places} <= {wanted}


def test_what_nobody_knows_yet_stays_around_the_spans() -> None:
    message = as_message(requests_of(RECORDING_NAMES[0])[0])
    message.resource_spans[0].schema_url = "https://example.com/resource"
    message.resource_spans[0].scope_spans[0].schema_url = "https://example.com/scope"
    unknown = b"\xf2\x3f\x03abc"  # field 1022
    message.resource_spans[0].MergeFromString(unknown)
    message.resource_spans[0].scope_spans[0].MergeFromString(unknown)
    body = message.SerializeToString()
    [first, *_] = apart(body)
    part = join_request([SpanGroup(first.envelope, first.spans[:1])])
    assert part.count(unknown) == 2
    kept = ExportTraceServiceRequest.FromString(part).resource_spans[0]
    assert (kept.schema_url, kept.scope_spans[0].schema_url) == (
        "https://example.com/resource",
        "https://example.com/scope",
    )


@pytest.mark.parametrize("broken", [b"\x0a\xff", b"{}", b"\x0a\x05abc", b"\x0b"])
def test_what_is_no_request_is_told_from_one(broken: bytes) -> None:
    assert split_request(broken) is None


def test_an_empty_request_has_no_spans() -> None:
    assert split_request(b"") == []
    assert join_request([SpanGroup(Envelope(b"", b""), [])]) == b""


def test_attributes_are_added_behind_a_span_that_stays_as_it_was() -> None:
    span = Span(name="execute_tool", trace_id=b"1" * 16, span_id=b"2" * 8)
    span.attributes.add(key="a").value.string_value = "before"
    raw = span.SerializeToString()
    added: dict[str, Any] = {"b": 0.5, "c": True, "d": -1, "e": ("x", "y"), "f": "half \ud800"}
    scored = with_scores(raw, added, {"tool_parameter_match"})
    assert scored.startswith(raw)
    assert message_attributes(Span.FromString(scored).attributes) == {
        **added,
        "a": "before",
        "e": ["x", "y"],
        "f": "half \\ud800",
    }


def test_ids_are_found_wherever_they_stand() -> None:
    first = b"\n\x10" + b"t" * 16 + b"\x12\x08" + b"s" * 8
    swapped = b"\x12\x08" + b"s" * 8 + b"\n\x10" + b"t" * 16
    for span in (first, swapped):
        assert trace_id_of(span) == b"t" * 16
        assert ref_of(span) == ((b"t" * 16).hex(), (b"s" * 8).hex())
    assert trace_id_of(b"") == b""


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_the_scanner_finds_every_span_that_a_dialect_reads_and_every_session(recording: str) -> None:
    for request in requests_of(recording):
        for group in apart(as_message(request).SerializeToString()):
            for span in group.spans:
                reader = ProtobufReader(lambda problem: None)
                [view] = reader.views(reader.parse(join_request([SpanGroup(group.envelope, [span])]), ""), "")
                assert not isinstance(view, LogView)
                facts = REGISTRY.read(view)
                assert (
                    facts.role is None or SCANNER.marked(span) or SCANNER.reads_without_attributes(group.envelope.scope)
                )
                read, scanned = {value for _, value in facts.session_keys}, {one for one, _ in SCANNER.sessions(span)}
                assert read == scanned or (SCANNER.opaque(span) and scanned < read)  # the others stand inside a value


@pytest.mark.parametrize("value", ["s", "s" * 124, "s" * 125, "s" * 126, "s" * 127, "s" * 300, "é", 7])
def test_session_ids_of_any_length_are_found(value: str | int) -> None:
    span = Span(trace_id=b"1" * 16, span_id=b"2" * 8)
    attribute = span.attributes.add(key="session.id")
    if isinstance(value, int):
        attribute.value.int_value = value
    else:
        attribute.value.string_value = value
    assert list(SCANNER.sessions(span.SerializeToString())) == [(str(value), b"session.id")]


@pytest.mark.parametrize("text", ["session.id", "\nsession.id\x12", "\n\nsession.id", "gen_ai.operation.name"])
def test_text_that_speaks_of_sessions_is_no_session(text: str) -> None:
    span = Span(trace_id=b"1" * 16, span_id=b"2" * 8, name=text)
    span.attributes.add(key="text").value.string_value = text
    assert list(SCANNER.sessions(span.SerializeToString())) == []
