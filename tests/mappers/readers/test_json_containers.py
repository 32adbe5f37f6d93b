"""The same conversation as OTLP, Jaeger, Tempo and Zipkin write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.mappers import read_sessions
from goldspan.mappers.readers.files import read_documents, read_files, views
from goldspan.scoring.errors import Problem, TraceFileError
from goldspan.scoring.sessions import ToolCall
from rigs.repository import FIXTURES

FOLDER = FIXTURES / "containers"
TRACES = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"
LIST_RELEASES = ("helm_list_releases", {}, "call_P09kjRKHTTJA02oB9HIe4u5t")
KAGENT = sorted(TRACES.glob("*.json.gz"))
ROOT, PLAIN, TOOL, FAILED = "00f067aa0ba902b7", "53995c3f42cd8ad8", "0a2b4c6d8e0f1a2b", "72ad1f4e8c3b5a90"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def seen(view: Any, *, as_text: bool = False) -> dict[str, Any]:
    def shown(attributes: Any) -> dict[str, Any]:
        if not as_text:
            return dict(attributes)
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}

    return {
        "ids": (view.trace_id, view.span_id, view.parent_id),
        "times": (view.start, view.end),
        "kind": view.kind,
        "what": (view.name, view.scope_name, view.status_code, view.status_message),
        "attributes": shown(view.attributes),
        "events": [(event.name, dict(event.attributes)) for event in view.events],
    }


def read(name: str, **how: Any) -> dict[str, Any]:
    found = list(read_files([FOLDER / name], pytest.fail))
    assert len({id(view.resource) for view in found if view.span_id in (PLAIN, TOOL, FAILED)}) == 1
    return {view.span_id: seen(view, **how) for view in found}


def sessions(source: object) -> list[Any]:
    found = read_sessions(source, on_problem=pytest.fail)
    return [
        (session.id, session.id_source, turn.user_text.raw, [told(call) for call in turn.calls])
        for session in found
        for turn in session.turns
    ]


def told(call: ToolCall) -> tuple[Any, ...]:
    return (call.name, call.arguments, call.call_id, call.error, call.capture, call.start, call.result, call.evidence)


OTLP = sessions(FOLDER / "otlp.json")


def test_the_conversation_is_what_it_is() -> None:
    [(session, source, asked, calls)] = OTLP
    assert (session, source, asked) == (
        "sess-weather-1",
        "gen_ai.conversation.id",
        "Weather in Zürich, in Fahrenheit?",
    )
    assert [call[:4] for call in calls] == [
        ("get_weather", {"city": "Zürich", "days": 3}, "call_1", None),
        ("convert", {"value": 21.5, "to_unit": "F"}, "call_2", "unknown unit"),
    ]


@pytest.mark.parametrize("name", ["jaeger.json", "tempo-v1.json", "tempo-v2.json", "zipkin.json"])
@pytest.mark.parametrize("door", ["file", "one line", "in memory"])
def test_every_container_gives_the_same_session(name: str, door: str, tmp_path: Path) -> None:
    parsed = json.loads((FOLDER / name).read_text("utf-8"))
    line = tmp_path / "line"
    line.write_text(json.dumps(parsed), "utf-8")
    source = {"file": FOLDER / name, "one line": line, "in memory": parsed}[door]
    assert sessions(source) == OTLP


@pytest.mark.parametrize("name", ["jaeger.json", "tempo-v1.json", "tempo-v2.json"])
def test_every_field_of_a_span_comes_back(name: str) -> None:
    assert read(name) == read("otlp.json")


def test_what_is_written_again_is_otlp(tmp_path: Path) -> None:
    for name in ("jaeger.json", "tempo-v1.json", "tempo-v2.json", "zipkin.json"):
        again = tmp_path / name
        documents = list(read_documents(FOLDER / name, pytest.fail))
        again.write_text("\n".join(map(json.dumps, documents)), "utf-8")
        assert sessions(again) == OTLP
        assert [next(iter(document)) for document in documents] in (["resourceSpans"], ["batches"])


def test_jaeger_follows_from_is_a_link_and_no_parent() -> None:
    [document] = read_documents(FOLDER / "jaeger.json", pytest.fail)
    spans = [span for group in document["resourceSpans"] for inner in group["scopeSpans"] for span in inner["spans"]]
    [failed] = [span for span in spans if span["spanId"] == FAILED]
    assert (failed["parentSpanId"], failed["links"]) == (ROOT, [{"traceId": TRACE, "spanId": TOOL}])


def jaeger_span(**fields: Any) -> dict[str, Any]:
    return {"traceID": "a1", "spanID": "b2", "operationName": "f", "startTime": 5, "duration": 2, **fields}


def test_a_bare_jaeger_span_brings_its_process() -> None:
    process = {"serviceName": "s", "tags": [{"key": "host", "type": "string", "value": "h"}]}
    [view] = views(jaeger_span(process=process, parentSpanID="c3"), pytest.fail)
    assert (view.trace_id, view.span_id, view.parent_id) == ("a1".zfill(32), "b2".zfill(16), "c3".zfill(16))
    assert (view.start, view.end, view.resource.attributes) == (5_000, 7_000, {"service.name": "s", "host": "h"})


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ({"type": "int64", "value": "12"}, 12),
        ({"type": "int64", "value": 12}, 12),
        ({"type": "bool", "value": "true"}, True),
        ({"type": "bool", "value": False}, False),
        ({"type": "float64", "value": "1.5"}, 1.5),
        ({"type": "float64", "value": 2}, 2.0),
        ({"type": "binary", "value": "aGk="}, b"hi"),
        ({"type": "string", "value": "x"}, "x"),
        ({"value": 3}, 3),
        ({"type": "string", "value": None}, None),
        ({"type": "int64", "value": {"not": "a number"}}, None),
    ],
)
def test_jaeger_tags_keep_their_types(tag: dict[str, Any], value: object) -> None:
    [view] = views(jaeger_span(tags=[{"key": "k", **tag}]), pytest.fail)
    assert (view.attributes["k"], type(view.attributes["k"])) == (value, type(value))


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        ({"error": True}, (2, "")),
        ({"error": "true"}, (2, "")),
        ({"error": False}, (0, "")),
        ({"otel.status_code": "ERROR", "otel.status_description": "no"}, (2, "no")),
        ({"otel.status_code": "OK"}, (1, "")),
        ({}, (0, "")),
    ],
)
def test_jaeger_tags_say_how_it_ended(tags: dict[str, Any], status: tuple[int, str]) -> None:
    pairs = [{"key": key, "value": value} for key, value in tags.items()]
    [view] = views(jaeger_span(tags=pairs), pytest.fail)
    assert (view.status_code, view.status_message) == status


@pytest.mark.parametrize("api", ["v3", "of the page"])
def test_events_of_jaeger_are_in_the_order_of_time(api: str) -> None:
    names = ["system.message", "user.message", "assistant.message", "choice"]
    times = {name: 10_000 + number for number, name in enumerate(names)}
    if api == "v3":
        events = [{"name": name, "timeUnixNano": f"{times[name]}000"} for name in sorted(names)]
        span = {"traceId": "a1" * 16, "spanId": "b2" * 8, "name": "f", "startTimeUnixNano": "5", "events": events}
        [view] = views({"result": {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}}, pytest.fail)
    else:
        logs = [
            {"timestamp": times[name], "fields": [{"key": "event", "type": "string", "value": name}]}
            for name in sorted(names)
        ]
        [view] = views(jaeger_span(logs=logs), pytest.fail)
    assert [event.name for event in view.events] == names  # type: ignore[union-attr]


def test_an_empty_search_result_of_jaeger_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    path.write_text('{"data": [], "total": 0, "limit": 0, "offset": 0, "errors": null}')
    with pytest.raises(TraceFileError, match="holds JSON without spans"):
        list(read_files([path], pytest.fail))


def test_the_halves_of_a_shared_zipkin_span_are_two() -> None:
    found = read("zipkin.json")
    server = f"{ROOT}:server"
    assert found[ROOT]["ids"] == (TRACE, ROOT, "")
    assert found[server]["ids"] == (TRACE, server, ROOT)
    assert {found[one]["ids"][2] for one in (TOOL, FAILED)} == {server}
    assert (found[ROOT]["kind"], found[server]["kind"]) == (3, 2)


def test_what_zipkin_can_hold_comes_back() -> None:
    expected, found = read("otlp.json", as_text=True), read("zipkin.json", as_text=True)
    for one in (PLAIN, TOOL, FAILED):
        same = {**expected[one], "ids": found[one]["ids"], "kind": found[one]["kind"]}
        assert found[one] == same


def zipkin_span(span_id: str, **fields: Any) -> dict[str, Any]:
    return {"traceId": "7", "id": span_id, "timestamp": 1, "duration": 1, **fields}


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_zipkin_halves_are_told_by_the_mark_or_by_kind(marked: bool, order: int) -> None:
    server = zipkin_span("1", kind="SERVER", localEndpoint={"serviceName": "b"}, **({"shared": True} if marked else {}))
    client = zipkin_span("1", kind="CLIENT", localEndpoint={"serviceName": "a"})
    inside = zipkin_span("2", parentId="1", localEndpoint={"serviceName": "b"})
    beside = zipkin_span("3", parentId="1", localEndpoint={"serviceName": "a"})
    found = views([server, client, inside, beside][::order], pytest.fail)
    parents = {(view.span_id.lstrip("0"), view.kind): view.parent_id.lstrip("0") for view in found}
    assert parents == {("1", 3): "", ("1:server", 2): "1", ("2", 0): "1:server", ("3", 0): "1"}


@pytest.mark.parametrize(
    ("value", "event"),
    [
        ("cache hit", ("cache hit", {})),
        ('"exception": {"exception.type": "E", "n": 1}', ("exception", {"exception.type": "E", "n": 1})),
        ('exception|{"exception.type":"E"}|0', ("exception", {"exception.type": "E"})),
        ('"broken": {', ('"broken": {', {})),
        ("a|b|c", ("a|b|c", {})),
    ],
)
def test_zipkin_annotations_are_events(value: str, event: tuple[str, dict[str, Any]]) -> None:
    [view] = views(zipkin_span("1", annotations=[{"timestamp": 1, "value": value}]), pytest.fail)
    assert [(one.name, one.attributes) for one in view.events] == [event]


def test_zipkin_lists_of_traces_and_lines_of_spans(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    path.write_text(json.dumps([[zipkin_span("1")], [zipkin_span("2")]]) + "\n" + json.dumps(zipkin_span("3")))
    assert [view.span_id[-1] for view in read_files([path], pytest.fail)] == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["jaeger.json", "zipkin.json"])
def test_what_is_whole_of_a_torn_document_is_read(name: str, tmp_path: Path) -> None:
    text = json.dumps(json.loads((FOLDER / name).read_text("utf-8")))
    path = tmp_path / "torn"
    path.write_text(text[: text.index(FAILED[1:])], "utf-8")
    problems: list[Problem] = []
    found = list(read_files([path], problems.append))
    assert [view.span_id for view in found] == [PLAIN, TOOL]
    assert [problem.code for problem in problems] == ["bad_json"]


def spoil(value: Any, draw: Callable[[], Any], every: Callable[[], bool]) -> Any:
    if every():
        return draw()
    if isinstance(value, dict):
        return {key: spoil(inner, draw, every) for key, inner in value.items()}
    return [spoil(inner, draw, every) for inner in value] if isinstance(value, list) else value


_junk = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})


@given(st.sampled_from(["jaeger.json", "tempo-v1.json", "tempo-v2.json", "zipkin.json"]), st.data())
def test_anything_anywhere_never_raises(name: str, data: st.DataObject) -> None:
    parsed = json.loads((FOLDER / name).read_text("utf-8"))
    chance = data.draw(st.randoms(use_true_random=False))
    spoilt = spoil(parsed, lambda: data.draw(_junk), lambda: chance.random() < 0.01)
    problems: list[Problem] = []
    for view in views([spoilt] if isinstance(spoilt, dict | list) else {}, problems.append):
        seen(view)
    assert all(problem.message for problem in problems)


@pytest.mark.skipif(not KAGENT, reason="recorded kagent traces are not here")
@pytest.mark.parametrize(
    ("name", "spans", "session", "calls"),
    [
        ("helm", 96, "ctx-7ed9780f-3688-4fc0-b10b-2e4df2f83cf0", [LIST_RELEASES]),
        ("helm_2", 72, "ctx-3b29a420-6082-478a-af27-404b9a588c9e", []),
        ("k8s", 73, "ctx-d8251ac3-6289-464a-8404-0fc4e312e823", []),
    ],
)
def test_kagent_traces_are_read_right(name: str, spans: int, session: str, calls: list[Any]) -> None:
    path = TRACES / f"{name}.json.gz"
    assert len(list(read_files([path], pytest.fail))) == spans
    [found] = read_sessions(path, on_problem=pytest.fail)
    assert (found.id, found.id_source) == (session, "gen_ai.conversation.id")
    [turn] = found.turns
    assert [(call.name, call.arguments, call.call_id) for call in turn.calls] == calls
    assert all(call.error is None and not call.requested for call in turn.calls)
