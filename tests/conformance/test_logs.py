"""Recordings whose log records hold content, with spans and logs in every order, container and door (R11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conformance import recordings
from conformance.recordings import files_of
from conformance.single_records import documents_of
from conformance.test_deliveries import golden_of
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers import read_sessions
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.mappers.readers.files import read_files
from goldspan.scoring.errors import Problem
from goldspan.scoring.sessions import NO_CONTENT, Capture, Session, ToolCall
from goldspan.scoring.verdict import Label
from rigs.otlp_containers import as_message, as_sdk_spans, requests_of
from rigs.otlp_logs import LOGGED, as_logs_data, as_sdk_records, log_documents
from rigs.otlp_requests import prefixed

ONLY_IN_LOGS = (
    "agent-framework-native-semconv136",
    "claude-code-native",
    "google-adk-v2-event",
    "raw-anthropic-otel-genai-event",
    "raw-openai-otel-genai-event",
    "raw-openai-otel-v2",
)
"""Their spans hold no arguments at all."""
FROM_EVENTS = ("raw-openai-otel-v2", "agent-framework-native-semconv136", "google-adk-v1", "semantic-kernel-native")
"""One record for each message, and the whole history again at every model call."""


def calls_in(sessions: list[Session]) -> list[ToolCall]:
    return [call for session in sessions for turn in session.turns for call in turn.calls]


@pytest.mark.parametrize("name", ONLY_IN_LOGS)
def test_without_their_logs_nothing_is_known_of_the_arguments(name: str) -> None:
    calls = calls_in(read_sessions(files_of(name)[0]))
    assert [call for call in calls if call.capture is Capture.CAPTURED] == []
    with_logs = calls_in(read_sessions(files_of(name)))
    assert len(with_logs) == 5
    assert {call.capture for call in with_logs} == {Capture.CAPTURED}
    assert recordings.read(name).wrong == []


def one_file(name: str, folder: Path) -> Any:
    """Logs first, then spans, in one file."""
    whole = folder / "both.jsonl"
    documents = [*log_documents(name), *requests_of(name)]
    whole.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return whole


def a_directory(name: str, folder: Path) -> Any:
    for number, path in enumerate(reversed(files_of(name))):
        (folder / f"{number}.json").write_bytes(path.read_bytes())
    return folder


def protobuf_files(name: str, folder: Path) -> Any:
    logs, spans = folder / "logs.pb", folder / "spans.pb"
    logs.write_bytes(prefixed(*(as_logs_data(one).SerializeToString() for one in log_documents(name))))
    spans.write_bytes(prefixed(*(as_message(one).SerializeToString() for one in requests_of(name))))
    return [logs, spans]


def messages(name: str, _: Path) -> Any:
    return [*map(as_message, requests_of(name)), *map(as_logs_data, log_documents(name))]


def of_the_sdk(name: str, _: Path) -> Any:
    spans = [span for request in requests_of(name) for span in as_sdk_spans(request)]
    return [*(record for one in log_documents(name) for record in as_sdk_records(one)), *spans]


def record_by_record(name: str, _: Path) -> Any:
    return documents_of(name)[::-1]


SOURCES: dict[str, Callable[[str, Path], Any]] = {
    "logs first": lambda name, _: files_of(name)[::-1],
    "one file": one_file,
    "directory": a_directory,
    "protobuf files": protobuf_files,
    "messages": messages,
    "SDK": of_the_sdk,
    "record by record": record_by_record,
    "everything twice": lambda name, _: [*files_of(name), *map(as_logs_data, log_documents(name)), *requests_of(name)],
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.every_recording
@pytest.mark.parametrize("name", LOGGED)
def test_sessions_are_the_same_whatever_holds_spans_and_logs(name: str, source: str, tmp_path: Path) -> None:
    problems: list[Problem] = []
    found = read_sessions(SOURCES[source](name, tmp_path), on_problem=problems.append)
    assert problems == []
    assert found == read_sessions(files_of(name))


@pytest.mark.parametrize("logs_first", [False, True])
@pytest.mark.every_recording
@pytest.mark.parametrize("name", LOGGED)
def test_the_command_line_s_doors_take_logs_in(name: str, logs_first: bool) -> None:
    paths = files_of(name)[:: -1 if logs_first else 1]
    sessions = read_sessions(paths)
    seen = inspect_spans(read_files(paths, pytest.fail), DialectRegistry(), [])
    assert calls_in(list(seen.sessions)) == [without_result(call) for call in calls_in(sessions)]
    found = replay(read_files(paths, pytest.fail), golden_of(sessions), DialectRegistry(), problems=[])
    scored = [one.session for one in found.result.sessions if one.session is not None]
    assert sorted(calls_in(scored), key=call_order) == sorted(calls_in(list(seen.sessions)), key=call_order)
    if name in ONLY_IN_LOGS:
        with_calls = [one for one in found.result.sessions if one.session is not None and calls_in([one.session])]
        assert {one.verdict.label for one in with_calls} == {Label.PASS}


def call_order(call: ToolCall) -> tuple[int, str]:
    return call.start, call.call_id or ""


def without_result(call: ToolCall) -> ToolCall:
    """A call as scoring needs it: these doors keep no content that they do not use."""
    return replace(call, result=NO_CONTENT, tool_definitions=NO_CONTENT)


@pytest.mark.parametrize("name", FROM_EVENTS)
def test_what_was_said_is_put_together_from_single_messages(name: str) -> None:
    turns = [turn for session in read_sessions(files_of(name)) for turn in session.turns]
    assert turns[0].user_text.value == "What's the weather in Paris in celsius, and convert 21.5 C to F?"
    assert {turn.user_text.value for turn in turns} - {turns[0].user_text.value, None} == {"Book the table for two"}


@pytest.mark.parametrize("name", ["agent-framework-native-semconv136", "google-adk-v2-event"])
def test_results_come_from_the_next_model_call_s_input(name: str) -> None:
    results = [call.result.value for call in calls_in(read_sessions(files_of(name)))]
    if name == "agent-framework-native-semconv136":
        assert results[:2] == [{"city": "Paris", "unit": "celsius", "temp": 21.5, "days": 3}, 70.7]
    else:  # its model and its executions do not share ids
        assert {type(result) for result in results} == {type(None)}


@pytest.mark.parametrize("name", ["raw-openai-otel-v2", "raw-openai-otel-genai-event"])
def test_turns_of_a_raw_client_are_cut_by_what_its_logs_say(name: str) -> None:
    """Given a session, which these clients do not write, each user message in a log starts a turn."""
    documents = requests_of(name)
    for document in documents:
        for group in document["resourceSpans"]:
            attributes = group.setdefault("resource", {}).setdefault("attributes", [])
            attributes.append({"key": "session.id", "value": {"stringValue": "s"}})
    (session,) = read_sessions([*log_documents(name), *documents])
    assert [[call.name for call in turn.calls] for turn in session.turns] == [
        ["get_weather", "convert", "get_weather"],
        ["book_table", "book_table"],
    ]
