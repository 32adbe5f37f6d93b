"""Content in pieces: it reads as it was recorded, equal text is kept once, and what is kept is bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.test_worker import Driver, compressing_at_once, judging_by, tenant_of
from goldspan.collector_processor.encoded_spans.call_records import (
    DROPPED,
    KeptTexts,
    decode_record,
    encode_record,
    lost_text,
    pieces_of,
)
from goldspan.collector_processor.gateway.interfaces import ExportRequest
from goldspan.collector_processor.gateway.journal.database import Database
from goldspan.collector_processor.otlp_signals import Signal
from goldspan.mappers.span_facts import ContextFacts, Role, SpanFacts, ToolFacts
from goldspan.scoring.goldens import GoldenIndex
from goldspan.scoring.metrics.session_metrics import WITHOUT_GOLDEN
from goldspan.scoring.run import scorer_of
from goldspan.scoring.sessions import Capture, Content
from rigs.otlp_containers import as_message
from rigs.trace_requests import SECOND, START, attribute, digits, request, span

SAMPLED = GoldenIndex(sample=1.0)
SETTINGS = judging_by(scorer_of(metrics=WITHOUT_GOLDEN))
TRACE = "a" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)
CONTENT = st.text(st.characters(codec=None), max_size=600) | JSON.map(lambda value: json.dumps([value] * 9)) | JSON


def facts(content: object, trace: str = TRACE, span_id: str = "b" * 16) -> SpanFacts:
    said = Content(content, Capture.CAPTURED)
    tool = ToolFacts("look", Content({"at": 1}, Capture.CAPTURED), result=said)
    return SpanFacts(trace, span_id, "", 1, 2, role=Role.TOOL, tool=tool, context=ContextFacts(messages=said))


def messages_of(fact: object) -> Any:
    assert isinstance(fact, SpanFacts)
    return fact.context.messages.raw


@given(CONTENT)
def test_content_in_pieces_reads_as_it_was_recorded(content: object) -> None:
    texts = KeptTexts(lambda key: None)
    fact = facts(content)
    kept = texts.kept(fact)
    assert messages_of(kept) == content
    texts.pack(TRACE)
    record = encode_record(kept)
    again = decode_record(record, texts.find)
    assert again == kept
    assert messages_of(again) == content
    assert repr(again) == repr(fact)  # it decides between two versions of a span
    texts.release(TRACE)
    assert texts.size == 0
    assert messages_of(decode_record(record, texts.find)) == (None if [*pieces_of(kept)] else content)


def conversation(length: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{number} " + "look at the harbour " * 20} for number in range(length)]


LONG, SHORT = f'{{"said": "{"a" * 220}"}},', "{},"
HISTORY = st.lists(st.sampled_from([LONG, f'{{"said": "{"ß" * 110}"}},', SHORT, " {},\u2003", '"x",', "]"]), max_size=5)


@example([LONG, SHORT], [(2, [SHORT])])
@example([LONG, LONG, SHORT], [(2, ["]"])])
@given(HISTORY, st.lists(st.tuples(st.integers(0, 5), HISTORY), max_size=5))
def test_text_that_goes_on_from_another_has_the_pieces_that_it_has_alone(
    history: list[str], later: list[tuple[int, list[str]]]
) -> None:
    texts = KeptTexts(lambda key: None)
    for same, more in [(0, history), *later]:
        history = [*history[:same], *more]
        fact = facts("".join(history))
        assert encode_record(texts.kept(fact)) == encode_record(KeptTexts(lambda key: None).kept(fact))
    texts.release(TRACE)
    assert texts.size == 0


@pytest.mark.parametrize("as_text", [True, False])
def test_histories_that_begin_alike_are_kept_once(as_text: bool) -> None:
    texts = KeptTexts(lambda key: None)
    for length in range(1, 60):
        messages = conversation(length)
        # Every other call is in a trace of its own.
        texts.kept(facts(json.dumps(messages) if as_text else messages, f"{length % 2:032x}", f"{length:016x}"))
    last = len(json.dumps(conversation(59)))
    assert 0.9 * last < texts.size < 3.5 * last  # each last message is also kept without a comma after it
    texts.release(f"{0:032x}")
    assert 0.9 * last < texts.size
    texts.release(f"{1:032x}")
    assert texts.size == 0


def test_what_does_not_fit_is_dropped() -> None:
    texts = KeptTexts(lambda key: None)
    whole = texts.kept(facts("x" * 700_000))
    assert not lost_text(whole)
    assert not lost_text(texts.kept(facts("x" * 700_000, span_id="c" * 16)))  # the same again takes no room
    assert lost_text(texts.kept(facts("y" * 700_000, span_id="d" * 16)))
    texts.max_bytes = 900_000
    assert lost_text(texts.kept(facts("z" * 700_000, "e" * 32)))
    texts.make_room({bytes.fromhex(TRACE)})
    assert not lost_text(texts.kept(facts("z" * 700_000, "e" * 32)))
    assert decode_record(encode_record(whole), texts.find) == facts_with(DROPPED)


def facts_with(content: Content) -> SpanFacts:
    tool = ToolFacts("look", Content({"at": 1}, Capture.CAPTURED), result=content)
    return SpanFacts(TRACE, "b" * 16, "", 1, 2, role=Role.TOOL, tool=tool, context=ContextFacts(messages=content))


def turn(session: str, calls: int, said: str = "look at the harbour") -> list[ExportRequest]:
    """A turn with a model call before each tool, each of which repeats the conversation; a request for each span."""
    trace, root = digits(session, 32), digits(f"{session}/root", 16)
    definitions = [{"name": "look", "parameters": {"type": "object", "description": "where to look " * 50}}]
    history: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": said}]}]
    agent = [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.conversation.id", session)]
    spans = [span(trace, root, "", "invoke_agent a", start=START, seconds=calls + 2, attributes=agent)]
    for number in range(calls):
        begun = START + number * SECOND
        model = [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", json.dumps(history)),
            attribute("gen_ai.tool.definitions", json.dumps(definitions)),
        ]
        result = f"{number}: a ship at the pier; " * 20
        tool = [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "look"),
            attribute("gen_ai.tool.call.arguments", json.dumps({"at": "the harbour", "again": number})),
            attribute("gen_ai.tool.call.result", result),
        ]
        answer = {"type": "tool_call_response", "id": str(number), "response": result}
        history.append({"role": "tool", "parts": [answer]})
        for kind, name, attributes in (("m", "chat gpt", model), ("t", "execute_tool look", tool)):
            own = digits(f"{session}/{kind}/{number}", 16)
            spans.append(span(trace, own, root, name, start=begun, seconds=1, attributes=attributes))
    return [ExportRequest(Signal.TRACES, as_message(request([one], "tests")).SerializeToString()) for one in spans]


def sent(driver: Driver, requests: list[ExportRequest]) -> None:
    for one in requests:
        driver.send(one)
        driver.deliver()
    driver.wait(2.0)
    driver.deliver()
    driver.worker.commit(driver.now)


def journal_size(folder: Path) -> int:
    database = Database(folder, full_sync=False, checkpoint_bytes=1 << 20)
    return sum(len(record) for _, _, _, record in database.read("records", "at, id"))


def test_memory_and_journal_grow_with_what_is_said_and_no_faster(tmp_path: Path) -> None:
    sizes: list[tuple[int, int]] = []
    for calls in (20, 80):
        with compressing_at_once():
            driver = Driver(SAMPLED, tmp_path / str(calls), SETTINGS)
            sent(driver, turn("s", calls))
            sizes.append((tenant_of(driver).texts.size, 0))
            assert driver.journal is not None
            driver.journal.close()
            sizes[-1] = (sizes[-1][0], journal_size(tmp_path / str(calls)))
    (small, small_rows), (large, large_rows) = sizes
    assert large < 6 * small
    assert large_rows < 6 * small_rows


def test_pieces_leave_memory_and_journal_with_their_traces(tmp_path: Path) -> None:
    settings = replace(SETTINGS, engine=replace(SETTINGS.engine, run_idle=1.0, retention=10.0))
    driver = Driver(SAMPLED, tmp_path, settings)
    sent(driver, turn("one", 5))
    sent(driver, turn("two", 5))
    assert tenant_of(driver).texts.size
    driver.crash()
    assert tenant_of(driver).texts.size
    for _ in range(8):
        driver.wait(5.0)
        driver.deliver()
    assert tenant_of(driver).texts.size == 0
    driver.worker.commit(driver.now)
    assert driver.journal is not None
    driver.journal.close()
    assert journal_size(tmp_path) == 0


def test_a_restored_piece_that_no_record_holds_is_dropped() -> None:
    gone: list[str] = []
    before, after = KeptTexts(gone.append), KeptTexts(gone.append)
    kept = before.kept(facts("x" * 300))
    for piece in pieces_of(kept):
        after.restore(piece.key, piece.read())
    after.restore("text " + "0" * 32, b"y" * 300)
    after.hold(decode_record(encode_record(kept), after.find))
    after.drop_unused()
    assert (after.size, gone) == (300, ["text " + "0" * 32])


def test_without_metrics_that_ask_records_have_no_text(tmp_path: Path) -> None:
    driver = Driver(SAMPLED, tmp_path)
    sent(driver, turn("s", 5))
    assert tenant_of(driver).texts.size == 0
    assert driver.journal is not None
    driver.journal.close()
    assert 0 < journal_size(tmp_path) < 5_000


@pytest.mark.parametrize("crash", [True, False])
def test_a_session_with_too_much_text_is_incomplete_and_does_not_fail(tmp_path: Path, crash: bool) -> None:
    driver = Driver(SAMPLED, tmp_path, SETTINGS)
    requests = turn("long", 3, said="look at the pier " + "on and on " * 150_000)
    sent(driver, requests[:4])
    if crash:
        driver.crash()
    sent(driver, requests[4:])
    driver.end()
    said = driver.said().values()
    assert said
    assert {event[f"{event['gen_ai.evaluation.name']}.incomplete"] for event in said} == {True}
    assert "fail" not in {event.get("gen_ai.evaluation.score.label") for event in said}
    assert driver.worker.problems["dropped_text"]


@pytest.mark.parametrize("room", [True, False])
def test_a_session_whose_text_left_while_it_was_quiet_is_incomplete_once_more_comes(room: bool) -> None:
    first, second = turn("quiet", 3), turn("other", 3)
    with compressing_at_once():
        driver = Driver(SAMPLED, None, SETTINGS)
        sent(driver, first[:-1])
        if not room:
            tenant_of(driver).texts.max_bytes = tenant_of(driver).texts.size
        sent(driver, second)
        sent(driver, first[-1:])
        driver.end()
    said = [one for one in driver.said().values() if one["gen_ai.conversation.id"] == "quiet"]
    incomplete = [one for one in said if one.get(f"{one['gen_ai.evaluation.name']}.incomplete")]
    assert said
    assert incomplete == ([] if room else said)


def test_definitions_are_kept_once_for_all_sessions() -> None:
    driver = Driver(SAMPLED, None, SETTINGS)
    for number in range(20):
        sent(driver, turn(f"s-{number}", 1))
    one = Driver(SAMPLED, None, SETTINGS)
    sent(one, turn("s-0", 1))
    for quiet in (driver, one):
        quiet.wait(10.0)
    assert 0 < tenant_of(driver).texts.size == tenant_of(one).texts.size
