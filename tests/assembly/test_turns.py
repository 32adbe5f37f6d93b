"""Where turns begin and end (R7), and which runs they make."""

from __future__ import annotations

from typing import Any

import pytest

from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.span_facts import ContextFacts, RequestEvidence, ResultEvidence, SpanEvidence, SpanFacts
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import NO_CONTENT
from rigs.span_facts import SECOND, agent, captured, model, plain, tool

HOUR = 3600


def shape(records: list[SpanFacts]) -> list[list[list[str]]]:
    """Names of calls, by turn, by run."""
    return [[[call.name for call in turn.calls] for turn in session.turns] for session in assemble(records)]


def test_the_outermost_agent_is_the_turn() -> None:
    records = [
        agent("t", "outer"),
        tool("t", "t1", "outer", name="ask_expert", start=1),
        agent("t", "inner", "t1", start=2),
        tool("t", "t2", "inner", name="search", start=3),
    ]
    assert shape(records) == [[["ask_expert", "search"]]]


@pytest.mark.parametrize(("heard", "turns"), [("book", [["f"]]), ("hello", [[], ["f"]]), (None, [[], ["f"]])])
def test_an_agent_under_which_nothing_ran_is_a_step_beside_one_that_was_told_the_same(
    heard: str | None, turns: list[list[str]]
) -> None:
    router, worker = (
        ContextFacts(NO_CONTENT if text is None else captured(text)) for text in (heard, heard and "book")
    )
    records = [
        plain("t", "graph", end=9),
        agent("t", "router", "graph", start=1, end=2, context=router),
        agent("t", "worker", "graph", start=3, end=8, context=worker),
        tool("t", "f", "worker", start=4, end=5),
    ]
    assert shape(records) == [turns]


def test_without_an_agent_the_local_root_is_the_turn() -> None:
    records = [plain("t", "http"), tool("t", "a", "http", name="a", start=1), tool("t", "b", "http", name="b", start=5)]
    assert shape(records) == [[["a", "b"]]]


def test_a_turn_without_calls_is_still_a_turn() -> None:
    assert shape([agent("t", "root"), model("t", "m", "root")]) == [[[]]]


def test_what_is_written_as_a_model_around_the_calls_of_several_is_an_agent() -> None:
    asked = (("a", {"x": 1}, "1"),), (("b", {"y": 2}, "2"),)
    loop = [
        model("t", "m1", "loop", requests=asked[0], start=1, end=2),
        *(tool("t", "a", "loop", name="a", start=3), tool("t", "b", "loop", name="b", start=6)),
        model("t", "m2", "loop", requests=asked[1], start=4, end=5),
    ]
    around = model("t", "loop", "main", requests=(*asked[0], *asked[1]), start=0, end=8)
    (session,) = assemble([plain("t", "main", end=30), around, *loop])
    assert [(call.name, call.batch) for call in session.turns[0].calls] == [("a", 1), ("b", 2)]
    assert session.turns[0].root == around.ref
    same = [model("t", "m1", "loop", requests=asked[0] + asked[1], start=1, end=2)]
    (session,) = assemble([plain("t", "main", end=30), around, *same, *loop[1:3]])
    assert [call.batch for call in session.turns[0].calls] == [1, 1]


@pytest.mark.parametrize("made", ["create_agent", "mcp_server"])
def test_construction_and_servers_of_their_own_make_no_turn(made: str) -> None:
    span = agent("t", "x", no_turn=True) if made == "create_agent" else tool("t", "x", no_turn=True)
    assert shape([span, plain("u", "http")]) == []


def test_a_server_span_under_an_agent_belongs_to_its_turn() -> None:
    records = [agent("t", "root"), tool("t", "x", "root", name="search", no_turn=True)]
    assert shape(records) == [[["search"]]]


@pytest.mark.parametrize(("executed", "visible"), [(False, False), (True, True)])
def test_a_model_that_asked_unseen_hides_calls_unless_executions_show_them(executed: bool, visible: bool) -> None:
    records = [agent("t", "root"), model("t", "m", "root", unseen=True)]
    records += [tool("t", "x", "root", name="f")] if executed else []
    (session,) = assemble(records)
    assert session.turns[0].calls_visible is visible


@pytest.mark.parametrize(
    ("second", "visible"),
    [
        ({"start": 4, "end": 5}, False),
        ({"start": 4, "end": 5, "parent": "elsewhere"}, True),
        ({"start": 1, "end": 2}, True),
        ({"start": 10, "end": 11}, True),
    ],
    ids=["no tool ran in between", "another loop", "the same call", "a tool ran in between"],
)
@pytest.mark.parametrize("told", ["unseen", "silent"])
def test_a_request_that_no_execution_follows_hides_calls(second: dict[str, Any], visible: bool, told: str) -> None:
    """Traceloop's SDK for JavaScript writes no span for a tool that throws, and of Bedrock's models nothing at all."""
    records = [
        agent("t", "root", end=20),
        model("t", "m1", "root", unseen=told == "unseen", silent=told == "silent", start=1, end=2),
        model("t", "m2", second.get("parent", "root"), start=second["start"], end=second["end"]),
        tool("t", "x", "root", name="f", start=6, end=7),
        model("t", "m3", "root", start=12, end=13),
    ]
    (session,) = assemble(records)
    assert session.turns[0].calls_visible is visible


@pytest.mark.parametrize("role", ["raw", "agent", "executed"])
def test_a_model_of_which_nothing_tells_hides_calls_unless_tools_have_spans(role: str) -> None:
    records = [model("t", "m", "root", silent=True)]
    records += [agent("t", "root")] if role == "agent" else []
    records += [tool("t", "x", "root", name="f")] if role == "executed" else []
    (session,) = assemble(records)
    assert session.turns[0].calls_visible is (role == "executed")


@pytest.mark.parametrize(
    ("asked", "visible"), [((), False), ((("f", {"x": 1}, None),), True), ((("f", {"x": 2}, None),), False)]
)
def test_a_tool_whose_name_is_nowhere_hides_calls(asked: Any, visible: bool) -> None:
    records = [
        agent("t", "root", end=20),
        model("t", "m", "root", requests=asked, start=1, end=2),
        tool("t", "x", "root", name="DynamicStructuredTool", args={"x": 1}, start=3, end=4, facts={"named": False}),
    ]
    (session,) = assemble(records)
    assert session.turns[0].calls_visible is visible
    assert ("f" in [call.name for call in session.turns[0].calls]) is bool(asked)


def test_a_program_over_several_sessions_is_no_turn_though_it_is_written_as_an_agent() -> None:
    records = [
        agent("t", "nightly", start=0, end=100),
        plain("t", "task", "nightly", start=1, end=50),
        agent("t", "one", "task", start=10, end=20, session="s1"),
        tool("t", "a", "one", name="a", start=11),
        agent("t", "two", "nightly", start=60, end=70, session="s2"),
        tool("t", "b", "two", name="b", start=61),
    ]
    found = {
        session.id: [[call.name for call in turn.calls] for turn in session.turns] for session in assemble(records)
    }
    assert found == {"s1": [["a"]], "s2": [["b"]]}


@pytest.mark.parametrize("own", ["root", "above"])
def test_an_agent_in_a_session_is_a_turn_whatever_sessions_its_sub_agents_have(own: str) -> None:
    records = [
        plain("t", "http", start=0, end=100, session_keys=(("gen_ai.conversation.id", "s"),) if own == "above" else ()),
        agent("t", "root", "http", start=1, end=90, session="s" if own == "root" else None),
        agent("t", "one", "root", start=10, end=20, session="s1"),
        agent("t", "two", "root", start=30, end=40, session="s2"),
        tool("t", "a", "two", name="a", start=31),
    ]
    assert [(session.id, len(session.turns)) for session in assemble(records)] == [("s", 1)]


def test_work_beside_the_agents_of_one_tree_is_the_agent_befores() -> None:
    records = [
        plain("t", "http", start=0, end=100),
        model("t", "guard", "http", start=1),
        agent("t", "one", "http", start=10, end=20, session="s"),
        agent("t", "two", "http", start=30, end=40, session="s"),
        tool("t", "x", "http", name="after_one", start=25),
    ]
    assert shape(records) == [[["after_one"], []]]


def test_agents_that_ran_within_one_beside_them_are_of_its_turn_as_far_as_models_tell() -> None:
    """A writer links no span of a graph to another: all are siblings below the program's own span."""

    def run(span: str, start: float, *inside: SpanFacts) -> list[SpanFacts]:
        return [agent("t", span, "http", start=start, end=start + 3), *inside]

    def told(span: str, start: float, **evidence: Any) -> SpanFacts:
        return model("t", span, "http", start=start, end=start + 1, evidence=SpanEvidence(**evidence))

    around = [plain("t", "http", end=90), agent("t", "graph", "http", start=1, end=60)]
    first = run("node1", 2, told("m", 3, users=("u1",), continues=False))
    tools = run("node2", 10, tool("t", "f", "http", name="f", start=11))
    again = run("node3", 20, told("n", 21, continues=True))
    assert shape([*around, *first, *tools, *again]) == [[["f"]]]
    other = run("node3", 20, told("n", 21, users=("u1", "u2"), continues=False))
    assert shape([*around, *first, *tools, *other]) == [[["f"], []]], "a user's next message"
    assert shape([*around, *run("node1", 2, told("m", 3)), *tools]) == [[[], [], ["f"]]], "nothing tells"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(("at", "turn"), [(0.5, 0), (3, 0), (12, 1)])
def test_whichever_came_first_a_call_beside_agents_is_of_the_latest_before_it(order: int, at: float, turn: int) -> None:
    records = [
        plain("t", "http", end=20),
        agent("t", "first", "http", start=1, end=2),
        agent("t", "second", "http", start=10, end=11),
        tool("t", "x", "http", name="x", start=at),
    ]
    assert shape(records[::order]) == [[["x"], []] if turn == 0 else [[], ["x"]]]


@pytest.mark.parametrize(("ids", "turns"), [("112", [["a", "b"], ["c"]]), ("111", [["a", "b", "c"]])])
def test_raw_model_calls_are_cut_where_the_dialects_turn_id_changes(ids: str, turns: list[list[str]]) -> None:
    records = [plain("t", "http", end=20)]
    for at, (turn_id, name) in enumerate(zip(ids, "abc", strict=True)):
        records.append(model("t", f"m{at}", "http", start=2 * at + 1, turn_id=turn_id, user=True))
        records.append(tool("t", name, "http", name=name, start=2 * at + 2))
    assert shape(records) == [turns]


def test_a_turn_ends_with_the_last_of_its_spans() -> None:
    [session] = assemble([agent("t", "a", start=1, end=2), tool("t", "x", "a", start=1.5, end=5)])
    assert (session.turns[0].start, session.turns[0].end) == (SECOND, 5 * SECOND)


def test_children_of_a_parent_that_never_came_are_siblings() -> None:
    records = [tool("t", "a", "gone", name="a", start=1), tool("t", "b", "gone", name="b", start=2)]
    (session,) = assemble(records)
    assert [call.name for call in session.turns[0].calls] == ["a", "b"]
    assert session.turns[0].root == ("t", "gone")


def test_a_dialects_turn_id_joins_siblings() -> None:
    records = [
        plain("t", "invocation", start=0, end=50),
        agent("t", "one", "invocation", start=1, end=9, turn_id="e-1", session="s"),
        tool("t", "a", "one", name="a", start=2),
        agent("t", "two", "invocation", start=10, end=20, turn_id="e-1", session="s"),
        tool("t", "b", "two", name="b", start=11),
    ]
    assert shape(records) == [[["a", "b"]]]


def test_raw_model_calls_of_a_session_are_one_turn_until_a_new_user_message() -> None:
    records = [
        model("t1", "m", session="s", user=True, start=1, requests=(("a", {}, "1"), ("b", {}, "2"))),
        model("t2", "m", session="s", user=False, start=2, requests=(("c", {}, "3"),)),
        model("t3", "m", session="s", user=False, start=3),
        model("t4", "m", session="s", user=True, start=4, requests=(("d", {}, "4"),)),
    ]
    assert shape(records) == [[["a", "b", "c"], ["d"]]]


@pytest.mark.parametrize(
    ("answers", "given", "turns"),
    [
        (True, ("1",), [[["a"], ["b"]]]),
        (False, ("1",), [[["a", "b"]]]),  # it failed, and is called again
        (True, ("1", "2"), [[["a", "b"]]]),
    ],
)
def test_results_that_a_model_has_answered_begin_a_turn(answers: bool, given: tuple[str, ...], turns: Any) -> None:
    """Azure's instrumentation for the Responses API loses a user's message behind others."""
    told = SpanEvidence(results=(ResultEvidence("1"),), continues=True, answers=answers)
    again = SpanEvidence(results=tuple(map(ResultEvidence, given)), continues=True)
    records = [
        model("t1", "m", session="s", user=True, start=1, requests=(("a", {}, "1"),)),
        model("t2", "m", session="s", user=False, start=2, evidence=told),
        model("t3", "m", session="s", user=False, start=3, evidence=again, requests=(("b", {}, "3"),)),
    ]
    assert shape(records) == turns
    in_one_trace = [record.changed(trace_id="t", span_id=record.trace_id, parent_id="main") for record in records]
    assert shape([plain("t", "main", start=0, end=9), *in_one_trace]) == turns


@pytest.mark.parametrize(("text", "agents", "turns"), [("b", 2, 2), ("a", 2, 1), (None, 2, 1), ("", 2, 1), ("b", 0, 1)])
def test_a_user_s_text_beside_results_begins_the_turn_of_an_agent_that_is_given_them_first(
    text: str | None, agents: int, turns: int
) -> None:
    """Pydantic AI's output is a call; a person who approved one says nothing, or what was said is written again."""
    said = {} if text is None else {"context": ContextFacts(captured(text))}
    records = [
        *[agent(trace, "r", session="s", start=0, end=9) for trace in ("t1", "t2")][:agents],
        model("t1", "m", "r", session="s", user=True, requests=(("f", {}, "1"),), context=ContextFacts(captured("a"))),
        model("t2", "m", "r", session="s", user=False, answered={"1": False}, start=11, end=12, **said),
    ]
    [session] = assemble([one.changed(start=10**10, end=10**11) if one.ref == ("t2", "r") else one for one in records])
    assert len(session.turns) == turns


@pytest.mark.parametrize(("asked", "text", "turns"), [(True, "a", 1), (True, "b", 2), (False, "a", 2)])
def test_a_model_that_is_told_the_same_once_more_waits_for_tools(asked: bool, text: str, turns: int) -> None:
    """Where the end of an input is cut off, it seems to end with the user's message."""

    def told(span: str, start: int, said: str, *, asks: bool) -> SpanFacts:
        evidence = SpanEvidence(requests=(RequestEvidence("f"),) if asks else ())
        context = ContextFacts(captured(said))
        return model("t", span, "main", user=True, start=start, evidence=evidence, context=context)

    records = [plain("t", "main", start=0, end=9), told("m", 1, "a", asks=asked), told("n", 3, text, asks=False)]
    [session] = assemble(records)
    assert len(session.turns) == turns


def test_raw_model_calls_under_one_plain_root_are_cut_at_user_messages_too() -> None:
    records = [
        plain("t", "main", start=0, end=9),
        model("t", "m1", "main", user=True, start=1, requests=(("a", {}, "1"),)),
        model("t", "m2", "main", user=False, start=2),
        model("t", "m3", "main", user=True, start=3, requests=(("b", {}, "2"),)),
    ]
    assert shape(records) == [[["a"], ["b"]]]


def test_what_a_tool_tells_the_agents_that_it_runs_begins_no_turn() -> None:
    """LangGraph's graphs are no agents to OpenInference: not the one around the conversation, nor those in tools."""
    asked = (("task", {"of": 1}, "1"), ("task", {"of": 2}, "2"))
    records = [
        plain("t", "main", start=0, end=20),
        model("t", "m1", "main", user=True, start=1, end=2, requests=asked),
        tool("t", "x", "main", name="task", args={"of": 1}, call_id="1", start=3, end=9),
        tool("t", "y", "main", name="task", args={"of": 2}, call_id="2", start=3, end=9),
        model("t", "m2", "x", user=True, start=4, end=5, requests=(("find", {}, "3"),)),
        model("t", "m3", "y", user=True, start=4, end=5),
        tool("t", "z", "x", name="find", args={}, call_id="3", start=6, end=7),
        model("t", "m4", "main", user=False, start=10, end=11),
        model("t", "m5", "main", user=True, start=12, end=13),
    ]
    assert shape(records) == [[["task", "task", "find"], []]]


def test_a_bare_tool_span_beside_raw_model_calls_belongs_to_their_turn() -> None:
    records = [
        model("t1", "m", session="s", user=True, start=1, end=2, requests=(("a", {"x": 1}, None),)),
        tool("t2", "x", session="s", name="a", args={"x": 1}, start=3, end=4),
        model("t3", "m", session="s", user=False, start=5, end=6),
    ]
    (session,) = assemble(records)
    (turn,) = session.turns
    assert [(call.name, call.requested) for call in turn.calls] == [("a", False)]
    assert turn.trace_ids == ("t1", "t2", "t3")


@pytest.mark.parametrize(("end", "turns"), [(4, [["a"]]), (12, [[], ["a"]])])
def test_tools_in_traces_of_their_own_are_of_the_agent_during_which_they_ran(end: int, turns: list[list[str]]) -> None:
    """A queue or an MCP client may begin a trace for each tool, linked to the model's at most."""
    records = [
        agent("t1", "agent", session="s", start=1, end=9),
        model("t1", "m1", "agent", unseen=True, start=1, end=2),
        model("t1", "m2", "agent", start=5, end=6),
        tool("t2", "x", session="s", name="a", args={"x": 1}, start=3, end=end),
    ]
    assert shape(records) == [turns]


def test_a_tool_beside_an_agent_that_has_tools_is_none_of_its_own() -> None:
    records = [
        agent("t1", "agent", session="s", start=1, end=9),
        tool("t1", "y", "agent", name="b", start=2, end=4),
        tool("t2", "x", session="s", name="a", args={"x": 1}, start=3, end=4),
    ]
    assert shape(records) == [[["b"], ["a"]]]


def of_unrecorded_inputs(first: dict[str, Any]) -> list[SpanFacts]:
    """Raw model calls and tools, each in a trace of its own, of which no instrumentation recorded a message."""
    return [
        model("t1", "m", session="s", start=1, end=2, **first),
        tool("t2", "x", session="s", name="a", args={"x": 1}, start=3, end=4),
        model("t3", "m", session="s", start=5, end=6),
        model("t4", "m", session="s", start=7, end=8),
    ]


@pytest.mark.parametrize("asked", [{"unseen": True}, {"requests": (("a", {"x": 1}, "1"),)}])
def test_a_model_that_asked_for_tools_is_called_again_with_what_they_returned(asked: dict[str, Any]) -> None:
    """The finish reason tells that it asked; the model call after the answer begins the next turn."""
    records = of_unrecorded_inputs(asked)
    assert shape(records) == [[["a"], []]]
    (session,) = assemble(records)
    assert not any(turn.doubts for turn in session.turns)


def test_a_model_that_no_table_reads_goes_on_where_its_input_ends_with_results() -> None:
    told = SpanEvidence(results=(ResultEvidence("1"),), continues=True, answers=True)
    first, ran, second, later = of_unrecorded_inputs({"requests": (("a", {"x": 1}, "1"),)})
    assert shape([first, ran, second.changed(evidence=told), later]) == [[["a"], []]]


def test_a_turn_is_in_doubt_that_may_have_begun_with_results_of_tools() -> None:
    (session,) = assemble(of_unrecorded_inputs({"silent": True}))
    assert [[call.name for call in turn.calls] for turn in session.turns] == [["a"], [], []]
    assert [{doubt.fact.value for doubt in turn.doubts} for turn in session.turns[:2]] == [{"turns"}, {"turns"}]


def test_a_session_id_used_again_after_the_gap_is_a_second_run() -> None:
    records = [
        agent("t1", "r", session="s", start=0, end=10),
        agent("t2", "r", session="s", start=10 + HOUR, end=20 + HOUR),
        agent("t3", "r", session="s", start=21 + 2 * HOUR, end=30 + 2 * HOUR),
    ]
    assert shape(records) == [[[], []], [[]]]
    assert len({session.run for session in assemble(records)}) == 2
    assert len(assemble(records, AssemblySettings(session_gap=2 * HOUR))) == 1


def test_declared_run_ids_part_runs_even_where_they_overlap() -> None:
    records = [
        agent("t1", "r", session="s", start=0, run_id="a"),
        agent("t2", "r", session="s", start=1, run_id="b"),
        agent("t3", "r", session="s", start=2, run_id="a"),
    ]
    assert [(session.run, len(session.turns)) for session in assemble(records)] == [("a", 2), ("b", 1)]


def test_a_cycle_of_parents_is_cut_and_counted() -> None:
    problems: list[Problem] = []
    records = [
        agent("t", "a", "b", start=1, end=9),
        plain("t", "b", "c", start=2, end=9),
        tool("t", "c", "a", name="x", start=3, end=4),
    ]
    (session,) = assemble(records, on_problem=problems.append)
    assert [call.name for call in session.turns[0].calls] == ["x"]
    assert [problem.code for problem in problems] == ["parent_cycle"]
    assert problems[0].source == "t/a"


def test_a_chain_of_ten_thousand_spans_is_only_long() -> None:
    records = [agent("t", "s0")]
    records += [plain("t", f"s{n}", f"s{n - 1}", start=n) for n in range(1, 10_000)]
    records.append(tool("t", "x", "s9999", name="deep"))
    assert shape(records) == [[["deep"]]]


def test_spans_without_ids_are_one_session_in_the_order_of_the_input() -> None:
    records = [tool("", "", name=name, args={"n": 1}, start=0, end=0) for name in ("b", "a", "b", "a")]
    (session,) = assemble(records)
    assert [call.name for call in session.turns[0].calls] == ["b", "a", "b", "a"]
    assert (session.id, session.id_source) == ("input", "input")


def test_of_two_versions_of_a_span_the_later_end_wins_whichever_came_first() -> None:
    early = tool("t", "x", name="x", args={"n": 1}, start=1, end=2)
    late = tool("t", "x", name="x", args={"n": 2}, start=1, end=3)
    for records in ([early, late], [late, early], [late, early, late]):
        (session,) = assemble(records)
        assert [call.arguments for call in session.turns[0].calls] == [{"n": 2}]


def test_times_are_kept_and_never_invented() -> None:
    (session,) = assemble([agent("t", "r", start=0, end=0), tool("t", "x", "r", start=0, end=0)])
    assert (session.turns[0].start, session.turns[0].end, session.turns[0].calls[0].start) == (0, 0, 0)
    (session,) = assemble([agent("t", "r", start=3, end=7)])
    assert (session.turns[0].start, session.turns[0].end) == (3 * SECOND, 7 * SECOND)


def test_two_versions_that_differ_in_content_only_give_one_result_in_either_order() -> None:
    one, two = (tool("t", "x", name="x", args={"n": n}, start=1, end=2) for n in (1, 2))
    first, second = (assemble(records)[0].turns[0].calls[0].arguments for records in ([one, two], [two, one]))
    assert first == second


@pytest.mark.parametrize(("unseen", "before", "joined"), [(True, 11, True), (True, 13.5, False), (False, 11, False)])
def test_an_agent_that_begins_with_tools_carries_on_a_turn_that_asked_unseen(
    before: float, *, unseen: bool, joined: bool
) -> None:
    """Splunk's instrumentation writes neither what LangChain's models ask for nor that they are given results."""
    records = [
        agent("t1", "r", session="s", start=0, end=5),
        model("t1", "m", "r", user=True, start=1, end=2, unseen=unseen),
        agent("t2", "r", session="s", start=10, end=15),
        tool("t2", "x", "r", name="book", args={"x": 1}, start=before, end=12),
        model("t2", "m", "r", user=True, start=13, end=14),
    ]
    assert shape(records) == ([[["book"]]] if joined else [[[], ["book"]]])


@pytest.mark.parametrize(
    ("last", "agent_name", "joined"),
    [("transfer_to_clerk", "clerk", True), ("handoff_to_clerk", "Clerk", True), ("transfer_to_clerk", "boss", False)],
)
@pytest.mark.parametrize("trace", ["t1", "t2"])
def test_an_agent_to_which_a_turn_was_handed_over_carries_it_on(
    last: str, agent_name: str, trace: str, *, joined: bool
) -> None:
    """Runtimes that agents send messages through run each under nothing of the others: AutoGen's, Semantic Kernel's."""
    records = [
        agent("t1", "r", "main", session="s", start=0, end=5, agent="desk"),
        tool("t1", "a", "r", name="find", args={"x": 1}, start=1, end=2),
        tool("t1", "b", "r", name=last, args={}, start=3, end=4),
        agent(trace, "q", "main", session="s", start=10, end=15, agent=agent_name),
        tool(trace, "c", "q", name="note", args={"x": 1}, start=11, end=12),
    ]
    mains = [plain(one, "main", start=0, end=20) for one in sorted({"t1", trace})]
    assert shape([*mains, *records]) == [[["find", "note"]] if joined else [["find", last], ["note"]]]


@pytest.mark.parametrize(("agent_name", "joined"), [("clerk", True), ("boss", False)])
def test_a_hand_off_that_a_model_asked_for_and_no_span_shows(agent_name: str, *, joined: bool) -> None:
    records = [
        plain("t", "main", start=0, end=20),
        agent("t", "r", "main", session="s", start=0, end=5, agent="desk"),
        model("t", "m", "r", user=True, start=1, end=2, requests=(("transfer_to_clerk", {}, "c1"),)),
        agent("t", "q", "main", session="s", start=10, end=15, agent=agent_name),
        tool("t", "c", "q", name="note", args={"x": 1}, start=11, end=12),
    ]
    assert shape(records) == [[["note"]] if joined else [["transfer_to_clerk"], ["note"]]]


def test_an_agent_that_goes_on_after_an_approval_carries_on_its_turn() -> None:
    records = [
        agent("t1", "r", session="s", start=0, end=5),
        model("t1", "m", "r", user=True, start=1, end=2, requests=(("book", {"x": 1}, "c1"),)),
        agent("t2", "r", session="s", start=10, end=15),
        tool("t2", "x", "r", name="book", args={"x": 1}, call_id="c1", start=11, end=12),
        model("t2", "m", "r", user=False, answered={"c1": False}, start=13, end=14),
        agent("t3", "r", session="s", start=20, end=25),
        model("t3", "m", "r", user=True, start=21, end=22),
    ]
    (session,) = assemble(records)
    assert [[(call.name, call.requested) for call in turn.calls] for turn in session.turns] == [[("book", False)], []]


@pytest.mark.parametrize(("again", "joined"), [("c1", True), ("c2", False)])
def test_a_call_that_goes_on_after_an_approval_carries_on_a_turn_without_model(again: str, *, joined: bool) -> None:
    records = [
        agent("t1", "r", session="s", start=0, end=5),
        tool("t1", "x", "r", name="book", args={"x": 1}, call_id="c1", start=1, end=2),
        agent("t2", "r", session="s", start=10, end=15),
        tool("t2", "x", "r", name="book", args={"x": 1}, call_id=again, start=11, end=12),
        model("t2", "m", "r", user=False, answered={again: False}, start=13, end=14),
    ]
    assert shape(records) == ([[["book", "book"]]] if joined else [[["book"], ["book"]]])
