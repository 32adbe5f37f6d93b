"""`goldspan goldens record`: what is written of traces, what of several recordings, and what is said beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from goldspan.collector_processor.cli import main
from goldspan.collector_processor.golden_tools.recording import record
from goldspan.collector_processor.golden_tools.writing import name_of, yaml_text
from goldspan.mappers.dialects.reading.value_parsing import is_redacted
from goldspan.scoring import load_goldens, score_sessions
from goldspan.scoring.goldens.documents import MistakeCollector, read_yaml
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from rigs.command_line import Run
from rigs.repository import ROOT
from rigs.span_facts import captured
from rigs.trace_requests import turn_request, write_lines


def session(*turns: Any, key: str = "s-1", **more: Any) -> Session:
    """A session of turns, each a list of calls and what the user said."""
    return Session(
        key,
        tuple(Turn(tuple(calls), user_text=captured(user) if user else Content()) for user, *calls in turns),
        **more,
    )


def call(name: str, args: Any = None, **more: Any) -> ToolCall:
    return ToolCall(name, {} if args is None else args, **more)


def recorded(*sessions: Session, **options: Any) -> tuple[Any, list[str]]:
    found = record(sessions, "x", **options)
    return found.document["goldens"], [str(notice) for notice in found.notices]


def test_a_session_is_written_turn_by_turn() -> None:
    [golden], notices = recorded(session(("Hi", call("a", {"x": 1}), call("b")), ("Thanks",)))
    calls = [{"name": "a", "args": {"x": 1}}, {"name": "b"}]
    assert golden == {"session": "s-1", "turns": [{"user": "Hi", "calls": calls}, {"user": "Thanks"}]}
    assert notices == []


def test_calls_of_one_batch_are_parallel() -> None:
    calls = (call("a", batch=1), call("b", batch=1), call("c"), call("d", batch=2), call("e", batch=3))
    [golden], _ = recorded(session(("Hi", *calls)))
    [turn] = golden["turns"]
    assert turn["calls"] == [{"parallel": [{"name": "a"}, {"name": "b"}]}, {"name": "c"}, {"name": "d"}, {"name": "e"}]


def test_refused_requests_are_not_written_and_failed_calls_are_said() -> None:
    calls = (call("a", rejected=True, requested=True), call("a", {"x": 1}, error="Timeout"))
    [golden], notices = recorded(session(("Hi", *calls)))
    assert golden["turns"][0]["calls"] == [{"name": "a", "args": {"x": 1}}]
    assert notices == ["s-1: 1 call failed when recorded (a), and the golden expects them all the same"]


def test_what_is_not_known_is_said_and_not_invented() -> None:
    hidden = ToolCall("a", None, Capture.REDACTED)
    partly = ToolCall("b", {"x": 1, "y": "***"}, argument_captures={"y": Capture.REDACTED})
    never = call("c", {"x": float("nan"), "y": 2})
    found = record([session(("Hi", hidden, partly, never))], "x")
    calls = [{"name": "a"}, {"name": "b", "args": {"x": 1}}, {"name": "c", "args": {"y": 2}}]
    assert found.document["goldens"][0]["turns"][0]["calls"] == calls
    assert [str(notice) for notice in found.notices] == [
        "s-1: arguments were not captured in 1 of 3 calls (a): not written",
        "s-1: b: y was redacted: not written",
        "s-1: c: x was not a value that JSON can hold: not written",
    ]
    text = yaml_text(found.document, found.comments)
    for comment in ("# arguments redacted when", "# y: redacted when", "# x: not a value that JSON can hold when"):
        assert comment in text


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (session(("Hi", call("a"), call(""))), 'turns[0].calls[1].name: found "", expected text that is not blank'),
        (session(("Hi", call("a", batch=1), call("\ud83d", batch=1))), "expected text without halves of characters"),
        (session(("Hi", call("a")), key="s-\ud83d"), "session: found"),
    ],
)
def test_what_no_golden_file_can_hold_is_left_out_and_said(bad: Session, why: str) -> None:
    goldens, [notice] = recorded(bad, session(("Hi", call("a")), key="s-2"))
    assert [golden["session"] for golden in goldens] == ["s-2"]
    assert why in notice
    assert notice.endswith(": left out")


def test_a_text_that_was_cut_within_a_character_finds_no_turn() -> None:
    [golden], _ = recorded(session(("Hi \ud83d", call("a", {"x": "\ud83d"}))))
    assert golden["turns"] == [{"calls": [{"name": "a", "args": {"x": "\ud83d"}}]}]


def test_what_is_redacted_only_has_to_be_present() -> None:
    args = {
        "token": "t",
        "user": {"name": "Ann", "token": ["t"]},
        "query": {"$match": {"token": "t"}},
        "list": [{"token": 1}],
    }
    [golden], _ = recorded(session(("Hi", call("a", args))), redact=["token"])
    present = {"$present": True}
    assert golden["turns"][0]["calls"][0]["args"] == {
        "token": present,
        "user": {"name": "Ann", "token": present},
        "query": present,
        "list": [{"token": present}],
    }
    result = score_sessions({"golden_set": "x", "goldens": [golden]}, [session(("Hi", call("a", args)))])
    assert result.passed, result


@pytest.mark.parametrize(
    ("user", "other", "leaks"),
    [("My card is 4111-1111", "x", True), ("Hi", ["4111-1111"], True), ("Hi", "x", False)],
)
def test_a_redacted_value_that_stands_elsewhere_is_said(user: str, other: Any, leaks: bool) -> None:
    _, notices = recorded(session((user, call("pay", {"card": "4111-1111", "other": other}))), redact=["card"])
    words = "s-1: the value of card also stands in other places of the golden: look for it"
    assert notices == ([words] if leaks else [])


def test_goldens_without_session_ids_are_found_by_what_the_user_said_first() -> None:
    runs = [session(("Weather?", call("a", {"x": 1})), ("Thanks",), key=key, id_source="trace_id") for key in "pq"]
    [golden], notices = recorded(*runs, by_user_text=True)
    assert golden["first_user_text"] == "Weather?"
    assert "session" not in golden
    assert notices == []
    result = score_sessions(
        {"golden_set": "x", "goldens": [golden]}, [session(("Weather?", call("a", {"x": 1})), key="r")]
    )
    assert [one.verdict.score for one in result.sessions] == [1]
    [nameless], _ = recorded(session((None, call("a"))), by_user_text=True)
    assert nameless["session"] == "s-1"


def test_a_pattern_makes_one_golden_of_many_sessions() -> None:
    runs = [session(("Hi", call("book", {"x": "one"})), key=f"n-{number}") for number in (1, 2)]
    [golden], _ = recorded(*runs, pattern="n-*")
    assert golden == {"session_pattern": "n-*", "calls": [{"name": "book", "args": {"x": "one"}}]}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (session(("Hi", call("a")), id_source="trace_id"), "no session id was recorded"),
        (session(("Hi", call("a")), incomplete=True), "recorded incompletely"),
        (session(("Hi",)), "no tool was called: left out"),
        (Session("s-1", (Turn((call("a"),)), Turn((), calls_visible=False))), "no span shows the tool calls of 1 turn"),
        (session(("Hi", call("a")), key=" "), "without a session id or trace id"),
    ],
)
def test_what_makes_a_golden_doubtful_is_said(one: Session, words: str) -> None:
    _, notices = recorded(one)
    assert any(words in notice for notice in notices)


def test_the_command_writes_a_file_once(run: Run, tmp_path: Path) -> None:
    traces = write_lines(tmp_path / "traces.jsonl", turn_request("s-1", ("get_weather", {"city": "NO"}), user="Hi"))
    assert run("record", traces, "-o", "weather.yaml").exit_code == 0
    text = (tmp_path / "weather.yaml").read_text("utf-8")
    assert text.splitlines()[1:] == [
        "golden_set: weather",
        "goldens:",
        "  - session: s-1",
        "    turns:",
        "      - user: Hi",
        "        calls:",
        '          - {name: get_weather, args: {city: "NO"}}',
    ]
    again = run("record", traces, "-o", "weather.yaml")
    assert again.exit_code == 2
    assert "--force replaces it" in again.stderr
    assert run("record", traces, "-o", "weather.yaml", "--force", "--name", "w").exit_code == 0
    for output in (("-o", traces), ("-o", "new.yaml", "--table", traces), ("-o", "new.yaml", "--table", "new.yaml")):
        assert run("record", traces, *output, "--force").exit_code == 2
    assert load_goldens(tmp_path / "weather.yaml").sets[0].name == "w"


def test_standard_output_has_yaml_alone(run: Run, tmp_path: Path) -> None:
    requests = [turn_request(key, ("f", {"x": 1}), user="secret") for key in ("s-1", "s-2", "other")]
    traces = write_lines(tmp_path / "traces.jsonl", *requests)
    result = run("record", traces, "--session", "s-*", "--no-user-text", "--redact", "x")
    assert "secret" not in result.stdout
    document = read_yaml(result.stdout, MistakeCollector(""))
    assert [golden["session"] for golden in document["goldens"]] == ["s-1", "s-2"]
    assert document["goldens"][0]["turns"][0]["calls"][0]["args"] == {"x": {"$present": True}}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("weather.yaml", "weather"),
        ("a/b.otlp.json", "b"),
        ("home.evalset.json", "home"),
        ("traces.jsonl.gz", "traces"),
        ("-", "goldens"),
        (".yaml", "goldens"),
    ],
)
def test_a_set_is_called_like_its_file(file: str, name: str) -> None:
    assert name_of(file) == name


def test_no_call_is_no_golden_set(run: Run, tmp_path: Path) -> None:
    traces = write_lines(tmp_path / "traces.jsonl", turn_request("s-1", user="Hi"))
    result = run("record", traces, "-o", "goldens.yaml")
    assert result.exit_code == 1
    assert not (tmp_path / "goldens.yaml").exists()
    assert "no tool call was found" in result.stderr


def test_a_name_that_is_no_golden_file_is_refused(run: Run, tmp_path: Path) -> None:
    traces = write_lines(tmp_path / "traces.jsonl", turn_request("s-1", ("f", {}), user="Hi"))
    result = run("record", traces, "-o", "goldens.txt")
    assert result.exit_code == 2
    assert "ends in .json, .jsonl, .yaml or .yml" in result.stderr


@pytest.mark.parametrize("name", ["g.yaml", "g.json", "g.jsonl"])
def test_every_kind_of_file_holds_the_same(run: Run, tmp_path: Path, name: str) -> None:
    traces = write_lines(
        tmp_path / "traces.jsonl", turn_request("s-1", ("f", {"q": {"$regex": "x"}}), user="Hi\nthere")
    )
    assert run("record", traces, "-o", name).exit_code == 0
    [golden] = load_goldens(tmp_path / name).goldens
    assert (golden.turns[0].user, dict(golden.turns[0].calls[0].args)) == (
        "Hi\nthere",
        {"q": {"$literal": {"$regex": "x"}}},
    )


def test_the_schema_is_printed(run: Run) -> None:
    published = ROOT / "config" / "golden-set.schema.json"
    assert json.loads(run("schema").stdout) == json.loads(published.read_text("utf-8"))


ODD = ["NO", "012", "12:30", "1e3", "~", "2026-12-01", "a\nb\n", "$regex", "9" * 30]
TEXT = st.text().filter(lambda text: not is_redacted(text)) | st.sampled_from(ODD)
KEYS = TEXT | st.sampled_from(["$regex", "$any_of", "$literal", "$gt", "$"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(args=st.dictionaries(TEXT, VALUES, max_size=4), user=TEXT, suffix=st.sampled_from(["yaml", "json", "jsonl"]))
def test_whatever_was_passed_is_right_by_its_recording(
    tmp_path_factory: pytest.TempPathFactory, args: dict[str, Any], user: str, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("recorded")
    traces = write_lines(folder / "traces.jsonl", turn_request("s-1", ("f", args), user=user))
    runner, goldens = CliRunner(), folder / f"goldens.{suffix}"
    assert runner.invoke(main, ["goldens", "record", str(traces), "-o", str(goldens)]).exit_code == 0
    result = runner.invoke(main, ["score", str(traces), "--goldens", str(goldens), "--format", "json"])
    assert (result.exit_code, result.stderr) == (0, "")
    [found] = json.loads(result.stdout)["sessions"]
    assert found["score"] == 1
    [expected] = load_goldens(goldens).goldens[0].turns[0].calls
    assert expected.args.keys() == args.keys()
