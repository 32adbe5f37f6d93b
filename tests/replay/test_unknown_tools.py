"""Tool calls of dialects that goldspan does not know: found, reported, and read by the dialect that is proposed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.replay.dialect_proposals import proposal
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Dialect, DialectTable
from goldspan.mappers.installed_dialects import built_in_dialects
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.mappers.spans import DecodedSpan, EventView, LogView, SpanView
from goldspan.mappers.unknown_tool_spans import UnknownToolFinder, UnknownTools
from goldspan.scoring.sessions import Capture
from rigs.command_line import Run
from rigs.repository import RECORDINGS
from rigs.trace_requests import plain_request, write_lines

BUILT_IN = built_in_dialects()
REQUEST = json.dumps(
    [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"x": 1}'}}]}]
)


def found(views: Iterable[SpanView | LogView], *without: str, **limits: int) -> tuple[UnknownTools, ...]:
    registry = DialectRegistry([one for one in BUILT_IN if one.name not in without])
    finder = UnknownToolFinder(registry.session_keys, **limits)
    for view in views:
        if not isinstance(view, LogView):
            finder.add(view, registry.read(view))
        elif (log := registry.read_log(view)) is not None:
            finder.add_log(log)
    return finder.found()


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


def loaded(kinds: Sequence[UnknownTools]) -> list[DialectTable]:
    names: dict[str, Any] = {}
    exec(compile(proposal(kinds).module, "proposed.py", "exec"), names)
    return [value for value in names.values() if isinstance(value, DialectTable)]


HIDDEN = {
    "google-adk-v1": "google_adk",
    "pydantic-ai-v2": "pydantic_ai",
    "traceloop-decorators": "openllmetry",
    "mcp-openllmetry": "openllmetry",
    "langchain-langsmith": "langsmith",
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
    "hand-written-function": "tool_like",
}
"""The dialect of a recording, which is hidden and proposed again."""


@pytest.mark.parametrize("recording", HIDDEN)
def test_the_dialect_proposed_for_a_hidden_one_reads_the_same(recording: str) -> None:
    hidden = HIDDEN[recording]
    views = views_of(recording)
    others = [one for one in BUILT_IN if one.name != hidden]
    lost = {key: tool for key, tool in tools(views, BUILT_IN).items() if key not in tools(views, others)}
    read = tools(views, [*loaded(found(views, hidden)), *others])
    for key, tool in lost.items():
        same = read[key]
        assert (same.name, same.arguments.raw) == (tool.name, tool.arguments.raw)
        assert same.call_id == tool.call_id
    assert len(lost) >= 4 or hidden in {"google_adk", "pydantic_ai"}, "others read most spans of these"


def test_spans_may_come_in_any_order_and_twice() -> None:
    views = views_of("vercel-ai-v5")
    expected = found(views, "vercel_ai")
    assert expected
    for seed in range(3):
        shuffled = random.Random(seed).sample([*views, *views], 2 * len(views))
        assert found(shuffled, "vercel_ai") == expected


def test_a_request_of_a_model_tells_a_call_without_any_word_for_tools() -> None:
    asks = span({"said": REQUEST}, 1)
    [kind] = found([asks, span({"what": "f", "with": '{"x": 1.0}', "ref": "c1"}, 2)])
    assert (str(kind.name), str(kind.arguments), str(kind.call_id)) == ("what", "with", "ref")
    assert (kind.tools, kind.requested, kind.result) == (("f",), 1, None)
    assert found([asks, span({"what": "f", "with": '{"x": 2}'}, 2)]) == (), "other arguments"
    assert found([asks, span({"what": "g", "with": '{"x": 1}'}, 2)]) == (), "another tool"
    elsewhere = DecodedSpan("u" * 32, "2" * 16, attributes={"what": "f", "with": '{"x": 1}'})
    assert found([asks, elsewhere]) == (), "another trace"


CALL = {"name": "f", "arguments": {"x": 1}}
ENCODINGS: dict[str, Mapping[str, Any]] = {
    "OpenAI": {"said": REQUEST},
    "Responses": {"said": [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}]},
    "Anthropic": {"said": json.dumps({"content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]})},
    "Bedrock": {"said": json.dumps([{"toolUse": {"toolUseId": "c1", "name": "f", "input": {"x": 1}}}])},
    "Gemini": {"said": json.dumps({"parts": [{"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}}]})},
    "Vercel": {"said": json.dumps([{"toolCallId": "c1", "toolName": "f", "args": '{"x": 1}'}])},
    "text in text": {"said": json.dumps({"body": json.dumps([{"tool_calls": [{"id": "c1", **CALL}]}])})},
    "a leaf an attribute": {
        "out.0.tool_calls.0.id": "c1",
        "out.0.tool_calls.0.name": "f",
        "out.0.tool_calls.0.arguments": '{"x": 1}',
    },
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_requests_are_found_in_every_encoding(encoding: str) -> None:
    [kind] = found([span(ENCODINGS[encoding], 1), span({"with": '{"x": 1}', "ref": "c1"}, 2, name="f")])
    assert (kind.name, str(kind.arguments), str(kind.call_id), kind.requested) == (None, "with", "ref", 1)


TOOL = {"acme.kind": "tool", "acme.input": '{"x": 1}', "acme.output": "2"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"acme.input": '{"x": 1}', "acme.output": "2"},
        {**TOOL, "acme.kind": "chain"},
        {**TOOL, "acme.output": None},
        {**TOOL, "acme.input": "{}"},
        {**TOOL, "acme.input": '{"type": "object", "properties": {"x": {}}}'},
        {**TOOL, "acme.input": '{"def": {"type": "object", "shape": {"x": {}}}}'},
        {**TOOL, "acme.input": '{"x": {"type": "integer", "description": "a number"}}'},
        {**TOOL, "http.request.method": "POST"},
        {**TOOL, "db.system.name": "sqlite"},
        {**TOOL, "rpc.method": "Get"},
        {"tool.name": "f", "tool.arguments": '{"x": 1}', "tool.result": "2"},
        {"acme.kind": "tool", "acme.input": "[" * 100_000, "acme.output": object()},
        {"acme.kind": b"tool", "acme.input": {1: float("nan")}, "acme.output": [None]},
    ],
    ids=lambda attributes: ", ".join(f"{key}={value!r:.20}" for key, value in attributes.items()),
)
def test_other_spans_are_not_reported(attributes: Mapping[str, Any]) -> None:
    """No word for tools, no result, no arguments, a schema, other work; and what `tool_like` reads."""
    assert found([span(attributes)]) == ()
    [kind] = found([span(TOOL)])
    assert (str(kind.arguments), str(kind.result), kind.mark.key) == ("acme.input", "acme.output", "acme.kind")


def test_an_answer_of_a_model_is_no_call() -> None:
    """Neither a part of it beside the whole, nor its leaves."""
    part = span({"acme.type": "model_chunk", "said": json.dumps({"toolName": "f", "toolInput": {"x": 1}})}, 2)
    leaves = {"in.0.call.tool.name": "f", "in.0.call.tool.arguments": '{"x": 1}'}
    assert found([span({"said": REQUEST}, 1), part, span({**leaves, "input": '{"x": [1]}', "output": "2"}, 3)]) == ()


@pytest.mark.parametrize("above", [True, False])
def test_other_spans_of_a_call_are_not_reported_beside_it(above: bool) -> None:
    outer = span({"task": json.dumps({"call": CALL}), "result": "2"}, 2, name="run f")
    inner = span({**TOOL, "acme.name": "f"}, 3, parent_id=outer.span_id if above else "")
    [kind] = found([span({"said": REQUEST}, 1), outer, inner])
    assert [ref.span_id for ref in kind.spans] == [inner.span_id]
    read = span({"tool.name": "f", "tool.arguments": '{"x": 1}'}, 3)
    assert found([span({"said": REQUEST}, 1), outer, read]) == (), "a dialect reads the call"
    assert found([span({"said": REQUEST, "with": '{"x": 1}'}, 1, name="f")]) == (), "the request itself"


def test_places_in_events_and_envelopes_are_named() -> None:
    events = [EventView("call", {"body": '{"kwargs": {"x": 1}}'}), EventView("return", {"result": "2"})]
    [kind] = found([span({"said": REQUEST}, 1), span({"acme.tool": "f"}, 2, events=events)])
    places = (str(kind.name), str(kind.arguments), str(kind.result))
    assert places == ("acme.tool", "event call: body > kwargs", "event return: result")
    assert tools([span({"acme.tool": "f"}, 2, events=events)], loaded([kind]))[f"{2:016x}"].arguments.raw == {"x": 1}


def test_text_of_telemetry_is_never_code() -> None:
    key = 'acme"),); raise SystemExit  # \\ \N{RIGHT-TO-LEFT OVERRIDE}\n kind'
    views = [span({key: 'tool"', "acme.input": '{"x": 1}', "acme.output": "2"}, name='f"\n')]
    assert {tool.arguments.capture for tool in tools(views, loaded(found(views))).values()} == {Capture.CAPTURED}


def test_what_is_looked_at_is_bounded() -> None:
    views = [span(TOOL, number) for number in range(1, 9)]
    assert [len(kind.spans) for kind in found(views, spans=5)] == [5]
    assert [len(kind.spans) for kind in found(views, characters=3 * len(TOOL["acme.input"]))] == [3]


# The command line.


def genkit(folder: Path) -> Path:
    """A trace of a framework that is not known."""
    traces = plain_request(scope="acme.tracer")
    [asks] = traces["resourceSpans"][0]["scopeSpans"][0]["spans"]

    def described(span_id: str, **attributes: str) -> dict[str, Any]:
        listed = [{"key": f"acme.{key}", "value": {"stringValue": value}} for key, value in attributes.items()]
        return {**asks, "spanId": span_id, "attributes": listed}

    call = described("b" * 16, step="tool", tool="f", input='{"x": 1}', output="2", conversation_id="sess-1")
    spans = [described("a" * 16, said=REQUEST), call]
    traces["resourceSpans"][0]["scopeSpans"][0]["spans"] = spans
    return write_lines(folder / "acme.jsonl", traces)


def test_inspect_names_keys_and_count(run: Run, tmp_path: Path) -> None:
    path = genkit(tmp_path)
    [kind] = json.loads(run("inspect", path, "--format", "json").stdout)["unknown_tools"]
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
    assert "1 span looks like tool calls of an unknown dialect (acme.tracer: f), all of them requested" in table
    assert "`goldspan dialects propose TRACES`" in table
    assert "instrument" not in table, "nothing is missing but the dialect"
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
    assert "no span looks like a tool call that no dialect reads" in result.stderr
