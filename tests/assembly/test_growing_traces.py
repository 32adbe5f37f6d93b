"""A trace that is read again and again while it grows gives what reading it once gives."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec.structs import replace

from goldspan.mappers.assembly.trace_reading import TraceReading
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS, Fragment
from goldspan.mappers.span_facts import LogFacts, ModelFacts, PlainSpanFacts, Record, SpanFacts, ToolFacts
from rigs.span_facts import SECOND, agent, captured, model, plain, tool

TRACE = "1" * 32
IDS = st.sampled_from("abcdefghij")
PARENTS = st.sampled_from(["", "", "gone", *"abcdefghij"])
TIMES = st.integers(1, 6)
SESSIONS = st.sampled_from([None, None, None, "one", "two"])
CALL_IDS = st.sampled_from([None, "c1", "c2"])


@st.composite
def spans(draw: st.DrawFn) -> SpanFacts:
    """A span in any place of the trace; another one may be a version of it."""
    span_id, parent, start = draw(IDS), draw(PARENTS), draw(TIMES)
    more: dict[str, Any] = {"start": start, "end": start + draw(TIMES), "entry": draw(st.integers(0, 5)) == 0}
    kind = draw(st.sampled_from(["agent", "agent", "model", "tool", "plain"]))
    if kind == "plain":
        return plain(TRACE, span_id, parent, **more)
    more |= {"session": draw(SESSIONS), "no_turn": draw(st.integers(0, 5)) == 0}
    more["turn_id"] = draw(st.sampled_from([None, None, "t1", "t2"]))
    if kind == "agent":
        return agent(TRACE, span_id, parent, **more)
    if kind == "tool":
        return tool(TRACE, span_id, parent, call_id=draw(CALL_IDS), **more)
    return model(TRACE, span_id, parent, user=draw(st.sampled_from([None, True, False])), **more)


@st.composite
def logs(draw: st.DrawFn) -> LogFacts:
    """A log record of some span, or of the trace only."""
    span_id, session = draw(st.one_of(st.just(""), IDS)), draw(SESSIONS)
    told: dict[str, Any] = draw(
        st.sampled_from([{}, {"model": ModelFacts(new_user_message=True)}, {"model": ModelFacts()}, {"turn_id": "t1"}])
    )
    if (call_id := draw(CALL_IDS)) is not None and draw(st.booleans()):
        told["tools"] = (ToolFacts("", captured({"x": 1}), call_id=call_id),)
    keys = () if session is None else (("session.id", session),)
    return LogFacts(TRACE, span_id, "", draw(TIMES) * SECOND, "test", session_keys=keys, **told)


@st.composite
def undecoded(draw: st.DrawFn) -> PlainSpanFacts:
    """Some plain spans that are decoded when they are needed."""
    outlines = draw(st.lists(st.tuples(IDS, PARENTS, TIMES, TIMES, st.booleans()), min_size=1, max_size=3))
    return PlainSpanFacts(TRACE, outlines, lambda outline: outline)  # type: ignore[arg-type,return-value]


Records = list[Record | PlainSpanFacts]


def identified(records: Records) -> Records:
    """Give each log record an identity of its own."""
    return [
        replace(one, identity=f"log{number:02}") if isinstance(one, LogFacts) else one
        for number, one in enumerate(records)
    ]


RECORDS = st.lists(st.one_of(spans(), spans(), spans(), logs(), undecoded()), max_size=16).map(identified)


def told(fragment: Fragment) -> tuple[Any, ...]:
    """Everything that a fragment says, with what is above each of its spans."""
    own = fragment.spans if fragment.root_span is None else (*fragment.spans, fragment.root_span)
    fields = [getattr(fragment, name) for name in Fragment.__struct_fields__ if name != "tree"]
    return (*fields, [(span.span_id, list(fragment.tree.ancestors(span.span_id))) for span in own])


def read(records: Records) -> list[tuple[Any, ...]]:
    reading = TraceReading()
    for record in records:
        reading.add(record)
    return list(map(told, reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)))


@given(RECORDS, st.data())
def test_reading_in_portions_gives_what_reading_once_gives(records: Records, data: st.DataObject) -> None:
    reading = TraceReading()
    for record in records:
        reading.add(record)
        wanted = data.draw(st.sampled_from(["nothing", "all", "without callers"]))
        if wanted != "nothing":
            reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None, waiting=wanted == "all")
    grown = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    assert list(map(told, grown)) == read(data.draw(st.permutations(records)))


@given(RECORDS)
def test_trees_that_are_read_together_give_what_each_gives_alone(records: Records) -> None:
    any_span = LogFacts(TRACE, "", "of-an-unknown-call", tools=(ToolFacts("", call_id="unknown"),))
    assert read([*records, any_span]) == read(records)


@given(RECORDS)
def test_only_turns_that_wait_for_their_caller_are_left_out(records: Records) -> None:
    reading = TraceReading()
    for record in records:
        reading.add(record)
    some = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None, waiting=False)
    waits = reading.waits
    every = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    left_out = [fragment for fragment in every if all(fragment is not one for one in some)]
    assert len(every) == len(some) + len(left_out)
    assert bool(left_out) == waits
    assert all(fragment.waits_for_caller for fragment in left_out)


def test_what_nothing_new_concerns_is_not_read_again() -> None:
    reading = TraceReading()
    for record in (agent(TRACE, "a", session="s"), tool(TRACE, "b", "a"), agent(TRACE, "c", start=3, end=4)):
        reading.add(record)
    first, second = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    reading.add(tool(TRACE, "d", "c", start=3, end=4))
    again, grown = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    assert again is first
    assert [span.span_id for span in second.spans] == ["c"]
    assert [span.span_id for span in grown.spans] == ["c", "d"]


@pytest.mark.parametrize(
    "roots",
    [
        [plain(TRACE, "p", end=20), agent(TRACE, "a", "p"), agent(TRACE, "b", "p", start=3, end=9)],
        [model(TRACE, "a", "gone", user=True), model(TRACE, "b", "gone", user=True, start=3, end=9)],
    ],
    ids=["agents below one span", "model calls below a span that never came"],
)
def test_so_it_is_of_turns_in_one_tree(roots: list[SpanFacts]) -> None:
    reading = TraceReading()
    for record in (*roots, tool(TRACE, "c", roots[-1].parent_id, start=4, end=5)):
        reading.add(record)
    first, second = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    reading.add(tool(TRACE, "d", roots[-1].parent_id, start=6, end=7))
    again, grown = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    assert again is first
    assert [span.span_id for span in second.spans] == ["b", "c"]
    assert [span.span_id for span in grown.spans] == ["b", "c", "d"]


def test_undecoded_parents_are_read() -> None:
    group = PlainSpanFacts(TRACE, [("p", "a", 1, 2, False)], lambda outline: outline)  # type: ignore[arg-type,return-value]
    reading = TraceReading()
    for record in (agent(TRACE, "a"), tool(TRACE, "b", "p"), group):
        reading.add(record)
    [fragment] = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    assert [span.span_id for span in fragment.spans] == ["a", "b"]


def test_a_log_record_stays_with_its_span_when_the_tree_above_it_is_greater() -> None:
    reading = TraceReading()
    log = LogFacts(TRACE, "c", "log", SECOND, "test", model=ModelFacts())
    for record in (log, agent(TRACE, "a"), tool(TRACE, "b", "a"), plain(TRACE, "c", "a")):
        reading.add(record)
        fragments = reading.fragments(DEFAULT_SESSION_KEYS, lambda _: None)
    assert [[span.span_id for span in fragment.spans] for fragment in fragments] == [["a", "b", "c"]]
