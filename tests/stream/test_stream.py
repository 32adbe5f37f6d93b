"""A stream of any number of partitions says what `goldspan score` says, whatever happens on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import hypothesis.strategies as st
import pytest
from hypothesis import example, given
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.collector_processor.encoded_spans.span_groups import SpanGroup, join_request, split_request
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.collector_processor.stream.stage_interface import DeadLetter, StreamContext
from goldspan.mappers.readers.otlp_protobuf import message_attributes
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from rigs.pipeline_rig import Said, bodies_of, cut_up, everything, files_of, run, said_by_replay, spans_in
from rigs.repository import RECORDING_NAMES
from rigs.stream_rig import Stream

SAMPLED = GoldenIndex(sample=1.0)
SCORER = scorer_of(metrics=WITHOUT_GOLDEN)
SCORE = "tool_parameter_match.label"
SOME = (
    "autogen-native-agent",
    "google-adk-v2-default",
    "haystack-native-nocontent",
    "langchain-langsmith",
    "openai-agents-logfire",
    "raw-openai-otel-genai",
    "raw-openai-openinference",
    "strands-default",
)
"""Turns in one trace and in several, plain spans between calls, content in log records and other traces, late names."""


@cache
def context(goldens: GoldenIndex, scorer: Scorer | None = None) -> StreamContext:
    settings = EngineSettings(events=Events.ALL)
    return StreamContext.of(goldens, settings if scorer is None else replace(settings, scorer=scorer))


@cache
def replayed(recordings: Sequence[str]) -> Said:
    return said_by_replay([path for name in recordings for path in files_of(name)], everything())


def sent(recordings: Iterable[str], seed: int, *, size: int = 5, repeated: float = 0.05) -> list[ExportRequest]:
    """The records of some conversations, shuffled, some of them twice, and log records perhaps last."""
    requests = cut_up([one for name in recordings for one in bodies_of(name)], seed, size)
    rng = random.Random(seed)
    again = [one for one in requests if rng.random() < repeated]
    for one in again:
        requests.insert(rng.randint(0, len(requests)), one)
    return sorted(requests, key=lambda one: one.signal is Signal.LOGS) if rng.random() < 0.5 else requests


@pytest.mark.exhaustive  # the longest of all: first, lest it is what the others wait for in the end
@pytest.mark.parametrize(("third", "traces", "sessions", "lagging"), [(0, 1, 1, 0), (1, 4, 4, 0), (2, 4, 3, 1)])
def test_many_recordings_together_give_the_results_of_a_replay(
    third: int, traces: int, sessions: int, lagging: int
) -> None:
    together = RECORDING_NAMES[third::3]
    stream = Stream(context(everything()), 1, traces=traces, sessions=sessions, lagging=lagging, faults=0.02)
    stream.run(stream.put(sent(together, traces)))
    assert stream.said() == replayed(tuple(together))
    assert stream.counted() == dict.fromkeys(replayed(tuple(together)), 1)
    assert stream.restarts


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_a_recording_gives_the_results_of_a_replay(recording: str) -> None:
    stream = Stream(context(everything()), seed=len(recording))
    stream.run(stream.put(sent([recording], len(recording))))
    assert stream.said() == replayed((recording,))
    assert stream.counted() == dict.fromkeys(replayed((recording,)), 1)


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_sessions_without_golden_give_the_results_of_a_replay(recording: str) -> None:
    stream = Stream(context(SAMPLED, SCORER), seed=len(recording))
    stream.run(stream.put(sent([recording], len(recording))))
    assert stream.said() == said_by_replay(files_of(recording), SAMPLED, SCORER)


@pytest.mark.every_recording
@pytest.mark.parametrize("recording", RECORDING_NAMES)
def test_spans_leave_once_and_as_a_gateway_sends_them(recording: str) -> None:
    requests = one_by_one(bodies_of(recording))
    stream = Stream(context(everything()), seed=1, faults=0.0)
    stream.run(stream.put(requests, step=0.001))
    by_gateway = attributes_of(run(requests, everything()).spans())
    leaving = stream.spans()
    found = attributes_of(leaving)
    assert found.keys() == by_gateway.keys()
    if all(one["tool_parameter_match.revision"] == 1 for one in stream.events()):  # no trace came before another
        assert found == by_gateway
    assert len(leaving) == len(spans_in(one.body for one in requests if one.signal is Signal.TRACES))
    assert not stream.of(DeadLetter)


@pytest.mark.parametrize("seed", range(4))
def test_goldens_that_come_later_judge_what_comes_after_them(seed: int) -> None:
    first, second = SOME[:4], SOME[4:]
    known = context(GoldenIndex())
    stream = Stream(known, seed, faults=0.2)
    stream.run(stream.put(sent(first, seed)))
    assert not stream.said()
    stream.use_goldens(known.with_goldens(everything()))
    stream.run(stream.put(sent(second, seed), begin=2e9))
    assert stream.said() == replayed(second)


def one_by_one(requests: Iterable[ExportRequest]) -> list[ExportRequest]:
    return [
        ExportRequest(one.signal, join_request([SpanGroup(group.envelope, [record])]))
        for one in requests
        for group in split_request(one.body) or []
        for record in group.spans
    ]


def attributes_of(spans: Iterable[Span]) -> dict[str, Mapping[str, object]]:
    return {f"{one.trace_id.hex()}/{one.span_id.hex()}": message_attributes(one.attributes) for one in spans}


@given(
    recordings=st.sets(st.sampled_from(SOME), min_size=1, max_size=3),
    seed=st.integers(0, 2**16),
    traces=st.integers(1, 5),
    sessions=st.integers(1, 5),
    lagging=st.integers(0, 2),
    size=st.integers(1, 20),
    step=st.sampled_from([0.001, 0.3, 2.0, 20.0]),
    faults=st.sampled_from([0.0, 0.1, 0.4]),
)
@example(recordings=set(SOME), seed=0, traces=1, sessions=1, lagging=0, size=5, step=0.01, faults=0.0)
@example(recordings=set(SOME), seed=1, traces=4, sessions=4, lagging=1, size=1, step=0.01, faults=0.3)
@example(
    recordings={"haystack-native-nocontent"}, seed=74, traces=1, sessions=1, lagging=0, size=1, step=0.3, faults=0.4
)
@example(recordings={"strands-default"}, seed=0, traces=1, sessions=1, lagging=0, size=1, step=5.0, faults=0.4)
def test_results_depend_on_the_records_alone(
    recordings: set[str], seed: int, traces: int, sessions: int, lagging: int, size: int, step: float, faults: float
) -> None:
    names = tuple(sorted(recordings))
    requests = sent(names, seed, size=size, repeated=0.1)
    if "haystack-native-nocontent" in names:  # its plain spans are kept for so long, until a call comes
        step = min(step, 0.9 * EngineSettings().trace_retention / len(requests))
    stream = Stream(context(everything()), seed, traces=traces, sessions=sessions, faults=faults, lagging=lagging)
    stream.run(stream.put(requests, step=step))
    assert stream.said() == replayed(names)
    assert stream.counted() == dict.fromkeys(replayed(names), 1)
    every = Counter(one.span_id for one in spans_in(one.body for one in requests if one.signal is Signal.TRACES))
    leaving = Counter(one.span_id for one in stream.spans())
    assert leaving >= every
    assert stream.restarts or leaving == every
