"""What is remembered of a dropped trace: each of its records, in a few bytes, and nothing else."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from goldspan.collector_processor.engine.engine_state import MemoryStore, TraceState
from goldspan.mappers.span_facts import PlainSpanFacts, SpanFacts

SPAN_IDS = st.binary(min_size=8, max_size=8).map(bytes.hex) | st.from_regex("[01]{16}", fullmatch=True)
IDENTITIES = SPAN_IDS | st.text(max_size=20)


def dropped(identities: set[str]) -> MemoryStore:
    store = MemoryStore()
    trace = TraceState("t", last=0.0)
    trace.spans = {one: SpanFacts("t", one, "", 0, 0) for one in identities}
    store.add_trace(trace)
    store.drop_with_tombstone("t", 1.0)
    return store


def plain_spans(trace_id: str) -> PlainSpanFacts:
    return PlainSpanFacts(trace_id, [("span", "", 0, 0, False)], lambda one: one)


@given(st.sets(IDENTITIES, max_size=30), IDENTITIES)
def test_a_tombstone_knows_its_own_and_no_others(identities: set[str], other: str) -> None:
    store = dropped(identities)
    assert all(store.tombstone_has("t", one) for one in identities)
    assert store.tombstone_has("t", other) is (other in identities)
    assert store.tombstone_has("another", other) is None


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8), st.integers(1, 7))
def test_what_stands_across_two_ids_is_none(first: bytes, second: bytes, at: int) -> None:
    low, high = sorted((first, second))
    across = (low + high)[at : at + 8]
    assert dropped({low.hex(), high.hex()}).tombstone_has("t", across.hex()) is (across in (low, high))


def test_beyond_the_bound_the_oldest_tombstone_and_the_loss_noted_first_are_forgotten() -> None:
    store = MemoryStore(max_tombstones=2)
    for number, trace_id in enumerate(("first", "second", "third")):
        store.add_trace(TraceState(trace_id, last=0.0))
        store.drop_with_tombstone(trace_id, float(number))
        store.note_loss(f"{trace_id} lost", calls=False)
    names = ("first", "second", "third")
    assert [store.tombstone_has(name, "span") for name in names] == [None, False, False]
    assert [store.lost_calls(f"{name} lost") for name in names] == [None, False, False]


def test_plain_spans_of_the_trace_that_was_quiet_longest_are_dropped_first() -> None:
    store = MemoryStore()
    for number, trace_id in enumerate(("first", "second", "first")):
        store.add_plain(plain_spans(trace_id), float(number))
    assert store.drop_plain(0.0, count=1) == 1
    assert [len(store.take_plain(name)) for name in ("first", "second")] == [2, 0]
    assert [store.lost_calls(name) for name in ("first", "second")] == [None, False]


def test_beyond_the_bytes_of_tombstones_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.engine.engine_state._MAX_TOMBSTONE_BYTES", 20)
    store = MemoryStore()
    for number, trace_id in enumerate(("first", "second", "third")):
        store.keep_tombstone(trace_id, float(number), bytes(8))
    assert [store.tombstone_has(name, "span") for name in ("first", "second", "third")] == [None, False, False]
    store.expire(2.0)
    store.keep_tombstone("third", 3.0, bytes(16))
    assert [store.tombstone_has(name, "span") for name in ("second", "third")] == [None, False]
