"""What a view says of a span that was written in any of the ways the specification, or a sloppy writer, allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import SpanView
from goldspan.scoring.errors import Problem
from rigs.otlp_containers import Span, as_message, requests_of

TRACE, SPAN = "0AF7651916CD43DD8448EB211C80319C", "B7AD6B7169203331"


def one(source: object, left_out: Sequence[str] = ()) -> SpanView:
    """Read the one span of a source; `left_out` are the fields that cannot be read."""
    problems: list[Problem] = []
    (view,) = views(source, problems.append)
    assert [problem.code for problem in problems] == ["bad_span"] * len(left_out)
    assert [problem.message.partition(" ")[0] for problem in problems] == [*left_out]
    return view


def value(any_value: Any) -> Any:
    return one({"name": "s", "attributes": [{"key": "k", "value": any_value}]}).attributes["k"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"stringValue": "Léa"}, "Léa"),
        ({"stringValue": ""}, ""),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 7}, 7),
        ({"intValue": 7.0}, 7),
        ({"intValue": "seven"}, "seven"),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": 3}, 3.0),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"boolValue": False}, False),
        ({"bytesValue": "AP8="}, b"\x00\xff"),
        ({"bytesValue": "!"}, "!"),
        ({}, None),
        (None, None),
        ({"arrayValue": {}}, []),
        ({"arrayValue": {"values": [{"intValue": "1"}, {}, {"stringValue": "x"}]}}, [1, None, "x"]),
        ({"kvlistValue": {}}, {}),
        (
            {
                "kvlistValue": {
                    "values": [{"key": "a", "value": {"intValue": "1"}}, {"key": "b"}, "no pair", {"key": 3}]
                }
            },
            {"a": 1, "b": None},
        ),
        ({"unknownValue": 3}, None),
        ("bare text", "bare text"),
        (["bare", 1], ["bare", 1]),
        ({"string_value": "proto names"}, "proto names"),
    ],
)
def test_attribute_values(written: Any, expected: Any) -> None:
    assert value(written) == expected
    assert type(value(written)) is type(expected)


def test_a_number_that_is_none_stays_one() -> None:
    assert math.isnan(value({"doubleValue": "NaN"}))


def test_values_nested_beyond_what_protobuf_allows_are_cut() -> None:
    nested: Any = {"intValue": "1"}
    for _ in range(400):
        nested = {"arrayValue": {"values": [nested]}}
    assert isinstance(value(nested), list)


def test_of_a_key_given_twice_the_last_wins_and_pairs_that_are_none_are_passed_over() -> None:
    pairs = [{"key": "a", "value": {"intValue": "1"}}, 3, {"value": {}}, {"key": None}, {"key": "a", "value": {}}]
    assert one({"name": "s", "attributes": pairs}).attributes == {"a": None}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"traceId": TRACE, "spanId": SPAN}, (TRACE.lower(), SPAN.lower())),
        ({"trace_id": TRACE, "span_id": SPAN}, (TRACE.lower(), SPAN.lower())),
        ({"traceId": "CvdlGRbNQ92ESOshHIAxnA==", "spanId": "t61rcWkgMzE="}, (TRACE.lower(), SPAN.lower())),
        ({"traceId": "0" * 32, "spanId": "0" * 16}, ("", "")),
        ({"traceId": "", "spanId": None}, ("", "")),
    ],
)
def test_ids(raw: dict[str, Any], expected: tuple[str, str]) -> None:
    view = one({"name": "s", **raw})
    assert (view.trace_id, view.span_id) == expected


@pytest.mark.parametrize("raw", [{"traceId": 3}, {"spanId": [1]}, {"parentSpanId": True}])
def test_a_span_whose_ids_cannot_be_read_is_left_out(raw: dict[str, Any]) -> None:
    problems: list[Problem] = []
    assert [view.name for view in views([{"name": "s", **raw}, {"name": "t"}], problems.append)] == ["t"]
    assert [problem.code for problem in problems] == ["bad_span"]


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        ({"kind": 3, "status": {"code": 2}}, 3, 2),
        ({"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR"}}, 3, 2),
        ({"kind": "SERVER", "status": {"code": "OK"}}, 2, 1),
        ({"kind": "3", "status": {}}, 3, 0),
        ({"kind": None, "status": "ERROR"}, 0, 0),
        ({"kind": {}, "status": {"code": True}}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_enums(raw: dict[str, Any], kind: int, status: int) -> None:
    left_out = [name for name in ("kind", "status") if raw.get(name) in ({}, "ERROR", {"code": True})]
    view = one({"name": "s", **raw}, [] if raw.get("kind") == "3" else left_out)
    assert (view.kind, view.status_code) == (kind, status)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1795226910040833500", 1795226910040833500),
        (17, 17),
        ("", 0),
        (None, 0),
        ("soon", 0),
        (-3, 0),
        ([], 0),
        (1e18, 10**18),
    ],
)
def test_times_are_never_invented(written: Any, expected: int) -> None:
    left_out = ["startTimeUnixNano", "endTimeUnixNano"] if written is not None and not expected else []
    view = one({"name": "s", "startTimeUnixNano": written, "endTimeUnixNano": written}, left_out)
    assert (view.start, view.end) == (expected, expected)


def test_wrong_types_of_everything_else_read_as_nothing() -> None:
    wrong = {"name": 3, "events": "none", "status": {"message": 4}, "flags": "many", "attributes": None}
    view = one(wrong, ["name", "flags", "events"])
    assert (view.name, list(view.events), view.status_message, view.parent_is_remote) == ("", [], "", False)
    assert one({"name": "s", "events": [3, {"name": None}, {"attributes": "x"}]}).events[1].attributes == {}


@pytest.mark.parametrize(("flags", "remote"), [(0x301, True), ("769", True), (0x101, False), (None, False)])
def test_remote_parents(flags: Any, remote: bool) -> None:
    assert one({"name": "s", "flags": flags}).parent_is_remote is remote


def test_spans_of_equal_resources_share_one_object_over_many_requests() -> None:
    requests = requests_of("mcp-native")
    assert len(requests) > 1
    assert len({id(view.resource) for view in views(requests, pytest.fail)}) == 1


# SDK spans


def test_a_span_made_by_hand_without_context_reads_as_one_without_ids_or_times() -> None:
    view = one(ReadableSpan(name="get_weather", attributes={"tool.name": "get_weather", "input.value": "{}"}))
    assert (view.trace_id, view.span_id, view.parent_id) == ("", "", "")
    assert (view.start, view.end, view.kind, view.status_code) == (0, 0, 1, 0)
    assert dict(view.attributes) == {"tool.name": "get_weather", "input.value": "{}"}


def test_a_span_without_attributes_has_none() -> None:
    assert dict(one(ReadableSpan(name="s")).attributes) == {}


def test_ids_of_the_sdk_are_padded_and_kinds_counted_as_in_otlp() -> None:
    context = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1))
    parent = SpanContext(1, 3, is_remote=True, trace_flags=TraceFlags(1))
    view = one(ReadableSpan(name="s", context=context, parent=parent, kind=SpanKind.CONSUMER))
    assert view.trace_id == "0" * 31 + "1"
    assert (view.span_id, view.parent_id) == ("0" * 15 + "2", "0" * 15 + "3")
    assert (view.kind, view.parent_is_remote) == (5, True)


def test_the_public_attributes_do_where_the_sdk_has_no_dict_inside() -> None:
    class Foreign(ReadableSpan):
        @property
        def attributes(self) -> Any:
            return {"tool.name": "x"}

    span = Foreign(name="s")
    del span._attributes
    assert one(span).attributes == {"tool.name": "x"}


# Messages


def test_messages_of_every_level_are_read() -> None:
    request = as_message(requests_of("mcp-native")[0])
    traces = TracesData(resource_spans=request.resource_spans)
    expected = [view.span_id for view in views(request, pytest.fail)]
    for source in (
        traces,
        list(request.resource_spans),
        [scope for group in request.resource_spans for scope in group.scope_spans],
        [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans],
    ):
        assert [view.span_id for view in views(source, pytest.fail)] == expected


def test_an_empty_value_and_an_invalid_id_of_a_message() -> None:
    span = SpanMessage(trace_id=b"\0" * 16, name="s")
    span.attributes.add(key="null", value=AnyValue())
    view = one(ResourceSpans(scope_spans=[ScopeSpans(spans=[span])]))
    assert (view.trace_id, view.span_id, dict(view.attributes)) == ("", "", {"null": None})


# Mixtures


def test_what_cannot_be_a_span_is_a_problem_that_names_its_place() -> None:
    problems: list[Problem] = []
    made = Span(name="view")
    source = [3, {"name": "a"}, None, AnyValue(), object(), [{"name": "b"}], made, b"bytes"]
    assert [view.name for view in views(source, problems.append)] == ["a", "b", "view"]
    assert [problem.source for problem in problems] == ["input[0]", "input[2]", "input[3]", "input[4]", "input[7]"]
    assert "protobuf message of type" in problems[2].message


def test_a_single_thing_needs_no_list() -> None:
    assert one({"name": "a"}).name == "a"
    assert one(ReadableSpan(name="b")).name == "b"
    assert one(SpanMessage(name="c")).name == "c"
    assert [problem.code for problem in collect(3)] == ["bad_record"]


def collect(source: object) -> list[Problem]:
    problems: list[Problem] = []
    assert list(views(source, problems.append)) == []
    return problems


def test_a_span_broken_by_its_maker_does_not_stop_the_others() -> None:
    class Broken(ReadableSpan):
        @property
        def context(self) -> Any:
            raise AttributeError("no context here")

    problems: list[Problem] = []
    found = [view.name for view in views([Broken(name="a"), ReadableSpan(name="b")], problems.append)]
    assert found == ["b"]
    assert problems[0].code == "bad_span"


def test_views_are_read_one_at_a_time() -> None:
    def endless() -> Any:
        while True:
            yield {"name": "again"}

    stream = views(endless(), pytest.fail)
    assert [next(stream).name, next(stream).name] == ["again", "again"]


def test_reading_needs_no_registry_and_a_registry_no_reader() -> None:
    assert DialectRegistry().read(Span({"gen_ai.operation.name": "invoke_agent"})).role is not None
