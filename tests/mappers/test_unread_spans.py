"""A span whose content is read later is read as if it had been at once; until someone asks, nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files, views
from goldspan.mappers.span_facts import LazySpanFacts, Role, SpanFacts
from goldspan.mappers.spans import LogView, SpanView
from goldspan.scoring.errors import Problem
from rigs.otlp_containers import documents_in
from rigs.otlp_requests import as_line
from rigs.repository import RECORDINGS
from rigs.trace_requests import turn_request

RECORDED = sorted(RECORDINGS.glob("*.otlp.json"))
REGISTRY = DialectRegistry()


def refuse(problem: Problem) -> None:
    pytest.fail(str(problem))


def lazily(path: Path) -> list[SpanView]:
    return [view for view in read_files([path], refuse) if not isinstance(view, LogView)]


def plainly(path: Path) -> list[SpanView]:
    return [view for view in views(documents_in(path), refuse) if not isinstance(view, LogView)]


@pytest.mark.every_recording
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_content_is_read_late_as_it_is_at_once(path: Path) -> None:
    late = [REGISTRY.read(view, content=False) for view in lazily(path)]
    at_once = [REGISTRY.read(view, content=False) for view in plainly(path)]
    assert [(facts.role, facts.turn_id, facts.session_keys, facts.no_turn) for facts in late] == [
        (facts.role, facts.turn_id, facts.session_keys, facts.no_turn) for facts in at_once
    ]
    assert late == at_once
    assert all(facts.is_read for facts in late if isinstance(facts, LazySpanFacts))


def recognised(folder: Path, arguments: dict[str, Any]) -> SpanFacts:
    path = folder / "traces.jsonl"
    path.write_bytes(as_line(turn_request("sess-1", ("f", arguments))))
    [tool] = [facts for view in lazily(path) if (facts := REGISTRY.read(view, content=False)).role is Role.TOOL]
    return tool


@pytest.mark.parametrize("ask", [repr, lambda facts: facts.changed(end=1), lambda facts: facts.tool.arguments])
def test_any_question_reads_it(ask: Any, tmp_path: Path) -> None:
    facts = recognised(tmp_path, {"x": 1})
    assert isinstance(facts, LazySpanFacts)
    assert not facts.is_read
    ask(facts)
    assert facts.is_read
    assert facts.tool is not None
    assert facts.tool.arguments.raw == {"x": 1}


def test_two_deliveries_are_one_whether_read_or_not(tmp_path: Path) -> None:
    one, other = recognised(tmp_path, {"x": 1}), recognised(tmp_path, {"x": 1})
    assert one.tool is not None
    assert isinstance(other, LazySpanFacts)
    assert not other.is_read
    assert not other.supersedes(one)
    assert not one.supersedes(recognised(tmp_path, {"x": 1}))


def test_what_is_too_large_to_wait_is_read_at_once(tmp_path: Path) -> None:
    assert type(recognised(tmp_path, {"x": "long " * 10_000})) is SpanFacts
