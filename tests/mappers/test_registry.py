"""The registry: every span in, its facts out, whatever dialects and spans do."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from goldspan.mappers import installed_dialects
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import Dialect, DialectTable, Reading, Rule, Source
from goldspan.mappers.installed_dialects import default_dialects
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import Role, SpanFacts, ToolFacts
from goldspan.mappers.spans import EventView, ResourceView, SpanView
from goldspan.scoring.errors import DialectError, Problem
from goldspan.scoring.sessions import Capture, Content
from rigs.otlp_containers import Span

AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}


def read(attributes: dict[Any, Any], **more: Any) -> SpanFacts:
    return DialectRegistry().read(Span(attributes, **more))


# Skeletons


def test_a_plain_span_is_a_skeleton() -> None:
    facts = read({"http.method": "GET", "url.full": "http://x"}, parent_id="c" * 16)
    expected = SpanFacts(Span.trace_id, Span.span_id, "c" * 16, 1_000, 2_000, (2_000, 0, ""))
    assert facts == expected
    assert repr(facts) == repr(expected)


@pytest.mark.parametrize(
    ("kind", "remote", "entry"),
    [(2, False, True), (5, False, True), (1, True, True), (3, False, False), (0, False, False)],
)
@pytest.mark.parametrize("attributes", [{}, TOOL])
def test_entries(attributes: dict[str, Any], kind: int, remote: bool, entry: bool) -> None:
    assert read(attributes, kind=kind, parent_is_remote=remote).entry is entry


# Ids


@pytest.mark.parametrize("attributes", [{}, AGENT, {"http.method": "GET"}])
def test_session_keys_are_read_from_every_span_in_the_order_of_precedence(attributes: dict[str, Any]) -> None:
    keys = {
        "session.id": "b",
        "traceloop.association.properties.thread_id": "c",
        "goldspan.session.id": "a",
        "mcp.session.id": "a transport's",
    }
    found = (("goldspan.session.id", "a"), ("session.id", "b"), ("traceloop.association.properties.thread_id", "c"))
    assert read({**attributes, **keys}).session_keys == found


@pytest.mark.parametrize("value", ["", "  ", None, True, 1.5, [], {}, ["a"], b"a", 10**400])
def test_what_is_no_id_is_ignored(value: Any) -> None:
    facts = read({**AGENT, "session.id": value, "goldspan.run.id": value, "gen_ai.tool.call.id": value})
    assert facts.session_keys == ()
    assert facts.run_id is None


def test_numbers_are_ids() -> None:
    facts = read({**TOOL, "session.id": 42, "gen_ai.tool.call.id": 7, "cicd.pipeline.run.id": 9})
    assert facts.session_keys == (("session.id", "42"),)
    assert (facts.run_id, facts.tool and facts.tool.call_id) == ("9", "7")


def test_the_lists_of_keys_can_be_changed() -> None:
    registry = DialectRegistry(session_keys=["my.session"], join_attributes=["my.case"])
    facts = registry.read(Span({"my.session": "s", "session.id": "other", "my.case": 3, "test.case.name": "x"}))
    assert (facts.session_keys, facts.join_attributes) == ((("my.session", "s"),), {"my.case": 3})


def test_a_key_that_only_one_dialect_knows_counts_only_on_its_spans() -> None:
    assert read({"group_id": "g"}).session_keys == (("group_id", "g"),)
    assert DialectRegistry([]).read(Span({"group_id": "g"})).session_keys == ()


def test_run_id_and_attributes_to_join_on() -> None:
    facts = read({"goldspan.run.id": "r-1", "cicd.pipeline.run.id": "r-2", "test.case.name": "rain"})
    assert (facts.run_id, facts.join_attributes) == ("r-1", {"test.case.name": "rain"})


def test_resources_are_read_once_and_kept_by_identity() -> None:
    shared = ResourceView(
        {"service.name": "agent", "deployment.environment": "test", "session.id": "s", "goldspan.run.id": "r"}
    )
    registry = DialectRegistry()
    one, two = registry.read(Span(resource=shared)), registry.read(Span(TOOL, resource=shared))
    assert one.resource is two.resource
    assert (one.resource.service_name, one.resource.environment, one.resource.run_id) == ("agent", "test", "r")
    assert one.resource.session_keys == (("session.id", "s"),)
    many = [registry.read(Span(resource=ResourceView({"service.name": str(number)}))) for number in range(1000)]
    assert [facts.resource.service_name for facts in many] == [str(number) for number in range(1000)]


# Errors (R12)


@pytest.mark.parametrize(
    ("attributes", "more", "error"),
    [
        ({}, {}, None),
        ({}, {"status_code": 1}, None),
        ({}, {"status_code": 2}, "error"),
        ({}, {"status_code": 2, "status_message": "slot is full"}, "slot is full"),
        (
            {},
            {"status_code": 2, "status_message": "ValueError('no')Traceback (most recent call last):\n x"},
            "ValueError('no')",
        ),
        ({}, {"status_code": 2, "events": [EventView("exception", {"exception.type": "ValueError"})]}, "ValueError"),
        ({}, {"events": [EventView("exception", {"exception.type": "*errors.errorString"})]}, "*errors.errorString"),
        ({}, {"events": [EventView("exception", {}), EventView("late", {})]}, "error"),
        ({"gen_ai.tool.call.result": "ok"}, {"events": [EventView("exception", {"exception.type": "E"})]}, None),
        ({"error.type": "timeout"}, {"status_code": 2, "status_message": "late"}, "timeout"),
        ({"error.type": "timeout"}, {}, "timeout"),
        ({"error.type": 3}, {}, None),
        ({"gen_ai.tool.status": "error"}, {}, "error"),
        ({"gen_ai.tool.status": "success"}, {}, None),
        ({"haystack.tool.name": "f", "haystack.tool.error": True}, {}, "error"),
        ({"haystack.tool.name": "f", "haystack.tool.error": 1}, {}, None),
    ],
)
def test_errors(attributes: dict[str, Any], more: dict[str, Any], error: str | None) -> None:
    facts = read({**TOOL, **attributes}, **more)
    assert facts.tool is not None
    assert facts.tool.error == error


# Roles


@pytest.mark.parametrize(
    ("operation", "role", "no_turn"),
    [
        ("execute_tool", Role.TOOL, False),
        ("invoke_agent", Role.AGENT, False),
        ("invoke_workflow", Role.AGENT, False),
        ("create_agent", Role.AGENT, True),
        ("chat", Role.MODEL, False),
        ("generate_content", Role.MODEL, False),
        ("text_completion", Role.MODEL, False),
        ("embeddings", None, False),
        ("execute_event_loop_cycle", None, False),
        (["chat"], None, False),
        (7, None, False),
    ],
)
def test_operations(operation: Any, role: Role | None, no_turn: bool) -> None:
    facts = read({"gen_ai.operation.name": operation})
    assert (facts.role, facts.no_turn) == (role, no_turn)


def test_a_model_span_that_names_tools_is_no_tool() -> None:
    assert (
        read({"gen_ai.operation.name": "chat", "gen_ai.tool.name": "a, b", "gen_ai.tool.call.id": "1, 2"}).role
        is Role.MODEL
    )


def test_requests_come_from_models_alone() -> None:
    output = json.dumps([{"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {}}]}])
    model = read({"gen_ai.operation.name": "chat", "gen_ai.output.messages": output})
    assert model.model is not None
    assert [request.name for request in model.model.requests] == ["f"]
    agent = read({**AGENT, "gen_ai.output.messages": output})
    assert (agent.role, agent.model) == (Role.AGENT, None)


def test_pseudo_and_merged_tools() -> None:
    merged = read({**TOOL, "gen_ai.tool.name": "(merged tools)", "gcp.vertex.agent.event_id": "e"})
    assert merged.tool is not None
    assert merged.tool.merged
    handoff = read({"openinference.span.kind": "TOOL"}, name="handoff to booking_agent")
    assert handoff.tool is not None
    assert handoff.tool.pseudo
    in_javascript = read({"openinference.span.kind": "TOOL", "tool.name": "handoff_to_x"}, name="handoff to x")
    assert in_javascript.tool is not None
    assert in_javascript.tool.pseudo
    named = read({"openinference.span.kind": "TOOL", "tool.name": "handoff to x"}, name="handoff to x")
    assert named.tool is not None
    assert not named.tool.pseudo


@pytest.mark.parametrize(
    ("span_name", "attributes", "name"),
    [
        ("get_weather.run", {"openinference.span.kind": "TOOL"}, "get_weather"),
        ("get_weather.__call__", {"openinference.span.kind": "TOOL"}, "get_weather"),
        ("SimpleTool", {"openinference.span.kind": "TOOL", "tool.name": "get_weather"}, "get_weather"),
        ("execute_tool get_weather", {"gen_ai.operation.name": "execute_tool"}, "get_weather"),
        ("tools/call get_weather", {"mcp.method.name": "tools/call"}, "get_weather"),
        ("get_weather.tool", {"traceloop.span.kind": "tool"}, "get_weather"),
        ("Tool.get_weather", {"mlflow.spanType": '"TOOL"'}, "get_weather"),
        ("x", {**TOOL, "gen_ai.tool.name": "my.run"}, "my.run"),
        (".run", {"openinference.span.kind": "TOOL"}, ".run"),
        ("x", {**TOOL, "gen_ai.tool.name": ["list"]}, "x"),
    ],
)
def test_names_are_those_the_user_knows(span_name: str, attributes: dict[str, Any], name: str) -> None:
    facts = read(attributes, name=span_name)
    assert facts.tool is not None
    assert facts.tool.name == name


def test_a_plugin_is_taken_off_only_where_the_framework_puts_it() -> None:
    attributes = {**TOOL, "gen_ai.tool.name": "ops-get_weather"}
    scope = "semantic_kernel.functions.kernel_function"
    assert read(attributes, scope_name=scope).tool == ToolFacts("get_weather")
    assert read(attributes).tool == ToolFacts("ops-get_weather")
    handed_over = {**TOOL, "gen_ai.tool.name": "Handoff-complete_task"}
    assert read(handed_over, scope_name=scope).tool == ToolFacts("complete_task", pseudo=True)


@pytest.mark.parametrize(
    ("name", "attributes"), [("handoff to clerk", TOOL), ("delegate find", {"mcp.method.name": "tools/call"})]
)
def test_what_is_handed_on_is_no_call_of_its_own(name: str, attributes: dict[str, Any]) -> None:
    for name_, pseudo in ((name, True), ("find", False)):
        tool = read(attributes, name=name_).tool
        assert tool is not None
        assert tool.pseudo is pseudo


@pytest.mark.parametrize(("to", "pseudo"), [("booking_agent", True), ("clerk", False)])
def test_a_hand_off_is_told_by_its_result_before_that_is_left_out(to: str, pseudo: bool) -> None:
    called = {"gen_ai.tool.name": "transfer_to_booking_agent", "gen_ai.tool.call.arguments": "{}"}
    span = Span({**TOOL, **called, "gen_ai.tool.call.result": json.dumps({"goto": to})})
    for content in (True, False):
        tool = DialectRegistry().read(span, content=content).tool
        assert tool is not None
        assert tool.pseudo is pseudo


@pytest.mark.parametrize("nobody", ["null", "None", "undefined", "unknown"])
def test_a_null_written_as_text_is_no_session(nobody: str) -> None:
    assert read({"group_id": nobody, "session.id": "s-1"}).session_keys == (("session.id", "s-1"),)


def test_the_id_of_an_answer_is_no_session() -> None:
    """Agent Framework writes so which response a call goes on from: another one in each turn."""
    keys = ("gen_ai.conversation.id", "session.id")
    assert [read({key: "resp_68a1", "group_id": "g-1"}).session_keys for key in keys] == [(("group_id", "g-1"),)] * 2


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("invoke_graph", {"gen_ai.operation.name": "invoke_graph"}),
        ("invoke_swarm", {"gen_ai.operation.name": "invoke_swarm"}),
        ("workflow.run", {"workflow.id": "w", "workflow.name": "Sequential"}),
        ("workflow.build", {"workflow.id": "w"}),
    ],
)
def test_a_workflow_of_agents_is_an_agent_s_span(name: str, attributes: dict[str, Any]) -> None:
    facts = read(attributes, name=name)
    assert facts.role is (None if name == "workflow.build" else Role.AGENT)
    assert facts.agent == attributes.get("workflow.name")


def test_the_uipath_documents_way_of_making_spans() -> None:
    spans = [
        ReadableSpan(name="get_weather", attributes={"tool.name": "get_weather", "input.value": '{"city": "Paris"}'}),
        ReadableSpan(name="convert", attributes={"tool.name": "convert", "input.value": "{'value': 21.5}"}),
        ReadableSpan(name="no input", attributes={"tool.name": "x"}),
    ]
    registry = DialectRegistry()
    found = [registry.read(view) for view in views(spans, pytest.fail)]
    assert [(fact.tool.name, fact.tool.arguments.value) for fact in found if fact.tool] == [
        ("get_weather", {"city": "Paris"}),
        ("convert", {"value": 21.5}),
    ]
    assert {(fact.trace_id, fact.span_id, fact.start) for fact in found} == {("", "", 0)}


def test_a_span_without_attributes_is_read_by_a_dialect_that_knows_its_scope() -> None:
    facts = read({}, name="book_table", scope_name="openlit", parent_id="c" * 16, status_code=2)
    assert facts.tool == ToolFacts("book_table", error="error")
    assert read({}, name="book_table", scope_name="openlit").role is None
    assert read({"x": 1}, name="book_table", scope_name="openlit", parent_id="c" * 16).role is None


# Content


def test_without_content_only_what_scoring_needs_is_kept() -> None:
    registry = DialectRegistry()
    span = Span({**TOOL, "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "x" * 10_000})
    assert registry.read(span).tool == ToolFacts(
        "get_weather", Content({}, Capture.CAPTURED), result=Content("x" * 10_000, Capture.CAPTURED)
    )
    assert registry.read(span, content=False).tool == ToolFacts("get_weather", Content({}, Capture.CAPTURED))
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}])
    chat = Span({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages, "gen_ai.tool.definitions": "[]"})
    whole, brief = registry.read(chat).context, registry.read(chat, content=False).context
    assert (whole.user_text.value, whole.messages.raw, whole.tool_definitions.value) == ("Hello", messages, [])
    assert (brief.user_text.value, brief.messages.raw, brief.tool_definitions.raw) == ("Hello", None, None)


# Several dialects, third parties, failures


def test_a_session_that_langfuse_takes_as_metadata() -> None:
    key = "langfuse.observation.metadata.langfuse_session_id"
    assert read({"langfuse.observation.type": "generation", key: '"s-1"'}).session_keys == ((key, "s-1"),)


def table(name: str, **more: Any) -> DialectTable:
    return DialectTable(name, (Rule(Role.TOOL, f"{name}.tool"),), tool_name=(f"{name}.tool",), **more)


def test_the_first_that_recognises_speaks_and_the_others_fill_in() -> None:
    first = table("first", call_id=(Source("id"),))
    second = table("second", arguments=(Source("args"),), turn_id=("turn",), session_keys=("thread",))
    attributes = {
        "first.tool": "a",
        "second.tool": "b",
        "id": "c-1",
        "args": '{"x": 1}',
        "turn": "t-1",
        "thread": "s-1",
    }
    facts = DialectRegistry([first, second]).read(Span(attributes))
    assert facts.dialect == "first"
    assert facts.tool == ToolFacts("a", Content({"x": 1}, Capture.CAPTURED), call_id="c-1")
    assert (facts.turn_id, facts.session_keys) == ("t-1", (("thread", "s-1"),))
    other_order = DialectRegistry([second, first]).read(Span(attributes))
    assert (other_order.dialect, other_order.tool and other_order.tool.name) == ("second", "b")


class Foreign:
    name = "foreign"
    markers = frozenset({"foreign.kind"})

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def read(self, span: SpanView) -> Reading | None:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


class Text(str):
    """May do anything where it is compared."""

    __slots__ = ()


def broken_context() -> Any:
    raise RecursionError


WRONG_TYPES: list[Any] = [
    Reading("agent"),  # type: ignore[arg-type]
    Reading(Role.TOOL, tool="f"),  # type: ignore[arg-type]
    Reading(Role.TOOL, tool=ToolFacts(5)),  # type: ignore[arg-type]
    Reading(Role.TOOL, tool=ToolFacts("f", Content([1], Capture.CAPTURED))),
    Reading(Role.TOOL, tool=ToolFacts("f", call_id=Text("c"))),
    Reading(Role.AGENT, turn_id=["t"]),  # type: ignore[arg-type]
    Reading(Role.AGENT, session_keys="ab"),  # type: ignore[arg-type]
    Reading(Role.AGENT, session_keys=(("k", 1),)),  # type: ignore[arg-type]
    Reading(Role.AGENT, session_keys=(("k", Text("v")),)),
    Reading(Role.AGENT, user_text="Hi"),  # type: ignore[arg-type]
    Reading(Role.AGENT, context=Content()),  # type: ignore[arg-type]
]


def test_an_interrupt_of_the_user_is_no_failure_of_a_dialect() -> None:
    with pytest.raises(KeyboardInterrupt):
        DialectRegistry([Foreign(KeyboardInterrupt())]).read(Span({"foreign.kind": "x"}))


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("boom"),
        RecursionError(),
        MemoryError(),
        SystemExit(3),
        GeneratorExit(),
        "no reading",
        Reading(Role.TOOL),
        Reading(Role.AGENT, tool=ToolFacts("x")),
        *WRONG_TYPES,
    ],
)
def test_a_failing_dialect_is_counted_and_stops_nobody(answer: Any) -> None:
    problems: list[Problem] = []
    registry = DialectRegistry([Foreign(answer), *default_dialects()], on_problem=problems.append)
    facts = registry.read(Span({**TOOL, "foreign.kind": "x"}))
    assert facts.dialect == "otel_genai"
    assert registry.failures == {"foreign": 1}
    assert problems[0].code == "dialect_failed"
    assert problems[0].source == f"{Span.trace_id}/{Span.span_id}"


def test_a_failing_context_costs_the_context_alone() -> None:
    reading = Reading(Role.AGENT, user_text=Content("Hi", Capture.CAPTURED), context=broken_context)
    registry = DialectRegistry([Foreign(reading)])
    facts = registry.read(Span({"foreign.kind": "x"}))
    assert (facts.role, facts.context.user_text.value) == (Role.AGENT, "Hi")
    assert registry.failures == {"foreign": 1}


def test_what_is_no_dialect_is_refused() -> None:
    with pytest.raises(DialectError, match="found a str; a dialect has a name"):
        DialectRegistry(["otel"])  # type: ignore[list-item]


def test_dialects_of_other_packages_come_first_and_broken_ones_are_problems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    points = [
        EntryPoint("good", f"{__name__}:FOREIGN", "goldspan.dialects"),
        EntryPoint("made", f"{__name__}:Foreign", "goldspan.dialects"),
        EntryPoint("missing", "no_such_package:X", "goldspan.dialects"),
        EntryPoint("raises", f"{__name__}:broken_context", "goldspan.dialects"),
        EntryPoint("exits", "sys:exit", "goldspan.dialects"),
        EntryPoint("wrong", "builtins:dict", "goldspan.dialects"),
    ]
    loaded = {"good": FOREIGN, "made": Foreign, "raises": broken_context, "exits": sys.exit, "wrong": dict}

    def load(self: EntryPoint) -> Any:
        if self.name not in loaded:
            raise ImportError(self.value)
        return loaded[self.name]

    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr(installed_dialects, "entry_points", lambda group: points)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # so that it is looked up again
    problems: list[Problem] = []
    names = [dialect.name for dialect in DialectRegistry(on_problem=problems.append).dialects]
    assert names[:2] == ["foreign", "foreign"]
    assert names[-1] == "shape"
    assert [problem.source for problem in problems] == ["exits", "missing", "raises", "wrong"]
    assert {problem.code for problem in problems} == {"bad_dialect"}


FOREIGN = Foreign()


def test_any_object_with_the_three_members_is_a_dialect() -> None:
    assert isinstance(FOREIGN, Dialect)
    assert all(isinstance(dialect, Dialect) for dialect in default_dialects())


# Versions of one span (R4)


def test_of_two_versions_the_later_the_fuller_the_greater_supersedes() -> None:
    early, late = read(TOOL, end=5), read(TOOL, end=6)
    assert late.supersedes(early)
    assert not early.supersedes(late)
    fuller = read({**TOOL, "x": 1}, end=5)
    assert fuller.supersedes(early)
    one, other = read({**TOOL, "gen_ai.tool.call.id": "a"}), read({**TOOL, "gen_ai.tool.call.id": "b"})
    assert one.supersedes(other) is not other.supersedes(one)
    assert not one.supersedes(one)
