"""What README and the definition say in sentences without an example: each has a check that fails if it were not so."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from goldspan.scoring import Capture, Session, ToolCall, Turn, score_session, score_sessions, score_turn
from goldspan.scoring.results import TurnResult
from goldspan.scoring.sessions import Content
from rigs.repository import ROOT


def text_of(page: str) -> str:
    return " ".join((ROOT / page).read_text("utf-8").replace("**", "").split())


PAGE = text_of("docs/definition.md")
TOOLS = Content('[{"name": "f", "parameters": {"properties": {"x": {"default": 1}}}}]', Capture.CAPTURED)
UNKNOWN = ToolCall("f", None, Capture.NOT_CAPTURED)


def f(**args: Any) -> dict[str, Any]:
    return {"name": "f", "args": args}


def turn(expected: Any, actual: Any, **criterion: Any) -> TurnResult:
    return score_turn(expected, actual, criterion)


def score(expected: Any, actual: Any, **criterion: Any) -> tuple[float | None, str]:
    verdict = turn(expected, actual, **criterion).verdict
    return verdict.score, str(verdict.label)


def partners(expected: Any, actual: Any, **criterion: Any) -> list[int | None]:
    return [one.actual_index if one.aligned else None for one in turn(expected, actual, **criterion).calls]


def weights() -> None:
    rules: dict[str, Any] = {"tools": {"f": {"args": {"a": {"weight": 3}}}}}
    assert score([f(a=1, b=2)], [f(a=1, b=3)], **rules) == (0.75, "fail")


def the_rest_costs_nothing() -> None:
    assert score([f(a=1)], [f(a=1, b=2), {"name": "h"}]) == (1, "pass")


def penalties() -> None:
    assert score([f(a=1)], [f(a=1, b=2)], extra_arguments="penalize") == (0.5, "fail")
    assert score([f(a=1)], [f(a=1), {"name": "h"}], extra_calls="penalize") == (0.5, "fail")


def all_or_nothing() -> None:
    assert score([f(a=1, b=2), f(a=1)], [f(a=1, b=3), f(a=1)], call_score="all") == (0.5, "fail")
    assert score([f(a=1, b=2), f(a=1)], [f(a=1, b=3), f(a=1)], turn_score="all") == (0, "fail")


def thresholds() -> None:
    found = turn([f(a=1, b=2)], [f(a=1, b=3)], threshold=0.5)
    assert (found.verdict.label, found.calls[0].verdict.label) == ("pass", "fail")


def modes() -> None:
    for mode, expected in (("name_only", 0), ("name_and_required_args", None), ("name_and_args", None)):
        assert partners([f(x=1)], [f(y=1)], match_mode=mode) == [expected]
    assert partners([f(x=1)], [f(x=2)]) == [0]
    assert partners([f(x=1)], [f(x=2)], match_mode="name_and_args") == [None]
    assert partners([f(x=1)], [f(x=1, y=2)], match_mode="name_and_args") == [None]


def failed_calls() -> None:
    assert partners([f(x=1)], [ToolCall("f", {"x": 1}, error="timeout")]) == [0]
    assert partners([f(x=1)], [ToolCall("f", {"x": 1}, error="timeout")], failed_calls="ignore") == [None]


def rejected_requests() -> None:
    refused = ToolCall("f", {"x": 1}, requested=True, rejected=True)
    assert partners([f(x=1)], [refused]) == [None]
    assert partners([f(x=1)], [refused], rejected_requests="count") == [0]


def batches() -> None:
    at_once = [ToolCall("f", {"x": 2}, batch=1), ToolCall("f", {"x": 1}, batch=1)]
    one_by_one = [ToolCall("f", {"x": 2}), ToolCall("f", {"x": 1})]
    assert score([f(x=1), f(x=2)], at_once) == (1, "pass")
    assert score([f(x=1), f(x=2)], one_by_one)[0] == 0.5
    assert score([f(x=1), f(x=2)], one_by_one, ordered=False) == (1, "pass")


def the_objective() -> None:
    wrong, right, failed = {"x": 9}, {"x": 1}, "timeout"
    assert partners([f(x=1), f(x=2)], [ToolCall("f", wrong), ToolCall("f", wrong)]) == [0, 1]  # the most pairs
    assert partners([f(x=1)], [UNKNOWN, ToolCall("f", wrong)]) == [1]  # known arguments
    assert partners([f(x=1)], [ToolCall("f", right, error=failed), ToolCall("f", right)]) == [1]  # no failure


def the_last_ties() -> None:
    near = [f(a=1, b=2, c=9), f(a=1, b=8, c=9), f(a=1, b=2, c=7)]
    assert partners([f(a=1, b=2, c=3)], [near[1], near[2]], call_score="all") == [1]
    assert partners([f(x=1)], [f(x=1), f(x=1)]) == [0]


def near_misses() -> None:
    missing = turn([f(x=1, y=2)], [f(x=9), f(x=1)]).calls[0]
    assert missing.missing
    assert missing.actual is not None
    assert missing.actual.arguments == {"x": 1}


def hidden_partner() -> None:
    assert score([f(x=1)], [f(x=9), UNKNOWN]) == (0, "not_evaluated")


def nulls() -> None:
    assert [score([f(x=None)], [actual])[0] for actual in (f(x=None), f(), f(x=""))] == [1, 0, 0]
    assert score([f(x={"a": 1, "b": 2})], [f(x={"b": 2, "a": 1})])[0] == 1


def optional_calls() -> None:
    expected = [f(x=1), {**f(x=2), "optional": True}]
    assert score(expected, [f(x=1)]) == score(expected, [f(x=1), f(x=9)]) == (1, "pass")


def forbidden_calls() -> None:
    def label(forbidden: dict[str, Any], *actual: dict[str, Any]) -> str:
        return score([f(x=1), {**forbidden, "forbidden": True}], [f(x=1), *actual])[1]

    assert label(f(x=2), f(x=2)) == label({"name": "f"}, f(x=3)) == label({"name": "*"}, {"name": "g"}) == "fail"
    assert label(f(x=2), f(x=3)) == label({"name": "f"}) == label({"name": "*"}) == "pass"


def alternatives() -> None:
    ways = [[f(x=1), f(x=2)], [{"name": "g"}, {"name": "f", "forbidden": True}], [{"name": "h"}]]
    golden = {"golden_set": "a", "goldens": [{"session": "s", "turns": [{"any_of": ways}]}]}

    def chosen(*calls: ToolCall) -> tuple[int | None, float | None]:
        result = score_sessions(golden, Session("s", (Turn(calls),))).sessions[0].turns[0]
        return result.alternative, result.verdict.score

    assert chosen(ToolCall("f", {"x": 1}), ToolCall("h")) == (2, 1)  # it passes
    assert chosen(ToolCall("f", {"x": 1}), ToolCall("g")) == (0, 0.5)  # the other is forbidden, though it scores 1
    assert chosen() == (0, 0)


def defaults() -> None:
    golden = [[f(x=1)]]
    assert score_session(golden, Session("s", (Turn((ToolCall("f"),), tool_definitions=TOOLS),))).verdict.score == 1
    assert score_session(golden, Session("s", (Turn((ToolCall("f"),)),))).verdict.score == 0


def approximate_only_beyond_the_limit() -> None:
    many = [f(x=at) for at in range(200)]
    assert not turn(many, many).approximate
    assert turn([*many, f(x=200)], [f(x=at + 7) for at in range(201)]).approximate
    assert turn([f(x=1), f(x=2), f(x=3)], [f(x=1), f(x=9), f(x=3)]).verdict.exact == Fraction(2, 3)


CLAIMS = {
    "An expected call has arguments 1 to *k* with weights *w* (default 1).": weights,
    "Unexpected arguments and calls are a matter of taste: they are reported and cost nothing.": the_rest_costs_nothing,
    "counts as one more wrong one of weight 1.": penalties,
    "With `call_score: all` or `turn_score: all` a mean below 1 becomes 0.": all_or_nothing,
    "A call passes at 1.": thresholds,
    "under `name_and_args`, if all match and there are no others.": modes,
    "Failed calls count, unless `failed_calls: ignore`.": failed_calls,
    "Requests rejected before execution count only with `rejected_requests: count`.": rejected_requests,
    "`ordered: false` frees it everywhere": batches,
    "the highest total score; the most pairs; the most pairs with known arguments; the most calls that": the_objective,
    "under `call_score: all` the most right arguments; then for each expected call, in order, the": the_last_ties,
    "names the most similar unpaired call of its tool": near_misses,
    "An unpaired call with unknown arguments may be the right one, too.": hidden_partner,
    "`null` is neither absent nor empty, the order of keys does not matter": nulls,
    "An optional call may be left out. If it is made, it is scored outside the mean.": optional_calls,
    "Without, it is any call of the tool that has no partner. `*` is any tool.": forbidden_calls,
    "passing before failing, then without forbidden calls, then the higher score, then the first.": alternatives,
    "An argument that was left out has its declared default, if the trace holds the tool's definition.": defaults,
    "The alignment is exact for up to 40,000 pairs in a turn (200 x 200 calls).": approximate_only_beyond_the_limit,
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: CLAIMS[claim].__name__)
def test_the_definition_says_what_is_so(claim: str) -> None:
    assert claim in PAGE
    CLAIMS[claim]()


TESTED = {
    "It rebuilds tool calls from the OpenTelemetry gen_ai spans that your agent already emits": (
        "conformance/test_recordings.py::test_recording_is_read_right",
    ),
    "It calls no model and runs no agent again.": (
        "architecture/test_rooms.py::test_the_engine_reads_no_clock_file_variable_or_network",
    ),
    "The same spans always get the same score.": (
        "engine/test_law.py::Law",
        "stream/test_stream.py::test_results_depend_on_the_records_alone",
        "engine/test_work_by_key.py::test_results_are_those_of_one_engine",
    ),
    "goldspan score examples/traces/strands.otlp.json --goldens examples/first.yaml": (
        "docs/test_scoreboard.py::test_the_scoreboard_is_what_is_printed",
    ),
    "Scores arrive on the tool spans": (
        "in_process/test_holding.py::test_tool_spans_and_turn_roots_wait_for_their_result_and_carry_it",
    ),
    "gives the same guarantees on exit, flush, fork and export failures.": (
        "scenarios/test_scenarios.py::test_nothing_is_lost_that_would_not_be_lost_without_goldspan",
    ),
    "it also loses the spans held for their scores, at most those of 20 seconds": (
        "scenarios/test_scenarios.py::test_a_killed_process_loses_what_it_had_not_sent",
        "scenarios/test_scenarios.py::test_a_long_turn_is_scored_late_and_holds_spans_no_longer_than_it_may",
    ),
    '`hold="off"` holds none': (
        "in_process/test_holding.py::test_held_off_every_span_passes_at_once_and_results_are_events_and_points",
    ),
    "The exit code is 1 if arguments regress": (
        "replay/test_exit_codes.py::test_score_exits_as_promised_and_says_why",
    ),
    "A failed assertion names the wrong argument in its first line.": (
        "pytest_plugin/test_plugin.py::test_every_form_of_golden_passes_and_fails_with_the_difference",
    ),
}
"""What README and the page for agents' processes say, with the tests elsewhere that would fail."""


@pytest.mark.parametrize("claim", TESTED)
def test_the_pages_say_what_is_tested(claim: str) -> None:
    assert any(claim in text_of(page) for page in ("README.md", "docs/in-process.md", "docs/pytest.md"))
    for test in TESTED[claim]:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        assert any(f"{kind} {name}(" in text for kind in ("def", "class")), test
