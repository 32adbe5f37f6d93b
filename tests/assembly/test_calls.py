"""What the calls of a turn are: executions, requests, nesting, order (R3, R4, R5, R8, R10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from goldspan.mappers.assembly import assemble
from goldspan.mappers.span_facts import (
    LogFacts,
    ModelFacts,
    ResultEvidence,
    SpanEvidence,
    SpanFacts,
    ToolFacts,
    ToolRequest,
)
from goldspan.scoring.sessions import Capture, Content, ToolCall
from rigs.span_facts import agent, captured, model, plain, tool


def calls(*records: SpanFacts) -> tuple[ToolCall, ...]:
    (session,) = assemble([agent("t", "root", start=0, end=100), *records])
    return session.turns[0].calls


def asking(
    span: str, start: float, *requests: tuple[str, Mapping[str, Any] | None, str | None], **more: Any
) -> SpanFacts:
    return model("t", span, "root", requests=requests, start=start, end=start + 0.5, **more)


def run(
    span: str, start: float, name: str, args: Mapping[str, Any] | None, call_id: str | None = None, **more: Any
) -> SpanFacts:
    more.setdefault("end", start + 0.5)
    return tool("t", span, more.pop("parent", "root"), name=name, args=args, call_id=call_id, start=start, **more)


class TestRequestsAndExecutions:
    def test_a_request_and_its_execution_are_one_call(self) -> None:
        found = calls(asking("m", 1, ("f", {"x": 1}, "c1")), run("x", 2, "f", {"x": 1}, "c1"))
        assert [(call.arguments, call.requested) for call in found] == [({"x": 1}, False)]

    def test_a_tool_s_clock_that_is_behind_makes_no_second_call(self) -> None:
        found = calls(run("x", 1, "f", {"x": 1}), asking("m", 3, ("f", {"x": 1}, None)))
        assert [(call.arguments, call.requested) for call in found] == [({"x": 1}, False)]

    @pytest.mark.parametrize("unseen", [True, False])
    def test_what_the_next_input_repeats_was_asked_for_where_no_answer_can_be_read(self, unseen: bool) -> None:
        """A writer joins the arguments of a stream, or leaves requests out of an answer."""
        one, two = ("f", {"x": 1}, "c1"), ("g", {"y": 2}, "c2")
        old = ("h", {}, "c0")
        records = [
            asking("m", 1, unseen=unseen, repeated=(old,)),
            asking("n", 3, repeated=(old, one, two)),
            asking("o", 5, repeated=(old, one, two, ("f", {"x": 3}, "c3"))),
        ]
        assert [(call.name, call.arguments, call.batch) for call in calls(*records)] == [
            *(("f", {"x": 1}, 1), ("g", {"y": 2}, 1)),
            ("f", {"x": 3}, 2),
        ]
        (session,) = assemble([agent("t", "root", start=0, end=100), *records])
        assert session.turns[0].calls_visible

    def test_an_answer_in_words_asked_for_nothing_that_a_later_input_repeats(self) -> None:
        said = SpanEvidence(speaks=True)
        records = [asking("m", 1, evidence=said), asking("n", 3, repeated=(("f", {"x": 1}, "c1"),))]
        assert calls(*records) == ()

    def test_what_was_asked_for_and_is_repeated_is_one_call(self) -> None:
        one = ("f", {"x": 1}, "c1")
        assert len(calls(asking("m", 1, one), asking("n", 3, repeated=(one,)))) == 1

    def test_order_is_that_of_the_request_where_threads_inverted_it(self) -> None:
        found = calls(
            asking("m", 1, ("a", {}, "1"), ("b", {}, "2")),
            run("x", 3, "a", {}, "1"),
            run("y", 2, "b", {}, "2"),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1)]

    def test_ids_that_differ_are_joined_by_name_arguments_and_order(self) -> None:
        """ADK: the model gave no id, so requests and executions carry made-up ones of their own."""
        found = calls(
            asking("m1", 1, ("f", {"x": 1}, "f_0"), ("f", {"x": 2}, "f_1")),
            run("b", 2, "f", {"x": 2}, "adk-2"),
            run("a", 3, "f", {"x": 1}, "adk-1"),
            asking("m2", 5, ("f", {"x": 3}, "f_0")),
            run("c", 6, "f", {"x": 3}, "adk-3"),
        )
        assert [(call.arguments, call.batch, call.call_id) for call in found] == [
            ({"x": 1}, 1, "adk-1"),
            ({"x": 2}, 1, "adk-2"),
            ({"x": 3}, 2, "adk-3"),
        ]

    @pytest.mark.parametrize(
        ("inner", "count"),
        [
            ({"dialect": "mcp"}, 1),
            ({"dialect": "mcp", "name": "g"}, 2),
            ({"dialect": "mcp", "args": {"x": 1}}, 2),
            ({"dialect": "mcp", "start": 1}, 2),
            ({"dialect": "mcp", "end": 9}, 2),
            ({}, 2),
            ({"call_id": "c1", "args": {"x": 1}, "dialect": "mcp", "end": 9}, 1),
            ({"call_id": "c1"}, 2),
            ({"call_id": "c1", "facts": {"pseudo": True}}, 1),
            ({"call_id": "c2", "dialect": "mcp"}, 2),
        ],
    )
    def test_spans_of_one_execution_that_no_parent_links_are_told_by_their_times(
        self, inner: dict[str, Any], count: int
    ) -> None:
        """Of two writers one knows no arguments, or both name one call id; the inner one may tell the failure."""
        within = {"start": 3, "end": 4, "name": "f", "args": None, "call_id": None, "error": "boom", **inner}
        dialect = within.pop("dialect", "test")
        found = calls(run("x", 2, "f", {"x": 1}, "c1", end=5), run("y", **within).changed(dialect=dialect))
        assert len(found) == count
        assert (found[0].error == "boom") is (count == 1 or inner.get("start") == 1)

    def test_a_span_within_several_executions_is_of_neither(self) -> None:
        outer = [run(span, 2, "f", {"x": number}, end=5) for number, span in enumerate(("x", "y"))]
        assert len(calls(*outer, run("z", 3, "f", None).changed(dialect="mcp"))) == 3

    def test_executions_with_one_call_id_are_all_real(self) -> None:
        found = calls(
            asking("m", 1, ("f", {}, "c1")),
            run("x", 2, "f", {}, "c1"),
            run("y", 3, "f", {}, "c1"),
            run("z", 4, "f", {}, "c1"),
        )
        assert len(found) == 3

    def test_equal_parallel_calls_stay_two(self) -> None:
        found = calls(
            asking("m", 1, ("f", {"x": 1}, None), ("f", {"x": 1}, None)),
            run("x", 2, "f", {"x": 1}),
            run("y", 2.1, "f", {"x": 1}),
        )
        assert [call.span.span_id for call in found if call.span] == ["x", "y"]

    def test_missing_arguments_are_recovered_from_the_request(self) -> None:
        (call,) = calls(asking("m", 1, ("f", {"x": 1}, "c")), run("x", 2, "f", None, "c"))
        assert (call.arguments, call.capture) == ({"x": 1}, Capture.CAPTURED)
        assert call.evidence == (("t", "x"), ("t", "m"))

    def test_single_values_hidden_in_the_request_stay_hidden(self) -> None:
        asked = ToolRequest("f", captured({"x": 1, "y": "[REDACTED]"}), "c", {"y": Capture.REDACTED})
        asks = replace(asking("m", 1), model=ModelFacts((asked,)))
        (call,) = calls(asks, run("x", 2, "f", None, "c"))
        assert call.argument_captures == {"y": Capture.REDACTED}

    @pytest.mark.parametrize(("call_id", "evidence"), [("c", ["x"]), (None, ["x", "m"])])
    def test_a_request_is_evidence_only_of_what_was_taken_from_it(
        self, call_id: str | None, evidence: list[str]
    ) -> None:
        (call,) = calls(asking("m", 1, ("f", {"x": 1}, "c")), run("x", 2, "f", {"x": 1}, call_id))
        assert call.call_id == "c"
        assert [ref.span_id for ref in call.evidence] == evidence

    def test_what_is_known_nowhere_stays_unknown(self) -> None:
        (call,) = calls(asking("m", 1, ("f", None, "c")), run("x", 2, "f", None, "c"))
        assert (call.arguments, call.capture) == (None, Capture.NOT_CAPTURED)

    def test_a_request_counts_as_the_call_where_its_tool_has_no_span(self) -> None:
        (call,) = calls(asking("m", 1, ("f", {"x": 1}, "c")))
        assert (call.requested, call.rejected) == (True, False)

    def test_a_request_without_execution_beside_executions_of_its_tool_was_rejected(self) -> None:
        found = calls(
            asking("m1", 1, ("f", {"x": "bad"}, "c1")),
            asking("m2", 2, ("f", {"x": 1}, "c2")),
            run("x", 3, "f", {"x": 1}, "c2"),
        )
        assert [(call.arguments, call.rejected) for call in found] == [({"x": "bad"}, True), ({"x": 1}, False)]

    def test_an_answer_to_its_id_makes_a_request_a_call(self) -> None:
        found = calls(
            asking("m1", 1, ("f", {"x": 9}, "c1")),
            asking("m2", 2, ("f", {"x": 1}, "c2"), answered={"c1": True}),
            run("x", 3, "f", {"x": 1}, "c2"),
        )
        assert [(call.rejected, call.error) for call in found] == [(False, "error"), (False, None)]

    @pytest.mark.parametrize(("told", "error"), [({"c2": True}, None), ({"c1": True, "c2": True}, "error")])
    def test_results_that_a_writer_joins_under_one_id(self, told: dict[str, bool], error: str | None) -> None:
        asked = asking("m1", 1, ("f", {}, "c1"), ("g", {}, "c2"))
        fine = run("y", 3, "g", {}, "c2").changed(evidence=SpanEvidence(failed=False))
        found = calls(asked, run("x", 2, "f", {}, "c1", error="late"), fine, asking("m2", 5, answered=told))
        assert [(call.name, call.error) for call in found] == [("f", "late"), ("g", error)]

    @pytest.mark.parametrize("call_id", ["c1", None])
    def test_a_result_without_an_id_says_by_its_place_that_a_request_failed(self, call_id: str | None) -> None:
        shown = SpanEvidence(results=(ResultEvidence(None, failed=False), ResultEvidence(None, failed=True)))
        asked = asking("m1", 1, ("f", {"x": 1}, call_id), ("g", {}, call_id and "c2"))
        found = calls(asked, asking("m2", 2, evidence=shown))
        assert [(call.name, call.error) for call in found] == [("f", None), ("g", "error")]

    def test_model_spans_nested_in_each_other_speak_once(self) -> None:
        outer = asking("m", 1, ("f", {"x": 1}, "c"))
        inner = model("t", "inner", "m", requests=(("f", {"x": 1}, "c"),), start=1.1, end=1.2)
        assert len(calls(outer, inner)) == 1


class TestNesting:
    def test_layers_of_one_execution_are_one_call_and_lend_each_other_what_they_lack(self) -> None:
        outer = run("x", 1, "get", None, "c1", end=9)
        inner = run("y", 2, "mcp__ops__get", {"x": 1}, parent="x", error="timeout")
        (call,) = calls(outer, inner)
        assert (call.name, call.arguments, call.call_id, call.error) == ("get", {"x": 1}, "c1", "timeout")
        assert call.span == ("t", "x")
        assert [ref.span_id for ref in call.evidence] == ["x", "y"]

    def test_what_one_layer_hides_is_known_where_another_has_the_arguments(self) -> None:
        outer = run("x", 1, "f", {"x": 1}, end=9)
        inner = run("y", 2, "f", {"x": "[REDACTED]"}, parent="x", facts={"argument_captures": {"x": Capture.REDACTED}})
        (call,) = calls(outer, inner)
        assert (call.arguments, call.argument_captures) == ({"x": 1}, {})

    def test_where_only_classes_have_names_that_of_the_outermost_counts(self) -> None:
        named = {"facts": {"named": False}}
        inner = run("y", 2.1, "f", {}, "c1", parent="x", **named)
        assert [call.name for call in calls(run("x", 2, "FTool", {}, "c1", **named), inner)] == ["FTool"]

    def test_three_layers_are_one_call(self) -> None:
        found = calls(
            run("x", 1, "f", None, end=9),
            run("y", 2, "f", None, parent="x", end=8),
            run("z", 3, "f", {"x": 1}, parent="y"),
        )
        assert [call.arguments for call in found] == [{"x": 1}]

    @pytest.mark.parametrize(
        "inner",
        [
            [run("y", 2, "g", {}, parent="x")],
            [run("y", 2, "f", {}, "other", parent="x")],
            [run("y", 2, "f", {}, parent="x"), run("z", 3, "f", {}, parent="x")],
            [model("t", "m", "x", start=2, end=3), run("y", 2.5, "f", {}, parent="m")],
            [agent("t", "a", "x", start=2, end=3), run("y", 2.5, "f", {}, parent="a")],
        ],
        ids=["other name", "other id", "two descendants", "model between", "agent between"],
    )
    def test_what_is_another_execution_stays_one(self, inner: list[SpanFacts]) -> None:
        executions = sum(span.tool is not None for span in inner) + 1
        assert len(calls(run("x", 1, "f", {}, "c1", end=9), *inner)) == executions


@pytest.mark.parametrize(
    ("ids", "failed"), [((None, None), [False, True]), (("a", "b"), [False, True]), (("1", "2"), [False, False])]
)
def test_results_tell_by_their_place_which_request_failed(
    ids: tuple[str | None, str | None], failed: list[bool]
) -> None:
    """Their ids are lost, or of another kind; where they are the requests' own, the reader of the input knows more."""
    shown = ResultEvidence(ids[0], failed=False), ResultEvidence(ids[1], failed=True)
    given = replace(asking("n", 3), evidence=SpanEvidence(results=shown, continues=True))
    found = calls(asking("m", 1, ("f", {}, "1"), ("g", {}, "2")), given)
    assert [call.error is not None for call in found] == failed


def test_a_log_of_an_answer_that_takes_no_time_is_not_given_its_own_results() -> None:
    shown = SpanEvidence(results=(ResultEvidence("1", failed=True),), continues=True)
    log = model("t", "n", "root", requests=(("f", {}, "2"),), answered={"1": True}, start=3, end=3, evidence=shown)
    found = calls(asking("m", 1, ("f", {}, "1")), log, asking("o", 5, answered={"2": False}))
    assert [call.error for call in found] == ["error", None]


def test_an_agent_that_is_a_tool_may_have_calls_with_the_same_id_that_fail() -> None:
    """Some models number the calls of each response anew; what the inner model is told is of the inner call."""
    found = calls(
        asking("m", 1, ("ask", {"x": 1}, "0")),
        run("a", 2, "ask", {"x": 1}, "0", end=8),
        model("t", "n", "a", requests=(("f", {"y": 2}, "0"),), start=3, end=3.5),
        run("x", 4, "f", {"y": 2}, "0", parent="a"),
        model("t", "o", "a", answered={"0": True}, start=5, end=6),
        asking("p", 9, answered={"0": False}),
    )
    assert [(call.name, call.error) for call in found] == [("ask", None), ("f", "error")]


def test_what_a_provider_ran_itself_failed_where_its_output_says_so() -> None:
    asked = asking("m", 1, ("f", {}, "1"), ("g", {}, "2"))
    assert asked.model is not None
    first, second = asked.model.requests
    asked = replace(asked, model=replace(asked.model, requests=(replace(first, failed=True), second)))
    assert [(call.name, call.error) for call in calls(asked)] == [("f", "error"), ("g", None)]


class TestPseudoCalls:
    def test_merged_spans_are_always_dropped(self) -> None:
        assert calls(run("x", 1, "(merged tools)", None, facts={"merged": True})) == ()

    def test_pseudo_calls_are_dropped_with_their_requests(self) -> None:
        found = calls(
            asking("m", 1, ("handoff", {"to": "b"}, "c")), run("x", 2, "handoff", {}, "c", facts={"pseudo": True})
        )
        assert found == ()

    def test_pseudo_tools_are_known_by_name_in_requests_too(self) -> None:
        assert calls(asking("m", 1, ("transfer_to_agent", {}, "c"))) == ()
        assert calls(run("x", 1, "handoff_to_agent", {"agent_name": "store", "message": "look"})) == ()
        assert len(calls(run("x", 1, "handoff_to_agent", {"reason": "angry"}))) == 1, "an agent of a call centre"

    def test_the_tool_by_which_strands_for_javascript_answers_is_none(self) -> None:
        asked = asking("m", 1, ("strands_structured_output", {"summary": "two"}, "c"))
        assert calls(asked, run("x", 2, "strands_structured_output", {"summary": "two"}, "c")) == ()

    @pytest.mark.parametrize(("other", "names"), [("A person", ["transfer_to_a_human"]), ("A human", []), (None, [])])
    def test_a_tool_named_like_a_hand_off_is_one_if_an_agent_of_the_turn_may_have_that_name(
        self, other: str | None, names: list[str]
    ) -> None:
        asked = asking("m", 1, ("transfer_to_a_human", {"why": "x"}, "c"))
        assert asked.model is not None
        requests = tuple(replace(one, pseudo=True) for one in asked.model.requests)
        asked = replace(asked, model=replace(asked.model, requests=requests))
        inner = agent("t", "inner", "root", start=2, end=3, agent=other)
        (session,) = assemble([agent("t", "root", start=0, end=9, agent="helper"), asked, inner])
        assert [call.name for call in session.turns[0].calls] == names

    @pytest.mark.parametrize(
        ("args", "other", "result", "names"),
        [
            ({}, "Booking agent", "ok", []),
            (None, "Booking agent", "ok", []),
            ({}, None, '{"goto": "booking_agent", "update": {}}', []),
            ({}, None, '{"lg_name": "Command", "update": {}, "goto": ["booking_agent"]}', []),
            ({}, None, '{"output": {"lg_name": "Command", "goto": ["booking_agent"]}}', []),
            ({}, None, "Transferred to Booking_Agent, adopting the role of Booking_Agent immediately.", []),
            ({}, None, "Transferred to booking_agent", ["transfer_to_booking_agent"]),
            ({}, None, "Successfully transferred to booking_agent", []),
            ({}, None, "Successfully transferred to billing", ["transfer_to_booking_agent"]),
            ({}, None, "Command(graph='__parent__', update={'messages': []}, goto='booking_agent')", []),
            ({}, None, "ok", ["transfer_to_booking_agent"]),
            ({}, "cashier", '{"queue": 3}', ["transfer_to_booking_agent"]),
            ({"why": "x"}, "Booking agent", "ok", ["transfer_to_booking_agent"]),
        ],
    )
    def test_a_hand_off_that_ran_as_a_tool(
        self, args: dict[str, Any] | None, other: str | None, result: str, names: list[str]
    ) -> None:
        ran = run("x", 2, "transfer_to_booking_agent", args, "c", facts={"result": captured(result)})
        inner = agent("t", "inner", "root", start=3, end=4, agent=other)
        asked = asking("m", 1, ("transfer_to_booking_agent", args or {}, "c"))
        (session,) = assemble([agent("t", "root", start=0, end=9, agent="helper"), asked, ran, inner])
        assert [call.name for call in session.turns[0].calls] == names

    @pytest.mark.parametrize(("other", "names"), [("booking agent", []), ("cashier", ["transfer_to_booking_agent"])])
    def test_a_hand_off_to_an_agent_that_only_its_model_calls_name(self, other: str, names: list[str]) -> None:
        asked = asking("m", 1, ("transfer_to_booking_agent", {}, "c"), agent="helper")
        after = model("t", "n", "root", start=3, end=4, agent=other, answered={"c": False})
        (session,) = assemble([agent("t", "root", start=0, end=9, agent="helper"), asked, after])
        assert [call.name for call in session.turns[0].calls] == names

    @pytest.mark.parametrize(("facts", "count"), [({}, 1), ({"result": captured("ok")}, 2)])
    def test_a_tool_that_was_suspended_runs_again_by_the_same_id(self, facts: dict[str, Any], count: int) -> None:
        first = run("x", 2, "book", {"x": 1}, "c", facts=facts)
        again = run("y", 5, "book", {"x": 1}, "c", facts={"result": captured("booked")})
        assert [call.result.value for call in calls(asking("m", 1, ("book", {"x": 1}, "c")), first, again)][
            -1
        ] == "booked"
        assert len(calls(asking("m", 1, ("book", {"x": 1}, "c")), first, again)) == count
        assert len(calls(first, run("y", 5, "book", {"x": 1}, "c"))) == 2, "without content nothing tells"

    def test_what_is_run_again_for_one_request_is_of_its_batch(self) -> None:
        found = calls(
            asking("m", 1, ("a", {"x": 1}, "1"), ("b", {}, "2")),
            run("a", 2, "a", {"x": 1}, "1", error="late"),
            run("b", 3, "b", {}, "2"),
            run("c", 9, "a", {"x": 1}, "1"),
            asking("n", 10, ("b", {}, "3")),
            run("d", 11, "b", {}, "3"),
        )
        assert sorted((call.batch, call.name) for call in found) == [(1, "a"), (1, "a"), (1, "b"), (2, "b")]


class TestBatches:
    def test_overlapping_siblings_are_a_batch_where_no_response_is_visible(self) -> None:
        found = calls(
            run("a", 1, "a", {}, end=3),
            run("b", 2, "b", {}, end=5),
            run("c", 4, "c", {}, end=6),
            run("d", 7, "d", {}, end=8),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1), ("c", 1), ("d", 2)]

    def test_calls_of_one_response_are_a_batch_whenever_they_ran(self) -> None:
        found = calls(
            asking("m", 1, ("a", {}, "1"), ("b", {}, "2")), run("a", 2, "a", {}, "1"), run("b", 9, "b", {}, "2")
        )
        assert [call.batch for call in found] == [1, 1]

    @pytest.mark.parametrize(
        ("ends", "batches"),
        [((5, 3, 6), [1, 1, 1]), ((4, 3, 6), [1, 1, 2]), ((2, 4, 6), [1, 2, 3])],
        ids=["the first one overlaps all", "one begins when the others have ended", "each begins when the last ends"],
    )
    def test_siblings_overlap_until_the_last_of_them_has_ended(self, ends: tuple[int, ...], batches: list[int]) -> None:
        found = calls(
            *(run(name, start, name, {}, end=end) for name, start, end in zip("abc", (1, 2, 4), ends, strict=True))
        )
        assert [(call.name, call.batch) for call in found] == list(zip("abc", batches, strict=True))

    @pytest.mark.parametrize(
        ("second_model", "batches"),
        [(5, [1, 1, 2]), (4, [1, 2, 2]), (3, [1, 2, 2])],
        ids=["before the last tool", "with the second tool", "before the second tool"],
    )
    def test_a_model_that_may_have_asked_unseen_begins_a_batch(self, second_model: int, batches: list[int]) -> None:
        found = calls(
            asking("m", 1, unseen=True),
            run("a", 2, "a", {}),
            asking("n", second_model, unseen=True),
            run("b", 4, "b", {}),
            run("c", 5, "c", {}),
        )
        assert [(call.name, call.batch) for call in found] == list(zip("abc", batches, strict=True))

    def test_a_tool_may_begin_with_the_model_that_was_given_its_result(self) -> None:
        """OpenTelemetry for JavaScript begins spans on whole milliseconds."""
        given = model("t", "n", "root", unseen=True, start=2, end=3)
        found = calls(asking("m", 1, unseen=True), run("a", 2, "a", {}, end=2.1), given, run("b", 4, "b", {}))
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 2)]

    def test_a_model_in_an_agent_that_runs_no_tool_asks_for_the_agent_above(self) -> None:
        """LlamaIndex's agents run a step around each model call, and their tools beside the steps."""
        steps = [agent("t", "s1", "root", start=1), agent("t", "s2", "root", start=5)]
        models = [model("t", f"m{number}", f"s{number}", unseen=True, start=at) for number, at in ((1, 1.1), (2, 5.1))]
        found = calls(*steps, *models, run("a", 2, "a", {}), run("b", 4, "b", {}), run("c", 6, "c", {}))
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1), ("c", 2)]

    def test_a_tool_that_ran_before_every_model_was_asked_for_by_none(self) -> None:
        found = calls(run("a", 0.5, "a", {}), asking("m", 2, unseen=True), run("b", 3, "b", {}), run("c", 4, "c", {}))
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 2), ("c", 2)]

    def test_a_second_span_of_a_call_that_asked_unseen_answered_nothing(self) -> None:
        found = calls(
            asking("m", 1, unseen=True),
            model("t", "copy", "m", start=1.1, end=1.4),
            run("a", 2, "a", {}),
            run("b", 4, "b", {}),
            asking("n", 5),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1)]

    def test_a_model_whose_answer_says_nothing_may_have_asked_for_what_ran_after_it(self) -> None:
        """OpenLLMetry writes so what LlamaIndex streams: a message without parts."""
        found = calls(
            model("t", "m", "root", silent=True, start=1, end=1.5),
            run("a", 2, "a", {}),
            run("b", 4, "b", {}),
            model("t", "n", "root", silent=True, start=5, end=5.5),
            run("c", 6, "c", {}),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1), ("c", 2)]

    def test_a_span_around_the_model_calls_of_a_loop_asked_for_nothing_itself(self) -> None:
        """TanStack runs tools one after the other, in the span of the model call that asked for them."""
        found = calls(
            model("t", "loop", "root", start=1, end=9),
            model("t", "m", "loop", unseen=True, start=1, end=5),
            run("a", 2, "a", {}, parent="m"),
            run("b", 3, "b", {}, parent="m"),
            model("t", "n", "loop", start=6, end=9),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 1)]

    @pytest.mark.parametrize(("parent", "batches"), [("m", [1, 1, 2]), ("root", [1, 2, 3])])
    def test_a_merged_span_without_content_repeats_those_beside_it(self, parent: str, batches: list[int]) -> None:
        found = calls(
            model("t", "m", "root", silent=True, start=1, end=6),
            run("a", 2, "a", None, "1", parent=parent),
            run("b", 3, "b", None, "2", parent=parent),
            run("w", 4, "(merged tools)", None, parent=parent, facts={"merged": True}),
            run("c", 5, "c", None, "3", parent=parent),  # it ran after what that repeats
        )
        assert [(call.name, call.batch) for call in found] == list(zip("abc", batches, strict=True))

    def test_a_model_whose_answer_is_known_asked_for_nothing_unseen(self) -> None:
        found = calls(
            asking("m", 1, unseen=True),
            run("a", 2, "a", {}),
            asking("n", 3),
            run("b", 4, "b", {}),
            run("c", 5, "c", {}),
        )
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 2), ("c", 3)]

    def test_a_tool_that_starts_with_the_next_model_call_was_not_asked_for_before_it(self) -> None:
        found = calls(asking("m", 1, ("f", {"x": 1}, None)), run("a", 3, "f", None), asking("n", 3, ("g", {}, None)))
        assert [(call.name, call.requested, call.batch) for call in found] == [
            ("f", True, 1),
            ("f", False, 2),
            ("g", True, 3),
        ]

    def test_only_an_execution_moves_a_batch_forward(self) -> None:
        """The request of `b` was never executed. Its model ended before `c` ran, and `a` after it."""
        found = calls(
            model("t", "m", "root", requests=(("a", {}, "1"), ("b", {}, "2")), start=1, end=2),
            run("c", 3, "c", {}),
            run("a", 4, "a", {}, "1"),
        )
        assert [(call.name, call.batch) for call in found] == [("c", 1), ("a", 2), ("b", 2)]

    def test_an_ancestor_is_never_in_a_batch_with_its_descendant(self) -> None:
        found = calls(run("a", 1, "a", {}, end=9), run("b", 2, "b", {}, parent="a", end=3))
        assert [(call.name, call.batch) for call in found] == [("a", 1), ("b", 2)]


def attempt(span: str, start: float, args: Mapping[str, Any], call_id: str | None = None, **more: Any) -> SpanFacts:
    return run(span, start, "book", args, call_id, facts={"executed": False}, **more)


class TestAttempts:
    """Spans of tools that did not run: refused, or awaiting a person's decision (R3)."""

    def test_an_approved_call_is_one_call(self) -> None:
        found = calls(attempt("x", 1, {"at": 19}, "c1"), run("y", 5, "book", {"at": 19}, "c1"))
        assert [(call.requested, call.span and call.span.span_id) for call in found] == [(False, "y")]

    def test_without_call_ids_it_is_told_by_its_arguments(self) -> None:
        found = calls(attempt("x", 1, {"at": 19}), attempt("y", 3, {"at": 20}), run("z", 5, "book", {"at": 20}))
        assert [(call.arguments, call.requested, call.rejected) for call in found] == [
            ({"at": 19}, True, True),
            ({"at": 20}, False, False),
        ]

    def test_its_arguments_tell_where_one_span_lacks_the_call_id(self) -> None:
        for ids in (("c1", None), (None, "c1")):
            found = calls(attempt("x", 1, {"at": 19}, ids[0]), run("y", 5, "book", {"at": 19}, ids[1]))
            assert [call.requested for call in found] == [False]

    def test_each_execution_answers_one_attempt(self) -> None:
        found = calls(attempt("x", 1, {"at": 19}), attempt("y", 3, {"at": 19}), run("z", 5, "book", {"at": 19}))
        assert [call.requested for call in found] == [True, False]

    def test_a_denied_call_is_a_failed_request_of_one_call_id(self) -> None:
        found = calls(
            attempt("x", 1, {"at": 19}, "c1"),
            attempt("y", 5, {"at": 19}, "c1", error="denied"),
            run("z", 7, "book", {"at": 20}, "c2"),
        )
        assert [(call.requested, call.rejected, call.error) for call in found] == [
            (True, False, "denied"),
            (False, False, None),
        ]

    def test_a_model_s_request_and_the_attempt_at_it_are_one(self) -> None:
        found = calls(asking("m", 1, ("book", {"at": 19}, "c1")), attempt("x", 2, {"at": 19}, "c1"))
        assert [(call.requested, call.rejected) for call in found] == [(True, False)]

    def test_an_earlier_execution_is_not_what_came_of_an_attempt(self) -> None:
        found = calls(run("x", 1, "book", {"at": 19}, "c1"), attempt("y", 5, {"at": 19}, "c1"))
        assert [(call.requested, call.rejected) for call in found] == [(False, False), (True, True)]


def test_errors_are_kept_and_failed_calls_are_calls() -> None:
    (call,) = calls(run("x", 1, "f", {}, error="ValueError"))
    assert call.error == "ValueError"


def test_a_redacted_copy_is_better_than_none_and_worse_than_a_captured_one() -> None:
    span = run("x", 1, "f", None, "c")
    assert span.tool is not None
    redacted = replace(span, tool=replace(span.tool, arguments=Content("[REDACTED]", Capture.REDACTED)))
    assert [call.capture for call in calls(redacted)] == [Capture.REDACTED]
    (call,) = calls(asking("m", 0.5, ("f", {"x": 1}, "c")), redacted)
    assert call.capture is Capture.CAPTURED
    assert captured({"x": 1}).value == call.arguments


class TestLogs:
    """Content that stands in log records only (R11)."""

    def test_a_models_output_in_a_log_lends_the_executions_their_arguments(self) -> None:
        record = LogFacts("t", "m", "1", model=ModelFacts((ToolRequest("f", captured({"x": 1}), "c"),)))
        (session,) = assemble([agent("t", "root", end=9), asking("m", 1), run("x", 2, "f", None, "c"), record])
        assert [call.arguments for call in session.turns[0].calls] == [{"x": 1}]

    def test_a_log_about_an_execution_finds_it_by_call_id(self) -> None:
        record = LogFacts("t", "elsewhere", "1", tools=(ToolFacts("f", captured({"x": 2}), call_id="c", error="boom"),))
        (call,) = calls_with(record, run("x", 2, "f", None, "c"))
        assert (call.arguments, call.error) == ({"x": 2}, "boom")
        assert call.evidence == (("t", "x"), ("t", "elsewhere"))

    def test_a_log_that_adds_nothing_is_no_evidence(self) -> None:
        record = LogFacts("t", "elsewhere", "1", tools=(ToolFacts("f", captured({"x": 2}), call_id="c"),))
        (call,) = calls_with(record, run("x", 2, "f", {"x": 1}, "c"))
        assert (call.arguments, call.evidence) == ({"x": 1}, (("t", "x"),))

    def test_what_the_span_wrote_itself_is_not_counted_twice(self) -> None:
        record = LogFacts("t", "m", "1", model=ModelFacts((ToolRequest("f", captured({"x": 1}), "c"),)))
        assert len(calls_with(record, asking("m", 1, ("f", {"x": 1}, "c")))) == 1

    def test_logs_are_the_last_place_to_look_for_a_session(self) -> None:
        record = LogFacts("t", "root", "1", session_keys=(("session.id", "from-log"),))
        (session,) = assemble([agent("t", "root"), record])
        assert (session.id, session.id_source) == ("from-log", "session.id")


def calls_with(record: LogFacts, *records: SpanFacts) -> tuple[ToolCall, ...]:
    (session,) = assemble([agent("t", "root", start=0, end=100), *records, record])
    return session.turns[0].calls


def test_a_span_may_speak_of_the_trace_it_is_linked_to() -> None:
    """AutoGen writes arguments in messaging spans of other traces, linked to the agent's."""
    messenger = plain("other", "process")
    said = ToolFacts("f", captured({"x": 1}), call_id="c")
    note = LogFacts("t", "", "message-1", tools=(said,), said_by=messenger.ref)
    (session,) = assemble([agent("t", "root", end=9), run("x", 2, "f", None, "c"), replace(messenger, notes=(note,))])
    (call,) = session.turns[0].calls
    assert call.arguments == {"x": 1}
    assert call.evidence == (("t", "x"), ("other", "process"))


class TestOtherWriters:
    """What instrumentations in other languages write in their own way."""

    UNNAMED: Mapping[str, Any] = {"facts": {"named": False}}

    def test_a_span_with_the_name_of_a_class_takes_that_of_its_request(self) -> None:
        found = calls(
            asking("m", 1, ("f", {"x": 1}, "1"), ("g", {"x": 2}, "2")),
            run("b", 2, "Tool", {"x": 2}, **self.UNNAMED),
            run("a", 3, "Tool", {"x": 1}, **self.UNNAMED),
        )
        assert [(call.name, call.arguments, call.requested, call.call_id) for call in found] == [
            ("f", {"x": 1}, False, "1"),
            ("g", {"x": 2}, False, "2"),
        ]

    def test_captured_arguments_that_no_request_has_are_another_call(self) -> None:
        found = calls(asking("m", 1, ("f", {"x": 1}, "1")), run("a", 2, "Tool", {"x": 2}, **self.UNNAMED))
        assert sorted(call.name for call in found) == ["Tool", "f"]

    def test_a_nested_span_names_the_tool(self) -> None:
        found = calls(run("a", 2, "Tool", {"x": 1}, **self.UNNAMED), run("b", 2.1, "f", None, parent="a", end=2.2))
        assert [(call.name, call.arguments) for call in found] == [("f", {"x": 1})]

    @pytest.mark.parametrize("asked", [False, True], ids=["requests hidden", "requests seen"])
    def test_a_merged_span_tells_the_batch_and_its_order(self, asked: bool) -> None:
        """ADK for Go runs parallel calls one after the other, in any order."""
        merged = {"merged": True, "repeats": ("1", "2")}
        requests = (("f", {"x": 1}, "1"), ("g", {"x": 2}, "2")) if asked else ()
        found = calls(
            asking("m", 1, *requests),
            run("w", 2, "(merged tools)", None, end=4, facts=merged),
            run("b", 2, "g", {"x": 2}, "2", parent="w"),
            run("a", 3, "f", {"x": 1}, "1", parent="w"),
            run("c", 6, "f", {"x": 3}, "3"),
        )
        assert [(call.name, call.batch) for call in found] == [("f", 1), ("g", 1), ("f", 2)]

    @pytest.mark.parametrize(("start", "args", "count"), [(1.1, {"x": 1}, 1), (9, {"x": 1}, 2), (1.1, {"x": 2}, 2)])
    def test_two_spans_of_one_model_call_ask_once(self, start: float, args: Mapping[str, Any], count: int) -> None:
        first = model("t", "m1", "root", requests=(("f", {"x": 1}, "1"),), start=1, end=2)
        second = model("t", "m2", "root", requests=(("f", args, "1"),), start=start, end=start + 0.5)
        assert len(calls(first, second)) == count
