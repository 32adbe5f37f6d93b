"""What a recording's spans are read as, as a document that a person can check. Run it to write the documents anew.

python tests/dialect_facts.py        then read the difference: every line of it is a change of behaviour

fixtures/dialects/<dialect>/<recording>.facts.json belongs to fixtures/recordings/<recording>.otlp.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.mappers.span_facts import ModelFacts, SpanFacts, ToolFacts
from goldspan.scoring.sessions import Capture, Content
from rigs.otlp_containers import by_shape_too

FOLDER = Path(__file__).parent / "fixtures"
EXPECTED = sorted((FOLDER / "dialects").glob("*/*.facts.json"))
_LONG = 60


def document_of(recording: str) -> list[dict[str, Any]]:
    """Return what is known of every recognised span, in the order of the file."""
    registry = DialectRegistry()
    path = FOLDER / "recordings" / f"{recording}.otlp.json"
    read = [(view.name, registry.read(view)) for view in read_files([path], lambda problem: None)]
    assert not registry.failures
    facts = by_shape_too(fact for _, fact in read)
    told = [(name, facts[fact.ref]) for name, fact in read]
    return [_span(name, fact) for name, fact in told if fact.role is not None or fact.notes]


def _span(name: str, fact: SpanFacts) -> dict[str, Any]:
    known: dict[str, Any] = {
        "span": f"{name} {fact.span_id}",
        "role": fact.role.value if fact.role else None,
        "dialect": fact.dialect or fact.notes[0].dialect,
        "agent": fact.agent,
        "tool": dict(_tool(fact.tool)) if fact.tool else None,
        "model": dict(_model(fact.model)) if fact.model else None,
        "session_keys": dict(fact.session_keys),
        "turn_id": fact.turn_id,
        "no_turn": fact.no_turn,
        "hides_calls": fact.hides_calls,
        "user_text": _content(fact.context.user_text),
        "answer": _content(fact.context.answer),
        "messages": _brief(fact.context.messages),
        "tool_definitions": _brief(fact.context.tool_definitions),
        "notes": [{"trace": note.trace_id, "tools": [dict(_tool(tool)) for tool in note.tools]} for note in fact.notes],
    }
    return {key: value for key, value in known.items() if value not in (None, {}, [], False)}


def _tool(tool: ToolFacts) -> Iterator[tuple[str, Any]]:
    yield "name", tool.name
    yield from _arguments(tool.arguments, tool.argument_captures)
    for key in ("call_id", "error"):
        if getattr(tool, key) is not None:
            yield key, getattr(tool, key)
    if tool.result.capture is not Capture.NOT_CAPTURED:
        yield "result", _brief(tool.result)
    for key in ("pseudo", "merged"):
        if getattr(tool, key):
            yield key, True
    if not tool.executed:
        yield "executed", False


def _model(model: ModelFacts) -> Iterator[tuple[str, Any]]:
    if model.requests:
        yield (
            "requests",
            [
                {"name": request.name, "call_id": request.call_id, **dict(_arguments(request.arguments, None))}
                | ({"pseudo": True} if request.pseudo else {})
                for request in model.requests
            ],
        )
    if model.answered:
        yield "answered", dict(sorted(model.answered.items()))
    if model.new_user_message is not None:
        yield "new_user_message", model.new_user_message
    if model.unseen_requests:
        yield "unseen_requests", True


def _arguments(content: Content, captures: Mapping[str, Capture] | None) -> Iterator[tuple[str, Any]]:
    if content.capture is Capture.CAPTURED:
        yield "arguments", content.value
    else:
        yield "capture", content.capture.value
    if captures:
        yield "argument_captures", {name: capture.value for name, capture in captures.items()}


def _content(content: Content) -> Any:
    return content.value if content.capture is Capture.CAPTURED else _brief(content)


def _brief(content: Content) -> Any:
    if content.capture is Capture.NOT_CAPTURED:
        return None
    if content.capture is not Capture.CAPTURED:
        return f"({content.capture.value})"
    text = content.raw if isinstance(content.raw, str) else json.dumps(content.raw, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]}... {len(text)} characters"


if __name__ == "__main__":
    for expected in EXPECTED:
        document = document_of(expected.name.removesuffix(".facts.json"))
        expected.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
