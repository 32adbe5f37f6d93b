"""What is remembered of a dropped trace: each of its records, in a few bytes, and nothing else."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from goldspan.collector_processor.engine.store import MemoryStore, TraceState
from goldspan.mappers.facts import SpanFacts

SPAN_IDS = st.binary(min_size=8, max_size=8).map(bytes.hex) | st.from_regex("[01]{16}", fullmatch=True)
IDENTITIES = SPAN_IDS | st.text(max_size=20)


def buried(identities: set[str]) -> MemoryStore:
    store = MemoryStore()
    trace = TraceState("t", last=0.0)
    trace.spans = {one: SpanFacts("t", one, "", 0, 0) for one in identities}
    store.add_trace(trace)
    store.bury(["t"], 1.0)
    return store


@given(st.sets(IDENTITIES, max_size=30), IDENTITIES)
def test_a_tombstone_knows_its_own_and_no_others(identities: set[str], other: str) -> None:
    store = buried(identities)
    assert all(store.is_buried("t", one) for one in identities)
    assert store.is_buried("t", other) is (other in identities)
    assert store.is_buried("another", other) is None


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8), st.integers(1, 7))
def test_what_stands_across_two_ids_is_none(first: bytes, second: bytes, at: int) -> None:
    low, high = sorted((first, second))
    across = (low + high)[at : at + 8]
    assert buried({low.hex(), high.hex()}).is_buried("t", across.hex()) is (across in (low, high))
