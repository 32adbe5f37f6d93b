"""Most spans are never read; which ones changes no result, whatever comes when and together with what."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Tracer

from goldspan.collector_processor import ToolParameterMatchSpanProcessor
from goldspan.collector_processor.emit.evaluation import Evaluation, event_attributes
from goldspan.collector_processor.engine import reading_and_holding
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.in_process import trace_filter
from goldspan.collector_processor.in_process.trace_filter import RunningRoots, TraceFilter
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.scoring.errors import Problem
from goldspan.scoring.goldens import GoldenIndex
from rigs.in_process_rig import Counting, Inner, Rig, recorded
from rigs.scripted_agent import CONVERT, PARIS, ROME, Call, golden, golden_set, run_turn

GOLDENS = GoldenIndex([golden_set(golden("wanted", [PARIS, CONVERT]), golden("wanted too", [ROME]))])
SESSIONS = ("wanted", "wanted too", "unwanted", "nobody's", None)


Turns = list[tuple[str | None, list[Call]]]
TURNS = st.lists(
    st.tuples(st.sampled_from(SESSIONS), st.lists(st.sampled_from((PARIS, ROME, CONVERT)), max_size=3)),
    min_size=1,
    max_size=3,
)
TRACES = st.lists(st.tuples(st.sampled_from(("nothing", "web request", "session")), TURNS), min_size=1, max_size=4)


def play_traces(tracer: Tracer, traces: list[tuple[str, Turns]]) -> None:
    """Turns of sessions, several of them under one root at times, web requests around and between."""
    for above, turns in traces:
        if above == "nothing":
            for session, calls in turns:
                run_turn(tracer, session, calls)
            continue
        attributes = {"session.id": "unwanted"} if above == "session" else {"http.route": "/batch"}
        with tracer.start_as_current_span("POST /batch", kind=SpanKind.SERVER, attributes=attributes):
            for session, calls in turns:
                with tracer.start_as_current_span("between"):
                    run_turn(tracer, session, calls)


Said = dict[str, dict[str, Any]]
"""The newest revision of what was said of each result."""


def newest(events: Iterable[Mapping[str, Any]]) -> Said:
    found: Said = {}
    for event in sorted(events, key=lambda event: event["tool_parameter_match.revision"]):
        said = {key: value for key, value in event.items() if key != "tool_parameter_match.revision"}
        found[event["tool_parameter_match.result_id"]] = said
    return found


def by_replay(spans: Sequence[ReadableSpan]) -> Said:
    """What there is to say of these spans, each of which is read."""
    said: list[Evaluation] = []
    problems: list[Problem] = []
    read = views(list(spans), on_problem=problems.append)
    replay(read, GOLDENS, DialectRegistry(), problems=problems, consumers=[said.append])
    assert problems == []
    return newest(map(event_attributes, said))


@given(TRACES, st.randoms(use_true_random=False), st.integers(1, 12), st.booleans())
def test_whatever_is_left_unread_the_results_are_those_of_all_spans(
    traces: list[tuple[str, Turns]], random: Random, size: int, shuffled: bool
) -> None:
    spans = recorded(lambda tracer: play_traces(tracer, traces))
    if shuffled:
        random.shuffle(spans)
    batches = [spans[start : start + size] for start in range(0, len(spans), size)]
    rig = Rig(Inner(), goldens=GOLDENS, settle=3600, run_idle=3600, hold_timeout=3600)
    for batch in batches:
        rig.door.export(batch)
    rig.close()
    assert newest(record.attributes for record in rig.events()) == by_replay(spans)
    assert Counter(map(_ids, rig.inner.spans)) == Counter(map(_ids, spans))


def _ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def turn(session: str | None, calls: Sequence[Call] = (PARIS,)) -> list[ReadableSpan]:
    return recorded(lambda tracer: run_turn(tracer, session, calls))


@pytest.fixture
def registry() -> Counting:
    return Counting()


@pytest.fixture
def filter_(registry: Counting) -> TraceFilter:
    return TraceFilter(GOLDENS, EngineSettings(), registry, content=False, on_failure=_fail)


def _fail(where: str, error: Exception) -> None:
    raise AssertionError(where) from error


def test_of_sessions_that_no_golden_wants_no_span_is_read(filter_: TraceFilter, registry: Counting) -> None:
    for number in range(20):
        assert list(filter_.add(turn(f"unwanted {number}"), 0.0)) == []
    assert registry.read_spans == []
    assert filter_.engine.stats.spans == 0
    assert filter_.engine.stats.sessions_without_golden == 20


def test_plain_spans_are_not_even_read_beside_calls_that_are_wanted(filter_: TraceFilter, registry: Counting) -> None:
    held = list(filter_.add(turn("wanted"), 0.0))
    assert sorted(span.name for _, span in held) == ["execute_tool get_weather 0", "invoke_agent weather"]
    assert sorted(registry.read_spans) == ["chat test-model", "execute_tool get_weather 0", "invoke_agent weather"]
    assert filter_.engine.stats.spans == 4


def test_what_turns_out_to_be_wanted_is_read_after_all(filter_: TraceFilter, registry: Counting) -> None:
    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("suite", attributes={"session.id": "unwanted"}):
            run_turn(tracer, "unwanted", [PARIS])
            run_turn(tracer, "wanted", [PARIS, CONVERT])

    spans = recorded(play)
    first = [span for span in spans[:6] if span.name.startswith("execute_tool")]
    assert list(filter_.add(spans[:4], 0.0)) == []
    assert filter_.engine.stats.spans == 0
    assert [span for _, span in filter_.add(spans[4:], 0.0) if span in first] == []
    assert filter_.engine.stats.spans == len(spans)
    [session] = [one for one in filter_.engine.flush(0.0, end_of_input=True).sessions if one.golden is not None]
    assert session.verdict.exact == 1


def test_a_session_whose_first_spans_were_forgotten_is_not_judged_as_if_it_were_whole(
    filter_: TraceFilter,
) -> None:
    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("suite", attributes={"session.id": "unwanted"}):
            chat = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "unwanted"}
            tracer.start_span("chat", attributes=chat).end()
            run_turn(tracer, "wanted", [PARIS, CONVERT])

    spans = recorded(play)
    assert list(filter_.add(spans[:3], 0.0)) == []
    assert list(filter_.add(turn("unwanted"), 3600.0)) == []  # an hour later nobody remembers
    list(filter_.add(spans[3:], 3600.0))
    output = filter_.engine.flush(3600.0, end_of_input=True)
    [session] = [one for one in output.sessions if one.golden is not None]
    assert session.session is not None
    assert session.session.incomplete


def test_what_is_left_unread_is_bounded_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_filter, "MAX_BUFFER_BYTES", 100_000)
    filter_ = TraceFilter(GOLDENS, EngineSettings(), DialectRegistry(), content=False, on_failure=_fail)
    big = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "x" * 50_000}]}])

    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("suite", attributes={"session.id": "unwanted"}):
            chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": big}
            for _ in range(13):
                tracer.start_span("chat", attributes=chat).end()

    for _ in range(20):
        list(filter_.add(recorded(play), 0.0))
        assert filter_.buffer.size <= 100_000 + 14 * 60_000


def ended(session: str | None) -> tuple[ReadableSpan, ReadableSpan, ReadableSpan]:
    """A tool, its model's call, and the root above them, of which only the model's call names the session."""
    named = {} if session is None else {"gen_ai.conversation.id": session}

    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("plain", attributes={"http.route": "/"}):
            name, arguments = PARIS
            call = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
            tracer.start_span("tool", attributes={"gen_ai.operation.name": "execute_tool", **call}).end()
            tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat", **named}).end()

    tool, chat, root = recorded(play)
    return tool, chat, root


def names(held: Iterable[tuple[Any, ReadableSpan]]) -> list[str]:
    return [span.name for _, span in held]


def test_without_a_session_s_name_tools_and_roots_wait_unread_until_it_is_another_s(
    filter_: TraceFilter, registry: Counting
) -> None:
    tool, chat, root = ended("unwanted")
    assert names(filter_.add([tool], 0.0)) == ["tool"]
    assert names(filter_.add([root], 0.1)) == ["plain"]
    assert filter_.poll(0.2).released == frozenset()
    assert names(filter_.add([chat], 0.3)) == []
    assert {ref.span_id for ref in filter_.poll(0.3).released} == {_span_id(tool), _span_id(root)}
    assert registry.read_spans == []
    assert filter_.engine.stats.sessions_without_golden == 1


@pytest.mark.parametrize(("session", "waits"), [("unwanted", False), ("wanted", True)])
def test_a_root_that_still_runs_names_the_session(session: str, waits: bool) -> None:
    inner = Inner()
    door = ToolParameterMatchSpanProcessor(inner, goldens=GOLDENS)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(door)
    tracer = provider.get_tracer("agent")
    root = tracer.start_span("invoke_agent")
    root.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session})
    name, arguments = PARIS
    call = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps(arguments)}
    below = trace.set_span_in_context(root)
    tracer.start_span("tool", below, attributes={"gen_ai.operation.name": "execute_tool", **call}).end()
    BatchSpanProcessor.force_flush(door)
    assert [span.name for span in inner.spans] == ([] if waits else ["tool"])
    root.end()
    provider.shutdown()
    [tool] = [span for span in inner.spans if span.name == "tool"]
    assert ("tool_parameter_match.score" in (tool.attributes or {})) is waits
    assert len(inner.spans) == 2


def test_when_it_is_one_that_a_golden_wants_they_wait_for_its_result(filter_: TraceFilter) -> None:
    tool, chat, root = ended("wanted too")
    assert names(filter_.add([tool, root], 0.0)) == ["tool", "plain"]
    assert names(filter_.add([chat], 0.3)) == []
    assert filter_.poll(0.4).released == frozenset()
    output = filter_.poll(1.4)
    assert {ref.span_id for ref in output.released} == {_span_id(tool), _span_id(root)}
    assert {one.target.span_id for one in output.evaluations if one.target} == {_span_id(tool), _span_id(root)}


def test_a_trace_that_names_no_session_leaves_when_its_root_has_ended(filter_: TraceFilter) -> None:
    tool, chat, root = ended(None)
    list(filter_.add([tool, chat], 0.0))
    assert filter_.poll(10.0).released == frozenset()
    list(filter_.add([root], 10.0))
    assert filter_.deadline() == 11.0
    assert {ref.span_id for ref in filter_.poll(11.0).released} == {_span_id(tool), _span_id(root)}
    assert filter_.deadline() is None
    assert filter_.engine.stats.sessions_without_golden == 1
    assert list(filter_.add(ended(None)[:1], 12.0)) != []


def test_nothing_waits_for_a_name_longer_than_the_hold(filter_: TraceFilter) -> None:
    tool, chat, _ = ended(None)
    list(filter_.add([tool, chat], 0.0))
    assert filter_.deadline() == 20.0
    assert [ref.span_id for ref in filter_.poll(20.0).released] == [_span_id(tool)]


def test_a_flush_decides(filter_: TraceFilter) -> None:
    list(filter_.add(ended(None), 0.0))
    assert len(filter_.flush(0.0).released) == 2
    assert filter_.engine.stats.sessions_without_golden == 1


def test_beyond_so_many_traces_without_a_name_they_are_read(
    filter_: TraceFilter, registry: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_and_holding, "MAX_TRACES_WITHOUT_SESSION", 2)
    traces = [ended(None) for _ in range(3)]
    for tool, _, _ in traces:
        assert names(filter_.add([tool], 0.0)) == ["tool"]
    for _, chat, root in traces:
        assert names(filter_.add([chat, root], 0.0)) == ["plain"]
    assert registry.read_spans == ["tool", "chat", "plain"]


def test_a_span_that_carries_a_score_already_waits_for_ours(filter_: TraceFilter) -> None:
    tool, _, _ = ended(None)
    scored = recorded(
        lambda tracer: tracer.start_span(
            "tool", attributes={**(tool.attributes or {}), "tool_parameter_match.score": 1.0}
        ).end()
    )
    assert names(filter_.add(scored, 0.0)) == ["tool"]


def _span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return format(span.context.span_id, "016x")


def test_roots_are_remembered_while_they_run_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_filter, "MAX_ROOTS", 1000)
    tracer, roots = TracerProvider(shutdown_on_exit=False).get_tracer("agent"), RunningRoots()
    running = [tracer.start_span("invoke_agent") for _ in range(400)]
    for span in running:
        roots.add(span)  # type: ignore[arg-type]
    del running[100:], span
    roots.forget_ended()
    assert len(roots) == 100
    for span in running:
        assert roots.get(span.get_span_context().trace_id) is span
    for _ in range(5000):
        roots.add(tracer.start_span("web request"))  # type: ignore[arg-type]
        assert len(roots) <= 1000


@pytest.mark.parametrize("marker", ["gen_ai.provider.name", "input.value", "openinference.span.kind"])
def test_a_trace_without_agent_model_and_tool_is_not_held(marker: str) -> None:
    def play(tracer: Tracer) -> None:
        with tracer.start_as_current_span("GET /", kind=SpanKind.SERVER, attributes={"http.route": "/"}):
            tracer.start_span("embed", attributes={marker: "EMBEDDING"}).end()

    rig = Rig(Inner(), goldens=GOLDENS, settle=3600, hold_timeout=3600)
    rig.door.export(recorded(play))
    assert {span.name for span in rig.inner.spans} == {"GET /", "embed"}
    rig.close()
