"""Traces that a platform stores: read page by page, through faults, and scored like files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goldspan.collector_processor.http_client import HttpClient
from goldspan.collector_processor.replay.stored_traces import (
    download,
    sources,
)
from goldspan.collector_processor.replay.stored_traces.sources import Downloads, read_time
from rigs import stored_platforms
from rigs.command_line import Run
from rigs.stored_platforms import Fault, Stored, stored
from rigs.trace_requests import START, turn_request, write_lines

NOW = datetime.fromtimestamp(START / 1e9, UTC) + timedelta(days=1)
WINDOW = ("--since", "2027-01-15T00:00", "--until", "2027-01-16")
"""Around START, which is 2027-01-15 08:00."""
SOURCES = {
    "phoenix": ("phoenix://a b", "phoenix"),
    "langfuse": ("langfuse://travel", "langfuse"),
    "older_langfuse": ("langfuse://", "langfuse"),
    "mlflow": ("mlflow://travel", "mlflow"),
    "logfire": ("logfire://it's", "logfire"),
    "tempo": ("tempo://agent", "tempo"),
    "older_tempo": ("tempo://", "tempo"),
    "jaeger": ("jaeger://agent", "jaeger"),
}
VARIABLES = {
    "phoenix": "PHOENIX_COLLECTOR_ENDPOINT",
    "langfuse": "LANGFUSE_BASE_URL",
    "mlflow": "MLFLOW_TRACKING_URI",
    "logfire": "LOGFIRE_BASE_URL",
    "langsmith": "LANGSMITH_ENDPOINT",
    "tempo": "TEMPO_QUERY_URL",
    "jaeger": "JAEGER_QUERY_URL",
}
Serve = Callable[..., Stored]


def turns(count: int, apart: int = 1) -> list[dict[str, Any]]:
    """Traces so many minutes apart, in sessions of two turns."""
    call = ("get_weather", {"city": "Paris", "days": 3})
    return [turn_request(f"sess-{number // 2}", call, turn=number * apart, user=f"{number}") for number in range(count)]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve traces as a platform, which the environment names, in pages of two."""
    for module, name in (
        (sources, "_PHOENIX_SPANS"),
        (sources, "_OBSERVATIONS"),
        (sources, "_LANGFUSE_TRACES"),
        (sources, "_MLFLOW_TRACES"),
        (sources, "_RECORDS"),
        (sources, "_RUNS"),
        (sources, "_WITH_SPANS"),
        (sources, "_TEMPO_TRACES"),
        (sources, "_JAEGER_TRACES"),
    ):
        monkeypatch.setattr(module, name, 4 if name == "_RECORDS" else 2)  # no page of Logfire is empty
    for name in (
        "PHOENIX_ENDPOINT",
        "PHOENIX_API_KEY",
        "PHOENIX_CLIENT_HEADERS",
        "MLFLOW_TRACKING_TOKEN",
        "TEMPO_ORG_ID",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    monkeypatch.setenv("LOGFIRE_READ_TOKEN", "lf")
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls")
    monkeypatch.delenv("LANGSMITH_WORKSPACE_ID", raising=False)
    monkeypatch.setattr(download, "_MAX_PAUSE", 0.0)
    open_servers = []

    def start(kind: str, traces: list[dict[str, Any]]) -> Stored:
        server = stored(getattr(stored_platforms, kind), traces)
        found = server.__enter__()
        open_servers.append(server)
        monkeypatch.setenv(VARIABLES[SOURCES.get(kind, ("", kind))[1]], found.endpoint)
        return found

    yield start
    for server in open_servers:
        server.__exit__(None, None, None)


def sessions(run: Run, *arguments: object) -> Any:
    result = run("inspect", *arguments, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)["sessions"]


@pytest.mark.parametrize("kind", SOURCES)
def test_every_trace_in_the_window_is_read_once_and_as_from_a_file(
    run: Run, serve: Serve, tmp_path: Path, kind: str
) -> None:
    inside, before, after = turns(9), turns(2, apart=-24 * 60)[1:], turns(2, apart=24 * 60)[1:]
    platform = serve(kind, [*before, *inside, *after])
    assert sessions(run, SOURCES[kind][0], *WINDOW) == sessions(run, write_lines(tmp_path / "t.jsonl", *inside))
    assert len(set(platform.asked)) >= 5 if kind not in ("mlflow", "logfire") else platform.asked


def test_runs_of_langsmith_have_the_calls_of_the_same_session(run: Run, serve: Serve, tmp_path: Path) -> None:
    """Runs hold less than spans: no message of the user, whose place is in their own attributes."""
    inside, before = turns(9), turns(2, apart=-24 * 60)[1:]
    platform = serve("langsmith", [*before, *inside])
    runs = sessions(run, "langsmith://travel", *WINDOW)
    spans = sessions(run, write_lines(tmp_path / "t.jsonl", *inside))
    assert [one["id"] for one in runs] == [one["id"] for one in spans]
    calls = [[turn["calls"] for turn in one["turns"]] for one in runs]
    assert [len(turns) for turns in calls] == [len(one["turns"]) for one in spans]
    assert all(call["name"] == "get_weather" for turns in calls for made in turns for call in made)
    assert [path.partition("?")[0] for path in platform.asked] == ["/api/v1/sessions", *["/api/v1/runs/query"] * 9]


@pytest.mark.parametrize(
    ("url", "unset", "says"),
    [
        ("logfire://", "LOGFIRE_READ_TOKEN", "LOGFIRE_READ_TOKEN is not set"),
        ("langsmith://travel", "LANGSMITH_API_KEY", "LANGSMITH_API_KEY is not set"),
        ("langsmith://", "X", "names no project; write langsmith://default"),
    ],
)
def test_what_a_source_lacks_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, unset: str, says: str
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls")
    monkeypatch.delenv(unset, raising=False)
    result = run("score", url)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("kind", ["tempo", "jaeger"])
@settings(max_examples=settings().max_examples // 4)
@given(minutes=st.lists(st.integers(0, 3 * 24 * 60), min_size=1, max_size=12, unique=True))
def test_searches_find_every_trace_wherever_in_time_it_is(kind: str, minutes: list[int]) -> None:
    traces = [turn_request(f"s-{minute}", turn=minute) for minute in minutes]
    with pytest.MonkeyPatch.context() as patch, stored(getattr(stored_platforms, kind), traces) as platform:
        patch.setattr(sources, f"_{kind.upper()}_TRACES", 3)
        patch.setenv(VARIABLES[kind], platform.endpoint)
        source = (sources.tempo if kind == "tempo" else sources.jaeger)(f"{kind}://agent", "agent")
        start = datetime.fromtimestamp(START / 1e9, UTC)
        pages = source.pages(download.TimeWindow(start, start + timedelta(days=4, minutes=7)))
        found = set[str]()
        page = next(pages)
        client = HttpClient(platform.endpoint, max_body=1 << 20)
        while True:
            answer = client.request("GET", page.path, b"", {}, seconds=5)
            body = answer.body if answer.status == 200 else b""
            if page.holds_spans and body:
                trace = json.loads(body)
                whole = trace.get("result") or trace.get("trace")
                found |= {one["traceId"] for one in stored_platforms.spans(whole)}
            try:
                page = pages.send(body)
            except StopIteration:
                break
        client.close()
    assert found == {stored_platforms.trace_id(one) for one in traces}


@pytest.mark.parametrize("kind", ["tempo", "jaeger"])
def test_more_traces_at_one_moment_than_a_search_gives_are_said(run: Run, serve: Serve, kind: str) -> None:
    serve(kind, [turn_request(f"s-{number}") for number in range(3)])
    result = run("score", SOURCES[kind][0], *WINDOW)
    assert result.exit_code == 2
    assert "there are 2 traces or more between 2027-01-15 0" in result.stderr


FAULTS = {
    "asked to wait": (Fault(429, {"Retry-After": "7"}), [7.0]),
    "asked to wait for an hour": (Fault(503, {"Retry-After": "3600"}), [600.0]),
    "unavailable": (Fault(503), [1.0]),
    "cut": (Fault(), [1.0]),
}


@pytest.mark.parametrize(("fault", "pauses"), FAULTS.values(), ids=FAULTS)
def test_a_page_that_fails_is_asked_for_again(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, pauses: list[float]
) -> None:
    monkeypatch.setattr(download, "_MAX_PAUSE", 60.0)
    platform = serve("phoenix", turns(3))
    platform.faults[1] = fault
    slept: list[float] = []
    folder = Downloads("30d", "", tmp_path, slept.append).read("phoenix://a b", tmp_path, NOW)
    assert slept == pauses
    assert platform.asked[1] == platform.asked[2]
    assert len(list(folder.glob("[0-9]*.json"))) == len(platform.asked) - 1 == 3


def test_an_interrupted_run_goes_on_where_it_stopped(run: Run, serve: Serve, tmp_path: Path) -> None:
    platform = serve("mlflow", turns(7))
    command = ("inspect", "mlflow://travel", *WINDOW, "--download", "pages", "--format", "json")
    platform.faults = {number: Fault(500) for number in range(4, 4 + download.ATTEMPTS)}
    first = run(*command)
    assert first.exit_code == 2
    assert f"does not answer, asked {download.ATTEMPTS} times: HTTP 500 not now" in first.stderr
    before = len(platform.asked)
    found = json.loads(run(*command).stdout)["sessions"]
    assert found == sessions(run, "pages") == sessions(run, write_lines(tmp_path / "t.jsonl", *turns(7)))
    spans = [path for path in platform.asked[:4] + platform.asked[before:] if "batchGet" in path]
    assert len(spans) == len(set(spans)) == 4
    assert platform.asked[before] == platform.asked[before - 1]


def test_a_run_that_was_complete_reads_anew(run: Run, serve: Serve) -> None:
    platform = serve("tempo", turns(2))
    command = ("inspect", "tempo://agent", *WINDOW, "--download", "pages", "--format", "json")
    run(*command)
    platform.traces += turns(6)[4:]
    assert [one["id"] for one in json.loads(run(*command).stdout)["sessions"]] == ["sess-0", "sess-2"]


def test_a_trace_that_is_larger_than_may_be_read_in_one_search_is_found_in_a_shorter_one(
    run: Run, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_JAEGER_TRACES", 100)
    monkeypatch.setattr(download, "MAX_ANSWER", 6_000)
    serve("jaeger", turns(12))
    assert sessions(run, "jaeger://agent", *WINDOW) == sessions(run, write_lines(tmp_path / "t.jsonl", *turns(12)))


PROBLEMS = [
    ("phoenix", Fault(401, body="no"), "HTTP 401 (the platform does not know the sender) no", "PHOENIX_API_KEY"),
    ("mlflow", Fault(403), "HTTP 403 (the sender may not read this)", "MLFLOW_TRACKING_TOKEN"),
    (
        "tempo",
        Fault(301, {"Location": "https://tempo.example.com"}),
        "it moved to https://tempo.example.com",
        "TEMPO_ORG_ID",
    ),
    ("jaeger", Fault(404), "HTTP 404 (no such project, or no such API at this address)", "JAEGER_QUERY_URL"),
    ("langfuse", Fault(200, body="<html>"), "with something unexpected: JSON is malformed", "LANGFUSE_SECRET_KEY"),
]


@pytest.mark.parametrize(("kind", "fault", "said", "variable"), PROBLEMS, ids=[one[0] for one in PROBLEMS])
def test_what_cannot_be_read_is_said_with_the_variable_to_set(
    run: Run, serve: Serve, kind: str, fault: Fault, said: str, variable: str
) -> None:
    platform = serve(kind, turns(2))
    platform.faults[-1] = fault
    result = run("score", SOURCES[kind][0], *WINDOW)
    assert result.exit_code == 2
    assert said in result.stderr
    assert variable in result.stderr
    assert len(platform.asked) == 1


@pytest.mark.parametrize(("kind", "variable"), VARIABLES.items())
def test_an_address_without_a_scheme_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    keys = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LOGFIRE_READ_TOKEN", "LANGSMITH_API_KEY")
    for name, value in {variable: "localhost:6006", **dict.fromkeys(keys, "a")}.items():
        monkeypatch.setenv(name, value)
    result = run("score", SOURCES.get(kind, (f"{kind}://travel", ""))[0], *WINDOW)
    assert result.exit_code == 2
    assert "localhost:6006" in result.stderr
    assert " such as http://localhost:" in result.stderr
    assert variable in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("phoenix://",), "names no project"),
        (("mlflow://",), "names no experiment"),
        (("jaeger://",), "names no service"),
        (("langfuse://other",), "the keys in LANGFUSE_PUBLIC_KEY are of the project travel"),
        (("phoenix://nobody",), "no such project"),
        (("phoenix://a b", "--since", "2026-01-01", "--until", "2026-01-02"), "has no traces from 2026-01-01 00:00 to"),
        (("phoenix://a b", "--since", "1h", "--until", "2h"), "--since 1h is not before --until 2h"),
        (("phoenix://a b", "--since", "yesterday"), "expected an age such as 24h or 7d, or a time"),
        (("-", "--since", "1h"), "are for stored traces"),
        (("jaeger://agent", "--write-back"), "Jaeger cannot store scores"),
        (("tempo://", "--write-back"), "Tempo cannot store scores"),
        (("phoenix://a b", "-", "--write-back"), "needs TRACES to be one source of stored traces"),
    ],
)
def test_wrong_usage_is_said(run: Run, serve: Serve, arguments: tuple[str, ...], said: str) -> None:
    for kind in ("phoenix", "langfuse", "mlflow"):
        serve(kind, turns(1))
    result = run("score", *arguments, stdin="")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_variables_that_are_missing_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGFUSE_PUBLIC_KEY", raising=False)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    monkeypatch.setenv("LOGFIRE_READ_TOKEN", "lf")
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls")
    monkeypatch.delenv("LANGSMITH_WORKSPACE_ID", raising=False)
    assert "LANGFUSE_PUBLIC_KEY not set" in run("score", "langfuse://").stderr
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    assert "expected the address of an MLflow server" in run("score", "mlflow://Default").stderr


def test_a_server_that_gives_one_page_for_ever_is_left(run: Run, serve: Serve) -> None:
    platform = serve("phoenix", turns(1))
    answer = platform.answer
    platform.answer = lambda *asked: (200, {**answer(*asked)[1], "next_cursor": "0"})
    result = run("score", "phoenix://a b", *WINDOW)
    assert result.exit_code == 2
    assert "answers with the same page again and again" in result.stderr


def test_credentials_and_tenants_are_sent(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TEMPO_ORG_ID": "team-a", "TEMPO_USERNAME": "u", "TEMPO_PASSWORD": "p"}.items():
        monkeypatch.setenv(name, value)
    platform = serve("tempo", turns(1))
    run("inspect", "tempo://", *WINDOW)
    assert (platform.headers["x-scope-orgid"], platform.headers["authorization"]) == ("team-a", "Basic dTpw")
    platform = serve("phoenix", turns(1))
    monkeypatch.setenv("PHOENIX_CLIENT_HEADERS", "x-team=a%20b, x-more=1")
    monkeypatch.setenv("PHOENIX_API_KEY", "key")
    run("inspect", "phoenix://a b", *WINDOW)
    assert [platform.headers[name] for name in ("x-team", "x-more", "authorization")] == ["a b", "1", "Bearer key"]


def test_stored_traces_and_files_are_scored_together(run: Run, serve: Serve, tmp_path: Path) -> None:
    serve("tempo", turns(1))
    serve("jaeger", turns(2)[1:])
    file = write_lines(tmp_path / "t.jsonl", *turns(3)[2:])
    found = sessions(run, "tempo://", file, "jaeger://agent", *WINDOW)
    assert [(one["id"], len(one["turns"])) for one in found] == [("sess-0", 2), ("sess-1", 1)]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("90m", NOW - timedelta(minutes=90)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T08:00+02:00", datetime(2026, 11, 20, 6, tzinfo=UTC)),
    ],
)
def test_times_are_ages_or_iso_8601(written: str, read: datetime) -> None:
    assert read_time(written, NOW) == read


@pytest.mark.parametrize("kind", ["phoenix", "langfuse", "mlflow"])
def test_scores_are_written_back_and_the_second_time_in_place(run: Run, serve: Serve, goldens: Path, kind: str) -> None:
    platform = serve(kind, [turn_request("sess-1", ("get_weather", {"city": "Rome", "days": 3}))])
    for _ in range(2):
        result = run("score", SOURCES[kind][0], *WINDOW, "--goldens", goldens, "--write-back")
        assert (result.exit_code, result.stderr) == (1, "")
        assert len(platform.scores) == 3
