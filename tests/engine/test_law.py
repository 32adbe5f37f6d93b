"""The law: the newest revisions of a run's results depend only on its set of records.

Not on their order, batching, repetition or timing. The oracle is a batch: assemble every record at once, score it.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec import structs

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.engine import Engine, EngineOutput
from goldspan.collector_processor.engine.result_revisions import digest_of, evaluations_of
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.mappers.assembly import assemble
from goldspan.mappers.assembly.runs import AssemblySettings
from goldspan.mappers.span_facts import NO_CONTEXT, ContextFacts, LogFacts, ModelFacts, Record, SpanFacts
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.goldens.golden import Golden
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from goldspan.scoring.sessions import NO_CONTENT, SpanRef, UserMessages
from goldspan.scoring.turn_join import split_runs
from rigs.span_facts import agent, captured, model, plain, tool

GOLDENS = {
    "format": 1,
    "golden_set": "law",
    "goldens": [
        {
            "session": "indexed",
            "turns": [
                {"calls": [{"name": "f", "args": {"x": 1}}]},
                {"calls": [{"name": "f", "args": {"x": 2}}, {"name": "g", "args": {"y": "a"}}]},
            ],
        },
        {
            "session": "keyed",
            "turns": [
                {"user": "first", "calls": [{"name": "f", "args": {"x": 1}}]},
                {"user": "second", "calls": [{"name": "g", "args": {"y": "b"}}]},
            ],
        },
        {"session": "whole", "calls": [{"name": "f", "args": {"x": 1}}, {"name": "f", "args": {"x": 2}}]},
    ],
}
INDEX = load_goldens(GOLDENS)

HOUR = 3600
IDLE = 30
ASSEMBLY = AssemblySettings(run_idle=IDLE)
PLACES = st.sampled_from([None, None, (0, 1), (1, 2), (2, 3), (1, 3)])
"""User messages in the input of a turn's first model call: before the model's last answer, and in all."""
NAMES = st.sampled_from(["f", "f", "g", "h"])
ARGS = st.sampled_from([{"x": 1}, {"x": 2}, {"y": "a"}, {"y": "b"}, {}, None])
RESULTS = st.sampled_from([NO_CONTENT, captured("ok"), captured("found 2 of b")])
CONTEXTS = st.sampled_from(
    [
        NO_CONTEXT,
        ContextFacts(messages=captured('[{"role": "user", "content": "take 1 and a"}]')),
        ContextFacts(
            user_text=captured("rather 2"),
            messages=captured('[{"role": "user", "content": "take 1 and a"}, {"role": "user", "content": "rather 2"}]'),
            tool_definitions=captured('[{"name": "f", "parameters": {"properties": {"x": {"enum": [1]}}}}]'),
        ),
        ContextFacts(tool_definitions=captured('[{"name": "f", "parameters": {"required": ["x"]}}, {"name": "g"}]')),
    ]
)
"""What models are asked, and which tools they have."""


@st.composite
def turns(draw: st.DrawFn, number: int, session: str, begin: float) -> list[SpanFacts]:
    """One turn: an agent with tools, perhaps behind plain spans, perhaps over two traces, perhaps a raw SDK."""
    trace = f"{number:032x}"
    on = draw(st.sampled_from(["root", "tools", "model", "all"]))

    def key(place: str) -> str | None:
        return session if on in (place, "all") else None

    calls = draw(st.lists(st.tuples(NAMES, ARGS), max_size=3))
    place = draw(PLACES)
    counts = None if place is None else UserMessages(*place)
    shape = draw(st.sampled_from(["agent", "agent", "behind", "two_traces", "raw", "rootless", "remote"]))
    turn_id = f"turn-{number}" if shape == "two_traces" else None
    context: dict[str, Any] = {}
    spans: list[SpanFacts] = []
    if shape == "raw":
        asked = tuple((name, args, f"c{position}") for position, (name, args) in enumerate(calls))
        second = f"{number + 500:032x}"
        return [
            model(
                trace,
                "m1",
                requests=asked,
                session=session,
                user=True,
                user_messages=counts,
                context=draw(CONTEXTS),
                start=begin,
                end=begin + 1,
            ),
            model(
                second,
                "m2",
                session=session,
                user=False,
                answered={"c0": False},
                start=begin + 2,
                end=begin + 3,
            ),
        ]
    parent = {"behind": "plain", "rootless": "never", "remote": "root"}.get(shape, "root")
    if shape == "behind":
        spans.append(plain(trace, "plain", "root", start=begin, end=begin + 9))
    if shape != "rootless":
        up = "elsewhere" if shape == "remote" else ""
        spans.append(
            agent(trace, "root", up, session=key("root"), start=begin, end=begin + 10, turn_id=turn_id, **context)
        )
    spans.append(
        model(
            trace,
            "model",
            parent,
            requests=tuple((name, args, None) for name, args in calls),
            session=key("model"),
            user_messages=counts,
            context=draw(CONTEXTS),
            start=begin + 0.5,
            end=begin + 1,
        )
    )
    for position, (name, args) in enumerate(calls):
        at = begin + 1 + position
        spans.append(
            tool(
                trace,
                f"tool{position}",
                parent,
                name=name,
                args=args,
                session=key("tools"),
                start=at,
                end=at + 0.5,
                facts={"result": draw(RESULTS)},
            )
        )
    if shape == "two_traces":
        other = f"{number + 700:032x}"
        spans.append(agent(other, "root", session=session, start=begin + 5, end=begin + 8, turn_id=turn_id))
        spans.append(tool(other, "tool", "root", name="g", args={"y": "a"}, start=begin + 6, end=begin + 7))
    return spans


@st.composite
def told_by_logs(draw: st.DrawFn, spans: list[SpanFacts]) -> list[Record]:
    """The same turn with some of its content, or whose it is, in log records instead of the spans."""
    records: list[Record] = []
    for span in spans:
        identity = f"log-of-{span.trace_id}-{span.span_id}"
        time = draw(st.sampled_from([0, span.end]))
        told = draw(st.sampled_from(["nothing", "nothing", "content", "session"]))
        kept, log = span, None
        if told == "content" and span.model is not None:
            kept = structs.replace(span, model=ModelFacts(), context=NO_CONTEXT)
            log = LogFacts(span.trace_id, span.span_id, identity, time, model=span.model, context=span.context)
        elif told == "content" and span.tool is not None:
            named = structs.replace(span.tool, call_id=identity)
            kept = structs.replace(span, tool=structs.replace(named, arguments=NO_CONTENT))
            log = LogFacts(span.trace_id, "", identity, time, tools=(named,))
        elif told == "session" and span.session_keys:
            kept = structs.replace(span, session_keys=())
            log = LogFacts(span.trace_id, span.span_id, identity, time, session_keys=span.session_keys)
        records += [kept] if log is None else [kept, log]
    return records


@st.composite
def worlds(draw: st.DrawFn) -> list[Record]:
    """Every record of a little world: sessions of several turns, some of a second run, and unrelated traffic."""
    spans: list[Record] = []
    number = 1
    for session in draw(st.lists(st.sampled_from(["indexed", "keyed", "whole", "unwanted"]), min_size=1, max_size=3)):
        begin = draw(st.sampled_from([100, 400, 100 + 2 * HOUR]))
        for _ in range(draw(st.integers(1, 3))):
            spans += draw(told_by_logs(draw(turns(number, session, begin))))
            number += 1
            begin += draw(st.sampled_from([20, 60, 2 * HOUR]))
    spans += [plain(f"{900 + n:032x}", "http", start=n, end=n + 1) for n in range(draw(st.integers(0, 2)))]
    return spans


def oracle(records: list[Record], index: GoldenIndex = INDEX, scorer: Scorer | None = None) -> dict[str, Evaluation]:
    """Score every record at once."""
    found: dict[str, Evaluation] = {}
    scorer = scorer or Scorer()
    for session in assemble(records, ASSEMBLY):
        golden = index.find(session)
        for run in split_runs(session, golden, ASSEMBLY.run_idle) if isinstance(golden, Golden) else [session]:
            if index.find(run) is not None or index.samples_run(run):
                for evaluation in evaluations_of(scorer.score(index.find(run), run), complete=True):
                    found[evaluation.id] = normal(evaluation)
    return found


def normal(evaluation: Evaluation) -> Evaluation:
    """Return a result without what depends on those before it: its revision, and whether there was an event of one."""
    return structs.replace(evaluation, revision=1, has_event=True)


class Law(RuleBasedStateMachine):
    """Feeds a world in any order, batching and time; compares at the end."""

    index = INDEX
    settings = EngineSettings(
        settle=1, assembly=ASSEMBLY, run_idle=IDLE, caller_timeout=120, retention=1e9, trace_retention=1e9
    )
    steps = st.sampled_from([0.0, 0.4, 1.0, 2.0, 25.0, 61.0, 200.0])

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.index, self.settings)
        self.now = 0.0
        self.records: list[Record] = []
        self.waiting: list[Record] = []
        self.newest: dict[str, Evaluation] = {}
        self.released: Counter[Any] = Counter()
        self.held: set[Any] = set()
        self.counted: Counter[tuple[str, str]] = Counter()
        """What counters say: what became final, less what did not stay so."""

    @initialize(records=worlds(), order=st.randoms(use_true_random=False))
    def world(self, records: list[Record], order: Any) -> None:
        self.records = records
        self.waiting = list(records)
        order.shuffle(self.waiting)

    def take(self, output: EngineOutput) -> None:
        for evaluation in output.evaluations:
            before = self.newest.get(evaluation.id)
            assert evaluation.revision == (1 if before is None else before.revision + 1)
            self.newest[evaluation.id] = evaluation
        assert output.released <= self.held, "only what is held can be released, and only once"
        self.held -= output.released
        self.counted.update((one.id, digest_of(one)) for one in output.final)
        self.counted.subtract((one.id, digest_of(one)) for one in output.superseded)

    def feed(self, fact: Record) -> None:
        if isinstance(fact, LogFacts):
            self.engine.feed_log(fact, self.now)
        elif self.engine.feed(fact, self.now):
            self.held.add(fact.ref)

    @precondition(lambda self: self.waiting)
    @rule(count=st.integers(1, 6))
    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            self.feed(self.waiting.pop())

    @precondition(lambda self: len(self.waiting) < len(self.records))
    @rule(pick=st.integers(0, 1000))
    def deliver_again(self, pick: int) -> None:
        delivered = [record for record in self.records if record not in self.waiting]
        self.feed(delivered[pick % len(delivered)])

    @rule(data=st.data())
    def pass_time(self, data: st.DataObject) -> None:
        self.now += data.draw(self.steps)
        self.take(self.engine.poll(self.now))

    @rule()
    def flush(self) -> None:
        self.take(self.engine.flush(self.now))
        assert not self.held, "a flush releases everything"

    def finish(self) -> None:
        while self.waiting:
            self.feed(self.waiting.pop())
        self.take(self.engine.flush(self.now, end_of_input=True))

    def teardown(self) -> None:
        self.finish()
        standing = {key: normal(one) for key, one in self.newest.items() if not one.withdrawn}
        expected = oracle(self.records, self.index, self.settings.scorer)
        assert standing == expected
        assert {key: count for key, count in self.counted.items() if count} == {
            (key, digest_of(one)): 1 for key, one in expected.items()
        }
        assert not self.held


class LawOfLargeSessions(Law):
    """As above, where every trace and session counts as large: more comes while it is read and scored."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.side.large = 1
        self.engine.side.go_on = self.go_on

    def go_on(self, done: threading.Event) -> None:
        done.wait(0.001)
        for _ in range(min(2, len(self.waiting))):
            self.feed(self.waiting.pop())
        self.now += 0.7
        self.take(self.engine.poll(self.now))


class LawWithoutGoldens(Law):
    """As above, where every session is scored by metrics that need no golden, and some by goldens, too."""

    index = INDEX.with_sample(1)
    settings = replace(Law.settings, scorer=scorer_of(metrics=WITHOUT_GOLDEN))


class LawOfASample(LawWithoutGoldens):
    """As above, of half of the sessions, and without any golden."""

    index = GoldenIndex(sample=0.5)


class LawUnderTimeLimits(Law):
    """As above, with state dropped along the way. Untouched sessions still obey; the touched ones say so."""

    settings = EngineSettings(
        settle=1, assembly=ASSEMBLY, run_idle=IDLE, caller_timeout=120, retention=300, trace_retention=40
    )
    steps = st.sampled_from([0.4, 2.0, 61.0, 400.0, 4000.0])

    def __init__(self) -> None:
        super().__init__()
        self.late_traces: set[str] = set()
        self.in_time: set[SpanRef] = set()
        """The turns that were judged before anything of their trace came too late."""

    def teardown(self) -> None:
        self.finish()
        if self.engine.stats.late:
            self.check_no_phantoms()
            return
        touched = {one.session_id for one in self.newest.values() if one.incomplete}
        standing = {
            key: normal(one) for key, one in self.newest.items() if not one.withdrawn and one.session_id not in touched
        }
        expected = {key: one for key, one in oracle(self.records).items() if one.session_id not in touched}
        assert standing == expected

    def feed(self, fact: Record) -> None:
        late = self.engine.stats.late
        super().feed(fact)
        if self.engine.stats.late > late:
            self.late_traces.add(fact.trace_id)

    def take(self, output: EngineOutput) -> None:
        super().take(output)
        turns = {one.target for one in output.evaluations if one.level == "turn"}
        self.in_time |= {target for target in turns if target is not None and target.trace_id not in self.late_traces}

    def check_no_phantoms(self) -> None:
        """What came too late is counted; it never becomes a run of its own. Each turn that is lost may part a run, and
        so may each that was judged as two, before the span that joins them came.

        The law says nothing of a session that is marked: where a part of a turn came too late, another part of it may
        stand for a turn of the golden.
        """
        all_of_them = list(oracle(self.records).values())
        given = [one for one in self.newest.values() if not one.withdrawn]
        runs = Counter(one.session_id for one in all_of_them if one.level == "session")
        expected = {(one.session_id, one.target) for one in all_of_them if one.level == "turn"}
        found = {(one.session_id, one.target) for one in given if one.level == "turn"}
        seen = {target for _, target in found}
        runs.update(session_id for session_id, target in expected if target not in seen)
        runs.update(session_id for session_id, target in found - expected if target in self.in_time)
        mine = Counter(one.session_id for one in given if one.level == "session")
        touched = {one.session_id for one in given if one.incomplete}
        assert all(count <= runs[session] for session, count in mine.items() if session not in touched)


class LawUnderEviction(Law):
    """As above, with room for a few spans only: what was evicted is incomplete, never wrong."""

    settings = EngineSettings(
        settle=1, assembly=ASSEMBLY, run_idle=IDLE, retention=1e9, trace_retention=1e9, max_spans=6
    )

    def teardown(self) -> None:
        self.finish()
        assert not self.held
        spoilt = {one.session_id for one in self.newest.values() if one.incomplete}
        if self.engine.stats.late or spoilt:
            return
        standing = {key: normal(one) for key, one in self.newest.items() if not one.withdrawn}
        if not self.engine.stats.evicted_sessions:
            assert standing == oracle(self.records)


TestLaw = Law.TestCase
TestLawOfLargeSessions = LawOfLargeSessions.TestCase
TestLawWithoutGoldens = LawWithoutGoldens.TestCase
TestLawOfASample = LawOfASample.TestCase
TestLawUnderTimeLimits = LawUnderTimeLimits.TestCase
TestLawUnderEviction = LawUnderEviction.TestCase
