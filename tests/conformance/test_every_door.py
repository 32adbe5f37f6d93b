"""Whatever a golden asks, every door answers as `goldspan score` does: drawn goldens x recordings x doors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from hypothesis import settings

from goldspan.collector_processor.emit.evaluation import Events
from goldspan.mappers import read_sessions
from goldspan.scoring import Criterion, load_goldens
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import Scorer, scorer_of
from rigs.drawn_goldens import drawn_goldens, leaving_out
from rigs.every_door import DOORS, Documents, by_replay
from rigs.more_simulated_agents import inferred_goldens, runs_to_judge
from rigs.otlp_containers import requests_of
from rigs.otlp_logs import LOGGED, log_documents
from rigs.otlp_requests import spans_of
from rigs.pipeline_rig import Said
from rigs.repository import RECORDING_NAMES
from rigs.trace_requests import SECOND, START, attribute, digits, request, span, turn_request

SEEDS = range(max(1, settings().max_examples // 100))
SCHEMA = "tool_parameter_schema"
LEVEL = "tool_parameter_match.level"


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_a_drawn_golden_is_answered_alike_by_every_door(name: str) -> None:
    """Of every second drawing agents leave out the arguments that have their declared default."""
    recorded = [*requests_of(name), *(log_documents(name) if name in LOGGED else [])]
    for seed in SEEDS:
        documents = recorded if (seed + len(name)) % 2 else leaving_out(recorded)
        goldens = drawn_goldens(seed * 1000 + RECORDING_NAMES.index(name), read_sessions(documents))
        agree(documents, goldens, scorer_of())


@pytest.mark.every_recording
@pytest.mark.costly
@pytest.mark.parametrize("name", RECORDING_NAMES)
def test_an_instrumentation_that_nobody_knows_is_answered_alike_by_every_door(name: str) -> None:
    """No key is known but the session's, on roots alone, and none has a word that only agents have."""
    found = as_nobody_writes(requests_of(name))
    index = RECORDING_NAMES.index(name)
    agree(found, drawn_goldens(index, read_sessions(found)), scorer_of())


_OF_AGENTS = ("gen_ai", "openinference", "traceloop", "function", "tool", "span", "llm")


def as_nobody_writes(documents: Documents) -> Documents:
    recorded = [one for document in documents for one in spans_of(dict(document))]
    known = {(one["traceId"], one["spanId"]) for one in recorded}
    for one in recorded:
        for holder in (one, *one.get("events", ())):
            for pair in holder.get("attributes", ()):
                pair["key"] = reduce(lambda key, word: key.replace(word, "acme"), _OF_AGENTS, f"acme.{pair['key']}")
        if (one["traceId"], one.get("parentSpanId")) not in known:
            one.setdefault("attributes", []).append(attribute("session.id", "nobody's"))
    return documents


def agree(documents: Documents, goldens: GoldenIndex, scorer: Scorer, events: Events = Events.ALL) -> Said:
    """Every door says what a replay says; return it."""
    expected = by_replay(documents, goldens, scorer, events)
    for door, through in DOORS.items():
        assert through(documents, goldens, scorer, events) == expected, door
    return expected


# Lists of tools that belong to model calls: two agents in one turn, a list that grows, tools of one name.

TRACE = digits("two agents", 32)


def tool_of(name: str, **properties: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": properties}}


def made(
    name: str,
    parent: str,
    begin: float,
    operation: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    asks: tuple[str, str, Mapping[str, Any]] | None = None,
    failed: bool = False,
    **attributes: str,
) -> dict[str, Any]:
    """A span in OpenTelemetry's conventions; a model may `ask` for a tool by call id, name and arguments."""
    written = {"gen_ai.operation.name": operation, **{key.replace("__", "."): text for key, text in attributes.items()}}
    if tools:
        written["gen_ai.tool.definitions"] = json.dumps(list(tools))
    if asks is not None:
        call_id, tool, arguments = asks
        part = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        written["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": [part]}])
    listed = [attribute(key, text) for key, text in written.items()]
    own, above = digits(name, 16), digits(parent, 16) if parent else ""
    start, seconds = START + int(begin * SECOND), 90 if operation == "invoke_agent" else 1
    found = span(TRACE, own, above, f"{operation} {name}", start=start, seconds=seconds, attributes=listed)
    return {**found, "status": {"code": 2, "message": "no seat"}} if failed else found


def ran(parent: str, begin: float, call_id: str, name: str, *, failed: bool = False, **args: Any) -> dict[str, Any]:
    more = {"gen_ai__tool__name": name, "gen_ai__tool__call__arguments": json.dumps(args)}
    if call_id:
        more["gen_ai__tool__call__id"] = call_id
    return made(f"{name} {begin}", parent, begin, "execute_tool", failed=failed, **more)


SEARCH_WEB = tool_of("search", query={"type": "string"}, pages={"type": "integer", "default": 1})
SEARCH_DOCS = tool_of("search", topic={"type": "string"}, pages={"type": "integer", "default": 5})
BOOK = tool_of("book", seat={"type": "string"}, note={"type": "string", "default": ""})
SEND = tool_of("send", body={"type": "string"})
DAY, KEY = str(datetime.fromtimestamp(START // SECOND, UTC).date()), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
DELEGATE = tool_of("research", about={"type": "string"})

TURN = request(
    [
        made("root", "", 0, "invoke_agent", gen_ai__conversation__id="s", gen_ai__agent__name="planner"),
        made("m1", "root", 1, "chat", tools=[SEARCH_WEB, DELEGATE], asks=("c1", "search", {"query": "sea"})),
        ran("root", 3, "c1", "search", query="sea"),
        made("m2", "root", 5, "chat", tools=[SEARCH_WEB, DELEGATE], asks=("c2", "research", {"about": "sea"})),
        ran("root", 7, "c2", "research", about="sea"),
        made("sub", "research 7", 8, "invoke_agent", gen_ai__agent__name="researcher"),
        made("m3", "sub", 9, "chat", tools=[SEARCH_DOCS]),
        ran("sub", 11, "", "search", topic="sea"),  # nothing says which model call asked for it
        made("m4", "root", 20, "chat", tools=[SEARCH_WEB, DELEGATE, BOOK], asks=("c4", "book", {"seat": "1A"})),
        ran("root", 22, "c4", "book", failed=True, seat="1A"),
        made("m5", "root", 24, "chat", tools=[SEARCH_WEB, DELEGATE, BOOK]),
    ]
)


def golden(*calls: Mapping[str, Any]) -> GoldenIndex:
    return load_goldens({"golden_set": "g", "goldens": [{"session": "s", "turns": [{"calls": list(calls)}]}]})


def test_a_call_has_the_tools_that_its_model_call_was_given() -> None:
    """By any list of the turn but its own a right call would have an unknown argument, or be no tool at all."""
    [session] = read_sessions(TURN)
    [turn] = session.turns
    given = [[one["name"] for one in call.tool_definitions.value] for call in turn.calls]
    assert [call.name for call in turn.calls] == ["search", "research", "search", "book"]
    assert given == [["search", "research"], ["search", "research"], ["search"], ["search", "research", "book"]]
    said = agree([TURN], GoldenIndex(sample=1.0), scorer_of(metrics=[SCHEMA]))
    judged = [one for one in said.values() if one[f"{SCHEMA}.level"] == "call"]
    assert {one["gen_ai.evaluation.score.value"] for one in judged} == {1.0}
    assert len(judged) == 4
    assert agree([TURN], GoldenIndex(sample=1.0), scorer_of(metrics=[SCHEMA]), Events.FINDINGS) == {}


def test_a_session_in_order_has_no_event_at_any_door_by_the_metrics_that_need_no_golden() -> None:
    scorer, document = (
        scorer_of(metrics=WITHOUT_GOLDEN),
        turn_request("s", ("look", {"at": "pier"}), user="look at the pier"),
    )
    in_order = agree([document], GoldenIndex(sample=1.0), scorer)
    assert {one["gen_ai.evaluation.name"] for one in in_order.values()} == {one.name for one in WITHOUT_GOLDEN}
    assert agree([document], GoldenIndex(sample=1.0), scorer, Events.FINDINGS) == {}
    wrong = turn_request("s", ("look", {"at": "harbour"}), user="look at the pier")
    found = agree([wrong], GoldenIndex(sample=1.0), scorer, Events.FINDINGS)
    assert {one["gen_ai.evaluation.name"] for one in found.values()} == {"tool_parameter_grounding"}


def test_a_default_is_that_of_the_list_in_force() -> None:
    goldens = golden(
        {"name": "search", "args": {"query": "sea", "pages": 1}},
        {"name": "research"},
        {"name": "search", "args": {"topic": "sea", "pages": 5}},
        {"name": "book", "args": {"seat": "1A", "note": ""}},
    )
    assert scores(agree([TURN], goldens, scorer_of())) == [1.0] * 4
    wrong = golden(
        {"name": "search", "args": {"query": "sea", "pages": 5}},
        {"name": "research"},
        {"name": "search", "args": {"topic": "sea", "pages": 1}},
        {"name": "book", "args": {"seat": "1A", "note": "?"}},
    )
    anywhere = scorer_of(Criterion(match_mode="name_only"))
    assert scores(by_replay([TURN], wrong, anywhere)) == [0.5, 1.0, 0.5, 0.5]


def scores(said: Said) -> list[float]:
    """Of the calls that were evaluated."""
    calls = [one for one in said.values() if one.get("tool_parameter_match.level") == "call"]
    return [one["gen_ai.evaluation.score.value"] for one in calls if "gen_ai.evaluation.score.value" in one]


def test_a_failed_call_of_a_tool_that_any_list_declares_is_no_unknown_tool() -> None:
    """A sub-agent without a list of its own; its parent has the tool."""
    spans = [
        made("root", "", 0, "invoke_agent", gen_ai__conversation__id="s"),
        made("m1", "root", 1, "chat", tools=[SEARCH_WEB]),
        made("sub", "root", 4, "invoke_agent"),
        ran("sub", 5, "", "book", failed=True, seat="1A"),
        made("m2", "root", 7, "chat", tools=[BOOK]),
    ]
    said = agree([request(spans)], GoldenIndex(sample=1.0), scorer_of(metrics=[SCHEMA]))
    [judged] = [one for one in said.values() if one[f"{SCHEMA}.level"] == "call"]
    assert judged["gen_ai.evaluation.score.value"] == 1.0


def test_a_tool_that_the_golden_calls_by_another_name_has_its_own_definition() -> None:
    goldens = load_goldens(
        {
            "golden_set": "g",
            "aliases": {"reserve": "book"},
            "goldens": [{"session": "s", "calls": [{"name": "reserve", "args": {"seat": "1A", "note": ""}}]}],
        }
    )
    said = agree([TURN], goldens, scorer_of(metrics=[SCHEMA]))
    judged = [one for one in said.values() if one.get(f"{SCHEMA}.level") == "call"]
    assert [one["gen_ai.evaluation.score.value"] for one in judged] == [1.0] * 4
    assert scores(said) == [1.0]


def test_what_a_set_says_once_and_what_matchers_ask_of_a_session_is_answered_alike() -> None:
    """Rules, the call's clock, its own run, ids that are new, and a call that was made twice."""
    asked = [SEARCH_WEB, BOOK, SEND]
    spans = [
        made("root", "", 0, "invoke_agent", gen_ai__conversation__id="s", gen_ai__agent__name="planner"),
        made("m1", "root", 1, "chat", tools=asked, asks=("c1", "search", {"query": "sea"})),
        ran("root", 3, "c1", "search", query="sea"),
        ran("root", 5, "c2", "book", seat="1A", day=DAY, key=KEY),
        ran("root", 7, "c3", "send", body=f"Seat 1A on {DAY}", tags=["b", "a"], seats=["1A"]),
        ran("root", 8, "c5", "send", body="Your seat: 1A", seats="1A"),
    ]
    spans[2]["attributes"].append(attribute("gen_ai.tool.call.result", json.dumps({"seats": [{"id": "1A"}]})))
    seat = {"$from_result": {"call": "search", "path": "/seats/*/id"}}
    said = {"$from_result": {"call": "search", "anywhere": True}}
    calls = [
        {"name": "book", "args": {"seat": seat, "day": {"$date": "today"}, "key": KEY}, "agent": "planner"},
        {
            "name": "send",
            "args": {"body": {"$mentions": ["book.seat", "book.day"]}, "tags": ["a", "b"], "seats": [seat]},
        },
        {"name": "send", "args": {"body": {"$key_facts": ["1A"]}, "seats": said}},
    ]
    rules = {"book.key": {"$generated": True}, "send.tags": {"$unordered": True}}
    goldens = load_goldens(
        {
            "golden_set": "g",
            "arguments": rules,
            "other_writes": "forbid",
            "goldens": [{"session": "s", "turns": [{"calls": calls}]}],
        }
    )
    assert scores(agree([request(spans)], goldens, scorer_of())) == [1.0, 1.0, 1.0]
    twice = [*spans, ran("root", 9, "c4", "book", seat="1A", day=DAY, key=KEY)]
    said = agree([request(twice)], goldens, scorer_of())
    [turn] = [one for one in said.values() if one.get("tool_parameter_match.level") == "turn"]
    assert turn["gen_ai.evaluation.score.label"] == "fail"


def test_agents_of_one_root_that_a_user_told_different_things_are_doubted_at_every_door() -> None:
    """Each is told its own text, and the turn takes that of the first."""

    def told(text: str) -> str:
        return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])

    spans = [made("root", "", 0, "invoke_agent", gen_ai__conversation__id="s")]
    for begin, text in ((1, "the weather?"), (6, "a table for two")):
        agent = made(f"agent {begin}", "root", begin, "invoke_agent", gen_ai__input__messages=told(text))
        spans += [
            {**agent, "endTimeUnixNano": str(START + (begin + 4) * SECOND)},
            made(f"m{begin}", f"agent {begin}", begin + 1, "chat", gen_ai__system_instructions="Be brief."),
            ran(f"agent {begin}", begin + 3, "", "search", query=text),
        ]
    doubted = agree([request(spans)], golden({"name": "search"}), scorer_of())
    [turn] = [one for one in doubted.values() if one.get(LEVEL) == "turn"]
    assert turn["tool_parameter_match.reason"] == "reading_doubtful"


def test_a_trace_that_names_an_answer_and_no_session_is_sampled_by_its_own_id_at_every_door() -> None:
    spans = [
        made("root", "", 0, "invoke_agent", gen_ai__conversation__id="resp_5"),
        made("m1", "root", 1, "chat", tools=[BOOK], asks=("c1", "book", {"seat": "1A"})),
        ran("root", 3, "c1", "book", seat="1A"),
    ]
    said = agree([request(spans)], GoldenIndex(sample=0.8), scorer_of(metrics=[SCHEMA]))
    assert {one["gen_ai.conversation.id"] for one in said.values()} == {TRACE}


@pytest.mark.parametrize("name", ["support", "recruiting"])
def test_inferred_goldens_judge_alike_at_every_door(name: str) -> None:
    """Right and wrong runs of a simulated agent, by goldens that `goldspan goldens record` inferred from others."""
    goldens, documents = inferred_goldens(name), runs_to_judge(name)
    said = agree(documents, goldens, scorer_of())
    labels = Counter(one["gen_ai.evaluation.score.label"] for one in said.values() if one[LEVEL] == "session")
    assert labels["pass"] >= 4
    assert labels["fail"] >= 3
