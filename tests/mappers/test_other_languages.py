"""What instrumentations for JavaScript, Java and Go write otherwise than those for Python."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.span_facts import Role, SpanFacts, ToolFacts
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span

_REGISTRY = DialectRegistry()
PARIS = {"city": "Paris", "days": 3}


def read(attributes: dict[str, Any], **more: Any) -> SpanFacts:
    facts = _REGISTRY.read(Span(attributes, **more))
    assert not _REGISTRY.failures
    return facts


def tool(attributes: dict[str, Any], **more: Any) -> ToolFacts:
    facts = read(attributes, **more).tool
    assert facts is not None
    return facts


def known(facts: ToolFacts) -> tuple[Capture, Any]:
    captured = facts.arguments.capture is Capture.CAPTURED
    return facts.arguments.capture, facts.arguments.value if captured else None


@pytest.mark.parametrize("prefix", ["openinference.instrumentation.", "@arizeai/openinference-instrumentation-"])
@pytest.mark.parametrize(
    ("library", "kind", "name", "more", "role"),
    [
        ("langchain", "AGENT", "my_agent_tool", {"tool.name": "my_agent_tool"}, Role.TOOL),
        ("llama_index", "CHAIN", "FunctionAgent.run", {}, Role.AGENT),
        ("autogen_agentchat", "CHAIN", "team.run_stream", {}, Role.AGENT),
        ("dspy", "CHAIN", "ReAct.forward", {}, Role.AGENT),
        ("other", "CHAIN", "plan.forward", {}, None),
    ],
)
def test_a_rule_for_a_library_holds_in_both_languages(
    prefix: str, library: str, kind: str, name: str, more: dict[str, str], role: Role | None
) -> None:
    scope = prefix + (library.replace("_", "-") if prefix.startswith("@") else library)
    assert read({"openinference.span.kind": kind, **more}, name=name, scope_name=scope).role is role


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"args": [], "kwargs": PARIS}, (Capture.CAPTURED, PARIS)),
        ({"args": [], "kwargs": {}}, (Capture.CAPTURED, {})),
        ({"args": [], "kwargs": None}, (Capture.CAPTURED, {})),
        ({"args": [], "kwargs": ["Paris"]}, (Capture.UNPARSABLE, None)),
        ({"args": ["Paris", 3], "kwargs": {}}, (Capture.UNPARSABLE, None)),
        (None, (Capture.NOT_CAPTURED, None)),
    ],
)
def test_arguments_of_a_tool_of_traceloops_sdk(given: Any, expected: tuple[Capture, Any]) -> None:
    attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_weather"}
    attributes |= {"traceloop.entity.input": json.dumps(given)} if given is not None else {}
    found = tool(attributes, scope_name="@traceloop/node-server-sdk", name="get_weather.tool")
    assert (found.name, known(found)) == ("get_weather", expected)


def test_messages_of_openllmetrys_package_for_go() -> None:
    call = {"id": "call_1", "type": "function", "name": "get_weather", "arguments": json.dumps(PARIS)}
    attributes = {
        "llm.request.type": "chat",
        "llm.request.model": "gpt-4o",
        "llm.prompts.0.role": "user",
        "llm.prompts.0.content": "Weather?",
        "llm.prompts.1.role": "assistant",
        "llm.prompts.1.content": "",
        **{f"llm.prompts.1.tool_calls.0.{key}": value for key, value in call.items()},
        "llm.prompts.2.role": "tool",
        "llm.prompts.2.content": "sunny",
        "llm.completions.0.role": "assistant",
        "llm.completions.0.content": "",
        **{f"llm.completions.0.tool_calls.0.{key}": value for key, value in call.items()},
    }
    model = read(attributes, scope_name="traceloop.tracer", name="openai.chat").model
    assert model is not None
    assert [(one.name, one.call_id, one.arguments.value) for one in model.requests] == [
        ("get_weather", "call_1", PARIS)
    ]
    assert (model.new_user_message, model.unseen_requests) == (False, False)


MESSAGE: dict[str, Any] = {"name": "get_weather", "tool_call_id": "call_1", "content": "sunny"}
"""What LangChain.js makes of a tool's result."""


class TestLangChain:
    def read(self, given: Any = None, message: dict[str, Any] | None = None, **attributes: Any) -> ToolFacts:
        span: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "task"} | attributes
        span["traceloop.entity.name"] = "DynamicStructuredTool"
        if given is not None:
            span["traceloop.entity.input"] = json.dumps({"args": [given]})
        if message is not None:
            constructor = {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ToolMessage"]}
            span["traceloop.entity.output"] = json.dumps({**constructor, "kwargs": message})
        scope = "@traceloop/instrumentation-langchain"
        return tool(span, scope_name=scope, name="execute_tool DynamicStructuredTool")

    def test_the_result_names_the_tool_and_the_call(self) -> None:
        found = self.read(json.dumps(PARIS), MESSAGE)
        assert (found.name, found.named, found.call_id, found.result.value) == ("get_weather", True, "call_1", "sunny")
        assert known(found) == (Capture.CAPTURED, PARIS)

    def test_without_a_result_the_name_is_that_of_the_class(self) -> None:
        found = self.read(json.dumps(PARIS))
        assert (found.name, found.named, found.call_id) == ("DynamicStructuredTool", False, None)
        assert known(found) == (Capture.CAPTURED, PARIS)

    def test_a_tool_call_as_input_names_the_tool(self) -> None:
        found = self.read({"type": "tool_call", "id": "call_1", "name": "get_weather", "args": PARIS})
        assert (found.name, found.named, found.call_id) == ("get_weather", True, "call_1")
        assert known(found) == (Capture.CAPTURED, PARIS)

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (PARIS, (Capture.CAPTURED, PARIS)),
            ("Paris", (Capture.UNPARSABLE, None)),
            (None, (Capture.NOT_CAPTURED, None)),
        ],
    )
    def test_arguments(self, given: Any, expected: tuple[Capture, Any]) -> None:
        assert known(self.read(given)) == expected

    def test_a_message_says_that_the_tool_failed(self) -> None:
        assert self.read(message={**MESSAGE, "status": "error"}).error == "error"
        assert self.read(message={**MESSAGE, "status": "success"}).error is None

    def test_a_named_span_needs_no_result(self) -> None:
        found = self.read(json.dumps(PARIS), None, **{"gen_ai.tool.name": "get_weather"})
        assert (found.name, found.named) == ("get_weather", True)


class TestAdk:
    @pytest.mark.parametrize(
        ("response", "error"),
        [
            ({"status": "error", "message": "An internal error occurred."}, "An internal error occurred."),
            ({"status": "error", "error_message": "no table"}, "no table"),
            ({"status": "error"}, "error"),
            ({"status": "success", "report": '{"status": "error"}'}, None),
            ({"order": {"status": "error"}}, None),
            ({"booked": True}, None),
        ],
    )
    def test_a_result_says_that_the_tool_failed(self, response: dict[str, Any], error: str | None) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "book_table",
            "gen_ai.tool_call.id": "adk-1",
            "gcp.vertex.agent.event_id": "e",
            "gcp.vertex.agent.tool_call_args": json.dumps(PARIS),
            "gcp.vertex.agent.tool_response": json.dumps(response),
        }
        found = tool(attributes)
        assert (found.error, found.call_id, known(found)) == (error, "adk-1", (Capture.CAPTURED, PARIS))

    @pytest.mark.parametrize("content", ["content", "Content"])
    @pytest.mark.parametrize("part", ["functionResponse", "function_response"])
    def test_a_merged_span_names_the_calls_that_it_repeats(self, content: str, part: str) -> None:
        parts = [{part: {"id": "b", "name": "f"}}, {part: {"name": "no id"}}, {"text": "x"}, {part: {"id": "a"}}]
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "(merged tools)",
            "gcp.vertex.agent.tool_call_args": "N/A",
            "gcp.vertex.agent.tool_response": json.dumps({content: {"parts": parts}}),
        }
        found = tool(attributes)
        assert (found.merged, found.repeats) == (True, ("b", "a"))


def test_errors_are_told_by_their_message_where_the_type_says_little() -> None:
    volt = {"span.type": "tool", "tool.name": "f", "error.type": "VoltAgentError", "error.message": "no table\nat f"}
    mastra = {"mastra.span.type": "tool_call", "gen_ai.tool.name": "f", "error.type": "unknown", "error.message": "x"}
    typed = {**mastra, "error.type": "TimeoutError"}
    assert tool(volt, scope_name="@voltagent/core").error == "no table"
    assert (tool(mastra).error, tool(typed).error) == ("x", "TimeoutError")


def test_an_answer_of_voltagent_may_be_json() -> None:
    plan = '{"steps": ["Find a table"]}'
    found = read({"entity.type": "agent", "entity.name": "planner", "output": plan}, scope_name="@voltagent/core")
    assert found.context.answer.raw == plan


@pytest.mark.parametrize("operation", ["invoke_graph", "invoke_swarm"])
def test_several_agents_of_strands_for_javascript_are_one_turn(operation: str) -> None:
    assert read({"gen_ai.operation.name": operation, "gen_ai.system": "strands-agents"}).role is Role.AGENT


def test_a_model_of_bedrock_by_traceloop_says_nothing() -> None:
    scope = "@traceloop/instrumentation-bedrock"
    facts = read({"gen_ai.request.model": "m", "gen_ai.provider.name": "aws.bedrock"}, scope_name=scope).model
    assert facts is not None
    assert facts.silent


def test_axiom_names_arguments_and_results_in_its_own_way() -> None:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.message": '["A1"]'}
    found = tool({**named, "gen_ai.tool.arguments": "{}"})
    assert known(found) == (Capture.CAPTURED, {})
    assert found.result.raw == '["A1"]'


@pytest.mark.parametrize(("status", "failed"), [("error", True), ("success", False)])
def test_results_that_flat_messages_lost_are_in_the_request(status: str, *, failed: bool) -> None:
    result = {"toolResult": {"toolUseId": "c-1", "content": [{"text": "no"}], "status": status}}
    flat = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.tool_call_id": "c-1"}
    model = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"messages": [{"role": "user", "content": [result]}]}),
    }
    for attributes, answered in (
        ({**model, **flat}, {"c-1": failed}),
        ({**model, **flat, "llm.input_messages.0.message.content": "no"}, {"c-1": False}),
    ):
        facts = read(attributes).model
        assert facts is not None
        assert facts.answered == answered


@pytest.mark.parametrize(
    ("event", "executed"), [("start", False), ("success", True), ("error", True), ("retry", False), ("finish", False)]
)
def test_one_event_of_a_tool_of_beeais_is_its_call(event: str, executed: bool) -> None:
    """Each event has a span, and none the tool's own name."""
    target = f"tool.dynamic.getWeather.{event}"
    given = {"openinference.span.kind": "TOOL", "target": target, "tool.parameters": json.dumps(PARIS)}
    facts = tool(given, name=f"{target}-1")
    assert (known(facts), facts.merged, facts.named) == ((Capture.CAPTURED, PARIS), not executed, False)
