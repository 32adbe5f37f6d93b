"""What traces of every shape cost, and how long they delay the spans of an innocent session: no ratios, but exponents.

    PYTHONPATH=tests python -m benchmarks.shapes            # every shape
    PYTHONPATH=tests python -m benchmarks.shapes comb late  # those whose names have one of these words
    PYTHONPATH=tests python -m benchmarks.shapes names 100000   # with so many spans, and half and a quarter as many
    PYTHONPATH=tests python -m benchmarks.shapes stream late    # through both stages of a stream, in place of an engine

Each shape has n spans, and is fed and polled as a door does it. `us/span` is the CPU time of feeding and scoring. An
exponent of 1 says that a span costs the same in a trace of any size. `delay` is the longest time that a span of another
session waited for its result beyond its time to settle, while the largest one was scored by the same thread.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.harness import THREAD_CPU, pin
from goldspan.collector_processor.encoded_spans.span_groups import ref_of, split_request
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stage_interface import Output, StreamContext, ToSession, Traces
from goldspan.collector_processor.stream.trace_stage import TraceStage
from goldspan.mappers.span_facts import Role, SpanFacts
from goldspan.scoring.goldens import load_goldens
from goldspan.scoring.sessions import SpanRef
from rigs.span_facts import agent, plain, tool
from rigs.stream_rig import DictState

SIZES = (500, 1_000, 2_000, 4_000, 8_000)
SETTLE, PAUSE = 0.25, 0.3
"""Seconds after which a turn is complete, as in a gateway, and between two batches of spans."""
AT_ONCE = 128
"""Traces and sessions that one poll of a door scores."""
TURN = {"calls": [{"name": "f", "args": {"x": 1}}]}
GOLDENS = load_goldens(
    {
        "golden_set": "shapes",
        "goldens": [{"session": name, "turns": [TURN]} for name in ("s", "s-1", "s-2", "innocent")],
    }
)
NAMED = (("gen_ai.conversation.id", "s"),)
Batches = Iterator[list[SpanFacts]]
"""Spans that come together."""


def trace(number: int = 1) -> str:
    """Return a trace id."""
    return f"{number:032x}"


def wide(n: int) -> Batches:
    """One agent with n calls."""
    yield [agent(trace(), "root", session="s"), *(tool(trace(), f"{at}", "root", args={"x": at}) for at in range(n))]


def deep(n: int) -> Batches:
    """A chain of plain spans, with a call at its end and an agent at its top."""
    chain = [plain(trace(), f"{at}", f"{at - 1}" if at else "root") for at in range(n)]
    yield [agent(trace(), "root", session="s"), *chain, tool(trace(), "tool", f"{n - 1}", args={"x": 1})]


def comb(n: int) -> Batches:
    """A chain of plain spans, and below each a call."""
    half = n // 2
    chain = [plain(trace(), f"{at}", f"{at - 1}" if at else "root") for at in range(half)]
    calls = [tool(trace(), f"tool{at}", f"{at}", args={"x": at}) for at in range(half)]
    yield [agent(trace(), "root", session="s"), *chain, *calls]


def agents_within_agents(n: int) -> Batches:
    """A chain of agents, each with a session of its own."""
    yield [agent(trace(), f"{at}", f"{at - 1}" if at else "", session=f"s-{at}") for at in range(n)]


def agents_without_session(n: int) -> Batches:
    """Many agents under one plain root, none with a session; a plain span beside them names one."""
    calls = [tool(trace(), f"tool{at}", f"{at}", args={"x": 1}) for at in range(n // 2)]
    agents = [agent(trace(), f"{at}", "top") for at in range(n // 2)]
    yield [plain(trace(), "top"), plain(trace(), "beside", "top", session_keys=NAMED), *agents, *calls]


def agents_of_some_sessions(n: int) -> Batches:
    """Many agents under one plain root, every second one with a session of its own."""
    names = [None if at % 2 else f"s-{at}" for at in range(n)]
    yield [plain(trace(), "top"), *(agent(trace(), f"{at}", "top", session=name) for at, name in enumerate(names))]


def roots_on_a_comb(n: int) -> Batches:
    """A chain of plain spans, and below each an agent without session."""
    half = n // 2
    chain = [plain(trace(), f"{at}", f"{at - 1}" if at else "") for at in range(half)]
    agents = [agent(trace(), f"agent{at}", f"{at}") for at in range(half)]
    yield [*chain, plain(trace(), "beside", "0", session_keys=NAMED), *agents]


def orphans(n: int) -> Batches:
    """Calls whose callers never come."""
    yield [
        agent(trace(), "root", session="s"),
        *(tool(trace(), f"{at}", f"gone{at}", args={"x": 1}) for at in range(n)),
    ]


def many_names(n: int) -> Batches:
    """One agent with calls of n tools."""
    calls = [tool(trace(), f"{at}", "root", name=f"tool{at}", args={"x": at}) for at in range(n)]
    yield [agent(trace(), "root", session="s"), *calls]


def many_turns(n: int) -> Batches:
    """One session of many traces, which come together."""
    for at in range(n // 2):
        yield [
            agent(trace(at + 1), "root", session="s", start=at * 10, end=at * 10 + 2),
            tool(trace(at + 1), "tool", "root", args={"x": 1}, start=at * 10, end=at * 10 + 1),
        ]


def turns_of_one_trace(n: int) -> Batches:
    """One session whose turns come one by one, in one trace. Each time the trace is read anew: n / 16 spans."""
    yield [plain(trace(), "top")]
    for at in range(n // 2):
        yield [
            agent(trace(), f"{at}", "top", session="s", start=at * 10, end=at * 10 + 2),
            tool(trace(), f"tool{at}", f"{at}", args={"x": 1}, start=at * 10, end=at * 10 + 1),
        ]


def late_spans(n: int) -> Batches:
    """One agent with many calls, of which the last twenty come one by one."""
    yield from ([*some] for some in itertools.islice(wide(n - 20), 1))
    yield from ([tool(trace(), f"late{at}", "root", args={"x": at})] for at in range(20))


def re_sent_spans(n: int) -> Batches:
    """One agent with many calls, of which one comes again, twenty times."""
    yield from wide(n)
    yield from ([tool(trace(), "0", "root", args={"x": 1}, version=(3_000_000_000 + at, 0, ""))] for at in range(20))


def sessions_at_once(n: int) -> Batches:
    """Sessions of two spans that come in one moment."""
    yield [
        span
        for at in range(n // 2)
        for span in (agent(trace(at + 1), "root", session=f"s-{at}"), tool(trace(at + 1), "tool", "root"))
    ]


SHAPES: dict[str, Callable[[int], Batches]] = {
    shape.__name__.replace("_", " "): shape
    for shape in (
        wide,
        deep,
        comb,
        agents_within_agents,
        agents_without_session,
        agents_of_some_sessions,
        roots_on_a_comb,
        orphans,
        many_names,
        many_turns,
        turns_of_one_trace,
        late_spans,
        re_sent_spans,
        sessions_at_once,
    )
}


class Cost(NamedTuple):
    """What a shape of one size takes, in seconds."""

    all: float
    """CPU time of feeding and scoring."""
    delay: float
    """The longest time that a span of another session waited, beyond the time to settle."""


SETTINGS = EngineSettings(settle=SETTLE, remote_callers=False)


class Stages:
    """Both stages of a stream, each with one partition, as one engine. Each span is a request of its own."""

    def __init__(self) -> None:
        context = StreamContext.of(GOLDENS, SETTINGS)
        self._first = TraceStage(context, DictState({}), 0)
        self._second = SessionStage(context, DictState({}), 1)
        self._refs: dict[SpanRef, SpanRef] = {}
        """The spans as they were fed, by the ids that they have in their requests."""
        self._sent = set[SpanRef]()

    def feed(self, fact: SpanFacts, now: float) -> None:
        """Receive a span."""
        request = _request_of(fact)
        self._refs[SpanRef(fact.trace_id, _span_id(fact.span_id).hex())] = fact.ref
        self._take(self._first.spans(request, now))

    def deadline(self) -> float | None:
        """Return when a stage has something to do."""
        times = (self._first.deadline(), self._second.deadline())
        return min((time for time in times if time is not None), default=None)

    def poll(self, now: float, _: int) -> EngineOutput:
        """Do what is due, and return the spans that were sent on since the last time."""
        self._take(self._first.advance(now))
        self._take(self._second.advance(now))
        sent, self._sent = self._sent, set()
        return EngineOutput(released=frozenset(sent))

    def _take(self, outputs: Iterable[Output]) -> None:
        for one in outputs:
            if isinstance(one, ToSession):
                self._take(self._second.receive(one.key, one.body))
            elif isinstance(one, Traces):
                spans = (span for group in split_request(one.body) or () for span in group.spans)
                self._sent.update(self._refs[ref_of(span)] for span in spans)


def _span_id(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest() if name else b""


def _request_of(fact: SpanFacts) -> bytes:
    """Return a request with one span, as OpenTelemetry's conventions have it."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = bytes.fromhex(fact.trace_id), _span_id(fact.span_id)
    span.parent_span_id = _span_id(fact.parent_id)
    span.start_time_unix_nano, span.end_time_unix_nano = fact.start, fact.end
    attributes = dict(fact.session_keys)
    if fact.tool is not None:
        attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": fact.tool.name}
        attributes["gen_ai.tool.call.arguments"] = json.dumps(fact.tool.arguments.value)
    elif fact.role is Role.AGENT:
        attributes["gen_ai.operation.name"] = "invoke_agent"
    for key, value in attributes.items():
        pair = span.attributes.add()
        pair.key, pair.value.string_value = key, value
    return request.SerializeToString()


class Door:
    """An engine in the time that it takes: while it works the clock goes on, and nothing else is done."""

    def __init__(self, engine: Engine | Stages) -> None:
        self.engine = engine
        self.now = self.worked = self.delay = 0.0
        self._came: dict[SpanRef, float] = {}

    def feed(self, spans: Sequence[SpanFacts], at: float) -> None:
        """Feed spans that come at a time, then or when the engine is free."""
        self.run(at)
        with self._clock():
            for span in spans:
                self.engine.feed(span, self.now)

    def feed_innocent(self, number: int, at: float) -> None:
        """Feed a turn of another session."""
        turn = agent(trace(1_000_000 + number), "root", session="innocent")
        self.feed([turn], at)
        self._came[turn.ref] = at

    def run(self, until: float) -> None:
        """Do what is due until a time."""
        while (due := self.engine.deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            with self._clock():
                released = self.engine.poll(self.now, AT_ONCE).released
            for ref in released & self._came.keys():
                self.delay = max(self.delay, self.now - self._came.pop(ref) - SETTLE)
        self.now = max(self.now, until)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        began = THREAD_CPU()
        yield
        took = (THREAD_CPU() - began) / 1e9
        self.now += took
        self.worked += took


def cost_of(batches: Batches, *, stream: bool = False) -> Cost:
    """Feed a shape, a batch at a time, beside innocent sessions, until all is scored."""
    all_batches, door = list(batches), Door(Stages() if stream else Engine(GOLDENS, SETTINGS))
    gc.collect()
    gc.freeze()
    for number, batch in enumerate([*all_batches, [], [], []]):
        door.feed(batch, number * PAUSE)
        door.feed_innocent(number, (number + 0.5) * PAUSE)
    door.run(door.now + 800.0)
    gc.unfreeze()
    return Cost(door.worked, door.delay)


class Curve(NamedTuple):
    """What a span of a shape costs, by the number of its spans."""

    shape: str
    sizes: Sequence[int]
    microseconds: Sequence[float]
    """CPU time of a span."""
    exponent: float
    delay: float
    """Of the largest one, in seconds."""


def curves(words: Sequence[str] = (), sizes: Sequence[int] = SIZES, *, stream: bool = False) -> Iterator[Curve]:
    """Measure the shapes whose names have one of these words, or all."""
    for name, shape in SHAPES.items():
        if words and not any(word in name for word in words):
            continue
        own = [size // 16 for size in sizes] if shape is turns_of_one_trace else sizes
        costs = [cost_of(shape(size), stream=stream) for size in own]
        each = [cost.all / size * 1e6 for cost, size in zip(costs, own, strict=True)]
        exponent = math.log(costs[-1].all / costs[-3].all) / math.log(own[-1] / own[-3])
        yield Curve(name, own, each, exponent, costs[-1].delay)


def kept_bytes(counts: Sequence[int]) -> Iterator[int]:
    """Yield how much memory an engine holds after so many sessions of two spans, one after the other, are over."""
    door, number = Door(Engine(GOLDENS, SETTINGS)), 0
    tracemalloc.start()
    for count in counts:
        while number < count:
            session = [agent(trace(number + 1), "root", session=f"s-{number}"), tool(trace(number + 1), "t", "root")]
            door.feed(session, door.now + PAUSE)
            number += 1
        door.run(door.now + 24 * 3600)
        gc.collect()
        yield tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


def main(words: Sequence[str]) -> None:
    """Print a line for each shape."""
    pin()
    most = [int(word) for word in words if word.isdecimal()]
    stream = "stream" in words
    words = [word for word in words if not word.isdecimal() and word != "stream"]
    numbers = (most[0] // 4, most[0] // 2, most[0]) if most else SIZES
    sizes = "".join(f"{size:>9,}" for size in numbers)
    print(f"{'us/span, for spans:':28}{sizes}{'exponent':>10}{'delay s':>10}")
    for one in curves(words, numbers, stream=stream):
        each = "".join(f"{microseconds:>9.1f}" for microseconds in one.microseconds)
        print(f"{one.shape:28}{each}{one.exponent:>10.2f}{one.delay:>10.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
