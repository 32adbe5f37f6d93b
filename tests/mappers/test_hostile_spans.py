"""Trust nothing: no value under any key of any dialect raises, hangs, or stops another span (R13)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.dialects import DialectTable, Rule
from goldspan.mappers.readers.files import views
from goldspan.mappers.spans import EventView
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import Capture
from rigs.otlp_containers import Span

REGISTRY = DialectRegistry()
TABLES = [dialect for dialect in REGISTRY.dialects if isinstance(dialect, DialectTable)]


def keys_of(table: DialectTable) -> set[str]:
    sources = (
        *table.arguments, *table.call_id, *table.result, *table.output, *table.input,
        *table.user_text, *table.answer, *table.messages, *table.tool_definitions,
    )  # fmt: skip
    keys = {source.key for source in sources} | {rule.key for rule in table.rules} | set(table.markers)
    return keys.union(table.tool_name, table.agent, table.turn_id, table.session_keys) - {""}


KEYS = sorted(
    set().union(*(keys_of(table) for table in TABLES))
    | {"session.id", "error.type", "goldspan.run.id", "test.case.name", "tool_parameter_match.score"}
    | {f"llm.{way}_messages.{n}.message.{rest}" for way in ("input", "output") for n in ("0", "1", "x") for rest in (
        "role", "content", "tool_calls.0.tool_call.function.name", "tool_calls.0.tool_call.function.arguments",
        "tool_calls.0", "contents.0.message_content.text", "tool_call_id",
    )}
    | {"gen_ai.tool.call.arguments.city", "gen_ai.completion.0.tool_calls.0.name", "llm.tools.0.tool.json_schema"}
)  # fmt: skip
KINDS = sorted({value for table in TABLES for rule in table.rules for value in rule.values or ()})
WORDS = st.sampled_from(
    ["role", "parts", "content", "tool_calls", "function", "name", "arguments", "id", "type", "message", "messages",
     "toolUse", "toolResult", "kwargs", "args", "input", "output", "origin", "tool_call_result", "replies", "choices",
     "generations", "lc", "event.name", "contents", "config", "tools"]
)  # fmt: skip
plain = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=8)
    | st.sampled_from([*KINDS, "user", "assistant", "tool", "tool_call", "[REDACTED]", "{}", "[]", "null", '{"a"'])
    | st.builds(pow, st.just(10), st.just(5000))
)  # fmt: skip
json_like = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
as_text = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["user", "tool_call"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=15,
).map(json.dumps)
values = json_like | as_text | as_text.map(lambda text: text[: len(text) // 2]) | st.sampled_from(KINDS)
attribute_maps = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4) | st.integers(), values, max_size=10)
events = st.lists(
    st.builds(
        EventView,
        st.sampled_from(["gen_ai.choice", "gen_ai.tool.message", "gen_ai.user.message", "exception", "x"]),
        st.dictionaries(st.sampled_from(["content", "message", "id", "tool_calls", "exception.type"]), values),
    ),
    max_size=3,
)  # fmt: skip
names = st.sampled_from(["", "execute_tool x", "invoke_agent a", "handoff to b", "a.run", "invocation [a]"])


def scopes_of(rule: Rule) -> tuple[str, ...]:
    """The scopes that a rule is for."""
    return (rule.scope,) if isinstance(rule.scope, str) else rule.scope


scopes = st.sampled_from(
    ["", "openlit", *(scope for table in TABLES for rule in table.rules for scope in scopes_of(rule))]
)


@given(attribute_maps, events, names, scopes, st.sampled_from([0, 1, 2]), st.booleans())
def test_whatever_a_span_holds_it_is_read(
    attributes: dict[Any, Any], held: list[EventView], name: str, scope: str, status: int, content: bool
) -> None:
    failures = REGISTRY.failures.total()
    span = Span(attributes, name=name, scope_name=scope, status_code=status, events=held, parent_id="c" * 16)
    facts = REGISTRY.read(span, content=content)
    assert REGISTRY.failures.total() == failures
    assert facts.span_id == span.span_id
    assert (facts.tool is not None) is (facts.role == "tool")
    for known in (facts.tool.arguments, facts.tool.result) if facts.tool else ():
        assert (known.value is None) or known.capture is Capture.CAPTURED
    if facts.tool is not None and facts.tool.arguments.capture is Capture.CAPTURED:
        assert isinstance(facts.tool.arguments.raw, dict)
    for request in facts.model.requests if facts.model else ():
        assert isinstance(request.name, str)
        assert request.arguments.capture is not Capture.CAPTURED or isinstance(request.arguments.raw, dict)
    for context in (
        facts.context.user_text,
        facts.context.answer,
        facts.context.messages,
        facts.context.tool_definitions,
    ):
        _ = context.value
    for key, value in facts.session_keys:
        assert isinstance(key, str)
        assert isinstance(value, str)
        assert value


def test_a_failed_result_with_a_number_that_python_does_not_write_is_read_by_its_shape() -> None:
    failures = REGISTRY.failures.total()
    held = [EventView("gen_ai.choice", {"message": [10**5000], "content": "x"})]
    read = REGISTRY.read(Span({}, scope_name="openlit", status_code=2, events=held), content=False)
    assert read.look is not None
    assert REGISTRY.failures.total() == failures


@given(json_like.filter(lambda value: not isinstance(value, str)))  # texts are paths
def test_whatever_is_given_as_a_span_is_read_or_is_a_problem(value: Any) -> None:
    problems: list[Problem] = []
    for view in views([value, {"name": "good"}], problems.append):
        REGISTRY.read(view)
        assert isinstance(view.name + view.scope_name + view.status_message + view.trace_id + view.parent_id, str)
        assert view.start >= 0
    good = [view for view in views([value, {"name": "good"}], problems.append) if view.name == "good"]
    assert len(good) == 1


HUGE = 10_000_000
DEEP = 200_000


@pytest.mark.parametrize("table", [table for table in TABLES if table.rules], ids=lambda table: table.name)
@pytest.mark.parametrize(
    "value",
    [
        "x" * HUGE,
        '{"a": "' + "x" * HUGE + '"}',
        "[" * DEEP,
        '{"role":' * DEEP,
        '[{"role": "user", "content": "' + "x" * HUGE,
        "(" * DEEP,
        "{'messages=[" * (DEEP // 10),
        json.dumps([{"role": "user", "content": "x"}] * 20_000),
    ],
    ids=["long", "long JSON", "deep list", "deep object", "cut", "deep repr", "quotes", "many messages"],
)
def test_no_value_takes_long(table: DialectTable, value: str) -> None:
    rule = table.rules[0]
    kind = next(iter(rule.values)) if rule.values else value
    attributes = dict.fromkeys(sorted(keys_of(table)), value) | ({rule.key: kind} if rule.key else {})
    span = Span(
        attributes,
        name=f"{rule.name_prefix}x{rule.name_suffix}",
        scope_name=next(iter(scopes_of(rule)), ""),
        kind=rule.kind or 1,
        parent_id="c" * 16,
    )
    started = time.process_time()
    failures = REGISTRY.failures.total()
    facts = REGISTRY.read(span)
    assert facts.role is not None
    assert REGISTRY.failures.total() == failures
    assert time.process_time() - started < 3


def test_a_view_that_raises_costs_nothing_but_itself() -> None:
    class Broken(Span):
        @property
        def attributes(self) -> Any:  # type: ignore[override]
            raise OSError("gone")

        @attributes.setter
        def attributes(self, value: Any) -> None:
            pass

    problems: list[Problem] = []
    registry = DialectRegistry(on_problem=problems.append)
    assert registry.read(Broken()).role is None
    assert registry.failures == {"reader": 1}
    assert "gone" in problems[0].message
