"""What makes a doubt: a reading that the evidence of its own spans contradicts, and only where both sides speak."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from goldspan.mappers.assembly import assemble
from goldspan.mappers.span_facts import (
    ContextFacts,
    RequestEvidence,
    ResultEvidence,
    SpanEvidence,
    SpanFacts,
    value_digest,
)
from goldspan.scoring.sessions import Doubt, DoubtedFact, UserMessages
from rigs.span_facts import SECOND, agent, captured, model, tool

X, Y = {"x": 1}, {"y": 2}


def doubts(*records: SpanFacts, session: str | None = "s", **root: Any) -> dict[str, tuple[str, ...]]:
    """Return the codes of the doubts about all turns, each with the names it has."""
    return {doubt.code: doubt.names for doubt in all_doubts(*records, session=session, **root)}


def all_doubts(*records: SpanFacts, session: str | None = "s", **root: Any) -> list[Doubt]:
    sessions = assemble([agent("t", "root", start=0, end=100, session=session, **root), *records])
    return [doubt for one in sessions for turn in one.turns for doubt in turn.doubts]


def asks(*requests: tuple[str, Mapping[str, Any] | None, str | None], response: int = 0) -> tuple[RequestEvidence, ...]:
    return tuple(
        RequestEvidence(name, call_id, "" if args is None else value_digest(args), tuple(args or ()), response)
        for name, args, call_id in requests
    )


def speaking(span: str, start: float, parent: str = "root", **evidence: Any) -> SpanFacts:
    """A model's span of which a dialect read nothing."""
    return model("t", span, parent, start=start, end=start + 0.5, evidence=SpanEvidence(**evidence))


def told(span: str, start: float, text: str | None) -> SpanFacts:
    """An agent below the root that was given a user's message."""
    context = ContextFacts() if text is None else ContextFacts(captured(text))
    return agent("t", span, "root", start=start, end=start + 3, agent="desk", context=context)


def ran(
    span: str, start: float, name: str, args: Mapping[str, Any] | None, call_id: str | None, **more: Any
) -> SpanFacts:
    evidence = SpanEvidence(**more.pop("evidence", {"names_error": False, "failed": None}))
    parent = more.pop("parent", "root")
    more.setdefault("end", start + 0.5)
    return tool("t", span, parent, name=name, args=args, call_id=call_id, start=start, evidence=evidence, **more)


def test_what_agrees_is_not_doubted() -> None:
    asked = asks(("f", X, "c1"), ("g", Y, "c2"))
    spans = [
        model("t", "m", "root", requests=(("f", X, "c1"), ("g", Y, "c2")), start=1, evidence=SpanEvidence(asked)),
        ran("a", 3, "f", X, "c1", evidence={"failed": False, "arguments": (value_digest(X),)}),
        ran("b", 4, "g", Y, "c2", error="boom", evidence={"failed": True}),
        speaking(
            "n", 5, results=(ResultEvidence("c1", failed=False), ResultEvidence("c2", failed=True)), continues=True
        ),
    ]
    assert doubts(*spans) == {}


def test_spans_without_evidence_are_not_doubted() -> None:
    assert doubts(model("t", "m", "root", requests=(("f", X, "c1"),), start=1), tool("t", "a", "root", start=2)) == {}


class TestCalls:
    def test_a_call_that_a_model_asked_for_is_missing(self) -> None:
        found = all_doubts(speaking("m", 1, requests=asks(("f", X, "c1"), ("g", Y, "c2"))), ran("a", 2, "f", X, "c1"))
        assert [(one.code, one.fact, one.names, one.dialect) for one in found if one.fact is DoubtedFact.CALLS] == [
            ("requested_not_read", DoubtedFact.CALLS, ("g",), "test")
        ]

    def test_a_model_was_shown_the_result_of_a_call_that_nobody_read(self) -> None:
        first = speaking("m", 1, requests=asks(("f", X, "c1")))
        shown = tuple(ResultEvidence(call_id, failed=False) for call_id in ("c1", "c2"))
        next_model = speaking("n", 5, results=shown, continues=True)
        assert "answered_not_read" in doubts(first, ran("a", 2, "f", X, "c1"), next_model)
        assert doubts(first, ran("a", 2, "f", X, "c1"), ran("b", 3, "g", Y, "c2"), next_model) == {}
        assert doubts(first, ran("a", 2, "f", X, "c1"), ran("b", 3, "g", Y, None), next_model) == {}
        assert "answered_not_read" not in doubts(next_model, speaking("o", 6, results=shown, continues=True))

    def test_a_tool_ran_more_often_than_it_was_asked_for(self) -> None:
        asked = speaking("m", 1, requests=asks(("f", X, "c1")))
        once, again = ran("a", 2, "f", X, "c1"), ran("b", 3, "f", Y, "c2")
        assert doubts(asked, once, again) == {"executed_not_requested": ("f",)}
        assert doubts(asked, once, ran("b", 3, "steps", None, "c2")) == {"executed_not_requested": ("steps",)}
        assert doubts(asked, once, ran("b", 3, "g", Y, "c2")) == {}, "the program may run a tool of its own accord"
        unread = model("t", "n", "root", unseen=True, start=2.5, evidence=SpanEvidence(answers=True))
        assert doubts(asked, once, unread, again) == {}, "another model may have asked"

    def test_ids_that_are_numbered_anew_do_not_count(self) -> None:
        first, later = (
            speaking(span, at, requests=asks(("f", args, "f_0"))) for span, at, args in (("m", 1, X), ("n", 5, Y))
        )
        assert doubts(first, ran("a", 2, "f", X, "x1"), later, ran("b", 6, "f", Y, "x2")) == {}

    @pytest.mark.parametrize(
        ("first", "doubted"),
        [({}, True), ({"answers": True, "asks_in_text": True}, True), ({"answers": True}, False)],
    )
    def test_a_model_was_called_again_and_nothing_tells_what_for(self, first: Mapping[str, Any], doubted: bool) -> None:
        spans = speaking("m", 1, **first), speaking("n", 5, answers=True)
        assert doubts(*spans) == ({"called_again": ()} if doubted else {})
        assert doubts(spans[0]) == {}

    def test_a_model_was_given_results_of_which_no_call_is_known(self) -> None:
        first = speaking("m", 1, users=("a",), answers=True)
        assert "called_again" in doubts(first, speaking("n", 5, continues=True, answers=True))

    @pytest.mark.parametrize(("dialect", "doubted"), [("other", False), (None, True)])
    def test_the_answer_of_a_model_is_on_a_span_of_another_kind(self, dialect: str | None, *, doubted: bool) -> None:
        first, end = speaking("m", 1, users=("a",)), speaking("n", 5, users=("a",), answers=True)
        end = end.changed(dialect=dialect or end.dialect)
        assert ("called_again" in doubts(first, end)) is doubted

    def test_a_hand_off_that_no_dialect_knows(self) -> None:
        requests = (("f", X, "c1"), ("transfer_to_desk", {}, "c2"))
        spans = [model("t", "m", "root", requests=requests, start=1, evidence=SpanEvidence(asks(*requests)))]
        assert doubts(*spans, agent="main") == {}, "nothing ran"
        assert doubts(*spans, ran("a", 2, "f", X, "c1"), agent="main") == {"handed_over": ("transfer_to_desk",)}

    def test_what_the_last_model_asked_for_never_ran(self) -> None:
        asked, last = (("f", X, "c1"),), (("Answer", Y, "c2"),)
        first = model("t", "m", "root", requests=asked, start=1, evidence=SpanEvidence(asks(*asked)))
        form = model("t", "n", "root", requests=last, start=3, evidence=SpanEvidence(asks(*last)))
        assert doubts(first, ran("a", 2, "f", X, "c1"), form) == {"never_ran": ("Answer",)}
        assert doubts(first, form) == {}, "nothing ran"
        assert doubts(first, ran("a", 2, "f", X, "c1"), form, speaking("o", 5, answers=True)) == {}

    @pytest.mark.parametrize("runs_first", [False, True])
    def test_a_request_in_one_turn_and_its_execution_in_another(self, runs_first: bool) -> None:
        asking = [
            agent("t1", "r1", start=10 if runs_first else 0, session="s"),
            model("t1", "m", "r1", requests=(("f", X, "c1"),), start=11 if runs_first else 1),
        ]
        running = [agent("t2", "r2", start=5, session="s"), tool("t2", "a", "r2", name="f", call_id="c1", start=6)]
        [session] = assemble([*asking, *running])
        earlier, later = session.turns
        assert earlier.doubts == ()
        assert [(one.code, one.fact, one.names) for one in later.doubts] == [
            ("ran_in_another_turn", DoubtedFact.CALLS, ("f",))
        ]

    @pytest.mark.parametrize(
        ("first", "result", "doubted"),
        [
            ({"args": X}, "done", True),
            ({"args": X}, None, False),
            ({"args": Y}, "done", False),
            ({"args": X, "error": "boom"}, "done", False),
            ({"args": X, "facts": {"result": captured("done")}}, "done", False),
        ],
    )
    def test_a_call_that_was_begun_in_one_turn_and_returned_in_another(
        self, first: dict[str, Any], result: str | None, doubted: bool
    ) -> None:
        """A span without a result may be one that waits for approval."""
        facts = {} if result is None else {"result": captured(result)}
        turns = [
            (agent("t1", "r1", start=0, session="s"), tool("t1", "a", "r1", name="f", start=1, **first)),
            (agent("t2", "r2", start=5, session="s"), tool("t2", "b", "r2", name="f", args=X, start=6, facts=facts)),
        ]
        [session] = assemble([span for turn in turns for span in turn])
        assert [one.code for one in session.turns[1].doubts] == ["ran_in_another_turn"] * doubted

    @pytest.mark.parametrize(("args", "start", "doubted"), [(X, 5, True), (Y, 5, False), (X, 15, False)])
    def test_a_request_whose_execution_has_another_id(self, args: dict[str, Any], start: float, doubted: bool) -> None:
        """One that is asked for again in a later turn, and then runs, is no half of the first."""
        turns = [
            agent("t1", "r1", start=0, end=10, session="s"),
            model("t1", "m", "r1", requests=(("f", args, "c1"),), start=1),
            agent("t2", "r2", start=start, end=20, session="s"),
            tool("t2", "a", "r2", name="f", args=X, call_id="c2", start=start + 1),
        ]
        [session] = assemble(turns)
        assert [one.code for one in session.turns[1].doubts] == ["ran_in_another_turn"] * doubted

    @pytest.mark.parametrize(("args", "doubted"), [(X, True), (Y, False)])
    def test_a_request_whose_execution_has_no_id(self, args: dict[str, Any], doubted: bool) -> None:
        ran_before = tool("t1", "a", "r1", name="f", args=X, start=1, facts={"result": captured("done")})
        asking = [
            model("t2", "m", "r2", requests=(("f", args, "c1"),), start=6),
            model("t2", "n", "r2", answered={"c1": False}, start=8),
        ]
        turns = [agent("t1", "r1", start=0, session="s"), ran_before, agent("t2", "r2", start=5, session="s"), *asking]
        [session] = assemble(turns)
        assert [one.code for one in session.turns[1].doubts] == ["ran_in_another_turn"] * doubted

    @pytest.mark.parametrize(("agent_name", "start", "doubted"), [("f", 5, True), ("f", 12, False), ("g", 5, False)])
    def test_an_agent_that_another_turn_called(self, agent_name: str, start: float, doubted: bool) -> None:
        caller = [agent("t1", "r1", start=0, end=10, session="s"), tool("t1", "a", "r1", name="f", start=1, end=9)]
        called = agent("t2", "r2", start=start, end=start + 20, session="s", agent=agent_name)
        [session] = assemble([*caller, called, model("t2", "m", "r2", start=start + 1)])
        assert ["within_another_turn" in [one.code for one in turn.doubts] for turn in session.turns] == [
            False,
            doubted,
        ]

    def test_a_call_that_ran_again_under_its_id(self) -> None:
        again = ran("b", 3, "f", X, "c1", evidence={"failed": False})
        assert doubts(ran("a", 2, "f", X, "c1", evidence={"failed": False}), again) == {"read_twice": ("f",)}
        assert doubts(ran("a", 2, "f", X, "c1", error="boom", evidence={"failed": True}), again) == {}, "a retry"

    @pytest.mark.parametrize(("name", "error", "doubted"), [("f_error", "boom", True), ("f_error", None, False)])
    def test_a_failure_on_a_span_of_its_own_is_no_call(self, name: str, error: str | None, doubted: bool) -> None:
        assert doubts(ran("a", 2, name, None, None, error=error)) == ({"read_twice": (name,)} if doubted else {})

    def test_a_request_and_an_execution_without_arguments_may_be_one_call(self) -> None:
        asking = model("t", "m", "root", requests=(("f", X, "c1"),), start=5)
        answered = model("t", "n", "root", answered={"c1": False}, start=7)
        assert doubts(ran("a", 2, "f", None, "other"), asking, answered) == {"read_twice": ("f",)}

    def test_results_without_ids_answer_a_rejected_request(self) -> None:
        requests = (("f", X, None), ("f", Y, None))
        asking = model("t", "m", "root", requests=requests, start=1, evidence=SpanEvidence(asks(*requests)))
        shown = ResultEvidence(None, "f", failed=False)
        run = ran("a", 2, "f", X, None)
        assert doubts(asking, run, speaking("n", 5, results=(shown,), continues=True)) == {}
        assert doubts(asking, run, speaking("n", 5, results=(shown, shown), continues=True)) == {
            "answered_not_read": ("f",)
        }

    def test_results_of_calls_that_no_output_shows(self) -> None:
        shown = ResultEvidence(None, failed=False)
        given = speaking("n", 5, results=(shown,), continues=True)
        assert doubts(speaking("m", 1, answers=True), given) == {"called_again": ()}
        handed_over = ran("a", 2, "transfer_to_agent", X, None)
        assert doubts(speaking("m", 1, answers=True), handed_over, given) == {}

    def test_a_request_that_was_not_run_while_nobody_saw_results(self) -> None:
        requests = (("f", {"x": 2}, "c2"), ("f", X, "c1"))
        asking = model("t", "m", "root", requests=requests, start=1, evidence=SpanEvidence(asks(*requests)))
        run, later = ran("a", 2, "f", X, "c1", evidence={"failed": False}), speaking("n", 5, answers=True)
        lacking = ran("a", 2, "f", {**X, **Y}, "c1", evidence={"failed": False})
        assert "rejected_unseen" not in doubts(asking, lacking, later), "it may have been refused for what it lacks"
        assert doubts(asking, run, later) == {"rejected_unseen": ("f",)}
        assert doubts(asking, run) == {}, "nothing followed"
        shown = (ResultEvidence("c1", failed=False),)
        assert doubts(asking, run, speaking("n", 5, results=shown, continues=True)) == {}, "it was given no result"

    def test_a_call_without_arguments_within_another_beside_it(self) -> None:
        outer, inner = ran("a", 2, "f", X, None, end=4), ran("b", 2.5, "f", None, None, end=3)
        assert doubts(outer, inner) == {"read_twice": ("f",)}
        assert doubts(outer, ran("b", 2.5, "f", Y, None, end=3)) == {}
        assert doubts(ran("a", 2, "f", X, "c1", end=4), ran("b", 2.5, "f", X, "c2", end=3)) == {}, "ids tell them apart"
        assert doubts(outer, ran("b", 5, "f", None, None)) == {}
        bare, full = ran("a", 2, "f", None, None, end=4), ran("b", 2.5, "f", X, None, end=3)
        assert doubts(bare, full) == {"read_twice": ("f",)}
        assert doubts(bare, inner) == {}, "parallel calls without content"
        assert doubts(bare, inner.changed(dialect="other")) == {"read_twice": ("f",)}

    def test_a_failure_within_another_of_its_id_is_no_retry(self) -> None:
        outer, inner = (
            ran(span, start, "f", X, "c1", end=end, error="boom", evidence={"failed": True})
            for span, start, end in (("a", 2, 5), ("b", 3, 4))
        )
        assert doubts(outer, inner) == {"read_twice": ("f",)}
        assert doubts(outer, inner.changed(start=6 * SECOND, end=7 * SECOND)) == {}

    def test_a_request_on_a_span_of_its_own_and_its_execution_are_one_call(self) -> None:
        asked, executed = ran("a", 2, "f", X, "c1"), ran("b", 3, "f", X, None, evidence={"failed": False})
        assert doubts(asked, executed) == {"read_twice": ("f",)}
        assert doubts(ran("a", 2, "f", X, "c1"), ran("b", 3, "f", Y, None, evidence={"failed": False})) == {}
        assert doubts(ran("a", 2, "f", X, None), executed) == {"read_twice": ("f",)}, "it may have waited for approval"
        again = ran("a", 2, "f", X, None, evidence={"failed": False})
        assert doubts(again, executed) == {}, "a call may be made again"

    def test_requests_without_ids_are_counted_by_name(self) -> None:
        asked = speaking("m", 1, requests=asks(("f", X, None), ("f", Y, None)))
        assert "requested_not_read" not in doubts(asked, ran("a", 2, "f", X, None), ran("b", 3, "f", Y, None))
        assert doubts(asked, ran("a", 2, "f", X, None))["requested_not_read"] == ("f",)

    def test_a_hand_off_is_left_out_on_purpose(self) -> None:
        pseudo = tool("t", "h", "root", name="ask_bob", start=2, facts={"pseudo": True})
        asked = asks(("transfer_to_agent", X, "c1"), ("ask_bob", Y, "c2"))
        assert doubts(speaking("m", 1, requests=asked), pseudo) == {}

    def test_spans_of_two_instrumentations_ask_once(self) -> None:
        asked = asks(("f", X, None))
        assert (
            doubts(speaking("m", 1, requests=asked), speaking("n", 1.1, requests=asked), ran("a", 2, "f", X, None))
            == {}
        )

    def test_one_call_under_two_names(self) -> None:
        spans = [
            model("t", "m", "root", requests=(("f", X, None),), start=1),
            ran(
                "a",
                2,
                "F.run",
                {"input": X},
                None,
                evidence={"arguments": (value_digest({"input": X}), value_digest(X))},
            ),
        ]
        assert doubts(*spans) == {"read_twice": ("F.run", "f")}

    @pytest.mark.parametrize(("args", "error", "twice"), [(X, None, True), (None, "boom", True), (Y, None, False)])
    def test_a_span_inside_another_may_repeat_it(
        self, args: Mapping[str, Any] | None, error: str | None, twice: bool
    ) -> None:
        outer = ran("a", 2, "f", X, "c1", error="boom", end=4)
        inner = ran(
            "b", 3, "steps", args, None, parent="a", error=error, evidence={"names_error": bool(error), "failed": True}
        )
        assert ("read_twice" in doubts(outer, inner)) is twice


@pytest.mark.parametrize(
    ("args", "doubted"),
    [({"days": "3", "note": "None"}, True), ({"days": "3"}, False), ({"days": 3, "note": "None"}, False)],
)
def test_arguments_that_a_writer_made_texts(args: dict[str, Any], doubted: bool) -> None:
    call = ran("a", 2, "f", args, None, evidence={"failed": False}).changed(dialect="shape")
    assert set(doubts(call)) == ({"arguments_as_texts"} if doubted else set())
    asked = speaking("m", 1, requests=asks(("f", args, None)))
    assert doubts(asked, call) == {}, "the model asked for texts"
    assert doubts(call.changed(dialect="otel_genai")) == {}


@pytest.mark.parametrize(("error", "doubted"), [("late", False), (None, True)])
def test_what_failed_may_run_again_for_one_request(error: str | None, *, doubted: bool) -> None:
    evidence = SpanEvidence(asks(("f", X, "c1")))
    asked = model("t", "m", "root", requests=(("f", X, "c1"),), start=1, evidence=evidence)
    first = ran("a", 2, "f", X, "c1", evidence={"failed": bool(error)}, error=error)
    assert bool(doubts(asked, first, ran("b", 3, "f", X, "c1", evidence={"failed": False}))) is doubted
    assert "executed_not_requested" in doubts(
        asked, first, ran("b", 3, "f", X, "c9", evidence={"failed": True}, error="e")
    )


def test_requests_that_another_writer_repeats_without_their_ids() -> None:
    spans = [speaking("m", 1, requests=asks(("f", X, None))), speaking("n", 1, requests=asks(("f", X, "c1")))]
    assert doubts(*spans, ran("a", 2, "f", X, None, evidence={"failed": False})) == {}


@pytest.mark.parametrize(("answered", "doubted"), [("f_0", False), ("g_0", True)])
def test_ids_that_are_numbered_anew_in_each_response(answered: str, *, doubted: bool) -> None:
    again = asks(("f", X, "f_0"), ("f", X, "f_1"))
    spans = [
        model("t", "m", "root", requests=(("f", X, "f_0"),), start=1, evidence=SpanEvidence(asks(("f", X, "f_0")))),
        model(
            "t",
            "n",
            "root",
            requests=(("f", X, "f_0"), ("f", X, "f_1")),
            start=3,
            evidence=SpanEvidence(again, (ResultEvidence(answered, failed=False),), continues=True),
        ),
        *(ran(f"r{n}", at, "f", X, call, evidence={"failed": False}) for n, (at, call) in enumerate(RAN)),
    ]
    assert bool(doubts(*spans)) is doubted
    extra = ran("more", 5, "f", X, "f_0", evidence={"failed": False})
    assert "read_twice" in doubts(*spans, extra), "once more than a model asked for it"


RAN = [(2, "f_0"), (4, "f_0"), (4, "f_1")]


class TestTurns:
    def test_a_turn_with_two_messages_of_the_user(self) -> None:
        assert "several_user_messages" in doubts(speaking("m", 1, users=("a",)), speaking("n", 5, users=("a", "b")))

    @pytest.mark.parametrize(("continues", "doubted"), [(None, True), (False, False)])
    def test_one_more_message_of_the_user_where_their_order_is_unknown(
        self, continues: bool | None, doubted: bool
    ) -> None:
        later = speaking("n", 5, users=("a", "b"), continues=continues)
        found = doubts(speaking("m", 1, users=("b",), continues=False), later)
        assert ("several_user_messages" in found) is doubted

    @pytest.mark.parametrize(("continues", "doubted"), [(True, False), (False, True)])
    def test_a_result_that_the_outer_of_two_writers_took_for_a_message(self, continues: bool, doubted: bool) -> None:
        first, outer = speaking("m", 1, users=("a",)), speaking("n", 5, users=("a", "result"))
        found = doubts(first, outer, speaking("inner", 5.1, "n", continues=continues))
        assert ("several_user_messages" in found) is doubted

    def test_a_text_in_the_users_name_that_may_be_a_result(self) -> None:
        waiting = {"continues": True, "may_be_user": True}
        assert "several_user_messages" in doubts(speaking("m", 1, users=("a",)), speaking("n", 5, **waiting))
        assert doubts(speaking("m", 1, **waiting)) == {}, "the turn begins with it"

    @pytest.mark.parametrize(
        ("texts", "doubted"),
        [(("go on", "go on"), False), (("go on", "and a chair"), True), (("and a chair",), True), (("a",), False)],
    )
    def test_a_text_behind_a_result_that_is_not_said_again(self, texts: tuple[str, ...], *, doubted: bool) -> None:
        def asked(number: int, text: str) -> SpanFacts:
            said = UserMessages(number, number + 1)
            one = model("t", f"m{number}", "root", start=2 * number + 1, user=True, user_messages=said)
            return one.changed(evidence=SpanEvidence(users=("a",)), context=ContextFacts(user_text=captured(text)))

        found = doubts(*(asked(number, text) for number, text in enumerate(("a", *texts))))
        assert ("several_user_messages" in found) is doubted

    def test_what_another_model_wrote_is_no_message_of_a_user(self) -> None:
        judge = speaking("j", 3, users=("draft",), system="judge", wrote="b")
        found = doubts(speaking("m", 1, users=("a",)), judge, speaking("n", 5, users=("a", "b")))
        assert "several_user_messages" not in found

    def test_what_a_tool_gave_that_was_asked_for_in_a_text_is_no_message_of_a_user(self) -> None:
        first = speaking("m", 1, users=("a",), answers=True, asks_in_text=True)
        assert "several_user_messages" not in doubts(first, speaking("n", 5, users=("a", "b")))

    @pytest.mark.parametrize(
        ("first", "second", "root", "doubted"),
        [
            ("book", "cancel", None, True),
            ("book", "book", None, False),
            ("book", "cancel", "manage my trip", False),
            ("book", None, None, False),
        ],
    )
    def test_one_agent_that_was_told_two_things(
        self, first: str | None, second: str | None, root: str | None, *, doubted: bool
    ) -> None:
        one, other = told("a1", 1, first), told("a2", 5, second)
        work = ran("b", 6, "f", X, None, parent="a2", evidence={"failed": False})
        above = ContextFacts() if root is None else ContextFacts(captured(root))
        found = doubts(one, other, work, context=above)
        assert set(found) == ({"several_agent_runs"} if doubted else set())
        assert doubts(one, other.changed(agent="clerk"), work, context=above) == {}, "work was handed on"
        assert doubts(one, other.changed(start=one.start), work, context=above) == {}, "they worked side by side"
        assert doubts(one, other, work, speaking("m", 0.5), context=above) == {}, "the agent above asked for them"

    def test_all_that_ran_beside_the_runs_of_an_agent(self) -> None:
        one, other = told("a1", 1, None), told("a2", 5, None)
        work = [speaking("m", 2), ran("b", 3, "f", X, None), speaking("n", 6), ran("d", 7, "f", Y, None)]
        assert "ran_beside_agents" in doubts(one, other, *work)
        assert "ran_beside_agents" not in doubts(one, other.changed(agent="clerk"), *work), "work was handed on"
        assert "ran_beside_agents" not in doubts(one, other, *work, speaking("o", 9)), "the agent above works, too"
        resumed = [*work[:2], speaking("n", 6, continues=True), work[3]]
        assert "ran_beside_agents" not in doubts(one, other, *resumed)
        approved = [*work[:2], ran("a", 5.5, "f", X, None), *resumed[2:]]
        assert "ran_beside_agents" not in doubts(one, other, *approved), "what was approved ran before the model"
        assert "ran_beside_agents" not in doubts(one, other, *work[:2], speaking("n", 6, "a2"), work[3])

    @pytest.mark.parametrize(
        ("name", "later", "doubted"), [("handoff", 0, True), ("handoff", 5, False), ("f", 0, False)]
    )
    def test_a_turn_that_ends_with_a_hand_off(self, name: str, later: int, *, doubted: bool) -> None:
        handed = speaking("m", 2, requests=asks((name, {"agent_name": "desk"}, "c1")))
        taken = [speaking("n", later)] if later else []
        assert ("ends_with_hand_off" in doubts(handed, *taken)) is doubted

    @pytest.mark.parametrize(("names", "doubted"), [(("desk", "desk"), True), (("desk", "clerk"), False)])
    def test_crews_of_other_agents_are_not_one_that_was_told_two_things(
        self, names: tuple[str, str], *, doubted: bool
    ) -> None:
        crews = told("a1", 1, "book"), told("a2", 5, "cancel")
        agents = [agent("t", f"b{n}", f"a{n}", start=4 * n - 3, end=4 * n - 1, agent=names[n - 1]) for n in (1, 2)]
        models = [speaking(f"m{n}", 4 * n - 2.5, f"b{n}", answers=True) for n in (1, 2)]
        assert ("several_agent_runs" in doubts(*crews, *agents, *models)) is doubted

    @pytest.mark.parametrize("continues", [True, False])
    def test_an_agent_whose_model_is_given_results_goes_on(self, continues: bool) -> None:
        one, other = told("a1", 1, "book"), told("a2", 5, "a summary")
        spans = [speaking("m", 1, "a1", users=("a",)), speaking("n", 5, "a2", continues=continues)]
        assert ("several_agent_runs" in doubts(one, other, *spans)) is not continues

    def test_one_agent_that_ran_twice_where_nothing_tells_what_it_was_told(self) -> None:
        one, other = told("a1", 1, None), told("a2", 5, None)
        assert set(doubts(one, other)) == {"several_agent_runs"}
        assert doubts(one, other.changed(agent="clerk")) == {}
        assert doubts(one, other, speaking("m", 6, "a2", answers=True)) == {}, "models are recorded"

    @pytest.mark.parametrize(("text", "doubted"), [("", True), ("And a chair", False)])
    def test_an_agent_that_is_given_results_alone(self, text: str, *, doubted: bool) -> None:
        result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "x"}]}
        behind = [{"role": "user", "parts": [{"type": "text", "content": text}]}] if text else []
        context = ContextFacts(messages=captured(json.dumps([result, *behind])))
        work = ran("a", 2, "f", X, "c2", evidence={"failed": False})
        assert ("begins_with_results" in doubts(work, context=context)) is doubted
        assert doubts(work, speaking("m", 1, answers=True), context=context) == {}

    @pytest.mark.parametrize("later", [("a",), ("b",), ("b", "c")])
    def test_another_conversation_is_no_longer_one(self, later: tuple[str, ...]) -> None:
        first = speaking("m", 1, users=("a",), answers=True)
        assert doubts(first, speaking("n", 5, users=later, continues=False)) == {}

    @pytest.mark.parametrize(("answers", "doubted"), [(True, True), (False, False)])
    def test_a_message_after_an_answer_where_earlier_ones_are_lost(self, answers: bool, doubted: bool) -> None:
        first = speaking("m", 1, users=("a",), answers=answers)
        found = doubts(first, speaking("n", 5, users=None, continues=False))
        assert ("several_user_messages" in found) is doubted

    @pytest.mark.parametrize(
        ("ends", "doubted"), [(("b", "b"), True), (("b", "c"), True), (("b", "a"), False), (("a", "b"), False)]
    )
    def test_histories_that_share_neither_end_are_two_conversations(self, ends: tuple[str, str], doubted: bool) -> None:
        """A trimmed history begins with another message, and ends with the same one."""
        one, other = (
            speaking(span, at, requests=asks(("f", args, call_id)), first_and_last_user=said)
            for span, at, args, call_id, said in (("m", 1, X, "c1", ("a", "a")), ("n", 5, Y, "c2", ends))
        )
        calls = ran("a", 2, "f", X, "c1"), ran("b", 6, "f", Y, "c2")
        assert doubts(one, other, *calls) == ({"several_conversations": ()} if doubted else {})
        own = agent("t", "x", "root", start=4, end=9)
        assert doubts(one, own, other.changed(parent_id="x"), *calls) == {}, "an agent of its own"

    @pytest.mark.parametrize(("task", "doubted"), [("Book it", False), ("Cancel it", True)])
    def test_an_agent_that_is_a_tool_is_told_what_a_model_asked_it(self, task: str, doubted: bool) -> None:
        asked = {"task": task}
        one = model(
            "t",
            "m",
            "root",
            requests=(("clerk", asked, "c1"),),
            start=1,
            evidence=SpanEvidence(asks(("clerk", asked, "c1")), first_and_last_user=("a", "a")),
        )
        told = (value_digest("Book it"),) * 2
        other = speaking("n", 3, requests=asks(("f", Y, "c2")), first_and_last_user=told)
        found = doubts(one, other, ran("a", 2, "clerk", asked, "c1"), ran("b", 6, "f", Y, "c2"))
        assert found == ({"several_conversations": ()} if doubted else {})

    def test_an_agent_alone_around_what_ran_beside_it(self) -> None:
        records = [
            agent("t", "x", "root", start=0, end=20, session="s"),
            agent("t", "y", "root", start=1, end=9, session="s"),
            tool("t", "a", "y", name="f", start=2),
        ]
        [session] = assemble(records)
        assert [[one.code for one in turn.doubts] for turn in session.turns] == [["others_within"], []]

    def test_an_agent_in_a_tool_has_a_conversation_of_its_own(self) -> None:
        inner = speaking("n", 3, "a", users=("a", "b"))
        assert doubts(speaking("m", 1, users=("a",)), ran("a", 2, "f", X, None, end=9), inner) == {}

    def test_the_turn_id_of_a_dialect_is_believed(self) -> None:
        spans = [
            model("t", span, "root", start=start, turn_id="i1", evidence=SpanEvidence(users=users, answers=True))
            for span, start, users in (("m", 1, ("a",)), ("n", 5, ("a", "b")))
        ]
        assert doubts(*spans, turn_id="i1") == {}

    def test_a_turn_that_begins_with_results_of_another(self) -> None:
        given = speaking("m", 1, continues=True, results=(ResultEvidence("c1", failed=False),))
        assert doubts(given) == {"begins_with_results": ()}
        assert doubts(given, session=None) == {"begins_with_results": ()}, "an agent's span is in this trace alone"

    def test_model_calls_alone_in_their_traces_begin_with_results(self) -> None:
        shown = (ResultEvidence("c1", failed=False),)
        [session] = assemble([model("t", "m", None, evidence=SpanEvidence(continues=True, results=shown))])
        assert session.turns[0].doubts == (), "it is known that no session id joins the trace to others"

    def test_a_session_id_that_no_key_names(self) -> None:
        told = speaking("m", 1, sessions=(("acme.conversation_id", "s-1"),), answers=True)
        assert doubts(told) == {}
        assert doubts(told, session=None) == {"session_id_unread": ("acme.conversation_id",)}
        assert doubts(told, speaking("n", 2, sessions=(("acme.conversation_id", "s-2"),)), session=None) == {}


class TestArguments:
    ASKED = speaking("m", 1, requests=asks(("f", X, "c1")))

    def test_they_are_in_the_request(self) -> None:
        assert doubts(self.ASKED, ran("a", 2, "f", None, "c1")) == {"arguments_in_request": ("f",)}

    def test_they_are_on_the_span(self) -> None:
        shown = ran("a", 2, "f", None, "c1", evidence={"arguments": (value_digest(X),)})
        assert doubts(shown) == {"arguments_on_span": ("f",)}

    def test_none_was_recorded_anywhere(self) -> None:
        asked = speaking("m", 1, requests=asks(("f", None, "c1")))
        assert doubts(asked, ran("a", 2, "f", None, "c1")) == {}

    @pytest.mark.parametrize("args", [{"input": X}, {"kwargs": "{}"}, {}])
    def test_no_name_is_one_that_the_model_asked_for(self, args: Mapping[str, Any]) -> None:
        assert doubts(self.ASKED, ran("a", 2, "f", args, "c1")) == {"other_arguments": ("f",)}

    @pytest.mark.parametrize(("repeated", "doubted"), [("c1", True), ("c2", False)])
    def test_a_request_that_lost_its_arguments_is_repeated_with_them(self, repeated: str, doubted: bool) -> None:
        """OpenLLMetry for JavaScript writes what Anthropic streams first: an empty object."""
        evidence = SpanEvidence(asks(("f", {}, "c1")))
        asked = model("t", "m", "root", requests=(("f", {}, "c1"),), start=1, evidence=evidence)
        later = speaking("n", 3, results=(ResultEvidence("c1"),), continues=True, with_arguments=(repeated,))
        assert ("arguments_in_request" in doubts(asked, later)) is doubted

    @pytest.mark.parametrize("args", [{"x": 2}, {"x": 1, "added": True}, {"x": 1.0}])
    def test_a_framework_may_change_what_the_model_asked_for(self, args: Mapping[str, Any]) -> None:
        assert doubts(self.ASKED, ran("a", 2, "f", args, "c1")) == {}


class TestBatches:
    RUNS = (ran("a", 2, "f", X, "c1"), ran("b", 5, "g", Y, "c2"))

    def test_one_response_asked_for_both(self) -> None:
        asked = speaking("m", 1, requests=asks(("f", X, "c1"), ("g", Y, "c2")))
        assert doubts(asked, *self.RUNS) == {"batch_of_request": ("f", "g")}

    def test_two_responses_asked_for_what_ran_at_once(self) -> None:
        asked = (*asks(("f", X, "c1")), *asks(("g", Y, "c2"), response=1))
        runs = ran("a", 2, "f", X, "c1", end=4), ran("b", 3, "g", Y, "c2")
        assert doubts(speaking("m", 1, requests=asked), *runs) == {"batch_of_request": ("f", "g")}

    def test_a_transcript_of_the_agent_tells_where_no_model_does(self) -> None:
        told = SpanEvidence(asks(("f", X, "c1"), ("g", Y, "c2"), response=1))
        assert doubts(*self.RUNS, evidence=told) == {"batch_of_request": ("f", "g")}
        together = SpanEvidence(asks(("f", X, "c1"), ("g", Y, "c2")))
        assert doubts(*self.RUNS, evidence=together) == {}, "all requests of a turn may stand in one message"


class TestFailures:
    @pytest.mark.parametrize(
        "spans",
        [
            [ran("a", 2, "f", X, "c1", evidence={"failed": True})],
            [ran("a", 2, "f", X, "c1"), speaking("n", 3, results=(ResultEvidence("c1", failed=True),), continues=True)],
        ],
    )
    def test_what_returned_an_error_did_not_succeed(self, spans: list[SpanFacts]) -> None:
        asked = speaking("m", 1, requests=asks(("f", X, "c1")))
        assert doubts(asked, *spans) == {"result_is_error": ("f",)}

    STATUS: ClassVar[dict[str, Any]] = {"status": value_digest("no table"), "failed": None}
    FIRST: ClassVar[SpanFacts] = ran("a", 2, "f", X, "c1", error="no table", evidence=STATUS)

    def test_a_status_that_was_copied_to_a_call_with_a_result(self) -> None:
        later = ran("b", 5, "g", Y, "c2", error="no table", evidence={**self.STATUS, "failed": False})
        assert failures(self.FIRST, later) == {"f"}
        assert doubts(self.FIRST, later) == {}, "it is read as no failure"
        assert failures(self.FIRST, own_error(later)) == {"f", "g"}
        assert doubts(self.FIRST, own_error(later)) == {}

    def test_a_text_where_the_tool_gave_objects_beside_a_status_that_was_copied(self) -> None:
        def gave(span: str, start: float, result: object) -> SpanFacts:
            facts = {"result": captured(result)}
            evidence = {**self.STATUS, "failed": False}
            return ran(span, start, "g", Y, span, error="no table", evidence=evidence, facts=facts)

        booked = gave("c", 7, {"id": 7})
        assert doubts(self.FIRST, gave("b", 5, "that is full"), booked) == {"result_is_error": ("g",)}
        assert doubts(self.FIRST, gave("b", 5, {"id": 6}), booked) == {}
        assert doubts(self.FIRST, gave("b", 5, "that is full"), gave("c", 7, "booked")) == {}

    def test_a_status_that_was_copied_from_a_call_that_names_its_error(self) -> None:
        later = ran("b", 5, "g", Y, "c2", error="no table", evidence=self.STATUS)
        assert failures(own_error(self.FIRST), later) == {"f"}
        assert failures(self.FIRST, later) == {"f", "g"}, "a call may fail again for the same reason"

    def test_a_status_against_a_result(self) -> None:
        call = ran("b", 5, "g", Y, "c2", error="no table", evidence={**self.STATUS, "failed": False})
        assert failures(call) == {"g"}
        assert doubts(call) == {"failed_with_result": ("g",)}
        assert doubts(own_error(call)) == {}, "an error of its own is believed"


def own_error(span: SpanFacts) -> SpanFacts:
    assert span.tool is not None
    return span.changed(tool=replace(span.tool, error_is_named=True))


def failures(*records: SpanFacts) -> set[str]:
    [session] = assemble([agent("t", "root", start=0, end=100, session="s"), *records])
    return {call.name for turn in session.turns for call in turn.calls if call.error}


def test_one_doubt_names_all_tools() -> None:
    found = all_doubts(
        ran("a", 2, "f", X, "c1", evidence={"failed": True}), ran("b", 3, "g", Y, "c2", evidence={"failed": True})
    )
    assert [(one.names, [ref.span_id for ref in one.spans]) for one in found] == [(("f", "g"), ["a", "b"])]


@pytest.mark.parametrize(
    ("args", "doubted"),
    [
        ({"kwargs": X}, True),
        ({"args": [], "sanitize": True, "kwargs": X}, True),
        ({"kwargs": "all"}, False),
        ({"kwargs": X, "city": "Paris"}, False),
    ],
)
def test_what_python_hands_on_is_an_envelope_perhaps(args: dict[str, Any], *, doubted: bool) -> None:
    assert set(doubts(ran("a", 2, "f", args, None))) <= {"arguments_in_envelope"}
    assert bool(doubts(ran("a", 2, "f", args, None, evidence={"failed": False}))) is doubted


@pytest.mark.parametrize(
    ("args", "doubted"), [({"input": X}, True), ({"input": {"kwargs": X}}, True), ({"input": Y}, False), (X, False)]
)
def test_the_arguments_of_another_call_in_an_object(args: dict[str, Any], *, doubted: bool) -> None:
    found = doubts(ran("a", 2, "f", X, "c1"), ran("b", 4, "f", args, "c2", evidence={"failed": False}))
    assert ("arguments_in_envelope" in found) is doubted


def test_a_session_id_that_is_not_read_makes_the_bounds_doubtful() -> None:
    later = speaking("m", 1, results=(ResultEvidence("c0"),), continues=True)
    named = later.changed(evidence=replace(later.evidence, sessions=(("app.session", "s1"),)))
    assert set(doubts(named, session=None)) == {"begins_with_results", "session_id_unread"}
    assert set(doubts(later, session=None)) == {"begins_with_results"}


def test_a_call_that_ran_while_one_of_its_tool_ran_in_another_trace() -> None:
    def elsewhere(span: SpanFacts) -> SpanFacts:
        keys = (("gen_ai.conversation.id", "s"),)
        return span.changed(trace_id=f"of {span.span_id}", parent_id="", session_keys=keys)

    speaks = elsewhere(speaking("m", 1))
    outer = elsewhere(ran("a", 2, "f", X, None, end=9, evidence={"failed": False}))
    inner = elsewhere(ran("b", 3, "f", None, None, end=4))
    assert "read_twice" in doubts(speaks, outer, inner)
    assert "read_twice" not in doubts(speaks, outer, inner.changed(start=10 * SECOND, end=11 * SECOND))


def test_a_call_that_ran_while_one_of_its_tool_ran_in_another_turn() -> None:
    def turn(trace: str, start: float, end: float, args: Mapping[str, Any] | None) -> list[SpanFacts]:
        span = tool(trace, "a", "r", name="f", args=args, start=start, end=end)
        return [agent(trace, "r", start=start, end=end, session="s"), span]

    def second(*records: SpanFacts) -> list[str]:
        [session] = assemble([*turn("t1", 0, 9, X), *records])
        return [one.code for one in session.turns[1].doubts]

    assert second(*turn("t2", 2, 4, None)) == ["read_twice"]
    assert second(*turn("t2", 2, 4, Y)) == [], "it says more"
    assert second(*turn("t2", 10, 12, None)) == []
