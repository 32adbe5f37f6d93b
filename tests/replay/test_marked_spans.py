"""Reading only what holds a marker gives the results of reading everything, whatever the lines hold."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files, read_marked
from goldspan.mappers.spans import MarkedView, PlainSpans, SpanView
from goldspan.scoring.errors import Problem, TraceFileError
from goldspan.scoring.goldens import load_goldens
from rigs.otlp_requests import as_line, message_of, prefixed
from rigs.otlp_requests import requests as hostile_requests
from rigs.trace_requests import SECOND, START, attribute, digits, turn_request

REGISTRY = DialectRegistry()
MARKERS = REGISTRY.markers
GOLDENS = load_goldens(
    {
        "format": 1,
        "golden_set": "marked",
        "goldens": [
            {"session": "wanted", "turns": [{"calls": [{"name": "f", "args": {"x": 1}}]}, {"calls": []}]},
            {"session_pattern": "some-*", "calls": [{"name": "f", "args": {"x": 1}}]},
        ],
    }
)

SESSIONS = st.sampled_from(["wanted", "some-1", "other", None])
KINDS = st.sampled_from([0, 1, 2, 3, 5, "SPAN_KIND_SERVER", "2", None])
SPELLINGS = st.sampled_from([str, str, str, str.upper])
PLAIN = [
    [],
    None,
    [{"key": "url.full", "value": {"stringValue": 'http://x/?q="gen_ai.tool.name"'}}],
    [{"key": "http.request", "value": {"kvlistValue": {"values": [attribute("gen_ai.operation.name", "chat")]}}}],
    [{"key": "http.route"}, {"value": {"stringValue": "gen_ai.operation.name"}}],
]
MARKED = {
    "agent": [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", "a")],
    "tool": [
        attribute("gen_ai.operation.name", "execute_tool"),
        attribute("gen_ai.tool.name", "f"),
        attribute("gen_ai.tool.call.arguments", '{"x": 1}'),
    ],
    "chat": [attribute("gen_ai.operation.name", "chat")],
}


@st.composite
def spans(draw: st.DrawFn, trace: int) -> list[dict[str, Any]]:
    """One trace: any tree (or knot) of agents, tools, model calls and plain spans; some come twice, and changed."""
    trace_id = draw(SPELLINGS)(digits(f"trace {trace}", 32)) if trace else ""
    session = draw(SESSIONS)
    count = draw(st.integers(1, 6))
    made: list[dict[str, Any]] = []
    for number in range(count):
        role = draw(st.sampled_from(["plain", "plain", "plain", "agent", "tool", "chat"]))
        attributes = draw(st.sampled_from(PLAIN)) if role == "plain" else list(MARKED[role])
        if session is not None and draw(st.booleans()):
            attributes = [*(attributes or ()), attribute("gen_ai.conversation.id", session)]
        parent = draw(st.sampled_from(["", *(digits(f"{trace} {above}", 16) for above in range(count + 1))]))
        begun = START + trace * 60 * SECOND + draw(st.integers(0, 3)) * SECOND
        span = {
            "traceId": trace_id,
            "spanId": draw(SPELLINGS)(digits(f"{trace} {number}", 16)) if draw(st.integers(0, 9)) else "0" * 16,
            "parentSpanId": draw(SPELLINGS)(parent),
            "name": f"{role} f",
            "kind": draw(KINDS),
            "startTimeUnixNano": str(begun),
            "endTimeUnixNano": str(begun + draw(st.integers(0, 5)) * SECOND),
            "attributes": attributes,
        }
        made.append(span)
        if draw(st.integers(0, 4)) == 0:
            made.append({**span, "endTimeUnixNano": str(begun + draw(st.integers(0, 5)) * SECOND)})
        if draw(st.integers(0, 4)) == 0:
            made.append({**span, "attributes": draw(st.sampled_from(PLAIN))})
        if draw(st.integers(0, 4)) == 0:
            made.append({**span, "parentSpanId": ""})
    return made


@st.composite
def traffic(draw: st.DrawFn) -> bytes:
    """Traces cut into requests and lines anyhow, in any order, beside lines of anything."""
    sent = [span for trace in range(draw(st.integers(1, 4))) for span in draw(spans(trace))]
    sent = draw(st.permutations(sent))
    lines: list[bytes] = []
    while sent:
        size = draw(st.integers(1, 8))
        part, sent = sent[:size], sent[size:]
        run_id = [attribute("goldspan.run.id", "run-1")] if draw(st.integers(0, 5)) == 0 else []
        scope = draw(st.sampled_from(["tests", "openlit"]))
        group = {"resource": {"attributes": run_id}, "scopeSpans": [{"scope": {"name": scope}, "spans": part}]}
        line = json.dumps({"resourceSpans": [group]}, separators=draw(st.sampled_from([(",", ":"), (" , ", " : ")])))
        if draw(st.integers(0, 5)) == 0:
            line = line.replace("gen_ai.", "gen\\u005fai.").replace('"key"', '"\\u006bey"')
        if draw(st.integers(0, 9)) == 0:
            line = line[: -draw(st.integers(1, 40))]
        lines.append(line.encode())
    lines += [as_line(one).strip() for one in draw(st.lists(hostile_requests, max_size=1))]
    return b"\n".join(draw(st.permutations(lines)))


@st.composite
def valid_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Some of the same traces as valid requests."""
    sent = draw(st.permutations([span for trace in (1, 2) for span in draw(spans(trace))]))
    for span in sent:
        span["kind"] = span["kind"] if isinstance(span["kind"], int) else 2
        span["attributes"] = [pair for pair in span["attributes"] or () if "key" in pair]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "tests"}, "spans": sent}]}]}


def result_of(views: Iterable[MarkedView], problems: list[Problem]) -> tuple[Any, ...]:
    """Everything that a user sees of a replay."""
    try:
        found = replay(views, GOLDENS, REGISTRY, problems=problems)
    except TraceFileError as error:
        return (str(error),)
    said = sorted((problem.code, problem.message, problem.source) for problem in problems)
    sessions = {**found.result.to_json(), "problems": []}
    return sessions, found.spans, found.recognised, said


@given(traffic())
def test_marked_spans_alone_give_the_results_of_all(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.jsonl")
        path.write_bytes(content)
        whole: list[Problem] = []
        marked: list[Problem] = []
        expected = result_of(read_files([path], whole.append), whole)
        assert result_of(read_marked([path], MARKERS, marked.append), marked) == expected


@given(st.lists(valid_requests(), min_size=1, max_size=3), hostile_requests)
def test_protobuf_is_read_alike(sent: list[dict[str, Any]], anything: dict[str, Any]) -> None:
    messages = [message_of(request).SerializeToString() for request in (*sent, anything)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.pb")
        path.write_bytes(prefixed(*messages))
        whole: list[Problem] = []
        marked: list[Problem] = []
        expected = result_of(read_files([path], whole.append), whole)
        assert result_of(read_marked([path], MARKERS, marked.append), marked) == expected


def as_protobuf(request: dict[str, Any]) -> bytes:
    return prefixed(message_of(request).SerializeToString())


@pytest.mark.parametrize("written", [as_line, as_protobuf])
def test_spans_without_a_marker_come_together(written: Callable[[dict[str, Any]], bytes], tmp_path: Path) -> None:
    turn = turn_request("wanted", ("f", {"x": 1}))
    made = turn["resourceSpans"][0]["scopeSpans"][0]["spans"]
    made += [{**made[0], "spanId": digits(f"plain {number}", 16), "attributes": PLAIN[2]} for number in range(3)]
    path = tmp_path / "traces.jsonl"
    path.write_bytes(written(turn))
    agent, tool, plain = read_marked([path], MARKERS, lambda problem: pytest.fail(str(problem)))
    assert isinstance(agent, SpanView)
    assert isinstance(tool, SpanView)
    assert isinstance(plain, PlainSpans)
    [(trace_id, undecoded)] = plain.by_trace.items()
    assert trace_id == agent.trace_id
    assert [plain.skeleton(one)[0] for one in undecoded] == [digits(f"plain {number}", 16) for number in range(3)]
