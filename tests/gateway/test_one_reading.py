"""OTLP/JSON with slight mistakes: the gateway forwards what a replay reads, and both count what they leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.gateway.receive.otlp_json_requests import json_to_protobuf
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import SpanView
from goldspan.scoring.errors import Problem

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD: dict[str, Any] = {"traceId": TRACE, "spanId": SPAN, "name": "good", "startTimeUnixNano": "5", "kind": 3}


def attribute(value: Any) -> dict[str, Any]:
    return {"attributes": [{"key": "k", "value": value}, {"key": "other", "value": {"stringValue": "x"}}]}


COUNTED: dict[str, dict[str, Any]] = {
    "a name that is no text": {"name": 5},
    "an unknown kind": {"kind": "FOO"},
    "a kind that is no number": {"kind": [3]},
    "flags that are no number": {"flags": "many"},
    "flags that are too large": {"flags": 1 << 40},
    "a negative time": {"startTimeUnixNano": -1},
    "a time that is no number": {"endTimeUnixNano": "soon"},
    "a status that is no object": {"status": "ERROR"},
    "an unknown status": {"status": {"code": "BROKEN", "message": "m"}},
    "events that are no list": {"events": "none"},
    "links that are no list": {"links": {"a": 1}},
    "attributes that are no list": {"attributes": "x"},
}
READ: dict[str, dict[str, Any]] = {
    "nothing wrong": {},
    "a kind by its short name": {"kind": "client"},
    "a kind as text": {"kind": "3"},
    "a time as a real number": {"startTimeUnixNano": "1.5e3"},
    "ids in base64": {"traceId": "CvdlGRbNQ92ESOshHIAxnA==", "spanId": "t61rcWkgMzE="},
    "ids in capitals": {"traceId": TRACE.upper()},
    "a value that was left bare": attribute(5),
    "a text that was left bare": attribute("text"),
    "a list that was left bare": attribute(["a", 1, None]),
    "a number under the kind of booleans": attribute({"boolValue": 1}),
    "a text under the kind of integers": attribute({"intValue": "seven"}),
    "bytes that are no base64": attribute({"bytesValue": "?"}),
    "a list in place of its object": attribute({"arrayValue": [{"intValue": "1"}]}),
    "a wrong value within a list": attribute({"arrayValue": {"values": [{"intValue": []}, {"stringValue": "x"}]}}),
    "an unknown kind of value": attribute({"colour": "red"}),
    "attributes as an object": {"attributes": {"k": "v", "n": [1, True]}},
    "a pair that is none": {"attributes": [3, {"key": 5, "value": {}}, {"key": "k", "value": {"intValue": 1}}]},
    "an event that is none": {"events": [3, {"name": 4, "attributes": []}, {"name": "e"}]},
    "a link that has no usable id": {"links": [{"traceId": 5, "spanId": SPAN}, {"traceId": TRACE, "spanId": SPAN}]},
}
DROPPED: dict[str, Any] = {
    "no object": "span",
    "a number": 5,
    "a trace id that is no text": {**GOOD, "traceId": 5},
    "a span id that is no text": {**GOOD, "spanId": [SPAN]},
    "a parent that is no text": {**GOOD, "parentSpanId": True},
}


def seen(view: SpanView) -> dict[str, Any]:
    """Everything that a span says."""
    return {
        "ids": (view.trace_id, view.span_id, view.parent_id),
        "times": (view.start, view.end),
        "said": (view.name, view.kind, view.parent_is_remote, view.status_code, view.status_message),
        "attributes": dict(view.attributes),
        "events": [(event.name, dict(event.attributes)) for event in view.events],
        "links": list(view.links),
        "resource": dict(view.resource.attributes),
        "scope": view.scope_name,
    }


def read(source: Any) -> tuple[list[dict[str, Any]], int]:
    problems: list[Problem] = []
    return [seen(view) for view in views(source, problems.append) if isinstance(view, SpanView)], len(problems)


def readings(bad: Any, folder: Path) -> tuple[list[tuple[list[dict[str, Any]], int]], list[dict[str, Any]], int, int]:
    """Return what is read of a file and of a parsed request, and of what the gateway forwards, with what it counts."""
    group = {
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
        "scopeSpans": [{"scope": {"name": "scope"}, "spans": [bad, {**GOOD, "spanId": "c" * 16}]}],
    }
    document = {"resourceSpans": [group]}
    text = json.dumps(document).encode()
    (folder / "traces.json").write_bytes(text)
    converted = json_to_protobuf(Signal.TRACES, text)
    (folder / "forwarded.pb").write_bytes(converted.body)
    forwarded, wrong = read(folder / "forwarded.pb")
    assert not wrong
    return [read(folder / "traces.json"), read(document)], forwarded, converted.rejected, converted.bad_fields


@pytest.mark.parametrize("mistake", COUNTED)
def test_a_field_that_cannot_be_read_is_left_out_and_counted(mistake: str, tmp_path: Path) -> None:
    replayed, forwarded, rejected, bad_fields = readings({**GOOD, **COUNTED[mistake]}, tmp_path)
    assert replayed == [(forwarded, 1)] * 2
    assert (len(forwarded), rejected, bad_fields) == (2, 0, 1)


@pytest.mark.parametrize("written", READ)
def test_what_is_written_in_another_way_is_read_alike(written: str, tmp_path: Path) -> None:
    replayed, forwarded, rejected, _ = readings({**GOOD, **READ[written]}, tmp_path)
    assert replayed == [(forwarded, 0)] * 2
    assert (len(forwarded), rejected) == (2, 0)


@pytest.mark.parametrize("mistake", DROPPED)
def test_a_record_without_usable_ids_is_left_out_and_counted(mistake: str, tmp_path: Path) -> None:
    replayed, forwarded, rejected, bad_fields = readings(DROPPED[mistake], tmp_path)
    assert replayed == [(forwarded, 1)] * 2
    assert (len(forwarded), rejected, bad_fields) == (1, 1, 0)
