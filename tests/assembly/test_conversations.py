"""Turns, batches and failures as the conversation tells them (R7, R8, R12)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.runs import DEFAULT_ASSEMBLY, SessionTurns
from goldspan.mappers.assembly.trace_tree import TraceTree
from goldspan.mappers.assembly.turn_fragments import Beyond, fragments_of
from goldspan.mappers.span_facts import ContextFacts, RequestEvidence, SpanEvidence, SpanFacts, value_digest
from goldspan.scoring.sessions import ToolCall, UserMessages
from rigs.span_facts import agent, captured, model, plain, tool

TAKEN = "the table is taken"


def turns(records: list[SpanFacts]) -> list[list[str]]:
    return [[call.name for call in turn.calls] for session in assemble(records) for turn in session.turns]


def calls(records: list[SpanFacts]) -> list[ToolCall]:
    return [call for session in assemble(records) for turn in session.turns for call in turn.calls]


def heard(*users: str) -> SpanEvidence:
    return SpanEvidence(users=users)


def voice_session(*said: tuple[str, ...], turn_id: str | None = None) -> list[SpanFacts]:
    """A workflow over agents, each with one model call, which was given these user messages, and one tool call."""
    records = [agent("t", "session", end=99)]
    for number, users in enumerate(said):
        start = 1 + 10 * number
        records += [
            agent("t", f"a{number}", "session", start=start, end=start + 9, turn_id=turn_id),
            model("t", f"m{number}", f"a{number}", start=start + 1, evidence=heard(*users), user=True),
            tool("t", f"t{number}", f"a{number}", name=f"f{number}", start=start + 3),
        ]
    return records


def test_a_workflow_over_a_conversation_is_as_many_turns_as_its_user_spoke() -> None:
    assert turns(voice_session(("a",), ("a", "b"), ("a", "b", "c"))) == [["f0"], ["f1"], ["f2"]]


@pytest.mark.parametrize(
    "said", [[("a",), ("a",)], [("a",), ("b",)], [("a",), ("a", "b"), ("a",)], [("a",), ()]], ids=str
)
def test_a_workflow_whose_agents_hand_one_task_on_is_one_turn(said: list[tuple[str, ...]]) -> None:
    assert turns(voice_session(*said)) == [[f"f{number}" for number in range(len(said))]]


def test_an_agent_over_its_steps_is_one_turn() -> None:
    """Each but the last ends with requests, whose results the next one is given in the user's name: smolagents."""
    steps = voice_session(("a",), ("a", "b"), ("a", "b", "c"))
    requests = (RequestEvidence("f0", "c-0"),)
    asking = [replace(one, evidence=replace(one.evidence, requests=requests)) for one in steps if one.span_id == "m0"]
    assert turns([*(one for one in steps if one.span_id != "m0"), *asking]) == [["f0", "f1", "f2"]]


def test_an_agent_that_calls_models_itself_is_one_turn_whatever_its_sub_agents_are_told() -> None:
    own = model("t", "own", "session", start=1, end=2, evidence=heard("x"))
    assert turns([*voice_session(("a",), ("a", "b")), own]) == [["f0", "f1"]]


def test_the_dialects_own_turn_id_wins_over_what_users_said() -> None:
    assert turns(voice_session(("a",), ("a", "b"), turn_id="one")) == [["f0", "f1"]]


@pytest.mark.parametrize(("trace", "expected"), [("t", 1), ("u", 1)], ids=["one trace", "two traces"])
def test_a_message_that_a_framework_adds_while_a_tool_is_awaited_begins_no_turn(trace: str, expected: int) -> None:
    def said(total: int, earlier: int) -> UserMessages:
        return UserMessages(earlier, total)

    first = model("t", "m1", "r" if trace == "t" else "", session="s", user=True, start=1, evidence=heard("a"))
    first = first.changed(model=model("", "", user=True, user_messages=said(1, 0)).model)
    injected = model(
        trace, "m2", "r" if trace == "t" else "", session="s", start=5, user=True, user_messages=said(2, 1)
    ).changed(evidence=heard("a"))
    again = injected.changed(span_id="m3", start=9, model=model("", "", user=True, user_messages=said(3, 1)).model)
    root = [plain("t", "r", end=20)] if trace == "t" else []
    assert len(turns([*root, first, injected])) == expected
    assert len(turns([*root, first, injected, again.changed(evidence=heard("a", "b"))])) == expected + 1


def test_the_same_message_to_a_model_without_history_is_another_turn() -> None:
    def one(number: int) -> SpanFacts:
        counts = UserMessages(0, 1)
        return model("t", f"m{number}", "r", user=True, start=number, user_messages=counts, evidence=heard("a"))

    assert len(turns([plain("t", "r", end=20), one(1), one(5)])) == 2


GUARD, AGENT = "is this safe?", "you book tables"


@pytest.mark.parametrize("apart", [False, True], ids=["one trace", "a trace each"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([(GUARD, "a"), (AGENT, "a"), (GUARD, "b"), (AGENT, "a", "b")], 2),
        ([(AGENT, "a"), (AGENT, "a", "b"), ("write a title", "a")], 2),
        ([(GUARD, "a"), (AGENT, "a"), (GUARD, "a"), (AGENT, "a", "a")], 2),
        ([(AGENT, "a"), (AGENT, "b")], 2),
        ([(AGENT, "a"), ("help", "x: a"), ("help", "y: a")], 1),
        ([("now it is one", "a", "b"), ("now it is two", "a", "b", "b")], 2),
    ],
    ids=["guards", "a title", "the same words again", "another question", "a helper twice", "the time told"],
)
def test_a_model_that_the_system_tells_something_else_begins_no_turn(
    given: list[tuple[str, ...]],
    expected: int,
    apart: bool,
) -> None:
    records: list[SpanFacts] = []
    for number, (system, *users) in enumerate(given):
        trace, parent = (f"t{number}", "") if apart else ("t", "r")
        evidence = SpanEvidence(users=tuple(users), system=system, answers=True)
        context = ContextFacts(user_text=captured(users[-1]))
        records.append(
            model(
                trace, f"m{number}", parent, start=5 * number + 1, end=5 * number + 3, user=True, session="s"
            ).changed(evidence=evidence, context=context)
        )
    assert len(turns(records if apart else [plain("t", "r", end=99), *records])) == expected


@pytest.mark.parametrize("start", [1, 40], ids=["before", "after"])
def test_a_guard_in_a_trace_of_its_own_is_of_the_turn_of_its_agent(start: int) -> None:
    def asked(trace: str, parent: str, start: int, system: str) -> SpanFacts:
        one = model(trace, f"{trace}-m", parent, start=start, end=start + 2, user=True, session="s")
        evidence = SpanEvidence(users=("a",), system=system, answers=True)
        return one.changed(evidence=evidence, context=ContextFacts(user_text=captured("a")))

    run = [
        agent("t", "r", start=10, end=30, session="s"),
        asked("t", "r", 11, AGENT),
        tool("t", "f", "r", name="f", start=15),
    ]
    [session] = assemble([asked("u", "", start, GUARD), *run])
    [turn] = session.turns
    assert ([call.name for call in turn.calls], turn.root) == (["f"], run[0].ref)


@pytest.mark.parametrize(("status", "expected"), [(None, 2), ("overloaded", 1)])
def test_a_model_call_that_failed_and_is_made_again_begins_no_turn(status: str | None, expected: int) -> None:
    evidence = SpanEvidence(users=("a",), system=AGENT, status=status)
    first = model("t", "m1", session="s", user=True, start=1, end=2).changed(evidence=evidence)
    assert len(turns([first, first.changed(trace_id="u", span_id="m2", start=5, end=6)])) == expected


@pytest.mark.parametrize(("first", "second", "expected"), [(False, True, 1), (True, True, 2), (False, False, 2)])
def test_a_streamed_answer_on_a_span_of_its_own_begins_no_turn(first: bool, second: bool, expected: int) -> None:
    """Logfire writes how a stream ended on another span than the call, with all that the model was told."""
    begun, ended = (
        model("t", f"m{n}", "main", user=True, start=n, evidence=SpanEvidence(users=("a",), system=AGENT, answers=said))
        for n, said in ((1, first), (5, second))
    )
    assert len(turns([plain("t", "main", start=0, end=9), begun, ended])) == expected


@pytest.mark.parametrize(("start", "expected"), [(2, 1), (4, 2)], ids=["meanwhile", "later"])
def test_a_model_call_that_two_instrumentations_write_begins_one_turn(start: int, expected: int) -> None:
    evidence = SpanEvidence(users=("a",), system=AGENT, answers=True)
    first = model("t", "m1", session="s", user=True, start=1, end=3).changed(evidence=evidence)
    times = model("t", "m2", "r", start=start, end=start + 2)
    second = first.changed(span_id="m2", start=times.start, end=times.end, version=times.version)
    assert (
        len(turns([plain("t", "r", end=99), first.changed(parent_id="r"), second.changed(parent_id="r")])) == expected
    )


def test_a_request_that_another_span_repeats_is_one_call() -> None:
    asked = ("f", {"x": 1}, "c1")
    records = [
        agent("t", "r", end=99),
        model("t", "m1", "r", start=1, end=2, requests=(asked,)),
        tool("t", "f1", "r", name="f", start=3, args={"x": 1}, call_id="c1"),
        model("t", "m2", "r", start=4, end=5, requests=(asked,), answered={"c1": False}),
    ]
    assert turns(records) == [["f"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"agent_name": "booker"}, []), ({"to_agent": "b"}, []), ({"why": "angry"}, ["handoff"])],
)
def test_a_hand_off_names_an_agent(arguments: dict[str, str], expected: list[str]) -> None:
    assert turns([agent("t", "r", end=9), tool("t", "h", "r", name="handoff", start=2, args=arguments)]) == [expected]


# Failures.


def booking(number: int, error: str | None = TAKEN, **facts: object) -> SpanFacts:
    status = None if error is None else value_digest(error)
    evidence = SpanEvidence(failed=False if "result" in facts else None, status=status)
    times = {"start": number, "end": number + 1}
    return tool("t", f"b{number}", "root", name="book", **times, error=error, facts=facts, evidence=evidence)


def test_a_status_that_is_copied_over_a_span_with_a_result_is_no_failure() -> None:
    found = calls([agent("t", "root", end=99), booking(1), booking(5, result=captured("booked"))])
    assert [call.error for call in found] == [TAKEN, None]


@pytest.mark.parametrize(
    "second",
    [
        booking(5),
        booking(5, result=captured("booked"), error_is_named=True),
        booking(5, "another reason", result=captured("booked")),
        booking(5, result=captured("booked")).changed(evidence=SpanEvidence(failed=True, status=value_digest(TAKEN))),
        booking(5, result=captured("booked")).changed(
            evidence=SpanEvidence(failed=False, names_error=True, status=value_digest(TAKEN))
        ),
    ],
    ids=["no result", "an attribute", "another status", "the result names an error", "an own attribute"],
)
def test_a_failure_that_anything_else_tells_stays_one(second: SpanFacts) -> None:
    found = calls([agent("t", "root", end=99), booking(1), second])
    assert all(call.error for call in found)


def test_what_a_span_names_itself_or_the_next_model_saw_is_a_failure() -> None:
    named = tool("t", "x", "root", name="x", start=1, evidence=SpanEvidence(names_error=True))
    seen = tool("t", "y", "root", name="y", start=2, call_id="c-1")
    fine = tool("t", "z", "root", name="z", start=3, call_id="c-2")
    after = model("t", "m", "root", start=5, answered={"c-1": True, "c-2": False})
    found = calls([agent("t", "root", end=99), named, seen, fine, after])
    assert [call.error for call in found] == ["error", "error", None]


# Arguments in an envelope that no table names.


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"input": {"people": 2}, "run": "x"}, {"people": 2}),
        ({"tool": {"call": {"people": 2}}}, {"people": 2}),
        ({"input": '{"people": 2}'}, {"people": 2}),
        ({"input": {"people": 3}}, {"input": {"people": 3}}),
        ({"people": 3}, {"people": 3}),
    ],
)
def test_arguments_are_taken_out_of_an_envelope_around_those_that_were_requested(
    written: dict[str, object], read: dict[str, object]
) -> None:
    asked = model("t", "m", "root", requests=(("book", {"people": 2}, "c-1"),))
    (call,) = calls([agent("t", "root", end=99), asked, tool("t", "x", "root", name="book", args=written, start=5)])
    assert call.arguments == read


# A turn whose spans are in traces of their own: the context was not passed on.


def alone(span: SpanFacts, number: int) -> SpanFacts:
    return span.changed(trace_id=f"t{number}", parent_id="", session_keys=(("gen_ai.conversation.id", "s"),))


def test_what_runs_while_an_agent_of_the_session_runs_is_its_turn() -> None:
    ran = [
        agent("t", "root", start=0, end=9),
        model("t", "m1", start=1, end=2, user=True),
        booking(3, None),
        model("t", "m2", start=5, end=6, user=True),
        booking(7, None),
    ]
    apart = [alone(span, number) for number, span in enumerate(ran)]
    assert len(turns(apart)) == 1
    assert len(calls(apart)) == 2
    later = agent("t", "other", start=20, end=29)
    assert len(turns([*apart, alone(later, 8), alone(model("t", "m3", start=30, end=31, user=True), 9)])) == 3
    busy = model("t0", "inner", "root", start=1, end=8)
    assert len(turns([*apart, busy])) > 1, "it has model calls of its own"


def test_a_request_that_an_agent_or_another_trace_repeats_is_one() -> None:
    asked = (("book", {"seat": 1}, "c1"),)
    above = agent("t", "root", start=0, end=9).changed(model=model("t", "x", requests=asked).model)
    shaped = model("t", "m0", start=1, end=3, requests=asked).changed(dialect="shape")
    spoken = model("t", "m1", start=2, end=3, requests=asked)
    ran = tool("t", "b", name="book", args={"seat": 1}, call_id="c1", start=4, end=5)
    found = calls([alone(span, number) for number, span in enumerate([above, shaped, spoken, ran])])
    assert [(call.call_id, call.requested) for call in found] == [("c1", False)]


PLAN = "find a table, then book it"


@pytest.mark.parametrize("apart", [False, True], ids=["one trace", "a trace each"])
@pytest.mark.parametrize(
    ("wrote", "asks", "told", "expected"),
    [(PLAN, False, PLAN, 1), (PLAN, False, "something else", 2), ("", True, "observation: 7", 1), ("", False, "b", 2)],
)
def test_what_a_model_wrote_or_asked_for_in_its_text_is_no_message_of_a_user(
    wrote: str, told: str, expected: int, *, asks: bool, apart: bool
) -> None:
    answered = SpanEvidence(users=("a",), answers=True, wrote=wrote, asks_in_text=asks)
    first = model("t", "m1", "" if apart else "r", session="s", user=True, start=1, end=2).changed(evidence=answered)
    then = model("u" if apart else "t", "m2", first.parent_id, session="s", user=True, start=3, end=4)
    spans = [first, then.changed(evidence=heard(told))]
    assert len(turns(spans if apart else [plain("t", "r", end=9), *spans])) == expected


def test_a_message_behind_a_result_begins_a_turn_where_it_is_another_request() -> None:
    """The last call of a turn was its answer; the next one has a trace with a root of its own."""
    first = model("t", "m1", "r", session="s", user=True, start=1, user_messages=UserMessages(0, 1))
    then = model("u", "m2", "q", session="s", user=True, start=11, user_messages=UserMessages(1, 2))
    spans = [
        *(plain("t", "r", end=9), plain("u", "q", start=10, end=19)),
        *(first.changed(evidence=heard("a")), then.changed(evidence=heard("a"))),
        tool("u", "f", "q", name="f", start=15, session="s"),
    ]
    assert turns(spans) == [[], ["f"]]


def task(name: str, start: float, system: str, *users: str, trace: str = "", **evidence: object) -> SpanFacts:
    """A model call that begins a task; the whole conversation is one trace, or each call is one of its own."""
    said = SpanEvidence(users=users, system=system, answers=True, **evidence)  # type: ignore[arg-type]
    one = model(trace or "t", name, "" if trace else "r", session="s", user=True, start=start, end=start + 1)
    return one.changed(evidence=said, context=ContextFacts(user_text=captured(users[-1])))


ASKED = (RequestEvidence("f", "c1", ""),)


@pytest.mark.parametrize(
    ("first", "second", "doubted"),
    [
        (task("m1", 1, AGENT, "a"), task("m2", 5, AGENT, "b"), False),
        (task("m1", 1, AGENT, "a"), task("m2", 5, "sum up", "b"), True),
        (task("m1", 1, AGENT, "a", trace="u"), task("m2", 5, "sum up", "b", trace="v"), True),
        (task("m1", 1, AGENT, "a", requests=ASKED), task("m2", 5, AGENT, "summary"), True),
        (task("m1", 1, AGENT, "a"), task("m2", 5, AGENT, "a"), True),
        (task("m1", 1, AGENT, "a", requests=ASKED), task("m2", 5, AGENT, "a"), True),
        (task("m1", 1, AGENT, "a", requests=ASKED), task("m2", 5, "bob", "a", requests=ASKED), True),
        (task("m1", 1, "now it is one", "a"), task("m2", 5, "now it is two", "a", "b"), False),
        (task("m1", 1, AGENT, "a", "b"), task("m2", 5, AGENT, "b", "c"), False),
        (task("m1", 1, AGENT, "a", "sum up"), task("m2", 5, AGENT, "a", "b"), True),
        (task("m1", 1, AGENT, "a", "b", requests=ASKED), task("m2", 5, AGENT, "a", "c"), False),
        (task("m1", 1, AGENT, "a", "b"), task("m2", 5, AGENT, "a", "b", "c"), False),
    ],
    ids=[
        *("another question", "another task", "in a trace of its own", "no answer yet", "asked again", "asked anew"),
        *("two speakers", "the time told", "trimmed", "forgotten", "changed after calls", "the next question"),
    ],
)
def test_two_turns_may_be_one_of_several_tasks(first: SpanFacts, second: SpanFacts, *, doubted: bool) -> None:
    above = [plain("t", "r", end=20)] if first.parent_id else []
    [session] = assemble([*above, first, second])
    found = ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns]
    assert found == [doubted] * 2


@pytest.mark.parametrize(
    ("first", "second", "doubted"),
    [
        (task("m1", 1, AGENT, "a"), task("m2", 5, "route", "a"), True),
        (task("m1", 1, AGENT, "a", wrote="x"), task("m2", 5, "polish", "x"), True),
        (task("m1", 1, AGENT, "a"), task("m2", 5, AGENT, "a"), False),
        (task("m1", 1, AGENT, "a", wrote="x"), task("m2", 5, "sum up", "b"), False),
        (task("m1", 1, AGENT, "a", "b"), task("m2", 5, "route", "b"), True),
        (task("m1", 1, "route", "b"), task("m2", 5, AGENT, "a", "b"), True),
        (task("m1", 1, "bob", "a", "b"), task("m2", 5, "eve", "a", "b", "b"), False),
        (task("m1", 1, "now it is one", "b"), task("m2", 5, "now it is two", "b", "b"), False),
        (task("m1", 1, AGENT, "a", "sum up"), task("m2", 5, AGENT, "a", "b", requests=ASKED), True),
    ],
    ids=[
        *("told the same", "told the other's answer", "asked again", "told something else"),
        *("told the last message", "told the history too", "told the same once more", "told it twice", "forgotten"),
    ],
)
def test_runs_of_agents_may_be_steps_of_a_program(first: SpanFacts, second: SpanFacts, *, doubted: bool) -> None:
    above = [agent("t", f"a{number}", session="s", start=start, end=start + 2) for number, start in ((1, 1), (2, 5))]
    runs = [one.changed(parent_id=root.span_id) for one, root in zip((first, second), above, strict=True)]
    [session] = assemble([*above, *runs])
    found = ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns]
    assert found == [doubted] * 2


@pytest.mark.parametrize(("prompt", "doubted"), [("Sum up: A table for two.", True), ("A table for three.", False)])
def test_a_prompt_around_an_answer_may_be_a_step_of_a_program(prompt: str, *, doubted: bool) -> None:
    answered = task("m1", 1, AGENT, "a", wrote="x", trace="u").changed(
        context=ContextFacts(user_text=captured("a"), answer=captured("A table for two."))
    )
    told = task("m2", 5, AGENT, "b", trace="v").changed(context=ContextFacts(user_text=captured(prompt)))
    [session] = assemble([answered, told])
    found = ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns]
    assert found == [doubted] * 2


@pytest.mark.parametrize(
    ("users", "doubted"), [(["Find a table"], True), (["Find a tablet"], False), (["A table", "Find a table"], False)]
)
def test_a_step_of_a_plan_may_be_no_turn(users: list[str], *, doubted: bool) -> None:
    """A user who takes up what the answer says has said something before that.

    The agent has the answer, and the last of its model calls says nothing of what it was told.
    """
    first, second = (agent("t", f"a{start}", session="s", start=start, end=start + 3) for start in (1, 5))
    first = first.changed(context=ContextFacts(answer=captured('{"steps": ["Find a table", "Book it"]}')))
    planned = task("m1", 1, "Plan.", "A table").changed(parent_id="a1")
    inner = model("t", "m1b", "m1", session="s", start=1.5, end=2)
    told = task("m2", 5, AGENT, *users, requests=ASKED).changed(parent_id="a5")
    [session] = assemble([first, second, planned, inner, told])
    found = ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns]
    assert found == [doubted] * 2


def test_an_agent_that_is_known_to_be_the_same_goes_on() -> None:
    for names, doubted in (("ab", True), ("aa", False)):
        roots = [
            agent("t", f"a{start}", session="s", start=start, end=start + 2, agent=name)
            for start, name in zip((1, 5), names, strict=True)
        ]
        runs = [
            task("m1", 1, AGENT, "a").changed(parent_id="a1"),
            task("m2", 5, "route", "a").changed(parent_id="a5"),
        ]
        [session] = assemble([*roots, *runs])
        assert ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns] == [doubted] * 2


TABLE = "A table for two, please"


def beside_an_agent(start: float, end: float, system: str, told: str, *, turn: str = TABLE) -> list[SpanFacts]:
    """One agent that calls a tool, and a run that asks for nothing, in traces of their own and with one name."""
    names = ("one", 10, 20), ("other", start, end)
    roots = [agent(name, "r", session="s", agent="chat", start=at, end=until) for name, at, until in names]
    asking = task("m1", 10.5, AGENT, turn, trace="one", requests=ASKED).changed(parent_id="r")
    writing = task("m2", start + 0.5, system, told, trace="other").changed(parent_id="r")
    return [*roots, asking, tool("one", "f", "r", session="s", name="f", call_id="c1", start=13), writing]


TITLE = f"Write a title for: {TABLE}"


@pytest.mark.parametrize(("start", "end"), [(9, 12), (11, 12), (15, 25)])
def test_what_runs_at_once_and_asks_for_nothing_is_no_turn(start: float, end: float) -> None:
    """A program has a title written while its agent works."""
    assert turns(beside_an_agent(start, end, "", TITLE)) == [["f"]]
    assert len(turns(beside_an_agent(start, end, "", "What is the time?"))) == 2, "told something else"


@pytest.mark.parametrize(
    ("start", "system", "told", "doubted"),
    [
        (1, "Is it safe?", TABLE, True),
        (30, "", TITLE, True),
        (30, AGENT, TITLE, True),
        (30, AGENT, "Thanks", False),
    ],
    ids=["a guard", "a title", "a title by the same agent", "the next message"],
)
def test_an_agent_that_asks_for_nothing_may_be_a_step(start: float, system: str, told: str, *, doubted: bool) -> None:
    [session] = assemble(beside_an_agent(start, start + 2, system, told))
    found = ["another_task" in {doubt.code for doubt in turn.doubts} for turn in session.turns]
    assert found == [doubted] * 2


def test_what_a_program_runs_between_two_turns_may_be_of_either() -> None:
    spans = [task("m1", 1, AGENT, "a"), tool("t", "f", "r", name="f", start=4), task("m2", 7, AGENT, "a", "b")]
    [session] = assemble([plain("t", "r", end=20), *spans])
    assert [[doubt.code for doubt in turn.doubts] for turn in session.turns] == [["another_task"]] * 2


def test_a_turn_is_no_longer_in_doubt_when_the_next_one_is_of_another_run() -> None:
    first, second = task("m1", 1, AGENT, "a", trace="u"), task("m2", 5, "sum up", "b", trace="v")
    turns = SessionTurns(DEFAULT_ASSEMBLY)
    reading = {one.trace_id: fragments_of(TraceTree({one.span_id: one}), (), Beyond()) for one in (first, second)}
    for trace, fragments in reading.items():
        turns.put(trace, fragments)
    assert [bool(turn.doubts) for _, session in turns.runs() for turn in session.turns] == [True, True]
    turns.put(second.trace_id, [])
    assert [bool(turn.doubts) for _, session in turns.runs() for turn in session.turns] == [False]
