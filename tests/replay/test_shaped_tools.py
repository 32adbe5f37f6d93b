"""Tool calls of dialects that goldspan does not know: found, reported, and read by the dialect that is proposed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.encoded_spans.call_records import decode_record, encode_record
from goldspan.collector_processor.replay.dialect_proposals import ShapedTools, proposal
from goldspan.collector_processor.replay.inspection import Inspection, inspect_spans
from goldspan.mappers.assembly import assemble
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Dialect, DialectTable
from goldspan.mappers.installed_dialects import built_in_dialects
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, SpanView
from goldspan.scoring.sessions import Capture, SpanRef, ToolCall
from rigs.command_line import Run
from rigs.repository import RECORDINGS
from rigs.trace_requests import plain_request, write_lines

BUILT_IN = built_in_dialects()
REQUEST = json.dumps(
    [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"x": 1}'}}]}]
)


def inspected(views: Iterable[SpanView | LogView], *without: str) -> Inspection:
    registry = DialectRegistry([one for one in BUILT_IN if one.name not in without])
    return inspect_spans(views, registry, [])


def found(views: Iterable[SpanView | LogView], *without: str) -> tuple[ShapedTools, ...]:
    return inspected(views, *without).shaped


def span(attributes: Mapping[str, Any], number: int = 1, **fields: Any) -> DecodedSpan:
    fields = {"name": "step", "scope_name": "acme", **fields}
    return DecodedSpan("t" * 32, f"{number:016x}", attributes=attributes, **fields)


def views_of(name: str) -> list[SpanView | LogView]:
    paths = [path for kind in ("otlp", "logs") if (path := RECORDINGS / f"{name}.{kind}.json").exists()]
    return list(read_files(paths, lambda _: None))


def tools(views: Iterable[SpanView | LogView], dialects: Sequence[Dialect]) -> dict[str, ToolFacts]:
    """Tool spans whose arguments are read, by span id."""
    registry = DialectRegistry(dialects)
    facts = [registry.read(view) for view in views if not isinstance(view, LogView)]
    read = {fact.span_id: fact.tool for fact in facts if fact.role is Role.TOOL and fact.tool is not None}
    return {key: tool for key, tool in read.items() if tool.arguments.capture is Capture.CAPTURED and not tool.pseudo}


def loaded(kinds: Sequence[ShapedTools], views: Iterable[SpanView | LogView]) -> list[DialectTable]:
    names: dict[str, Any] = {}
    spans = [view for view in views if not isinstance(view, LogView)]
    exec(compile(proposal(kinds, spans).module, "proposed.py", "exec"), names)
    return [value for value in names.values() if isinstance(value, DialectTable)]


HIDDEN = {
    "google-adk-v1": "google_adk",
    "pydantic-ai-v2": "pydantic_ai",
    "traceloop-decorators": "openllmetry",
    "mcp-openllmetry": "openllmetry",
    "vercel-ai-v5": "vercel_ai",
    "openai-agents-logfire": "logfire",
    "langfuse-observe": "langfuse",
    "mlflow-otlp": "mlflow",
    "haystack-native": "haystack",
    "dspy-openinference": "openinference",
    "smolagents-openinference": "openinference",
    "langchain-openinference": "openinference",
    "agent-framework-native": "otel_genai",
    "strands-default": "otel_genai",
}
"""The dialect of a recording, which is hidden and proposed again."""


@pytest.mark.parametrize("recording", HIDDEN)
def test_the_dialect_proposed_for_a_hidden_one_reads_the_same(recording: str) -> None:
    hidden = HIDDEN[recording]
    views = views_of(recording)
    others = [one for one in BUILT_IN if one.name != hidden]
    lost = {key: tool for key, tool in tools(views, BUILT_IN).items() if key not in tools(views, others)}
    read = tools(views, [*loaded(found(views, hidden), views), *others])
    for key, tool in lost.items():
        same = read[key]
        assert (same.name, same.arguments.raw) == (tool.name, tool.arguments.raw)
        assert same.call_id == tool.call_id
    assert len(lost) >= 4 or hidden in {"google_adk", "pydantic_ai"}, "others read most spans of these"


def calls_of(views: Iterable[SpanView | LogView], *without: str) -> list[ToolCall]:
    sessions = inspected(views, *without).sessions
    return [call for session in sessions for turn in session.turns for call in turn.calls]


def test_spans_may_come_in_any_order_and_twice() -> None:
    views = views_of("vercel-ai-v5")
    expected = inspected(views, "vercel_ai")
    assert expected.shaped
    for seed in range(3):
        shuffled = random.Random(seed).sample([*views, *views], 2 * len(views))
        assert inspected(shuffled, "vercel_ai").sessions == expected.sessions


ASKS = span({"session.id": "s", "llm.output": REQUEST}, 1, start=1, end=2)


def below(attributes: Mapping[str, Any], number: int = 2, **fields: Any) -> DecodedSpan:
    return span(attributes, number, **{"parent_id": ASKS.span_id, "start": 1 + number, "end": 2 + number, **fields})


def test_a_request_of_a_model_tells_its_execution_without_any_word_for_tools() -> None:
    views = [ASKS, below({"what": "f", "input": '{"x": 1.0}', "ref": "c1"})]
    [call] = calls_of(views)
    assert (call.name, call.arguments, call.call_id, call.dialect) == ("f", {"x": 1}, "c1", "shape")
    assert (call.span, call.requested) == (SpanRef("t" * 32, f"{2:016x}"), False)
    [kind] = found(views)
    assert (str(kind.name), str(kind.arguments), str(kind.call_id)) == ("what", "input", "ref")
    assert (kind.tools, kind.requested, kind.result) == (("f",), 1, None)


@pytest.mark.parametrize(
    "attributes",
    [{"what": "f", "input": '{"x": 2}'}, {"what": "g", "input": '{"x": 1}'}, {"input": '{"x": 1}'}],
    ids=["other arguments", "another tool", "no name"],
)
def test_what_no_request_tells_is_no_execution(attributes: Mapping[str, Any]) -> None:
    [call] = calls_of([ASKS, below(attributes)])
    assert (call.name, call.requested) == ("f", True), "it is known from the request alone"


def test_a_request_of_another_trace_tells_nothing() -> None:
    elsewhere = DecodedSpan("u" * 32, "2" * 16, attributes={"session.id": "s", "what": "f", "input": '{"x": 1}'})
    assert [call.requested for call in calls_of([ASKS, elsewhere])] == [True]


CALL = {"name": "f", "arguments": {"x": 1}}
ENCODINGS: dict[str, Mapping[str, Any]] = {
    "OpenAI": {"output": REQUEST},
    "Responses": {"output": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}]},
    "Anthropic": {
        "output": json.dumps({"content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]})
    },
    "Bedrock": {"output": json.dumps([{"toolUse": {"toolUseId": "c1", "name": "f", "input": {"x": 1}}}])},
    "Gemini": {"output": json.dumps({"parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}}]})},
    "Vercel": {"output": json.dumps([{"toolCallId": "c1", "toolName": "f", "args": '{"x": 1}'}])},
    "text in text": {"output": json.dumps({"body": json.dumps([{"tool_calls": [{"id": "c1", **CALL}]}])})},
    "a repr": {"output": "[Message(role='assistant', tool_calls=[ToolCall(id='c1', name='f', arguments={'x': 1})])]"},
    "a leaf an attribute": {
        "out.completion.0.role": "assistant",
        "out.completion.0.tool_calls.0.id": "c1",
        "out.completion.0.tool_calls.0.name": "f",
        "out.completion.0.tool_calls.0.arguments": '{"x": 1}',
    },
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_requests_are_found_in_every_encoding(encoding: str) -> None:
    asks = span({"session.id": "s", **ENCODINGS[encoding]}, 1, start=1, end=2)
    [call] = calls_of([asks, below({"input": '{"x": 1}', "ref": "c1"}, name="f")])
    assert (call.name, call.arguments, call.requested) == ("f", {"x": 1}, False)


TOOL = {"acme.kind": "tool", "acme.tool": "f", "acme.tool.name": "f", "acme.input": '{"x": 1}', "acme.output": "2"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"acme.input": '{"x": 1}', "acme.output": "2"},
        {**TOOL, "acme.kind": "chain"},
        {**TOOL, "http.request.method": "POST"},
        {**TOOL, "db.system.name": "sqlite"},
        {**TOOL, "rpc.method": "Get"},
        {**TOOL, "acme.tool.name": "(merged tools)"},
        {"acme.kind": "chain", "acme.input": "[" * 100_000, "acme.output": object()},
        {"acme.kind": b"tool", "acme.input": {1: float("nan")}, "acme.output": [None]},
    ],
    ids=lambda attributes: ", ".join(f"{key}={value!r:.20}" for key, value in attributes.items()),
)
def test_other_spans_are_no_calls(attributes: Mapping[str, Any]) -> None:
    """No word for tools, another kind, other work, several tools; and values of any type."""
    assert calls_of([span({"session.id": "s", **attributes})]) == []


@pytest.mark.parametrize(
    ("written", "capture"),
    [
        ('{"x": 1}', Capture.CAPTURED),
        ('{"kwargs": {"x": 1}}', Capture.UNPARSABLE),
        ('{"args": [], "kwargs": {"x": 1}}', Capture.CAPTURED),
        ('{"type": "json", "value": {"x": 1}}', Capture.CAPTURED),
        ('{"args": [2], "kwargs": {"x": 1}}', Capture.UNPARSABLE),
        ('{"name": "g", "arguments": {"x": 1}}', Capture.UNPARSABLE),
        ('{"name": "f", "arguments": {"x": 1}}', Capture.CAPTURED),
        ('{"type": "object", "properties": {"x": {"type": "integer"}}}', Capture.NOT_CAPTURED),
        ("{}", Capture.NOT_CAPTURED),
        ("[REDACTED]", Capture.REDACTED),
    ],
)
def test_without_a_request_nothing_is_taken_out_of_an_envelope_but_that_of_the_tool(
    written: str, capture: Capture
) -> None:
    [call] = calls_of([span({"session.id": "s", **TOOL, "acme.input": written})])
    assert (call.name, call.capture) == ("f", capture)
    assert call.arguments == ({"x": 1} if capture is Capture.CAPTURED else None)


@pytest.mark.parametrize("written", ['{"kwargs": {"x": 1}}', "Call(tool='f', kwargs={'x': 1})", '"{\\"x\\": 1}"'])
def test_a_request_opens_its_envelope(written: str) -> None:
    [call] = calls_of([ASKS, below({"what": "f", "input": written})])
    assert (call.arguments, call.requested, call.dialect) == ({"x": 1}, False, "shape")


@pytest.mark.parametrize("above", [True, False])
def test_a_call_that_several_spans_tell_is_one(above: bool) -> None:
    outer = below({"args": json.dumps({"call": CALL}), "result": "2"}, 2, name="run f")
    inner = below({**TOOL, "error.type": "ValueError"}, 3, **({"parent_id": outer.span_id} if above else {}))
    [call] = calls_of([ASKS, outer, inner])
    assert call.span is not None
    assert call.span.span_id == (outer if above else inner).span_id, (
        "the outermost, else the one that says it is a tool"
    )
    assert call.error == "ValueError"


def test_what_a_table_reads_is_not_read_again() -> None:
    read = below(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": '{"x": 1}'}, 3
    )
    wrapper = below({"what": "f", "input": '{"x": 1}'}, 2)
    [call] = calls_of([ASKS, wrapper, read])
    assert call.dialect == "otel_genai"


def test_a_trace_without_any_known_key_needs_one_about_tools() -> None:
    assert calls_of([span({"app.output": REQUEST}, 1), span({"input": '{"x": 1}', "ref": "c1"}, 2)]) == []
    [call] = calls_of([span({"app.output": REQUEST}, 1), below({"input": '{"x": 1}', "tool_ref": "c1"}, 2)])
    assert call.dialect == "shape"


def test_places_in_events_and_envelopes_are_named() -> None:
    events = [
        EventView("call", {"input": '{"kwargs": {"x": 1}}'}),
        EventView("end of output", {"at": "noon", "result": "2"}),
    ]
    views = [ASKS, below({"acme.tool": "f"}, 2, events=events)]
    [kind] = found(views)
    places = (str(kind.name), str(kind.arguments), str(kind.result))
    assert places == ("acme.tool", "event call: input > kwargs", "event end of output: result")
    assert tools(views, loaded([kind], views))[f"{2:016x}"].arguments.raw == {"x": 1}


def test_text_of_telemetry_is_never_code() -> None:
    key = 'acme"),); raise SystemExit  # \\ \N{RIGHT-TO-LEFT OVERRIDE}\n kind'
    views = [span({key: 'tool"', **TOOL, "session.id": "s"}, name='f"\n')]
    assert {tool.arguments.capture for tool in tools(views, loaded(found(views), views)).values()} == {Capture.CAPTURED}


@pytest.mark.parametrize("recording", ["py-llama-index-otel", "js-tanstack-ai"])
def test_the_dialect_proposed_for_a_wild_recording_reads_its_calls(recording: str) -> None:
    views = views_of(recording)
    inspection = inspected(views)
    proposed = tools(views, [*loaded(inspection.shaped, views), *BUILT_IN])
    assert proposed
    for session in inspection.sessions:
        for call in (call for turn in session.turns for call in turn.calls):
            assert call.span is not None
            if call.span.span_id in proposed:
                same = proposed[call.span.span_id]
                assert (same.name, same.arguments.raw, same.call_id) == (call.name, call.arguments, call.call_id)


@pytest.mark.parametrize("recording", ["py-llama-index-otel", "js-tanstack-ai", "py-langwatch"])
def test_records_of_a_journal_give_the_same_calls(recording: str) -> None:
    """What a span says by its shape is a part of its record: a restarted gateway reads what it would have read."""
    facts = list(DialectRegistry().facts(views_of(recording), content=False))
    restored = [decode_record(encode_record(fact)) for fact in facts]
    assert assemble(restored) == assemble(facts)
    assert any(session.turns for session in assemble(restored))


# The command line.


def genkit(folder: Path) -> Path:
    """A trace of a framework that is not known."""
    traces = plain_request(scope="acme.tracer")
    [asks] = traces["resourceSpans"][0]["scopeSpans"][0]["spans"]

    def described(span_id: str, **attributes: str) -> dict[str, Any]:
        listed = [{"key": f"acme.{key}", "value": {"stringValue": value}} for key, value in attributes.items()]
        return {**asks, "spanId": span_id, "attributes": listed}

    call = described("b" * 16, step="tool", tool="f", input='{"x": 1}', output="2", conversation_id="sess-1")
    spans = [described("a" * 16, output=REQUEST), {**call, "parentSpanId": "a" * 16}]
    traces["resourceSpans"][0]["scopeSpans"][0]["spans"] = spans
    return write_lines(folder / "acme.jsonl", traces)


def test_inspect_names_keys_and_count(run: Run, tmp_path: Path) -> None:
    path = genkit(tmp_path)
    [kind] = json.loads(run("inspect", path, "--format", "json").stdout)["read_by_shape"]
    assert kind == {
        "scope": "acme.tracer",
        "spans": 1,
        "requested": 1,
        "tools": ["f"],
        "name": "acme.tool",
        "arguments": "acme.input",
        "result": "acme.output",
        "call_id": None,
        "session": "acme.conversation_id",
    }
    table = " ".join(run("inspect", path).stdout.split())
    assert "1 call of spans that no dialect's table reads in full (acme.tracer: f), all of them requested" in table
    assert "session ids in acme.conversation_id, which no dialect reads" in table
    assert "`goldspan dialects propose TRACES`" in table
    assert run("doctor", path).exit_code == 1


def test_propose_prints_a_dialect_and_writes_a_package(run: Run, tmp_path: Path) -> None:
    path = genkit(tmp_path)
    printed = run("dialects", "propose", path).stdout
    assert 'ACME = DialectTable(\n    name="acme",' in printed
    written = run("dialects", "propose", path, "--name", "boat", "--output", "boat")
    assert written.exit_code == 0
    assert "then `pip install ./boat`" in written.stdout  # `boat` alone would be sought in a registry
    assert (tmp_path / "boat/goldspan_dialect_boat.py").read_text("utf-8") == printed.replace("ACME", "BOAT").replace(
        'name="acme"', 'name="boat"'
    )
    assert 'boat = "goldspan_dialect_boat:BOAT"' in (tmp_path / "boat/pyproject.toml").read_text("utf-8")
    again = run("dialects", "propose", path, "--name", "boat", "--output", "boat")
    assert (again.exit_code, "is already there" in again.stderr) == (2, True)
    assert run("dialects", "propose", path, "--name", "Bad Name").exit_code == 2


def test_propose_says_that_nothing_is_unknown(run: Run, tmp_path: Path) -> None:
    result = run("dialects", "propose", write_lines(tmp_path / "plain.jsonl", plain_request()))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no tool call that no dialect reads" in result.stderr
