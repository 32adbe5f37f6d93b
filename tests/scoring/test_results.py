"""Results of many sessions: when they pass, the document and the text that say why not; and the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goldspan.scoring import (
    Capture,
    ExpectedCall,
    Golden,
    GoldenFileError,
    GoldenSet,
    GoldenTurn,
    GoldspanError,
    Label,
    Problem,
    Reason,
    ScoringResult,
    Session,
    SessionResult,
    ToolCall,
    Turn,
    Verdict,
    explain,
    find_metric,
    load_goldens,
    metric_names,
    register_metric,
    score_session,
    score_sessions,
    score_turn,
)
from goldspan.scoring.metrics import Range

RIGHT = Session("s", (Turn((ToolCall("get_weather", {"city": "Paris", "unit": "celsius"}),)),))
WRONG = Session("s", (Turn((ToolCall("get_weather", {"city": "Paris", "unit": "F", "days": 3}), ToolCall("g"))),))
LOST = Session("s", (Turn((ToolCall("get_weather", None, Capture.NOT_CAPTURED),)),))


def goldens(*sessions: str, **criterion: Any) -> dict[str, Any]:
    calls = [{"name": "get_weather", "args": {"city": "Paris", "unit": "celsius"}}]
    return {
        "format": 1,
        "golden_set": "weather",
        "version": "3",
        "criterion": criterion,
        "goldens": [{"session": session, "turns": [{"calls": calls}]} for session in sessions],
    }


class TestSources:
    def test_goldens_come_from_files_mappings_sets_and_lists_of_these(self, tmp_path: Path) -> None:
        path = tmp_path / "weather.json"
        path.write_text(json.dumps(goldens("s")), "utf-8")
        loaded = load_goldens(path)
        for source in (path, str(path), goldens("s"), loaded, loaded.sets[0], [path], list(loaded.sets)):
            assert score_sessions(source, [RIGHT]).passed
        mine = GoldenSet("mine", goldens=(Golden("s", (GoldenTurn((ExpectedCall("get_weather"),)),)),))
        assert score_sessions(mine, RIGHT).passed

    def test_wrong_goldens_are_refused(self) -> None:
        with pytest.raises(GoldenFileError):
            score_sessions({"format": 1}, [RIGHT])

    def test_a_criterion_replaces_those_of_the_goldens(self) -> None:
        assert not score_sessions(goldens("s"), [WRONG]).passed
        assert score_sessions(goldens("s"), [WRONG], {"threshold": 0.5}).passed

    def test_a_session_that_starts_its_golden_again_is_two_runs(self) -> None:
        source = goldens("s")
        source["goldens"][0]["turns"][0]["turn_id"] = "t"
        again = Session("s", (Turn(RIGHT.turns[0].calls, turn_id="t"), Turn(WRONG.turns[0].calls, turn_id="t")))
        result = score_sessions(source, [again])
        assert [one.verdict.label for one in result.sessions] == [Label.PASS, Label.FAIL]

    def test_sessions_without_a_golden_come_last(self) -> None:
        other = Session("other", RIGHT.turns)
        result = score_sessions(goldens("s"), iter([other, RIGHT]))
        assert [one.session.id for one in result.sessions if one.session] == ["s", "other"]
        assert result.sessions[1].verdict.reason is Reason.NO_GOLDEN
        assert result.golden_sets.keys() == {"weather@3"}


NOBODY = Session("nobody", RIGHT.turns)


@pytest.mark.parametrize(
    ("sessions", "wanted", "strict", "lenient"),
    [
        ([RIGHT], ["s"], True, True),
        ([WRONG], ["s"], False, False),
        ([], ["s"], False, False),
        ([], [], False, False),
        ([RIGHT, NOBODY], ["s"], True, True),
        ([RIGHT], ["s", "never"], False, True),
        ([LOST], ["s"], False, True),
        ([RIGHT, Session("t", LOST.turns)], ["s", "t"], False, True),
        ([Session("s", RIGHT.turns * 2)], ["s"], False, True),
    ],
    ids=["right", "wrong", "nothing", "nothing at all", "no golden", "never seen", "lost", "one lost", "turn too many"],
)
def test_when_a_run_passes(sessions: list[Session], wanted: list[str], strict: bool, lenient: bool) -> None:
    result = score_sessions(goldens(*wanted), sessions)
    assert (result.passed, result.passes(), result.passes("lenient")) == (strict, strict, lenient)


def test_an_argument_that_is_not_known_stands_in_the_way_of_a_strict_pass_only() -> None:
    calls = (ToolCall("get_weather", {"city": "Paris", "unit": "celsius"}),) * 4 + (LOST.turns[0].calls)
    source = goldens("s")
    source["goldens"][0]["turns"][0]["calls"] *= 5
    source["criterion"] = {"threshold": 0.8}
    result = score_sessions(source, [Session("s", (Turn(calls),))])
    assert result.sessions[0].verdict.label is Label.PASS
    assert (result.passes("strict"), result.passes("lenient")) == (False, True)


class TestText:
    def test_it_says_what_was_wrong_with_which_argument(self) -> None:
        assert str(score_sessions(goldens("s", "never"), [WRONG, NOBODY])) == (
            "2 sessions: 0 passed, 1 failed, 1 not evaluated\n"
            '✗ 0.50  s  get_weather.unit (expected "celsius", found "F")\n'
            "  ✗ 0.50  turn 1\n"
            '    ✗ 0.50  get_weather  city="Paris"\n'
            '            unit  expected "celsius", found "F"\n'
            "            also passed: days\n"
            "    +  -    g  not expected\n"
            "never seen: golden never of weather@3"
        )

    def test_it_says_what_was_not_evaluated_and_why(self) -> None:
        text = str(score_sessions(goldens("s"), [LOST]))
        assert "?  -    get_weather  arguments not captured" in text

    def test_it_names_near_misses_and_requests_that_were_not_executed(self) -> None:
        calls = (ToolCall("get_weather", {"city": "Rome"}), ToolCall("h", requested=True, rejected=True))
        text = str(score_sessions(goldens("s"), [Session("s", (Turn(calls),))]))
        assert (
            "    ✗ 0.00  get_weather  called, but not as expected:\n"
            '            city  expected "Paris", found "Rome"\n'
            '            unit  expected "celsius", not passed\n'
        ) in text
        assert "not expected" not in text
        assert "!  -    h  requested, never executed" in text

    def test_it_is_short_when_all_is_well(self) -> None:
        assert str(score_sessions(goldens("s"), [RIGHT])) == "1 session: 1 passed, 0 failed, 0 not evaluated"

    def test_it_counts_what_is_too_much_to_tell(self) -> None:
        names = [f"s-{number}" for number in range(60)]
        told = str(score_sessions(goldens(*names), [Session(name, WRONG.turns) for name in names]))
        assert (told.count("✗ 0.50  s-"), told.splitlines()[-1]) == (50, "… and 10 more sessions")
        assert "more" not in str(score_sessions(goldens("s"), [WRONG]))

    def test_it_says_when_nothing_was_recognised(self) -> None:
        result = ScoringResult(problems=(Problem("bad_json", "expected JSON", "a.json:3"),))
        assert "nothing was recognised" in str(result)
        assert "problem: a.json:3: expected JSON" in str(result)

    def test_it_stays_readable_when_much_is_wrong(self) -> None:
        many = [Session(f"s{number}", WRONG.turns) for number in range(500)]
        text = str(score_sessions(goldens(*(session.id for session in many)), many))
        assert len(text.splitlines()) < 400
        assert "and 450 more sessions" in text


class TestDocument:
    def test_it_has_everything_in_json_and_floats(self) -> None:
        document = score_sessions(goldens("s"), [WRONG]).to_json()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        assert (document["passed"], document["totals"]["failed"]) == (False, 1)
        (session,) = document["sessions"]
        assert (session["id"], session["score"], session["label"], session["reason"]) == ("s", 0.5, "fail", None)
        assert (session["golden_set"], session["metric"]) == ("weather@3", "tool_parameter_match")
        (turn,) = session["turns"]
        aligned, extra = turn["calls"]
        assert (aligned["tool"], aligned["status"], aligned["score"]) == ("get_weather", "aligned", 0.5)
        assert aligned["arguments"][1] == {
            "name": "unit",
            "outcome": "mismatched",
            "score": 0.0,
            "strategy": "exact",
            "weight": 1.0,
            "expected": "celsius",
            "actual": "F",
            "differing": [],
        }
        assert (extra["tool"], extra["status"], extra["score"], extra["label"]) == (
            "g",
            "unexpected",
            None,
            "not_evaluated",
        )

    def test_objects_of_one_kind_have_the_same_keys(self) -> None:
        incomplete = Session("u", (), incomplete=True)
        sessions = [WRONG, Session("t", LOST.turns * 2), incomplete, NOBODY]
        document = score_sessions(goldens("s", "t", "u", "never"), sessions).to_json()
        turns = [turn for session in document["sessions"] for turn in session["turns"]]
        calls = [call for turn in turns for call in turn["calls"]]
        actual = [call["actual"] for call in calls if call["actual"]]
        for kind in (document["sessions"], turns, calls, actual):
            assert len({tuple(one) for one in kind}) == 1
        assert document["never_seen"] == [
            {"golden": "never", "golden_set": "weather@3", "source": "<in code> goldens[3]"}
        ]


def test_an_explanation_has_values_only_if_they_are_asked_for() -> None:
    result = score_sessions(goldens("s"), [WRONG]).sessions[0]
    for detail in (result, result.turns[0], result.turns[0].calls[0], result.turns[0].unexpected_calls[0]):
        assert "celsius" not in explain(detail)
        assert "\n" not in explain(detail)
    assert "celsius" in explain(result.turns[0].calls[0], include_values=True)


F, G = {"name": "f", "args": {"x": 1}}, {"name": "g"}
REFUSED = ToolCall("f", {"x": 7}, requested=True, rejected=True)
EXPLAINED: dict[str, tuple[list[dict[str, Any]], Turn, str]] = {
    "right": ([F], Turn((ToolCall("f", {"x": 1}),)), "1 of 1 calls right"),
    "wrong, missing and unexpected": (
        [F, G],
        Turn((ToolCall("f", {"x": 2}), ToolCall("h"))),
        "f.x (wrong); 0 of 2 calls right; wrong: f; missing: g; unexpected: h",
    ),
    "not known": (
        [F],
        Turn((ToolCall("f", None, Capture.REDACTED),)),
        "0 of 1 calls right; not evaluated: f",
    ),
    "refused": ([F], Turn((ToolCall("f", {"x": 1}), REFUSED)), "1 of 1 calls right; not executed: f"),
    "nothing needed": ([{**G, "optional": True}], Turn(), "not evaluated: nothing is expected"),
    "a prohibition kept": ([{**G, "forbidden": True}], Turn(), "nothing that is forbidden was called"),
    "a prohibition broken": ([{**G, "forbidden": True}], Turn((ToolCall("g"),)), "forbidden: g"),
}


@pytest.mark.parametrize(("expected", "turn", "says"), EXPLAINED.values(), ids=EXPLAINED)
def test_a_turn_is_explained_by_its_tools(expected: list[dict[str, Any]], turn: Turn, says: str) -> None:
    assert explain(score_turn(expected, turn, {"match_mode": "name_only"})) == says


def test_a_session_is_explained_by_its_turns() -> None:
    first = GoldenTurn((ExpectedCall("a"),), alternatives=((ExpectedCall("b"),),))
    golden = Golden("s", (first, GoldenTurn((ExpectedCall("c"),))))
    cut_off = score_session(golden, Session("s", (Turn((ToolCall("b"),)),)))
    assert explain(cut_off) == "turn 2 (never seen); 2 of 2 turns evaluated; below the threshold: turn 2"
    assert [explain(turn) for turn in cut_off.turns] == [
        "1 of 1 calls right; by alternative 2",
        "0 of 1 calls right; the turn was never seen",
    ]
    forbidding = Golden("s", (GoldenTurn((ExpectedCall("a"),)), GoldenTurn((ExpectedCall("b", forbidden=True),))))
    broken = score_session(forbidding, Session("s", (Turn(), Turn((ToolCall("b"),)))))
    assert explain(broken) == (
        "turn 2: b (forbidden); 1 of 1 turns evaluated; forbidden calls: turn 2; below the threshold: turn 1"
    )
    alone = Golden("s", forbidding.turns[1:])
    assert explain(score_session(alone, Session("s", (Turn((ToolCall("b"),)),)))) == "forbidden calls: turn 1"
    assert explain(score_session(alone, Session("s", (Turn(),)))) == "nothing that is forbidden was called"
    longer = score_session(golden, Session("s", tuple(Turn((ToolCall(name),)) for name in "bcz")))
    assert explain(longer) == "2 of 2 turns evaluated"
    assert (
        explain(longer.turns[2])
        == "not evaluated: the golden has no such turn, or session id used again; unexpected: z"
    )


def test_an_explanation_of_many_arguments_stays_short() -> None:
    arguments = {f"argument{number}": number for number in range(100)}
    session = Session("s", (Turn((ToolCall("f", dict.fromkeys(arguments, None)),)),))
    result = score_session([{"name": "f", "args": arguments}], session)
    assert explain(result.turns[0].calls[0]).endswith("argument9 and 90 more")


class TestMetrics:
    def test_tool_parameter_match_is_built_in(self) -> None:
        found = find_metric("tool_parameter_match")
        assert "tool_parameter_match" in metric_names()
        assert (found.name, found.range) == ("tool_parameter_match", Range(0, 1))
        golden = load_goldens(goldens("s")).goldens[0]
        assert found(WRONG, golden) == score_session(golden, WRONG)

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(GoldspanError, match="did you mean `tool_parameter_match`"):
            find_metric("tool_param_match")
        with pytest.raises(GoldspanError, match=r"known are .*`trajectory_f1`"):
            find_metric("zzz")

    def test_others_can_be_registered_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("goldspan.scoring.metrics.session_metrics._METRICS", {})

        class Turns:
            name, description, range = "turns", "How many turns there are.", Range(0, float("inf"))

            def __call__(self, session: Session, golden: Golden) -> SessionResult:
                return SessionResult(Verdict(None, Label.PASS), session, golden, metric=self.name)

        mine = Turns()
        register_metric(mine)
        register_metric(mine)
        assert metric_names() == ("turns",)
        assert find_metric("turns") is mine
        with pytest.raises(GoldspanError, match="registered already"):
            register_metric(Turns())
