"""What log records say of the spans they were written in (R11): events in every spelling, and what is no evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.log_records import DETAILS, MESSAGE_EVENTS
from goldspan.mappers.dialects.reading.protocol import Dialect, LogDialect, LogReading, Reading
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import LogFacts, ModelFacts, ToolFacts
from goldspan.mappers.spans import LogView, SpanView
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Capture, Content
from rigs.otlp_logs import LOGGED, SPAN, TRACE, as_logs_data, as_sdk_records, log, log_documents

REGISTRY = DialectRegistry()
PARIS = {"city": "Paris", "days": 3, "notes": None}
TEXT = json.dumps(PARIS)


def read(view: LogView, **more: Any) -> LogFacts:
    failures = REGISTRY.failures.total()
    facts = REGISTRY.read_log(view, **more)
    assert REGISTRY.failures.total() == failures
    assert facts is not None
    return facts


def model(view: LogView) -> ModelFacts:
    facts = read(view)
    assert facts.model is not None
    return facts.model


def asked(view: LogView) -> list[tuple[str, Any, str | None]]:
    return [(request.name, request.arguments.value, request.call_id) for request in model(view).requests]


# What a model asked for

OPENAI = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": TEXT}}
GOOGLE = {
    "parts": [
        {"text": None, "function_call": {"id": None, "args": PARIS, "name": "get_weather", "will_continue": None}},
        {"text": "let me see", "function_call": None},
    ],
    "role": "model",
}
PARTS = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": PARIS}]}]
CHOICES = {
    "OpenAI": {"index": 0, "message": {"role": "assistant", "tool_calls": [OPENAI]}},
    "AWS in Java": {"index": "0", "toolCalls": [{"name": "get_weather", "arguments": TEXT, "id": "c1"}]},
    "a dump with nulls": {"message": {"role": None, "content": None, "tool_calls": [OPENAI]}},
    "Vertex: calls beside the message": {"message": {"role": "model", "content": {}}, "tool_calls": [OPENAI]},
    "Bedrock: arguments as an object": {
        "message": {"tool_calls": [{"id": "c1", "function": {"name": "get_weather", "arguments": PARIS}}]}
    },
    "no message around it": {"tool_calls": [OPENAI]},
}


@pytest.mark.parametrize("body", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("written", ["structured", "text", "attributes"])
def test_choices_of_every_writer(body: dict[str, Any], written: str) -> None:
    views_of_it = {
        "structured": log("gen_ai.choice", body),
        "text": log("", json.dumps(body), **{"event.name": "gen_ai.choice"}),
        "attributes": log("gen_ai.choice", **{"gen_ai.event.content": json.dumps(body)}),
    }
    assert asked(views_of_it[written]) == [("get_weather", PARIS, "c1")]


@pytest.mark.parametrize("role", ["model", None])
def test_google_s_contents(role: str | None) -> None:
    view = log("gen_ai.choice", {"content": {**GOOGLE, "role": role}, "index": 0}, scope="gcp.vertex.agent")
    assert asked(view) == [("get_weather", PARIS, None)]


@pytest.mark.parametrize(
    "view",
    [
        log(DETAILS, **{"gen_ai.output.messages": PARTS}),
        log(DETAILS, **{"gen_ai.output.messages": json.dumps(PARTS)}),
        log(DETAILS, {"gen_ai.output.messages": PARTS}),
        log(DETAILS, "", **{"gen_ai.output.messages": PARTS}),
        log("", **{"event.name": DETAILS, "gen_ai.output.messages": PARTS}),
    ],
)
def test_whole_model_calls(view: LogView) -> None:
    assert asked(view) == [("get_weather", PARIS, "c1")]
    assert read(view).whole


def test_a_plugin_s_prefix_is_taken_off_in_logs_too() -> None:
    function = {**OPENAI, "function": {**OPENAI["function"], "name": "ops-get_weather"}}
    body = json.dumps({"message": {"tool_calls": [function]}})
    view = log("", body, scope="semantic_kernel.utils.telemetry", **{"event.name": "gen_ai.choice"})
    assert asked(view) == [("get_weather", PARIS, "c1")]
    assert read(view).dialect == "semantic_kernel"


def test_content_that_was_left_out_is_not_captured() -> None:
    body = {"index": 0, "message": {"tool_calls": [{"id": "c1", "function": {"name": "get_weather"}}]}}
    (request,) = model(log("gen_ai.choice", body)).requests
    assert (request.name, request.call_id, request.arguments.capture) == ("get_weather", "c1", Capture.NOT_CAPTURED)


# What a model was given

GIVEN: list[tuple[str, Any, bool | None, dict[str, bool] | None, str | None]] = [
    ("gen_ai.user.message", {"content": "Hello"}, True, None, "Hello"),
    ("gen_ai.user.message", {"content": [{"text": "Hello"}, {"text": "you"}]}, True, None, "Hello\nyou"),
    ("gen_ai.user.message", "Hello", True, None, "Hello"),
    ("gen_ai.user.message", None, True, None, None),
    ("gen_ai.user.message", {"content": {"parts": [{"text": "Hi"}], "role": "user"}}, True, None, "Hi"),
    (
        "gen_ai.user.message",
        {"content": {"parts": [{"function_response": {"id": None, "response": {"t": 1}}}], "role": "user"}},
        False,
        None,
        None,
    ),
    ("gen_ai.tool.message", {"id": "c1", "content": "70.7"}, False, {"c1": False}, None),
    ("gen_ai.tool.message", {"content": "70.7"}, False, None, None),
]


@pytest.mark.parametrize(("name", "body", "by_user", "answered", "text"), GIVEN)
def test_single_messages(
    name: str, body: Any, by_user: bool, answered: dict[str, bool] | None, text: str | None
) -> None:
    view = log(name, body)
    assert (model(view).new_user_message, model(view).answered, model(view).requests) == (by_user, answered, ())
    for content in (True, False):
        assert read(view, content=content).context.user_text.value == text, "goldens may be found by it"
    assert not read(view).own_message


@pytest.mark.parametrize(
    "view",
    [
        log("gen_ai.assistant.message", {"tool_calls": [OPENAI]}),
        log("gen_ai.assistant.message", {"content": "Hello"}),
        log("gen_ai.user.message", {"content": GOOGLE}, scope="gcp.vertex.agent"),
    ],
)
def test_the_model_s_own_messages_in_its_input_ask_for_nothing(view: LogView) -> None:
    facts = read(view, content=False)
    assert (facts.own_message, facts.model) == (True, None)


def test_system_messages_tell_what_the_system_said_and_nothing_else() -> None:
    view = log("gen_ai.system.message", {"content": "Be brief."})
    facts = read(view, content=False)
    assert (facts.model, facts.own_message, facts.users, facts.wrote) == (None, False, None, "")
    assert facts.system == read(log("gen_ai.system.message", {"content": "Be brief."})).system != ""
    assert facts.system != read(log("gen_ai.system.message", {"content": "Be wordy."})).system
    assert read(view).context.messages.value == [{"role": "system", "content": "Be brief."}]


@pytest.mark.parametrize("name", sorted(MESSAGE_EVENTS - {DETAILS, "gen_ai.choice"}))
def test_elided_messages_do_not_tell_whose_they_are(name: str) -> None:
    """google-adk logs every message as the user's; without content nothing tells a user's from a tool's."""
    assert REGISTRY.read_log(log(name, {"content": "<elided>"}, scope="gcp.vertex.agent")) is None


def test_elided_answers_ask_for_nothing() -> None:
    assert REGISTRY.read_log(log("gen_ai.choice", {"content": "<elided>"}, scope="gcp.vertex.agent")) is None


def test_the_end_of_a_whole_input_is_read_by_its_order() -> None:
    given = [
        {"role": "user", "parts": [{"type": "text", "content": "one"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "old"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "done"}]},
        {"role": "user", "parts": [{"type": "text", "content": "two"}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"t": 1}}]},
    ]
    view = log(DETAILS, **{"gen_ai.input.messages": given, "gen_ai.tool.definitions": [{"name": "f"}]})
    assert (model(view).new_user_message, model(view).answered) == (False, {"c1": False})
    facts = read(view)
    assert facts.tools == (ToolFacts("", call_id="c1", result=Content({"t": 1}, Capture.CAPTURED)),)
    assert facts.context.messages.value == given
    assert facts.context.tool_definitions.value == [{"name": "f"}]
    lean = read(view, content=False)
    assert (lean.tools, lean.context.messages.value, lean.context.tool_definitions.value) == ((), None, None)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ({"id": "c1", "content": "70.7"}, "70.7"),
        ({"id": "c1", "content": {"temp": 21.5}}, {"temp": 21.5}),
    ],
)
def test_results_are_found_by_their_call_ids(body: dict[str, Any], result: Any) -> None:
    (tool,) = read(log("gen_ai.tool.message", body)).tools
    assert (tool.call_id, tool.result.raw) == ("c1", result)


def test_answers_are_kept() -> None:
    view = log("gen_ai.choice", {"message": {"role": "assistant", "content": "It rains."}})
    assert read(view).context.answer.value == "It rains."


# Claude Code


def claude(**attributes: Any) -> ToolFacts:
    told = {"event.name": "tool_result", "tool_use_id": "toolu_1", "tool_name": "mcp_tool", "tool_input": TEXT}
    view = log("", "claude_code.tool_result", scope="com.anthropic.claude_code.events", **{**told, **attributes})
    facts = read(view, content=False)
    assert (facts.dialect, facts.model) == ("claude_code", None)
    (tool,) = facts.tools
    assert tool.call_id == "toolu_1"
    return tool


def test_an_execution_told_by_a_log_record() -> None:
    tool = claude(success="true", tool_parameters='{"mcp_server_name": "ops", "mcp_tool_name": "get_weather"}')
    assert (tool.name, tool.arguments.value, tool.error) == ("get_weather", PARIS, None)
    assert claude(tool_name="Bash").name == "Bash"


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"success": "false"}, "error"),
        ({"success": "false", "error": "no table", "error_type": "McpToolCallError"}, "McpToolCallError"),
        ({"success": "false", "error": "no table"}, "no table"),
        ({"success": "true", "error": "ignored"}, None),
        ({"success": True}, None),
    ],
)
def test_its_failure(attributes: dict[str, Any], error: str | None) -> None:
    assert claude(**attributes).error == error


def test_what_was_cut_off_is_known_by_its_size() -> None:
    written = json.dumps({"city": "Paris", "text": "é" * 512})
    whole = claude(tool_input=written, tool_input_size_bytes=str(len(written)))
    assert (whole.arguments.capture, whole.argument_captures) == (Capture.CAPTURED, None)
    cut = claude(tool_input=written, tool_input_size_bytes=str(len(written) + 100))
    assert (cut.arguments.capture, cut.argument_captures) == (Capture.CAPTURED, {"text": Capture.TRUNCATED})
    assert claude(tool_input=TEXT, tool_input_size_bytes="4000").arguments.capture is Capture.TRUNCATED
    assert claude(tool_input='{"city": "Pa', tool_input_size_bytes="4000").arguments.capture is Capture.TRUNCATED
    for size in ("", "many", None, -1, "9" * 5000):
        assert claude(tool_input_size_bytes=size).arguments.capture in (Capture.CAPTURED, Capture.TRUNCATED)


def test_the_name_alone_does_not_make_it_claude_s() -> None:
    view = log("tool_result", scope="another", tool_use_id="c", tool_input=TEXT)
    assert REGISTRY.read_log(view) is None


# Sessions, turns, and what is no evidence


def test_sessions_and_turns() -> None:
    view = log(
        DETAILS,
        scope="gcp.vertex.agent",
        **{
            "gen_ai.output.messages": PARTS,
            "gen_ai.conversation.id": "s-1",
            "session.id": "s-2",
            "gcp.vertex.agent.invocation_id": "e-1",
        },
    )
    facts = read(view)
    assert facts.session_keys == (("session.id", "s-2"), ("gen_ai.conversation.id", "s-1"))
    assert (facts.turn_id, facts.dialect) == ("e-1", "google_adk")


def test_any_record_may_name_the_session_and_many_are_one() -> None:
    lines = [log("", text, time=time, **{"session.id": "s"}) for time, text in ((1, "GET /"), (2, "POST /"), (3, ""))]
    facts = {read(line) for line in lines} | {read(replace(lines[0], event_name="app.opened"))}
    (only,) = facts
    assert (only.session_keys, only.model, only.time) == ((("session.id", "s"),), None, 0)
    other = read(replace(lines[0], span_id="c" * 16))
    assert other.identity != only.identity


@pytest.mark.parametrize(
    "view",
    [
        log("", "GET /weather", user="u-1"),
        log("app.opened", {"content": "x"}),
        log("gen_ai.evaluation.result", **{"gen_ai.conversation.id": "s", "gen_ai.evaluation.name": "x"}),
        log("", **{"event.name": "gen_ai.evaluation.result", "session.id": "s"}),
        replace(log("gen_ai.choice", CHOICES["OpenAI"]), trace_id=""),
        log("", **{"event.name": ["gen_ai.choice"]}),
        log("", **{"mcp.session.id": "a transport's"}),
    ],
)
def test_what_says_nothing_of_a_span_is_left_out(view: LogView) -> None:
    assert REGISTRY.read_log(view) is None


@pytest.mark.parametrize(
    ("name", "attributes", "worth"),
    [
        ("gen_ai.choice", {}, True),
        ("", {"event.name": "gen_ai.choice"}, True),
        ("", {"event.name": "tool_result"}, True),
        ("", {"session.id": "s"}, True),
        ("app.opened", {"session.id": "s"}, True),
        ("", {}, False),
        ("app.opened", {"event.name": []}, False),
        ("gen_ai.evaluation.result", {"gen_ai.conversation.id": "s"}, False),
    ],
)
def test_what_is_worth_reading_is_told_without_reading_it(name: str, attributes: dict[str, Any], worth: bool) -> None:
    assert REGISTRY.may_tell(name, attributes) is worth


# Identity: a record delivered twice counts once


def test_a_record_is_known_again_by_what_it_says() -> None:
    view = log("gen_ai.choice", CHOICES["OpenAI"], a=(1, {"b": None}))
    same = replace(view, body=json.loads(json.dumps(view.body)), attributes={"a": [1, {"b": None}]})
    assert read(view) == read(same)


@pytest.mark.parametrize(
    "change",
    [
        {"time": 2},
        {"span_id": "c" * 16},
        {"trace_id": "c" * 32},
        {"scope_name": "another"},
        {"event_name": "gen_ai.assistant.message"},
        {"body": CHOICES["no message around it"]},
        {"attributes": {"a": True}},
    ],
)
def test_another_record_is_another(change: dict[str, Any]) -> None:
    view = log("gen_ai.choice", CHOICES["OpenAI"], a=1)
    assert read(view).identity != read(replace(view, **change)).identity


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", LOGGED)
@pytest.mark.parametrize("content", [True, False])
def test_recorded_logs_say_the_same_in_every_container(recording: str, content: bool) -> None:
    documents = log_documents(recording)
    expected = facts_of(documents, content=content)
    assert bool(expected) is not recording.endswith("nocontent")
    assert facts_of([as_logs_data(document) for document in documents], content=content) == expected
    records = [record for document in documents for record in as_sdk_records(document)]
    assert facts_of(records, content=content) == expected


def facts_of(source: Any, *, content: bool) -> list[Any]:
    problems: list[Problem] = []
    found = list(DialectRegistry().facts(views(source, problems.append), content=content))
    assert problems == []
    return found


# Dialects of other packages


@dataclass
class Mine:
    """A dialect that reads spans and log records of its own."""

    answer: Any = None
    name: str = "mine"
    markers: frozenset[str] = frozenset({"mine"})
    log_events: frozenset[str] = frozenset({"mine.called", "gen_ai.choice"})

    def read(self, span: SpanView) -> Reading | None:
        return None

    def read_log(self, log: LogView) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_dialect_may_read_log_records() -> None:
    said = ToolFacts("f", Content({"x": 1}, Capture.CAPTURED), call_id="c")
    mine = Mine(LogReading(tools=(said,), turn_id="t-1"))
    assert isinstance(mine, Dialect)
    assert isinstance(mine, LogDialect)
    registry = DialectRegistry([mine])
    facts = registry.read_log(log("mine.called"))
    assert facts is not None
    assert (facts.dialect, facts.tools, facts.turn_id) == ("mine", (said,), "t-1")
    assert registry.read_log(log("another.event")) is None
    assert registry.may_tell("mine.called", {})


def test_a_dialect_without_logs_is_one_still() -> None:
    class OnlySpans:
        name = "spans"
        markers = frozenset({"mine"})

        def read(self, span: SpanView) -> Reading | None:
            return None

    assert DialectRegistry([OnlySpans()]).read_log(log("gen_ai.choice", CHOICES["OpenAI"])) is None


@pytest.mark.parametrize("answer", [ValueError("no"), "not a reading", LogReading(context=lambda: 1 // 0)])  # type: ignore[arg-type,return-value]
def test_what_a_dialect_does_wrong_is_counted(answer: Any) -> None:
    problems: list[Problem] = []
    registry = DialectRegistry([Mine(answer), *DialectRegistry().dialects], on_problem=problems.append)
    facts = registry.read_log(log("gen_ai.choice", CHOICES["OpenAI"]))
    assert registry.failures == {"mine": 1}
    assert (problems[0].code, problems[0].source) == ("dialect_failed", f"{TRACE}/{SPAN}")
    assert (facts is not None) is not isinstance(answer, LogReading)


# Hostile records (R13)

WORDS = st.sampled_from(
    ["role", "parts", "content", "tool_calls", "function", "name", "arguments", "id", "type", "message", "args",
     "function_call", "function_response", "response", "gen_ai.input.messages", "gen_ai.output.messages",
     "gen_ai.tool.definitions", "gen_ai.event.content", "event.name", "session.id", "tool_input", "tool_parameters",
     "tool_input_size_bytes", "tool_use_id", "success", "error", "gcp.vertex.agent.invocation_id"]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=8)
    | st.sampled_from(["user", "assistant", "tool", "model", "<elided>", "{}", '{"a"', '{"message": {"content": 3}}'])
    | st.builds(pow, st.just(10), st.just(5000))
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=15,
)
SCOPES = st.sampled_from(["", "gcp.vertex.agent", "semantic_kernel.kernel", "com.anthropic.claude_code.events"])


@given(
    st.sampled_from([*sorted(MESSAGE_EVENTS), "tool_result", "claude_code.tool_result"]),
    VALUES,
    st.dictionaries(WORDS, VALUES, max_size=6),
    SCOPES,
)
def test_no_record_raises(name: str, body: Any, attributes: dict[str, Any], scope: str) -> None:
    registry = DialectRegistry()
    view = log(name, body, scope=scope, **attributes)
    facts = registry.read_log(view)
    assert registry.failures.total() == 0
    assert registry.read_log(view) == facts or repr(facts) == repr(registry.read_log(view))
    registry.may_tell(name, attributes)
    for tool in facts.tools if facts is not None else ():
        assert isinstance(tool.name, str)
        if tool.arguments.capture is Capture.CAPTURED:
            assert isinstance(tool.arguments.raw, dict)


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"content": [value]}
    return value


@pytest.mark.parametrize(
    "body",
    [deep(5_000), "{" * 100_000, '{"content": "' + "x" * 5_000_000 + '"}', {"content": "x" * 5_000_000}],
    ids=["nested", "opened", "long text", "long"],
)
def test_no_record_takes_long_or_all_the_stack(body: Any) -> None:
    registry = DialectRegistry()
    registry.read_log(log("gen_ai.user.message", body))
    assert registry.failures.total() == 0


def test_a_view_that_raises_costs_nothing_but_itself() -> None:
    class Broken(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise OSError("gone")

    def problems() -> Iterator[Problem]:
        found: list[Problem] = []
        registry = DialectRegistry(on_problem=found.append)
        assert registry.read_log(replace(log(), attributes=Broken())) is None
        assert registry.failures == {"reader": 1}
        yield from found

    assert [problem.code for problem in problems()] == ["dialect_failed"]
