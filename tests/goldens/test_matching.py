"""Sessions and goldens find each other; a session is cut where its golden starts again."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goldspan.scoring.api import score_sessions
from goldspan.scoring.errors import GoldenFileError
from goldspan.scoring.goldens import Golden, GoldenIndex, GoldenSet, GoldenTurn, load_goldens
from goldspan.scoring.goldens.golden import Ambiguous, key_of, keys_of
from goldspan.scoring.sessions import Capture, Content, Session, SpanRef, ToolCall, Turn
from goldspan.scoring.turn_join import split_runs


def index(*goldens: Golden) -> GoldenIndex:
    return GoldenIndex([GoldenSet("set", goldens=goldens)])


EXACT = Golden("nightly-1", golden_set="set")
NIGHTLY = Golden(session_pattern="nightly-*", golden_set="set")
ONE = Golden(session_pattern="*-1", golden_set="set")
CLASS = Golden(session_pattern="s-[ab]?", golden_set="set")
GOLDENS = index(EXACT, NIGHTLY, ONE, CLASS)


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("nightly-1", EXACT),
        ("nightly-2", NIGHTLY),
        ("nightly-", NIGHTLY),
        ("nightly-a\nb", NIGHTLY),
        ("nightly-2-1", Ambiguous((NIGHTLY, ONE))),
        ("daily-1", ONE),
        ("s-ax", CLASS),
        ("s-cx", None),
        ("Nightly-2", None),
        ("a nightly-2", None),
        ("daily-1\n", None),
        ("", None),
    ],
)
def test_exact_beats_pattern_and_patterns_match_whole_ids(session: str, expected: object) -> None:
    assert GOLDENS.find(Session(session)) == expected
    assert GOLDENS.wants(session) is (expected is not None)


def test_no_goldens_want_nothing() -> None:
    empty = load_goldens()
    assert empty.find(Session("s")) is None
    assert not empty.wants("s")
    assert not empty.wants("")


@given(st.text(max_size=5), st.lists(st.text("ab*?[]!-.", min_size=1, max_size=4), max_size=4, unique=True))
def test_a_session_is_wanted_exactly_if_a_golden_is_found(session: str, patterns: list[str]) -> None:
    some = index(*(Golden(session_pattern=pattern) for pattern in patterns))
    assert some.wants(session) is (some.find(Session(session)) is not None)


def test_brackets_in_a_session_id_are_no_pattern() -> None:
    golden = Golden("run[1]")
    assert index(golden).find(Session("run[1]")) is golden
    assert index(golden).find(Session("run1")) is None


def test_patterns_cannot_stall() -> None:
    some = index(Golden(session_pattern="*a" * 30 + "b"))
    start = time.perf_counter()
    assert not some.wants("a" * 5000)
    assert time.perf_counter() - start < 5


CASE = Golden(attribute={"test.case.name": "weather"}, golden_set="set")
CASE_IN_CI = Golden(attribute={"test.case.name": "weather", "ci": True}, golden_set="set")
NUMBERED = Golden(attribute={"case": 1}, golden_set="set")
HELLO = Golden(first_user_text="Hello  there", golden_set="set")
JOINS = index(EXACT, NIGHTLY, CASE, CASE_IN_CI, NUMBERED, HELLO)


@pytest.mark.parametrize(
    ("session_id", "attributes", "text", "expected"),
    [
        ("x", {"test.case.name": "weather"}, None, CASE),
        ("x", {"test.case.name": "weather", "ci": False}, None, CASE),
        ("x", {"test.case.name": "weather", "ci": True}, None, Ambiguous((CASE, CASE_IN_CI))),
        ("x", {"test.case.name": "Weather"}, None, None),
        ("x", {"case": 1.0}, None, NUMBERED),
        ("x", {"case": True}, None, None),
        ("x", {"case": "1"}, None, None),
        ("x", {"case": ["unhashable"]}, None, None),
        ("x", {"case": 1, "test.case.name": "weather"}, None, Ambiguous((NUMBERED, CASE))),
        ("x", {}, "Hello there", HELLO),
        ("x", {}, "Hello", None),
        ("nightly-1", {"test.case.name": "weather"}, "Hello there", EXACT),
        ("nightly-2", {"test.case.name": "weather"}, "Hello there", CASE),
        ("nightly-2", {}, "Hello there", HELLO),
        ("nightly-2", {}, None, NIGHTLY),
    ],
)
def test_what_says_most_of_a_session_decides(
    session_id: str, attributes: dict[str, Any], text: str | None, expected: object
) -> None:
    turn = Turn() if text is None else Turn(user_text=said(text))
    session = Session(session_id, (turn, Turn(user_text=said("Hello there"))), attributes=attributes)
    assert JOINS.find(session) == expected
    assert JOINS.wants(session_id)
    assert JOINS.join_attributes == ("case", "ci", "test.case.name")


def test_a_golden_that_nothing_joins_wants_nothing() -> None:
    some = index(Golden(calls=()), Golden(calls=()))
    assert some.find(Session("", (Turn(user_text=said("")),))) is None
    assert not some.wants("s")


def test_tools_are_called_by_the_names_they_have_in_the_golden() -> None:
    document = {
        "golden_set": "set",
        "aliases": {"get_weather": ["mcp.weather", "weather"]},
        "goldens": [{"session": "s", "calls": [{"name": "weather", "args": {"x": 1}}, {"name": "other"}]}],
    }
    session = Session("s", (Turn((ToolCall("mcp.weather", {"x": 1}), ToolCall("other"))),))
    result = score_sessions(document, [session])
    assert result.passed, result
    [turn] = result.sessions[0].turns
    assert [call.expected.name for call in turn.calls if call.expected] == ["get_weather", "other"]


@pytest.mark.parametrize(
    "golden",
    [
        EXACT,
        NIGHTLY,
        CASE_IN_CI,
        Golden(attribute={"ci": True, "test.case.name": "weather"}),
        HELLO,
        Golden(first_user_text=" Hello there\n"),
    ],
)
def test_a_tie_is_an_error_at_load(golden: Golden) -> None:
    with pytest.raises(GoldenFileError, match="a second golden for the "):
        index(EXACT, NIGHTLY, CASE_IN_CI, HELLO, golden)


def test_goldens_that_were_never_seen_are_known() -> None:
    assert GOLDENS.never_seen([]) == GOLDENS.goldens
    assert GOLDENS.never_seen([ONE, EXACT]) == (NIGHTLY, CLASS)
    assert GOLDENS.never_seen(GOLDENS.goldens) == ()


def said(text: str, capture: Capture = Capture.CAPTURED) -> Content:
    return Content(text, capture)


MESSAGES = [
    {"role": "user", "content": "before"},
    {"role": "assistant", "content": "yes?"},
    {"role": "user", "parts": [{"type": "text", "content": "Hello  there"}]},
]


@pytest.mark.parametrize(
    ("expected", "turn", "same"),
    [
        (GoldenTurn(user="Hello there"), Turn(user_text=said("Hello there")), True),
        (GoldenTurn(user=" Hello\nthere "), Turn(user_text=said("Hello \t there")), True),
        (GoldenTurn(user="Hello there"), Turn(user_text=said("hello there")), False),
        (GoldenTurn(user="Hello there"), Turn(user_text=said("Hello there", Capture.TRUNCATED)), False),
        (GoldenTurn(user="Hello there"), Turn(), False),
        (GoldenTurn(user="Hello there"), Turn(user_text=Content(MESSAGES, Capture.CAPTURED)), True),
        (GoldenTurn(user="before"), Turn(user_text=Content(MESSAGES, Capture.CAPTURED)), False),
        (GoldenTurn(user="Hi"), Turn(user_text=said('{"role": "user", "parts": [{"text": "Hi"}]}')), True),
        (GoldenTurn(user="Hi you"), Turn(user_text=said('[{"text": "Hi"}, {"image": 1}, {"text": "you"}]')), True),
        (GoldenTurn(user="[1, 2]"), Turn(user_text=said("[1, 2]")), True),
        (GoldenTurn(user="42"), Turn(user_text=said("42")), True),
        (GoldenTurn(turn_id="t"), Turn(turn_id="t"), True),
        (GoldenTurn(turn_id="t", user="Hi"), Turn(turn_id="u", user_text=said("Hi")), False),
        (GoldenTurn(), Turn(user_text=said("Hi")), False),
    ],
)
def test_a_turn_is_found_by_its_key(expected: GoldenTurn, turn: Turn, same: bool) -> None:
    assert (key_of(expected) in keys_of(turn)) is same


def session_of(texts: str, **given: Any) -> Session:
    turns = (Turn(root=SpanRef("t", f"{n}"), user_text=said(text)) for n, text in enumerate(texts))
    return Session("s", tuple(turns), run="r", **given)


def golden_of(texts: str) -> Golden:
    return Golden("s", tuple(GoldenTurn(user=None if text == "-" else text) for text in texts))


@pytest.mark.parametrize(
    ("golden", "session", "runs"),
    [
        ("abc", "abc", ["abc"]),
        ("abc", "abcabc", ["abc", "abc"]),
        ("abc", "abcxabcyabc", ["abcx", "abcy", "abc"]),
        ("abc", "abab", ["abab"]),
        ("abc", "acab", ["ac", "ab"]),
        ("abc", "bcabc", ["bc", "abc"]),
        ("abc", "cba", ["cb", "a"]),
        ("a", "aaa", ["a", "a", "a"]),
        ("a", "axa", ["ax", "a"]),
        ("aba", "abaaba", ["aba", "aba"]),
        ("aba", "aba", ["aba"]),
        ("abab", "abab", ["abab"]),
        ("abab", "abababab", ["abab", "abab"]),
        ("aa", "aaaa", ["aa", "aa"]),
        ("-b", "abab", ["abab"]),
        ("a-", "abab", ["abab"]),
        ("a-c", "abcabc", ["abc", "abc"]),
        ("", "aa", ["aa"]),
        ("abc", "", [""]),
    ],
)
def test_a_repeat_of_the_first_key_after_the_last_starts_a_run(golden: str, session: str, runs: list[str]) -> None:
    parts = split_runs(session_of(session), golden_of(golden))
    assert ["".join(str(turn.user_text.raw) for turn in part.turns) for part in parts] == runs
    assert parts[0].run == "r"
    assert len({part.run for part in parts}) == len(parts)


def test_runs_keep_what_the_session_knows_and_are_named_after_their_first_turn() -> None:
    first, second = split_runs(session_of("abab", incomplete=True), golden_of("ab"))
    assert (first.id, second.id, second.incomplete) == ("s", "s", True)
    assert second.run == "r/t-2"


def test_whole_session_goldens_cut_nothing() -> None:
    session = session_of("aa")
    assert split_runs(session, Golden("s", calls=())) == [session]


@given(st.text("ab-", max_size=4), st.text("abx", max_size=12))
def test_cutting_loses_no_turn_and_cutting_again_changes_nothing(golden: str, session: str) -> None:
    whole = session_of(session)
    parts = split_runs(whole, golden_of(golden))
    assert tuple(turn for part in parts for turn in part.turns) == whole.turns
    assert [again for part in parts for again in split_runs(part, golden_of(golden))] == parts
