"""`tool_parameter_profile`: what is normal for an agent is learnt, and what is rare is said."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.production import Simulated, simulate, write_traces
from goldspan.scoring.errors import FileError, MetricError
from goldspan.scoring.metrics.argument_profile import Profile, ToolParameterProfile, learn, shape
from goldspan.scoring.metrics.grounding import ToolParameterGrounding
from goldspan.scoring.metrics.profile_file import drift, load_profile, profile_document
from goldspan.scoring.metrics.session_metrics import choose_metrics
from goldspan.scoring.sessions import Capture, Content, Session, ToolCall, Turn
from goldspan.scoring.verdict import Finding, MetricScore, Reason
from rigs.command_line import Run, runner
from rigs.repository import ROOT
from rigs.trace_requests import turn_request, write_lines


def booking(number: int, **changes: Any) -> Session:
    """A user asks for an order to be refunded; an order is read, and refunded."""
    order, amount = f"W{1000 + number * 7}", 10.5 + number
    found = Content(json.dumps({"order": {"id": order, "total": amount}}), Capture.CAPTURED)
    arguments = {"order_id": order, "amount": amount, "reason": "damaged", "notify": True} | changes
    arguments = {name: value for name, value in arguments.items() if value is not ...}
    calls = (ToolCall("get_order", {"order_id": order}, result=found), ToolCall("refund", arguments))
    user = Content(f"Please refund {order}: it came damaged.", Capture.CAPTURED)
    return Session(f"s-{number}", (Turn(calls, user_text=user),))


NORMAL = [booking(number) for number in range(120)]
PROFILE = learn(NORMAL)


def found_in(session: Session, profile: Profile = PROFILE) -> list[Finding]:
    [turn] = ToolParameterProfile(profile=profile)(session).turns
    assert isinstance(turn, MetricScore)
    return [one for call in turn.calls if isinstance(call, MetricScore) for one in call.findings]


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"amount": "10.5"}, ("/amount", "type")),
        ({"amount": -4}, ("/amount", "sign")),
        ({"order_id": ...}, ("/order_id", "not_passed")),
        ({"order_id": None}, ("/order_id", "type")),
        ({"order_id": "W-1007"}, ("/order_id", "origin")),
        ({"order_id": "W9999"}, ("/order_id", "origin")),
        ({"note": "x"}, ("/note", "passed")),
    ],
    ids=["type", "sign", "absent", "null", "other shape", "from nowhere", "name"],
)
def test_what_deviates_is_said(changes: Mapping[str, Any], finding: tuple[str, str]) -> None:
    assert [(one.path, one.kind) for one in found_in(booking(500, **changes))][:1] == [finding]


def test_a_normal_call_is_in_order() -> None:
    score = ToolParameterProfile(profile=PROFILE)(booking(500))
    assert (score.score, found_in(booking(500))) == (1, [])


def test_the_value_of_another_order_is_a_relation_that_broke() -> None:
    # Both are in the conversation, so it has an origin, and it is of the right shape.
    calls = booking(500).turns[0].calls
    other = booking(501).turns[0].calls[0]
    mixed = Session("s", (Turn((other, calls[0], calls[1])),))
    assert found_in(mixed) == []  # equal to a field of either
    swapped = ToolCall("refund", {**(calls[1].arguments or {}), "amount": 1007})
    assert {one.kind for one in found_in(Session("s", (Turn((calls[0], swapped)),)))} & {"equals", "origin"}


def test_words_have_counts_and_no_values() -> None:
    [one] = found_in(booking(500, amount="secret 1"))
    assert one.message == "type string; number in 120 of 120 sessions"


def test_a_profile_of_few_sessions_says_nothing() -> None:
    [turn] = ToolParameterProfile(profile=learn(NORMAL[:40]))(booking(500, amount="x")).turns
    assert isinstance(turn, MetricScore)
    assert turn.reason is Reason.INPUT_MISSING


def test_what_most_sessions_do_is_normal() -> None:
    odd = [booking(number, amount="10.5" if number % 3 else 10.5 + number) for number in range(120)]
    assert [one.kind for one in found_in(booking(500, amount="10.5"), learn(odd))] == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 120), st.randoms(use_true_random=False))
def test_profiles_add_up_in_any_order(cut: int, random: Any) -> None:
    sessions = list(NORMAL)
    random.shuffle(sessions)
    parts = learn(sessions[:cut]), learn(sessions[cut:])
    whole = parts[0].plus(parts[1])
    assert whole.sessions == PROFILE.sessions
    for check, counts in whole.counts.items():
        if "rare" not in counts:
            assert counts == PROFILE.counts[check]
    assert learn(sessions) == PROFILE


def test_a_growing_session_scores_as_a_whole() -> None:
    turns = tuple(booking(number, amount=-1).turns[0] for number in range(4))
    running = ToolParameterProfile(profile=PROFILE).running()
    grown = [running(Session("s", turns[:length])) for length in (1, 3, 2, 4)][-1]
    assert grown == ToolParameterProfile(profile=PROFILE)(Session("s", turns))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("W-1234", "W-9999"),
        ("mia_li_3668", "w_w_9999"),
        ("2026-11-02", "date"),
        ("a@example.org", "w@w.w"),
        ("XEWRD9", "code of 6"),
        ("one two three four five", "text"),
        ("", "empty"),
    ],
)
def test_shapes(text: str, expected: str) -> None:
    assert shape(text) == expected


def written(folder: Path, document: object) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load_profile(written(tmp_path, profile_document(PROFILE))) == PROFILE


def test_a_family_can_be_left_out(tmp_path: Path) -> None:
    document = profile_document(PROFILE)
    document["agents"][""]["tools"]["refund"]["/amount"]["off"] = ["type", "sign", "origin", "equals"]
    profile = load_profile(written(tmp_path, document))
    assert found_in(booking(500, amount=-4), profile) == []


def test_what_is_pinned_is_a_rule_whatever_the_counts_say(tmp_path: Path) -> None:
    often = [booking(number, reason="damaged" if number % 2 else 7) for number in range(121)]
    document = profile_document(learn(often))
    assert found_in(booking(500), load_profile(written(tmp_path, document))) == []
    document["agents"][""]["tools"]["refund"]["/reason"]["pin"] = ["type"]
    [one] = found_in(booking(500), load_profile(written(tmp_path, document)))
    assert (one.path, one.kind) == ("/reason", "type")


def test_marks_of_a_person_stay_when_profiles_are_added(tmp_path: Path) -> None:
    document = profile_document(PROFILE)
    document["generated"] = ["refund.request_id"]
    document["agents"][""]["tools"]["refund"]["/amount"] |= {"off": ["sign"], "pin": ["type"]}
    marked = load_profile(written(tmp_path, document))
    added = PROFILE.plus(marked)
    assert (added.generated, added.off, added.pinned) == (marked.generated, marked.off, marked.pinned)
    assert load_profile(written(tmp_path, profile_document(added))) == added


def test_a_value_that_most_sessions_take_from_nowhere_is_made_by_the_agent() -> None:
    sessions = [booking(number, request_id=f"r-{number * 7919 + 1_000_011}") for number in range(120)]
    profile = learn(sessions)
    assert profile.generated == {"refund.request_id"}
    grounding = ToolParameterGrounding(generated=profile.generated)(booking(500, request_id="r-7777777"))
    assert grounding.score == 1
    assert learn([*sessions, booking(500)]).generated == profile.generated


@pytest.mark.parametrize("agents", [("a", "b")])
def test_agents_have_profiles_of_their_own(agents: tuple[str, str]) -> None:
    def of(agent: str, session: Session) -> Session:
        return Session(f"{agent}-{session.id}", tuple(replace(turn, agent=agent) for turn in session.turns))

    cents = [of(agents[1], booking(number, amount=str(number))) for number in range(120)]
    both = learn([*(of(agents[0], one) for one in NORMAL), *cents])
    assert both.sessions == dict.fromkeys(agents, 120)
    assert [one.kind for one in found_in(of(agents[0], booking(500, amount="10.5")), both)][:1] == ["type"]
    assert [one.kind for one in found_in(of(agents[1], booking(50, amount="50")), both)] == []


def test_two_profiles_of_one_agent_do_not_differ_and_those_of_a_changed_one_do() -> None:
    same = learn(booking(number) for number in range(200, 320))
    assert drift(PROFILE, same) == []
    changed = learn(booking(number, amount=str(number), reason=...) for number in range(200, 320))
    found = {(one.check.path, one.check.family) for one in drift(PROFILE, changed)}
    assert {("/amount", "type"), ("/reason", "passed")} <= found
    assert "refund/reason: passed always in 120 of 120 sessions, then in 0 of 120" in map(str, drift(PROFILE, changed))


def test_mistakes_of_a_file_are_said_together(tmp_path: Path) -> None:
    document: dict[str, Any] = profile_document(PROFILE) | {"extra": 1}
    document["agents"][""]["sessions"] = "many"
    document["agents"][""]["tools"]["refund"]["/amount"]["shap"] = {}
    with pytest.raises(FileError) as raised:
        load_profile(written(tmp_path, document))
    assert len(raised.value.mistakes) == 3
    with pytest.raises(MetricError, match="there is no such file"):
        choose_metrics(["tool_parameter_profile:nothing.yaml"])


@pytest.fixture
def goldspan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(tmp_path, monkeypatch)


def test_the_command_learns_and_every_door_can_score_by_it(goldspan: Run, tmp_path: Path) -> None:
    def traces(name: str, numbers: range, amount: Callable[[int], object]) -> Path:
        path = tmp_path / name
        write_lines(
            path, *[turn_request(f"s-{n}", ("refund", {"id": f"W{n + 1000}", "amount": amount(n)})) for n in numbers]
        )
        return path

    first = goldspan("profile", "learn", traces("a.jsonl", range(60), lambda n: n), "-o", "first.yaml")
    assert "judges nothing: learn from more" in first.stderr
    learnt = goldspan(
        "profile", "learn", traces("b.jsonl", range(60, 120), lambda n: n), "-o", "p.yaml", "--merge", "first.yaml"
    )
    assert (learnt.exit_code, "120 sessions" in learnt.stderr) == (0, True)
    assert "W1000" not in (tmp_path / "p.yaml").read_text("utf-8")
    bad = traces("bad.jsonl", range(200, 201), str)
    scored = goldspan("score", bad, "--metric", "tool_parameter_profile:p.yaml", "--format", "json")
    [session] = json.loads(scored.stdout)["sessions"]
    [metric] = [one for one in session["metrics"] if one["name"] == "tool_parameter_profile"]
    [finding] = metric["turns"][0]["calls"][0]["findings"]
    assert (finding["path"], finding["kind"], finding["failed"]) == ("/amount", "type", True)


def with_another_prompt(session: Simulated) -> Simulated:
    """The session of an agent that names the currency of amounts, and no reason."""

    def changed(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool != "refund":
            return arguments
        kept = {name: value for name, value in arguments.items() if name != "reason"}
        return kept | {"amount": f"{arguments['amount']} EUR"}

    turns = [
        (asked, [(tool, changed(tool, arguments), result) for tool, arguments, result in calls], answer)
        for asked, calls, answer in session.turns
    ]
    return session._replace(turns=turns)


def test_a_changed_prompt_is_a_diff_that_the_page_shows(goldspan: Run, tmp_path: Path) -> None:
    """`docs/metrics.md` has it line by line; lines between its parts are left out there."""
    write_traces(simulate(1, 200, 0), tmp_path / "before.jsonl")
    write_traces([with_another_prompt(one) for one in simulate(2, 200, 0)], tmp_path / "after.jsonl")
    for name in ("before", "after"):
        assert goldspan("profile", "learn", f"{name}.jsonl", "-o", f"{name}.yaml").exit_code == 0
    before, after = ((tmp_path / f"{name}.yaml").read_text("utf-8").splitlines() for name in ("before", "after"))
    differing = iter(difflib.unified_diff(before, after, n=1, lineterm=""))
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    shown = page.split("```diff\n")[1].split("\n```")[0].splitlines()
    assert len(shown) > 10
    for line in shown:
        assert any(one == line or one.startswith(line + " ") for one in differing), line
    said = goldspan("compare", "before.yaml", "after.yaml")
    assert "refund/reason: passed always in 200 of 200 sessions, then in 0 of 200" in said.stdout + said.stderr
