"""Requests that wait for the worker: whom they wait for, and how long their spans are held."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.encoded_spans.span_groups import split_request, trace_id_of
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.arrivals import Arrivals
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.pipeline import GatewayPipeline
from goldspan.collector_processor.gateway.settings.sections import PipelineSettings
from goldspan.collector_processor.gateway.worker import ReceivedBody
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.scoring.goldens import load_goldens
from rigs.otlp_containers import as_message
from rigs.pipeline_rig import EVERYTHING, Downstream
from rigs.trace_requests import turn_request
from rigs.waiting import until


def received(document: Mapping[str, Any], number: int = 0) -> ReceivedBody:
    body = as_message(dict(document)).SerializeToString()
    return ReceivedBody(number, ExportRequest(Signal.TRACES, body), split_request(body) or [], None)


def taken(arrivals: Arrivals) -> Iterator[object]:
    while len(arrivals):
        yield arrivals.take()


def test_traces_that_are_over_take_no_memory_while_requests_wait() -> None:
    arrivals, waits = Arrivals(), received(turn_request("waits"))
    arrivals.put(waits)
    [group] = waits.groups
    span = group.spans[0]
    trace = trace_id_of(span)
    assert trace
    tracemalloc.start()
    sizes: list[int] = []
    for number in range(40_000):
        other = group._replace(spans=[span.replace(trace, number.to_bytes(16, "big"))])
        arrivals.put(waits._replace(groups=[other]))
        arrivals.take()
        if number in (19_999, 39_999):
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] < sizes[0] * 1.5


def test_the_requests_of_one_trace_wait_for_each_other_and_no_other_waits_for_them() -> None:
    large = [received(turn_request("large", *[("f", {"x": 1})] * 50), number) for number in range(5)]
    small = [received(turn_request(f"s-{number}"), number) for number in range(3)]
    arrivals = Arrivals()
    assert [arrivals.put(one) for one in large] == [True, False, False, False, False]
    assert arrivals.take() is large[0]
    assert arrivals.take() is large[1]
    for one in small:
        arrivals.put(one)
    assert [*taken(arrivals)] == [*small, *large[2:]]


def named(number: int) -> ReceivedBody:
    """A request with a span of a trace that no other has."""
    one = received(turn_request("small"), number)
    [group] = one.groups
    trace = trace_id_of(group.spans[0])
    assert trace
    return one._replace(groups=[group._replace(spans=[group.spans[0].replace(trace, number.to_bytes(16, "big"))])])


@given(st.integers(1, 60), st.integers(1, 4))
def test_no_trace_waits_for_ever_while_new_ones_come_faster_than_they_are_received(calls: int, at_once: int) -> None:
    """Half of the bytes that are received are of the requests that wait longest, and half are of new traces."""
    arrivals, numbers = Arrivals(), iter(range(1, 1_000_000))
    large = [received(turn_request("large", *[("f", {"x": 1})] * calls), number) for number in range(5)]
    for one in large:
        arrivals.put(one)
    size = len(named(0).request.body)
    left, passed = list(large), 0
    while left:
        for _ in range(at_once + 1):
            arrivals.put(named(next(numbers)))
        got = [arrivals.take() for _ in range(at_once)]
        for one in got:
            if left and one is left[0]:
                left.pop(0)
                passed = 0
            else:
                passed += size
        assert passed <= len(large[0].request.body) + size * at_once


def test_a_new_trace_waits_for_two_requests_of_a_large_one_at_most() -> None:
    arrivals = Arrivals()
    large = [received(turn_request("large", *[("f", {"x": 1})] * 50), number) for number in range(20)]
    for one in large:
        arrivals.put(one)
    for number in range(1, 10):
        arrivals.put(small := named(number))
        first = [arrivals.take() for _ in range(3)]
        assert small in first


def test_what_is_done_between_requests_is_done_behind_those_that_came_before() -> None:
    arrivals, done = Arrivals(), list[float]()
    large = [received(turn_request("large", *[("f", {"x": 1})] * 50), number) for number in range(3)]
    for one in large:
        arrivals.put(one)
    arrivals.put(done.append)
    assert [*taken(arrivals)] == [*large, done.append]


@pytest.mark.parametrize("waited", [2.0, 30.0])
def test_spans_are_held_from_their_acknowledgement(waited: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long they wait for the worker."""
    clock, downstream = [1_000.0], Downstream()
    settings = PipelineSettings(engine=EngineSettings(settle=100.0, hold_timeout=20.0))
    pipeline = GatewayPipeline(load_goldens(EVERYTHING), downstream, settings, now=lambda: clock[0])
    receive = pipeline.worker.receive

    def late(one: ReceivedBody, _: float) -> None:
        clock[0] += waited
        receive(one, clock[0])

    monkeypatch.setattr(pipeline.worker, "receive", late)
    request = ExportRequest(Signal.TRACES, as_message(turn_request("s", ("get_weather", {}))).SerializeToString())
    pipeline.accept(request)
    if waited < 20.0:
        until(lambda: len(next(iter(pipeline.worker.tenants)).held) == 2 if len(pipeline.worker.tenants) else False)
        assert not downstream.requests
        clock[0] += 20.0 - waited
    until(lambda: bool(downstream.requests))
    assert pipeline.drain(10.0)
