"""How cost grows with turns, open sessions, the length of a trace, goldens and calls: no ratios, but exponents.

An exponent of 1 says that an item costs the same however many there are, one of 2 that each costs as much as there are.
`local` compares a size with the one before it; the fitted one is over all sizes. `--quick` leaves out the largest ones.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from benchmarks.gateway import as_request
from benchmarks.harness import PROCESS_CPU, ROUNDS, THREAD_CPU, Clock, Comparison, nothing, pin
from benchmarks.in_process import RESOURCE, NoExport
from benchmarks.traffic import (
    FIRST_NANOSECOND,
    SCOPE,
    SessionPlan,
    SpanPlan,
    golden_set,
    otlp_spans,
    plan_sessions,
    play,
)
from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stage_interface import StreamContext, ToSession
from goldspan.collector_processor.stream.trace_stage import TraceStage
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import Record
from goldspan.scoring import Criterion, ExpectedCall, GoldenIndex, ToolCall, load_goldens, score_turn
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from goldspan.scoring.sessions import Session

REPEATS = max(1, ROUNDS // 10)
TURNS = (10, 20, 40, 80, 160, 320, 640)
OPEN_SESSIONS = (10, 30, 100, 300, 1000, 3000)
TRACE_TURNS = (8, 16, 32, 64, 128, 256, 480)
"""Of 17 spans each."""
GOLDENS = (20, 200, 2000, 20_000)
CALLS = (25, 50, 100, 200)
ROUND = 4
"""Calls of tools in a turn."""
Cumulated = Callable[[Sequence[int]], Sequence[int]]
"""Nanoseconds that so many items took together, for each size."""


def print_curve(title: str, item: str, sizes: Sequence[int], cost: Sequence[float], *, of_all: bool = True) -> None:
    """Print what an item costs at each size; `of_all`: the costs are those of all items together."""
    each = [one / size if of_all else one for one, size in zip(cost, sizes, strict=True)]
    logs = [(math.log(size), math.log(one)) for size, one in zip(sizes, cost, strict=True)]
    local = [(y - before) / (x - start) for (start, before), (x, y) in itertools.pairwise(logs)]
    mean_x, mean_y = (sum(part) / len(logs) for part in zip(*logs, strict=True))
    fitted = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    print(f"\n{title}: exponent {fitted:.2f}")
    print(f"  {'':12}" + "".join(f"{size:>10,}" for size in sizes))
    print(f"  {'us/' + item:12}" + "".join(f"{one / 1000:>10,.1f}" for one in each))
    print(f"  {'local':12}{'':10}" + "".join(f"{one:>10.2f}" for one in local))
    sys.stdout.flush()


def least(measure: Callable[[], Sequence[int]], repeats: int = REPEATS) -> list[int]:
    """Measure several times, and return the least for each size."""
    return [min(some) for some in zip(*(measure() for _ in range(repeats)), strict=True)]


def cumulated(work: Iterable[Callable[[], object]], sizes: Sequence[int], clock: Clock) -> list[int]:
    """Return the time that the first so many pieces of work took together, for each size."""
    taken, found = 0, list[int]()
    gc.collect()
    gc.freeze()
    for number, piece in enumerate(itertools.islice(work, sizes[-1]), 1):
        began = clock()
        piece()
        taken += clock() - began
        if number in sizes:
            found.append(taken)
    gc.unfreeze()
    return found


# Turns of a session, each judged after it.


def documents_of(turns: Iterable[SpanPlan], *, one_trace: bool = False) -> Iterator[dict[str, Any]]:
    """Yield each turn as OTLP/JSON; each is a trace of its own, or all are one."""
    random = Random(7)
    clock = iter(range(FIRST_NANOSECOND, FIRST_NANOSECOND * 2, 1_000_000))
    trace_ids = (f"{1 if one_trace else number:032x}" for number in itertools.count(1))
    for turn, trace_id in zip(turns, trace_ids, strict=False):
        spans = list(otlp_spans(turn, trace_id, "", clock, random))
        scopes = [{"scope": {"name": SCOPE}, "spans": spans}]
        yield json.loads(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}))


def facts_of(turns: Iterable[SpanPlan], *, one_trace: bool = False) -> Iterator[list[Record]]:
    """Yield what is read of each turn; each is a trace of its own, or all are one."""
    registry = DialectRegistry()
    for document in documents_of(turns, one_trace=one_trace):
        yield list(registry.facts(views(document, lambda _: None)))


def texts_of(plan: SessionPlan) -> list[str]:
    """Return what the user says in each turn."""
    return [
        json.loads(str(turn.children[0].attributes["gen_ai.input.messages"]))[0]["parts"][0]["content"]
        for turn in plan.turns
    ]


def goldens_for(turns: int, *, texts: bool = False) -> GoldenIndex:
    """Make the golden of a session of so many turns, with one argument wrong; `texts`: turns are joined by texts."""
    plans = plan_sessions(["s"], turns=turns, rounds=ROUND, content=texts)
    document = golden_set([*plan_sessions(["a", "b", "c"]), *plans])
    if texts:
        for number, turn in enumerate(document["goldens"][-1]["turns"]):
            turn["user"] = texts_of(plans[-1])[number]
    return load_goldens(document)


def settings(scorer: Scorer) -> EngineSettings:
    """The settings of an engine that drops nothing meanwhile."""
    return EngineSettings(settle=0.5, run_idle=1e8, retention=1e9, scorer=scorer)


def judged_turns(
    goldens: GoldenIndex, scorer: Scorer, sizes: Sequence[int], *, content: bool, one_trace: bool = False
) -> list[int]:
    """Feed an engine turn by turn, and poll after each."""
    [plan] = plan_sessions(["s"], turns=sizes[-1], rounds=ROUND, content=content)
    engine, seconds = Engine(goldens, settings(scorer)), itertools.count(step=60)

    def judge(records: list[Record]) -> None:
        now = float(next(seconds))
        for record in records:
            engine.feed(record, now)  # type: ignore[arg-type] - no log records
        assert engine.poll(now + 59.0).evaluations  # corrections of a long trace wait

    turns = list(facts_of(plan.turns, one_trace=one_trace))
    return cumulated(((lambda records=records: judge(records)) for records in turns), sizes, THREAD_CPU)


def judged_in_process(goldens: GoldenIndex | None, sizes: Sequence[int], *, content: bool) -> list[int]:
    """Play turn by turn through the in-process door, and flush after each."""
    [plan] = plan_sessions(["s"], turns=sizes[-1], rounds=ROUND, content=content)
    processor = ToolParameterMatchSpanProcessor(NoExport(), goldens=goldens)
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(SCOPE)

    def judge(turn: SpanPlan) -> None:
        play(tracer, turn)
        provider.force_flush()

    try:
        return cumulated(((lambda turn=turn: judge(turn)) for turn in plan.turns), sizes, PROCESS_CPU)
    finally:
        provider.shutdown()


def print_turns(sizes: Sequence[int]) -> None:
    """Print the curves of a session that is judged after each turn."""
    three, most = scorer_of(metrics=WITHOUT_GOLDEN), sizes[-1]
    ways: dict[str, Callable[[], Sequence[int]]] = {
        "engine, a golden": lambda: judged_turns(goldens_for(most), Scorer(), sizes, content=False),
        "engine, a golden joined by texts": lambda: judged_turns(
            goldens_for(most, texts=True), Scorer(), sizes, content=True
        ),
        "engine, three metrics": lambda: judged_turns(GoldenIndex(sample=1), three, sizes, content=True),
        "in process, a golden": lambda: judged_in_process(goldens_for(most), sizes, content=False),
        "in process, three metrics": lambda: judged_in_process(None, sizes, content=True),
    }
    for name, measure in ways.items():
        print_curve(f"turns of one session, judged after each; {name}", "turn", sizes, least(measure))


# Open sessions.


def print_open_sessions(sizes: Sequence[int]) -> None:
    """Print what a flush after a turn, and a poll of all, cost while so many sessions are open."""
    flushes, polls = list[float](), list[float]()
    for size in sizes:
        plans = plan_sessions([f"s-{number}" for number in range(size + 20)], turns=1, rounds=ROUND)
        turns = list(facts_of(plan.turns[0] for plan in plans))
        goldens = load_goldens(golden_set(plans))

        def opened(some: Sequence[list[Record]], goldens: GoldenIndex = goldens) -> Engine:
            engine = Engine(goldens, settings(Scorer()))
            for records in some:
                for record in records:
                    engine.feed(record, 0.0)  # type: ignore[arg-type] - no log records
            return engine

        def flush_after(engine: Engine, records: list[Record]) -> None:
            for record in records:
                engine.feed(record, 2.0)  # type: ignore[arg-type] - no log records
            assert engine.flush(2.0).evaluations

        def flushed(turns: Sequence[list[Record]] = turns, size: int = size) -> list[int]:
            engine = opened(turns[:size])
            engine.poll(1.0)
            work = ((lambda one=one: flush_after(engine, one)) for one in turns[size:])
            return cumulated(work, [20], THREAD_CPU)

        def polled(turns: Sequence[list[Record]] = turns, size: int = size) -> list[int]:
            engine = opened(turns[:size])
            return cumulated([lambda: engine.poll(1.0)], [1], THREAD_CPU)

        flushes.append(least(flushed)[0] / 20)
        polls.append(least(polled)[0])
    print_curve("a turn and a flush, so many sessions open", "flush", sizes, flushes, of_all=False)
    print_curve("a poll that judges so many open sessions", "session", sizes, polls)


# Long traces.


def print_long_traces(sizes: Sequence[int]) -> None:
    """Print the curves of one trace that settles again and again."""
    spans = 4 * ROUND + 1

    def many_turns() -> list[int]:
        return judged_turns(goldens_for(sizes[-1]), Scorer(), sizes, content=False, one_trace=True)

    taken = least(many_turns)
    title = f"spans of one trace that settles every {spans} spans"
    print_curve(f"{title}, each time with a turn", "span", [spans * size for size in sizes], taken)
    print_curve(
        f"{title}, its agent still running", "span", [spans * size for size in sizes], least(lambda: one_turn(sizes))
    )


def one_turn(sizes: Sequence[int]) -> list[int]:
    """Feed an engine the spans of one turn, whose root never comes, and poll after some."""
    [plan] = plan_sessions(["s"], turns=sizes[-1], rounds=ROUND)
    engine, seconds = Engine(goldens_for(1), settings(Scorer())), itertools.count()
    children = (SpanPlan("", turn.kind, {}, turn.children) for turn in plan.turns)
    pieces = list(facts_of(children, one_trace=True))
    parents = {records[-1].span_id for records in pieces}

    def settle(records: list[Record]) -> None:
        now = float(next(seconds))
        for record in records[:-1]:
            engine.feed(record.changed(parent_id="agent") if record.parent_id in parents else record, now)
        engine.poll(now + 0.9)

    return cumulated(((lambda records=records: settle(records)) for records in pieces), sizes, THREAD_CPU)


# The two stages of a stream.


class Rows:
    """The state of a partition, in memory."""

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self.get, self.set = self._rows.get, self._rows.__setitem__

    def delete(self, key: bytes) -> None:
        """Delete a row, if it is there."""
        self._rows.pop(key, None)

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return no row: nothing is restored."""
        return iter(())


def print_stream(sizes: Sequence[int]) -> None:
    """Print the curves of one trace in the first stage, and of the turns of one session in the second."""
    [plan] = plan_sessions(["s"], turns=sizes[-1], rounds=ROUND)
    context = StreamContext.of(goldens_for(sizes[-1]), settings(Scorer()))
    spans = 4 * ROUND + 1
    for what, change in (("each time with a turn", dict), ("its agent still running", without_root)):
        bodies = [as_request(change(document)) for document in documents_of(plan.turns, one_trace=True)]
        title = f"stream, stage 1, spans of one trace that settles every {spans} spans, {what}"
        taken = least(lambda bodies=bodies: cumulated(first_stage(context, bodies, []), sizes, THREAD_CPU))
        print_curve(title, "span", [spans * size for size in sizes], taken)
    messages: list[list[ToSession]] = []
    for piece in first_stage(context, list(map(as_request, documents_of(plan.turns))), messages):
        piece()
    taken = least(lambda: cumulated(second_stage(context, messages), sizes, THREAD_CPU))
    print_curve("stream, stage 2, turns of a session, judged after each", "turn", sizes, taken)


def without_root(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the root of a turn; those of all turns are one that never comes."""
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    root = next(span for span in spans if not span.get("parentSpanId"))
    spans.remove(root)
    for span in spans:
        if span["parentSpanId"] == root["spanId"]:
            span["parentSpanId"] = "ab" * 8
    return document


def first_stage(
    context: StreamContext, bodies: Sequence[bytes], messages: list[list[ToSession]]
) -> Iterator[Callable[[], object]]:
    """Yield one piece of work for each request, which is settled and saved; note what goes to the second stage."""
    stage = TraceStage(context, Rows(), 0)

    def settle(body: bytes, now: float) -> None:
        outputs = [*stage.spans(body, now), *stage.advance(now + 0.9)]
        stage.save()
        messages.append([one for one in outputs if isinstance(one, ToSession)])

    for now, body in enumerate(bodies, 1):
        yield partial(settle, body, float(now))


def second_stage(context: StreamContext, messages: Sequence[Sequence[ToSession]]) -> Iterator[Callable[[], object]]:
    """Yield one piece of work for each turn."""
    stage = SessionStage(context, Rows(), 1)

    def judge(some: Sequence[ToSession]) -> None:
        for message in some:
            stage.receive(message.key, message.body)
        stage.save()

    for some in messages:
        yield partial(judge, some)


# Goldens, and calls of a turn.


def print_goldens(sizes: Sequence[int]) -> None:
    """Print what loading goldens costs, and finding one by its session id."""
    loads, finds = list[float](), list[float]()
    for size in sizes:
        document = golden_set(plan_sessions([f"s-{number}" for number in range(size)], turns=1, rounds=2))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "goldens.json")
            path.write_text(json.dumps(document), encoding="utf-8")
            index = load_goldens(path)
            loads.append(least(lambda path=path: cumulated([lambda: load_goldens(path)], [1], THREAD_CPU), 1)[0])
        sessions = [Session(f"s-{number % size}") for number in range(2000)]
        work: list[Any] = [lambda index=index, sessions=sessions: [index.find(one) for one in sessions]]
        finds.append(least(lambda work=work: cumulated(work, [1], THREAD_CPU))[0] / len(sessions))
    print_curve("goldens of a file, loaded", "golden", sizes, loads)
    print_curve("a session's golden, found by id among so many", "session", sizes, finds, of_all=False)


def print_calls(sizes: Sequence[int]) -> None:
    """Print what scoring a turn of so many calls of four tools costs."""
    for title, share in (("all right", 0.0), ("30 % wrong", 0.3)):
        for ordered in (True, False):
            taken: list[float] = []
            for size in sizes:
                random = Random(size)
                made = [(f"tool_{random.randrange(4)}", {"a": number, "b": number % 7}) for number in range(size)]
                expected = [ExpectedCall(name, args) for name, args in made]
                wrong = {number for number in range(size) if random.random() < share}
                actual = [
                    ToolCall(name, {**args, "b": "?"} if number in wrong else args, batch=number + 1)
                    for number, (name, args) in enumerate(made)
                ]
                criterion = Criterion(ordered=ordered)
                work = [lambda e=expected, a=actual, c=criterion: score_turn(e, a, c)]
                taken.append(least(lambda work=work: cumulated(work, [1], THREAD_CPU))[0])
            order = "in order" if ordered else "in any order"
            print_curve(f"calls of one turn, {title}, {order}", "call", sizes, taken)


def run(*, quick: bool = False) -> Iterator[Comparison]:
    """Print every curve; there is no reference to compare with."""
    pin()
    began = time.process_time()
    print_turns(TURNS[:5] if quick else TURNS)
    print_open_sessions(OPEN_SESSIONS[:4] if quick else OPEN_SESSIONS)
    print_long_traces(TRACE_TURNS[:5] if quick else TRACE_TURNS)
    print_stream(TURNS[:5] if quick else TURNS[:6])
    print_goldens(GOLDENS[:3] if quick else GOLDENS)
    print_calls(CALLS)
    print(f"\n{time.process_time() - began:.0f} s of CPU")
    yield from ()


if __name__ == "__main__":
    for _ in run(quick="--quick" in sys.argv[1:]):
        nothing()
