"""Unread spans: what is dropped first, and what is remembered of traces that lost some. Held spans: which leave."""

from __future__ import annotations

import pytest

from goldspan.collector_processor.engine.reading_and_holding import HeldSpans, SpanBuffer
from goldspan.scoring.sessions import SpanRef


def buffer(*, retention: float = 60.0, max_bytes: int = 1_000) -> SpanBuffer[str, str]:
    return SpanBuffer(retention=retention, max_bytes=max_bytes)


def test_spans_older_than_the_retention_are_dropped() -> None:
    unread = buffer(retention=10.0)
    unread.add({"a": ["a1"]}, 1, 0.0)
    unread.add({"a": ["a2"], "b": ["b1"]}, 2, 5.0)
    unread.expire(10.0)
    assert unread.records("a") == ["a2"]
    assert unread.records("b") == ["b1"]
    assert unread.size == 2
    assert (unread.lost_calls("a"), unread.lost_calls("b")) == (False, None)


def test_beyond_the_bound_in_bytes_the_oldest_spans_are_dropped() -> None:
    unread = buffer(max_bytes=100)
    for number in range(5):
        unread.add({f"t{number}": ["span"]}, 40, float(number))
    unread.expire(5.0)
    assert [unread.records(f"t{number}") for number in range(5)] == [[], [], [], ["span"], ["span"]]
    assert unread.size == 80


def test_a_trace_that_was_unwanted_or_had_calls_may_have_lost_calls() -> None:
    unread = buffer(retention=1.0)
    unread.add({"plain": ["x"], "unwanted": ["x"]}, 2, 0.0)
    unread.unwanted.add("unwanted")
    unread.add({"calls": ["x"]}, 1, 0.0, calls=True)
    unread.expire(2.0)
    assert [unread.lost_calls(trace) for trace in ("plain", "unwanted", "calls", "other")] == [False, True, True, None]
    unread.add({"calls": ["x"]}, 1, 3.0)
    unread.expire(5.0)
    assert unread.lost_calls("calls") is True


def test_the_loss_that_was_noted_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.engine.reading_and_holding._MAX_REMEMBERED_LOSSES", 2)
    unread = buffer(retention=1.0)
    for number, trace in enumerate(("first", "second", "third")):
        unread.add({trace: ["x"]}, 1, float(number))
    unread.expire(10.0)
    assert [unread.lost_calls(trace) for trace in ("first", "second", "third")] == [None, False, False]


def test_taken_spans_are_neither_kept_nor_lost() -> None:
    unread = buffer(retention=1.0)
    unread.add({"a": ["a1"]}, 1, 0.0)
    unread.add({"a": ["a2"]}, 1, 0.5)
    assert unread.take("a") == ["a1", "a2"]
    unread.expire(9.0)
    assert (unread.records("a"), unread.size, unread.lost_calls("a")) == ([], 0, None)


def test_traces_that_nobody_wants_are_forgotten_where_nothing_is_kept_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goldspan.collector_processor.engine.reading_and_holding._MAX_UNWANTED", 10)
    unread = buffer(retention=1.0)
    unread.add({"kept": ["x"]}, 1, 100.0)
    for number in range(1000):
        unread.unwanted.update({"kept", f"trace {number}"})  # such as at the end of a trace without a session
        unread.expire(100.0)
    assert "kept" in unread.unwanted
    assert len(unread.unwanted) < 20


def test_a_span_that_comes_again_is_released_in_time_and_with_the_spans_after_it() -> None:
    held = HeldSpans[str]()
    refs = [SpanRef("1" * 32, f"{number:016x}") for number in range(3)]
    assert all(held.add(ref, "span", 1, 0.0) for ref in refs)
    for now in (5.0, 10.0, 15.0):
        assert not held.add(refs[0], "newer", 1, now)
        assert not held.release_older(now - 20.0)
    assert [one.ref for one in held.release_older(0.0)] == refs
    assert (len(held), held.size) == (0, 0)


def test_spans_with_attributes_can_be_left_for_whoever_notes_their_scores() -> None:
    held = HeldSpans[str]()
    refs = [SpanRef("1" * 32, f"{number:016x}") for number in range(2)]
    for ref in refs:
        held.add(ref, "span", 1, 0.0)
    scored = held.get(refs[0])
    assert scored is not None
    scored.annotate("m", {"m.score": 1.0})
    assert [one.ref for one in held.release_older(0.0, scored=False)] == refs[1:]
    assert [one.ref for one in held.release_older(0.0)] == refs[:1]
