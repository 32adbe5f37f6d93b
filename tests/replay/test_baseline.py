"""A baseline: only what got worse since an earlier run breaks a build."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goldspan.collector_processor.replay.baseline import decide_against, regressions_since
from goldspan.collector_processor.replay.scored_runs import NamedRun, load_run
from goldspan.collector_processor.replay.summary_and_exit_code import CoverageMode
from goldspan.scoring.criterion import Criterion
from goldspan.scoring.errors import FileError
from goldspan.scoring.goldens import Golden
from goldspan.scoring.goldens.golden import Repeat
from goldspan.scoring.results import ArgumentOutcome, SessionResult
from goldspan.scoring.run import ScoringResult
from goldspan.scoring.sessions import Session
from goldspan.scoring.verdict import Reason
from rigs.command_line import Run
from rigs.scored_sessions import (
    EVERYTHING,
    FAILED,
    NO_GOLDEN,
    ODD,
    PASSED,
    UNKNOWN,
    Score,
    argument,
    call,
    session,
    turn,
    unknown,
    verdict,
)
from rigs.trace_requests import turn_request, write_lines

GOLDEN = Golden("sess", golden_set="weather@1")


def scored(score: Score | None, *, name: str = "sess", **more: Any) -> SessionResult:
    """A session of one turn whose one call has the session's score."""
    if score is None:
        state = verdict(None, Reason.ARGUMENTS_NOT_CAPTURED)
        return session(name, state, turn(0, state, unknown("f")), **more)
    outcome = ArgumentOutcome.MATCHED if score == 1 else ArgumentOutcome.MISMATCHED
    one = call("f", argument("x", 1, outcome, 2), verdict=verdict(score))
    return session(name, verdict(score), turn(0, verdict(score), one), **more)


def regressed(before: ScoringResult, now: ScoringResult, coverage: CoverageMode = CoverageMode.STRICT) -> list[str]:
    return list(regressions_since(baseline_of(before), now, coverage))


def baseline_of(before: ScoringResult) -> NamedRun:
    document = json.loads(json.dumps(before.to_json()))
    return NamedRun.of("before.json", document)


def runs(*sessions: SessionResult, never_seen: tuple[Golden, ...] = ()) -> ScoringResult:
    return ScoringResult(sessions, never_seen)


def in_all(words: str) -> str:
    """A session whose only call is worse as it is itself."""
    return f"sess: {words}; turn 1, f: {words}"


HALF, GOOD, MOST = scored(Fraction(1, 2)), scored(1), scored(Fraction(9, 10))
LOST = "not evaluated (arguments not captured)"
CASES: dict[str, tuple[ScoringResult, ScoringResult, list[str]]] = {
    "the same": (runs(HALF), runs(HALF), []),
    "better": (runs(HALF), runs(GOOD), []),
    "failed after all": (
        runs(GOOD),
        runs(HALF),
        [in_all("passed with 1.00 before, now failed with 0.50")],
    ),
    "lower, though it passes": (
        runs(GOOD),
        runs(MOST),
        [in_all("passed with 1.00 before, now passed with 0.90")],
    ),
    "lower, though it failed": (
        runs(HALF),
        runs(scored(Fraction(49, 100))),
        [in_all("failed with 0.50 before, now failed with 0.49")],
    ),
    "a new failure": (runs(), runs(HALF), ["sess: new, failed with 0.50"]),
    "a new success": (runs(), runs(GOOD), []),
    "without a golden": (runs(NO_GOLDEN), runs(NO_GOLDEN), []),
    "not there any more": (runs(GOOD, HALF), runs(GOOD), []),
    "by another criterion, lower": (runs(GOOD), runs(replace(MOST, criterion="other")), []),
    "another version of the set": (
        runs(GOOD),
        runs(replace(HALF, golden=Golden("sess", golden_set="weather@2"))),
        [in_all("passed with 1.00 before, now failed with 0.50")],
    ),
}


@pytest.mark.parametrize("coverage", CoverageMode)
@pytest.mark.parametrize("name", CASES)
def test_what_got_worse_is_named(name: str, coverage: CoverageMode) -> None:
    before, now, lines = CASES[name]
    assert regressed(before, now, coverage) == lines


def test_what_is_not_evaluated_any_more_counts_with_strict_coverage() -> None:
    lost = ["sess: passed with 1.00 before, now not evaluated (arguments not captured)"]
    before = runs(replace(GOOD, turns=()))
    assert regressed(before, runs(scored(None))) == lost
    assert regressed(before, runs(scored(None)), CoverageMode.LENIENT) == []
    assert regressed(runs(scored(None)), runs(scored(None))) == []
    assert regressed(runs(), runs(scored(None))) == [f"sess: new, {LOST}"]
    assert regressed(runs(), runs(scored(None)), CoverageMode.LENIENT) == []


def test_a_golden_not_seen_any_more_counts_with_strict_coverage() -> None:
    gone = runs(GOOD, never_seen=(Golden("other", golden_set="weather@1"),))
    other = scored(1, name="other")
    assert regressed(runs(GOOD, other), gone) == ["other: seen before, now never seen in these traces"]
    assert regressed(runs(GOOD), gone) == ["other: new, now never seen in these traces"]
    assert regressed(gone, gone) == []
    assert regressed(runs(GOOD, other), gone, CoverageMode.LENIENT) == []


def test_runs_of_a_session_are_compared_one_with_one() -> None:
    before = runs(scored(Fraction(1, 2), run="a"), scored(Fraction(1, 2), run="b"))
    after = runs(scored(1, run="c"), scored(Fraction(1, 4), run="d"))
    [line] = regressed(before, after)
    assert line.startswith("sess (run 2 of 2): failed with 0.50 before, now failed with 0.25; turn 1, f: ")


def test_sessions_of_a_pattern_are_compared_though_their_ids_are_new() -> None:
    golden = Golden(session_pattern="nightly-*", golden_set="weather@1", criterion=Criterion())

    def night(name: str, score: Score) -> SessionResult:
        return replace(scored(score), session=Session(name), golden=golden, turns=())

    before = runs(night("nightly-1", 1), night("nightly-2", Fraction(1, 2)))
    after = runs(night("nightly-2", Fraction(1, 2)), night("nightly-3", 1), night("nightly-4", 0))
    assert regressed(before, after) == ["nightly-4: new, failed with 0.00"]
    assert regressed(before, runs(night("nightly-3", Fraction(1, 2)))) == [
        "nightly-3: passed with 1.00 before, now failed with 0.50"
    ]


FLAKY = Golden(session_pattern="nightly-*", golden_set="weather@1", criterion=Criterion(), repeat=Repeat(5, 4))


def flaky(*scores: Score | None) -> ScoringResult:
    """Runs of one golden of which four in five must pass."""
    nights = [replace(scored(score), session=Session(f"nightly-{at}")) for at, score in enumerate(scores)]
    return runs(*(replace(night, golden=FLAKY) for night in nights))


@pytest.mark.parametrize(
    ("before", "after", "lenient", "strict"),
    [
        ((1, 1, 1, 1, 1), (1, 1, 0, 1, 1), "", ""),
        ((1, 1, 1, 1, 0), (0, 1, 1, 1, 1), "", ""),
        ((0, 0, 0, 1, 1), (0, 0, 0, 0, 1), "", ""),
        ((1, 1, 1, 1, 0), (1, 1, 1, 0, 0), *["passed with 0.80 before, now 3 of 5 runs"] * 2),
        ((), (1, 0, 1, 1, 1), "", ""),
        ((), (1, 0, 1, 1, 0), *["new, 3 of 5 runs"] * 2),
        ((), (1, 1), "", "new, 2 of 2 runs"),
        ((), (1, 1, 1, 1, None), "", "new, 4 of 5 runs"),
        ((1, 1, 1, 1, 1), (1, 1), "", "passed with 1.00 before, now 2 of 2 runs"),
    ],
)
def test_a_golden_with_repeat_counts_as_a_whole(
    before: tuple[Score, ...], after: tuple[Score | None, ...], lenient: str, strict: str
) -> None:
    for coverage, expected in ((CoverageMode.LENIENT, lenient), (CoverageMode.STRICT, strict)):
        found = regressed(flaky(*before), flaky(*after), coverage)
        assert [one.partition(" passed, 4 of 5 must")[0] for one in found] == (
            [f"golden nightly-*: {expected}"] if expected else []
        )
        assert regressed(flaky(*after), flaky(*after), coverage) == []


def test_a_call_the_golden_no_longer_expects_is_not_compared() -> None:
    other = call("f", argument("x", 3, ArgumentOutcome.MISMATCHED, 2), verdict=verdict(0))
    after = session("sess", verdict(1), turn(0, verdict(1), other))
    assert regressed(runs(GOOD), runs(after)) == []


RESULTS = st.lists(st.sampled_from([FAILED, UNKNOWN, PASSED, NO_GOLDEN, *ODD.sessions, GOOD, HALF]), max_size=5).map(
    lambda sessions: replace(EVERYTHING, sessions=tuple(sessions))
)


@given(RESULTS, st.sampled_from(CoverageMode))
def test_nothing_regresses_since_itself(result: ScoringResult, coverage: CoverageMode) -> None:
    assert regressed(result, result, coverage) == []
    judgement = decide_against(baseline_of(result), result, recognised=1, coverage=coverage)
    assert (judgement.exit_code == 0) is bool(result.sessions)


def test_what_else_was_asked_for_still_counts() -> None:
    same = baseline_of(runs(HALF))
    low = decide_against(same, runs(HALF), recognised=1, coverage=CoverageMode.STRICT, fail_under=Fraction(6, 10))
    assert low.reasons == ("the mean score 0.5 is below --fail-under 0.6",)
    assert decide_against(same, runs(HALF), recognised=0, coverage=CoverageMode.STRICT).exit_code == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is not a JSON document"),
        (b"\xff\xfe", "is not a JSON document"),
        (b"[" * 100_000, "is not a JSON document"),
        (b'{"sessions": NaN}', "is not a JSON document"),
        (b"[]", "expected the document of an earlier `goldspan score --format json`"),
        (b'{"sessions": [{"id": 5}], "never_seen": []}', "sessions.0.id: "),
        (b'{"totals": {}}', "never_seen: "),
    ],
)
def test_a_file_that_is_no_document_says_what_was_expected(content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError) as error:
        load_run(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)
    assert "--format json" in str(error.value)


RIGHT, WRONG = {"city": "Paris", "days": 3}, {"city": "Paris", "days": 5}


def test_a_flaky_agent_that_passes_breaks_no_build(run: Run, tmp_path: Path) -> None:
    calls = [{"name": "get_weather", "args": RIGHT}]
    golden = {"session_pattern": "run-*", "repeat": {"runs": 5, "passes": 4}, "calls": calls}
    (tmp_path / "goldens.json").write_text(json.dumps({"golden_set": "weather", "goldens": [golden]}))
    codes = []
    for wrong in (0, 1, 2):
        given = [("get_weather", RIGHT if number >= wrong else WRONG) for number in range(5)]
        requests = [turn_request(f"run-{number}", call) for number, call in enumerate(given)]
        path = write_lines(tmp_path / f"{wrong}.jsonl", *requests)
        options = ("score", path, "--goldens", "goldens.json")
        if not wrong:
            (tmp_path / "before.json").write_bytes(run(*options, "--format", "json").stdout_bytes)
        codes.append((run(*options).exit_code, run(*options, "--baseline", "before.json").exit_code))
    assert codes == [(0, 0), (0, 0), (1, 1)]


def test_a_build_breaks_on_regressions_only(run: Run, goldens: Path, tmp_path: Path) -> None:
    good = write_lines(tmp_path / "good.jsonl", turn_request("sess-1", ("get_weather", RIGHT)))
    bad = write_lines(tmp_path / "bad.jsonl", turn_request("sess-1", ("get_weather", WRONG)))
    for name, path in (("good.json", good), ("bad.json", bad)):
        (tmp_path / name).write_bytes(run("score", path, "--goldens", goldens, "--format", "json").stdout_bytes)
    known = run("score", bad, "--goldens", goldens, "--baseline", "bad.json")
    assert known.exit_code == 0
    assert known.stdout.endswith("✓ passed: nothing regressed.\n")
    worse = run("score", bad, "--goldens", goldens, "--baseline", "good.json", "--report", "markdown=c.md")
    assert worse.exit_code == 1
    assert (
        "\nregressed\n  - sess-1: passed with 1.00 before, now failed with 0.50; turn 1, get_weather: passed"
        in worse.stdout
    )
    assert "✗ failed: 1 regression since good.json." in worse.stdout
    assert "sess-1: passed with 1.00 before" in (tmp_path / "c.md").read_text("utf-8")
    document = run("score", bad, "--goldens", goldens, "--baseline", "good.json", "--format", "json")
    assert document.exit_code == 1
    assert json.loads(document.stdout)["passed"] is False
    assert "goldspan: regressed: sess-1: passed with 1.00 before" in document.stderr
    missing = run("score", bad, "--goldens", goldens, "--baseline", "none.json")
    assert (missing.exit_code, missing.stdout) == (2, "")


def some_pass(passed: int, failed: int) -> ScoringResult:
    return runs(*[GOOD] * passed, *[HALF] * failed)


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (some_pass(3, 2), some_pass(2, 3), []),
        (some_pass(9, 1), some_pass(1, 9), ["sess: 9 of 10 runs passed before, now 1 of 10"]),
        (some_pass(2, 0), some_pass(1, 1), ["sess (run 2 of 2): passed with 1.00 before, now failed with 0.50"]),
    ],
    ids=["within noise", "outside of noise", "newly wrong"],
)
def test_a_flaky_session_regresses_outside_of_noise(
    before: ScoringResult, now: ScoringResult, lines: list[str]
) -> None:
    assert [line.partition(";")[0] for line in regressed(before, now)] == lines


def test_what_was_fixed_and_what_fails_as_before_is_said() -> None:
    before = runs(HALF, replace_name(HALF, "old"), replace_name(GOOD, "new"))
    now = runs(GOOD, replace_name(HALF, "old"), replace_name(HALF, "new"))
    decision = decide_against(baseline_of(before), now, recognised=1, coverage=CoverageMode.STRICT)
    assert (decision.fixed, decision.known_failures) == (("sess",), {"old"})


def replace_name(result: SessionResult, name: str) -> SessionResult:
    return scored(result.verdict.exact, name=name)
