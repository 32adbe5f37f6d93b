"""One test for each rule of reconstruction, from recorded bytes to sessions. docs/architecture.md lists the rules.

Elsewhere each rule has many more tests; here each fails where its rule is not followed at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers import TelemetryWarning, read_sessions
from goldspan.scoring.sessions import Capture, Session, ToolCall, Turn, UserMessages
from goldspan.scoring.turn_join import places_of
from rigs.repository import ROOT

ARCHITECTURE = ROOT / "docs" / "architecture.md"
TRACE = "a" * 32
AGENT = {"gen_ai.operation.name": "invoke_agent"}
CHAT = {"gen_ai.operation.name": "chat"}
ARGUMENTS = "gen_ai.tool.call.arguments"
ID = "gen_ai.tool.call.id"


def span(
    name: str, parent: str = "", at: tuple[int, int] = (1, 2), attributes: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """One span of a request; its name is its id, `at` are seconds."""
    return {
        "traceId": more.pop("trace", TRACE),
        "spanId": name.encode().hex().ljust(16, "0")[:16],
        "parentSpanId": parent.encode().hex().ljust(16, "0")[:16] if parent else "",
        "name": more.pop("called", name),
        "kind": more.pop("kind", 1),
        "startTimeUnixNano": str(at[0] * 10**9),
        "endTimeUnixNano": str(at[1] * 10**9),
        "attributes": [{"key": key, "value": any_value(value)} for key, value in (attributes or {}).items()],
        **more,
    }


def any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "raw" in value:
        return value["raw"]
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def agent(name: str = "agent", parent: str = "", at: tuple[int, int] = (0, 99), **attributes: Any) -> dict[str, Any]:
    return span(name, parent, at, AGENT | attributes)


def tool(
    name: str, at: tuple[int, int] = (1, 2), args: Any = None, parent: str = "agent", **more: Any
) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": more.pop("of", name)}
    attributes |= {ARGUMENTS: args} if args is not None else {}
    return span(name, parent, at, attributes | more.pop("attributes", {}), **more)


def chat(name: str, at: tuple[int, int], output: Any = None, given: Any = None, **more: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {**CHAT}
    attributes |= {"gen_ai.output.messages": output} if output is not None else {}
    attributes |= {"gen_ai.input.messages": given} if given is not None else {}
    return span(name, more.pop("parent", "agent"), at, attributes, **more)


def asks(*calls: tuple[str, str, Any]) -> list[dict[str, Any]]:
    parts = [{"type": "tool_call", "id": call_id, "name": name, "arguments": args} for call_id, name, args in calls]
    return [{"role": "assistant", "parts": parts}]


def says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def sessions(*spans: dict[str, Any], scope: str = "tests") -> list[Session]:
    scopes = [{"scope": {"name": one.pop("scope", scope)}, "spans": [one]} for one in spans]
    return read_sessions({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]})


def turns(*spans: dict[str, Any]) -> list[Turn]:
    (session,) = sessions(*spans)
    return list(session.turns)


def calls(*spans: dict[str, Any]) -> list[ToolCall]:
    (turn,) = turns(*spans)
    return list(turn.calls)


def brief(found: list[ToolCall]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in found]


def test_r1_each_span_is_recognised_by_its_own_attributes() -> None:
    openinference = {"openinference.span.kind": "TOOL", "tool.name": "b", "input.value": '{"x": 2}'}
    found = calls(
        span("http", "", (0, 100)),
        agent(parent="http"),
        tool("a", (1, 2), {"x": 1}, kind=2),
        span("b", "agent", (3, 4), openinference),
        scope_of(
            "c", {"traceloop.span.kind": "tool", "traceloop.entity.name": "c", "traceloop.entity.input": {"x": 3}}
        ),
    )
    assert brief(found) == [("a", {"x": 1}), ("b", {"x": 2}), ("c", {"x": 3})]


def scope_of(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    return span(name, "agent", (5, 6), attributes, scope="openinference.instrumentation.langchain")


def test_r2_an_envelope_is_opened_only_where_the_dialect_has_one() -> None:
    envelope = {"kwargs": {"x": 1}}
    wrapped = {"openinference.span.kind": "TOOL", "input.value": envelope}
    found = calls(
        agent(),
        tool("own_kwargs", (1, 2), envelope),
        span("f", "agent", (3, 4), wrapped, called="f.__call__", scope="openinference.instrumentation.dspy"),
    )
    assert brief(found) == [("own_kwargs", envelope), ("f", {"x": 1})]


def test_r3_executions_are_the_truth_and_requests_are_read_from_outputs_only() -> None:
    history = [*asks(("c0", "old", {})), {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0"}]}]
    found = calls(
        agent(),
        chat("m", (1, 2), asks(("c1", "f", {"x": 1}), ("c2", "f", {"x": 2}), ("c3", "elsewhere", {})), history),
        tool("run", (3, 4), {"x": 1}, of="f", attributes={ID: "c1"}),
    )
    assert [(call.name, call.call_id, call.requested, call.rejected) for call in found] == [
        ("f", "c1", False, False),
        ("f", "c2", True, True),
        ("elsewhere", "c3", True, False),
    ]


def test_r4_repeats_are_real_and_redeliveries_are_not() -> None:
    outer, inner = tool("f", (1, 4), {"x": 1}), tool("server", (2, 3), of="f", parent="f", attributes={ID: "c1"})
    again = tool("again", (5, 6), {"x": 1}, of="f")
    early = {**tool("f", (1, 4)), "attributes": outer["attributes"][:2]}
    found = calls(agent(), early, outer, inner, again, dict(again), dict(inner))
    assert [(call.name, call.arguments, call.call_id) for call in found] == [
        ("f", {"x": 1}, "c1"),
        ("f", {"x": 1}, None),
    ]


def test_r5_merged_spans_and_hand_offs_are_no_calls() -> None:
    adk = {"gcp.vertex.agent.event_id": "e"}
    found = calls(
        agent(),
        tool("f", (1, 2), {}),
        tool("merged", (3, 4), {}, of="(merged tools)", attributes=adk),
        tool("hand_off", (5, 6), {"agent_name": "b"}, of="transfer_to_agent", attributes=adk),
    )
    assert [call.name for call in found] == ["f"]


def test_r6_the_session_is_the_turn_s_and_never_borrowed_from_one_that_disagrees() -> None:
    found = sessions(
        span("batch", "", (0, 100)),
        agent("one", "batch", (1, 9), **{"session.id": "s1"}),
        tool("a", (2, 3), parent="one"),
        agent("two", "batch", (11, 19)),
        tool("b", (12, 13), parent="two", attributes={"session.id": "s2"}),
        tool("b2", (14, 15), parent="two", attributes={"langfuse.session.id": "lower"}),
        agent("three", "batch", (21, 29)),
        tool("c", (22, 23), parent="three"),
    )
    assert {one.id: ([call.name for call in one.turns[0].calls], one.id_source, one.ambiguous) for one in found} == {
        "s1": (["a"], "session.id", False),
        "s2": (["b", "b2"], "session.id", False),
        TRACE: (["c"], "trace_id", True),
    }


def test_r7_a_turn_is_the_outermost_agent_s_or_goes_from_one_user_message_to_the_next() -> None:
    nested = turns(agent(), tool("ask", (1, 9)), agent("inner", "ask", (2, 8)), tool("f", (3, 4), parent="inner"))
    assert [[call.name for call in turn.calls] for turn in nested] == [["ask", "f"]]
    session = {"gen_ai.conversation.id": "s"}
    user, result = says("user", "hi"), {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1"}]}

    def raw(name: str, start: int, given: list[Any], output: Any) -> dict[str, Any]:
        one = chat(name, (start, start + 1), output, given, parent="", trace=name.encode().hex().ljust(32, "0"))
        one["attributes"] += [{"key": key, "value": any_value(value)} for key, value in session.items()]
        return one

    request, answer = asks(("c1", "f", {})), [says("assistant", "done")]
    found = turns(
        raw("m1", 1, [user], request),
        raw("m2", 3, [user, *request, result], answer),
        raw("m3", 5, [user, *request, result, *answer, user], answer),
    )
    assert [[call.name for call in turn.calls] for turn in found] == [["f"], []]


def test_r8_calls_are_in_the_order_of_their_requests_else_of_time_in_batches() -> None:
    asked = calls(
        agent(),
        chat("m", (1, 2), asks(("c1", "first", {}), ("c2", "second", {}))),
        tool("second", (3, 5), {}, attributes={ID: "c2"}),
        tool("first", (4, 6), {}, attributes={ID: "c1"}),
    )
    assert [(call.name, call.batch) for call in asked] == [("first", 1), ("second", 1)]
    unseen = calls(agent(), tool("c", (7, 8)), tool("b", (2, 5)), tool("a", (1, 3)))
    assert [(call.name, call.batch) for call in unseen] == [("a", 1), ("b", 1), ("c", 2)]


def test_r9_names_are_the_user_s_and_otherwise_exact() -> None:
    traceloop = {"traceloop.span.kind": "tool", "traceloop.entity.name": "f.tool", "traceloop.entity.input": {}}
    found = calls(agent(), span("t", "agent", (1, 2), traceloop), tool("exact", (3, 4), {}, of="f.tool"))
    assert [call.name for call in found] == ["f", "f.tool"]


def test_r10_what_is_not_known_is_never_no_arguments_and_another_copy_is_asked_first() -> None:
    texts = {"absent": None, "none": "{}", "redacted": "[REDACTED]", "cut": '{"x": "' + "y" * 200, "broken": "{x"}
    spans = [tool(name, (2 * n + 3, 2 * n + 4), text) for n, (name, text) in enumerate(texts.items())]
    found = {call.name: (call.capture, call.arguments) for call in calls(agent(), *spans)}
    assert found["absent"] == (Capture.NOT_CAPTURED, None)
    assert found["none"] == (Capture.CAPTURED, {})
    assert found["redacted"] == (Capture.REDACTED, None)
    assert found["broken"] == (Capture.UNPARSABLE, None)
    assert found["cut"][1] is None
    (call,) = calls(agent(), chat("m", (1, 2), asks(("c1", "f", {"x": 1}))), tool("f", (3, 4), attributes={ID: "c1"}))
    assert (call.capture, call.arguments, len(call.evidence)) == (Capture.CAPTURED, {"x": 1}, 2)


def test_r11_content_may_stand_in_log_records(tmp_path: Path) -> None:
    model = chat("m", (1, 2))
    event = {
        "traceId": TRACE,
        "spanId": model["spanId"],
        "timeUnixNano": "2",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": [{"key": "gen_ai.output.messages", "value": any_value(asks(("c1", "f", {"x": 1})))}],
    }
    spans = [agent(), model, tool("f", (3, 4), attributes={ID: "c1"})]
    scope = {"name": "tests"}
    traces, logs = tmp_path / "traces.json", tmp_path / "logs.json"
    traces.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]}))
    logs.write_text(json.dumps({"resourceLogs": [{"scopeLogs": [{"scope": scope, "logRecords": [event]}]}]}))
    (session,) = read_sessions([traces, logs])
    assert brief(list(session.turns[0].calls)) == [("f", {"x": 1})]


def test_r12_failed_calls_are_calls_and_say_so() -> None:
    found = calls(
        agent(),
        tool("status", (1, 2), {}, status={"code": 2, "message": "no"}),
        tool("type", (3, 4), {}, attributes={"error.type": "ValueError"}),
        tool("flag", (5, 6), {}, attributes={"gen_ai.tool.status": "error"}),
        tool("fine", (7, 8), {}, status={"code": 1}),
    )
    assert [(call.name, bool(call.error)) for call in found] == [
        ("status", True),
        ("type", True),
        ("flag", True),
        ("fine", False),
    ]


def test_r13_nothing_is_believed_and_nothing_stops_its_neighbours() -> None:
    deep = "[" * 5000 + "]" * 5000
    odd = [{"doubleValue": "NaN"}, {"intValue": "9" * 400}, {"arrayValue": {"values": [{}]}}, {"kvlistValue": 7}, {}]
    bad = [tool(f"bad{n}", (n + 1, n + 2), {"raw": value}, of="bad") for n, value in enumerate(odd)]
    cycle = [tool("x", parent="y"), tool("y", parent="x")]
    timeless = tool("timeless", (0, 0), {"x": 2})
    stamped = tool("stamped", (60, 61), {"x": 3}, attributes={"tool_parameter_match.score": "1.0"})
    good = tool("good", (50, 51), {"x": 1})
    with pytest.warns(TelemetryWarning, match="its parents lead back to this span"):
        found = sessions(agent(), *bad, tool("deep", (9, 10), deep), *cycle, timeless, stamped, good)
    by_name = {call.name: call for one in found for turn in one.turns for call in turn.calls}
    assert by_name["good"].arguments == {"x": 1}
    assert (by_name["timeless"].arguments, by_name["timeless"].start, by_name["timeless"].end) == ({"x": 2}, 0, 0)
    assert by_name["stamped"].arguments == {"x": 3}
    assert by_name["bad"].arguments is None
    assert by_name["deep"].arguments is None
    assert {"x", "y"} & set(by_name)


def test_r14_a_turn_has_the_place_that_its_first_model_call_tells() -> None:
    first, second = says("user", "Paris?"), says("user", "And Oslo?")
    session_id = {"gen_ai.conversation.id": "s"}
    later = [
        agent(**session_id),
        chat("m1", (1, 2), given=[first, says("assistant", "Sunny."), second], output=asks(("c1", "f", {}))),
        tool("f", (3, 4), attributes={ID: "c1"}),
        chat("m2", (5, 6), given=[first, says("assistant", "Sunny."), second, says("user", "Quick!")]),
    ]
    (turn,) = turns(*later)
    assert (turn.user_messages[0], places_of([turn])) == (UserMessages(1, 2), [2])
    (alone,) = turns(agent("other", **session_id), tool("g", (1, 2), parent="other"))
    assert places_of([alone]) == [None]


def test_every_rule_has_its_test() -> None:
    listed = set(re.findall(r"^\| R(\d+) \|", ARCHITECTURE.read_text("utf-8"), re.MULTILINE))
    assert listed == {name.split("_")[1][1:] for name in globals() if re.match(r"test_r\d+_", name)}
