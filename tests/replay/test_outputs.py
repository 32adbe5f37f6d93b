"""What a replay writes beside its table: a document, enriched spans, events and metric points."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

from goldspan.mappers import read_sessions
from goldspan.scoring.json_values import json_text
from rigs.command_line import Run
from rigs.otlp_receiver import attributes, otlp_receiver
from rigs.published_schemas import SCORE_SCHEMA
from rigs.repository import ROOT
from rigs.trace_requests import plain_request, turn_request, write_lines

RECORDINGS = sorted((ROOT / "tests/fixtures/recordings").glob("*.otlp.json"))
RIGHT, WRONG = {"city": "Paris", "days": 3}, {"city": "Paris", "days": 5}


TEXTS = st.text() | st.text(st.characters(categories=["Cs", "Zl", "Cc"]))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(DOCUMENTS)
def test_a_document_is_the_text_that_json_writes_with_an_indent(document: object) -> None:
    written = json.dumps(document, ensure_ascii=False, indent=2)
    steering = "".join(
        map(chr, (*range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
    )
    for one in steering if not written.isascii() else "":
        written = written.replace(one, f"\\u{ord(one):04x}")
    assert json_text(document) == written


@pytest.mark.parametrize("code", [0x85, 0x9B, 0x200F, 0x2028, 0x2029, 0x202E, 0x2066])
def test_no_document_steers_a_terminal_or_ends_a_line(code: int) -> None:
    text = json_text({f"é{chr(code)}": [chr(code)]})
    assert chr(code) not in text
    assert json.loads(text) == {f"é{chr(code)}": [chr(code)]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_a_document_never_holds_what_is_no_json(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text(value)


def scored(run: Run, *arguments: object) -> dict[str, Any]:
    result = run("score", *arguments, "--format", "json")
    assert result.stderr == ""
    document: dict[str, Any] = json.loads(result.stdout_bytes)
    SCORE_SCHEMA.validate(document)
    return document


@pytest.mark.every_recording
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_the_document_of_every_recording_is_as_published(path: Path, run: Run, tmp_path: Path) -> None:
    goldens = tmp_path / "goldens.json"
    calls = [{"name": "get_weather", "args": {"city": "Paris"}}, {"name": "book_table", "args": {"people": 3}}]
    one = {"session": "sess-weather-1", "turns": [{"calls": calls}, {"calls": []}]}
    goldens.write_text(json.dumps({"format": 1, "golden_set": "g", "goldens": [one]}))
    scored(run, path, "--goldens", goldens)


def test_a_document_holds_what_the_table_says(run: Run, goldens: Path, tmp_path: Path) -> None:
    lines = [turn_request("sess-1", ("get_weather", WRONG)), turn_request("sess-2", ("f", {}))]
    document = scored(run, write_lines(tmp_path / "traces.jsonl", *lines, "{"), "--goldens", goldens)
    judged, other = document["sessions"]
    assert (judged["score"], judged["label"], judged["reason"]) == (0.5, "fail", None)
    assert (other["score"], other["label"], other["reason"]) == (None, "not_evaluated", "no_golden")
    [call] = judged["turns"][0]["calls"]
    assert [(a["name"], a["outcome"]) for a in call["arguments"]] == [("city", "matched"), ("days", "mismatched")]
    assert len(document["problems"]) == 1


def stamped(path: Path, goldens: Path, run: Run, out: Path) -> list[dict[str, Any]]:
    run("score", path, "--goldens", goldens, "--enriched", out)
    text = gzip.decompress(out.read_bytes()).decode() if out.suffix == ".gz" else out.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def span_attributes(document: dict[str, Any]) -> list[dict[str, Any]]:
    spans = [span for source in document["resourceSpans"] for scope in source["scopeSpans"] for span in scope["spans"]]
    return [{pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]} for span in spans]


@pytest.mark.parametrize("name", ["enriched.jsonl", "enriched.jsonl.gz"])
def test_judged_spans_are_enriched_and_all_others_stay_as_they_came(
    name: str, run: Run, goldens: Path, tmp_path: Path
) -> None:
    other, plain = turn_request("sess-2", ("f", {})), plain_request()
    plain["resourceSpans"][0]["x-unknown"] = {"kept": [1, 2.5, "\u00e9", None]}
    judged = turn_request("sess-1", ("get_weather", WRONG), ("lookup", {}))
    source = write_lines(tmp_path / "traces.jsonl", plain, judged, other)
    first, second, third = stamped(source, goldens, run, tmp_path / name)
    assert (first, third) == (plain, other)
    root, call, unexpected = span_attributes(second)
    assert call["tool_parameter_match.score"] == 0.5
    assert call["tool_parameter_match.label"] == "fail"
    assert call["tool_parameter_match.mismatched_arguments"] == {"values": [{"stringValue": "days"}]}
    assert call["tool_parameter_match.expected_call"] == "0.0"
    assert unexpected["tool_parameter_match.unexpected"] is True
    assert root["tool_parameter_match.turn.score"] == 0.5
    assert root["tool_parameter_match.turn.expected_calls"] == "1"
    assert {path.name for path in tmp_path.iterdir()} == {"goldens.yaml", "traces.jsonl", name}


@pytest.mark.parametrize("option", ["--enriched", "--output"])
def test_a_link_stays_a_link(option: str, run: Run, goldens: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", WRONG)))
    (target := tmp_path / "of today.parquet").write_bytes(b"")
    target.chmod(0o640)
    (link := tmp_path / "newest.parquet").symlink_to(target.name)
    assert run("score", source, "--goldens", goldens, option, link).exit_code == 1
    assert link.is_symlink()
    assert target.stat().st_size
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_and_not_replaced(run: Run, goldens: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", WRONG)))
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    assert run("score", source, "--goldens", goldens, "--enriched", pipe).exit_code == 1
    assert json.loads(os.read(reader, 1 << 16))["resourceSpans"]
    os.close(reader)
    assert pipe.is_fifo()


def test_a_score_that_was_in_the_file_is_replaced(run: Run, goldens: Path, tmp_path: Path) -> None:
    forged = turn_request("sess-1", ("get_weather", WRONG))
    for span in forged["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("tool_parameter_match.score", "tool_parameter_match.score", "tool_parameter_match.said.by"):
            span["attributes"].append({"key": key, "value": {"doubleValue": 1.0}})
    [document] = stamped(write_lines(tmp_path / "traces.jsonl", forged), goldens, run, tmp_path / "enriched.jsonl")
    plain = turn_request("sess-1", ("get_weather", WRONG))
    [expected] = stamped(write_lines(tmp_path / "plain.jsonl", plain), goldens, run, tmp_path / "expected.jsonl")
    assert document == expected


@pytest.mark.every_recording
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".otlp.json"))
def test_enriched_spans_tell_the_same_sessions(path: Path, run: Run, tmp_path: Path) -> None:
    before = read_sessions(path)
    goldens = tmp_path / "goldens.json"
    ids = dict.fromkeys(session.id for session in before)
    listed = [{"session": name, "turns": [{"calls": [{"name": "get_weather", "args": {"days": 3}}]}]} for name in ids]
    goldens.write_text(json.dumps({"format": 1, "golden_set": "g", "goldens": listed}))
    out = tmp_path / "enriched.jsonl"
    run("score", path, "--goldens", goldens, "--enriched", out)
    assert read_sessions(out) == before
    again = tmp_path / "again.jsonl"
    run("score", out, "--goldens", goldens, "--enriched", again)
    assert again.read_bytes() == out.read_bytes()


def test_standard_input_can_be_enriched(run: Run, goldens: Path, tmp_path: Path) -> None:
    line = json.dumps(turn_request("sess-1", ("get_weather", RIGHT)))
    run("score", "-", "--goldens", goldens, "--enriched", "enriched.jsonl", stdin=line.encode())
    [document] = map(json.loads, (tmp_path / "enriched.jsonl").read_text("utf-8").splitlines())
    assert span_attributes(document)[1]["tool_parameter_match.score"] == 1.0


def test_events_point_at_the_spans_they_judge(run: Run, goldens: Path, tmp_path: Path) -> None:
    request = turn_request("sess-1", ("get_weather", WRONG))
    request["resourceSpans"][0]["resource"] = {
        "attributes": [{"key": "service.name", "value": {"stringValue": "weather"}}]
    }
    source = write_lines(tmp_path / "traces.jsonl", request)
    with otlp_receiver() as receiver:
        result = run("score", source, "--goldens", goldens, "--otlp-endpoint", receiver.endpoint)
    assert (result.exit_code, result.stderr) == (1, "")
    call, turn, session = sorted(receiver.events(), key=lambda event: attributes(event)["tool_parameter_match.level"])
    root, tool = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {event.event_name for event in (call, turn, session)} == {"gen_ai.evaluation.result"}
    assert (call.trace_id.hex(), call.span_id.hex()) == (tool["traceId"], tool["spanId"])
    assert call.time_unix_nano == int(tool["endTimeUnixNano"])
    assert attributes(call)["gen_ai.evaluation.score.value"] == 0.5
    assert attributes(call)["gen_ai.conversation.id"] == "sess-1"
    assert {event.span_id.hex() for event in (turn, session)} == {root["spanId"]}
    [resource] = {
        entry.value.string_value
        for received in receiver.requests["/v1/logs"]
        for source_logs in received.resource_logs
        for entry in source_logs.resource.attributes
        if entry.key == "service.name"
    }
    assert resource == "weather"
    assert not receiver.requests["/v1/metrics"]


def test_metrics_are_sent_on_request(run: Run, goldens: Path, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", WRONG)))
    with otlp_receiver() as receiver:
        run("score", source, "--goldens", goldens, "--otlp-endpoint", f"{receiver.endpoint}/", "--otlp-metrics")
    levels = {
        attributes(point)["tool_parameter_match.level"] for point in receiver.points("tool_parameter_match.score")
    }
    assert levels == {"call", "turn", "session"}
    [mismatch] = receiver.points("tool_parameter_match.argument_mismatches")
    assert attributes(mismatch)["tool_parameter_match.argument"] == "days"


def test_more_events_than_a_queue_holds_all_arrive_however_slowly(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = OTLPLogExporter.export
    monkeypatch.setattr(OTLPLogExporter, "export", lambda *batch: time.sleep(0.3) or send(*batch))
    goldens = tmp_path / "goldens.json"
    names = [f"sess-{number}" for number in range(900)]
    calls = [{"name": "f", "args": {"x": 1}}]
    listed = [{"session": name, "turns": [{"calls": calls}]} for name in names]
    goldens.write_text(json.dumps({"format": 1, "golden_set": "g", "goldens": listed}))
    source = write_lines(tmp_path / "traces.jsonl", *(turn_request(name, ("f", {"x": 1})) for name in names))
    with otlp_receiver() as receiver:
        result = run("score", source, "--goldens", goldens, "--otlp-endpoint", receiver.endpoint)
    assert result.exit_code == 0
    assert len({attributes(event)["tool_parameter_match.result_id"] for event in receiver.events()}) == 3 * len(names)


def test_an_endpoint_that_takes_nothing_is_said_after_the_result(
    run: Run, goldens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    source = write_lines(tmp_path / "traces.jsonl", turn_request("sess-1", ("get_weather", RIGHT)))
    with otlp_receiver() as receiver:
        endpoint = receiver.endpoint
    result = run("score", source, "--goldens", goldens, "--otlp-endpoint", endpoint)
    assert result.exit_code == 2
    assert "1.00  sess-1" in result.stdout
    assert result.stderr == f"goldspan: {endpoint} did not take 3 of 3 events; expected an OTLP/HTTP receiver there\n"
