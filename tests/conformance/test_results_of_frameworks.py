"""What a tool returned is the same to a golden and to metrics, whatever message a framework puts around it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.recordings import FOLDER
from goldspan.mappers import read_sessions
from goldspan.scoring import ExpectedCall, Golden, GoldenTurn, Session, score_session
from goldspan.scoring.metrics.repetition import ToolCallRepetition
from goldspan.scoring.verdict import MetricScore

RECORDINGS = (
    *("langchain-openinference", "langchain-traceloop", "langchain-langsmith", "langchain-otel-genai"),
    *("py-langchain-laminar", "py-langchain-langfuse", "pydantic-ai-v2", "pydantic-ai-v5", "py-langwatch"),
    *("openai-agents-openinference", "openai-agents-traceloop", "openai-agents-logfire", "openai-agents-otel-genai"),
)
TEMPERATURE = {"$from_result": {"call": "get_weather", "path": "/temp"}}


def documents_of(name: str) -> list[Any]:
    found = next(path for path in FOLDER.glob(f"{name}.otlp.json*"))
    return [json.loads(line) for line in found.read_text("utf-8").splitlines() if line.strip()]


def session_of(documents: list[Any], folder: Path) -> Session:
    """Read the turns of a recording as one session: some frameworks name none."""
    path = folder / "traces.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)), "utf-8")
    turns = sorted((turn for session in read_sessions([path]) for turn in session.turns), key=lambda turn: turn.start)
    return Session("s", tuple(replace(turn, doubts=()) for turn in turns))


def spans_of(documents: list[Any]) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    scopes = [scope for one in documents for resource in one["resourceSpans"] for scope in resource["scopeSpans"]]
    return [(scope["spans"], span) for scope in scopes for span in scope["spans"]]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_value_out_of_a_result_is_right_for_every_framework(name: str, tmp_path: Path) -> None:
    documents = json.loads(json.dumps(documents_of(name)).replace("temperature", "temp"))
    session = session_of(documents, tmp_path)

    def golden(expected: object) -> Golden:
        turns = [
            [
                ExpectedCall(call.name, {**call.args, "value": expected} if call.name == "convert" else call.args)
                for call in turn.calls
                if call.args is not None
            ]
            for turn in session.turns
        ]
        return Golden("s", tuple(GoldenTurn(tuple(calls)) for calls in turns))

    assert score_session(golden(TEMPERATURE), session).label == "pass"
    other = {"$from_result": {"call": "get_weather", "path": "/city"}}
    assert score_session(golden(other), session).label == "fail"


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_identical_second_booking_is_a_repetition_for_every_framework(name: str, tmp_path: Path) -> None:
    documents = documents_of(name)
    booked = session_of(documents, tmp_path).turns[-1].calls[-1]
    assert booked.span is not None
    beside, span = next(found for found in spans_of(documents) if found[1]["spanId"] == booked.span.span_id)
    text = json.dumps(span)
    again = json.loads(text.replace(booked.call_id, f"{booked.call_id}9") if booked.call_id else text)
    again["spanId"] = "00000000000000aa"
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        again[key] = str(int(span["endTimeUnixNano"]) + 1)
    beside.append(again)

    session = session_of(documents, tmp_path)  # no model asked for the second one, which would be doubtful
    assert [call.name for call in session.turns[-1].calls].count("book_table") == 3
    result = ToolCallRepetition()(session)
    assert isinstance(result, MetricScore)
    assert result.score == Fraction(5, 6)
    assert "book_table: the same call returned the same before" in result.explanation
