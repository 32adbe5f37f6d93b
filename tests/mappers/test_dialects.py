"""Each dialect on recordings of it: names, arguments, captures, ids, errors, session keys, context."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from dialect_facts import EXPECTED, FOLDER, document_of
from goldspan.collector_processor.replay.hints import advice_of
from goldspan.mappers.dialects import DialectTable
from goldspan.mappers.installed_dialects import built_in_dialects, default_dialects

TRUTH = json.loads((FOLDER / "recordings" / "truth.json").read_text())


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_a_recording_is_read_as_its_document_says(expected: Path) -> None:
    found = document_of(expected.name.removesuffix(".facts.json"))
    assert found == json.loads(expected.read_text()), f"if it is right so, run tests/dialect_facts.py: {expected}"


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_the_documents_say_what_the_agents_did(expected: Path) -> None:
    """The documents are written by the code they test: this holds them against the scenario that was played."""
    name = expected.name.removesuffix(".facts.json")
    assert name in TRUTH["files"], f"write what the agent of {name} did into {FOLDER / 'recordings/truth.json'}"
    truth = TRUTH["files"][name]
    document = json.loads(expected.read_text())
    tools = [span["tool"] for span in document if "tool" in span]
    calls = [tool for tool in tools if not tool.get("pseudo") and not tool.get("merged")]
    requests = [request for span in document for request in span.get("model", {}).get("requests", ())]
    scenario = TRUTH["turns"]["dup" if truth["turns"] == "dup" else "standard"]
    played = [(call["name"], call["args"]) for turn in scenario for call in turn]
    if truth["arguments"] in ("captured", "span-repr", "parent-span", "root-repr"):
        seen = [(call["name"], call.get("arguments")) for call in (*calls, *requests)]
        lost_with_the_error = [played[3]] if expected.name.startswith("openlit-1.36") else []
        assert [call for call in played if call not in seen] == lost_with_the_error
    else:
        known = {call["name"] for call in calls if "arguments" in call}
        assert known == ({"get_weather", "convert"} if truth["arguments"] == "truncated" else set())
        assert {call["name"] for call in calls} == {"get_weather", "convert", "book_table"}
    if truth.get("session_on") == "program":
        return  # a span that no dialect reads has it
    sessions = {value for span in document for value in span.get("session_keys", {}).values()}
    assert sessions == ({truth["session_id"]} if truth["session_id"] else set())


def test_every_dialect_has_a_recording_and_says_how_to_get_what_is_missing() -> None:
    folders = {path.parent.name for path in EXPECTED}
    for dialect in cast("tuple[DialectTable, ...]", built_in_dialects()):
        folder, table = FOLDER / "dialects" / dialect.name, f"mappers/goldspan/mappers/dialects/{dialect.name}.py"
        assert dialect.name in folders, f"write [] to {folder}/RECORDING.facts.json and run tests/dialect_facts.py"
        assert dialect.title, f"give {table} a title"
        assert dialect.docs.startswith("https://"), f"give {table} docs: the address of its description"
        advice = advice_of(dialect)
        assert advice, f"give {table} advice: what users switch on"
        whole = all(one.arguments and one.session and one.framework and one.checked for one in advice)
        assert whole, f"give each advice of {table} arguments, session, framework and checked"
        assert dialect.markers, f"{table} has no attribute that tells its spans"


def test_names_of_dialects_are_their_own() -> None:
    names = [dialect.name for dialect in default_dialects()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.name.split(".")[0])
def test_the_folder_of_a_recording_is_a_dialect_it_is_read_by(expected: Path) -> None:
    dialects = {span["dialect"] for span in json.loads(expected.read_text())}
    assert expected.parent.name in dialects, f"move {expected} into the folder of one of {sorted(dialects)}"
