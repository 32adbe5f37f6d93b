"""Recordings whose tool spans have lost their arguments: they are found in another copy, or said to be unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from conformance.recordings import TRUTH
from conformance.single_records import documents_of
from conformance.stripped import is_tool_span, without_arguments
from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import LogFacts, SpanFacts, ToolFacts
from goldspan.mappers.spans import LogView
from goldspan.scoring.sessions import Capture, Content, Session, SpanRef, ToolCall, Turn

NAMES = sorted(name for name, truth in TRUTH["files"].items() if "known_gap" not in truth)
"""Where executions are not yet told apart, requests cannot be joined to them."""


@dataclass(frozen=True)
class Copy:
    """Arguments that stand somewhere else than on a tool span."""

    trace_id: str
    arguments: str
    at: SpanRef


@dataclass(frozen=True)
class Stripped:
    before: list[Session]
    after: list[Session]
    copies: list[Copy]
    tool_spans: int


def stripped(name: str) -> Stripped:
    whole = documents_of(name)
    tool_spans = [is_tool_span(document) for document in whole]
    bare = [
        without_arguments(document) if is_tool else document
        for document, is_tool in zip(whole, tool_spans, strict=True)
    ]
    assert [is_tool_span(document) for document in bare] == tool_spans, "what is left must be recognised all the same"
    registry = DialectRegistry()
    copies: list[Copy] = []
    for view in views(bare, lambda problem: None):
        fact = registry.read_log(view) if isinstance(view, LogView) else registry.read(view)
        if fact is not None:
            copies += copies_in(fact)
    return Stripped(read_sessions(whole), read_sessions(bare), copies, sum(tool_spans))


def copies_in(fact: SpanFacts | LogFacts) -> Iterator[Copy]:
    """What models asked for, and what log records or linked spans tell of executions."""
    said = [request.arguments for request in fact.model.requests] if fact.model is not None else []
    executed: tuple[ToolFacts, ...] = fact.tools if isinstance(fact, LogFacts) else ()
    for arguments in (*said, *(tool.arguments for tool in executed)):
        if arguments.capture is Capture.CAPTURED:
            for at in fact.evidence if isinstance(fact, LogFacts) else (fact.ref,):
                yield Copy(fact.trace_id, text(arguments), at)
    for note in fact.notes if isinstance(fact, SpanFacts) else ():
        yield from copies_in(note)


def text(arguments: Content) -> str:
    """Arguments in one form: what a model wrote as 30.0, JavaScript passes on as 30."""
    return json.dumps(json.loads(json.dumps(arguments.value), parse_int=float), sort_keys=True)


def without_nulls(value: object) -> object:
    """Go leaves them out of a tool's arguments where a model wrote them."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


def calls(sessions: list[Session]) -> list[tuple[Turn, ToolCall]]:
    return [(turn, call) for session in sessions for turn in session.turns for call in turn.calls]


TOLD_BY_ARGUMENTS = {
    "hand-written-function",
    "hand-written-span-name",
    "hand-written-tool-name",
    "openai-agents-traceloop-denied",
}
"""Without arguments nothing says of these spans that they are tools, or that a call awaited a person's decision."""
READ_BY_SHAPE = {
    "hand-written-kind",
    "js-adk-ts",
    "js-effect-ai",
    "py-agenta",
    "py-agentops-openai",
    "py-any-agent",
    "py-burr",
    "py-honeyhive",
    "py-judgeval",
    "py-laminar-openai",
    "py-langchain-laminar",
    "py-langchain-monocle",
    "py-langtrace",
    "py-langwatch",
    "py-livekit",
    "py-llama-index-otel",
    "py-openai-agents-agentops",
    "py-openai-agents-traceai",
}
"""Their spans have arguments in values that no table reads, so that taking away what tables read leaves them."""


@pytest.mark.every_recording
@pytest.mark.parametrize("name", [name for name in NAMES if name not in TOLD_BY_ARGUMENTS | READ_BY_SHAPE])
def test_arguments_come_from_another_copy_or_are_unknown(name: str) -> None:
    recording = stripped(name)
    before, after = calls(recording.before), calls(recording.after)
    assert [call.name for _, call in after] == [call.name for _, call in before]
    alike = without_nulls if TRUTH["files"][name].get("nulls_omitted") else lambda value: value
    for (turn, call), (_, original) in zip(after, before, strict=True):
        wanted = alike(json.loads(text(original.raw_arguments)))
        near = [one for one in recording.copies if one.trace_id in turn.trace_ids]
        copies = [one for one in near if alike(json.loads(one.arguments)) == wanted]
        if original.capture is Capture.CAPTURED and copies:
            assert (call.capture, alike(call.arguments)) == (Capture.CAPTURED, alike(original.arguments))
            assert {one.at for one in copies}.intersection(call.evidence), "the copy is the evidence"
        else:
            assert (call.capture, call.arguments) == (Capture.NOT_CAPTURED, None)
        if call.span is not None:
            assert call.evidence[0] == call.span


@pytest.mark.parametrize(
    "name",
    [
        "agent-framework-native",
        "autogen-native",
        "autogen-openinference",
        "google-adk-v1",
        "google-adk-v2-event",
        "google-adk-v2-span",
        "langchain-langsmith",
        "langchain-openinference",
        "langchain-traceloop",
        "llama-index-openinference",
        "llama-index-openllmetry",
        "openai-agents-logfire",
        "openai-agents-openinference",
        "pydantic-ai-v2",
        "pydantic-ai-v5",
        "semantic-kernel-native",
        "strands-default",
        "strands-latest",
        "vercel-ai-v4",
        "vercel-ai-v6",
        "vercel-ai-v7",
    ],
)
def test_the_model_said_it_all(name: str) -> None:
    """The two tests above and below would both pass if no copy were ever seen, or one everywhere."""
    recording = stripped(name)
    assert recording.tool_spans >= 5
    own = {call.span for _, call in calls(recording.after)}
    for _, call in calls(recording.after):
        assert call.capture is Capture.CAPTURED
        assert set(call.evidence) - own, "evidence beside the tool's own span"


@pytest.mark.parametrize(
    "name",
    [
        "agno-openllmetry",  # no model spans
        "google-adk-openinference",  # models' answers only in the history that the next call is given
        "mcp-openllmetry",  # a server and its client know no model
        "openai-agents-otel-genai",  # no model spans
        "openai-agents-traceloop",  # as with ADK
        "openlit-1.36-manual",  # no model spans
        "pydantic-ai-v5-truncated60",  # the model's answers were cut too
        "smolagents-code-openinference",  # the model wrote code
        "strands-latest-redacted",  # the model's answers were redacted too
        "uipath-traced",  # no model spans
    ],
)
def test_nobody_else_said_it(name: str) -> None:
    recording = stripped(name)
    assert calls(recording.after)
    assert {call.capture for _, call in calls(recording.after)} == {Capture.NOT_CAPTURED}
