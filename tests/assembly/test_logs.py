"""Log records of one model call put together, whatever their order, and joined to executions (R11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.joined_logs import with_logs
from goldspan.mappers.span_facts import (
    ContextFacts,
    LogFacts,
    ModelFacts,
    Record,
    Role,
    SpanFacts,
    ToolFacts,
    ToolRequest,
)
from goldspan.scoring.sessions import NO_CONTENT, Capture, Content, ToolCall
from rigs.span_facts import SECOND, agent, captured, model, plain, tool

USER, TOOL, OWN, CHOICE = "user", "tool", "own", "choice"


def said(kind: str, text: str = "", time: int = 0, span: str = "m", **more: Any) -> LogFacts:
    """One message of a model call, as its record is read."""
    facts: dict[str, Any] = {
        USER: {
            "model": ModelFacts(new_user_message=True),
            "context": ContextFacts(captured(text), NO_CONTENT, captured([{"role": "user", "content": text}])),
        },
        TOOL: {
            "model": ModelFacts(answered={text: False}, new_user_message=False),
            "tools": (ToolFacts("", call_id=text, result=captured(f"result of {text}")),),
            "context": ContextFacts(messages=captured([{"role": "tool", "tool_call_id": text}])),
        },
        OWN: {
            "own_message": True,
            "context": ContextFacts(messages=captured([{"role": "assistant", "content": text}])),
        },
        CHOICE: {"model": ModelFacts((ToolRequest("f", captured({"x": text}), None),))},
    }[kind]
    return LogFacts("t", span, f"{kind}-{text}-{time}-{span}", time, "test", **{**facts, **more})


def joined(*records: LogFacts, span: SpanFacts | None = None) -> SpanFacts:
    """The span of a model call with what these records add to it."""
    spans = {"m": span or model("t", "m", start=1, end=2)}
    found = [with_logs(spans, order)["m"] for order in (records, records[::-1])]
    assert found[0] == found[1]
    return found[0]


def ends(*records: LogFacts) -> tuple[bool | None, set[str], Any]:
    """Whether the input ends with a user message, what was answered there, and what the user said."""
    span = joined(*records)
    assert span.model is not None
    return span.model.new_user_message, set(span.model.answered or ()), span.context.user_text.value


HISTORY = [
    said(USER, "one", 1),
    said(OWN, "asks", 2),
    said(TOOL, "c1", 3),
    said(OWN, "done", 4),
]


class TestInput:
    def test_messages_are_put_in_order_by_their_times(self) -> None:
        assert ends(*HISTORY[:1]) == (True, set(), "one")
        assert ends(*HISTORY[:3]) == (False, {"c1"}, None)
        assert ends(*HISTORY, said(USER, "two", 5)) == (True, set(), "two")
        assert ends(*HISTORY, said(USER, "two", 5), said(OWN, "", 6), said(TOOL, "c2", 7)) == (False, {"c2"}, None)

    @pytest.mark.parametrize(
        ("kinds", "expected"),
        [
            ([(USER, "one")], (True, set(), "one")),
            ([(USER, "one"), (TOOL, "c1")], (False, {"c1"}, None)),
            ([(USER, "one"), (OWN, "asks"), (TOOL, "c1"), (TOOL, "c2")], (False, {"c1", "c2"}, None)),
            ([(USER, "one"), (OWN, "done"), (USER, "two")], (True, set(), None)),
            ([(USER, "one"), (OWN, "asks"), (TOOL, "c1"), (OWN, "done"), (USER, "two")], (None, {"c1"}, None)),
        ],
    )
    @pytest.mark.parametrize("time", [0, 5])
    def test_without_times_only_what_is_true_in_any_order_is_taken(
        self, kinds: list[tuple[str, str]], expected: tuple[bool | None, set[str], Any], time: int
    ) -> None:
        records = [said(kind, text, time) for kind, text in kinds]
        assert ends(*records) == expected

    def test_how_many_messages_users_wrote_is_true_in_any_order(self) -> None:
        users = [said(USER, text, users=(text,)) for text in ("b", "a")]
        found = joined(*users, said(TOOL, "c-1")).evidence
        assert (found.continues, found.users) == (None, ("a", "b"))

    def test_an_error_among_several_answers_wins(self) -> None:
        failed = said(TOOL, "c1", 4, model=ModelFacts(answered={"c1": True}, new_user_message=False))
        span = joined(said(TOOL, "c1", 3), failed, said(TOOL, "c2", 5))
        assert span.model is not None
        assert span.model.answered == {"c1": True, "c2": False}

    @pytest.mark.parametrize(("others", "failed"), [((), True), (("c1",), False)])
    def test_a_span_that_joins_the_results_of_calls_that_records_tell_apart(
        self, others: Sequence[str], *, failed: bool
    ) -> None:
        own = replace(model("t", "m", start=1, end=2), model=ModelFacts(answered={"c2": True}))
        span = joined(*(said(TOOL, call_id, 3) for call_id in (*others, "c2")), span=own)
        assert span.model is not None
        assert (span.model.answered or {})["c2"] is failed

    def test_what_the_span_says_itself_is_believed_first(self) -> None:
        own = replace(model("t", "m", user=True, start=1, end=2), context=ContextFacts(captured("mine")))
        span = joined(said(USER, "theirs", 1), said(TOOL, "c1", 2), span=own)
        assert span.model is not None
        assert (span.model.new_user_message, span.model.answered) == (True, {"c1": False})
        assert span.context.user_text.value == "mine"

    def test_the_conversation_is_put_together(self) -> None:
        span = joined(*HISTORY, said(CHOICE, "x", 9))
        roles = [message["role"] for message in span.context.messages.value]
        assert roles == ["user", "assistant", "tool", "assistant"]

    def test_the_conversation_is_unknown_where_its_order_is(self) -> None:
        assert joined(said(USER, "one", 1), said(TOOL, "c1", 1)).context.messages == NO_CONTENT

    def test_a_record_of_the_whole_speaks_for_all(self) -> None:
        given = ContextFacts(messages=captured(["all"]), tool_definitions=captured(["f"]), answer=captured("so"))
        span = joined(*HISTORY, said(USER, "x", 9, whole=True, context=given))
        assert span.context.messages.value == ["all"]
        assert (span.context.tool_definitions.value, span.context.answer.value) == (["f"], "so")


class TestOutput:
    def test_a_plain_span_with_such_records_is_a_model_call(self) -> None:
        span = joined(said(CHOICE, "x", 3), span=plain("t", "m"))
        assert (span.role, span.dialect) == (Role.MODEL, "test")

    def test_what_only_names_the_session_makes_no_model_call(self) -> None:
        record = LogFacts("t", "m", "1", session_keys=(("session.id", "s"),), turn_id="turn")
        span = joined(record, span=plain("t", "m"))
        assert (span.role, span.model, span.turn_id) == (None, None, "turn")

    def test_several_answers_of_one_call_are_one_after_another(self) -> None:
        span = joined(said(CHOICE, "b", 4), said(CHOICE, "a", 3))
        assert span.model is not None
        assert [request.arguments.value["x"] for request in span.model.requests] == ["a", "b"]

    def test_what_is_said_in_one_piece_and_in_parts_counts_once(self) -> None:
        parts = said(CHOICE, "x", 3)
        span = joined(parts, replace(parts, identity="again", time=4), replace(parts, identity="all", whole=True))
        assert span.model is not None
        assert len(span.model.requests) == 1

    def test_an_agent_s_span_is_not_spoken_for(self) -> None:
        span = joined(said(CHOICE, "x", 3), said(USER, "hello", 1), span=agent("t", "m"))
        assert (span.role, span.model) == (Role.AGENT, None)
        assert span.context.user_text.value == "hello"


def run(span: str, start: float, call_id: str = "c", parent: str = "root") -> SpanFacts:
    return tool("t", span, parent, call_id=call_id, start=start, end=start + 0.5)


def told(number: int, time: float, span: str = "elsewhere", **more: Any) -> LogFacts:
    facts = {"arguments": captured({"n": number}), **more}
    return LogFacts("t", span, f"{number}", int(time * SECOND), tools=(ToolFacts("f", call_id="c", **facts),))


def calls(*records: Record) -> list[ToolCall]:
    (session,) = assemble([agent("t", "root", start=0, end=100), *records])
    return list(session.turns[0].calls)


class TestExecutions:
    def test_a_call_id_used_again_is_told_apart_by_time(self) -> None:
        found = calls(run("x", 1), run("y", 5), told(2, 5.6), told(1, 1.6))
        assert [call.arguments for call in found] == [{"n": 1}, {"n": 2}]

    def test_a_record_in_the_execution_s_own_span_is_about_that_one(self) -> None:
        found = calls(run("x", 1), run("y", 5), told(1, 99, span="x"))
        assert [call.arguments for call in found] == [{"n": 1}, None]

    def test_without_times_every_execution_of_that_id_may_be_meant(self) -> None:
        assert [call.arguments for call in calls(run("x", 1), run("y", 5), told(1, 0))] == [{"n": 1}, {"n": 1}]

    def test_layers_of_one_execution_lend_each_other_what_one_is_told(self) -> None:
        (call,) = calls(run("x", 1), run("y", 1.1, parent="x"), told(1, 1.6, error="boom"))
        assert (call.arguments, call.error) == ({"n": 1}, "boom")

    def test_results_in_the_history_are_not_told_again(self) -> None:
        """The next model call's input repeats the first result under the same id, before the model's own message."""
        first, second = said(TOOL, "c", 3 * SECOND, span="m2"), said(TOOL, "c", 7 * SECOND, span="m3")
        second = replace(second, tools=(ToolFacts("", call_id="c", result=captured("the second")),))
        history = said(TOOL, "c", 6 * SECOND, span="m3")
        models = [model("t", "m2", "root", start=3, end=4), model("t", "m3", "root", start=6, end=8)]
        own = said(OWN, "", 6 * SECOND + 1, span="m3")
        found = calls(run("x", 1), run("y", 5), *models, first, history, own, second)
        assert [call.result.value for call in found] == ["result of c", "the second"]

    def test_what_is_hidden_in_the_record_stays_hidden(self) -> None:
        (call,) = calls(run("x", 1), told(1, 2, argument_captures={"n": Capture.REDACTED}))
        assert call.argument_captures == {"n": Capture.REDACTED}


class TestSessions:
    def test_each_turn_of_a_batch_has_the_session_its_own_logs_name(self) -> None:
        spans = [plain("t", "batch", end=99), agent("t", "a", "batch"), agent("t", "b", "batch", start=10, end=20)]
        named = [LogFacts("t", span, span, session_keys=(("session.id", f"s-{span}"),)) for span in ("a", "b")]
        found = {(session.id, session.id_source, session.ambiguous) for session in assemble([*spans, *named])}
        assert found == {("s-a", "session.id", False), ("s-b", "session.id", False)}

    def test_a_log_elsewhere_in_the_trace_may_name_it(self) -> None:
        record = LogFacts("t", "never-seen", "1", session_keys=(("session.id", "s"),))
        (session,) = assemble([agent("t", "root"), record])
        assert session.id == "s"

    def test_logs_that_disagree_name_none(self) -> None:
        records = [LogFacts("t", "root", name, session_keys=(("session.id", name),)) for name in ("s-1", "s-2")]
        (session,) = assemble([agent("t", "root"), *records])
        assert (session.id, session.id_source, session.ambiguous) == ("t", "trace_id", True)


@given(
    st.lists(
        st.builds(
            said,
            st.sampled_from([USER, TOOL, OWN, CHOICE]),
            st.sampled_from(["c", "d"]),
            st.sampled_from([0, SECOND, 2 * SECOND, 3 * SECOND]),
            st.sampled_from(["m", "m2", "x", "root", "unseen"]),
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_spans_and_logs_and_their_repetition_never_matter(logs: Sequence[LogFacts], order: Any) -> None:
    spans = [
        agent("t", "root", start=0, end=9),
        model("t", "m", "root", start=1, end=2),
        run("x", 2),
        run("y", 2.5, call_id="d"),
        model("t", "m2", "root", start=3, end=4),
    ]
    records: list[Record] = [*spans, *logs]
    expected = assemble(records)
    shuffled = [*records, *order.sample(records, len(records) // 2)]
    order.shuffle(shuffled)
    assert assemble(shuffled) == expected


def test_content_is_nothing_where_nothing_was_said() -> None:
    assert joined(LogFacts("t", "m", "1")).context.user_text == Content()
