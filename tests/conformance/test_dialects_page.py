"""The page about dialects says what the dialects declare and what the recordings prove, and nothing else."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from conformance import recordings
from conformance.findings import LINKED_SPANS, LOG_RECORDS, MODEL_OUTPUT, TOOL_SPAN, Finding, find
from goldspan.mappers.installed_dialects import built_in_dialects
from rigs.markdown_pages import dead_links
from rigs.repository import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generator() -> dict[str, Any]:
    """The script; it reads each recording once for each truth."""
    found: dict[tuple[str, str], Finding] = {}

    def find_once(name: str) -> Finding:
        key = name, repr(recordings.TRUTH["files"][name])
        if key not in found:
            found[key] = find(name)
        return found[key]

    script = runpy.run_path(str(DOCS / "generate_dialects.py"))
    script["frameworks"].__globals__["find"] = find_once
    return script


def test_every_dialect_has_a_section_and_every_recording_counts_as_proof(generator: dict[str, Any]) -> None:
    page = generator["page"]()
    headed = set(re.findall(r"\n## (\w+)\n\n.+, \[documentation\]\(", page))
    assert {one.name for one in built_in_dialects()} <= headed
    assert dead_links(page, DOCS) == []
    assert sum(map(int, re.findall(r"\| [✓✗] \d+/(\d+) \|$", page, re.MULTILINE))) == len(recordings.NAMES)


def test_frameworks_name_dialects_that_exist(generator: dict[str, Any]) -> None:
    assert {one.dialect for one in generator["frameworks"]()} <= {dialect.name for dialect in built_in_dialects()}


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("google-adk-v2-span", {TOOL_SPAN: 5}),
        ("google-adk-v2-event", {LOG_RECORDS: 5}),
        ("google-adk-v2-default", {"not_captured": 5}),
        ("claude-code-native", {LOG_RECORDS: 5}),
        ("autogen-native", {LINKED_SPANS: 5}),
        ("raw-openai-traceloop", {MODEL_OUTPUT: 5}),
        ("openlit-openai", {TOOL_SPAN: 4, MODEL_OUTPUT: 1}),
        ("pydantic-ai-v5-truncated60", {TOOL_SPAN: 3, "truncated": 2}),
    ],
)
def test_where_arguments_are_found(name: str, places: dict[str, int]) -> None:
    assert dict(find(name).places) == places


def test_a_recording_that_is_read_wrong_is_shown_as_such(
    generator: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recordings.TRUTH["files"]["uipath-traced"], "session_id", "somebody's")
    monkeypatch.setitem(recordings.TRUTH["files"]["uipath-traced"], "known_gap", "nobody knows why")
    page = generator["page"]()
    assert "[UiPath SDK](#uipath) | default: tool spans | none | ✗ 0/1 |" in page
    assert "✗ `uipath-traced`: nobody knows why." in page


def test_a_recording_of_an_unknown_framework_is_listed_by_its_name(
    generator: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [name for name in recordings.NAMES if "known_gap" not in recordings.TRUTH["files"][name]]
    monkeypatch.setitem(generator["frameworks"].__globals__, "NAMES", named)
    described = tmp_path / "dialects.toml"
    described.write_text('[[framework]]\nname = "UiPath"\nrecordings = ["uipath-*"]\n', "utf-8")
    placed = {one.name: one.dialect for one in generator["frameworks"](described)}
    assert placed.items() >= {"UiPath": "uipath", "`mlflow-otlp`": "mlflow"}.items()
    assert len(placed) == 1 + sum(not name.startswith("uipath-") for name in named)


def test_a_framework_that_no_recording_places_must_say_its_dialect(generator: dict[str, Any], tmp_path: Path) -> None:
    described = tmp_path / "dialects.toml"
    described.write_text('[[framework]]\nname = "A"\nrecordings = ["a-*"]\n', "utf-8")
    with pytest.raises(SystemExit, match="A: no recording tells its dialect"):
        generator["frameworks"](described)
