"""The spans that wait: what leaves, in which order, and that it never grows beyond its bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import Event, ReadableSpan

from goldspan.collector_processor.engine.reading_and_holding import HeldSpan, HeldSpans
from goldspan.collector_processor.in_process.span_pipeline import scored_span
from goldspan.collector_processor.in_process.trace_filter import estimated_size
from goldspan.scoring.sessions import SpanRef


def ref(number: int) -> SpanRef:
    return SpanRef("t", str(number))


def span(number: int, size: int = 0) -> ReadableSpan:
    return ReadableSpan(str(number), attributes={"content": "x" * size})


def test_a_span_leaves_as_the_very_object_unless_it_carries_something() -> None:
    plain, scored = span(1), span(2)
    without, with_score = (HeldSpan(ref(number), one, 0.0, 1) for number, one in ((1, plain), (2, scored)))
    without.annotate("m", {})
    with_score.annotate("m", {"score": 1.0})
    with_score.annotate("m", {"label": "pass"})
    first, second = (scored_span(one)[0] for one in (without, with_score))
    assert first is plain
    assert second is not scored
    assert {"score": 1.0, "label": "pass"}.items() <= dict(second.attributes or {}).items()


def test_a_second_span_of_the_same_ids_is_not_held() -> None:
    held = HeldSpans[ReadableSpan]()
    assert held.add(ref(1), span(1), 10, 0.0)
    assert not held.add(ref(1), span(1), 10, 0.0)
    assert (len(held), held.size) == (1, 10)
    assert held.get(ref(1)) is not None
    assert held.get(ref(2)) is None
    assert held.get(None) is None


def test_spans_of_an_age_leave() -> None:
    held = HeldSpans[ReadableSpan]()
    for number in range(4):
        held.add(ref(number), span(number), 10, float(number))
    assert held.oldest() == 0.0
    assert [one.span.name for one in held.release_older(1.0)] == ["0", "1"]
    assert held.oldest() == 2.0
    held.release_all()
    assert held.oldest() is None


def test_the_bound_that_was_hit_is_named() -> None:
    for limits, bound in (((1, 10**9), "max_held_spans"), ((10, 150_000), "max_held_bytes")):
        held = HeldSpans[ReadableSpan]()
        assert held.release_excess(*limits) == ([], "")
        held.add(ref(1), span(1), 100_000, 0.0)
        assert held.release_excess(*limits) == ([], "")
        held.add(ref(2), span(2), 100_000, 0.0)
        excess, hit = held.release_excess(*limits)
        assert ([one.span.name for one in excess], hit) == (["1"], bound)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5_000)), max_size=40),
    st.integers(1, 8),
    st.integers(1, 30_000),
)
def test_it_stays_within_its_bounds_and_loses_nothing(
    spans: list[tuple[int, int]], max_spans: int, max_bytes: int
) -> None:
    held = HeldSpans[ReadableSpan]()
    came, left = 0, 0
    for number, size in spans:
        came += held.add(ref(number), span(number), size, 0.0)
        left += len(held.release_excess(max_spans, max_bytes)[0])
        assert len(held) <= max_spans
        assert held.size <= max_bytes
    left += len(held.release_all())
    assert came == left
    assert (len(held), held.size) == (0, 0)


def test_size_is_that_of_the_content_wherever_it_is() -> None:
    small = estimated_size(ReadableSpan("s"))
    big = "x" * 100_000
    for attributes in ({"a": big}, {"a": [big]}, {"a": {"b": {"c": [{"d": big}]}}}, {"a": big.encode()}, {big: 1}):
        assert 100_000 < estimated_size(ReadableSpan("s", attributes=attributes)) - small < 105_000  # type: ignore[arg-type]
    in_event = ReadableSpan("s", events=[Event("e", {"a": big})])
    assert 100_000 < estimated_size(in_event) - small < 105_000


def test_size_of_something_endlessly_deep_is_found() -> None:
    deep: dict[str, object] = {}
    deep["self"] = deep
    assert estimated_size(ReadableSpan("s", attributes=deep)) > 0  # type: ignore[arg-type]
