"""Real conversations, in the words of several instrumentations, are read as they were held."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import conversations, variations
from quick_run import part_of_a_whole_run


@pytest.mark.skipif(not conversations.DATA.is_file(), reason="the recorded data sets are not at hand")
@pytest.mark.parametrize("data", [conversations.DATA, conversations.SPANS], ids=["trials", "spans"])
def test_no_conversation_is_silently_another(data: Path, request: pytest.FixtureRequest) -> None:
    held = list(conversations.conversations(data))
    table, silent = variations.Table(), set[tuple[str, str]]()
    whole = request.config.getoption("--all")
    for one in held[:: 28 if whole else 40]:
        for found in conversations.cases_of(one):
            table.add(found)
            silent |= {(found.transformation, fact) for fact in found.silent}
    assert silent == set()
    assert table.share_of_false_doubts() <= variations.MOST_FALSE_DOUBTS


@pytest.mark.skipif(not conversations.DATA.is_file(), reason="the recorded data sets are not at hand")
def test_what_two_instrumentations_write_is_read_once(request: pytest.FixtureRequest) -> None:
    held = list(conversations.conversations(conversations.DATA))
    for one in held[:: 60 if request.config.getoption("--all") else 200]:
        cases = list(conversations.cases_of_two_writers(one))
        assert [found for found in cases if found.silent or found.outcome == variations.BLIND] == []


def test_what_could_be_taken_for_something_else_is_not(request: pytest.FixtureRequest) -> None:
    table, wrong = variations.Table(), list[variations.Case]()
    odd = list(conversations.odd_conversations())
    for one in odd[:: part_of_a_whole_run(request.config) if request.config.getoption("--all") else 8]:
        for found in conversations.cases_of(one):
            table.add(found)
            wrong += [found] if found.silent or found.outcome == variations.BLIND else []
    assert wrong == []
    assert table.share_of_false_doubts() <= variations.MOST_FALSE_DOUBTS


def test_a_made_conversation_is_read_as_it_was_held() -> None:
    """The judge itself: a conversation whose every turn is plain, by the conventions."""
    asked = {"name": "find", "args": {"what": "a table"}, "result": "found", "error": None}
    record = {"id": "made", "users": [[0, "Find a table"], [1, "And a chair"]], "calls": [asked, asked]}
    held = conversations.conversation(record)
    cases = {one.transformation: one.outcome for one in conversations.cases_of(held)}
    assert cases["agent: OpenTelemetry's conventions"] == variations.RIGHT
    assert cases["models only: OpenInference"] == variations.RIGHT
    assert cases["agent: keys that nobody knows"] in (variations.BLIND, variations.RIGHT, variations.HONEST)
