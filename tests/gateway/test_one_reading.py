"""OTLP/JSON with slight mistakes: the gateway forwards what a replay reads, and both count what they leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.receive.otlp_json_requests import json_to_protobuf
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.stage_interface import StreamContext
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import LostSpan, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.run import scorer_of
from rigs.every_door import LONG, by_replay, without_places
from rigs.pipeline_rig import Said, newest, run
from rigs.stream_rig import Stream
from rigs.trace_requests import attribute as text_attribute
from rigs.trace_requests import turn_request

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
    found = [view for view in views(source, problems.append) if isinstance(view, SpanView)]
    return [seen(view) for view in found if not isinstance(view, LostSpan)], len(problems)


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


# What becomes of a session one of whose spans cannot be read.

GOLDENS = load_goldens(
    {
        "golden_set": "g",
        "goldens": [
            {"session": name, "turns": [{"calls": [{"name": "f", "args": {"x": 1}}, {"name": "g", "args": {"y": 2}}]}]}
            for name in ("s", "other")
        ],
    }
)
CALLS = (("f", {"x": 1}), ("g", {"y": 2}))
WRONG: tuple[Any, ...] = ("x", -1, 3.5, True, [3], {"a": 1}, "12345678901234")
FIELDS = (*GOOD, "parentSpanId", "endTimeUnixNano", "flags", "status", "events", "links", "attributes")
SLIGHT = [(field, value) for field in FIELDS for value in WRONG]


def one_call_spoilt(field: str, value: Any) -> dict[str, Any]:
    """Two sessions of two calls; one call of the first says its session, and has this in a field."""
    document, innocent = turn_request("s", *CALLS), turn_request("other", *CALLS)
    spoilt = document["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    spoilt["attributes"].append(text_attribute("gen_ai.conversation.id", "s"))
    spoilt[field] = value
    return {"resourceSpans": document["resourceSpans"] + innocent["resourceSpans"]}


def by_gateway(body: bytes) -> Said:
    engine = EngineSettings(settle=LONG, hold_timeout=LONG, run_idle=LONG, caller_timeout=LONG)
    request = ExportRequest(Signal.TRACES, body)
    return without_places(newest(run([request], GOLDENS, PipelineSettings(engine=engine)).events()))


def incomplete(said: Said) -> dict[str, set[bool]]:
    """Whether the results of each session are marked as incomplete."""
    found: dict[str, set[bool]] = {}
    for one in said.values():
        found.setdefault(one["gen_ai.conversation.id"], set()).add(one.get("tool_parameter_match.incomplete", False))
    return found


@pytest.mark.parametrize(("field", "value"), SLIGHT)
def test_a_span_that_is_left_out_is_said_by_the_results_of_its_session(field: str, value: Any) -> None:
    """In a replay an id may be any text; the gateway forwards ids of bytes, and rejects such a span."""
    document = one_call_spoilt(field, value)
    converted = json_to_protobuf(Signal.TRACES, json.dumps(document).encode())
    replayed, judged = by_replay([document], GOLDENS, scorer_of()), by_gateway(converted.body)
    is_id = field in {"traceId", "spanId", "parentSpanId"}
    assert bool(converted.rejected) is is_id
    assert incomplete(judged) == {"s": {is_id}, "other": {False}}
    if not (is_id and isinstance(value, str)):
        assert judged == replayed


@pytest.mark.parametrize("field", ["traceId", "spanId"])
def test_it_is_said_whenever_it_comes(field: str) -> None:
    """Before all other spans, or when the session was scored."""
    document = one_call_spoilt(field, 5)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    alone = {"resourceSpans": [{"scopeSpans": [{"spans": [spans.pop(1)]}]}]}
    for documents in ([alone, document], [document, alone]):
        bodies = [json_to_protobuf(Signal.TRACES, json.dumps(one).encode()).body for one in documents]
        assert incomplete(by_replay(documents, GOLDENS, scorer_of()))["s"] == {True}
        assert incomplete(by_gateway(b"".join(bodies)))["s"] == {True}
        if field == "spanId":  # a stream has a trace in one of its partitions, and would not know in which a session
            stream = Stream(StreamContext.of(GOLDENS, EngineSettings(scorer=scorer_of())), seed=1)
            stream.run(stream.put(ExportRequest(Signal.TRACES, body) for body in bodies))
            assert incomplete(stream.said())["s"] == {True}


@pytest.mark.parametrize(("field", "value"), [("spanId", 5), ("spanId", [3]), ("traceId", 5)])
@pytest.mark.parametrize("first", [False, True])
def test_a_log_record_that_is_left_out_is_said_too(field: str, value: Any, first: bool) -> None:
    """It may have held the arguments of a call: in a replay of the same, at the gateway and in a stream."""
    turns, innocent = turn_request("s", *CALLS), turn_request("other", *CALLS)
    spans = turns["resourceSpans"][0]["scopeSpans"][0]["spans"]
    record = {name: spans[1][name] for name in ("traceId", "spanId")} | {
        "timeUnixNano": spans[1]["startTimeUnixNano"],
        "attributes": [text_attribute("gen_ai.conversation.id", "s")],
        field: value,
    }
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    documents = [logs, turns, innocent] if first else [turns, innocent, logs]
    wanted = {"s": {True}, "other": {False}}
    assert incomplete(by_replay(documents, GOLDENS, scorer_of())) == wanted
    signals = [Signal.LOGS if document is logs else Signal.TRACES for document in documents]
    requests = [
        ExportRequest(signal, json_to_protobuf(signal, json.dumps(one).encode()).body)
        for signal, one in zip(signals, documents, strict=True)
    ]
    engine = EngineSettings(settle=LONG, hold_timeout=LONG, run_idle=LONG, caller_timeout=LONG)
    assert incomplete(newest(run(requests, GOLDENS, PipelineSettings(engine=engine)).events())) == wanted
    if field == "spanId":  # as above
        stream = Stream(StreamContext.of(GOLDENS, EngineSettings(scorer=scorer_of())), seed=1, faults=0.0)
        stream.run(stream.put(requests))
        assert incomplete(stream.said()) == wanted
