"""Absent, elided, redacted, cut off and unparsable are different facts, and none of them is "no arguments" (R10)."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects.reading.value_parsing import read_arguments
from goldspan.mappers.span_facts import Role, ToolFacts
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span, event

PARIS = {"city": "Paris", "days": 3}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def tool(attributes: dict[Any, Any], **more: Any) -> ToolFacts:
    facts = DialectRegistry().read(Span({"gen_ai.operation.name": "execute_tool", **attributes}, **more))
    assert facts.tool is not None
    return facts.tool


def arguments(raw: Any, **beside: Any) -> tuple[Capture, Any]:
    content = tool({"gen_ai.tool.call.arguments": raw, **beside}).arguments
    return content.capture, content.value


@given(st.dictionaries(st.text(), json_values))
def test_every_object_written_as_json_comes_back(value: dict[str, Any]) -> None:
    read = read_arguments(json.dumps(value), {}).content
    assert (read.capture, read.value) == (Capture.CAPTURED, value)
    twice = read_arguments(json.dumps(json.dumps(value)), {}).content
    assert twice == read
    assert read_arguments(value, {}).content == read


@pytest.mark.parametrize(
    ("raw", "capture", "value"),
    [
        ('{"city": "Paris", "days": 3}', Capture.CAPTURED, PARIS),
        (' {"city": "L\\u00e9a"} ', Capture.CAPTURED, {"city": "Léa"}),
        ('"{\\"city\\": \\"Paris\\", \\"days\\": 3}"', Capture.CAPTURED, PARIS),
        (b'{"city": "Paris", "days": 3}', Capture.CAPTURED, PARIS),
        (PARIS, Capture.CAPTURED, PARIS),
        (MappingProxyType({"cities": ("Paris", "Lyon")}), Capture.CAPTURED, {"cities": ["Paris", "Lyon"]}),
        ("{}", Capture.CAPTURED, {}),
        ("", Capture.NOT_CAPTURED, None),
        ("  ", Capture.NOT_CAPTURED, None),
        ("null", Capture.NOT_CAPTURED, None),
        (None, Capture.NOT_CAPTURED, None),
        ("[REDACTED]", Capture.REDACTED, None),
        ('"<elided>"', Capture.REDACTED, None),
        ("__REDACTED__", Capture.REDACTED, None),
        ("[Scrubbed due to 'password']", Capture.REDACTED, None),
        ("****", Capture.REDACTED, None),
        ("<MASKED>", Capture.REDACTED, None),
        ("[REDACTED: email]", Capture.REDACTED, None),
        ("redacted-by-litellm", Capture.REDACTED, None),
        ("Paris", Capture.UNPARSABLE, None),
        ("{'city': 'Paris', 'days': 3}", Capture.CAPTURED, PARIS),
        ("{'day': datetime.date(2026, 1, 1)}", Capture.UNPARSABLE, None),
        ('["Paris"]', Capture.UNPARSABLE, None),
        ("3", Capture.UNPARSABLE, None),
        (3.5, Capture.UNPARSABLE, None),
        (True, Capture.UNPARSABLE, None),
        (["Paris"], Capture.UNPARSABLE, None),
        ('{"n": ' + "9" * 5000 + "}", Capture.UNPARSABLE, None),
        ("[" * 100_000, Capture.UNPARSABLE, None),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, Capture.UNPARSABLE, None),
        (b"\xff\xfe", Capture.UNPARSABLE, None),
    ],
)
def test_states(raw: Any, capture: Capture, value: Any) -> None:
    assert arguments(raw) == (capture, value)


def test_no_attribute_at_all_is_not_captured() -> None:
    assert tool({"gen_ai.tool.name": "x"}).arguments.capture is Capture.NOT_CAPTURED


def test_not_a_number_is_kept_as_written() -> None:
    capture, value = arguments('{"x": NaN}')
    assert capture is Capture.CAPTURED
    assert value["x"] != value["x"]


# Cut off

WHOLE = json.dumps(
    {"restaurant": {"name": "Chez Léa", "id": 42}, "ok": True, "ratio": -1.5e3, "none": None}, ensure_ascii=False
)


@pytest.mark.parametrize("length", range(len("execute_tool"), len(WHOLE)))
def test_a_text_cut_at_a_limit_that_others_share_is_truncated(length: int) -> None:
    other = "x" * length
    assert arguments(WHOLE[:length], other=other)[0] is Capture.TRUNCATED


@pytest.mark.parametrize("length", [20, 40, 60])
def test_a_text_cut_by_bytes_is_truncated_too(length: int) -> None:
    def cut(text: str) -> str:
        return text.encode()[:length].decode(errors="ignore")

    assert arguments(cut(WHOLE), other=cut("é" * 100))[0] is Capture.TRUNCATED


def test_a_text_cut_at_a_usual_limit_needs_no_witness() -> None:
    long = json.dumps({"text": "x" * 5000})
    assert arguments(long[:1024])[0] is Capture.TRUNCATED
    assert arguments(long[:4095])[0] is Capture.TRUNCATED
    assert arguments(long[:1037])[0] is Capture.UNPARSABLE


def test_a_mark_of_truncation_needs_no_witness() -> None:
    assert arguments('{"city": "Par...')[0] is Capture.TRUNCATED
    assert arguments('{"city": "Par[truncated]')[0] is Capture.TRUNCATED


def test_what_a_model_left_unfinished_is_unparsable_not_cut() -> None:
    assert arguments('{"city": "Par', other="x" * 200)[0] is Capture.UNPARSABLE
    assert arguments('{"city": "Paris",, "days"}', other="x" * 26)[0] is Capture.UNPARSABLE


@given(st.dictionaries(st.text(), json_values), st.integers(0, 200))
def test_no_prefix_of_json_is_ever_believed(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    prefix = text[: min(cut, len(text) - 1)]
    assert read_arguments(prefix, {}).content.capture is not Capture.CAPTURED


# Single arguments


def test_single_hidden_arguments_are_named_wherever_the_token_is_inside_them() -> None:
    found = tool(
        {"gen_ai.tool.call.arguments": json.dumps({"a": "[REDACTED]", "b": [{"c": "<elided>"}], "d": "plain"})}
    )
    assert found.arguments.capture is Capture.CAPTURED
    assert found.argument_captures == {"a": Capture.REDACTED, "b": Capture.REDACTED}
    assert tool({"gen_ai.tool.call.arguments": '{"d": "[REDACTED] by hand"}'}).argument_captures is None


# Other copies on the same span


def test_a_hidden_copy_gives_way_to_one_that_is_there() -> None:
    strands = event("gen_ai.tool.message", content=json.dumps(PARIS), id="call-1")
    found = tool({"gen_ai.tool.call.arguments": "[REDACTED]"}, events=[strands])
    assert found.arguments.value == PARIS
    assert found.call_id == "call-1"


def test_flattened_arguments_are_put_together() -> None:
    found = tool({"gen_ai.tool.call.arguments.city": "Paris", "gen_ai.tool.call.arguments.days": 3, 4: "no text"})
    assert found.arguments.value == PARIS


def test_another_dialect_fills_in_what_the_first_lacks() -> None:
    found = tool(
        {"openinference.span.kind": "TOOL", "tool.name": "f", "input.value": "__REDACTED__"}
        | {"gen_ai.tool.call.arguments": json.dumps(PARIS), "gen_ai.tool.call.id": "c"}
    )
    assert (found.name, found.arguments.value, found.call_id) == ("f", PARIS, "c")


# Elided


@pytest.mark.parametrize(
    ("response", "capture"),
    [
        ("{}", Capture.NOT_CAPTURED),
        ({}, Capture.NOT_CAPTURED),
        (None, Capture.NOT_CAPTURED),
        ('{"result": 3}', Capture.CAPTURED),
        ("<not specified>", Capture.CAPTURED),
    ],
)
def test_adk_writes_braces_where_content_is_off(response: Any, capture: Capture) -> None:
    attributes = {"gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": response}
    assert tool(attributes).arguments.capture is capture
    assert tool({**attributes, "gcp.vertex.agent.tool_call_args": '{"a": 1}'}).arguments.value == {"a": 1}


# Envelopes and reprs, only where the dialect says so


@pytest.mark.parametrize(
    "envelope", [{"kwargs": PARIS}, {"args": [1], "kwargs": PARIS}, {"arguments": PARIS}, {"inputs": PARIS}]
)
def test_a_tool_may_have_a_parameter_named_like_an_envelope(envelope: dict[str, Any]) -> None:
    assert arguments(json.dumps(envelope)) == (Capture.CAPTURED, envelope)
    found = tool({"openinference.span.kind": "TOOL", "input.value": json.dumps(envelope)}, scope_name="my.app")
    assert found.arguments.value == envelope


@pytest.mark.parametrize("envelope", [{"args": [], "kwargs": PARIS}, {"type": "json", "value": PARIS}])
def test_no_tool_has_parameters_like_these_envelopes(envelope: dict[str, Any]) -> None:
    assert arguments(json.dumps(envelope)) == (Capture.CAPTURED, PARIS)


@pytest.mark.parametrize(
    ("properties", "expected"), [(["city", "days"], "inside"), (["input"], "whole"), ([], "whole")]
)
def test_an_envelope_is_what_the_schema_of_the_tool_does_not_know(properties: list[str], expected: str) -> None:
    envelope = {"input": {"city": "Paris", "days": 3}, "options": None}
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in properties}}
    attributes = {"openinference.span.kind": "TOOL", "input.value": json.dumps(envelope)}
    found = tool({**attributes, "tool.json_schema": json.dumps(schema)}, scope_name="my.app")
    assert found.arguments.value == (envelope["input"] if expected == "inside" else envelope)


@pytest.mark.parametrize(("properties", "expected"), [({}, {}), ({"x": {"type": "object"}}, None)])
def test_around_the_arguments_of_a_tool_that_takes_none_is_nothing(properties: Any, expected: Any) -> None:
    envelope = {"input": {}, "options": None}
    schema = {"type": "object", "properties": properties}
    attributes = {"openinference.span.kind": "TOOL", "input.value": json.dumps(envelope)}
    found = tool({**attributes, "tool.json_schema": json.dumps(schema)}, scope_name="my.app")
    assert found.arguments.value == (envelope if expected is None else expected)


@pytest.mark.parametrize(
    ("scope", "attributes", "expected"),
    [
        (
            "openinference.instrumentation.dspy",
            {"openinference.span.kind": "TOOL", "input.value": {"kwargs": PARIS}},
            PARIS,
        ),
        (
            "openinference.instrumentation.smolagents",
            {
                "openinference.span.kind": "TOOL",
                "input.value": {"args": [], "sanitize_inputs_outputs": True, "kwargs": PARIS},
            },
            PARIS,
        ),
        (
            "traceloop.tracer",
            {"traceloop.span.kind": "tool", "traceloop.entity.input": {"args": [], "kwargs": PARIS}},
            PARIS,
        ),
        (
            "traceloop.tracer",
            {"traceloop.span.kind": "tool", "traceloop.entity.input": {"args": ["Paris"], "kwargs": {}}},
            None,
        ),
        (
            "opentelemetry.instrumentation.langchain",
            {"traceloop.span.kind": "tool", "gen_ai.tool.call.arguments": {"input_str": "{'city'..", "inputs": PARIS}},
            PARIS,
        ),
        (
            "opentelemetry.instrumentation.mcp.instrumentation",
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "f",
                "traceloop.entity.input": {"tool_name": "f", "arguments": PARIS},
            },
            PARIS,
        ),
        (
            "openinference.instrumentation.ag2",
            {
                "openinference.span.kind": "TOOL",
                "tool.name": "f",
                "input.value": {"name": "f", "arguments": json.dumps(PARIS)},
            },
            PARIS,
        ),
        (
            "",
            {"openinference.span.kind": "TOOL", "tool.name": "f", "input.value": {"name": "g", "arguments": "{}"}},
            {"name": "g", "arguments": "{}"},
        ),
        ("", {"langfuse.observation.type": "tool", "langfuse.observation.input": {"args": [], "kwargs": PARIS}}, PARIS),
        ("", {"langfuse.observation.type": "tool", "langfuse.observation.input": PARIS}, PARIS),
    ],
)
def test_envelopes(scope: str, attributes: dict[str, Any], expected: Any) -> None:
    written = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in attributes.items()}
    facts = DialectRegistry().read(Span(written, scope_name=scope))
    assert facts.tool is not None
    assert facts.tool.arguments.capture is (Capture.CAPTURED if expected else Capture.UNPARSABLE)
    assert facts.tool.arguments.value == expected


def test_python_reprs_are_read_as_json_is() -> None:
    found = tool({"openinference.span.kind": "TOOL", "input.value": "{'city': 'Paris', 'days': 3, 'x': None}"})
    assert found.arguments.value == {**PARIS, "x": None}


@pytest.mark.parametrize(
    ("name", "runs"), [("Todos.before_agent", False), ("Todos.after_agent", False), ("agent", True)]
)
def test_a_hook_of_langchain_s_middleware_runs_nothing(name: str, *, runs: bool) -> None:
    found = DialectRegistry().read(Span({"openinference.span.kind": "AGENT"}, name=name))
    assert found.role is Role.AGENT
    assert found.no_turn is not runs


@pytest.mark.parametrize(("kind", "text"), [("AGENT", "And a chair"), ("LLM", "A table")])
def test_a_graph_of_langchain_is_told_the_last_message_of_its_state(kind: str, text: str) -> None:
    said = ("human", "A table"), ("ai", "Done"), ("human", "And a chair")
    state = {"messages": [{"type": who, "data": {"content": what}} for who, what in said]}
    first = {"role": "user", "content": "A table"}
    attributes = {f"llm.input_messages.0.message.{key}": value for key, value in first.items()}
    attributes |= {"openinference.span.kind": kind, "input.value": json.dumps(state)}
    assert DialectRegistry().read(Span(attributes)).context.user_text.value == text


def test_what_flat_messages_leave_out_is_read_from_the_whole_answer() -> None:
    asked = [("now", "{}"), ("stock", '{"item": "lamp"}')]
    calls = [{"id": name, "function": {"name": name, "arguments": text}} for name, text in asked]
    first = "llm.output_messages.0.message.tool_calls."
    written = {
        "openinference.span.kind": "LLM",
        f"{first}0.tool_call.function.name": "now",
        f"{first}1.tool_call.function.name": "stock",
        f"{first}1.tool_call.function.arguments": '{"item": "lamp"}',
    }
    ran = {"type": "mcp_call", "id": "m", "name": "weather", "arguments": "{}", "output": "rain"}
    for said, names in (
        (calls, ["now", "stock"]),
        ([], ["now", "stock"]),
        ([*calls, ran], ["now", "stock", "weather"]),
    ):
        output = {"output": [{"type": "function_call", **one.get("function", one)} for one in said]}
        found = DialectRegistry().read(Span({**written, "output.value": json.dumps(output)})).model
        assert found is not None
        assert [one.name for one in found.requests] == names
        assert (found.requests[0].arguments.capture is Capture.CAPTURED) is bool(said)


def test_a_method_s_name_is_no_tool_s() -> None:
    for name, named in (("SimpleTool.__call__", False), ("find_order", True)):
        found = DialectRegistry().read(Span({"mlflow.spanType": '"TOOL"'}, name=name)).tool
        assert found is not None
        assert found.named is named


@pytest.mark.parametrize("hostile", ["__import__('os')", "{'a': open('x')}", "(" * 10_000, "{'a': " * 3000, "9" * 6000])
def test_reprs_are_read_and_never_evaluated(hostile: str) -> None:
    found = tool({"openinference.span.kind": "TOOL", "input.value": hostile})
    assert found.arguments.capture is Capture.UNPARSABLE


# tool.parameters: arguments in some instrumentations, a schema in others


@pytest.mark.parametrize(
    ("parameters", "capture"),
    [
        (PARIS, Capture.CAPTURED),
        ({"city": {"name": "Paris"}}, Capture.CAPTURED),
        ({"properties": {"city": {"type": "string"}}, "required": ["city"]}, Capture.NOT_CAPTURED),
        ({"city": {"type": "string", "description": "a city"}}, Capture.NOT_CAPTURED),
        ({}, Capture.NOT_CAPTURED),
    ],
)
def test_a_schema_is_never_taken_for_arguments(parameters: dict[str, Any], capture: Capture) -> None:
    found = tool({"openinference.span.kind": "TOOL", "tool.parameters": json.dumps(parameters)})
    assert found.arguments.capture is capture
