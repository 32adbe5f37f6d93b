"""Recordings that the Collector's `gen_ai_normalizer` renamed are read like the recordings themselves.

What the processor does not keep is never made up: with `remove_originals`, the number of user messages before a turn
is unknown, and a chain above an agent is its turn's root.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.normalizer import Normalizer
from conformance.recordings import NAMES, files_of
from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.scoring.sessions import Session, ToolCall, Turn
from rigs.otlp_containers import Span, documents_in

KEPT = Normalizer()
REMOVED = Normalizer(remove_originals=True)
CASES = {
    "kept": KEPT,
    "removed": REMOVED,
    "flat-messages": Normalizer(remove_originals=True, rebuild_messages=False),
    **{one: Normalizer(remove_originals=True, sources=(one,)) for one in REMOVED.sources},
}
BATCHES_LOST = {"js-langchain-nocontent", "llama-index-openinference-nocontent"}
"""No content says what the models asked for, and each tool runs in a chain that may be an agent of its own."""
ANSWERS_LOST = {"py-ollama-openllmetry"}
"""An answer of which nothing but the role was written is no message, so that nothing says that it may have asked."""
_READ: dict[str, list[Session]] = {}
"""Recordings as they are; each is read once."""


def normalized(name: str, normalizer: Normalizer, folder: Path) -> list[Session]:
    files: list[Path] = []
    for path in files_of(name):
        documents = [normalizer.document(document) for document in documents_in(path)]
        files.append(folder / path.name)
        files[-1].write_text("\n".join(map(json.dumps, documents)))
    return read_sessions(files)


def original(name: str) -> list[Session]:
    if name not in _READ:
        _READ[name] = read_sessions(files_of(name))
    return _READ[name]


def calls(sessions: Sequence[Session], *, batches: bool = True, visible: bool = True) -> Any:
    """Everything that goldspan says of calls, by session and turn."""
    return [
        (one.id, one.ambiguous, one.used_again, [_turn(turn, batches, visible) for turn in one.turns])
        for one in sessions
    ]


def _turn(turn: Turn, batches: bool, visible: bool) -> Any:
    found = [(_call(call), call.batch if batches else None) for call in turn.calls]
    return (turn.calls_visible if visible else None, turn.turn_number, turn.turn_id, found)


def _call(call: ToolCall) -> Any:
    said = (call.name, call.arguments, call.capture, call.argument_captures, call.call_id, call.error)
    return (*said, call.requested, call.rejected, call.span, call.result.raw, call.agent)


def words(sessions: Sequence[Session]) -> Any:
    return [(turn.user_text, turn.answer, turn.user_messages) for one in sessions for turn in one.turns]


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", NAMES)
def test_a_normalized_recording_has_the_same_calls(name: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, normalizer in CASES.items():
        batches = name not in BATCHES_LOST or not normalizer.remove_originals
        with subtests.test(case):
            found = normalized(name, normalizer, tmp_path)
            told = {"batches": batches, "visible": name not in ANSWERS_LOST}
            assert calls(found, **told) == calls(original(name), **told)


@pytest.mark.every_recording
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_where_the_originals_are_kept(name: str, tmp_path: Path) -> None:
    assert words(normalized(name, KEPT, tmp_path)) == words(original(name))


@pytest.mark.every_recording
@pytest.mark.parametrize("name", [name for name in NAMES if "openinference" in name])
def test_user_messages_are_not_counted_in_messages_that_were_rebuilt(name: str, tmp_path: Path) -> None:
    turns = [turn for session in normalized(name, REMOVED, tmp_path) for turn in session.turns]
    before = [turn for session in original(name) for turn in session.turns]
    for turn, was in zip(turns, before, strict=True):
        assert turn.user_messages in ((), was.user_messages)


def facts(attributes: dict[str, Any], name: str = "span", scope: str = "") -> SpanFacts:
    return DialectRegistry().read(Span(attributes, name, scope_name=scope))


OPENINFERENCE = "openinference.instrumentation.langchain"


def test_text_beside_tool_calls_stays_in_the_message() -> None:
    messages = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {}}]}]
    span = facts(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": json.dumps(messages),
            "llm.output_messages.0.message.content": "Let me look.",
        },
        scope=OPENINFERENCE,
    )
    assert span.role is Role.MODEL
    assert span.model is not None
    assert [request.name for request in span.model.requests] == ["f"]
    assert span.context.answer.raw == "Let me look."


@pytest.mark.parametrize("operation", [None, 7, ["chat"], {}, "", "GUARDRAIL", "execute_tool", "invoke_agent"])
@pytest.mark.parametrize("scope", ["", OPENINFERENCE, "traceloop.tracer", "opentelemetry.instrumentation.mcp"])
@pytest.mark.parametrize("content", [None, 3, "", "[", "[1, {}]", '{"a": 1}', ["x"], {"y": 1}])
def test_no_value_of_a_renamed_attribute_is_trusted(operation: Any, scope: str, content: Any) -> None:
    registry = DialectRegistry(on_problem=lambda problem: pytest.fail(problem.message))
    keys = ("gen_ai.tool.name", "gen_ai.agent.name", "gen_ai.input.messages", "gen_ai.output.messages", "input.value")
    for left in range(len(keys)):
        attributes = {"gen_ai.operation.name": operation, "llm.input_messages.0.message.content": content}
        attributes |= dict.fromkeys(keys[left:], content)
        read = registry.read(Span(attributes, "a.task", scope_name=scope))
        assert (read.span_id, registry.failures.total()) == ("b7ad6b7169203331", 0)


def test_an_operation_of_openllmetry_needs_more_than_a_shared_scope() -> None:
    scope = "opentelemetry.instrumentation.openai_agents"
    span = facts(
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.agent.name": "a"}, "f", scope
    )
    assert (span.dialect, span.agent) == ("otel_genai", "a")


def test_messages_of_a_model_that_is_a_task_stay_its_own() -> None:
    messages = json.dumps([{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f"}]}])
    attributes = {"traceloop.span.kind": "task", "gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}
    span = facts(attributes, "openai.chat", "opentelemetry.instrumentation.llamaindex")
    assert span.model is not None
    assert [request.name for request in span.model.requests] == ["f"]
