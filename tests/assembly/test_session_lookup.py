"""Where the session of a turn is found (R6)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.span_facts import ResourceFacts, SpanFacts
from rigs.span_facts import agent, model, plain, tool

Keys = tuple[tuple[str, str], ...]
RESOURCE = ResourceFacts(session_keys=(("session.id", "from-resource"),))


def keyed(span: SpanFacts, *keys: tuple[str, str]) -> SpanFacts:
    return replace(span, session_keys=keys)


def found(records: list[SpanFacts]) -> list[tuple[str, str, bool]]:
    return [(session.id, session.id_source, session.ambiguous) for session in assemble(records)]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("root", "on-root"),
        ("ancestor", "on-ancestor"),
        ("subtree", "on-tool"),
        ("rest", "on-sibling"),
        ("resource", "from-resource"),
    ],
)
def test_places_are_asked_in_order(place: str, expected: str) -> None:
    order = ["root", "ancestor", "subtree", "rest", "resource"]
    below = order[order.index(place) :]

    def key(where: str, value: str) -> Keys:
        return (("session.id", value),) if where in below else ()

    resource = RESOURCE if "resource" in below else ResourceFacts()
    records = [
        replace(plain("t", "http", start=0, end=99), session_keys=key("ancestor", "on-ancestor")),
        replace(agent("t", "root", "http", start=1, end=50), session_keys=key("root", "on-root"), resource=resource),
        replace(tool("t", "x", "root", start=2), session_keys=key("subtree", "on-tool"), resource=resource),
        replace(plain("t", "other", "http", start=60), session_keys=key("rest", "on-sibling")),
    ]
    assert found(records) == [(expected, "session.id", False)]


@pytest.mark.parametrize(("beside", "expected"), [("s", "s"), ("", "own")])
def test_an_agent_that_a_tool_runs_has_a_session_of_its_own(beside: str, expected: str) -> None:
    records = [
        keyed(model("t", "m", user=True, start=0), *([("session.id", beside)] if beside else [])),
        tool("t", "x", start=2, name="ask_clerk"),
        keyed(model("t", "n", "x", start=3), ("session.id", "own")),
    ]
    assert {session_id for session_id, _, _ in found(records)} == {expected}


@pytest.mark.parametrize("key", ["session.id", "respan.threads.thread_identifier"])
def test_at_one_place_keys_have_an_order_of_precedence(key: str) -> None:
    """Pydantic AI makes up a conversation where it is given none; other keys are written for who names a session."""
    records = [keyed(agent("t", "r"), ("gen_ai.conversation.id", "second"), (key, "first"))]
    assert found(records) == [("first", key, False)]
    settings = AssemblySettings(session_keys=("gen_ai.conversation.id", key))
    assert assemble(records, settings)[0].id == "second"


def test_two_values_at_one_place_give_none_from_there() -> None:
    records = [
        agent("t", "r"),
        tool("t", "a", "r", session="one"),
        tool("t", "b", "r", session="two"),
    ]
    assert found(records) == [("t", "trace_id", True)]
    with_resource = [replace(span, resource=RESOURCE) for span in records]
    assert found(with_resource) == [("from-resource", "session.id", False)]


def test_turns_of_one_trace_that_disagree_lend_each_other_nothing() -> None:
    """Batch runners put many sessions under one root."""
    records = [
        plain("t", "runner", start=0, end=99),
        agent("t", "a", "runner", session="one", start=1),
        agent("t", "b", "runner", session="two", start=2),
        agent("t", "c", "runner", start=3),
    ]
    assert sorted(found(records)) == [
        ("one", "gen_ai.conversation.id", False),
        ("t", "trace_id", True),
        ("two", "gen_ai.conversation.id", False),
    ]


def test_a_turn_without_a_session_borrows_the_only_one_of_its_trace() -> None:
    records = [
        plain("t", "runner", start=0, end=99),
        agent("t", "a", "runner", session="one", start=1),
        agent("t", "c", "runner", start=3),
    ]
    assert found(records) == [("one", "gen_ai.conversation.id", False)]


def test_none_found_is_the_trace_id_marked_as_such() -> None:
    assert found([agent("t", "r"), model("t", "m", "r")]) == [("t", "trace_id", False)]
