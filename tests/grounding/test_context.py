"""What was before a call: laws of the context, over sessions as mappers give them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring import Capture, Session, ToolCall, Turn
from goldspan.scoring.grounding.context import MAX_TEXT, SessionContext
from goldspan.scoring.grounding.conversation import Passage
from goldspan.scoring.metrics.grounding import ToolParameterGrounding, ground_arguments, why
from goldspan.scoring.sessions import Content
from goldspan.scoring.verdict import Finding, MetricScore, Reason
from rigs.span_facts import captured


def call(x: Any = "zzzz", **named: Any) -> ToolCall:
    return ToolCall(named.pop("name", "f"), {"x": x}, **named)


def asking(said: str, *calls: ToolCall, **named: Any) -> Turn:
    return Turn(calls, user_text=captured(said), **named)


def kinds(*turns: Turn, **named: Any) -> list[list[str]]:
    session = Session("s", turns, **named)
    return [[next((one.kind for one in why(session, call)), "") for call in turn.calls] for turn in turns]


def results(*turns: Turn) -> list[list[set[str]]]:
    """The tool results and texts that were before each call."""
    context = SessionContext(Session("s", turns))
    texts = [passage.text for passage in context.conversation.passages]
    return [[set(texts[: one.passages]) for one in calls] for calls in context.calls]


# What comes after a call.

timed = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 20), st.sampled_from([0, 0, 1, 2])).map(
        lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2])
    ),
    min_size=1,
    max_size=6,
)


@given(timed)
def test_results_count_once_they_ended_before_the_batch_began(times: list[tuple[int, int, int]]) -> None:
    calls = [
        ToolCall("f", {}, start=start, end=end, batch=batch, result=captured(f"result {index}"))
        for index, (start, end, batch) in enumerate(times)
    ]
    began = {
        index: min(other.start for other in calls if other is one or (one.batch and other.batch == one.batch))
        for index, one in enumerate(calls)
    }
    for index, known in enumerate(results(asking("hello", *calls))[0]):
        assert "hello" in known
        for other, one in enumerate(calls):
            seen = f"result {other}" in known
            together = other == index or (one.batch and one.batch == calls[index].batch)
            if one.end > began[index] or together:
                assert not seen
            elif one.end < began[index]:
                assert seen


@given(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=6))
def test_without_times_order_and_batch_tell(batches: list[int]) -> None:
    calls = [ToolCall("f", {}, batch=batch, result=captured(f"result {index}")) for index, batch in enumerate(batches)]
    firsts = [
        next(at for at, one in enumerate(batches) if at == index or (batch and one == batch))
        for index, batch in enumerate(batches)
    ]
    for index, known in enumerate(results(asking("hello", *calls))[0]):
        assert (
            known - {"hello"}
            == {
                f"result {other}"
                for other, first in enumerate(firsts)
                if first < firsts[index] and other < firsts[index]
            }
            | {
                f"result {other}"
                for other, first in enumerate(firsts)
                if first < firsts[index] and first != firsts[index]
            }
            & known
        )


def test_a_call_without_times_comes_after_those_before_it() -> None:
    first = call("a", start=10, end=20, result=captured("the code is zzzz"))
    later = call(call_id="c2", requested=True)
    assert kinds(asking("a", first, later)) == [["user", "tool_result"]]


def test_parallel_calls_that_began_and_ended_in_one_instant_do_not_know_each_other() -> None:
    twins = [call(f"{name}zzz", start=5, end=5, batch=1, result=captured("azzz bzzz")) for name in "ab"]
    assert kinds(asking("go", *twins)) == [["none", "none"]]


sessions = st.lists(
    st.tuples(
        st.sampled_from(["alpha", "beta", "gamma 77", "delta", "zzzz"]),
        st.lists(
            st.tuples(
                st.sampled_from(["alpha", "beta", 77, "omega", "zzzz"]), st.sampled_from(["omega", "77 100", "zzzz"])
            ),
            max_size=3,
        ),
        st.sampled_from(["omega", "done", "zzzz 100"]),
    ),
    min_size=1,
    max_size=4,
)


def built(drawn: Any) -> list[Turn]:
    return [
        asking(said, *(call(x, result=captured(result)) for x, result in calls), answer=captured(answer))
        for said, calls, answer in drawn
    ]


@given(sessions, sessions)
def test_later_turns_change_nothing_of_earlier_calls(before: Any, after: Any) -> None:
    def found(turns: list[Turn]) -> list[list[tuple[Finding, ...]]]:
        session = Session("s", tuple(turns))
        return [[why(session, one) for one in turn.calls] for turn in turns]

    assert found([*built(before), *built(after)])[: len(before)] == found(built(before))


def test_what_an_agent_said_counts_once_a_person_answered() -> None:
    offered = asking("help", call(result=captured("ok")), answer=captured("shall I use zzzz?"))
    assert kinds(offered, asking("yes", call())) == [["none"], ["assistant"]]
    resumed = Turn((call(),), messages=captured([{"role": "user", "content": "help"}]))
    assert kinds(offered, resumed) == [["none"], ["none"]]


@pytest.mark.parametrize(
    "used",
    [
        {"role": "assistant", "content": "I will use zzzz"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"x": "zzzz"}'}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": "zzzz"}}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"x": "zzzz"}}}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": "zzzz"}'},
    ],
)
def test_an_agents_own_use_of_a_value_does_not_ground_it(used: dict[str, Any]) -> None:
    history: list[Any] = [{"role": "user", "content": "go"}, used]
    for messages in (history, json.dumps(history), {"messages": history}):
        turn = Turn((call(call_id="c1"), call(call_id="c2", name="g")), messages=captured(messages))
        assert kinds(turn)[0][0] == "none"


def test_a_result_in_the_messages_counts_once_its_call_ended() -> None:
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "the code is zzzz"},
    ]
    first, second = call(call_id="c1", start=1, end=2), call(call_id="c2", start=3, end=4)
    session = Session("s", (Turn((first, second), messages=captured(history)),))
    assert [why(session, one)[0].kind for one in (first, second)] == ["none", "tool_result"]
    assert why(session, second)[0].message == "literal, result of f (call 1)"


def test_what_a_person_wrote_beside_a_result_is_theirs() -> None:
    content = [{"type": "tool_result", "tool_use_id": "c0", "content": "ok"}, {"type": "text", "text": "use zzzz"}]
    assert kinds(Turn((call(),), messages=captured([{"role": "user", "content": content}]))) == [["user"]]


# What was not captured.


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([asking("hi", call())], "none"),
        ([asking("hi", call("other")), asking("hi", call())], "unknown"),
        ([asking("hi", call("other", requested=True)), asking("ho", call())], "none"),
        ([asking("hi", call("other", requested=True), call())], "unknown"),
        ([asking("hi", call("other", rejected=True)), asking("ho", call())], "none"),
        ([asking("hi", call("other", error="E")), asking("ho", call())], "unknown"),
        ([asking("hi", call("other", error="did you mean zzzz?")), asking("ho", call())], "tool_result"),
        ([Turn(), asking("hi", call())], "unknown"),
        ([asking("hi", calls_visible=False), asking("ho", call())], "unknown"),
        ([asking("hi", call(), messages=Content("[REDACTED]", Capture.REDACTED))], "unknown"),
        ([asking("hi", call(), messages=Content("[", Capture.TRUNCATED))], "unknown"),
        ([asking("hi", call(), messages=captured('[{"role": "user'))], "unknown"),
        ([Turn((call(),), messages=captured("a prompt without roles"))], "none"),
        ([Turn((call(),), messages=captured("use zzzz"))], "user"),
        ([asking("hi" + " x" * MAX_TEXT, call())], "unknown"),
    ],
)
def test_unknown_is_not_wrong(turns: list[Turn], expected: str) -> None:
    assert kinds(*turns)[-1][-1] == expected


def test_a_conversation_that_is_too_long_says_so() -> None:
    long = Session("s", (asking("hi" + " x" * MAX_TEXT, call()),))
    (turn,) = ToolParameterGrounding()(long).turns
    assert isinstance(turn, MetricScore)
    (judged,) = turn.calls
    assert isinstance(judged, MetricScore)
    assert judged.findings[0].message == (
        "the conversation is longer than the 1,048,576 characters that are read of one session"
    )


def test_an_incomplete_session_finds_nothing_and_still_knows_what_was_said() -> None:
    assert kinds(asking("use abcd", call(), call("abcd")), incomplete=True) == [["unknown", "user"]]


def test_a_call_is_not_judged_without_anything_before_it() -> None:
    score = ToolParameterGrounding()(
        Session("s", (Turn((call(), call(rejected=True), ToolCall("f", None, capture=Capture.REDACTED))),))
    )
    (turn,) = score.turns
    assert isinstance(turn, MetricScore)
    reasons = [one.reason for one in turn.calls if isinstance(one, MetricScore)]
    assert reasons == [Reason.INPUT_MISSING, Reason.NOTHING_EXPECTED, Reason.ARGUMENTS_REDACTED]


def test_the_score_is_the_share_of_judged_values() -> None:
    made = ToolCall(
        "f", {"a": "paris", "b": "zzzz", "c": True, "d": "hidden"}, argument_captures={"d": Capture.REDACTED}
    )
    score = ToolParameterGrounding()(Session("s", (asking("to Paris", made),)))
    assert (score.score, score.explanation) == (
        0.5,
        "1 of 2 values; f.b: comes from nowhere before the call",
    )
    assert "zzzz" in score.detailed
    assert "zzzz" not in score.explanation


# Laws over passages.

values = st.sampled_from(
    [
        "paris",
        "Paris, Fr",
        1500,
        12,
        "2024-05-16",
        "15:30",
        "order_17",
        "abcdefgh",
        0.25,
        "new york",
        "W77-18",
        "abcd efgh ijkl",
        75,
    ]
)
passages = st.lists(
    st.builds(
        Passage,
        st.sampled_from(["user", "tool_result", "system", "assistant"]),
        st.sampled_from(
            ["paris", "to PARIS in 2024", "one thousand five hundred", "a dozen", "may 16", "tomorrow", "2024-05-15",
             "half past three", "order 17", '{"order": 17}', "abcd", "efgh", "a quarter", "NY", "New  York", "W77",
             "18 and 57", "ijkl", "25 hours"]
        ),
    ),
    max_size=5,
)  # fmt: skip
_OPEN = ("none", "unknown")


@given(values, passages, passages, passages)
def test_another_passage_never_takes_an_origin_away(value: Any, one: Any, other: Any, between: Any) -> None:
    (before,) = ground_arguments({"x": value}, [*one, *other])
    (after,) = ground_arguments({"x": value}, [*one, *between, *other])
    if before.kind not in _OPEN:
        assert after.kind not in _OPEN


@given(values, passages, st.randoms())
def test_the_order_of_passages_does_not_matter(value: Any, said: list[Passage], random: Any) -> None:
    shuffled = list(said)
    random.shuffle(shuffled)
    (one,), (other,) = (ground_arguments({"x": value}, each) for each in (said, shuffled))
    assert one.failed is other.failed


def wide(written: str) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in written)


@given(
    st.text(st.sampled_from("abcxyz019 -_."), min_size=1, max_size=20),
    st.sampled_from([str.upper, str.title, wide]),
    st.sampled_from([" ", "  ", "\n", "\t", "\u00a0"]),
)
def test_normalisation_changes_no_origin(written: str, change: Any, space: str) -> None:
    said = f"please use {written} now"
    changed = change(said).replace(" ", space)
    for value in (written, change(written)):
        (one,), (other,) = (ground_arguments({"x": value}, [Passage("user", each)]) for each in (said, changed))
        assert one.failed is other.failed is False


@pytest.mark.parametrize("words", ["a b", "b a", "a a b"])
def test_a_phrase_is_found_among_thousands_of_its_words(words: str) -> None:
    noise = Passage("user", " ".join(["a c"] * 3000 + ["b c"] * 3000))
    (absent,) = ground_arguments({"x": f"{words} #17_"}, [noise])
    (found,) = ground_arguments({"x": words}, [noise, Passage("tool_result", f"x {words} y")])
    assert absent.failed
    assert found.kind in ("tool_result", "derived")


# Anything that a sender may write.

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=4)
    | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=4), anything, max_size=4),
    anything,
    anything,
    st.dictionaries(
        st.sampled_from(["properties", "description", "enum", "default", "$ref", "anyOf"]), anything, max_size=3
    ),
)
def test_nothing_raises(arguments: dict[str, Any], said: Any, messages: Any, about: dict[str, Any]) -> None:
    session = Session(
        "s",
        (
            Turn(
                (ToolCall("f", arguments, result=captured(said)), ToolCall("f", arguments)),
                user_text=captured(said),
                messages=captured(messages),
            ),
        ),
    )
    tools = {"f": {"properties": dict.fromkeys(arguments, about), **about}}
    ToolParameterGrounding(tools=tools)(session)
    for one in why(session, session.turns[0].calls[1], tools=tools):
        (one.message + one.detailed).encode()


def nested(depth: int, make: Callable[[Any], Any]) -> Any:
    value: Any = "zzzz"
    for _ in range(depth):
        value = make(value)
    return value


HOSTILE: list[Any] = [
    10**5000,
    -(10**400),
    2**70,
    1e308,
    float("nan"),
    float("-inf"),
    "\ud800x1",
    "9" * 5000,
    "1" * 200_000,
    "a1" * 100_000,
    "x " * 100_000,
    "may" + " " * 100_000 + "5",
    "1x10^999",
    f"{10**320}/{10**5}",
    "hundred " * 3000,
    "in 99999999999999999 days",
    nested(5000, lambda inner: [inner]),
    nested(5000, lambda inner: {"a": inner}),
    nested(400, lambda inner: {"parts": inner}),
    nested(400, lambda inner: {"messages": [inner]}),
    ["y1"] * 50_000,
    {f"k{number}": number for number in range(20_000)},
    b"\xff",
    {1: 2},
    {1, 2},
]


@pytest.mark.parametrize(
    "hostile", HOSTILE, ids=lambda value: f"{type(value).__name__} {str(value)[:12] if isinstance(value, str) else ''}"
)
def test_hostile_values_are_judged_quickly(hostile: Any) -> None:
    began = time.process_time()
    for said in ("zzzz 2024-05-05", hostile):
        session = Session(
            "s",
            (
                asking(
                    said,
                    call(hostile, result=captured(hostile), start=1, end=2),
                    call(hostile, start=3),
                    messages=captured(hostile),
                ),
            ),
        )
        ToolParameterGrounding()(session)
        ToolParameterGrounding(
            tools={"f": {"properties": {"x": {"description": hostile, "enum": [hostile], "default": hostile}}}}
        )(session)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "hostile", [value for value in HOSTILE if not isinstance(value, set)], ids=lambda value: type(value).__name__
)
def test_why_answers_for_hostile_values(hostile: Any) -> None:
    session = Session("s", (asking("zzzz", call(hostile, result=captured(hostile)), call("zzzy")),))
    for one in session.turns[0].calls:
        for finding in why(session, one):
            (finding.message + finding.detailed).encode()


# Why.


def test_why_names_the_call_and_the_place_in_its_result() -> None:
    result = {"orders": [{"id": "#W1"}, {"id": "#W2"}, {"id": "#W2890441", "total": 77.5}], "note": "ask for mr smith"}
    details = ToolCall("get_user_details", {"user": "u_17"}, result=captured(json.dumps(result)))
    refund = ToolCall(
        "refund", {"order_id": "#W2890441", "amount": 77.5, "name": "smith", "other": "#W2890442", "ok": True}
    )
    session = Session("s", (asking("I am u_17", details, refund),))
    assert [one.detailed for one in why(session, refund)] == [
        '"#W2890441": literal, result of get_user_details (call 1), /orders/2/id',
        "77.5: literal, result of get_user_details (call 1), /orders/2/total",
        '"smith": literal, result of get_user_details (call 1), /note',
        '"#W2890442" comes from nowhere before the call: '
        "nearest is #W2890441 in result of get_user_details (call 1), /orders/2/id",
        "true: trivial",
    ]
    assert why(session, details)[0].detailed == '"u_17": literal, user message 1'
    assert all("/orders" not in one.message and "2890" not in one.message for one in why(session, refund))
    with pytest.raises(ValueError, match="no such call of f"):
        why(session, call())


@given(sessions)
def test_why_agrees_with_the_metric(drawn: Any) -> None:
    session = Session("s", tuple(built(drawn)))
    score = ToolParameterGrounding()(session)
    for turn, judged in zip(session.turns, score.turns, strict=True):
        assert isinstance(judged, MetricScore)
        for one, scored in zip(turn.calls, judged.calls, strict=True):
            assert isinstance(scored, MetricScore)
            assert [(each.path, each.kind, each.message) for each in why(session, one)] == [
                (each.path, each.kind, each.message) for each in scored.findings
            ]
