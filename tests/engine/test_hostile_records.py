"""Whatever times, ids and sizes the records of one use of a session have, they change only the results of that use.

The generator changes the spans of one turn: a clock that is years wrong, ends before starts, empty ids, huge arguments,
spans that come again. All other sessions, and a later use of the same session id, get what they get in a history in
which the turn never came, at the same times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from goldspan.collector_processor.emit.evaluation import Evaluation
from goldspan.collector_processor.engine.engine import Engine
from goldspan.collector_processor.engine.trace_machine import EngineSettings
from goldspan.collector_processor.stream.session_stage import SessionStage
from goldspan.collector_processor.stream.stage_interface import Output, Results, StreamContext, ToSession
from goldspan.collector_processor.stream.trace_stage import TraceStage
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import views
from goldspan.mappers.span_facts import LogFacts
from goldspan.scoring.goldens import load_goldens
from rigs.otlp_containers import as_message
from rigs.stream_rig import DictState
from rigs.trace_requests import SECOND, START, turn_request

Document = dict[str, Any]
History = Sequence[tuple[float, Document]]
"""Requests, each with the second at which it comes."""
Given = list[tuple[float, Evaluation]]
"""Results, each with the second at which it was given."""

TURN = {"calls": [{"name": "look", "args": {"at": "pier"}}]}
GOLDENS = load_goldens(
    {"format": 1, "golden_set": "g", "goldens": [{"session": name, "turns": [TURN] * 2} for name in ("a", "b", "h")]}
)
SETTINGS = EngineSettings(remote_callers=False)
AGAIN = 8_000
"""When the session id is used again: its first use was dropped."""
YEAR = 365 * 86_400 * SECOND
STARTS = [0, 1, START - 10 * YEAR, START - 1, START + 20 * 3_600 * SECOND, START + 10 * YEAR, 2**63 - 1]
ENDS = [*STARTS, START + 7_200 * SECOND]
"""The last is within an hour of the later use: a turn with no other time than that, by all that is known, is of it."""


def spans_of(document: Document) -> list[Document]:
    return list(document["resourceSpans"][0]["scopeSpans"][0]["spans"])


def said_at(second: float, session: str, turn: int, *more: str) -> tuple[float, Document]:
    """A turn of a session at its time, for the door and in its spans."""
    document = turn_request(session, ("look", {"at": "pier"}), *(("look", {"at": name}) for name in more), turn=turn)
    for span in spans_of(document):
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = str(int(span[key]) - turn * 60 * SECOND + int(second * SECOND))
    return second, document


def innocent() -> list[tuple[float, Document]]:
    """Other sessions, before, beside and after the hostile turn, and a later use of its session id."""
    return [
        said_at(0, "a", 0),
        said_at(3, "a", 1),
        said_at(10, "b", 0),
        said_at(AGAIN, "h", 10),
        said_at(AGAIN + 3, "h", 11, "mole"),
        said_at(AGAIN + 5, "b", 12),
    ]


@st.composite
def hostile(draw: st.DrawFn) -> list[tuple[float, Document]]:
    """The first use of session h: a turn or two whose spans are changed, some of which come again."""
    found: list[tuple[float, Document]] = []
    for turn in range(draw(st.integers(1, 2))):
        second, document = said_at(1 + turn, "h", turn, *draw(st.sampled_from([(), ("mole",), ("reef",) * 40])))
        for span in spans_of(document):
            change = draw(st.sampled_from(["no", "no", "start", "end", "both", "swapped", "ids", "parent", "size"]))
            if change in ("start", "both"):
                span["startTimeUnixNano"] = str(draw(st.sampled_from(STARTS)))
            if change in ("end", "both"):
                span["endTimeUnixNano"] = str(draw(st.sampled_from(ENDS if change == "end" else STARTS)))
            if change == "swapped":
                span["startTimeUnixNano"], span["endTimeUnixNano"] = span["endTimeUnixNano"], span["startTimeUnixNano"]
            if change == "ids":
                span["traceId"] = span["spanId"] = span["parentSpanId"] = ""
            if change == "parent":
                span["parentSpanId"] = draw(st.sampled_from(["ab" * 8, span["spanId"]]))
            if change == "size":
                span["attributes"].append({"key": "x" * 1_000, "value": {"stringValue": "y" * 10_000}})
        found.append((second, document))
        for _ in range(draw(st.integers(0, 2))):
            later = copy.deepcopy(document)
            for span in spans_of(later):
                span["endTimeUnixNano"] = str(max(int(span["endTimeUnixNano"]), 1) + 1)
            found.append((second + draw(st.sampled_from([0.5, 4.0, 15.0])), later))
    return found


def moments(history: History) -> Iterator[tuple[float, list[Document]]]:
    """Yield the seconds at which something may be due, with what comes."""
    seconds = sorted({*(at for at, _ in history), *(base + 0.5 * n for base in (0, AGAIN) for n in range(60))})
    for now in [*seconds, AGAIN + 700.0, AGAIN + 800.0]:
        yield now, [document for at, document in history if at == now]
        if now == 29.5:
            yield from ((quiet, []) for quiet in (100.0, 700.0, 3_700.0, 4_500.0))


def by_engine(history: History) -> Given:
    engine, registry, found = Engine(GOLDENS, SETTINGS), DialectRegistry(), Given()
    for now, documents in moments(history):
        for document in documents:
            for fact in registry.facts(views(document, lambda _: None)):
                if isinstance(fact, LogFacts):
                    engine.feed_log(fact, now)
                else:
                    engine.feed(fact, now)
        found += [(now, one) for one in engine.poll(now).evaluations]
    return found


def by_stream(history: History) -> Given:
    context, found = StreamContext.of(GOLDENS, SETTINGS), Given()
    first, second = TraceStage(context, DictState({}), 0), SessionStage(context, DictState({}), 1)

    def take(outputs: Iterable[Output], now: float) -> None:
        for output in outputs:
            if isinstance(output, ToSession):
                take(second.receive(output.key, output.body), now)
            elif isinstance(output, Results):
                found.extend((now, one) for one in output.evaluations)

    for now, documents in moments(history):
        for document in documents:
            take(first.spans(as_message(document).SerializeToString(), now), now)
        take(first.advance(now), now)
        take(second.advance(now), now)
    return found


def innocent_results(found: Given) -> list[tuple[object, ...]]:
    """What others were given, and the session id that was used again, and when."""
    return sorted(
        (one.session_id, now, one.id, one.revision, str(one.verdict.label), one.explanation)
        for now, one in found
        if one.session_id != "h" or now >= AGAIN
    )


@pytest.mark.parametrize("door", [by_engine, by_stream])
@given(turns=hostile())
def test_hostile_records_change_only_the_results_of_their_own_run(
    door: Callable[[History], Given], turns: list[tuple[float, Document]]
) -> None:
    others = innocent()
    expected = innocent_results(door(others))
    assert {one[0] for one in expected} == {"a", "b", "h"}
    assert innocent_results(door([*turns, *others])) == expected


@pytest.mark.parametrize("door", [by_engine])
def test_a_conversation_without_ids_is_scored_each_time_its_session_id_is_used(
    door: Callable[[History], Given],
) -> None:
    history = [said_at(1, "h", 0), said_at(2, "h", 1), said_at(AGAIN, "h", 10), said_at(AGAIN + 1, "h", 11)]
    for _, document in history:
        for span in spans_of(document):
            span["traceId"] = span["spanId"] = span["parentSpanId"] = ""
    found = door(history)
    first = [str(one.verdict.label) for now, one in found if now < AGAIN]
    again = [str(one.verdict.label) for now, one in found if now >= AGAIN]
    assert first
    assert again == first
