"""Arguments against the schema that a tool declares, in every form that providers give it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import Capture, Session, ToolCall, Turn
from goldspan.scoring.metrics.schema import ToolParameterSchema, plain_schema, violations
from goldspan.scoring.sessions import Content
from goldspan.scoring.tool_definitions import schema_of, schemas_of
from goldspan.scoring.verdict import MetricScore, Reason


def taking(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def found(schema: Any, **arguments: Any) -> list[tuple[str, str]]:
    return [(one.path, one.kind) for one in violations(arguments, schema)]


CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
STRICT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": ["string", "null"], "enum": ["c", "f", None]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
REFERRING = taking(at={"$ref": "#/$defs/Place"}) | {"$defs": {"Place": taking(city={"type": "string"})}}


@pytest.mark.parametrize(
    ("schema", "arguments", "wrong"),
    [
        (CITY, {"city": "Paris"}, []),
        (CITY, {"city": "Paris", "days": 3}, []),
        (CITY, {"city": "Paris", "days": 3.0}, []),
        (CITY, {"city": 7}, [("/city", "type")]),
        (CITY, {"city": "Paris", "days": "3"}, [("/days", "type")]),
        (CITY, {"days": 3}, [("/city", "missing")]),
        (CITY, {"city": "Paris", "cty": "x"}, [("/cty", "unknown")]),
        (CITY, {"city": "Paris", "a/b~": 1}, [("/a~1b~0", "unknown")]),
        ({**CITY, "additionalProperties": True}, {"city": "Paris", "more": 1}, []),
        ({**CITY, "additionalProperties": False}, {"city": "Paris", "more": 1}, [("/more", "unknown")]),
        ({**CITY, "additionalProperties": {"type": "string"}}, {"city": "Paris", "more": 1}, [("/more", "type")]),
        (STRICT, {"city": "Paris", "unit": None}, []),
        (STRICT, {"city": "Paris"}, [("/unit", "missing")]),
        (STRICT, {"city": "Paris", "unit": "k"}, [("/unit", "enum")]),
        (REFERRING, {"at": {"city": "Paris"}}, []),
        (REFERRING, {"at": {"city": 1}}, [("/at/city", "type")]),
        (taking(x={"$ref": "#"}), {"x": {"x": {"x": 1}}}, [("/x/x/x", "type")]),
        (taking(x={"anyOf": [{"type": "string"}, {"type": "null"}]}), {"x": None}, []),
        (taking(x={"anyOf": [{"type": "string"}, {"type": "null"}]}), {"x": 1}, [("/x", "value")]),
        (taking(x={"type": "string", "format": "date"}), {"x": "2024-02-30"}, [("/x", "format")]),
        (taking(x={"type": "string", "format": "date"}), {"x": "2024-02-28"}, []),
        (taking(x={"type": "string", "format": "a word of theirs"}), {"x": "any"}, []),
        (taking(x={"const": "a"}), {"x": "b"}, [("/x", "enum")]),
        (taking(x={"type": "array", "items": {"type": "integer"}}), {"x": [1, "2"]}, [("/x/1", "type")]),
        (taking(x=False), {"x": 1}, [("/x", "value")]),
        ({"type": "object"}, {"anything": 1}, []),
        ({}, {"anything": 1}, []),
    ],
)
def test_each_violation_is_named_by_its_path(schema: Any, arguments: Any, wrong: list[tuple[str, str]]) -> None:
    assert found(schema, **arguments) == wrong


@pytest.mark.parametrize(
    ("word", "right", "wrong"),
    [
        ("dict", {"a": 1}, [1]),
        ("float", 1.5, "1.5"),
        ("tuple", [1], "1"),
        ("str", "a", 1),
        ("int", 1, 1.5),
        ("bool", True, "true"),
        ("STRING", "a", 1),
        ("OBJECT", {"a": 1}, "a"),
        ("ARRAY", [1], {"a": 1}),
        ("Integer", 2, "2"),
    ],
)
def test_words_of_bfcl_and_gemini_mean_types_at_any_depth(word: str, right: Any, wrong: Any) -> None:
    ways: list[tuple[dict[str, Any], Callable[[Any], Any]]] = [
        (taking(x={"type": word}), lambda value: value),
        (taking(x={"type": "ARRAY", "items": {"type": word}}), lambda value: [value]),
        (taking(x={"type": "dict", "properties": {"y": {"type": word}}}), lambda value: {"y": value}),
    ]
    for schema, wrap in ways:
        assert found(schema, x=wrap(right)) == []
        assert [kind for _, kind in found(schema, x=wrap(wrong))] == ["type"]


@pytest.mark.parametrize("word", ["any", "whatever", None, 7, [], ["string", "whatever"]])
def test_a_word_that_is_no_type_allows_everything(word: Any) -> None:
    assert found(taking(x={"type": word}), x=1) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["string"]},
        {"enum": ["a"]},
        {"type": "STRING", "enum": ["a"]},
        {"anyOf": [{"type": "string"}]},
        {"$ref": "#/$defs/Text"},
    ],
)
def test_nullable_allows_null_and_nothing_else(schema: dict[str, Any]) -> None:
    whole = taking(x={**schema, "nullable": True}) | {"$defs": {"Text": {"type": "string"}}}
    assert found(whole, x=None) == []
    assert found(whole, x="a") == []
    assert found(whole, x=5) != []
    assert found(taking(x=schema) | {"$defs": whole["$defs"]}, x=None) != []


KEYWORDS = (
    "type",
    "required",
    "enum",
    "nullable",
    "properties",
    "items",
    "const",
    "default",
    "$ref",
    "anyOf",
    "format",
)


@given(st.sets(st.sampled_from(KEYWORDS), min_size=1))
def test_properties_may_be_named_like_keywords(names: set[str]) -> None:
    schema = {**taking(**{name: {"type": "integer"} for name in names}), "required": sorted(names)}
    assert found(schema, **dict.fromkeys(names, 1)) == []
    assert sorted(found(schema, **dict.fromkeys(names, "a"))) == sorted((f"/{name}", "type") for name in names)
    assert sorted(found(schema)) == sorted((f"/{name}", "missing") for name in names)


BROKEN: list[Any] = [
    {"type": "string", "pattern": "("},
    {"$ref": "#/$defs/Nowhere"},
    {"$ref": "https://example.invalid/schema.json"},
    {"$ref": "file:///etc/hostname"},
    {"minLength": "two"},
    "string",
    7,
    None,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_part_that_cannot_be_compiled_finds_nothing_and_the_others_still_do(broken: Any) -> None:
    schema = {**taking(x=broken, y={"type": "integer"}), "required": ["y"]}
    assert found(schema, x=1, y=1) == []
    assert found(schema, x=1, y="a") == [("/y", "type")]
    assert found(schema, x=1) == [("/y", "missing")]


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/s.json", "https://example.invalid/s", "file:///etc/hostname"]
)
def test_other_documents_are_not_fetched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("pathlib.Path.open", refuse)
    assert found(taking(x={"$ref": reference}), x=1) == []
    assert found({"$ref": reference}, x=1) == []
    assert found({"$schema": reference, **taking(x={"type": "string"})}, x=1) in ([], [("/x", "type")])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
words = st.sampled_from([*KEYWORDS, "object", "string", "additionalProperties", "allOf", "$defs", "pattern", "x"])
schemas = st.recursive(
    json_values | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(words, schemas, max_size=5), st.dictionaries(words | st.text(max_size=3), json_values, max_size=4)
)
def test_no_schema_and_no_arguments_raise(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    for finding in violations(arguments, schema):
        assert finding.failed
        assert finding.path == "" or finding.path.startswith("/")
        json.dumps([finding.message, finding.detailed]).encode()
    plain_schema(schema)


def nested(depth: int, make: Callable[[Any], Any], inside: Any = 1) -> Any:
    for _ in range(depth):
        inside = make(inside)
    return inside


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        float("nan"),
        float("-inf"),
        "\ud800",
        b"bytes",
        {1, 2},
        {1: 2},
        object(),
        nested(3000, lambda inner: [inner]),
        nested(3000, lambda inner: {"a": inner}),
        "x" * 1_000_000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_json_cannot_hold_are_judged(value: Any) -> None:
    assert found(taking(x={"type": "boolean"}, y={"type": "integer"}), x=value, y="a") == [
        ("/x", "type"),
        ("/y", "type"),
    ]


def test_a_schema_nested_too_deep_finds_nothing() -> None:
    assert found(nested(5000, lambda inner: taking(x=inner)), x=1) == []


def test_findings_are_bounded() -> None:
    schema = taking(x={"type": "array", "items": {"type": "string"}})
    assert len(found(schema, x=list(range(10_000)))) == 20
    assert len(found(taking(), **{f"a{number}": 1 for number in range(10_000)})) == 20


def test_values_are_only_in_the_detailed_sentence() -> None:
    (finding,) = violations({"x": "secret"}, taking(x={"type": "integer"}))
    assert (finding.message, finding.detailed) == ("expected integer", 'expected integer, found "secret"')


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
def test_an_unknown_name_is_told_the_nearest(closed: dict[str, Any]) -> None:
    (finding,) = violations({"ctiy": 1}, {**taking(city={"type": "string"}), **closed})
    assert finding.message == "the schema has no such parameter: did you mean city?"


# Sessions.

TIME: dict[str, Any] = {"name": "time", "parameters": {}}
DEFINED = Content(
    [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}, TIME],
    Capture.CAPTURED,
)


def judged(call: ToolCall, definitions: Content = DEFINED, **settings: Any) -> MetricScore:
    score = ToolParameterSchema(**settings)(Session("s", (Turn((call,), tool_definitions=definitions),)))
    (turn,) = score.turns
    assert isinstance(turn, MetricScore)
    (one,) = turn.calls
    assert isinstance(one, MetricScore)
    return one


def call(arguments: Any = None, **named: Any) -> ToolCall:
    return ToolCall(named.pop("name", "get_weather"), {"city": "Paris"} if arguments is None else arguments, **named)


@pytest.mark.parametrize(
    ("given_call", "score", "reason"),
    [
        (call(), 1, None),
        (call({"city": "Paris", "days": "2"}), 0.5, None),
        (call({}), 0, None),
        (call({"city": "Paris", "days": 1, "nope": 1, "nor": 2}), 0.5, None),
        (call(name="weather.get_weather"), None, Reason.INPUT_MISSING),
        (call(name="forecast"), None, Reason.INPUT_MISSING),
        (call(name="forecast", requested=True), 0, None),
        (call(name="forecast", error="no such tool"), 0, None),
        (call(rejected=True), None, Reason.NOTHING_EXPECTED),
        (call({}, name="time"), None, Reason.NOTHING_EXPECTED),
        (ToolCall("get_weather", None, capture=Capture.UNPARSABLE), 0, None),
        (ToolCall("get_weather", None, capture=Capture.REDACTED), None, Reason.ARGUMENTS_REDACTED),
        (ToolCall("get_weather", None, capture=Capture.NOT_CAPTURED), None, Reason.ARGUMENTS_NOT_CAPTURED),
        (call({"city": 7}, argument_captures={"city": Capture.REDACTED}), 1, None),
        (call({"city": 7, "days": "x"}, argument_captures={"city": Capture.REDACTED}), 0.5, None),
    ],
)
def test_a_call_is_judged_or_it_says_why_not(given_call: ToolCall, score: float | None, reason: Reason | None) -> None:
    result = judged(given_call)
    assert (None if result.score is None else float(result.score), result.reason) == (score, reason)


def test_without_definitions_nothing_is_judged_and_given_tools_replace_them() -> None:
    nothing = Content()
    assert judged(call(), nothing).reason is Reason.INPUT_MISSING
    assert judged(call({"city": 7}), nothing, tools={"get_weather": CITY}).score == 0
    assert judged(call(name="forecast"), nothing, tools={"get_weather": CITY}).score == 0


def test_rules_over_all_arguments_are_not_held_against_hidden_ones() -> None:
    schema = {"oneOf": [taking(x={"type": "string"}), taking(x={"type": "boolean"})]}
    hidden = {"x": Capture.REDACTED}
    assert found(schema, x=7) == [("", "value")]
    assert list(violations({"x": 7}, schema, hidden=hidden)) == []
    assert [one.path for one in violations({"x": 7}, {**schema, "required": ["y"]}, hidden=hidden)] == ["/y"]


PLAIN = {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "f", "parameters": PLAIN},
        {"type": "function", "function": {"name": "f", "parameters": PLAIN, "strict": True}},
        {"name": "f", "input_schema": PLAIN},
        {"name": "f", "inputSchema": PLAIN},
        {"toolSpec": {"name": "f", "inputSchema": {"json": PLAIN}}},
        {"name": "f", "parameters": json.dumps(PLAIN)},
        {"function_declarations": [{"name": "f", "parameters": PLAIN}]},
        {"function_declarations": [{"name": "f", "parameters_json_schema": PLAIN}]},
        json.dumps({"name": "f", "parameters": PLAIN}),
    ],
    ids=lambda definition: str(definition)[:12],
)
def test_definitions_are_found_in_every_wrapping(definition: Any) -> None:
    for written in ([definition], {"tools": [definition]}, json.dumps([definition])):
        assert schemas_of(Content(written, Capture.CAPTURED)) == {"f": PLAIN}


def test_a_qualified_tool_is_found_only_if_one_name_ends_so() -> None:
    assert schema_of("book", {"ops-book": PLAIN}) == PLAIN
    assert schema_of("book", {"ops-book": PLAIN, "x.book": PLAIN}) is None
    assert schema_of("book", {"notebook": PLAIN}) is None


@given(st.lists(json_values, max_size=5))
def test_no_definitions_raise(values: list[Any]) -> None:
    schemas_of(Content(values, Capture.CAPTURED))
    schemas_of(Content({"tools": values}, Capture.CAPTURED))
