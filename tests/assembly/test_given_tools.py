"""Which list of tools is in force for a call: the rules that doors cannot show one by one."""

from __future__ import annotations

from typing import Any

from goldspan.mappers.assembly import assemble
from goldspan.mappers.span_facts import ContextFacts, SpanFacts
from goldspan.scoring.sessions import Turn, as_one_turn
from goldspan.scoring.tool_definitions import ToolsInForce
from rigs.span_facts import agent, captured, model, tool

TRACE = "1" * 32


def given(*names: str, default: int = 0) -> ContextFacts:
    listed = [{"name": name, "parameters": {"properties": {"x": {"default": default}}}} for name in names]
    return ContextFacts(tool_definitions=captured(listed))


def turn_of(*spans: SpanFacts) -> Turn:
    [session] = assemble([agent(TRACE, "root", session="s", start=0, end=90), *spans])
    [turn] = session.turns
    return turn


def lists(turn: Turn) -> list[list[str]]:
    return [[one["name"] for one in call.tool_definitions.value or ()] for call in turn.calls]


def asks(span: str, at: float, name: str, **more: Any) -> SpanFacts:
    return model(TRACE, span, "root", requests=((name, {}, f"call-{span}"),), start=at, end=at + 1, **more)


def runs(span: str, at: float, name: str, *, parent: str = "root", by: str = "") -> SpanFacts:
    return tool(TRACE, span, parent, name=name, args={}, call_id=by or None, start=at, end=at + 1)


def test_one_list_stays_with_the_turn_alone() -> None:
    turn = turn_of(asks("m1", 1, "f", context=given("f")), runs("t1", 3, "f"), asks("m2", 5, "g", context=given("f")))
    assert lists(turn) == [[], []]
    assert turn.more_definitions == ()


def test_the_requesting_model_call_decides_whenever_the_tool_ran() -> None:
    """The tool ran after a later model call with another list."""
    turn = turn_of(
        asks("m1", 1, "f", context=given("f")),
        asks("m2", 3, "g", context=given("f", "g")),
        runs("t1", 5, "f", by="call-m1"),
        runs("t2", 7, "g", by="call-m2"),
    )
    assert lists(turn) == [["f"], ["f", "g"]]
    assert [[one["name"] for one in more.value] for more in turn.more_definitions] == [["f", "g"]]


def test_a_model_call_without_a_list_has_that_of_its_inner_span_or_of_the_one_before() -> None:
    turn = turn_of(
        model(TRACE, "m0", "root", start=1, end=2, context=given("old")),
        asks("m1", 3, "f"),
        model(TRACE, "sdk", "m1", start=3.2, end=3.8, context=given("f")),
        runs("t1", 5, "f", by="call-m1"),
        asks("m2", 7, "g"),
        runs("t2", 9, "g", by="call-m2"),
    )
    assert lists(turn) == [["f"], ["f"]]


def test_a_sub_agent_without_models_has_the_list_on_its_own_span() -> None:
    turn = turn_of(
        model(TRACE, "m0", "root", start=1, end=2, context=given("f")),
        agent(TRACE, "sub", "root", start=3, end=9, context=given("g")),
        runs("t1", 5, "g", parent="sub"),
        runs("t2", 11, "f"),
    )
    assert lists(turn) == [["g"], ["f"]]


def test_turns_that_are_judged_as_one_keep_their_own_lists() -> None:
    def turn(at: int, default: int) -> list[SpanFacts]:
        trace = f"{at:032x}"
        context = given("f", default=default)
        return [
            agent(trace, "root", session="s", start=at, end=at + 9),
            model(trace, "m", "root", start=at + 1, end=at + 2, context=context),
            tool(trace, "t", "root", name="f", args={}, start=at + 3, end=at + 4),
        ]

    [session] = assemble([*turn(10, 1), *turn(20, 2)])
    one = as_one_turn(session)
    assert one is not None
    assert [ToolsInForce(one).defaults_of(call) for call in one.calls] == [{"x": 1}, {"x": 2}]
