"""What a newcomer runs first: what was recognised, what was not, and what to switch on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.collector_processor.replay.hints import HELP
from goldspan.scoring.verdict import REASON_TEXT, Reason
from rigs.command_line import Run
from rigs.published_schemas import INSPECT_SCHEMA
from rigs.repository import ROOT
from rigs.trace_requests import plain_request, turn_request, write_lines

RECORDINGS = sorted((ROOT / "tests/fixtures/recordings").glob("*.otlp.json"))
TRUTH = json.loads((ROOT / "tests/fixtures/recordings/truth.json").read_text("utf-8"))["files"]
ARGUMENTS = {"city": "Paris", "days": 3}


def inspected(run: Run, *paths: object) -> dict[str, Any]:
    result = run("inspect", *paths, "--format", "json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout_bytes)
    INSPECT_SCHEMA.validate(document)
    return document


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) > 20


@pytest.mark.every_recording
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_the_document_of_every_recording_is_as_published(path: Path, run: Run) -> None:
    document = inspected(run, path)
    counts = document["spans"]
    assert counts["read"] == sum(counts["dialects"].values()) + sum(counts["not_recognised"].values())
    if "known_gap" not in TRUTH[path.name.removesuffix(".otlp.json")]:
        calls = [call for session in document["sessions"] for turn in session["turns"] for call in turn["calls"]]
        shaped = {call["dialect"] for call in calls if not call["requested"]}  # a request has no span of a tool
        assert "shape" not in shaped or document["read_by_shape"]
    assert run("inspect", path).exit_code == 0


def test_a_session_is_told_by_ids_turns_and_calls(run: Run, tmp_path: Path) -> None:
    first = turn_request("sess-1", ("get_weather", ARGUMENTS), ("convert", None), user="Weather in Paris?")
    second = turn_request("sess-1", turn=1)
    document = inspected(run, write_lines(tmp_path / "traces.jsonl", second, first))
    [session] = document["sessions"]
    assert (session["id"], session["id_source"]) == ("sess-1", "gen_ai.conversation.id")
    weather, silent = session["turns"]
    spans = first["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert weather["trace_ids"] == [spans[0]["traceId"]]
    assert weather["root"] == {"trace_id": spans[0]["traceId"], "span_id": spans[0]["spanId"]}
    assert (weather["user_text"], weather["agent"]) == ("Weather in Paris?", "weather_agent")
    call, unknown = weather["calls"]
    assert (call["name"], call["arguments"], call["capture"]) == ("get_weather", ARGUMENTS, "captured")
    assert call["spans"] == [{"trace_id": spans[1]["traceId"], "span_id": spans[1]["spanId"]}]
    assert (unknown["arguments"], unknown["capture"]) == (None, "not_captured")
    assert silent["calls"] == []


def test_values_that_json_cannot_hold_are_words(run: Run, tmp_path: Path) -> None:
    line = json.dumps(turn_request("sess-1", ("f", {"x": "NAN", "y": "\ud800"})))
    document = inspected(run, write_lines(tmp_path / "traces.jsonl", line.replace('\\"NAN\\"', "NaN")))
    arguments = document["sessions"][0]["turns"][0]["calls"][0]["arguments"]
    assert arguments["x"] == "NaN"


def test_the_table_shows_what_was_found(run: Run, tmp_path: Path) -> None:
    lines = [
        turn_request("sess-1", ("get_weather", ARGUMENTS), user="Weather in Paris?"),
        turn_request("sess-1", turn=1),
        plain_request(scope="opentelemetry.instrumentation.httpx"),
    ]
    result = run("inspect", write_lines(tmp_path / "traces.jsonl", *lines))
    assert result.stdout == (
        "sess-1  from gen_ai.conversation.id\n"
        "  turn 1  weather_agent  Weather in Paris?\n"
        '      get_weather  city="Paris", days=3\n'
        "  turn 2  weather_agent\n"
        "      no call\n"
        "\n"
        "found           1 session, 2 turns, 1 call, all with arguments\n"
        "recognised      3 of 4 spans: otel_genai 3\n"
        "\n"
        "Nothing is missing: `goldspan score` can score every one of these calls.\n"
    )


@pytest.mark.parametrize(
    ("line", "seen", "helps"),
    [
        (
            turn_request("s", ("f", None)),
            "arguments not captured in 1 of 1 calls (otel_genai)",
            "CAPTURE_MESSAGE_CONTENT",
        ),
        (turn_request(None, ("f", {})), "no session id in 1 of 1 sessions (any framework)", "gen_ai.conversation.id"),
        (turn_request("s"), "agents or models were seen, but no tool call", "instrumentation"),
        (plain_request(), "no span was recognised", "goldspan dialects"),
    ],
)
def test_it_ends_with_what_helps(line: dict[str, Any], seen: str, helps: str, run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "traces.jsonl", line)
    told = {hint["seen"]: hint["helps"] for hint in inspected(run, path)["advice"]}
    assert [text for key, text in told.items() if key.startswith(seen) and helps in text]
    table = " ".join(run("inspect", path).stdout.partition("what to do")[2].split())
    assert f"- {seen}" in table
    assert helps in table


def test_recordings_without_content_name_their_own_switch(run: Run) -> None:
    path = ROOT / "tests/fixtures/recordings/google-adk-v2-default.otlp.json"
    table = run("inspect", path).stdout
    assert "(google_adk)" in table
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in table


def test_runs_of_one_session_are_told_apart(run: Run, tmp_path: Path) -> None:
    lines = [turn_request("sess-1", ("f", {}), turn=turn) for turn in (0, 1, 500)]
    result = run("inspect", write_lines(tmp_path / "traces.jsonl", *lines))
    assert "sess-1  run 1 of 2  from" in result.stdout
    assert "sess-1  run 2 of 2  from" in result.stdout


def test_long_lists_are_cut_and_shown_on_request(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "traces.jsonl", *(turn_request(f"sess-{n}", ("f", {})) for n in range(30)))
    assert "... and 10 more sessions; -v shows all" in run("inspect", path).stdout
    assert run("inspect", path, "-v").stdout.count("from gen_ai.conversation.id") == 30


def test_names_from_traces_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "traces.jsonl", turn_request("\x1b[2Jsess", ("f\x1b[31m", {"a\x07": "\x1b]0;x"})))
    shown = run("inspect", path).stdout
    assert not set(shown) & set("\x1b\x07")
    assert "\\x1b[2Jsess" in shown


def test_dialects_are_listed_with_what_to_switch_on(run: Run) -> None:
    document = json.loads(run("dialects", "--format", "json").stdout_bytes)
    assert {"google_adk", "openinference", "otel_genai"} <= {one["name"] for one in document["dialects"]}
    table = run("dialects").stdout
    for one in document["dialects"]:
        assert one["name"] in table
        assert " ".join(one["advice"]["arguments"].split()) in " ".join(table.split())
    assert "goldspan.session.id" in document["session_keys"]


def test_every_reason_has_words_and_every_mendable_one_help() -> None:
    assert set(REASON_TEXT) == set(Reason)
    assert set(Reason) - set(HELP) == {
        Reason.NO_GOLDEN,
        Reason.NOTHING_EXPECTED,
        Reason.TURN_NOT_EXPECTED,
    }
